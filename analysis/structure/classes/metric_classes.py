"""Classes of intervals by several metrics: find classes by clustering, prune and name them, label a run.

Classified independently, each element would have the class in which it takes the fewest bits. But phases would be
interrupted, by values that happen to be nearer to a different class, and by intervals in which one phase changes to the
next, whose rates are in between and often near a third class. So the classes of all elements are chosen together, such
that values, changes of class and mixtures of two classes take the fewest bits (`label_jointly`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.classes.classifiers import (
    Classes,
    class_names,
    location_names,
    metric_rows,
)
from unperturbed.analysis.structure.classes.clustering import (
    DEGREES_OF_FREEDOM,
    Clusters,
    Labels,
    cluster,
    refit,
    student_t_peak_bits,
)
from unperturbed.analysis.structure.classes.scaling import RESOLUTION, FloatArray, Scaling, choose_scaling

_ROUNDS = 4
"""Maximum rounds of labelling and counting transitions; most runs do not change after two rounds."""

_POINTS = 16
"""Number of different mixtures between two classes."""

_MIXTURE_BITS = 1.0
"""Bits that encode, at a change of class, whether the interval before it is a mixture."""

_MODULE = "unperturbed.analysis.structure.classes.kernels"
_ROWS = "const float64[:, ::1]"
_SIGNATURE = (
    f"{_ROWS}, const boolean[::1], {_ROWS}, float64, {_ROWS}, const float64[:, :, :, ::1], const float64[:, :, ::1], "
    f"{_ROWS}, float64"
)


@dataclass(frozen=True, eq=False)
class Rates:
    """Elements as numbers; metrics of intervals are rates."""

    metrics: tuple[str, ...]
    per: str | None  # Divisor of rates; None if values were not divided
    values: FloatArray  # (n, metrics): Finite values
    informative: NDArray[np.bool_]  # (n,): False for an interval that is too short to classify
    # (metrics,): Increase of a value by one event, in the median interval; 0 if the metric is not a count. Counts of
    # few events are uncertain: their variance is at least their mean.
    quantum: FloatArray


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labelling of a run: the class of each element."""

    labels: Labels  # (n,)
    # (n,): Whether one class changes to the next in an element; its label is the class with the larger share.
    mixed: NDArray[np.bool_]
    bits: FloatArray  # (n,): Bits of each element in its class, or as a mixture
    total: float  # Bits of all elements, with outliers at an outlier's bits, and of all changes of class


def transition_bits(labels: Labels, classes: int) -> FloatArray:
    """Return the bits of each change of class, and of no change, from their frequencies: shape (classes, classes)."""
    seen = np.full((classes, classes), 0.5)  # Krichevsky and Trofimov's estimate
    np.add.at(seen, (labels[:-1], labels[1:]), 1)
    bits: FloatArray = -np.log2(seen / seen.sum(axis=1, keepdims=True))
    return bits


def label_independently(clusters: Clusters, scaled: FloatArray, informative: NDArray[np.bool_]) -> Labelling:
    """Give each element the class in which it takes the fewest bits; too short elements get the class before them."""
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
    """Give all elements the classes that take the fewest bits together; also return the bits of transitions.

    `scaled`: shape (n, metrics). The elements on this scale.
    `transitions`: shape (k, k). See `transition_bits`. By default they are counted in this run, starting with
    independently classified elements.
    `mixtures`: Whether one class can change to the next within an element.
    """
    labelling = label_independently(clusters, scaled, informative)
    if not len(scaled):
        return labelling, np.zeros((len(clusters), len(clusters))) if transitions is None else transitions
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
        before, counted = labelling.labels, transition_bits(labelling.labels, len(clusters))
        labelling = cheapest(counted)
        if np.array_equal(labelling.labels, before):
            break
    return labelling, counted


def _costs(clusters: Clusters, scaled: FloatArray, informative: NDArray[np.bool_]) -> FloatArray:
    costs = np.zeros((len(scaled), len(clusters)))
    costs[informative] = clusters.value_bits(scaled[informative])
    return costs


def _mixtures(clusters: Clusters, scaling: Scaling) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the positions of mixtures of two classes, their variances, and their bits, for `cheapest_labels`.

    An interval with parts of two phases has rates that are the weighted mean of both phases' rates: a straight line
    before scaling.
    """
    values = scaling.revert(clusters.centres)
    shares = ((np.arange(_POINTS) + 0.5) / _POINTS)[:, None]
    mixed = (1 - shares) * values[:, None, None] + shares * values[None, :, None]
    between = np.ascontiguousarray(scaling.apply(mixed) @ clusters.axes)
    # Half the distance to the next point is not resolved.
    steps = np.abs(np.diff(between, axis=2)).mean(axis=2) / 2
    variances = np.ascontiguousarray(np.maximum(clusters.variances[:, None], clusters.variances[None]) + steps**2)
    peaks = np.array([[student_t_peak_bits(pair_variances) for pair_variances in row] for row in variances])
    return between, variances, peaks + np.log2(_POINTS) + _MIXTURE_BITS


def run_starts(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each run's first element: shape (runs,)."""
    if not len(labels):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(np.diff(labels)) + 1)).astype(np.int64)


