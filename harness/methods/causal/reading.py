"""Read the table that a model is learnt from: of a sweep, of a campaign's runs, or any text, JSON or Parquet file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from unperturbed.collectors.data import TABLE, SweepColumn, read_sweep, read_sweep_facts
from unperturbed.collectors.data.files import read_parquet_file
from unperturbed.collectors.imports import read_traces as read_recordings
from unperturbed.collectors.imports import recognise
from unperturbed.common.packed import plain_name, unpack
from unperturbed.common.reading.cells import ColumnReading, describe, read_columns
from unperturbed.common.reading.delimited import read_delimited
from unperturbed.common.reading.records import read_records
from unperturbed.common.wording import counted
from unperturbed.errors import DataError
from unperturbed.harness.campaign.importing import what_to_type

_POINTS_NAMED = 5
_MOST_COLUMNS = 1_000
"""Each pair of columns is tested: a thousand columns have half a million pairs, for each conditioning set."""


@dataclass(frozen=True)
class TableReading:
    """How a table was read: lines for its reader, what each column holds, and the place of each cell in the file."""

    lines: tuple[str, ...]
    columns: tuple[ColumnReading, ...]
    place: Callable[[int, int], str] | None  # Line and column of a cell; None for files without lines


def read_table(
    path: Path, *, texts: Collection[str] = ()
) -> tuple[pl.DataFrame, Mapping[str, SweepColumn], TableReading | None]:
    """Read the table of a sweep, a campaign's runs or any text, JSON or Parquet file; describe its columns.

    The last is None for this tool's own tables, whose columns have the types that it wrote. Columns of `texts` stay
    categories if they hold other words than numbers and marks of missing values.
    """
    if _is_campaign(path):
        return *_totals_of_runs(path), None
    if path.is_dir() or _is_sweep(path):
        return *read_sweep(path), None
    if not path.is_file():
        raise DataError(f"{path}: no such table: give a CSV, JSON or Parquet file, or the folder of a campaign")
    file_format = recognise(path)
    if file_format is not None and not (file_format.is_table or file_format.whole_runs):
        raise DataError(f"{what_to_type(path)}, and model each run's totals with `unperturbed model CAMPAIGN`")
    try:
        frame, reading = _read(path, texts)
    except DataError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, csv.Error) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path}: cannot read the file as a table ({first}); expected CSV with a header row, JSON, or Parquet"
        ) from None
    _require_few(path, len(frame.columns))
    return frame, {}, reading


def _require_few(path: Path, columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise DataError(f"{path}: {columns:,} columns are too many: keep at most {_MOST_COLUMNS:,}")


def missing_points(path: Path) -> str:
    """Return a sentence on the points that a sweep's table lacks; empty if it is complete, or not from a sweep."""
    if _is_campaign(path) or not (path.is_dir() or _is_sweep(path)):
        return ""
    missing: Sequence[Mapping[str, Any]] = read_sweep_facts(path).get("missing", ())
    if not missing:
        return ""
    points = sorted({item["point"] for item in missing})
    first = ", ".join(map(str, points[:_POINTS_NAMED])) + (", …" if len(points) > _POINTS_NAMED else "")
    return (
        f"The sweep is not complete: its table lacks {counted(len(missing), 'row')} "
        f"({'point' if len(points) == 1 else 'points'} {first}, counted from 1; first reason: {missing[0]['why']}). "
        "If points failed because of their parameter values, the remaining rows are a biased sample, and the model "
        "may show relations that do not exist."
    )


def _is_campaign(path: Path) -> bool:
    """Return whether a folder contains a campaign with runs but no table."""
    return (path / "campaign.sqlite").is_file() and not (path / TABLE).is_file() and (path / "runs").is_dir()


def _totals_of_runs(folder: Path) -> tuple[pl.DataFrame, Mapping[str, SweepColumn]]:
    """Return one row per run of a campaign, and the columns of counters.

    A row has the configuration, the seconds, and totals of the counters that all runs have.
    """
    from unperturbed.harness.campaign.manifest import Manifest
    from unperturbed.harness.results.recorded import read_traces

    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        by_pass = read_traces(folder, manifest)
    traces = [trace for runs in by_pass.values() for repetitions in runs.values() for trace in repetitions]
    if not traces:
        raise DataError(
            f"{folder}: no run of this campaign has a trace to compute totals from: choose another campaign"
        )
    shared = [
        name
        for name, metric in traces[0].metrics.items()
        if metric.semantics == "counter" and metric.kind != "derived" and all(name in trace.metrics for trace in traces)
    ]
    metrics = [traces[0].metrics[name] for name in shared]
    columns = {
        each.name: SweepColumn(each.name, each.kind, each.unit, each.source, each.meaning, components=each.components)
        for each in metrics
    }
    frame = pl.DataFrame(
        {
            "configuration": [str(trace.attributes["configuration"]) for trace in traces],
            "seconds": [float(trace.end_ns[-1] - trace.begin_ns[0]) / 1e9 for trace in traces],
            **{name: [trace[name].sum().item() for trace in traces] for name in shared},
        }
    )
    return frame, columns


def _is_sweep(path: Path) -> bool:
    if path.name == "table.csv" and path.with_suffix(".json").is_file():
        return True
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return "unperturbed-table" in pl.read_parquet_metadata(file)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False


def _read_runs(path: Path, texts: Collection[str]) -> tuple[pl.DataFrame, TableReading] | None:
    """Return the runs of another harness's results, one in a row; None for other files, and those without runs."""
    known = recognise(path)
    if known is None or not known.whole_runs:
        return None
    try:
        traces = read_recordings(path, known.name)
    except DataError:  # only aggregates, for instance: a table of them can be read
        return None
    parameters = dict.fromkeys(name for trace in traces for name in trace.attributes["parameters"])
    totals = dict.fromkeys(name for trace in traces for name in trace.metrics)
    table = pl.DataFrame(
        {
            "benchmark": [str(trace.attributes["family"]) for trace in traces],
            **{name: [trace.attributes["parameters"].get(name) for trace in traces] for name in parameters},
            **{name: [float(trace[name][0]) if name in trace else None for trace in traces] for name in totals},
        }
    )
    frame, columns = read_columns(table, texts=texts)
    first = f"{_size(path, frame)}; a row is a run in {known.title}"
    return frame, TableReading(describe(first, columns), columns, None)


def _read(path: Path, texts: Collection[str]) -> tuple[pl.DataFrame, TableReading]:
    if (of_runs := _read_runs(path, texts)) is not None:
        return of_runs
    suffix = plain_name(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
        frame, columns = read_columns(read_parquet_file(path)[0], texts=texts)
        return frame, TableReading(describe(_size(path, frame), columns), columns, None)
    if suffix in (".json", ".jsonl", ".ndjson"):
        frame, columns = read_columns(read_records(unpack(path.read_bytes(), str(path)), path), texts=texts)
        return frame, TableReading(describe(_size(path, frame), columns), columns, None)
    table = read_delimited(unpack(path.read_bytes(), str(path)), path)
    _require_few(path, len(table.frame.columns))
    frame, columns = read_columns(table.frame, texts=texts, separator=table.separator)
    columns = tuple(replace(column, detail=column.detail or table.units.get(column.name, "")) for column in columns)
    first = f"{_size(path, frame)}; {'; '.join(table.notes)}"
    return frame, TableReading(describe(first, columns), columns, table.place)


def _size(path: Path, frame: pl.DataFrame) -> str:
    return f"{path.name}: read as {counted(frame.height, 'row')} of {counted(frame.width, 'column')}"
