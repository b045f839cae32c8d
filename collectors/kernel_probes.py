"""Probes of the kernel: breakpoints in any binary, whose hits the kernel counts for processes that ask.

They are registered as dynamic events (`uprobe_events` of tracefs), not opened by the kernel's `uprobe` PMU: an event of
that PMU cannot be inherited. Whatever makes a thread would have the kernel read the binary's path anew in its own
memory, where it is not, and pthread_create(3) fails there.
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
    """Where a probe is set: the metric's index in the run, a name for messages, a binary and offsets in it.

    `semaphore`: Offset of the counter that makes the program prepare the probe's arguments; 0 for none.
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
    """Return the file where this host's kernel takes probes."""
    mounted = [folder for folder in _TRACEFS if _exists(folder / "events")]
    if not mounted:
        raise HostError(
            "kernel probes need tracefs, which is not mounted here or is readable by root only: run as root, and if "
            "needed mount -t tracefs tracefs /sys/kernel/tracing (a container needs it passed in, and CAP_PERFMON)"
        )
    registry = mounted[0] / "uprobe_events"
    if not _exists(registry):
        without = f"it was built without CONFIG_UPROBE_EVENTS ({registry} is missing)"
        raise HostError(f"this kernel takes no probes: {without}")
    if not os.access(registry, os.W_OK):
        raise HostError(f"only root can register kernel probes: this user cannot write to {registry}; run as root")
    return registry


def _exists(path: Path) -> bool:
    """Return whether a path is there and may be looked at; Path.exists raises where it may not."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def register_probes(places: Iterable[_Place], *, compiler: str = "cc", tried: bool = True) -> tuple[Probe, ...]:
    """Register probes with the kernel (Linux 5.4 and later): one per metric, which counts hits at all of its places.

    Nothing is counted, and no binary changed, before a sampler opens them for a process. They are removed when this
    process ends. Result: In the order of their metrics.

    `tried`: Try each, some 90 ms per metric: the kernel lets go of a probe only after all processors have passed a
    quiet moment. Without, what the kernel refuses is met when a program runs, or counts nothing.
    """
    ordered = sorted(places, key=lambda place: place.number)
    if not ordered:
        return ()
    registry = probe_registry()
    # Of processes that were killed before they could remove theirs.
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
        if tried:
            _try(probes, ordered, compiler)
        undo.pop_all()
    return tuple(probes)


def remove_probes(probes: Iterable[Probe] | None = None) -> None:
    """Remove probes that this process registered (all by default); one still in use stays for a later registration."""
    with suppress(HostError):
        registry = probe_registry()
        wanted = None if probes is None else {probe.tracepoint for probe in probes}
        own = re.findall(rf"^p:({_own_group()}/\S+) ", registry.read_text(), re.MULTILINE)
        for event in dict.fromkeys(own):
            if wanted is None or _tracepoint(registry, event) in wanted:
                _remove(registry, event)


def _own_group() -> str:
    """Name of this process's probes among all of the host: a container's process numbers are its own."""
    return f"unperturbed_{_process_namespace()}_{os.getpid()}"


def _process_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _tracepoint(registry: Path, event: str) -> int:
    return int((registry.parent / "events" / event / "id").read_text())


def _remove(registry: Path, event: str) -> None:
    with suppress(OSError):  # a process that lives on still counts it, or it is gone
        _append(registry, f"-:{event}")


def _append(registry: Path, command: str) -> None:
    # Opened to truncate, the kernel would forget every probe of the host.
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
        where = f"{place.name} at {place.offset:#x} of {place.path}"
        raise HostError(f"the kernel refuses a probe of {where}: {error.strerror}") from None


@contextmanager
def _path_of_command(path: Path) -> Iterator[str]:
    """Yield a path as the kernel's commands can hold it: a space would end it, and # what follows it."""
    if _PLAIN_PATH.fullmatch(str(path)):
        yield str(path)
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _try(probes: Sequence[Probe], places: Sequence[_Place], compiler: str) -> None:
    """Set the breakpoints in this process, which maps the binaries: only then the kernel looks at the instructions."""
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
        changed = f"{place.path} ends before the place of {place.name}"
        raise HostError(f"{changed}: it changed meanwhile; start again") from None
    except OSError as error:
        is_noexec = error.errno == errno.EPERM
        why = "it lies in a file system that is mounted noexec" if is_noexec else error.strerror
        raise HostError(f"{place.path} cannot be mapped as a program: {why}") from None


@dataclass(frozen=True)
class HitCost:
    """Time that a hit costs the program."""

    cheap_ns: float  # Where the kernel emulates the probed instruction, as a push or a nop
    dear_ns: float  # Where the processor steps over it

    def ns(self, hit: str) -> float:
        """Return the cost of a site whose instruction is `cheap`, `dear` or `unknown` (then the greater)."""
        return self.cheap_ns if hit == "cheap" else max(self.cheap_ns, self.dear_ns)


def measure_hit_cost(compiler: str = "cc") -> HitCost:
    """Measure what a hit costs: the median block of calls with a probe, less that without, in a program made for it."""
    program = build_hit_cost(compiler)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with supervision.start([str(program)], **pipes, text=True) as process:
        try:
            assert process.stdout is not None
            cheap, dear = map(int, process.stdout.readline().split())
            name = f"{program.name}:trial"
            places = [_TrialPlace(0, name, program, cheap), _TrialPlace(0, name, program, dear)]
            (probe,) = register_probes(places, tried=False)
            printed, error = process.communicate(f"{probe.tracepoint}\n")
            remove_probes([probe])
        finally:
            supervision.end(process)
    if process.returncode != 0:
        raise HostError(f"cannot measure the cost of a probe: {error.strip() or f'exit code {process.returncode}'}")
    return HitCost(*map(float, printed.split()))
