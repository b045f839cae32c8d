"""Apache Parquet: traces and tables with everything that is known about their columns, as campaigns keep them.

What is known of a campaign's metrics (kind, unit, source) is JSON in the file's metadata, under `unperturbed.campaign`.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.collectors.data.parquet import encode_parquet
from unperturbed.harness.exports import Format

if TYPE_CHECKING:
    from unperturbed.collectors.data import Trace
    from unperturbed.harness.exports.content.runs import ExportedRuns
    from unperturbed.harness.studies.sweep_table import SweepTable


def _write_trace(trace: Trace, path: Path) -> None:
    trace.write(path)


def _write_campaign(runs: ExportedRuns, path: Path) -> None:
    described = {"campaign": runs.name, "metrics": [asdict(metric) for metric in runs.metrics.values()]}
    path.write_bytes(encode_parquet(runs.to_frame(), "unperturbed.campaign", described))


def _write_table(table: SweepTable, path: Path) -> None:
    from unperturbed.collectors.data import TABLE, write_sweep  # noqa: PLC0415

    write_sweep(path.parent, table.frame, table.columns, table.facts)
    for beside in ("table.csv", "table.json"):
        (path.parent / beside).unlink()
    (path.parent / TABLE).rename(path)


FORMAT = Format("parquet", (".parquet",), {"trace": _write_trace, "campaign": _write_campaign, "table": _write_table})
