"""The record file, from Python's side: made before a run, read after it. The layout is `runtime/unperturbed.h`'s."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unperturbed.collectors.catalogue import OS_METRICS
from unperturbed.errors import HostError, RunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Event", "Records", "Setup", "create_record_file", "read_record_file"]

_MAGIC = b"UNPREC01"
_EVENTS = 16
_SOURCES = {"none": 0, "simulated": 1, "perf_event": 2, "papi": 3}
_CLOCKS = {"monotonic": 0, "process-cpu": 1}
_STATES = ("waiting", "attached", "finished", "failed")

SIGNAL = signal.SIGRTMIN + 4
"""Not SIGPROF, which PAPI and profilers take; not one of the real-time signals that the C library or valgrind keeps."""

_EVENT = np.dtype([("type", "<u4"), ("flags", "<u4"), ("config", "<u8"), ("name", "S112")])
HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("header_bytes", "<u4"),
        ("record_bytes", "<u4"),
        ("capacity", "<u8"),
        ("interval_ns", "<u8"),
        ("clock", "<u4"),
        ("signal", "<u4"),
        ("source", "<u4"),
        ("events", "<u4"),
        ("os", "<u4"),
        ("software", "<u4"),
        ("program", "S64"),
        ("owner", "<u8"),
        ("committed", "<u8"),
        ("nested", "<u8"),
        ("lost", "<u8"),
        ("unread", "<u8"),
        ("state", "<u8"),
        ("error", "<i8"),
        ("libraries", "<u8"),
        ("message", "S240"),
        ("event", _EVENT, (_EVENTS,)),
    ]
)
_FIXED = [
    ("sequence", "<u8"),
    ("monotonic_ns", "<i8"),
    ("cpu_ns", "<i8"),
    ("overruns", "<u8"),
    ("enabled_ns", "<u8"),
    ("running_ns", "<u8"),
]


@dataclass(frozen=True)
class Event:
    """A hardware event that the runtime reads itself: perf_event's type and configuration, or PAPI's name."""

    name: str
    type: int = 0
    config: int = 0
    kernel: bool = False


@dataclass(frozen=True)
class Setup:
    """What the runtime shall do in one run.

    Attributes
    ----------
    source : `simulated`, `perf_event`, `papi` or `none`.
    interval_ns : length of an interval on `clock`.
    clock : `monotonic`, or `process-cpu`, which ticks with the kernel's jiffy.
    events : hardware events that the runtime reads (none for `simulated`: the simulator counts all of its own).
    os_metrics : record the counters of getrusage(2).
    software : number of software metrics.
    capacity : records that fit.
    program : only a program of this name is sampled; for a preloaded runtime, which the launcher and valgrind carry too.
    """

    source: str
    interval_ns: int
    clock: str
    events: tuple[Event, ...] = ()
    os_metrics: bool = False
    software: int = 0
    capacity: int = 65536
    program: str = ""

    @property
    def record(self) -> np.dtype[Any]:
        """Return the dtype of one record."""
        os_count = len(OS_METRICS) if self.os_metrics else 0
        return np.dtype(
            [
                *_FIXED,
                ("hardware", "<i8", (len(self.events),)),
                ("os", "<i8", (os_count,)),
                ("software", "<i8", (self.software,)),
            ]
        )


@dataclass(frozen=True)
class Records:
    """What a run left in its record file.

    Attributes
    ----------
    rows : structured array of the committed records, cumulative values.
    state : `waiting` (no program attached), `attached` (ended without its last record), `finished`, `failed`.
    message : why it failed.
    owner : process id of the program that claimed the file; 0 for none.
    nested, lost, unread : ticks that came while another was handled; after the file was full; records without hardware counts.
    tables : translation units with software counters that were loaded when the sampler started.
    """

    rows: NDArray[Any]
    state: Literal["waiting", "attached", "finished", "failed"]
    message: str
    owner: int
    nested: int
    lost: int
    unread: int
    tables: int


def create_record_file(path: Path, setup: Setup) -> None:
    """Create the record file at its full size, zero-filled, so that a full disk is met now and not in the measured program.

    Raises
    ------
    HostError
        More events than one record holds, or the disk is full.
    """
    if len(setup.events) > _EVENTS:
        raise HostError(
            f"{len(setup.events)} hardware events in one run; a record holds {_EVENTS}. Ask for fewer, or split them"
        )
    header = np.zeros((), HEADER)
    header["magic"] = _MAGIC
    header["header_bytes"] = HEADER.itemsize
    header["record_bytes"] = setup.record.itemsize
    header["capacity"] = setup.capacity
    header["interval_ns"] = setup.interval_ns
    header["clock"] = _CLOCKS[setup.clock]
    header["signal"] = SIGNAL
    header["source"] = _SOURCES[setup.source]
    header["events"] = len(setup.events)
    header["os"] = len(OS_METRICS) if setup.os_metrics else 0
    header["software"] = setup.software
    header["program"] = setup.program.encode()
    for index, event in enumerate(setup.events):
        header["event"][index] = (event.type, int(event.kernel), event.config, event.name.encode())
    size = HEADER.itemsize + setup.capacity * setup.record.itemsize
    with path.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            path.unlink()
            raise HostError(
                f"no space left for a record file of {size / 1e6:.1f} MB in {path.parent}: free some and run the same command again"
            ) from None
        file.write(header.tobytes())


def read_record_file(path: Path, setup: Setup) -> Records:
    """Read the committed records of a run; those of a killed program too.

    Raises
    ------
    RunError
        The file is not the one that `setup` made.
    """
    data = path.read_bytes()
    if len(data) < HEADER.itemsize or data[: len(_MAGIC)] != _MAGIC:
        raise RunError(f"{path}: not a record file; did the measured program overwrite it?")
    header = np.frombuffer(data, HEADER, 1)[0]
    if int(header["record_bytes"]) != setup.record.itemsize:
        raise RunError(f"{path}: records of {int(header['record_bytes'])} bytes, {setup.record.itemsize} expected")
    rows = np.frombuffer(data, setup.record, int(header["committed"]), HEADER.itemsize)
    return Records(
        rows=rows,
        state=_STATES[int(header["state"])],  # type: ignore[arg-type]
        message=bytes(header["message"]).rstrip(b"\0").decode(errors="replace"),
        owner=int(header["owner"]),
        nested=int(header["nested"]),
        lost=int(header["lost"]),
        unread=int(header["unread"]),
        tables=int(header["libraries"]),
    )


def deltas(column: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Return what a cumulative counter gained from each record to the next, shape (records − 1,)."""
    values = np.asarray(column, dtype=np.int64)
    return values[1:] - values[:-1]
