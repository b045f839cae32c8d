"""The table of a sweep: a row for each point and repetition, a column for each parameter, time and metric's total.

`table.parquet` has all of it; `table.csv` and `table.json` have the same for other tools.
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
class Column:
    """Description of one column of a sweep's table.

    Attributes
    ----------
    name : str
        The parameter's or the metric's name, as the spec gives it; `time_s`, `cpu_s`.
    kind : ColumnKind
        Where it comes from. `simulated` is never shown as hardware, and simulated cycles are not time: they are
        a formula of other events.
    unit : str, default ""
        Of the values; empty where there is none.
    source : str, default ""
        What gave the values (`spec`, `wait4`, `callgrind`, `papi`, `perf_event`, `formula`, …).
    meaning : str, default ""
        One line for people.
    semantics : Semantics, default "counter"
        A counter's value is the run's total, a gauge's its value at the end of the run.
    components : tuple of str, default ()
        Elementary events that a metric is computed from. Two columns that share one are related by construction.
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
            raise DataError(f"column {self.name!r}: kind {self.kind!r} is not one of {', '.join(get_args(ColumnKind))}")


def write_sweep(folder: Path, frame: pl.DataFrame, columns: Sequence[Column], facts: Mapping[str, Any]) -> None:
    """Write a sweep's table into its campaign's folder, as Parquet, CSV and JSON; each appears whole or not at all.

    Parameters
    ----------
    folder : Path
        Of the campaign.
    frame : polars.DataFrame
        The rows; its columns are whole numbers (Int64), numbers (Float64) or text.
    columns : sequence of Column
        What each column is, in the frame's order.
    facts : mapping of str to object
        What is known about the sweep as a whole; JSON types only.

    Raises
    ------
    DataError
        The columns that are described are not those of the frame, or one of them has another type.
    """
    if [column.name for column in columns] != frame.columns:
        raise DataError(
            f"the description names the columns {', '.join(column.name for column in columns)}; the table has "
            f"{', '.join(frame.columns)}"
        )
    held = {dtype: name for name, dtype in _TYPES.items()}
    odd = [f"{name} ({dtype})" for name, dtype in frame.schema.items() if type(dtype) not in held]
    if odd:
        raise DataError(f"columns must hold integers, floats or text, not {', '.join(odd)}")
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


def read_sweep(path: str | os.PathLike[str]) -> tuple[pl.DataFrame, Mapping[str, Column]]:
    """Read the table of a sweep.

    Parameters
    ----------
    path : path-like
        The campaign's folder, its `table.parquet`, or its `table.csv` with `table.json` beside it.

    Returns
    -------
    frame : polars.DataFrame
        One row a point and repetition. Empty cells are null: a derived metric that is divided by zero.
    columns : mapping of str to Column
        Read-only, by name, in the frame's order.

    Raises
    ------
    DataError
        There is no table, or the file is none.
    """
    frame, described = _read(Path(path))
    return frame, MappingProxyType({entry["name"]: _column(entry) for entry in described["columns"]})


def _column(entry: Mapping[str, Any]) -> Column:
    known = {key: value for key, value in entry.items() if key != "type"}
    return Column(**{**known, "components": tuple(known["components"])})


def read_sweep_facts(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return the facts of a sweep as a whole: name, program, host, runs of each row, failures, completeness.

    `path` and errors are those of `read_sweep`.
    """
    return MappingProxyType(_read(Path(path))[1]["facts"])


def _read(path: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    source = path / TABLE if path.is_dir() else path
    if not source.is_file():
        what = "the folder has no table; a sweep writes it: unperturbed run SPEC" if path.is_dir() else "no such table"
        raise DataError(f"{path}: {what}")
    try:
        frame, described = (_read_csv if source.suffix == ".csv" else _read_parquet)(source)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError) as error:
        raise DataError(f"{source}: not a readable table ({error})") from None
    names = [entry["name"] for entry in described["columns"]]
    if frame.height != described["rows"] or frame.columns != names:
        raise DataError(
            f"{source}: the table has {frame.height} rows of {', '.join(frame.columns)}, its description has "
            f"{described['rows']} of {', '.join(names)}; write both again: unperturbed run SPEC"
        )
    return frame, described


def _read_parquet(source: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    frame, metadata = read_parquet_file(source)
    text = metadata.get(_METADATA_KEY)
    if text is None:
        raise DataError(f"{source}: a Parquet file, but not the table of a sweep (no description of its columns)")
    return frame, _described(source, text)


def _read_csv(source: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    beside = source.with_suffix(".json")
    if not beside.is_file():
        raise DataError(
            f"{source}: {beside.name}, the description of its columns, is missing beside it; name table.parquet, "
            "which holds all"
        )
    described = _described(beside, beside.read_text(encoding="utf-8"))
    types = {entry["name"]: _TYPES[entry["type"]] for entry in described["columns"]}
    with source.open("rb") as file:  # polars takes a path as a glob
        return pl.read_csv(file, schema_overrides=types), described


def _described(source: Path, text: str) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads(text)
        newer = described["format"] > _FORMAT
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{source}: not the description of a sweep's table") from None
    if newer:
        raise DataError(f"{source}: written by a newer version (format {described['format']}); update unperturbed")
    damaged = DataError(
        f"{source}: the description of the sweep's table is damaged; write it again: unperturbed run SPEC"
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
