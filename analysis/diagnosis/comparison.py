"""LogComparison of a trace with its references: numbers that all kinds of anomaly use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.events import TICKS_A_SECOND, EventTrace, EventType, shared_ids

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

_ERROR_WORD = re.compile(r"(?i)(?:^|[ :])error")

RECURS = 8
"""Minimum occurrences of an event type that is considered to recur while the stream plays."""
_OFTEN = 16
"""Minimum occurrences of a recurring event type in logs that do not name sinks."""
_IN_THE_MIDDLE = 0.25
"""Minimum share of a type's occurrences in the middle half of a run: half the share of evenly spaced events."""
_REGULAR = 30
_ALIKE_REFERENCES = 3
"""Minimum occurrences of a type in elements that are not sinks, and number of references with the same count."""
_STEADY = 0.05
"""Share by which the count of a steady type may vary between references."""
_TYPES_A_STREAM = 15
"""Maximum number of a stream's types whose times are compared; more would add no information."""
_GRID = 60
"""Points of a stream at which progress is compared."""
_END = 0.1
"""Share of a stream that counts as its end: elements before a sink finish earlier than the sink."""
_SINKS = "basesink"
"""Category of GStreamer's base class of all sinks, where all streams arrive."""
_CLOCKS = "GST_CLOCK"
"""Category of clocks, which are excluded: the number of clock queries depends on which thread has to wait."""


class Occurrences:
    """Times of each event type in a trace; compared traces use the same numbers for types."""

    def __init__(self, trace: EventTrace, ids: NDArray[np.int32], types: int) -> None:
        self.trace = trace
        self.counts: Counts = np.bincount(ids, minlength=types).astype(np.int64)
        small = ids.astype(np.uint16) if types <= np.iinfo(np.uint16).max else ids  # numpy sorts these by radix
        self._ids = small
        self._times = trace.since_start[np.argsort(small, kind="stable")]
        self._starts = np.concatenate(([0], np.cumsum(self.counts)))

    def times(self, number: int) -> Counts:
        """Return the times of a type, in ticks since the trace's first event."""
        return self._times[self._starts[number] : self._starts[number + 1]]

    def waits(self, number: int) -> Counts:
        """Return, for each event of a type, the ticks since the preceding event of any type."""
        waits: Counts = self._waits()[self._ids == number]
        return waits

    def waits_between(self, start: int, end: int) -> tuple[Counts, Floats]:
        """Return each type's number of events after `start` and until `end`, and the sum of their waits: (types,)."""
        first, last = np.searchsorted(self.trace.since_start, (start, end), side="right")
        gaps = np.diff(self.trace.timestamps[max(0, first - 1) : last])
        ids = self._ids[max(1, first) : last]
        counts = np.bincount(ids, minlength=len(self.counts)).astype(np.int64)
        return counts, np.bincount(ids, gaps, len(self.counts)).astype(np.float64)

    def longest_waits(self) -> Floats:
        """Return the longest wait for an event of each type: shape (types,)."""
        longest = np.zeros(len(self.counts))
        np.maximum.at(longest, self._ids, self._waits())
        return longest

    def waits_beyond(self, usual: Floats) -> Floats:
        """Return each type's total wait in excess of its `usual` wait: shape (types,)."""
        beyond = np.maximum(0, self._waits() - usual[self._ids])
        return np.bincount(self._ids, beyond, len(self.counts)).astype(np.float64)

    def _waits(self) -> Counts:
        return np.asarray(np.diff(self.trace.timestamps, prepend=self.trace.timestamps[:1]))


