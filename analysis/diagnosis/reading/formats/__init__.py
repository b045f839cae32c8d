"""Formats of event logs: their base classes, the list of formats, and detection of a log's format.

A format is a record in a module of this package, a `PlainFormat` or a `CompiledFormat`. Other distributions add formats
by entry points in the group `unperturbed.log_formats`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.events import TICKS_A_SECOND, BadLine, EventType, Reading, Unit
from unperturbed.analysis.diagnosis.reading.sources import Blocks
from unperturbed.common.extensions import records_in
from unperturbed.common.wording import did_you_mean
from unperturbed.errors import DataError

_GROUP = "unperturbed.log_formats"
_SAMPLE_LINES = 200
_LARGEST = 2**63 - 1
_EPOCH_DIGITS: Mapping[Unit, int] = {"ms": 13, "us": 16, "ns": 19}
"""Digits of the time since 1970, by unit, from 2001 on."""
_COLOURS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")

MILLISECOND: Mapping[Unit, int] = {"ns": 1_000_000, "us": 1_000, "ms": 1, "s": 0, "ticks": 0}
"""Ticks in a millisecond, by unit: the maximum delay of an event in a format that does not log threads."""
DECIMALS: Mapping[str, int] = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Number of decimals, by unit, that resolve nanoseconds."""


@dataclass(frozen=True)
class ReadOptions:
    """Arguments of `read_events`, whose docstring explains them."""

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
            raise DataError(f"unknown unit {self.unit!r}: use {', '.join(MILLISECOND)}")
        if self.most_late is not None and self.most_late < 0:
            raise DataError(f"`most_late` is {self.most_late}: use a number of ticks, 0 or more")
        if not 0 <= self.most_bad <= 1:
            raise DataError(f"`most_bad` is {self.most_bad}: use a share from 0 to 1")
        if self.bad_lines_shown < 0 or self.block_bytes < 1:
            raise DataError(
                f"`bad_lines_shown` is {self.bad_lines_shown} and `block_bytes` is {self.block_bytes}: use 0 or more "
                "lines, and 1 or more bytes"
            )


@dataclass(frozen=True)
class LogSample:
    """Sample of a log's first lines, from which the format is detected."""

    source: str  # The log's name in messages
    lines: list[str]  # The first lines, without empty ones and without colours
    mark_bytes: int  # Length of the byte order mark; 0 without one
    first_line: str  # The first line that is not empty, unchanged
    first_number: int  # Its line number, from 1
    first_end: int  # Bytes from the beginning of the log to the end of that line
    further: tuple[str, ...] = ()  # Lines from the log's middle and end, if it is a file that is longer than the sample

    @classmethod
    def of(cls, start: bytes, source: str, further: Sequence[bytes] = ()) -> LogSample:
        """Return the sample of a log that starts with these bytes; raise DataError if the log is empty.

        `further` are pieces of its middle and end.
        """
        mark = 3 if start.startswith(b"\xef\xbb\xbf") else 0
        body = start[mark:]
        lines = _filled_lines(body)
        if not lines:
            raise DataError(f"{source}: the log is empty: check that the program was traced and that this is its log")
        before = len(body) - len(body.lstrip(b"\r\n"))
        number = body[: len(body) - len(body.lstrip())].count(b"\n") + 1
        first, _, _ = body[before:].partition(b"\n")
        end = min(mark + before + len(first) + 1, len(start))
        pieces = (line for piece in further for line in _filled_lines(piece.partition(b"\n")[2].rpartition(b"\n")[0]))
        return cls(source, lines, mark, first.decode(errors="replace").rstrip("\r"), number, end, tuple(pieces))


def _filled_lines(text: bytes) -> list[str]:
    """Return the first lines that are not empty, without colours."""
    plain = _COLOURS.sub(b"", text).splitlines()[: 2 * _SAMPLE_LINES]
    return [line.decode(errors="replace") for line in plain if line.strip()]


