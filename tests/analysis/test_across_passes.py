"""Correlations across passes: intervals hold the correlation within a run, whatever no run shows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from unperturbed.analysis.across_passes import AcrossPasses, across_table, across_to_dict, correlate_across_passes
from unperturbed.collectors.data import Kind, Metric, Trace
from unperturbed.errors import DataError

NAMES = ("work", "a", "b")
INTERVALS, RUNS = 120, 6


def make_runs(seed: int, *, noise: float, shared: float, first: int = 0) -> list[Trace]:
    """Return runs whose metrics a and b have a signal each, and noise of every run, a share of which they have in
    common."""
    shape = np.random.default_rng(seed).normal(size=(INTERVALS, 3))
    signal = np.stack([shape[:, 0], shape[:, 0] + shape[:, 1], shape[:, 0] - 2 * shape[:, 1] + shape[:, 2]], axis=1)
    traces = []
    for run in range(first, first + RUNS):
        random = np.random.default_rng([seed, run])
        own = noise * random.normal(size=(INTERVALS, 3))
        own[:, 2] = shared * own[:, 1] + np.sqrt(1 - shared**2) * own[:, 2]
        values = signal + own * [0.01, 1, 1] + 20
        begin = np.arange(INTERVALS)
        facts = {"run": f"{run}", "clock": "program", "interval_metric": "steps", "interval_ns": 5}
        columns: dict[str, NDArray[np.float64]] = {name: values[:, at] for at, name in enumerate(NAMES)}
        metrics = [Metric(name, "hardware") for name in NAMES]
        traces.append(Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1, attributes=facts))
    return traces


def estimate(seed: int, *, noise: float, shared: float) -> tuple[AcrossPasses, float]:
    """Return the estimate from two passes that have one of two metrics each, and the true mean of many runs."""
    first, second = (make_runs(seed, noise=noise, shared=shared, first=RUNS * at) for at in (0, 1))
    one = [trace[["work", "a"]] for trace in first]
    other = [trace[["work", "b"]] for trace in second]
    (made,) = correlate_across_passes(one, other, (["work", "a"], ["work", "b"]), on=["work"])
    whole = [*first, *second, *make_runs(seed, noise=noise, shared=shared, first=2 * RUNS)]
    return made, float(np.mean([spearmanr(trace["a"], trace["b"]).statistic for trace in whole]))


@pytest.mark.parametrize("shared", [-0.9, 0.0, 0.9])
@pytest.mark.parametrize("noise", [0.05, 0.5, 1.5])
def test_the_interval_holds_the_correlation_within_a_run(noise: float, shared: float) -> None:
    held = []
    for seed in range(12):
        made, truth = estimate(seed, noise=noise, shared=shared)
        held.append(made.low <= truth <= made.high)
        assert made.low <= made.estimate <= made.high
        if made.is_reliable:
            assert abs(made.estimate - truth) <= 0.1
    assert sum(held) >= 11


def test_metrics_that_only_follow_the_work_can_be_relied_on() -> None:
    made, truth = estimate(1, noise=0.05, shared=0)
    assert made.is_reliable
    assert abs(made.estimate - truth) < 0.02


def test_noise_cannot_be_relied_on_and_the_table_says_so() -> None:
    made, _ = estimate(1, noise=1.5, shared=0)
    assert not made.is_reliable
    assert across_table([made]).rows[0][-1] == "no"
    assert across_to_dict([made])[0]["reliabilities"] == list(made.reliabilities)


def test_what_runs_show_is_their_mean_correlation() -> None:
    """Where intervals end at the program's events, the same intervals are aligned: scipy gives the same numbers."""
    made, _ = estimate(3, noise=0.5, shared=0.5)
    first, second = (make_runs(3, noise=0.5, shared=0.5, first=RUNS * at) for at in (0, 1))
    z = [np.arctanh(0.999 * spearmanr(one["a"], other["b"]).statistic) for one in first for other in second]
    assert made.measured == pytest.approx(np.tanh(np.mean(z)) / 0.999, abs=1e-9)
    own = [
        np.arctanh(0.999 * spearmanr(one["a"], other["a"]).statistic)
        for one in first
        for other in first
        if one is not other
    ]
    assert made.reliabilities[0] == pytest.approx(np.tanh(np.mean(own)) / 0.999, abs=1e-9)


def in_rounds(seed: int, **facts: object) -> list[Trace]:
    """Return simulated runs of one pass: each round has a signal of its own, and each run differs by a few counts."""
    random, traces = np.random.default_rng(seed), []
    for block in range(5):
        shape = np.random.default_rng(block).normal(size=(INTERVALS, 3))
        columns = {
            name: (1e6 + 1e5 * signal).astype(np.int64) + random.integers(0, 200, INTERVALS)
            for name, signal in zip(NAMES, (shape[:, 0], shape[:, 1], shape[:, 1] + shape[:, 2]), strict=True)
        }
        about = {"run": f"{seed}-{block}", "clock": "work", "interval_ns": 1, "block": block, **facts}
        begin = np.arange(INTERVALS)
        metrics = [Metric(name, "simulated") for name in NAMES]
        traces.append(Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1, attributes=about))
    return traces


def test_runs_of_one_round_that_do_the_same_work_are_joined_interval_by_interval() -> None:
    """Between rounds, a and b have nothing in common, so aligned runs of other rounds tell nothing."""
    first, second = in_rounds(1), in_rounds(2)
    one, other = [trace[["work", "a"]] for trace in first], [trace[["work", "b"]] for trace in second]
    (made,) = correlate_across_passes(one, other, (["work", "a"], ["work", "b"]), on=["work"])
    truth = [spearmanr(trace["a"], trace["b"]).statistic for trace in first]
    assert made.estimate == pytest.approx(np.mean(truth), abs=0.01)
    assert made.low <= np.mean(truth) <= made.high
    assert made.is_reliable
    assert made.measured == made.estimate
    assert min(made.reliabilities) > 0.99


@pytest.mark.parametrize("reason", ["other rounds", "no rounds", "intervals of time", "other work", "a processor"])
def test_other_runs_are_not_joined(reason: str) -> None:
    facts: dict[str, dict[str, object]] = {
        "other rounds": {"layout": 1},
        "no rounds": {"block": None},
        "intervals of time": {"clock": "monotonic"},
    }
    first, second = in_rounds(1), in_rounds(2, **facts.get(reason, {}))
    kind: Kind = "hardware" if reason == "a processor" else "simulated"
    chance = np.random.default_rng(1)
    sides = []
    for runs, name in ((first, "a"), (second, "b")):
        made = []
        for trace in runs:
            columns = {each: trace[each] for each in ("work", name)}
            if reason == "other work":
                columns["work"] = chance.permutation(columns["work"])
            metrics = [Metric(each, kind) for each in columns]
            begin, end = trace.begin_ns, trace.end_ns
            made.append(Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=end, attributes=trace.attributes))
        sides.append(made)
    found = correlate_across_passes(sides[0], sides[1], (["work", "a"], ["work", "b"]), on=["work"])
    assert not any(pair.is_reliable for pair in found)


def test_few_runs_are_refused() -> None:
    runs = make_runs(1, noise=0.1, shared=0)
    with pytest.raises(DataError, match="need at least 3 runs of each pass"):
        correlate_across_passes(runs[:2], runs[2:], (["a"], ["b"]), on=["work"])
