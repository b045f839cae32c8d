"""Clustering by k-means: distances are the bits of values, and k is the number of classes that takes the fewest bits.

A class is a Student's t distribution of values. Its heavy tails are intended: an outlying interval adds some bits to
its class, but not enough to justify a class of its own. All classes share their axes; each class has its own variances
along them. The bits of a partition are those of its values, of each value's class, and of the classes' centres and
variances. The search starts with k-means of many classes and repeatedly merges the two least separated classes, until a
valley of density separates any two. ARCHITECTURE.md compares this with scikit-learn's mixtures.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.structure.classes.scaling import RESOLUTION, FloatArray
from unperturbed.common.extras import load_library

_MODULE = "unperturbed.analysis.structure.classes.kernels"
_FIT = ("const float64[:,::1]" + 3 * ", const float64[::1]" + ", float64, const float64[::1], int64, float64",)
_DISTANCES = ("const float64[:,::1]" + 2 * ", const float64[:,::1]",)

DEGREES_OF_FREEDOM = 4.0
"""Degrees of freedom of the t distributions: 10 standard deviations cost 12 bits, under a normal distribution 72."""

_FIT_ROUNDS = 6
"""Rounds of reweighting; further rounds barely move a class."""


def student_t_bits(values: FloatArray, centres: FloatArray, variances: FloatArray) -> FloatArray:
    """Return −log2 of the density of values (n, metrics) under multivariate t distributions: shape (n, k).

    Centres and variances have the shape (k, metrics); variances are scale parameters along the axes. Differences
    between classes are in bits; absolute values depend on the unit and may be negative.
    """
    measure = compiled(_MODULE, "class_distances", _DISTANCES)
    distances = measure(*map(np.ascontiguousarray, (values, centres, variances)))
    tails = (DEGREES_OF_FREEDOM + values.shape[1]) / 2 * np.log2(1 + distances / DEGREES_OF_FREEDOM)
    bits: FloatArray = np.array([student_t_peak_bits(class_variances) for class_variances in variances]) + tails
    return bits


def student_t_peak_bits(variances: FloatArray) -> float:
    """Return the bits of a value at the centre of a distribution, which are the minimum."""
    metrics, freedom = len(variances), DEGREES_OF_FREEDOM
    normaliser = (
        math.lgamma(freedom / 2) - math.lgamma((freedom + metrics) / 2) + metrics / 2 * math.log(freedom * math.pi)
    )
    return float(normaliser + np.log(variances).sum() / 2) / math.log(2)


def fit_student_t(
    values: FloatArray, floor: FloatArray, prior: FloatArray, prior_weight: float, rounds: int = _FIT_ROUNDS
) -> tuple[FloatArray, FloatArray]:
    """Fit centre and variances along the axes to values, shape (n, metrics), by expectation maximisation.

    `floor`: shape (metrics,). Variance that is always added, from the metrics' resolution.
    `prior`: shape (metrics,). Variances towards which the fit is shrunk.
    """
    centre = median_of_rows(values)
    start = (((values - centre) ** 2).sum(axis=0) + prior_weight * prior) / (len(values) + prior_weight) + floor
    reweight = compiled(_MODULE, "fit_rounds", _FIT)
    data = np.ascontiguousarray(values)
    fitted: tuple[FloatArray, FloatArray] = reweight(
        data, centre, start, prior, prior_weight, floor, rounds, DEGREES_OF_FREEDOM
    )
    return fitted


def median_of_rows(values: FloatArray) -> FloatArray:
    """Return `np.median(values, axis=0)` of one or more rows without NaN; for few rows, in a third of its time."""
    middle = len(values) // 2
    lower = (len(values) - 1) // 2
    parted = np.partition(values, (lower, middle), axis=0)
    return np.asarray((parted[lower] + parted[middle]) / 2, np.float64)


Labels: TypeAlias = NDArray[np.int64]

Floor: TypeAlias = Callable[[FloatArray], FloatArray]
"""Function from a point on the scale, shape (metrics,), to the minimum variance of each metric there, same shape."""

MOST_CLASSES = 10

_STARTS = 4
_PRIOR = 4.0
"""Weight of the shared variances in the variances of one class, in number of values."""
_MEANS_ROUNDS, _ROUNDS, _LAST_ROUNDS = 20, 4, 30
_OUTLIER_SHARE = 0.01
"""Share of values that may be outliers."""

_LEAST_RANGE = 4 * RESOLUTION
"""Range that is used for a nearly constant metric."""

_SEARCHED, _FITTED = 1500, 20_000
"""Sizes of the samples for the search and for the last rounds; larger samples barely move a centre."""

VALLEY_BITS = 4.0
"""Minimum bits that a valley must save; six values in the smaller class and none in between are enough."""

_WINDOWS = 9
"""Number of windows searched for a valley, evenly spread over the middle half of the line between two medians."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Classes, as clusters of values on one scale."""

    centres: FloatArray  # (k, metrics): One row for each class
    axes: FloatArray  # (metrics, metrics): One column for each axis; the same for all classes
    variances: FloatArray  # (k, metrics): Variances along the axes
    counts: NDArray[np.int64]  # (k,): Number of values to which each class was fitted
    # Bits of a value that is far from any class: it can be anywhere. Only several values that are near each other, and
    # far from all others, justify a class.
    outlier_bits: float
    # Description length of these values, their classes and the classes themselves, except for a constant that is the
    # same for all partitions.
    bits: float

    def __len__(self) -> int:
        return len(self.centres)

    def value_bits(self, scaled: FloatArray) -> FloatArray:
        """Return the bits of each value in each class: shape (n, k)."""
        return student_t_bits(scaled @ self.axes, self.centres @ self.axes, self.variances)

    def class_bits(self) -> FloatArray:
        """Return the bits that identify each class, from its frequency: shape (k,)."""
        bits: FloatArray = -np.log2(self.counts / self.counts.sum())
        return bits

    def parameter_bits(self) -> float:
        """Return the bits of centres and variances.

        A centre is encoded to its standard error; a variance takes half a bit for each doubling of the values' number.
        """
        centres = np.maximum(np.log2(np.sqrt(self.counts)[:, None] / np.sqrt(self.variances)), 0).sum()
        return float(centres + self.variances.shape[1] / 2 * np.log2(self.counts).sum())

    def nearest(self, scaled: FloatArray) -> Labels:
        """Return the class in which each value takes the fewest bits, including the class's own: shape (n,)."""
        labels: Labels = np.argmin(self.value_bits(scaled) + self.class_bits(), axis=1)
        return labels

    def take(self, order: Labels) -> Clusters:
        """Return the classes with the given numbers, in this order."""
        return replace(self, centres=self.centres[order], variances=self.variances[order], counts=self.counts[order])


