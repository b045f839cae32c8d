"""Comparison of outer correlations of checked runs with those of reference runs; the values are interdependent.

Let z_ij = a + b_i + b_j + e_ij be the correlation of runs i and j on Fisher's scale. A checked run is compared with all
k reference runs, a reference run with the other k − 1. So a reference run's value deviates from the mean by only
(k − 2)/(k − 1) of b_i − b̄, and the reference's spread is multiplied by (k − 1)/(k − 2). Each e_ij is part of the
values of both i and j, so the mean of the reference varies by 2 σ²_e / (k(k − 1)). The spread between runs shows half
of this variance; the other half is added. Without both corrections, family-wise false alarms at 5 % are 6–11 %
(5 metrics, k = 5 and 10, r = 3).

*Did it change?* is tested as in `compare`. If there is a change, four things differ:

- **Level.** Between runs that agree to .99, ρ varies by thousandths; between runs that share half of what they do, ρ
  varies by tenths, on Fisher's scale too. Model a run as the program plus its own noise, with a² the noise relative to
  the program, so ρ_ij = ((1 + a_i²)(1 + a_j²))^−½. If the noise varies from run to run by the same *ratio* in both
  groups, the spread of the checked runs is `relative_spread` times the reference's, 1 to 3.5 times. Without this
  factor, a fall by exactly the tolerance from .999 was called *perturbed* in 27 % of campaigns.
- **Own spread.** The noise of checked runs may vary differently. If it varies less, the upper confidence bound of their
  own spread (level .95) replaces the model's spread. If it varies more, a second interval and a second test show it,
  and must also hold, like Welch's in `compare`. Their spread is partly the reference's, with as many degrees of freedom
  as are borrowed from it, and otherwise the checked runs' own. The less probable the ratio of both spreads is, the less
  is borrowed, so more baseline runs do not hide checked runs that spread several times as wide.
- **Tails.** Values are skewed towards low ones (two runs have no more in common than each has with the program), and a
  model converts the reference's spread to another level: half of the degrees of freedom are counted. The end of the
  interval that is farther from 0, which shows a change to lie within the tolerance, is computed at α/2: by the first
  term of Edgeworth's expansion (Hall, "The Bootstrap and Edgeworth Expansion", 1992, section 2.3), the mean of 3 to 10
  values of skewness −.5 passes a bound at 2.5 to 3.3 % in 5 % of cases.
- **The reference's error.** Checked runs that share less with the program follow a reference run's b_i less than other
  reference runs do: a deviation of b_i moves their mean by γ b_i. Here γ is ρ / slope of the checked runs divided by
  ρ / slope of the reference, with slope = dρ / dz. So the reference's mean errs by 2 b̄, the checked mean by γ b̄, and
  their difference by (2 − γ) b̄; without a change, by b̄. The reference's error is multiplied by 2 − γ.

Error rates and power: `docs/evidence/calibration.md`. On the scale of signal to noise, ρ / (1 − ρ), acceptance is as
good, but the spread of runs that agree to .99 is enormous: intervals reached −2, and only four in ten falls from .99 to
.5 were called *perturbed*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.perturbation.compare import (
    NO_SPREAD,
    Comparison,
    MeanErrors,
    Spreads,
    comparison,
    least_variance,
    pooled,
    spreads,
    welch_errors,
    widest_bounds,
)
from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    fisher,
    fisher_slope,
    from_fisher,
    shown_spread,
)
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

COUNTED = 0.5
"""Share of a spread's degrees of freedom that counts if there is a change."""

_UNLIKELY = 0.05
"""Level at which the upper confidence bound of the checked runs' own spread replaces a wider spread of the model; for
three runs, this bound is three to four times their spread."""

_LEAST_SPREAD = 0.25
"""Minimum ratio of the checked runs' spread to the reference's."""

_BORROWED = 1 / 3
_MOST_BORROWED = 1.5
"""Share of the reference's degrees of freedom that is added to the checked runs' own, and the most that is added for
each of these."""

_IMPROBABLE = 0.05
"""If the ratio of both spreads is less probable than this, proportionally fewer degrees of freedom are borrowed."""

_FEWEST_TOGETHER, _TOGETHER_LEVEL, _TOGETHER = 3, 0.05, 0.7
"""Minimum number of metrics whose spreads are judged together, the level of the F test, and the share of their typical
ratio in each metric's spread if they are wider."""

FAR_LEVEL = 0.5
"""Level of the interval's far end, relative to that of the near end."""

_LEAST_NOISE = 0.1
"""A run's noise may vary at most 1 / `_LEAST_NOISE` times as much relative to itself as relative to its sum with the
noise that `fisher` adds."""


