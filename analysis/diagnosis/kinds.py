"""Kinds of anomaly, each a small class.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!", section II-B, names three: desynchronisation,
player crash, slow streaming; lost events are added here. The paper takes any distance above 0 for an anomaly. Clean runs of real
pipelines are not at distance 0 of each other; so a kind measures the physical effect and holds it against the references' own noise.

A kind of your own derives from `Kind` and is given to `diagnose(kinds=…)`; see docs/diagnosis.md.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.comparison import Comparison, Flags, Floats, Stream
from unperturbed.analysis.diagnosis.events import EventTrace, EventType
from unperturbed.analysis.diagnosis.findings import Finding, carriers_of

__all__ = ["KINDS", "Crash", "Desynchronisation", "Kind", "LostEvents", "SlowStreaming"]

_SAYS_ERROR = re.compile(r"(?i)(?:^|[ :])error")
"""A word of the event's name that begins so."""

DistanceName = Literal["occurrence", "dropping", "temporal"]


class Kind(ABC):
    """A kind of anomaly.

    Attributes
    ----------
    name : str
        What the user reads.
    distance : {"occurrence", "dropping", "temporal"}
        The paper's distance for it (section III): `--find` goes in the order of these.
    """

    name: ClassVar[str]
    distance: ClassVar[DistanceName]

    @abstractmethod
    def find(self, comparison: Comparison) -> Finding | None:
        """Return what is found; None when the trace is as the references are."""


@dataclass(frozen=True)
class Crash(Kind):
    """The run stopped before its end: the log breaks off, or an error ends the pipeline.

    The paper takes the dropping distance. So here: what every reference logs at its end is missing, and either errors are new or all of the
    end is missing. A log without such types is cut off when all streams are shorter than in any reference at the same pace.

    Attributes
    ----------
    endings_missing : float
        Share of the types of the end that a log without an error must lack.
    pace_change : float
        By how much the pace may differ when only that tells.
    """

    name: ClassVar[str] = "crash or truncation"
    distance: ClassVar[DistanceName] = "dropping"

    endings_missing: float = 0.5
    pace_change: float = 0.2

    def find(self, comparison: Comparison) -> Finding | None:
        """Return where the run stopped."""
        endings, gone = int(comparison.endings.sum()), comparison.endings & comparison.missing
        errors = error_types(comparison)
        if errors.any() and gone.any():
            how, measured = "an error ended it", float(gone.sum()) / endings
        elif endings and gone.sum() >= self.endings_missing * endings:
            how, measured = "it breaks off", float(gone.sum()) / endings
        elif not endings and self._is_shorter(comparison):
            how, measured = "it breaks off", 1.0
        else:
            return None
        reached = how_far(comparison)
        missing = (1 - reached) * comparison.span[0]
        weights = np.where(gone | errors, 1.0, 0.0)
        if not weights.any():
            weights = np.where(comparison.steady, np.maximum(0, -comparison.excess), 0)
        carriers = carriers_of(comparison, weights, comparison.observed.counts - comparison.lowest)
        since, kind = _first(comparison, errors)
        if since is None:
            since = round(comparison.span[1] and _last(comparison))
        return Finding(
            self.name,
            f"{how} at {reached:.0%} of the way",
            {
                "end_reached_share": reached,
                "missing_time": missing,
                "missing_end_types": float(gone.sum()),
                "new_error_types": float(errors.sum()),
            },
            since,
            *(_where([comparison.types[kind]]) if kind is not None else _where(one.event for one in carriers)),
            carriers,
            measured,
            1 / max(1, endings) if errors.any() else self.endings_missing,
            "of the types that end every reference",
            0.0 if len(comparison.references) > 1 else None,
            "full",
        )

    def _is_shorter(self, comparison: Comparison) -> bool:
        if not comparison.streams or max(comparison.played.values()) >= 1:
            return False
        reached = how_far(comparison)
        shortest, here = comparison.span
        lengths = [one.trace.duration for one in comparison.references]
        noise = (max(lengths) - min(lengths)) / max(lengths) if len(lengths) > 1 else 0.05
        return (
            reached < 1 - 2 * noise - 0.01 and here < shortest and abs(here / shortest / reached - 1) <= self.pace_change
            if reached
            else True
        )


