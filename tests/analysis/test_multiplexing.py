"""Which metrics may be multiplexed: the bad ones are found, and no bad pair is left, beside an exhaustive search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.multiplexing import Counted, MultiplexingVerdicts, _by_changes, judge_multiplexed
from unperturbed.analysis.perturbation import Change
from unperturbed.collectors.data import Metric, Trace

NAMES = ("fixed", "good", "better", "rare", "noisy")
INTERVALS, RUNS = 60, 8
JUDGED: dict[str, Any] = {
    "interval": "10 ms",
    "estimate": "scaled",
    "alpha": 0.05,
    "tolerance": 0.1,
    "totals": {"default": 0.01},
}


def make_runs(configuration: str, seed: int, *, turns: bool, gaps: str = "") -> list[Trace]:
    """Return runs of one program; with `turns`, `rare` has too large a total, and `noisy` is noise.

    `gaps`: Metric without a value in a tenth of the intervals.
    """
    shape = np.random.default_rng(1).gamma(2, 1000, (INTERVALS, len(NAMES)))
    shape[:, 1:] += shape[:, :1]
    random = np.random.default_rng(seed)
    traces = []
    for run in range(RUNS):
        values = shape * random.normal(1, 0.002, shape.shape)
        if turns:
            values[:, 3] *= 1.3
            values[:, 4] = random.permutation(values[:, 4])
        if gaps:
            values[:6, NAMES.index(gaps)] = np.nan
        metrics = [Metric(name, "hardware", scaled=turns and name != "fixed") for name in NAMES]
        columns: dict[str, Any] = {name: values[:, at] for at, name in enumerate(NAMES)}
        for name in NAMES[1:] if turns else ():
            for suffix in ("enabled_ns", "running_ns"):
                metrics.append(Metric(f"{name}.{suffix}", "os"))
                columns[f"{name}.{suffix}"] = np.full(INTERVALS, 10 if suffix == "enabled_ns" else 5)
        begin = np.arange(INTERVALS)
        facts = {"run": f"{configuration} {run}", "configuration": configuration, "interval_ns": 1}
        traces.append(Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1, attributes=facts))
    return traces


def test_bad_estimates_are_left_out_and_named() -> None:
    passes = [Counted(make_runs("baseline", 2, turns=False), make_runs("multiplexed", 3, turns=True), NAMES)]
    made = judge_multiplexed(passes, **JUDGED)
    assert made.kept == ("good", "better")
    why = {each.metric: (each.verdict, each.why) for each in made.outcomes}
    assert why["rare"] == ("perturbed", "total +30\u00a0%")
    assert why["noisy"][0] == "perturbed"
    assert why["noisy"][1].startswith("correlation with ")
    assert "fixed" not in why
    said = MultiplexingVerdicts((made,)).sentences()
    assert said[-1].startswith("For rare, noisy, use the passes of this campaign")


def test_a_metric_without_a_value_is_undecided_and_the_others_are_judged() -> None:
    runs = make_runs("multiplexed", 3, turns=True, gaps="better")
    made = judge_multiplexed([Counted(make_runs("baseline", 2, turns=False), runs, NAMES)], **JUDGED)
    assert made.kept == ("good",)
    outcomes = {each.metric: (each.verdict, each.why) for each in made.outcomes}
    assert outcomes["better"][1].startswith("no value in 10% of the intervals")
    runs = make_runs("multiplexed", 3, turns=True, gaps="rare")
    made = judge_multiplexed([Counted(make_runs("baseline", 2, turns=False), runs, NAMES)], **JUDGED)
    outcomes = {each.metric: (each.verdict, each.why) for each in made.outcomes}
    assert outcomes["rare"] == ("perturbed", "no value in 10% of the intervals; total +21\u00a0%")


def test_same_runs_may_be_multiplexed() -> None:
    runs = [trace[list(NAMES[:3])] for trace in make_runs("baseline", 2, turns=False)]
    other = make_runs("multiplexed", 4, turns=True)
    made = judge_multiplexed([Counted(runs, other, NAMES[:3])], **JUDGED)
    assert made.kept == ("good", "better")
    said = MultiplexingVerdicts((made,)).sentences()
    assert said == ("2 of 2 metrics may be multiplexed at intervals of 10 ms with scaled counts.",)


def test_pairs_of_a_later_pass_are_judged_and_those_of_none_are_counted() -> None:
    """Each metric is in the first pass with `fixed`; the pair that changed meets in the third pass alone."""
    reference, observed = make_runs("baseline", 2, turns=False), make_runs("multiplexed", 4, turns=True)
    first, second, third = (["fixed", "good"], ["fixed", "better"], ["good", "better"])
    spoilt = make_runs("multiplexed", 4, turns=True)
    for trace in spoilt:
        np.random.default_rng(5).shuffle(trace["good"])
    passes = [Counted(reference, observed, names) for names in (first, second)]
    apart = judge_multiplexed(passes, **JUDGED)
    assert (apart.kept, apart.apart) == (("good", "better"), 1)
    assert "The correlations of 1 pair are not compared" in MultiplexingVerdicts((apart,)).sentences()[-1]
    met = judge_multiplexed([*passes, Counted(reference, spoilt, third)], **JUDGED)
    assert met.apart == 0
    assert len(met.kept) == 1


@dataclass(frozen=True)
class Pair:
    """The parts of a change that decide which metric is left out."""

    first: str
    second: str
    effect: float
    verdict: str = "perturbed"


@pytest.mark.filterwarnings("error")
@given(st.integers(0, 2**32 - 1))
def test_no_bad_pair_is_left_and_an_exhaustive_search_keeps_few_more(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = [f"m{at}" for at in range(7)]
    turning = dict.fromkeys(names[2:])
    bad = [Pair(a, b, float(random.normal())) for a, b in combinations(names, 2) if random.random() < 0.3]
    lost = {each.metric for each in _by_changes(cast("list[Change]", bad), turning, {})}
    left = turning.keys() - lost

    def fits(kept: set[str]) -> bool:
        known = {*kept, *names[:2]}
        return not any({pair.first, pair.second} <= known and {pair.first, pair.second} & kept for pair in bad)

    assert fits(set(left))
    best = max(len(kept) for size in range(6) for kept in combinations(turning, size) if fits(set(kept)))
    assert len(left) >= best - 1
