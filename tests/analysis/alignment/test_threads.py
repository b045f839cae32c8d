"""Threads of two runs matched one by one: by role, or so that the sum of distances is the least of all assignments."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest

from tests.analysis.alignment import naive
from unperturbed.analysis.alignment import milestone_scores
from unperturbed.analysis.alignment.threads import align_threads, routine_of
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError

HARDWARE = (Metric("INS", "hardware"), Metric("MISSES", "simulated"))
JOBS = Metric("jobs", "software")


def thread(role, values, jobs=None, *, run="a"):
    """A thread's trace: one row of hardware counts an interval."""
    rows = np.atleast_2d(np.asarray(values, np.int64))
    metrics, columns = list(HARDWARE), {"INS": rows[:, 0], "MISSES": rows[:, 1]}
    if jobs is not None:
        metrics.append(JOBS)
        columns["jobs"] = np.asarray(jobs, np.int64)
    ends = np.arange(1, len(rows) + 1) * 1000
    return Trace.from_columns(
        metrics,
        columns,
        begin_ns=ends - 1000,
        end_ns=ends,
        overruns=np.zeros(len(rows), np.int64),
        attributes={"run": run, "role": role},
    )


def crew(rng, size, run, routine="worker"):
    """Threads of one routine, each with random work for a random time."""
    return [
        thread(f"{routine}#{number + 1}", rng.integers(0, 1000, (int(rng.integers(1, 9)), 2)), run=run)
        for number in range(size)
    ]


def naive_distances(a, b, scale):
    def distance(one, other):
        x, y = (np.stack([each["INS"], each["MISSES"]], 1) / scale for each in (one, other))
        return naive.dtw(x, y)[1] + np.abs(x.sum(0) - y.sum(0)).sum()

    return np.array([[distance(one, other) for other in b] for one in a])


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (4, 4), (5, 3), (3, 5), (4, 1)])
def test_the_assignment_has_the_least_sum_of_all(sizes):
    rng = np.random.default_rng(sizes)
    for _ in range(5):
        a, b = crew(rng, sizes[0], "a"), crew(rng, sizes[1], "b")
        found = align_threads(a, b, by="work")
        values = np.concatenate([np.stack([each["INS"], each["MISSES"]], 1) for each in (*a, *b)])
        low, high = np.percentile(values, (5, 95), axis=0)
        table = naive_distances(a, b, high - low)
        fewer, turned = (table, False) if len(a) <= len(b) else (table.T, True)
        best = min(
            sum(fewer[row, column] for row, column in enumerate(chosen))
            for chosen in permutations(range(fewer.shape[1]), fewer.shape[0])
        )
        assert found.distance == pytest.approx(best)
        assert len(found.pairs) == min(sizes)
        for pair in found.pairs:
            row, column = (int(role.partition("#")[2]) - 1 for role in (pair.first, pair.second))
            assert pair.distance == pytest.approx(table[row, column])
        assert not turned or len(found.alone[0]) == sizes[0] - sizes[1]
        assert len(found.alone[1]) == max(0, sizes[1] - sizes[0])
        assert bool(found.notes) == (sizes[0] != sizes[1])


