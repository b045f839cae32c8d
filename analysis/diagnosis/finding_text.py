"""Texts and tables of a diagnosis, for the terminal, the HTML page and notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from unperturbed.analysis.diagnosis.events import TICKS_A_SECOND, EventTrace
from unperturbed.common.table import Column, Table
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    from unperturbed.analysis.diagnosis.calibrating import FittedStrictness
    from unperturbed.analysis.diagnosis.comparison import LogComparison
    from unperturbed.analysis.diagnosis.findings import Diagnosis, Finding, PaperDistance, Visible

_NOISY_TYPES = 40
_LEAST_SHOWN = 0.0005
"""Share that is shown as 0.1%."""


def headline(diagnosis: Diagnosis) -> str:
    """Return one line with the trace, the verdict, the kinds found and the number of references."""
    return f"{PurePath(diagnosis.trace).name or 'trace'}: {verdict_text(diagnosis)}"


def verdict_text(diagnosis: Diagnosis) -> str:
    """Return the verdict as text: "anomalous: lost events, against 3 references"."""
    kinds = ", ".join(dict.fromkeys(finding.kind for finding in diagnosis.findings))
    perhaps = "perhaps " if diagnosis.verdict == "undecided" else ""
    return f"{diagnosis.verdict}{f': {perhaps}{kinds}' if kinds else ''}, {references_text(diagnosis)}"


def references_text(diagnosis: Diagnosis) -> str:
    """Return the number of references as text: "against 3 references"."""
    return f"against {counted(len(diagnosis.references), 'reference')}"


def time_text(ticks: float, unit: str) -> str:
    """Return a time as text, in seconds or milliseconds; in ticks if the unit is unknown."""
    if unit not in TICKS_A_SECOND:
        return f"{ticks:.6g} ticks"
    seconds = ticks / TICKS_A_SECOND[unit]
    return f"{seconds * 1e3:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def facts(finding: Finding, unit: str) -> list[tuple[str, str]]:
    """Return a finding's start, place, measurement and confidence as (name, value) pairs; unknown ones are left out."""
    measured, threshold = (_amount(finding, value, unit) for value in (finding.measured, finding.threshold))
    floor = "unknown" if finding.floor is None else _amount(finding, finding.floor, unit)
    pairs = [
        ("since", "" if finding.since is None else f"{time_text(finding.since, unit)} after the first event"),
        ("in", finding.where),
        ("measured", f"{measured} {finding.amount_of}; threshold {threshold}; maximum between references {floor}"),
    ]
    if finding.confidence != "full":
        pairs.append(("confidence", "weaker: one reference does not show how much clean runs differ"))
    return [(name, value) for name, value in pairs if value]


def visible_table(diagnosis: Diagnosis) -> Table:
    """Return a table of each kind's smallest change that would have been found, or why none can be stated."""
    columns = [Column("kind"), Column("smallest change that would have been found"), Column("basis")]
    return Table(columns, visible_texts(diagnosis), "Smallest changes that would have been found")


