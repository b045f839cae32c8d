"""Classify a run's elements as requested: by given classes, bands, the most used elements, or clustering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.classes.classifiers import (
    BandClasses,
    Classes,
    ClassMap,
    GivenClasses,
    MostUsed,
    Quantiles,
    Ranges,
    check_count,
    classes_of_map,
    identity_classes,
    most_used_classes,
    quantile_bands,
    range_bands,
)
from unperturbed.analysis.structure.classes.clustering import MOST_CLASSES
from unperturbed.analysis.structure.classes.elements import Elements, Rates
from unperturbed.analysis.structure.classes.metric_classes import MetricClasses, metric_classes
from unperturbed.errors import DataError

ClassesRequest: TypeAlias = int | Quantiles | Ranges | MostUsed | ClassMap | Classes | None


@dataclass(frozen=True, eq=False)
class Classification:
    """The class of each element."""

    classes: Classes  # The classifier
    labels: NDArray[np.int64]  # (n,): Class of each element
    mixed: NDArray[np.bool_]  # (n,): Intervals in which one class gives way to the next
    outliers: NDArray[np.bool_]  # (n,): Elements that are far from all classes


def classify(elements: Elements, request: ClassesRequest, *, smooth: bool | None, seed: int) -> Classification:
    """Classify elements as requested.

    `smooth`: Whether a change of class has to pay; None for intervals alone.
    """
    smoothed = not elements.are_accesses if smooth is None else smooth
    classes = request if isinstance(request, Classes) else _find_classes(elements, request, smoothed, seed)
    if isinstance(classes, MetricClasses):
        rates = _require_numbers(elements, "classes of metrics")
        labelling = classes.label(rates.values, rates.informative, smooth=smoothed, mixtures=not elements.are_accesses)
        outliers = rates.informative & (labelling.bits > classes.outlier_threshold)
        return Classification(classes, labelling.labels, labelling.mixed, outliers)
    if isinstance(request, GivenClasses) and isinstance(request.class_map, Mapping) and request.others is None:
        return _classify_by_known_elements(request, request.class_map, elements)
    bands = isinstance(classes, BandClasses)
    items: Any = _require_numbers(elements, "bands").values if bands else elements.items
    none = np.zeros(len(elements), bool)
    return Classification(classes, classes.assign(items).astype(np.int64), none, none)


def _classify_by_known_elements(classes: GivenClasses, known: Mapping[Any, Any], elements: Elements) -> Classification:
    """Classify by another run's map; elements that it lacks have the number behind its classes."""
    _check_hashable(elements)
    met = np.array([item in known for item in elements.items], bool)
    if len(met) and not met.any():
        raise DataError(
            f"none of these {len(met):,} elements, such as {elements.items[0]!r}, is among those of the classes: the "
            "two have nothing in common"
        )
    labels = np.full(len(elements), len(classes), np.int64)
    labels[met] = classes.assign(item for item, is_known in zip(elements.items, met.tolist(), strict=True) if is_known)
    return Classification(classes, labels, np.zeros(len(elements), bool), ~met)


def _find_classes(elements: Elements, request: ClassesRequest, smooth: bool, seed: int) -> Classes:
    """Derive classes from the elements themselves."""
    if isinstance(request, Mapping):
        return classes_of_map(request, ())
    if callable(request):
        return classes_of_map(request, elements.items)
    if not len(elements):
        return GivenClasses({}, {})
    if isinstance(request, (Quantiles, Ranges)):
        return _find_bands(elements, request)
    if isinstance(request, MostUsed) or elements.rates is None or elements.are_accesses:
        found = _find_classes_of_accesses(elements, request)
        if found is not None:
            return found
    assert elements.rates is not None
    return metric_classes(
        elements.rates.values,
        elements.rates.informative,
        elements.metrics,
        per=elements.per,
        quantum=elements.rates.quantum,
        count=_requested_count(request),
        smooth=smooth,
        mixtures=not elements.are_accesses,
        seed=seed,
    )


def _find_classes_of_accesses(elements: Elements, request: ClassesRequest) -> Classes | None:
    """Return classes of the most used elements, or of all where they are few; None where these are many numbers."""
    _check_hashable(elements)
    if isinstance(request, MostUsed):
        return most_used_classes(elements.items, request.count)
    if len(set(elements.items)) <= (MOST_CLASSES if request is None else _requested_count(request) or 0):
        return identity_classes(elements.items)
    if elements.rates is None:
        return most_used_classes(elements.items, _requested_count(request) or MOST_CLASSES)
    return None


def _requested_count(request: ClassesRequest) -> int | None:
    if request is None:
        return None
    if not isinstance(request, (int, np.integer)):
        raise TypeError(
            f"classes is {request!r}: give a number, Quantiles, Ranges, MostUsed, a map, or the classes of another "
            "sequence"
        )
    check_count(int(request), "classes")
    return int(request)


def _find_bands(elements: Elements, request: Quantiles | Ranges) -> BandClasses:
    kind = type(request).__name__
    values = _require_numbers(elements, kind.lower()).values
    if values.shape[1] != 1:
        raise DataError(
            f"{kind} divide one metric, and there are {values.shape[1]}: name one, or ask for a number of classes"
        )
    name = elements.metrics[0]
    if isinstance(request, Quantiles):
        return quantile_bands(values[:, 0], request.count, name, elements.per)
    return range_bands(values[:, 0], request, name, elements.per)


def _require_numbers(elements: Elements, what: str) -> Rates:
    if elements.rates is None:
        raise DataError(
            f"{what} are for numbers, and the elements are none, such as {elements.items[0]!r}: give a map, or MostUsed"
        )
    return elements.rates


def _check_hashable(elements: Elements) -> None:
    for position, item in enumerate(elements.items):
        try:
            hash(item)
        except TypeError as error:
            raise DataError(f"element {position}, {item!r}, is not hashable: give numbers, texts or tuples") from error