def relative_spread(reference_mean: FloatArray, observed_mean: FloatArray) -> FloatArray:
    """Return the ratio of the checked runs' spread to the reference runs', from means of ρ, shape (m,); see the module.

    `reference_mean`, `observed_mean`: Mean ρ of reference runs with one another, and of checked runs with them.
    Result: At least 1; exactly 1 without a change, and if the reference runs do not correlate.
    """
    within = np.clip(reference_mean, 1e-3, 1 - 1e-9)
    across = np.clip(observed_mean, 1e-3, 1 - 1e-9)
    # ρ = 1 / (1 + a²) of reference runs, ((1 + a²)(1 + b²))^−½ of a checked with a reference run.
    noise, other_noise = 1 / within - 1, np.maximum(within / across**2 - 1, 0.0)
    shown = shown_spread(within)
    of_reference = _per_relative_noise(within, noise) * np.maximum(shown, _LEAST_NOISE) / shown
    ratio = _per_relative_noise(across, other_noise) / of_reference
    return np.asarray(np.where(reference_mean > 0, np.maximum(ratio, 1.0), 1.0), np.float64)


def _per_relative_noise(rho: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the derivative of z with respect to the logarithm of one run's noise; ln ρ = −½ ln(1 + a²) + …."""
    return np.asarray(fisher_slope(rho) * rho * noise / (1 + noise), np.float64)


def compare_outer_runs(
    reference: FloatArray,
    observed: FloatArray,
    pair_variance: FloatArray,
    *,
    intervals: int | None,
    alpha: float,
    together: bool = True,
) -> Comparison:
    """Compare outer correlations of checked runs with those of reference runs.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Mean ρ of each of k ≥ 3 reference runs with the
    others, and of each checked run with all reference runs.
    `pair_variance`: array of float64, shape (m,). From the function `pair_variance`.
    `alpha`: One-sided level of the interval's near bound; the far bound has half this level.
    `together`: Whether the m columns are metrics of the same runs, whose spreads are also judged together.
    """
    k, r = len(reference), len(observed)
    before, after = fisher(reference), fisher(observed)
    means = before.mean(axis=0), after.mean(axis=0)
    spread = outer_spreads(before, after, intervals)
    shared = pair_variance / (k * (k - 1))
    unchanged = pooled(spread.reference, spread.observed, k, r)
    error = np.sqrt(unchanged / k + shared + unchanged / r)
    of_errors = _wider_together(means, spread, k, r) if together else spread
    errors = outer_errors(means, of_errors, shared, (k, r), (k - 1, r - 1))
    freedom = np.full_like(shared, k + r - 2)
    return comparison(means, error, outer_bounds(means, errors, alpha), errors.near, freedom, spread.notes(k, r))


def outer_spreads(before: FloatArray, after: FloatArray, intervals: float | None) -> Spreads:
    """Return each side's variance between runs, from Fisher's z of outer values of k ≥ 3 and r runs, each (runs, m)."""
    k = len(before)
    return spreads(before, after, intervals, inflation=(k - 1) / (k - 2))


def _wider_together(means: tuple[FloatArray, FloatArray], spread: Spreads, k: int, r: int) -> Spreads:
    """Return the spreads, raising each metric's spread of checked runs if all metrics together show a wider spread.

    The typical ratio is the geometric mean over metrics, which one wide metric hardly moves; the logarithm of a sample
    variance with d degrees of freedom is on average digamma(d/2) − log(d/2) too low.
    """
    varying = ~spread.none & (spread.observed > NO_SPREAD**2)
    metrics = int(varying.sum())
    if r == 1 or metrics < _FEWEST_TOGETHER:
        return spread
    at_level = relative_spread(*map(from_fisher, means)) ** 2 * spread.reference
    logarithms = np.log(spread.observed[varying] / at_level[varying])
    typical = np.exp(logarithms.mean() - _log_bias(r - 1) + _log_bias(k - 1))
    if special.fdtrc(metrics * (r - 1), metrics * (k - 1), typical) >= _TOGETHER_LEVEL:
        return spread
    mixed = np.maximum(spread.observed, (1 - _TOGETHER) * spread.observed + _TOGETHER * typical * at_level)
    return replace(spread, observed=np.where(varying, mixed, spread.observed))


def _log_bias(freedom: int) -> float:
    return float(special.digamma(freedom / 2) - np.log(freedom / 2))


@dataclass(frozen=True)
class OuterErrors:
    """Errors of both means, assuming a change, by one or more methods: the widest interval counts."""

    near: tuple[MeanErrors, ...]  # Of the interval's end on the side of 0, and of the test of the tolerance
    far: tuple[MeanErrors, ...]  # Of the other end


def outer_errors(
    means: tuple[FloatArray, FloatArray],
    spread: Spreads,
    shared: FloatArray,
    runs: tuple[float | FloatArray, float | FloatArray],
    freedoms: tuple[float | FloatArray, float | FloatArray],
) -> OuterErrors:
    """Return the errors of both means, assuming a change: by the model of the level and by the runs' own spread.

    `means`: Means of reference and checked runs on Fisher's scale, shape (m,).
    `shared`: Variance of the reference's mean that its runs' spread does not show, shape (m,).
    `runs`: Numbers of reference and checked runs by which a run's variance is divided to give that of a mean.
    `freedoms`: Degrees of freedom of both spreads; 0 for checked runs without a spread of their own.
    """
    (k, r), (of_reference, of_checked) = runs, freedoms
    several = np.asarray(of_checked, np.float64) > 0
    own_freedom = np.maximum(of_checked, 1)
    # The error within a run, which replaces an unknown spread, is about the same at all levels.
    relative = np.where(spread.none, 1.0, relative_spread(*map(from_fisher, means)))
    most = spread.observed * own_freedom / special.chdtri(own_freedom, 1 - _UNLIKELY)
    at_most = np.maximum(_LEAST_SPREAD, np.sqrt(most / spread.reference))
    relative = np.where(several, np.minimum(relative, at_most), relative)
    freedom = np.asarray(of_reference + of_checked, np.float64) + np.zeros_like(relative)
    changed = (of_reference * spread.reference + of_checked * spread.observed / relative**2) / freedom
    counts = _counts(*means)
    known = np.sqrt(counts * (changed / k + shared)), relative * np.sqrt(changed / r)
    at_level = MeanErrors(*known, COUNTED * freedom)
    near, far = [at_level], [MeanErrors(*known, freedom)]
    if several.any():
        ratio = spread.observed / (relative**2 * spread.reference)
        probable = np.minimum(1, special.fdtrc(own_freedom, of_reference, ratio) / _IMPROBABLE)
        borrowed = np.minimum(_BORROWED * of_reference, _MOST_BORROWED * own_freedom) * probable
        own = (borrowed * relative**2 * spread.reference + own_freedom * spread.observed) / (borrowed + own_freedom)
        squares = counts * (spread.reference / k + shared), own / r
        by_own = welch_errors(means, squares, (of_reference, borrowed + own_freedom))
        near.append(by_own if several.all() else _either(several, by_own, near[0]))
        far.append(by_own if several.all() else _either(several, by_own, far[0]))
    return OuterErrors(tuple(near), tuple(far))


def _either(where: NDArray[np.bool_], errors: MeanErrors, otherwise: MeanErrors) -> MeanErrors:
    """Return `errors` where the condition holds, `otherwise` elsewhere."""
    return MeanErrors(*(np.where(where, *both) for both in zip(_fields(errors), _fields(otherwise), strict=True)))


def _fields(errors: MeanErrors) -> tuple[FloatArray, FloatArray, FloatArray]:
    return errors.reference, errors.observed, errors.freedom


def outer_bounds(
    means: tuple[FloatArray, FloatArray], errors: OuterErrors, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return the interval: the end on the side of 0 from the near errors, the other end from the far errors at α/2."""
    near_low, near_high = widest_bounds(*means, errors.near, alpha)
    far_low, far_high = widest_bounds(*means, errors.far, FAR_LEVEL * alpha)
    falls = means[1] < means[0]
    return np.where(falls, far_low, near_low), np.where(falls, near_high, far_high)


def _counts(reference_mean: FloatArray, observed_mean: FloatArray) -> FloatArray:
    """Return the factor that multiplies the squared error of the reference's mean; see the module's docstring."""
    return np.asarray((2 - following(reference_mean, observed_mean)) ** 2, np.float64)


def following(reference_mean: FloatArray, observed_mean: FloatArray) -> FloatArray:
    """Return γ of the module's docstring, 0 to 1: how far the checked runs' mean follows a deviating reference run."""

    def moved(mean: FloatArray) -> FloatArray:
        rho = from_fisher(mean)
        return np.asarray(np.maximum(rho, 0) * fisher_slope(rho), np.float64)

    before = moved(reference_mean)
    share = np.divide(moved(observed_mean), before, out=np.ones_like(before), where=before > 0)
    return np.asarray(np.clip(share, 0, 1), np.float64)


def reference_outer_rho(matrix: FloatArray) -> FloatArray:
    """Return each reference run's mean ρ with the other reference runs, aligned like a checked run, (runs, pairs)."""
    return from_fisher(matrix.sum(axis=0) / (len(matrix) - 1))


@dataclass(frozen=True)
class VarianceComponents:
    """Variance components of s_ij = a + b_i + b_j + e_ij: b of a run and e of a pair of runs; shape (pairs,)."""

    run: FloatArray
    pair: FloatArray


def variance_components(matrix: FloatArray) -> VarianceComponents:
    """Estimate the components from 4 or more runs by least squares; both directions of a pair are averaged."""
    k = len(matrix)
    pairs = (matrix + matrix.transpose(1, 0, 2)) / 2
    mean = pairs.sum(axis=(0, 1)) / (k * (k - 1))
    effect = (pairs.sum(axis=1) - (k - 1) * mean) / (k - 2)
    residual = pairs - mean - effect[:, None] - effect[None, :]
    residual[np.arange(k), np.arange(k)] = 0
    both = (residual**2).sum(axis=(0, 1)) / (k * (k - 3))
    # effect_i is b_i − b̄ plus (k − 1)/(k − 2) times the mean of k − 1 of the e; the expectation of its square is
    # solved for σ²_b.
    run = (effect**2).sum(axis=0) / (k - 1) - both / (k - 2)
    return VarianceComponents(np.maximum(run, 0.0), np.asarray(both, np.float64))


def pair_variance(matrix: FloatArray) -> FloatArray:
    """Return the variance of `outer_matrix` that belongs to pairs of runs and to no single run, shape (pairs,)."""
    return variance_components(matrix).pair


_KNOWN = 1e9
"""Degrees of freedom of a variance that is practically known: all runs are equal except for rounding."""


def compare_with_one_run(
    matrix: FloatArray, observed_z: FloatArray, *, intervals: int | None, alpha: float
) -> Comparison:
    """Compare outer correlations of checked runs with one other run to those between baseline runs.

    `matrix`: array of float64, shape (k, k, m). Fisher's z between k ≥ 4 baseline runs, from `outer_matrix`.
    `observed_z`: float64, shape (r, m). Fisher's z of r checked runs, each with the one run.

    In the model z_ij = a + b_i + b_j + e_ij of the module, the mean of r runs with the one run has the variance σ²_b +
    (σ²_b + σ²_e)/r, and the baseline's mean over its pairs has 4 σ²_b/k + 2 σ²_e/(k(k − 1)). The degrees of freedom are
    Satterthwaite's, from those of the two components, k − 1 and k(k − 3)/2. The one run's b does not average out over
    the checked runs, so more runs do not help much. Measured false alarms at 5 %: 4–5 % with 10 baseline runs; down to
    0 with 5 or 6 if most of the variation belongs to pairs of runs, because a variance component cannot be estimated
    below 0.
    """
    k, r = len(matrix), len(observed_z)
    parts = variance_components(matrix)
    none = np.sqrt(parts.run + parts.pair) < NO_SPREAD
    least, note = least_variance(intervals)
    parts = VarianceComponents(np.where(none, least, parts.run), parts.pair)
    means = matrix.sum(axis=(0, 1)) / (k * (k - 1)), observed_z.mean(axis=0)
    of_reference = 4 * parts.run / k + 2 * parts.pair / (k * (k - 1))
    of_observed = parts.run + (parts.run + parts.pair) / r
    # The estimates are S = σ²_b + σ²_e/(k − 2) and σ²_e: write the variance in these, with its degrees of freedom.
    of_run = 1 + 1 / r + 4 / k
    of_both = 1 / r + 2 / (k * (k - 1)) - of_run / (k - 2)
    spread = parts.run + parts.pair / (k - 2)
    variance = of_reference + of_observed
    known = (of_run * spread) ** 2 / (k - 1) + (of_both * parts.pair) ** 2 / (k * (k - 3) / 2)
    freedom = np.minimum(_KNOWN, variance**2 / np.maximum(known, np.finfo(np.float64).tiny))
    # The error within a run, which replaces an unknown spread, is about the same at all levels.
    relative = np.where(none, 1.0, relative_spread(*map(from_fisher, means)))
    errors = np.sqrt(of_reference), relative * np.sqrt(of_observed)
    at_level = OuterErrors((MeanErrors(*errors, COUNTED * freedom),), (MeanErrors(*errors, freedom),))
    notes = tuple(note if no_spread else "" for no_spread in none)
    bounds = outer_bounds(means, at_level, alpha)
    return comparison(means, np.sqrt(variance), bounds, at_level.near, freedom, notes)
