"""Classifiers by a map and by bands of one metric, the base that all share, and the short names of classes.

Section 1 of "Structural analysis of measurement paths": a fixed set of elements is decomposed into a small number of
classes, so that a long path becomes a short sequence of class indexes. The paper's elements are pages, modules or disk
blocks; `metric_classes` classifies intervals of a trace.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.classes.scaling import RESOLUTION, FloatArray
from unperturbed.errors import DataError

_GAP = 0.2
"""Share of a metric's range over the classes that must lie between two levels."""

_LEAST_GAP = 3 * RESOLUTION
"""A smaller one, on the scale, is not a difference worth a name."""

_LEVELS = {1: ("",), 2: ("low", "high"), 3: ("low", "medium", "high")}
_MOST_METRICS = 3


def class_names(centres: FloatArray, metrics: Sequence[str]) -> tuple[str, ...]:
    """Name classes by the fewest metrics that distinguish each from all others: `PAPI_L2_TCM high, PAPI_BR_MSP low`.

    `centres`: array of float64, shape (k, metrics). On one scale.
    Result: All different. Classes that have the same levels in every three metrics are numbered.
    """
    if len(centres) == 1:
        return ("all alike",)
    levels = [_levels(column) for column in centres.T]
    # Metrics in which classes differ most come first.
    order = sorted(range(len(metrics)), key=lambda column: -float(np.ptp(centres[:, column])))
    names = [_name(one, levels, order, metrics) for one in range(len(centres))]
    return tuple(
        f"{name} ({names[: number + 1].count(name)})" if names.count(name) > 1 else name
        for number, name in enumerate(names)
    )


def _levels(column: FloatArray) -> tuple[str, ...]:
    """Return the level of each class in one metric: at most two gaps divide them, the widest ones."""
    ordered = np.sort(column)
    gaps = np.diff(ordered)
    wide = np.flatnonzero(gaps > max(_GAP * (ordered[-1] - ordered[0]), _LEAST_GAP))
    cuts = sorted(wide[np.argsort(-gaps[wide], kind="stable")][:2].tolist())
    level: NDArray[np.int64] = np.searchsorted(ordered[cuts], column, "left")
    return tuple(_LEVELS[len(cuts) + 1][one] for one in level.tolist())


def _name(one: int, levels: Sequence[tuple[str, ...]], order: Sequence[int], metrics: Sequence[str]) -> str:
    """Name one class by the smallest set of metrics that the fewest others share with it."""
    others = [other for other in range(len(levels[0])) if other != one]
    distinguishing = [column for column in order if levels[column][one]]
    best: tuple[int, ...] = ()
    fewest = len(others) + 1
    for size in range(1, min(_MOST_METRICS, len(distinguishing)) + 1):
        for chosen in combinations(distinguishing, size):
            alike = sum(all(levels[column][other] == levels[column][one] for column in chosen) for other in others)
            if alike < fewest:
                best, fewest = chosen, alike
        if fewest == 0:
            break
    return ", ".join(f"{metrics[column]} {levels[column][one]}" for column in sorted(best)) or "unlike the others"


def band_names(edges: FloatArray, metric: str) -> tuple[str, ...]:
    """Name the bands between edges, such as `x < 3`, `3 ≤ x < 7`, `x ≥ 7`."""
    if not len(edges):
        return ("all alike",)
    texts = _distinct(edges, 6)
    inner = [f"{low} ≤ {metric} < {high}" for low, high in pairwise(texts)]
    return (f"{metric} < {texts[0]}", *inner, f"{metric} ≥ {texts[-1]}")


def location_names(centres: FloatArray, metric: str) -> tuple[str, ...]:
    """Name classes of one value by where they lie, such as `x near 4100`; of addresses `low` would mean little."""
    if len(centres) == 1:
        return ("all alike",)
    return tuple(f"{metric} near {text}" for text in _distinct(centres, 3))


def _distinct(values: FloatArray, digits: int) -> list[str]:
    """Format numbers with these digits, or with as many more as make them differ."""
    for count in range(digits, 18):  # 17 distinguish any two
        texts = [_format(value, count) for value in values.tolist()]
        if len(set(texts)) == len(values):
            break
    return texts