@dataclass(frozen=True)
class LostEvents(Kind):
    """Frames or other recurring events are fewer than in any reference, and the run went on to its end.

    The paper has no such kind; occurrences tell it, and it is told from a crash by the end. Where the run also broke off, the counts are
    held against the part that it played.

    Attributes
    ----------
    least_share : float
        Of a stream's events, that must be lost.
    agreeing : int
        How many event types of the stream must say the same: a single type varies for many reasons.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
    """

    name: ClassVar[str] = "lost events"
    distance: ClassVar[DistanceName] = "occurrence"

    least_share: float = 0.005
    agreeing: int = 3
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return what was lost in the stream that lost most."""
        if not comparison.streams:
            return None
        floor = comparison.noise_floor(lambda one: max((self._lost(one, stream)[0] for stream in one.streams), default=0.0))
        threshold = self.strictness * max(self.least_share, comparison.beyond_the_floor * (floor or 0.0))
        share, lost, stream = max(
            ((*self._lost(comparison, each), each) for each in comparison.streams), key=lambda found: found[0]
        )
        if share < threshold:
            return None
        fewer = np.where(comparison.steady, np.maximum(0, -comparison.excess), 0)
        weights = np.where(comparison.new, comparison.observed.counts, fewer)
        carriers = carriers_of(comparison, weights)
        return Finding(
            self.name,
            f"{lost:.0f} of {lost / share:.0f} events ({share:.0%}) of {stream.name} are lost",
            {"lost_events": lost, "lost_share": share},
            self._since(comparison, stream),
            *_where([*self._announced(comparison, lost), *(one.event for one in carriers)]),
            carriers,
            share,
            threshold,
            "of a stream's events",
            floor,
            _confidence(comparison),
        )

    def _lost(self, comparison: Comparison, stream: Stream) -> tuple[float, float]:
        """Return the share and the number of events that a stream lost, as enough of its types say."""
        numbers = list(stream.numbers)
        broke_off = Crash().find(comparison) is not None
        expected = comparison.lowest[numbers] * (how_far(comparison) if broke_off else 1.0)
        allowed = comparison.slack[numbers] + (3 if broke_off else 0)
        lost = expected - comparison.observed.counts[numbers]
        shares = np.sort(np.where(lost > allowed, lost / np.maximum(expected, 1), 0))[::-1]
        share = float(shares[min(self.agreeing, len(shares)) - 1])
        return share, share * float(np.median(expected))

    def _announced(self, comparison: Comparison, lost: float) -> list[EventType]:
        """Return new types that come about as often as events are lost: an element tells what it drops.

        First those of elements that are no streams: what gets lost on its way is noticed where it should arrive, too.
        """
        often: list[int] = np.flatnonzero(comparison.new & (comparison.observed.counts >= lost / 2)).tolist()
        ends = {stream.name for stream in comparison.streams}
        return sorted(
            (comparison.types[number] for number in sorted(often, key=lambda one: comparison.observed.times(one)[0])),
            key=lambda event: event.element in ends,
        )

    def _since(self, comparison: Comparison, stream: Stream) -> int | None:
        """Return when fewer events had come than in any reference, and since then ever more."""
        number = max(stream.numbers, key=lambda one: comparison.lowest[one] - comparison.observed.counts[one])
        here = comparison.observed.times(number)
        if len(here) < 2:
            return 0
        theirs = comparison.references[0].times(number)
        usual = float(np.median(np.diff(theirs)))
        holes = np.flatnonzero(np.diff(here) > 1.6 * usual)
        return int(here[holes[0]]) if len(holes) else None


@dataclass(frozen=True)
class SlowStreaming(Kind):
    """All streams fall behind together: everything takes longer.

    The paper takes the temporal distance, "the audio/video/subtitles are synchronized but take much more time". Here it is how much the
    stream that is least late falls behind the references' pace, from the least late moment before: a late start is none.

    Attributes
    ----------
    least_s, least_share : float
        Seconds that must be lost; where the unit of time is unknown, a share of the run.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
    """

    name: ClassVar[str] = "slow streaming"
    distance: ClassVar[DistanceName] = "temporal"

    least_s: float = 0.05
    least_share: float = 0.03
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return by how much the run falls behind."""
        floor = comparison.noise_floor(lambda one: float(self._late(one).max()))
        threshold = max(
            comparison.ticks(self.least_s, self.least_share),
            comparison.beyond_the_floor * (floor or 0.0),
            *self._weaker(comparison),
        )
        reached = _reached(comparison)
        threshold += max((comparison.uncertainty(stream, reached=reached) for stream in comparison.streams), default=0.0)
        threshold *= self.strictness
        late = self._late(comparison)
        measured = float(late.max())
        if measured <= threshold:
            return None
        at = int(np.argmax(late > threshold))
        moments = comparison.moments(comparison.streams[0])
        grown = grown_gaps(comparison)
        carriers = carriers_of(comparison, grown, grown)
        return Finding(
            self.name,
            f"{measured / comparison.duration:.0%} of the run's time is added",
            {"delay": measured, "share_of_run": measured / comparison.duration},
            round(moments[at]),
            *_where(one.event for one in carriers),
            carriers,
            measured,
            threshold,
            "ticks late",
            floor,
            _confidence(comparison),
        )

    def _weaker(self, comparison: Comparison) -> tuple[float, ...]:
        return () if len(comparison.references) > 1 else (0.25 * comparison.duration,)

    def _late(self, comparison: Comparison) -> Floats:
        """Return how late the least late stream is against each point's best before: shape (points,) [ticks]."""
        reached = _reached(comparison)
        each = []
        for stream in comparison.streams:
            delay = np.median(comparison.delays(stream, reached=reached), axis=0)
            if not np.isnan(delay).any():
                each.append(delay - np.minimum.accumulate(delay))
        return np.asarray(np.min(each, axis=0)) if each else np.zeros(len(comparison.grid))


