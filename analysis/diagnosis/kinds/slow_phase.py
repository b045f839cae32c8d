"""Kind of anomaly: a stretch of the run in which recurring operations are slower than in the rest of the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.comparison import Floats, LogComparison
from unperturbed.analysis.diagnosis.findings import Finding, Visible, carriers_of
from unperturbed.analysis.diagnosis.kinds import DistanceName, Kind, where_of

BLOCKS = 20
"""Parts into which a run is divided, each with the same number of events."""
_SHORTEST = 4
"""Minimum number of blocks in a stretch, and in the rest of the run: a fifth of the run."""
OFTEN = 3 * BLOCKS
"""Minimum occurrences of a type that is measured in each block."""
OF_TIME = 0.1
"""Minimum share of the run's time in waits for a type that is measured by itself."""
_COMPLETE = 0.95
"""Share of a type's occurrences that a run must have: if events are lost, the remaining ones are further apart."""
_COMPLETE_VARYING = 0.5
"""The same share for types whose counts vary between references; a loss of half is not chance."""
_SOFTENED = 0.01
"""Share of the mean that is added to each time; it limits the weight of times near 0 in logarithms."""
_OF_REST = 0.75
"""Quantile of the rest's blocks that a stretch must exceed."""
_LEAST_NOISE = 0.01
"""Minimum noise of a block's mean logarithm, because timestamps are rounded."""
_PEERS = 3
"""Minimum number of types whose median shows by how much a run as a whole is slower."""

STRETCHES = tuple(
    (first, end)
    for first in range(BLOCKS)
    for end in range(first + _SHORTEST, BLOCKS + 1)
    if end - first <= BLOCKS - _SHORTEST
)
"""First block of each stretch, and the block after its last."""


@dataclass(frozen=True)
class Measure:
    """Recurring operation whose times are measured."""

    name: str  # The stream, or the event type
    number: int  # The event type, as an index into the comparison's types
    share: float  # Share of the references' time; 1 for a stream
    # Whether the time since the preceding event of any type is measured, not the time between two events of the type.
    is_wait: bool


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Slowdowns of stretches relative to the rest of their run, as logarithms of ratios."""

    measures: tuple[Measure, ...]  # The measured operations
    # (measures, references + 1, blocks): Mean logarithm of a block's times, less the run's median; the diagnosed
    # trace is the last run.
    blocks: Floats

    @property
    def references(self) -> int:
        """The number of references."""
        return int(self.blocks.shape[1]) - 1

    @cached_property
    def observed(self) -> Floats:
        """Slowdowns of the trace beyond those that the references share: shape (measures, stretches)."""
        return _contrasts(self.blocks[:, -1] - np.median(self.blocks[:, :-1], axis=1))

    @cached_property
    def _left_out(self) -> Floats:
        """Blocks of each reference minus the median of the others: shape (measures, references, blocks)."""
        references = self.blocks[:, :-1]
        others = [np.median(np.delete(references, left, axis=1), axis=1) for left in range(self.references)]
        return references - np.stack(others, axis=1)

    @cached_property
    def noise(self) -> Floats:
        """Robust standard deviation of a reference's blocks: shape (measures,)."""
        centred = self._left_out - np.median(self._left_out, axis=2, keepdims=True)
        spread: Floats = 1.4826 * np.median(np.abs(centred), axis=(1, 2))
        return np.maximum(_LEAST_NOISE, spread)

    @cached_property
    def floors(self) -> Floats:
        """Noise floor of each measure: shape (measures,).

        It is the largest slowdown of any reference's stretch in any measure, in units of the measure's noise; a trace
        is searched in all measures as well.
        """
        largest = float((_contrasts(self._left_out).max(axis=2) / self.noise[:, None]).max())
        return largest * self.noise

    def best_stretch(self, measure: int, least: float) -> int:
        """Return the stretch, among those slower than the rest by `least`, that explains most of the variance."""
        blocks = self.blocks[measure, -1] - np.median(self.blocks[measure, :-1], axis=0)
        inside = np.array([(np.arange(BLOCKS) >= first) & (np.arange(BLOCKS) < end) for first, end in STRETCHES])
        sizes = inside.sum(axis=1)
        means = inside @ blocks / sizes - ~inside @ blocks / (BLOCKS - sizes)
        explained: Floats = means**2 * sizes * (BLOCKS - sizes)
        explained[self.observed[measure] <= least] = -1.0
        return int(explained.argmax())


