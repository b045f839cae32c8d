"""Structural sequence of a run: the classes of its elements, with runs of equal classes collapsed to one symbol.

Section 1 of "Structural analysis of measurement paths": replacing the elements with indexes of their classes gives long
sequences of identical indexes, "more conveniently represented by a short sequence of unrepeating class indexes".
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.classes.classifiers import BandClasses, Classes, GivenClasses, class_letter
from unperturbed.analysis.structure.classes.classify import AUTO, TIME, ClassesRequest, Source, classify, read_elements
from unperturbed.analysis.structure.classes.metric_classes import MetricClasses, join_short_runs, run_starts
from unperturbed.analysis.structure.classes.scaling import FloatArray
from unperturbed.collectors.data import Trace
from unperturbed.errors import DataError


@dataclass(frozen=True, eq=False)
class StructuralSequence:
    """Sequence of the classes of a run's elements, without repetitions.

    Attributes
    ----------
    symbols : array of int32, shape (n,)
        Class of each stretch of equal elements; neighbours are never equal.
    durations : array of float64, shape (n,)
        Duration of each stretch, in `unit`.
    starts : array of int64, shape (n,)
        Index of each stretch's first element.
    classes : Classes
        The classes of the elements; pass them to `structural_sequence` for a second run.
    elements : int
        Number of elements.
    unit : str
        Unit of the durations.
    mixed, outliers : array of int64, shape (any,)
        Indices of intervals in which one class changes to the next, and of elements that are far from all classes. Two
        or more neighbouring outliers have the symbol len(classes): work that a program does once, such as at its start,
        or that did not occur in the run in which the classes were found.
    name : str, default ""
        Name of the run.
    element : str, default "interval"
        Name of an element in texts and figures.
    """

    symbols: NDArray[np.int32]
    durations: FloatArray
    starts: NDArray[np.int64]
    classes: Classes
    elements: int
    unit: str
    mixed: NDArray[np.int64]
    outliers: NDArray[np.int64]
    name: str = ""
    element: str = "interval"

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of elements in each stretch: shape (n,)."""
        return np.diff(np.append(self.starts, self.elements))

    @property
    def labels(self) -> NDArray[np.int32]:
        """Class of each element: shape (elements,)."""
        return np.repeat(self.symbols, self.lengths)

    @property
    def letters(self) -> str:
        """The sequence as text, with a letter for each class."""
        return letters_of(self.symbols.tolist())

    @property
    def is_plain(self) -> bool:
        """Whether the sequence has one symbol, or two that alternate, so that no other order is possible."""
        return len(self) > 0 and len(np.unique(self.symbols)) <= 2

    @property
    def occurring_classes(self) -> frozenset[int]:
        """The classes that occur in the sequence."""
        return frozenset(symbol for symbol in self.symbols.tolist() if symbol < len(self.classes))

    @property
    def foreign_stretches(self) -> tuple[tuple[int, int], ...]:
        """First element of each stretch of outliers, and the element after its last."""
        ends = np.append(self.starts[1:], self.elements)
        foreign = np.flatnonzero(self.symbols >= len(self.classes))
        return tuple(zip(self.starts[foreign].tolist(), ends[foreign].tolist(), strict=True))

    @property
    def class_shares(self) -> FloatArray:
        """Each class's share of the duration, followed by the share of outlier stretches: shape (classes + 1,)."""
        totals = np.bincount(self.symbols, self.durations, len(self.classes) + 1)
        shares: FloatArray = totals / (totals.sum() or 1.0)
        return shares


def letters_of(symbols: Iterable[Any]) -> str:
    """Return symbols of a structural sequence or of its words as text, with a letter for each class."""
    return "".join(symbol if isinstance(symbol, str) else class_letter(operator.index(symbol)) for symbol in symbols)


