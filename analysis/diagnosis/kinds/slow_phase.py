"""A stretch of the run is slower than its rest: how long what recurs takes in each stretch, against the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.comparison import Comparison, Floats
from unperturbed.analysis.diagnosis.findings import Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, where_of

BLOCKS = 20
"""Parts of equally many events into which a run is divided."""
_SHORTEST = 4
"""Blocks of the shortest stretch, and of what is left beside the longest one: a fifth of the run."""
OFTEN = 3 * BLOCKS
"""Occurrences from which on a type shows how long it takes in each block."""
OF_TIME = 0.1
"""Share of the run's time that the waits for a type take, from which on the type is measured by itself."""
_COMPLETE = 0.95
"""Share of a type's occurrences that a run must have: where events are lost, those that are left come later."""
_COMPLETE_VARYING = 0.5
"""The same of types whose counts vary among the references: a loss of half is told from chance."""
_SOFTENED = 0.01
"""Share of the mean that is added to each time, so that the logarithm of a time near 0 tells nothing."""
_OF_REST = 0.75
"""Quantile of the rest's blocks that a stretch must exceed."""
_LEAST_NOISE = 0.01
"""Of a block's logarithm: timestamps are rounded."""
_PEERS = 3
"""Types from which on their median shows by how much all of a run is slower."""

STRETCHES = tuple(
    (first, end)
    for first in range(BLOCKS)
    for end in range(first + _SHORTEST, BLOCKS + 1)
    if end - first <= BLOCKS - _SHORTEST
)
"""First block of each stretch, and the one behind its last."""


@dataclass(frozen=True)
class Measure:
    """Operations that take time repeatedly."""

    name: str  # The stream, or the event type
    number: int  # The event type, as an index into the comparison's types
    share: float  # Of the references' time; 1 for a stream
    # Whether the time since the event before is measured, rather than that between two events of the type.
    is_wait: bool


@dataclass(frozen=True, eq=False)
class Contrasts:
    """By how much stretches of runs are slower than the rest of their run, as logarithms of ratios."""

    measures: tuple[Measure, ...]  # What is measured
    # (measures, references + 1, blocks): Mean logarithm of a block's times, less the run's median; the diagnosed
    # trace is the last run.
    blocks: Floats

    @property
    def references(self) -> int:
        """The number of references."""
        return int(self.blocks.shape[1]) - 1

    @cached_property
    def observed(self) -> Floats:
        """Of the trace, beyond what the references' stretches share: shape (measures, stretches)."""
        return _contrasts(self.blocks[:, -1] - np.median(self.blocks[:, :-1], axis=1))

    @cached_property
    def _left_out(self) -> Floats:
        """Blocks of each reference less what the others share: shape (measures, references, blocks)."""
        references = self.blocks[:, :-1]
        others = [np.median(np.delete(references, left, axis=1), axis=1) for left in range(self.references)]
        return references - np.stack(others, axis=1)

    @cached_property
    def noise(self) -> Floats:
        """Standard deviation of a block of a reference, robust: shape (measures,)."""
        centred = self._left_out - np.median(self._left_out, axis=2, keepdims=True)
        spread: Floats = 1.4826 * np.median(np.abs(centred), axis=(1, 2))
        return np.maximum(_LEAST_NOISE, spread)

    @cached_property
    def floors(self) -> Floats:
        """The slowest stretch of any reference against the others, as every measure can reach it: shape (measures,).

        In units of each measure's noise, the largest of all measures counts for each: a trace gets as many looks.
        """
        largest = float((_contrasts(self._left_out).max(axis=2) / self.noise[:, None]).max())
        return largest * self.noise

    def best_stretch(self, measure: int, least: float) -> int:
        """Return which stretch explains most of a measure's variance, of those slower than the rest by `least`."""
        blocks = self.blocks[measure, -1] - np.median(self.blocks[measure, :-1], axis=0)
        inside = np.array([(np.arange(BLOCKS) >= first) & (np.arange(BLOCKS) < end) for first, end in STRETCHES])
        sizes = inside.sum(axis=1)
        means = inside @ blocks / sizes - ~inside @ blocks / (BLOCKS - sizes)
        explained: Floats = means**2 * sizes * (BLOCKS - sizes)
        explained[self.observed[measure] <= least] = -1.0
        return int(explained.argmax())


