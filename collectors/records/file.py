"""The record file, made before a run and read after it; its layout is that of `runtime/common/unperturbed.h`."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unperturbed.collectors.runtime import structure_fields
from unperturbed.collectors.sources import Event, find_source, source_number
from unperturbed.collectors.sources.catalogue import OS_GROUPS
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.scratch import naming
from unperturbed.errors import HostError, RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"UNPREC04"
_NAME_BYTES = 111
_AS_WRITTEN = "owner nested lost unread tables threads interrupts observer_cpu sample_rate tick_ns"
"""Numbers of the header that `Records` has under the same names."""
_CLOCKS = {"monotonic": 0, "process-cpu": 1, "thread-cpu": 2, "work": 3, "event": 4}
_STATES = ("waiting", "attached", "finished", "failed")

SIGNAL = signal.SIGRTMIN + 4
"""Not SIGPROF, which PAPI and profilers take; not one of the real-time signals that the C library or valgrind keeps."""

OVERFLOW_SIGNAL = signal.SIGURG
"""Of an event that ends intervals. Nobody dies of it, where one comes after the program became another (exec) and its
handler is gone. It is not a real-time signal: each of those waits in a queue while the program blocks it, until
the kernel sends the deadly SIGIO instead."""

CHOOSE_PROCESSOR = -1
NO_PINNING = -2
"""Values of `Setup.observer_cpu` beside a processor's number."""


class Mark(IntFlag):
    """Events that the runtime or the observer noticed in a run; `unperturbed.h` explains each."""

    EXEC = 1
    SHARED_FORK = 2
    SIGNAL_TAKEN = 4
    FROZEN = 8
    REAL_TIME = 16
    PINNED = 32
    USER_READ = 64
    THREADS = 128
    UNSHARED = 256
    SIGNAL_BLOCKED = 512
    UNEVEN = 1024
    THROTTLED = 2048


_NUMBERS = {"uint32_t": "<u4", "int32_t": "<i4", "uint64_t": "<u8", "int64_t": "<i8"}


def _fields_of(name: str) -> list[tuple[str, Any]]:
    """Return the fields of a structure of `unperturbed.h` as numpy takes them; a last one of no length is left out."""
    fields: list[tuple[str, Any]] = []
    for field, kind, length in structure_fields(name):
        if kind == "char":
            fields.append((field, f"S{length}"))
        elif field != "value":
            own = _NUMBERS.get(kind) or np.dtype(_fields_of(kind))
            fields.append((field, (own, (length,)) if length else own))
    return fields


HEADER = np.dtype(_fields_of("header"))
_FIXED = _fields_of("record")
MOST_EVENTS: int = HEADER["event"].shape[0]  # hardware events that a record holds
_PROBES: int = HEADER["probe"].shape[0]


@dataclass(frozen=True)
class Probe:
    """A probe that is registered with the kernel, which counts its hits (`kernel_probes.register_probes`)."""

    metric: int  # Index of its software metric among all of the run
    tracepoint: int  # Its number in the kernel
    name: str  # For messages


