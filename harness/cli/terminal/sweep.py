"""What a sweep shows in the terminal: progress by point, and what its table holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from unperturbed.collectors.data import TABLE
from unperturbed.common.wording import counted
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.cli.terminal.console import terminal
from unperturbed.harness.cli.terminal.progress import Show, TerminalProgress
from unperturbed.harness.spec.sections.parameters import Value
from unperturbed.harness.studies.sweep.table import SweepTable

_MOST_MISSING = 10


class SweepProgress(TerminalProgress):
    """Reports a sweep's progress: runs are named by their points."""

    def __init__(self, points: Sequence[Mapping[str, Value]], show: Show = "lines") -> None:
        super().__init__(show)
        self._points = points

    def named(self, run: PlannedRun) -> str:
        """Return the point and the repetition of a run."""
        return f"{_point(self._points[run.point - 1])} ({run.pass_name}, repetition {run.repetition})"


def to_json(table: SweepTable, folder: Path) -> str:
    """Return the description of the table as JSON; the rows are in its files."""
    path = str(folder / TABLE) if table.frame.height else None
    return json.dumps({"table": path, **table.to_dict()}, indent=2, ensure_ascii=False)


def show_sweep(table: SweepTable, folder: Path) -> None:
    """Print one row a column, the notes, what is missing, and where the table is."""
    console = terminal()
    for shown in table.tables():
        console.print(shown.to_rich())
    for note in table.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)
    _show_missing(table)
    if table.frame.height:
        print(f"table: {folder / TABLE}, and table.csv with table.json beside it")


def _show_missing(table: SweepTable) -> None:
    console = terminal(stderr=True)
    failed = [row for row in table.missing if row.failed]
    for row in failed[:_MOST_MISSING]:
        console.print(
            f"[red]failed, not in the table:[/red] {escape(_point(row.parameters))}: {escape(row.why)}", soft_wrap=True
        )
    if len(failed) > _MOST_MISSING:
        console.print(
            f"[red]failed, not in the table:[/red] {len(failed) - _MOST_MISSING} more rows; table.json has all",
            soft_wrap=True,
        )
    unmade = len(table.missing) - len(failed)
    if unmade:
        console.print(
            f"[red]not made:[/red] {counted(unmade, 'row')}; repeat the run command to make them", soft_wrap=True
        )
    if table.missing and not table.frame.height:
        console.print("No row is complete, so there is no table yet.", soft_wrap=True)


def _point(point: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items())