def test_a_pool_that_changed_places_is_found_by_its_work():
    """Three workers took three kinds of work; in the other run, in another order, and at another pace."""
    rng = np.random.default_rng(1)
    kinds = {"text": (900, 30), "noise": (300, 250), "zeros": (50, 2)}

    def taking(order, run):
        made = [thread("main", [[5, 5]] * 4, [0] * 4, run=run)]
        for number, kind in enumerate(order):
            length = int(rng.integers(18, 24))
            rows = rng.poisson(kinds[kind], (length, 2))
            jobs = np.diff(np.floor(np.linspace(0, 10 + 30 * list(kinds).index(kind), length + 1))).astype(int)
            made.append(thread(f"worker#{number + 1}", rows, jobs, run=run))
        return made

    first, second = ("text", "noise", "zeros"), ("zeros", "text", "noise")
    a, b = taking(first, "a"), taking(second, "b")
    found = align_threads(a, b)
    pairs = {pair.first: pair.second for pair in found.pairs}
    assert pairs == {
        "main": "main",
        **{f"worker#{i + 1}": f"worker#{second.index(k) + 1}" for i, k in enumerate(first)},
    }
    assert found.shared == {"jobs": 1.0}
    by_role = align_threads(a, b, by="role")
    assert {pair.first: pair.second for pair in by_role.pairs} == {role: role for role in pairs}
    assert by_role.shared["jobs"] == pytest.approx(2 * (10 + 10 + 40) / (2 * (10 + 40 + 70)))
    assert found.near["jobs"] > 0.9 > by_role.near["jobs"]
    assert (
        found.headline()
        == "a and b: 4 pairs of threads matched by their work: 3 have another place in the order of their creation"
    )
    assert by_role.headline() == "a and b: 4 pairs of threads matched by role"
    assert json.loads(json.dumps(found.to_dict()))["pairs"][0]["first"] == "main"
    assert found.to_frame()["second"].to_list() == [pair.second for pair in found.pairs]


def test_scores_are_those_of_the_pairs_paths():
    rng = np.random.default_rng(2)
    a, b = (
        [thread(f"w#{i}", rng.integers(1, 900, (12, 2)), rng.integers(0, 4, 12), run=run) for i in (1, 2, 3)]
        for run in "ab"
    )
    found = align_threads(a, b)
    shared = near = 0
    for pair in found.pairs:
        x, y = found.traces[0][pair.first]["jobs"], found.traces[1][pair.second]["jobs"]
        common = min(x.sum(), y.sum())
        shared += common
        near += common * np.mean(milestone_scores(pair.path, np.cumsum(x), np.cumsum(y)) <= 1)
    total = sum(int(each["jobs"].sum()) for each in (*a, *b))
    assert found.shared["jobs"] == pytest.approx(2 * shared / total)
    assert found.near["jobs"] == pytest.approx(2 * near / total)


def test_threads_are_matched_within_their_routine_only():
    a = [thread("main", [[1, 1]]), thread("reader#1", [[9, 9]]), thread("reader#1/writer#1", [[500, 2]])]
    b = [thread("main", [[900, 1]], run="b"), thread("reader#1/writer#1", [[9, 9]], run="b")]
    b.append(thread("reader#1", [[500, 2]], run="b"))
    found = align_threads(a, b)
    assert all(pair.first == pair.second for pair in found.pairs)
    assert [routine_of(trace.attributes["role"]) for trace in a] == ["main", "reader", "reader/writer"]


@pytest.mark.parametrize(
    ("a", "message"),
    [
        ([], "no trace of a thread"),
        ([thread("", [[1, 2]])], "threads: each"),
        ([thread("w#1", [[1, 2]]), thread("w#1", [[1, 2]])], "two threads of a run"),
        ([thread(f"w#{i}", [[i, 2 * i]]) for i in range(600)], "match them by role"),
    ],
    ids=["none", "without a role", "twice", "too many"],
)
def test_what_cannot_be_matched_is_refused(a, message):
    b = [thread(f"w#{i}", [[1, 2]], run="b") for i in range(600)]
    with pytest.raises(DataError, match=message):
        align_threads(a, b)


def test_threads_without_hardware_metrics_need_named_ones():
    rng = np.random.default_rng(3)
    a, b = (
        [
            Trace.from_columns(
                [JOBS],
                {"jobs": rng.integers(0, 9, 8)},
                begin_ns=np.arange(8),
                end_ns=np.arange(1, 9),
                overruns=np.zeros(8, np.int64),
                attributes={"role": "main"},
            )
        ]
        for _ in range(2)
    )
    with pytest.raises(DataError, match="name metrics"):
        align_threads(a, b)
    assert align_threads(a, b, on="jobs").on == ("jobs",)
