"""What a format's compiled function says of one line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unperturbed.analysis.diagnosis.reading.spans import Integer, compiled

__all__ = ["BAD", "EVENT", "FURTHER", "LOADING", "LOST", "OPENING", "ORDINARY", "READY", "RUNNING", "Line", "event", "no_event"]

EVENT, FURTHER, LOST, BAD = 0, 1, 2, 3
"""An event; a comment, or more of the message before; events that the tracer lost; from here on a format's own faults."""

ORDINARY, LOADING, OPENING, READY, RUNNING = range(5)
"""What a GStreamer event says: nothing; a plugin is loaded; a plugin's file is opened; the library is ready; a pipeline runs."""


class Line(NamedTuple):
    """One line, read.

    Events are the same when the bytes from `head_start` to `head_end`, and what was written to the tail, are the same. `message` is where
    GStreamer's begins.
    """

    code: Integer
    time: Integer
    head_start: Integer
    head_end: Integer
    tail_end: Integer
    process: Integer
    thread: Integer
    message: Integer


@compiled
def no_event(code: Integer, value: Integer = 0) -> Line:
    """Return a line that is no event; `value` is how many events were lost."""
    zero = np.int64(0)
    return Line(np.int64(code), np.int64(value), zero, zero, zero, zero, zero, zero)


@compiled
def event(time: Integer, head_start: Integer, head_end: Integer, tail_end: Integer) -> Line:
    """Return an event of a format without processes."""
    zero = np.int64(0)
    return Line(zero, np.int64(time), np.int64(head_start), np.int64(head_end), np.int64(tail_end), zero, zero, zero)
