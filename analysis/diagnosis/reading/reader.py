"""A log from its first byte to an `EventTrace`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.events import BadLine, EventTrace, EventType, Reading, Unit
from unperturbed.analysis.diagnosis.reading import ftrace, gstreamer, simple, table
from unperturbed.analysis.diagnosis.reading.formats import FORMATS, Form, Format, recognise
from unperturbed.analysis.diagnosis.reading.kernels import kernel
from unperturbed.analysis.diagnosis.reading.pattern import PatternReader, compiled_pattern
from unperturbed.analysis.diagnosis.reading.scan import (
    AT,
    BAD_TEXT,
    FTRACE,
    GSTREAMER,
    MORE_EVENTS,
    MORE_KEY_BYTES,
    MORE_KEYS,
    NO_NEED,
    SIMPLE,
    TABLE,
    Counts,
    Held,
)
from unperturbed.analysis.diagnosis.reading.sources import Blocks, opened, source_name
from unperturbed.analysis.diagnosis.reading.spans import PADDING
from unperturbed.errors import DataError

__all__ = ["Options", "read"]

_KINDS: Mapping[Format, int] = {"simple": SIMPLE, "gstreamer": GSTREAMER, "ftrace": FTRACE, "csv": TABLE}
_FAULTS: Mapping[Format, Mapping[int, str]] = {
    "simple": simple.FAULTS,
    "gstreamer": gstreamer.FAULTS,
    "ftrace": ftrace.FAULTS,
    "csv": table.FAULTS,
}
_LATE = {"ns": 1_000_000, "us": 1_000, "ms": 1, "s": 0, "ticks": 0}
"""A millisecond."""
_BY_THREADS = -1


@dataclass(frozen=True)
class Options:
    """Arguments of `read_events`, checked."""

    format: Format | None
    unit: Unit | None
    identity: tuple[str, ...]
    by_plugin: bool
    keep_numbers: bool
    keep_start_up: bool
    process: int | None
    columns: Mapping[str, str]
    pattern: str | None
    most_late: int | None
    most_bad: float
    bad_lines_shown: int
    block_bytes: int

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise DataError(f"format is one of {', '.join(FORMATS)}, not {self.format!r}")
        if self.unit is not None and self.unit not in _LATE:
            raise DataError(f"unit is one of {', '.join(_LATE)}, not {self.unit!r}")
        if (self.pattern is None) != (self.format != "pattern") and not (self.pattern is not None and self.format is None):
            raise DataError("format='pattern' and a pattern go together; other formats have none")
        wrong = [part for part in self.identity if part not in gstreamer.FIELDS]
        if wrong or not self.identity:
            raise DataError(f"identity is made of {', '.join(gstreamer.FIELDS)}, not of {', '.join(wrong) or 'nothing'}")
        if unknown := set(self.columns) - set(table.COLUMNS):
            raise DataError(f"columns name {', '.join(table.COLUMNS)}, not {', '.join(sorted(unknown))}")
        if self.most_late is not None and self.most_late < 0:
            raise DataError(f"most_late is a number of ticks, 0 or more, not {self.most_late}")
        if not 0 <= self.most_bad <= 1:
            raise DataError(f"most_bad is a share from 0 to 1, not {self.most_bad}")
        if self.bad_lines_shown < 0 or self.block_bytes < 1:
            raise DataError("bad_lines_shown is 0 or more, block_bytes 1 or more")


@dataclass
class _Scanned:
    """What was read, before it is a trace. `events` are indices into `types`, which may repeat and be out of order."""

    times: NDArray[np.int64]
    events: NDArray[np.int32]
    types: list[EventType]
    reading: Reading
    blank: int = 0
    latest: tuple[int, int] = (0, 0)
    """The first line whose time goes backwards, and by how many ticks; 0 where there is none."""
    second_run: int = 0
    processes: list[tuple[int, int]] = field(default_factory=list)
    """Processes with events, and the first line of each."""


def read(path: str | Path | BinaryIO, options: Options, name: str | None) -> EventTrace:
    """Return the trace of a log; see `read_events`."""
    source = source_name(path)
    with opened(path) as stream:
        blocks = Blocks(stream, options.block_bytes)
        wanted: Format | None = "pattern" if options.pattern is not None else options.format
        form = recognise(blocks.sample, source, wanted, options.unit, options.columns)
        if options.pattern is not None:
            scanned, unit = _by_pattern(blocks, form, options, source)
        else:
            scanned, unit = _Scanner(blocks, form, options).run(source), form.unit
    _refuse(scanned, unit, options)
    times, events = scanned.times, scanned.events
    if scanned.reading.out_of_order:
        order = np.argsort(times, kind="stable")
        times, events = times[order], events[order]
    types = list(dict.fromkeys(scanned.types))
    number_of = {kind: number for number, kind in enumerate(types)}
    type_of = np.array([number_of[kind] for kind in scanned.types], np.int32)
    order = np.empty(len(types), np.int32)
    used = kernel("renumbered")(events, type_of, np.full(len(types), -1, np.int32), order)
    kept = tuple(types[number] for number in order[:used])
    reading = replace(scanned.reading, levels=_levels(kept, events))
    return EventTrace(times, events, kept, unit, name or source, reading)


def _levels(types: Sequence[EventType], events: NDArray[np.int32]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for kind, count in zip(types, np.bincount(events, minlength=len(types)).tolist(), strict=True):
        if kind.level:
            found[kind.level] += count
    return dict(found)


class _Scanner:
    """Holds what the compiled loop fills, and lets it grow."""

    def __init__(self, blocks: Blocks, form: Form, options: Options) -> None:
        self._blocks, self._form, self._options = blocks, form, options
        counts = np.zeros(len(AT), np.int64)
        counts[AT.lines] = form.skipped_lines
        self._held = Held(
            counts=counts,
            times=np.empty(1 << 16, np.int64),
            events=np.empty(1 << 16, np.int32),
            slots=np.full(1 << 13, -1, np.int32),
            key_hash=np.empty(1 << 12, np.uint64),
            key_place=np.empty((1 << 12, 3), np.int64),
            key_role=np.zeros(1 << 12, np.int64),
            key_bytes=np.empty(1 << 18, np.uint8),
            threads=np.zeros((64, 5), np.int64),
            processes=np.zeros((64, 5), np.int64),
            bad=np.zeros((options.bad_lines_shown, 3), np.int64),
            bad_text=np.zeros((options.bad_lines_shown, BAD_TEXT + PADDING), np.uint8),
        )

    def run(self, source: str) -> _Scanned:
        """Read everything."""
        scan, blocks, options = kernel("scan"), self._blocks, self._options
        process = -1 if options.process is None else options.process
        late = options.most_late
        if late is None:
            late = _BY_THREADS if self._form.format == "gstreamer" else _LATE[self._form.unit]
        settings = self._settings()
        blocks.advance(0)
        at = 0
        skipped = self._form.skipped_bytes
        plain = np.empty(0, np.uint8)
        tail = plain
        while True:
            if skipped:
                at = min(skipped, blocks.stop)
                skipped -= at
            else:
                if len(plain) < len(blocks.buffer):
                    plain = np.empty(len(blocks.buffer), np.uint8)
                    tail = np.empty(2 * len(blocks.buffer) + 64, np.uint8)
                at = scan(
                    _KINDS[self._form.format],
                    blocks.buffer,
                    at,
                    blocks.stop,
                    blocks.is_last,
                    settings,
                    process,
                    options.keep_start_up,
                    late,
                    plain,
                    tail,
                    self._held,
                )
                if self._held.counts[AT.needs] != NO_NEED:
                    self._grow()
                    continue
            if blocks.is_last and at == blocks.stop:
                return self._scanned(source)
            blocks.advance(at)
            at = 0

    def _settings(self) -> NDArray[np.int64]:
        """Return the format's options as its compiled function takes them."""
        settings = np.zeros(16, np.int64)
        settings[0] = self._form.decimals
        if self._form.format == "gstreamer":
            settings[1] = gstreamer.OBJECT if "object" in self._options.identity else 0
            settings[1] |= 0 if self._options.keep_numbers else gstreamer.NUMBERS
        if self._form.header is not None:
            settings[1] = ord(self._form.header.delimiter)
            settings[2:6] = self._form.header.places
        return settings

    def _grow(self) -> None:
        """Double what was too small. Arrays of events grow where they are: refcheck knows only of Python's references to them."""
        held = self._held
        need = held.counts[AT.needs]
        if need == MORE_EVENTS:
            room = 2 * len(held.times)
            held.times.resize(room, refcheck=False)
            held.events.resize(room, refcheck=False)
        elif need == MORE_KEYS:
            keys = len(held.key_hash)
            self._held = held = held._replace(
                slots=np.empty(4 * keys, np.int32),
                key_hash=_doubled(held.key_hash),
                key_place=_doubled(held.key_place),
                key_role=_doubled(held.key_role),
            )
            kernel("again_hashed")(held.slots, held.key_hash, keys)
        elif need == MORE_KEY_BYTES:
            self._held = held._replace(key_bytes=_doubled(held.key_bytes))
        else:
            self._held = held._replace(threads=_doubled(held.threads), processes=_doubled(held.processes))

    def _scanned(self, source: str) -> _Scanned:
        held = self._held
        counts = Counts(*held.counts.tolist())
        events = counts.events
        held.times.resize(events, refcheck=False)
        held.events.resize(events, refcheck=False)
        text = bytes(held.key_bytes[: counts.key_bytes])
        places = held.key_place[: counts.keys].tolist()
        faults = _FAULTS[self._form.format]
        shown = tuple(
            BadLine(int(line), bytes(held.bad_text[number, :length]).decode(errors="backslashreplace"), faults[int(code)])
            for number, (line, code, length) in enumerate(held.bad[: counts.bad].tolist())
        )
        reading = Reading(
            source=source,
            format=self._form.format,
            lines=counts.lines,
            bad_lines=counts.bad,
            further_lines=counts.further,
            start_up_lines=counts.start_up,
            other_process_lines=counts.other_process,
            lost_events=counts.lost,
            out_of_order=counts.out_of_order,
            largest_delay=counts.largest_delay,
            latest_line=counts.latest_line,
            first_bad_lines=shown,
        )
        return _Scanned(
            held.times,
            held.events,
            [self._described(text[begin:middle], text[middle:end]) for begin, middle, end in places],
            reading,
            counts.blank,
            (counts.backwards_line, counts.backwards_by),
            counts.second_run_line,
            [(int(row[0]), int(row[4])) for row in held.processes[: counts.processes] if row[1]],
        )

    def _described(self, head: bytes, tail: bytes) -> EventType:
        if self._form.format == "csv":
            return table.describe(tail)
        front, back = head.decode(errors="backslashreplace"), tail.decode(errors="backslashreplace")
        if self._form.format == "gstreamer":
            return gstreamer.describe(front, back, self._options.identity, self._options.by_plugin)
        return ftrace.describe(front, back) if self._form.format == "ftrace" else simple.describe(front)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    grown = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _by_pattern(blocks: Blocks, form: Form, options: Options, source: str) -> tuple[_Scanned, Unit]:
    """Read with the user's expression, a line at a time."""
    reader = PatternReader(compiled_pattern(options.pattern or ""), options.unit, options.bad_lines_shown)
    blocks.advance(0)
    skipped = form.skipped_bytes
    while True:
        at = min(skipped, blocks.stop)
        skipped -= at
        text = bytes(blocks.buffer[at : blocks.stop])
        whole = len(text) if blocks.is_last else text.rfind(b"\n") + 1
        for line in text[:whole].removesuffix(b"\n").split(b"\n") if whole else ():
            reader.read(line)
        if blocks.is_last:
            break
        blocks.advance(at + whole)
    times, events, types, lines = reader.finish()
    unit = reader.result_unit or "ticks"
    latest = np.maximum.accumulate(times) if len(times) else times
    delays = latest - times
    most = _LATE[unit] if options.most_late is None else options.most_late
    backwards = np.flatnonzero(delays > most)
    reading = Reading(
        source=source,
        format="pattern",
        lines=reader.lines,
        bad_lines=reader.bad,
        out_of_order=int((delays > 0).sum()),
        largest_delay=int(delays.max(initial=0)),
        latest_line=lines[int(delays.argmax())] if delays.any() else 0,
        first_bad_lines=tuple(reader.shown),
    )
    first = (lines[backwards[0]], int(delays[backwards[0]])) if len(backwards) else (0, 0)
    return _Scanned(times, events, types, reading, reader.blank, first), unit


