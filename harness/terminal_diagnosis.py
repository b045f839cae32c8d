"""What a diagnosis shows in the terminal: the verdict, each finding with its carriers, the paper's distances."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.analysis.diagnosis import Diagnosis, Finding, Fitted, PaperDistance, Verdict
from unperturbed.analysis.diagnosis.words import against, say_amount, say_change, say_time

__all__ = ["show_diagnosis", "show_fitted"]

_STYLES: dict[Verdict, str] = {"clean": "green", "anomalous": "bold red", "undecided": "yellow"}
_SIGNS: dict[Verdict, str] = {"clean": "✓", "anomalous": "✗", "undecided": "?"}
_CARRIERS_SHOWN = 8
_PLUGINS_SHOWN = 8


def show_diagnosis(diagnosis: Diagnosis) -> None:
    """Print a diagnosis."""
    console = Console(highlight=False, emoji=False)
    style, sign = _STYLES[diagnosis.verdict], _SIGNS[diagnosis.verdict]
    console.print(
        f"[{style}]{sign} {diagnosis.verdict}[/{style}]  {escape(diagnosis.trace)}, {against(diagnosis)}", soft_wrap=True
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
    console = Console(highlight=False, emoji=False)
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
    measured, threshold = (say_amount(finding, value, unit) for value in (finding.measured, finding.threshold))
    floor = "not known" if finding.floor is None else say_amount(finding, finding.floor, unit)
    rows = [
        ("since", say_time(finding.since, unit) + " after the first event" if finding.since is not None else ""),
        ("in", finding.where),
        ("measured", f"{measured} {finding.amount_of}; an anomaly from {threshold} on; between references {floor}"),
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
        change = say_change(finding, carrier.change, unit)
        table.add_row(f"{carrier.share:.0%}", change, escape(carrier.event.plugin), escape(carrier.event.name))
    console.print(table)


def _show_distance(console: Console, distance: PaperDistance) -> None:
    floor = "" if distance.floor is None else f"; of other references up to {distance.floor:.6g}"
    console.print(
        f"\n{distance.name} distance from the first reference: {distance.value:.6g} (normalised {distance.normalised:.4f}){floor}"
    )
    beyond = {
        plugin: value for plugin, value in distance.by_plugin.items() if value > distance.floor_by_plugin.get(plugin, 0.0)
    }
    ranked = sorted(beyond.items(), key=lambda item: -item[1])
    for plugin, value in ranked[:_PLUGINS_SHOWN]:
        console.print(f"  {value:12.6g}  {escape(plugin or 'no plugin')}")
    if len(ranked) > _PLUGINS_SHOWN:
        console.print(f"  and {len(ranked) - _PLUGINS_SHOWN} more plugins beyond what references differ by (--json has all)")
