"""Kernel events as text, beside those that applications write to trace_marker.

As tracefs prints them (Documentation/trace/ftrace.rst of the kernel), and as `trace-cmd report` and `perf script` do::

              <idle>-0       [001] d..2. 17284.993652: sched_switch: prev_comm=swapper/1 …
                bash-1977    [000] .... 17284.993652: sys_close <-system_call_fastpath
              player-1234    [002]  1234.567890: print:                tracing_mark_write: ffmpeg:decode:frame 12
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unperturbed.analysis.diagnosis.events import EventType
from unperturbed.analysis.diagnosis.reading.line import BAD, FURTHER, LOST, Line, event, no_event
from unperturbed.analysis.diagnosis.reading.spans import (
    Integer,
    append_normalised,
    begins,
    compiled,
    read_number,
    skip_blanks,
    skip_word,
    text,
)

__all__ = ["FAULTS", "KERNEL", "describe", "parse"]

KERNEL = "kernel"
"""The plugin of events whose system is not printed."""

_CPU, _TIME, _NAME = range(BAD, BAD + 3)
FAULTS = {
    _CPU: "no [processor]: it is no line of trace-cmd report or of tracefs' file trace",
    _TIME: "no time like that of the first event, with a colon behind it, after the processor",
    _NAME: "no event behind the time",
}

_BLANK, _COLON, _LESS, _MINUS, _OPEN, _CLOSE, _SHARP = 32, 58, 60, 45, 91, 93, 35


_CPU_COLON, _CPU_BLANK, _CPUS, _VERSION, _LOST, _CALLER = (
    text(begin) for begin in ("CPU:", "CPU ", "cpus=", "version = ", "[LOST ", "=> ")
)
_MARKER, _PRINT, _FUNCTION = text("tracing_mark_write:"), text("print:"), text("function:")
_MARKER_LENGTH, _PRINT_LENGTH, _FUNCTION_LENGTH = 19, 6, 9


@compiled
def _remark(source: Any, at: Integer, stop: Integer) -> Line:
    """Return what a line without a processor is: a remark of the tracer, or a fault."""
    if begins(source, at, stop, _CPU_COLON):
        place = skip_blanks(source, skip_word(source, at, stop), stop)
        if begins(source, place, stop, _LOST):
            number, end = read_number(source, place + 6, stop, 0)
            return no_event(LOST, number if end > 0 else 1)
        return no_event(FURTHER)
    for remark in (_CPU_BLANK, _CPUS, _VERSION, _CALLER):
        if begins(source, at, stop, remark):
            return no_event(FURTHER)
    return no_event(_CPU)


@compiled
def _behind_processor(source: Any, start: Integer, stop: Integer) -> Integer:
    """Return the place behind ` [digits] `, or -1. A task's name may hold brackets, but hardly digits alone in them."""
    at = start
    while at < stop:
        if source[at] == _OPEN and (at == start or source[at - 1] == _BLANK):
            end = at + 1
            while end < stop and 48 <= source[end] <= 57:
                end += 1
            if end > at + 1 and end + 1 < stop and source[end] == _CLOSE and source[end + 1] == _BLANK:
                return end + 1
        at += 1
    return -1


@compiled
def parse(source: Any, start: Integer, stop: Integer, options: Any, tail: Any) -> Line:  # noqa: PLR0911 - a return for each kind of line
    """Read one line; the head is the event, or the tail the first word that an application wrote."""
    at = skip_blanks(source, start, stop)
    if source[at] == _SHARP:
        return no_event(FURTHER)
    behind = _behind_processor(source, at, stop)
    if behind < 0:
        return _remark(source, at, stop)
    at = skip_blanks(source, behind, stop)
    time, end = read_number(source, at, stop, options[0])
    if end < 0 or end >= stop or source[end] != _COLON:  # flags stand before it: "d..2."
        at = skip_blanks(source, skip_word(source, at, stop), stop)
        time, end = read_number(source, at, stop, options[0])
    if end < 0 or end >= stop or source[end] != _COLON:
        return no_event(_TIME)

    name = skip_blanks(source, end + 1, stop)
    name_end = skip_word(source, name, stop)
    if name_end == name:
        return no_event(_NAME)
    argument = skip_blanks(source, name_end, stop)
    printed = name_end - name == _PRINT_LENGTH and begins(source, name, stop, _PRINT)
    if printed and begins(source, argument, stop, _MARKER):
        name, name_end = argument, argument + _MARKER_LENGTH
        argument = skip_blanks(source, name_end, stop)
    if printed or (name_end - name == _MARKER_LENGTH and begins(source, name, stop, _MARKER)):
        word_end = skip_word(source, argument, stop)
        if word_end == argument:
            return no_event(_NAME)
        tail_end = append_normalised(source, argument, word_end, tail, np.int64(0), True)
        return event(time, name, name, tail_end)
    if name_end - name == _FUNCTION_LENGTH and begins(
        source, name, stop, _FUNCTION
    ):  # trace-cmd's "function: callee <-- caller"
        callee_end = skip_word(source, argument, stop)
        if callee_end == argument:
            return no_event(_NAME)
        return event(time, argument, callee_end, 0)
    if source[name_end - 1] == _COLON:
        return event(time, name, name_end - 1, 0) if name_end - 1 > name else no_event(_NAME)
    if argument + 1 < stop and source[argument] == _LESS and source[argument + 1] == _MINUS:  # tracefs' "callee <-caller"
        return event(time, name, name_end, 0)
    return no_event(_NAME)


def describe(head: str, tail: str) -> EventType:
    """Return the type of events of the kernel, or of those that an application wrote."""
    if tail:
        return EventType.from_name(tail)
    system, colon, name = head.partition(":")
    return EventType(name, system) if colon else EventType(head, KERNEL)
