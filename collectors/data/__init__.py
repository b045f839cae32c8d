"""Data that all rooms exchange: traces and tables of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.collectors.data.sweep_table import (
        TABLE,
        ColumnKind,
        SweepColumn,
        read_sweep,
        read_sweep_facts,
        write_sweep,
    )
    from unperturbed.collectors.data.trace import (
        INTERVAL_COLUMNS,
        Kind,
        Metric,
        Semantics,
        Trace,
    )

__all__ = [
    "INTERVAL_COLUMNS",
    "TABLE",
    "ColumnKind",
    "Kind",
    "Metric",
    "Semantics",
    "SweepColumn",
    "Trace",
    "read_sweep",
    "read_sweep_facts",
    "write_sweep",
]

# Processes that only read traces' descriptions do not load polars, which tables need.
__getattr__, __dir__ = lazy_names(
    __name__,
    former={
        "unperturbed.collectors.data.sweep_table": "Column=SweepColumn",
        "unperturbed.collectors.data.files": "encode_parquet is_whole_parquet read_parquet_file read_parquet_head "
        "try_parquet_files Shape misfit",
        "unperturbed.collectors.data.trace": "METADATA_KEY require_traces",
    },
)
