"""Inner check with too few baseline runs: the variation between runs is estimated within each run.

The intervals of a trace are autocorrelated, so blocks of intervals are drawn instead of single intervals: the
stationary bootstrap of Politis and Romano (1994). Block lengths are geometric; their mean is estimated from the series
by the method of Politis and White (2004, corrected 2009 with Patton). All metrics are drawn together.

This is weaker evidence than a comparison of runs, and verdicts are labelled so: the bootstrap cannot see what differs
only between runs (memory layout, other load on the host). In simulations, its false alarms at 5 % are 4 to 11 % if runs
do not differ otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.metric_names import pair_name
from unperturbed.analysis.perturbation import comparable
from unperturbed.analysis.perturbation.compare import NO_SPREAD, Comparison, MeanErrors, comparison, widest_bounds
from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    correlate_ranks,
    fisher,
    pair_columns,
    standard_ranks,
)
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.verdict import RunGroup, Verdict, changes_from_comparison, combine, overhead
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")

RESAMPLES = 500
"""Number of bootstrap resamples: with 500, a standard error is accurate to 3 %."""

_SMALL = 2.0
"""Autocorrelations below this many standard errors count as 0 (Politis and White recommend 2)."""


_UNKNOWN = "its error cannot be estimated: one of the metrics has equal values in nearly all intervals of a run"
"""Why a pair has no interval."""

_ROUNDING = 1e-7
"""Spread of drawn ranks, as a share of their size, below which they are equal except for rounding."""


def block_length(series: FloatArray) -> float:
    """Estimate the optimal mean block length for the stationary bootstrap of a series' mean, in intervals.

    Politis and White, "Automatic block-length selection for the dependent bootstrap", Econometric Reviews 23 (2004), as
    corrected by Patton, Politis and White, Econometric Reviews 28 (2009): b = (2 Ĝ² / D̂)^(1/3) · n^(1/3), with D̂ = 2
    ĝ(0)² and a flat-top window.
    """
    n = len(series)
    longest = float(np.ceil(min(3 * np.sqrt(n), n / 3)))
    centred = series - series.mean()
    variance = centred @ centred / n
    if variance == 0:
        return 1.0
    quiet = max(5, int(np.ceil(np.sqrt(np.log10(n)))))
    lags = min(n - 1, int(np.ceil(np.sqrt(n))) + quiet)
    covariance = np.array([centred[: n - lag] @ centred[lag:] / n for lag in range(lags + 1)])
    small = np.abs(covariance[1:] / variance) < _SMALL * np.sqrt(np.log10(n) / n)
    # The first lag after which `quiet` autocorrelations in a row are small.
    behind = next((lag for lag in range(lags - quiet + 1) if small[lag : lag + quiet].all()), None)
    reach = min(2 * max(behind if behind is not None else int(np.flatnonzero(~small).max(initial=0)) + 1, 1), lags)
    at = np.arange(1, reach + 1)
    window = np.minimum(1.0, 2 * (1 - at / reach))  # 1 up to half the reach, then down to 0
    slope = 2 * (window * at * covariance[1 : reach + 1]).sum()
    spectrum = variance + 2 * (window * covariance[1 : reach + 1]).sum()
    if spectrum <= 0:
        return 1.0
    return float(np.clip((slope**2 / spectrum**2) ** (1 / 3) * n ** (1 / 3), 1.0, longest))


def bootstrap_error(
    ranks: FloatArray, first: Sequence[int], second: Sequence[int], rng: np.random.Generator
) -> FloatArray:
    """Return the standard error of Fisher's z for each pair of metrics within one run, shape (pairs,).

    `ranks`: float64, shape (intervals, metrics). From `standard_ranks`. Ranks are drawn, and not computed again:
    Spearman's coefficient is Pearson's of the ranks. In a resample that draws only equal values of a metric, its pairs
    have no coefficient; it is left out.
    Result: NaN for a pair with a coefficient in fewer than two resamples.
    """
    products = ranks[:, first] * ranks[:, second]
    mean_length = max(block_length(column) for column in products.T)
    drawn = _drawn(len(ranks), mean_length, rng)
    sums, two, square = drawn @ ranks, drawn @ products, drawn @ ranks**2
    # The sum of equal ranks has rounding errors, so a spread below them is none.
    spread = np.sqrt(np.maximum(square - sums**2 / len(ranks), 0))
    varies = spread > _ROUNDING * np.sqrt(square)
    covariance = two - sums[:, first] * sums[:, second] / len(ranks)
    has_rho = varies[:, first] & varies[:, second]
    # Not the root of the product of both variances: the product of small ones is 0.
    rho = covariance / np.where(has_rho, spread[:, first] * spread[:, second], 1.0)
    z = np.where(has_rho, fisher(np.clip(rho, -1, 1)), 0.0)
    count = has_rho.sum(axis=0)
    mean = z.sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(has_rho, z - mean, 0.0) ** 2).sum(axis=0)
    return np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)


def _drawn(n: int, mean_length: float, rng: np.random.Generator) -> FloatArray:
    """Return how often each of n intervals is drawn in each resample, shape (RESAMPLES, n)."""
    begins, ends = [], []
    for row in range(RESAMPLES):
        starts, lengths = _blocks(n, mean_length, rng)
        starts += 2 * n * row
        begins.append(starts)
        ends.append(starts + lengths)
    # The count rises by one where a block begins and falls by one where it ends; blocks beyond n wrap around.
    size = RESAMPLES * 2 * n + 1
    changes = np.bincount(np.concatenate(begins), minlength=size) - np.bincount(np.concatenate(ends), minlength=size)
    counts = np.cumsum(changes[:-1].reshape(RESAMPLES, 2 * n), axis=1)
    return (counts[:, :n] + counts[:, n:]).astype(np.float64)


def _blocks(n: int, mean_length: float, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw blocks of geometric length with n intervals in total; return their starts (anywhere) and lengths."""
    lengths = rng.geometric(1 / mean_length, max(1, int(2 * n / mean_length) + 20))
    while (ends := lengths.cumsum())[-1] < n:
        lengths = np.append(lengths, rng.geometric(1 / mean_length, len(lengths)))
    used = int(ends.searchsorted(n)) + 1
    lengths = lengths[:used]
    lengths[-1] -= ends[used - 1] - n
    return rng.integers(0, n, used), lengths


