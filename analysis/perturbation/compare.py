"""Runs against runs: how much each coefficient changed, how sure that is, and how many runs would make it sure.

Two questions are asked of every change, and each has its own null hypothesis:

- *Did it change?* If measuring changes nothing, the checked runs are drawn as the reference's were, same spread included. So the
  test pools the spread of both (Student's t, k + r − 2 degrees of freedom). Welch's test is wrong here: with few runs its tail
  is too heavy at the levels that a family of pairs needs (facts below).
- *Did it stay within the tolerance?* Its null is a change of at least the tolerance, and a configuration that changes a
  mean may change the spread as well. So the interval is the wider of the pooled and Welch's.

For k = 10 reference and r = 3 checked runs from normal populations of the same spread: of a family of 66 tests at 5 %, pooled .042
false alarms are expected and power against 4 standard deviations is .87; Welch .23 and .38 (k = 20: pooled .048 and .99, Welch .61
and .30). A change that is exactly the tolerance, accepted in 5 % of cases by right: pooled up to .22 when the checked runs spread
three times as wide, Welch up to .060, the wider of both .052 (`docs/evidence/calibration.md`). What the pooled test cannot do is
tell a change of mean from a large change of spread: a change is therefore called perturbed only if the interval, which can,
excludes 0, and it carries a note.

Outer values depend on one another. Let z_ij = a + b_i + b_j + e_ij be the correlation of runs i and j. A checked run is held against
all k reference runs, a reference run against the other k − 1, so that its value deviates from the mean by only (k − 2)/(k − 1) of
b_i − b̄: the reference's spread is multiplied by (k − 1)/(k − 2). And each e_ij is in the values of both i and j, so that the mean of
the reference varies by 2 σ²_e / (k(k − 1)), of which the spread between runs shows half: the other half is added. Without both,
family-wise false alarms at 5 % are 6–11 % (5 metrics, k = 5 and 10, r = 3).

What is not allowed for: outer values are skewed towards low ones (two runs have no more in common than each has with the program), and in a
skewed sample a high mean comes with a small spread. A fall by exactly the tolerance is accepted in up to 8 % of cases (165 intervals, φ = .95),
in 6 % with 1,000 intervals, the other bound is missed in 3–5 %. Skewness cannot be estimated from three or five runs. That checked runs which
share less with the program follow b_i by less than 1 changes the level by less than 1 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher

__all__ = ["MAXIMUM_RUNS", "POWER", "Comparison", "compare_runs", "difference_of_rho", "runs_to_decide", "smallest_visible"]

POWER = 0.8
"""The probability with which `smallest_visible` is seen and `runs_to_decide` decides."""

MAXIMUM_RUNS = 200
"""More runs a configuration than this are out of reach."""

_NO_SPREAD = 1e-9
"""A standard deviation on Fisher's scale below which the runs are equal but for rounding."""

_SPREAD_LEVEL = 0.01
"""Level of the F test that puts a note on a change of spread. It decides nothing."""


@dataclass(frozen=True)
class Comparison:
    """How m coefficients changed between k reference runs and r checked runs; every array has shape (m,).

    Attributes
    ----------
    reference_z : mean of the reference runs on Fisher's scale.
    effect_z, standard_error : change of means on Fisher's scale, and its standard error from the pooled spread.
    effect, low, high : the change as a difference of ρ; bounds one-sided at α each.
    p : two-sided, of "the checked runs are drawn as the reference's were".
    freedom : degrees of freedom of the standard error; infinite where it is taken as known.
    notes : what a reader must know besides.
    """

    reference_z: FloatArray
    effect_z: FloatArray
    standard_error: FloatArray
    effect: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    freedom: FloatArray
    notes: tuple[str, ...]


def compare_runs(
    reference: FloatArray, observed: FloatArray, *, intervals: int, alpha: float, pair_variance: FloatArray | None = None
) -> Comparison:
    """Compare coefficients of checked runs with those of reference runs.

    Parameters
    ----------
    reference, observed : float64, shapes (k, m) and (r, m); k ≥ 3, r ≥ 1
        Spearman's ρ, one row a run.
    intervals : of the shortest run.
    alpha : level of each one-sided bound of the interval.
    pair_variance : float64, shape (m,), for outer correlations only
        Says that each value is a mean over (the other) reference runs, and how much of the variation belongs to pairs of runs
        (`outer.pair_variance`); see the module.

    Returns
    -------
    Comparison

    Notes
    -----
    Means and spreads are taken on Fisher's scale. The interval of the difference of ρ joins the intervals of both sides: Zou,
    "Toward using confidence intervals to compare correlations", Psychological Methods 12 (2007). Taking the interval of the
    difference of z to the scale of ρ at the reference's mean instead forgets that the reference's mean is uncertain too: it accepts a
    rise from .8 to .9 as within .1 in up to 12 % of cases where 5 % are due.

    One checked run (r = 1) gives the prediction interval |z − z̄| / (s·√(1 + 1/k)) against t with k − 1 degrees of freedom.

    Where all reference runs have the same coefficient, no spread is known and any difference would be "significant". The
    within-run sampling error 1/√(n − 3) is then taken for the spread between runs, and the note says so.
    """
    k, r = len(reference), len(observed)
    reference_z = fisher(reference).mean(axis=0)
    observed_z = fisher(observed).mean(axis=0)
    effect_z = observed_z - reference_z
    reference_variance, observed_variance, no_spread = _variances(
        reference, observed, intervals, outer=pair_variance is not None
    )
    shared = pair_variance / (k * (k - 1)) if pair_variance is not None else np.zeros_like(effect_z)
    freedom = k + r - 2
    pooled = ((k - 1) * reference_variance + (r - 1) * observed_variance) / freedom
    standard_error = np.sqrt(pooled / k + shared + pooled / r)
    quantile = special.stdtrit(freedom, 1 - alpha)
    low, high = difference_of_rho(reference_z, observed_z, np.sqrt(pooled / k + shared), np.sqrt(pooled / r), quantile)
    if r > 1:
        first, second = reference_variance / k + shared, observed_variance / r
        quantile = special.stdtrit(_welch_freedom(first, second, k, r), 1 - alpha)
        other_low, other_high = difference_of_rho(reference_z, observed_z, np.sqrt(first), np.sqrt(second), quantile)
        low, high = np.minimum(low, other_low), np.maximum(high, other_high)
    return Comparison(
        reference_z,
        effect_z,
        standard_error,
        from_fisher(observed_z) - from_fisher(reference_z),
        low,
        high,
        2 * special.stdtr(freedom, -np.abs(effect_z) / standard_error),
        np.full_like(effect_z, freedom),
        _notes(no_spread, reference_variance, observed_variance, k, r),
    )


