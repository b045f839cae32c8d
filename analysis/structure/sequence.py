"""A run as a structural sequence: the classes of its elements, each run of equal ones collapsed to one symbol.

Section 1 of "Structural analysis of measurement paths": transforming the elements into indexes of their classes gives long sequences of
identical indexes, "more conveniently represented by a short sequence of unrepeating class indexes".
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.classes import BandClasses, Classes, GivenClasses, letter_of
from unperturbed.analysis.structure.classifying import Asked, classify
from unperturbed.analysis.structure.dwell import join_short_runs, run_starts
from unperturbed.analysis.structure.elements import AUTO, Source, elements_of
from unperturbed.analysis.structure.metric_classes import MetricClasses
from unperturbed.analysis.structure.rates import TIME
from unperturbed.analysis.structure.scaling import FloatArray
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["StructuralSequence", "letters_of", "structural_sequence"]


@dataclass(frozen=True, eq=False)
class StructuralSequence:
    """The classes of a run's elements, without repetitions.

    Attributes
    ----------
    symbols : int32, shape (n,)
        Class of each run of elements; no two neighbours are equal.
    durations : float64, shape (n,)
        Of each run, in `unit`.
    starts : int64, shape (n,)
        Index of each run's first element.
    classes : Classes
    elements : int
        How many there were.
    unit : str
        Of the durations.
    mixed, unlike : int64, shape (any,)
        Intervals in which one class gives way to the next; elements that are far from all classes. Two or more of the latter side by side have the
        symbol len(classes): what a program does once, as at its start, or what the run that the classes are of never did.
    name : str
    """

    symbols: NDArray[np.int32]
    durations: FloatArray
    starts: NDArray[np.int64]
    classes: Classes
    elements: int
    unit: str
    mixed: NDArray[np.int64]
    unlike: NDArray[np.int64]
    name: str = ""

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Elements of each run: shape (n,)."""
        return np.diff(np.append(self.starts, self.elements))

    @property
    def labels(self) -> NDArray[np.int32]:
        """Class of each element: shape (elements,)."""
        return np.repeat(self.symbols, self.lengths)

    @property
    def letters(self) -> str:
        """The sequence with a letter for each class, for showing."""
        return letters_of(self.symbols.tolist())


def letters_of(symbols: Iterable[Any]) -> str:
    """Return symbols of a structural sequence, or of a word of it, with a letter for each class; text stays as it is."""
    return "".join(symbol if isinstance(symbol, str) else letter_of(operator.index(symbol)) for symbol in symbols)


