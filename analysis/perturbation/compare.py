"""Comparison of two groups of runs: change of each coefficient, and its uncertainty.

Each change is tested for three questions, each with its own null hypothesis:

- *Did it change?* If measuring changes nothing, the checked runs come from the same distribution as the reference runs,
  with the same spread. So the test pools the spread of both (Student's t, k + r − 2 degrees of freedom). Welch's test
  is wrong here: with few runs, its tail is too heavy at the levels that a family of pairs needs (numbers below).
- *Did it stay within the tolerance?* (An equivalence test.) The null hypothesis is a change of at least the tolerance,
  and a configuration that changes a mean may also change the spread. So the interval is the wider of the pooled one and
  Welch's.
- *Did it exceed the tolerance?* (A minimum-effect test.) The null hypothesis is a change of at most the tolerance. The
  p-value is the level at which the pooled interval just reaches the tolerance.

For k = 10 reference and r = 3 checked runs from normal populations with the same spread, a family of 66 pooled tests at
5 % has .042 expected false alarms and a power of .87 against 4 standard deviations; Welch's has .23 and .38 (k = 20:
pooled .048 and .99, Welch .61 and .30). A change of exactly the tolerance should be accepted in 5 % of cases: the
pooled interval accepts up to .22 when the checked runs spread three times as wide, Welch's up to .060, the wider of
both .052 (`docs/evidence/calibration.md`). The pooled tests cannot distinguish a change of the mean from a large change
of the spread. The interval can, so a change counts as shown only if the interval also excludes 0 (or the tolerance); a
note reports the wider spread.

Outer correlations need more: see `compare_outer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    fisher,
    fisher_slope,
    from_fisher,
    shown_spread,
)
from unperturbed.analysis.planned_runs import POWER
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

NO_SPREAD = 1e-9
"""Standard deviation on Fisher's scale below which runs are equal except for rounding."""

NO_SPREAD_NOTE = "all reference runs have the same coefficient: the sampling error within a run is used as their spread"

EQUAL_WORK_NOTE = "all reference runs have the same coefficient because they did equal work: any difference counts"

_FARTHEST = 1e3
"""Largest quantile that is searched: with 3 or more degrees of freedom, its level is at most 1e-9."""

_STEPS, _PRECISION = 60, 1e-12
"""Maximum number of steps of the root finder (usually six to nine), and the relative step at which it stops."""

_NEAR_ONE = 0.9
"""Largest |ρ| at which shrinkage hides less than 1 % of the spread on Fisher's scale."""

_SPREAD_LEVEL = 0.01
"""Level of the F test that adds a note on a wider spread; no verdict depends on it."""


@dataclass(frozen=True)
class MeanErrors:
    """Standard errors of both means, with degrees of freedom; every array has shape (m,)."""

    # reference, observed: On Fisher's scale.
    reference: FloatArray
    observed: FloatArray
    freedom: FloatArray  # Degrees of freedom; infinite if the errors are taken as known