def paces(comparison: LogComparison) -> Contrasts | None:
    """Return slowdowns of streams and of types that take much of the time; None if no event recurs often enough.

    Streams need types with steady counts: then only time separates their events. Waits for an event type need not be
    equally many in all runs, because each run is divided into its own blocks.
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
    """Return slowdowns relative to the other event types, to cancel a slow machine; None if types are too few."""
    waits = [place for place, measure in enumerate(all_paces.measures) if measure.is_wait]
    if len(waits) < _PEERS:
        return None
    blocks = all_paces.blocks[waits]
    others = np.array([np.median(np.delete(blocks, own, axis=0), axis=0) for own in range(len(waits))])
    return Contrasts(tuple(all_paces.measures[place] for place in waits), blocks - others)


def interval(comparison: LogComparison, measure: Measure, stretch: tuple[int, int]) -> tuple[int, int]:
    """Return start and end of a stretch of the trace, in ticks since the trace's first event."""
    times = comparison.observed.times(measure.number)
    first, end = (_edges(len(times))[block] for block in stretch)
    return int(times[max(0, first - 1)] if measure.is_wait else times[first]), int(times[min(end, len(times)) - 1])


def _streams(comparison: LogComparison) -> list[Measure]:
    measured = []
    for stream in comparison.streams:
        often = [number for number in stream.numbers if _recurs_often(comparison, number)]
        if often:
            measured.append(Measure(stream.name, often[0], 1.0, is_wait=False))
    return measured


def _waits(comparison: LogComparison) -> list[Measure]:
    nothing = np.zeros(len(comparison.types))
    of_time = np.median(
        [reference.waits_beyond(nothing) / reference.trace.duration for reference in comparison.references], axis=0
    )
    return [
        Measure(comparison.types[number].name, number, float(of_time[number]), is_wait=True)
        for number in np.flatnonzero(of_time >= OF_TIME).tolist()
        if _recurs_often(comparison, number) and comparison.recurs_throughout(number)
    ]


def _recurs_often(comparison: LogComparison, number: int) -> bool:
    lowest = int(comparison.lowest[number])
    complete = _COMPLETE if comparison.steady[number] else _COMPLETE_VARYING
    return lowest >= OFTEN and int(comparison.observed.counts[number]) >= max(OFTEN, complete * lowest)


def _blocks(comparison: LogComparison, measure: Measure) -> Floats:
    """Return the mean logarithm of the times in each block of each run: shape (references + 1, blocks)."""
    runs = [*comparison.references, comparison.observed]
    if measure.is_wait:
        times = [run.waits(measure.number).astype(np.float64) for run in runs]
    else:
        times = [np.diff(run.times(measure.number)).astype(np.float64) for run in runs]
    softened = max(1.0, _SOFTENED * float(np.median([run_times.mean() for run_times in times[:-1]])))
    blocks = []
    for run_times in times:
        edges = _edges(len(run_times))
        blocks.append(np.add.reduceat(np.log(run_times + softened), edges[:-1]) / np.diff(edges))
    return np.array(blocks)


def _edges(events: int) -> NDArray[np.int64]:
    return np.linspace(0, events, BLOCKS + 1).astype(np.int64)


