"""Which class each element of a run is of, given that a change of class has to pay.

By itself, each element would have the class in which it costs least. Two things then break phases up: values that happen to lie nearer to
another class, and intervals in which one phase ends and another begins, whose rates lie between and often near a third class. So the
classes of all elements are chosen together, such that values, changes of class and mixtures of two classes take the fewest bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.clustering import Clusters, Labels
from unperturbed.analysis.structure.scaling import FloatArray, Scaling
from unperturbed.analysis.structure.student import FREEDOM, student_peak

__all__ = ["Labelling", "change_bits", "label_alone", "label_together"]

_ROUNDS = 4
"""Of labelling and counting the changes again: most runs stay as they are after two."""

_PLACES = 16
"""Mixtures of two classes that are told apart."""

_MIXTURE_BITS = 1.0
"""Says at a change of class whether the interval before it is a mixture."""

_MODULE = "unperturbed.analysis.structure.labelling_kernels"
_ROWS = "float64[:, ::1]"
_SIGNATURE = f"{_ROWS}, boolean[::1], {_ROWS}, float64, {_ROWS}, float64[:, :, :, ::1], float64[:, :, ::1], {_ROWS}, float64"


@dataclass(frozen=True, eq=False)
class Labelling:
    """The class of each element.

    Attributes
    ----------
    labels : int64, shape (n,)
    mixed : bool, shape (n,)
        Elements in which one class gives way to the next; they are labelled as the one that they hold more of.
    bits : float64, shape (n,)
        What each costs in its class, or as a mixture.
    total : float
        What all cost, and the changes of class. Odd elements count as such.
    """

    labels: Labels
    mixed: NDArray[np.bool_]
    bits: FloatArray
    total: float


def change_bits(labels: Labels, classes: int) -> FloatArray:
    """Return what it costs to go from each class to each, by how often that happened: shape (classes, classes)."""
    seen = np.full((classes, classes), 0.5)  # Krichevsky and Trofimov's estimate
    np.add.at(seen, (labels[:-1], labels[1:]), 1)
    bits: FloatArray = -np.log2(seen / seen.sum(axis=1, keepdims=True))
    return bits


def label_alone(clusters: Clusters, scaled: FloatArray, told: NDArray[np.bool_]) -> Labelling:
    """Give each element the class in which it costs least; one that tells nothing has the class of the one before it."""
    costs = _costs(clusters, scaled, told)
    labels = np.argmin(costs + clusters.class_bits(), axis=1)
    known = np.flatnonzero(told)
    if len(known):
        before = np.searchsorted(known, np.arange(len(told)), "right") - 1
        labels = labels[known[np.maximum(before, 0)]]
    bits = costs[np.arange(len(costs)), labels]
    spent = np.minimum(bits, clusters.odd_bits).sum() + change_bits(labels, len(clusters))[labels[:-1], labels[1:]].sum()
    return Labelling(labels, np.zeros(len(told), bool), bits, float(spent))


def label_together(
    clusters: Clusters,
    scaling: Scaling,
    scaled: FloatArray,
    told: NDArray[np.bool_],
    changes: FloatArray | None = None,
    *,
    mixtures: bool,
) -> tuple[Labelling, FloatArray]:
    """Give all elements the classes that take the fewest bits together.

    Parameters
    ----------
    clusters, scaling : the classes, and the scale that they are on.
    scaled : float64, shape (n, metrics)
    told : bool, shape (n,)
        False where an element tells nothing.
    changes : float64, shape (k, k), optional
        See `change_bits`. None counts them in this run itself, starting with elements classified alone.
    mixtures : whether an element can be the one in which one class gives way to the next.

    Returns
    -------
    Labelling, changes
    """
    alone = label_alone(clusters, scaled, told)
    if not len(scaled):
        return alone, np.zeros((len(clusters), len(clusters))) if changes is None else changes
    costs = _costs(clusters, scaled, told)
    between, variances, peaks = _mixtures(clusters, scaling)
    if not mixtures:
        peaks = np.full_like(peaks, np.inf)
    search = compiled(_MODULE, "cheapest_labels", (_SIGNATURE,), calls=(), called="the labelling of phases")
    turned = np.ascontiguousarray(np.where(told[:, None], scaled, 0.0) @ clusters.axes)

    def cheapest(changes: FloatArray) -> Labelling:
        return Labelling(*search(turned, told, costs, clusters.odd_bits, changes, between, variances, peaks, FREEDOM))

    if changes is not None:
        return cheapest(changes), changes
    found = alone
    for _ in range(_ROUNDS):
        before, counted = found.labels, change_bits(found.labels, len(clusters))
        found = cheapest(counted)
        if np.array_equal(found.labels, before):
            break
    return found, counted


def _costs(clusters: Clusters, scaled: FloatArray, told: NDArray[np.bool_]) -> FloatArray:
    costs = np.zeros((len(scaled), len(clusters)))
    costs[told] = clusters.value_bits(scaled[told])
    return costs


def _mixtures(clusters: Clusters, scaling: Scaling) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return where mixtures of two classes lie, their variances, and what one costs that lies there, as `cheapest_labels` takes them.

    Rates of an interval that holds parts of two phases are the mean of both phases' rates, weighted by how much of each it holds: a
    straight line before scaling.
    """
    values = scaling.revert(clusters.centres)
    shares = ((np.arange(_PLACES) + 0.5) / _PLACES)[:, None]
    mixed = (1 - shares) * values[:, None, None] + shares * values[None, :, None]
    between = np.ascontiguousarray(scaling.apply(mixed) @ clusters.axes)
    # Half the way to the next place is not resolved.
    steps = np.abs(np.diff(between, axis=2)).mean(axis=2) / 2
    variances = np.ascontiguousarray(np.maximum(clusters.variances[:, None], clusters.variances[None]) + steps**2)
    peaks = np.array([[student_peak(one) for one in row] for row in variances])
    return between, variances, peaks + np.log2(_PLACES) + _MIXTURE_BITS