@dataclass(frozen=True)
class Comparison:
    """Change of m coefficients between k reference runs and r checked runs; every array has shape (m,)."""

    # reference_mean, observed_mean: Means of the runs on Fisher's scale.
    reference_mean: FloatArray
    observed_mean: FloatArray
    standard_error: FloatArray  # Of the difference of the means
    # effect, low, high: The change as a difference of ρ; bounds one-sided at α each, within the range of ρ.
    effect: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray  # Two-sided p-value of "the checked runs come from the reference's distribution"
    freedom: FloatArray  # Degrees of freedom of the standard error; infinite if it is taken as known
    notes: tuple[str, ...]  # Remarks for the reader
    tested: tuple[MeanErrors, ...] = ()  # Errors that `p_beyond` tests with; each must show the change
    designs: int = 1  # Comparisons that this was chosen from; p-values are multiplied by it
    # If runs were also compared within rounds: the reference run of each checked run's round, shape (r,), and the
    # standard error of the comparison of independent runs.
    partners: tuple[int, ...] = ()
    independent_error: FloatArray | None = None

    def p_beyond(self, tolerance: float | FloatArray) -> FloatArray:
        """Return the p-value of "no change of ρ beyond the tolerance" for each coefficient, shape (m,).

        A minimum-effect test (Murphy and Myors, "Testing the hypothesis that treatments have negligible effects",
        Journal of Applied Psychology 84, 1999) whose two tails are read from the interval: the level at which its
        nearer end reaches the tolerance on the side of the effect, and that on the opposite side. With tolerance 0, or
        without `tested` (the paper's rule), the result is `p`.
        """
        if not self.tested or not np.any(tolerance):
            return self.p
        bound = np.asarray(tolerance, np.float64)
        tails = [self._tail(errors, bound) + self._tail(errors, -bound) for errors in self.tested]
        return np.asarray(np.minimum(1, self.designs * np.max(tails, axis=0)), np.float64)

    def _tail(self, errors: MeanErrors, change: FloatArray) -> FloatArray:
        """Return the probability of at least the observed effect if the true change in its direction were `change`."""
        falls = self.effect < 0
        change_here = np.where(falls, -change, change)
        beyond = np.where(falls, self.effect < change_here, self.effect > change_here)
        reached = self._quantile_reaching(errors, change_here)
        tail = _t_below(errors.freedom, -reached)
        return np.asarray(np.where(beyond, tail, 1 - tail), np.float64)

    def _quantile_reaching(self, errors: MeanErrors, change: FloatArray) -> FloatArray:
        """Return the quantile at which the interval's nearer end (Zou 2007) just reaches `change`.

        The distance between that end and the effect grows with the quantile. Doubling brackets the root, and regula
        falsi with the Illinois weights (Dowell and Jarratt 1971) finds it, for all coefficients at once.
        """
        side = np.sign(change - self.effect)
        wanted = np.abs(change - self.effect)
        before, after = from_fisher(self.reference_mean), from_fisher(self.observed_mean)

        def excess(quantile: FloatArray) -> FloatArray:
            reference = from_fisher(self.reference_mean - side * quantile * errors.reference)
            observed = from_fisher(self.observed_mean + side * quantile * errors.observed)
            return np.asarray(np.hypot(observed - after, reference - before) - wanted, np.float64)

        least, most = np.zeros_like(wanted), np.ones_like(wanted)
        below, above = -wanted, excess(most)
        while np.any(short := (above < 0) & (most < _FARTHEST)):
            least, below = np.where(short, most, least), np.where(short, above, below)
            most = np.where(short, 2 * most, most)
            above = excess(most)
        other, at, at_other, here = least, most, below, above
        for _ in range(_STEPS):
            slope = (here - at_other) / np.where(at == other, 1.0, at - other)
            stays = (slope == 0) | ((here < 0) & (at >= _FARTHEST))
            following = np.where(stays, at, at - here / np.where(stays, 1.0, slope))
            moved, at_following = np.abs(following - at), excess(following)
            crossed = at_following * here < 0
            other, at_other = np.where(crossed, at, other), np.where(crossed, here, at_other / 2)
            at, here = following, at_following
            if np.all(moved <= _PRECISION * at):
                break
        return np.asarray(at, np.float64)


