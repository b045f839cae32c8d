"""Kind of anomaly: the run stopped before its end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import LogComparison
from unperturbed.analysis.diagnosis.findings import Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, where_of

_AS_MUCH_SHORTER = 0.3
"""Share by which missing events and missing time may differ in a run that had less to play."""
_WAY = "of the references' length is missing"
_EARLY = 0.1
"""Share of the references' length that must be missing if only an error and the length show the crash."""


@dataclass(frozen=True)
class Crash(Kind):
    """Run that stopped before its end: the log breaks off, or an error ends the pipeline.

    As with the paper's dropping distance, event types that end every reference are missing: some of them if there are
    new errors, else at least half. If the references have no such types, the log breaks off if all streams are shorter
    than in any reference at the same pace, or if it has new errors and is shorter. A run that ends normally, but with
    all recurring types shortened alike, had less to play.

    Attributes
    ----------
    endings_missing : float
        Share of the event types at the end that a log without an error must lack.
    pace_change : float
        Share by which the pace may differ if only the length of the streams shows the crash.
    alike : float
        Share of the recurring types that must be shortened alike in a run that had less to play.
    """

    name: ClassVar[str] = "crash or truncation"
    distance: ClassVar[DistanceName] = "dropping"
    rank: ClassVar[int] = 10
    needs_regular_events: ClassVar[bool] = False

    endings_missing: float = 0.5
    pace_change: float = 0.2
    alike: float = 0.8

    def find(self, comparison: LogComparison) -> Finding | None:
        """Return where the run stopped."""
        endings, gone = int(comparison.endings.sum()), comparison.endings & comparison.missing
        errors = comparison.new_errors
        by_end = (float(gone.sum()) / max(1, endings), "of the event types that end every reference are missing")
        reached, shortest = _reached(comparison), _shortest_of_references(comparison)
        by_length = (1 - reached, _WAY)
        if errors.any() and gone.any():
            how, (measured, unit), threshold = "an error ended the run", by_end, 1 / endings
        elif endings and gone.sum() >= self.endings_missing * endings:
            how, (measured, unit), threshold = "the log breaks off", by_end, self.endings_missing
        elif errors.any() and _ended_early(comparison):
            how, (measured, unit), threshold = "an error ended the run", by_length, _EARLY
        elif not endings and self._is_shorter(comparison):
            how, (measured, unit), threshold = "the log breaks off", by_length, 1 - shortest
        elif endings and self._has_less_to_play(comparison):
            how, (measured, unit), threshold = "the run ends normally, but", by_length, 1 - shortest
        else:
            return None
        # An error outweighs all the events that it prevented.
        weights = np.where(errors, max(1.0, float(gone.sum())) / max(1, int(errors.sum())), np.where(gone, 1.0, 0.0))
        if not weights.any():
            weights = np.where(comparison.steady, np.maximum(0, -comparison.excess), 0)
        carriers = carriers_of(comparison, weights, comparison.observed.counts - comparison.lowest)
        observed, where = comparison.observed, [carrier.event for carrier in carriers]
        if errors.any():
            since, number = min(
                (int(observed.times(error_type)[0]), error_type) for error_type in np.flatnonzero(errors).tolist()
            )
            where = [comparison.types[number]]
        else:
            played = [number for stream in comparison.streams for number in stream.numbers if observed.counts[number]]
            since = int(max(observed.times(number)[-1] for number in played)) if comparison.span[1] else 0
        return Finding(
            self.name,
            f"{how} at {reached:.0%} of the references' length",
            {
                "end_reached_share": reached,
                "missing_time": (1 - reached) * (comparison.span[0] or comparison.duration),
                "missing_end_types": float(gone.sum()),
                "new_error_types": float(errors.sum()),
            },
            since,
            *where_of(where),
            carriers,
            measured,
            threshold,
            unit,
            0.0 if len(comparison.references) > 1 else None,
            "full",
        )

    def visible(self, comparison: LogComparison) -> tuple[Visible, ...]:
        """Return the share of the references' length by which a run must end early to be found."""
        if not comparison.endings.any():
            if not comparison.streams:
                return ()
            size, reason = 1 - _shortest_of_references(comparison), "twice the difference in the references' lengths"
        else:
            endings: list[int] = np.flatnonzero(comparison.endings).tolist()
            needed = math.ceil(self.endings_missing * len(endings))
            shares = []
            for reference in comparison.references:
                firsts = sorted(int(reference.times(number)[0]) for number in endings)
                shares.append(1 - firsts[-needed] / max(1, reference.trace.duration))
            size, reason = max(shares), "half of the event types that end every reference occur in this part"
        return (Visible(self.name, "early end", size, _WAY, None, None, reason),)

    def _has_less_to_play(self, comparison: LogComparison) -> bool:
        """Return whether nearly all recurring types are shortened alike, in number and in time.

        If events are lost instead, those of earlier elements remain complete.
        """
        reached, (shortest, here) = comparison.furthest, comparison.span
        apart = abs(here / max(1.0, shortest) - reached)
        if not self._is_shorter(comparison) or apart > _AS_MUCH_SHORTER * (1 - reached):
            return False
        played = list(filter(comparison.recurs_throughout, np.flatnonzero(comparison.steady).tolist()))
        expected = reached * comparison.lowest[played]
        difference = np.abs(comparison.observed.counts[played] - expected)
        return float((difference <= np.maximum(2, 0.1 * expected)).mean()) >= self.alike

    def _is_shorter(self, comparison: LogComparison) -> bool:
        reached, (shortest, here) = comparison.furthest, comparison.span
        if not comparison.streams or reached == 1:
            return False
        if not reached:
            return True
        # Without a duration, the pace cannot be compared; then only the numbers of events tell.
        same_pace = not shortest or abs(here / shortest / reached - 1) <= self.pace_change
        is_earlier = here < shortest or not shortest
        return reached < _shortest_of_references(comparison) and is_earlier and same_pace


def played_by_all(comparison: LogComparison) -> float:
    """Return the smallest played share of any stream; 1 if the run did not break off."""
    return min(comparison.played.values(), default=1.0) if Crash().find(comparison) is not None else 1.0


def _reached(comparison: LogComparison) -> float:
    """Return the share of the references' events that the run reached, or of their duration if nothing recurs."""
    in_time, share = min(1.0, comparison.observed.trace.duration / comparison.duration), comparison.furthest
    return min(share, in_time) if share == 1 else share or in_time


def _shortest_of_references(comparison: LogComparison) -> float:
    """Return the share of the references' length below which a run is too short: 1 minus twice their differences."""
    lengths = [reference.trace.duration for reference in comparison.references]
    noise = (max(lengths) - min(lengths)) / max(1, *lengths) if len(lengths) > 1 else 0.05
    return 1 - 2 * noise - 0.01


def _ended_early(comparison: LogComparison) -> bool:
    """Return whether a trace is shorter than every reference by more than a tenth, and by more than these differ."""
    lengths = [reference.trace.duration for reference in comparison.references]
    return comparison.observed.trace.duration < min(lengths) - max(_EARLY * min(lengths), max(lengths) - min(lengths))
