"""Runs against runs: how much each coefficient changed, how sure that is, and how many runs would make it sure.

Three questions are asked of every change, and each has its own null hypothesis:

- *Did it change?* If measuring changes nothing, the checked runs are drawn as the reference's were, same spread
  included. So the test pools the spread of both (Student's t, k + r − 2 degrees of freedom). Welch's test is wrong
  here: with few runs its tail is too heavy at the levels that a family of pairs needs (facts below).
- *Did it stay within the tolerance?* (An equivalence test.) Its null is a change of at least the tolerance, and a
  configuration that changes a mean may change the spread as well. So the interval is the wider of the pooled and
  Welch's.
- *Did it go beyond the tolerance?* (A minimum-effect test.) Its null is a change of at most the tolerance. The p-value
  is the level at which the pooled interval just reaches the tolerance.

For k = 10 reference and r = 3 checked runs from normal populations of the same spread: of a family of 66 tests at 5 %,
pooled .042 false alarms are expected and power against 4 standard deviations is .87; Welch .23 and .38 (k = 20: pooled
.048 and .99, Welch .61 and .30). A change that is exactly the tolerance, accepted in 5 % of cases by right: pooled up
to .22 when the checked runs spread three times as wide, Welch up to .060, the wider of both .052
(`docs/evidence/calibration.md`). What the pooled tests cannot do is tell a change of mean from a large change of
spread: a change therefore counts as shown only if the interval, which can, excludes 0 (or the tolerance) too, and it
carries a note.

Outer values depend on one another. Let s_ij = a + b_i + b_j + e_ij be the correlation of runs i and j. A checked run is
held against all k reference runs, a reference run against the other k − 1, so that its value deviates from the mean by
only (k − 2)/(k − 1) of b_i − b̄: the reference's spread is multiplied by (k − 1)/(k − 2). And each e_ij is in the
values of both i and j, so that the mean of the reference varies by 2 σ²_e / (k(k − 1)), of which the spread between
runs shows half: the other half is added. Without both, family-wise false alarms at 5 % are 6–11 % (5 metrics, k = 5 and
10, r = 3).

Checked runs that share less with the program follow a reference run's b_i less than other reference runs do. If the
correlation of two runs is the product of what each shares with the program, then a deviation of b_i moves the checked
runs' mean by γ b_i, with γ = (ρ / slope) of the checked runs over that of the reference, slope being dρ / ds. Where
there is a change, the reference's mean errs by 2 b̄ and the checked one by γ b̄, so that (2 − γ) b̄ remains, where
without a change it is b̄: the reference's error is taken that many times in intervals and in the test of going beyond
the tolerance.

On Fisher's scale outer values are skewed towards low ones (two runs have no more in common than each has with the
program), and in a skewed sample a high mean comes with a small spread: a fall by exactly the tolerance was accepted in
up to 8 % of cases. On the scale of signal to noise they hardly are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.perturbation.correlation import FISHER, FloatArray, Scale
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

POWER = 0.8
"""The probability with which `smallest_visible` is seen and `runs_to_decide` decides."""

MAXIMUM_RUNS = 200
"""More runs a configuration than this are out of reach."""

_NO_SPREAD = 1e-9
"""A standard deviation on the scale below which the runs are equal but for rounding."""

_FARTHEST = 1e3
"""Quantiles beyond this are not looked for: their level is 0, with 3 degrees of freedom or more 1e-9."""

_STEPS, _PRECISION = 60, 1e-12
"""The root finder's steps at most (six to nine are usual), and the last one's width, of the quantile."""

_SPREAD_LEVEL = 0.01
"""Level of the F test that puts a note on a change of spread. It decides nothing."""


@dataclass(frozen=True)
class MeanErrors:
    """Standard errors of both means, and how well they are known; every array has shape (m,).

    Attributes
    ----------
    reference, observed : array of float64
        On the scale of the comparison.
    freedom : array of float64
        Degrees of freedom; infinite where the errors are taken as known.
    """

    reference: FloatArray
    observed: FloatArray
    freedom: FloatArray


@dataclass(frozen=True)
class Comparison:
    """How m coefficients changed between k reference runs and r checked runs; every array has shape (m,).

    Attributes
    ----------
    scale : Scale
        On which the runs were compared.
    reference_mean, observed_mean : array of float64
        Means of the runs on the scale.
    standard_error : array of float64
        Of the difference of the means.
    effect, low, high : array of float64
        The change as a difference of ρ; bounds one-sided at α each.
    p : array of float64
        Two-sided, of "the checked runs are drawn as the reference's were".
    freedom : array of float64
        Degrees of freedom of the standard error; infinite where it is taken as known.
    notes : tuple of str
        What a reader must know besides.
    tested : tuple of MeanErrors
        Errors by which `p_beyond` tests; of several, each must show the change.
    """

    scale: Scale
    reference_mean: FloatArray
    observed_mean: FloatArray
    standard_error: FloatArray
    effect: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    freedom: FloatArray
    notes: tuple[str, ...]
    tested: tuple[MeanErrors, ...] = ()

    def p_beyond(self, tolerance: float | FloatArray) -> FloatArray:
        """Return the p-value of "no change of ρ beyond the tolerance" for each coefficient, shape (m,).

        Parameters
        ----------
        tolerance : float or array of float64, shape (m,)
            |Δρ| that counts as no perturbation; 0 asks for any change.

        Notes
        -----
        A minimum-effect test (Murphy and Myors, "Testing the hypothesis that treatments have negligible effects",
        Journal of Applied Psychology 84, 1999) whose two tails are read from the interval: the level at which its
        nearer end reaches the tolerance on the side of the effect, and on the other side. Without `tested` (the paper's
        rule) it is `p`.
        """
        if not self.tested or not np.any(tolerance):
            return self.p
        bound = np.asarray(tolerance, np.float64)
        tails = [self._tail(errors, bound) + self._tail(errors, -bound) for errors in self.tested]
        return np.asarray(np.max(tails, axis=0), np.float64)

    def _tail(self, errors: MeanErrors, change: FloatArray) -> FloatArray:
        """Return the probability of an effect as large as that seen, if it were `change` in the effect's direction."""
        falls = self.effect < 0
        change_here = np.where(falls, -change, change)
        beyond = np.where(falls, self.effect < change_here, self.effect > change_here)
        reached = self._quantile_reaching(errors, change_here)
        tail = np.where(np.isinf(errors.freedom), special.ndtr(-reached), special.stdtr(errors.freedom, -reached))
        return np.asarray(np.where(beyond, tail, 1 - tail), np.float64)

    def _quantile_reaching(self, errors: MeanErrors, change: FloatArray) -> FloatArray:
        """Return the quantile with which the interval's nearer end (Zou 2007) just reaches `change`.

        The distance of that end from the effect grows with the quantile. The root is enclosed by doubling and found by
        regula falsi with Illinois' weights (Dowell and Jarratt 1971), for all coefficients at once.
        """
        side = np.sign(change - self.effect)
        wanted = np.abs(change - self.effect)
        before, after = self.scale.to_rho(self.reference_mean), self.scale.to_rho(self.observed_mean)

        def excess(quantile: FloatArray) -> FloatArray:
            reference = self.scale.to_rho(self.reference_mean - side * quantile * errors.reference)
            observed = self.scale.to_rho(self.observed_mean + side * quantile * errors.observed)
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


