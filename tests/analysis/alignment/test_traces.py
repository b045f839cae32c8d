import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.alignment import naive
from unperturbed.analysis.alignment import (
    align,
    align_as_paper,
    anchored_dtw,
    dtw,
    merge,
    milestone_anchors,
    milestone_scores,
    resample,
)
from unperturbed.analysis.alignment.prepared_runs import percentile, same_work
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError

AS_THE_PAPER = {"penalty": 0.0, "flat": "warped", "pace": "time", "mend": False}

counts = st.lists(st.integers(0, 4), min_size=1, max_size=12)


def trace(run="a", **columns):
    length = len(next(iter(columns.values())))
    kinds = {"IPC": ("derived", "gauge"), "GAUGE": ("hardware", "gauge")}
    metrics = [
        Metric(
            name, *([kinds[name][0]] if name in kinds else ["software"]), semantics=kinds.get(name, ("", "counter"))[1]
        )
        for name in columns
    ]
    ends = np.arange(1, length + 1) * 1_000_000
    return Trace.from_columns(metrics, columns, begin_ns=ends - 1_000_000, end_ns=ends, attributes={"run": run})


@st.composite
def deterministic_counts(draw):
    """Cumulative counts of one milestone in two runs: the same total, cut differently."""
    total = draw(st.integers(1, 20))
    ends = [sorted(draw(st.lists(st.integers(0, total), max_size=12))) for _ in "xy"]
    return [[*cuts, total] for cuts in ends]


@given(deterministic_counts())
@settings(max_examples=300, deadline=None)
def test_anchors_are_sure_and_rise_and_are_mutual(both):
    x, y = both
    held_x, held_y = naive.ordinals(x), naive.ordinals(y)
    anchors = milestone_anchors(x, y).tolist()
    assert anchors
    shared = {(i, j): len(p & q) for i, p in enumerate(held_x) for j, q in enumerate(held_y)}
    expected = [
        [i, j]
        for (i, j), common in shared.items()
        if common
        and j == max(range(len(y)), key=lambda other: (shared[i, other], -other))
        and i == max(range(len(x)), key=lambda other: (shared[other, j], -other))
    ]
    assert anchors == sorted(expected)
    assert all(p < i and q < j for (p, q), (i, j) in pairwise(anchors))
    assert milestone_anchors(y, x).tolist() == [[j, i] for i, j in anchors]


def test_anchors_need_the_same_total_and_at_least_one_milestone():
    with pytest.raises(DataError, match="PAGES occurred 3 times in one run and 4 times in the other"):
        milestone_anchors([1, 3], [2, 4], name="PAGES")
    with pytest.raises(DataError, match="never occurred"):
        milestone_anchors([0, 0], [0])


@given(counts, counts, st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_resample_is_the_mean_of_the_intervals_that_meet(x, y, metrics, seed):
    path = dtw(x, y)
    values = np.random.default_rng(seed).normal(size=(len(y), metrics))
    cells = list(zip(path.x_index.tolist(), path.y_index.tolist(), strict=True))
    assert resample(path, values, len(x)) == pytest.approx(np.array(naive.resample(cells, values, len(x))))
    assert resample(path, values[:, 0], len(x)) == pytest.approx(np.array(naive.resample(cells, values[:, 0], len(x))))


def test_resample_refuses_another_length():
    path = dtw([1, 2, 3], [1, 2])
    for values, length in ((np.ones(3), 3), (np.ones(2), 2), (np.ones((2, 1, 1)), 3)):
        with pytest.raises(DataError, match="the path aligns 3 intervals to 2"):
            resample(path, values, length)


def test_one_metric_is_aligned_as_the_paper_does():
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=60).cumsum(), rng.normal(size=64).cumsum()
    scaled, plain = align(trace(IPC=x), trace(IPC=y), **AS_THE_PAPER), dtw(x, y)
    assert np.array_equal(scaled.x_index, plain.x_index)
    assert np.array_equal(scaled.y_index, plain.y_index)
    assert scaled.anchors == ()
    assert np.array_equal(align_as_paper(trace(IPC=x), trace(IPC=y)).x_index, plain.x_index)


def test_several_metrics_weigh_alike_whatever_their_unit():
    rng = np.random.default_rng(12)
    first, second = rng.normal(size=(2, 60)).cumsum(axis=1), rng.normal(size=(2, 60)).cumsum(axis=1)
    paths = [
        align(trace(P=first[0], Q=first[1] * unit), trace(P=second[0], Q=second[1] * unit), on=("P", "Q"))
        for unit in (1, 2.0**30)
    ]
    assert np.array_equal(paths[0].x_index, paths[1].x_index)
    assert paths[0].cost == pytest.approx(paths[1].cost)


