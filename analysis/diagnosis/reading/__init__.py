"""Reading of event logs; the first log loads the compiler, so that importing this package stays cheap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unperturbed.analysis.diagnosis.events import EventTrace, EventType, Unit
from unperturbed.analysis.diagnosis.reading.formats import (
    LogFormat,
    LogSample,
    ReadOptions,
    ScannedLog,
    check_options,
    choose_format,
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
    """Read a log of timestamped events, once, from beginning to end.

    Parameters
    ----------
    path : path-like or binary stream
        "-" is standard input. Plain, gzip or zstd: the first bytes show which.
    format : str, optional
        The name of a format, of those that `log_formats` returns; "pattern" is an expression of yours. By default the
        first lines decide.
    unit : {"ns", "us", "ms", "s", "ticks"}, optional
        Of the timestamps of a simple, csv or pattern log; needed where they have decimals, which then become
        nanoseconds. GStreamer's and ftrace's are nanoseconds.
    identity : sequence of str, default ("level", "function", "word")
        The fields by which two GStreamer events are the same: of "level", "category", "file", "function", "object" and
        "word", the first word of the message. The paper keeps "Debug level, function and the first argument of the
        message" (section IV-B).
    by_plugin : bool, default True
        Distinguish events of two categories although their identity is the same: each type has one plugin then. False
        is the paper's literal identity; types have no plugin then.
    keep_numbers : bool, default False
        Addresses in a word or object always become 0x#. Other numbers of a word become # too (`size=21984`), unless
        kept; those in names (`filesrc0`) stay.
    keep_start_up : bool, default False
        Keep what GStreamer logs while it loads plugins.
    process : int, optional
        Which process of a GStreamer log to read, where several wrote into it.
    columns : mapping of str to str, optional
        Columns of a csv log, for "time", "name", "plugin" and "level". By default the usual names (time, timestamp, ts;
        name, event; plugin, category; level).
    pattern : str, optional
        A regular expression, searched in each line, with the groups `time` and `name`, and `plugin` and `level` if
        wanted. A time is a number or hours:minutes:seconds. Ten times slower than the built-in formats, and more.
    most_late : int, optional
        Events that are written after a later one are sorted (stably) and counted, where they are late by at most so
        many ticks. By default in a GStreamer log: where their thread can have waited to write them; in other logs of a
        known unit 1 ms; else 0.
    most_bad : float, default 0.1
        A log is refused if a larger share of its lines holds no event. Comments and empty lines do not count.
    bad_lines_shown : int, default 5
        How many are kept in `Reading.first_bad_lines`.
    name : str, optional
        Of the trace; the source's by default.
    block_bytes : int, default 16777216
        Bytes read at a time. A longer line makes the buffer grow.

    Returns
    -------
    EventTrace
        Its `reading` has what was left out. Lines that only continue a message are not in it.

    Raises
    ------
    DataError
        No such file, damaged compression, no format that fits, no event, too many bad lines, time that goes backwards
        (with the line where), several processes or runs in one log, and arguments that contradict each other.
    HostError
        A zstd log, and no package to unpack it; or the extension of another distribution cannot be loaded.

    Notes
    -----
    Sections II-A and IV-B of Kamdem Kengne et al. A GStreamer thread takes the time of an event, then waits for the
    log's lock; so an event can be written after later ones of other threads. But when a thread has written, everything
    written before has an earlier time than the thread's next event. This is checked, without a tolerance. Memory is 12
    bytes an event, a block and the texts of the event types.
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
        sample = LogSample.of(blocks.sample, source)
        chosen = choose_format(formats, sample, options)
        log = chosen.read(blocks, sample, options)
    _require_one_run(log, chosen, options)
    return _in_order(log, chosen, name or source)


def _in_order(log: ScannedLog, chosen: LogFormat, name: str) -> EventTrace:
    """Return a log's trace: its events in order of time, its types in order of first occurrence."""
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
    """Raise DataError where a log is not that of one run."""
    reading, source = log.reading, log.reading.source
    without_event = reading.bad_lines + (reading.further_lines if chosen.counts_continued_lines else 0)
    filled = max(1, reading.lines - log.blank_lines)
    if without_event > options.most_bad * filled:
        first = reading.first_bad_lines[:3]
        shown = "; ".join(f"{source}:{bad.number}: {bad.fault} ({bad.text[:60]!r})" for bad in first)
        raise DataError(
            f"{source}: {without_event:,} of {filled:,} lines hold no event, more than {options.most_bad:.0%}."
            f" {shown or 'They continue messages'}. Is the format right? If such lines are expected, allow them"
            " (most_bad)"
        )
    if not len(log.times):
        left_out = "there are only comments, or a header"
        if reading.start_up_lines:
            left_out = f"{reading.start_up_lines:,} lines of start-up are left out: was a pipeline run?"
        if reading.other_process_lines:
            left_out = f"no line is of process {options.process}"
        raise DataError(f"{source}: no event in {reading.lines:,} lines; {left_out}")
    if log.second_run_line:
        raise DataError(
            f"{source}:{log.second_run_line}: a second run begins in this log, after a pipeline had run; give one log "
            "per run, or, where the runs are different processes, choose one (process)"
        )
    if len(log.processes) > 1:
        listed = ", ".join(f"{number} from line {line:,} on" for number, line in log.processes)
        raise DataError(
            f"{source}: several processes wrote into this log ({listed}), each with its own clock; choose one (process)"
        )
    line, delay = log.backwards
    if line:
        why = ""
        if chosen.logs_threads and options.most_late is None:
            why = "; its thread cannot have waited that long to write it"
        raise DataError(
            f"{source}:{line}: time goes backwards by {delay:,} {log.unit}{why}. Are these two logs in one, or was the"
            f" clock set? To sort such events nevertheless, allow them (most_late: {reading.largest_delay})"
        )