def _contrasts(blocks: Floats) -> Floats:
    """Return the median of each stretch minus the upper quartile of the rest: shape (…, stretches).

    Both ignore short bursts. The quartile also ignores a fast half of the rest, which does not make a stretch slow.
    """
    contrasts = np.empty((*blocks.shape[:-1], len(STRETCHES)))
    for places, inside, outside in _by_length():
        contrasts[..., places] = _quantile(blocks[..., inside], 0.5) - _quantile(blocks[..., outside], _OF_REST)
    return contrasts


@cache
def _by_length() -> tuple[tuple[list[int], NDArray[np.intp], NDArray[np.intp]], ...]:
    """Return, for each length, its stretches and the blocks inside and outside each: shapes (stretches, blocks)."""
    groups = []
    for length in sorted({end - first for first, end in STRETCHES}):
        places = [place for place, (first, end) in enumerate(STRETCHES) if end - first == length]
        inside = np.array([np.arange(*STRETCHES[place]) for place in places])
        outside = np.array([np.delete(np.arange(BLOCKS), blocks) for blocks in inside])
        groups.append((places, inside, outside))
    return tuple(groups)


def _quantile(values: Floats, share: float) -> Floats:
    """Return an interpolated quantile along the last axis, ten times as fast as numpy's for few values."""
    ordered = np.sort(values, axis=-1)
    place = share * (values.shape[-1] - 1)
    below, above = math.floor(place), math.ceil(place)
    return np.asarray(ordered[..., below] + (place - below) * (ordered[..., above] - ordered[..., below]))


def added_time(comparison: LogComparison, between: tuple[int, int]) -> Floats:
    """Return the ticks by which waits for each type in a stretch exceed as many average waits outside: (types,)."""
    counts, waited = comparison.observed.waits_between(*between)
    all_counts, all_waited = comparison.observed.waits_between(-1, comparison.observed.trace.duration)
    outside = (all_waited - waited) / np.maximum(1, all_counts - counts)
    both = (counts > 0) & (all_counts > counts) & (comparison.lowest > 0)
    return np.where(both, np.maximum(0.0, waited - counts * outside), 0.0)


_REFERENCES = 3
"""Minimum number of references: the others must show what a reference's stretches have in common with theirs."""
_LONGER = "of the time in the rest of the run is added"
_FALLS_SHORT = 2.5
"""Multiple of a block's noise by which the median of four blocks is too low in one of twenty runs."""


@dataclass(frozen=True)
class _Slower:
    """Stretch that is slower than the rest of the run, in one measure."""

    measure: Measure
    stretch: int
    # longer, threshold, floor: Shares of the rest's time.
    longer: float
    threshold: float
    floor: float


