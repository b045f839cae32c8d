"""k-means in which a distance is what a value costs in bits, and k is what takes the fewest bits in all.

A class is a cloud of values (`student`); all share their axes, along which each has variances of its own. A partition costs its values,
which class each is of, and the classes' centres and variances. The search starts with k-means of many classes and joins the two that are
least apart until all lie apart (`separation`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from unperturbed.analysis.structure.scaling import RESOLUTION, FloatArray
from unperturbed.analysis.structure.separation import VALLEY_BITS, valley_bits
from unperturbed.analysis.structure.student import student_bits, student_fit, student_weights

__all__ = ["MOST_CLASSES", "Clusters", "Floor", "Labels", "cluster", "refitted"]

Labels: TypeAlias = NDArray[np.int64]

Floor: TypeAlias = Callable[[FloatArray], FloatArray]
"""From a place on the scale, shape (metrics,), to the variance of each metric that is always there, of the same shape."""

MOST_CLASSES = 10

_STARTS = 4
_PRIOR = 4.0
"""Values that the variances which all classes share count as, in the variances of one class."""
_MEANS_ROUNDS, _ROUNDS, _LAST_ROUNDS = 20, 4, 30
_ODD_SHARE = 0.01
"""Of values, that may be odd."""

_LEAST_RANGE = 4 * RESOLUTION
"""Of a metric that is all but constant."""

_SEARCHED, _FITTED = 1500, 20_000
"""Values that the search and the last rounds look at: more hardly change a centre."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Classes of values on one scale.

    Attributes
    ----------
    centres : float64, shape (k, metrics)
    axes : float64, shape (metrics, metrics)
        A column an axis; the same for all classes.
    variances : float64, shape (k, metrics)
        Along the axes.
    counts : int64, shape (k,)
        Values of each class, of those that it was fitted to.
    odd_bits : float
        What a value costs that is like none of a class, in any class: it can lie anywhere. Only values of which several lie near each
        other, and far from all others, are worth a class.
    bits : float
        Description length of these values, their classes and the classes themselves, but for a constant that is the same for all
        partitions.
    """

    centres: FloatArray
    axes: FloatArray
    variances: FloatArray
    counts: NDArray[np.int64]
    odd_bits: float
    bits: float

    def __len__(self) -> int:
        return len(self.centres)

    def value_bits(self, scaled: FloatArray) -> FloatArray:
        """Return what each value costs in each class: shape (n, k)."""
        turned, centres = scaled @ self.axes, self.centres @ self.axes
        return np.column_stack([student_bits(turned, *one) for one in zip(centres, self.variances, strict=True)])

    def class_bits(self) -> FloatArray:
        """Return what it costs to name each class by its frequency: shape (k,)."""
        bits: FloatArray = -np.log2(self.counts / self.counts.sum())
        return bits

    def own_bits(self) -> float:
        """Return what centres and variances cost: a centre to its standard error, a variance half a bit for each doubling of its values."""
        centres = np.maximum(np.log2(np.sqrt(self.counts)[:, None] / np.sqrt(self.variances)), 0).sum()
        return float(centres + self.variances.shape[1] / 2 * np.log2(self.counts).sum())

    def nearest(self, scaled: FloatArray) -> Labels:
        """Return the class in which each value costs least, with its name: shape (n,)."""
        labels: Labels = np.argmin(self.value_bits(scaled) + self.class_bits(), axis=1)
        return labels

    def take(self, order: Labels) -> Clusters:
        """Return the same classes in another order."""
        return replace(self, centres=self.centres[order], variances=self.variances[order], counts=self.counts[order])


def cluster(scaled: FloatArray, floor: Floor, *, classes: int | None, rng: np.random.Generator) -> tuple[Clusters, float]:
    """Find classes of values.

    Parameters
    ----------
    scaled : float64, shape (n, metrics)
        On one scale (`scaling`); a row or more.
    floor : what no class is sharper than.
    classes : int, optional
        How many, or fewer where there are not so many different values. None takes the fewest bits of 1 to 10 classes that lie apart.
    rng : starts of k-means, and which values are looked at where there are many.

    Returns
    -------
    clusters : Clusters
    saved : float
        Bits that they save against one class.
    """
    part = _some(scaled, _SEARCHED, rng)
    whole = [_refined(part, np.zeros(len(part), np.int64), floor, _ROUNDS)] if classes in (None, 1) else []
    starts = _STARTS if classes != 1 else 0
    candidates = whole + [_searched(part, floor, classes, rng) for _ in range(starts)]
    best = min((found for found, _ in candidates), key=lambda found: (-len(found) if classes else 0, found.bits))
    more = _some(scaled, _FITTED, rng)
    fitted, _ = _refined(more, best.nearest(more), floor, _LAST_ROUNDS, keep=classes is not None)
    if classes is not None and len(fitted) < len(best):
        fitted = best  # a class that no further value is nearest to is one all the same
    one, _ = _refined(more, np.zeros(len(more), np.int64), floor, 1)
    return fitted, one.bits - fitted.bits


def refitted(values: FloatArray, labels: Labels, floor: Floor) -> Clusters:
    """Return the classes of values of which the classes are known; those that have no value are left out."""
    _, used = np.unique(labels, return_inverse=True)
    return _classes_of(values, used.astype(np.int64), floor)[0]


def _some(values: FloatArray, most: int, rng: np.random.Generator) -> FloatArray:
    if len(values) <= most:
        return values
    return values[np.sort(rng.choice(len(values), most, replace=False))]


def _searched(values: FloatArray, floor: Floor, classes: int | None, rng: np.random.Generator) -> tuple[Clusters, Labels]:
    """Return what one start comes to: all classes apart, or as many as asked for."""
    most = MOST_CLASSES if classes is None else max(MOST_CLASSES, min(2 * classes, classes + MOST_CLASSES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes that became empty: fewer are as good a start
        _, labels = kmeans2(values, _spread_out(values, most, rng), minit="matrix", iter=_MEANS_ROUNDS)
    keep = classes is not None
    found, labels = _refined(values, labels.astype(np.int64), floor, _ROUNDS, keep=keep)
    while len(found) > 1:
        if classes is not None and len(found) <= classes:
            break
        least, pair = _least_apart(values, labels, found)
        if classes is None and least > VALLEY_BITS:
            break
        labels = np.where(labels == pair[1], pair[0], labels)
        found, labels = _refined(values, labels, floor, _ROUNDS, keep=keep)
    found, labels = _refined(values, labels, floor, _LAST_ROUNDS, keep=keep)
    while classes is None and (parted := _parted(values, labels, found, floor, rng)):
        found, labels = parted
    return found, labels


def _parted(
    values: FloatArray, labels: Labels, clusters: Clusters, floor: Floor, rng: np.random.Generator
) -> tuple[Clusters, Labels] | None:
    """Return the classes with one of them parted in two that lie apart, where that takes fewer bits; the fewest there are."""
    if len(clusters) >= MOST_CLASSES:
        return None
    best = None
    for one in range(len(clusters)):
        members = np.flatnonzero(labels == one)
        _, half = kmeans2(values[members], _spread_out(values[members], 2, rng), minit="matrix", iter=_MEANS_ROUNDS)
        tried = labels.copy()
        tried[members[half == 1]] = len(clusters)
        found = _refined(values, tried, floor, _ROUNDS)
        fewest = best[0].bits if best else clusters.bits
        if (
            len(found[0]) > len(clusters)
            and found[0].bits < fewest
            and _least_apart(values, found[1], found[0])[0] > VALLEY_BITS
        ):
            best = found
    return best


def _spread_out(values: FloatArray, most: int, rng: np.random.Generator) -> FloatArray:
    """Return starting points that are far apart (k-means++), fewer where there are not so many different values."""
    points = [values[rng.integers(len(values))]]
    nearest = np.square(values - points[0]).sum(axis=1)
    while len(points) < most and nearest.any():
        points.append(values[rng.choice(len(values), p=nearest / nearest.sum())])
        nearest = np.minimum(nearest, np.square(values - points[-1]).sum(axis=1))
    return np.array(points)


def _least_apart(values: FloatArray, labels: Labels, clusters: Clusters) -> tuple[float, tuple[int, int]]:
    """Return the bits of the shallowest valley between two classes, and which these are; where there is none, the nearest two."""
    turned, centres = values @ clusters.axes, clusters.centres @ clusters.axes
    members = [turned[labels == one] for one in range(len(clusters))]
    found = []
    for other in range(len(clusters)):
        for one in range(other):
            spreads = (clusters.variances[one] + clusters.variances[other]) / 2
            apart = float((np.square(centres[one] - centres[other]) / spreads).sum())
            found.append((valley_bits(members[one], members[other], spreads), apart, (one, other)))
    least, _, pair = min(found)
    return least, pair


def _refined(values: FloatArray, labels: Labels, floor: Floor, rounds: int, *, keep: bool = False) -> tuple[Clusters, Labels]:
    """Fit classes to values and give each value to the class where it costs least, in turns; return the best on the way.

    A class may become empty, and be no more; with `keep` the rounds end before that.
    """
    best: tuple[Clusters, Labels] | None = None
    for _ in range(rounds):
        _, labels = np.unique(labels, return_inverse=True)  # a class may have become empty
        found, costs = _classes_of(values, labels, floor)
        if best is None or found.bits < best[0].bits:
            best = found, labels
        nearest = np.argmin(costs + found.class_bits(), axis=1)
        if np.array_equal(nearest, labels) or (keep and len(np.unique(nearest)) < len(found)):
            break
        labels = nearest
    assert best is not None
    return best


def _classes_of(values: FloatArray, labels: Labels, floor: Floor) -> tuple[Clusters, FloatArray]:
    """Return the classes of a partition, and what each value costs in each."""
    k = int(labels.max()) + 1
    members = [values[labels == one] for one in range(k)]
    shared, axes = _axes_of(members)
    fits = []
    for rows in members:
        least = np.square(axes).T @ floor(np.median(rows, axis=0))
        fits.append(student_fit(rows @ axes, least, shared, prior_weight=_PRIOR))
    turned = np.array([centre for centre, _ in fits])
    variances = np.array([one for _, one in fits])
    counts = np.bincount(labels, minlength=k)
    clusters = Clusters(turned @ axes.T, axes, variances, counts, _odd_bits(values), 0.0)
    costs = clusters.value_bits(values)
    naming_bits = counts @ clusters.class_bits() + (k - 1) / 2 * np.log2(len(values))
    told = np.minimum(costs[np.arange(len(values)), labels], clusters.odd_bits).sum()
    spent = told + clusters.own_bits() + naming_bits
    return replace(clusters, bits=float(spent)), costs


def _odd_bits(values: FloatArray) -> float:
    """Return what it costs to say that a value is odd, and where it lies within the range of all."""
    ranges = np.maximum(np.ptp(values, axis=0), _LEAST_RANGE)
    return float(np.log2(ranges).sum() - np.log2(_ODD_SHARE))


def _axes_of(members: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the variances within classes along their own axes, and these axes: shapes (metrics,), (metrics, metrics)."""
    metrics = members[0].shape[1]
    within = np.zeros((metrics, metrics))
    for rows in members:
        away = rows - np.median(rows, axis=0)
        spread = np.square(away).mean(axis=0) + RESOLUTION**2
        within += (student_weights(away, np.zeros(metrics), spread)[:, None] * away).T @ away
    variances, axes = np.linalg.eigh(within / sum(map(len, members)))
    return np.maximum(variances, 0), axes