def visible_texts(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return (kind, smallest change that would have been found, basis) for each change."""
    unit, texts = diagnosis.unit, []
    for seen in diagnosis.visible:
        if seen.size is None:
            texts.append((seen.kind, "could not be searched for", seen.reason))
            continue
        is_tiny = not seen.is_time and seen.size < _LEAST_SHOWN
        size = "less than 0.1%" if is_tiny else _amount(seen, seen.size, unit)
        basis = [seen.reason] if seen.reason else []
        if seen.least is not None:
            differ = "one reference does not show how much clean runs differ"
            if seen.floor is not None:
                differ = f"references differ by up to {_amount(seen, seen.floor, unit)}"
            basis = [differ, f"changes below {_amount(seen, seen.least, unit)} never count", *basis]
        texts.append((seen.kind, f"{seen.change}: {size} {seen.amount_of}", "; ".join(basis)))
    return texts


def findings_table(diagnosis: Diagnosis) -> Table:
    """Return a table with one row for each finding."""
    columns = [Column("anomaly"), Column("summary"), *_numbers("since"), Column("plugin"), Column("element")]
    rows = []
    for finding in diagnosis.findings:
        since = "" if finding.since is None else time_text(finding.since, diagnosis.unit)
        rows.append((finding.kind, finding.summary, since, finding.plugin, finding.element))
    return Table(columns, rows)


def carriers_table(finding: Finding, unit: str, most: int | None = None) -> Table:
    """Return a table of the event types that contribute to a finding, the largest share first."""
    columns = [*_numbers("share", "change"), Column("plugin"), Column("element"), Column("event")]
    rows = []
    for carrier in finding.carriers[:most]:
        event, change = carrier.event, f"{carrier.change:+.0f}"
        if finding.is_time or finding.carries_time:
            change = f"{'+' if carrier.change >= 0 else ''}{time_text(carrier.change, unit)}"
        rows.append((f"{carrier.share:.0%}", change, event.plugin, event.element, event.name))
    return Table(columns, rows, f"Event types that contribute to: {finding.kind}")


def distances_table(distances: Sequence[PaperDistance]) -> Table:
    """Return a table of the paper's distances, with one row for each."""
    columns = [Column("distance"), *_numbers("from the first reference", "normalised", "maximum of other references")]
    rows = [
        (
            distance.name,
            f"{distance.value:.6g}",
            f"{distance.normalised:.4f}",
            "" if distance.floor is None else f"{distance.floor:.6g}",
        )
        for distance in distances
    ]
    return Table(columns, rows, "The paper's distances")


def noise_table(comparison: LogComparison) -> tuple[int, Table]:
    """Return the number of event types whose counts differ between references, and a table of those that vary most."""
    vary = comparison.highest - comparison.lowest
    order = (-vary).argsort(kind="stable").tolist()
    varying = [number for number in order if vary[number] > 0]
    rows = []
    for number in varying[:_NOISY_TYPES]:
        event, between = comparison.types[number], f"{comparison.lowest[number]:,} to {comparison.highest[number]:,}"
        rows.append((event.name, event.plugin, between, f"{comparison.observed.counts[number]:,}"))
    columns = [Column("event"), Column("plugin"), *_numbers("in references", "in the trace")]
    caption = "Event types whose counts vary most" if len(varying) > _NOISY_TYPES else "Event types whose counts vary"
    return len(varying), Table(columns, rows, caption)


def reading_table(traces: Sequence[EventTrace]) -> Table:
    """Return a table of each log's lines: how many are events, and why others were left out."""
    lines = ("lines", "events", "start-up", "bad", "continued", "other processes", "lost by the tracer", "sorted")
    rows = []
    for trace in traces:
        read = trace.reading
        if read is None:
            rows.append([trace.name or "trace", "", "", f"{len(trace):,}", *[""] * 6])
            continue
        left_out = (read.start_up_lines, read.bad_lines, read.further_lines, read.other_process_lines)
        numbers = (read.lines, len(trace), *left_out, read.lost_events, read.out_of_order)
        rows.append([trace.name, read.format, *(f"{number:,}" for number in numbers)])
    columns = [Column("log"), Column("format"), *_numbers(*lines)]
    return Table(columns, rows, "Lines of each log, and lines left out")


def strictness_table(fitted: Sequence[FittedStrictness]) -> Table:
    """Return a table of fitted thresholds, with one row for each kind."""
    columns = [Column("kind"), *_numbers("threshold ×", "false alarms", "before", "found", "before")]
    rows = []
    for fit in fitted:
        alarms, right = f"{fit.false_alarms} of {fit.clean}", f"{fit.found} of {fit.own}"
        before = str(fit.false_alarms_before), str(fit.found_before)
        rows.append((fit.kind, f"{fit.strictness:.2f}", alarms, before[0], right, before[1]))
    return Table(columns, rows)


def _numbers(*heads: str) -> list[Column]:
    """Return right-aligned columns for numbers."""
    return [Column(head, "right") for head in heads]


def _amount(finding: Finding | Visible, value: float, unit: str) -> str:
    """Return a finding's value as text: a time, a percentage or a number."""
    if finding.is_time:
        return time_text(value, unit)
    return f"{value:.1%}" if finding.unit.startswith("of ") else f"{value:.4g}"