def compare_by_bootstrap(
    reference: FloatArray, observed: FloatArray, errors: tuple[FloatArray, FloatArray], *, alpha: float
) -> Comparison:
    """Compare coefficients of few runs by the error within runs, or by the spread between runs if it is wider.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Spearman's ρ, one row for each run.
    `errors`: Standard errors of both sides on Fisher's scale, same shapes; from `bootstrap_error`.

    If a side has two or more runs, their spread is also known, with k + r − 2 degrees of freedom. The larger p and the
    wider interval of both methods count: the error within runs misses what differs between runs, and the spread of few
    runs is inaccurate.
    """
    k, r = len(reference), len(observed)
    before, after = fisher(reference), fisher(observed)
    means = before.mean(axis=0), after.mean(axis=0)
    effect_z = np.abs(means[1] - means[0])
    first, second = (np.sqrt((error**2).sum(axis=0)) / len(error) for error in errors)
    standard_error = np.hypot(first, second)
    freedom = np.full_like(effect_z, np.inf)
    ways = [MeanErrors(first, second, freedom)]
    p = 2 * special.ndtr(-effect_z / standard_error)
    if k + r > 2:
        deviations = np.vstack((before - means[0], after - means[1]))
        spread = np.sqrt((deviations**2).sum(axis=0) / (k + r - 2))
        other_error = spread * np.sqrt(1 / k + 1 / r)
        ways.append(MeanErrors(spread / np.sqrt(k), spread / np.sqrt(r), np.full_like(effect_z, k + r - 2)))
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.fmax(p, 2 * special.stdtr(k + r - 2, -effect_z / other_error))
        wider = other_error > standard_error
        standard_error, freedom = np.maximum(standard_error, other_error), np.where(wider, k + r - 2, np.inf)
    low, high = widest_bounds(*means, ways, alpha)
    return replace(comparison(means, standard_error, (low, high), ways, freedom, ("",) * len(effect_z)), p=p)