def _format(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text and 1 <= abs(value) < 1e15 else text


ClassMap: TypeAlias = Mapping[Any, Hashable] | Callable[[Any], Hashable]

MOST_NUMBER = 255
"""Greatest class number that a map may give."""

_LARGEST = 1e150
"""Largest value that can be classified: squares of larger ones overflow."""

_LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits
_OTHERS = "others"


def class_letter(number: int) -> str:
    """Return the letter of a class in figures and texts: A to Z, a to z, 0 to 9, then further letters of Unicode."""
    return _LETTERS[number] if number < len(_LETTERS) else chr(0x100 + number - len(_LETTERS))


@dataclass(frozen=True)
class Quantiles:
    """Request bands of one metric that have equally many elements.

    Attributes
    ----------
    count : int
        Bands; fewer come out where many elements have the same value.
    """

    count: int


@dataclass(frozen=True)
class Ranges:
    """Request bands of one metric, or of addresses, that are equally wide, as cylinders of a disk are.

    Attributes
    ----------
    count : int
        Bands.
    low, high : float, optional
        Bounds of all bands together, the smallest and the largest value by default. What lies outside belongs to the
        first or the last band.
    """

    count: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class MostUsed:
    """Request a class for each of the most used elements, and one for all others.

    Attributes
    ----------
    count : int
        Classes, that of the others included.
    """

    count: int


class Classes(ABC):
    """A classifier of elements. Classes are numbered from 0."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Name of each class."""

    @abstractmethod
    def assign(self, values: Any) -> NDArray[np.int32]:
        """Return the class of each element on its own: shape (n,)."""

    def describe(self) -> tuple[str, ...]:
        """Return a line of text for each class: its letter and its name."""
        return tuple(f"{class_letter(number)}  {name}" for number, name in enumerate(self.names))

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class GivenClasses(Classes):
    """Classes by a map from element to class."""

    class_map: ClassMap  # From an element to the label of its class
    numbers: Mapping[Hashable, int]  # From a label to the class's number
    others: int | None = None  # Class of elements that the mapping does not have; None refuses them

    @property
    def names(self) -> tuple[str, ...]:
        """The label of each class, as text."""
        return tuple(str(label) for label in self.numbers)

    def assign(self, values: Iterable[Any]) -> NDArray[np.int32]:
        """Return the class of each element."""
        labels = [self._label(element, position) for position, element in enumerate(values)]
        missing = next((place for place, label in enumerate(labels) if label not in self.numbers), None)
        if missing is not None:
            raise DataError(
                f"the class of element {missing} is {labels[missing]!r}, not one of "
                f"{', '.join(map(str, self.numbers)) or 'no classes'}"
            )
        return np.array([self.numbers[label] for label in labels], np.int32)

    def _label(self, element: Any, position: int) -> Any:
        if not isinstance(self.class_map, Mapping):
            return _plain_label(self.class_map(element), position)
        try:
            if element in self.class_map:
                return _plain_label(self.class_map[element], position)
        except TypeError as error:
            raise DataError(
                f"element {position}, {element!r}, is not hashable: give numbers, texts or tuples"
            ) from error
        if self.others is None:
            raise DataError(
                f"element {position}, {element!r}, has no class in the given map: add it, or give a function"
            )
        return tuple(self.numbers)[self.others]

    def describe(self) -> tuple[str, ...]:
        """Return a line for each class: its letter, its name, and how many different elements a mapping has of it."""
        lines = super().describe()
        if not isinstance(self.class_map, Mapping):
            return lines
        counts = Counter(self.numbers.get(label, -1) for label in self.class_map.values())
        return tuple(f"{line}  ({counts[number]} different)" for number, line in enumerate(lines))


def classes_of_map(class_map: ClassMap, elements: Iterable[Any]) -> GivenClasses:
    """Number the classes of a map.

    `class_map`: From an element to its class. Whole numbers from 0 to 255 are the classes' numbers; other classes are
    numbered in the order of the mapping, or in which a function returns them for these elements.
    """
    given: Iterable[Any] = class_map.values() if isinstance(class_map, Mapping) else map(class_map, elements)
    labels = [_plain_label(label, place) for place, label in enumerate(given)]
    if labels and all(isinstance(label, int) for label in labels):
        wrong = next((label for label in labels if not 0 <= label <= MOST_NUMBER), None)
        if wrong is not None:
            raise DataError(f"class {wrong} is not from 0 to {MOST_NUMBER}: give classes small numbers, or names")
        labels = list(range(max(labels) + 1))
    return GivenClasses(class_map, {label: number for number, label in enumerate(dict.fromkeys(labels))})


def _plain_label(label: Any, position: int) -> Any:
    """Return a label, numpy's whole numbers as Python's."""
    plain = int(label) if isinstance(label, (np.integer, bool, np.bool_)) else label
    if not isinstance(plain, Hashable):
        raise DataError(f"the class of element {position} is {label!r}: give a number, a text or a tuple")
    return plain


def identity_classes(elements: Sequence[Hashable]) -> GivenClasses:
    """Give each different element a class of its own, numbers in ascending order, others as they appear."""
    different: list[Any] = list(dict.fromkeys(elements))
    if all(isinstance(element, (int, float)) for element in different):
        different.sort()
    numbers = {element: number for number, element in enumerate(different)}
    return GivenClasses({element: element for element in different}, numbers)


def most_used_classes(elements: Sequence[Hashable], count: int) -> GivenClasses:
    """Give the most used elements a class each, the most used first, and all others one."""
    check_count(count, "classes of the most used elements")
    kept = [element for element, _ in Counter(elements).most_common(count - 1)]
    others = next(label for label in (_OTHERS, f"all {_OTHERS}", f"{_OTHERS} than these") if label not in kept)
    numbers = {label: number for number, label in enumerate([*kept, others])}
    return GivenClasses({element: element for element in kept}, numbers, others=len(kept))


@dataclass(frozen=True, eq=False)
class BandClasses(Classes):
    """Bands of one metric, or of addresses."""

    edges: FloatArray  # (k − 1,): Ascending. An element on an edge belongs to the band above.
    metric: str
    per: str | None = None  # Divisor of rates, where the metric is of a trace

    @property
    def metrics(self) -> tuple[str, ...]:
        """The one metric."""
        return (self.metric,)

    @property
    def names(self) -> tuple[str, ...]:
        """The bands, such as `x < 3`."""
        return band_names(self.edges, self.metric)

    def assign(self, values: ArrayLike) -> NDArray[np.int32]:
        """Return the band of each value, of shape (n,) or (n, 1)."""
        column = metric_rows(values, (self.metric,))[:, 0]
        return np.searchsorted(self.edges, column, "right").astype(np.int32)


def quantile_bands(values: FloatArray, count: int, metric: str, per: str | None = None) -> BandClasses:
    """Return bands that have equally many of the values, shape (n,)."""
    check_count(count, "quantiles")
    edges = np.quantile(values, np.arange(1, count) / count)
    below, first = np.unique(np.searchsorted(np.sort(values), edges), return_index=True)
    return BandClasses(edges[first[below > 0]], metric, per)  # equal values lie in one band, which leaves others empty


def range_bands(values: FloatArray, request: Ranges, metric: str, per: str | None = None) -> BandClasses:
    """Return bands that are equally wide."""
    check_count(request.count, "ranges")
    low = float(values.min()) if request.low is None else request.low
    high = float(values.max()) if request.high is None else request.high
    if low == high and request.low is None and request.high is None:
        return BandClasses(np.zeros(0), metric, per)
    if not low < high:
        raise DataError(f"ranges from {low:g} to {high:g}: give a lower bound that lies below the upper one")
    return BandClasses(np.linspace(low, high, request.count + 1)[1:-1], metric, per)


def check_count(count: int, what: str) -> None:
    """Refuse a number of classes out of range."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= MOST_NUMBER + 1:
        raise ValueError(f"{count!r} {what}: give a whole number from 1 to {MOST_NUMBER + 1}")


def metric_rows(values: ArrayLike, metrics: Sequence[str]) -> FloatArray:
    """Return values as rows of the named metrics, float64 of shape (n, metrics)."""
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"values are not numbers ({error}): give float values of shape (n,) or (n, metrics)") from error
    if rows.ndim not in (1, 2):
        raise DataError(f"values have shape {rows.shape}: give (n,) or (n, metrics)")
    rows = rows.reshape(len(rows), -1 if rows.size else len(metrics))
    if rows.shape[1] != len(metrics):
        raise DataError(
            f"values have {rows.shape[1]} columns, but the classes need {len(metrics)} ({', '.join(metrics)}): give "
            "the same metrics"
        )
    wrong = np.argwhere(~(np.abs(rows) <= _LARGEST))
    if len(wrong):
        row, column = (int(index) for index in wrong[0])
        more = f", and {len(wrong) - 1} more are not finite numbers" if len(wrong) > 1 else ""
        raise DataError(
            f"{metrics[column]} of element {row} is {rows[row, column]}{more}: drop or fill it before classifying"
        )
    return rows
