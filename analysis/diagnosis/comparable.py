"""Whether traces can be compared at all: events in both, one unit, one level of detail, one pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from unperturbed.analysis.diagnosis.comparison import RECURS, Comparison, Occurrences, compare
from unperturbed.analysis.diagnosis.distances.counts import require_one_unit
from unperturbed.analysis.diagnosis.events import EventTrace, EventType
from unperturbed.errors import DataError

_MOST_FOREIGN = 0.25
"""Share of set-up types that one of two traces of the same pipeline may lack."""
_OTHER_UNIT = 100.0
"""Ratio of durations from which on traces of the same events are taken for traces in different units."""
_MOST_MISSING = 0.1
"""Share of steady types whose counts may differ in such traces."""
_COARSE_LEVELS = ("ERROR", "WARN", "FIXME")


def checked_comparison(references: Sequence[EventTrace], trace: EventTrace) -> Comparison:
    """Compare a trace with its references; DataError where they cannot be compared."""
    for one in [*references, trace]:
        _require_events(one)
    require_one_unit([*references, trace])
    for one in [*references[1:], trace]:
        _require_same_detail(references[0], one)
    comparison = compare(references, trace)
    for other in comparison.references[1:]:
        _require_same_pipeline(comparison, comparison.references[:1], other)
    _require_same_pipeline(comparison, comparison.references, comparison.observed)
    _require_like_durations(comparison)
    return comparison


def part_name(kind: EventType) -> str:
    """Return a type's element, or else its plugin, without the numbers that threads give in any order ("queue#")."""
    return re.sub(r"\d+", "#", kind.element) or kind.plugin


def _require_events(trace: EventTrace) -> None:
    called = trace.name or "a trace"
    if len(trace) == 0:
        raise DataError(f"{called} has no event; nothing can be compared")
    if len(trace) == 1:
        raise DataError(f"{called} has a single event; nothing can be compared")
    if trace.duration == 0:
        raise DataError(
            f"{called} has all of its {len(trace):,} events at one time, {trace.timestamps[0]:,} {trace.unit}; nothing "
            "can be compared: check that the log's time is read as such (columns or pattern), in a unit that is fine "
            "enough"
        )


def _require_same_detail(reference: EventTrace, trace: EventTrace) -> None:
    """Raise DataError where two logs were recorded, or read, in different detail."""
    if any(kind.element for kind in reference.types) != any(kind.element for kind in trace.types):
        raise DataError(
            f"{reference.name} and {trace.name} were read with different identities: give the same to read_events"
        )
    if reference.reading is None or trace.reading is None:
        return
    if reference.reading.format != trace.reading.format:
        raise DataError(
            f"{reference.name} is a log of the format {reference.reading.format}, {trace.name} of "
            f"{trace.reading.format}"
        )
    for level in ("TRACE", "LOG", "DEBUG"):
        here, there = (
            (one.reading.levels or {}).get(level, 0) for one in (reference, trace) if one.reading is not None
        )
        if bool(here) != bool(there) and max(here, there) > 100:
            with_it, without = (reference, trace) if here else (trace, reference)
            raise DataError(
                f"{with_it.name} has {max(here, there):,} events of the level {level}, {without.name} none: record "
                "both at one level"
            )


def _require_same_pipeline(comparison: Comparison, references: Sequence[Occurrences], one: Occurrences) -> None:
    """Raise DataError where a trace is not of the references' pipeline.

    Evidence is what sets it up, and elements or plugins that work throughout in one and are absent from the other. What
    comes later may be missing, or new, because something went wrong.
    """
    difference = _other_set_up(comparison, references, one) or _other_parts(comparison, references, one)
    if difference:
        raise DataError(
            f"{one.trace.name or 'the trace'} and {references[0].trace.name or 'the reference'} are of different "
            f"pipelines or programs: {difference}"
        )


