"""Log formats with a time and a name on each line: "simple" (the paper's figure 1), "pattern" (regular expression)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from unperturbed.analysis.diagnosis.events import EventType, Unit
from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat, LogLayout
from unperturbed.analysis.diagnosis.reading.formats import (
    DECIMALS,
    LogSample,
    PlainFormat,
    ReadOptions,
    ScannedLog,
    require_unit,
)
from unperturbed.analysis.diagnosis.reading.scan import line_scanner
from unperturbed.analysis.diagnosis.reading.sources import Blocks
from unperturbed.analysis.diagnosis.reading.spans import (
    BAD,
    CONTINUED,
    Integer,
    Line,
    compiled,
    event,
    no_event,
    read_number,
    skip_whitespace,
)
from unperturbed.analysis.diagnosis.reading.stamps import SAYS, Clock, exact_time, stamp_of, stamp_of_line
from unperturbed.errors import DataError

_GROUPS = {"time", "name", "plugin", "level"}
_DECIMAL = re.compile(r"(\d+)(?:\.(\d+))?")
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:[.,](\d+))?")
_LARGEST = 2**63 - 1


class _PatternParser:
    """Parser of lines by a regular expression; the first event decides whether times are numbers or nanoseconds."""

    def __init__(self, pattern: str, unit: Unit | None) -> None:
        self._pattern, self._unit = _compile(pattern), unit
        self._result_unit: Unit | None = None
        self._clock: Clock | None = None
        self._of_day = Clock("clock")

    def result_unit(self) -> Unit:
        """Return the unit of the timestamps."""
        return self._result_unit or "ticks"

    def note(self) -> str:
        """Return what was assumed about the dates of the times."""
        return (self._clock or self._of_day).note

    def parse(self, line: str) -> tuple[int, EventType]:
        """Return timestamp and type of a line's event; raise ValueError for a line without an event."""
        match = self._pattern.search(line)
        if not match:
            raise ValueError("the pattern does not match")
        parts = match.groupdict()
        name = parts["name"]
        if not name:
            raise ValueError("the pattern's group `name` is empty")
        plugin = parts.get("plugin") or EventType.from_name(name).plugin
        return self._time(parts["time"] or ""), EventType(name, plugin, parts.get("level") or "")

    def _time(self, text: str) -> int:
        number, clock = _DECIMAL.fullmatch(text), _CLOCK.fullmatch(text)
        time = -1
        unit: Unit = self._unit or "ticks"
        if self._clock is None and not number and not clock and (stamp := stamp_of(text)):
            self._clock = Clock(stamp)
        if self._clock is not None:
            return self._dated(exact_time(text, self._clock))
        if clock:
            hours, minutes, seconds, decimals = clock.groups()
            passed = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
            whole = str(self._of_day.forward(passed) if int(hours) < 24 else passed)
            time, unit = int(whole + (decimals or "")[:9].ljust(9, "0")), "ns"
        elif number and number[2] is not None:
            if unit == "ticks":
                raise ValueError(f"timestamp {text} has decimals: give its unit (s, ms or us)")
            missing = DECIMALS[unit]
            time, unit = int(number[1] + number[2][:missing].ljust(missing, "0")), "ns"
        elif number:
            time = int(text)
            if self._result_unit == "ns" and unit not in ("ticks", "ns"):
                time, unit = time * 10 ** DECIMALS[unit], "ns"
        if time >= 0:
            self._result_unit = self._result_unit or unit
        if time < 0 or unit != self._result_unit:
            raise ValueError(
                f"time {text!r} must be a number, hours:minutes:seconds or a date-time, in the format of the first "
                "event's time"
            )
        if time > _LARGEST:
            raise ValueError(f"time {text!r} is too large: it must be below 2^63 {unit}")
        return time

    def _dated(self, time: int) -> int:
        """Return the nanoseconds of a date-time; raise ValueError if the first event's time was no date-time."""
        if self._result_unit not in (None, "ns"):
            raise ValueError("the time is a date-time, but the first event's time is a number")
        self._result_unit = "ns"
        return time


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile the user's regular expression; raise DataError if it is invalid or lacks a group."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise DataError(f"the pattern {pattern!r} is not a valid regular expression: {error}") from error
    groups = set(expression.groupindex)
    if not {"time", "name"} <= groups <= _GROUPS:
        fault = f"has the groups {', '.join(sorted(groups))}" if groups else "has no named groups"
        raise DataError(
            f"the pattern {pattern!r} {fault}: use (?P<time>…) and (?P<name>…), and optionally (?P<plugin>…) and "
            "(?P<level>…)"
        )
    return expression


class _PatternFormat(PlainFormat):
    def check(self, options: ReadOptions) -> None:
        """Raise DataError if a pattern is missing, or given for a different format."""
        if (options.pattern is None) == (options.format == self.name):
            raise DataError('`pattern` is required with `format="pattern"`, and is not allowed with other formats')

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log, one at a time."""
        parser = _PatternParser(options.pattern or "", options.unit)
        log = self.read_lines(parser.parse, parser.result_unit, blocks, sample, options)
        return replace(log, reading=replace(log.reading, assumed=parser.note()))


PATTERN = _PatternFormat(name="pattern", meaning="any line that matches a regular expression")


_NUMBER, _LARGE, _NAME = range(BAD, BAD + 3)
_FAULTS = {
    _NUMBER: "the line does not begin with a timestamp, a number in the format of the first event's timestamp",
    _LARGE: "the timestamp exceeds 2^63",
    _NAME: "no name after the timestamp",
}
_LINE = re.compile(r"\s*(?P<time>\d+(?:\.\d+)?)\s+\S")
_HASH = 35


@compiled
def _parse(source: Any, start: Integer, stop: Integer, settings: Any, tail: Any) -> Line:  # noqa: ARG001
    """Parse one line; the head is the name, which may contain spaces."""
    at = skip_whitespace(source, start, stop)
    if source[at] == _HASH:
        return no_event(CONTINUED)
    time, end = read_number(source, at, stop, settings[0])
    if end < 0:
        return no_event(_NUMBER if end == -1 else _LARGE)
    name = skip_whitespace(source, end, stop)
    if name == end and end < stop:
        return no_event(_NUMBER)
    if name == stop:
        return no_event(_NAME)
    while source[stop - 1] == 32 or source[stop - 1] == 9:
        stop -= 1
    return event(time, name, stop, 0)


scan = line_scanner(_parse)


class _SimpleFormat(CompiledFormat):
    def layout(self, sample: LogSample, options: ReadOptions) -> LogLayout:
        """Return the layout with the unit of the first timestamp or of the user."""
        match = next(filter(None, map(_LINE.match, sample.lines)), None)
        if match is None and (stamp := stamp_of_line(sample.lines[0])):
            raise DataError(
                f"{sample.source}:1: the line begins with a date-time ({SAYS[stamp]}), not with a number: leave out "
                'the format to have it detected, or set `format="text"` (--format text)'
            )
        unit, decimals = require_unit(match["time"] if match else "", options.unit, sample.source, 1)
        return LogLayout(unit, (decimals,), sample.mark_bytes)

    def describe(self, head: bytes, tail: bytes, options: ReadOptions) -> EventType:  # noqa: ARG002  as all formats
        """Return the event type with the head's name."""
        return EventType.from_name(head.decode(errors="backslashreplace"))


SIMPLE = _SimpleFormat(name="simple", meaning="timestamp and name", line=_LINE, rank=1, faults=_FAULTS)