@dataclass(frozen=True)
class Stream:
    """Events of one sink of a pipeline or, in logs that do not name sinks, of one plugin.

    Attributes
    ----------
    name : str
        The element, or the plugin.
    numbers : tuple of int
        The stream's steady types, as indices into the comparison's `types`.
    """

    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LogComparison:
    """LogComparison of a trace with its references.

    Attributes
    ----------
    types : tuple of EventType
        Event types of all traces, which share their numbers. When references are compared with each other, some types
        may occur in none of them.
    references : tuple of Occurrences
        At least one.
    observed : Occurrences
        The diagnosed trace.
    ticks_a_second : int or None
        Ticks per second; None if the unit of time is unknown.
    """

    types: tuple[EventType, ...]
    references: tuple[Occurrences, ...]
    observed: Occurrences
    ticks_a_second: int | None

    # Counts

    @cached_property
    def lowest(self) -> Counts:
        """The smallest count of each type among the references: shape (types,)."""
        return np.asarray(np.min([reference.counts for reference in self.references], axis=0))

    @cached_property
    def highest(self) -> Counts:
        """The largest count of each type among the references: shape (types,)."""
        return np.asarray(np.max([reference.counts for reference in self.references], axis=0))

    @cached_property
    def slack(self) -> Floats:
        """Amount by which a count may be outside the references' range: shape (types,).

        The width of that range; with one reference, the square root of its count, as if events occurred at random.
        """
        if len(self.references) > 1:
            return (self.highest - self.lowest).astype(np.float64)
        return np.sqrt(self.lowest)

    @cached_property
    def steady(self) -> Flags:
        """Whether each type recurs about equally often in every reference: shape (types,)."""
        return np.asarray(
            (self.lowest >= RECURS) & (self.highest - self.lowest <= np.maximum(1, _STEADY * self.lowest))
        )

    @cached_property
    def new(self) -> Flags:
        """Whether each type occurs in the trace only: shape (types,)."""
        return np.asarray((self.highest == 0) & (self.observed.counts > 0))

    @cached_property
    def missing(self) -> Flags:
        """Whether each type occurs in every reference but not in the trace: shape (types,)."""
        return np.asarray((self.lowest > 0) & (self.observed.counts == 0))

    @cached_property
    def new_errors(self) -> Flags:
        """Whether each type reports an error that no reference has: shape (types,).

        GStreamer logs the error that ends a pipeline at level WARN ("error: …"); GST_ERROR_SYSTEM has warnings too.
        """
        errors = [
            kind.level == "ERROR" or (kind.level in ("WARN", "") and _ERROR_WORD.search(kind.name) is not None)
            for kind in self.types
        ]
        return self.new & errors

    @cached_property
    def excess(self) -> Floats:
        """Each type's occurrences beyond the references' range and slack; negative for too few: shape (types,)."""
        counts = self.observed.counts
        return np.maximum(0, counts - self.highest - self.slack) + np.minimum(0, counts - self.lowest + self.slack)

    # Streams

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """One stream for each named sink with steady types, or for all unnamed ones; without sinks, for each plugin."""
        steady: list[int] = np.flatnonzero(self.steady).tolist()
        if at_sinks := [number for number in steady if self.types[number].plugin == _SINKS]:
            return self._grouped(at_sinks, by_element=True)
        return self._grouped(filter(self.recurs_throughout, steady), by_element=False)

    def name_of(self, stream: Stream) -> str:
        """Return a stream's name or, if its events have neither element nor plugin, words with the name of an event."""
        if stream.name:
            return stream.name
        event = self.types[stream.numbers[0]].name
        return event if len(stream.numbers) == 1 else f"the stream that contains {event}"

    def recurs_throughout(self, number: int) -> bool:
        """Return whether a type recurs often, also in the middle of each reference, as the events of a stream do."""
        if self.lowest[number] < _OFTEN:
            return False
        for reference in self.references:
            times, duration = reference.times(number), reference.trace.duration
            first, last = np.searchsorted(times, (duration / 4, 3 * duration / 4))
            if float(last - first) / len(times) < _IN_THE_MIDDLE:
                return False
        return True

    @cached_property
    def elements(self) -> tuple[Stream, ...]:
        """Elements, except sinks, with events that recur equally often in every reference; none for fewer than three.

        Losses before a muxer never show at the sink of a file.
        """
        if len(self.references) < _ALIKE_REFERENCES:
            return ()
        alike = self.steady & (self.lowest == self.highest) & (self.lowest >= _REGULAR)
        numbers = [
            number
            for number in np.flatnonzero(alike).tolist()
            if self.types[number].element and self.types[number].plugin not in (_SINKS, _CLOCKS)
        ]
        return self._grouped(numbers, by_element=True)

    def _grouped(self, numbers: Iterable[int], *, by_element: bool) -> tuple[Stream, ...]:
        """Group types into streams; each keeps the types with counts nearest to the median count of its types."""
        groups: dict[str, list[int]] = {}
        for number in numbers:
            kind = self.types[number]
            groups.setdefault(kind.element or kind.plugin if by_element else kind.plugin, []).append(number)
        streams = []
        for name, members in groups.items():
            counts = self.lowest[members]
            nearest = np.argsort(np.abs(counts - np.median(counts)), kind="stable")[:_TYPES_A_STREAM]
            streams.append(Stream(name, tuple(members[index] for index in nearest)))
        return tuple(streams)

    @cached_property
    def played(self) -> dict[str, float]:
        """Share of the references' events that the trace has, by stream: median over the stream's types, at most 1."""
        shares = self.observed.counts / np.maximum(self.lowest, 1)
        return {stream.name: min(1.0, float(np.median(shares[list(stream.numbers)]))) for stream in self.streams}

    @property
    def furthest(self) -> float:
        """The played share of the stream that got furthest; 0 without streams."""
        return max(self.played.values(), default=0.0)

    @cached_property
    def grid(self) -> Floats:
        """Points at which progress is compared, as shares of the trace's progress: shape (points,)."""
        return np.linspace(0, 1, _GRID)

    def delays(self, stream: Stream, *, reached: float = 1.0) -> Floats:
        """Return the delay, relative to each reference, with which a stream reaches the points of `grid`.

        Parameters
        ----------
        stream : Stream
            One of `streams`.
        reached : float, default 1
            Share of the stream that the trace has if it breaks off. Other missing events were lost: they are
            interpolated in the largest gaps.

        Returns
        -------
        array of float64, shape (references, points)
            Ticks, with times counted from each trace's first event; the median over the stream's types. NaN if the
            trace has too little of the stream.
        """
        # Every kind of anomaly and every pair of streams uses the delays.
        key = ("delays", stream, reached)
        if key not in self.kept:
            self.kept[key] = self._measured_delays(stream, reached)
        measured: Floats = self.kept[key]
        return measured

    def _measured_delays(self, stream: Stream, reached: float) -> Floats:
        delays = []
        for number in stream.numbers:
            times = self.observed.times(number)[1:]  # the time of the first event depends on start-up
            whole = int(self.lowest[number]) - 1
            length = round(whole * reached)
            if len(times) < 3 or length < 3:
                continue
            played = times if reached == 1 else times[:length]
            here = _at(fill(played, length - len(played)), self.grid, 1.0)
            there = [
                _at(reference.times(number)[1:], self.grid, (length - 1) / (whole - 1)) for reference in self.references
            ]
            delays.append(here - np.array(there))
        if not delays:
            return np.full((len(self.references), _GRID), np.nan)
        return np.asarray(np.median(delays, axis=0))

    def moments(self, stream: Stream) -> Floats:
        """Return when the trace's stream reaches the points of `grid`: shape (points,), ticks since the first event."""
        moments = [
            _at(times[1:], self.grid, 1.0) for times in map(self.observed.times, stream.numbers) if len(times) > 3
        ]
        return np.median(moments, axis=0) if moments else np.zeros(_GRID)

    def usual(self, stream: Stream, *, reached: float = 1.0) -> Floats:
        """Return when references reach the points of `grid` (median): shape (points,), ticks since the first event."""
        moments = [
            _at(reference.times(number)[1:], self.grid, reached)
            for reference in self.references
            for number in stream.numbers
        ]
        return np.asarray(np.median(moments, axis=0))

    def uncertainty(self, stream: Stream, *, reached: float = 1.0) -> float:
        """Return the uncertainty of delays in ticks: the longest gap if events are lost, else 0."""
        gaps = []
        for number in stream.numbers:
            times = self.observed.times(number)[1:]
            lost = len(times) > 1 and len(times) < (int(self.lowest[number]) - 1) * reached - self.slack[number]
            gaps.append(float(np.diff(times).max()) if lost else 0.0)
        return float(np.median(gaps))  # 0 if most of the stream's types are complete

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Cached measurements of this comparison."""
        return {}

    # The end

    @cached_property
    def endings(self) -> Flags:
        """Whether each type occurs in every reference, but only in the last tenth of the streams: shape (types,)."""
        flags = self.lowest > 0
        for reference in self.references:
            end = self._stream_end(reference)
            flags &= [
                reference.counts[number] > 0 and reference.times(number)[0] >= end for number in range(len(self.types))
            ]
        return flags

    def _stream_end(self, reference: Occurrences) -> float:
        """Return when the last tenth of a reference's latest stream begins; without streams, when the run ends."""
        ends = []
        for stream in self.streams:
            times = [reference.times(number) for number in stream.numbers]
            lasts = [max(_END * (each[-1] - each[0]), 2 * np.diff(each).mean()) for each in times]
            ends.append(float(np.median([each[-1] - last for each, last in zip(times, lasts, strict=True)])))
        return max(ends, default=float(reference.trace.duration))

    @cached_property
    def span(self) -> tuple[float, float]:
        """Ticks from the streams' first event to their last: in the shortest reference, and in the trace."""
        theirs = [self._span(reference) for reference in self.references]
        return min(theirs), self._span(self.observed)

    def _span(self, run: Occurrences) -> float:
        times = [run.times(number) for stream in self.streams for number in stream.numbers if run.counts[number]]
        return float(max(each[-1] for each in times) - min(each[0] for each in times)) if times else 0.0

    # Noise

    @property
    def floor_factor(self) -> float:
        """Multiple of the noise floor above which a change is an anomaly; it is larger with fewer references."""
        return 1 + 6 / len(self.references)

    def noise_floor(self, measure: Callable[[LogComparison], float]) -> float | None:
        """Return a measurement's maximum over references, each compared with the others; None for one reference."""
        if len(self.references) < 2:
            return None
        return max(measure(comparison) for comparison in self._among_references)

    @cached_property
    def _among_references(self) -> tuple[LogComparison, ...]:
        """LogComparison of each reference with the others."""
        return tuple(
            replace(self, references=self.references[:left] + self.references[left + 1 :], observed=out)
            for left, out in enumerate(self.references)
        )

    # Time

    @property
    def duration(self) -> float:
        """Median duration of the references [ticks]."""
        return float(np.median([reference.trace.duration for reference in self.references]))

    def ticks(self, seconds: float, share: float) -> float:
        """Return seconds in ticks; if the unit is unknown, the given share of the references' duration."""
        return seconds * self.ticks_a_second if self.ticks_a_second else share * self.duration