def structural_sequence(
    source: Source,
    *,
    metrics: Sequence[str] | None = None,
    classes: Asked = None,
    per: str | None = AUTO,
    durations: str | ArrayLike | None = None,
    smooth: bool | None = None,
    dwell: int = 1,
    seed: int = 0,
    name: str = "",
) -> StructuralSequence:
    """Reduce a run to the sequence of its classes.

    Parameters
    ----------
    source : Trace, array of shape (n,) or (n, metrics), or sequence of accesses
        Accesses are anything hashable: pages, modules, blocks; text is a sequence of characters.
    metrics : names, optional
        Of a trace: by which intervals are told apart. None takes all hardware metrics, simulated ones included (else those of the
        operating system, else all). Of an array: what its columns are called.
    classes : optional
        * None finds classes of intervals by k-means, as many as take the fewest bits, 1 to 10 (`clustering`). Accesses of up to 10 different
          kinds have a class each; of more, whole numbers go to k-means, and of others the nine most used have a class each.
        * A whole number: so many, or fewer where the run has not so many different values.
        * `Quantiles(k)`, `Ranges(k)`: bands of one metric, or of addresses. `MostUsed(k)`: a class for each of the k − 1 most used elements.
        * A mapping from element to class, or a function. Of a trace it takes the values of `metrics`, a tuple where there are several.
          Classes from 0 to 255 keep their numbers.
        * `classes` of another sequence: this run is classified as that one. Stretches that are far from all classes, and accesses that the
          other run's map lacks, have a symbol of their own.
    per : name of a counter, `time`, or None
        Of a trace: what counters are divided by, so that intervals of different length compare. `auto` takes instructions where the trace
        counts them, else time.
    durations : optional
        None counts elements. Of a trace: `time` for seconds, or the name of a counter. Or an array, shape (n,): how much each element
        lasted.
    smooth : bool, optional
        With classes of metrics: whether a change of class has to pay, and intervals in which one class gives way to the next are seen as
        such (`labelling`). None does so for intervals, and classifies each access by itself.
    dwell : elements
        A run of fewer joins a neighbour (`join_short_runs`).
    seed : int
        Of k-means.
    name : str

    Returns
    -------
    StructuralSequence
        Of an empty source an empty one; of one class a single symbol.

    Raises
    ------
    DataError
        An element has no class in the map; a value is no number or not finite; the trace lacks a metric.
    ValueError
        A number of classes, or the dwell, is none.
    """
    if operator.index(dwell) < 1:
        raise ValueError(f"dwell is {dwell}: give a number of elements, 1 or more")
    metrics, per = _as_before(classes, metrics, per)
    if isinstance(source, Trace) and metrics is None and (callable(classes) or isinstance(classes, (Mapping, GivenClasses))):
        raise DataError("a map takes values of a trace's metrics: name these as `metrics`")
    elements = elements_of(source, metrics=metrics, per=per)
    found = classify(elements, classes, smooth=smooth, seed=seed)
    labels = found.labels
    if isinstance(found.classes, MetricClasses):
        labels = np.where(_in_company(found.unlike), len(found.classes), labels)
    labels = join_short_runs(labels, dwell) if dwell > 1 else labels
    starts = run_starts(labels)
    lasted, unit = _lasted(source, durations, len(elements))
    return StructuralSequence(
        symbols=labels[starts].astype(np.int32),
        durations=np.add.reduceat(lasted, starts) if len(starts) else np.zeros(0),
        starts=starts,
        classes=found.classes,
        elements=len(elements),
        unit=unit,
        mixed=np.flatnonzero(found.mixed),
        unlike=np.flatnonzero(found.unlike),
        name=name,
    )


def _in_company(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which flags stand beside another one: a single odd interval is no phase."""
    padded = np.concatenate(([False], flags, [False]))
    return flags & (padded[:-2] | padded[2:])


def _as_before(classes: Asked, metrics: Sequence[str] | None, per: str | None) -> tuple[Sequence[str] | None, str | None]:
    """Return by what a run was classified, where this one is to be classified alike."""
    if not isinstance(classes, (MetricClasses, BandClasses)):
        return metrics, per
    if metrics is not None and tuple(metrics) != classes.metrics:
        raise DataError(f"the classes are of {', '.join(classes.metrics)}: leave `metrics` out, or find classes anew")
    if per not in (AUTO, classes.per):
        raise DataError(f"the classes are of rates per {classes.per}: leave `per` out, or find classes anew")
    return classes.metrics, classes.per


def _lasted(source: Source, durations: str | ArrayLike | None, count: int) -> tuple[FloatArray, str]:
    """Return how much each element lasted, and the unit."""
    trace = source if isinstance(source, Trace) else None
    if durations is None:
        return np.ones(count), "intervals" if trace else "elements"
    if isinstance(durations, str):
        if trace is None:
            raise DataError(f"durations are {durations!r}, and the elements are no trace: give an array, a number for each")
        if durations == TIME and TIME not in trace.metrics:
            return (trace.end_ns - trace.begin_ns) / 1e9, "s"
        lasted, unit = trace[durations].astype(np.float64), durations
    else:
        lasted, unit = np.asarray(durations, dtype=np.float64), "given"
    if lasted.shape != (count,):
        raise DataError(f"durations have shape {lasted.shape}, and there are {count} elements: give a number for each")
    wrong = np.flatnonzero(~(np.isfinite(lasted) & (lasted >= 0)))
    if len(wrong):
        raise DataError(f"the duration of element {wrong[0]} is {lasted[wrong[0]]}: give finite numbers, 0 or more")
    return lasted, unit
