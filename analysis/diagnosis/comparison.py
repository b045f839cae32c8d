"""Comparison of a trace with its references, in numbers that every kind of anomaly can use."""

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
"""Occurrences from which on a type is considered to recur with what is played."""
_OFTEN = 16
"""The same where sinks are not named."""
_IN_THE_MIDDLE = 0.25
"""Share of their occurrences in the middle half of a run: half of what happens evenly."""
_REGULAR = 30
_ALIKE_REFERENCES = 3
"""Occurrences, and references that must agree on them, of elements that are not sinks."""
_STEADY = 0.05
"""Share by which the count of a steady type may vary between references."""
_TYPES_A_STREAM = 15
"""Types of a stream whose times are compared; more of them add nothing."""
_GRID = 60
"""Points of a stream at which progress is compared."""
_END = 0.1
"""Share of a stream that is its end: what comes before a sink is over earlier than the sink is."""
_SINKS = "basesink"
"""Category of GStreamer's base class of all sinks, where everything that is played arrives."""
_CLOCKS = "GST_CLOCK"
"""How often a clock is asked depends on who has to wait."""


class Occurrences:
    """The times of each event type of a shared numbering in a trace."""

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
        """Return the ticks from the event before, of whatever type, to each event of a type."""
        waits: Counts = self._waits()[self._ids == number]
        return waits

    def waits_between(self, start: int, end: int) -> tuple[Counts, Floats]:
        """Return how many events each type has after `start` and until `end`, and the sum of their waits: (types,)."""
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
        """Return the sum over each type's waits of what they exceed its usual one by: shape (types,)."""
        beyond = np.maximum(0, self._waits() - usual[self._ids])
        return np.bincount(self._ids, beyond, len(self.counts)).astype(np.float64)

    def _waits(self) -> Counts:
        return np.asarray(np.diff(self.trace.timestamps, prepend=self.trace.timestamps[:1]))


