"""`perf stat -I MS` with `-x SEPARATOR` or `-j`: a row for each event and interval, or also each processor or thread.

perf-stat(1) describes the format, in "CSV FORMAT" and "JSON FORMAT". perf writes decimals according to the locale: the
separator of `-x,` cannot be distinguished from a decimal comma, so such a file is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Kind, Metric, Trace
from unperturbed.collectors.imports.format import (
    EXACT,
    ImportFormat,
    from_ends,
    known_kind,
    leave_out_uncounted,
    make_trace,
    refuse,
    sum_at,
    without_part,
)
from unperturbed.collectors.sources.perf.names import ALIASES, GENERIC

if TYPE_CHECKING:
    import polars as pl

_STARTED = b"# started on "
_FIRST = re.compile(rb"\s*\d+(?P<decimal>[.,])\d{9}(?P<separator>[^\w\s]|\t| )")
_WITHOUT_INTERVALS = re.compile(rb"\s*(\d+([.,]\d+)?|<not (counted|supported)>)[^\w\s<.]")
_FOR_PEOPLE = re.compile(rb"\s*\d+[.,]\d{9} {3,}(\d|<not )|#\s+time\s+counts unit events")
_WITHOUT_TIME = re.compile(rb"\s*Performance counter stats for ")
_METRIC_ONLY = re.compile(rb"#?\s*time[,;:|\t ]")
_SPOILT_JSON = re.compile(rb",\s*(?=\})|(?<=\}),$")
"""Commas that JSON does not allow: some versions of perf write them behind the last key, or the row."""
_VALUE = re.compile(r"\d+([.,]\d+)?|<not (counted|supported)>")
_TIME, _SUMMARY = "time", "summary"
_NOT_COUNTED, _NOT_SUPPORTED = "<not counted>", "<not supported>"
_PLACES = ("cpu", "thread", "core", "die", "cluster", "cache", "socket", "node")
"""Keys of JSON rows that identify the processor or thread of a row."""
_MODIFIERS = re.compile(r":(?P<letters>[ukhGHpPIDWSe]+)$")
_CLOCKS = {"duration_time": "wall time", "user_time": "CPU time in user space", "system_time": "CPU time in the kernel"}
_UNITS = {"msec": "ms", "": "events"}


@dataclass(frozen=True)
class _Rows:
    """Rows of one recording, each with one event in one interval and at one place (processor or thread)."""

    lines: _Lines  # Line numbers of the rows, from 1, in order: computed only for messages
    path: Path
    # `time`, `place` (may be empty), `value`, `unit`, `event`, `running`, `share`: text; `goes on`: whether the row has
    # further columns.
    frame: pl.DataFrame

    def refuse(self, left: pl.DataFrame, at: Any, what: str) -> NoReturn:
        """Raise an error about a row, given by its index in the filtered frame `left`."""
        refuse(self.path, what, self.lines[int(left["row"][int(at)])])


class _Lines:
    """Line numbers of a recording's rows, computed when a message needs one."""

    def __init__(self, content: bytes, first: int) -> None:
        self._content, self._first = content, first

    def __getitem__(self, row: int) -> int:
        numbers = [number for number, _ in self]
        return numbers[min(row, len(numbers) - 1)]  # a damaged file may have rows that are not lines

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for number, line in enumerate(BytesIO(self._content), self._first):
            if line.strip() and not line.startswith(b"#"):
                yield number, line.rstrip(b"\r\n")


def _recognise(head: bytes) -> bool:
    all_lines = [line for line in head.splitlines() if line.strip()]
    lines = [line for line in all_lines if not line.startswith(b"#")]
    if any(_FOR_PEOPLE.match(line) for line in all_lines[:2]) or any(map(_WITHOUT_TIME.match, all_lines[:3])):
        return True
    if not lines:
        return head.lstrip().startswith(_STARTED)
    line = lines[0]
    if line.startswith(b"{"):
        return any(b'"interval"' in row and (b'"counter-value"' in row or b'"metric-value"' in row) for row in lines)
    if head.lstrip().startswith(_STARTED) and _METRIC_ONLY.match(line):
        return True
    match = _FIRST.match(line)
    return match is not None and (
        head.lstrip().startswith(_STARTED) or (line.count(match["separator"]) >= 5 and len(line.split()) <= 6)
    )


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    traces = []
    for recording, line in _recordings(content):
        first = next((text for _, text in _Lines(recording, line)), None)
        if first is None:
            refuse(path, "no rows below perf's header", line)
        rows = _read_json(recording, path, line) if first.startswith(b"{") else _read_csv(recording, path, line)
        traces.append(_to_trace(rows, _started(recording)))
    return traces