def test_one_outlying_interval_does_not_silence_a_metric():
    # Q alone tells where the step is; one wild value of Q must not shrink the step to nothing beside P's noise.
    rng = np.random.default_rng(13)
    q = np.repeat([0.0, 1.0], 50)
    q[0] = 1e6
    shifted = np.concatenate(([1e6], np.repeat([0.0, 1.0], [59, 40])))
    runs = trace(P=rng.normal(size=100), Q=q), trace(P=rng.normal(size=100), Q=shifted)
    path = align(*runs, on=("P", "Q"), **AS_THE_PAPER)
    # The step lies between 49 and 50 in one run, between 59 and 60 in the other.
    assert 58 <= resample(path, np.arange(100.0), 100)[49] <= 60


def test_a_metric_that_is_mostly_constant_still_counts():
    x, y = np.zeros(100), np.zeros(100)
    x[40], y[45] = 1, 1
    path = align(trace(P=x), trace(P=y), on=("P",))
    assert (40, 45) in set(zip(path.x_index.tolist(), path.y_index.tolist(), strict=True))


def test_anchors_mend_the_alignment_of_a_flat_noisy_trace():
    # Section 5.3 of the paper, in small: flat noise, and a milestone that says where the work is. Scored by another
    # milestone.
    rng = np.random.default_rng(14)
    speed = np.repeat([1.0, 0.5, 1.0], 100)
    work = [np.cumsum(one / one.sum()) for one in (speed, np.ones(280))]
    runs = [
        trace(
            IPC=1 + 0.01 * rng.normal(size=len(done)),
            ANCHOR=np.diff(np.floor(done * 32.001).astype(int), prepend=0),
            OTHER=np.diff(np.floor(done * 500.001).astype(int), prepend=0),
        )
        for done in work
    ]
    other = [np.cumsum(run["OTHER"]) for run in runs]
    plain = milestone_scores(align(*runs, **AS_THE_PAPER), *other)
    anchored_path = align(*runs, anchor="ANCHOR", **AS_THE_PAPER)
    anchored = milestone_scores(anchored_path, *other)
    assert len(anchored_path.anchors) == 32
    assert anchored.mean() < plain.mean() / 3
    assert (anchored <= 1).mean() > 0.4
    assert np.array_equal(
        anchored_path.x_index, anchored_dtw(runs[0]["IPC"], runs[1]["IPC"], anchored_path.anchors).x_index
    )


def test_alignment_of_swapped_traces_is_the_same():
    rng = np.random.default_rng(15)
    a, b = (
        trace(P=rng.normal(size=n), Q=rng.normal(size=n) * 1e9, M=np.bincount(rng.integers(0, n, 40), minlength=n))
        for n in (50, 53)
    )
    there, back = align(a, b, on=("P", "Q"), anchor="M"), align(b, a, on=("P", "Q"), anchor="M").swapped()
    assert np.array_equal(there.x_index, back.x_index)
    assert np.array_equal(there.y_index, back.y_index)
    assert there.anchors == back.anchors


def test_what_cannot_be_aligned_is_refused_by_name():
    good = trace(IPC=[1.0, 2.0, 3.0], M=[1, 0, 1], GAUGE=[1, 2, 3], RATE=[0.1, 0.2, 0.3])
    with pytest.raises(DataError, match="no metric 'CPI'"):
        align(good, good, on=("CPI",))
    with pytest.raises(DataError, match="no metric to align on"):
        align(good, good, on=())
    with pytest.raises(DataError, match="'IPC' of run b is nan in interval 1"):
        align(good, trace("b", IPC=[1.0, np.nan]))
    with pytest.raises(DataError, match="'IPC' is 2 in every interval of both runs"):
        align(trace(IPC=[2.0, 2.0]), trace(IPC=[2.0]))
    with pytest.raises(DataError, match="M occurred 2 times in one run and 3 times"):
        align(good, trace(IPC=[1.0, 2.0], M=[2, 1]), anchor="M")
    for anchor in ("GAUGE", "RATE"):
        with pytest.raises(DataError, match=f"'{anchor}' is not an event counter"):
            align(good, good, anchor=anchor)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), st.sampled_from([5, 95, 0, 100, 50]))
def test_percentiles_are_numpys_to_the_last_bit(values, percent):
    ascending = np.sort(np.array(values))
    assert percentile(ascending, percent) == np.percentile(ascending, percent)


