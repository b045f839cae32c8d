"""The diagnosis of a trace: compare it with references, search for anomalies, decide.

Kamdem Kengne et al., "Distance-Based Trace Diagnosis for Multimedia Applications: Help me TED!", section IV.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

from unperturbed.analysis.diagnosis.comparable import checked_comparison
from unperturbed.analysis.diagnosis.comparison import Comparison
from unperturbed.analysis.diagnosis.distances.counts import dropping_distance, occurrence_distance
from unperturbed.analysis.diagnosis.distances.result import normalize
from unperturbed.analysis.diagnosis.distances.temporal.distance import temporal_distance
from unperturbed.analysis.diagnosis.events import EventTrace
from unperturbed.analysis.diagnosis.findings import Diagnosis, Finding, PaperDistance, Verdict, Visible
from unperturbed.analysis.diagnosis.kind import Kind, anomaly_kinds

DistanceChoice = Literal["dropping", "occurrence", "temporal", "mannila"]
"""The paper's distances in its order (section IV-B), and the one that the temporal distance adapts."""

_WHOLE = 200_000
"""Events up to which the temporal distance is computed exactly and on the whole traces."""
_BAND = 1000

_MUCH_SHORTER = 0.5
"""Share of the references' duration; a shorter trace is noted."""


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
        Runs that went well. Several show how much clean runs differ; six are good, two the least for a full verdict.
    trace : EventTrace
        In the same unit and of the same pipeline. Read GStreamer's logs with identity=("level", "function", "object",
        "word"): without the object sinks cannot be told apart, and plugins are compared instead.
    kinds : iterable of Kind, optional
        What to look for; by default all of `anomaly_kinds`.
    distances : iterable of {"dropping", "occurrence", "temporal", "mannila"}, default ()
        The paper's distances to compute besides, from the first reference.
    first_only : bool, default False
        Stop at the first kind that is found, in the order of `kinds`.
    method : {"effects", "paper"}, default "effects"
        "paper" is the paper's rule: a trace is anomalous when any of `distances` is more than 0; no kind is looked for.
    theta : float, default 0.25
        θ of the occurrence distance.

    Returns
    -------
    Diagnosis
        "undecided" when differences from a single reference are small, or the log has too little to decide by.

    Raises
    ------
    DataError
        A trace of no event or one, different units, levels of detail, identities or pipelines.
    ValueError
        No reference, an unknown distance or method, the paper's method without a distance.
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
    too_little = _too_little(comparison)
    untold: list[Visible] = []
    if too_little and wanted:
        untold = [_untold(kind, too_little) for kind in wanted if kind.needs_regular_events]
        wanted = [kind for kind in wanted if not kind.needs_regular_events]
        notes.append(too_little)
    findings, visible, names = _looked_for(wanted, comparison, first_only=first_only)
    if as_paper:
        verdict: Verdict = "anomalous" if any(one.value > 0 for one in computed) else "clean"
    else:
        verdict = _verdict(findings, decided=not too_little)
    return Diagnosis(
        verdict,
        tuple(findings),
        tuple(notes),
        tuple(one.name for one in given),
        trace.name,
        trace.unit,
        tuple(names),
        tuple(computed),
        comparison,
        (*visible, *untold),
    )


def _looked_for(
    kinds: Iterable[Kind], comparison: Comparison, *, first_only: bool
) -> tuple[list[Finding], list[Visible], list[str]]:
    """Return what is found, what would have been found of other kinds, and the kinds that were looked for."""
    findings: list[Finding] = []
    visible: list[Visible] = []
    names = []
    for kind in kinds:
        if reason := kind.cannot_tell(comparison):
            visible.append(_untold(kind, reason))
            continue
        names.append(kind.name)
        found = kind.find(comparison)
        if found is None:
            visible += kind.visible(comparison)
        else:
            findings.append(found)
            if first_only:
                break
    return findings, visible, names


