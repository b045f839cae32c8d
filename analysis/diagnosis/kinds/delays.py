"""Kinds of anomaly that are delays: of one stream relative to another, or of all streams together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Floats, LogComparison, Stream
from unperturbed.analysis.diagnosis.findings import CERTAIN_FACTOR, Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, where_of
from unperturbed.analysis.diagnosis.kinds.crash import played_by_all

_GUESSED_SHARE = 0.25
"""Share of the run's time by which clean runs are assumed to differ in pace if there is only one reference."""


class _Delay(Kind):
    """Delay in ticks that exceeds a minimum, the references' noise and the uncertainty from lost events."""

    _unit: ClassVar[str]
    _change: ClassVar[str]
    least_s: float
    least_share: float
    strictness: float

    @abstractmethod
    def _largest(self, comparison: LogComparison) -> float:
        """Return the largest delay of the trace, in ticks."""

    def visible(self, comparison: LogComparison) -> tuple[Visible, ...]:
        """Return the smallest delay that would have been found in whichever stream it occurred."""
        floor, least, limit = self._limits(comparison)
        size = self._threshold(comparison, limit, comparison.streams) + (floor or 0.0)
        return (Visible(self.name, self._change, size, self._unit, floor, self.strictness * least),)

    def _limits(self, comparison: LogComparison) -> tuple[float | None, float, float]:
        """Return the noise floor (None with one reference), the minimum delay, and the threshold from both."""
        floor = comparison.noise_floor(self._largest)
        least = comparison.ticks(self.least_s, self.least_share)
        return floor, least, max(least, comparison.floor_factor * (floor or 0.0))

    def _threshold(
        self, comparison: LogComparison, limit: float, streams: Iterable[Stream], reached: float = 1.0
    ) -> float:
        """Return the threshold for some streams; lost events make their delays uncertain and increase it."""
        unsure = max((comparison.uncertainty(stream, reached=reached) for stream in streams), default=0.0)
        return self.strictness * (limit + unsure)


@dataclass(frozen=True)
class Desynchronisation(_Delay):
    """Offset between two streams that differs from the references' offset.

    The paper uses the occurrence distance, because sinks log different events when they are late. That distance shows
    neither the stream nor the size of the offset, and misses offsets that no sink notices. Here, the delays of two
    streams are compared.

    Attributes
    ----------
    least_s, least_share : float
        Minimum offset in seconds; if the unit of time is unknown, as a share of the run.
    least_of_delay : float
        Share of the two streams' common delay that does not count as an offset between them.
    held_s, held_share : float
        Duration of the offset: the median over a stretch of this length counts.
    strictness : float
        Factor of the threshold; `calibrate` fits it.
    """

    name: ClassVar[str] = "desynchronisation"
    distance: ClassVar[DistanceName] = "occurrence"
    rank: ClassVar[int] = 30
    _unit: ClassVar[str] = "ticks apart"
    _change: ClassVar[str] = "lasting offset between two streams"

    least_s: float = 0.03
    least_share: float = 0.02
    least_of_delay: float = 0.1
    held_s: float = 0.5
    held_share: float = 0.1
    strictness: float = 1.0

    def find(self, comparison: LogComparison) -> Finding | None:
        """Return the offset of the two streams that are furthest apart."""
        floor, least, limit = self._limits(comparison)
        measured, pair = self._worst(comparison)
        reached = played_by_all(comparison)
        threshold = self._threshold(comparison, limit, pair or (), reached)
        if pair is None or measured <= threshold:
            return None
        offset = self._offset(comparison, *pair, reached)
        late, early = pair if offset[np.argmax(np.abs(offset))] > 0 else pair[::-1]
        since = comparison.moments(late)[int(np.argmax(np.abs(offset) > threshold))]
        numbers = list(late.numbers)
        weights = np.zeros(len(comparison.types))
        weights[numbers] = comparison.lowest[numbers]
        carriers = carriers_of(comparison, weights, np.where(weights > 0, measured, 0))
        return Finding(
            self.name,
            f"{comparison.name_of(late)} is late relative to {comparison.name_of(early)}",
            {"offset": measured, "offset_at_the_end": float(abs(offset[-1]))},
            round(since),
            *where_of(carrier.event for carrier in carriers),
            carriers,
            measured,
            threshold,
            self._unit,
            floor,
            "weaker" if floor is None else "full",
            certain_from=0.0 if floor is not None else CERTAIN_FACTOR * self.strictness * 2 * least,
        )

    def cannot_tell(self, comparison: LogComparison) -> str:
        """Return a reason if the logs have fewer than two streams."""
        return "" if len(comparison.streams) > 1 else "the logs have fewer than two streams of events to compare"

    def _largest(self, comparison: LogComparison) -> float:
        return self._worst(comparison)[0]

    def _worst(self, comparison: LogComparison) -> tuple[float, tuple[Stream, Stream] | None]:
        """Return the largest offset between two streams, and these streams; 0 and None if there is no offset."""
        worst: tuple[float, tuple[Stream, Stream] | None] = (0.0, None)
        reached = played_by_all(comparison) if len(comparison.streams) > 1 else 1.0
        for pair in combinations(comparison.streams, 2):
            largest = float(np.abs(self._offset(comparison, *pair, reached)).max())
            if largest > worst[0]:
                worst = largest, pair
        return worst

    def _offset(self, comparison: LogComparison, stream: Stream, other: Stream, reached: float) -> Floats:
        """Return the lasting offset between two streams beyond the references' offset: shape (points,), ticks."""
        delays = [comparison.delays(each, reached=reached) for each in (stream, other)]
        apart = np.median(delays[0] - delays[1], axis=0)
        if np.isnan(apart).any():
            return np.zeros(len(comparison.grid))
        # The same share of two streams need not be the same moment; a slower run widens the time between these moments.
        usual = [comparison.usual(each, reached=reached) for each in (stream, other)]
        grown = [float(np.median(delay[:, -1] - delay[:, 0])) for delay in delays]
        slower = min(ticks / max(1.0, when[-1] - when[0]) for ticks, when in zip(grown, usual, strict=True))
        widened = max(0.0, slower) * np.abs(usual[0] - usual[1])
        both = [np.median(delay, axis=0) for delay in delays]
        widened += self.least_of_delay * np.min([delay - np.minimum.accumulate(delay) for delay in both], axis=0)
        apart = np.sign(apart) * np.maximum(0, np.abs(apart) - widened)
        held = comparison.ticks(self.held_s, self.held_share) / max(1.0, comparison.duration)
        width = max(3, min(len(apart) // 3, round(held * len(apart))))
        return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(apart, width), axis=1))


