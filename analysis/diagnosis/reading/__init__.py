"""Reading of event logs. The compiler is loaded with the first log, not when this package is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unperturbed.analysis.diagnosis.events import EventTrace, EventType, Unit
from unperturbed.analysis.diagnosis.reading.choosing import choose_format
from unperturbed.analysis.diagnosis.reading.formats import (
    LogFormat,
    LogSample,
    ReadOptions,
    ScannedLog,
    check_options,
    log_formats,
)
from unperturbed.analysis.diagnosis.reading.sources import Blocks, open_source, source_name
from unperturbed.errors import DataError


def read_events(
    path: str | Path | BinaryIO,
    *,
    format: str | None = None,  # noqa: A002  the usual word
    unit: Unit | None = None,
    identity: Sequence[str] = ("level", "function", "word"),
    by_plugin: bool = True,
    keep_numbers: bool = False,
    keep_start_up: bool = False,
    process: int | None = None,
    columns: Mapping[str, str] | None = None,
    pattern: str | None = None,
    most_late: int | None = None,
    most_bad: float = 0.1,
    bad_lines_shown: int = 5,
    name: str | None = None,
    block_bytes: int = 1 << 24,
) -> EventTrace:
    """Read a log of timestamped events in one pass.

    Parameters
    ----------
    path : path-like or binary stream
        "-" is standard input. The log can be plain, gzip, bzip2, xz or zstd; its first bytes show which.
    format : str, optional
        Name of a format that `log_formats` returns; "pattern" is a regular expression of the caller. By default, the
        format that best explains lines of the log's beginning, middle and end; `Reading.choice` has the reason.
    unit : {"ns", "us", "ms", "s", "ticks"}, optional
        Unit of the timestamps of a simple, csv or pattern log. It is required if they have decimals, and they are then
        converted to nanoseconds. GStreamer's and ftrace's timestamps are nanoseconds, and so are all date-times.
    identity : sequence of str, default ("level", "function", "word")
        Fields that two GStreamer events of the same type share: any of "level", "category", "file", "function",
        "object" and "word", the first word of the message. The paper keeps "Debug level, function and the first
        argument of the message" (section IV-B).
    by_plugin : bool, default True
        Distinguish events of different categories even if their identity is the same; each type then has one plugin.
        False is the paper's literal identity; types then have no plugin.
    keep_numbers : bool, default False
        Keep numbers in words (`size=21984`), which otherwise become #. Addresses in a word or object always become 0x#;
        numbers in names (`filesrc0`) are always kept.
    keep_start_up : bool, default False
        Keep the events that GStreamer logs while it loads plugins.
    process : int, optional
        The process to read from a GStreamer log that several processes wrote.
    columns : mapping of str to str, optional
        Columns of a csv log, for "time", "name", "plugin" and "level". By default the usual names (time, timestamp, ts;
        name, event; plugin, category; level).
    pattern : str, optional
        A regular expression, searched in each line, with the groups `time` and `name`, and optionally `plugin` and
        `level`. A time is a number or hours:minutes:seconds. Patterns are at least ten times slower than the built-in
        formats.
    most_late : int, optional
        Maximum delay, in ticks, of events that were written after later events; these are sorted (stably) and counted.
        By default, in a GStreamer log, the time for which their thread can have waited to write them; in other logs
        with a known unit 1 ms, and 2 s or more in logs of free text; else 0.
    most_bad : float, default 0.1
        Maximum share of lines without an event; a log with more is refused. Comments and empty lines do not count.
    bad_lines_shown : int, default 5
        Maximum number of bad lines in `Reading.first_bad_lines`.
    name : str, optional
        Name of the trace; by default that of the source.
    block_bytes : int, default 16777216
        Bytes to read at a time. The buffer grows if a line is longer.

    Returns
    -------
    EventTrace
        The trace. Its `reading` counts the lines that were left out.

    Raises
    ------
    DataError
        A missing file, damaged compression, an unknown format, no event, too many bad lines, time that goes backwards
        (with its line), several processes or runs in one log, or arguments that contradict each other.
    HostError
        A zstd log without a package to unpack it; or an extension of another distribution that cannot be loaded.

    Notes
    -----
    Sections II-A and IV-B of Kamdem Kengne et al. A GStreamer thread takes the time of an event, then waits for the
    log's lock; so an event can be written after later events of other threads. But all events in the log when a thread
    writes are earlier than that thread's next event. This is checked without a tolerance. Memory is 12 bytes for each
    event, plus a block and the texts of the event types.
    """
    options = ReadOptions(
        format="pattern" if format is None and pattern is not None else format,
        unit=unit,
        identity=tuple(identity),
        by_plugin=by_plugin,
        keep_numbers=keep_numbers,
        keep_start_up=keep_start_up,
        process=process,
        columns=dict(columns or {}),
        pattern=pattern,
        most_late=most_late,
        most_bad=most_bad,
        bad_lines_shown=bad_lines_shown,
        block_bytes=block_bytes,
    )
    formats = log_formats()
    check_options(formats, options)
    source = source_name(path)
    with open_source(path) as stream:
        blocks = Blocks(stream, options.block_bytes)
        sample = LogSample.of(blocks.sample, source, blocks.further)
        chosen, reason = choose_format(formats, sample, options)
        log = chosen.read(blocks, sample, options)
    log.reading = replace(log.reading, choice=reason)
    _require_one_run(log, chosen, options)
    return _in_order(log, chosen, name or source)


def _in_order(log: ScannedLog, chosen: LogFormat, name: str) -> EventTrace:
    """Return a log's trace, with events in order of time and types in order of first occurrence."""
    from unperturbed.analysis.diagnosis.reading.compiled_format import renumber  # noqa: PLC0415  loads the compiler

    times, events = log.times, log.events
    if log.reading.out_of_order:
        order = np.argsort(times, kind="stable")
        times, events = times[order], events[order]
    number_of: dict[EventType, int] = {}
    type_of = np.array([number_of.setdefault(kind, len(number_of)) for kind in log.types], np.int32)
    types = list(number_of)
    kept = tuple(types[number] for number in renumber(events, type_of, len(types)))
    levels: dict[str, int] = {}
    for kind, count in zip(kept, np.bincount(events, minlength=len(kept)).tolist(), strict=True):
        if kind.level:
            levels[kind.level] = levels.get(kind.level, 0) + count
    reading = replace(log.reading, levels=levels, regular_levels=chosen.regular_levels)
    return EventTrace(times, events, kept, log.unit, name, reading)


