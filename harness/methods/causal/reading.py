"""Read the table that a model is learnt from: of a sweep, of a campaign's runs, or any CSV or Parquet file."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from unperturbed.collectors.data import TABLE, SweepColumn, read_sweep, read_sweep_facts
from unperturbed.collectors.data.files import read_parquet_file
from unperturbed.collectors.imports import recognise
from unperturbed.common.packed import open_file, plain_name
from unperturbed.common.wording import counted
from unperturbed.errors import DataError
from unperturbed.harness.campaign.importing import what_to_type

_POINTS_NAMED = 5
_MOST_COLUMNS = 1_000
"""Each pair of columns is tested: a thousand columns have half a million pairs, for each conditioning set."""

_ABSENT = ["", "NA", "N/A", "null", "NULL", "None"]


def read_table(path: Path) -> tuple[pl.DataFrame, Mapping[str, SweepColumn]]:
    """Read the table of a sweep, a campaign's runs or any CSV or Parquet file, with descriptions of its columns."""
    if _is_campaign(path):
        return _totals_of_runs(path), {}
    if path.is_dir() or _is_sweep(path):
        return read_sweep(path)
    if not path.is_file():
        raise DataError(f"{path}: no such table: give a CSV or Parquet file, or the folder of a campaign")
    try:
        frame = _read(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError, csv.Error) as error:
        file_format = recognise(path)
        if file_format is not None and file_format.name not in ("csv", "parquet"):
            raise DataError(
                f"{what_to_type(path)}, and model each run's totals with `unperturbed model CAMPAIGN`"
            ) from None
        first = _ragged(path) or (str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise DataError(
            f"{path}: cannot read the file as a table ({first}); expected CSV with a header row, or Parquet"
        ) from None
    _require_few(path, len(frame.columns))
    return frame, {}


def _require_few(path: Path, columns: int) -> None:
    if columns > _MOST_COLUMNS:
        raise DataError(f"{path}: {columns:,} columns are too many: keep at most {_MOST_COLUMNS:,}")


def _ragged(path: Path) -> str:
    """Return a sentence on the first line whose number of fields differs from the header's; empty if there is none."""
    try:
        with open_file(path) as content:
            file = io.TextIOWrapper(content, newline="", encoding="utf-8-sig")
            reader = csv.reader(file, delimiter="\t" if plain_name(path).suffix.lower() == ".tsv" else ",")
            names = next(reader, [])
            for row in reader:
                if row and len(row) != len(names):
                    return (
                        f"line {reader.line_num} has {counted(len(row), 'field')}, but the first line names "
                        f"{counted(len(names), 'column')}"
                    )
    except (UnicodeDecodeError, csv.Error):
        return ""
    return ""


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


def _totals_of_runs(folder: Path) -> pl.DataFrame:
    """Return one row per run of a campaign: configuration, seconds, and totals of the counters that all runs have."""
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
    return pl.DataFrame(
        {
            "configuration": [str(trace.attributes["configuration"]) for trace in traces],
            "seconds": [float(trace.end_ns[-1] - trace.begin_ns[0]) / 1e9 for trace in traces],
            **{name: [trace[name].sum().item() for trace in traces] for name in shared},
        }
    )


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


def _read(path: Path) -> pl.DataFrame:
    if path.suffix.lower() in (".parquet", ".pq"):
        return read_parquet_file(path)[0]
    separator = "\t" if plain_name(path).suffix.lower() == ".tsv" else ","
    with open_file(path) as content, io.TextIOWrapper(content, newline="", encoding="utf-8-sig") as text:
        names = next(csv.reader(text, delimiter=separator), [])
    if len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        raise DataError(
            f"{path}: the first line has only one column, {names[0]!r}: separate columns by commas, or by tabs in a "
            ".tsv file"
        )
    _require_few(path, len(names))
    counts = Counter(names)
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{path}: column {number} has no name: the first line must name all columns")
        if counts[name] > 1:
            raise DataError(f"{path}: two columns are named {name}: give each column a different name")
    with open_file(path) as content:  # polars would read a path as a glob pattern
        file = io.BytesIO(content.read())
        frame = pl.read_csv(file, separator=separator, null_values=_ABSENT, infer_schema_length=None)
    if len(frame.columns) != len(names):
        raise DataError(
            f"{path}: the first line can be read as {counted(len(names), 'column')} or as {len(frame.columns)}: check "
            "its quotes and line ending"
        )
    return frame.rename(dict(zip(frame.columns, names, strict=True)))