def paces(comparison: Comparison) -> Contrasts | None:
    """Return how long streams, and types that take much of the time, take; None where nothing recurs often enough.

    Streams need types of steady counts, so that nothing but time lies between their events. The wait for an event is
    its own time, however many there are: each run has blocks of its own.
    """
    if "paces" not in comparison.kept:
        measures = (*_streams(comparison), *_waits(comparison))
        comparison.kept["paces"] = None
        if measures:
            blocks = np.array([_blocks(comparison, measure) for measure in measures])
            comparison.kept["paces"] = Contrasts(measures, blocks - np.median(blocks, axis=2, keepdims=True))
    kept: Contrasts | None = comparison.kept["paces"]
    return kept


def shares(all_paces: Contrasts) -> Contrasts | None:
    """Return how long types take beside the others of their run, whose machine may be slow; None with few types."""
    waits = [place for place, one in enumerate(all_paces.measures) if one.is_wait]
    if len(waits) < _PEERS:
        return None
    blocks = all_paces.blocks[waits]
    others = np.array([np.median(np.delete(blocks, own, axis=0), axis=0) for own in range(len(waits))])
    return Contrasts(tuple(all_paces.measures[place] for place in waits), blocks - others)


def interval(comparison: Comparison, measure: Measure, stretch: tuple[int, int]) -> tuple[int, int]:
    """Return from when to when a stretch of the trace lasts, in ticks since its first event."""
    times = comparison.observed.times(measure.number)
    first, end = (_edges(len(times))[block] for block in stretch)
    return int(times[max(0, first - 1)] if measure.is_wait else times[first]), int(times[min(end, len(times)) - 1])


def _streams(comparison: Comparison) -> list[Measure]:
    measured = []
    for stream in comparison.streams:
        often = [number for number in stream.numbers if _recurs_often(comparison, number)]
        if often:
            measured.append(Measure(stream.name, often[0], 1.0, is_wait=False))
    return measured


def _waits(comparison: Comparison) -> list[Measure]:
    nothing = np.zeros(len(comparison.types))
    of_time = np.median([one.waits_beyond(nothing) / one.trace.duration for one in comparison.references], axis=0)
    return [
        Measure(comparison.types[number].name, number, float(of_time[number]), is_wait=True)
        for number in np.flatnonzero(of_time >= OF_TIME).tolist()
        if _recurs_often(comparison, number) and comparison.recurs_throughout(number)
    ]


def _recurs_often(comparison: Comparison, number: int) -> bool:
    lowest = int(comparison.lowest[number])
    complete = _COMPLETE if comparison.steady[number] else _COMPLETE_VARYING
    return lowest >= OFTEN and int(comparison.observed.counts[number]) >= max(OFTEN, complete * lowest)


def _blocks(comparison: Comparison, measure: Measure) -> Floats:
    """Return the mean logarithm of the times in each block of each run: shape (references + 1, blocks)."""
    runs = [*comparison.references, comparison.observed]
    if measure.is_wait:
        times = [one.waits(measure.number).astype(np.float64) for one in runs]
    else:
        times = [np.diff(one.times(measure.number)).astype(np.float64) for one in runs]
    softened = max(1.0, _SOFTENED * float(np.median([one.mean() for one in times[:-1]])))
    blocks = []
    for one in times:
        edges = _edges(len(one))
        blocks.append(np.add.reduceat(np.log(one + softened), edges[:-1]) / np.diff(edges))
    return np.array(blocks)


def _edges(events: int) -> NDArray[np.int64]:
    return np.linspace(0, events, BLOCKS + 1).astype(np.int64)


def _contrasts(blocks: Floats) -> Floats:
    """Return the median of each stretch less the upper quartile of the rest: shape (…, stretches).

    Both leave short bursts out, the quartile also a fast half of the rest, which makes no stretch slow.
    """
    contrasts = np.empty((*blocks.shape[:-1], len(STRETCHES)))
    for places, inside, outside in _by_length():
        contrasts[..., places] = _quantile(blocks[..., inside], 0.5) - _quantile(blocks[..., outside], _OF_REST)
    return contrasts