@dataclass(frozen=True)
class Desynchronisation(Kind):
    """One stream comes later against another than in the references.

    The paper takes the occurrence distance: sinks log other events when they are late. That says neither which stream nor by how much, and
    does not see an offset that no sink notices. Here two streams' delays are compared; `diagnose(distance="occurrence")` gives the
    paper's distance.

    Attributes
    ----------
    least_s, least_share : float
        Offset that must be held; where the unit of time is unknown, as a share of the run.
    least_of_delay : float
        Share of the delay that both have, which is no offset between them.
    held_s, held_share : float
        For how long; the median over so long a stretch counts.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
    """

    name: ClassVar[str] = "desynchronisation"
    distance: ClassVar[DistanceName] = "occurrence"

    least_s: float = 0.03
    least_share: float = 0.02
    least_of_delay: float = 0.1
    held_s: float = 0.5
    held_share: float = 0.1
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return the two streams that are furthest apart."""
        floors = comparison.noise_floor(lambda one: self._worst(one)[0])
        least = comparison.ticks(self.least_s, self.least_share)
        threshold = max(least, comparison.beyond_the_floor * (floors or 0.0), *(() if floors is not None else (2 * least,)))
        measured, pair = self._worst(comparison)
        if pair is None:
            return None
        reached = _reached(comparison)
        threshold += max(comparison.uncertainty(stream, reached=reached) for stream in pair)
        threshold *= self.strictness
        if measured <= threshold:
            return None
        offset = self._offset(comparison, *pair)
        late, early = pair if offset[np.argmax(np.abs(offset))] > 0 else pair[::-1]
        since = comparison.moments(late)[int(np.argmax(np.abs(offset) > threshold))]
        numbers = list(late.numbers)
        weights = np.zeros(len(comparison.types))
        weights[numbers] = comparison.lowest[numbers]
        carriers = carriers_of(comparison, weights, np.where(weights > 0, measured, 0))
        return Finding(
            self.name,
            f"{late.name} is late against {early.name}",
            {"offset": measured, "offset_at_the_end": float(abs(offset[-1]))},
            round(since),
            *_where(one.event for one in carriers),
            carriers,
            measured,
            threshold,
            "ticks apart",
            floors,
            _confidence(comparison),
        )

    def _worst(self, comparison: Comparison) -> tuple[float, tuple[Stream, Stream] | None]:
        found: tuple[float, tuple[Stream, Stream] | None] = (0.0, None)
        for pair in combinations(comparison.streams, 2):
            largest = float(np.abs(self._offset(comparison, *pair)).max())
            if largest > found[0]:
                found = largest, pair
        return found

    def _offset(self, comparison: Comparison, one: Stream, other: Stream) -> Floats:
        """Return by how much one stream is later against the other than in references, held: shape (points,) [ticks]."""
        reached = _reached(comparison)
        delays = comparison.delays(one, reached=reached), comparison.delays(other, reached=reached)
        apart = np.median(delays[0] - delays[1], axis=0)
        if np.isnan(apart).any():
            return np.zeros(len(comparison.grid))
        # The same share of two ways need not be the same moment. A slower pace of all widens what lies between.
        usual = comparison.usual(one, reached=reached), comparison.usual(other, reached=reached)
        slower = min(_growth(delay) / max(1.0, when[-1] - when[0]) for delay, when in zip(delays, usual, strict=True))
        widened = max(0.0, slower) * np.abs(usual[0] - usual[1])
        both = [np.median(delay, axis=0) for delay in delays]
        widened += self.least_of_delay * np.min([delay - np.minimum.accumulate(delay) for delay in both], axis=0)
        apart = np.sign(apart) * np.maximum(0, np.abs(apart) - widened)
        held = comparison.ticks(self.held_s, self.held_share) / max(1.0, comparison.duration)
        width = max(3, min(len(apart) // 3, round(held * len(apart))))
        return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(apart, width), axis=1))


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Crash(), LostEvents(), Desynchronisation(), SlowStreaming())}
"""The kinds that are looked for, in the paper's order of distances: dropping, occurrence, temporal."""


