"""An event type that every reference has throughout is absent from the trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Comparison, Floats
from unperturbed.analysis.diagnosis.findings import Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, unnumbered, where_of
from unperturbed.analysis.diagnosis.kinds.crash import Crash
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

PARTS = 100
"""Parts of equal time into which a run is divided: events of one part count as one, as they may have one cause."""
_REFERENCES = 2
_DETAIL = frozenset({"MEMDUMP", "TRACE", "LOG", "VERBOSE", "DEBUG", "INFO"})
"""Levels that a recording with less detail leaves out."""
_UNLIKELY = 0.05
"""Probability that counts vary as little among references as they do, by which their dispersion is bounded."""
_PARTS_UNIT = "of the hundredths of every reference's time have it"


@dataclass(frozen=True)
class MissingType(Kind):
    """An event type that occurs throughout every reference does not occur at all, in a run that got to its end.

    The paper's dropping distance counts such types and takes one for an anomaly, but clean runs lack some as well. Here
    the type must have occurred in so many parts of the references' time that chance does not explain its absence. A
    type that occurs in few parts may be due to a single choice, such as which thread came first, and is never told.

    Attributes
    ----------
    alpha : float
        Probability that chance takes away any type of a trace: of n references' counts, as a gamma distribution of the
        rate tells.
    strictness : float
        By which the threshold is multiplied; `calibrate` fits it.
    """

    name: ClassVar[str] = "missing event type"
    distance: ClassVar[DistanceName] = "dropping"
    rank: ClassVar[int] = 15
    needs_regular_events: ClassVar[bool] = False

    alpha: float = 0.05
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return the types that are missing; where, of the one that occurs in most parts beyond its threshold."""
        if self.cannot_tell(comparison):
            return None
        floor, parts = self._floor(comparison), occupied(comparison)
        thresholds = {number: self._threshold(comparison, each, floor) for number, each in parts.items()}
        told = [number for number, each in parts.items() if each.min() > thresholds[number]]
        if not told:
            return None
        worst = max(told, key=lambda number: float(parts[number].min()) / thresholds[number])
        weights = np.zeros(len(comparison.types))
        weights[told] = [float(parts[number].min()) for number in told]
        firsts = [np.median([one.times(number)[0] for one in comparison.references]) for number in told]
        event = comparison.types[worst]
        others = f" and {len(told) - 1} more" if len(told) > 1 else ""
        return Finding(
            self.name,
            f"{event.name}{others} never occurs, and {comparison.lowest[worst]:,} times or more in every reference",
            {"missing_types": float(len(told)), "fewest_occurrences": float(comparison.lowest[worst])},
            round(float(min(firsts))),
            *where_of([event]),
            carriers_of(comparison, weights, -comparison.lowest),
            float(parts[worst].min()) / PARTS,
            thresholds[worst] / PARTS,
            _PARTS_UNIT,
            floor / PARTS,
            "full",
        )

    def cannot_tell(self, comparison: Comparison) -> str:
        """Return whether references are too few, or what explains that types are missing."""
        if len(comparison.references) < _REFERENCES:
            return f"{_REFERENCES} references or more show which event types every good run has"
        if levels := _levels_left_out(comparison):
            return (
                f"the trace has no event of the level {' and '.join(levels)}, as if recorded in less detail, which "
                "explains event types that are missing"
            )
        if Crash().find(comparison) is not None:
            return "crash or truncation explains event types that are missing"
        return ""

    def visible(self, comparison: Comparison) -> tuple[Visible, ...]:
        """Return in how many parts of the references a type must occur, about equally often, to be missed."""
        floor = self._floor(comparison)
        size = self._threshold(comparison, np.full(len(comparison.references), PARTS), floor)
        if size >= PARTS:
            return (Visible(self.name, "", None, "", None, None, "references differ too much in the types they have"),)
        return (
            Visible(
                self.name,
                "an event type that never occurs",
                (math.floor(size) + 1) / PARTS,
                _PARTS_UNIT,
                floor / PARTS,
                self._threshold(comparison, np.full(len(comparison.references), PARTS), 0.0) / PARTS,
                "types that vary from reference to reference must occur more often",
            ),
        )

    def _floor(self, comparison: Comparison) -> float:
        """Return in how many parts of all other references a type occurs that one of them lacks, at most."""
        return comparison.noise_floor(_most) or 0.0

    def _threshold(self, comparison: Comparison, parts: Floats, floor: float) -> float:
        """Return the number of parts in which a type must occur in every reference.

        The rate of a Poisson process has a gamma distribution after n references (Jeffreys' prior), by which none
        occurs in another run with probability (n / (n + 1)) ** (sum + 1/2). Where the variance may be φ times the mean,
        rates differ between runs; a negative binomial's logarithm of no event is ln φ / (φ - 1) times a Poisson's.
        """
        references, types = len(comparison.references), int((comparison.lowest > 0).sum())
        needed = math.log(max(1, types) / self.alpha) / math.log1p(1 / references) - 0.5
        variance = float(((parts - parts.mean()) ** 2).sum()) / special.chdtri(references - 1, 1 - _UNLIKELY)
        beyond = variance / float(parts.mean()) - 1
        weaker = beyond / math.log1p(beyond) if beyond > 0 else 1.0
        return float(self.strictness * max(weaker * needed / references, comparison.floor_factor * floor))


def occupied(comparison: Comparison) -> dict[int, Floats]:
    """Return in how many parts of each reference missing types occur, by type: shape (references,).

    Of each reference only as much counts as the trace has: by its time, and by the events of the types that it has.
    """
    new = {unnumbered(comparison.types[number]) for number in np.flatnonzero(comparison.new).tolist()}
    # The same under another number, as threads and pads get them in any order, is not missing.
    numbers = [
        number
        for number in np.flatnonzero(comparison.missing).tolist()
        if unnumbered(comparison.types[number]) not in new
    ]
    if not numbers:
        return {}
    there = comparison.observed.counts > 0
    here = float(comparison.observed.counts[there].sum())
    reached = min(1.0, here / max(1.0, float(min(one.counts[there].sum() for one in comparison.references))))
    lasts = comparison.observed.trace.duration / min(one.trace.duration for one in comparison.references)
    ends = [
        min(one.trace.since_start[math.ceil(reached * len(one.trace)) - 1], lasts * one.trace.duration)
        for one in comparison.references
    ]
    parts = {}
    for number in numbers:
        counted = []
        for one, end in zip(comparison.references, ends, strict=True):
            times = one.times(number)
            counted.append(len(np.unique(times[times <= end] * PARTS // (one.trace.duration + 1))))
        parts[number] = np.array(counted, dtype=np.float64)
    return {number: each for number, each in parts.items() if each.min() > 0}


def _most(comparison: Comparison) -> float:
    return max((float(each.min()) for each in occupied(comparison).values()), default=0.0)


def _levels_left_out(comparison: Comparison) -> list[str]:
    """Return levels of detail of which every reference has several types and the trace has none."""
    levels: dict[str, list[int]] = {}
    for number in np.flatnonzero(comparison.lowest > 0).tolist():
        levels.setdefault(comparison.types[number].level, []).append(number)
    return [
        level
        for level, numbers in sorted(levels.items())
        if level.upper() in _DETAIL and len(numbers) > 1 and not comparison.observed.counts[numbers].any()
    ]
