"""Traces of timestamped events (section II-A of the paper that the package's docstring names)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unperturbed.errors import DataError

Times = NDArray[np.int64]
Ids = NDArray[np.int32]
Unit = Literal["ns", "us", "ms", "s", "ticks"]
"""Unit of timestamps; "ticks" means that it is unknown."""
TICKS_A_SECOND = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1}
"""Ticks per second of the known units."""


@dataclass(frozen=True)
class EventType:
    """Type of an event, identified by its fields: an event e of the paper's Σ.

    Attributes
    ----------
    name : str
        "level function word" in a GStreamer log; the event's text in the plain form.
    plugin : str
        GStreamer's category, or ftrace's system; the "a" of "a:b:c". Empty if there is none.
    level : str
        Level as written in the log ("DEBUG"). Empty if there is none.
    element : str
        Element of the pipeline ("videoconvert0"), in a GStreamer log whose identity includes the object. Empty
        otherwise.
    """

    name: str
    plugin: str = ""
    level: str = ""
    element: str = ""

    @classmethod
    def from_name(cls, name: str) -> EventType:
        """Return the type of a plain name, as in the paper's figure 1: `ffmpeg:gst_ffmpegdec_chain:Received`."""
        plugin, colon, _ = name.partition(":")
        return cls(name, plugin if colon else "")


@dataclass(frozen=True)
class BadLine:
    """Line of a log that should be an event but cannot be read as one.

    Attributes
    ----------
    number : int
        Line number, from 1.
    text : str
        The beginning of the line.
    fault : str
        What is wrong with the line.
    """

    number: int
    text: str
    fault: str


@dataclass(frozen=True)
class Reading:
    """Counts of a log's lines: events, bad lines and lines left out.

    Attributes
    ----------
    source, format : str
        Names of the log and of its format.
    lines : int
        All lines, including empty ones.
    bad_lines : int
        Lines that should be events but cannot be read as events.
    further_lines : int
        Lines that continue the message, or the comment, of a line before them.
    start_up_lines : int
        Events left out because they come from loading plugins, not from the pipeline.
    other_process_lines : int
        Events left out because the user chose a different process.
    lost_events : int
        Events that the tracer reports as lost (ftrace).
    out_of_order : int
        Events that were written after a later event, and were sorted. `largest_delay` is their largest delay in ticks,
        `latest_line` its line.
    first_bad_lines : tuple of BadLine
        The first of the bad lines.
    levels : mapping of str to int, optional
        Number of events kept, by level. Empty if the format, or the identity, has no levels.
    regular_levels : tuple of str
        Levels of the format at which regular events are logged.
    choice : str
        Why the format was chosen; empty if the user named it.
    assumed : str
        What was assumed about the log's date-times; empty if nothing was.
    collapsed : str
        Why the events are probably of more types than were read; empty if they are not.
    """

    source: str
    format: str
    lines: int
    bad_lines: int = 0
    further_lines: int = 0
    start_up_lines: int = 0
    other_process_lines: int = 0
    lost_events: int = 0
    out_of_order: int = 0
    largest_delay: int = 0
    latest_line: int = 0
    first_bad_lines: tuple[BadLine, ...] = ()
    levels: Mapping[str, int] | None = None
    regular_levels: tuple[str, ...] = ()
    choice: str = ""
    assumed: str = ""
    collapsed: str = ""

    @property
    def is_too_coarse(self) -> bool:
        """Whether a log lacks all levels of regular events; False if the format, or the identity, has no levels."""
        return bool(self.levels and self.regular_levels) and set(self.regular_levels).isdisjoint(self.levels or ())


