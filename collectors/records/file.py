"""Record file: created before a run and read after it; `runtime/common/unperturbed.h` defines the layout."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unperturbed.collectors.records.ranks import WAITS
from unperturbed.collectors.runtime import structure_fields
from unperturbed.collectors.sources import Event, find_source, source_number
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS
from unperturbed.collectors.sources.catalogue import OS_GROUPS
from unperturbed.collectors.sources.source import NONE
from unperturbed.common.scratch import naming
from unperturbed.errors import HostError, RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"UNPREC06"
_NAME_BYTES = 111
_AS_WRITTEN = "owner nested lost unread tables threads interrupts observer_cpu sample_rate tick_ns parent cpu_ns ranks"
"""Numbers of the header that `Records` contains under the same names."""
_CLOCKS = {"monotonic": 0, "process-cpu": 1, "thread-cpu": 2, "work": 3, "event": 4, "program": 5}
_STATES = ("waiting", "attached", "finished", "failed")

SIGNAL = signal.SIGRTMIN + 4
"""Default signal of the sampler: PAPI and profilers use SIGPROF; libc and valgrind reserve some real-time signals."""

OVERFLOW_SIGNAL = signal.SIGURG
"""Signal of the event that ends intervals. By default it is ignored, so it is harmless after an exec has removed the
handler. A real-time signal would be queued while the program blocks it, until the queue is full and the kernel sends
SIGIO, which kills the program."""

CHOOSE_PROCESSOR = -1
NO_PINNING = -2
"""Values of `Setup.observer_cpu` other than a processor number."""


class Mark(IntFlag):
    """Conditions that the runtime or the observer noticed in a run; `unperturbed.h` explains each."""

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
    SEPARATE = 4096
    UNCOUNTED = 8192
    UNNAMED = 16384
    NODES = 32768
    LEFT = 65536
    CROSSINGS = 131072


_WAITS_BIT = 8
_NUMBERS = {"uint32_t": "<u4", "int32_t": "<i4", "uint64_t": "<u8", "int64_t": "<i8"}


def _fields_of(name: str) -> list[tuple[str, Any]]:
    """Return the fields of a structure of `unperturbed.h` in NumPy's form, without a flexible array at the end."""
    fields: list[tuple[str, Any]] = []
    for member, kind, length in structure_fields(name):
        if kind == "char":
            fields.append((member, f"S{length}"))
        elif member != "value":
            own = _NUMBERS.get(kind) or np.dtype(_fields_of(kind))
            fields.append((member, (own, (length,)) if length else own))
    return fields


HEADER = np.dtype(_fields_of("header"))
_FIXED = _fields_of("record")
MOST_EVENTS: int = HEADER["event"].shape[0]  # most hardware events in a record
_PROBES: int = HEADER["probe"].shape[0]


@dataclass(frozen=True)
class Probe:
    """Probe registered with the kernel, which counts its hits (`kernel_probes.register_probes`)."""

    metric: int  # Index of the probe's software metric among the run's software metrics
    tracepoint: int  # The probe's tracepoint id in the kernel
    name: str  # Name for messages