def _other_set_up(comparison: Comparison, references: Sequence[Occurrences], one: Occurrences) -> str:
    """Return how the events before the streams start differ from the references'; empty where they do not."""
    steady: list[int] = np.flatnonzero(comparison.steady).tolist()
    # What went wrong may say so while the pipeline is set up.
    types = [number for number, kind in enumerate(comparison.types) if kind.level not in _COARSE_LEVELS]

    def set_up(of: Occurrences) -> set[int]:
        starts = [of.times(number)[0] for number in steady if of.counts[number]]
        until = np.median(starts) if starts else of.trace.duration
        return {number for number in types if of.counts[number] and of.times(number)[0] <= until}

    every = set.intersection(*(set_up(reference) for reference in references))
    some = {number for number in types if any(reference.counts[number] for reference in references)}
    here = set_up(one)
    lacked = {number for number in every if not one.counts[number]}
    foreign, lacking = len(here - some) / max(1, len(here)), len(lacked) / max(1, len(every))

    def plugins(numbers: Iterable[int]) -> set[str]:
        return {comparison.types[number].plugin for number in numbers}

    only_here, only_there = plugins(here) - plugins(some), plugins(every) - plugins(np.flatnonzero(one.counts).tolist())
    exchanged = _began(comparison, one) and (lacking > _MOST_FOREIGN or bool(only_here and only_there))
    if foreign <= _MOST_FOREIGN and not exchanged:
        return ""
    shares = f"{foreign:.0%} of what starts the first is not in the other, {lacking:.0%} the other way round"
    return "; ".join([shares, *_only("first", only_here), *_only("other", only_there)])


def _other_parts(comparison: Comparison, references: Sequence[Occurrences], one: Occurrences) -> str:
    """Return which elements or plugins work throughout in one trace and are absent from the other; "" where none are.

    A trace that has other ones instead is of another pipeline. So is one that lacks what all references set up before
    anything streams, unless an error tells why.
    """
    here, theirs = _parts(comparison, one), [_parts(comparison, reference) for reference in references]
    foreign = {part for part, (_, most) in here.items() if most >= RECURS and not any(part in each for each in theirs)}
    lacking = {
        part
        for part in set.intersection(*(set(each) for each in theirs)) - set(here)
        if all(each[part][1] >= RECURS for each in theirs)
    }
    steady: list[int] = np.flatnonzero(comparison.steady).tolist()
    starts = [min((one.times(number)[0] for number in steady), default=0) for one in references]
    at_first = {
        part for part in lacking if all(each[part][0] <= start for each, start in zip(theirs, starts, strict=True))
    }
    unexplained = at_first and _began(comparison, one) and not comparison.new_errors.any()
    if (foreign and lacking) or unexplained:
        return "; ".join([*_only("first", foreign), *_only("other", lacking)])
    return ""


def _parts(comparison: Comparison, one: Occurrences) -> dict[str, tuple[int, int]]:
    """Return each element or plugin with the time of its first event and the count of its most frequent type."""
    parts: dict[str, tuple[int, int]] = {}
    for number in np.flatnonzero(one.counts).tolist():
        kind = comparison.types[number]
        if kind.level in _COARSE_LEVELS:
            continue
        name = part_name(kind)
        first, most = parts.get(name, (one.trace.duration, 0))
        parts[name] = min(first, int(one.times(number)[0])), max(most, int(one.counts[number]))
    return parts


def _began(comparison: Comparison, one: Occurrences) -> bool:
    return any(one.counts[number] for stream in comparison.streams for number in stream.numbers)


def _only(which: str, names: Iterable[str]) -> list[str]:
    listed = sorted(name for name in names if name)
    return (
        [f"only the {which} has {', '.join(listed[:3])}" + (" and others" if len(listed) > 3 else "")] if listed else []
    )


def _require_like_durations(comparison: Comparison) -> None:
    """Raise DataError where the same happens a hundred times faster or slower: the units are not the same."""
    ratio = max(1, comparison.observed.trace.duration) / max(1.0, comparison.duration)
    if 1 / _OTHER_UNIT < ratio < _OTHER_UNIT or not comparison.steady.any():
        return
    counts = comparison.observed.counts
    differ = (counts < comparison.lowest - comparison.slack) | (counts > comparison.highest + comparison.slack)
    if differ[comparison.steady].mean() > _MOST_MISSING:
        return
    trace = comparison.observed.trace
    raise DataError(
        f"{trace.name or 'the trace'} has the references' events, but lasts {trace.duration:,} {trace.unit} where "
        "they last "
        f"{comparison.duration:,.0f}: is it in another unit of time?"
    )
