"""Base of formats whose lines are parsed by a compiled function in 0.2 µs each, such as most built-in formats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.diagnosis.events import BadLine, EventType, Reading, Unit
from unperturbed.analysis.diagnosis.reading import scan, spans
from unperturbed.analysis.diagnosis.reading.formats import MILLISECOND, LogFormat, LogSample, ReadOptions, ScannedLog
from unperturbed.analysis.diagnosis.reading.scan import BAD_TEXT, EVENTS, INDEX, NOTHING, TYPE_BYTES, TYPES
from unperturbed.analysis.diagnosis.reading.sources import PADDING, Blocks
from unperturbed.analysis.diagnosis.reading.spans import WITHOUT_REFERENCE_COUNTS
from unperturbed.common.extras import load_library

numba = load_library("numba")

_CALLED_MODULES = (spans.__name__, scan.__name__)
_UNTIL_ITS_NEXT_EVENT = -1


@dataclass(frozen=True)
class LogLayout:
    """Layout of one log of a compiled format: its unit, and the settings of its parser."""

    unit: Unit  # {"ns", "us", "ms", "s", "ticks"}: Unit of the resulting timestamps
    settings: tuple[int, ...]  # Settings of `parse`, at most 16 numbers
    skipped_bytes: int  # Bytes before the first event: a byte order mark, a header
    skipped_lines: int = 0  # Number of lines in the skipped bytes


@dataclass(frozen=True, kw_only=True)
class CompiledFormat(LogFormat):
    """Format whose lines are parsed by a compiled function; its module has `scan = line_scanner(parse)`."""

    faults: Mapping[int, str]  # Descriptions of faults in a line, by the codes that `parse` returns

    @abstractmethod
    def layout(self, sample: LogSample, options: ReadOptions) -> LogLayout:
        """Return the layout of the log that begins with this sample."""

    @abstractmethod
    def describe(self, head: bytes, tail: bytes, options: ReadOptions) -> EventType:
        """Return the type of the events with this head and tail."""

    def compile(self) -> None:
        """Compile the loop over lines, or load it if it was compiled before."""
        self._scan_loop()

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log, block by block."""
        layout = self.layout(sample, options)
        late = options.most_late
        if late is None:
            late = _UNTIL_ITS_NEXT_EVENT if self.logs_threads else MILLISECOND[layout.unit]
        state = _scan(self._scan_loop(), blocks, layout, options, late)
        return self._scanned(state, layout.unit, sample.source, options)

    def _scan_loop(self) -> Callable[..., Any]:
        """Return the compiled loop over lines; compile it if necessary."""
        integer, truth, text = numba.int64, numba.boolean, numba.uint8[::1]
        settings, state = numba.int64[::1], numba.typeof(_empty_state(0, 0))
        arguments = (text, integer, integer, truth, settings, integer, truth, integer, text, text, state)
        return _compiled(type(self).__module__, "scan", arguments)

    def _scanned(self, state: scan.ScanState, unit: Unit, source: str, options: ReadOptions) -> ScannedLog:
        counts = scan.ScanCounts(*state.counts.tolist())
        state.times.resize(counts.events, refcheck=False)
        state.events.resize(counts.events, refcheck=False)
        text = bytes(state.type_bytes[: counts.type_bytes])
        ranges = state.type_range[: counts.types].tolist()
        shown = []
        for index, (number, code, length) in enumerate(state.bad[: counts.bad_lines].tolist()):
            raw = bytes(state.bad_text[index, :length])
            shown.append(BadLine(number, raw.decode(errors="backslashreplace"), self.faults[code]))
        counted: list[Any] = [source, self.name, *state.counts[: INDEX.latest_line + 1].tolist(), tuple(shown)]
        return ScannedLog(
            state.times,
            state.events,
            [self.describe(text[begin:middle], text[middle:end], options) for begin, middle, end in ranges],
            unit,
            Reading(*counted),
            counts.blank,
            (counts.backwards_line, counts.backwards_by),
            counts.second_run_line,
            [(int(row[0]), int(row[4])) for row in state.processes[: counts.processes] if row[1]],
        )


