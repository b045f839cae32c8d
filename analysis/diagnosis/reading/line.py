"""The result of a compiled format's `parse` for one line."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unperturbed.analysis.diagnosis.reading.spans import Integer, compiled

EVENT, CONTINUED, LOST, BAD = 0, 1, 2, 3
"""Codes of a line: an event; a comment, or more of the message before; a number of events that the tracer lost; from
`BAD` on the format's own faults."""

ORDINARY, LOADING, OPENING, READY, RUNNING = range(5)
"""Roles of an event in starting up: none; a plugin loads; its file is opened; the library is ready; a pipeline runs."""


class Line(NamedTuple):
    """One parsed line.

    Two events are of the same type if the bytes from `head_start` to `head_end` are equal, and those written to the
    tail.
    """

    code: Integer  # `EVENT`, `CONTINUED`, `LOST`, or `BAD` and above
    time: Integer  # Timestamp in ticks of the layout's unit; of `LOST`, how many events
    # head_start, head_end: The head's byte range in the line's buffer.
    head_start: Integer
    head_end: Integer
    tail_end: Integer  # Bytes that were written to the tail
    # process, thread: Who wrote the event, in a format that logs this; else 0.
    process: Integer
    thread: Integer
    message: Integer  # Index of the message in the line's buffer; 0 where `role_of` does not need it


@compiled
def no_event(code: Integer, value: Integer = 0) -> Line:
    """Return the result for a line without an event; `value` is the number of lost events."""
    zero = np.int64(0)
    return Line(np.int64(code), np.int64(value), zero, zero, zero, zero, zero, zero)


@compiled
def event(time: Integer, head_start: Integer, head_end: Integer, tail_end: Integer) -> Line:
    """Return the result for an event of a format that logs neither process nor thread."""
    zero = np.int64(0)
    return Line(zero, np.int64(time), np.int64(head_start), np.int64(head_end), np.int64(tail_end), zero, zero, zero)


@compiled
def no_role(source: Any, head: Integer, message: Integer, stop: Integer) -> Integer:  # noqa: ARG001  as a format's own
    """Return `ORDINARY`: the format logs nothing about starting up."""
    return np.int64(ORDINARY)
