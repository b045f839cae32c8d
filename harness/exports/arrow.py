"""Arrow's IPC file format (Feather version 2): a table that other tools map into memory as it is."""

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
        frame.write_ipc(file, compat_level=_oldest_level())


def _oldest_level() -> pl.CompatLevel:
    """Return the level that every reader of Arrow knows: text is written without views."""
    import polars as pl  # noqa: PLC0415  slow to load

    return pl.CompatLevel.oldest()


def _write_trace(trace: Trace, path: Path) -> None:
    _write_frame(trace.to_polars(), path)


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    _write_frame(runs.to_frame(), path)


def _write_table(table: SweepTable, path: Path) -> None:
    _write_frame(table.to_frame(), path)


FORMAT = Format(
    "arrow", (".arrow", ".feather", ".ipc"), {"trace": _write_trace, "campaign": _write_runs, "table": _write_table}
)