def smallest_visible(reference_z: float, standard_error: float, freedom: float, *, alpha: float, family: int) -> float:
    """Return the smallest |Δρ| that is significant with power 80 % in a family of tests.

    The level is α / family, Holm's first step. Up and down differ on the scale of ρ; the larger is returned, so a change
    of this size is seen in either direction.
    """
    if np.isinf(freedom):
        shift = special.ndtri(1 - alpha / (2 * family)) + special.ndtri(POWER)
    else:
        shift = special.nctdtrinc(freedom, 1 - POWER, special.stdtrit(freedom, 1 - alpha / (2 * family)))
    at, below, above = from_fisher(reference_z + shift * standard_error * np.array([0.0, -1.0, 1.0]))
    return float(max(above - at, at - below))


def runs_to_decide(
    reference_z: float,
    effect_z: float,
    standard_error: float,
    k: int,
    r: int,
    *,
    alpha: float,
    tolerance: float,
    family: int,
    fewest: int | None = None,
) -> int | None:
    """Return how many runs a configuration would decide with power 80 %, if change and spread are as they were seen.

    The count holds for every configuration: the checked one gets that many runs, and the reference too when it has fewer.
    Growing the checked runs alone could not get below the reference's own error. With `fewest` the campaign is planned anew, from so
    many runs of either on; without, the runs that were made are kept.

    Returns
    -------
    int, or None when more than `MAXIMUM_RUNS` would be needed.
    """
    runs = np.arange(fewest or r + 1, MAXIMUM_RUNS + 1, dtype=np.float64)
    references = runs if fewest else np.maximum(float(k), runs)
    freedom = references + runs - 2
    spread = standard_error / np.sqrt(1 / k + 1 / r)
    shift = abs(effect_z) / (spread * np.sqrt(1 / references + 1 / runs))
    significant = special.stdtr(freedom, shift - special.stdtrit(freedom, 1 - alpha / (2 * family))) >= POWER
    before, after = float(from_fisher(reference_z)), float(from_fisher(reference_z + effect_z))
    # The slope of Fisher's transformation takes both errors to the scale of ρ.
    errors = [spread * (1 - rho**2) / np.sqrt(count) for rho, count in ((before, references), (after, runs))]
    error = np.hypot(*errors)
    quantile = special.stdtrit(_welch_freedom(1 / references, 1 / runs, references, runs), 1 - alpha)
    # A bound beyond ±1 is kept by itself.
    above = (before + tolerance - after) / error if before + tolerance < 1 else np.inf
    below = (after - before + tolerance) / error if before - tolerance > -1 else np.inf
    inside = special.stdtr(freedom, above - quantile) + special.stdtr(freedom, below - quantile) - 1 >= POWER
    enough = np.flatnonzero(significant | inside)
    return int(runs[enough[0]]) if len(enough) else None


def _variances(
    reference: FloatArray, observed: FloatArray, intervals: int, *, outer: bool
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return the variance between runs of each side on Fisher's scale, and where the reference had none; see `compare_runs`."""
    k, r = len(reference), len(observed)
    first = fisher(reference).var(axis=0, ddof=1) * (((k - 1) / (k - 2)) ** 2 if outer else 1.0)
    second = fisher(observed).var(axis=0, ddof=1) if r > 1 else first.copy()
    no_spread = first < _NO_SPREAD**2
    floor = 1 / (intervals - 3)
    first[no_spread] = floor
    second[no_spread] = np.maximum(second[no_spread], floor)
    return first, second, no_spread


def difference_of_rho(
    reference_z: FloatArray,
    observed_z: FloatArray,
    reference_error: FloatArray,
    observed_error: FloatArray,
    quantile: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of a difference of ρ from each side's own interval (Zou 2007)."""
    before, after = from_fisher(reference_z), from_fisher(observed_z)
    fall = np.hypot(
        after - from_fisher(observed_z - quantile * observed_error),
        from_fisher(reference_z + quantile * reference_error) - before,
    )
    rise = np.hypot(
        from_fisher(observed_z + quantile * observed_error) - after,
        before - from_fisher(reference_z - quantile * reference_error),
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
    notes = []
    for at in range(len(ratio)):
        said = []
        if no_spread[at]:
            said.append("all reference runs have the same coefficient: the sampling error within a run stands for their spread")
        if r == 1:
            said.append("one checked run: its spread is taken to be the reference's")
        if wider[at]:
            said.append(f"the checked runs spread {np.sqrt(ratio[at]):.1f} times as wide as the reference's")
        notes.append("; ".join(said))
    return tuple(notes)
