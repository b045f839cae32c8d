"""Files that callgrind writes for each process: the counts of its intervals, and valgrind's log."""

from __future__ import annotations

import mmap
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unperturbed.errors import RunError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LOG_BYTES = 1 << 16
_MOST = 1 << 56  # no program reaches this count; multiplied by a formula's factors, it fits 64 bits

_PART = re.compile(
    rb"^(desc: Trigger: Client Request: (?:interval (\d+))?(?: ?within (\d+))?|part: \d+|events: .*|totals: .*)$",
    re.MULTILINE,
)
"""A part may end within an interval, where the program entered or left a region: then `within` has the regions, by the
bits of a number, in which its events happened."""

_THREAD_PART = re.compile(
    rb"^(?:thread: (\d+)|desc: Trigger: (Client Request|dump)[: ]+interval (\d+)|part: \d+|events: (.*)|totals: (.*))$",
    re.MULTILINE,
)
_MAIN_THREAD = 1  # Valgrind's number of the main thread; it gives a thread the smallest number that is free


def log_of(dumps: Path) -> Path:
    """Return the path of the simulator's log, without the process id at the end."""
    return dumps.with_name("valgrind.")


def complaints(log: Path) -> str:
    """Return the simulator's messages about the program, lines `==pid== …` of its log, without the statistics."""
    with log.open("rb") as lines:
        lines.seek(max(0, log.stat().st_size - _LOG_BYTES))
        said = re.findall(rb"^==\d+==\s(.+)$", lines.read(), re.MULTILINE)
    return b"\n".join(said).decode(errors="replace").strip()


def executable(dump: Path) -> str:
    """Return the file name of the program whose events a dump file contains.

    Callgrind writes the words of the command with spaces between them, so a name with spaces is known only if it is the
    path of an object file in the dump.
    """
    with dump.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    command = re.search(rb"^cmd: *(.*)$", head, re.MULTILINE)
    words = (command[1] if command else b"?").decode(errors="replace").split(" ")
    objects = [path.decode(errors="replace") for path in re.findall(rb"^ob=\(\d+\) (.+)$", head, re.MULTILINE)]
    for count in range(len(words), 1, -1):
        path = " ".join(words[:count]).removeprefix("./")
        if any(known == path or known.endswith(f"/{path}") for known in objects):
            return Path(path).name
    return Path(words[0] or "?").name


_HEAD_BYTES = 1 << 20


def calls_within(dumps: Path) -> int:
    """Return how many parts of a run's dumps are of a function whose counts are wanted: one a call."""
    parts = 0
    for dump in dumps.parent.glob(f"{dumps.name}.*"):  # those of each process
        with dump.open("rb") as file:
            parts += sum(line.startswith(b"desc: Trigger: ") and b"within " in line for line in file)
    return parts


def remove_dumps(dumps: Path) -> None:
    """Remove a run's dumps, which have kilobytes a part: a run without an end has no trace."""
    for dump in dumps.parent.glob(f"{dumps.name}.*"):
        dump.unlink()


def has_intervals(dump: Path) -> bool:
    """Return whether a sampler ended intervals of the last program that a process executed."""
    with dump.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(match.group(2) is not None for match in _PART.finditer(text))