def _untold(kind: Kind, reason: str) -> Visible:
    return Visible(kind.name, "", None, "", None, None, reason)


def _require_choice(references: Sequence[EventTrace], distances: Sequence[str], method: str) -> None:
    if not references:
        raise ValueError("give at least one reference")
    if unknown := [name for name in distances if name not in get_args(DistanceChoice)]:
        raise ValueError(f"distances are {', '.join(get_args(DistanceChoice))}, not {', '.join(unknown)}")
    if method not in ("effects", "paper"):
        raise ValueError(f"the method is effects or paper, not {method!r}")
    if method == "paper" and not distances:
        raise ValueError('method="paper" needs a distance')


def _too_little(comparison: Comparison) -> str:
    """Return why nothing but a crash can be seen; empty where there is enough."""
    traces = [one.trace for one in [*comparison.references, comparison.observed]]
    if any(one.reading is not None and one.reading.is_too_coarse for one in traces):
        return "a log has no event of the level DEBUG or finer, so only a crash can be seen; record with GST_DEBUG=*:5"
    if not comparison.streams:
        return "no event type recurs steadily in the references, so only a crash can be seen; give longer traces"
    return ""


def _verdict(findings: Sequence[Finding], *, decided: bool) -> Verdict:
    if any(one.decides for one in findings):
        return "anomalous"
    return "clean" if decided and not findings else "undecided"


def _notes(comparison: Comparison) -> list[str]:
    notes = []
    if len(comparison.references) == 1:
        notes.append(
            "one reference does not show how much clean runs differ: only large differences are called anomalous, "
            "and smaller ones are undecided; give several"
        )
    for one in [*comparison.references, comparison.observed]:
        reading = one.trace.reading
        if reading is not None and reading.lost_events:
            notes.append(f"{one.trace.name}: the tracer itself lost {reading.lost_events:,} events")
    if comparison.new_errors.any() and not (comparison.endings & comparison.missing).any():
        reached = (
            ", and the end was reached all the same" if comparison.endings.any() and not _too_little(comparison) else ""
        )
        notes.append(f"errors are logged that no reference has{reached}")
    ratio = comparison.observed.trace.duration / max(1.0, comparison.duration)
    if ratio < _MUCH_SHORTER:
        notes.append(f"the trace lasts {ratio:.0%} of what the references do")
    return notes


def _distance(name: DistanceChoice, references: Sequence[EventTrace], trace: EventTrace, theta: float) -> PaperDistance:
    """Compute one of the paper's distances of the trace, and of the other references, from the first reference."""
    first, *others = references
    measure = _measure(name, max(map(len, [*references, trace])), theta)
    value, by_plugin = measure(first, trace)
    floors = [measure(first, other) for other in others]
    plugins = {plugin: max(each.get(plugin, 0.0) for _, each in floors) for plugin in by_plugin} if floors else {}
    return PaperDistance(
        name, value, normalize(value), by_plugin, max((each for each, _ in floors), default=None), plugins
    )


def _measure(
    name: DistanceChoice, events: int, theta: float
) -> Callable[[EventTrace, EventTrace], tuple[float, dict[str, float]]]:
    def counted(one: EventTrace, other: EventTrace) -> tuple[float, dict[str, float]]:
        found = occurrence_distance(one, other, theta=theta) if name == "occurrence" else dropping_distance(one, other)
        return float(found.total), {plugin: float(number) for plugin, number in found.by_plugin.items()}

    def timed(one: EventTrace, other: EventTrace) -> tuple[float, dict[str, float]]:
        found = temporal_distance(
            one,
            other,
            variant="mannila" if name == "mannila" else "gaps",
            band=None if events <= _WHOLE else _BAND,
            per_plugin=True if events <= _WHOLE else "only",
        )
        return found.total, dict(found.by_plugin)

    return counted if name in ("occurrence", "dropping") else timed
