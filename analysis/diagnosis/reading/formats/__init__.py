"""Formats of event logs: what a format is, which ones exist, and which one a log has.

A format is a record in a module of this package, a `PlainFormat` or a `CompiledFormat`. Another distribution adds one
by an entry point in the group `unperturbed.log_formats`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.events import BadLine, EventType, Reading, Unit
from unperturbed.analysis.diagnosis.reading.sources import Blocks
from unperturbed.common.extensions import records_in
from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import DataError

_GROUP = "unperturbed.log_formats"
_SAMPLE_LINES = 200
_LARGEST = 2**63 - 1
_COLOURS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")

MILLISECOND: Mapping[Unit, int] = {"ns": 1_000_000, "us": 1_000, "ms": 1, "s": 0, "ticks": 0}
"""Ticks of a unit: by so much an event may be late where its format does not log threads."""
DECIMALS: Mapping[str, int] = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Decimals of a unit down to nanoseconds."""


@dataclass(frozen=True)
class ReadOptions:
    """Arguments of `read_events`, which explains them."""

    format: str | None
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
        if self.unit is not None and self.unit not in MILLISECOND:
            raise DataError(f"unit must be one of {', '.join(MILLISECOND)}, not {self.unit!r}")
        if self.most_late is not None and self.most_late < 0:
            raise DataError(f"most_late must be a number of ticks, 0 or more, not {self.most_late}")
        if not 0 <= self.most_bad <= 1:
            raise DataError(f"most_bad must be a share from 0 to 1, not {self.most_bad}")
        if self.bad_lines_shown < 0 or self.block_bytes < 1:
            raise DataError("bad_lines_shown must be 0 or more, block_bytes 1 or more")


@dataclass(frozen=True)
class LogSample:
    """The beginning of a log."""

    source: str  # The log's name in messages
    lines: list[str]  # The first lines, without empty ones and without colours
    mark_bytes: int  # Length of the byte order mark; 0 without one
    first_line: str  # The first line that is not empty, as it is in the log
    first_number: int  # Its line number, from 1
    first_end: int  # Bytes from the beginning of the log to the end of that line

    @classmethod
    def of(cls, start: bytes, source: str) -> LogSample:
        """Return the sample of a log that starts with these bytes; an empty log raises DataError."""
        mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
        body = start[mark:]
        plain = _COLOURS.sub(b"", body).splitlines()[: 2 * _SAMPLE_LINES]
        lines = [line.decode(errors="replace") for line in plain if line.strip()]
        if not lines:
            raise DataError(f"{source}: the log is empty; was the program traced, and is this its log?")
        before = len(body) - len(body.lstrip(b"\r\n"))
        number = body[: len(body) - len(body.lstrip())].count(b"\n") + 1
        first, _, _ = body[before:].partition(b"\n")
        end = min(mark + before + len(first) + 1, len(start))
        return cls(source, lines, mark, first.decode(errors="replace").rstrip("\r"), number, end)


