"""A stretch of the run is slower than its rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Comparison
from unperturbed.analysis.diagnosis.findings import Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kind import DistanceName, Kind, where_of
from unperturbed.analysis.diagnosis.stretches import (
    BLOCKS,
    OF_TIME,
    OFTEN,
    STRETCHES,
    Contrasts,
    Measure,
    added_time,
    interval,
    paces,
    shares,
)

_REFERENCES = 3
"""References from which on the others show what the stretches of one have in common with them."""
_LONGER = "of the rest's time is added"
_FALLS_SHORT = 2.5
"""Noises of a block by which the median of four blocks falls short in one of twenty runs."""


@dataclass(frozen=True)
class _Slower:
    """A stretch that is slower than the rest, in one measure.

    `longer`, `threshold` and `floor` are shares of the rest's time.
    """

    measure: Measure
    stretch: int
    longer: float
    threshold: float
    floor: float


@dataclass(frozen=True)
class SlowPhase(Kind):
    """A stretch of a fifth of the run or more is slower than its rest, as no stretch of a reference is.

    The paper has no such kind: its distances compare whole traces. Good runs may be fast or slow as a whole, so that a
    run in which everything takes twice as long for a while is no longer than they are. Here a run is its own measure;
    how much stretches of good runs differ, after what all references have in common, is the noise.

    Attributes
    ----------
    least : float
        By which share of the rest's time a stretch must be slower: machines change their clock for a while.
    least_beside_others : float
        The same of one event type beside the others, which a slower machine slows as well.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
    """

    name: ClassVar[str] = "slow phase"
    distance: ClassVar[DistanceName] = "temporal"
    rank: ClassVar[int] = 50

    least: float = 0.75
    least_beside_others: float = 0.5
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return the stretch that exceeds its threshold most."""
        all_paces = paces(comparison) if len(comparison.references) >= _REFERENCES else None
        if all_paces is None:
            return None
        found = [
            slower
            for contrasts, least in self._looks(all_paces)
            for slower in self._slower(contrasts, least)
            if _takes_longer(all_paces, slower)
        ]
        if not found:
            return None
        worst = max(found, key=lambda one: one.longer / one.threshold)
        between = interval(comparison, worst.measure, STRETCHES[worst.stretch])
        added = added_time(comparison, between)
        carriers = carriers_of(comparison, added, added)
        first, end = (block / BLOCKS for block in STRETCHES[worst.stretch])
        name = worst.measure.name or comparison.types[worst.measure.number].name
        return Finding(
            self.name,
            f"{name} takes {1 + worst.longer:.1f} times as long from {first:.0%} to {end:.0%} of the run as in its "
            "rest",
            {"ratio": 1 + worst.longer, "from_share": first, "to_share": end, "until": float(between[1])},
            between[0],
            *where_of(one.event for one in carriers),
            carriers,
            worst.longer,
            worst.threshold,
            _LONGER,
            worst.floor,
            "full",
            carries_time=True,
        )

    def cannot_tell(self, comparison: Comparison) -> str:
        """Return whether references or events are too few."""
        if len(comparison.references) < _REFERENCES:
            return f"{_REFERENCES} references or more show how much stretches of good runs differ"
        if paces(comparison) is None:
            return (
                f"no event type occurs {OFTEN} times or more, throughout and as often in the trace as in the references"
            )
        return ""

    def visible(self, comparison: Comparison) -> tuple[Visible, ...]:
        """Return the slowdown of everything, and of one event type beside the others, that would have been found."""
        all_paces = paces(comparison)
        if all_paces is None:
            return ()
        stretch = "all slower in a stretch of a fifth of the run or more"
        one_type = f"one event type with {OF_TIME:.0%} or more of the time slower in such a stretch"
        told = []
        for (contrasts, least), change in zip(self._looks(all_paces), (stretch, one_type), strict=False):
            thresholds = [self._threshold(floor, contrasts.references, least) for floor in contrasts.floors.tolist()]
            sizes = np.expm1(np.log1p(thresholds) + _FALLS_SHORT * contrasts.noise)
            # What slows everything shows in the quietest measure.
            place = int(sizes.argmin() if contrasts is all_paces else sizes.argmax())
            floor = math.expm1(float(contrasts.floors[place]))
            told.append(Visible(self.name, change, float(sizes[place]), _LONGER, floor, self.strictness * least))
        return tuple(told)

    def _looks(self, all_paces: Contrasts) -> list[tuple[Contrasts, float]]:
        """Return what is compared, with the share by which it must be slower."""
        beside = shares(all_paces)
        return [(all_paces, self.least), *([(beside, self.least_beside_others)] if beside is not None else [])]

    def _slower(self, contrasts: Contrasts, least: float) -> list[_Slower]:
        """Return the stretch of each measure in which it exceeds its threshold."""
        found = []
        for place, measure in enumerate(contrasts.measures):
            floor = float(contrasts.floors[place])
            threshold = self._threshold(floor, contrasts.references, least)
            if contrasts.observed[place].max() <= math.log1p(threshold):
                continue
            stretch = contrasts.best_stretch(place, math.log1p(threshold))
            longer = math.expm1(float(contrasts.observed[place, stretch]))
            found.append(_Slower(measure, stretch, longer, threshold, math.expm1(floor)))
        return found

    def _threshold(self, floor: float, references: int, least: float) -> float:
        return self.strictness * max(least, math.expm1((1 + 3 / references) * floor))


def _takes_longer(all_paces: Contrasts, slower: _Slower) -> bool:
    """Return whether a stream takes longer in a stretch, by half of what a slower event type adds to its time at least.

    In logs of several threads, other events may come between without anything being slower.
    """
    if not slower.measure.is_wait:
        return True
    streams = [place for place, one in enumerate(all_paces.measures) if not one.is_wait]
    pace = float(all_paces.observed[streams, slower.stretch].max())
    return pace >= math.log1p(slower.measure.share * slower.longer / 2)
