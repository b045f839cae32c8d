"""Debug logs of GStreamer, as gst_debug_log_default() of gst/gstinfo.c writes them; colours are gone when a line gets here.

::

    0:00:00.130346757 15130 0x563e85f7ec00 DEBUG    avidemux gstavidemux.c:2437:gst_avi_demux_loop:<avidemux0:src_0> starting loop
    time              process thread       level    category file:line:function:<object> message
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.line import (
    BAD,
    EVENT,
    FURTHER,
    LOADING,
    OPENING,
    ORDINARY,
    READY,
    RUNNING,
    Line,
    no_event,
)
from unperturbed.analysis.diagnosis.reading.spans import (
    Integer,
    append,
    append_normalised,
    begins,
    compiled,
    past_blanks,
    skip_blanks,
    skip_word,
    text,
    until,
)

__all__ = ["FAULTS", "FIELDS", "LEVELS", "NUMBERS", "OBJECT", "describe", "parse", "role_of"]

FIELDS = ("level", "category", "file", "function", "object", "word")
"""What an event's identity can be made of."""

LEVELS = ("ERROR", "WARN", "FIXME", "INFO", "DEBUG", "LOG", "TRACE", "MEMDUMP")
"""GStreamer's levels, from the coarsest."""

_TIME, _PROCESS, _THREAD, _LEVEL, _CATEGORY, _PLACE = range(BAD, BAD + 6)
FAULTS = {
    _TIME: "the time is not hours:minutes:seconds.nanoseconds",
    _PROCESS: "no process number behind the time",
    _THREAD: "no thread's address behind the process number",
    _LEVEL: "no debug level behind the thread",
    _CATEGORY: "no category behind the level",
    _PLACE: "no file:line:function: behind the category",
}

OBJECT, NUMBERS = 1, 2
"""Options of `parse`: whether the tail holds the object, and whether numbers of the word are normalised."""

_MOST_HOURS = 2_500_000
"""More nanoseconds than 2^63 from about there on; it is 285 years."""

_BLANK, _COLON, _POINT, _LESS, _GREATER, _NEWLINE = 32, 58, 46, 60, 62, 10


_REGISTRY, _PLUGIN_LOADING, _STATES, _INIT = (
    text(name) for name in ("GST_REGISTRY", "GST_PLUGIN_LOADING", "GST_STATES", "GST_INIT")
)
_READY, _OPENING = text("initialized GStreamer successfully"), text("attempt to load plugin")


@compiled
def _two_digits(source: Any, at: Integer) -> Integer:
    """Return a number of two digits, or -1."""
    tens, ones = source[at] - 48, source[at + 1] - 48
    return np.int64(tens * 10 + ones) if 0 <= tens <= 9 and 0 <= ones <= 9 else np.int64(-1)


@compiled
def role_of(source: Any, head: Integer, message: Integer, stop: Integer) -> Integer:
    """Return what an event says of loading plugins, by its category and how its message begins."""
    category = past_blanks(source, until(source, _BLANK, head, stop), stop)
    length = until(source, _BLANK, category, stop) - category
    if length == 12 and begins(source, category, stop, _REGISTRY):
        return LOADING
    if length == 18 and begins(source, category, stop, _PLUGIN_LOADING):
        return OPENING if begins(source, message, stop, _OPENING) else LOADING
    if length == 10 and begins(source, category, stop, _STATES):
        return RUNNING
    if length == 8 and begins(source, category, stop, _INIT) and begins(source, message, stop, _READY):
        return READY
    return ORDINARY


@compiled
def _function_end(source: Any, place: Integer, stop: Integer) -> Integer:
    """Return where the function's name ends in file:line:function: (":" and a blank, "<" or nothing more behind it), or -1.

    A name can hold colons, two at a time: those of C++ and Rust. None of the three holds a blank.
    """
    blank = until(source, _BLANK, place, stop)
    at = place
    while True:
        at = until(source, _COLON, at, blank) + 1
        if at >= blank:
            return -1
        first = at
        while at < blank and 48 <= source[at] <= 57:
            at += 1
        if at > first and at < blank and source[at] == _COLON:
            break
    at += 1
    while True:
        at = until(source, _COLON, at, blank)
        if at == blank:
            return -1
        if at + 1 == blank or source[at + 1] == _LESS:
            return at
        at += 1