def _growth(delays: Floats) -> float:
    """Return by how much a stream is later at its end than at its beginning, of delays as `Comparison.delays` gives them [ticks]."""
    return float(np.median(delays[:, -1] - delays[:, 0]))


def how_far(comparison: Comparison) -> float:
    """Return the share of its way that the stream that got furthest played; 0 where there is none."""
    return max(comparison.played.values(), default=0.0)


def error_types(comparison: Comparison) -> Flags:
    """Return which types tell an error that no reference has: shape (types,).

    The level ERROR, and where an element ends a GStreamer pipeline, which it says at the level WARN: "error: …". What GStreamer calls
    GST_ERROR_SYSTEM posts warnings too.
    """
    said = [
        kind.level == "ERROR" or (kind.level in ("WARN", "") and _SAYS_ERROR.search(kind.name) is not None)
        for kind in comparison.types
    ]
    return np.asarray(np.array(said, dtype=bool) & comparison.new)


def grown_gaps(comparison: Comparison) -> Floats:
    """Return by how much the time before the events of each steady type grew beyond all references: shape (types,) [ticks].

    The time since the event before, added up over a type's events.
    """
    before = [_gaps(one.trace, comparison.types) for one in comparison.references]
    grown = np.maximum(0, _gaps(comparison.observed.trace, comparison.types) - np.max(before, axis=0))
    return np.asarray(np.where(comparison.steady, grown, 0.0))


def _gaps(trace: EventTrace, types: Sequence[EventType]) -> Floats:
    index = {kind: number for number, kind in enumerate(types)}
    totals = np.bincount(trace.events, np.diff(trace.timestamps, prepend=trace.timestamps[:1]), len(trace.types))
    spread = np.zeros(len(types))
    spread[[index[kind] for kind in trace.types]] = totals
    return spread


def _reached(comparison: Comparison) -> float:
    """Return the share of the way that all streams played, where the run broke off; else 1."""
    return min(comparison.played.values(), default=1.0) if Crash().find(comparison) is not None else 1.0


def _first(comparison: Comparison, flags: NDArray[np.bool_]) -> tuple[int | None, int | None]:
    """Return when a flagged type first occurs in the trace, and which."""
    found = [(int(comparison.observed.times(int(number))[0]), int(number)) for number in np.flatnonzero(flags)]
    return min(found) if found else (None, None)


def _last(comparison: Comparison) -> float:
    times = [comparison.observed.times(number) for stream in comparison.streams for number in stream.numbers]
    return max((float(each[-1]) for each in times if len(each)), default=float(comparison.observed.trace.duration))


def _where(events: Iterable[EventType]) -> tuple[str, str]:
    """Return plugin and element of the first event that has an element, or else of the first."""
    listed = sorted(events, key=lambda event: not event.element)  # stable
    return (listed[0].plugin, listed[0].element) if listed else ("", "")


def _confidence(comparison: Comparison) -> Literal["full", "weaker"]:
    return "full" if len(comparison.references) > 1 else "weaker"