@dataclass(frozen=True)
class SlowPhase(Kind):
    """Stretch of a fifth of the run or more that is slower than the rest, by more than any stretch of a reference.

    The paper has no such kind: its distances compare whole traces. Good runs may be fast or slow as a whole, so a run
    in which everything takes twice as long for a while need not be longer than they are. Here, each stretch is compared
    with the rest of its own run. The noise is how much stretches of good runs differ beyond what all references have in
    common.

    Attributes
    ----------
    least : float
        Minimum slowdown of a stretch, as a share of the rest's time; machines change their clock rate for a while.
    least_beside_others : float
        The same for one event type relative to the others, which a slower machine slows as well.
    strictness : float
        Factor of the threshold; `calibrate` fits it.
    """

    name: ClassVar[str] = "slow phase"
    distance: ClassVar[DistanceName] = "temporal"
    rank: ClassVar[int] = 50
    counts_may_vary: ClassVar[bool] = True

    least: float = 0.75
    least_beside_others: float = 0.5
    strictness: float = 1.0

    def find(self, comparison: LogComparison) -> Finding | None:
        """Return the stretch that exceeds its threshold most."""
        all_paces = paces(comparison) if len(comparison.references) >= _REFERENCES else None
        if all_paces is None:
            return None
        slower = [
            slowdown
            for look in self._looks(all_paces)
            for slowdown in self._slower(*look)
            if _takes_longer(comparison, all_paces, slowdown)
        ]
        if not slower:
            return None
        worst = max(slower, key=lambda slowdown: slowdown.longer / slowdown.threshold)
        between = interval(comparison, worst.measure, STRETCHES[worst.stretch])
        added = added_time(comparison, between)
        carriers = carriers_of(comparison, added, added)
        first, end = (block / BLOCKS for block in STRETCHES[worst.stretch])
        name = worst.measure.name or comparison.types[worst.measure.number].name
        return Finding(
            self.name,
            f"{name} takes {1 + worst.longer:.1f} times as long from {first:.0%} to {end:.0%} of the run as in the "
            "rest",
            {"ratio": 1 + worst.longer, "from_share": first, "to_share": end, "until": float(between[1])},
            between[0],
            *where_of(carrier.event for carrier in carriers),
            carriers,
            worst.longer,
            worst.threshold,
            _LONGER,
            worst.floor,
            "full",
            carries_time=True,
        )

    def cannot_tell(self, comparison: LogComparison) -> str:
        """Return a reason if there are too few references or events."""
        if len(comparison.references) < _REFERENCES:
            return f"{_REFERENCES} or more references are needed to show how much good runs differ in each stretch"
        if paces(comparison) is None:
            return (
                f"no event type occurs throughout the run, at least {OFTEN} times, and about as often in the trace as "
                "in the references"
            )
        return ""

    def visible(self, comparison: LogComparison) -> tuple[Visible, ...]:
        """Return the smallest slowdown of everything, and of one event type, that would have been found."""
        all_paces = paces(comparison)
        if all_paces is None:
            return ()
        stretch = "slowdown of everything in a stretch of a fifth of the run or more"
        one_type = f"slowdown, in such a stretch, of one event type that takes {OF_TIME:.0%} or more of the time"
        told = []
        for (contrasts, least), change in zip(self._looks(all_paces), (stretch, one_type), strict=False):
            thresholds = [self._threshold(floor, contrasts.references, least) for floor in contrasts.floors.tolist()]
            sizes = np.expm1(np.log1p(thresholds) + _FALLS_SHORT * contrasts.noise)
            # A slowdown of everything shows in the measure with the least noise.
            place = int(sizes.argmin() if contrasts is all_paces else sizes.argmax())
            floor = math.expm1(float(contrasts.floors[place]))
            told.append(Visible(self.name, change, float(sizes[place]), _LONGER, floor, self.strictness * least))
        return tuple(told)

    def _looks(self, all_paces: Contrasts) -> list[tuple[Contrasts, float]]:
        """Return the contrasts to search, each with its minimum slowdown."""
        beside = shares(all_paces)
        return [(all_paces, self.least), *([(beside, self.least_beside_others)] if beside is not None else [])]

    def _slower(self, contrasts: Contrasts, least: float) -> list[_Slower]:
        """Return the slowest stretch of each measure that exceeds its threshold."""
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


def _takes_longer(comparison: LogComparison, all_paces: Contrasts, slower: _Slower) -> bool:
    """Return whether a stream, or the slower event type itself, is delayed by at least half of the type's added time.

    In logs of several threads, other events may occur in between without a slowdown.
    """
    if not slower.measure.is_wait:
        return True
    streams = [place for place, measure in enumerate(all_paces.measures) if not measure.is_wait]
    pace = all_paces.observed[streams, slower.stretch].max(initial=-math.inf)
    # Use means: events that occur at random are too uneven for quartiles.
    between = _blocks(comparison, replace(slower.measure, is_wait=False))
    own = between[-1] - np.median(between[:-1] - between[:-1].mean(axis=1, keepdims=True), axis=0)
    inside = slice(*STRETCHES[slower.stretch])
    own_pace = own[inside].mean() - np.delete(own, inside).mean()
    return float(max(pace, own_pace)) >= math.log1p(slower.measure.share * slower.longer / 2)
