"""Counters with which a process measures itself: events of the calling thread, and operating-system counters.

This module does not use NumPy: it is loaded into processes whose memory and time are measured. The structures are those
of `runtime/common/unperturbed.h` and `runtime/common/sources.h`; a test compares them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unperturbed.collectors.runtime import load_counters, structure_fields
from unperturbed.collectors.sources import source_number
from unperturbed.collectors.sources.catalogue import OsGroup
from unperturbed.collectors.sources.perf.names import PerfCode
from unperturbed.errors import HostError

_CHILDREN = 4
_KERNEL_TOO, _NOT_USER = 1, 2
_ENABLE, _GROUP = 0x2400, 1  # PERF_EVENT_IOC_ENABLE and PERF_IOC_FLAG_GROUP of linux/perf_event.h
_TRIAL_NS = 50_000
_NAME_BYTES = 111
_NO_PAPI = b"libpapi: not installed"


def _fields_of(name: str) -> list[tuple[str, Any]]:
    """Return the fields of a structure of `unperturbed.h` in the form that ctypes expects."""
    fields: list[tuple[str, Any]] = []
    for field, kind, length in structure_fields(name):
        own = getattr(ctypes, f"c_{kind.removesuffix('_t')}", None) or _structures[kind]
        fields.append((field, own * length if length else own))
    return fields


class EventStructure(ctypes.Structure):
    """ctypes mirror of `struct unperturbed_event`."""

    _fields_ = _fields_of("event")


class ProbeStructure(ctypes.Structure):
    """ctypes mirror of `struct unperturbed_probe`."""

    _fields_ = _fields_of("probe")


_structures = {"event": EventStructure, "probe": ProbeStructure}


class HeaderStructure(ctypes.Structure):
    """ctypes mirror of `struct unperturbed_header`."""

    _fields_ = _fields_of("header")


EVENTS: int = HeaderStructure().event._length_
"""Maximum number of events that a source counts at once (UNPERTURBED_EVENTS)."""


class RecordStructure(ctypes.Structure):
    """ctypes mirror of `struct unperturbed_record`, with room for all events' values and times."""

    _fields_ = (*_fields_of("record")[:-1], ("value", ctypes.c_int64 * (3 * EVENTS)))