@dataclass(frozen=True)
class Setup:
    """Settings of a sampler for one run."""

    source: str  # The name of a source, or `none`
    # Length of an interval on `clock`; for the clock `work`, in quanta of the simulator; for the clock `event`, in
    # counts of `interval_event`; for the clock `program`, in events of the metric that is compiled in for it.
    interval_ns: int
    # `monotonic`; `process-cpu` or `thread-cpu`, with the resolution of the kernel's jiffy; `work`, in quanta of the
    # simulator; `event`, which ticks each time that an event has counted `interval_ns`; `program`, at the program's
    # own events.
    clock: str
    # Hardware events to read (empty if simulated: the simulator counts all its events).
    events: tuple[Event, ...] = ()
    # Requested names from `OS_METRICS`; every counter of their groups is recorded.
    os_metrics: tuple[str, ...] = ()
    software: int = 0  # Number of software metrics
    capacity: int = 65536  # Maximum number of records
    # Only a program of this name is sampled; for a preloaded runtime, which the launcher and valgrind also load.
    program: str = ""
    # `inside` the program by a signal, or `outside` by an observer process.
    sampler: Literal["inside", "outside"] = "inside"
    threads: bool = False  # Inside: every thread has a sampler; otherwise only the main thread
    children: bool = False  # Outside: child processes are counted too
    # Stop, read, reset and start the counters at each record (003, section 3.1) instead of reading them while running.
    reset: bool = False
    multiplex: bool = False  # Events are multiplexed; each record has the enabled and running time of each event
    user_read: bool = False  # Read counters in user space where the kernel allows it
    alternate_stack: bool = False  # Inside: handle the signal on the program's alternate stack, if it has one
    signal: int = SIGNAL  # Number of the sampler's signal
    attached: bool = False  # Outside: the observed processes run already
    each: bool = False  # Inside: threads one by one; each counts software metrics for itself
    papi: str = ""  # PAPI library to try before the system's
    # Processor of the observer; -1: the last allowed processor, with the program on the others; -2: no pinning.
    observer_cpu: int = CHOOSE_PROCESSOR
    # Kernel probes, one for each software metric that the kernel counts; in all threads and, with `children` and
    # `outside`, in child processes.
    probes: tuple[Probe, ...] = ()
    # On the clock `work`: number of basic blocks by which the first interval is shorter than the others.
    early_blocks: int = 0
    quantum_blocks: int = QUANTUM_BLOCKS  # On the clock `work`: number of basic blocks of the simulator's quantum
    waits: bool = False  # MPI's calls that wait for another rank are recorded: their number and time
    interval_event: str = ""  # On the clock `event`: the name of the event, one of `events`, that ends intervals
    # Software metrics that count a hardware metric within a function: index among the run's software metrics → index
    # of the event in `events` (any number if simulated).
    regions: Mapping[int, int] = field(default_factory=dict)

    @property
    def interval_index(self) -> int:
        """Return the index of the interval event in `events`; 0 if no event ends intervals."""
        return [event.name for event in self.events].index(self.interval_event) if self.clock == "event" else 0

    @property
    def os_groups(self) -> int:
        """Return the recorded groups of operating-system counters, as a bit set."""
        asked = sum(group.bit for group in OS_GROUPS if any(name in group.metrics for name in self.os_metrics))
        return asked | (_WAITS_BIT if self.waits else 0)

    @property
    def os_columns(self) -> tuple[str, ...]:
        """Return the names of the operating-system counters in a record, in order."""
        names = (name for group in OS_GROUPS if group.bit & self.os_groups for name in group.metrics)
        return (*names, *(WAITS if self.waits else ()))

    @property
    def options(self) -> int:
        """Return the options as the runtime's bit set, in the order of `unperturbed.h`."""
        first = (self.sampler == "outside", self.threads, self.children, self.reset)
        more = (self.multiplex, self.user_read, self.alternate_stack, self.attached, self.each)
        return sum(wanted << bit for bit, wanted in enumerate((*first, *more)))

    @property
    def record(self) -> np.dtype[Any]:
        """Return the dtype of one record."""
        values = {"hardware": (len(self.events),), "times": (len(self.events) if self.multiplex else 0, 2)}
        values |= {"os": (len(self.os_columns),), "software": (self.software,)}
        return np.dtype([*_FIXED, *((name, "<i8", shape) for name, shape in values.items())])


@dataclass(frozen=True)
class Records:
    """Content of a run's record file."""

    # Structured array of the complete records of all threads, in the order of their beginning; cumulative values.
    rows: NDArray[Any]
    # `waiting` (no program attached), `attached` (ended without a last record), `finished`, `failed`.
    state: Literal["waiting", "attached", "finished", "failed"]
    message: str  # Why the sampler failed
    owner: int  # Process id of the program that claimed the file; 0 if no program did
    # nested, lost, unread: Number of ticks while another tick was handled; of ticks after the file was full; of
    # ticks whose hardware counts could not be read.
    nested: int
    lost: int
    unread: int
    tables: int  # Number of loaded translation units with software counters
    threads: int  # Number of sampled threads
    marks: Mark  # Conditions noticed during the run
    # Function call interrupts on the program's processors while an observer sampled, including the kernel's own.
    interrupts: int
    # user_us, system_us, wall_ns: CPU time and duration of the program as measured by the observer; 0 if inside.
    user_us: int
    system_us: int
    wall_ns: int
    observer_cpu: int  # Processor that the observer kept for itself, or negative
    os_columns: tuple[str, ...]  # Names of the operating-system counters in each record
    papi_version: str  # Version of the loaded PAPI library, such as `7.0`; empty if none was loaded
    # sample_rate, tick_ns: The kernel's throttling parameters, if an observer used an event to end intervals.
    sample_rate: int = 0
    tick_ns: int = 0
    # image, parent: File name of the executable of the process, and the process that created it.
    image: str = ""
    parent: int = 0
    cpu_ns: int = 0  # CPU time of the process at its end; 0 if it ended without the runtime
    rank: int | None = None  # Its MPI rank, which its children have too; None if it is no rank's
    ranks: int = 0  # Number of ranks; 0 if unknown


