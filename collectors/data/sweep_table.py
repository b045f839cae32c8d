"""Table of a sweep: one row for each point and repetition, one column for each parameter, time and metric's total.

`table.parquet` contains everything; `table.csv` and `table.json` together contain the same for other tools.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import polars as pl

from unperturbed.collectors.data.files import Shape, encode_parquet, misfit, read_parquet_file
from unperturbed.collectors.data.trace import Semantics
from unperturbed.common.scratch import whole_file
from unperturbed.common.wording import counted
from unperturbed.errors import DataError

ColumnKind = Literal["parameter", "time", "hardware", "simulated", "software", "os", "derived"]

TABLE = "table.parquet"
"""Name of the table in its campaign's folder."""

_METADATA_KEY = "unperturbed-table"
_FORMAT = 1
_TYPES: Mapping[str, type[pl.DataType]] = {"integer": pl.Int64, "number": pl.Float64, "text": pl.String}
_SHAPE: Shape = {"columns": [{"name": str, "type": str}], "rows": int, "facts": dict}
_MISSING: Shape = [{"point": int, "why": str}]


@dataclass(frozen=True)
class SweepColumn:
    """Description of one column of a sweep's table.

    Attributes
    ----------
    name : str
        The name of the parameter or metric in the spec; or `time_s` or `cpu_s`.
    kind : ColumnKind
        The origin of the values. `simulated` values are never shown as hardware counts, and simulated cycles are not
        time: they are computed from other events.
    unit : str, default ""
        The unit of the values; empty if there is none.
    source : str, default ""
        The source of the values (`spec`, `wait4`, `callgrind`, `papi`, `perf_event`, `formula`, …).
    meaning : str, default ""
        A description in one line.
    semantics : Semantics, default "counter"
        A counter's value is the run's total; a gauge's value is the value at the end of the run.
    components : tuple of str, default ()
        Elementary events that a metric is computed from. Two columns with a common component are related by
        construction.
    """

    name: str
    kind: ColumnKind
    unit: str = ""
    source: str = ""
    meaning: str = ""
    semantics: Semantics = "counter"
    components: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(ColumnKind):
            known = ", ".join(get_args(ColumnKind))
            raise DataError(f"column {self.name!r}: `kind` is {self.kind!r}, which is not one of {known}")


def write_sweep(folder: Path, frame: pl.DataFrame, columns: Sequence[SweepColumn], facts: Mapping[str, Any]) -> None:
    """Write a sweep's table as Parquet, CSV and JSON into the campaign's folder; replace each file atomically.

    Parameters
    ----------
    folder : Path
        The campaign's folder.
    frame : polars.DataFrame
        The rows; each column is of type Int64, Float64 or String.
    columns : sequence of SweepColumn
        Descriptions of the columns, in the frame's order.
    facts : mapping of str to object
        Facts about the whole sweep; JSON types only.

    Raises
    ------
    DataError
        The described columns are not those of the frame, or a column has a different type.
    """
    if [column.name for column in columns] != frame.columns:
        raise DataError(
            f"the description has the columns {', '.join(column.name for column in columns)}, but the table has "
            f"{', '.join(frame.columns)}: both must have the same columns in the same order"
        )
    held = {dtype: name for name, dtype in _TYPES.items()}
    odd = [f"{name} ({dtype})" for name, dtype in frame.schema.items() if type(dtype) not in held]
    if odd:
        raise DataError(f"columns must contain 64-bit integers, 64-bit floats or strings, not {', '.join(odd)}")
    described = {
        "format": _FORMAT,
        "rows": frame.height,
        "columns": [{**asdict(column), "type": held[type(frame.schema[column.name])]} for column in columns],
        "facts": dict(facts),
    }
    with whole_file(folder / "table.csv") as file:
        frame.write_csv(file)
    with whole_file(folder / "table.json") as file:
        file.write(json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False).encode())
    with whole_file(folder / TABLE) as file:
        file.write(encode_parquet(frame, _METADATA_KEY, described))


def read_sweep(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, Mapping[str, SweepColumn]]:
    """Read the table of a sweep.

    Parameters
    ----------
    path : path-like
        The campaign's folder, its `table.parquet`, or its `table.csv` with `table.json` beside it.

    Returns
    -------
    frame : polars.DataFrame
        One row for each point and repetition. Empty cells are null, such as a derived metric after division by zero.
    columns : mapping of str to SweepColumn
        Descriptions of the columns by name, read-only, in the frame's order.

    Raises
    ------
    DataError
        The table does not exist, or the file is not the table of a sweep.
    """
    frame, described = _read(Path(path))
    return frame, MappingProxyType({entry["name"]: _column(entry) for entry in described["columns"]})


def _column(entry: Mapping[str, Any]) -> SweepColumn:
    known = {key: value for key, value in entry.items() if key != "type"}
    return SweepColumn(**{**known, "components": tuple(known["components"])})


def read_sweep_facts(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return the facts about a whole sweep: name, program, host, runs of each row, failures, completeness.

    `path` and errors are as for `read_sweep`.
    """
    return MappingProxyType(_read(Path(path))[1]["facts"])


def _read(path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    source = path / TABLE if path.is_dir() else path
    if not source.is_file():
        what = "the folder has no table; to write it: unperturbed run SPEC" if path.is_dir() else "no such table"
        raise DataError(f"{path}: {what}")
    try:
        frame, described = (_read_csv if source.suffix == ".csv" else _read_parquet)(source)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        raise DataError(f"{source}: not a readable table ({error})") from None
    names = [entry["name"] for entry in described["columns"]]
    if frame.height != described["rows"] or frame.columns != names:
        has, stated = counted(frame.height, "row"), counted(described["rows"], "row")
        raise DataError(
            f"{source}: the table has {has} and the columns {', '.join(frame.columns)}, but its description states "
            f"{stated} and the columns {', '.join(names)}; write both again with: unperturbed run SPEC"
        )
    return frame, described


def _read_parquet(source: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    frame, metadata = read_parquet_file(source)
    text = metadata.get(_METADATA_KEY)
    if text is None:
        raise DataError(f"{source}: not the table of a sweep (the file's metadata does not describe its columns)")
    return frame, _described(source, text)


def _read_csv(source: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    beside = source.with_suffix(".json")
    if not beside.is_file():
        raise DataError(
            f"{source}: {beside.name}, which describes the columns, is missing from the same folder; "
            "use table.parquet, which includes the description"
        )
    described = _described(beside, beside.read_text(encoding="utf-8"))
    types = {entry["name"]: _TYPES[entry["type"]] for entry in described["columns"]}
    with source.open("rb") as file:  # polars treats a path as a glob
        return pl.read_csv(file, schema_overrides=types), described


def _described(source: Path, text: str) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads(text)
        newer = described["format"] > _FORMAT
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{source}: contains no readable description of a sweep's table") from None
    if newer:
        newer_format = f"written by a newer version of unperturbed (format {described['format']})"
        raise DataError(f"{source}: {newer_format}; update unperturbed")
    damaged = DataError(
        f"{source}: the description of the sweep's table is damaged; write it again with: unperturbed run SPEC"
    )
    if misfit(described, _SHAPE, "it") or misfit(described["facts"].get("missing", []), _MISSING, "it"):
        raise damaged
    try:
        names = {_column(entry).name for entry in described["columns"]}
    except (KeyError, TypeError, DataError):
        raise damaged from None
    if len(names) < len(described["columns"]) or any(entry["type"] not in _TYPES for entry in described["columns"]):
        raise damaged
    return described