def compare_runs(
    reference: FloatArray,
    observed: FloatArray,
    *,
    intervals: int,
    alpha: float,
    scale: Scale = FISHER,
    pair_variance: FloatArray | None = None,
) -> Comparison:
    """Compare coefficients of checked runs with those of reference runs.

    Parameters
    ----------
    reference, observed : array of float64, shape (k, m) and (r, m)
        K ≥ 3, r ≥ 1 Spearman's ρ, one row a run.
    intervals : int
        Of the shortest run.
    alpha : float
        Level of each one-sided bound of the interval.
    scale : Scale, default FISHER
        On which means and spreads are taken.
    pair_variance : array of float64, optional, shape (m,)
        For outer correlations only: each value is then a mean over (the other) reference runs, and this much of the
        variation on the scale belongs to pairs of runs (`outer.pair_variance`); see the module.

    Returns
    -------
    Comparison
        One change for each coefficient.

    Notes
    -----
    The interval of the difference of ρ joins the intervals of both sides: Zou, "Toward using confidence intervals to
    compare correlations", Psychological Methods 12 (2007). Taking the interval of the difference of z to the scale of ρ
    at the reference's mean instead forgets that the reference's mean is uncertain too: it accepts a rise from .8 to .9
    as within .1 in up to 12 % of cases where 5 % are due.

    One checked run (r = 1) gives the prediction interval |z − z̄| / (s·√(1 + 1/k)) against t with k − 1 degrees of
    freedom.

    Where all reference runs have the same coefficient, no spread is known and any difference would be "significant".
    The within-run sampling error 1/√(n − 3) is then taken for the spread between runs, and the note says so.
    """
    k, r = len(reference), len(observed)
    before, after = scale.of_rho(reference), scale.of_rho(observed)
    means = before.mean(axis=0), after.mean(axis=0)
    reference_variance, observed_variance, no_spread = _variances(
        before, after, scale.per_fisher(means[0]) ** 2 / (intervals - 3), outer=pair_variance is not None
    )
    shared = pair_variance / (k * (k - 1)) if pair_variance is not None else np.zeros_like(means[0])
    freedom = np.full_like(means[0], k + r - 2)
    pooled_variance = ((k - 1) * reference_variance + (r - 1) * observed_variance) / freedom
    standard_error = np.sqrt(pooled_variance / k + shared + pooled_variance / r)
    # How much an error of the reference's mean counts where there is a change.
    counts = np.ones_like(freedom) if pair_variance is None else (2 - _following(scale, *means)) ** 2
    pooled = MeanErrors(np.sqrt(counts * (pooled_variance / k + shared)), np.sqrt(pooled_variance / r), freedom)
    ways = [pooled]
    if r > 1:
        first, second = counts * (reference_variance / k + shared), observed_variance / r
        ways.append(MeanErrors(np.sqrt(first), np.sqrt(second), _welch_freedom(first, second, k, r)))
    low, high = widest_bounds(scale, *means, ways, alpha)
    return Comparison(
        scale,
        *means,
        standard_error,
        scale.to_rho(means[1]) - scale.to_rho(means[0]),
        low,
        high,
        2 * special.stdtr(freedom, -np.abs(means[1] - means[0]) / standard_error),
        freedom,
        _notes(no_spread, reference_variance, observed_variance, k, r),
        (pooled,),
    )