def structural_sequence(
    source: Source,
    *,
    metrics: Sequence[str] | None = None,
    classes: ClassesRequest = None,
    per: str | None = AUTO,
    durations: str | ArrayLike | None = None,
    smooth: bool | None = None,
    dwell: int = 1,
    seed: int = 0,
    name: str = "",
    element: str = "interval",
) -> StructuralSequence:
    """Reduce a run to the sequence of its classes.

    Parameters
    ----------
    source : Trace, array of shape (n,) or (n, metrics), or sequence
        A run's intervals, or its accesses: anything hashable, such as pages, modules, blocks; text is a sequence of
        characters.
    metrics : sequence of str, optional
        For a trace: the metrics by which intervals are classified. By default all hardware metrics, including simulated
        ones (else those of the operating system, else all). For an array: names of its columns.
    classes : int, Quantiles, Ranges, MostUsed, mapping, callable or Classes, optional
        * None finds 1 to 10 classes of intervals by k-means; their number is the one that takes the fewest bits
          (`clustering`). Accesses of up to 10 different kinds have a class each. With more kinds, whole numbers are
          classified by k-means; of other accesses, the nine most used kinds have a class each.
        * A whole number of classes; there are fewer if the run has fewer different values.
        * `Quantiles(k)`, `Ranges(k)`: bands of one metric, or of addresses. `MostUsed(k)`: a class for each of the k −
          1 most used elements.
        * A mapping from element to class, or a function. For a trace, its argument is the value of the metric in
          `metrics`, or a tuple of several values. Classes from 0 to 255 keep their numbers.
        * `classes` of another sequence: this run is classified in the same way. Stretches that are far from all
          classes, and accesses that the other run's map lacks, have a symbol of their own.
    per : str or None, default "auto"
        For a trace: name of a counter by which counters are divided, or `time`; then intervals of different lengths are
        comparable. `auto` uses instructions if the trace counts them, else time. None does not divide.
    durations : str or array of shape (n,), optional
        Durations of the elements, each 1 by default. For a trace: `time` for seconds, or the name of a counter.
    smooth : bool, optional
        For classes of metrics: whether a change of class has a cost, and intervals in which one class changes to the
        next are recognised (`labelling`). The default is True for intervals; each access is classified on its own.
    dwell : int, default 1
        Stretches of fewer elements are joined to a neighbour (`join_short_runs`).
    seed : int, default 0
        Seed of k-means.
    name : str, default ""
        Name of the run for texts and figures.
    element : str, default "interval"
        Name of an element in texts and figures.

    Returns
    -------
    StructuralSequence
        The sequence: empty for an empty source, a single symbol for one class.

    Raises
    ------
    DataError
        An element has no class in the map; a value is not a number or not finite; the trace lacks a metric.
    ValueError
        A number of classes, or the dwell, is out of range.
    """
    if operator.index(dwell) < 1:
        raise ValueError(f"`dwell` is {dwell}: use a number of elements, 1 or more")
    metrics, per = _inherit_metrics(classes, metrics, per)
    is_map = callable(classes) or isinstance(classes, (Mapping, GivenClasses))
    if isinstance(source, Trace) and metrics is None and is_map:
        raise DataError(
            "a mapping or function in `classes` needs the values of metrics, but no metrics are given: name the "
            "metrics in `metrics`"
        )
    elements = read_elements(source, metrics=metrics, per=per)
    classified = classify(elements, classes, smooth=smooth, seed=seed)
    labels = classified.labels
    if isinstance(classified.classes, MetricClasses):  # a single outlier is not a phase
        beside = np.pad(classified.outliers, 1)
        labels = np.where(classified.outliers & (beside[:-2] | beside[2:]), len(classified.classes), labels)
    labels = join_short_runs(labels, dwell) if dwell > 1 else labels
    starts = run_starts(labels)
    lasted, unit = _durations(source, durations, len(elements))
    return StructuralSequence(
        symbols=labels[starts].astype(np.int32),
        durations=np.add.reduceat(lasted, starts) if len(starts) else np.zeros(0),
        starts=starts,
        classes=classified.classes,
        elements=len(elements),
        unit=unit,
        mixed=np.flatnonzero(classified.mixed),
        outliers=np.flatnonzero(classified.outliers),
        name=name,
        element=element,
    )


def most_discriminating_metric(source: Source, sequence: StructuralSequence) -> tuple[str, FloatArray] | None:
    """Return the metric whose ranks differ most between a run's classes, and the metric's values.

    Parameters
    ----------
    source : Trace, array of shape (n,) or (n, metrics), or sequence
        The run from which the sequence was computed.
    sequence : StructuralSequence
        The sequence, which has the class of each element.

    Returns
    -------
    tuple of str and array of float64, shape (elements,), or None
        The metric's name, and the rates that were classified; None if the elements are not numbers.
    """
    classes = sequence.classes
    metrics, per = (classes.metrics, classes.per) if isinstance(classes, MetricClasses) else (None, AUTO)
    rates, labels = read_elements(source, metrics=metrics, per=per).rates, sequence.labels
    if rates is None or not len(labels):
        return None
    ranks = rates.values.argsort(axis=0, kind="stable").argsort(axis=0).astype(np.float64)
    sizes = np.maximum(np.bincount(labels), 1)
    variance_between = []
    for column in ranks.T:
        means = np.bincount(labels, column) / sizes
        variance_between.append(float(np.var(means[labels])))
    best = int(np.argmax(variance_between))
    unit = f" per {rates.per}" if rates.per else ""
    return f"{rates.metrics[best]}{unit}", rates.values[:, best]


def _inherit_metrics(
    classes: ClassesRequest, metrics: Sequence[str] | None, per: str | None
) -> tuple[Sequence[str] | None, str | None]:
    """Return metrics and divisor: another run's if this run gets that run's classes, else the given ones."""
    if not isinstance(classes, (MetricClasses, BandClasses)):
        return metrics, per
    if metrics is not None and tuple(metrics) != classes.metrics:
        raise DataError(
            f"the given classes use the metrics {', '.join(classes.metrics)}, not those in `metrics`: omit `metrics`, "
            "or omit `classes` to find new ones"
        )
    if per not in (AUTO, classes.per):
        raise DataError(
            f"`per` is {per!r}, but the given classes use {classes.per!r}: omit `per`, or omit `classes` to "
            "find new ones"
        )
    return classes.metrics, classes.per


def _durations(source: Source, requested: str | ArrayLike | None, count: int) -> tuple[FloatArray, str]:
    """Return the duration of each element, and the unit of durations."""
    trace = source if isinstance(source, Trace) else None
    if requested is None:
        return np.ones(count), "intervals" if trace else "elements"
    if isinstance(requested, str):
        if trace is None:
            raise DataError(
                f"`durations` is {requested!r}, but the elements are not a trace: give an array with a number for each "
                "element"
            )
        if requested == TIME and TIME not in trace.metrics:
            return (trace.end_ns - trace.begin_ns) / 1e9, "s"
        lasted, unit = trace[requested].astype(np.float64), requested
    else:
        lasted, unit = np.asarray(requested, dtype=np.float64), "given"
    if lasted.shape != (count,):
        raise DataError(f"`durations` has the shape {lasted.shape}: give one number for each of the {count} elements")
    wrong = np.flatnonzero(~(np.isfinite(lasted) & (lasted >= 0)))
    if len(wrong):
        raise DataError(f"the duration of element {wrong[0]} is {lasted[wrong[0]]}: use finite numbers, 0 or more")
    return lasted, unit
