"""Base of classifiers, classifiers by a map and by bands of one metric, and the names of classes.

Section 1 of "Structural analysis of measurement paths": a fixed set of elements is divided into a small number of
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
from unperturbed.common.wording import counted
from unperturbed.errors import DataError

_GAP = 0.2
"""Minimum gap between two levels of a metric, as a share of the metric's range over the classes."""

_LEAST_GAP = 3 * RESOLUTION
"""Minimum gap between two levels, on the scale; smaller differences are not named."""

_LEVELS = {1: ("",), 2: ("low", "high"), 3: ("low", "medium", "high")}
_MOST_METRICS = 3


def class_names(centres: FloatArray, metrics: Sequence[str]) -> tuple[str, ...]:
    """Name classes by the fewest metrics that distinguish each from all others: `PAPI_L2_TCM high, PAPI_BR_MSP low`.

    `centres`: array of float64, shape (k, metrics). Centres of the classes on one scale.
    Result: Different names. Classes that no set of three metrics distinguishes are numbered.
    """
    if len(centres) == 1:
        return ("all alike",)
    levels = [_levels(column) for column in centres.T]
    # The metrics in which classes differ most come first.
    order = sorted(range(len(metrics)), key=lambda column: -float(np.ptp(centres[:, column])))
    names = [_name(index, levels, order, metrics) for index in range(len(centres))]
    return tuple(
        f"{name} ({names[: number + 1].count(name)})" if names.count(name) > 1 else name
        for number, name in enumerate(names)
    )


def _levels(column: FloatArray) -> tuple[str, ...]:
    """Return the level of each class in one metric; the widest gaps, at most two, separate levels."""
    ordered = np.sort(column)
    gaps = np.diff(ordered)
    wide = np.flatnonzero(gaps > max(_GAP * (ordered[-1] - ordered[0]), _LEAST_GAP))
    cuts = sorted(wide[np.argsort(-gaps[wide], kind="stable")][:2].tolist())
    level: NDArray[np.int64] = np.searchsorted(ordered[cuts], column, "left")
    return tuple(_LEVELS[len(cuts) + 1][rank] for rank in level.tolist())


def _name(number: int, levels: Sequence[tuple[str, ...]], order: Sequence[int], metrics: Sequence[str]) -> str:
    """Name one class by the smallest set of metrics whose levels the fewest other classes share."""
    others = [other for other in range(len(levels[0])) if other != number]
    distinguishing = [column for column in order if levels[column][number]]
    best: tuple[int, ...] = ()
    fewest = len(others) + 1
    for size in range(1, min(_MOST_METRICS, len(distinguishing)) + 1):
        for chosen in combinations(distinguishing, size):
            alike = sum(all(levels[column][other] == levels[column][number] for column in chosen) for other in others)
            if alike < fewest:
                best, fewest = chosen, alike
        if fewest == 0:
            break
    return ", ".join(f"{metrics[column]} {levels[column][number]}" for column in sorted(best)) or "unlike the others"


def band_names(edges: FloatArray, metric: str) -> tuple[str, ...]:
    """Name the bands between edges, such as `x < 3`, `3 ≤ x < 7`, `x ≥ 7`."""
    if not len(edges):
        return ("all alike",)
    texts = _distinct(edges, 6)
    inner = [f"{low} ≤ {metric} < {high}" for low, high in pairwise(texts)]
    return (f"{metric} < {texts[0]}", *inner, f"{metric} ≥ {texts[-1]}")


def location_names(centres: FloatArray, metric: str) -> tuple[str, ...]:
    """Name classes of a single value by their position (`x near 4100`); "low" would mean little for addresses."""
    if len(centres) == 1:
        return ("all alike",)
    return tuple(f"{metric} near {text}" for text in _distinct(centres, 3))


def _distinct(values: FloatArray, digits: int) -> list[str]:
    """Format numbers with the given number of digits, or with more if necessary to make them differ."""
    for count in range(digits, 18):  # 17 digits distinguish any two numbers
        texts = [_format(value, count) for value in values.tolist()]
        if len(set(texts)) == len(values):
            break
    return texts


