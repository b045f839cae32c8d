import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.classes.naive_labelling import joined
from unperturbed.analysis.structure.classes.metric_classes import join_short_runs, run_starts

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=20).map(
    lambda runs: [label for label, length in runs for _ in range(length)]
)


@given(LABELS, st.integers(1, 8))
def test_equals_joining_one_run_at_a_time(labels, least):
    assert join_short_runs(np.array(labels, np.int64), least).tolist() == joined(labels, least)


@given(LABELS, st.integers(1, 8))
def test_no_run_is_shorter_than_asked_for_unless_there_is_one(labels, least):
    found = join_short_runs(np.array(labels, np.int64), least)
    lengths = np.diff(np.append(run_starts(found), len(found)))
    assert len(found) == len(labels)
    assert len(lengths) < 2 or lengths.min() >= least


@pytest.mark.parametrize(
    ("labels", "least", "expected"),
    [
        ([0, 0, 0, 1, 0, 0], 2, [0, 0, 0, 0, 0, 0]),
        ([0, 0, 1, 2, 2, 2], 2, [0, 0, 2, 2, 2, 2]),
        ([0, 0, 1, 2, 2], 2, [0, 0, 0, 2, 2]),
        ([0, 1, 2], 2, [1, 1, 1]),
        ([0, 1, 0, 1], 1, [0, 1, 0, 1]),
        ([5], 9, [5]),
        ([], 3, []),
    ],
)
def test_short_runs_join_their_longer_neighbour(labels, least, expected):
    assert join_short_runs(np.array(labels, np.int64), least).tolist() == expected


def test_many_runs_take_little_time():
    labels = np.random.default_rng(0).integers(0, 4, 100_000)
    found = join_short_runs(labels, 5)
    assert np.diff(run_starts(found)).min() >= 5
