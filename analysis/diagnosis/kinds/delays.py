"""Kinds of anomaly that are a delay: of one stream against another, or of all streams together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Comparison, Floats, Stream
from unperturbed.analysis.diagnosis.findings import CERTAIN_FACTOR, Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, where_of
from unperturbed.analysis.diagnosis.kinds.crash import played_by_all

_GUESSED_SHARE = 0.25
"""Of the run's time: by so much clean runs are guessed to differ in pace, where one reference does not tell."""


class _Delay(Kind):
    """A delay in ticks that exceeds a least delay, the references' noise and the uncertainty from lost events."""

    _unit: ClassVar[str]
    _change: ClassVar[str]
    least_s: float
    least_share: float
    strictness: float

    @abstractmethod
    def _largest(self, comparison: Comparison) -> float:
        """Return the largest delay of the trace, in ticks."""

    def visible(self, comparison: Comparison) -> tuple[Visible, ...]:
        """Return the delay that would have been found in any stream."""
        floor, least, limit = self._limits(comparison)
        size = self._threshold(comparison, limit, comparison.streams) + (floor or 0.0)
        return (Visible(self.name, self._change, size, self._unit, floor, self.strictness * least),)

    def _limits(self, comparison: Comparison) -> tuple[float | None, float, float]:
        """Return the references' largest delay (None with one), the least that counts, and the threshold of both."""
        floor = comparison.noise_floor(self._largest)
        least = comparison.ticks(self.least_s, self.least_share)
        return floor, least, max(least, comparison.floor_factor * (floor or 0.0))

    def _threshold(
        self, comparison: Comparison, limit: float, streams: Iterable[Stream], reached: float = 1.0
    ) -> float:
        """Return the threshold of some streams, whose delays are less certain where events are lost."""
        unsure = max((comparison.uncertainty(stream, reached=reached) for stream in streams), default=0.0)
        return self.strictness * (limit + unsure)


@dataclass(frozen=True)
class Desynchronisation(_Delay):
    """One stream comes later against another than in the references.

    The paper takes the occurrence distance: sinks log other events when they are late. That says neither which stream
    nor by how much, and does not see an offset that no sink notices. Here two streams' delays are compared.

    Attributes
    ----------
    least_s, least_share : float
        Offset that must be held; where the unit of time is unknown, as a share of the run.
    least_of_delay : float
        Share of the delay that both have, which is not an offset between them.
    held_s, held_share : float
        For how long; the median over so long a stretch counts.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
    """

    name: ClassVar[str] = "desynchronisation"
    distance: ClassVar[DistanceName] = "occurrence"
    rank: ClassVar[int] = 30
    _unit: ClassVar[str] = "ticks apart"
    _change: ClassVar[str] = "lasting offset of a stream against another"

    least_s: float = 0.03
    least_share: float = 0.02
    least_of_delay: float = 0.1
    held_s: float = 0.5
    held_share: float = 0.1
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return the two streams that are furthest apart."""
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
            f"{comparison.name_of(late)} is late against {comparison.name_of(early)}",
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

    def cannot_tell(self, comparison: Comparison) -> str:
        """Return whether a second stream is missing."""
        return "" if len(comparison.streams) > 1 else "the logs have a single stream, and it takes two"

    def _largest(self, comparison: Comparison) -> float:
        return self._worst(comparison)[0]

    def _worst(self, comparison: Comparison) -> tuple[float, tuple[Stream, Stream] | None]:
        """Return the largest offset between two streams, and these; 0 and None where there is none."""
        worst: tuple[float, tuple[Stream, Stream] | None] = (0.0, None)
        reached = played_by_all(comparison) if len(comparison.streams) > 1 else 1.0
        for pair in combinations(comparison.streams, 2):
            largest = float(np.abs(self._offset(comparison, *pair, reached)).max())
            if largest > worst[0]:
                worst = largest, pair
        return worst

    def _offset(self, comparison: Comparison, stream: Stream, other: Stream, reached: float) -> Floats:
        """Return the lasting offset of one stream against the other beyond the references': shape (points,), ticks."""
        delays = [comparison.delays(each, reached=reached) for each in (stream, other)]
        apart = np.median(delays[0] - delays[1], axis=0)
        if np.isnan(apart).any():
            return np.zeros(len(comparison.grid))
        # The same share of two ways need not be the same moment. A slower pace of all widens what lies between.
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
    """All streams fall behind together: everything takes longer.

    The paper takes the temporal distance, "the audio/video/subtitles are synchronized but take much more time". Here it
    is how much the stream that is least late falls behind the references' pace, from the least late moment before: a
    late start is none.

    Attributes
    ----------
    least_s, least_share : float
        Seconds that must be lost; where the unit of time is unknown, a share of the run.
    caught_up : float
        Share of the largest delay: a run that is less late at its end caught up.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
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

    def find(self, comparison: Comparison) -> Finding | None:
        """Return by how much the run falls behind."""
        floor, _, limit = self._limits(comparison)
        threshold = self._threshold(comparison, limit, comparison.streams, played_by_all(comparison))
        guessed = self.strictness * _GUESSED_SHARE * comparison.duration
        late = self._late(comparison)
        measured = float(late.max())
        if measured <= threshold:
            return None
        # It was on time until the point before.
        at = max(0, int(np.argmax(late > threshold)) - 1)
        grown = _grown_gaps(comparison)
        carriers = carriers_of(comparison, grown, grown)
        share, last = measured / comparison.duration, float(late[-1])
        if last < self.caught_up * measured:
            summary = f"it falls behind by {share:.0%} of the run's time, and catches up"
        else:
            summary = f"{last / comparison.duration:.0%} of the run's time is added"
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

    def _largest(self, comparison: Comparison) -> float:
        return float(self._late(comparison).max())

    def _late(self, comparison: Comparison) -> Floats:
        """Return how late the least late stream is against each point's best before: shape (points,) [ticks]."""
        reached = played_by_all(comparison)
        late = []
        for stream in comparison.streams:
            delay = np.median(comparison.delays(stream, reached=reached), axis=0)
            if not np.isnan(delay).any():
                late.append(delay - np.minimum.accumulate(delay))
        return np.asarray(np.min(late, axis=0)) if late else np.zeros(len(comparison.grid))


def _grown_gaps(comparison: Comparison) -> Floats:
    """Return by how much the waits for the events of each type grew beyond all references: shape (types,) [ticks].

    Of steady types all waits together; of all that references have, single waits that are longer than the longest one
    there, so that a stall is seen that is made up for.
    """
    nothing = np.zeros(len(comparison.types))
    sums = np.max([one.waits_beyond(nothing) for one in comparison.references], axis=0)
    longest = np.max([one.longest_waits() for one in comparison.references], axis=0)
    grown = np.where(comparison.steady, np.maximum(0, comparison.observed.waits_beyond(nothing) - sums), 0.0)
    beyond = comparison.observed.waits_beyond(longest)
    return np.asarray(np.where(comparison.lowest > 0, np.maximum(grown, beyond), 0.0))
