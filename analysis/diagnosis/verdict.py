"""Diagnosis of a trace (section IV of the paper): compare it with references, search for anomalies, decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np

from unperturbed.analysis.diagnosis.comparison import RECURS, LogComparison, Occurrences, compare
from unperturbed.analysis.diagnosis.distances.counts import (
    DroppingDistance,
    OccurrenceDistance,
    dropping_distance,
    normalize,
    occurrence_distance,
    require_one_unit,
)
from unperturbed.analysis.diagnosis.distances.temporal import TemporalDistance, temporal_distance
from unperturbed.analysis.diagnosis.events import EventTrace, EventType
from unperturbed.analysis.diagnosis.findings import Diagnosis, Finding, PaperDistance, Verdict, Visible
from unperturbed.analysis.diagnosis.kinds import Kind, anomaly_kinds
from unperturbed.errors import DataError

_MOST_FOREIGN = 0.25
"""Share of set-up types that one of two traces of the same pipeline may lack."""
_OTHER_UNIT = 100.0
"""Ratio of durations from which traces with the same events are assumed to have different units of time."""
_MOST_MISSING = 0.1
"""Maximum share of steady types whose counts differ between such traces with the same events."""
_COARSE_LEVELS = ("ERROR", "WARN", "FIXME")


def checked_comparison(references: Sequence[EventTrace], trace: EventTrace) -> LogComparison:
    """Compare a trace with its references; raise DataError if they are not comparable."""
    for run in [*references, trace]:
        _require_events(run)
    require_one_unit([*references, trace])
    for run in [*references[1:], trace]:
        _require_same_detail(references[0], run)
    comparison = compare(references, trace)
    for other in comparison.references[1:]:
        _require_same_pipeline(comparison, comparison.references[:1], other)
    _require_same_pipeline(comparison, comparison.references, comparison.observed)
    _require_like_durations(comparison)
    return comparison


def part_name(kind: EventType) -> str:
    """Return a type's element, or else its plugin; "#" replaces numbers, whose order is arbitrary ("queue#")."""
    return re.sub(r"\d+", "#", kind.element) or kind.plugin


def _require_events(trace: EventTrace) -> None:
    called = trace.name or "a trace"
    if len(trace) < 2:
        raise DataError(
            f"{called} has {'only one event' if len(trace) else 'no events'}: give a trace with 2 or more events"
        )
    if trace.duration == 0:
        raise DataError(
            f"{called}: all {len(trace):,} events have the same timestamp, {trace.timestamps[0]:,} {trace.unit}: check "
            "that `columns` or `pattern` selects the log's timestamps, and that the log records them precisely enough"
        )


def _require_same_detail(reference: EventTrace, trace: EventTrace) -> None:
    """Raise DataError if two logs were recorded, or read, in different detail."""
    if any(kind.element for kind in reference.types) != any(kind.element for kind in trace.types):
        named, other = (reference, trace) if any(kind.element for kind in reference.types) else (trace, reference)
        raise DataError(
            f"the events of {named.name or 'one trace'} name elements, but those of {other.name or 'the other'} do "
            "not: read logs of the same format, with the same `identity`"
        )
    if reference.reading is None or trace.reading is None:
        return
    if reference.reading.format != trace.reading.format:
        raise DataError(
            f"{reference.name} has the format {reference.reading.format}, but {trace.name} has the format "
            f"{trace.reading.format}: compare logs of the same format"
        )
    levels, other_levels = reference.reading.levels or {}, trace.reading.levels or {}
    for level in ("TRACE", "LOG", "DEBUG"):
        here, there = levels.get(level, 0), other_levels.get(level, 0)
        if bool(here) != bool(there) and max(here, there) > 100:
            with_it, without = (reference, trace) if here else (trace, reference)
            raise DataError(
                f"{with_it.name} has {max(here, there):,} events of level {level}, but {without.name} has none: record "
                "both traces at the same level"
            )


def _require_same_pipeline(comparison: LogComparison, references: Sequence[Occurrences], run: Occurrences) -> None:
    """Raise DataError if a trace comes from a different pipeline than the references.

    Only events of the set-up are evidence: later events may be missing or new because something went wrong.
    """
    if difference := _other_set_up(comparison, references, run) or _other_parts(comparison, references, run):
        raise DataError(
            f"{run.trace.name or 'the trace'} and {references[0].trace.name or 'the reference'} come from "
            f"different pipelines or programs: {difference}"
        )


