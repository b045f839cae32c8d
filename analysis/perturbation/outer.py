"""Outer correlations: a metric of one run with a metric of another run, after alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.alignment import WarpPath, align_as_paper, resample
from unperturbed.analysis.alignment.prepared_runs import PreparedRun, align_prepared
from unperturbed.analysis.parallel import choose_workers
from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    compiled_correlate_along,
    correlate_ranks,
    fisher,
    from_fisher,
    pair_columns,
    standard_ranks,
)
from unperturbed.collectors.data import Trace


@dataclass(frozen=True)
class OuterSettings:
    """Settings for the computation of outer correlations."""

    # A metric of one run and a metric of the other; the same name twice for a metric with itself. For two names, both
    # directions are averaged on Fisher's scale, so neither run is special.
    pairs: tuple[tuple[str, str], ...]
    align_on: tuple[str, ...] = ("IPC",)  # See `align_as_paper`; the verdicts were calibrated with it
    anchor: str | None = None  # See `align_as_paper`
    # Correlate over the elements of the warp path, the literal meaning of section 2.3. Then an interval that is aligned
    # to many counts many times, and the correlation of the aligning metric is inflated more. By default, the other
    # run's values are first resampled to the reference's intervals (the mean if several are aligned to one), and each
    # interval counts once.
    literal: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of all metrics in the pairs."""
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair))

    def align(self, reference: Trace, other: Trace) -> WarpPath:
        """Align two runs."""
        return align_as_paper(reference, other, on=self.align_on, anchor=self.anchor)

    def correlate(self, path: WarpPath, reference: FloatArray, other: FloatArray) -> FloatArray:
        """Return Fisher's z of the pairs, (pairs,), from two runs' values, (intervals, metrics), along a path."""
        if self.literal:
            first, second = standard_ranks(reference[path.x_index]), standard_ranks(other[path.y_index])
        else:
            first, second = standard_ranks(reference), standard_ranks(resample(path, other, len(reference)))
        left, two = pair_columns(self.metrics, self.pairs)
        z = fisher(correlate_ranks(first, second))
        return np.asarray((z[left, two] + z[two, left]) / 2, np.float64)


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
        Any two runs of the same work; neither needs to be a baseline run.
    metrics : sequence of str
        Names of metrics of both runs.
    align_on : sequence of str, default ('IPC',)
        Metrics that the runs are aligned on.
    anchor : str, optional
        Software metric whose events both paths must pass through.
    literal : bool, default False
        Correlate over the elements of the warp path; see `OuterSettings`.

    Returns
    -------
    array of float64, shape (metrics,)
        Spearman's ρ; NaN if a metric is constant.

    Notes
    -----
    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 2.3. ρ is near 1 only for a
    metric that varies with the work. A metric that is mostly noise correlates weakly even between two unperturbed runs,
    so the verdict compares with the baseline's own outer correlations, not with 1.
    """
    settings = OuterSettings(tuple((name, name) for name in metrics), tuple(align_on), anchor, literal)
    return from_fisher(
        settings.correlate(
            settings.align(reference, other), reference.values(settings.metrics), other.values(settings.metrics)
        )
    )


class _Values:
    """Values of a run, prepared once for all of its alignments."""

    def __init__(self, trace: Trace, settings: OuterSettings) -> None:
        self.rows = np.asarray(trace.values(settings.metrics), np.float64)  # (intervals, metrics)
        self.columns = np.ascontiguousarray(self.rows.T)  # (metrics, intervals)
        self.ascending = np.argsort(self.columns, axis=1)  # indices that sort each row of `columns`
        self.ranks = np.ascontiguousarray(standard_ranks(self.rows).T)  # (metrics, intervals)
        self.prepared = PreparedRun.of(trace, on=settings.align_on, anchor=settings.anchor)


def _correlation(settings: OuterSettings) -> Callable[[WarpPath, _Values, _Values], FloatArray]:
    """Return the function that correlates two runs along a path; the usual case is compiled."""
    if settings.literal or any(first != second for first, second in settings.pairs):
        return lambda path, reference, other: settings.correlate(path, reference.rows, other.rows)
    along = compiled_correlate_along()

    def correlate(path: WarpPath, reference: _Values, other: _Values) -> FloatArray:
        starts = np.append(np.searchsorted(path.x_index, np.arange(len(reference.rows))), len(path))
        return fisher(along(starts, path.y_index, reference.ranks, other.columns, other.ascending))

    return correlate


def outer_matrix(traces: Sequence[Trace], settings: OuterSettings) -> FloatArray:
    """Return Fisher's z of run j aligned to run i at [i, j], 0 at [i, i]: shape (runs, runs, pairs)."""
    values = [_Values(trace, settings) for trace in traces]
    pairs = [(i, j) for i in range(len(traces)) for j in range(i)]
    z = np.zeros((len(traces), len(traces), len(settings.pairs)))
    for (i, j), (there, back) in zip(pairs, _over_pairs((settings, values, values, True), pairs), strict=True):
        z[i, j], z[j, i] = there, back
    return z