def compare_runs(reference: FloatArray, observed: FloatArray, *, intervals: int | None, alpha: float) -> Comparison:
    """Compare coefficients of checked runs with those of reference runs.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Spearman's ρ, one row for each run; k ≥ 3 and
    r ≥ 1.

    The interval of the difference of ρ combines the intervals of both sides: Zou, "Toward using confidence intervals to
    compare correlations", Psychological Methods 12 (2007). Converting the interval of the difference of z to ρ at the
    reference's mean would ignore that this mean is uncertain too: it would accept a rise from .8 to .9 as within .1 in
    up to 12 % of cases instead of 5 %.

    One checked run (r = 1) is compared by a prediction interval: |z − z̄| / (s·√(1 + 1/k)) has Student's t with k − 1
    degrees of freedom.

    Shrinkage hides a part of the spread near ±1: if there is a change, the checked runs' spread is `wider_below_one`
    times the reference's. Without this factor, falls by exactly the tolerance from .9999 and .999 were called
    *perturbed* in 28 and 18 % of the campaigns of `docs/evidence/calibration.md`.

    If all reference runs have the same coefficient, their spread is unknown and any difference would be "significant".
    The sampling error within a run, 1/√(n − 3), then replaces the spread between runs, and a note reports this. Runs
    that were cut at equal work (`intervals` is None) are an exception: they are equal because the program is
    deterministic.
    """
    k, r = len(reference), len(observed)
    before, after = fisher(reference), fisher(observed)
    means = before.mean(axis=0), after.mean(axis=0)
    spread = spreads(before, after, intervals)
    freedom = np.full_like(spread.reference, k + r - 2)
    unchanged = pooled(spread.reference, spread.observed, k, r)
    # The error within a run, which replaces an unknown spread, is about the same at all levels.
    relative = np.where(spread.none, 1.0, wider_below_one(*map(from_fisher, means)))
    changed = pooled(spread.reference, spread.observed / relative**2, k, r)
    ways = [MeanErrors(np.sqrt(changed / k), relative * np.sqrt(changed / r), freedom)]
    if r > 1:
        ways.append(welch_errors(means, (spread.reference / k, spread.observed / r), (k - 1, r - 1)))
    low, high = widest_bounds(*means, ways, alpha)
    return comparison(means, np.sqrt(unchanged * (1 / k + 1 / r)), (low, high), ways[:1], freedom, spread.notes(k, r))


def comparison(
    means: tuple[FloatArray, FloatArray],
    standard_error: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
    tested: Sequence[MeanErrors],
    freedom: FloatArray,
    notes: tuple[str, ...],
) -> Comparison:
    """Return a comparison with the p-value of Student's t: difference of the means over its standard error."""
    return Comparison(
        *means,
        standard_error,
        from_fisher(means[1]) - from_fisher(means[0]),
        *bounds,
        2 * _t_below(freedom, -np.abs(means[1] - means[0]) / standard_error),
        freedom,
        notes,
        tuple(tested),
    )


def smallest_visible(
    reference_mean: float, standard_error: float, freedom: float, *, alpha: float, family: int
) -> float:
    """Return the smallest |Δρ|, up or down, that is significant at α / family (Holm's first step) with power 80 %."""
    if np.isinf(freedom):
        shift = special.ndtri(1 - alpha / (2 * family)) + special.ndtri(POWER)
    else:
        shift = special.nctdtrinc(freedom, 1 - POWER, special.stdtrit(freedom, 1 - alpha / (2 * family)))
    at, below, above = from_fisher(reference_mean + shift * standard_error * np.array([0.0, -1.0, 1.0]))
    return float(max(above - at, at - below))


