"""Kernel probes (uprobes): breakpoints in any binary; the kernel counts their hits for processes that open the probes.

The probes are registered as dynamic events (`uprobe_events` of tracefs), not opened through the kernel's `uprobe` PMU:
events of that PMU cannot be inherited. When a thread is created, the kernel would read the binary's path again from
the memory of the calling process, which does not contain the path, and pthread_create(3) would fail.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import mmap
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from unperturbed.collectors.records.file import HEADER, Probe
from unperturbed.collectors.runtime import build_hit_cost, load_counters
from unperturbed.common import supervision
from unperturbed.errors import HostError

_TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_PLAIN_PATH = re.compile(r"[^\s#]+")


class _Place(Protocol):
    """Site of a probe: the metric's index in the run, a name for messages, a binary, and offsets in the binary.

    `semaphore`: Offset of the counter that makes the program prepare the probe's arguments; 0 if there is none.
    """

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def offset(self) -> int: ...
    @property
    def semaphore(self) -> int: ...


class _TrialPlace(NamedTuple):
    number: int
    name: str
    path: Path
    offset: int
    semaphore: int = 0


def probe_registry() -> Path:
    """Return the file through which probes are registered with this host's kernel."""
    mounted = [folder for folder in _TRACEFS if _exists(folder / "events")]
    if not mounted:
        raise HostError(
            "kernel probes need tracefs, which is not mounted or is readable only by root: run as root; if tracefs "
            "is not mounted, mount it with: mount -t tracefs tracefs /sys/kernel/tracing (a container needs the "
            "host's tracefs as a mount, and CAP_PERFMON)"
        )
    registry = mounted[0] / "uprobe_events"
    if not _exists(registry):
        without = f"it was built without CONFIG_UPROBE_EVENTS ({registry} is missing)"
        raise HostError(f"this kernel does not support probes: {without}")
    if not os.access(registry, os.W_OK):
        raise HostError(f"only root can register kernel probes: this user cannot write to {registry}; run as root")
    return registry


def _exists(path: Path) -> bool:
    """Return whether a path exists and is accessible; Path.exists raises an error if access is denied."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def register_probes(places: Iterable[_Place], *, compiler: str = "cc", with_trial: bool = True) -> tuple[Probe, ...]:
    """Register probes with the kernel (Linux 5.4 and later): one per metric, which counts the hits at all its sites.

    The kernel counts nothing and changes no binary until a sampler opens the probes for a process. The probes are
    removed when this process ends. Result: The probes, in the order of their metrics.

    `with_trial`: Try each probe, about 90 ms per metric: the kernel releases a probe only after an RCU grace period.
    Without trying, a probe that the kernel rejects fails when a program runs, or counts nothing.
    """
    ordered = sorted(places, key=lambda place: place.number)
    if not ordered:
        return ()
    registry = probe_registry()
    # Remove the probes of processes that were killed before they could remove them.
    left = rf"^p:(unperturbed_{_process_namespace()}_(\d+)/\S+) "
    for event, pid in set(re.findall(left, registry.read_text(), re.MULTILINE)):
        if not Path(f"/proc/{pid}").exists():
            _remove(registry, event)
    atexit.unregister(remove_probes)
    atexit.register(remove_probes)
    probes = []
    with ExitStack() as undo:
        for number, group in groupby(ordered, key=lambda place: place.number):
            event, at = f"{_own_group()}/p{os.urandom(5).hex()}", list(group)
            undo.callback(_remove, registry, event)
            for place in at:
                _write(registry, place, event)
            probes.append(Probe(number, _tracepoint(registry, event), at[0].name))
        if with_trial:
            _try(probes, ordered, compiler)
        undo.pop_all()
    return tuple(probes)


def remove_probes(probes: Iterable[Probe] | None = None) -> None:
    """Remove the given probes of this process, by default all; those in use remain until a later registration."""
    with suppress(HostError):
        registry = probe_registry()
        wanted = None if probes is None else {probe.tracepoint for probe in probes}
        own = re.findall(rf"^p:({_own_group()}/\S+) ", registry.read_text(), re.MULTILINE)
        for event in dict.fromkeys(own):
            if wanted is None or _tracepoint(registry, event) in wanted:
                _remove(registry, event)


def _own_group() -> str:
    """Return this process's probe group: its name is unique on the host, even if containers repeat process numbers."""
    return f"unperturbed_{_process_namespace()}_{os.getpid()}"


