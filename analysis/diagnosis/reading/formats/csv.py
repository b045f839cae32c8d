"""Log format "csv": tables with a header, separated by commas (RFC 4180), semicolons or tabs, without line breaks."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat, LogLayout
from unperturbed.analysis.diagnosis.reading.formats import (
    LineParser,
    LogSample,
    ReadOptions,
    ScannedLog,
    require_unit,
)
from unperturbed.analysis.diagnosis.reading.formats.dated import FreeTextFormat
from unperturbed.analysis.diagnosis.reading.scan import line_scanner
from unperturbed.analysis.diagnosis.reading.sources import Blocks
from unperturbed.analysis.diagnosis.reading.spans import (
    BAD,
    Integer,
    Line,
    append,
    compiled,
    event,
    no_event,
    read_number,
    skip_whitespace,
)
from unperturbed.analysis.diagnosis.reading.stamps import Clock, exact_time, stamp_of
from unperturbed.errors import DataError

_QUOTE, _FIELDS, _NUMBER, _LARGE, _NAME = range(BAD, BAD + 5)
_FAULTS = {
    _QUOTE: "a quoted field does not end on its line, or text follows the closing quote",
    _FIELDS: "too few fields for the requested columns",
    _NUMBER: "the timestamp is not a non-negative number in the format of the first event's timestamp",
    _LARGE: "the timestamp exceeds 2^63",
    _NAME: "the name is empty",
}

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "ts", "timestamps"),
    "name": ("name", "event", "event_name", "type"),
    "plugin": ("plugin", "category", "module", "system"),
    "level": ("level", "severity"),
}
"""Parts of an event, and the usual names of their columns; case is ignored."""

_LONGEST_HEADER = 1 << 16
"""Maximum number of characters in a header; the csv module refuses longer fields."""

_QUOTATION_MARK = 34
_TIME, _EVENT, _PLUGIN, _LEVEL = range(4)


def _read_header(sample: LogSample, columns: Mapping[str, str]) -> tuple[str, list[int]] | None:
    """Return a table's delimiter and the column indices of time, name, plugin and level, -1 for absent ones.

    Return None if the first line is not a header; raise DataError if a column that the user named is missing.
    """
    best: list[str] = []
    for delimiter in ",;\t":
        try:
            fields = next(csv.reader([sample.first_line[:_LONGEST_HEADER]], delimiter=delimiter), [])
        except csv.Error:  # not text: a carriage return in the middle, or a zero byte
            return None
        names = [name.strip() for name in fields]
        lower = [name.lower() for name in names]
        places = [
            (names.index(columns[part]) if columns[part] in names else -1)
            if part in columns
            else next((lower.index(name) for name in usual if name in lower), -1)
            for part, usual in _COLUMNS.items()
        ]
        missing = [part for part, place in zip(_COLUMNS, places, strict=True) if part in columns and place < 0]
        if not missing and places[_TIME] >= 0 and places[_EVENT] >= 0:
            return delimiter, places
        best = max(best, names, key=len)
    absent = [name for name in columns.values() if name not in best]
    if absent:
        raise DataError(
            f"{sample.source}:{sample.first_number}: no column {', '.join(map(repr, absent))}: the columns are "
            f"{', '.join(best)}"
        )
    return None


@compiled
def _field(
    source: Any, start: Integer, stop: Integer, delimiter: Integer, tail: Any, at: Integer
) -> tuple[Integer, Integer]:
    """Append a field's text to the tail; return the field's end in the source (-1: misquoted) and the tail's end."""
    if start < stop and source[start] == _QUOTATION_MARK:
        place = start + 1
        while place < stop:
            if source[place] == _QUOTATION_MARK:
                if place + 1 < stop and source[place + 1] == _QUOTATION_MARK:
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
def _parse(source: Any, start: Integer, stop: Integer, settings: Any, tail: Any) -> Line:  # noqa: PLR0912
    """Parse one line; the tail contains name, plugin and level, each preceded by its length in four bytes."""
    delimiter = settings[1]
    last = max(settings[2], settings[3], settings[4], settings[5])
    # Fields can be in any order: their texts are written to the tail's second half first, then in order to its start.
    spare = np.int64(len(tail) // 2)
    begins, ends = settings[6:10], settings[10:14]
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
            if settings[2 + part] == column:
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
    number = skip_whitespace(tail, begins[_TIME], ends[_TIME])
    time, end = read_number(tail, number, ends[_TIME], settings[0])
    if end == -2:
        return no_event(_LARGE)
    if end < 0 or skip_whitespace(tail, end, ends[_TIME]) != ends[_TIME]:
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


scan = line_scanner(_parse)


@dataclass(frozen=True, kw_only=True)
class _DatedTable(FreeTextFormat):
    """Table whose times are date-times: its delimiter, columns and stamp."""

    table: tuple[str, list[int], str]

    def log_parser(self, sample: LogSample) -> tuple[LineParser, Callable[[], str]]:
        """Return a parser of one table's lines, and a function that returns what it assumed."""
        delimiter, columns, stamp = self.table
        clock, header = Clock(stamp), sample.first_line

        def parse(line: str) -> tuple[int, EventType] | None:
            if line == header:
                return None
            try:
                fields = next(csv.reader([line], delimiter=delimiter), [])
            except csv.Error as error:
                raise ValueError(str(error)) from error
            if max(columns) >= len(fields):
                raise ValueError(_FAULTS[_FIELDS])
            time, name, plugin, level = (fields[place] if place >= 0 else "" for place in columns)
            if not name:
                raise ValueError(_FAULTS[_NAME])
            return exact_time(time, clock), EventType(name, plugin or EventType.from_name(name).plugin, level)

        return parse, lambda: clock.note


class _CsvFormat(CompiledFormat):
    def check(self, options: ReadOptions) -> None:
        """Raise DataError if `columns` names a part that events do not have."""
        if unknown := set(options.columns) - set(_COLUMNS):
            raise DataError(f"`columns` cannot have the key {' or '.join(sorted(unknown))}: use {', '.join(_COLUMNS)}")

    def recognise(self, sample: LogSample, options: ReadOptions) -> float:
        """Return 1 if the first line is a header with a time and a name, else 0."""
        return float(_read_header(sample, options.columns) is not None)

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a table: compiled if its times are numbers, else one line at a time."""
        header = _read_header(sample, options.columns)
        if header:
            delimiter, columns = header
            first = next(csv.reader(sample.lines[1:2], delimiter=delimiter, strict=False), [])
            stamp = stamp_of(first[columns[_TIME]]) if columns[_TIME] < len(first) else ""
            if stamp:
                return _DatedTable(name=self.name, meaning=self.meaning, table=(delimiter, columns, stamp)).read(
                    blocks, sample, options
                )
        return super().read(blocks, sample, options)

    def layout(self, sample: LogSample, options: ReadOptions) -> LogLayout:
        """Return the layout with the header's delimiter and columns; raise DataError if there is no header."""
        header = _read_header(sample, options.columns)
        if header is None:
            raise DataError(
                f"{sample.source}:{sample.first_number}: the first line is not a header with columns for time and name:"
                " give the names of these columns in `columns`, with the keys `time` and `name`"
            )
        delimiter, columns = header
        fields = sample.lines[1].split(delimiter) if len(sample.lines) > 1 else []
        time = fields[columns[_TIME]] if columns[_TIME] < len(fields) else ""
        unit, decimals = require_unit(time, options.unit, sample.source, sample.first_number + 1)
        return LogLayout(unit, (decimals, ord(delimiter), *columns), sample.first_end, sample.first_number)

    def describe(self, head: bytes, tail: bytes, options: ReadOptions) -> EventType:  # noqa: ARG002  as all formats
        """Return the event type with the tail's name, plugin and level."""
        parts = []
        at = 0
        for _ in range(3):
            length = int.from_bytes(tail[at : at + 4], "little")
            parts.append(tail[at + 4 : at + 4 + length].decode(errors="backslashreplace"))
            at += 4 + length
        name, plugin, level = parts
        return EventType(name, plugin or EventType.from_name(name).plugin, level)


FORMAT = _CsvFormat(name="csv", meaning="a table with a header", rank=3, faults=_FAULTS)
