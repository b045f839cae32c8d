"""Kind of anomaly: the trace has fewer recurring events than any reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Floats, LogComparison, Stream
from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.findings import CERTAIN_FACTOR, Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, unnumbered, where_of
from unperturbed.analysis.diagnosis.kinds.crash import Crash

_USUAL_GAPS = 0.95
"""Quantile of a reference's gaps that is considered the usual gap; events may occur in bursts."""
_HOLE = 1.6
"""Multiple of the usual gap from which an event is missing in between."""


@dataclass(frozen=True)
class LostEvents(Kind):
    """Fewer frames or other recurring events than in any reference, in a run that continued to its end.

    The paper has no such kind. Occurrences show it, and the end of the run distinguishes it from a crash. If the run
    also broke off, the counts are compared with those of the part that was played.

    Attributes
    ----------
    least_share : float
        Minimum share of a stream's events that must be lost.
    agreeing : int
        Number of the stream's event types that must show the loss; a single type varies for many reasons.
    strictness : float
        Factor of the threshold; `calibrate` fits it.
    """

    name: ClassVar[str] = "lost events"
    distance: ClassVar[DistanceName] = "occurrence"
    rank: ClassVar[int] = 20

    least_share: float = 0.005
    agreeing: int = 3
    strictness: float = 1.0

    def find(self, comparison: LogComparison) -> Finding | None:
        """Return the loss of the stream that lost most or, if no stream did, of the element that lost most."""
        if not comparison.streams:
            return None
        finding = self._among(comparison, lambda compared: compared.streams)
        if finding is None and Crash().find(comparison) is None:
            finding = self._among(comparison, lambda compared: compared.elements)
        return finding

    def _among(
        self, comparison: LogComparison, streams_of: Callable[[LogComparison], Sequence[Stream]]
    ) -> Finding | None:
        """Return the loss of the stream that lost most, among some streams; None if it is below the threshold."""
        streams = streams_of(comparison)
        floor, threshold = self._limits(comparison, streams_of)
        each = [(*self._lost(comparison, stream), stream) for stream in streams]
        share, lost, stream = max(each, key=lambda loss: loss[0], default=(0.0, 0.0, None))
        if stream is None or share < threshold:
            return None
        carriers = carriers_of(comparison, self._carried(comparison, lost))
        certain_from = 0.0
        if floor is None:  # one reference does not show how much counts vary: assume random events
            certain_from = self.strictness * max(CERTAIN_FACTOR * self.least_share, (share / lost) ** 0.5)
        return Finding(
            self.name,
            f"{lost:.0f} of {lost / share:.0f} events ({share:.0%}) of {comparison.name_of(stream)} are lost",
            {"lost_events": lost, "lost_share": share},
            self._since(comparison, stream),
            *where_of([*self._announced(comparison, lost), *(carrier.event for carrier in carriers)]),
            carriers,
            share,
            threshold,
            "of a stream's events",
            floor,
            "weaker" if floor is None else "full",
            certain_from=certain_from,
        )

    def visible(self, comparison: LogComparison) -> tuple[Visible, ...]:
        """Return the smallest share of a stream's events whose loss would have been found in every stream."""
        floor, threshold = self._limits(comparison, lambda compared: compared.streams)
        shares = [self._seen(comparison, stream, threshold) for stream in comparison.streams]
        if not shares:
            return ()
        least = self.strictness * self.least_share
        change = f"loss in {self.agreeing} event types of a stream (all if it has fewer)"
        return (Visible(self.name, change, max(shares), "of a stream's events", floor, least),)

    def _seen(self, comparison: LogComparison, stream: Stream, threshold: float) -> float:
        """Return the share of events that a stream must lose for the loss to be found, rounded up to whole events."""
        lowest, highest = (counts[list(stream.numbers)] for counts in (comparison.lowest, comparison.highest))
        vary = highest - lowest
        fewest = np.maximum(np.floor(vary) + 1, np.ceil(threshold * lowest))
        shares = np.sort((vary + fewest) / highest)
        return float(shares[min(self.agreeing, len(shares)) - 1])

    def _limits(
        self, comparison: LogComparison, streams_of: Callable[[LogComparison], Sequence[Stream]]
    ) -> tuple[float | None, float]:
        """Return the largest share lost between references (None with one), and the threshold of the share."""
        floor = comparison.noise_floor(
            lambda compared: max((self._lost(compared, stream)[0] for stream in streams_of(compared)), default=0.0)
        )
        return floor, self.strictness * max(self.least_share, comparison.floor_factor * (floor or 0.0))

    def _lost(self, comparison: LogComparison, stream: Stream) -> tuple[float, float]:
        """Return the share and the number of events that a stream lost, as shown by enough of its types."""
        numbers = list(stream.numbers)
        broke_off = Crash().find(comparison) is not None
        expected = comparison.lowest[numbers] * (comparison.furthest if broke_off else 1.0)
        slack = comparison.slack[numbers] if len(comparison.references) > 1 else 0
        lost = expected - comparison.observed.counts[numbers]
        shares = np.sort(np.where(lost > slack + (3 if broke_off else 0), lost / np.maximum(expected, 1), 0))[::-1]
        share = float(shares[min(self.agreeing, len(shares)) - 1])
        return share, share * float(np.median(expected))

    def _carried(self, comparison: LogComparison, lost: float) -> Floats:
        """Return each type's missing or new occurrences; 0 unless they are about as many as were lost: shape (types,).

        Other numbers are left out: a loss can put an element into a different state, which it logs hundreds of times.
        """
        fewer = np.where(comparison.steady, np.maximum(0, -comparison.excess), 0)
        announced = np.zeros(len(comparison.types))
        numbers = [comparison.types.index(event) for event in self._announced(comparison, lost)]
        announced[numbers] = comparison.observed.counts[numbers]
        amounts = np.maximum(fewer, announced)
        about = (amounts >= lost / 3) & (amounts <= 3 * lost)
        return np.asarray(np.where(about, amounts, 0.0))

    def _announced(self, comparison: LogComparison, lost: float) -> list[EventType]:
        """Return new types that occur about as often as events are lost: an element logs what it drops.

        Types of elements that are not streams come first, because sinks also notice losses that occur before them.
        """
        often: list[int] = np.flatnonzero(comparison.new & (comparison.observed.counts >= lost / 2)).tolist()
        # A type that differs only in the number of a pad or queue, which depends on thread order, is not new.
        known = {unnumbered(comparison.types[number]) for number in np.flatnonzero(comparison.highest > 0).tolist()}
        often = [number for number in often if unnumbered(comparison.types[number]) not in known]
        ends = {stream.name for stream in comparison.streams}

        def place(number: int) -> tuple[bool, int]:
            return comparison.types[number].element in ends, int(comparison.observed.times(number)[0])

        return [comparison.types[number] for number in sorted(often, key=place)]

    def _since(self, comparison: LogComparison, stream: Stream) -> int | None:
        """Return the start of the first large gap in the events of the type that lost most; None without a gap."""
        number = max(
            stream.numbers, key=lambda candidate: comparison.lowest[candidate] - comparison.observed.counts[candidate]
        )
        here = comparison.observed.times(number)
        if len(here) < 2:
            return 0
        usual = float(np.quantile(np.diff(comparison.references[0].times(number)), _USUAL_GAPS))
        holes = np.flatnonzero(np.diff(here) > _HOLE * usual)
        return int(here[holes[0]]) if len(holes) else None
