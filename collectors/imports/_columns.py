"""Tables with a column a metric: which columns are what, and the runs in them. For CSV and Parquet alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import INTERVAL_COLUMNS, Kind, Metric, Trace
from unperturbed.collectors.imports.format import (
    IntArray,
    common_options,
    from_ends,
    known_kind,
    leave_out_uncounted,
    make_trace,
    refuse,
    with_attributes,
)
from unperturbed.common.wording import listing, no_such_column

if TYPE_CHECKING:
    import polars as pl

OPTIONS: Mapping[str, str] = {
    "time": "the column with the end of each interval (time, timestamp, end_ns or the like)",
    "begin": "the column with its beginning (the end of the row before)",
    "unit": "unit of both: s, ms, us or ns (by the end of the name, else s)",
    "run": "the column that identifies runs (run, if there is one; else a file is a run)",
    "configuration": "the column with the configuration of each run (configuration, if there is one)",
    "metrics": "columns that are metrics, separated by commas (all other numeric ones)",
    "values": "counts: each row has the count of its interval; cumulative: counters run on from row to row (counts)",
    "kind": "where counts with unknown names come from: hardware, simulated, os, software or derived (os)",
}

_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_TIMES = ("end_ns", "time", "timestamp", "seconds", "time_s", "time_ms", "time_us", "time_ns", "t")
_OF_EXPORTS = ("pass", "repetition", "interval", "start", "duration", *INTERVAL_COLUMNS)
"""Columns of this tool's own tables that are not metrics."""

_LATEST_NS = 2.0**62
"""Times and their differences are int64: 146 years are as long as any."""

LineOf = Callable[[int], int]
"""Takes a row's number, from 0; returns the number of its line, or 0 where the format has no lines."""


def read_table(
    frame: pl.DataFrame, path: Path, options: Mapping[str, str], line_of: LineOf, described: Mapping[str, Metric]
) -> list[Trace]:
    """Return the runs of a table."""
    import polars as pl  # noqa: PLC0415

    roles = _roles(frame, path, options)
    if not len(frame):
        refuse(path, "the table has a heading and no rows")
    names, left_out = _metric_columns(frame, path, options, roles, line_of)
    timed: list[str] = [role for role in ("time", "begin") if role in roles]
    times = {role: _numbers(frame, roles[role], path, line_of, whole=True) for role in timed}
    factor = _UNITS[_unit(roles["time"], path, options)]
    columns = {name: _numbers(frame, name, path, line_of) for name in names}
    keys = [roles[role] for role in ("configuration", "run") if role in roles]
    groups: dict[tuple[str, ...], IntArray] = {(): np.arange(len(frame))}
    if keys:
        rows = frame.select(pl.col(keys).cast(pl.String).fill_null("")).with_row_index("row")
        parts = rows.group_by(keys, maintain_order=True).agg("row").rows()
        groups = {tuple(part[:-1]): np.asarray(part[-1], np.int64) for part in parts}
    cumulative = common_options(options, path, "values", ("counts", "cumulative"), "counts") == "cumulative"
    kind = cast(Kind, common_options(options, path, "kind", get_args(Kind), "os"))
    metrics = [described.get(name) or Metric(name, known_kind(name) or kind, source=path.suffix[1:]) for name in names]
    traces = []
    for key, here in groups.items():
        trace = _trace(metrics, columns, times, factor, here, path, line_of, cumulative=cumulative, notes=left_out)
        said = dict(zip([role for role in ("configuration", "run") if role in roles], key, strict=False))
        traces.append(with_attributes(trace, **said))
    return traces


