"""Read a log from its first byte to an `EventTrace`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unperturbed.analysis.diagnosis.events import EventTrace, EventType, Ids
from unperturbed.analysis.diagnosis.reading.compiled_format import renumber
from unperturbed.analysis.diagnosis.reading.format import (
    LogFormat,
    LogSample,
    ReadOptions,
    ScannedLog,
    choose_format,
    log_formats,
    require_format,
)
from unperturbed.analysis.diagnosis.reading.sources import Blocks, open_source, source_name
from unperturbed.errors import DataError


def read(path: str | Path | BinaryIO, options: ReadOptions, name: str | None) -> EventTrace:
    """Return the trace of a log; see `read_events`."""
    formats = log_formats()
    if options.format is not None:
        require_format(options.format, formats)
    for one in formats.values():
        one.check(options)
    source = source_name(path)
    with open_source(path) as stream:
        blocks = Blocks(stream, options.block_bytes)
        sample = LogSample.of(blocks.sample, source)
        chosen = choose_format(formats, sample, options)
        log = chosen.read(blocks, sample, options)
    _require_one_run(log, chosen, options)
    times, events = log.times, log.events
    if log.reading.out_of_order:
        order = np.argsort(times, kind="stable")
        times, events = times[order], events[order]
    types = list(dict.fromkeys(log.types))
    number_of = {kind: number for number, kind in enumerate(types)}
    type_of = np.array([number_of[kind] for kind in log.types], np.int32)
    kept = tuple(types[number] for number in renumber(events, type_of, len(types)))
    reading = replace(log.reading, levels=_count_levels(kept, events), regular_levels=chosen.regular_levels)
    return EventTrace(times, events, kept, log.unit, name or source, reading)


def _count_levels(types: Sequence[EventType], events: Ids) -> dict[str, int]:
    found: Counter[str] = Counter()
    for kind, count in zip(types, np.bincount(events, minlength=len(types)).tolist(), strict=True):
        if kind.level:
            found[kind.level] += count
    return dict(found)


def _require_one_run(log: ScannedLog, chosen: LogFormat, options: ReadOptions) -> None:
    """Raise DataError where a log is not that of one run."""
    reading, source = log.reading, log.reading.source
    without_event = reading.bad_lines + (reading.further_lines if chosen.counts_continued_lines else 0)
    filled = max(1, reading.lines - log.blank_lines)
    if without_event > options.most_bad * filled:
        shown = "; ".join(
            f"{source}:{bad.number}: {bad.fault} ({bad.text[:60]!r})" for bad in reading.first_bad_lines[:3]
        )
        raise DataError(
            f"{source}: {without_event:,} of {filled:,} lines hold no event, more than {options.most_bad:.0%}."
            f" {shown or 'They continue messages'}. Is the format right? If such lines are to be expected, allow them"
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