def _process_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _tracepoint(registry: Path, event: str) -> int:
    return int((registry.parent / "events" / event / "id").read_text())


def _remove(registry: Path, event: str) -> None:
    with suppress(OSError):  # a running process still counts this event, or the event no longer exists
        _append(registry, f"-:{event}")


def _append(registry: Path, command: str) -> None:
    # If the file were opened with O_TRUNC, the kernel would remove every probe of the host.
    descriptor = os.open(registry, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, os.fsencode(f"{command}\n"))
    finally:
        os.close(descriptor)


def _write(registry: Path, place: _Place, event: str) -> None:
    semaphore = f"({place.semaphore:#x})" if place.semaphore else ""
    try:
        with _path_of_command(place.path) as path:
            _append(registry, f"p:{event} {path}:{place.offset:#x}{semaphore}")
    except OSError as error:
        where = f"{place.name}, at offset {place.offset:#x} in {place.path}"
        raise HostError(f"the kernel refuses a probe for {where}: {error.strerror}") from None


@contextmanager
def _path_of_command(path: Path) -> Iterator[str]:
    """Yield a path without spaces and `#`: at these characters, the kernel would cut off the path or the command."""
    if _PLAIN_PATH.fullmatch(str(path)):
        yield str(path)
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _try(probes: Sequence[Probe], places: Sequence[_Place], compiler: str) -> None:
    """Map the binaries into this process, and set each breakpoint: only then does the kernel check the instructions."""
    header = np.zeros((), HEADER)
    header["probes"] = 1
    opened = (ctypes.c_int * 64)()
    open_probes = load_counters(compiler).unperturbed_probes_open
    with ExitStack() as maps:
        for place in places:
            maps.callback(_map(place).close)
        for probe in probes:
            header["probe"][0] = (probe.tracepoint, probe.metric, 0, probe.name.encode())
            result = open_probes(opened, header.ctypes.data_as(ctypes.c_void_p), 0)
            if opened[0]:
                os.close(opened[1])
            if result != 0:
                raise HostError(bytes(header["message"]).rstrip(b"\0").decode(errors="replace"))


def _map(place: _Place) -> mmap.mmap:
    begin = place.offset - place.offset % mmap.ALLOCATIONGRANULARITY
    readable = mmap.PROT_READ | mmap.PROT_EXEC
    try:
        with place.path.open("rb") as file:
            return mmap.mmap(file.fileno(), place.offset + 1 - begin, mmap.MAP_PRIVATE, readable, offset=begin)
    except ValueError:
        changed = f"{place.path} ends before the offset of the probe for {place.name}"
        raise HostError(f"{changed}: the file has changed; repeat the command") from None
    except OSError as error:
        is_noexec = error.errno == errno.EPERM
        why = "its file system is mounted noexec" if is_noexec else error.strerror
        raise HostError(f"{place.path} cannot be mapped as an executable: {why}") from None


@dataclass(frozen=True)
class HitCost:
    """Time that each probe hit adds to the program."""

    cheap_ns: float  # If the kernel emulates the probed instruction, such as a push or a nop
    dear_ns: float  # If the processor single-steps the probed instruction

    def ns(self, hit: str) -> float:
        """Return the cost of a hit at a `cheap`, `dear` or `unknown` instruction; if unknown, the greater cost."""
        return self.cheap_ns if hit == "cheap" else max(self.cheap_ns, self.dear_ns)


def measure_hit_cost(compiler: str = "cc") -> HitCost:
    """Measure a hit's cost in a test program: the median time of a block of calls with a probe, minus that without."""
    program = build_hit_cost(compiler)
    pipe = subprocess.PIPE
    with supervision.start([str(program)], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            cheap, dear = map(int, process.stdout.readline().split())
            name = f"{program.name}:trial"
            places = [_TrialPlace(0, name, program, cheap), _TrialPlace(0, name, program, dear)]
            (probe,) = register_probes(places, with_trial=False)
            printed, error = process.communicate(f"{probe.tracepoint}\n")
            remove_probes([probe])
        finally:
            supervision.end(process)
    if process.returncode != 0:
        raise HostError(f"cannot measure the cost of a probe hit: {error.strip() or f'exit code {process.returncode}'}")
    return HitCost(*map(float, printed.split()))
