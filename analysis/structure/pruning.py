"""Classes that a run does not need: those made of intervals in which one phase gives way to another.

Such intervals lie scattered between the classes, and k-means may gather them in one of their own. Told as what they are, mixtures of the
class before and the class behind, they often take fewer bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.clustering import Clusters
from unperturbed.analysis.structure.dwell import run_starts
from unperturbed.analysis.structure.labelling import Labelling, label_together
from unperturbed.analysis.structure.scaling import FloatArray, Scaling

__all__ = ["without_needless"]

_DWELL = 2.0
"""Classes whose runs have so many elements on average, or more, are no mixtures."""

_STRETCHES, _STRETCH = 8, 500
"""Of longer runs, so many stretches of so many elements are looked at, evenly spread."""


def without_needless(
    clusters: Clusters, scaling: Scaling, scaled: FloatArray, told: NDArray[np.bool_], *, mixtures: bool
) -> Clusters:
    """Leave out classes, one after the other, as long as the run takes fewer bits without.

    Parameters
    ----------
    clusters, scaling, scaled, told, mixtures : as for `label_together`.
    """
    looked_at = _stretches(len(scaled))
    values, known = scaled[looked_at], told[looked_at]

    def spent(classes: Clusters) -> tuple[float, Labelling]:
        labelling, _ = label_together(classes, scaling, values, known, mixtures=mixtures)
        return labelling.total + _own_bits(classes, len(values)), labelling

    least, labelling = spent(clusters)
    while len(clusters) > 1:
        tried = []
        for one in _short_lived(labelling.labels, clusters, clusters.nearest(values)):
            without = clusters.take(np.delete(np.arange(len(clusters)), one))
            tried.append((*spent(without), without))
        best = min(tried, key=lambda each: each[0], default=None)
        if best is None or best[0] >= least:
            break
        least, labelling, clusters = best
    return clusters


def _stretches(count: int) -> NDArray[np.int64]:
    if count <= _STRETCHES * _STRETCH:
        return np.arange(count)
    starts = np.linspace(0, count - _STRETCH, _STRETCHES).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(_STRETCH))


def _short_lived(labels: NDArray[np.int64], clusters: Clusters, alone: NDArray[np.int64]) -> list[int]:
    """Return classes that occur in these elements, and whose runs are short."""
    starts = run_starts(labels)
    runs = np.bincount(labels[starts], minlength=len(clusters))
    elements = np.bincount(labels, minlength=len(clusters))
    occurs = np.bincount(alone, minlength=len(clusters)) > 0
    return np.flatnonzero(occurs & (elements < _DWELL * runs + (runs == 0))).tolist()


def _own_bits(clusters: Clusters, elements: int) -> float:
    """Return what the classes themselves cost, and how often each gives way to each."""
    return clusters.own_bits() + len(clusters) * (len(clusters) - 1) / 2 * float(np.log2(elements))
