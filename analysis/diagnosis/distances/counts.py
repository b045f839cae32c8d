"""Base class of distances, and the distances that count events (sections III-A, III-B and III-D of the paper).

An event type here is an event in the paper's terms (an element of Σ).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.events import EventTrace, EventType, shared_ids
from unperturbed.common.result import Result
from unperturbed.common.table import Column, Table
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl


def normalize(distance: float) -> float:
    """Return g(d) = d / (1 + d), from 0 to 1 (section III-D); 1 for an infinite distance.

    Raises
    ------
    ValueError
        A negative distance or NaN.
    """
    if not distance >= 0:
        raise ValueError(f"`distance` is {distance}: use a number of 0 or more")
    return 1.0 if math.isinf(distance) else distance / (1 + distance)


class EventDistance(Result):
    """Distance between two event traces; subclasses have `total`, `by_plugin` and the distance's name."""

    _page: ClassVar[str] = "unperturbed.analysis.diagnosis.page:render_distance"
    _called: ClassVar[str]
    total: float
    by_plugin: Mapping[str, float]

    @property
    def normalised(self) -> float:
        """The distance, scaled to the range from 0 to 1; see `normalize`."""
        return normalize(self.total)

    def headline(self) -> str:
        """Return one line with the distance's name, value and normalised value."""
        return f"{self._called} distance {self.total:.6g} (normalised {self.normalised:.4f})"

    def tables(self) -> list[Table]:
        """Return a table of each plugin's distance, the largest first."""
        ranked = sorted(self.by_plugin.items(), key=lambda item: -item[1])
        rows = [(plugin or "no plugin", f"{value:.6g}") for plugin, value in ranked]
        return [Table([Column("plugin"), Column("distance", "right")], rows)] if rows else []

    def to_frame(self) -> pl.DataFrame:
        """Return a data frame with one row for each plugin."""
        import polars as pl  # noqa: PLC0415  slow to load

        columns = {"plugin": list(self.by_plugin), "distance": [float(value) for value in self.by_plugin.values()]}
        return pl.DataFrame(columns, {"plugin": pl.String, "distance": pl.Float64})

    def to_dict(self) -> dict[str, Any]:
        """Return the distance as plain data, ready for JSON."""
        values = {"value": self.total, "normalised": self.normalised, "by_plugin": dict(self.by_plugin)}
        return {"distance": self._called, **values}


EXPERIMENTS_THETA = 0.25
"""θ in the paper's experiments (section V); its example 1 has 0.5."""


@dataclass(frozen=True, eq=False)
class TypeCounts:
    """Occurrences of each event type in two traces.

    Attributes
    ----------
    types : tuple of EventType
        The reference's types, then those that only the trace has.
    reference, trace : array of int64, shape (types,)
        Occurrences of each type.
    """

    types: tuple[EventType, ...]
    reference: NDArray[np.int64]
    trace: NDArray[np.int64]

    @property
    def ratios(self) -> NDArray[np.float64]:
        """occ_ratio of definition 1, from 0 to 1: shape (types,); 0 if one trace lacks the type."""
        return np.asarray(np.minimum(self.reference, self.trace) / np.maximum(self.reference, self.trace))

    @property
    def one_sided(self) -> NDArray[np.bool_]:
        """Whether each type occurs in only one trace: shape (types,)."""
        return np.asarray((self.reference == 0) | (self.trace == 0))


def count_types(reference: EventTrace, trace: EventTrace) -> TypeCounts:
    """Count the occurrences of each event type in both traces, in a single scan of each."""
    types, numbers = shared_ids([reference, trace])
    counts = [np.bincount(ids, minlength=len(types)).astype(np.int64) for ids in numbers]
    return TypeCounts(types, *counts)


@dataclass(frozen=True, eq=False, repr=False)
class _CountedDistance(EventDistance):
    """Distance that is a number of event types."""

    types: tuple[EventType, ...]  # The types that are counted
    by_plugin: Mapping[str, int]  # Number of counted types, for all plugins of both traces, including 0
    counts: TypeCounts  # Occurrences of all types

    @property
    def total(self) -> int:  # type: ignore[override]  # a frozen class: nobody sets it
        """The number of counted types."""
        return len(self.types)


