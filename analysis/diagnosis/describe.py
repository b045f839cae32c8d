"""A diagnosis in words and tables, for the terminal, the page and a notebook alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from unperturbed.analysis.diagnosis.events import TICKS_A_SECOND, EventTrace
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    from unperturbed.analysis.diagnosis.calibrating import FittedStrictness
    from unperturbed.analysis.diagnosis.comparison import Comparison
    from unperturbed.analysis.diagnosis.findings import Diagnosis, Finding, PaperDistance, Visible

_NOISY_TYPES = 40
_LEAST_SHOWN = 0.0005
"""Share that is shown as 0.1%."""


def headline(diagnosis: Diagnosis) -> str:
    """Return the verdict, the kinds that were found and the number of references, in one line."""
    return f"{PurePath(diagnosis.trace).name or 'trace'}: {verdict_text(diagnosis)}"


def verdict_text(diagnosis: Diagnosis) -> str:
    """Return "anomalous: lost events, against 3 references"."""
    kinds = ", ".join(dict.fromkeys(one.kind for one in diagnosis.findings))
    perhaps = "perhaps " if diagnosis.verdict == "undecided" else ""
    return f"{diagnosis.verdict}{f': {perhaps}{kinds}' if kinds else ''}, {references_text(diagnosis)}"


def references_text(diagnosis: Diagnosis) -> str:
    """Return "against 3 references"."""
    return f"against {counted(len(diagnosis.references), 'reference')}"


def time_text(ticks: float, unit: str) -> str:
    """Return a time in seconds or milliseconds; in ticks where the unit is unknown."""
    if unit not in TICKS_A_SECOND:
        return f"{ticks:.6g} ticks"
    seconds = ticks / TICKS_A_SECOND[unit]
    return f"{seconds * 1e3:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def facts(finding: Finding, unit: str) -> list[tuple[str, str]]:
    """Return what is known of a finding, as pairs of name and value.

    Result: Since when, where, how much, and how certain; what is not known is left out.
    """
    measured, threshold = (_amount(finding, value, unit) for value in (finding.measured, finding.threshold))
    floor = "not known" if finding.floor is None else _amount(finding, finding.floor, unit)
    pairs = [
        ("since", "" if finding.since is None else f"{time_text(finding.since, unit)} after the first event"),
        ("in", finding.where),
        ("measured", f"{measured} {finding.amount_of}; an anomaly from {threshold} on; between references {floor}"),
        (
            "confidence",
            "" if finding.confidence == "full" else "weaker: one reference does not show how much clean runs differ",
        ),
    ]
    return [(name, value) for name, value in pairs if value]


def visible_table(diagnosis: Diagnosis) -> Table:
    """Return the smallest change of each kind that would have been found, or why none can be stated."""
    columns = [Column("kind"), Column("smallest change that would have been found"), Column("what this follows from")]
    return Table(columns, visible_texts(diagnosis), "What could have been seen")


def visible_texts(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return kind, smallest change that would have been found, and what this follows from, one for each such change."""
    return [
        (one.kind, _visible_size(one, diagnosis.unit), _visible_basis(one, diagnosis.unit)) for one in diagnosis.visible
    ]


def _visible_size(one: Visible, unit: str) -> str:
    if one.size is None:
        return "cannot tell"
    size = "less than 0.1%" if not one.is_time and one.size < _LEAST_SHOWN else _amount(one, one.size, unit)
    return f"{one.change}, {size} {one.amount_of}"


def _visible_basis(one: Visible, unit: str) -> str:
    """Return "references differ by up to 0 ms; at least 30 ms count"."""
    parts = []
    if one.size is not None and one.least is not None:
        differ = "one reference does not show how much clean runs differ"
        if one.floor is not None:
            differ = f"references differ by up to {_amount(one, one.floor, unit)}"
        parts = [differ, f"less than {_amount(one, one.least, unit)} never counts"]
    return "; ".join([*parts, *([one.reason] if one.reason else [])])


def findings_table(diagnosis: Diagnosis) -> Table:
    """Return a row for each finding."""
    columns = [Column("anomaly"), Column("what"), Column("since", "right"), Column("plugin"), Column("element")]
    rows = [
        (
            one.kind,
            one.summary,
            "" if one.since is None else time_text(one.since, diagnosis.unit),
            one.plugin,
            one.element,
        )
        for one in diagnosis.findings
    ]
    return Table(columns, rows)