def create_record_file(path: Path, setup: Setup) -> None:
    """Create the zero-filled record file at full size: a full disk is noticed now, and no record waits for the disk."""
    limits = {"hardware events": (setup.events, MOST_EVENTS), "kernel probes": (setup.probes, _PROBES)}
    for what, (asked, most) in limits.items():
        if len(asked) > most:
            raise HostError(
                f"{len(asked)} {what} are too many for one run: the maximum is {most}; request fewer, or divide "
                "them among several campaigns"
            )
    if setup.probes and setup.source != NONE and find_source(setup.source).simulated:
        raise HostError(
            f"{setup.probes[0].name}: kernel probes do not work under the simulator, which would execute their "
            "breakpoints as part of the program; count the hardware metrics without simulation, or remove this metric"
        )
    header = np.zeros((), HEADER)
    values: dict[str, object] = {
        "magic": _MAGIC,
        "header_bytes": HEADER.itemsize,
        "record_bytes": setup.record.itemsize,
        "capacity": setup.capacity,
        "limit": setup.capacity,
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
        "quantum_blocks": setup.quantum_blocks,
        "probes": len(setup.probes),
    }
    for name, value in values.items():
        header[name] = value
    for index, event in enumerate(setup.events):
        flags = int(event.kernel) | int(not event.user) << 1 | int(event.follows) << 2
        numbers = (event.type, flags, event.config, event.config1, event.config2)
        header["event"][index] = (*numbers, event.name.encode()[:_NAME_BYTES])
    header["regions"] = len(setup.regions)
    for number, event_index in setup.regions.items():
        header["region"][number] = event_index + 1
    for index, probe in enumerate(setup.probes):
        header["probe"][index] = (probe.tracepoint, probe.metric, 0, probe.name.encode()[:_NAME_BYTES])
    needed = HEADER.itemsize + setup.capacity * setup.record.itemsize
    # A power of two: record sizes differ between configurations, but the programs' memory mappings must not.
    size = 1 << (needed - 1).bit_length()
    disk = os.statvfs(path.parent)
    space = f"a record file of {size / 1e6:.1f} MB in {path.parent}"
    full = HostError(f"no space left for {space}: free disk space and repeat the command")
    # Check first: an attempt would briefly fill the disk for all users.
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


def further_record_files(path: Path) -> list[Path]:
    """Return the record files of a run's further processes, in the order of their creation by each process."""
    found = [file for file in path.parent.glob(f"{path.name}.*.*") if file.name.count(".") == path.name.count(".") + 2]
    return sorted(found, key=lambda file: [int(number) for number in file.name.split(".")[-2:]])


def read_record_file(path: Path, setup: Setup, *, grows: bool = False) -> Records:
    """Read the complete records of a process, even of a killed one.

    `grows`: The process created the file itself, with room for fewer records than the run allows.
    """
    data = path.read_bytes()
    overwritten = "did the measured program overwrite it?"
    if len(data) < HEADER.itemsize or data[: len(_MAGIC)] != _MAGIC:
        raise RunError(f"{path}: not a record file; {overwritten}")
    header = np.frombuffer(data, HEADER, 1)[0]
    capacity = min(int(header["capacity"]), setup.capacity) if grows else setup.capacity
    needed = HEADER.itemsize + capacity * setup.record.itemsize
    if len(data) < needed:
        raise RunError(f"{path}: the record file has {len(data):,} bytes, expected {needed:,}; {overwritten}")
    asked = {
        "header_bytes": HEADER.itemsize,
        "record_bytes": setup.record.itemsize,
        "capacity": capacity,
        "events": len(setup.events),
        "software": setup.software,
    }
    for name, value in asked.items():
        if int(header[name]) != value:
            raise RunError(f"{path}: field `{name}` is {int(header[name]):,}, expected {value:,}; {overwritten}")
    if int(header["state"]) >= len(_STATES):
        raise RunError(f"{path}: unknown run state {int(header['state']):,}; {overwritten}")
    version = int(header["papi_version"])
    taken = min(int(header["taken"]), capacity)
    rows = np.frombuffer(data, setup.record, taken, HEADER.itemsize)
    return Records(
        rows=rows[rows["whole"] == np.arange(1, taken + 1)],
        state=_STATES[int(header["state"])],  # type: ignore[arg-type]
        message=bytes(header["message"]).rstrip(b"\0").decode(errors="replace"),
        image=bytes(header["image"]).rstrip(b"\0").decode(errors="replace"),
        marks=Mark(int(header["marks"])),
        user_us=int(header["program_user_us"]),
        system_us=int(header["program_system_us"]),
        wall_ns=int(header["program_wall_ns"]),
        rank=int(header["rank"]) - 1 if header["rank"] else None,
        os_columns=setup.os_columns,
        papi_version=f"{version >> 24}.{version >> 16 & 255}" if version else "",
        **{name: int(header[name]) for name in _AS_WRITTEN.split()},
    )


def deltas(column: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Return the increments of a cumulative counter from each record to the next, shape (records − 1,)."""
    values = np.asarray(column, dtype=np.int64)
    return values[1:] - values[:-1]
