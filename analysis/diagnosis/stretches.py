"""How long what recurs takes in each stretch of a run, against the run's other stretches and those of the references.

Good runs may be fast or slow as a whole, so that a run's own level says little. What changes within a run does, where
the stretches of references change less.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.comparison import Comparison, Floats

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
    """What takes time again and again."""

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

        Measured in units of each measure's noise, the largest of all measures counts for each of them: so many looks at
        a trace are made, and the references are looked at as often.
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
    """Return how long streams, and types that take much of the time, take; None where no stream recurs often enough."""
    if "paces" not in comparison.kept:
        comparison.kept["paces"] = _measured_paces(comparison)
    kept: Contrasts | None = comparison.kept["paces"]
    return kept


def _measured_paces(comparison: Comparison) -> Contrasts | None:
    measures = [*_streams(comparison), *_waits(comparison)]
    if not measures or measures[0].is_wait:
        return None
    blocks = np.array([_blocks(comparison, one) for one in measures])
    return Contrasts(tuple(measures), blocks - np.median(blocks, axis=2, keepdims=True))


def shares(all_paces: Contrasts) -> Contrasts | None:
    """Return how long types take beside the others of their run: a slower machine is none; None with few types."""
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
        number = next((one for one in stream.numbers if _recurs_often(comparison, one)), None)
        if number is not None:
            measured.append(Measure(stream.name, number, 1.0, is_wait=False))
    return measured


def _waits(comparison: Comparison) -> list[Measure]:
    of_time = np.median([_shares_of_time(comparison, one) for one in range(len(comparison.references))], axis=0)
    return [
        Measure(comparison.types[number].name, number, float(of_time[number]), is_wait=True)
        for number in np.flatnonzero(of_time >= OF_TIME).tolist()
        if comparison.steady[number] and _recurs_often(comparison, number) and comparison.recurs_throughout(number)
    ]


def _shares_of_time(comparison: Comparison, reference: int) -> Floats:
    duration = comparison.references[reference].trace.duration
    return comparison.references[reference].waits_between(-1, duration)[1] / duration


def _recurs_often(comparison: Comparison, number: int) -> bool:
    lowest = int(comparison.lowest[number])
    return lowest >= OFTEN and int(comparison.observed.counts[number]) >= _COMPLETE * lowest


def _blocks(comparison: Comparison, measure: Measure) -> Floats:
    """Return the mean logarithm of the times in each block of each run: shape (references + 1, blocks)."""
    runs = [*comparison.references, comparison.observed]
    if measure.is_wait:
        times = [one.waits(measure.number).astype(np.float64) for one in runs]
    else:
        times = [np.diff(one.times(measure.number)).astype(np.float64) for one in runs]
    softened = max(1.0, _SOFTENED * float(np.median([one.mean() for one in times[:-1]])))
    return np.array([_means(np.log(one + softened)) for one in times])


def _means(values: Floats) -> Floats:
    edges = _edges(len(values))
    return np.asarray(np.add.reduceat(values, edges[:-1]) / np.diff(edges))


def _edges(events: int) -> NDArray[np.int64]:
    return np.linspace(0, events, BLOCKS + 1).astype(np.int64)


def _contrasts(blocks: Floats) -> Floats:
    """Return the median of each stretch less the upper quartile of the rest: shape (…, stretches).

    Both leave short bursts out; the quartile does so where half of the rest is fast, which makes no stretch slow.
    """
    found = np.empty((*blocks.shape[:-1], len(STRETCHES)))
    for places, inside, outside in _by_length():
        found[..., places] = _quantile(blocks[..., inside], 0.5) - _quantile(blocks[..., outside], _OF_REST)
    return found


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
    below = int(place)
    above = min(below + 1, values.shape[-1] - 1)
    return np.asarray(ordered[..., below] + (place - below) * (ordered[..., above] - ordered[..., below]))


def added_time(comparison: Comparison, between: tuple[int, int]) -> Floats:
    """Return the ticks that waits for each type take in a stretch beyond those of as many events outside: (types,)."""
    counts, waited = comparison.observed.waits_between(*between)
    all_counts, all_waited = comparison.observed.waits_between(-1, comparison.observed.trace.duration)
    outside = (all_waited - waited) / np.maximum(1, all_counts - counts)
    both = (counts > 0) & (all_counts > counts) & (comparison.lowest > 0)
    return np.where(both, np.maximum(0.0, waited - counts * outside), 0.0)
