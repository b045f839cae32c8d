"""Outer correlations: a metric of one run against a metric of another run, after alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.alignment import WarpPath, align_as_paper, resample
from unperturbed.analysis.alignment.paper import PreparedRun, align_prepared
from unperturbed.analysis.parallel import choose_workers
from unperturbed.analysis.perturbation.compare import Comparison, MeanErrors, widest_bounds
from unperturbed.analysis.perturbation.correlation import (
    SIGNAL_TO_NOISE,
    FloatArray,
    compiled_correlate_along,
    correlate_ranks,
    fisher,
    from_fisher,
    pair_columns,
    standard_ranks,
)
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

OUTER_SCALE = SIGNAL_TO_NOISE
"""On which outer correlations are compared; see `compare`."""


@dataclass(frozen=True)
class OuterSettings:
    """How outer correlations are computed.

    Attributes
    ----------
    pairs : tuple of tuple of str
        Metrics (of one run, of the other); twice the same name for a metric against itself. Of two names, both ways are
        taken and averaged on Fisher's scale: neither run is special.
    align_on : tuple of str
        As for `unperturbed.analysis.alignment.align_as_paper`.
    anchor : str or None
        By which the verdicts were calibrated.
    literal : bool
        Correlate over the elements of the warp path, as section 2.3 reads literally. Then an interval that meets many
        counts many times, and the correlation of the aligning metric is flattered more. By default the other run's
        values are brought to the reference's intervals first (the mean where several meet one), and each interval
        counts once.
    """

    pairs: tuple[tuple[str, str], ...]
    align_on: tuple[str, ...] = ("IPC",)
    anchor: str | None = None
    literal: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names that occur in the pairs."""
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair))

    def align(self, reference: Trace, other: Trace) -> WarpPath:
        """Align two runs."""
        return align_as_paper(reference, other, on=self.align_on, anchor=self.anchor)

    def correlate(self, path: WarpPath, reference: FloatArray, other: FloatArray) -> FloatArray:
        """Correlate two runs' values of `metrics` along a path; Fisher's z, shape (pairs,).

        Values have shape (intervals, metrics).
        """
        if self.literal:
            first, second = standard_ranks(reference[path.x_index]), standard_ranks(other[path.y_index])
        else:
            first, second = standard_ranks(reference), standard_ranks(resample(path, other, len(reference)))
        one, two = pair_columns(self.metrics, self.pairs)
        z = fisher(correlate_ranks(first, second))
        return np.asarray((z[one, two] + z[two, one]) / 2, np.float64)


def outer_correlations(
    reference: Trace,
    other: Trace,
    metrics: Sequence[str],
    *,
    align_on: Sequence[str] = ("IPC",),
    anchor: str | None = None,
    literal: bool = False,
) -> FloatArray:
    """Correlate each metric of one run with the same metric of another run, aligned to it.

    Parameters
    ----------
    reference, other : Trace
        Any two runs of the same work; neither need be a baseline.
    metrics : sequence of str
        Names, present in both.
    align_on : sequence of str, default ('IPC',)
        Metrics that the runs are aligned on.
    anchor : str, optional
        Software metric whose events both paths must pass through.
    literal : bool, default False
        Correlate over the elements of the warp path; see `OuterSettings`.

    Returns
    -------
    array of float64, shape (metrics,)
        Spearman's ρ; NaN where a metric is constant.

    Notes
    -----
    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 2.3. ρ is near 1 only for a
    metric that varies with the work: one that is mostly noise correlates weakly between two unperturbed runs too, which
    is why the verdict compares with the baseline's own outer correlations and not with 1.
    """
    settings = OuterSettings(tuple((name, name) for name in metrics), tuple(align_on), anchor, literal)
    return from_fisher(
        settings.correlate(
            settings.align(reference, other), reference.values(settings.metrics), other.values(settings.metrics)
        )
    )


class _Values:
    """A run's values as each of its alignments needs them, prepared once.

    Attributes
    ----------
    rows : array of float64, shape (intervals, metrics)
        Of the metrics of the settings.
    columns, ascending : array, shape (metrics, intervals)
        The same a row a metric, and what sorts each.
    ranks : array of float64, shape (metrics, intervals)
        From `standard_ranks`.
    prepared : PreparedRun
        What its alignments need.
    """

    def __init__(self, trace: Trace, settings: OuterSettings) -> None:
        self.rows = np.asarray(trace.values(settings.metrics), np.float64)
        self.columns = np.ascontiguousarray(self.rows.T)
        self.ascending = np.argsort(self.columns, axis=1)
        self.ranks = np.ascontiguousarray(standard_ranks(self.rows).T)
        self.prepared = PreparedRun.of(trace, on=settings.align_on, anchor=settings.anchor)