def compare(references: Sequence[EventTrace], trace: EventTrace) -> LogComparison:
    """Compare a trace with one or more references, without checking that they are comparable."""
    types, ids = shared_ids([*references, trace])
    each = [Occurrences(run, numbers, len(types)) for run, numbers in zip([*references, trace], ids, strict=True)]
    return LogComparison(types, tuple(each[:-1]), each[-1], TICKS_A_SECOND.get(trace.unit))


def fill(times: NDArray[np.int64], missing: int) -> Floats:
    """Insert missing times by dividing the largest gaps of two or more times: shape (events + missing,)."""
    if missing <= 0:
        return times.astype(np.float64)
    gaps = np.maximum(np.diff(times), 1).astype(np.float64)
    low, high = gaps.sum() / (len(gaps) + missing) / 2, float(gaps.max())
    # Bisection for the shortest part into which gaps can be divided with at most `missing` new times.
    for _ in range(50):
        middle = (low + high) / 2
        if np.sum(np.ceil(gaps / middle) - 1) > missing:
            low = middle
        else:
            high = middle
    parts = np.ceil(gaps / high).astype(np.int64)
    parts[np.argsort(-gaps / parts, kind="stable")[: max(0, missing - int(np.sum(parts - 1)))]] += 1
    whole = np.repeat(np.arange(len(gaps)), parts)
    within = np.arange(len(whole)) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(times[whole] + within * (np.diff(times) / parts)[whole], times[-1])


def _at(times: NDArray[np.generic], grid: Floats, until: float) -> Floats:
    """Return the interpolated times at shares `grid` of the first part `until` of a sequence of events."""
    values = times.astype(np.float64)
    return np.interp(grid * until * (len(values) - 1), np.arange(len(values)), values)
