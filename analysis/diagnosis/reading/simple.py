"""`timestamp name`, one event a line, as in figure 1 of the paper."""

from __future__ import annotations

from typing import Any

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.line import BAD, FURTHER, Line, event, no_event
from unperturbed.analysis.diagnosis.reading.spans import Integer, compiled, read_number, skip_blanks

__all__ = ["FAULTS", "describe", "parse"]

_NUMBER, _LARGE, _NAME = range(BAD, BAD + 3)
FAULTS = {
    _NUMBER: "it does not begin with a timestamp, a non-negative number like that of the first event",
    _LARGE: "the timestamp is over 2^63",
    _NAME: "no name behind the timestamp",
}

_SHARP = 35


@compiled
def parse(source: Any, start: Integer, stop: Integer, options: Any, tail: Any) -> Line:  # noqa: ARG001 - all formats take the same
    """Read one line; the head is the name, which may hold blanks."""
    at = skip_blanks(source, start, stop)
    if source[at] == _SHARP:
        return no_event(FURTHER)
    time, end = read_number(source, at, stop, options[0])
    if end < 0:
        return no_event(_NUMBER if end == -1 else _LARGE)
    name = skip_blanks(source, end, stop)
    if name == end and end < stop:
        return no_event(_NUMBER)
    if name == stop:
        return no_event(_NAME)
    while source[stop - 1] == 32 or source[stop - 1] == 9:
        stop -= 1
    return event(time, name, stop, 0)


def describe(head: str) -> EventType:
    """Return the type of events of this name."""
    return EventType.from_name(head)
