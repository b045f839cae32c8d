"""What all parts exchange: traces, tables of sweeps, and metrics derived from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.collectors.data.parquet import (
        encode_parquet,
        is_whole_parquet,
        read_parquet_file,
        read_parquet_head,
        try_parquet_files,
    )
    from unperturbed.collectors.data.shape import Shape, misfit
    from unperturbed.collectors.data.sweep_table import (
        TABLE,
        Column,
        ColumnKind,
        read_sweep,
        read_sweep_facts,
        write_sweep,
    )
    from unperturbed.collectors.data.trace import (
        INTERVAL_COLUMNS,
        METADATA_KEY,
        Kind,
        Metric,
        Semantics,
        Trace,
        require_traces,
    )

__all__ = [
    "INTERVAL_COLUMNS",
    "METADATA_KEY",
    "TABLE",
    "Column",
    "ColumnKind",
    "Kind",
    "Metric",
    "Semantics",
    "Shape",
    "Trace",
    "encode_parquet",
    "is_whole_parquet",
    "misfit",
    "read_parquet_file",
    "read_parquet_head",
    "read_sweep",
    "read_sweep_facts",
    "require_traces",
    "try_parquet_files",
    "write_sweep",
]

# polars, which tables need, stays out of processes that only read traces' descriptions.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "parquet": (
            "encode_parquet",
            "is_whole_parquet",
            "read_parquet_file",
            "read_parquet_head",
            "try_parquet_files",
        ),
        "shape": ("Shape", "misfit"),
        "sweep_table": ("TABLE", "Column", "ColumnKind", "read_sweep", "read_sweep_facts", "write_sweep"),
        "trace": ("INTERVAL_COLUMNS", "METADATA_KEY", "Kind", "Metric", "Semantics", "Trace", "require_traces"),
    },
)