def _correlation(settings: OuterSettings) -> Callable[[WarpPath, _Values, _Values], FloatArray]:
    """Return what correlates two runs along a path, as `OuterSettings.correlate` does; the usual case is compiled."""
    if settings.literal or any(first != second for first, second in settings.pairs):
        return lambda path, reference, other: settings.correlate(path, reference.rows, other.rows)
    along = compiled_correlate_along()

    def correlate(path: WarpPath, reference: _Values, other: _Values) -> FloatArray:
        starts = np.append(np.searchsorted(path.x_index, np.arange(len(reference.rows))), len(path))
        return fisher(along(starts, path.y_index, reference.ranks, other.columns, other.ascending))

    return correlate


def outer_matrix(traces: Sequence[Trace], settings: OuterSettings) -> FloatArray:
    """Return Fisher's z of each run against each other, shape (runs, runs, pairs).

    [i, j] is j aligned to i; [i, i] is 0.
    """
    values = [_Values(trace, settings) for trace in traces]
    pairs = [(i, j) for i in range(len(traces)) for j in range(i)]
    z = np.zeros((len(traces), len(traces), len(settings.pairs)))
    for (i, j), (there, back) in zip(pairs, _over_pairs(_both_ways, settings, values, values, pairs), strict=True):
        z[i, j], z[j, i] = there, back
    return z


def checked_outer_z(reference: Sequence[Trace], traces: Sequence[Trace], settings: OuterSettings) -> FloatArray:
    """Return Fisher's z of each checked run against each reference run, shape (reference runs, checked runs, pairs)."""
    values, checked = ([_Values(trace, settings) for trace in group] for group in (reference, traces))
    pairs = [(i, at) for at in range(len(traces)) for i in range(len(reference))]
    z = np.empty((len(reference), len(traces), len(settings.pairs)))
    for (i, at), found in zip(pairs, _over_pairs(_one_way, settings, values, checked, pairs), strict=True):
        z[i, at] = found
    return z


_CELLS_FOR_THREADS = 1 << 20
"""Of smaller matrices Python needs more time than the kernels: threads would wait for its lock."""
_CELL_S, _PAIR_S = 0.35e-9, 300e-6
"""Seconds that a cell takes, and a pair of runs beside its cells; only the choice of workers depends on them."""

_Pairs = Sequence[tuple[int, int]]
_Runs = tuple[OuterSettings, Sequence[_Values], Sequence[_Values]]


def _over_pairs(
    function: Callable[[_Runs, _Pairs], list[FloatArray]],
    settings: OuterSettings,
    first: Sequence[_Values],
    second: Sequence[_Values],
    pairs: _Pairs,
) -> list[FloatArray]:
    """Return what a function finds for pairs of one of the first runs and one of the second, in order."""
    if not pairs:
        return []
    cells = _cells(first[0], second[0])
    workers = choose_workers(kernels=cells >= _CELLS_FOR_THREADS, seconds=len(pairs) * (_PAIR_S + cells * _CELL_S))
    if workers.count > 1:
        from unperturbed.analysis.alignment.dtw import kernels  # noqa: PLC0415  loads the compiler

        kernels.prepare("path_through", first[0].prepared.rows)
        _correlation(settings)
    found: list[FloatArray] = []
    with closing(
        workers.map(function, (settings, first, second), [pairs[part] for part in workers.chunks(len(pairs))])
    ) as chunks:
        for chunk in chunks:
            found += chunk
    return found


