"""Tables: comma-separated values, Apache Parquet, and Arrow's IPC file format (Feather version 2).

CSV and Arrow files contain only names and values. Parquet files keep everything; the descriptions of a campaign's
metrics are JSON in the file's metadata, under `unperturbed.campaign`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.files import encode_parquet
from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.harness.exports.content.runs import ExportedRuns
    from unperturbed.harness.studies.sweep_table import SweepTable


def _format_of_frames(name: str, suffixes: tuple[str, ...], write: Callable[[pl.DataFrame, BinaryIO], None]) -> Format:
    """Return a format that writes any content as one data frame."""

    def write_rows(content: ExportedRuns | SweepTable | Trace, path: Path) -> None:
        frame = content.to_polars() if isinstance(content, Trace) else content.to_frame()
        with path.open("wb") as file:
            write(frame, file)

    return Format(name, suffixes, {"trace": write_rows, "campaign": write_rows, "table": write_rows}, shows_kinds=False)


def _write_arrow(frame: pl.DataFrame, file: BinaryIO) -> None:
    import polars as pl  # noqa: PLC0415  slow to load

    # Every Arrow reader supports the oldest level, which has no string views.
    frame.write_ipc(file, compat_level=pl.CompatLevel.oldest())


CSV = _format_of_frames("csv", (".csv",), lambda frame, file: frame.write_csv(file))
ARROW = _format_of_frames("arrow", (".arrow", ".feather", ".ipc"), _write_arrow)


def _write_campaign(runs: ExportedRuns, path: Path) -> None:
    described = {"campaign": runs.name, "metrics": [asdict(metric) for metric in runs.metrics.values()]}
    path.write_bytes(encode_parquet(runs.to_frame(), "unperturbed.campaign", described))


def _write_table(table: SweepTable, path: Path) -> None:
    from unperturbed.collectors.data import TABLE, write_sweep  # noqa: PLC0415

    write_sweep(path.parent, table.frame, table.columns, table.facts)
    for beside in ("table.csv", "table.json"):
        (path.parent / beside).unlink()
    (path.parent / TABLE).rename(path)


PARQUET = Format("parquet", (".parquet",), {"trace": Trace.write, "campaign": _write_campaign, "table": _write_table})
