"""Logs of any form, by a regular expression that the user gives. A line at a time in Python: ten times slower than the rest, and more."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from unperturbed.analysis.diagnosis.events import BadLine, EventType, Ids, Times, Unit
from unperturbed.analysis.diagnosis.reading.formats import DECIMALS
from unperturbed.errors import DataError

__all__ = ["PatternReader", "compiled_pattern"]

_GROUPS = {"time", "name", "plugin", "level"}
_NUMBER = re.compile(r"(\d+)(?:\.(\d+))?")
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:[.,](\d+))?")
_LARGEST = 2**63 - 1


def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Return the expression; a DataError says what it lacks."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise DataError(f"the pattern {pattern!r} is no regular expression: {error}") from error
    groups = set(compiled.groupindex)
    if not {"time", "name"} <= groups <= _GROUPS:
        raise DataError(
            f"the pattern {pattern!r} names the groups {sorted(groups)}; name (?P<time>…) and (?P<name>…), and plugin and level if you like"
        )
    return compiled


@dataclass
class PatternReader:
    """Reads one line after the other; `finish` gives what came of it.

    A time is a number in the unit given, or hours:minutes:seconds; one with decimals or colons gives nanoseconds.
    """

    pattern: re.Pattern[str]
    unit: Unit | None
    most_bad_shown: int
    lines: int = 0
    blank: int = 0
    bad: int = 0
    shown: list[BadLine] = field(default_factory=list)
    result_unit: Unit | None = None
    _times: list[int] = field(default_factory=list)
    _events: list[int] = field(default_factory=list)
    _line_numbers: list[int] = field(default_factory=list)
    _types: dict[EventType, int] = field(default_factory=dict)

    def read(self, line: bytes) -> None:
        """Read one line, without its end."""
        self.lines += 1
        text = line.removesuffix(b"\r").decode(errors="backslashreplace")
        if not text.strip(" \t"):
            self.blank += 1
            return
        found = self.pattern.search(text)
        parts = found.groupdict() if found else {}
        time = self._time(parts["time"] or "") if found else None
        if time is None or not parts["name"]:
            fault = "the pattern does not match" if not found else self._fault(parts["time"] or "", parts["name"])
            self.bad += 1
            if len(self.shown) < self.most_bad_shown:
                self.shown.append(BadLine(self.lines, text, fault))
            return
        name = parts["name"]
        plugin = parts.get("plugin") or EventType.from_name(name).plugin
        kind = EventType(name, plugin, parts.get("level") or "")
        self._times.append(time)
        self._events.append(self._types.setdefault(kind, len(self._types)))
        self._line_numbers.append(self.lines)

    def _time(self, text: str) -> int | None:
        number, clock = _NUMBER.fullmatch(text), _CLOCK.fullmatch(text)
        if clock:
            hours, minutes, seconds, decimals = clock.groups()
            whole = str((int(hours) * 60 + int(minutes)) * 60 + int(seconds))
            unit: Unit = "ns"
            time = int(whole + (decimals or "")[:9].ljust(9, "0"))
        elif number and number[2] is not None:
            if self.unit is None or self.unit == "ticks":
                return None
            missing = DECIMALS[self.unit]
            unit = "ns"
            time = int(number[1] + number[2][:missing].ljust(missing, "0"))
        elif number:
            time, unit = int(text), self.unit or "ticks"
            if self.result_unit == "ns" and self.unit not in (None, "ticks", "ns"):
                time, unit = time * 10 ** DECIMALS[str(self.unit)], "ns"
        else:
            return None
        self.result_unit = self.result_unit or unit
        return time if unit == self.result_unit and time <= _LARGEST else None

    def _fault(self, time: str, name: str | None) -> str:
        if not name:
            return "the name is empty"
        number = _NUMBER.fullmatch(time)
        if number and number[2] is not None and (self.unit is None or self.unit == "ticks"):
            return f"the timestamp {time} has decimals; say its unit: s, ms or us"
        return f"the time {time!r} is no number and no hours:minutes:seconds, or not like that of the first event"

    def finish(self) -> tuple[Times, Ids, list[EventType], list[int]]:
        """Return times, events, types and the number of each event's line."""
        return np.array(self._times, np.int64), np.array(self._events, np.int32), list(self._types), self._line_numbers