def _recordings(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each recording of a file (`perf stat --append` adds more) and the number of its first line."""
    begins = [0]
    while (at := content.find(b"\n" + _STARTED, begins[-1])) >= 0:
        begins.append(at + 1)
    if len(begins) > 1 and not content[: begins[1]].strip():
        del begins[0]
    for begin, end in zip(begins, [*begins[1:], len(content)], strict=True):
        yield content[begin:end], content.count(b"\n", 0, begin) + 1


def _started(recording: bytes) -> str | None:
    """Return a recording's start time in ISO 8601; perf writes local time without a time zone."""
    if recording.startswith(_STARTED):
        text = " ".join(recording[len(_STARTED) :].partition(b"\n")[0].decode("ascii", "replace").split())
        with suppress(ValueError):
            return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").isoformat()
    return None


def _read_csv(recording: bytes, path: Path, first_line: int) -> _Rows:
    import polars as pl  # noqa: PLC0415  slow to load

    lines = _Lines(recording, first_line)
    number, line = next(iter(lines))
    match = _FIRST.match(line)
    _refuse_other_output(line, path, number)
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
    wanted = [
        name for name in names if name in (_TIME, "place", "value", "unit", "event", "cgroup", "running", "share")
    ]
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
    times = pl.col(_TIME).str.strip_chars()
    frame = frame.with_columns(times, pl.lit("").alias("place") if "place" not in names else pl.col("place"))
    if decimal == ",":
        frame = frame.with_columns(pl.col(_TIME, "value", "share").str.replace(",", ".", literal=True))
    return _Rows(lines, path, frame)


_METRICS = "the rows have no counts, only metrics that perf computed: record without --metric-only"


def _refuse_other_output(line: bytes, path: Path, number: int) -> None:
    """Refuse what perf stat writes without -x and -j, without -I, and with --metric-only."""
    if _FOR_PEOPLE.match(line):
        refuse(path, "this is perf's table for people: record with -x, or -j (perf stat -I 20 -x, …)", number)
    if _WITHOUT_TIME.match(line):
        refuse(path, "these are totals of a whole run: record with intervals (perf stat -I 20 -x, …)", number)
    bare = line.startswith(b"{") and b'"counter-value"' not in line and (b'"metric-value"' in line or line == b"{}")
    if bare or _METRIC_ONLY.match(line):
        refuse(path, _METRICS, number)


def _columns(fields: Sequence[str], path: Path, line: int) -> list[str]:
    """Return the columns' names, inferred from the fields of the first row."""
    at = next((at for at, field in enumerate(fields[1:6], 1) if _VALUE.fullmatch(field)), 0)
    names = [_TIME]
    if at == 2:
        names.append("place")
        if len(fields) > 3 and _VALUE.fullmatch(fields[3]):  # number of processors that the row sums
            names.append("processors")
    if at not in (1, 2):
        refuse(path, "this row has no count: its columns are not those of perf stat -x", line)
    if not re.search(r"[^\d.,\s]", "".join(fields)):
        refuse(path, _METRICS, line)
    names += ["value", "unit", "event"]
    if len(fields) > len(names) and re.search(r"[^\d.,%]", fields[len(names)]):
        names.append("cgroup")
    if len(fields) > len(names) and fields[len(names)].endswith("%"):
        names.append("variance")
    return [*names, "running", "share"]


def _read_json(recording: bytes, path: Path, first_line: int) -> _Rows:
    import polars as pl  # noqa: PLC0415

    lines = _Lines(recording, first_line)
    _refuse_other_output(next(line for _, line in lines), path, first_line)
    content = b"\n".join(line for _, line in lines)
    schema = {
        "interval": pl.Float64,
        **dict.fromkeys(("counter-value", "unit", "event", "cgroup", *_PLACES), pl.String),
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
    places = [name for name in _PLACES if frame[name].null_count() < len(frame)]
    frame = frame.select(
        pl.col("interval").alias(_TIME),
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
    return _Rows(lines, path, frame)


def _refuse_json(lines: _Lines, path: Path) -> None:
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


_LATEST_S = 4e9  # times are kept as int64 nanoseconds


def _to_trace(rows: _Rows, started: str | None) -> Trace:
    import polars as pl  # noqa: PLC0415

    frame = rows.frame.with_row_index("row")
    if frame.schema[_TIME] == pl.String:
        summary = pl.col(_TIME) == _SUMMARY
        frame = frame.filter(~summary.fill_null(value=False))
    # Rows that only add a computed metric to the previous event do not name an event.
    bare = pl.col("event").fill_null("") == ""
    frame = frame.filter(~(bare & (pl.col("value").fill_null("") == "") & pl.col("goes on")))
    frame = frame.with_columns(
        pl.col(_TIME).cast(pl.Float64, strict=False),
        pl.col("value").cast(pl.Float64, strict=False).alias("count"),
        pl.col("running", "share").cast(pl.Float64, strict=False),
        pl.col("event").fill_null(""),
    )
    _refuse_damaged(frame, rows)
    event_of: dict[str, tuple[str, str]] = {}
    if "cgroup" in frame.columns and frame["cgroup"].n_unique() > 1:
        apart = pl.concat_str([pl.col("event"), pl.col("cgroup").fill_null("")], separator=" ").str.strip_chars_end()
        frame = frame.with_columns(pl.col("event").alias("plain"), apart.alias("event"))
        for name, plain, cgroup in frame.select("event", "plain", "cgroup").unique().rows():
            event_of[name] = plain, cgroup or ""
    time = frame[_TIME].to_numpy()
    beyond = np.flatnonzero(~(np.abs(time) < _LATEST_S))
    if len(beyond):
        rows.refuse(frame, beyond[0], "this time is too large for 64-bit nanoseconds")
    steps = np.diff(time)
    if len(steps) and steps.min() < 0:
        what = "this row is earlier than the previous row: rows are out of order, or from a second recording"
        rows.refuse(frame, np.argmax(steps < 0) + 1, what)
    interval = np.concatenate((np.zeros(1, np.int64), np.cumsum(steps > 0, dtype=np.int64)))
    events, codes = _codes(frame["event"])
    columns, running, enabled = _pivot(frame, rows, interval, codes, events)
    ends = np.rint(time[np.concatenate((np.flatnonzero(steps > 0), [len(time) - 1]))] * 1e9).astype(np.int64)
    units = dict(frame.select("event", "unit").unique("event").rows())
    begin, end = from_ends(ends, 0)
    chosen, kept, notes = leave_out_uncounted(columns)
    metrics: list[Metric] = []
    values: dict[str, NDArray[Any]] = {}
    for name, column in chosen.items():
        scaled = bool((running[name][kept] < 0.9995 * enabled[name][kept]).any())
        event, cgroup = event_of.get(name, (name, ""))
        metric = describe_event(event, units.get(name) or "", scaled=scaled)
        if cgroup:
            components = tuple(f"{component} {cgroup}" for component in metric.components)
            metric = replace(
                metric, name=name, meaning=f"{metric.meaning or event}, of {cgroup}", components=components
            )
        metrics.append(metric)
        values[name] = column[kept]
        if scaled:
            for what, times in (("enabled", enabled[name]), ("running", running[name])):
                said = f"time during which {name} was {'enabled' if what == 'enabled' else 'on a counter'}"
                metrics.append(Metric(f"{name}.{what}_ns", "os", unit="ns", source="perf stat", meaning=said))
                values[f"{name}.{what}_ns"] = np.rint(times[kept])
    attributes = {} if started is None else {"started": started}
    bounds = (begin[kept], end[kept])
    return without_part(make_trace(metrics, values, bounds, rows.path, notes=notes, attributes=attributes))


def _refuse_damaged(frame: pl.DataFrame, rows: _Rows) -> None:
    """Refuse rows with missing or malformed columns."""
    import polars as pl  # noqa: PLC0415

    if not len(frame):
        refuse(rows.path, "nothing to import: no row has a count")
    uncounted = pl.col("value").is_in([_NOT_COUNTED, _NOT_SUPPORTED])
    wrong = (
        pl.col(_TIME).is_null()
        | (pl.col("event") == "")
        | (pl.col("count").is_null() & ~uncounted.fill_null(value=False))
        | pl.col("running").is_null()
        | pl.col("share").is_null()
    )
    damaged = frame.filter(wrong)
    if not len(damaged):
        return
    row = damaged.row(0, named=True)
    last = row["row"] == len(rows.frame) - 1
    if row[_TIME] is None:
        what = "this row does not begin with a time in seconds"
    elif last:
        what = "the last row is truncated: the recording is incomplete"
    elif row["event"] and row["count"] is not None:
        what = "unexpected columns after the event: if the event's name contains the separator, record with -x ';'"
    else:
        what = "not a row of perf stat: a column is missing or is not a number"
    rows.refuse(damaged, 0, what)


def _codes(texts: pl.Series) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct texts in the order of their first rows, and for each row the index of its text."""
    import polars as pl  # noqa: PLC0415

    different = texts.unique(maintain_order=True)
    codes = texts.cast(pl.Enum(different)).to_physical()
    return different.to_list(), codes.to_numpy().astype(np.int64)


def _pivot(
    frame: pl.DataFrame,
    rows: _Rows,
    interval: NDArray[np.int64],
    event: NDArray[np.int64],
    events: Sequence[str],
) -> tuple[dict[str, NDArray[Any]], ...]:
    """Return counts, running times and enabled times by event, summed over processors or threads."""
    places, place = _codes(frame["place"])
    cell = interval * len(events) + event
    size = (int(interval[-1]) + 1) * len(events)
    once = np.bincount(cell * len(places) + place, minlength=1)
    if once.max() > 1:
        order = np.argsort(cell * len(places) + place, kind="stable")
        twice = order[1:][np.diff((cell * len(places) + place)[order]) == 0].min()
        rows.refuse(frame, twice, f"{events[event[twice]]} appears twice for this interval")
    if len(places) == 1 and len(cell) < size:
        missing = int(np.flatnonzero(np.bincount(cell, minlength=size) == 0)[0])
        at, name = missing // len(events), events[missing % len(events)]
        cut_off = "; the recording is truncated" if at == interval[-1] else ""
        rows.refuse(frame, np.flatnonzero(interval == at)[-1], f"{name} has no row in this interval{cut_off}")
    counts = frame["count"].to_numpy()
    there = ~np.isnan(counts)
    runs, share = frame["running"].to_numpy(), frame["share"].to_numpy()

    def summed(values: NDArray[Any]) -> NDArray[Any]:
        return sum_at(cell[there], values[there], size).reshape(-1, len(events))

    table, running = summed(_exact(frame, counts)), summed(runs)
    wanted = summed(np.divide(100 * runs, share, out=runs.copy(), where=share > 0))
    never = summed(np.ones(len(cell))) == 0
    table = np.ma.MaskedArray(table, never) if table.dtype.kind != "f" else np.where(never, np.nan, table)
    return tuple({name: values[:, at].copy() for at, name in enumerate(events)} for values in (table, running, wanted))


def _exact(frame: pl.DataFrame, counts: NDArray[np.float64]) -> NDArray[Any]:
    """Return the counts; if float64 cannot hold one of them and all are whole, as uint64, 0 where there is none."""
    import polars as pl  # noqa: PLC0415

    if np.nanmax(counts, initial=0) < EXACT:
        return counts
    whole = frame["value"].str.strip_chars().str.replace(r"\.0*$", "").cast(pl.UInt64, strict=False)
    return counts if (whole.is_null().to_numpy() & ~np.isnan(counts)).any() else whole.fill_null(0).to_numpy()


def describe_event(name: str, unit: str = "", *, source: str = "perf stat", scaled: bool = False) -> Metric:
    """Return the metric for a perf event name; the metrics for two names of one event have the same components.

    `unit`: The unit that perf writes; empty for counts.
    """
    modifiers = _MODIFIERS.search(name)
    letters = modifiers["letters"] if modifiers else ""
    base = name[: modifiers.start()] if modifiers else name
    base = ALIASES.get(base, base)
    known = GENERIC.get(base)
    places = [place for place, letter in (("user", "u"), ("kernel", "k")) if letter in letters] or ["user", "kernel"]
    counted_unit = known.unit if known is not None and not unit else _UNITS.get(unit, unit)
    return Metric(
        name,
        _kind(name, base),
        unit=counted_unit,
        source=source,
        meaning=known.meaning if known else _CLOCKS.get(base, ""),
        components=tuple(f"{source}:{base}:{place}" for place in places),
        scaled=scaled,
    )


def _kind(name: str, base: str) -> Kind:
    kind = known_kind(base)
    if kind is not None:
        return kind
    tracepoint = "/" not in name and re.fullmatch(r"[\w-]+:[\w-]+", base) is not None
    return "os" if tracepoint or base in _CLOCKS else "hardware"


FORMAT = ImportFormat("perf-stat", "perf stat -I output", (".csv", ".json", ".txt"), _recognise, _read)
