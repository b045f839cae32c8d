"""All streams fall behind together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Comparison, Floats
from unperturbed.analysis.diagnosis.events import EventTrace, EventType
from unperturbed.analysis.diagnosis.findings import CERTAIN_FACTOR, Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kind import DistanceName, Kind, confidence_of, where_of
from unperturbed.analysis.diagnosis.kinds.crash import played_by_all

_UNIT = "ticks late"
_GUESSED_SHARE = 0.25
"""Of the run's time: by so much clean runs are guessed to differ in pace, where one reference does not tell."""


@dataclass(frozen=True)
class SlowStreaming(Kind):
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

    least_s: float = 0.05
    least_share: float = 0.03
    caught_up: float = 0.5
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return by how much the run falls behind."""
        floor, _, threshold = self._limits(comparison)
        reached = played_by_all(comparison)
        threshold += max(
            (comparison.uncertainty(stream, reached=reached) for stream in comparison.streams), default=0.0
        )
        threshold *= self.strictness
        guessed = self.strictness * _GUESSED_SHARE * comparison.duration
        late = self._late(comparison)
        measured = float(late.max())
        if measured <= threshold:
            return None
        # It was on time until the point before.
        at = max(0, int(np.argmax(late > threshold)) - 1)
        moments = comparison.moments(comparison.streams[0])
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
            round(moments[at]),
            *where_of(one.event for one in carriers),
            carriers,
            measured,
            threshold,
            _UNIT,
            floor,
            confidence_of(comparison),
            certain_from=0.0 if floor is not None else CERTAIN_FACTOR * guessed,
        )

    def visible(self, comparison: Comparison) -> tuple[Visible, ...]:
        """Return the delay of all streams that would have been found."""
        floor, least, threshold = self._limits(comparison)
        unsure = max((comparison.uncertainty(stream) for stream in comparison.streams), default=0.0)
        size = self.strictness * (threshold + unsure) + (floor or 0.0)
        change = "delay of all streams"
        return (Visible(self.name, change, size, _UNIT, floor, self.strictness * least),)

    def _limits(self, comparison: Comparison) -> tuple[float | None, float, float]:
        """Return the references' largest delay, None with one, the least that counts, and the threshold of both."""
        floor = comparison.noise_floor(lambda one: float(self._late(one).max()))
        least = comparison.ticks(self.least_s, self.least_share)
        return floor, least, max(least, comparison.floor_factor * (floor or 0.0))

    def _late(self, comparison: Comparison) -> Floats:
        """Return how late the least late stream is against each point's best before: shape (points,) [ticks]."""
        reached = played_by_all(comparison)
        each = []
        for stream in comparison.streams:
            delay = np.median(comparison.delays(stream, reached=reached), axis=0)
            if not np.isnan(delay).any():
                each.append(delay - np.minimum.accumulate(delay))
        return np.asarray(np.min(each, axis=0)) if each else np.zeros(len(comparison.grid))


def _grown_gaps(comparison: Comparison) -> Floats:
    """Return by how much the time before the events of each type grew beyond all references: shape (types,) [ticks].

    Of steady types the time since the event before, added up over a type's events; of all that references have, single
    waits that are longer than the longest one there, so that a stall is seen that is made up for.
    """
    theirs = [_gaps(one.trace, comparison.types) for one in comparison.references]
    totals, longest = (np.max([one[which] for one in theirs], axis=0) for which in (0, 1))
    here, _, beyond = _gaps(comparison.observed.trace, comparison.types, longest)
    grown = np.where(comparison.steady, np.maximum(0, here - totals), 0.0)
    return np.asarray(np.where(comparison.lowest > 0, np.maximum(grown, beyond), 0.0))


def _gaps(trace: EventTrace, types: Sequence[EventType], usual: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Return the ticks before each type's events: sum, longest, and the sum beyond `usual`, each of shape (types,)."""
    index = {kind: number for number, kind in enumerate(types)}
    numbers = np.array([index[kind] for kind in trace.types], np.int64)[trace.events]
    gaps = np.diff(trace.timestamps, prepend=trace.timestamps[:1]).astype(np.float64)
    longest = np.zeros(len(types))
    np.maximum.at(longest, numbers, gaps)
    excess = np.zeros(len(gaps)) if usual is None else np.maximum(0, gaps - usual[numbers])
    totals = [np.bincount(numbers, weights, len(types)).astype(np.float64) for weights in (gaps, excess)]
    return totals[0], longest, totals[1]
