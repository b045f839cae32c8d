"""Counts what a signal handler executes, exactly and natively.

The program is stepped one instruction at a time through it, by ptrace(2).

Callgrind counts as well, but without the kernel's own code in the program's memory (the vDSO, where clock_gettime is).
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.errors import HostError, RunError

__all__ = ["step_handlers"]

_TRACEME, _CONTINUE, _SINGLESTEP, _GETREGSET = 0, 7, 9, 0x4204
_GENERAL_REGISTERS = 1  # NT_PRSTATUS
_REGISTERS = {"x86_64": (27, 16, 19)}  # how many, and which are the program counter and the stack pointer


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.restype = ctypes.c_long
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class _Mapping:
    begin: int
    end: int
    offset: int
    path: str


class _Places:
    """Tells which function an address of a process lies in.

    Parameters
    ----------
    pid : of the process while it lives.
    """

    def __init__(self, pid: int) -> None:
        self._mappings = []
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if match := re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ \d+\s*(.*)", line):
                begin, end, offset = (int(text, 16) for text in match.groups()[:3])
                self._mappings.append(_Mapping(begin, end, offset, match[4]))
        self._names: dict[int, tuple[str, str]] = {}

    def name(self, addresses: Sequence[int]) -> list[tuple[str, str]]:
        """Return the object (its file's name) and the function of each address.

        A function inlined into another by its own name.
        """
        by_object: dict[str, set[int]] = {}
        for address in set(addresses) - self._names.keys():
            by_object.setdefault(self._mapping(address).path, set()).add(address)
        for path, asked in by_object.items():
            base = min(mapping.begin - mapping.offset for mapping in self._mappings if mapping.path == path)
            ordered = sorted(asked)
            # The only call of the vDSO that the samplers make is clock_gettime.
            is_file = path.startswith("/")
            functions = (
                _functions(Path(path), [at - base for at in ordered]) if is_file else ["clock_gettime"] * len(ordered)
            )
            self._names.update(
                (address, (Path(path).name, name)) for address, name in zip(ordered, functions, strict=True)
            )
        return [self._names[address] for address in addresses]

    def _mapping(self, address: int) -> _Mapping:
        return next(mapping for mapping in self._mappings if mapping.begin <= address < mapping.end)


def _functions(binary: Path, offsets: Sequence[int]) -> list[str]:
    """Name the innermost function at each offset.

    By the debugging information, or else by the nearest exported symbol before it.
    """
    command = ["addr2line", "-f", "-e", str(binary), *(hex(offset) for offset in offsets)]
    named = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[::2]
    exported = subprocess.run(
        ["nm", "-D", "--defined-only", str(binary)], capture_output=True, text=True, check=False
    ).stdout
    symbols = sorted((int(at, 16), name) for at, name in re.findall(r"^(\w+) [TtWi] ([^@\n]+)", exported, re.MULTILINE))
    return [
        name
        if name != "??"
        else max((symbol for symbol in symbols if symbol[0] <= offset), default=(0, "(linkage)"))[1]
        for name, offset in zip(named, offsets, strict=True)
    ]


def _call(request: int, pid: int, data: object = None) -> None:
    if _ptrace(request, pid, _GENERAL_REGISTERS if request == _GETREGSET else None, data) == -1:
        code = ctypes.get_errno()
        raise HostError(
            f"ptrace of process {pid}: {os.strerror(code)}; a container without CAP_SYS_PTRACE cannot step a program"
        )


def _position(pid: int) -> tuple[int, int]:
    """Return the program counter and the stack pointer."""
    count, counter, stack = _REGISTERS[platform.machine()]
    registers = (ctypes.c_uint64 * count)()
    span = _Span(ctypes.addressof(registers), ctypes.sizeof(registers))
    _call(_GETREGSET, pid, ctypes.byref(span))
    return registers[counter], registers[stack]


def _stop(pid: int) -> int:
    """Wait until the process stops, and return the signal that it stopped for."""
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise RunError(f"the program ended (status {status}) before enough signals came; give it more work")
    return os.WSTOPSIG(status)


def _step_through(pid: int, number: int) -> list[int]:
    interrupted = _position(pid)
    executed: list[int] = []
    _call(_SINGLESTEP, pid, number)  # the kernel stops it before the handler's first instruction
    while True:
        if (stopped := _stop(pid)) != signal.SIGTRAP:
            raise RunError(f"the handler met signal {stopped}")
        here = _position(pid)
        if here == interrupted:
            return executed
        executed.append(here[0])
        _call(_SINGLESTEP, pid)


def step_handlers(
    command: Sequence[str], environment: dict[str, str], number: int, deliveries: int
) -> list[Counter[tuple[str, str]]]:
    """Run a program and step it through its handler of one signal, several times.

    Parameters
    ----------
    number : of the signal.
    deliveries : how many times; the program is killed then.

    Returns
    -------
    list of Counter
        For each time, the instructions from the handler's first to the return to the program, by (object, function).

    Raises
    ------
    HostError
        Another machine than x86_64, or ptrace is not permitted.
    RunError
        The program ended too early.
    """
    if platform.machine() not in _REGISTERS:
        raise HostError(
            f"stepping is written for {', '.join(_REGISTERS)}, not for {platform.machine()}; use callgrind's count"
        )
    with subprocess.Popen(
        list(command),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: _ptrace(_TRACEME, 0, None, None),  # noqa: PLW1509  nothing else of this process runs threads
    ) as process:
        pid = process.pid
        try:
            _stop(pid)
            found: list[list[int]] = []
            passed_on = 0
            while len(found) < deliveries:
                _call(_CONTINUE, pid, passed_on)
                stopped = _stop(pid)
                passed_on = 0
                if stopped == number:
                    found.append(_step_through(pid, number))
                else:
                    passed_on = stopped
            places = _Places(pid)
            return [Counter(places.name(executed)) for executed in found]
        finally:
            process.kill()