class SourceStructure(ctypes.Structure):
    """ctypes mirror of `struct unperturbed_source`; its functions return 0 on success."""

    # PYFUNCTYPE keeps the GIL: no other Python thread may run between a reading and the measured code.
    _fields_ = (
        ("open", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
        ("read", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("close", ctypes.PYFUNCTYPE(None, ctypes.c_void_p)),
        ("encode", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)),
        ("traits", ctypes.c_uint32),
    )


class CountersStructure(ctypes.Structure):
    """ctypes mirror of `struct unperturbed_counters`."""

    _fields_ = (
        ("source", ctypes.POINTER(SourceStructure)),
        ("options", ctypes.c_uint32),
        ("events", ctypes.c_uint32),
        ("event_set", ctypes.c_int),
        ("fd", ctypes.c_int * EVENTS),
        ("page", ctypes.c_void_p * EVENTS),
        ("total", ctypes.c_int64 * EVENTS),
        ("user_reads", ctypes.c_uint64),
        ("processor", ctypes.c_int32),
        ("overflow", ctypes.c_uint32),
        ("state", ctypes.c_void_p),
    )


class ThreadCounters:
    """Events of one source, counted for the calling thread and summed over all pairs of `begin` and `end`.

    `events`: Encoding by name; PAPI opens its events by name and ignores the encoding.
    `children`: Also count processes and threads that the thread starts from now on (perf_event only).

    A pair consists of two readings of events that count all the time. The pair includes the end of the first reading
    and the beginning of the second: a few hundred instructions of Python and C.
    """

    def __init__(
        self, events: Mapping[str, PerfCode], source: str, *, compiler: str = "cc", children: bool = False
    ) -> None:
        self.source = source
        self.totals = dict.fromkeys(events, 0)  # Sum of each event over all pairs of `begin` and `end`
        # How long the events were enabled and on counters during the pairs; 0 for PAPI, which does not report these.
        self.enabled_ns = self.running_ns = 0
        self.unread = 0  # Pairs that could not be read, not included in the totals
        self._events = dict(events)
        self._compiler = compiler
        self._children = children
        self._counters = CountersStructure()
        self._before, self._after = RecordStructure(), RecordStructure()
        self._begun = -1

    def open(self) -> None:
        """Open and start the events."""
        if len(self._events) > EVENTS:
            raise HostError(f"cannot count {len(self._events)} events at once: request at most {EVENTS}")
        library = load_counters(self._compiler)
        header = self._header()
        counters = self._counters = CountersStructure()
        self._counters_at = ctypes.byref(counters)
        self._before_at, self._after_at = ctypes.byref(self._before), ctypes.byref(self._after)
        watched = os.getpid() if self._children else 0
        if self.source == "papi":
            header.papi = _papi(bundled=False)
        failed = library.unperturbed_open(self._counters_at, ctypes.byref(header), watched)
        if failed and header.message == _NO_PAPI and (bundled := _papi(bundled=True)):
            header.papi = bundled
            failed = library.unperturbed_open(self._counters_at, ctypes.byref(header), watched)
        if failed:
            opened = [fd for fd in counters.fd if fd >= 0]
            counters.events = 0
            for fd in opened:
                os.close(fd)
            raise HostError(_refusal(header, self.source))
        if self._children and self._events:
            # The runtime enables a process's events at its next exec, but this process will not call exec.
            fcntl.ioctl(counters.fd[0], _ENABLE, _GROUP)
        source = counters.source.contents
        self._read, self._close = source.read, source.close

    def begin(self) -> None:
        """Take the first reading of a pair, in about 1 µs."""
        self._begun = self._read(self._counters_at, self._before_at)

    def end(self) -> None:
        """Take the second reading, and add to the totals."""
        ended = self._read(self._counters_at, self._after_at)
        if self._begun != 0 or ended != 0:
            self.unread += 1
            return
        before, after = self._before, self._after
        for index, name in enumerate(self.totals):
            self.totals[name] += after.value[index] - before.value[index]
        self.enabled_ns += after.enabled_ns - before.enabled_ns
        self.running_ns += after.running_ns - before.running_ns

    def close(self) -> None:
        """Stop counting; keep the totals."""
        if self._counters.events:
            self._close(self._counters_at)

    def clear(self) -> None:
        """Set the totals to zero."""
        self.totals = dict.fromkeys(self._events, 0)
        self.enabled_ns = self.running_ns = self.unread = 0

    def runs(self) -> bool:
        """Return whether the events are counted throughout a short trial; clear the totals."""
        self.begin()
        until = time.perf_counter_ns() + _TRIAL_NS
        while time.perf_counter_ns() < until:
            pass
        self.end()
        running = not self.unread and self.running_ns >= self.enabled_ns
        self.clear()
        return running

    def _header(self) -> HeaderStructure:
        header = HeaderStructure(
            source=source_number(self.source), events=len(self._events), options=_CHILDREN * self._children
        )
        for index, (name, code) in enumerate(self._events.items()):
            flags = _KERNEL_TOO * code.kernel | _NOT_USER * (not code.user)
            numbers = (code.type, flags, code.config, code.config1, code.config2)
            header.event[index] = EventStructure(*numbers, name.encode()[:_NAME_BYTES])
        return header


def _papi(*, bundled: bool) -> bytes:
    """Return the path of the PAPI library that the user chose, or of the one in python-papi's wheel; may be empty."""
    from unperturbed.collectors.sources.papi import chosen_library, wheel_library  # noqa: PLC0415  rarely needed

    return os.fsencode(wheel_library() if bundled else chosen_library())


def _refusal(header: HeaderStructure, source: str) -> str:
    """Return why a source did not open its events and, if the kernel refused, what to do."""
    reason = str(header.message.decode(errors="replace"))
    if source != "perf_event":
        return reason
    if header.error in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return f"{reason} (this host has no PMU, like most virtual machines, or its PMU lacks this event)"
    if header.error in (errno.EACCES, errno.EPERM):
        level = Path("/proc/sys/kernel/perf_event_paranoid")
        setting = level.read_text().strip() if level.exists() else "missing"
        return f"{reason} (perf_event_paranoid is {setting}; allow counting with: sysctl kernel.perf_event_paranoid=1)"
    return reason


_USAGE = ("ru_minflt", "ru_majflt", "ru_nvcsw", "ru_nivcsw", "ru_utime", "ru_stime", "ru_inblock", "ru_oublock")
"""Fields of getrusage(2) in the order of the catalogue's group."""

_FILES = {"schedstat": "/proc/self/schedstat", "procio": "/proc/self/io"}


class ProcessCounters:
    """Operating-system counters of this process, summed over all pairs of `begin` and `end`."""

    def __init__(self, group: OsGroup, names: Sequence[str], *, children: bool = False) -> None:
        self.source = group.source
        self.totals = dict.fromkeys(names, 0)  # Sum of each counter over all pairs of `begin` and `end`
        self._positions = {name: list(group.metrics).index(name) for name in names}
        self._whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) if children else (resource.RUSAGE_SELF,)
        self._file = -1
        self._before: list[int] = []

    def open(self) -> None:
        """Open the file in /proc that the counters are read from, if any."""
        if self.source not in _FILES:
            return
        try:
            self._file = os.open(_FILES[self.source], os.O_RDONLY | os.O_CLOEXEC)
            self._values()
        except OSError as error:
            self.close()
            raise HostError(f"{_FILES[self.source]}: {error.strerror}") from None

    def begin(self) -> None:
        """Take the first reading of a pair, in a few µs."""
        self._before = self._values()

    def end(self) -> None:
        """Take the second reading, and add to the totals."""
        after = self._values()
        for name, position in self._positions.items():
            self.totals[name] += after[position] - self._before[position]

    def close(self) -> None:
        """Stop counting; keep the totals."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def clear(self) -> None:
        """Set the totals to zero."""
        self.totals = dict.fromkeys(self.totals, 0)

    def _values(self) -> list[int]:
        if self.source in _FILES:
            return [int(word) for word in os.pread(self._file, 512, 0).split() if word.isdigit()]
        usages = [resource.getrusage(who) for who in self._whose]
        values = ([getattr(usage, name) for usage in usages] for name in _USAGE)
        # getrusage returns times as seconds in floating point.
        return [sum(round(value * 1e6) if isinstance(value, float) else value for value in each) for each in values]