def _cells(first: _Values, second: _Values) -> float:
    """Return about how many cells an alignment of two runs computes."""
    milestones = first.prepared.milestones
    segments = 1 if milestones is None else 1 + min(len(milestones.intervals), len(first.rows) // 2)
    return len(first.rows) * len(second.rows) / segments


def _both_ways(runs: _Runs, pairs: _Pairs) -> list[FloatArray]:
    """Return Fisher's z of pairs of runs, the second aligned to the first and the first to the second."""
    settings, first, second = runs
    correlate = _correlation(settings)
    found = []
    for i, j in pairs:
        path = align_prepared(first[i].prepared, second[j].prepared)
        found.append(np.stack((correlate(path, first[i], second[j]), correlate(path.swapped(), second[j], first[i]))))
    return found


def _one_way(runs: _Runs, pairs: _Pairs) -> list[FloatArray]:
    """Return Fisher's z of pairs of runs, the second aligned to the first."""
    settings, first, second = runs
    correlate = _correlation(settings)
    return [correlate(align_prepared(first[i].prepared, second[j].prepared), first[i], second[j]) for i, j in pairs]


def on_outer_scale(z: FloatArray) -> FloatArray:
    """Take Fisher's z to the scale on which outer correlations are compared."""
    return OUTER_SCALE.of_rho(from_fisher(z))


def reference_outer_rho(matrix: FloatArray) -> FloatArray:
    """Return each reference run's mean outer correlation with the others, as ρ, shape (runs, pairs).

    Run j is aligned to each other run i in turn, as a checked run would be: the mean over i ≠ j, on Fisher's scale.
    """
    return from_fisher(matrix.sum(axis=0) / (len(matrix) - 1))


@dataclass(frozen=True)
class VarianceComponents:
    """Variance components of s_ij = a + b_i + b_j + e_ij: of a run's b, and of e, which belongs to two runs.

    Arrays of shape (pairs,).
    """

    run: FloatArray
    pair: FloatArray


def variance_components(matrix: FloatArray) -> VarianceComponents:
    """Estimate the variance components of a matrix of runs by least squares; both directions of two are averaged.

    At least 4 runs are needed.
    """
    k = len(matrix)
    pairs = (matrix + matrix.transpose(1, 0, 2)) / 2
    mean = pairs.sum(axis=(0, 1)) / (k * (k - 1))
    effect = (pairs.sum(axis=1) - (k - 1) * mean) / (k - 2)
    residual = pairs - mean - effect[:, None] - effect[None, :]
    residual[np.arange(k), np.arange(k)] = 0
    both = (residual**2).sum(axis=(0, 1)) / (k * (k - 3))
    # effect_i holds b_i − b̄ and the mean of k − 1 of the e, taken k − 1 of k − 2 times; its square's expectation is
    # solved for σ²_b.
    run = (effect**2).sum(axis=0) / (k - 1) - both / (k - 2)
    return VarianceComponents(np.maximum(run, 0.0), np.asarray(both, np.float64))


def pair_variance(matrix: FloatArray) -> FloatArray:
    """Return how much variance of `outer_matrix` belongs to two runs together and to neither alone, shape (pairs,).

    On the scale on which outer correlations are compared.
    """
    return variance_components(on_outer_scale(matrix)).pair


_KNOWN = 1e9
"""Degrees of freedom of a variance that is as good as known, where all runs are equal but for rounding."""


def compare_with_one_run(matrix: FloatArray, observed_z: FloatArray, *, alpha: float) -> Comparison:
    """Compare outer correlations with one run with those of baseline runs with each other.

    The one run need not be a baseline.

    Parameters
    ----------
    matrix : array of float64, shape (k, k, m)
        K ≥ 4 Fisher's z between baseline runs, from `outer_matrix`.
    observed_z : float64, shape (r, m)
        Fisher's z of r checked runs, each against the one run.
    alpha : float
        Level of each one-sided bound.

    Notes
    -----
    In the model s_ij = a + b_i + b_j + e_ij of `outer`, the mean over r runs against one has the variance σ²_b + (σ²_b
    + σ²_e)/r, and the baseline's mean over its pairs 4 σ²_b/k + 2 σ²_e/(k(k − 1)). Degrees of freedom by Satterthwaite
    from those of the two parts, k − 1 and k(k − 3)/2. The one run's b does not average out, however many runs are held
    against it: more runs do not help much. False alarms at 5 %, measured: 4–5 % with 10 baseline runs; down to nothing
    with 5 or 6 where most of the variation belongs to pairs of runs, as a part of a variance cannot be estimated below
    0.
    """
    k, r = len(matrix), len(observed_z)
    outer = on_outer_scale(matrix)
    outer[np.arange(k), np.arange(k)] = 0
    parts = variance_components(outer)
    reference_mean = outer.sum(axis=(0, 1)) / (k * (k - 1))
    observed_mean = on_outer_scale(observed_z).mean(axis=0)
    of_reference = 4 * parts.run / k + 2 * parts.pair / (k * (k - 1))
    of_observed = parts.run + (parts.run + parts.pair) / r
    # What is estimated is S = σ²_b + σ²_e/(k − 2) and σ²_e: the variance in terms of these, and how well it is known.
    of_run = 1 + 1 / r + 4 / k
    of_both = 1 / r + 2 / (k * (k - 1)) - of_run / (k - 2)
    spread = parts.run + parts.pair / (k - 2)
    variance = of_reference + of_observed
    known = (of_run * spread) ** 2 / (k - 1) + (of_both * parts.pair) ** 2 / (k * (k - 3) / 2)
    freedom = np.minimum(_KNOWN, variance**2 / np.maximum(known, np.finfo(np.float64).tiny))
    standard_error = np.sqrt(variance)
    errors = MeanErrors(np.sqrt(of_reference), np.sqrt(of_observed), freedom)
    low, high = widest_bounds(OUTER_SCALE, reference_mean, observed_mean, [errors], alpha)
    return Comparison(
        scale=OUTER_SCALE,
        reference_mean=reference_mean,
        observed_mean=observed_mean,
        standard_error=standard_error,
        effect=OUTER_SCALE.to_rho(observed_mean) - OUTER_SCALE.to_rho(reference_mean),
        low=low,
        high=high,
        p=2 * special.stdtr(freedom, -np.abs(observed_mean - reference_mean) / standard_error),
        freedom=freedom,
        notes=("",) * len(observed_mean),
        tested=(errors,),
    )
