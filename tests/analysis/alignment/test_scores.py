import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.alignment import naive
from unperturbed.analysis.alignment import WarpPath, dtw, milestone_scores
from unperturbed.errors import DataError


def path_of(*cells):
    x, y = zip(*cells, strict=True)
    return WarpPath(np.array(x), np.array(y), 0.0)


counts = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(lambda steps: np.cumsum(steps).tolist())


@given(counts, counts, st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_equals_the_naive_sets_of_ordinals(x, y, seed):
    rng = np.random.default_rng(seed)
    path = dtw(rng.normal(size=len(x)), rng.normal(size=len(y)))
    cells = list(zip(path.x_index.tolist(), path.y_index.tolist(), strict=True))
    scores = milestone_scores(path, x, y)
    assert scores.dtype == np.int64
    assert scores.tolist() == naive.milestone_scores(cells, x, y)


def test_the_papers_example_a_shared_milestone_is_perfect():
    # Section 4: x_i holds milestones 2 and 3; y_j holds 3 and 4, or 4 alone.
    path = path_of((0, 0), (1, 1), (2, 2))
    assert milestone_scores(path, [1, 3, 4], [2, 4, 4]).tolist() == [0, 0, 1]
    assert milestone_scores(path, [1, 3, 4], [3, 4, 4]).tolist() == [0, 1, 1]


def test_elements_without_a_milestone_are_not_scored():
    path = path_of((0, 0), (1, 0), (1, 1), (2, 2), (3, 3))
    assert milestone_scores(path, [0, 1, 1, 2], [0, 0, 1, 2]).tolist() == [2, 1, 0]


def test_ordinals_that_the_other_trace_lacks_are_left_out():
    path = path_of((0, 0), (1, 1))
    assert milestone_scores(path, [1, 3], [1, 1]).tolist() == [0]
    assert milestone_scores(path, [1, 3], [0, 0]).tolist() == []


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1], r"milestones_x has shape \(1,\)"),
        ([2, 1], r"milestones_x: the value of interval 1 \(counted from 0\) is 1, less than the value before it"),
        ([-1, 1], r"milestones_x: the value of interval 0 \(counted from 0\) is -1, less than 0"),
        ([0.5, 1], "not a whole number"),
        ([0, np.nan], "not a whole number"),
    ],
)
def test_wrong_counts_are_refused(x, message):
    with pytest.raises(DataError, match=message):
        milestone_scores(path_of((0, 0), (1, 1)), x, [0, 1])
