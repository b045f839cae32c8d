"""Compiled loops of classification: fit of a class's centre, distances to classes, and the cheapest labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable


def fit_rounds(
    values: Any,
    centre: Any,
    variances: Any,
    least: Any,
    prior_weight: float,
    floor: Any,
    rounds: int,
    freedom: float,
) -> tuple[Any, Any]:
    """Return centre and variances after some rounds of reweighting, starting from the given ones (`fit_student_t`).

    `least` are the prior variances. `values` has the shape (n, metrics), all other arrays (metrics,).
    """
    n, metrics = values.shape
    centre, variances = centre.copy(), variances.copy()
    weights, sums = np.empty(n), np.empty(metrics)
    for _ in range(rounds):
        total = 0.0
        sums[:] = 0.0
        for row in range(n):
            weights[row] = (freedom + metrics) / (freedom + _distance(values, row, centre, variances))
            total += weights[row]
            for metric in range(metrics):
                sums[metric] += weights[row] * values[row, metric]
        for metric in range(metrics):
            centre[metric] = sums[metric] / total
        sums[:] = 0.0
        for row in range(n):
            for metric in range(metrics):
                away = values[row, metric] - centre[metric]
                sums[metric] += weights[row] * (away * away)
        for metric in range(metrics):
            variances[metric] = (sums[metric] + prior_weight * least[metric]) / (n + prior_weight) + floor[metric]
    return centre, variances


def class_distances(values: Any, centres: Any, variances: Any) -> Any:
    """Return squared distances from values (n, metrics) to centres (k, metrics) in standard deviations: (n, k)."""
    distances = np.empty((len(values), len(centres)))
    for row in range(len(values)):
        for column in range(len(centres)):
            distances[row, column] = _distance(values, row, centres[column], variances[column])
    return distances


@compilable
def _distance(values: Any, row: int, centre: Any, variances: Any) -> float:
    distance = 0.0
    for metric in range(len(centre)):
        away = values[row, metric] - centre[metric]
        distance += away * away / variances[metric]
    return distance


def cheapest_labels(
    values: Any,
    informative: Any,
    costs: Any,
    outlier: float,
    transitions: Any,
    between: Any,
    variances: Any,
    peaks: Any,
    freedom: float,
) -> tuple[Any, Any, Any, float]:
    """Return the classes of all elements that cost the fewest bits together.

    `values`: array of float64, shape (n, axes). Elements along the classes' axes.
    `informative`: array of bool, shape (n,). False for an element that is too short to have a class of its own.
    `costs`: array of float64, shape (n, k). Bits of each element in each class.
    `transitions`: array of float64, shape (k, k). Bits of a change from one class to another, or of staying.
    `between`: array of float64, shape (k, k, points, axes). Mixtures of two classes, from the first to the second.
    `variances`: array of float64, shape (k, k, axes). Variances of mixtures.
    `peaks`: array of float64, shape (k, k). Bits of an element exactly at a mixture; infinite if elements cannot be
    mixtures.
    Result `labels`: array of int64, shape (n,). A mixture has the class with the larger share in it.
    Result `mixed`: array of bool, shape (n,). Whether each element is a mixture.
    Result `bits`: array of float64, shape (n,). Bits of each element in its class, or as a mixture.
    Result `total`: Bits of all elements and transitions. No element counts more than an outlier.

    Notes
    -----
    Viterbi's recursion with an additional step: the cost of the first i elements, ending in class b, is

        c(i, b) = min(costs(i, b), outlier)
                  + min over a of transitions(a, b) + min(c(i − 1, a), c(i − 2, a) + mixture(i − 1, a, b)).

    On ties, the class with the lower number is chosen, and no mixture. O(n k² points axes).
    """
    n, classes = costs.shape
    previous = np.zeros((n, classes), np.int16)
    point = np.full((n, classes), -1, np.int16)
    # The rows c(i − 2, ·), c(i − 1, ·) and c(i, ·) of the recursion; three are enough, because `previous` and `point`
    # record the choices.
    earlier, before, now = np.full(classes, np.inf), np.minimum(costs[0], outlier), np.empty(classes)
    for i in range(1, n):
        for b in range(classes):
            least = np.inf
            for a in range(classes):
                spent = before[a] + transitions[a, b]
                if spent < least:
                    least, previous[i, b], point[i, b] = spent, a, -1
                # A mixture's own bits are computed only if they could still save bits: its peak is their lower bound.
                if a == b or not informative[i - 1] or earlier[a] + transitions[a, b] + peaks[a, b] >= least:
                    continue
                where, taken = _mixture(values[i - 1], between[a, b], variances[a, b], peaks[a, b], freedom)
                spent = earlier[a] + transitions[a, b] + taken
                if spent < least:
                    least, previous[i, b], point[i, b] = spent, a, where
            now[b] = least + min(costs[i, b], outlier)
        earlier, before, now = before, now, earlier
    labels = np.empty(n, np.int64)
    mixed = np.zeros(n, np.bool_)
    bits = np.empty(n)
    # Backtrack from the cheapest last class; a step over a mixture labels two elements.
    i, b = n - 1, int(np.argmin(before))
    while i >= 0:
        labels[i], bits[i] = b, costs[i, b]
        a, where = previous[i, b], point[i, b]
        if i > 0 and where >= 0:
            i -= 1
            mixed[i] = True
            labels[i] = a if 2 * where + 1 <= between.shape[2] else b
            _, bits[i] = _mixture(values[i], between[a, b], variances[a, b], peaks[a, b], freedom)
        i -= 1
        b = a
    return labels, mixed, bits, np.min(before)


@compilable
def _mixture(value: Any, points: Any, variances: Any, peak: float, freedom: float) -> tuple[int, float]:
    """Return the mixture of two classes that is nearest to an element, and the element's bits as this mixture."""
    nearest, where = np.inf, 0
    for at in range(len(points)):
        distance = 0.0
        for axis in range(len(value)):
            difference = value[axis] - points[at, axis]
            distance += difference * difference / variances[axis]
        if distance < nearest:
            nearest, where = distance, at
    return where, peak + (freedom + len(value)) / 2 * np.log2(1 + nearest / freedom)
