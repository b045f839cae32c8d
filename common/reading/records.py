"""Tables in JSON: a list of records, one record a line, columns by name, or one such list inside another object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from unperturbed.errors import DataError


def read_records(content: bytes, path: Path) -> pl.DataFrame:
    """Return the table of a JSON file; columns with words among numbers become text."""
    try:
        text = content.decode("utf-8-sig")
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
            given = [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}:{error.colno}: not JSON ({error.msg}): check this place") from None
    except RecursionError:
        raise DataError(f"{path}: nested too deeply for a table: give a list of records") from None
    columns = _columns(given)
    if not columns:
        raise DataError(f'{path}: no table: expected a list of records like [{{"n": 1, "seconds": 0.5}}]')
    try:
        return pl.DataFrame([_series(name, values) for name, values in columns.items()])
    except OverflowError:
        raise DataError(f"{path}: a whole number has more than 64 bits: use a larger unit") from None


def _columns(given: Any) -> Mapping[str, list[Any]]:
    """Return the columns of a JSON value; none if it is no table."""
    if isinstance(given, list) and given and all(isinstance(record, dict) for record in given):
        names = dict.fromkeys(name for record in given for name in record)
        return {name: [record.get(name) for record in given] for name in names}
    if isinstance(given, dict):
        lengths = {len(column) if isinstance(column, list) else -1 for column in given.values()}
        if len(lengths) == 1 and -1 not in lengths and not any(map(_is_records, given.values())):
            return given
        inside = [value for value in given.values() if _is_records(value)]
        if len(inside) == 1:  # as Google Benchmark and hyperfine write
            return _columns(inside[0])
    return {}


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(record, dict) for record in value)


def _series(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return pl.Series(name, values, dtype=pl.Float64, strict=False)
    if len(kinds) > 1:
        return pl.Series(name, [value if value is None else _text(value) for value in values], dtype=pl.String)
    if kinds & {list, dict}:  # no variable, whatever they hold
        return pl.Series(name, [None if value is None else [] for value in values], dtype=pl.List(pl.Boolean))
    return pl.Series(name, values)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
