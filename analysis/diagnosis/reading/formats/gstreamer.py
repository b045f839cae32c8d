"""Log format "gstreamer": debug logs as written by gst_debug_log_default() of gst/gstinfo.c, without colours.

::

    0:00:00.130346757 15130 0x563e85f7ec00 DEBUG avidemux gstavidemux.c:2437:gst_avi_demux_loop:<avidemux0:src_0>
    starting
    time              process thread       level category file:line:function:<object> message
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat, LogLayout
from unperturbed.analysis.diagnosis.reading.formats import LogSample, ReadOptions, share_of
from unperturbed.analysis.diagnosis.reading.scan import line_scanner
from unperturbed.analysis.diagnosis.reading.spans import (
    BAD,
    CONTINUED,
    EVENT,
    LOADING,
    OPENING,
    ORDINARY,
    READY,
    RUNNING,
    Integer,
    Line,
    append,
    append_normalised,
    compiled,
    end_of_word,
    find_near,
    no_event,
    padded,
    skip_spaces,
    skip_whitespace,
    starts_with,
)
from unperturbed.errors import DataError

_FIELDS = ("level", "category", "file", "function", "object", "word")
"""Fields that can be part of an event's identity."""

_TIME, _PROCESS, _THREAD, _LEVEL, _CATEGORY, _PLACE = range(BAD, BAD + 6)
_FAULTS = {
    _TIME: "the time is not hours:minutes:seconds.nanoseconds",
    _PROCESS: "no process number after the time",
    _THREAD: "no thread address after the process number",
    _LEVEL: "no debug level after the thread",
    _CATEGORY: "no category after the level",
    _PLACE: "no file:line:function: after the category",
}

_OBJECT, _NUMBERS = 1, 2
"""Flags of the setting: the object is part of the tail; numbers in the word are normalised."""

_MOST_HOURS = 2_500_000
"""Maximum number of hours: 285 years, about 2^63 nanoseconds."""

_SPACE, _COLON, _POINT, _LESS, _GREATER, _NEWLINE = 32, 58, 46, 60, 62, 10


_REGISTRY, _PLUGIN_LOADING, _STATES, _INIT = (
    padded(name) for name in ("GST_REGISTRY", "GST_PLUGIN_LOADING", "GST_STATES", "GST_INIT")
)
_READY, _OPENING = padded("initialized GStreamer successfully"), padded("attempt to load plugin")


@compiled
def _two_digits(source: Any, at: Integer) -> Integer:
    """Parse a two-digit number; return -1 for anything else."""
    tens, ones = source[at] - 48, source[at + 1] - 48
    return np.int64(tens * 10 + ones) if 0 <= tens <= 9 and 0 <= ones <= 9 else np.int64(-1)


@compiled
def _role_of(source: Any, head: Integer, message: Integer, stop: Integer) -> Integer:
    """Return an event's role in start-up, from its category and the beginning of its message."""
    category = skip_spaces(source, find_near(source, _SPACE, head, stop), stop)
    length = find_near(source, _SPACE, category, stop) - category
    if length == 12 and starts_with(source, category, stop, _REGISTRY):
        return LOADING
    if length == 18 and starts_with(source, category, stop, _PLUGIN_LOADING):
        return OPENING if starts_with(source, message, stop, _OPENING) else LOADING
    if length == 10 and starts_with(source, category, stop, _STATES):
        return RUNNING
    if length == 8 and starts_with(source, category, stop, _INIT) and starts_with(source, message, stop, _READY):
        return READY
    return ORDINARY


@compiled
def _function_end(source: Any, place: Integer, stop: Integer) -> Integer:
    """Return the index after the name in file:line:function: (a colon, then a space, "<" or the end), or -1.

    A C++ or Rust name can contain double colons. None of the three parts contains a space.
    """
    space = find_near(source, _SPACE, place, stop)
    at = place
    while True:
        at = find_near(source, _COLON, at, space) + 1
        if at >= space:
            return -1
        first = at
        while at < space and 48 <= source[at] <= 57:
            at += 1
        if at > first and at < space and source[at] == _COLON:
            break
    at += 1
    while True:
        at = find_near(source, _COLON, at, space)
        if at == space:
            return -1
        if at + 1 == space or source[at + 1] == _LESS:
            return at
        at += 1


