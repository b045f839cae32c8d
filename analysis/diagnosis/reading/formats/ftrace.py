"""Log format "ftrace": kernel events as text, and events that applications write to trace_marker.

They are printed by tracefs (Documentation/trace/ftrace.rst of the kernel), `trace-cmd report` and `perf script`::

              <idle>-0       [001] d..2. 17284.993652: sched_switch: prev_comm=swapper/1 …
                bash-1977    [000] .... 17284.993652: sys_close <-system_call_fastpath
                bash-1977    [000] .... 17284.993652: sys_read(fd: 3, buf: 7ffc0cbb7b48, count: 1000)
                bash-1977    [000] .... 17284.993652: sys_read -> 0x10
              player-1234    [002]  1234.567890: print:                tracing_mark_write: ffmpeg:decode:frame 12
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.compiled_format import CompiledFormat, LogLayout
from unperturbed.analysis.diagnosis.reading.formats import LogSample, ReadOptions
from unperturbed.analysis.diagnosis.reading.scan import line_scanner
from unperturbed.analysis.diagnosis.reading.spans import (
    BAD,
    CONTINUED,
    LOST,
    Integer,
    Line,
    append_normalised,
    compiled,
    end_of_word,
    event,
    no_event,
    padded,
    read_number,
    skip_whitespace,
    starts_with,
)
from unperturbed.errors import DataError

_LINE = re.compile(r"(?:.*\s)?\[\d+\]\s+(?:\S+\s+)?(?P<time>\d+(?:\.\d+)?):\s+\S")
_KERNEL = "kernel"
"""Plugin of events whose system is not printed."""

_CPU, _TIME, _NAME = range(BAD, BAD + 3)
_FAULTS = {
    _CPU: "no [processor]: not a line of `trace-cmd report` or of tracefs's file `trace`",
    _TIME: "no time after the processor, in the format of the first event's time and followed by a colon",
    _NAME: "no event after the time",
}

_SPACE, _COLON, _LESS, _MINUS, _MORE, _OPEN, _CLOSE, _HASH, _PARENTHESIS = 32, 58, 60, 45, 62, 91, 93, 35, 40


_CPU_COLON, _CPU_SPACE, _CPUS, _VERSION, _LOST, _CALLER = (
    padded(begin) for begin in ("CPU:", "CPU ", "cpus=", "version = ", "[LOST ", "=> ")
)
_SYSCALL = padded("sys_")
_MARKER, _PRINT, _FUNCTION = padded("tracing_mark_write:"), padded("print:"), padded("function:")
_MARKER_LENGTH, _PRINT_LENGTH, _FUNCTION_LENGTH = 19, 6, 9


@compiled
def _parse_remark(source: Any, at: Integer, stop: Integer) -> Line:
    """Parse a line without a processor number: a remark of the tracer, or a fault."""
    if starts_with(source, at, stop, _CPU_COLON):
        place = skip_whitespace(source, end_of_word(source, at, stop), stop)
        if starts_with(source, place, stop, _LOST):
            number, end = read_number(source, place + 6, stop, 0)
            return no_event(LOST, number if end > 0 else 1)
        return no_event(CONTINUED)
    for remark in (_CPU_SPACE, _CPUS, _VERSION, _CALLER):
        if starts_with(source, at, stop, remark):
            return no_event(CONTINUED)
    return no_event(_CPU)


@compiled
def _after_processor(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return the index after ` [digits] `, or -1; brackets in a task's name are unlikely to contain only digits."""
    at = start
    while at < stop:
        if source[at] == _OPEN and (at == start or source[at - 1] == _SPACE):
            end = at + 1
            while end < stop and 48 <= source[end] <= 57:
                end += 1
            if end > at + 1 and end + 1 < stop and source[end] == _CLOSE and source[end + 1] == _SPACE:
                return end + 1
        at += 1
    return -1


@compiled
def _head_end(source: Any, name: Integer, name_end: Integer, argument: Integer, stop: Integer) -> Integer:
    """Return the end of `name` in `name:` or `name <-`, of `sys_read(` or of `sys_read ->`; else the name's start."""
    if starts_with(source, name, stop, _SYSCALL):
        at = name
        while at < name_end:
            if source[at] == _PARENTHESIS:
                return at + 1
            at += 1
        if argument + 1 < stop and source[argument] == _MINUS and source[argument + 1] == _MORE:
            return argument + 2
    if source[name_end - 1] == _COLON:
        return name_end - 1
    if argument + 1 < stop and source[argument] == _LESS and source[argument + 1] == _MINUS:
        return name_end
    return name