def lifetime(dump: Path) -> tuple[int, int]:
    """Return the monotonic times at which a process without a sampler began and ended, from its files, in ns."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    end_ns = dump.stat().st_mtime_ns
    log = dump.with_name(log_of(dump.with_suffix("")).name + dump.suffix[1:])
    begin_ns = min(end_ns, log.stat().st_mtime_ns) if log.is_file() else end_ns
    return begin_ns - offset_ns, end_ns - offset_ns


def read_dumps(path: Path, intervals: int | None, *, region: int | None = None) -> dict[str, NDArray[np.int64]]:
    """Read each interval's events from a combined dump file: dump i is for interval i; dump 0 ends at record 0.

    `intervals`: None for all events of the process, as one interval.
    `region`: Only the events that happened in the region with this number.
    """
    if not path.is_file():
        raise RunError(f"callgrind did not write its dump file {path.name}: it was killed, or the disk is full")
    damaged = RunError(f"{path}: callgrind's dump is damaged; did the measured program overwrite it?")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            order, parts = _parts(text)
    except ValueError:  # also for an empty file, which cannot be mapped
        raise damaged from None
    if intervals is None:
        return _sums(order, (part.counts for part in parts), damaged)
    import numpy as np  # noqa: PLC0415  a self-counting process shall not load it

    counts = np.zeros((intervals + 1, len(order)), np.int64)
    ended = set()
    waiting: list[_Part] = []
    for part in parts:
        if part.interval is None:  # the last part has no label either, and follows all intervals
            waiting.append(part)
            continue
        for each in (*waiting, part):
            row = each.counts  # callgrind leaves trailing zeros out
            if len(row) > len(order) or not all(0 <= value < _MOST for value in row):
                raise damaged
            if part.interval <= intervals and (region is None or each.regions >> region & 1):
                counts[part.interval, : len(row)] += row
        ended.add(part.interval)
        waiting.clear()
    missing = [number for number in range(1, intervals + 1) if number not in ended]
    if missing:
        raise RunError(
            f"callgrind's dump of interval {missing[0]} is missing (missing dumps: {len(missing)} of {intervals}): "
            "the program replaced itself with another program (exec), as a script may do to start the real program, or "
            "it was killed, or the disk is full. Measure the real program directly, not through a script"
        )
    return {event: counts[1:, column] for column, event in enumerate(order)}


class _Part(NamedTuple):
    """Part of a combined dump file: the events since the last part."""

    interval: int | None  # The interval that ends with it; None for none
    regions: int  # The regions in which the events happened, by the bits
    counts: list[int]


def _parts(text: mmap.mmap) -> tuple[list[str], list[_Part]]:
    """Return the names of the events, and the parts."""
    order: list[str] = []
    parts = []
    interval: int | None = None
    regions = 0
    for match in _PART.finditer(text):
        line, ends, within = match.groups()
        if line.startswith(b"desc:"):
            interval, regions = None if ends is None else int(ends), int(within or 0)
        elif line.startswith(b"part:"):
            interval, regions = None, 0
        elif line.startswith(b"events:"):
            order = line.decode().split()[1:]
        else:
            parts.append(_Part(interval, regions, [int(value) for value in line.split()[1:]]))
    return order, parts


def _sums(order: Sequence[str], rows: Iterable[Sequence[int]], damaged: RunError) -> dict[str, NDArray[np.int64]]:
    """Return the sum of each event over dumps, shape (1,)."""
    import numpy as np  # noqa: PLC0415

    sums = dict.fromkeys(order, 0)
    for row in rows:
        for event, value in zip(order, row, strict=False):  # callgrind leaves trailing zeros out
            sums[event] += value
    if not all(0 <= value < _MOST for value in sums.values()):
        raise damaged
    return {event: np.array([value], np.int64) for event, value in sums.items()}


def read_thread_dumps(path: Path, bounds: Mapping[int, Sequence[int]]) -> dict[int, dict[str, NDArray[np.int64]]]:
    """Read each thread's events over its own intervals, from dumps with a part for each thread.

    `bounds`: For each thread of the record file, the numbers of the dumps between which its intervals are.

    Instructions with which a thread begins, before its first record, belong to its first interval.
    """
    import numpy as np  # noqa: PLC0415

    if not path.is_file():
        raise RunError(f"callgrind did not write its dump file {path.name}: it was killed, or the disk is full")
    order, separation = _separate(path, bounds)
    found: dict[int, dict[str, NDArray[np.int64]]] = {}
    for thread, numbers in bounds.items():
        counts = np.zeros((len(numbers), len(order)), np.int64)
        for at, number in enumerate(numbers):
            row = separation.sums.get((thread, number), [])
            counts[at, : len(row)] = row
        if thread:
            counts[1] += counts[0]
        found[thread] = {event: counts[1:, column] for column, event in enumerate(order)}
    return found


def _separate(path: Path, bounds: Mapping[int, Sequence[int]]) -> tuple[list[str], _Separation]:
    """Return the names of the events, and the parts of the dumps by thread."""
    order: list[str] = []
    separation = _Separation(bounds)
    thread, number, alone = _MAIN_THREAD, -1, False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        for match in _THREAD_PART.finditer(text):
            of_thread, trigger, interval, events, totals = match.groups()
            if of_thread is not None:
                thread = int(of_thread)
            elif interval is not None:
                number, alone = int(interval), trigger != b"dump"
            elif events is not None:
                order = events.decode().split()
            elif totals is None:
                number = -1  # a part begins
            elif number >= 0:
                row = [int(value) for value in totals.split()]
                if len(row) > len(order) or not all(0 <= value < _MOST for value in row):
                    raise RunError(f"{path}: callgrind's dump is damaged; did the measured program overwrite it?")
                separation.add(thread, number, row, alone=alone)
                number = -1
    return order, separation


@dataclass
class _Separation:
    """Parts of a dump file, given to the threads of the record file whose intervals they end."""

    bounds: Mapping[int, Sequence[int]]  # Thread → number of the dump at each of its records, ascending

    def __post_init__(self) -> None:
        self.sums: dict[tuple[int, int], list[int]] = {}  # Thread and number of a dump → counts up to it
        self._own = {number: thread for thread, numbers in self.bounds.items() if thread for number in numbers}
        self._ends = {thread: frozenset(numbers) for thread, numbers in self.bounds.items()}
        self._owner = {_MAIN_THREAD: 0}
        self._pending: dict[int, list[int]] = {}

    def add(self, valgrind_thread: int, number: int, row: Sequence[int], *, alone: bool) -> None:
        """Add a part: the events of one of valgrind's threads since its last part.

        `alone`: The thread itself asked for it, at its beginning or end; otherwise the main thread did, for all.
        """
        waiting = self._pending.pop(valgrind_thread, [])
        counts = [a + b for a, b in zip_longest(waiting, row, fillvalue=0)]
        if alone and number in self._own:
            self._owner[valgrind_thread] = self._own[number]
        thread = self._owner.get(valgrind_thread)
        if thread is None or (number not in self._ends[thread] and number < self.bounds[thread][-1]):
            self._pending[valgrind_thread] = counts  # of a thread that has not begun, or within its interval
            return
        at = number if number in self._ends[thread] else self.bounds[thread][-1]  # the end of a thread is its own too
        self.sums[thread, at] = [a + b for a, b in zip_longest(self.sums.get((thread, at), []), counts, fillvalue=0)]