def cluster(scaled: FloatArray, floor: Floor, *, classes: int | None, rng: np.random.Generator) -> Clusters:
    """Find classes of values on one scale, shape (n, metrics), with at least one row.

    `classes`: Number of classes; the result has fewer if there are fewer different values. None finds the 1 to 10
    separated classes that take the fewest bits.
    """
    part = _sample(scaled, _SEARCHED, rng)
    whole = [_refine(part, np.zeros(len(part), np.int64), floor, _ROUNDS)] if classes in (None, 1) else []
    starts = _STARTS if classes != 1 else 0
    candidates = whole + [_search(part, floor, classes, rng) for _ in range(starts)]
    best = min(
        (clusters for clusters, _ in candidates), key=lambda clusters: (-len(clusters) if classes else 0, clusters.bits)
    )
    more = _sample(scaled, _FITTED, rng)
    fitted, _ = _refine(more, best.nearest(more), floor, _LAST_ROUNDS, keep=classes is not None)
    if classes is not None and len(fitted) < len(best):
        fitted = best  # a class remains a class even if no further value is nearest to it
    return fitted


def refit(values: FloatArray, labels: Labels, floor: Floor) -> Clusters:
    """Fit classes to values with known classes; classes without values are left out."""
    _, used = np.unique(labels, return_inverse=True)
    return _fit(values, used.astype(np.int64), floor)[0]


def _sample(values: FloatArray, most: int, rng: np.random.Generator) -> FloatArray:
    if len(values) <= most:
        return values
    return values[np.sort(rng.choice(len(values), most, replace=False))]