def _other_set_up(comparison: LogComparison, references: Sequence[Occurrences], run: Occurrences) -> str:
    """Return how the events before the streams start differ from the references'; "" if they do not."""
    steady: list[int] = np.flatnonzero(comparison.steady).tolist()
    # A failing run may log errors and warnings during the set-up.
    types = [number for number, kind in enumerate(comparison.types) if kind.level not in _COARSE_LEVELS]

    def set_up(of: Occurrences) -> set[int]:
        starts = [of.times(number)[0] for number in steady if of.counts[number]]
        until = np.median(starts) if starts else of.trace.duration
        return {number for number in types if of.counts[number] and of.times(number)[0] <= until}

    every = set.intersection(*(set_up(reference) for reference in references))
    some = {number for number in types if any(reference.counts[number] for reference in references)}
    here = set_up(run)
    lacked = {number for number in every if not run.counts[number]}
    foreign, lacking = len(here - some) / max(1, len(here)), len(lacked) / max(1, len(every))

    def plugins(numbers: Iterable[int]) -> set[str]:
        return {comparison.types[number].plugin for number in numbers}

    only_here, only_there = plugins(here) - plugins(some), plugins(every) - plugins(np.flatnonzero(run.counts).tolist())
    exchanged = _began(comparison, run) and (lacking > _MOST_FOREIGN or bool(only_here and only_there))
    if foreign <= _MOST_FOREIGN and not exchanged:
        return ""
    shares = (
        f"{foreign:.0%} of the first's set-up event types are not in the other, and {lacking:.0%} of the other's are "
        "not in the first"
    )
    return "; ".join([shares, *_only("first", only_here), *_only("other", only_there)])


def _other_parts(comparison: LogComparison, references: Sequence[Occurrences], run: Occurrences) -> str:
    """Return which elements or plugins recur in one trace and are absent from the other; "" if the pipelines match.

    A trace with different parts instead of the references' comes from a different pipeline. So does a trace without
    parts that all references set up before the streams start, unless an error explains their absence.
    """
    here, theirs = _parts(comparison, run), [_parts(comparison, reference) for reference in references]
    foreign = {part for part, (_, most) in here.items() if most >= RECURS and not any(part in each for each in theirs)}
    common = set.intersection(*map(set, theirs)) - set(here)
    lacking = {part for part in common if all(each[part][1] >= RECURS for each in theirs)}
    steady: list[int] = np.flatnonzero(comparison.steady).tolist()
    starts = [min((each.times(number)[0] for number in steady), default=0) for each in references]
    at_first = any(all(each[part][0] <= start for each, start in zip(theirs, starts, strict=True)) for part in lacking)
    unexplained = at_first and _began(comparison, run) and not comparison.new_errors.any()
    if (foreign and lacking) or unexplained:
        return "; ".join([*_only("first", foreign), *_only("other", lacking)])
    return ""


def _parts(comparison: LogComparison, run: Occurrences) -> dict[str, tuple[int, int]]:
    """Return each element or plugin with the time of its first event and the count of its most frequent type."""
    parts: dict[str, tuple[int, int]] = {}
    for number in np.flatnonzero(run.counts).tolist():
        kind = comparison.types[number]
        if kind.level in _COARSE_LEVELS:
            continue
        name = part_name(kind)
        first, most = parts.get(name, (run.trace.duration, 0))
        parts[name] = min(first, int(run.times(number)[0])), max(most, int(run.counts[number]))
    return parts


def _began(comparison: LogComparison, run: Occurrences) -> bool:
    return any(run.counts[number] for stream in comparison.streams for number in stream.numbers)


def _only(which: str, names: Iterable[str]) -> list[str]:
    listed = sorted(filter(None, names))
    others = " and others" if len(listed) > 3 else ""
    return [f"only the {which} has {', '.join(listed[:3])}{others}"] if listed else []


def _require_like_durations(comparison: LogComparison) -> None:
    """Raise DataError if the same events take 100 times or 1/100 as long as in the references: then units differ."""
    ratio = max(1, comparison.observed.trace.duration) / max(1.0, comparison.duration)
    if 1 / _OTHER_UNIT < ratio < _OTHER_UNIT or not comparison.steady.any():
        return
    counts = comparison.observed.counts
    differ = (counts < comparison.lowest - comparison.slack) | (counts > comparison.highest + comparison.slack)
    if differ[comparison.steady].mean() > _MOST_MISSING:
        return
    trace = comparison.observed.trace
    raise DataError(
        f"{trace.name or 'the trace'} has about the same events as the references, but lasts {trace.duration:,} "
        f"{trace.unit} instead of {comparison.duration:,.0f} {trace.unit}: check its unit of time"
    )


