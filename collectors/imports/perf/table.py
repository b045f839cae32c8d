"""perf's table for people: rows of `perf stat -I MS` without -x and -j.

A row is `TIME [PLACE [NUMBER]] COUNT [UNIT] EVENT [CGROUP] [# METRIC] [(SHARE%)]`. Times have a decimal point in every
locale; counts are grouped, and have a comma or a point before decimals, as the locale wants. Lines of other programs,
which write to the same standard error, are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unperturbed.collectors.imports.format import refuse
from unperturbed.collectors.imports.perf.rows import TIME, Rows
from unperturbed.common.wording import counted, first_of

HEADING = re.compile(rb"^[ \t]*#[ \t]+time[ \t].*\bcounts[ \t]+unit events", re.MULTILINE)
FOR_PEOPLE = re.compile(rb"\s*\d+\.\d{9} {2,}(?:\d\S*|<not \w+>) {2,}[^\s\d]|\s*\d+\.\d{9} {3,}(?:\d|<not )")
TOTALS = re.compile(rb"^[ \t]*Performance counter stats for ", re.MULTILINE)
PROCESSOR = r"CPU\d+"
CORES = r"[SN]\d+(?:-[A-Z]+\d+)*"
"""A core, die, cluster, cache, socket or node, which has the number of its processors behind."""

_HEADING_LINE = re.compile(r"#\s+time\s")
_THREADS = re.compile(r"#\s+time\s+comm-pid\s")
_THREAD = r"\S.*?--?\d+"
_NEVER = r"(?!)"
_GROUPS = ".,'’\u00a0\u202f\u2009 "  # between thousands
_TIMED = re.compile(r"\s*(?:\^C)?\s*(?P<time>\d+[.,]\d{9})(?:\s+(?P=time))?(?:\s+(?P<rest>.*))?$")
"""Some versions write the time twice."""
_ROW = (
    r"(?:(?P<place>PLACE)\s+|(?P<cores>CORES)\s+(?:\d+\s+)?)?"
    rf"(?P<value>-?\d+(?:[{_GROUPS}]\d{{2,3}})*(?:[.,]\d+)?|<not (?:counted|supported)>)"
    r"(?: (?P<unit>[^\s#(\[]+)(?=\s+[^\s#(\[]))?\s+(?P<event>[^\s#(\[].*)"
)
_SHARE = re.compile(r"[(\[](?P<share>\d{1,3}[.,]\d{1,6})%[)\]]$")
_METRIC = re.compile(r"\s#\s")
_DECIMALS = re.compile(r"[.,](\d{1,2}|\d{4,})$")
"""Decimals: perf writes two, and versions before 4.17 six for times. Three digits are thousands."""
_OLD_UNIT = " (msec)"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LEAST_SHARE = 0.005  # below it, perf writes 0.00


@dataclass(slots=True)
class _Row:
    """A row of the table."""

    line: int
    time: float
    place: str
    value: str
    unit: str
    event: str
    cgroup: str
    share: float
    decimals: int


def lines_of(recording: bytes, first_line: int) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, without what colours them, and their numbers."""
    text = _ESCAPES.sub("", recording.decode("utf-8", "replace"))
    for number, line in enumerate(text.split("\n"), first_line):
        if line.strip():
            yield number, line.rstrip("\r")