def _roles(frame: pl.DataFrame, path: Path, options: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each role that there is one for."""
    roles = {}
    for role in ("time", "begin", "run", "configuration"):
        if role in options:
            if options[role] not in frame.columns:
                refuse(path, f"{role}={options[role]}: {no_such_column(options[role], frame.columns)}", 1)
            roles[role] = options[role]
    folded = {name.casefold().strip(): name for name in reversed(frame.columns)}
    if "time" not in roles:
        known = next((folded[name] for name in _TIMES if name in folded), None)
        if known is None:
            refuse(
                path,
                f"which column is the time? Give it as time=COLUMN; there are {listing(frame.columns[:12])}",
                1,
            )
        roles["time"] = known
        if known == "end_ns" and "begin_ns" in folded and "begin" not in roles:
            roles["begin"] = "begin_ns"
    for role in ("run", "configuration"):
        if role not in roles and role in folded:
            roles[role] = folded[role]
    return roles


def _unit(time: str, path: Path, options: Mapping[str, str]) -> str:
    ending = re.search(r"[_\[( ](s|ms|us|ns)[\])]?$", time)
    return common_options(options, path, "unit", tuple(_UNITS), ending[1] if ending else "s")


def _metric_columns(
    frame: pl.DataFrame, path: Path, options: Mapping[str, str], roles: Mapping[str, str], line_of: LineOf
) -> tuple[list[str], list[str]]:
    """Return the columns that are metrics, and a sentence on those that are left out."""
    if "metrics" in options:
        names = [name.strip() for name in options["metrics"].split(",") if name.strip()]
        for name in names:
            if name not in frame.columns:
                refuse(path, f"metrics: {no_such_column(name, frame.columns)}", 1)
        return names, []
    others = [name for name in frame.columns if name not in roles.values() and name not in _OF_EXPORTS]
    names = [name for name in others if _is_numeric(frame, name)]
    texts = [name for name in others if name not in names]
    if not names:
        refuse(path, f"no column but {listing(roles.values())} holds numbers, so there is no metric", line_of(0))
    if not texts:
        return names, []
    return names, [
        f"{listing(texts)} {'holds no numbers and is' if len(texts) == 1 else 'hold no numbers and are'} left out"
    ]


def _is_numeric(frame: pl.DataFrame, name: str) -> bool:
    """Return whether a column's values are numbers, by the first of them that there is."""
    import polars as pl  # noqa: PLC0415

    column = frame[name]
    if column.dtype != pl.String:
        return column.dtype.is_numeric()
    given = column.filter(column.is_not_null() & (column.str.strip_chars() != ""))
    return len(given) > 0 and _parsed(given.head(1))[0] is not None


def _parsed(column: pl.Series) -> pl.Series:
    import polars as pl  # noqa: PLC0415

    return column.str.strip_chars().cast(pl.Float64, strict=False)


def _numbers(
    frame: pl.DataFrame, name: str, path: Path, line_of: LineOf, *, whole: bool = False
) -> NDArray[np.float64]:
    """Return a column as float64, NaN where nothing is given, unless it must be `whole`."""
    import polars as pl  # noqa: PLC0415

    column = frame[name]
    if column.dtype == pl.String:
        given = column.fill_null("").str.strip_chars()
        numbers = _parsed(given)
        empty = given.is_in(["", "NA", "N/A", "null", "nan", "NaN"])
    elif column.dtype.is_numeric():
        numbers = column.cast(pl.Float64)
        empty = numbers.is_null() | numbers.is_nan().fill_null(value=True)
    else:
        refuse(path, f"the column {name!r} holds {column.dtype}, not numbers")
    wrong = numbers.is_null() & ~empty if not whole else numbers.is_null() | empty
    if wrong.any():
        row = int(np.flatnonzero(wrong.to_numpy())[0])
        value = column[row]
        what = "nothing" if value is None or str(value).strip() == "" else repr(str(value))
        place = f"row {row + 1}: " if not line_of(row) else ""
        refuse(path, f"{place}the column {name!r} holds {what} here, where a number is wanted", line_of(row))
    values = numbers.fill_null(float("nan")).to_numpy()
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        refuse(path, f"the column {name!r} holds an infinite number here", line_of(int(infinite[0])))
    return values


def _trace(
    metrics: Sequence[Metric],
    columns: Mapping[str, NDArray[np.float64]],
    times: Mapping[str, NDArray[np.float64]],
    factor: float,
    rows: IntArray,
    path: Path,
    line_of: LineOf,
    *,
    cumulative: bool,
    notes: Sequence[str],
) -> Trace:
    time = times["time"][rows]
    wrong = np.flatnonzero(np.diff(time) <= 0)
    if len(wrong):
        at = int(wrong[0]) + 1
        what = "stands twice" if time[at] == time[at - 1] else "goes back here: rows are out of order"
        refuse(path, f"the time of a run {what}; run=COLUMN separates the runs of one file", line_of(int(rows[at])))
    for role, stamps in times.items():
        late = np.flatnonzero(np.abs(stamps[rows] * factor) > _LATEST_NS)
        if len(late):
            refuse(
                path,
                f"the column of the {role} holds a time here that is beyond all calendars",
                line_of(int(rows[late[0]])),
            )
    ends = np.rint(time * factor).astype(np.int64)
    values = {name: column[rows] for name, column in columns.items()}
    if cumulative:
        values = {name: np.diff(column) for name, column in values.items()}
        begin, end = ends[:-1] - ends[0], ends[1:] - ends[0]
        for name, column in values.items():
            if (column < 0).any():
                at = int(np.flatnonzero(column < 0)[0]) + 1
                refuse(path, f"{name} falls here, and a counter that runs on never does", line_of(int(rows[at])))
    elif "begin" in times:
        begin = np.rint(times["begin"][rows] * factor).astype(np.int64)
        late = np.flatnonzero(begin > ends)
        if len(late):
            refuse(path, "an interval ends before it begins", line_of(int(rows[late[0]])))
        begin, end = begin - begin[0], ends - begin[0]
    else:
        begin, end = from_ends(ends) if len(ends) else (ends, ends)
    chosen, kept, more = leave_out_uncounted(values, "not given")
    described = [metric for metric in metrics if metric.name in chosen]
    arrays = {name: column[kept] for name, column in chosen.items()}
    return make_trace(described, arrays, (begin[kept], end[kept]), path, notes=[*notes, *more])