DistanceChoice = Literal["dropping", "occurrence", "temporal", "mannila"]
"""The paper's distances in its order (section IV-B), and "mannila", which its temporal distance adapts."""

_WHOLE = 200_000
"""Maximum number of events for which the temporal distance is exact and covers the whole traces."""
_BAND = 1000

_MUCH_SHORTER = 0.5
"""Share of the references' duration below which a trace gets a note."""


def diagnose(
    references: EventTrace | Sequence[EventTrace],
    trace: EventTrace,
    *,
    kinds: Iterable[Kind] | None = None,
    distances: Iterable[DistanceChoice] = (),
    first_only: bool = False,
    method: Literal["effects", "paper"] = "effects",
    theta: float = 0.25,
) -> Diagnosis:
    """Diagnose a trace by comparing it with references.

    Parameters
    ----------
    references : EventTrace or sequence of EventTrace
        Good runs. Several show how much clean runs differ: six are recommended, a full verdict needs at least two.
    trace : EventTrace
        A run of the same pipeline, in the same unit. Read GStreamer's logs with identity=("level", "function",
        "object", "word"): without the object, sinks cannot be distinguished, and plugins are compared instead.
    kinds : iterable of Kind, optional
        Kinds to search for; by default all of `anomaly_kinds`.
    distances : iterable of {"dropping", "occurrence", "temporal", "mannila"}, default ()
        The paper's distances to compute in addition, from the first reference.
    first_only : bool, default False
        Stop at the first kind that is found, in the order of `kinds`.
    method : {"effects", "paper"}, default "effects"
        "paper" is the paper's rule: a trace is anomalous if any of `distances` exceeds 0; no kind is searched for.
    theta : float, default 0.25
        θ of the occurrence distance.

    Returns
    -------
    Diagnosis
        Its verdict is "undecided" if differences from a single reference are small, or the log has too few events.

    Raises
    ------
    DataError
        A trace with fewer than two events; traces of different units, levels of detail, identities or pipelines.
    ValueError
        No reference, an unknown distance or method, or the paper's method without a distance.
    """
    given = [references] if isinstance(references, EventTrace) else list(references)
    chosen = list(distances)
    _require_choice(given, chosen, method)
    as_paper = method == "paper"
    comparison = checked_comparison(given, trace)
    notes = _notes(comparison)
    computed = []
    for name in chosen:
        computed.append(_distance(name, given, trace, theta))
        if as_paper and first_only and computed[-1].value > 0:
            break
    wanted = [] if as_paper else list(anomaly_kinds().values() if kinds is None else kinds)
    too_coarse, nothing_steady = _too_coarse(comparison), _nothing_steady(comparison)
    too_little = too_coarse or nothing_steady
    untold: list[Visible] = []
    if too_little and wanted:
        blind = [kind for kind in wanted if kind.needs_regular_events and not (kind.counts_may_vary and not too_coarse)]
        untold = [_untold(kind, too_little) for kind in blind]
        wanted = [kind for kind in wanted if kind not in blind]
        notes.append(too_little)
    findings, visible, names = _looked_for(wanted, comparison, first_only=first_only)
    verdict: Verdict = "undecided" if findings or (too_little and not as_paper) else "clean"
    if collapsed := [
        one.trace.reading.collapsed
        for one in (*comparison.references, comparison.observed)
        if one.trace.reading and one.trace.reading.collapsed
    ]:
        notes.insert(0, collapsed[-1])
        verdict = "undecided" if verdict == "clean" and not as_paper else verdict
    if any(finding.decides for finding in findings) or (as_paper and any(distance.value > 0 for distance in computed)):
        verdict = "anomalous"
    return Diagnosis(
        verdict,
        tuple(findings),
        tuple(notes),
        tuple(reference.name for reference in given),
        trace.name,
        trace.unit,
        tuple(names),
        tuple(computed),
        comparison,
        (*visible, *untold),
    )


def _looked_for(
    kinds: Iterable[Kind], comparison: LogComparison, *, first_only: bool
) -> tuple[list[Finding], list[Visible], list[str]]:
    """Return the findings, the smallest changes of other kinds that would be found, and the kinds searched for."""
    findings: list[Finding] = []
    visible: list[Visible] = []
    names = []
    for kind in kinds:
        if reason := kind.cannot_tell(comparison):
            visible.append(_untold(kind, reason))
            continue
        names.append(kind.name)
        finding = kind.find(comparison)
        if finding is None:
            visible += kind.visible(comparison)
        else:
            findings.append(finding)
            if first_only:
                break
    return findings, visible, names


