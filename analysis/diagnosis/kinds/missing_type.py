"""Kind of anomaly: an event type that occurs throughout every reference is missing from the trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unperturbed.analysis.diagnosis.comparison import Floats, LogComparison
from unperturbed.analysis.diagnosis.findings import Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, unnumbered, where_of
from unperturbed.analysis.diagnosis.kinds.crash import Crash
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

PARTS = 100
"""Parts of equal time into which a run is divided; events in one part count once, because they may share a cause."""
_REFERENCES = 2
_DETAIL = frozenset({"MEMDUMP", "TRACE", "LOG", "VERBOSE", "DEBUG", "INFO"})
"""Levels that a recording with less detail leaves out."""
_UNLIKELY = 0.05
"""Probability that references' counts vary this little by chance; it gives an upper bound of their dispersion."""
_PARTS_UNIT = "of the 1% time slices of every reference contain the type"


@dataclass(frozen=True)
class MissingType(Kind):
    """Event type that occurs throughout every reference but never in the trace, in a run that reached its end.

    The paper's dropping distance counts missing types and considers any an anomaly, but clean runs lack some too. Here,
    the type must occur in so many parts of the references' time that chance does not explain its absence. A type in few
    parts may depend on a single choice, such as which thread came first, and is never reported.

    Attributes
    ----------
    alpha : float
        Probability that any type is missing from a trace by chance, from a gamma distribution of each type's rate in
        the references.
    strictness : float
        Factor of the threshold; `calibrate` fits it.
    """

    name: ClassVar[str] = "missing event type"
    distance: ClassVar[DistanceName] = "dropping"
    rank: ClassVar[int] = 15
    needs_regular_events: ClassVar[bool] = False

    alpha: float = 0.05
    strictness: float = 1.0

    def find(self, comparison: LogComparison) -> Finding | None:
        """Return the missing types, with plugin and element of the one that exceeds its threshold most."""
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
        firsts = [np.median([reference.times(number)[0] for reference in comparison.references]) for number in told]
        event = comparison.types[worst]
        others = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        return Finding(
            self.name,
            f"{event.name}{others} never occurs, but {comparison.lowest[worst]:,} times or more in every reference",
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

    def cannot_tell(self, comparison: LogComparison) -> str:
        """Return a reason if there are too few references, or if something else would explain missing types."""
        if len(comparison.references) < _REFERENCES:
            return f"{_REFERENCES} or more references are needed to show which event types every good run has"
        if levels := _levels_left_out(comparison):
            return (
                f"the trace has no events of level {' or '.join(levels)}, as if it had been recorded in less detail; "
                "this would explain missing event types"
            )
        if Crash().find(comparison) is not None:
            return "a crash or truncation would explain missing event types"
        return ""

    def visible(self, comparison: LogComparison) -> tuple[Visible, ...]:
        """Return the share of parts in which an evenly frequent type must occur for its absence to be found."""
        floor = self._floor(comparison)
        size = self._threshold(comparison, np.full(len(comparison.references), PARTS), floor)
        if size >= PARTS:
            return (Visible(self.name, "", None, "", None, None, "references differ too much in their event types"),)
        return (
            Visible(
                self.name,
                "absence of an event type",
                (math.floor(size) + 1) / PARTS,
                _PARTS_UNIT,
                floor / PARTS,
                self._threshold(comparison, np.full(len(comparison.references), PARTS), 0.0) / PARTS,
                "types whose counts vary between references must occur in more slices",
            ),
        )

    def _floor(self, comparison: LogComparison) -> float:
        """Return the noise floor: the largest number of parts with a type that only one reference lacks."""
        return comparison.noise_floor(_most) or 0.0

    def _threshold(self, comparison: LogComparison, parts: Floats, floor: float) -> float:
        """Return the threshold: a missing type is a finding if it occurs in more parts than this in every reference.

        After n references, the rate of a Poisson process has a gamma distribution (Jeffreys' prior). It gives a further
        run without the type the probability (n / (n + 1)) ** (sum + 1/2). If the variance may be φ times the mean,
        rates differ between runs: under a negative binomial, the logarithm of the probability of no event is
        ln φ / (φ - 1) times that under a Poisson distribution.
        """
        references, types = len(comparison.references), int((comparison.lowest > 0).sum())
        needed = math.log(max(1, types) / self.alpha) / math.log1p(1 / references) - 0.5
        variance = float(((parts - parts.mean()) ** 2).sum()) / special.chdtri(references - 1, 1 - _UNLIKELY)
        beyond = variance / float(parts.mean()) - 1
        weaker = beyond / math.log1p(beyond) if beyond > 0 else 1.0
        return float(self.strictness * max(weaker * needed / references, comparison.floor_factor * floor))


def occupied(comparison: LogComparison) -> dict[int, Floats]:
    """Return, by missing type, the number of parts of each reference in which the type occurs: shape (references,).

    Each reference counts only up to the trace's length, in time and in events of the types that the trace has.
    """
    new = {unnumbered(comparison.types[number]) for number in np.flatnonzero(comparison.new).tolist()}
    # A type that differs only in the number of a thread or pad, whose order is arbitrary, is not missing.
    numbers = [
        number
        for number in np.flatnonzero(comparison.missing).tolist()
        if unnumbered(comparison.types[number]) not in new
    ]
    if not numbers:
        return {}
    there = comparison.observed.counts > 0
    here = float(comparison.observed.counts[there].sum())
    reached = min(
        1.0, here / max(1.0, float(min(reference.counts[there].sum() for reference in comparison.references)))
    )
    lasts = comparison.observed.trace.duration / min(reference.trace.duration for reference in comparison.references)
    ends = [
        min(
            reference.trace.since_start[math.ceil(reached * len(reference.trace)) - 1], lasts * reference.trace.duration
        )
        for reference in comparison.references
    ]
    parts = {}
    for number in numbers:
        counted = []
        for reference, end in zip(comparison.references, ends, strict=True):
            times = reference.times(number)
            counted.append(len(np.unique(times[times <= end] * PARTS // (reference.trace.duration + 1))))
        parts[number] = np.array(counted, dtype=np.float64)
    return {number: each for number, each in parts.items() if each.min() > 0}


def _most(comparison: LogComparison) -> float:
    return max((float(each.min()) for each in occupied(comparison).values()), default=0.0)


def _levels_left_out(comparison: LogComparison) -> list[str]:
    """Return the levels of detail at which every reference has several event types and the trace has none."""
    levels: dict[str, list[int]] = {}
    for number in np.flatnonzero(comparison.lowest > 0).tolist():
        levels.setdefault(comparison.types[number].level, []).append(number)
    return [
        level
        for level, numbers in sorted(levels.items())
        if level.upper() in _DETAIL and len(numbers) > 1 and not comparison.observed.counts[numbers].any()
    ]
