"""One question has one answer: the runs that the floor names, and those for an open change, are computed alike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.analysis.floor.simulate import compared, runs_of_totals
from unperturbed.analysis.floor.resolution import resolution_of_total
from unperturbed.analysis.planned_runs import MOST_RUNS, Noise, runs_for_acceptance, runs_to_decide
from unperturbed.analysis.totals import TotalChange, check_totals
from unperturbed.analysis.totals.total_text import undecided_totals
from unperturbed.analysis.totals.verdict import combine_totals

ALPHA = 0.05
NOISE = Noise(1.0 * math.sqrt(2 / 10), 18, 10, 10, (1.0, 1.0))


@pytest.mark.parametrize("shared", [0.0, 0.02])
def test_the_floor_and_an_open_change_without_effect_name_the_same_runs(shared: float) -> None:
    """The floor named 46 runs of a tutorial's program, and the line `next:` 26."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(40):
        change = compared(rng, 10, 0.012, shared=shared)
        if change.verdict == "undecided" and change.runs_to_decide is not None and abs(change.change) < 0.0015:
            floor = resolution_of_total(change, ALPHA, 1).runs
            assert floor is not None
            assert floor <= change.runs_to_decide <= 2.5 * floor
            found += 1
    assert found > 1


def test_more_noise_a_larger_effect_and_fewer_known_runs_need_more_runs() -> None:
    def needed(noise: Noise, effect: float) -> float:
        return runs_to_decide(noise, effect, alpha=ALPHA, family=1) or math.inf

    assert needed(NOISE, 0.0) < needed(replace(NOISE, error=1.5 * NOISE.error), 0.0)
    assert needed(NOISE, 0.0) < needed(NOISE, 0.5) < needed(NOISE, 1.0)
    assert needed(NOISE, 3.0) < needed(NOISE, 1.5)
    assert needed(NOISE, -0.5) == needed(NOISE, 0.5)
    enough = [runs_for_acceptance(replace(NOISE, freedom=freedom), alpha=ALPHA, fewest=5) for freedom in (4, 18, 1e6)]
    assert None not in enough
    assert enough == sorted(enough, key=int, reverse=True)  # type: ignore[arg-type]
    assert runs_for_acceptance(replace(NOISE, error=0.0), alpha=ALPHA, fewest=5) == 5
    assert runs_for_acceptance(replace(NOISE, error=20.0), alpha=ALPHA, fewest=5) is None


def test_without_a_spread_the_power_is_that_of_students_t() -> None:
    """The slow twin: draw the runs, with a spread and an effect that the first runs leave open."""
    rng, n = np.random.default_rng(2), 40_000
    effect = 0.4
    runs = runs_to_decide(NOISE, effect, alpha=ALPHA, family=1)
    assert runs is not None and runs < MOST_RUNS
    spread = np.sqrt(18 / rng.chisquare(18, n))
    true = effect + spread * NOISE.error * rng.standard_normal(n)
    added = runs - 10
    new = true + spread * np.sqrt(2 / added) * rng.standard_normal(n)
    mean = (10 * effect + added * new) / runs
    # Sums of squares within both groups of all runs: those of the first runs, of the added ones, and between these.
    of_added = spread**2 * rng.chisquare(2 * added - 2, n)
    between = spread**2 * rng.standard_normal(n) ** 2 + (new - effect) ** 2 * 10 * added / runs / 2
    error = np.sqrt((18 + of_added + between) / (2 * runs - 2) * 2 / runs)
    inside = np.abs(mean) + stats.t.ppf(1 - ALPHA, 2 * runs - 2) * error < 1
    beyond = np.abs(mean) - stats.t.ppf(1 - ALPHA / 2, 2 * runs - 2) * error > 1
    assert np.mean(inside | beyond) == pytest.approx(0.8, abs=0.03)


def test_noise_alone_is_not_promised_to_be_decided() -> None:
    """Where the interval holds 0, the runs must suffice without any effect, too."""
    noise = replace(NOISE, error=20.0)
    assert runs_to_decide(noise, 200.0, alpha=ALPHA, family=1) is not None
    assert runs_to_decide(noise, 200.0, alpha=ALPHA, family=1, unchanged=noise) is None


def test_totals_on_nodes_name_runs_of_a_node() -> None:
    """The mean over nodes has one value for each node: its number is not a number of runs."""
    rng = np.random.default_rng(3)

    def of_node(runs: int) -> TotalChange:
        sides = (runs_of_totals(name, 1e9 * np.exp(0.03 * rng.standard_normal(runs))) for name in "ab")
        return check_totals(*sides, ["cycles"])[0]

    def over_nodes(runs: int) -> TotalChange:
        return combine_totals({str(node): [of_node(runs)] for node in range(3)}, alpha=ALPHA)[0]

    needed = [joint.runs_to_decide for joint in (over_nodes(12) for _ in range(40)) if joint.verdict == "undecided"]
    advised = int(np.median([runs for runs in needed if runs is not None]))
    assert advised > 12
    accepted = np.mean([over_nodes(advised).verdict == "unperturbed" for _ in range(100)])
    assert accepted > 0.75
    joint = replace(over_nodes(12), verdict="undecided", runs_to_decide=40)
    (said,) = undecided_totals([joint], advice=True)
    assert said == "cycles are undecided (40 runs per configuration on each node would probably decide)"