def _search(values: FloatArray, floor: Floor, classes: int | None, rng: np.random.Generator) -> tuple[Clusters, Labels]:
    """Return the classes found from one start: all separated classes, or the requested number."""
    most = MOST_CLASSES if classes is None else max(MOST_CLASSES, min(2 * classes, classes + MOST_CLASSES))
    labels = _k_means(values, most, rng)
    keep = classes is not None
    clusters, labels = _refine(values, labels, floor, _ROUNDS, keep=keep)
    # Merge the least separated pair until all are separated, or the requested number remains.
    while len(clusters) > (classes or 1):
        least, pair = _least_separated(values, labels, clusters)
        if classes is None and least > VALLEY_BITS:
            break
        labels = np.where(labels == pair[1], pair[0], labels)
        clusters, labels = _refine(values, labels, floor, _ROUNDS, keep=keep)
    clusters, labels = _refine(values, labels, floor, _LAST_ROUNDS, keep=keep)
    while classes is None and (divided := _split_one(values, labels, clusters, floor, rng)):
        clusters, labels = divided
    return clusters, labels


def _split_one(
    values: FloatArray, labels: Labels, clusters: Clusters, floor: Floor, rng: np.random.Generator
) -> tuple[Clusters, Labels] | None:
    """Split the class whose two halves are separated and save the most bits; return None if no split saves bits."""
    if len(clusters) >= MOST_CLASSES:
        return None
    best = None
    for label in range(len(clusters)):
        members = np.flatnonzero(labels == label)
        split = labels.copy()
        split[members[_k_means(values[members], 2, rng) == 1]] = len(clusters)
        refined = _refine(values, split, floor, _ROUNDS)
        fewest = best[0].bits if best else clusters.bits
        if (
            len(refined[0]) > len(clusters)
            and refined[0].bits < fewest
            and _least_separated(values, refined[1], refined[0])[0] > VALLEY_BITS
        ):
            best = refined
    return best


def _k_means(values: FloatArray, k: int, rng: np.random.Generator) -> Labels:
    """Return the labels of k-means with at most k classes."""
    kmeans2 = load_library("scipy.cluster.vq").kmeans2  # takes half a second, which not every use of this package needs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about classes that became empty: the start is equally good
        _, nearest = kmeans2(values, _spread_points(values, k, rng), minit="matrix", iter=_MEANS_ROUNDS)
    labels: Labels = nearest.astype(np.int64)
    return labels


def _spread_points(values: FloatArray, most: int, rng: np.random.Generator) -> FloatArray:
    """Return starting points that are far apart (k-means++); there are fewer if there are fewer different values."""
    points = [values[rng.integers(len(values))]]
    nearest = np.square(values - points[0]).sum(axis=1)
    while len(points) < most and nearest.any():
        points.append(values[rng.choice(len(values), p=nearest / nearest.sum())])
        nearest = np.minimum(nearest, np.square(values - points[-1]).sum(axis=1))
    return np.array(points)


def _least_separated(values: FloatArray, labels: Labels, clusters: Clusters) -> tuple[float, tuple[int, int]]:
    """Return the fewest bits that a valley between two classes saves, and the two; of equal pairs, the nearest."""
    turned, centres = values @ clusters.axes, clusters.centres @ clusters.axes
    members = [turned[labels == label] for label in range(len(clusters))]
    medians = [median_of_rows(values) for values in members]
    valleys = []
    for other in range(len(clusters)):
        for number in range(other):
            spreads = (clusters.variances[number] + clusters.variances[other]) / 2
            distance = float((np.square(centres[number] - centres[other]) / spreads).sum())
            way = medians[other] - medians[number]
            valleys.append((valley_bits(members[number], members[other], spreads, way), distance, (number, other)))
    least, _, pair = min(valleys)
    return least, pair