def _format(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text and 1 <= abs(value) < 1e15 else text


ClassMap: TypeAlias = Mapping[Any, Hashable] | Callable[[Any], Hashable]

MOST_NUMBER = 255
"""Largest class number in a map."""

_LARGEST = 1e150
"""Largest value that can be classified; squares of larger values overflow."""

_LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits
_OTHERS = "others"


def class_letter(number: int) -> str:
    """Return the letter of a class in figures and texts: A to Z, a to z, 0 to 9, then other Unicode letters."""
    return _LETTERS[number] if number < len(_LETTERS) else chr(0x100 + number - len(_LETTERS))


@dataclass(frozen=True)
class Quantiles:
    """Request to divide one metric into bands with equal numbers of elements.

    Attributes
    ----------
    count : int
        Number of bands; the result has fewer if many elements have the same value.
    """

    count: int


@dataclass(frozen=True)
class Ranges:
    """Request to divide one metric, or addresses (such as a disk's cylinders), into bands of equal width.

    Attributes
    ----------
    count : int
        Number of bands.
    low, high : float, optional
        Bounds of the range that is divided; by default the smallest and the largest value. Values outside belong to the
        first or the last band.
    """

    count: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class MostUsed:
    """Request for a class for each of the most used elements, and one class for all others.

    Attributes
    ----------
    count : int
        Number of classes, including that of all other elements.
    """

    count: int


class Classes(ABC):
    """Classifier of elements; classes are numbered from 0."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The name of each class."""

    @abstractmethod
    def assign(self, values: Any) -> NDArray[np.int32]:
        """Return the class of each element, independently of the others: shape (n,)."""

    def describe(self) -> tuple[str, ...]:
        """Return a line of text for each class: its letter and its name."""
        return tuple(f"{class_letter(number)}  {name}" for number, name in enumerate(self.names))

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class GivenClasses(Classes):
    """Classes given by a map from element to class."""

    class_map: ClassMap  # Map from an element to the label of its class
    numbers: Mapping[Hashable, int]  # Map from a label to the class's number
    others: int | None = None  # Class of elements that are not in the mapping; None refuses them

    @property
    def names(self) -> tuple[str, ...]:
        """The label of each class, as text."""
        return tuple(str(label) for label in self.numbers)

    def assign(self, values: Iterable[Any]) -> NDArray[np.int32]:
        """Return the class of each element."""
        labels = [self._label(element, position) for position, element in enumerate(values)]
        missing = next((place for place, label in enumerate(labels) if label not in self.numbers), None)
        if missing is not None:
            known = ", ".join(map(str, self.numbers))
            raise DataError(
                f"element {missing} has the unknown class {labels[missing]!r}: "
                f"use {f'one of {known}' if known else 'a map that is not empty'}"
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
                f"element {position}, {element!r}, is not hashable: give numbers, strings or tuples"
            ) from error
        if self.others is None:
            raise DataError(
                f"element {position}, {element!r}, has no class in the given map: add the element to the "
                "map, or give a function instead"
            )
        return tuple(self.numbers)[self.others]

    def describe(self) -> tuple[str, ...]:
        """Return a line for each class: its letter, its name and, in a mapping, its number of different elements."""
        lines = super().describe()
        if not isinstance(self.class_map, Mapping):
            return lines
        counts = Counter(self.numbers.get(label, -1) for label in self.class_map.values())
        return tuple(f"{line}  ({counts[number]} different)" for number, line in enumerate(lines))


def classes_of_map(class_map: ClassMap, elements: Iterable[Any]) -> GivenClasses:
    """Number the classes of a map.

    `class_map`: Map from an element to its class. Integers from 0 to 255 are the classes' numbers; other classes are
    numbered in the order of the mapping, or of a function's results for these elements.
    """
    given: Iterable[Any] = class_map.values() if isinstance(class_map, Mapping) else map(class_map, elements)
    labels = [_plain_label(label, place) for place, label in enumerate(given)]
    if labels and all(isinstance(label, int) for label in labels):
        wrong = next((label for label in labels if not 0 <= label <= MOST_NUMBER), None)
        if wrong is not None:
            raise DataError(f"class {wrong} is not between 0 and {MOST_NUMBER}: use numbers in this range, or names")
        labels = list(range(max(labels) + 1))
    return GivenClasses(class_map, {label: number for number, label in enumerate(dict.fromkeys(labels))})


def _plain_label(label: Any, position: int) -> Any:
    """Return a label, with numpy's integers converted to Python's."""
    plain = int(label) if isinstance(label, (np.integer, bool, np.bool_)) else label
    if not isinstance(plain, Hashable):
        raise DataError(
            f"element {position} has the class {label!r}, which is not hashable: give a number, a string or a tuple"
        )
    return plain


def identity_classes(elements: Sequence[Hashable]) -> GivenClasses:
    """Give each different element its own class; numbers are sorted, other elements are in order of occurrence."""
    different: list[Any] = list(dict.fromkeys(elements))
    if all(isinstance(element, (int, float)) for element in different):
        different.sort()
    numbers = {element: number for number, element in enumerate(different)}
    return GivenClasses({element: element for element in different}, numbers)


def most_used_classes(elements: Sequence[Hashable], count: int) -> GivenClasses:
    """Give each of the most used elements its own class, the most used first, and all others a common class."""
    check_count(count, "classes of the most used elements")
    kept = [element for element, _ in Counter(elements).most_common(count - 1)]
    others = next(label for label in (_OTHERS, f"all {_OTHERS}", f"{_OTHERS} than these") if label not in kept)
    numbers = {label: number for number, label in enumerate([*kept, others])}
    return GivenClasses({element: element for element in kept}, numbers, others=len(kept))


@dataclass(frozen=True, eq=False)
class BandClasses(Classes):
    """Classes that are bands of one metric, or of addresses."""

    edges: FloatArray  # (k − 1,): Ascending. An element on an edge belongs to the band above.
    metric: str
    per: str | None = None  # Divisor of rates, if the metric is a trace's

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric, as a tuple of one name."""
        return (self.metric,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bands, such as `x < 3`."""
        return band_names(self.edges, self.metric)

    def assign(self, values: ArrayLike) -> NDArray[np.int32]:
        """Return the band of each value: shape (n,); the values have the shape (n,) or (n, 1)."""
        column = metric_rows(values, (self.metric,))[:, 0]
        return np.searchsorted(self.edges, column, "right").astype(np.int32)


def quantile_bands(values: FloatArray, count: int, metric: str, per: str | None = None) -> BandClasses:
    """Return bands that contain equal numbers of the values, which have the shape (n,)."""
    check_count(count, "quantiles")
    edges = np.quantile(values, np.arange(1, count) / count)
    below, first = np.unique(np.searchsorted(np.sort(values), edges), return_index=True)
    return BandClasses(edges[first[below > 0]], metric, per)  # equal values are in one band, so others may be empty


def range_bands(values: FloatArray, request: Ranges, metric: str, per: str | None = None) -> BandClasses:
    """Return bands of equal width."""
    check_count(request.count, "ranges")
    low = float(values.min()) if request.low is None else request.low
    high = float(values.max()) if request.high is None else request.high
    if low == high and request.low is None and request.high is None:
        return BandClasses(np.zeros(0), metric, per)
    if not low < high:
        raise DataError(f"the range from {low:g} to {high:g} is empty: give a `low` below `high`")
    return BandClasses(np.linspace(low, high, request.count + 1)[1:-1], metric, per)


def check_count(count: int, what: str) -> None:
    """Raise ValueError if a number of classes is out of range."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 1 <= count <= MOST_NUMBER + 1:
        raise ValueError(f"the number of {what} is {count!r}: use a whole number from 1 to {MOST_NUMBER + 1}")


def metric_rows(values: ArrayLike, metrics: Sequence[str]) -> FloatArray:
    """Return values as rows of the named metrics, float64 of shape (n, metrics)."""
    try:
        rows = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the values are not numbers ({error}): give floats of the shape (n,) or (n, metrics)"
        ) from error
    if rows.ndim not in (1, 2):
        raise DataError(f"the values have the shape {rows.shape}: give values of the shape (n,) or (n, metrics)")
    rows = rows.reshape(len(rows), -1 if rows.size else len(metrics))
    if rows.shape[1] != len(metrics):
        raise DataError(
            f"the values have {counted(rows.shape[1], 'column')}, but the classes need {len(metrics)} "
            f"({', '.join(metrics)}): give one column for each of these metrics"
        )
    wrong = np.argwhere(~(np.abs(rows) <= _LARGEST))
    if len(wrong):
        row, column = (int(index) for index in wrong[0])
        more = f" (further unusable values: {len(wrong) - 1})" if len(wrong) > 1 else ""
        raise DataError(
            f"{metrics[column]} of element {row} is {rows[row, column]}{more}: use finite values, from {-_LARGEST:g} "
            f"to {_LARGEST:g}; drop the element, or replace the value"
        )
    return rows
