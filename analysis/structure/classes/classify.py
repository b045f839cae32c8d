"""Reading of a run's elements, and classification: by given classes, bands, the most used elements, or clustering.

Elements are intervals of a trace, rows of numbers, or accesses. Metrics of intervals are rates, so that intervals of
different lengths are comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    metric_rows,
    most_used_classes,
    quantile_bands,
    range_bands,
)
from unperturbed.analysis.structure.classes.clustering import MOST_CLASSES
from unperturbed.analysis.structure.classes.metric_classes import MetricClasses, Rates, metric_classes
from unperturbed.analysis.structure.classes.scaling import FloatArray
from unperturbed.collectors.data import Kind, Trace
from unperturbed.errors import DataError

TIME = "time"

_WORK = ("PAPI_TOT_INS", "perf::instructions", "callgrind::Ir")
"""Counters of instructions, in order of preference."""

_SHORT = 0.05
"""Minimum work of a classified interval, as a share of the median; a run's last interval is often shorter."""

_WAITING = 0.05
"""Share of intervals without work above which waiting is considered part of the program's work."""


def default_per(trace: Trace) -> str:
    """Return the default divisor of rates: instructions if nearly all intervals have some, else `time`.

    Rates per instruction remain constant while the program loses its processor; but they would hide waiting that is
    part of the program's work.
    """
    for name in _WORK:
        if name in trace.metrics and len(trace):
            least = _SHORT * np.median(trace[name])
            if least > 0 and np.mean(trace[name] < least) <= _WAITING:
                return name
    return TIME


def default_metrics(trace: Trace, per: str | None) -> tuple[str, ...]:
    """Return hardware metrics, including simulated ones; if there are none, those of the operating system, else all.

    Software metrics come last, because they mark places in the program, with which phases are compared. The divisor of
    rates is left out.
    """
    preferred: tuple[tuple[Kind, ...], ...] = (("hardware", "simulated"), ("os",), ())
    for kinds in preferred:
        names = tuple(name for name in trace.names(*kinds) if name != per)
        if names:
            return names
    raise DataError(
        f"the trace has no metric{f' other than `per` ({per})' if per else ''} by which to classify intervals: record "
        "more metrics"
    )


def rates_of(trace: Trace, metrics: Sequence[str], per: str | None) -> Rates:
    """Return counters divided by the counter `per` (`time`: in ns), and gauges and derived metrics unchanged."""
    values = trace.values(metrics)
    _refuse_missing(values, metrics)
    counters = np.array([_is_counter(trace, name) for name in metrics])
    whole = counters & np.array([np.issubdtype(trace[name].dtype, np.integer) for name in metrics])
    if per is None or not len(trace):
        return Rates(tuple(metrics), per, values, np.ones(len(trace), bool), np.where(whole, 1.0, 0.0))
    work = _work(trace, per)
    usual = float(np.median(work))
    if usual <= 0:
        raise DataError(
            f"`per` is {per!r}, which is 0 in most intervals: give another counter, or `None` to use undivided counts"
        )
    # An interval without instructions, in which the program waited, has no events either, and gets rates of 0.
    rates = np.where(counters, values / np.maximum(work, 1)[:, None], values)
    return Rates(tuple(metrics), per, rates, work >= _SHORT * usual, np.where(whole, 1 / usual, 0.0))


def _is_counter(trace: Trace, name: str) -> bool:
    return trace.metrics[name].semantics == "counter" and trace.metrics[name].kind != "derived"


def _work(trace: Trace, per: str) -> FloatArray:
    """Return the divisor of rates in each interval."""
    if per == TIME and TIME not in trace.metrics:
        return (trace.end_ns - trace.begin_ns).astype(np.float64)
    work = trace[per].astype(np.float64)
    _refuse_missing(work[:, None], (per,))
    if not _is_counter(trace, per):
        raise DataError(
            f"`per` is {per!r}, which is not a counter: give a counter, `{TIME}`, or `None` to use undivided counts"
        )
    return work


def _refuse_missing(values: FloatArray, metrics: Sequence[str]) -> None:
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = (int(index) for index in wrong[0])
        more = f" (further missing values: {len(wrong) - 1})" if len(wrong) > 1 else ""
        raise DataError(
            f"metric {metrics[column]!r} is {values[row, column]} in interval {row}{more}: use metrics that have a "
            "value in every interval"
        )