@dataclass(frozen=True)
class SlowStreaming(_Delay):
    """Delay of all streams together: everything takes longer.

    The paper uses the temporal distance: "the audio/video/subtitles are synchronized but take much more time". Here,
    the measurement is how far the least late stream falls behind the references' pace, relative to its smallest delay
    before that point; so a late start does not count.

    Attributes
    ----------
    least_s, least_share : float
        Minimum delay in seconds; if the unit of time is unknown, as a share of the run.
    caught_up : float
        Share of the largest delay; a run whose delay at its end is smaller caught up.
    strictness : float
        Factor of the threshold; `calibrate` fits it.
    """

    name: ClassVar[str] = "slow streaming"
    distance: ClassVar[DistanceName] = "temporal"
    rank: ClassVar[int] = 40
    _unit: ClassVar[str] = "ticks late"
    _change: ClassVar[str] = "delay of all streams"

    least_s: float = 0.05
    least_share: float = 0.03
    caught_up: float = 0.5
    strictness: float = 1.0

    def find(self, comparison: LogComparison) -> Finding | None:
        """Return the delay by which the run falls behind."""
        floor, _, limit = self._limits(comparison)
        threshold = self._threshold(comparison, limit, comparison.streams, played_by_all(comparison))
        guessed = self.strictness * _GUESSED_SHARE * comparison.duration
        late = self._late(comparison)
        measured = float(late.max())
        if measured <= threshold:
            return None
        # The run was on time until the point before.
        at = max(0, int(np.argmax(late > threshold)) - 1)
        grown = _grown_gaps(comparison)
        carriers = carriers_of(comparison, grown, grown)
        share, last = measured / comparison.duration, float(late[-1])
        if last < self.caught_up * measured:
            summary = f"the run falls behind by {share:.0%} of the references' duration, then catches up"
        else:
            summary = f"the run falls behind by {last / comparison.duration:.0%} of the references' duration"
        return Finding(
            self.name,
            summary,
            {"delay": measured, "delay_at_the_end": last, "share_of_run": share},
            round(comparison.moments(comparison.streams[0])[at]),
            *where_of(carrier.event for carrier in carriers),
            carriers,
            measured,
            threshold,
            self._unit,
            floor,
            "weaker" if floor is None else "full",
            certain_from=0.0 if floor is not None else CERTAIN_FACTOR * guessed,
        )

    def _largest(self, comparison: LogComparison) -> float:
        return float(self._late(comparison).max())

    def _late(self, comparison: LogComparison) -> Floats:
        """Return the least late stream's delay relative to its smallest delay so far: shape (points,) [ticks]."""
        reached = played_by_all(comparison)
        late = []
        for stream in comparison.streams:
            delay = np.median(comparison.delays(stream, reached=reached), axis=0)
            if not np.isnan(delay).any():
                late.append(delay - np.minimum.accumulate(delay))
        return np.asarray(np.min(late, axis=0)) if late else np.zeros(len(comparison.grid))


def _grown_gaps(comparison: LogComparison) -> Floats:
    """Return by how much each type's waits exceed those of all references: shape (types,) [ticks].

    For steady types, the excess of the total wait. For all types that every reference has, also single waits beyond the
    longest one in the references; these show a stall after which the run catches up.
    """
    nothing = np.zeros(len(comparison.types))
    sums = np.max([reference.waits_beyond(nothing) for reference in comparison.references], axis=0)
    longest = np.max([reference.longest_waits() for reference in comparison.references], axis=0)
    grown = np.where(comparison.steady, np.maximum(0, comparison.observed.waits_beyond(nothing) - sums), 0.0)
    beyond = comparison.observed.waits_beyond(longest)
    return np.asarray(np.where(comparison.lowest > 0, np.maximum(grown, beyond), 0.0))
