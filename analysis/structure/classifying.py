"""From elements to their classes: which way was asked for, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.classes import (
    BandClasses,
    Classes,
    ClassMap,
    GivenClasses,
    MostUsed,
    Quantiles,
    Ranges,
    check_count,
    given_classes,
    most_used,
    own_classes,
    quantile_bands,
    range_bands,
)
from unperturbed.analysis.structure.clustering import MOST_CLASSES
from unperturbed.analysis.structure.elements import Elements
from unperturbed.analysis.structure.metric_classes import MetricClasses, metric_classes
from unperturbed.analysis.structure.rates import Rates
from unperturbed.errors import DataError

__all__ = ["Asked", "Classified", "classify"]

Asked: TypeAlias = int | Quantiles | Ranges | MostUsed | ClassMap | Classes | None


@dataclass(frozen=True, eq=False)
class Classified:
    """The class of each element.

    Attributes
    ----------
    classes : Classes
    labels : int64, shape (n,)
    mixed : bool, shape (n,)
        Intervals in which one class gives way to the next.
    unlike : bool, shape (n,)
        Elements that are far from all classes.
    """

    classes: Classes
    labels: NDArray[np.int64]
    mixed: NDArray[np.bool_]
    unlike: NDArray[np.bool_]


def classify(elements: Elements, asked: Asked, *, smooth: bool | None, seed: int) -> Classified:
    """Classify elements as asked.

    Parameters
    ----------
    elements : Elements
    asked : as `classes` of `structural_sequence`.
    smooth : whether a change of class has to pay; None for intervals alone.
    seed : of k-means.
    """
    together = not elements.accesses if smooth is None else smooth
    classes = asked if isinstance(asked, Classes) else _found(elements, asked, together, seed)
    if isinstance(classes, MetricClasses):
        rates = _numbers(elements, "classes of metrics")
        labelling = classes.label(rates.values, rates.told, together=together, mixtures=not elements.accesses)
        return Classified(classes, labelling.labels, labelling.mixed, rates.told & (labelling.bits > classes.far))
    if isinstance(asked, GivenClasses) and isinstance(asked.of, Mapping) and asked.others is None:
        return _as_before(asked, asked.of, elements)
    of: Any = _numbers(elements, "bands").values if isinstance(classes, BandClasses) else elements.items
    none = np.zeros(len(elements), bool)
    return Classified(classes, classes.assign(of).astype(np.int64), none, none)


def _as_before(classes: GivenClasses, known: Mapping[Any, Any], elements: Elements) -> Classified:
    """Classify by another run's map; what that run had not has the number behind its classes."""
    _check_hashable(elements)
    met = np.array([item in known for item in elements.items], bool)
    if len(met) and not met.any():
        raise DataError(
            f"none of these {len(met):,} elements, such as {elements.items[0]!r}, is among those that the classes are made of: the two have "
            "nothing in common"
        )
    labels = np.full(len(elements), len(classes), np.int64)
    labels[met] = classes.assign(item for item, is_known in zip(elements.items, met.tolist(), strict=True) if is_known)
    return Classified(classes, labels, np.zeros(len(elements), bool), ~met)


def _found(elements: Elements, asked: Asked, together: bool, seed: int) -> Classes:
    """Make classes of the elements themselves."""
    if isinstance(asked, Mapping):
        return given_classes(asked, ())
    if callable(asked):
        return given_classes(asked, elements.items)
    if not len(elements):
        return GivenClasses({}, {})
    if isinstance(asked, (Quantiles, Ranges)):
        return _bands(elements, asked)
    if isinstance(asked, MostUsed) or elements.rates is None or elements.accesses:
        found = _of_accesses(elements, asked)
        if found is not None:
            return found
    assert elements.rates is not None
    return metric_classes(
        elements.rates.values,
        elements.rates.told,
        elements.metrics,
        per=elements.per,
        grain=elements.rates.grain,
        count=_checked(asked),
        together=together,
        mixtures=not elements.accesses,
        seed=seed,
    )


def _of_accesses(elements: Elements, asked: Asked) -> Classes | None:
    """Make classes of the most used elements, or of all where they are few; None where these are many numbers."""
    _check_hashable(elements)
    if isinstance(asked, MostUsed):
        return most_used(elements.items, asked.count)
    if len(set(elements.items)) <= (MOST_CLASSES if asked is None else _checked(asked) or 0):
        return own_classes(elements.items)
    return most_used(elements.items, _checked(asked) or MOST_CLASSES) if elements.rates is None else None


def _checked(asked: Asked) -> int | None:
    if asked is None:
        return None
    if not isinstance(asked, (int, np.integer)):
        raise TypeError(
            f"classes is {asked!r}: give a number, Quantiles, Ranges, MostUsed, a map, or the classes of another sequence"
        )
    check_count(int(asked), "classes")
    return int(asked)


def _bands(elements: Elements, asked: Quantiles | Ranges) -> BandClasses:
    values = _numbers(elements, type(asked).__name__.lower()).values
    if values.shape[1] != 1:
        raise DataError(
            f"{type(asked).__name__} divide one metric, and there are {values.shape[1]}: name one, or ask for a number of classes"
        )
    name = elements.metrics[0]
    if isinstance(asked, Quantiles):
        return quantile_bands(values[:, 0], asked.count, name, elements.per)
    return range_bands(values[:, 0], asked, name, elements.per)


def _numbers(elements: Elements, what: str) -> Rates:
    if elements.rates is None:
        raise DataError(
            f"{what} are for numbers, and the elements are none, such as {elements.items[0]!r}: give a map, or MostUsed"
        )
    return elements.rates


def _check_hashable(elements: Elements) -> None:
    for place, item in enumerate(elements.items):
        try:
            hash(item)
        except TypeError as error:
            raise DataError(f"element {place}, {item!r}, is not hashable: give numbers, texts or tuples") from error