@compiled
def _object_end(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return the index after an object `<name>`, or -1."""
    at = start
    while True:
        at = find_near(source, _GREATER, at + 1, stop)
        if at == stop:
            return -1
        if at + 1 == stop or source[at + 1] == _SPACE:
            return at + 1


@compiled
def _parse_time(source: Any, start: Integer, stop: Integer) -> tuple[Integer, Integer, Integer]:
    """Return `EVENT`, the time in nanoseconds and the index after it; or another code and zeros."""
    at = start
    time = np.int64(0)
    while at < stop and 48 <= source[at] <= 57 and at < start + 9:
        time = time * 10 + np.int64(source[at] - 48)
        at += 1
    if at == start or stop - at < 3 or source[at] != _COLON:
        return CONTINUED, 0, 0
    minutes = _two_digits(source, at + 1)
    if minutes < 0 or (stop - at > 3 and source[at + 3] != _COLON):
        return CONTINUED, 0, 0
    if minutes > 59 or stop - at < 17 or source[at + 6] != _POINT or source[at + 16] != _SPACE:
        return _TIME, 0, 0
    seconds = _two_digits(source, at + 4)
    if seconds < 0 or seconds > 59 or time > _MOST_HOURS:
        return _TIME, 0, 0
    time = (time * 60 + minutes) * 60 + seconds
    for index in range(at + 7, at + 16):
        digit = np.int64(source[index]) - 48
        if digit < 0 or digit > 9:
            return _TIME, 0, 0
        time = time * 10 + digit
    return EVENT, time, at + 16


@compiled
def _parse_later_time(source: Any, start: Integer, stop: Integer) -> tuple[Integer, Integer, Integer]:
    """Return the same as `_parse_time` for the first word that is a time, behind the prefix of another log."""
    at = start
    while at < stop:
        at = find_near(source, _SPACE, at, stop) + 1
        if at < stop and 48 <= source[at] <= 57:
            code, time, end = _parse_time(source, at, stop)
            if code == EVENT:
                return code, time, end
    return CONTINUED, 0, 0


@compiled
def _parse(  # noqa: PLR0912, PLR0911 - field after field, each with its fault
    source: Any, start: Integer, stop: Integer, settings: Any, tail: Any
) -> Line:
    """Parse one line; its head spans level to function, its tail has the object (if in the identity) and first word."""
    code, time, at = _parse_time(source, start, stop)
    if settings[1] and code != EVENT:
        code, time, at = _parse_later_time(source, start, stop)
    if code != EVENT:
        return no_event(code)
    at = skip_spaces(source, at, stop)
    process = np.int64(0)
    first = at
    while at < stop and at < first + 18 and 48 <= source[at] <= 57:
        process = process * 10 + np.int64(source[at] - 48)
        at += 1
    if at == first or at >= stop or source[at] != _SPACE:
        return no_event(_PROCESS)

    at = skip_spaces(source, at, stop)
    if at + 2 < stop and source[at] == 48 and source[at + 1] == 120:
        at += 2
    thread = np.uint64(0)
    first = at
    while at < stop and at < first + 16:
        byte = source[at]
        if 48 <= byte <= 57:
            thread = (thread << np.uint64(4)) | np.uint64(byte - 48)
        elif 97 <= (byte | 32) <= 102:
            thread = (thread << np.uint64(4)) | np.uint64((byte | 32) - 87)
        else:
            break
        at += 1
    if at == first or at >= stop or source[at] != _SPACE:
        return no_event(_THREAD)

    head = at = skip_spaces(source, at, stop)
    while at < stop and 65 <= source[at] <= 90:
        at += 1
    if at == head or at >= stop or source[at] != _SPACE:
        return no_event(_LEVEL)
    category = skip_spaces(source, at, stop)
    category_end = find_near(source, _SPACE, category, stop)
    if category_end >= stop:
        return no_event(_CATEGORY)
    head_end = _function_end(source, skip_spaces(source, category_end, stop), stop)
    if head_end < 0:
        return no_event(_PLACE)

    at = head_end + 1
    tail_end = np.int64(0)
    if at < stop and source[at] == _LESS:
        message = _object_end(source, at, stop)
        if message >= 0:
            if settings[0] & _OBJECT:
                tail_end = append_normalised(source, at, message, tail, tail_end, False)
            at = message
    message = skip_whitespace(source, at, stop)
    tail_end = append(tail, tail_end, _NEWLINE)
    word_end = end_of_word(source, message, stop)
    tail_end = append_normalised(source, message, word_end, tail, tail_end, settings[0] & _NUMBERS != 0)
    start_of_head, end_of_head = np.int64(head), np.int64(head_end)
    return Line(
        np.int64(EVENT), time, start_of_head, end_of_head, tail_end, process, np.int64(thread), np.int64(message)
    )


scan = line_scanner(_parse, _role_of)


_LINE = re.compile(r"\d+:\d\d:\d\d\.\d{9} +\d+ +(?:0x)?[0-9a-fA-F]+ +[A-Z]+ +\S")
_PREFIXED = re.compile(rf".{{1,200}}? {_LINE.pattern}")
_HEAD = re.compile(r"(?s)(?P<level>[A-Z]+) +(?P<category>[^ ]+) +(?P<file>.*?):(?P<line>\d+):(?P<function>.*)")


class _GStreamerFormat(CompiledFormat):
    def check(self, options: ReadOptions) -> None:
        """Raise DataError if `identity` has an unknown field or no field."""
        wrong = ", ".join(part for part in options.identity if part not in _FIELDS)
        if wrong or not options.identity:
            raise DataError(
                f"`identity` {f'cannot contain {wrong}' if wrong else 'is empty'}: choose from {', '.join(_FIELDS)}"
            )

    def layout(self, sample: LogSample, options: ReadOptions) -> LogLayout:
        """Return the layout with nanoseconds and the flags of the identity."""
        flags = (_OBJECT if "object" in options.identity else 0) | (0 if options.keep_numbers else _NUMBERS)
        return LogLayout("ns", (flags, int(self._is_prefixed(sample))), sample.mark_bytes)

    def recognise(self, sample: LogSample, options: ReadOptions) -> float:
        """Return the share of lines that match, or that match behind the prefix of journald, syslog or logcat."""
        plain = super().recognise(sample, options)
        return plain if plain or not self._is_prefixed(sample) else share_of(_PREFIXED, sample.lines)

    def _is_prefixed(self, sample: LogSample) -> bool:
        """Return whether lines match only behind a prefix."""
        return not share_of(_LINE, sample.lines) and share_of(_PREFIXED, sample.lines) > 0

    def describe(self, head: bytes, tail: bytes, options: ReadOptions) -> EventType:
        """Return the event type; its name consists of the fields in `options.identity`."""
        start, rest = (part.decode(errors="backslashreplace") for part in (head, tail))
        match = _HEAD.fullmatch(start)
        if match is None:
            raise AssertionError(
                f"{start!r} was read as the start of an event, but its level, category, file, line and function could "
                "not be told apart: this is a bug in unperturbed; please report it"
            )
        identity = options.identity
        parts = match.groupdict()
        parts["object"], _, parts["word"] = rest.partition("\n")
        name = " ".join(parts[field] for field in identity if parts[field])
        # For a pad, <sink0:sink>, its element; GStreamer writes <'':sink> for a pad without an element.
        element = parts["object"].strip("<>").partition(":")[0].replace("''", "") if "object" in identity else ""
        plugin = parts["category"] if options.by_plugin else ""
        return EventType(name, plugin, parts["level"] if "level" in identity else "", element)


FORMAT = _GStreamerFormat(
    name="gstreamer",
    meaning="GST_DEBUG_FILE",
    line=_LINE,
    logs_threads=True,
    counts_continued_lines=True,
    rank=3,
    regular_levels=("DEBUG", "LOG", "TRACE", "MEMDUMP"),
    faults=_FAULTS,
)