@compiled
def _object_end(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return where the message begins behind an object `<name>`, or -1."""
    at = start
    while True:
        at = until(source, _GREATER, at + 1, stop)
        if at == stop:
            return -1
        if at + 1 == stop or source[at + 1] == _BLANK:
            return at + 1


@compiled
def _read_time(source: Any, start: Integer, stop: Integer) -> tuple[Integer, Integer, Integer]:
    """Return EVENT, the time in nanoseconds and where it ends; or what the line is instead."""
    at = start
    time = np.int64(0)
    while at < stop and 48 <= source[at] <= 57 and at < start + 9:
        time = time * 10 + np.int64(source[at] - 48)
        at += 1
    if at == start or stop - at < 3 or source[at] != _COLON:
        return FURTHER, 0, 0
    minutes = _two_digits(source, at + 1)
    if minutes < 0 or (stop - at > 3 and source[at + 3] != _COLON):
        return FURTHER, 0, 0
    if minutes > 59 or stop - at < 17 or source[at + 6] != _POINT or source[at + 16] != _BLANK:
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
def parse(  # noqa: PLR0912, PLR0911 - field after field, each with its fault
    source: Any, start: Integer, stop: Integer, options: Any, tail: Any
) -> Line:
    """Read one line.

    The head is level, category, file, line and function as they stand; the tail the object, if wanted, and the message's first word.
    """
    code, time, at = _read_time(source, start, stop)
    if code != EVENT:
        return no_event(code)
    at = past_blanks(source, at, stop)
    process = np.int64(0)
    first = at
    while at < stop and at < first + 18 and 48 <= source[at] <= 57:
        process = process * 10 + np.int64(source[at] - 48)
        at += 1
    if at == first or at >= stop or source[at] != _BLANK:
        return no_event(_PROCESS)

    at = past_blanks(source, at, stop)
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
    if at == first or at >= stop or source[at] != _BLANK:
        return no_event(_THREAD)

    head = at = past_blanks(source, at, stop)
    while at < stop and 65 <= source[at] <= 90:
        at += 1
    if at == head or at >= stop or source[at] != _BLANK:
        return no_event(_LEVEL)
    category = past_blanks(source, at, stop)
    category_end = until(source, _BLANK, category, stop)
    if category_end >= stop:
        return no_event(_CATEGORY)
    head_end = _function_end(source, past_blanks(source, category_end, stop), stop)
    if head_end < 0:
        return no_event(_PLACE)

    at = head_end + 1
    tail_end = np.int64(0)
    if at < stop and source[at] == _LESS:
        message = _object_end(source, at, stop)
        if message >= 0:
            if options[1] & OBJECT:
                tail_end = append_normalised(source, at, message, tail, tail_end, False)
            at = message
    message = skip_blanks(source, at, stop)
    tail_end = append(tail, tail_end, _NEWLINE)
    word_end = skip_word(source, message, stop)
    tail_end = append_normalised(source, message, word_end, tail, tail_end, options[1] & NUMBERS != 0)
    return Line(
        np.int64(EVENT), time, np.int64(head), np.int64(head_end), tail_end, process, np.int64(thread), np.int64(message)
    )


_HEAD = re.compile(r"(?s)(?P<level>[A-Z]+) +(?P<category>[^ \t]+)[ \t]+(?P<file>.*?):(?P<line>\d+):(?P<function>.*)")


def describe(head: str, tail: str, identity: Collection[str], by_plugin: bool) -> EventType:
    """Return the type of events with this head and tail."""
    found = _HEAD.fullmatch(head)
    if found is None:
        raise AssertionError(f"{head!r} was read as the beginning of an event")
    parts = found.groupdict()
    parts["object"], _, parts["word"] = tail.partition("\n")
    name = " ".join(parts[field] for field in identity if parts[field])
    # Of a pad, <sink0:sink>, its element; of a pad that has none yet GStreamer writes <'':sink>.
    element = parts["object"].strip("<>").partition(":")[0].replace("''", "") if "object" in identity else ""
    return EventType(name, parts["category"] if by_plugin else "", parts["level"] if "level" in identity else "", element)