@dataclass(frozen=True)
class Setup:
    """Instructions to a sampler for one run."""

    source: str  # The name of a source, or `none`
    # Length of an interval on `clock`; for the clock `work`, quanta of the simulator; for the clock `event`, counts
    # of `interval_event`.
    interval_ns: int
    # `monotonic`; `process-cpu` or `thread-cpu`, which tick with the kernel's jiffy; `work`, which the simulator's
    # quanta make; `event`, which ticks each time that an event has counted so many.
    clock: str
    # Hardware events that are read (none for `simulated`: the simulator counts all of its own).
    events: tuple[Event, ...] = ()
    # Names from `OS_METRICS` that are wanted; every counter of their groups is recorded.
    os_metrics: tuple[str, ...] = ()
    software: int = 0  # Number of software metrics
    capacity: int = 65536  # Records that fit
    # Only a program of this name is sampled; for a preloaded runtime, which the launcher and valgrind carry too.
    program: str = ""
    # `inside` the program by a signal, or `outside` by an observer process.
    sampler: Literal["inside", "outside"] = "inside"
    threads: bool = False  # Inside: every thread has a sampler; else the main thread alone
    children: bool = False  # Outside: child processes count too
    # Stop, read, reset and start the counters at each record (003, section 3.1) instead of reading them as they run.
    reset: bool = False
    multiplex: bool = False  # Events take turns; each record holds the time that each was enabled and running
    user_read: bool = False  # Read counters in user space where the kernel allows it
    alternate_stack: bool = False  # Inside: handle the signal on the program's alternate stack, if it has one
    signal: int = SIGNAL  # Number of the sampler's signal
    papi: str = ""  # PAPI library to try before the system's
    # Processor of the observer; -1: the last one allowed, the program gets the others; -2: neither is pinned.
    observer_cpu: int = CHOOSE_PROCESSOR
    # Of the kernel, one for each software metric that is counted so; of all threads, and outside of
    # children if they are wanted.
    probes: tuple[Probe, ...] = ()
    # On the clock `work`: how many basic blocks the first interval is shorter than the others.
    early_blocks: int = 0
    interval_event: str = ""  # On the clock `event`: the name of the one among `events` whose counts end intervals

    @property
    def interval_index(self) -> int:
        """Return the place of the event that ends intervals among all events; 0 where there is none."""
        return [event.name for event in self.events].index(self.interval_event) if self.clock == "event" else 0

    @property
    def os_groups(self) -> int:
        """Return the set of groups of operating-system counters that a record holds."""
        return sum(group.bit for group in OS_GROUPS if any(name in group.metrics for name in self.os_metrics))

    @property
    def os_columns(self) -> tuple[str, ...]:
        """Return the names of the operating-system counters in a record, in order."""
        return tuple(name for group in OS_GROUPS if group.bit & self.os_groups for name in group.metrics)

    @property
    def options(self) -> int:
        """Return the options as the runtime takes them: a bit for each, in the order of `unperturbed.h`."""
        first = (self.sampler == "outside", self.threads, self.children, self.reset)
        more = (self.multiplex, self.user_read, self.alternate_stack)
        return sum(wanted << bit for bit, wanted in enumerate((*first, *more)))

    @property
    def record(self) -> np.dtype[Any]:
        """Return the dtype of one record."""
        values = {"hardware": (len(self.events),), "times": (len(self.events) if self.multiplex else 0, 2)}
        values |= {"os": (len(self.os_columns),), "software": (self.software,)}
        return np.dtype([*_FIXED, *((name, "<i8", shape) for name, shape in values.items())])


@dataclass(frozen=True)
class Records:
    """The content of a run's record file."""

    # Structured array of the whole records of all threads, in the order in which they were begun; cumulative values.
    rows: NDArray[Any]
    # `waiting` (no program attached), `attached` (ended without its last record), `finished`, `failed`.
    state: Literal["waiting", "attached", "finished", "failed"]
    message: str  # Why it failed
    owner: int  # Process id of the program that claimed the file; 0 for none
    # nested, lost, unread: Ticks that came while another was handled; after the file was full; records without
    # hardware counts.
    nested: int
    lost: int
    unread: int
    tables: int  # Translation units with software counters that were loaded
    threads: int  # Threads that were sampled
    marks: Mark  # What was noticed
    # Function call interrupts that the program's processors took while an observer watched, the kernel's own among
    # them.
    interrupts: int
    # user_us, system_us, wall_ns: CPU time and duration of the program as its observer saw them; 0 inside.
    user_us: int
    system_us: int
    wall_ns: int
    observer_cpu: int  # Processor that the observer kept for itself, or negative
    os_columns: tuple[str, ...]  # Names of the operating-system counters in each record
    papi_version: str  # Of the PAPI library that was loaded, `7.0`; '' for none
    # sample_rate, tick_ns: Where an observer watched an event that ended intervals: what the kernel throttled by.
    sample_rate: int = 0
    tick_ns: int = 0