def carriers_table(finding: Finding, unit: str, most: int | None = None) -> Table:
    """Return the event types that carry a finding, the largest share first."""
    columns = [
        Column("share", "right"),
        Column("change", "right"),
        Column("plugin"),
        Column("element"),
        Column("event"),
    ]
    rows = [
        (
            f"{one.share:.0%}",
            _change(finding, one.change, unit),
            one.event.plugin,
            one.event.element,
            one.event.name,
        )
        for one in finding.carriers[:most]
    ]
    return Table(columns, rows, f"Event types that carry: {finding.kind}")


def distances_table(distances: Sequence[PaperDistance]) -> Table:
    """Return the paper's distances, one row each."""
    columns = [
        Column("distance"),
        *(Column(head, "right") for head in ("from the first reference", "normalised", "of other references, up to")),
    ]
    rows = [
        (one.name, f"{one.value:.6g}", f"{one.normalised:.4f}", "" if one.floor is None else f"{one.floor:.6g}")
        for one in distances
    ]
    return Table(columns, rows, "The paper's distances")


def noise_table(comparison: Comparison) -> tuple[int, Table]:
    """Return how many event types vary between references, and a table of those that vary most."""
    vary = comparison.highest - comparison.lowest
    order = (-vary).argsort(kind="stable").tolist()
    varying = [number for number in order if vary[number] > 0]
    rows = [
        (
            comparison.types[number].name,
            comparison.types[number].plugin,
            f"{comparison.lowest[number]:,} to {comparison.highest[number]:,}",
            f"{comparison.observed.counts[number]:,}",
        )
        for number in varying[:_NOISY_TYPES]
    ]
    columns = [Column("event"), Column("plugin"), Column("in references", "right"), Column("in the trace", "right")]
    caption = "Those that vary most" if len(varying) > _NOISY_TYPES else "All of them"
    return len(varying), Table(columns, rows, caption)


def reading_table(traces: Sequence[EventTrace]) -> Table:
    """Return how many lines of each log hold an event, and why others were left out."""
    columns = [
        Column("log"),
        Column("format"),
        *(
            Column(head, "right")
            for head in (
                "lines",
                "events",
                "start-up",
                "bad",
                "continued",
                "other processes",
                "lost by the tracer",
                "sorted",
            )
        ),
    ]
    return Table(columns, [_reading_row(one) for one in traces], "The lines of each log, and what was left out")


def strictness_table(fitted: Sequence[FittedStrictness]) -> Table:
    """Return fitted thresholds, one row a kind."""
    columns = [
        Column("kind"),
        *(Column(head, "right") for head in ("threshold ×", "false alarms", "before", "found", "before")),
    ]
    rows = [
        (
            one.kind,
            f"{one.strictness:.2f}",
            f"{one.false_alarms} of {one.clean}",
            str(one.false_alarms_before),
            f"{one.found} of {one.own}",
            str(one.found_before),
        )
        for one in fitted
    ]
    return Table(columns, rows)


def _reading_row(trace: EventTrace) -> list[str]:
    read = trace.reading
    if read is None:
        return [trace.name or "trace", "", "", f"{len(trace):,}", *[""] * 6]
    numbers = (
        read.lines,
        len(trace),
        read.start_up_lines,
        read.bad_lines,
        read.further_lines,
        read.other_process_lines,
        read.lost_events,
        read.out_of_order,
    )
    return [trace.name, read.format, *(f"{number:,}" for number in numbers)]


def _amount(finding: Finding | Visible, value: float, unit: str) -> str:
    """Return a value of what a finding measures: a time, a share or a number."""
    if finding.is_time:
        return time_text(value, unit)
    return f"{value:.1%}" if finding.unit.startswith("of ") else f"{value:.4g}"


def _change(finding: Finding, change: float, unit: str) -> str:
    """Return the change of a carrier with its sign: a delay, or occurrences."""
    if finding.is_time or finding.carries_time:
        return f"{'+' if change >= 0 else ''}{time_text(change, unit)}"
    return f"{change:+.0f}"
