"""What a sweep shows in the terminal: progress by point, and what its table holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unperturbed.collectors.table import TABLE
from unperturbed.harness.plan import PlannedRun
from unperturbed.harness.spec.parameters import Value
from unperturbed.harness.sweep_table import SweepTable
from unperturbed.harness.terminal import TerminalProgress

__all__ = ["SweepProgress", "show_sweep", "to_json"]

_MOST_VALUES = 6
"""Different values of a text column that are shown."""
_MOST_MISSING = 10


class SweepProgress(TerminalProgress):
    """Tells a sweep's progress: runs are named by their points."""

    def __init__(self, points: Sequence[Mapping[str, Value]]) -> None:
        super().__init__()
        self._points = points

    def named(self, run: PlannedRun) -> str:
        """Say which run it is."""
        return f"{_said(self._points[run.point - 1])} ({run.pass_name}, repetition {run.repetition})"


def to_json(table: SweepTable, folder: Path) -> str:
    """Return what is known of the table, as JSON; the rows are in its files."""
    found: dict[str, Any] = {
        "table": str(folder / TABLE) if table.frame.height else None,
        "columns": [vars(column) for column in table.columns],
        **table.facts,
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def show_sweep(table: SweepTable, folder: Path) -> None:
    """Print one row a column, what is missing, what speaks against the numbers, and where the table is."""
    console = Console(highlight=False)
    if table.frame.height:
        shown = Table(
            title=f"{table.facts['name']}: {table.frame.height:,} rows",
            title_justify="left",
            header_style="bold",
            box=SIMPLE_HEAD,
        )
        for header in ("column", "kind", "unit", "values"):
            shown.add_column(header, overflow="fold")
        for column in table.columns:
            kind = "[bold yellow]simulated[/bold yellow]" if column.kind == "simulated" else column.kind
            shown.add_row(escape(column.name), kind, column.unit, escape(_values(table.frame[column.name])))
        console.print(shown)
    for note in table.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", soft_wrap=True)
    _show_missing(table)
    if table.frame.height:
        print(f"table: {folder / TABLE}, and table.csv with table.json beside it")


def _show_missing(table: SweepTable) -> None:
    console = Console(stderr=True, highlight=False)
    failed = [row for row in table.missing if row.failed]
    for row in failed[:_MOST_MISSING]:
        console.print(
            f"[red]failed, not in the table:[/red] {escape(_said(row.parameters))}: {escape(row.why)}", soft_wrap=True
        )
    if len(failed) > _MOST_MISSING:
        console.print(
            f"[red]failed, not in the table:[/red] {len(failed) - _MOST_MISSING} more rows; table.json has all", soft_wrap=True
        )
    unmade = len(table.missing) - len(failed)
    if unmade:
        rows = "row" if unmade == 1 else "rows"
        console.print(f"[red]not made:[/red] {unmade} {rows}; the same run command goes on with them", soft_wrap=True)
    if table.missing and not table.frame.height:
        console.print("No row is complete, so there is no table yet.", soft_wrap=True)


def _said(point: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items())


def _values(series: pl.Series) -> str:
    """Say what values a column has: its range, or each of a few."""
    if series.dtype == pl.String:
        values = series.unique(maintain_order=True).sort().to_list()
        return ", ".join(values[:_MOST_VALUES]) + (f", … ({len(values)})" if len(values) > _MOST_VALUES else "")
    known = series.drop_nulls()
    if not len(known):
        return "no value"
    least, most = known.min(), known.max()
    empty = f"; {series.null_count()} empty" if series.null_count() else ""
    form = "{:,}".format if series.dtype == pl.Int64 else "{:.4g}".format
    return (form(least) if least == most else f"{form(least)} … {form(most)}") + empty
