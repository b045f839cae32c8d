"""One stream is late against another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Comparison, Floats, Stream
from unperturbed.analysis.diagnosis.findings import CERTAIN_FACTOR, Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kind import DistanceName, Kind, confidence_of, where_of
from unperturbed.analysis.diagnosis.kinds.crash import played_by_all

_UNIT = "ticks apart"


@dataclass(frozen=True)
class Desynchronisation(Kind):
    """One stream comes later against another than in the references.

    The paper takes the occurrence distance: sinks log other events when they are late. That says neither which stream
    nor by how much, and does not see an offset that no sink notices. Here two streams' delays are compared;
    `diagnose(distances=["occurrence"])` computes the paper's distance.

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

    least_s: float = 0.03
    least_share: float = 0.02
    least_of_delay: float = 0.1
    held_s: float = 0.5
    held_share: float = 0.1
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return the two streams that are furthest apart."""
        floors, least, threshold = self._limits(comparison)
        measured, pair = self._worst(comparison)
        if pair is None:
            return None
        reached = played_by_all(comparison)
        threshold += max(comparison.uncertainty(stream, reached=reached) for stream in pair)
        threshold *= self.strictness
        if measured <= threshold:
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
            *where_of(one.event for one in carriers),
            carriers,
            measured,
            threshold,
            _UNIT,
            floors,
            confidence_of(comparison),
            certain_from=0.0 if floors is not None else CERTAIN_FACTOR * self.strictness * 2 * least,
        )

    def cannot_tell(self, comparison: Comparison) -> str:
        """Return whether a second stream is missing."""
        return "" if len(comparison.streams) > 1 else "the logs have a single stream, and it takes two"

    def visible(self, comparison: Comparison) -> tuple[Visible, ...]:
        """Return the offset that would have been found between any two streams."""
        floor, least, threshold = self._limits(comparison)
        unsure = max((comparison.uncertainty(stream) for stream in comparison.streams), default=0.0)
        size = self.strictness * (threshold + unsure) + (floor or 0.0)
        change = "lasting offset of a stream against another"
        return (Visible(self.name, change, size, _UNIT, floor, self.strictness * least),)

    def _limits(self, comparison: Comparison) -> tuple[float | None, float, float]:
        """Return the references' largest offset, None with one, the least that counts, and the threshold of both."""
        floor = comparison.noise_floor(lambda one: self._worst(one)[0])
        least = comparison.ticks(self.least_s, self.least_share)
        return floor, least, max(least, comparison.floor_factor * (floor or 0.0))

    def _worst(self, comparison: Comparison) -> tuple[float, tuple[Stream, Stream] | None]:
        found: tuple[float, tuple[Stream, Stream] | None] = (0.0, None)
        reached = played_by_all(comparison) if len(comparison.streams) > 1 else 1.0
        for pair in combinations(comparison.streams, 2):
            largest = float(np.abs(self._offset(comparison, *pair, reached)).max())
            if largest > found[0]:
                found = largest, pair
        return found

    def _offset(self, comparison: Comparison, one: Stream, other: Stream, reached: float) -> Floats:
        """Return the lasting offset of one stream against the other beyond the references': shape (points,), ticks."""
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


def _growth(delays: Floats) -> float:
    """Return by how many ticks a stream's delay grows from its beginning to its end."""
    return float(np.median(delays[:, -1] - delays[:, 0]))
