"""A run of a program with a uprobe of the kernel on one of its functions, counted by perf_event_open(2) alone."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.errors import HostError

__all__ = ["ProbedRun", "run_counted"]

_TYPE = Path("/sys/bus/event_source/devices/uprobe/type")
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_ENABLE = 0x2400
_SIZE = 112
_DISABLED, _INHERIT = 1 << 0, 1 << 1


@dataclass(frozen=True)
class ProbedRun:
    """Hits (0 without a probe), CPU time and time by the clock of one run."""

    hits: int
    cpu_s: float
    wall_s: float


def run_counted(program: Path, function: str | None, arguments: Sequence[str]) -> ProbedRun:
    """Run a program, its standard output thrown away, with a uprobe on a function's first instruction.

    Parameters
    ----------
    function : a symbol of the program; None runs it without a probe.

    Raises
    ------
    HostError
        The kernel has no uprobes, or this user may not count by them.
    """
    here, there = os.pipe()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(there)
        os.read(here, 1)  # until the event is open
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(program, [str(program), *arguments])
    os.close(here)
    event = -1
    try:
        if function is not None:
            event = _open(program, function, child)
        begin = time.monotonic()
    finally:
        os.close(there)
        _, status, usage = os.wait4(child, 0)
    wall = time.monotonic() - begin
    hits = struct.unpack("Q", os.read(event, 8))[0] if event >= 0 else 0
    if event >= 0:
        os.close(event)
    if status:
        raise HostError(f"{program} ended with status {status}")
    return ProbedRun(hits, usage.ru_utime + usage.ru_stime, wall)


def _open(program: Path, function: str, process: int) -> int:
    if not _TYPE.exists():
        raise HostError("this kernel has no uprobe events")
    path = ctypes.create_string_buffer(os.fsencode(program.resolve()))
    attributes = bytearray(_SIZE)
    struct.pack_into("IIQ", attributes, 0, int(_TYPE.read_text()), _SIZE, 0)
    struct.pack_into("Q", attributes, 40, _DISABLED | _INHERIT)
    struct.pack_into("QQ", attributes, 56, ctypes.addressof(path), _file_offset(program, function))
    call = ctypes.CDLL(None, use_errno=True).syscall
    buffer = (ctypes.c_char * _SIZE).from_buffer(attributes)
    event: int = call(_PERF_EVENT_OPEN[os.uname().machine], buffer, process, -1, -1, 8)
    if event < 0:
        raise HostError(f"a uprobe on {function} cannot be opened ({os.strerror(ctypes.get_errno())})")
    fcntl.ioctl(event, _ENABLE, 0)
    return event


def _file_offset(program: Path, function: str) -> int:
    """Return where in the file a function's first instruction is."""
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    found = re.search(rf"^([0-9a-f]+) \w {function}$", symbols, re.MULTILINE)
    if found is None:
        raise HostError(f"{program} has no function {function} of its own")
    address = int(found[1], 16)
    headers = subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
    for offset, start, size in re.findall(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", headers):
        if int(start, 16) <= address < int(start, 16) + int(size, 16):
            return address - int(start, 16) + int(offset, 16)
    raise HostError(f"{function} is in no part of {program} that is loaded")
