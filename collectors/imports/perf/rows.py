"""Counts of `perf stat -I` in rows, and their trace: rows of processors or threads are summed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    EXACT,
    from_ends,
    leave_out_uncounted,
    make_trace,
    refuse,
    sum_at,
    without_part,
)
from unperturbed.collectors.imports.perf.events import describe_event

if TYPE_CHECKING:
    import polars as pl

TIME = "time"
NOT_COUNTED, NOT_SUPPORTED = "<not counted>", "<not supported>"
_SUMMARY = "summary"


class Numbered(Protocol):
    """Line numbers of rows."""

    def __getitem__(self, row: int, /) -> int:
        """Return the number of a row's line, from 1."""


@dataclass(frozen=True)
class Rows:
    """Rows of one recording, each with one event in one interval and at one place (processor or thread)."""

    lines: Numbered  # Computed only for messages
    path: Path
    # `time`, `place` (may be empty), `value`, `unit`, `event`, `running`, `share`: text; `goes on`: whether the row has
    # further columns.
    frame: pl.DataFrame
    notes: Sequence[str] = ()

    def refuse(self, left: pl.DataFrame, at: Any, what: str) -> NoReturn:
        """Raise an error about a row, given by its index in the filtered frame `left`."""
        refuse(self.path, what, self.lines[int(left["row"][int(at)])])


class Lines:
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


LATEST_S = 4e9  # times are kept as int64 nanoseconds