def inner_by_bootstrap(
    reference: Trace | Sequence[Trace],
    traces: Trace | Sequence[Trace],
    *,
    metrics: Sequence[str] | None = None,
    focus: Sequence[str] | None = None,
    met: Collection[frozenset[str]] | None = None,
    alpha: float = 0.05,
    tolerance: float = 0.1,
    name: str = "baseline",
    seed: int = 1,
) -> Verdict:
    """Check whether correlations within a run changed, with as few as one baseline run.

    Parameters
    ----------
    reference : Trace or sequence of Trace
        Baseline runs; with 5 or more, use `Baseline` instead.
    traces : Trace or sequence of Trace
        One or more runs of one configuration.
    metrics : sequence of str, optional
        Compare only these metrics, as for `Baseline`.
    focus : sequence of str, optional
        Compare only pairs that include one of these metrics.
    met : collection of frozenset of str, optional
        Pairs that are compared elsewhere, as for `Baseline`.
    alpha : float, default 0.05
        Family-wise level of *perturbed*.
    tolerance : float, default 0.1
        Largest |Δρ| that counts as no perturbation.
    name : str, default "baseline"
        Name of the baseline, for reports.
    seed : int, default 1
        Seed of the bootstrap.

    Returns
    -------
    Verdict
        `method` is "bootstrap", and `notes` state that the evidence is weaker: the variation between runs is estimated
        within runs, and from few runs. More baseline runs help.

    Raises
    ------
    DataError
        There is no run, runs cannot be compared, no metric varies, or a value is not finite.
    """
    before = (reference,) if isinstance(reference, Trace) else tuple(reference)
    after = (traces,) if isinstance(traces, Trace) else tuple(traces)
    if not before or not after:
        raise DataError(f"{name}: there is no {'run to check' if before else 'baseline run'}: give at least one")
    before_runs, after_runs = comparable.run_names(before, name), comparable.run_names(after, "checked")
    names, excluded = comparable.compared_metrics(before[0], metrics)
    values, flat = comparable.comparable_values(before[0], (*before, *after), (*before_runs, *after_runs), names)
    kept = [at for at, metric in enumerate(names) if metric not in flat]
    varying = [names[at] for at in kept]
    pairs, built_in = comparable.compared_pairs(
        [before[0].metrics[metric] for metric in varying], varying if focus is None else focus, met
    )
    if not pairs:
        needed = "both metrics of a pair must vary, and they must not count the same events"
        if focus is not None:
            needed += "; `focus` must name at least one of them"
        raise DataError(f"{name}: no pair of metrics can be compared ({needed}): measure more hardware metrics")
    first, second = pair_columns(varying, pairs)
    rng = np.random.default_rng(seed)
    ranks = [standard_ranks(rows[:, kept]) for rows in values]
    rho = np.array([correlate_ranks(run, run)[first, second] for run in ranks])
    errors = np.array([bootstrap_error(run, first, second, rng) for run in ranks])
    known = np.flatnonzero(np.isfinite(errors).all(axis=0))
    unknown = tuple((pair_name(*pair), _UNKNOWN) for at, pair in enumerate(pairs) if at not in known)
    pairs, rho, errors = tuple(pairs[at] for at in known), rho[:, known], errors[:, known]
    # The same coefficient in all resamples is that of metrics that move together; their error is not 0.
    errors = np.where(errors < NO_SPREAD, [[1 / math.sqrt(max(1, len(run) - 3))] for run in ranks], errors)
    k = len(before)
    configuration = str(after[0].attributes.get("configuration", "checked"))
    changes = decide(
        changes_from_comparison(
            "inner",
            pairs,
            RunGroup(name, before_runs, rho[:k]),
            RunGroup(configuration, after_runs, rho[k:]),
            compare_by_bootstrap(rho[:k], rho[k:], (errors[:k], errors[k:]), alpha=alpha),
            tolerance=tolerance,
            more_runs_help=False,
        ),
        alpha=alpha,
    )
    count = "one baseline run" if k == 1 else f"{k} baseline runs"
    return Verdict(
        configuration=configuration,
        reference=name,
        verdict=combine((change.verdict for change in changes), lost=bool(flat) or bool(unknown)),
        changes=changes,
        excluded=tuple(chain(excluded, flat.items(), unknown, built_in)),
        overhead=overhead(before, after),
        alpha=alpha,
        level=1 - 2 * alpha,
        tolerance=tolerance,
        lost=(*flat.items(), *unknown),
        method="bootstrap",
        notes=(
            f"{count}: the variation between runs was estimated within runs, by a block bootstrap. With 5 or more "
            "baseline runs, the evidence is stronger",
        ),
    )