@dataclass(frozen=True)
class Stream:
    """Events that are played together: those of one sink of a pipeline or, where sinks are not named, of one plugin.

    Attributes
    ----------
    name : str
        The element, or the plugin.
    numbers : tuple of int
        Its steady types, as indices into the comparison's `types`.
    """

    name: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A trace compared with its references.

    Attributes
    ----------
    types : tuple of EventType
        One numbering for all traces. Some may occur in none, when this compares references with each other.
    references : tuple of Occurrences
        At least one.
    observed : Occurrences
        Of the trace that is diagnosed.
    ticks_a_second : int or None
        None where the unit of time is unknown.
    """

    types: tuple[EventType, ...]
    references: tuple[Occurrences, ...]
    observed: Occurrences
    ticks_a_second: int | None

    # Counts

    @cached_property
    def lowest(self) -> Counts:
        """The smallest count of each type among the references: shape (types,)."""
        return np.asarray(np.min([one.counts for one in self.references], axis=0))

    @cached_property
    def highest(self) -> Counts:
        """The largest count of each type among the references: shape (types,)."""
        return np.asarray(np.max([one.counts for one in self.references], axis=0))

    @cached_property
    def slack(self) -> Floats:
        """By how much a count may leave the references' range: shape (types,).

        As far again as they vary themselves; with one, by the square root of its count, as if events came at random.
        """
        if len(self.references) > 1:
            return (self.highest - self.lowest).astype(np.float64)
        return np.sqrt(self.lowest)

    @cached_property
    def steady(self) -> Flags:
        """Types that recur, about equally often in every reference: shape (types,)."""
        return np.asarray(
            (self.lowest >= RECURS) & (self.highest - self.lowest <= np.maximum(1, _STEADY * self.lowest))
        )

    @cached_property
    def new(self) -> Flags:
        """Types that only the trace has: shape (types,)."""
        return np.asarray((self.highest == 0) & (self.observed.counts > 0))

    @cached_property
    def missing(self) -> Flags:
        """Types that every reference has and the trace has not: shape (types,)."""
        return np.asarray((self.lowest > 0) & (self.observed.counts == 0))

    @cached_property
    def new_errors(self) -> Flags:
        """Types that report an error and that no reference has: shape (types,).

        What ends a GStreamer pipeline is logged at the level WARN: "error: …"; GST_ERROR_SYSTEM has warnings too.
        """
        errors = [
            kind.level == "ERROR" or (kind.level in ("WARN", "") and _ERROR_WORD.search(kind.name) is not None)
            for kind in self.types
        ]
        return self.new & errors

    @cached_property
    def excess(self) -> Floats:
        """Occurrences beyond the references' range and slack, negative where there are too few: shape (types,)."""
        counts = self.observed.counts
        return np.maximum(0, counts - self.highest - self.slack) + np.minimum(0, counts - self.lowest + self.slack)

    # Streams

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """The sinks with steady types, one by one if the log names them; plugins in a log without sinks."""
        steady: list[int] = np.flatnonzero(self.steady).tolist()
        if at_sinks := [number for number in steady if self.types[number].plugin == _SINKS]:
            return self._grouped(at_sinks, by_element=True)
        return self._grouped(filter(self.recurs_throughout, steady), by_element=False)

    def name_of(self, stream: Stream) -> str:
        """Return a stream's name; its events where they have neither element nor plugin."""
        if stream.name:
            return stream.name
        event = self.types[stream.numbers[0]].name
        return event if len(stream.numbers) == 1 else f"events such as {event}"

    def recurs_throughout(self, number: int) -> bool:
        """Return whether a type recurs often, also in the middle of each reference, as events of playing do."""
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
        """Elements, except sinks, whose events recur equally often in three or more references.

        What gets lost before a muxer never shows at the sink of a file.
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
        """Return the streams that types belong to, each with the types whose counts are most like the others'."""
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
        """Stream → share of its events in the references that the trace has, of its typical type; at most 1."""
        shares = self.observed.counts / np.maximum(self.lowest, 1)
        return {one.name: min(1.0, float(np.median(shares[list(one.numbers)]))) for one in self.streams}

    @property
    def furthest(self) -> float:
        """The played share of the stream that got furthest; 0 where there is none."""
        return max(self.played.values(), default=0.0)

    @cached_property
    def grid(self) -> Floats:
        """Where progress is compared: shares of the way that the trace got, shape (points,)."""
        return np.linspace(0, 1, _GRID)

    def delays(self, stream: Stream, *, reached: float = 1.0) -> Floats:
        """Return how much later than in each reference a stream reaches the points of `grid`.

        Parameters
        ----------
        stream : Stream
            One of `streams`.
        reached : float, default 1
            Share of the stream that the trace has, where it breaks off. Other missing events were lost: they are
            interpolated in the largest gaps.

        Returns
        -------
        array of float64, shape (references, points)
            Ticks, both counted from each trace's first event; the median over the stream's types. NaN where the trace
            has too little of the stream.
        """
        # Every kind of anomaly and every pair of streams needs the delays again.
        key = ("delays", stream, reached)
        if key not in self.kept:
            self.kept[key] = self._measured_delays(stream, reached)
        measured: Floats = self.kept[key]
        return measured

    def _measured_delays(self, stream: Stream, reached: float) -> Floats:
        delays = []
        for number in stream.numbers:
            times = self.observed.times(number)[1:]  # the first is what starting up makes of it
            whole = int(self.lowest[number]) - 1
            length = round(whole * reached)
            if len(times) < 3 or length < 3:
                continue
            played = times if reached == 1 else times[:length]
            here = _at(fill(played, length - len(played)), self.grid, 1.0)
            there = [_at(one.times(number)[1:], self.grid, (length - 1) / (whole - 1)) for one in self.references]
            delays.append(here - np.array(there))
        if not delays:
            return np.full((len(self.references), _GRID), np.nan)
        return np.asarray(np.median(delays, axis=0))

    def moments(self, stream: Stream) -> Floats:
        """Return when the trace's stream passes the points of `grid`: shape (points,), ticks since the first event."""
        moments = [
            _at(times[1:], self.grid, 1.0) for times in map(self.observed.times, stream.numbers) if len(times) > 3
        ]
        return np.median(moments, axis=0) if moments else np.zeros(_GRID)

    def usual(self, stream: Stream, *, reached: float = 1.0) -> Floats:
        """Return when the references' stream passes them, the median: shape (points,), ticks since the first event."""
        moments = [
            _at(one.times(number)[1:], self.grid, reached) for one in self.references for number in stream.numbers
        ]
        return np.asarray(np.median(moments, axis=0))

    def uncertainty(self, stream: Stream, *, reached: float = 1.0) -> float:
        """Return the error of delays in ticks: of lost events only the gap is known. 0 where none is lost."""
        gaps = []
        for number in stream.numbers:
            times = self.observed.times(number)[1:]
            lost = len(times) > 1 and len(times) < (int(self.lowest[number]) - 1) * reached - self.slack[number]
            gaps.append(float(np.diff(times).max()) if lost else 0.0)
        return float(np.median(gaps))  # 0 where most of the stream's types are whole

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Measurements of this comparison that are needed again."""
        return {}

    # The end

    @cached_property
    def endings(self) -> Flags:
        """Types that occur in every reference, and only in the last tenth of its streams or later: shape (types,)."""
        flags = self.lowest > 0
        for one in self.references:
            end = self._stream_end(one)
            flags &= [one.counts[number] > 0 and one.times(number)[0] >= end for number in range(len(self.types))]
        return flags

    def _stream_end(self, one: Occurrences) -> float:
        """Return when the last tenth of the latest stream begins in a reference; its end where there are no streams."""
        ends = []
        for stream in self.streams:
            times = [one.times(number) for number in stream.numbers]
            lasts = [max(_END * (each[-1] - each[0]), 2 * np.diff(each).mean()) for each in times]
            ends.append(float(np.median([each[-1] - last for each, last in zip(times, lasts, strict=True)])))
        return max(ends, default=float(one.trace.duration))

    @cached_property
    def span(self) -> tuple[float, float]:
        """Ticks from the streams' first event to their last: in the shortest reference, and in the trace."""
        theirs = [self._span(one) for one in self.references]
        return min(theirs), self._span(self.observed)

    def _span(self, one: Occurrences) -> float:
        times = [one.times(number) for stream in self.streams for number in stream.numbers if one.counts[number]]
        return float(max(each[-1] for each in times) - min(each[0] for each in times)) if times else 0.0

    # Noise

    @property
    def floor_factor(self) -> float:
        """Multiple of the noise floor that is an anomaly: a clean run exceeds few references more easily than many."""
        return 1 + 6 / len(self.references)

    def noise_floor(self, measure: Callable[[Comparison], float]) -> float | None:
        """Return the maximum of a measurement of each reference against the others; None with one reference."""
        if len(self.references) < 2:
            return None
        return max(measure(one) for one in self._among_references)

    @cached_property
    def _among_references(self) -> tuple[Comparison, ...]:
        """Each reference against the others."""
        return tuple(
            replace(self, references=self.references[:left] + self.references[left + 1 :], observed=out)
            for left, out in enumerate(self.references)
        )

    # Time

    @property
    def duration(self) -> float:
        """Of the references, the median [ticks]."""
        return float(np.median([one.trace.duration for one in self.references]))

    def ticks(self, seconds: float, share: float) -> float:
        """Return seconds in ticks; where the unit is unknown, a share of the references' duration."""
        return seconds * self.ticks_a_second if self.ticks_a_second else share * self.duration


def compare(references: Sequence[EventTrace], trace: EventTrace) -> Comparison:
    """Compare a trace with one or more references, without checking that they fit together."""
    types, ids = shared_ids([*references, trace])
    each = [Occurrences(one, numbers, len(types)) for one, numbers in zip([*references, trace], ids, strict=True)]
    return Comparison(types, tuple(each[:-1]), each[-1], TICKS_A_SECOND.get(trace.unit))


def fill(times: NDArray[np.int64], missing: int) -> Floats:
    """Return two or more times with missing ones interpolated in the largest gaps: shape (events + missing,)."""
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
    """Return times at shares of the way, up to a part of the way from the first to the last."""
    values = times.astype(np.float64)
    return np.interp(grid * until * (len(values) - 1), np.arange(len(values)), values)