def cut_by_events(every=7, metric="steps", **columns):
    """Return a run whose intervals ended at the program's own events."""
    facts = {"clock": "program", "interval_metric": metric, "interval_ns": every}
    return dataclasses.replace(trace(**columns), attributes={"run": "a", **facts})


def test_runs_cut_at_the_same_events_are_aligned_as_they_are():
    rng = np.random.default_rng(3)
    shape = np.repeat([1.0, 4.0, 1.0, 9.0], 15)
    x, y = (shape + rng.normal(0, 0.5, len(shape)) for _ in "xy")
    y[20:30] = y[21:31].copy()  # warping would follow this
    a, b = cut_by_events(IPC=x), cut_by_events(IPC=y)
    diagonal = list(range(len(shape)))
    for path in (align(a, b), align(a, b, method="paper"), align_as_paper(a, b), align_as_paper(b, a)):
        assert path.x_index.tolist() == path.y_index.tolist() == diagonal
    assert align_as_paper(a, b).cost == pytest.approx(np.abs(x - y).sum())
    warped = align_as_paper(trace(IPC=x), trace(IPC=y))
    assert warped.x_index.tolist() != warped.y_index.tolist()
    for other in (cut_by_events(8, IPC=y), cut_by_events(metric="blocks", IPC=y), trace(IPC=y)):
        assert align_as_paper(a, other).x_index.tolist() == warped.x_index.tolist()
    fewer = cut_by_events(IPC=y[:-1])
    assert len(align_as_paper(a, fewer)) >= len(shape)


def in_a_round(counts, block=0, kind="simulated"):
    """Return a run of a round, cut at equal work."""
    metric = Metric("INS", kind)
    edges = np.arange(len(counts) + 1)
    facts = {"run": "a", "clock": "work", "interval_ns": 1, "block": block, "environment_pad_bytes": 64, "layout": 0}
    return Trace.from_columns([metric], {"INS": counts}, begin_ns=edges[:-1], end_ns=edges[1:], attributes=facts)


def test_simulated_runs_that_do_the_same_work_in_a_round_are_aligned_as_they_are():
    rng = np.random.default_rng(3)
    shape = np.repeat([2_000_000, 2_100_000, 2_000_000, 2_300_000], 15)
    first, second = (shape + rng.integers(0, 2000, len(shape)) for _ in "ab")
    second[20:30] = second[21:31].copy()  # warping would follow this
    one, other = in_a_round(first), in_a_round(second)
    path = align(one, other, on="INS")
    assert path.x_index.tolist() == path.y_index.tolist() == list(range(len(shape)))
    apart = (in_a_round(second, block=1), in_a_round(second[::-1].copy()), in_a_round(second, kind="hardware"))
    for run in (*apart, in_a_round(2 * second), in_a_round(second[:-1])):
        assert not same_work(one, run)
    assert not same_work(trace(IPC=[1.0, 2.0]), trace(IPC=[1.0, 2.0]))
    merged = merge(
        [
            replaced(run, configuration=name, run=f"{name}{at}")
            for name, runs in (("a", (one, in_a_round(first, 1))), ("b", (in_a_round(shape, 2), other)))
            for at, run in enumerate(runs)
        ],
        on="INS",
    )
    assert merged.sources[0].run == "a0"
    assert [source.run for source in merged.sources[1:]] == ["b1"]


def replaced(trace, **facts):
    """Return a run with other facts, and a metric of its own."""
    name = facts["configuration"]
    metrics = [*trace.metrics.values(), Metric(name, "software")]
    columns = {"INS": trace["INS"], name: np.arange(len(trace))}
    about = {**trace.attributes, **facts}
    return Trace.from_columns(metrics, columns, begin_ns=trace.begin_ns, end_ns=trace.end_ns, attributes=about)


def test_the_metric_that_cuts_both_runs_is_an_anchor_on_the_diagonal():
    steps = [7] * 40 + [3]
    rates = np.random.default_rng(1).uniform(size=(2, len(steps)))
    plain = [trace(IPC=rate, steps=steps) for rate in rates]
    path = align_as_paper(*plain, anchor="steps")
    assert path.x_index.tolist() == path.y_index.tolist() == list(range(len(steps)))
    with pytest.raises(DataError, match="steps"):  # other work is noticed
        align_as_paper(
            cut_by_events(IPC=rates[0], steps=steps), cut_by_events(IPC=rates[1], steps=[7] * 41), anchor="steps"
        )