def read_table(recording: bytes, path: Path, first_line: int) -> Rows:
    """Return the rows of a table for people."""
    import polars as pl  # noqa: PLC0415  slow to load

    rows: list[_Row] = []
    others = 0
    summary = False
    pattern = re.compile(_pattern(PROCESSOR, CORES))
    for number, line in lines_of(recording, first_line):
        if line.lstrip().startswith("#"):
            summary = summary and not _HEADING_LINE.search(line)
            if _THREADS.search(line):
                pattern = re.compile(_pattern(_THREAD, _NEVER))
            continue
        summary = summary or TOTALS.match(line.encode()) is not None
        timed = None if summary else _TIMED.match(line)
        if timed is None:
            others += not summary
            continue
        rest = timed["rest"] or ""
        found = pattern.fullmatch(rest)
        if found is not None:
            rows.append(_row(number, timed["time"], found, path))
        elif "#" not in rest:  # with it, a further metric of the event above
            what = "the row has no event: the recording is incomplete, or another program's output is in the row"
            refuse(path, what, number)
    if not rows:
        refuse(path, "no rows below perf's heading", first_line)
    _refuse_truncated(recording, rows, path)
    frame = pl.DataFrame(
        {
            TIME: [row.time for row in rows],
            "place": [row.place for row in rows],
            "value": [row.value for row in rows],
            "unit": [row.unit for row in rows],
            "event": [row.event for row in rows],
            "cgroup": [row.cgroup for row in rows],
            "share": [row.share for row in rows],
            "goes on": [True] * len(rows),
        }
    ).with_columns((pl.col("share") / 100 * _lengths_ns(rows)).alias("running"))
    return Rows([row.line for row in rows], path, frame, tuple(_notes(rows, others)))


def _pattern(place: str, cores: str) -> re.Pattern[str]:
    return re.compile(_ROW.replace("PLACE", place).replace("CORES", cores))


def _row(number: int, time: str, found: re.Match[str], path: Path) -> _Row:
    text, unit = found["event"].rstrip(), found["unit"] or ""
    share = _SHARE.search(text)
    if share is not None:
        text = text[: share.start()]
    parts = re.split(r"\s{2,}", _METRIC.split(f"{text} ", maxsplit=1)[0].strip())
    if len(parts) > 2 or re.fullmatch(r"[\d.,]+", parts[0]):
        refuse(path, "unexpected columns after the event: this is no row of perf's table", number)
    event, cgroup = parts if len(parts) == 2 else (parts[0], "")
    if event.endswith(_OLD_UNIT) and not unit:
        event, unit = event.removesuffix(_OLD_UNIT), _OLD_UNIT.strip(" ()")
    value, decimals = _number(found["value"])
    part = 100.0 if share is None else max(float(share["share"].replace(",", ".")), _LEAST_SHARE)
    return _Row(
        number,
        float(time.replace(",", ".")),
        found["place"] or found["cores"] or "",
        value,
        unit,
        event,
        cgroup,
        part,
        decimals,
    )


def _number(text: str) -> tuple[str, int]:
    """Return a number without separators of thousands, with a decimal point, and how many decimals it has."""
    if text.startswith("<"):
        return text, 0
    decimals = _DECIMALS.search(text)
    whole = re.sub(r"[^\d-]", "", text[: decimals.start()] if decimals else text)
    return (f"{whole}.{decimals[1]}", len(decimals[1])) if decimals else (whole, 0)


def _lengths_ns(rows: list[_Row]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the length of each row's interval."""
    times = np.array([row.time for row in rows])
    begins = np.flatnonzero(np.diff(times, prepend=0) != 0)
    lengths = np.diff(times[begins], prepend=0)
    return np.asarray(1e9 * np.repeat(lengths, np.diff(np.append(begins, len(times)))), np.float64)


def _refuse_truncated(recording: bytes, rows: list[_Row], path: Path) -> None:
    """Refuse a last row that may end within the event's name."""
    last = rows[-1]
    if not recording.endswith(b"\n") and not any(row.event == last.event for row in rows[:-1]):
        refuse(path, "the last row is truncated: the recording is incomplete", last.line)


def _notes(rows: list[_Row], others: int) -> Iterator[str]:
    if others:
        yield f"the import skips {counted(others, 'line')} that perf stat did not write"
    decimals: dict[tuple[str, int], list[str]] = {}
    for event, unit, digits in dict.fromkeys((row.event, row.unit, row.decimals) for row in rows if row.decimals):
        decimals.setdefault((unit, digits), []).append(event)
    for (unit, digits), events in decimals.items():
        yield f"perf's table for people rounds {first_of(events)} to {10.0**-digits:.{digits}f} {unit}".rstrip()
    if partly := _unique(row.event for row in rows if row.share < 99.95):
        yield (
            f"perf's table has only the share of the time in which {first_of(partly)} "
            f"{'was' if len(partly) == 1 else 'were'} counted: NAME.enabled_ns is the length of the interval"
        )


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