def to_trace(rows: Rows, started: str | None) -> Trace:
    """Return the trace of a recording; refuse rows that are damaged, missing, out of order or there twice."""
    import polars as pl  # noqa: PLC0415

    frame = _counted(rows.frame.with_row_index("row"))
    frame = frame.with_columns(
        pl.col(TIME).cast(pl.Float64, strict=False),
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
    time = frame[TIME].to_numpy()
    beyond = np.flatnonzero(~(np.abs(time) < LATEST_S))
    if len(beyond):
        rows.refuse(frame, beyond[0], "this time is too large for 64-bit nanoseconds")
    steps = np.diff(time)
    if len(steps) and steps.min() < 0:
        what = "this row is earlier than the previous row: rows are out of order, or from a second recording"
        rows.refuse(frame, np.argmax(steps < 0) + 1, what)
    interval = np.concatenate((np.zeros(1, np.int64), np.cumsum(steps > 0, dtype=np.int64)))
    events, event_codes = _codes(frame["event"])
    places, place_codes = _codes(frame["place"])
    cells = _Cells(interval, event_codes, place_codes, len(places), of_threads=_are_threads(places))
    frame, cells, cut = _without_cut_interval(frame, cells, len(events))
    columns, running, enabled = _pivot(frame, rows, cells, events)
    time, steps = time[: len(frame)], steps[: len(frame) - 1]
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
    return without_part(
        make_trace(metrics, values, bounds, rows.path, notes=[*rows.notes, *cut, *notes], attributes=attributes)
    )


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with counts of intervals."""
    import polars as pl  # noqa: PLC0415

    if frame.schema[TIME] == pl.String:
        summary = pl.col(TIME) == _SUMMARY
        frame = frame.filter(~summary.fill_null(value=False))
        # Totals at the end, which perf 5.12 and older write without a word and without a time, one column to the left.
        last = frame[TIME][-1] if len(frame) else None
        if last is not None and not re.search(r"[.,]\d{9}$", last):
            untimed = ~pl.col(TIME).str.contains(r"[.,]\d{9}$") & pl.col("event").str.contains(r"^\d+$")
            frame = frame.filter(~untimed.fill_null(value=False))
    # Rows that only add a computed metric to the previous event do not name an event. Before perf 6.2, those of sockets
    # and the like have an empty field too many.
    if not (frame["event"].fill_null("") == "").any():
        return frame
    empty = {name: pl.col(name).cast(pl.String).fill_null("") == "" for name in ("event", "value", "running", "place")}
    shifted = empty["running"] & empty["place"]
    return frame.filter(~(empty["event"] & (empty["value"] | shifted) & pl.col("goes on")))


def _refuse_damaged(frame: pl.DataFrame, rows: Rows) -> None:
    """Refuse rows with missing or malformed columns."""
    import polars as pl  # noqa: PLC0415

    if not len(frame):
        refuse(rows.path, "nothing to import: no row has a count")
    uncounted = pl.col("value").is_in([NOT_COUNTED, NOT_SUPPORTED])
    wrong = (
        pl.col(TIME).is_null()
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
    if row[TIME] is None:
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


@dataclass(frozen=True)
class _Cells:
    """What each row counts: numbers of its interval, event and place, each of shape (rows,)."""

    interval: NDArray[np.int64]
    event: NDArray[np.int64]
    place: NDArray[np.int64]
    places: int
    of_threads: bool

    def without(self, rows: NDArray[np.bool_]) -> _Cells:
        """Leave rows out."""
        return replace(self, interval=self.interval[~rows], event=self.event[~rows], place=self.place[~rows])


def _are_threads(places: Sequence[str]) -> bool:
    """Return whether rows are of threads (`name-123`): perf leaves out those that counted nothing."""
    return any(re.search(r"-\d+$", place or "") for place in places)


def _without_cut_interval(frame: pl.DataFrame, cells: _Cells, events: int) -> tuple[pl.DataFrame, _Cells, list[str]]:
    """Leave out the rows of the last interval if it lacks some, as in the recording of a perf that was killed."""
    last = cells.interval == cells.interval[-1]
    if cells.interval[-1] == 0 or cells.of_threads or np.count_nonzero(last) >= events * cells.places:
        return frame, cells, []
    cell = cells.event * cells.places + cells.place
    if len(np.unique(cells.event[~last])) < events or len(np.unique(cell[last])) >= len(np.unique(cell[~last])):
        return frame, cells, []
    note = "the import leaves out the last interval, in which rows are missing: the recording ends within it"
    return frame.filter(~last), cells.without(last), [note]


def _pivot(
    frame: pl.DataFrame, rows: Rows, cells: _Cells, events: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], ...]:
    """Return counts, running times and enabled times by event, summed over processors or threads."""
    cell = cells.interval * len(events) + cells.event
    size = (int(cells.interval[-1]) + 1) * len(events)
    placed = cell * cells.places + cells.place
    if np.bincount(placed, minlength=1).max() > 1:
        order = np.argsort(placed, kind="stable")
        twice = order[1:][np.diff(placed[order]) == 0].min()
        rows.refuse(frame, twice, f"{events[cells.event[twice]]} appears twice for this interval")
    if cells.places == 1 and len(cell) < size:
        missing = int(np.flatnonzero(np.bincount(cell, minlength=size) == 0)[0])
        at, name = missing // len(events), events[missing % len(events)]
        rows.refuse(frame, np.flatnonzero(cells.interval == at)[-1], f"{name} has no row in this interval")
    counts = frame["count"].to_numpy()
    there = ~np.isnan(counts)
    runs, share = frame["running"].to_numpy(), frame["share"].to_numpy()

    def summed(values: NDArray[Any]) -> NDArray[Any]:
        return sum_at(cell[there], values[there], size).reshape(-1, len(events))

    table, running = summed(_exact(frame, counts)), summed(runs)
    wanted = summed(np.divide(100 * runs, share, out=runs.copy(), where=share > 0))
    never = summed(np.ones(len(cell))) == 0
    if cells.of_threads:
        never &= np.bincount(cell, minlength=size).reshape(-1, len(events)) > 0
    table = np.ma.MaskedArray(table, never) if table.dtype.kind != "f" else np.where(never, np.nan, table)
    return tuple({name: values[:, at].copy() for at, name in enumerate(events)} for values in (table, running, wanted))


def _exact(frame: pl.DataFrame, counts: NDArray[np.float64]) -> NDArray[Any]:
    """Return the counts; if float64 cannot hold one of them and all are whole, as uint64, 0 where there is none."""
    import polars as pl  # noqa: PLC0415

    if np.nanmax(counts, initial=0) < EXACT:
        return counts
    whole = frame["value"].str.strip_chars().str.replace(r"\.0*$", "").cast(pl.UInt64, strict=False)
    return counts if (whole.is_null().to_numpy() & ~np.isnan(counts)).any() else whole.fill_null(0).to_numpy()
