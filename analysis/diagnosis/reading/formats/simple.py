"""`timestamp name`, one event a line, as in figure 1 of the paper."""

from __future__ import annotations

import re
from typing import Any

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat, Layout
from unperturbed.analysis.diagnosis.reading.format import LogSample, ReadOptions, require_unit
from unperturbed.analysis.diagnosis.reading.line import BAD, CONTINUED, Line, event, no_event
from unperturbed.analysis.diagnosis.reading.scan import line_scanner
from unperturbed.analysis.diagnosis.reading.spans import Integer, compiled, read_number, skip_whitespace

_NUMBER, _LARGE, _NAME = range(BAD, BAD + 3)
_FAULTS = {
    _NUMBER: "it does not begin with a timestamp, a non-negative number like that of the first event",
    _LARGE: "the timestamp is over 2^63",
    _NAME: "no name behind the timestamp",
}
_LINE = re.compile(r"\s*(?P<time>\d+(?:\.\d+)?)\s+\S")
_HASH = 35


@compiled
def _parse(source: Any, start: Integer, stop: Integer, settings: Any, tail: Any) -> Line:  # noqa: ARG001
    """Parse one line; the head is the name, which may hold spaces."""
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


def _layout(sample: LogSample, options: ReadOptions) -> Layout:
    found = next((match for line in sample.lines if (match := _LINE.match(line))), None)
    unit, decimals = require_unit(found["time"] if found else "", options.unit, sample.source, 1)
    return Layout(unit, (decimals,), sample.mark_bytes)


def _describe(head: bytes, tail: bytes, options: ReadOptions) -> EventType:  # noqa: ARG001
    return EventType.from_name(head.decode(errors="backslashreplace"))


FORMAT = CompiledFormat(
    name="simple",
    meaning="timestamp and name",
    line=_LINE,
    module=__name__,
    faults=_FAULTS,
    layout=_layout,
    describe=_describe,
)
