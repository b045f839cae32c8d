"""Tables as text: comma-separated values (RFC 4180), or with semicolons or tabs, with named columns. A field ends on its line."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.line import BAD, Line, event, no_event
from unperturbed.analysis.diagnosis.reading.spans import Integer, append, compiled, read_number, skip_blanks
from unperturbed.errors import DataError

__all__ = ["COLUMNS", "FAULTS", "Header", "describe", "parse", "read_header"]

_QUOTE, _FIELDS, _NUMBER, _LARGE, _NAME = range(BAD, BAD + 5)
FAULTS = {
    _QUOTE: "a quoted field does not end on the line, or something stands behind its end",
    _FIELDS: "fewer fields than the columns asked for",
    _NUMBER: "the timestamp is no non-negative number like that of the first event",
    _LARGE: "the timestamp is over 2^63",
    _NAME: "the name is empty",
}

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "ts", "timestamps"),
    "name": ("name", "event", "event_name", "type"),
    "plugin": ("plugin", "category", "module", "system"),
    "level": ("level", "severity"),
}
"""What an event is made of, and the names that its columns have where the user says nothing; upper or lower case."""

_LONGEST_HEADER = 1 << 16
"""Characters; the csv module refuses longer fields."""

_MARK = 34
_TIME, _EVENT, _PLUGIN, _LEVEL = range(4)


@dataclass(frozen=True)
class Header:
    """The delimiter, and which columns hold time, name, plugin and level (-1: none)."""

    delimiter: str
    places: tuple[int, int, int, int]


def read_header(line: str, columns: Mapping[str, str], source: str, number: int) -> Header | None:
    """Return where the columns stand, or None where no line like this heads a table of events.

    `columns` says what those are called that the user named; a DataError says which of them is missing.
    """
    best: list[str] = []
    for delimiter in ",;\t":
        try:
            names = [name.strip() for name in next(csv.reader([line[:_LONGEST_HEADER]], delimiter=delimiter), [])]
        except csv.Error:  # no text: a carriage return in the middle, a zero byte
            return None
        lower = [name.lower() for name in names]
        places = [
            (names.index(columns[part]) if columns[part] in names else -1)
            if part in columns
            else next((lower.index(name) for name in usual if name in lower), -1)
            for part, usual in COLUMNS.items()
        ]
        missing = [part for part, place in zip(COLUMNS, places, strict=True) if part in columns and place < 0]
        if not missing and places[_TIME] >= 0 and places[_EVENT] >= 0:
            return Header(delimiter, (places[0], places[1], places[2], places[3]))
        best = max(best, names, key=len)
    absent = [name for name in columns.values() if name not in best]
    if absent:
        raise DataError(f"{source}:{number}: no column {', '.join(map(repr, absent))}; there are {', '.join(best)}")
    return None


@compiled
def _field(source: Any, start: Integer, stop: Integer, delimiter: Integer, tail: Any, at: Integer) -> tuple[Integer, Integer]:
    """Write a field's text; return where the field ends in the line, or -1, and where its text does."""
    if start < stop and source[start] == _MARK:
        place = start + 1
        while place < stop:
            if source[place] == _MARK:
                if place + 1 < stop and source[place + 1] == _MARK:
                    place += 1
                else:
                    behind = place + 1
                    return (behind, at) if behind == stop or source[behind] == delimiter else (np.int64(-1), at)
            at = append(tail, at, source[place])
            place += 1
        return np.int64(-1), at
    place = start
    while place < stop and source[place] != delimiter:
        at = append(tail, at, source[place])
        place += 1
    return place, at


@compiled
def parse(source: Any, start: Integer, stop: Integer, options: Any, tail: Any) -> Line:  # noqa: PLR0912 - a branch for each fault
    """Read one line; the tail holds name, plugin and level, each behind its length in four bytes."""
    delimiter = options[1]
    last = max(options[2], options[3], options[4], options[5])
    # Fields come in any order: they are read to the tail's end first, then put in order before it.
    spare = np.int64(len(tail) // 2)
    begins, ends = options[6:10], options[10:14]
    begins[:] = 0
    ends[:] = 0
    place, at, column = np.int64(start), spare, np.int64(0)
    while True:
        first = at
        place, at = _field(source, place, stop, delimiter, tail, at)
        if place < 0:
            return no_event(_QUOTE)
        wanted = False
        for part in range(4):
            if options[2 + part] == column:
                begins[part], ends[part] = first, at
                wanted = True
        if not wanted:
            at = first
        if column == last:
            break
        if place >= stop:
            return no_event(_FIELDS)
        place += 1
        column += 1
    number = skip_blanks(tail, begins[_TIME], ends[_TIME])
    time, end = read_number(tail, number, ends[_TIME], options[0])
    if end == -2:
        return no_event(_LARGE)
    if end < 0 or skip_blanks(tail, end, ends[_TIME]) != ends[_TIME]:
        return no_event(_NUMBER)
    if begins[_EVENT] == ends[_EVENT]:
        return no_event(_NAME)
    at = np.int64(0)
    for part in range(_EVENT, _LEVEL + 1):
        length = ends[part] - begins[part]
        for shift in range(0, 32, 8):
            at = append(tail, at, (length >> shift) & 255)
        for index in range(begins[part], ends[part]):
            at = append(tail, at, tail[index])
    return event(time, start, start, at)


def describe(tail: bytes) -> EventType:
    """Return the type of events with this name, plugin and level."""
    parts = []
    at = 0
    for _ in range(3):
        length = int.from_bytes(tail[at : at + 4], "little")
        parts.append(tail[at + 4 : at + 4 + length].decode(errors="backslashreplace"))
        at += 4 + length
    name, plugin, level = parts
    return EventType(name, plugin or EventType.from_name(name).plugin, level)
