"""What a diagnosis shows in the terminal: the verdict, each finding with its carriers, the paper's distances."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.analysis.diagnosis import Diagnosis, Finding, Fitted, PaperDistance, Verdict

__all__ = ["show_diagnosis", "show_fitted"]

_STYLES: dict[Verdict, str] = {"clean": "green", "anomalous": "bold red", "undecided": "yellow"}
_SIGNS: dict[Verdict, str] = {"clean": "✓", "anomalous": "✗", "undecided": "?"}
_CARRIERS_SHOWN = 8
_PLUGINS_SHOWN = 8
_SECONDS_A_TICK = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def show_diagnosis(diagnosis: Diagnosis) -> None:
    """Print a diagnosis."""
    console = Console(highlight=False)
    style, sign = _STYLES[diagnosis.verdict], _SIGNS[diagnosis.verdict]
    references = f"{len(diagnosis.references)} reference" + ("s" if len(diagnosis.references) > 1 else "")
    console.print(
        f"[{style}]{sign} {diagnosis.verdict}[/{style}]  {escape(diagnosis.trace)}, against {references}", soft_wrap=True
    )
    for finding in diagnosis.findings:
        _show_finding(console, finding, diagnosis.unit)
    for distance in diagnosis.distances:
        _show_distance(console, distance)
    if not diagnosis.findings and diagnosis.kinds:
        console.print(f"Looked for: {', '.join(diagnosis.kinds)}.")
    for note in diagnosis.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)


def show_fitted(fitted: Iterable[Fitted], written: Path) -> None:
    """Print what was fitted from labelled traces, and where it is."""
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("kind")
    for header in ("threshold ×", "false alarms", "before", "found", "before"):
        table.add_column(header, justify="right")
    for one in fitted:
        alarms, found = f"{one.false_alarms} of {one.clean}", f"{one.found} of {one.own}"
        table.add_row(one.kind, f"{one.strictness:.2f}", alarms, str(one.false_alarms_before), found, str(one.found_before))
    console.print(table)
    console.print(f"use them: unperturbed diagnose --thresholds {escape(str(written))} …", soft_wrap=True)


def _show_finding(console: Console, finding: Finding, unit: str) -> None:
    certain = "" if finding.decides else " [yellow](perhaps: one reference does not tell)[/yellow]"
    console.print(f"\n[bold]{escape(finding.kind)}[/bold]: {escape(finding.summary)}{certain}")
    where = ", ".join(
        part
        for part in (
            f"plugin {finding.plugin}" if finding.plugin else "",
            f"element {finding.element}" if finding.element else "",
        )
        if part
    )
    timed, words = finding.unit.startswith("ticks"), finding.unit.removeprefix("ticks").strip()

    def told(value: float) -> str:
        return _time(value, unit) if timed else f"{value:.1%}" if finding.unit.startswith("of ") else f"{value:.4g}"

    floor = "not known" if finding.floor is None else told(finding.floor)
    rows = [
        ("since", _time(finding.since, unit) + " after the first event" if finding.since is not None else ""),
        ("in", where),
        (
            "measured",
            f"{told(finding.measured)} {words}; an anomaly from {told(finding.threshold)} on; between references {floor}",
        ),
    ]
    for name, value in rows:
        if value:
            console.print(f"{name:>10}  {escape(value)}", soft_wrap=True)
    if not finding.carriers:
        return
    table = Table(box=SIMPLE_HEAD, header_style="bold")
    table.add_column("share", justify="right")
    table.add_column("change", justify="right")
    table.add_column("plugin")
    table.add_column("event")
    for carrier in finding.carriers[:_CARRIERS_SHOWN]:
        change = f"+{_time(carrier.change, unit)}" if timed else f"{carrier.change:+.0f}"
        table.add_row(f"{carrier.share:.0%}", change, escape(carrier.event.plugin), escape(carrier.event.name))
    console.print(table)


def _show_distance(console: Console, distance: PaperDistance) -> None:
    floor = "" if distance.floor is None else f"; of other references up to {distance.floor:.6g}"
    console.print(
        f"\n{distance.name} distance from the first reference: {distance.value:.6g} (normalised {distance.normalised:.4f}){floor}"
    )
    ranked = sorted(distance.by_plugin.items(), key=lambda item: distance.floor_by_plugin.get(item[0], 0.0) - item[1])
    for plugin, value in ranked[:_PLUGINS_SHOWN]:
        if value > distance.floor_by_plugin.get(plugin, 0.0):
            console.print(f"  {value:12.6g}  {escape(plugin or 'no plugin')}")


def _time(ticks: float, unit: str) -> str:
    """Say a time in seconds or milliseconds, where the unit is known."""
    if unit not in _SECONDS_A_TICK:
        return f"{ticks:.6g} ticks"
    seconds = ticks * _SECONDS_A_TICK[unit]
    return f"{seconds * 1e3:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"
