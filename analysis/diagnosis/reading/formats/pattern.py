"""Logs of any form, by a regular expression that the user gives."""

from __future__ import annotations

import re
from collections.abc import Callable

from unperturbed.analysis.diagnosis.events import EventType, Unit
from unperturbed.analysis.diagnosis.reading.format import DECIMALS, LineParser, PlainFormat, ReadOptions
from unperturbed.errors import DataError

_GROUPS = {"time", "name", "plugin", "level"}
_NUMBER = re.compile(r"(\d+)(?:\.(\d+))?")
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:[.,](\d+))?")
_LARGEST = 2**63 - 1


class _PatternParser:
    """Parses lines by a regular expression.

    A time is a number in the unit given, or hours:minutes:seconds; one with decimals or colons gives nanoseconds. The
    first event decides which, and later ones have to agree.
    """

    def __init__(self, pattern: str, unit: Unit | None) -> None:
        self._pattern, self._unit = _compile(pattern), unit
        self._result_unit: Unit | None = None

    def result_unit(self) -> Unit:
        """Return the unit of the timestamps."""
        return self._result_unit or "ticks"

    def parse(self, line: str) -> tuple[int, EventType]:
        """Return timestamp and type of a line's event; a ValueError describes a line that has none."""
        found = self._pattern.search(line)
        if not found:
            raise ValueError("the pattern does not match")
        parts = found.groupdict()
        text, name = parts["time"] or "", parts["name"]
        time = self._time(text)
        if time is None or not name:
            raise ValueError(self._fault(text, name))
        plugin = parts.get("plugin") or EventType.from_name(name).plugin
        return time, EventType(name, plugin, parts.get("level") or "")

    def _time(self, text: str) -> int | None:
        number, clock = _NUMBER.fullmatch(text), _CLOCK.fullmatch(text)
        if clock:
            hours, minutes, seconds, decimals = clock.groups()
            whole = str((int(hours) * 60 + int(minutes)) * 60 + int(seconds))
            unit: Unit = "ns"
            time = int(whole + (decimals or "")[:9].ljust(9, "0"))
        elif number and number[2] is not None:
            if self._unit is None or self._unit == "ticks":
                return None
            missing = DECIMALS[self._unit]
            unit = "ns"
            time = int(number[1] + number[2][:missing].ljust(missing, "0"))
        elif number:
            time, unit = int(text), self._unit or "ticks"
            if self._result_unit == "ns" and self._unit not in (None, "ticks", "ns"):
                time, unit = time * 10 ** DECIMALS[str(self._unit)], "ns"
        else:
            return None
        self._result_unit = self._result_unit or unit
        return time if unit == self._result_unit and time <= _LARGEST else None

    def _fault(self, time: str, name: str | None) -> str:
        if not name:
            return "the name is empty"
        number = _NUMBER.fullmatch(time)
        if number and number[2] is not None and (self._unit is None or self._unit == "ticks"):
            return f"the timestamp {time} has decimals; say its unit: s, ms or us"
        return f"the time {time!r} is not a number and no hours:minutes:seconds, or not like that of the first event"


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile the user's expression; DataError where it is none, or lacks a group."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise DataError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
    groups = set(compiled.groupindex)
    if not {"time", "name"} <= groups <= _GROUPS:
        raise DataError(
            f"the pattern {pattern!r} names the groups {sorted(groups)}; name (?P<time>…) and (?P<name>…), and plugin"
            " and level if you like"
        )
    return compiled


class _PatternFormat(PlainFormat):
    def check(self, options: ReadOptions) -> None:
        """Raise DataError where a pattern is missing, or given for another format."""
        if (options.pattern is None) == (options.format == self.name):
            raise DataError("format='pattern' and a pattern go together; other formats have none")

    def parser(self, options: ReadOptions) -> tuple[LineParser, Callable[[], Unit]]:
        """Return the parser of the user's expression, and its unit."""
        parser = _PatternParser(options.pattern or "", options.unit)
        return parser.parse, parser.result_unit


FORMAT = _PatternFormat(name="pattern", meaning="any line, by a regular expression")
