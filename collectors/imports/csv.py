"""Comma-separated values with a line of names: a row an interval, a column a metric."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports._columns import OPTIONS, read_table
from unperturbed.collectors.imports.format import ImportFormat, decode, refuse

_SEPARATORS = ",;\t"
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")
_NUMBER = re.compile(r"\s*-?\d[\d.,eE+-]*\s*")


def _recognise(head: bytes) -> bool:
    text = head.decode("utf-8-sig", "replace")
    lines = [line for line in text.splitlines()[:30] if line.strip() and not line.startswith("#")]
    if len(lines) < 2 or (not lines[0].isprintable() and "\t" not in lines[0]):
        return False
    separator = _separator(lines[0])
    names, values = lines[0].split(separator), lines[1].split(separator)
    if len(names) < 2 or len(values) != len(names) or lines[0].lstrip().startswith(("{", "[")):
        return False
    return not any(_NUMBER.fullmatch(name) for name in names) and any(_NUMBER.fullmatch(value) for value in values)


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=line.count)


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    import polars as pl  # noqa: PLC0415  slow to load

    text = decode(content, path)
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if first is None:
        refuse(path, "there is no heading: the first line is to have the names of the columns")
    separator = _separator(lines[first])
    names = [name.strip() for name in next(csv.reader([lines[first]], delimiter=separator))]
    _check_names(names, path, first + 1)
    data = [number for number, line in enumerate(lines[first + 1 :], first + 1) if line.strip() and line[0] != "#"]
    heading = separator.join(f"column {at}" for at in range(len(names)))
    body = "\n".join((heading, *(lines[at] for at in data), ""))
    # polars fills short rows with nulls, and takes fields too many for a fault without a line.
    if '"' in body or body.count(separator) != (len(names) - 1) * (len(data) + 1):
        _refuse_ragged(lines, separator, len(names), path)
    file = BytesIO(body.encode())
    try:
        frame = pl.read_csv(file, separator=separator, infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        _refuse_ragged(lines, separator, len(names), path)
        refuse(path, f"no table can be read from it ({str(error).strip().partition(chr(10))[0]})")
    frame = frame.rename(dict(zip(frame.columns, names, strict=True)))
    if separator != ",":
        sample = frame.head(50)
        commas = [
            name for name in names if any(_DECIMAL_COMMA.fullmatch((value or "").strip()) for value in sample[name])
        ]
        frame = frame.with_columns(pl.col(commas).str.replace(",", ".", literal=True))

    return read_table(frame, path, options, lambda row: data[row] + 1, {})


def _check_names(names: list[str], path: Path, line: int) -> None:
    if len(names) < 2:
        refuse(path, "one column only: the heading is to have the names of a time and of metrics", line)
    if all(_NUMBER.fullmatch(name) for name in names):
        refuse(path, "numbers where the names of the columns are to be: give the table a heading", line)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        refuse(path, f"two columns are named {twice!r}", line)


def _refuse_ragged(lines: list[str], separator: str, columns: int, path: Path) -> None:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = len(next(csv.reader([line], delimiter=separator)))
        if fields == columns:
            continue
        cut_off = ": the file is cut off" if number == len(lines) and fields < columns else ""
        commas = "; are its decimals commas? Then separate its columns by ;" if fields > columns else ""
        advice = commas if separator == "," else ""
        refuse(path, f"{fields} fields, and the heading names {columns} columns{cut_off}{advice}", number)


FORMAT = ImportFormat("csv", "a table (CSV)", (".csv", ".tsv", ".txt"), _recognise, _read, OPTIONS)
