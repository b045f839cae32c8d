"""Outer correlations: a metric of one run against a metric of another run, after alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.alignment import WarpPath, align_as_paper, resample
from unperturbed.analysis.perturbation.correlation import FloatArray, correlate_ranks, fisher, from_fisher, standard_ranks
from unperturbed.collectors.trace import Trace

__all__ = [
    "Outer",
    "Variances",
    "outer_correlations",
    "outer_matrix",
    "outer_of_checked",
    "outer_of_reference",
    "pair_variance",
    "variances",
]


@dataclass(frozen=True)
class Outer:
    """How outer correlations are made.

    Attributes
    ----------
    pairs : metrics (of one run, of the other); twice the same name for a metric against itself. Of two names, both ways are taken and
        averaged on Fisher's scale: neither run is special.
    align_on, anchor : as for `unperturbed.analysis.alignment.align_as_paper`, by which the verdicts were calibrated.
    literal : correlate over the elements of the warp path, as section 2.3 reads literally. Then an interval that meets many counts many
        times, and the correlation of the aligning metric is flattered more. By default the other run's values are brought to the
        reference's intervals first (the mean where several meet one), and each interval counts once.
    """

    pairs: tuple[tuple[str, str], ...]
    align_on: tuple[str, ...] = ("IPC",)
    anchor: str | None = None
    literal: bool = False

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names that occur in the pairs."""
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair))

    def path(self, reference: Trace, other: Trace) -> WarpPath:
        """Align two runs."""
        return align_as_paper(reference, other, on=self.align_on, anchor=self.anchor)

    def along(self, path: WarpPath, reference: FloatArray, other: FloatArray) -> FloatArray:
        """Correlate two runs' values of `metrics`, shape (intervals, metrics) each, along a path; Fisher's z, shape (pairs,)."""
        if self.literal:
            first, second = standard_ranks(reference[path.x_index]), standard_ranks(other[path.y_index])
        else:
            first, second = standard_ranks(reference), standard_ranks(resample(path, other, len(reference)))
        column = {name: at for at, name in enumerate(self.metrics)}
        one, two = [column[name] for name, _ in self.pairs], [column[name] for _, name in self.pairs]
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
    reference, other : any two runs of the same work; neither need be a baseline.
    metrics : names, present in both.
    align_on, anchor, literal : see `Outer`.

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
    how = Outer(tuple((name, name) for name in metrics), tuple(align_on), anchor, literal)
    return from_fisher(how.along(how.path(reference, other), reference.values(how.metrics), other.values(how.metrics)))


def outer_matrix(traces: Sequence[Trace], how: Outer) -> FloatArray:
    """Return Fisher's z of each run against each other, shape (runs, runs, pairs); [i, j] is j aligned to i, [i, i] is 0."""
    values = [trace.values(how.metrics) for trace in traces]
    z = np.zeros((len(traces), len(traces), len(how.pairs)))
    for i, first in enumerate(traces):
        for j, second in enumerate(traces[:i]):
            path = how.path(first, second)
            z[i, j] = how.along(path, values[i], values[j])
            z[j, i] = how.along(path.swapped(), values[j], values[i])
    return z


def outer_of_checked(reference: Sequence[Trace], traces: Sequence[Trace], how: Outer) -> FloatArray:
    """Return Fisher's z of each checked run against each reference run, shape (reference runs, checked runs, pairs)."""
    values = [trace.values(how.metrics) for trace in reference]
    z = np.empty((len(reference), len(traces), len(how.pairs)))
    for at, trace in enumerate(traces):
        own = trace.values(how.metrics)
        for i, first in enumerate(reference):
            z[i, at] = how.along(how.path(first, trace), values[i], own)
    return z


def outer_of_reference(matrix: FloatArray) -> FloatArray:
    """Return each reference run's mean outer correlation with the others, shape (runs, pairs), as ρ, from `outer_matrix`.

    Run j is aligned to each other run i in turn, as a checked run would be: the mean over i ≠ j, on Fisher's scale.
    """
    return from_fisher(matrix.sum(axis=0) / (len(matrix) - 1))


@dataclass(frozen=True)
class Variances:
    """Parts of the variance of z_ij = a + b_i + b_j + e_ij, shape (pairs,) each: of a run's b, and of e, which belongs to two runs."""

    run: FloatArray
    both: FloatArray


def variances(matrix: FloatArray) -> Variances:
    """Split the variation of `outer_matrix` by least squares (at least 4 runs); both directions of two runs are averaged."""
    k = len(matrix)
    pairs = (matrix + matrix.transpose(1, 0, 2)) / 2
    mean = pairs.sum(axis=(0, 1)) / (k * (k - 1))
    effect = (pairs.sum(axis=1) - (k - 1) * mean) / (k - 2)
    residual = pairs - mean - effect[:, None] - effect[None, :]
    residual[np.arange(k), np.arange(k)] = 0
    both = (residual**2).sum(axis=(0, 1)) / (k * (k - 3))
    # effect_i holds b_i − b̄ and the mean of k − 1 of the e, taken k − 1 of k − 2 times; its square's expectation is solved for σ²_b.
    run = (effect**2).sum(axis=0) / (k - 1) - both / (k - 2)
    return Variances(np.maximum(run, 0.0), np.asarray(both, np.float64))


def pair_variance(matrix: FloatArray) -> FloatArray:
    """Return how much of the variation of `outer_matrix` belongs to two runs together and not to either, shape (pairs,)."""
    return variances(matrix).both