def renumber(events: NDArray[np.int32], type_of: NDArray[np.int32], types: int) -> NDArray[np.int32]:
    """Renumber event types in place, by first occurrence; return the old numbers in that order."""
    order = np.empty(types, np.int32)
    loop = _compiled(scan.__name__, "renumber", (numba.int32[::1],) * 4)
    return order[: loop(events, type_of, np.full(types, -1, np.int32), order)]


def _compiled(module: str, function: str, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    options: dict[str, Any] = {
        "called": "the readers of event logs",
        "error_model": "numpy",
        **WITHOUT_REFERENCE_COUNTS,
    }
    return compiled(module, function, (arguments,), calls=_CALLED_MODULES, **options)


def _scan(
    loop: Callable[..., Any], blocks: Blocks, layout: LogLayout, options: ReadOptions, late: int
) -> scan.ScanState:
    """Run the compiled loop over all blocks, and enlarge arrays when the loop reports that they are full."""
    state = _empty_state(layout.skipped_lines, options.bad_lines_shown)
    settings = np.zeros(16, np.int64)
    settings[: len(layout.settings)] = layout.settings
    process = -1 if options.process is None else options.process
    plain = tail = np.empty(0, np.uint8)
    at, skipped = 0, layout.skipped_bytes
    blocks.advance(0)
    while True:
        if skipped:
            at = min(skipped, blocks.stop)
            skipped -= at
        else:
            if len(plain) < len(blocks.buffer):
                plain = np.empty(len(blocks.buffer), np.uint8)
                tail = np.empty(2 * len(blocks.buffer) + 64, np.uint8)
            last, keep = blocks.is_last, options.keep_start_up
            at = loop(blocks.buffer, at, blocks.stop, last, settings, process, keep, late, plain, tail, state)
            if state.counts[INDEX.lacks] != NOTHING:
                state = _grown(state)
                continue
        if blocks.is_last and at == blocks.stop:
            return state
        blocks.advance(at)
        at = 0


def _empty_state(skipped_lines: int, bad_lines_shown: int) -> scan.ScanState:
    counts = np.zeros(len(INDEX), np.int64)
    counts[INDEX.lines] = skipped_lines
    return scan.ScanState(
        counts=counts,
        times=np.empty(1 << 16, np.int64),
        events=np.empty(1 << 16, np.int32),
        slots=np.full(1 << 13, -1, np.int32),
        type_hash=np.empty(1 << 12, np.uint64),
        type_range=np.empty((1 << 12, 3), np.int64),
        type_role=np.zeros(1 << 12, np.int64),
        type_bytes=np.empty(1 << 18, np.uint8),
        threads=np.zeros((64, 5), np.int64),
        processes=np.zeros((64, 5), np.int64),
        bad=np.zeros((bad_lines_shown, 3), np.int64),
        bad_text=np.zeros((bad_lines_shown, BAD_TEXT + PADDING), np.uint8),
    )


def _grown(state: scan.ScanState) -> scan.ScanState:
    """Double the full array; arrays of events grow in place, without numpy's check for references."""
    lacks = state.counts[INDEX.lacks]
    if lacks == EVENTS:
        for of_events in (state.times, state.events):
            of_events.resize(2 * len(of_events), refcheck=False)
        return state
    full = {TYPES: ("type_hash", "type_range", "type_role"), TYPE_BYTES: ("type_bytes",)}
    grown = {}
    for name in full.get(lacks, ("threads", "processes")):
        array: NDArray[Any] = getattr(state, name)
        grown[name] = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
        grown[name][: len(array)] = array
    if lacks == TYPES:
        grown["slots"] = np.empty(2 * len(state.slots), np.int32)
        rehash = _compiled(scan.__name__, "rehash", (numba.int32[::1], numba.uint64[::1], numba.int64))
        rehash(grown["slots"], grown["type_hash"], len(state.type_hash))
    return state._replace(**grown)