def checked_outer_z(reference: Sequence[Trace], traces: Sequence[Trace], settings: OuterSettings) -> FloatArray:
    """Return Fisher's z of each checked run with each reference run, shape (reference runs, checked runs, pairs)."""
    values, checked = ([_Values(trace, settings) for trace in group] for group in (reference, traces))
    pairs = [(i, at) for at in range(len(traces)) for i in range(len(reference))]
    z = np.empty((len(reference), len(traces), len(settings.pairs)))
    for (i, at), (there,) in zip(pairs, _over_pairs((settings, values, checked, False), pairs), strict=True):
        z[i, at] = there
    return z


_CELLS_FOR_THREADS = 1 << 20
"""Minimum number of cells to use threads: with fewer, threads would mostly wait for Python's lock."""
_CELL_S, _PAIR_S = 0.35e-9, 300e-6
"""Seconds for a cell, and for a pair of runs in addition to its cells; only the choice of workers depends on them."""

_Pairs = Sequence[tuple[int, int]]
_Runs = tuple[OuterSettings, Sequence[_Values], Sequence[_Values], bool]
"""Settings, first runs, second runs, and whether to compute both directions of a pair."""


def _over_pairs(runs: _Runs, pairs: _Pairs) -> list[tuple[FloatArray, ...]]:
    """Return the correlations of all pairs of a first run and a second run, in order, using several workers."""
    if not pairs:
        return []
    settings, first, second, _ = runs
    cells = _cells(first[0], second[0])
    workers = choose_workers(kernels=cells >= _CELLS_FOR_THREADS, seconds=len(pairs) * (_PAIR_S + cells * _CELL_S))
    if workers.count > 1:
        from unperturbed.analysis.alignment.dtw import kernels  # noqa: PLC0415  loads the compiler

        kernels.prepare("path_through", first[0].prepared.rows)
        _correlation(settings)
    parts = [pairs[part] for part in workers.chunks(len(pairs))]
    with closing(workers.map(_correlations, runs, parts)) as in_order:
        return [correlations for chunk in in_order for correlations in chunk]


def _cells(first: _Values, second: _Values) -> float:
    """Estimate the number of cells that an alignment of two runs computes."""
    milestones = first.prepared.milestones
    segments = 1 if milestones is None else 1 + min(len(milestones.intervals), len(first.rows) // 2)
    return len(first.rows) * len(second.rows) / segments


def _correlations(runs: _Runs, pairs: _Pairs) -> list[tuple[FloatArray, ...]]:
    """Return Fisher's z of pairs of runs, the second aligned to the first, and on request the reverse."""
    settings, first, second, both_ways = runs
    correlate = _correlation(settings)
    correlations: list[tuple[FloatArray, ...]] = []
    for i, j in pairs:
        path = align_prepared(first[i].prepared, second[j].prepared)
        there = correlate(path, first[i], second[j])
        correlations.append((there, correlate(path.swapped(), second[j], first[i])) if both_ways else (there,))
    return correlations