def _refuse(scanned: _Scanned, unit: Unit, options: Options) -> None:
    """Raise DataError where what was read is no trace of one run."""
    reading, source = scanned.reading, scanned.reading.source
    without_event = reading.bad_lines + (reading.further_lines if reading.format == "gstreamer" else 0)
    filled = max(1, reading.lines - scanned.blank)
    if without_event > options.most_bad * filled:
        shown = "; ".join(f"{source}:{bad.number}: {bad.fault} ({bad.text[:60]!r})" for bad in reading.first_bad_lines[:3])
        raise DataError(
            f"{source}: {without_event:,} of {filled:,} lines hold no event, more than {options.most_bad:.0%}. {shown or 'They continue messages'}."
            " Is the format right? If such lines are to be expected, allow them (most_bad)"
        )
    if not len(scanned.times):
        left_out = "there are only comments, or a header"
        if reading.start_up_lines:
            left_out = f"{reading.start_up_lines:,} lines of start-up are left out: was a pipeline run?"
        if reading.other_process_lines:
            left_out = f"no line is of process {options.process}"
        raise DataError(f"{source}: no event in {reading.lines:,} lines; {left_out}")
    if scanned.second_run:
        raise DataError(
            f"{source}:{scanned.second_run}: a second run begins in this log, after a pipeline had run; give one log a run, or, where the runs"
            " are different processes, choose one (process)"
        )
    if len(scanned.processes) > 1:
        listed = ", ".join(f"{number} from line {line:,} on" for number, line in scanned.processes)
        raise DataError(
            f"{source}: several processes wrote into this log ({listed}), each with its own clock; choose one (process)"
        )
    line, delay = scanned.latest
    if line:
        why = (
            "; its thread cannot have waited that long to write it"
            if reading.format == "gstreamer" and options.most_late is None
            else ""
        )
        raise DataError(
            f"{source}:{line}: time goes backwards by {delay:,} {unit}{why}. Are these two logs in one, or was the clock set?"
            f" To sort such events nevertheless, allow them (most_late: {reading.largest_delay})"
        )