@dataclass(frozen=True, eq=False)
class EventTrace:
    """Sequence of timestamped events, in order of time.

    Attributes
    ----------
    timestamps : int64, shape (events,)
        Non-negative and never decreasing, in `unit`; the origin is the file's.
    events : int32, shape (events,)
        Index of each event's type in `types`.
    types : tuple of EventType
        The types that occur, in order of first occurrence.
    unit : {"ns", "us", "ms", "s", "ticks"}, default "ticks"
        Unit of the timestamps.
    name : str, default ""
        The file, or a name that the user gives.
    reading : Reading or None
        What a reader left out, and why.

    Raises
    ------
    DataError
        Arrays of different lengths or not one-dimensional, a negative timestamp, time that goes backwards, or an event
        without a type.
    """

    timestamps: Times
    events: Ids
    types: tuple[EventType, ...]
    unit: Unit = "ticks"
    name: str = ""
    reading: Reading | None = None

    def __post_init__(self) -> None:
        times, events = self.timestamps, self.events
        if times.dtype != np.int64 or events.dtype != np.int32:
            raise TypeError(
                f"{self._called}: `timestamps` must be int64 and `events` int32, not {times.dtype} and {events.dtype}"
            )
        if times.ndim != 1 or times.shape != events.shape:
            raise DataError(
                f"{self._called}: `timestamps` has the shape {times.shape} and `events` {events.shape}: give two "
                "one-dimensional arrays of the same length"
            )
        if len(events) and not (events.min() >= 0 and events.max() < len(self.types)):
            raise DataError(
                f"{self._called}: `events` must contain indices of `types`, 0 or more and below {len(self.types)}"
            )
        if len(times) and times[0] < 0:
            raise DataError(f"{self._called}: the first timestamp is {times[0]}; timestamps must be 0 or more")
        falls = times[1:] < times[:-1]
        if falls.any():
            at = int(falls.argmax())
            raise DataError(
                f"{self._called}: time goes backwards from event {at} ({times[at]}) to event {at + 1} "
                f"({times[at + 1]}): sort the events"
            )

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, str]], *, unit: Unit = "ticks", name: str = "") -> EventTrace:
        """Return a trace of (timestamp, name) pairs, as in the paper; raise TypeError if a time is not an integer."""
        listed = list(pairs)
        for position, (time, _) in enumerate(listed):
            if isinstance(time, bool) or not isinstance(time, (int, np.integer)):
                raise TypeError(f"event {position}: the timestamp must be an integer, not {time!r}")
        numbers: dict[str, int] = {}
        events = np.array([numbers.setdefault(text, len(numbers)) for _, text in listed], dtype=np.int32)
        times = np.array([time for time, _ in listed], dtype=np.int64)
        return cls(times, events, tuple(EventType.from_name(text) for text in numbers), unit, name)

    def __len__(self) -> int:
        return len(self.timestamps)

    def __repr__(self) -> str:
        size = f"{len(self):,} events of {len(self.types):,} types"
        return f"EventTrace({self._called}: {size}, {self.duration:,} {self.unit})"

    @property
    def _called(self) -> str:
        return self.name or "trace"

    @property
    def since_start(self) -> Times:
        """Timestamps relative to the first event, so a shift in time makes no difference (the paper's example 5)."""
        return self.timestamps - self.timestamps[0] if len(self) else self.timestamps

    @property
    def duration(self) -> int:
        """Ticks from the first to the last event."""
        return int(self.timestamps[-1] - self.timestamps[0]) if len(self) else 0

    @cached_property
    def plugins(self) -> tuple[str, ...]:
        """Plugins of the types, in order of first occurrence."""
        return tuple(dict.fromkeys(kind.plugin for kind in self.types))

    def counts(self) -> NDArray[np.int64]:
        """Return how often each type occurs: int64, shape (types,)."""
        return np.bincount(self.events, minlength=len(self.types)).astype(np.int64)

    def of(self, plugin: str) -> EventTrace:
        """Return the events of one plugin (section III-D) with their times in the whole trace, or an empty trace."""
        chosen = np.array([kind.plugin == plugin for kind in self.types], dtype=bool)
        return self._only(chosen[self.events])

    def between(self, start: int, end: int) -> EventTrace:
        """Return the events with `start` ≤ timestamp < `end`."""
        return self._only(slice(*np.searchsorted(self.timestamps, (start, end))))

    def _only(self, chosen: NDArray[np.bool_] | slice) -> EventTrace:
        events, times = self.events[chosen], self.timestamps[chosen]
        present, numbers = by_first_occurrence(events)
        return replace(self, timestamps=times, events=numbers, types=tuple(self.types[kind] for kind in present))


def by_first_occurrence(values: NDArray[np.integer]) -> tuple[list[int], Ids]:
    """Return the different values in order of first occurrence, and each value's index among them."""
    present, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return present[order].tolist(), rank[inverse]


def shared_ids(traces: Sequence[EventTrace]) -> tuple[tuple[EventType, ...], list[Ids]]:
    """Number the event types of several traces consistently.

    Parameters
    ----------
    traces : sequence of EventTrace
        The traces, in the order in which types are numbered.

    Returns
    -------
    types : tuple of EventType
        The first trace's types, then those that only later traces have.
    events : list of int32 arrays, shape (events,)
        Each trace's events, as indices into `types`.
    """
    numbers: dict[EventType, int] = {}
    shared = []
    for trace in traces:
        new = np.array([numbers.setdefault(kind, len(numbers)) for kind in trace.types], dtype=np.int32)
        shared.append(new[trace.events])
    return tuple(numbers), shared