Source: TypeAlias = Trace | ArrayLike | Iterable[Any]

AUTO = "auto"


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of a run, as given and as rates."""

    items: Sequence[Any]  # Elements as given: numbers, tuples of numbers, or anything hashable
    rates: Rates | None  # Elements as rows of numbers; None if they are not numbers
    # Whether elements are accesses (integers, or not numbers), which are exact, instead of an interval's counts.
    are_accesses: bool

    def __len__(self) -> int:
        return len(self.items)


def read_elements(source: Source, *, metrics: Sequence[str] | None, per: str | None) -> Elements:
    """Read a run's elements; an array has the shape (n,) or (n, metrics)."""
    if isinstance(metrics, str):
        raise DataError(f"`metrics` is {metrics!r}: give a list of names, as in `[{metrics!r}]`")
    if isinstance(source, Trace):
        return _of_trace(source, metrics, per)
    array = _as_array(source)
    if not isinstance(array, np.ndarray):
        if metrics is not None:
            such = f" (such as {array[0]!r})" if array else ""
            raise DataError(
                f"elements that are not numbers{such} cannot be classified by {', '.join(metrics)}: give numbers, or "
                "omit `metrics`"
            )
        return Elements(array, None, are_accesses=True)
    columns = ["value"] if array.ndim < 2 else [f"metric {column}" for column in range(array.shape[-1])]
    names = tuple(columns if metrics is None else metrics)
    rows = metric_rows(array, names)
    items = array.tolist() if array.ndim == 1 else [tuple(row) for row in array.tolist()]
    rates = Rates(names, None, rows, np.ones(len(rows), bool), np.zeros(len(names)))
    return Elements(items, rates, are_accesses=array.ndim == 1 and array.dtype.kind in "biu")


def _of_trace(trace: Trace, metrics: Sequence[str] | None, per: str | None) -> Elements:
    divisor = default_per(trace) if per == AUTO else per
    names = tuple(metrics) if metrics is not None else default_metrics(trace, divisor)
    if not names:
        raise DataError("`metrics` is empty: name at least one metric, or omit `metrics`")
    columns = [trace[name].tolist() for name in names]
    items = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return Elements(items, rates_of(trace, names, divisor), are_accesses=False)


def _as_array(source: ArrayLike | Iterable[Any]) -> NDArray[Any] | list[Any]:
    """Return numbers as an array, anything else as a list."""
    if isinstance(source, np.ndarray) or hasattr(source, "to_numpy"):
        array = np.asarray(source)
        if array.dtype.kind in "biuf":
            return array
        if array.ndim != 1 or array.dtype.kind not in "OUS":
            raise DataError(
                f"the elements are an array of dtype {array.dtype} with the shape {array.shape}: give numbers, or a "
                "one-dimensional array of hashable elements"
            )
        return _as_array(array.tolist())
    if not isinstance(source, Iterable):
        raise DataError(f"the elements are {source!r}: give a trace, an array, or a sequence")
    items = list(source)
    if all(isinstance(item, (Real, np.bool_)) for item in items):
        array = np.array(items)
        return array if array.dtype.kind in "biuf" else np.array(items, dtype=np.float64)
    if all(isinstance(item, (list, np.ndarray)) for item in items):
        widths = sorted({len(item) for item in items})
        if len(widths) > 1:
            raise DataError(
                f"the rows have {widths[0]} to {widths[-1]} values: give the same number of values in each row"
            )
        return np.array(items, dtype=np.float64)
    return items


ClassesRequest: TypeAlias = int | Quantiles | Ranges | MostUsed | ClassMap | Classes | None


@dataclass(frozen=True, eq=False)
class Classification:
    """Result of classification: the class of each element."""

    classes: Classes  # The classifier
    labels: NDArray[np.int64]  # (n,)
    mixed: NDArray[np.bool_]  # (n,): Whether an interval is one in which one class changes to the next
    outliers: NDArray[np.bool_]  # (n,): Whether an element is far from all classes


