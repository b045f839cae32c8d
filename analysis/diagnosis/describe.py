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
    """Return since when, where, how much and how certain a finding is, as names and values; the unknown is left out."""
    measured, threshold = (_amount(finding, value, unit) for value in (finding.measured, finding.threshold))
    floor = "not known" if finding.floor is None else _amount(finding, finding.floor, unit)
    pairs = [
        ("since", "" if finding.since is None else f"{time_text(finding.since, unit)} after the first event"),
        ("in", finding.where),
        ("measured", f"{measured} {finding.amount_of}; an anomaly from {threshold} on; between references {floor}"),
    ]
    if finding.confidence != "full":
        pairs.append(("confidence", "weaker: one reference does not show how much clean runs differ"))
    return [(name, value) for name, value in pairs if value]


def visible_table(diagnosis: Diagnosis) -> Table:
    """Return the smallest change of each kind that would have been found, or why none can be stated."""
    columns = [Column("kind"), Column("smallest change that would have been found"), Column("what this follows from")]
    return Table(columns, visible_texts(diagnosis), "What could have been seen")


def visible_texts(diagnosis: Diagnosis) -> list[tuple[str, str, str]]:
    """Return kind, smallest change that would have been found, and what this follows from, one for each such change."""
    unit, texts = diagnosis.unit, []
    for seen in diagnosis.visible:
        if seen.size is None:
            texts.append((seen.kind, "cannot tell", seen.reason))
            continue
        is_tiny = not seen.is_time and seen.size < _LEAST_SHOWN
        size = "less than 0.1%" if is_tiny else _amount(seen, seen.size, unit)
        basis = [seen.reason] if seen.reason else []
        if seen.least is not None:
            differ = "one reference does not show how much clean runs differ"
            if seen.floor is not None:
                differ = f"references differ by up to {_amount(seen, seen.floor, unit)}"
            basis = [differ, f"less than {_amount(seen, seen.least, unit)} never counts", *basis]
        texts.append((seen.kind, f"{seen.change}, {size} {seen.amount_of}", "; ".join(basis)))
    return texts


def findings_table(diagnosis: Diagnosis) -> Table:
    """Return a row for each finding."""
    columns = [Column("anomaly"), Column("what"), *_numbers("since"), Column("plugin"), Column("element")]
    rows = []
    for finding in diagnosis.findings:
        since = "" if finding.since is None else time_text(finding.since, diagnosis.unit)
        rows.append((finding.kind, finding.summary, since, finding.plugin, finding.element))
    return Table(columns, rows)


def carriers_table(finding: Finding, unit: str, most: int | None = None) -> Table:
    """Return the event types that carry a finding, the largest share first."""
    columns = [*_numbers("share", "change"), Column("plugin"), Column("element"), Column("event")]
    rows = []
    for carrier in finding.carriers[:most]:
        event, change = carrier.event, f"{carrier.change:+.0f}"
        if finding.is_time or finding.carries_time:
            change = f"{'+' if carrier.change >= 0 else ''}{time_text(carrier.change, unit)}"
        rows.append((f"{carrier.share:.0%}", change, event.plugin, event.element, event.name))
    return Table(columns, rows, f"Event types that carry: {finding.kind}")


def distances_table(distances: Sequence[PaperDistance]) -> Table:
    """Return the paper's distances, one row each."""
    columns = [Column("distance"), *_numbers("from the first reference", "normalised", "of other references, up to")]
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
    rows = []
    for number in varying[:_NOISY_TYPES]:
        event, between = comparison.types[number], f"{comparison.lowest[number]:,} to {comparison.highest[number]:,}"
        rows.append((event.name, event.plugin, between, f"{comparison.observed.counts[number]:,}"))
    columns = [Column("event"), Column("plugin"), *_numbers("in references", "in the trace")]
    caption = "Those that vary most" if len(varying) > _NOISY_TYPES else "All of them"
    return len(varying), Table(columns, rows, caption)


def reading_table(traces: Sequence[EventTrace]) -> Table:
    """Return how many lines of each log hold an event, and why others were left out."""
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
    return Table(columns, rows, "The lines of each log, and what was left out")


def strictness_table(fitted: Sequence[FittedStrictness]) -> Table:
    """Return fitted thresholds, one row a kind."""
    columns = [Column("kind"), *_numbers("threshold ×", "false alarms", "before", "found", "before")]
    rows = []
    for one in fitted:
        alarms, right = f"{one.false_alarms} of {one.clean}", f"{one.found} of {one.own}"
        before = str(one.false_alarms_before), str(one.found_before)
        rows.append((one.kind, f"{one.strictness:.2f}", alarms, before[0], right, before[1]))
    return Table(columns, rows)


def _numbers(*heads: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(head, "right") for head in heads]


def _amount(finding: Finding | Visible, value: float, unit: str) -> str:
    """Return a value of what a finding measures: a time, a share or a number."""
    if finding.is_time:
        return time_text(value, unit)
    return f"{value:.1%}" if finding.unit.startswith("of ") else f"{value:.4g}"
