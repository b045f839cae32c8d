"""Rows of `perf stat -I MS` with `-x SEPARATOR` or `-j`: perf-stat(1), "CSV FORMAT" and "JSON FORMAT".

perf writes decimals according to the locale: the separator of `-x,` cannot be distinguished from a decimal comma, so
such a file is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from unperturbed.collectors.imports.format import refuse
from unperturbed.collectors.imports.perf.rows import TIME, Lines, Rows

FIRST_ROW = re.compile(rb"\s*\d+(?P<decimal>[.,])\d{9}(?P<separator>[^\w\s]|\t| )")
_WITHOUT_INTERVALS = re.compile(rb"\s*(\d+([.,]\d+)?|<not (counted|supported)>)[^\w\s<.]")
_SPOILT_JSON = re.compile(rb",\s*(?=\})|(?<=\}),$")
"""Commas that JSON does not allow: some versions of perf write them behind the last key, or the row."""
_TERM = rb"[A-Za-z_][\w.:@-]*(?:=[^,/\s;]*)?"
_NAME = re.compile(rb",([\w.-]+/" + _TERM + rb"(?:," + _TERM + rb")+/)")
_FIRST_INTERVALS = 1 << 20
"""Bytes in which each event has a row: perf writes all of them in each interval."""
_MARK = b"\x1f"
"""Stands for a comma in the name of an event."""
_VALUE = re.compile(r"\d+([.,]\d+)?|<not (counted|supported)>")
WITHOUT_NAMES = "no heading names the metrics of --metric-only: keep the line that perf writes before the first row"
PLACES = ("cpu", "thread", "core", "die", "cluster", "cache", "socket", "node")
"""Keys of JSON rows that identify the processor or thread of a row."""


def read_csv(recording: bytes, path: Path, first_line: int) -> Rows:
    """Return the rows of `-x`."""
    import polars as pl  # noqa: PLC0415  slow to load

    recording = _with_marks(recording)
    lines = Lines(recording, first_line)
    number, line = next(iter(lines))
    match = FIRST_ROW.match(line)
    if match is None:
        if _WITHOUT_INTERVALS.match(line):
            refuse(path, "the row does not begin with a time: record with intervals (perf stat -I 20 -x, …)", number)
        refuse(path, "not a row of perf stat -I with -x or -j", number)
    separator, decimal = match["separator"].decode("latin-1"), match["decimal"].decode()
    if separator == decimal:
        alike = "ambiguous row: commas are used both as decimal commas and to separate columns"
        refuse(path, f"{alike}; record with LC_ALL=C, or with -x ';'", number)
    fields = [field.strip() for field in line.decode("utf-8", "replace").split(separator)]
    names = _columns(fields, path, number)
    wanted = [name for name in names if name in (TIME, "place", "value", "unit", "event", "cgroup", "running", "share")]
    # Add a header: otherwise polars would take the number of columns from an empty or short first line.
    heading = separator.join((*names, *(f"rest {at}" for at in range(len(fields) - len(names)))))
    file = BytesIO(heading.encode() + b"\n" + recording[recording.index(line) :])
    try:
        frame = pl.read_csv(
            file,
            separator=separator,
            comment_prefix="#",
            quote_char=None,
            infer_schema=False,
            truncate_ragged_lines=True,
            encoding="utf8-lossy",
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        refuse(path, f"cannot read the rows ({str(error).strip().partition(chr(10))[0]})", number)
    rest = [name for name in frame.columns if name not in wanted]
    goes_on = pl.any_horizontal(pl.col(rest).is_not_null()) if rest else pl.lit(value=False)
    frame = frame.filter(pl.any_horizontal(pl.all().is_not_null())).select(*wanted, goes_on.alias("goes on"))
    times = pl.col(TIME).str.strip_chars()
    frame = frame.with_columns(times, pl.lit("").alias("place") if "place" not in names else pl.col("place"))
    if _MARK in recording:
        frame = frame.with_columns(pl.col("event").str.replace_all(_MARK.decode(), ",", literal=True))
    if decimal == ",":
        frame = frame.with_columns(pl.col(TIME, "value", "share").str.replace(",", ".", literal=True))
    return Rows(lines, path, frame)


def _with_marks(recording: bytes) -> bytes:
    """Return a recording of `-x,` with a mark for each comma in a name such as `cpu/event=0x3c,umask=0x00/`."""
    if b"/" not in recording or b"," not in recording:
        return recording
    for name in sorted(set(_NAME.findall(recording[:_FIRST_INTERVALS])), key=len, reverse=True):
        recording = recording.replace(b"," + name, b"," + name.replace(b",", _MARK))
    return recording


def _columns(fields: Sequence[str], path: Path, line: int) -> list[str]:
    """Return the columns' names, inferred from the fields of the first row."""
    at = next((at for at, field in enumerate(fields[1:6], 1) if _VALUE.fullmatch(field)), 0)
    names = [TIME]
    if at == 2:
        names.append("place")
        if len(fields) > 3 and _VALUE.fullmatch(fields[3]):  # number of processors that the row sums
            names.append("processors")
    if at not in (1, 2):
        refuse(path, "this row has no count: its columns are not those of perf stat -x", line)
    if not re.search(r"[^\d.,\s]", "".join(fields)):
        refuse(path, WITHOUT_NAMES, line)
    names += ["value", "unit", "event"]
    if len(fields) > len(names) and re.search(r"[^\d.,%]", fields[len(names)]):
        names.append("cgroup")
    if len(fields) > len(names) and fields[len(names)].endswith("%"):
        names.append("variance")
    return [*names, "running", "share"]


def read_json(recording: bytes, path: Path, first_line: int) -> Rows:
    """Return the rows of `-j`."""
    import polars as pl  # noqa: PLC0415

    lines = Lines(recording, first_line)
    content = b"\n".join(line for _, line in lines)
    schema = {
        "interval": pl.Float64,
        **dict.fromkeys(("counter-value", "unit", "event", "cgroup", *PLACES), pl.String),
        **dict.fromkeys(("event-runtime", "pcnt-running"), pl.Float64),
    }
    try:
        file = BytesIO(content)
        frame = pl.read_ndjson(file, schema=schema)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        file = BytesIO(b"\n".join(_SPOILT_JSON.sub(b"", line) for line in content.splitlines()))
        try:
            frame = pl.read_ndjson(file, schema=schema)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            _refuse_json(lines, path)
    places = [name for name in PLACES if frame[name].null_count() < len(frame)]
    frame = frame.select(
        pl.col("interval").alias(TIME),
        pl.concat_str([pl.col(name).fill_null("") for name in places], separator=" ").alias("place")
        if places
        else pl.lit("").alias("place"),
        pl.col("counter-value").str.replace(",", ".", literal=True).alias("value"),
        "unit",
        "event",
        "cgroup",
        pl.col("event-runtime").alias("running"),
        pl.col("pcnt-running").alias("share"),
        pl.lit(value=True).alias("goes on"),
    )
    return Rows(lines, path, frame)


def _refuse_json(lines: Lines, path: Path) -> None:
    for number, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if re.search(rb'"interval" : \d+,\d{9},', line):
                refuse(path, "JSON does not allow decimal commas: record with LC_ALL=C", number)
            refuse(path, f"truncated or damaged JSON from perf stat -j ({error})", number)
        if not isinstance(row, dict):
            refuse(path, "this line is not a JSON object from perf stat -j", number)
    refuse(path, "the rows are not from perf stat -j", next(iter(lines))[0])