@cache
def _by_length() -> tuple[tuple[list[int], NDArray[np.intp], NDArray[np.intp]], ...]:
    """Return the places of all stretches of a length, with the blocks in each and beside each: (stretches, blocks)."""
    groups = []
    for length in sorted({end - first for first, end in STRETCHES}):
        places = [place for place, (first, end) in enumerate(STRETCHES) if end - first == length]
        inside = np.array([np.arange(*STRETCHES[place]) for place in places])
        outside = np.array([np.delete(np.arange(BLOCKS), blocks) for blocks in inside])
        groups.append((places, inside, outside))
    return tuple(groups)


def _quantile(values: Floats, share: float) -> Floats:
    """Return a quantile along the last axis, interpolated; numpy's takes ten times as long for so few values."""
    ordered = np.sort(values, axis=-1)
    place = share * (values.shape[-1] - 1)
    below, above = math.floor(place), math.ceil(place)
    return np.asarray(ordered[..., below] + (place - below) * (ordered[..., above] - ordered[..., below]))


def added_time(comparison: Comparison, between: tuple[int, int]) -> Floats:
    """Return the ticks that waits for each type take in a stretch beyond those of as many events outside: (types,)."""
    counts, waited = comparison.observed.waits_between(*between)
    all_counts, all_waited = comparison.observed.waits_between(-1, comparison.observed.trace.duration)
    outside = (all_waited - waited) / np.maximum(1, all_counts - counts)
    both = (counts > 0) & (all_counts > counts) & (comparison.lowest > 0)
    return np.where(both, np.maximum(0.0, waited - counts * outside), 0.0)


_REFERENCES = 3
"""References from which on the others show what the stretches of one have in common with them."""
_LONGER = "of the rest's time is added"
_FALLS_SHORT = 2.5
"""Noises of a block by which the median of four blocks falls short in one of twenty runs."""


@dataclass(frozen=True)
class _Slower:
    """A stretch that is slower than the rest, in one measure."""

    measure: Measure
    stretch: int
    # longer, threshold, floor: Shares of the rest's time.
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
    counts_may_vary: ClassVar[bool] = True

    least: float = 0.75
    least_beside_others: float = 0.5
    strictness: float = 1.0

    def find(self, comparison: Comparison) -> Finding | None:
        """Return the stretch that exceeds its threshold most."""
        all_paces = paces(comparison) if len(comparison.references) >= _REFERENCES else None
        if all_paces is None:
            return None
        slower = [
            one
            for look in self._looks(all_paces)
            for one in self._slower(*look)
            if _takes_longer(comparison, all_paces, one)
        ]
        if not slower:
            return None
        worst = max(slower, key=lambda one: one.longer / one.threshold)
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
        slower = []
        for place, measure in enumerate(contrasts.measures):
            floor = float(contrasts.floors[place])
            threshold = self._threshold(floor, contrasts.references, least)
            if contrasts.observed[place].max() <= math.log1p(threshold):
                continue
            stretch = contrasts.best_stretch(place, math.log1p(threshold))
            longer = math.expm1(float(contrasts.observed[place, stretch]))
            slower.append(_Slower(measure, stretch, longer, threshold, math.expm1(floor)))
        return slower

    def _threshold(self, floor: float, references: int, least: float) -> float:
        return self.strictness * max(least, math.expm1((1 + 3 / references) * floor))


def _takes_longer(comparison: Comparison, all_paces: Contrasts, slower: _Slower) -> bool:
    """Return whether a stream, or a slower event type itself, comes later by half of what that adds to the time.

    In logs of several threads, other events may come between without anything being slower.
    """
    if not slower.measure.is_wait:
        return True
    streams = [place for place, one in enumerate(all_paces.measures) if not one.is_wait]
    pace = all_paces.observed[streams, slower.stretch].max(initial=-math.inf)
    # Means: what comes by chance only comes at a pace that is too uneven for quartiles.
    between = _blocks(comparison, replace(slower.measure, is_wait=False))
    own = between[-1] - np.median(between[:-1] - between[:-1].mean(axis=1, keepdims=True), axis=0)
    inside = slice(*STRETCHES[slower.stretch])
    own_pace = own[inside].mean() - np.delete(own, inside).mean()
    return float(max(pace, own_pace)) >= math.log1p(slower.measure.share * slower.longer / 2)