@dataclass
class ScannedLog:
    """Contents of a log that has been read, before they are sorted and checked."""

    times: NDArray[np.int64]  # (events,): Timestamps in `unit`, in the order of the log
    events: NDArray[np.int32]  # (events,): Indices into `types`
    types: list[EventType]  # Types in any order; they may repeat or not occur at all
    unit: Unit  # Unit of the timestamps
    reading: Reading  # Numbers of the log's lines
    blank_lines: int = 0  # Number of empty lines
    # The first line whose time goes backwards too far, and by how many ticks; zeros if there
    # is no such line.
    backwards: tuple[int, int] = (0, 0)
    second_run_line: int = 0  # Line at which a second run begins; 0 if there is one run
    # Processes with events, and the first line of each; empty if the format does not
    # log processes.
    processes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LogFormat(ABC):
    """Format of event logs.

    Attributes
    ----------
    name : str
        Name for `format=` and `--format`.
    meaning : str
        Short description for the help.
    line : re.Pattern, optional
        Matches the beginning of every line that is an event; it is used to detect the format. Without it, the format is
        used only on request, unless it overrides `recognise`.
    rank : int, default 2
        Of two formats that fit a log about equally well, the one of higher rank is chosen: 3 for formats with lines
        that are like no others, 2 for formats with a date, 1 for a number and a name, 0 for any text.
    remarks : tuple of str, default ("#",)
        Beginnings of lines that are neither events nor faults.
    logs_threads : bool, default False
        Whether events are logged with process and thread; then an event may be late only until its thread's next event.
    counts_continued_lines : bool, default False
        Whether lines that continue a message count towards `most_bad`.
    regular_levels : tuple of str, default ()
        Levels at which regular events are logged. A log without any of them is too coarse to be compared.
    """

    name: str
    meaning: str
    line: re.Pattern[str] | None = None
    rank: int = 2
    remarks: tuple[str, ...] = ("#",)
    logs_threads: bool = False
    counts_continued_lines: bool = False
    regular_levels: tuple[str, ...] = ()

    def check(self, options: ReadOptions) -> None:  # noqa: B027  most formats have nothing to check
        """Raise DataError if options of this format are wrong, even if the log has a different format."""

    def recognise(self, sample: LogSample, options: ReadOptions) -> float:  # noqa: ARG002  formats may need them
        """Return the share of a log's first lines that match this format, from 0 to 1."""
        lines = [line for line in sample.lines if not line.startswith(self.remarks)][:_SAMPLE_LINES]
        return share_of(self.line, lines) if self.line else 0.0

    def compile(self) -> None:  # noqa: B027  most formats have nothing to compile
        """Compile the functions that `read` calls, before the first log; repeated calls have no effect."""

    @abstractmethod
    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log."""


def share_of(line: re.Pattern[str], lines: Sequence[str]) -> float:
    """Return the share of lines that match an expression."""
    return sum(map(bool, map(line.match, lines))) / max(1, len(lines))


LineParser = Callable[[str], tuple[int, EventType] | None]
"""Parser of a line: it returns the event's timestamp and type, or None for a remark; ValueError means a bad line."""


@dataclass(frozen=True, kw_only=True)
class PlainFormat(LogFormat):
    """Format whose lines are parsed by a Python function in 2 µs or more each; compiled formats take 0.2 µs.

    Attributes
    ----------
    parse : callable
        Takes a line without its newline; returns (timestamp, type), or None for a line that is neither an event nor a
        fault. It raises ValueError with a description for a line that should be an event but cannot be read.
    unit : {"ns", "us", "ms", "s", "ticks"}, default "ticks"
        Unit of the timestamps. The user's `unit` replaces "ticks".
    """

    parse: LineParser | None = None
    unit: Unit = "ticks"

    def parser(self, options: ReadOptions) -> tuple[LineParser, Callable[[], Unit]]:
        """Return a parser of one log's lines, and a function that returns the unit after the last line."""
        if self.parse is None:
            raise TypeError(f"log format {self.name} has no `parse`: set it, or override `parser`")
        unit = options.unit or "ticks" if self.unit == "ticks" else self.unit
        return self.parse, lambda: unit

    def read(self, blocks: Blocks, sample: LogSample, options: ReadOptions) -> ScannedLog:
        """Read all lines of a log, one at a time."""
        parse, unit_of = self.parser(options)
        return self.read_lines(parse, unit_of, blocks, sample, options)

    def read_lines(
        self,
        parse: LineParser,
        unit_of: Callable[[], Unit],
        blocks: Blocks,
        sample: LogSample,
        options: ReadOptions,
    ) -> ScannedLog:
        """Read all lines by one log's parser; `unit_of` returns the unit after the last line."""
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
            except (ValueError, OverflowError) as fault:
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
        raise ValueError(f"timestamp {event[0]} is not between 0 and 2^63")
    return event


def log_formats() -> dict[str, LogFormat]:
    """Return all formats by name: those of this package, then those of other distributions."""
    return records_in(__name__, LogFormat, group=_GROUP)  # type: ignore[type-abstract]


def check_options(formats: Mapping[str, LogFormat], options: ReadOptions) -> None:
    """Raise DataError if the requested format does not exist, or if options of any format are wrong."""
    name = options.format
    if name is not None and name not in formats:
        near = did_you_mean(name, formats)
        raise DataError(f"unknown log format {name!r}: {f'{near} ' if near else ''}use {', '.join(formats)}")
    for log_format in formats.values():
        log_format.check(options)


def require_unit(time: str, unit: Unit | None, source: str, line: int) -> tuple[Unit, int]:
    """Return a log's unit and number of decimals from one timestamp; with decimals, the unit is nanoseconds."""
    whole = time.strip().partition(".")[0]
    finer = next((name for name, digits in _EPOCH_DIGITS.items() if len(whole) == digits and whole[0] == "1"), None)
    if finer and unit in TICKS_A_SECOND and TICKS_A_SECOND[unit] < TICKS_A_SECOND[finer]:
        raise DataError(
            f"{source}:{line}: timestamp {time.strip()} in {unit} is beyond all calendars, and has as many digits as "
            f"the {finer} since 1970: set `unit` to {finer} (--unit {finer})"
        )
    if "." not in time:
        return unit or "ticks", 0
    if unit is None or unit == "ticks":
        raise DataError(
            f"{source}:{line}: timestamp {time.strip()} has decimals: give its unit (s, ms or us), as in --unit "
            f"{finer or 's'}"
        )
    return "ns", DECIMALS[unit]
