"""Check what this host can count, what makes it noisy, and what to do about it."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import BAD, GOOD, NOTE, counted
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import Terminal, describe_passes, terminal

if TYPE_CHECKING:
    from unperturbed.harness.host.doctor import Examination, Finding, Status
    from unperturbed.harness.studies.readiness import Readiness

FORMAT = 1  # Version of the JSON: increased when a key's meaning changes, not when keys are added
_STYLES: dict[Status, str] = {"good": "green", "note": "yellow", "bad": "bold red"}
_SIGNS: dict[Status, str] = {"good": GOOD, "note": NOTE, "bad": BAD}
_SUBJECT_WIDTH = 13
_INDENT = " " * (_SUBJECT_WIDTH + 5)


class Command:
    """`unperturbed doctor [SPEC]`: with a spec, also check whether it can run here."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the spec and `--json`."""
        parser.add_argument(
            "spec",
            type=Path,
            nargs="?",
            metavar="SPEC",
            help="an experiment's YAML file: also check whether the experiment can run on this host",
        )
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Examine the host; return 3 if the spec cannot run here, 2 if the spec's own limits forbid it, else 0."""
        from unperturbed.harness.host.doctor import examine
        from unperturbed.harness.spec.load import load_spec
        from unperturbed.harness.studies.readiness import check_spec

        spec = None if arguments.spec is None else load_spec(arguments.spec)
        host = examine()
        readiness = None if spec is None else check_spec(spec, host)
        if arguments.json:
            print_json(to_json(host, readiness))
        else:
            show(host, readiness)
        return 0 if readiness is None else readiness.exit_code


def to_json(host: Examination, spec: Readiness | None) -> dict[str, Any]:
    """Return all findings as one object; docs/how-to/doctor.md describes its keys."""
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
        "passes": describe_passes(spec.passes),
        "metrics": [asdict(metric) for metric in spec.metrics],
        "passed_over": dict(spec.passes.reasons),
    }


def show(host: Examination, spec: Readiness | None) -> None:
    """Print one line per finding, with the command that fixes it on a separate line."""
    console = terminal()
    for title, findings in (("Available counters", host.counting), ("Sources of noise", host.noise)):
        console.print(f"\n[bold]{title}[/bold]")
        _show_findings(console, findings)
    counts = Counter(finding.status for finding in (*host.counting, *host.noise))
    parts = [f"[{style}]{_SIGNS[status]} {status} {counts[status]}[/{style}]" for status, style in _STYLES.items()]
    console.say(f"\n{', '.join(parts)}. Nothing was changed. Commands that change the host need root privileges.")
    if spec is not None:
        _show_spec(console, spec)


def _show_findings(console: Terminal, findings: Sequence[Finding]) -> None:
    for before, finding in zip([None, *findings], findings, strict=False):
        # Do not repeat the reason and remedy of the line above, for example for the next metric.
        repeated = before is not None and (before.why, before.mend) == (finding.why, finding.mend)
        _show_finding(console, replace(finding, why="", mend=None) if repeated else finding)


def _show_finding(console: Terminal, finding: Finding) -> None:
    style = _STYLES[finding.status]
    subject = f"{finding.subject:<{_SUBJECT_WIDTH}}"
    first, *more = _lines(console, finding.what)
    console.say(f"  [{style}]{_SIGNS[finding.status]}[/{style}] {subject} {escape(first)}")
    for line in more:
        console.say(f"{_INDENT}{escape(line)}")
    if finding.status != "good" and finding.why:
        for line in _lines(console, finding.why):
            console.say(f"[dim]{_INDENT}{escape(line)}[/dim]")
    if finding.mend is not None:
        # Not wrapped: users copy it.
        console.say(f"{_INDENT}[cyan]→ {escape(finding.mend)}[/cyan]")


def _lines(console: Terminal, text: str) -> list[str]:
    """Wrap a text to the terminal's width, with a hanging indent; in a pipe, do not wrap it."""
    given = text.splitlines() or [""]
    if not console.is_terminal:
        return given
    width = max(30, console.width - len(_INDENT) - 1)
    return [line for part in given for line in textwrap.wrap(part, width, break_long_words=False) or [""]]


def _show_spec(console: Terminal, spec: Readiness) -> None:
    from unperturbed.harness.spec.sections.parameters import count_points

    console.print(f"\n[bold]{escape(spec.spec.name)}[/bold]")
    if spec.metrics:
        simulated = Cell("simulated (callgrind)", "undecided")
        heads = (Column("metric"), Column("counted by"), Column("in passes"))
        rows = [
            (metric.metric, simulated if metric.source == "simulated" else metric.source, ", ".join(metric.passes))
            for metric in spec.metrics
        ]
        console.print(Table(heads, rows).to_rich())
    for source, why in spec.passes.reasons.items():
        console.say(f"  [dim]source {source} is not used: {escape(why)}[/dim]")
    _show_findings(console, [problem.finding for problem in spec.problems])
    if spec.problems:
        reasons = counted(len(spec.problems), "reason")
        console.say(f"[bold red]{BAD} cannot run here[/bold red]: {reasons}")
    else:
        passes = len(spec.passes.passes)
        each = f" in {passes} passes" if passes > 1 else ""
        if spec.spec.parameters:
            each = f" at {count_points(spec.spec):,} points ({', '.join(spec.planned)})"
        console.say(f"[green]{GOOD} can run here[/green]: {spec.runs} runs{each}")
        for but in filter(None, (spec.no_verdict, spec.never_computed, spec.never_together)):
            console.say(f"[yellow]{NOTE} but[/yellow] {escape(but)}")
