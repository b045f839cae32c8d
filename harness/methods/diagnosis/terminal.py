"""Terminal view of a diagnosis: the verdict, each finding with its carriers, and the paper's distances."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from unperturbed.analysis.diagnosis import Diagnosis, Finding, FittedStrictness, PaperDistance, Verdict, finding_text
from unperturbed.common.wording import BAD, GOOD, UNDECIDED
from unperturbed.harness.cli.terminal import terminal

_STYLES: dict[Verdict, str] = {"clean": "green", "anomalous": "bold red", "undecided": "yellow"}
_SIGNS: dict[Verdict, str] = {"clean": GOOD, "anomalous": BAD, "undecided": UNDECIDED}
_CARRIERS_SHOWN = 8
_PLUGINS_SHOWN = 8


def show_diagnosis(diagnosis: Diagnosis) -> None:
    """Print a diagnosis: its verdict, findings, distances and notes."""
    console = terminal()
    style, sign = _STYLES[diagnosis.verdict], _SIGNS[diagnosis.verdict]
    against = finding_text.references_text(diagnosis)
    console.print(
        f"[{style}]{sign} {diagnosis.verdict}[/{style}]  {escape(diagnosis.trace)}, {against}", soft_wrap=True
    )
    for finding in diagnosis.findings:
        _show_finding(console, finding, diagnosis.unit)
    for distance in diagnosis.distances:
        _show_distance(console, distance)
    if not diagnosis.findings and diagnosis.kinds:
        console.print(f"Searched for: {', '.join(diagnosis.kinds)}.")
        rows = finding_text.visible_texts(diagnosis)
        if rows:
            console.print("Smallest change that would have been found:")
        width = max((len(kind) for kind, _, _ in rows), default=0)
        for kind, size, basis in rows:
            console.print(f"  {kind:<{width}}  {escape(f'{size} ({basis})')}", soft_wrap=True)
    for note in diagnosis.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)


def show_fitted_strictness(fitted: Sequence[FittedStrictness], written: Path) -> None:
    """Print thresholds that were fitted to labelled traces, and the path of the file with them."""
    console = terminal()
    console.print(finding_text.strictness_table(fitted).to_rich())
    console.print(f"to use them: unperturbed diagnose --thresholds {escape(str(written))} …", soft_wrap=True)


def _show_finding(console: Console, finding: Finding, unit: str) -> None:
    certain = "" if finding.decides else " [yellow](uncertain: one reference is not enough to decide)[/yellow]"
    console.print(f"\n[bold]{escape(finding.kind)}[/bold]: {escape(finding.summary)}{certain}")
    for name, value in finding_text.facts(finding, unit):
        console.print(f"{name:>10}  {escape(value)}", soft_wrap=True)
    if finding.carriers:
        console.print(finding_text.carriers_table(finding, unit, _CARRIERS_SHOWN).to_rich())


def _show_distance(console: Console, distance: PaperDistance) -> None:
    floor = "" if distance.floor is None else f"; largest distance of another reference: {distance.floor:.6g}"
    console.print(
        f"\n{distance.name} distance from the first reference: {distance.value:.6g}"
        f" (normalised {distance.normalised:.4f}){floor}"
    )
    floors = distance.floor_by_plugin
    beyond = [(plugin, value) for plugin, value in distance.by_plugin.items() if value > floors.get(plugin, 0.0)]
    ranked = sorted(beyond, key=lambda item: -item[1])
    for plugin, value in ranked[:_PLUGINS_SHOWN]:
        console.print(f"  {value:12.6g}  {escape(plugin or 'no plugin')}")
    if more := len(ranked[_PLUGINS_SHOWN:]):
        console.print(f"  and {more} more plugins that differ by more than references do; --json has all")