def _untold(kind: Kind, reason: str) -> Visible:
    return Visible(kind.name, "", None, "", None, None, reason)


def _require_choice(references: Sequence[EventTrace], distances: Sequence[str], method: str) -> None:
    if not references:
        raise ValueError("no reference is given: give at least one reference")
    if unknown := [name for name in distances if name not in get_args(DistanceChoice)]:
        raise ValueError(f"unknown distance {', '.join(unknown)}: use {', '.join(get_args(DistanceChoice))}")
    if method not in ("effects", "paper"):
        raise ValueError(f'unknown method {method!r}: use "effects" or "paper"')
    if method == "paper" and not distances:
        raise ValueError('`method="paper"` needs at least one distance in `distances`')


def _too_coarse(comparison: LogComparison) -> str:
    """Return why kinds that need regular events cannot be found in logs without detail; "" if the logs have detail."""
    traces = [run.trace for run in [*comparison.references, comparison.observed]]
    coarse = [trace for trace in traces if trace.reading and trace.reading.is_too_coarse]
    if coarse:
        return (
            f"{coarse[0].name or 'a log'} has no events of level DEBUG or finer, so only crashes and missing event "
            "types can be found: record with `GST_DEBUG=*:5`"
        )
    return ""


def _nothing_steady(comparison: LogComparison) -> str:
    """Return why neither lost events nor delays can be found; "" if there are streams to show them."""
    if comparison.streams:
        return ""
    return (
        "no event type recurs steadily in the references, so lost events and delays cannot be found: give traces "
        "of longer runs that do the same work"
    )


def _notes(comparison: LogComparison) -> list[str]:
    notes = []
    if len(comparison.references) == 1:
        notes.append(
            "one reference does not show how much clean runs differ, so only large differences are anomalous and "
            "smaller ones are undecided: give several references"
        )
    chosen = next((run.trace for run in comparison.references if run.trace.reading and run.trace.reading.choice), None)
    if chosen and chosen.reading:
        notes.append(f"{chosen.name} was read as {chosen.reading.format}: {chosen.reading.choice}")
    for run in [*comparison.references, comparison.observed]:
        reading = run.trace.reading
        if reading and reading.assumed:
            notes.append(f"{run.trace.name}: {reading.assumed}")
        if reading and reading.lost_events:
            notes.append(f"{run.trace.name}: the tracer itself lost {reading.lost_events:,} events")
    if comparison.new_errors.any() and not (comparison.endings & comparison.missing).any():
        reached = comparison.endings.any() and not (_too_coarse(comparison) or _nothing_steady(comparison))
        end = ", but it reached its end" if reached else ""
        notes.append(f"the trace logs errors that no reference logs{end}")
    ratio = comparison.observed.trace.duration / max(1.0, comparison.duration)
    if ratio < _MUCH_SHORTER:
        notes.append(f"the trace lasts only {ratio:.0%} as long as the references")
    return notes


def _distance(name: DistanceChoice, references: Sequence[EventTrace], trace: EventTrace, theta: float) -> PaperDistance:
    """Compute one of the paper's distances from the first reference to the trace and to the other references."""
    is_short = max(map(len, [*references, trace])) <= _WHOLE

    def measure(other: EventTrace) -> tuple[float, dict[str, float]]:
        distance: OccurrenceDistance | DroppingDistance | TemporalDistance
        if name == "occurrence":
            distance = occurrence_distance(references[0], other, theta=theta)
        elif name == "dropping":
            distance = dropping_distance(references[0], other)
        else:
            distance = temporal_distance(
                references[0],
                other,
                variant="mannila" if name == "mannila" else "gaps",
                band=None if is_short else _BAND,
                per_plugin=True if is_short else "only",
            )
        return float(distance.total), {plugin: float(value) for plugin, value in distance.by_plugin.items()}

    value, by_plugin = measure(trace)
    floors = [measure(other) for other in references[1:]]
    floor_by_plugin = {plugin: max(each.get(plugin, 0.0) for _, each in floors) for plugin in by_plugin if floors}
    floor = max((each for each, _ in floors), default=None)
    return PaperDistance(name, value, normalize(value), by_plugin, floor, floor_by_plugin)