def _require_one_run(log: ScannedLog, chosen: LogFormat, options: ReadOptions) -> None:
    """Raise DataError if a log is not the log of a single run."""
    reading, source = log.reading, log.reading.source
    without_event = reading.bad_lines + (reading.further_lines if chosen.counts_continued_lines else 0)
    filled = max(1, reading.lines - log.blank_lines)
    if without_event > options.most_bad * filled:
        first = reading.first_bad_lines[:3]
        shown = "; ".join(f"{source}:{bad.number}: {bad.fault} ({bad.text[:60]!r})" for bad in first)
        raise DataError(
            f"{source}: {without_event:,} of {filled:,} lines {'contains' if without_event == 1 else 'contain'} "
            f"no event, more than the allowed {options.most_bad:.0%}. "
            f"{shown or 'These lines continue earlier messages'}. Check the format, or set `most_bad` to a larger share"
        )
    if not len(log.times):
        left_out = "it contains only comments or a header"
        if reading.start_up_lines:
            left_out = f"{reading.start_up_lines:,} lines of start-up were left out; check that a pipeline was run"
        if reading.other_process_lines:
            left_out = f"no line comes from process {options.process}"
        raise DataError(f"{source}: the log has no event in {reading.lines:,} lines: {left_out}")
    if log.second_run_line:
        raise DataError(
            f"{source}:{log.second_run_line}: a second run begins here, although a pipeline has already run: give one "
            "log for each run or, if each run is a process of its own, choose one with `process`"
        )
    if len(log.processes) > 1:
        listed = ", ".join(f"{number} from line {line:,} on" for number, line in log.processes)
        raise DataError(
            f"{source}: several processes wrote this log ({listed}), each with its own clock: choose one with `process`"
        )
    line, delay = log.backwards
    if line:
        why = ""
        if chosen.logs_threads and options.most_late is None:
            why = "; a thread cannot have waited that long to write an event"
        raise DataError(
            f"{source}:{line}: time goes backwards by {delay:,} {log.unit}{why}. Perhaps the file contains two logs, or"
            f" the clock was set. To sort late events anyway, set `most_late` to {reading.largest_delay} or more "
            f"(--most-late {reading.largest_delay})"
        )
