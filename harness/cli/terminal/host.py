"""What the doctor found, in the terminal and as JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from rich.markup import escape

from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import BAD, GOOD, NOTE, counted
from unperturbed.harness.cli.terminal.console import terminal
from unperturbed.harness.host.doctor import Examination, Finding, Status
from unperturbed.harness.spec.sections.parameters import count_points
from unperturbed.harness.studies.readiness import Readiness

FORMAT = 1
"""Version of the JSON: it grows when a key's meaning changes, not when keys are added."""

_STYLES: dict[Status, str] = {"good": "green", "note": "yellow", "bad": "bold red"}
_SIGNS: dict[Status, str] = {"good": GOOD, "note": NOTE, "bad": BAD}
_SUBJECT_WIDTH = 13
_INDENT = " " * (_SUBJECT_WIDTH + 5)


def to_json(host: Examination, spec: Readiness | None) -> dict[str, Any]:
    """Return everything as one object; docs/how-to/doctor.md describes its keys."""
    return {
        "format": FORMAT,
        "counting": [asdict(finding) for finding in host.counting],
        "noise": [asdict(finding) for finding in host.noise],
        "spec": None if spec is None else _spec_json(spec),
    }


def _spec_json(spec: Readiness) -> dict[str, Any]:
    return {
        "name": spec.spec.name,
        "path": str(spec.spec.path),
        "can_run": not spec.problems,
        "exit_code": spec.exit_code,
        "problems": [{**asdict(problem.finding), "exit_code": problem.exit_code} for problem in spec.problems],
        "runs": spec.runs,
        "configurations": dict(spec.planned),
        "passes": [
            {"name": item.name, "source": item.source, "metrics": [metric.name for metric in item.metrics]}
            for item in spec.passes.passes
        ],
        "metrics": [asdict(metric) for metric in spec.metrics],
        "passed_over": dict(spec.passes.reasons),
    }


def show(host: Examination, spec: Readiness | None) -> None:
    """Print everything: a line a finding, with the command that mends it on a line of its own."""
    console = terminal()
    _group(console, "Available counters", host.counting)
    _group(console, "Sources of noise", host.noise)
    counts = Counter(finding.status for finding in (*host.counting, *host.noise))
    parts = [f"[{style}]{_SIGNS[status]} {status} {counts[status]}[/{style}]" for status, style in _STYLES.items()]
    console.print(
        f"\n{', '.join(parts)}. Nothing was changed. Run commands that change the host as root.", soft_wrap=True
    )
    if spec is not None:
        _show_spec(console, spec)


def _group(console: Console, title: str, findings: Sequence[Finding]) -> None:
    console.print(f"\n[bold]{title}[/bold]")
    _show_findings(console, findings)


def _show_findings(console: Console, findings: Sequence[Finding]) -> None:
    for before, finding in zip([None, *findings], findings, strict=False):
        # What the line above shows already, for another metric for instance, is not repeated.
        repeated = before is not None and (before.why, before.mend) == (finding.why, finding.mend)
        _show_finding(console, replace(finding, why="", mend=None) if repeated else finding)


def _show_finding(console: Console, finding: Finding) -> None:
    style = _STYLES[finding.status]
    subject = f"{finding.subject:<{_SUBJECT_WIDTH}}"
    first, *more = _lines(console, finding.what)
    console.print(f"  [{style}]{_SIGNS[finding.status]}[/{style}] {subject} {escape(first)}", soft_wrap=True)
    for line in more:
        console.print(f"{_INDENT}{escape(line)}", soft_wrap=True)
    if finding.status != "good" and finding.why:
        for line in _lines(console, finding.why):
            console.print(f"[dim]{_INDENT}{escape(line)}[/dim]", soft_wrap=True)
    if finding.mend is not None:
        # Never broken: it is there to be copied.
        console.print(f"{_INDENT}[cyan]→ {escape(finding.mend)}[/cyan]", soft_wrap=True)


def _lines(console: Console, text: str) -> list[str]:
    """Break a text to the terminal's width, hanging; in a pipe a text is one line."""
    given = text.splitlines() or [""]
    if not console.is_terminal:
        return given
    width = max(30, console.width - len(_INDENT) - 1)
    return [line for part in given for line in textwrap.wrap(part, width, break_long_words=False) or [""]]


def _show_spec(console: Console, spec: Readiness) -> None:
    console.print(f"\n[bold]{escape(spec.spec.name)}[/bold]")
    if spec.metrics:
        heads = (Column("metric"), Column("counted by"), Column("in the runs of pass"))
        rows = [(metric.metric, _source(metric.source), ", ".join(metric.passes)) for metric in spec.metrics]
        console.print(Table(heads, rows).to_rich())
    for source, why in spec.passes.reasons.items():
        console.print(f"  [dim]not {source}: {escape(why)}[/dim]", soft_wrap=True)
    _show_findings(console, [problem.finding for problem in spec.problems])
    if spec.problems:
        reasons = counted(len(spec.problems), "reason")
        console.print(f"[bold red]{BAD} cannot run here[/bold red]: {reasons}", soft_wrap=True)
    else:
        passes = len(spec.passes.passes)
        each = f" in {passes} passes" if passes > 1 else ""
        if spec.spec.parameters:
            each = f" at {count_points(spec.spec):,} points ({', '.join(spec.planned)})"
        console.print(f"[green]{GOOD} can run here[/green]: {spec.runs} runs{each}", soft_wrap=True)
        for but in filter(None, (spec.no_verdict, spec.never_computed)):
            console.print(f"[yellow]{NOTE} but[/yellow] {escape(but)}", soft_wrap=True)


def _source(name: str) -> Cell:
    return Cell("simulated (callgrind)", "undecided") if name == "simulated" else Cell(name)
