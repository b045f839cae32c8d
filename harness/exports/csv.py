"""Comma-separated values: a row an interval, or a table's rows, without what is known about the columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.collectors.data import Trace
    from unperturbed.harness.exports.content.runs import ExportedRuns
    from unperturbed.harness.studies.sweep_table import SweepTable


def _write_frame(frame: pl.DataFrame, path: Path) -> None:
    with path.open("wb") as file:
        frame.write_csv(file)


def _write_trace(trace: Trace, path: Path) -> None:
    _write_frame(trace.to_polars(), path)


def _write_rows(content: ExportedRuns | SweepTable, path: Path) -> None:
    _write_frame(content.to_frame(), path)


FORMAT = Format("csv", (".csv",), {"trace": _write_trace, "campaign": _write_rows, "table": _write_rows})
