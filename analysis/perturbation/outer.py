"""Outer correlations: a metric of one run against the same metric of another, after alignment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unperturbed.analysis.alignment import WarpPath, align_as_paper, resample
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher, standard_ranks
from unperturbed.collectors.trace import Trace

__all__ = ["outer_correlations", "outer_matrix", "outer_of_checked", "outer_of_reference", "pair_variance"]


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
    reference, other : any two runs of the same work; neither need be a baseline.
    metrics : names, present in both.
    align_on, anchor : as for `unperturbed.analysis.alignment.align_as_paper`, by which the verdicts were calibrated.
    literal : correlate over the elements of the warp path, as section 2.3 reads literally. Then an interval that meets many
        counts many times, and the correlation of the aligning metric is flattered more. By default the other run's values are
        brought to the reference's intervals first (the mean where several meet one), and each interval counts once.

    Returns
    -------
    float64, shape (metrics,)
        Spearman's ρ; NaN where a metric is constant.

    Notes
    -----
    Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 2.3. ρ is near 1 only for a metric
    that varies with the work: one that is mostly noise correlates weakly between two unperturbed runs too, which is why the
    verdict compares with the baseline's own outer correlations and not with 1.
    """
    path = align_as_paper(reference, other, on=align_on, anchor=anchor)
    return _along(path, reference.values(metrics), other.values(metrics), literal=literal)


def outer_matrix(
    traces: Sequence[Trace], metrics: Sequence[str], *, align_on: Sequence[str], anchor: str | None, literal: bool
) -> FloatArray:
    """Return Fisher's z of each run against each other, shape (runs, runs, metrics); [i, j] is j aligned to i, [i, i] is 0."""
    values = [trace.values(metrics) for trace in traces]
    z = np.zeros((len(traces), len(traces), len(metrics)))
    for i, first in enumerate(traces):
        for j, second in enumerate(traces[:i]):
            path = align_as_paper(first, second, on=align_on, anchor=anchor)
            z[i, j] = fisher(_along(path, values[i], values[j], literal=literal))
            z[j, i] = fisher(_along(path.swapped(), values[j], values[i], literal=literal))
    return z


def outer_of_reference(matrix: FloatArray) -> FloatArray:
    """Return each reference run's mean outer correlation with the others, shape (runs, metrics), as ρ, from `outer_matrix`.

    Run j is aligned to each other run i in turn, as a checked run would be: the mean over i ≠ j, on Fisher's scale.
    """
    return from_fisher(matrix.sum(axis=0) / (len(matrix) - 1))


def pair_variance(matrix: FloatArray) -> FloatArray:
    """Return how much of the variation of `outer_matrix` belongs to the pair and not to either run, shape (metrics,).

    The variance of e_ij in z_ij = a + b_i + b_j + e_ij, by least squares; both directions of a pair are averaged.
    """
    k = len(matrix)
    pairs = (matrix + matrix.transpose(1, 0, 2)) / 2
    mean = pairs.sum(axis=(0, 1)) / (k * (k - 1))
    effect = (pairs.sum(axis=1) - (k - 1) * mean) / (k - 2)
    residual = pairs - mean - effect[:, None] - effect[None, :]
    residual[np.arange(k), np.arange(k)] = 0
    return np.asarray((residual**2).sum(axis=(0, 1)) / (k * (k - 3)), np.float64)


def outer_of_checked(
    reference: Sequence[Trace],
    traces: Sequence[Trace],
    metrics: Sequence[str],
    *,
    align_on: Sequence[str],
    anchor: str | None,
    literal: bool,
) -> FloatArray:
    """Return each checked run's mean outer correlation with the reference runs, shape (runs, metrics), as ρ."""
    z = [
        [
            fisher(outer_correlations(first, trace, metrics, align_on=align_on, anchor=anchor, literal=literal))
            for first in reference
        ]
        for trace in traces
    ]
    return from_fisher(np.mean(z, axis=1))


def _along(path: WarpPath, reference: FloatArray, other: FloatArray, *, literal: bool) -> FloatArray:
    if literal:
        first, second = standard_ranks(reference[path.x_index]), standard_ranks(other[path.y_index])
    else:
        first, second = standard_ranks(reference), standard_ranks(resample(path, other, len(reference)))
    return np.asarray(np.clip(np.einsum("ij,ij->j", first, second), -1, 1), np.float64)
