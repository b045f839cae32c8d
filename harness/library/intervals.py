"""The intervals of many runs as one lazy table, in one layout."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.collectors.data import INTERVAL_COLUMNS
from unperturbed.collectors.data.files import read_parquet_head, try_parquet_files
from unperturbed.collectors.data.trace import METADATA_KEY
from unperturbed.errors import DataError
from unperturbed.harness.campaign.traces import require_own

if TYPE_CHECKING:
    import polars as pl

    from unperturbed.collectors.data import Trace
    from unperturbed.harness.campaign.manifest import RunState

FACTS = ("run", "configuration", "pass", "repetition", "interval", "start", "duration")
"""The columns that come before the intervals' bounds and the metrics; `start` and `duration` are in seconds."""


def scan_intervals(folder: Path, runs: Sequence[RunState], *, campaign: str | None = None) -> pl.LazyFrame:
    """Return the intervals of a campaign's runs, read when they are collected.

    Each file is checked before: it is whole, as it was written, and of its run.

    Result: A row an interval, the runs in the order given: `FACTS`, `begin_ns`, `end_ns`, `overruns`, then one column a
    metric, null where a run has it not.
    """
    import polars as pl  # noqa: PLC0415  slow to load, and not every use of a campaign needs it

    paths = [folder / "runs" / state.run.id / "trace.parquet" for state in runs]
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise DataError(f"{folder} is not valid UTF-8, and tables are: rename it") from None
    facts = pl.LazyFrame(
        {
            "path": [str(path) for path in paths],
            "order": range(len(paths)),
            "run": [state.run.id for state in runs],
            "configuration": [state.run.configuration for state in runs],
            "pass": [state.run.pass_name for state in runs],
            "repetition": [state.run.repetition for state in runs],
        },
        schema_overrides={"order": pl.UInt32, "repetition": pl.Int64},
    )
    # Files of one schema are one scan: a hundred scans of a file each take three times as long.
    alike: defaultdict[tuple[tuple[str, str], ...], list[Path]] = defaultdict(list)
    try_parquet_files(paths)
    for path, state in zip(paths, runs, strict=True):
        schema, metadata = read_parquet_head(path)
        _require_trace(schema, metadata, state, campaign, path)
        alike[tuple((name, str(kind)) for name, kind in schema.items())].append(path)
    scans = [
        pl.scan_parquet(same, glob=False, include_file_paths="path").with_columns(
            interval=pl.int_range(pl.len(), dtype=pl.UInt32).over("path")
        )
        for same in alike.values()
    ]
    if not scans:
        return pl.LazyFrame(schema=[*FACTS, *INTERVAL_COLUMNS])
    metrics = dict.fromkeys(name for schema in alike for name, _ in schema if name not in INTERVAL_COLUMNS)
    joined = pl.concat(scans, how="diagonal_relaxed") if len(scans) > 1 else scans[0]
    timed = joined.join(facts, on="path", how="left", maintain_order="left").with_columns(
        start=pl.col("begin_ns") / 1e9, duration=(pl.col("end_ns") - pl.col("begin_ns")) / 1e9
    )
    ordered = timed if len(scans) == 1 else timed.sort("order", maintain_order=True)
    return ordered.select(*FACTS, *INTERVAL_COLUMNS, *metrics)


def _require_trace(
    schema: Mapping[str, object], metadata: Mapping[str, str], state: RunState, campaign: str | None, path: Path
) -> None:
    """Refuse a Parquet file that is not a trace, or another run's."""
    try:
        attributes = json.loads(metadata[METADATA_KEY])["attributes"]
        lacking = not isinstance(attributes, dict) or any(name not in schema for name in INTERVAL_COLUMNS)
    except (KeyError, TypeError, ValueError, RecursionError):
        lacking = True
    if lacking:
        raise DataError(f"{path}: a Parquet file, but not a trace of this tool")
    require_own(attributes, state, campaign, path)


def tidy_traces(traces: Sequence[Trace]) -> pl.DataFrame:
    """Return traces in the layout of `scan_intervals`, described by their attributes."""
    import polars as pl  # noqa: PLC0415

    frames = []
    for trace in traces:
        known = {name: pl.lit(trace.attributes.get(name)).alias(name) for name in FACTS[:4]}
        begin, end = pl.col("begin_ns"), pl.col("end_ns")
        frame = trace.to_polars().with_row_index("interval")
        times = (begin / 1e9).alias("start"), ((end - begin) / 1e9).alias("duration")
        frames.append(frame.select(*known.values(), "interval", *times, pl.all().exclude("interval")))
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame(schema=[*FACTS, *INTERVAL_COLUMNS])