@compiled
def _parse(source: Any, start: Integer, stop: Integer, settings: Any, tail: Any) -> Line:  # noqa: PLR0911
    """Parse one line; the head is a kernel event, or the tail is the first word that an application wrote."""
    at = skip_whitespace(source, start, stop)
    if source[at] == _HASH:
        return no_event(CONTINUED)
    after = _after_processor(source, at, stop)
    if after < 0:
        return _parse_remark(source, at, stop)
    at = skip_whitespace(source, after, stop)
    time, end = read_number(source, at, stop, settings[0])
    if end < 0 or end >= stop or source[end] != _COLON:  # flags are printed before the time: "d..2."
        at = skip_whitespace(source, end_of_word(source, at, stop), stop)
        time, end = read_number(source, at, stop, settings[0])
    if end < 0 or end >= stop or source[end] != _COLON:
        return no_event(_TIME)

    name = skip_whitespace(source, end + 1, stop)
    name_end = end_of_word(source, name, stop)
    if name_end == name:
        return no_event(_NAME)
    argument = skip_whitespace(source, name_end, stop)
    printed = name_end - name == _PRINT_LENGTH and starts_with(source, name, stop, _PRINT)
    if printed and starts_with(source, argument, stop, _MARKER):
        name, name_end = argument, argument + _MARKER_LENGTH
        argument = skip_whitespace(source, name_end, stop)
    if printed or (name_end - name == _MARKER_LENGTH and starts_with(source, name, stop, _MARKER)):
        word_end = end_of_word(source, argument, stop)
        if word_end == argument:
            return no_event(_NAME)
        tail_end = append_normalised(source, argument, word_end, tail, np.int64(0), True)
        return event(time, name, name, tail_end)
    # trace-cmd's "function: callee <-- caller"
    if name_end - name == _FUNCTION_LENGTH and starts_with(source, name, stop, _FUNCTION):
        callee_end = end_of_word(source, argument, stop)
        if callee_end == argument:
            return no_event(_NAME)
        return event(time, argument, callee_end, 0)
    head_end = _head_end(source, name, name_end, argument, stop)
    return event(time, name, head_end, 0) if head_end > name else no_event(_NAME)


scan = line_scanner(_parse)


class _FtraceFormat(CompiledFormat):
    def recognise(self, sample: LogSample, options: ReadOptions) -> float:
        """Return the share of lines that match; 1 for a log with only a tracer's heading."""
        if any(line.startswith("# tracer: function_graph") for line in sample.lines):
            raise DataError(
                f"{sample.source}:1: this output of ftrace's tracer `function_graph` has durations but no timestamps: "
                "record with the tracer `function`, or with the tracer `nop` and events switched on"
            )
        if sample.lines[0].startswith("# tracer:") and all(line.startswith(self.remarks) for line in sample.lines):
            return 1.0
        return super().recognise(sample, options)

    def layout(self, sample: LogSample, options: ReadOptions) -> LogLayout:  # noqa: ARG002  as all formats
        """Return the layout with nanoseconds, or ticks if the first time has no decimals."""
        match = next(filter(None, map(_LINE.match, sample.lines)), None)
        if match and "." not in match["time"]:
            return LogLayout("ticks", (0,), sample.mark_bytes)
        return LogLayout("ns", (9,), sample.mark_bytes)

    def describe(self, head: bytes, tail: bytes, options: ReadOptions) -> EventType:  # noqa: ARG002  the same
        """Return the event type: an application's text from the tail, or a kernel event from the head."""
        if tail:
            return EventType.from_name(tail.decode(errors="backslashreplace"))
        name = head.decode(errors="backslashreplace")
        if name.startswith("sys_") and name.endswith(("(", "->")):  # named as in trace-cmd and perf script
            entry = "enter" if name.endswith("(") else "exit"
            return EventType(f"sys_{entry}_{name.removeprefix('sys_').rstrip('(-> ')}", "syscalls")
        system, colon, event_name = name.partition(":")
        return EventType(event_name, system) if colon else EventType(name, _KERNEL)


FORMAT = _FtraceFormat(
    name="ftrace",
    meaning="tracefs, trace-cmd report or perf script",
    rank=3,
    line=_LINE,
    remarks=("#", "cpus=", "CPU ", "version ="),
    faults=_FAULTS,
)