def valley_bits(members: FloatArray, other: FloatArray, variances: FloatArray, way: FloatArray) -> float:
    """Return the number of bits that a valley of density between two classes saves; −1 without a valley.

    `members`, `other`: shape (n, metrics) and (m, metrics). Values of the classes, which must not be empty.
    `variances`, `way`: shape (metrics,). Variances of both classes, and the vector between the classes' medians.
    Result: With a values in the emptiest window between the medians and b in a window around the emptier median, a < b:
    (a + b)·(1 − H(a / (a + b))) − log₂(a + b) / 2, the saving of a code with its own frequency.

    A skewed or flat-topped cloud of values takes fewer bits as two classes than as one, although nothing separates it;
    so a valley is required. Values are projected on Fisher's line through both medians; a window is a quarter of their
    distance. Within a single class, the density between two points is never below that at both points, so a valley
    saves bits only by chance.
    """
    direction = way / variances
    projected = [np.sort(values @ direction) for values in (members, other)]
    low, high = (float(values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2 for values in projected)
    if not high > low:
        return -1.0
    width = (high - low) / 4
    ordered = np.sort(np.concatenate(projected))

    def count_around(centres: FloatArray) -> Labels:
        first = np.searchsorted(ordered, centres - width / 2, "left")
        return np.searchsorted(ordered, centres + width / 2, "right") - first

    top = int(count_around(np.array([low, high])).min())
    bottom = int(count_around(np.linspace(low + width, high - width, _WINDOWS)).min())
    if bottom >= top:
        return -1.0
    both = bottom + top
    shares = (bottom / both, top / both)
    entropy = -sum(share * math.log2(share) for share in shares if share > 0)
    return both * (1 - entropy) - math.log2(both) / 2


def _refine(
    values: FloatArray, labels: Labels, floor: Floor, rounds: int, *, keep: bool = False
) -> tuple[Clusters, Labels]:
    """Alternately fit classes and reassign values; return the best partition. `keep`: stop before a class is empty."""
    best: tuple[Clusters, Labels] | None = None
    for _ in range(rounds):
        _, labels = np.unique(labels, return_inverse=True)  # a class may have become empty
        fitted, costs = _fit(values, labels, floor)
        if best is None or fitted.bits < best[0].bits:
            best = fitted, labels
        nearest = np.argmin(costs + fitted.class_bits(), axis=1)
        if np.array_equal(nearest, labels) or (keep and len(np.unique(nearest)) < len(fitted)):
            break
        labels = nearest
    assert best is not None
    return best


def _fit(values: FloatArray, labels: Labels, floor: Floor) -> tuple[Clusters, FloatArray]:
    """Return the fitted classes of a partition, and the bits of each value in each class."""
    k = int(labels.max()) + 1
    members = [values[labels == label] for label in range(k)]
    medians = [median_of_rows(rows) for rows in members]
    shared, axes = _shared_axes(members, medians)
    fits = []
    for rows, median in zip(members, medians, strict=True):
        least = np.square(axes).T @ floor(median)
        fits.append(fit_student_t(rows @ axes, least, shared, _PRIOR))
    turned, variances = (np.array(parts) for parts in zip(*fits, strict=True))
    counts = np.bincount(labels, minlength=k)
    # The bits of an outlier encode that it is an outlier, and its position within the range of all values.
    ranges = np.maximum(np.ptp(values, axis=0), _LEAST_RANGE)
    outlier_bits = float(np.log2(ranges).sum() - np.log2(_OUTLIER_SHARE))
    clusters = Clusters(turned @ axes.T, axes, variances, counts, outlier_bits, 0.0)
    costs = clusters.value_bits(values)
    naming_bits = counts @ clusters.class_bits() + (k - 1) / 2 * np.log2(len(values))
    own_bits = np.minimum(costs[np.arange(len(values)), labels], clusters.outlier_bits).sum()
    return replace(clusters, bits=float(own_bits + clusters.parameter_bits() + naming_bits)), costs


def _shared_axes(members: list[FloatArray], medians: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the principal variances within classes and their axes: shapes (metrics,) and (metrics, metrics)."""
    metrics = members[0].shape[1]
    within = np.zeros((metrics, metrics))
    for rows, median in zip(members, medians, strict=True):
        away = rows - median
        spread = np.square(away).mean(axis=0) + RESOLUTION**2
        distances = (away**2 / spread).sum(axis=1)
        weights = (DEGREES_OF_FREEDOM + metrics) / (DEGREES_OF_FREEDOM + distances)  # outliers have small weights
        within += (weights[:, None] * away).T @ away
    variances, axes = np.linalg.eigh(within / sum(map(len, members)))
    return np.maximum(variances, 0), axes
