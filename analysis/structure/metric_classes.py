"""Classes of intervals by several metrics: found by k-means, named by what is high and low in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.class_names import class_names, place_names
from unperturbed.analysis.structure.classes import Classes, letter_of, rows_of
from unperturbed.analysis.structure.clustering import Clusters, cluster, refitted
from unperturbed.analysis.structure.labelling import Labelling, change_bits, label_alone, label_together
from unperturbed.analysis.structure.pruning import without_needless
from unperturbed.analysis.structure.scaling import RESOLUTION, FloatArray, Scaling, scaling_of

__all__ = ["MetricClasses", "metric_classes"]

_REFITS = 2
"""Of classes without the mixtures that k-means could not tell from them."""


_FAR_BITS, _FAR_SHARE = 5.0, 0.99
"""An element is unlike all classes when it costs so many bits more than this share of those that the classes were found in: some six standard
deviations."""


@dataclass(frozen=True, eq=False)
class MetricClasses(Classes):
    """Classes of values.

    Attributes
    ----------
    metrics : tuple of str
    per : str, optional
        What rates were taken of; None where values were taken as they are.
    scaling : Scaling
    clusters : Clusters
        On that scale.
    changes : float64, shape (k, k)
        Bits of going from one class to another, or staying.
    far : float
        Bits from which on an element is unlike all classes.
    saved_bits : float
        What the classes save of the description length of the values they were found in.
    """

    metrics: tuple[str, ...]
    per: str | None
    scaling: Scaling
    clusters: Clusters
    changes: FloatArray
    far: float
    saved_bits: float

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What is high and low in each class, rates and not counts; of a single value that is no rate, where the classes lie."""
        if self.per is None and len(self.metrics) == 1:
            return place_names(self.centres[:, 0], self.metrics[0])
        return class_names(self.clusters.centres, self.metrics)

    @cached_property
    def centres(self) -> FloatArray:
        """Value of each metric in the middle of each class: shape (k, metrics)."""
        return self.scaling.revert(self.clusters.centres)

    def assign(self, values: ArrayLike) -> NDArray[np.int32]:
        """Return the class of each value by itself, of shape (n, metrics), or (n,) for one metric."""
        return self.clusters.nearest(self.scaling.apply(rows_of(values, self.metrics))).astype(np.int32)

    def label(self, values: FloatArray, told: NDArray[np.bool_], *, together: bool, mixtures: bool = True) -> Labelling:
        """Return the class of each element of a run.

        Parameters
        ----------
        values : float64, shape (n, metrics)
            Finite.
        told : bool, shape (n,)
            False where an element tells nothing.
        together : whether a change of class has to pay, see `label_together`; otherwise each element is classified by itself.
        mixtures : whether an element can be one in which one class gives way to the next.
        """
        scaled = self.scaling.apply(values)
        if not together:
            return label_alone(self.clusters, scaled, told)
        return label_together(self.clusters, self.scaling, scaled, told, self.changes, mixtures=mixtures)[0]

    def describe(self) -> tuple[str, ...]:
        """Return a line for each class: letter, name, and the metrics in its middle."""
        unit = f" (per {'ns' if self.per == 'time' else self.per})" if self.per else ""
        lines = []
        for number, name in enumerate(self.names):
            middles = ", ".join(
                f"{metric} {value:.4g}" for metric, value in zip(self.metrics, self.centres[number], strict=True)
            )
            lines.append(f"{letter_of(number)}  {name}: {middles}{unit}")
        return tuple(lines)


def metric_classes(
    values: FloatArray,
    told: NDArray[np.bool_],
    metrics: Sequence[str],
    *,
    per: str | None,
    grain: FloatArray,
    count: int | None,
    together: bool,
    mixtures: bool,
    seed: int,
) -> MetricClasses:
    """Find classes of the elements of a run.

    Parameters
    ----------
    values, told : see `MetricClasses.label`; at least one element tells something.
    metrics, per : what the values are.
    grain : float64, shape (metrics,)
        What one event adds to a value; 0 for what is no count. Counts of a few events are as uncertain as counts are, their variance
        being no less than their mean.
    count : classes, or None for as many as take the fewest bits.
    together, mixtures : as for `MetricClasses.label`.
    seed : of all that is random.

    Returns
    -------
    MetricClasses
        In the order in which they first appear in the run.
    """
    scaling = scaling_of(values[told])

    def floor(place: FloatArray) -> FloatArray:
        middle = scaling.revert(place[None])[0]
        variance = grain * np.maximum(np.abs(middle), grain)
        least: FloatArray = RESOLUTION**2 + variance * scaling.slope(middle[None])[0] ** 2
        return least

    scaled = scaling.apply(values)
    rng = np.random.default_rng(seed)
    clusters, saved = cluster(scaled[told], floor, classes=count, rng=rng)
    if together:
        if count is None:
            clusters = without_needless(clusters, scaling, scaled, told, mixtures=mixtures)
        for _ in range(_REFITS if mixtures else 0):
            labelling, _ = label_together(clusters, scaling, scaled, told, mixtures=True)
            whole = told & ~labelling.mixed
            again = refitted(scaled[whole], labelling.labels[whole], floor)
            if count is not None and len(again) < len(clusters):
                break  # so many were asked for
            clusters = again
        labelling, changes = label_together(clusters, scaling, scaled, told, mixtures=mixtures)
    else:
        labelling = label_alone(clusters, scaled, told)
        changes = change_bits(labelling.labels, len(clusters))
    far = float(np.quantile(labelling.bits[told], _FAR_SHARE)) + _FAR_BITS
    order = _by_appearance(labelling.labels, len(clusters))
    return MetricClasses(tuple(metrics), per, scaling, clusters.take(order), changes[np.ix_(order, order)], far, saved)


def _by_appearance(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the classes in the order in which they first appear; those that never do come last."""
    first = np.full(classes, len(labels))
    np.minimum.at(first, labels, np.arange(len(labels)))
    order: NDArray[np.int64] = np.argsort(first, kind="stable")
    return order