@dataclass(frozen=True, eq=False, repr=False)
class OccurrenceDistance(_CountedDistance):
    """Event types that are much more frequent in one trace than in the other; see `occurrence_distance`.

    Attributes
    ----------
    theta : float
        The threshold θ.
    one_sided : bool
        Whether types that occur in only one trace count.
    """

    _called: ClassVar[str] = "occurrence"

    theta: float
    one_sided: bool


@dataclass(frozen=True, eq=False, repr=False)
class DroppingDistance(_CountedDistance):
    """Event types that occur in only one trace; see `dropping_distance`."""

    _called: ClassVar[str] = "dropping"

    @property
    def missing(self) -> tuple[EventType, ...]:
        """Types that occur only in the reference."""
        return _chosen(self.counts, self.counts.trace == 0)

    @property
    def added(self) -> tuple[EventType, ...]:
        """Types that occur only in the trace."""
        return _chosen(self.counts, self.counts.reference == 0)


def occurrence_distance(
    reference: EventTrace, trace: EventTrace, *, theta: float = EXPERIMENTS_THETA, one_sided: bool = False
) -> OccurrenceDistance:
    """Count event types that are much more frequent in one trace than in the other (definitions 1 and 2).

    Parameters
    ----------
    reference, trace : EventTrace
        Traces of any length and unit; times do not matter.
    theta : float
        θ, from 0 to 1: a type counts if its smaller number of occurrences is at most θ times the larger one. The
        default is that of the paper's experiments.
    one_sided : bool
        Whether types that occur in only one trace count too. Their ratio is 0, so the formula would count them; but the
        paper states that "e should appear in traces", its example 1 leaves them out, and the dropping distance counts
        them.

    Returns
    -------
    OccurrenceDistance
        The number of types, in total and by plugin.

    Raises
    ------
    ValueError
        A θ outside 0 … 1.
    """
    if not 0 <= theta <= 1:
        raise ValueError(f"`theta` is {theta}: use a ratio from 0 to 1")
    counts = count_types(reference, trace)
    differs = counts.ratios <= theta
    if not one_sided:
        differs &= ~counts.one_sided
    return OccurrenceDistance(*_by_plugin(counts, differs), counts, theta, one_sided)


def dropping_distance(reference: EventTrace, trace: EventTrace) -> DroppingDistance:
    """Count event types that occur in only one trace (definition 3).

    Parameters
    ----------
    reference, trace : EventTrace
        Traces of any length and unit; times do not matter.

    Returns
    -------
    DroppingDistance
        The number of types, in total and by plugin.
    """
    counts = count_types(reference, trace)
    return DroppingDistance(*_by_plugin(counts, counts.one_sided), counts)


def _chosen(counts: TypeCounts, flags: NDArray[np.bool_]) -> tuple[EventType, ...]:
    return tuple(kind for kind, flag in zip(counts.types, flags, strict=True) if flag)


def _by_plugin(counts: TypeCounts, flags: NDArray[np.bool_]) -> tuple[tuple[EventType, ...], dict[str, int]]:
    chosen = _chosen(counts, flags)
    numbers = dict.fromkeys((kind.plugin for kind in counts.types), 0)
    for kind in chosen:
        numbers[kind.plugin] += 1
    return chosen, numbers


def require_one_unit(traces: Iterable[EventTrace]) -> None:
    """Raise DataError if traces have different units of time."""
    named: dict[str, str] = {}
    for number, trace in enumerate(traces):
        named.setdefault(trace.unit, trace.name or ("the reference", "the trace")[min(number, 1)])
    if len(named) > 1:
        units = " and ".join(f"{name} in {unit}" for unit, name in named.items())
        raise DataError(
            f"the traces have different units of time ({units}): give traces in the same unit, or "
            "set `unit` when you read the logs"
        )