def create_record_file(path: Path, setup: Setup) -> None:
    """Create the record file at its full size, zero-filled: a full disk fails now, and no record waits for the disk."""
    limits = {"hardware events": (setup.events, MOST_EVENTS), "kernel probes": (setup.probes, _PROBES)}
    for what, (asked, most) in limits.items():
        if len(asked) > most:
            raise HostError(f"{len(asked)} {what} in one run exceed the limit of {most}: request fewer, or split them")
    if setup.probes and setup.source != NONE and find_source(setup.source).simulated:
        raise HostError(
            f"{setup.probes[0].name}: kernel probes do not work under the simulator, which would take their "
            "breakpoints for the program's own; use hardware or kernel counters, or leave it out"
        )
    header = np.zeros((), HEADER)
    values: dict[str, object] = {
        "magic": _MAGIC,
        "header_bytes": HEADER.itemsize,
        "record_bytes": setup.record.itemsize,
        "capacity": setup.capacity,
        "interval_ns": setup.interval_ns,
        "clock": _CLOCKS[setup.clock],
        "signal": setup.signal,
        "source": source_number(setup.source),
        "events": len(setup.events),
        "os": setup.os_groups,
        "os_values": len(setup.os_columns),
        "software": setup.software,
        "options": setup.options,
        "program": setup.program.encode(),
        "papi": setup.papi.encode(),
        "observer_cpu": setup.observer_cpu,
        "interval_event": setup.interval_index,
        "early_blocks": setup.early_blocks,
        "probes": len(setup.probes),
    }
    for name, value in values.items():
        header[name] = value
    for index, event in enumerate(setup.events):
        flags = int(event.kernel) | int(not event.user) << 1 | int(event.follows) << 2
        numbers = (event.type, flags, event.config, event.config1, event.config2)
        header["event"][index] = (*numbers, event.name.encode()[:_NAME_BYTES])
    for index, probe in enumerate(setup.probes):
        header["probe"][index] = (probe.tracepoint, probe.metric, 0, probe.name.encode()[:_NAME_BYTES])
    needed = HEADER.itemsize + setup.capacity * setup.record.itemsize
    # A power of two: configurations differ in the size of a record, and their programs' mappings shall not differ for
    # that.
    size = 1 << (needed - 1).bit_length()
    disk = os.statvfs(path.parent)
    space = f"a record file of {size / 1e6:.1f} MB in {path.parent}"
    full = HostError(f"no space left for {space}: free some and run the same command again")
    # Asked first: to try would fill the disk for a moment, for everybody.
    if size > disk.f_bavail * disk.f_frsize:
        raise full
    with naming(path), path.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            file.write(header.tobytes())
            chunk = bytes(1 << 20)
            for begin in range(HEADER.itemsize, size, len(chunk)):
                file.write(chunk[: size - begin])
            file.flush()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            path.unlink()
            raise full from None


def read_record_file(path: Path, setup: Setup) -> Records:
    """Read the whole records of a run; those of a killed program too."""
    data = path.read_bytes()
    overwritten = "did the measured program overwrite it?"
    if len(data) < HEADER.itemsize or data[: len(_MAGIC)] != _MAGIC:
        raise RunError(f"{path}: not a record file; {overwritten}")
    header = np.frombuffer(data, HEADER, 1)[0]
    needed = HEADER.itemsize + setup.capacity * setup.record.itemsize
    if len(data) < needed:
        raise RunError(f"{path}: the record file is cut off after {len(data):,} bytes of {needed:,}; {overwritten}")
    asked = {
        "header_bytes": HEADER.itemsize,
        "record_bytes": setup.record.itemsize,
        "capacity": setup.capacity,
        "events": len(setup.events),
        "software": setup.software,
    }
    for name, value in asked.items():
        if int(header[name]) != value:
            raise RunError(f"{path}: {name} is {int(header[name]):,}, expected {value:,}; {overwritten}")
    if int(header["state"]) >= len(_STATES):
        raise RunError(f"{path}: unknown run state {int(header['state']):,}; {overwritten}")
    version = int(header["papi_version"])
    taken = min(int(header["taken"]), setup.capacity)
    rows = np.frombuffer(data, setup.record, taken, HEADER.itemsize)
    return Records(
        rows=rows[rows["whole"] == np.arange(1, taken + 1)],
        state=_STATES[int(header["state"])],  # type: ignore[arg-type]
        message=bytes(header["message"]).rstrip(b"\0").decode(errors="replace"),
        marks=Mark(int(header["marks"])),
        user_us=int(header["program_user_us"]),
        system_us=int(header["program_system_us"]),
        wall_ns=int(header["program_wall_ns"]),
        os_columns=setup.os_columns,
        papi_version=f"{version >> 24}.{version >> 16 & 255}" if version else "",
        **{name: int(header[name]) for name in _AS_WRITTEN.split()},
    )


def deltas(column: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Return the increments of a cumulative counter from each record to the next, shape (records − 1,)."""
    values = np.asarray(column, dtype=np.int64)
    return values[1:] - values[:-1]