def smallest_visible(
    reference_mean: float,
    standard_error: float,
    freedom: float,
    *,
    alpha: float,
    family: int,
    scale: Scale = FISHER,
) -> float:
    """Return the smallest |Δρ| that is significant with power 80 % in a family of tests.

    The level is α / family, Holm's first step. Up and down differ on the scale of ρ; the larger is returned, so a
    change of this size is seen in either direction.
    """
    if np.isinf(freedom):
        shift = special.ndtri(1 - alpha / (2 * family)) + special.ndtri(POWER)
    else:
        shift = special.nctdtrinc(freedom, 1 - POWER, special.stdtrit(freedom, 1 - alpha / (2 * family)))
    at, below, above = scale.to_rho(reference_mean + shift * standard_error * np.array([0.0, -1.0, 1.0]))
    return float(max(above - at, at - below))


def runs_to_decide(
    reference_mean: float,
    observed_mean: float,
    standard_error: float,
    k: int,
    r: int,
    *,
    alpha: float,
    tolerance: float,
    family: int,
    scale: Scale = FISHER,
    fewest: int | None = None,
) -> int | None:
    """Return how many runs a configuration would decide with power 80 %, if change and spread are as they were seen.

    Decided is what is shown to lie within the tolerance or beyond it. The count holds for every configuration: the
    checked one gets that many runs, and the reference too when it has fewer. Growing the checked runs alone could not
    get below the reference's own error. With `fewest` the campaign is planned anew, from so many runs of either on;
    without, the runs that were made are kept.

    Returns
    -------
    int or None
        None when more than `MAXIMUM_RUNS` would be needed, as for a change that is about the tolerance.
    """
    runs, references, freedom, wanted, quantile = _plans(k, r, fewest, alpha, family)
    spread = standard_error / np.sqrt(1 / k + 1 / r)
    before, after = float(scale.to_rho(reference_mean)), float(scale.to_rho(observed_mean))
    # The slope of the scale takes both errors to ρ.
    errors = [
        spread * scale.slope(np.array(mean)) / np.sqrt(count)
        for mean, count in ((reference_mean, references), (observed_mean, runs))
    ]
    error = np.hypot(*errors)
    excess = (abs(after - before) - tolerance) / error
    if tolerance == 0:
        excess = abs(observed_mean - reference_mean) / (spread * np.sqrt(1 / references + 1 / runs))
    beyond = special.stdtr(freedom, excess - wanted) >= POWER
    # A bound beyond ±1 is kept by itself.
    above = (before + tolerance - after) / error if before + tolerance < 1 else np.inf
    below = (after - before + tolerance) / error if before - tolerance > -1 else np.inf
    inside = special.stdtr(freedom, above - quantile) + special.stdtr(freedom, below - quantile) - 1 >= POWER
    enough = np.flatnonzero(beyond | inside)
    return int(runs[enough[0]]) if len(enough) else None