def widest_bounds(
    reference_mean: FloatArray, observed_mean: FloatArray, ways: Sequence[MeanErrors], alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return the widest bounds that any of the errors gives for differences of ρ, one-sided at α, with ρ in ±1."""
    bounds = [difference_of_rho(reference_mean, observed_mean, way, alpha) for way in ways]
    before = from_fisher(reference_mean)
    low, high = np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)
    return np.maximum(low, -1 - before), np.minimum(high, 1 - before)


def _t_below(freedom: FloatArray, value: FloatArray) -> FloatArray:
    """Return the probability that Student's t (normal if degrees of freedom are infinite) is at most a value."""
    return np.asarray(np.where(np.isinf(freedom), special.ndtr(value), special.stdtr(freedom, value)), np.float64)


def _t_quantile(freedom: FloatArray, level: float) -> FloatArray:
    """Return quantiles of Student's t (of the normal distribution if degrees of freedom are infinite)."""
    if len(freedom) > 1 and (freedom == freedom[0]).all():  # as in every comparison by the pooled spread
        return np.full(len(freedom), _t_quantile(freedom[:1], level))
    return np.asarray(np.where(np.isinf(freedom), special.ndtri(level), special.stdtrit(freedom, level)), np.float64)


@dataclass(frozen=True)
class Spreads:
    """Variances between runs on Fisher's scale, shape (m,); the variance within a run replaces a variance of 0."""

    reference: FloatArray
    observed: FloatArray
    none: NDArray[np.bool_]
    none_note: str = NO_SPREAD_NOTE

    def notes(self, k: int, r: int) -> tuple[str, ...]:
        """Return a note on each coefficient's spread, mostly empty, for k reference and r checked runs."""
        ratio = self.observed / self.reference
        wider = special.fdtrc(r - 1, k - 1, ratio) < _SPREAD_LEVEL if r > 1 else np.zeros(len(ratio), bool)
        of_all = "one checked run: its spread is assumed to be that of the reference runs" if r == 1 else ""
        notes = [of_all] * len(ratio)
        for at in np.flatnonzero(self.none | wider).tolist():
            sentences = [of_all] if of_all else []
            if self.none[at]:
                sentences.insert(0, self.none_note)
            if wider[at]:
                sentences.append(f"the checked runs vary {np.sqrt(ratio[at]):.1f} times as much as the reference runs")
            notes[at] = "; ".join(sentences)
        return tuple(notes)


def wider_below_one(reference_mean: FloatArray, observed_mean: FloatArray) -> FloatArray:
    """Return the factor (≥ 1) by which the checked runs' spread is wider because their |ρ| is further from 1."""
    wider = np.maximum(1.0, shown_spread(observed_mean) / shown_spread(reference_mean))
    return np.where(np.abs(reference_mean) > _NEAR_ONE, wider, 1.0)


def least_variance(intervals: float | None) -> tuple[float, str]:
    """Return the variance that replaces a spread of 0, and a note; `intervals` is None if intervals end by work."""
    return (NO_SPREAD**2, EQUAL_WORK_NOTE) if intervals is None else (1 / (intervals - 3), NO_SPREAD_NOTE)


def spreads(before: FloatArray, after: FloatArray, intervals: float | None, inflation: float = 1.0) -> Spreads:
    """Return both variances between runs: the reference's is inflated, and is also used for a single checked run."""
    first = before.var(axis=0, ddof=1) * inflation**2
    second = after.var(axis=0, ddof=1) if len(after) > 1 else first.copy()
    none = first < NO_SPREAD**2
    least, note = least_variance(intervals)
    first[none] = least
    second[none] = np.maximum(second[none], least)
    return Spreads(first, second, none, note)


def pooled(first: FloatArray, second: FloatArray, k: int, r: int) -> FloatArray:
    """Return the variance of one run, pooled over k reference and r checked runs."""
    return np.asarray(((k - 1) * first + (r - 1) * second) / (k + r - 2), np.float64)


def difference_of_rho(
    reference_mean: FloatArray, observed_mean: FloatArray, errors: MeanErrors, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of a difference of ρ from each side's own interval (Zou 2007), one-sided at α each."""
    before, after = from_fisher(reference_mean), from_fisher(observed_mean)
    quantile = _t_quantile(errors.freedom, 1 - alpha)
    of_reference, of_observed = quantile * errors.reference, quantile * errors.observed
    fall = np.hypot(
        after - from_fisher(observed_mean - of_observed), from_fisher(reference_mean + of_reference) - before
    )
    rise = np.hypot(
        from_fisher(observed_mean + of_observed) - after, before - from_fisher(reference_mean - of_reference)
    )
    return after - before - fall, after - before + rise


def welch_errors(
    means: tuple[FloatArray, FloatArray],
    squares: tuple[FloatArray, FloatArray],
    freedoms: tuple[float | FloatArray, float | FloatArray],
) -> MeanErrors:
    """Return errors of means with Satterthwaite's degrees of freedom, from the squared errors on Fisher's scale.

    Each error is weighted by its effect on ρ: near ±1, a large error of z matters little.
    """
    first, second = (square / fisher_slope(from_fisher(mean)) ** 2 for mean, square in zip(means, squares, strict=True))
    return MeanErrors(np.sqrt(squares[0]), np.sqrt(squares[1]), _satterthwaite(first, second, *freedoms))


def _satterthwaite(
    first: FloatArray, second: FloatArray, first_freedom: float | FloatArray, second_freedom: float | FloatArray
) -> FloatArray:
    return (first + second) ** 2 / (first**2 / first_freedom + second**2 / second_freedom)
