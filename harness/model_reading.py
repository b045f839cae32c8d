"""The table that a model is learnt from, read: a sweep's, or any CSV or Parquet file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from unperturbed.collectors.table import Column, read_sweep
from unperturbed.errors import DataError

__all__ = ["read_table"]

_ABSENT = ["", "NA", "N/A", "null", "NULL", "None"]


def read_table(path: Path) -> tuple[pl.DataFrame, Mapping[str, Column]]:
    """Read a sweep's table, with what is known of its columns, or any CSV or Parquet file, of which nothing is known.

    Raises
    ------
    DataError
        There is no table, or none that can be read.
    """
    if path.is_dir() or _is_sweep(path):
        return read_sweep(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such table; name a CSV or Parquet file, or the folder of a sweep's campaign")
    try:
        return _read(path), {}
    except (pl.exceptions.PolarsError, UnicodeDecodeError, csv.Error) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path}: no table can be read from it ({first}); it is to be CSV with a line of names, or Parquet"
        ) from None


def _is_sweep(path: Path) -> bool:
    if path.name == "table.csv" and path.with_suffix(".json").is_file():
        return True
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return "unperturbed-table" in pl.read_parquet_metadata(path)
    except pl.exceptions.PolarsError:
        return False


def _read(path: Path) -> pl.DataFrame:
    if path.suffix.lower() in (".parquet", ".pq"):
        return pl.read_parquet(path)
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        names = next(csv.reader(file, delimiter=separator), [])
    if len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        raise DataError(
            f"{path}: its first line is one column, {names[0]!r}; separate columns by commas, or by tabs in a .tsv file"
        )
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{path}: column {number} has no name; the first line names all columns")
        if names.count(name) > 1:
            raise DataError(f"{path}: two columns are named {name}; give each its own name")
    frame = pl.read_csv(path, separator=separator, null_values=_ABSENT, infer_schema_length=None)
    return frame.rename(dict(zip(frame.columns, names, strict=True)))