@lru_cache(maxsize=16)
def _plans(k: int, r: int, fewest: int | None, alpha: float, family: int) -> tuple[FloatArray, ...]:
    """Return numbers of runs and of reference runs, degrees of freedom, and quantiles of a change and of a bound.

    The changes of a verdict share them; to compute them takes longer than the rest of `runs_to_decide`.
    """
    runs = np.arange(fewest or r + 1, MAXIMUM_RUNS + 1, dtype=np.float64)
    references = runs if fewest else np.maximum(float(k), runs)
    freedom = references + runs - 2
    wanted = special.stdtrit(freedom, 1 - alpha / (2 * family))
    bound = special.stdtrit(_welch_freedom(1 / references, 1 / runs, references, runs), 1 - alpha)
    return runs, references, freedom, wanted, bound


def widest_bounds(
    scale: Scale,
    reference_mean: FloatArray,
    observed_mean: FloatArray,
    ways: Sequence[MeanErrors],
    alpha: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the differences of ρ, each one-sided at α, that hold by every way to take the errors."""
    bounds = [
        difference_of_rho(
            scale,
            reference_mean,
            observed_mean,
            way.reference,
            way.observed,
            _t_quantile(way.freedom, 1 - alpha),
        )
        for way in ways
    ]
    return np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)


def _t_quantile(freedom: FloatArray, level: float) -> FloatArray:
    """Return quantiles of Student's t, of the normal distribution where degrees of freedom are infinite."""
    if len(freedom) > 1 and (freedom == freedom[0]).all():  # as in every comparison by the pooled spread
        return np.full(len(freedom), _t_quantile(freedom[:1], level))
    return np.asarray(np.where(np.isinf(freedom), special.ndtri(level), special.stdtrit(freedom, level)), np.float64)


def _following(scale: Scale, reference_mean: FloatArray, observed_mean: FloatArray) -> FloatArray:
    """Return how far checked runs follow the deviation of a reference run, 0 to 1; see the module on outer values."""

    def change(mean: FloatArray) -> FloatArray:
        return np.maximum(scale.to_rho(mean), 0) / scale.slope(mean)

    before = change(reference_mean)
    following = np.divide(change(observed_mean), before, out=np.ones_like(before), where=before > 0)
    return np.clip(following, 0, 1)


def _variances(
    reference: FloatArray, observed: FloatArray, within_run: FloatArray, *, outer: bool
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return each side's variance between runs, and where the reference had none; there that within a run is taken."""
    k, r = len(reference), len(observed)
    first = reference.var(axis=0, ddof=1) * (((k - 1) / (k - 2)) ** 2 if outer else 1.0)
    second = observed.var(axis=0, ddof=1) if r > 1 else first.copy()
    no_spread = first < _NO_SPREAD**2
    first[no_spread] = within_run[no_spread]
    second[no_spread] = np.maximum(second[no_spread], within_run[no_spread])
    return first, second, no_spread


def difference_of_rho(
    scale: Scale,
    reference_mean: FloatArray,
    observed_mean: FloatArray,
    reference_error: FloatArray,
    observed_error: FloatArray,
    quantile: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of a difference of ρ from each side's own interval (Zou 2007)."""
    before, after = scale.to_rho(reference_mean), scale.to_rho(observed_mean)
    fall = np.hypot(
        after - scale.to_rho(observed_mean - quantile * observed_error),
        scale.to_rho(reference_mean + quantile * reference_error) - before,
    )
    rise = np.hypot(
        scale.to_rho(observed_mean + quantile * observed_error) - after,
        before - scale.to_rho(reference_mean - quantile * reference_error),
    )
    return after - before - fall, after - before + rise


def _welch_freedom(first: FloatArray, second: FloatArray, k: int | FloatArray, r: int | FloatArray) -> FloatArray:
    """Return Satterthwaite's degrees of freedom of a sum of two squared errors of means."""
    return (first + second) ** 2 / (first**2 / (k - 1) + second**2 / (r - 1))


def _notes(
    no_spread: NDArray[np.bool_], reference_variance: FloatArray, observed_variance: FloatArray, k: int, r: int
) -> tuple[str, ...]:
    ratio = observed_variance / reference_variance
    wider = special.fdtrc(r - 1, k - 1, ratio) < _SPREAD_LEVEL if r > 1 else np.zeros(len(ratio), bool)
    of_all = "one checked run: its spread is taken to be the reference's" if r == 1 else ""
    notes = [of_all] * len(ratio)
    for at in np.flatnonzero(no_spread | wider).tolist():
        sentences = [of_all] if of_all else []
        if no_spread[at]:
            sentences.insert(
                0,
                "all reference runs have the same coefficient: the sampling error within a run is used as their spread",
            )
        if wider[at]:
            sentences.append(f"the checked runs spread {np.sqrt(ratio[at]):.1f} times as wide as the reference's")
        notes[at] = "; ".join(sentences)
    return tuple(notes)
