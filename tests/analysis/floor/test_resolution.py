"""The noise floor: what it promises of n runs is what n runs show, in simulated comparisons of known noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.floor.simulate import compared, runs_of_totals
from tests.analysis.simulate import equicorrelated, program
from tests.analysis.simulate import runs as simulated_runs
from unperturbed.analysis.floor.noise_floor import NoiseFloor, measure_floor
from unperturbed.analysis.floor.resolution import RUNS, resolution_of_correlation, resolution_of_total
from unperturbed.analysis.floor.resolution_text import floor_table, headline, sentences
from unperturbed.analysis.perturbation import MINIMUM_RUNS, Baseline, combine_checks
from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.verdict import RunGroup, changes_from_comparison
from unperturbed.analysis.totals import check_totals
from unperturbed.collectors.data import Trace


def test_more_runs_never_show_less() -> None:
    rng = np.random.default_rng(3)
    for shared in (0.0, 0.003, 0.05):
        for _ in range(20):
            smallest = resolution_of_total(compared(rng, 10, 0.01, shared=shared), 0.05, 5).smallest
            assert list(smallest) == sorted(smallest, reverse=True)


def test_rounds_lower_the_floor_from_five_runs_on() -> None:
    rng = np.random.default_rng(4)
    alone = resolution_of_total(compared(rng, 200, 0.05), 0.05, 1)
    within = resolution_of_total(compared(rng, 200, 0.002, shared=0.05), 0.05, 1)
    assert within.smallest[0] == pytest.approx(alone.smallest[0], rel=0.3)
    assert all(one < 0.6 * other for one, other in zip(within.smallest[1:], alone.smallest[1:], strict=True))


def test_equal_totals_have_no_floor() -> None:
    (change,) = check_totals(runs_of_totals("a", [7.0] * 5), runs_of_totals("b", [7.0] * 5), ["cycles"])
    found = resolution_of_total(change, 0.05, 1)
    assert found.smallest == (0.0,) * len(RUNS)
    assert found.runs == MINIMUM_RUNS


def test_totals_too_wild_for_a_ratio_have_an_infinite_floor() -> None:
    wild = replace(compared(np.random.default_rng(6), 10, 0.01), standard_error=400.0)
    assert resolution_of_total(wild, 0.05, 1).smallest[0] == np.inf


def _floor(runs: int = 8) -> tuple[NoiseFloor, Baseline, list[Trace]]:
    rng = np.random.default_rng(5)
    same = program(rng, correlation=equicorrelated(3, 0.5))
    traces = simulated_runs(same, rng, 2 * runs)
    baseline = Baseline(traces[:runs])
    verdict = combine_checks("B", baseline.inner(traces[runs:]), baseline.outer(traces[runs:]))
    totals = {"B": check_totals(traces[:runs], traces[runs:], same.names)}
    return measure_floor([verdict], totals, alpha=0.05, seconds=2.0), baseline, traces


def test_the_floor_at_the_runs_that_were_made_is_that_of_the_verdict() -> None:
    rng = np.random.default_rng(5)
    same = program(rng, correlation=equicorrelated(3, 0.5))
    traces = simulated_runs(same, rng, 20)
    verdict = Baseline(traces[:10]).inner(traces[10:])
    for change in verdict.changes:
        found = resolution_of_correlation(change, 0.05, len(verdict.changes))
        assert found.smallest[RUNS.index(10)] == pytest.approx(change.smallest_visible, rel=1e-9)
        assert list(found.smallest) == sorted(found.smallest, reverse=True)


def test_runs_needed_depend_on_the_tolerance() -> None:
    rng = np.random.default_rng(6)
    same = program(rng, correlation=equicorrelated(2, 0.5))
    traces = simulated_runs(same, rng, 20)
    change = Baseline(traces[:10]).inner(traces[10:]).changes[0]
    needed = [
        resolution_of_correlation(replace(change, tolerance=tolerance), 0.05, 1).runs for tolerance in (0.3, 0.1, 0.03)
    ]
    assert None not in needed
    assert needed == sorted(needed, key=int)  # type: ignore[arg-type]
    assert needed[0] != needed[-1]


def test_the_floor_is_described() -> None:
    floor, *_ = _floor()
    assert floor.seconds_for(10) == 40
    assert len(floor.to_frame()) == len(RUNS) * len(floor.resolutions)
    assert floor.to_dict()["enough_runs"] == floor.runs
    low, high = floor.doubt
    assert low < 1 < high
    short = floor_table(floor, most=2, shown=(3, 10))
    left = len(floor.resolutions) - 4
    assert left > 1
    assert short.caption.endswith(f"; {left} rows are left out: they need no more runs than these")
    rows = short.rows
    assert len(rows) == 4
    assert all(len(row) == 4 for row in rows)
    assert "run" in headline(floor)
    assert sentences(floor)[0].startswith("3, 5, 10, 20, 50 and 100 runs in each group take about 12 s")


def test_a_floor_that_is_too_high_says_which_metric_varies() -> None:
    rng = np.random.default_rng(7)
    floor = measure_floor([], {"B": [compared(rng, 10, 0.9)]}, alpha=0.05)
    assert floor.runs is None
    assert headline(floor) == (
        "even 1,000 runs in each of two compared groups do not suffice for every tolerance: cycles varies too much"
    )


@pytest.mark.parametrize(("level", "spread"), [(0.9, 0.25), (0.97, 0.8), (0.97, 1.2)])
def test_the_runs_for_acceptance_are_accepted_near_one_too(level: float, spread: float) -> None:
    """Fisher's scale is curved near one: by its slope, a fall by the tolerance would look several times as far."""
    rng = np.random.default_rng(5)
    alpha, tolerance = 0.05, 0.1

    def drawn(runs: int) -> tuple[FloatArray, FloatArray]:
        before, after = from_fisher(fisher(np.array([level])) + spread * rng.standard_normal((2, runs, 1)))
        return before, after

    many = drawn(400)
    compared_many = compare_runs(*many, intervals=None, alpha=alpha)
    groups = (RunGroup(name, ("0",) * 400, rho) for name, rho in zip("ab", many, strict=True))
    (change,) = changes_from_comparison("inner", [("x", "y")], *groups, compared_many, tolerance=tolerance)
    runs = resolution_of_correlation(change, alpha, 1).runs
    assert runs is not None
    accepted = [
        -tolerance < found.low[0] and found.high[0] < tolerance
        for found in (compare_runs(*drawn(runs), intervals=None, alpha=alpha) for _ in range(400))
    ]
    assert np.mean(accepted) > 0.78
