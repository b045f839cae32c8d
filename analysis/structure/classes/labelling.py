"""Choose the classes of all elements of a run jointly, such that a change of class has to pay.

On its own, each element would have the class in which it takes the fewest bits. Two things then break phases up: values
that happen to lie nearer to another class, and intervals in which one phase ends and another begins, whose rates lie
between and often near a third class. So the classes of all elements are chosen together, such that values, changes of
class and mixtures of two classes take the fewest bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.classes.clustering import Clusters, Labels
from unperturbed.analysis.structure.classes.scaling import FloatArray, Scaling
from unperturbed.analysis.structure.classes.student_t import DEGREES_OF_FREEDOM, student_t_peak_bits

_ROUNDS = 4
"""Of labelling and counting the transitions again: most runs stay as they are after two."""

_POINTS = 16
"""Mixtures between two classes that are distinguished."""

_MIXTURE_BITS = 1.0
"""At a change of class, whether the interval before it is a mixture."""

_MODULE = "unperturbed.analysis.structure.classes.kernels"
_ROWS = "const float64[:, ::1]"
_SIGNATURE = (
    f"{_ROWS}, const boolean[::1], {_ROWS}, float64, {_ROWS}, const float64[:, :, :, ::1], const float64[:, :, ::1], "
    f"{_ROWS}, float64"
)


@dataclass(frozen=True, eq=False)
class Labelling:
    """The class of each element."""

    labels: Labels  # (n,): Class of each element
    # (n,): Elements in which one class gives way to the next; they are labelled as the one that they have more of.
    mixed: NDArray[np.bool_]
    bits: FloatArray  # (n,): Of each element in its class, or as a mixture
    total: float  # Bits of all elements, outliers counted as such, and of the changes of class


def transition_bits(labels: Labels, classes: int) -> FloatArray:
    """Return the bits of going from each class to each, by how often that happened: shape (classes, classes)."""
    seen = np.full((classes, classes), 0.5)  # Krichevsky and Trofimov's estimate
    np.add.at(seen, (labels[:-1], labels[1:]), 1)
    bits: FloatArray = -np.log2(seen / seen.sum(axis=1, keepdims=True))
    return bits


def label_independently(clusters: Clusters, scaled: FloatArray, informative: NDArray[np.bool_]) -> Labelling:
    """Give each element the class of its fewest bits; one that is too short has the class of the one before it."""
    costs = _costs(clusters, scaled, informative)
    labels = np.argmin(costs + clusters.class_bits(), axis=1)
    known = np.flatnonzero(informative)
    if len(known):
        before = np.searchsorted(known, np.arange(len(informative)), "right") - 1
        labels = labels[known[np.maximum(before, 0)]]
    bits = costs[np.arange(len(costs)), labels]
    changes = transition_bits(labels, len(clusters))[labels[:-1], labels[1:]]
    total = np.minimum(bits, clusters.outlier_bits).sum() + changes.sum()
    return Labelling(labels, np.zeros(len(informative), bool), bits, float(total))


def label_jointly(
    clusters: Clusters,
    scaling: Scaling,
    scaled: FloatArray,
    informative: NDArray[np.bool_],
    transitions: FloatArray | None = None,
    *,
    mixtures: bool,
) -> tuple[Labelling, FloatArray]:
    """Give all elements the classes that take the fewest bits together.

    `scaled`: array of float64, shape (n, metrics). The elements on this scale.
    `informative`: array of bool, shape (n,). False where an element is too short to classify.
    `transitions`: array of float64, shape (k, k). See `transition_bits`. None counts them in this run itself, starting
    with elements classified independently.
    `mixtures`: Whether an element can be the one in which one class gives way to the next.
    Result `labelling`: The class of each element.
    Result `transitions`: array of float64, shape (k, k). Those that it was made with.
    """
    found = label_independently(clusters, scaled, informative)
    if not len(scaled):
        return found, np.zeros((len(clusters), len(clusters))) if transitions is None else transitions
    costs = _costs(clusters, scaled, informative)
    between, variances, peaks = _mixtures(clusters, scaling)
    if not mixtures:
        peaks = np.full_like(peaks, np.inf)
    search = compiled(_MODULE, "cheapest_labels", (_SIGNATURE,), called="the labelling of phases")
    turned = np.ascontiguousarray(np.where(informative[:, None], scaled, 0.0) @ clusters.axes)
    mixing = (between, variances, peaks, DEGREES_OF_FREEDOM)

    def cheapest(transitions: FloatArray) -> Labelling:
        return Labelling(*search(turned, informative, costs, clusters.outlier_bits, transitions, *mixing))

    if transitions is not None:
        return cheapest(transitions), transitions
    for _ in range(_ROUNDS):
        before, counted = found.labels, transition_bits(found.labels, len(clusters))
        found = cheapest(counted)
        if np.array_equal(found.labels, before):
            break
    return found, counted


def _costs(clusters: Clusters, scaled: FloatArray, informative: NDArray[np.bool_]) -> FloatArray:
    costs = np.zeros((len(scaled), len(clusters)))
    costs[informative] = clusters.value_bits(scaled[informative])
    return costs


def _mixtures(clusters: Clusters, scaling: Scaling) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return where mixtures of two classes lie, their variances, and the bits there, for `cheapest_labels`.

    Rates of an interval that has parts of two phases are the mean of both phases' rates, weighted by how much of each
    it has: a straight line before scaling.
    """
    values = scaling.revert(clusters.centres)
    shares = ((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
    mixed = (1 - shares) * values[:, None, None] + shares * values[None, :, None]
    between = np.ascontiguousarray(scaling.apply(mixed) @ clusters.axes)
    # Half the way to the next point is not resolved.
    steps = np.abs(np.diff(between, axis=2)).mean(axis=2) / 2
    variances = np.ascontiguousarray(np.maximum(clusters.variances[:, None], clusters.variances[None]) + steps**2)
    peaks = np.array([[student_t_peak_bits(one) for one in row] for row in variances])
    return between, variances, peaks + np.log2(_POINTS) + _MIXTURE_BITS