@dataclass
class ScannedLog:
    """A log after its last line, before it is sorted and checked."""

    times: NDArray[np.int64]  # (events,): Timestamps in `unit`, in the order of the log
    events: NDArray[np.int32]  # (events,): Indices into `types`
    types: list[EventType]  # They may repeat, be in any order, and not occur at all
    unit: Unit  # Of the timestamps
    reading: Reading  # What was counted
    blank_lines: int = 0  # Empty lines
    # The first line whose time goes backwards too far, and by how many ticks; zeros where there
    # is none.
    backwards: tuple[int, int] = (0, 0)
    second_run_line: int = 0  # Line in which a second run begins; 0 where there is none
    # Processes with events, and the first line of each; empty where the format does not
    # log processes.
    processes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LogFormat(ABC):
    """A format of event logs.

    Attributes
    ----------
    name : str
        The name that `format=` and `--format` take.
    meaning : str
        What a line holds, in a few words for the help.
    line : re.Pattern, optional
        Matches the beginning of every line that is an event; the format is recognised by it. None: it is used on
        request alone, unless the format overrides `recognise`.
    remarks : tuple of str, default ("#",)
        Beginnings of lines that are not events and no faults.
    logs_threads : bool, default False
        An event is logged with its process and thread: it may be late only until its thread's next event.
    counts_continued_lines : bool, default False
        Lines that continue a message count against `most_bad` too.
    regular_levels : tuple of str, default ()
        Levels at which regular events are logged. A log without any of them is too coarse to be compared.
    """

    name: str
    meaning: str
    line: re.Pattern[str] | None = None
    remarks: tuple[str, ...] = ("#",)
    logs_threads: bool = False
    counts_continued_lines: bool = False
    regular_levels: tuple[str, ...] = ()

    def check(self, options: ReadOptions) -> None:  # noqa: B027  most formats have nothing to check
        """Raise DataError where the options that concern this format are wrong; whichever format the log has."""

    def recognise(self, sample: LogSample, options: ReadOptions) -> float:  # noqa: ARG002  formats may need them
        """Return the share of a log's first lines that fit, from 0 to 1."""
        lines = [line for line in sample.lines if not line.startswith(self.remarks)][:_SAMPLE_LINES]
        return sum(bool(self.line and self.line.match(line)) for line in lines) / max(1, len(lines))

    def compile(self) -> None:  # noqa: B027  most formats have nothing to compile
        """Compile what `read` calls, ahead of the first log; without effect where it was done before."""

    @abstractmethod
    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log."""


LineParser = Callable[[str], tuple[int, EventType] | None]
"""Returns timestamp and type of the event in a line, and None for a remark; a ValueError describes a bad line."""


@dataclass(frozen=True, kw_only=True)
class PlainFormat(LogFormat):
    """A format whose lines are parsed by a Python function: some 2 µs a line and more, compiled ones take 0.2 µs.

    Attributes
    ----------
    parse : callable
        Takes a line without its end; returns (timestamp, type), or None where the line is not an event and no fault. It
        raises ValueError, with what is wrong, for a line that should be an event and is none.
    unit : {"ns", "us", "ms", "s", "ticks"}, default "ticks"
        Of the timestamps. The user's `unit` replaces "ticks".
    """

    parse: LineParser | None = None
    unit: Unit = "ticks"

    def parser(self, options: ReadOptions) -> tuple[LineParser, Callable[[], Unit]]:
        """Return the function that parses one log's lines, and one that returns the unit when all are parsed."""
        if self.parse is None:
            raise TypeError(f"the log format {self.name} has no function parse")
        unit = options.unit or "ticks" if self.unit == "ticks" else self.unit
        return self.parse, lambda: unit

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log, one after the other."""
        parse, unit_of = self.parser(options)
        times: list[int] = []
        events: list[int] = []
        numbers: list[int] = []
        types: dict[EventType, int] = {}
        bad: list[BadLine] = []
        lines = blank = remarks = bad_lines = 0
        for raw in blocks.lines(sample.mark_bytes):
            lines += 1
            line = raw.removesuffix(b"\r").decode(errors="backslashreplace")
            if not line.strip(" \t"):
                blank += 1
                continue
            try:
                event = _checked(parse(line))
            except ValueError as fault:
                bad_lines += 1
                if len(bad) < options.bad_lines_shown:
                    bad.append(BadLine(lines, line, str(fault)))
                continue
            if event is None:
                remarks += 1
                continue
            times.append(event[0])
            events.append(types.setdefault(event[1], len(types)))
            numbers.append(lines)
        unit = unit_of()
        stamps = np.array(times, np.int64)
        delays = np.maximum.accumulate(stamps) - stamps if times else stamps
        most = MILLISECOND[unit] if options.most_late is None else options.most_late
        backwards = np.flatnonzero(delays > most)
        reading = Reading(
            source=sample.source,
            format=self.name,
            lines=lines,
            bad_lines=bad_lines,
            further_lines=remarks,
            out_of_order=int((delays > 0).sum()),
            largest_delay=int(delays.max(initial=0)),
            latest_line=numbers[int(delays.argmax())] if delays.any() else 0,
            first_bad_lines=tuple(bad),
        )
        first = (numbers[backwards[0]], int(delays[backwards[0]])) if len(backwards) else (0, 0)
        return ScannedLog(stamps, np.array(events, np.int32), list(types), unit, reading, blank, first)


def _checked(event: tuple[int, EventType] | None) -> tuple[int, EventType] | None:
    if event is not None and not 0 <= event[0] <= _LARGEST:
        raise ValueError(f"the timestamp {event[0]} is not between 0 and 2^63")
    return event


def log_formats() -> dict[str, LogFormat]:
    """Return all formats by name: those of this package, then those of other distributions."""
    return records_in(__name__, LogFormat, group=_GROUP)  # type: ignore[type-abstract]


def choose_format(formats: Mapping[str, LogFormat], sample: LogSample, options: ReadOptions) -> LogFormat:
    """Return the requested format, or the one that fits the most of the first lines; DataError where none fits half."""
    if options.format is not None:
        return formats[options.format]
    fits = {name: one.recognise(sample, options) for name, one in formats.items()}
    best = max(fits, key=fits.__getitem__)
    if fits[best] < 0.5:
        raise DataError(
            f"{sample.source}:1: no format fits the first lines ({sample.lines[0][:60]!r}); give the format"
            f" ({listing((name for name in formats if name != 'pattern'), 'or')}), or a pattern, a regular expression"
            " with the groups time and name"
        )
    return formats[best]


def check_options(formats: Mapping[str, LogFormat], options: ReadOptions) -> None:
    """Raise DataError where there is no format of the requested name, or where options of a format are wrong."""
    name = options.format
    if name is not None and name not in formats:
        near = did_you_mean(name, formats)
        raise DataError(f"format must be one of {', '.join(formats)}, not {name!r}{f'; {near}' if near else ''}")
    for log_format in formats.values():
        log_format.check(options)


def require_unit(time: str, unit: Unit | None, source: str, line: int) -> tuple[Unit, int]:
    """Return the unit in which a log's timestamps are read, by one of them, and the decimals (then nanoseconds)."""
    if "." not in time:
        return unit or "ticks", 0
    if unit is None or unit == "ticks":
        raise DataError(f"{source}:{line}: the timestamp {time.strip()} has decimals; give its unit: s, ms or us")
    return "ns", DECIMALS[unit]