def classify(elements: Elements, request: ClassesRequest, *, smooth: bool | None, seed: int) -> Classification:
    """Classify elements as requested; `smooth` gives changes of class a cost, by default for intervals only."""
    smoothed = not elements.are_accesses if smooth is None else smooth
    classes = request if isinstance(request, Classes) else _find_classes(elements, request, smoothed, seed)
    if isinstance(classes, MetricClasses):
        rates = _require_numbers(elements, "classes of metrics")
        labelling = classes.label(rates, smooth=smoothed, mixtures=not elements.are_accesses)
        outliers = rates.informative & (labelling.bits > classes.outlier_threshold)
        return Classification(classes, labelling.labels, labelling.mixed, outliers)
    if isinstance(request, GivenClasses) and isinstance(request.class_map, Mapping) and request.others is None:
        return _classify_by_known_elements(request, request.class_map, elements)
    bands = isinstance(classes, BandClasses)
    items: Any = _require_numbers(elements, "bands").values if bands else elements.items
    none = np.zeros(len(elements), bool)
    return Classification(classes, classes.assign(items).astype(np.int64), none, none)


def _classify_by_known_elements(classes: GivenClasses, known: Mapping[Any, Any], elements: Elements) -> Classification:
    """Classify elements by another run's map; elements that it lacks get the number after its classes."""
    _check_hashable(elements)
    met = np.array([item in known for item in elements.items], bool)
    if len(met) and not met.any():
        raise DataError(
            f"the given classes include none of the {len(met):,} elements (for example {elements.items[0]!r}): give "
            "classes that were found for elements of this kind"
        )
    labels = np.full(len(elements), len(classes), np.int64)
    labels[met] = classes.assign(item for item, is_known in zip(elements.items, met.tolist(), strict=True) if is_known)
    return Classification(classes, labels, np.zeros(len(elements), bool), ~met)


def _find_classes(elements: Elements, request: ClassesRequest, smooth: bool, seed: int) -> Classes:
    """Find the requested classes from the elements themselves."""
    if isinstance(request, Mapping):
        return classes_of_map(request, ())
    if callable(request):
        return classes_of_map(request, elements.items)
    if not len(elements):
        return GivenClasses({}, {})
    if isinstance(request, (Quantiles, Ranges)):
        return _find_bands(elements, request)
    if isinstance(request, MostUsed) or elements.rates is None or elements.are_accesses:
        classes = _find_classes_of_accesses(elements, request)
        if classes is not None:
            return classes
    assert elements.rates is not None
    count, mixtures = _requested_count(request), not elements.are_accesses
    return metric_classes(elements.rates, count=count, smooth=smooth, mixtures=mixtures, seed=seed)


def _find_classes_of_accesses(elements: Elements, request: ClassesRequest) -> Classes | None:
    """Return classes of the most used elements, or of all if there are few; None if they are many different numbers."""
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
            f"`classes` is {request!r}: use an integer, Quantiles, Ranges, MostUsed, a mapping, a function, or the "
            "classes of another sequence"
        )
    check_count(int(request), "classes")
    return int(request)


def _find_bands(elements: Elements, request: Quantiles | Ranges) -> BandClasses:
    kind = type(request).__name__
    rates = _require_numbers(elements, kind.lower())
    if len(rates.metrics) != 1:
        raise DataError(
            f"{kind} classify by one metric, not {len(rates.metrics)}: give one metric, or set `classes` to a number"
        )
    if isinstance(request, Quantiles):
        return quantile_bands(rates.values[:, 0], request.count, rates.metrics[0], rates.per)
    return range_bands(rates.values[:, 0], request, rates.metrics[0], rates.per)


def _require_numbers(elements: Elements, what: str) -> Rates:
    if elements.rates is None:
        raise DataError(
            f"{what} need numbers, but elements such as {elements.items[0]!r} are not numbers: use a mapping, "
            "a function or MostUsed"
        )
    return elements.rates


def _check_hashable(elements: Elements) -> None:
    for position, item in enumerate(elements.items):
        try:
            hash(item)
        except TypeError as error:
            raise DataError(
                f"element {position}, {item!r}, is not hashable: give numbers, strings or tuples"
            ) from error
