"""Comparison of run totals: change of each metric's total, and its uncertainty.

Totals are compared as logarithms, because costs multiply and run times are skewed. The three questions are those for
correlations (`perturbation/compare.py`): did the total change, did it stay within the tolerance, did it exceed the
tolerance. As in `perturbation/rounds.py`, two designs are computed, each at half of the level, and the one with the
shorter interval is used: Student's t of independent runs, and Student's t of the differences within rounds. Effects of
the round (environment size, load of the host) cancel out of these differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.multiple_testing import holm_of_intervals
from unperturbed.analysis.perturbation.rounds import DESIGNS, FEWEST_ROUNDS, MOST_SHARED
from unperturbed.analysis.planned_runs import POWER
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

FloatArray = NDArray[np.float64]

_EQUAL = 1e-12
"""Standard deviations and differences of logarithms below this are due to rounding."""


@dataclass(frozen=True)
class TotalsComparison:
    """Change of m totals between two groups of runs, as logarithms of ratios; every array has shape (m,)."""

    effect: FloatArray  # Mean logarithm of the checked runs minus that of the reference runs
    error: FloatArray  # Standard error of the effect; 0 if all runs of each side are equal
    freedom: FloatArray  # Degrees of freedom of the error
    # low, high: Bounds of the effect, one-sided at α each.
    low: FloatArray
    high: FloatArray
    p: FloatArray  # Two-sided p-value of "no change"
    designs: int  # Number of comparisons that each was chosen from
    observed_error: FloatArray  # Standard error as these runs show it; within rounds, `error` has a minimum
    within: NDArray[np.bool_]  # Whether runs are compared within rounds

    def p_beyond(self, bound: FloatArray) -> FloatArray:
        """Return the p-value of "no change beyond ± `bound`", shape (m,): both tails of a minimum-effect test."""
        size = np.abs(self.effect)
        tails = _tail(size - bound, self.error, self.freedom) + _tail(size + bound, self.error, self.freedom)
        return np.minimum(1, self.designs * tails)


def compare_totals(
    reference: FloatArray, observed: FloatArray, partners: NDArray[np.int64] | None = None, *, alpha: float
) -> TotalsComparison:
    """Compare positive totals of k reference runs and r checked runs, shapes (k, m) and (r, m).

    `partners`: shape (r,). Index of the reference run in each checked run's round; None if they share no rounds.

    A single checked run is assumed to have the spread of the reference runs.
    """
    before, after = np.log(reference), np.log(observed)
    if partners is None or len(partners) < FEWEST_ROUNDS:
        return _independent(before, after, alpha, designs=1)
    independent = _independent(before, after, alpha / DESIGNS, designs=DESIGNS)
    within = _within_rounds(before[partners], after, alpha / DESIGNS)
    taken = within.high - within.low < independent.high - independent.low
    chosen = {
        name: np.where(taken, getattr(within, name), getattr(independent, name))
        for name in ("effect", "error", "freedom", "low", "high", "p", "observed_error")
    }
    return TotalsComparison(**chosen, designs=DESIGNS, within=taken)


def change_of(effect: float) -> float:
    """Return the relative change of a mean logarithm that changed by `effect`: −1 or infinite if it is very large."""
    with np.errstate(over="ignore"):
        return float(np.expm1(effect))


def effect_of(change: float) -> float:
    """Return the change of a mean logarithm from a relative change; −∞ for −1, to which tiny ratios are rounded."""
    return math.log1p(change) if change > -1 else -math.inf


def smallest_visible(error: float, freedom: float, *, alpha: float, family: int) -> float:
    """Return the smallest |effect| that is shown with power 80 % in a family of tests."""
    wanted = special.stdtrit(freedom, 1 - alpha / (2 * family))
    return float(special.nctdtrinc(freedom, 1 - POWER, wanted) * error)


def holm_beyond(p_beyond: FloatArray, designs: FloatArray) -> FloatArray:
    """Correct p-values of "no change beyond the tolerance" over a family; each is already multiplied by `designs`.

    The p-value of the chosen design decides whether a hypothesis leaves the family (`holm_of_intervals`). Multiplied by
    the number of designs, p-values are not uniform at the interval's end, and too many hypotheses would leave.
    """
    return np.asarray(np.minimum(1, designs * holm_of_intervals(p_beyond / designs)), np.float64)


def _independent(before: FloatArray, after: FloatArray, alpha: float, designs: int) -> TotalsComparison:
    """Compare by the pooled spread of both groups; the bounds are the wider of the pooled ones and Welch's.

    With few checked runs Welch's tail is too heavy for a test, and the pooled interval is too short where the checked
    runs spread wider.
    """
    k, r = len(before), len(after)
    first = before.var(axis=0, ddof=1)
    second = after.var(axis=0, ddof=1) if r > 1 else first
    parts = first / k, second / r
    with np.errstate(invalid="ignore"):
        freedom = (parts[0] + parts[1]) ** 2 / (parts[0] ** 2 / (k - 1) + parts[1] ** 2 / (r - 1 if r > 1 else k - 1))
    pooled = np.sqrt(((k - 1) * first + (r - 1) * second) / (k + r - 2) * (1 / k + 1 / r))
    effect = after.mean(axis=0) - before.mean(axis=0)
    made = _comparison(effect, pooled, np.full_like(pooled, k + r - 2), alpha, designs)
    welch = _comparison(effect, np.sqrt(parts[0] + parts[1]), np.nan_to_num(freedom, nan=1.0), alpha, designs)
    return replace(made, low=np.minimum(made.low, welch.low), high=np.maximum(made.high, welch.high))


def _within_rounds(before: FloatArray, after: FloatArray, alpha: float) -> TotalsComparison:
    r = len(before)
    least = MOST_SHARED * (before.var(axis=0, ddof=1) + after.var(axis=0, ddof=1))
    varies = (after - before).var(axis=0, ddof=1)
    error = np.sqrt(np.maximum(varies, least) / r)
    made = _comparison((after - before).mean(axis=0), error, np.full_like(error, r - 1), alpha, DESIGNS)
    return replace(made, observed_error=np.sqrt(varies / r))


def mean_comparison(effect: float, error: float, freedom: float, *, alpha: float, designs: int) -> TotalsComparison:
    """Return the comparison of one mean change with a given standard error, at level α / `designs`."""
    mean, spread, degrees = np.array([effect]), np.array([error]), np.array([freedom])
    return _comparison(mean, spread, degrees, alpha / designs, designs)


def _comparison(
    effect: FloatArray, error: FloatArray, freedom: FloatArray, alpha: float, designs: int
) -> TotalsComparison:
    error = np.where(error < _EQUAL, 0.0, error)
    effect = np.where(np.abs(effect) < _EQUAL, 0.0, effect)
    reach = special.stdtrit(freedom, 1 - alpha) * error
    p = np.minimum(1, 2 * designs * _tail(np.abs(effect), error, freedom))
    independent = np.zeros(effect.shape, np.bool_)
    return TotalsComparison(effect, error, freedom, effect - reach, effect + reach, p, designs, error, independent)


def _tail(distance: FloatArray, error: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return the probability that Student's t exceeds a distance; 0 or 1 if the error is 0 (½ at distance 0)."""
    exact = np.where(distance > 0, 0.0, np.where(distance < 0, 1.0, 0.5))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = special.stdtr(freedom, -distance / error)
    return np.asarray(np.where(error == 0, exact, tail), np.float64)