def join_short_runs(labels: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Join runs of fewer than `least` elements to a neighbour, until no such run or only one run is left.

    The shortest run (the first of several) takes the label of its longer neighbour (the earlier if both are equal) and
    is joined with it. O(n log n).
    """
    starts = run_starts(labels)
    lengths = np.diff(np.append(starts, len(labels))).tolist()
    symbols = labels[starts].tolist()
    # `before` and `after` are a doubly linked list of runs. The heap contains runs that were too short when they were
    # pushed; entries of runs that were joined or have grown since are skipped.
    before = list(range(-1, len(starts) - 1))
    after = [*range(1, len(starts)), -1]
    waiting = [(length, run) for run, length in enumerate(lengths) if length < least]
    heapq.heapify(waiting)
    gone = [False] * len(starts)
    while waiting:
        length, run = heapq.heappop(waiting)
        if gone[run] or length != lengths[run]:
            continue
        left, right = before[run], after[run]
        if left < 0 and right < 0:
            break
        longer = left if right < 0 or (left >= 0 and lengths[left] >= lengths[right]) else right
        symbols[run] = symbols[longer]
        # Merge with either neighbour of the same label; the merged run keeps the index of its first part.
        for first, second in ((run, right), (left, run)):
            if first >= 0 and second >= 0 and symbols[first] == symbols[second]:
                lengths[first] += lengths[second]
                gone[second] = True
                after[first] = after[second]
                if after[second] >= 0:
                    before[after[second]] = first
                run = first
        if lengths[run] < least:
            heapq.heappush(waiting, (lengths[run], run))
    kept = [run for run in range(len(starts)) if not gone[run]]
    return np.repeat(np.array([symbols[run] for run in kept], np.int64), [lengths[run] for run in kept])


_REFITS = 2
"""Number of refits of classes, without the mixtures that k-means could not distinguish from them."""

_OUTLIER_BITS, _OUTLIER_SHARE = 5.0, 0.99
"""Bits by which an outlier exceeds this quantile of the elements in which the classes were found: about six standard
deviations."""

_DWELL = 2.0
"""Minimum mean length of a class's runs, in elements, from which the class is not considered a mixture."""

_STRETCHES, _STRETCH = 8, 500
"""Number and length of the evenly spread stretches of a long run that pruning uses."""


@dataclass(frozen=True, eq=False)
class MetricClasses(Classes):
    """Classes of elements by the values of metrics."""

    metrics: tuple[str, ...]
    per: str | None  # Divisor of rates; None if values were not divided
    scaling: Scaling  # Scaling from values to one scale
    clusters: Clusters  # The classes on that scale
    transitions: FloatArray  # (k, k): Bits of a change from one class to another, or of staying
    outlier_threshold: float  # Bits above which an element is an outlier: far from all classes

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of classes, by high and low rates; for a single value that is not a rate, by its position."""
        if self.per is None and len(self.metrics) == 1:
            return location_names(self.centres[:, 0], self.metrics[0])
        return class_names(self.clusters.centres, self.metrics)

    @cached_property
    def centres(self) -> FloatArray:
        """Value of each metric at the centre of each class: shape (k, metrics)."""
        return self.scaling.revert(self.clusters.centres)

    def assign(self, values: ArrayLike) -> NDArray[np.int32]:
        """Return each value's class, independently of the others; values have the shape (n, metrics) or (n,)."""
        return self.clusters.nearest(self.scaling.apply(metric_rows(values, self.metrics))).astype(np.int32)

    def label(self, rates: Rates, *, smooth: bool, mixtures: bool) -> Labelling:
        """Return the class of each element of a run; for `smooth` and `mixtures`, see `metric_classes`."""
        scaled = self.scaling.apply(rates.values)
        if not smooth:
            return label_independently(self.clusters, scaled, rates.informative)
        given = self.clusters, self.scaling, scaled, rates.informative, self.transitions
        return label_jointly(*given, mixtures=mixtures)[0]

    def describe(self) -> tuple[str, ...]:
        """Return a line for each class: its letter, its name, and the metrics at its centre."""
        unit = f" (per {'ns' if self.per == 'time' else self.per})" if self.per else ""
        middles = [
            ", ".join(f"{metric} {value:.4g}" for metric, value in zip(self.metrics, centre, strict=True))
            for centre in self.centres
        ]
        return tuple(f"{line}: {middle}{unit}" for line, middle in zip(super().describe(), middles, strict=True))


def metric_classes(rates: Rates, *, count: int | None, smooth: bool, mixtures: bool, seed: int) -> MetricClasses:
    """Find classes of a run's elements; at least one element must be informative.

    `count`: Number of classes; None for the number that takes the fewest bits.
    `smooth`: Whether a change of class has a cost (`label_jointly`); otherwise elements are classified independently.
    `mixtures`: Whether one class can change to the next within an element.
    """
    informative, quantum = rates.informative, rates.quantum
    scaling = choose_scaling(rates.values[informative])

    def floor(point: FloatArray) -> FloatArray:
        middle = scaling.revert(point[None])[0]
        variance = quantum * np.maximum(np.abs(middle), quantum)
        least: FloatArray = RESOLUTION**2 + variance * scaling.slope(middle[None])[0] ** 2
        return least

    scaled = scaling.apply(rates.values)
    clusters = cluster(scaled[informative], floor, classes=count, rng=np.random.default_rng(seed))
    if smooth:
        if count is None:
            clusters = prune_classes(clusters, scaling, scaled, informative, mixtures=mixtures)
        for _ in range(_REFITS if mixtures else 0):
            labelling, _ = label_jointly(clusters, scaling, scaled, informative, mixtures=True)
            whole = informative & ~labelling.mixed
            again = refit(scaled[whole], labelling.labels[whole], floor)
            if count is not None and len(again) < len(clusters):
                break  # this number was requested
            clusters = again
        labelling, transitions = label_jointly(clusters, scaling, scaled, informative, mixtures=mixtures)
    else:
        labelling = label_independently(clusters, scaled, informative)
        transitions = transition_bits(labelling.labels, len(clusters))
    threshold = float(np.quantile(labelling.bits[informative], _OUTLIER_SHARE)) + _OUTLIER_BITS
    order = _by_appearance(labelling.labels, len(clusters))
    ordered = transitions[np.ix_(order, order)]
    return MetricClasses(rates.metrics, rates.per, scaling, clusters.take(order), ordered, threshold)


def _by_appearance(labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return the classes in the order of their first occurrence; classes that never occur are last."""
    first = np.full(classes, len(labels))
    np.minimum.at(first, labels, np.arange(len(labels)))
    order: NDArray[np.int64] = np.argsort(first, kind="stable")
    return order


def prune_classes(
    clusters: Clusters, scaling: Scaling, scaled: FloatArray, informative: NDArray[np.bool_], *, mixtures: bool
) -> Clusters:
    """Drop classes one at a time while this reduces the bits of the run.

    Intervals in which one phase changes to another are scattered between the classes, and k-means may collect them in a
    class of their own. They often take fewer bits as mixtures of the preceding and the following class.
    """
    sampled = _sample_stretches(len(scaled))
    values, known = scaled[sampled], informative[sampled]

    def description(classes: Clusters) -> tuple[float, Labelling]:
        labelling, _ = label_jointly(classes, scaling, values, known, mixtures=mixtures)
        # The frequencies of transitions between classes must be described, too.
        transitions = len(classes) * (len(classes) - 1) / 2 * float(np.log2(len(values)))
        return labelling.total + classes.parameter_bits() + transitions, labelling

    least, labelling = description(clusters)
    while len(clusters) > 1:
        candidates = []
        for dropped in _short_lived(labelling.labels, clusters, clusters.nearest(values)):
            without = clusters.take(np.delete(np.arange(len(clusters)), dropped))
            candidates.append((*description(without), without))
        best = min(candidates, key=lambda each: each[0], default=None)
        if best is None or best[0] >= least:
            break
        least, labelling, clusters = best
    return clusters


def _sample_stretches(count: int) -> NDArray[np.int64]:
    if count <= _STRETCHES * _STRETCH:
        return np.arange(count)
    starts = np.linspace(0, count - _STRETCH, _STRETCHES).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(_STRETCH))


def _short_lived(labels: NDArray[np.int64], clusters: Clusters, independent: NDArray[np.int64]) -> list[int]:
    """Return the classes that occur in these elements and have short runs."""
    starts = run_starts(labels)
    runs = np.bincount(labels[starts], minlength=len(clusters))
    elements = np.bincount(labels, minlength=len(clusters))
    occurs = np.bincount(independent, minlength=len(clusters)) > 0
    return np.flatnonzero(occurs & (elements < _DWELL * runs + (runs == 0))).tolist()
