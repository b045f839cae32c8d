"""Binaries by the names in targets, and the places in them where the kernel sets the probes of metrics.

A name stands for the program, a library that it loads, or a program that it may start. Nothing is built or run.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from unperturbed.common import supervision
from unperturbed.common.wording import nearest
from unperturbed.errors import SpecError
from unperturbed.instrument.binaries.elf import Binary, demangle, read_binary
from unperturbed.instrument.events.event import Event, event_kinds
from unperturbed.instrument.events.kind import ProbeKind

_LOADED = re.compile(r"^\s+(?:(?P<name>\S+) => )?(?P<path>/.*?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_MISSING = re.compile(r"^\s+(\S+) => not found$|shared librar\w+:? (\S+?):", re.MULTILINE)


def needed_libraries(program: Path, library_path: Sequence[Path] = ()) -> Mapping[str, Path]:
    """Return the libraries that the dynamic linker loads for a program or library before it runs.

    The program's own dynamic linker is asked (`ld.so --list`, as ldd(1) does); nothing of the program is executed, and
    what it opens itself (dlopen) is not known.
    """
    binary = read_binary(program)
    if not binary.needed:
        return {}
    linker = binary.interpreter or _linker_of_this_host(binary)
    environment = {"LD_LIBRARY_PATH": ":".join(map(str, library_path)), "LC_ALL": "C"}
    try:
        listed = supervision.run(
            [linker, "--list", str(program.absolute())], env=environment, capture_output=True, text=True
        )
    except OSError as error:
        raise SpecError(f"{program}: its dynamic linker {linker} does not run here ({error.strerror})") from None
    missing = [name for names in _MISSING.findall(listed.stdout + listed.stderr) for name in names if name]
    if missing:
        raise SpecError(
            f"{program}: it needs {', '.join(dict.fromkeys(missing))}, which the dynamic linker does not find; set "
            "LD_LIBRARY_PATH in the spec's environment to the folder that has it"
        )
    if listed.returncode != 0:
        raise SpecError(f"{program}: the dynamic linker fails to load it: {listed.stderr.strip()}")
    return {found["name"] or Path(found["path"]).name: Path(found["path"]) for found in _LOADED.finditer(listed.stdout)}


def _linker_of_this_host(library: Binary) -> str:
    """Return the dynamic linker that runs this host's own programs, for a library that names none."""
    host = read_binary(Path("/proc/self/exe").resolve())
    if host.machine != library.machine or not host.interpreter:
        raise SpecError(f"{library.path}: a library for {library.machine}, but this machine is {host.machine}")
    return host.interpreter


def find_binary(
    name: str, *, program: Path, search_path: Sequence[Path] = (), library_path: Sequence[Path] = ()
) -> Path:
    """Return the file of a name: a path, the program, a library that it loads, or a program in its folder or a PATH."""
    if "/" in name:
        return read_binary(program.absolute().parent / name).path
    if name == program.name:
        return read_binary(program).path
    libraries: Mapping[str, Path] = {}
    script = ""
    try:
        libraries = needed_libraries(program, library_path)
    except SpecError as error:
        script = f"; its libraries are not known: {error}"
    for known, path in libraries.items():
        if name in (known, path.name, path.resolve().name):
            return path
    for folder in (program.absolute().parent, *search_path):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return read_binary(path).path
    raise SpecError(_missing(name, program, libraries) + script)


def _missing(name: str, program: Path, libraries: Mapping[str, Path]) -> str:
    near = nearest(name, libraries)
    message = f"{name}: neither the program {program.name}, nor a library that it loads when it starts"
    message += ", nor a program in PATH" + (f"; nearest: {', '.join(near)}" if near else "")
    return f"{message}; a library that it opens later, and any other file, is named by its path"


Hit = Literal["cheap", "dear", "unknown"]

HIT_NS: Mapping[Hit, int] = MappingProxyType({"cheap": 600, "dear": 10_000, "unknown": 16_000})
"""Class of a site's instruction → ns of the program's time that a hit takes, where nothing better is known.

Measured on an AMD EPYC in a virtual machine, Linux 6.18; `collectors.kernel_probes` measures the host's own.
"""

HIT_COSTS: Mapping[Hit, str] = MappingProxyType(
    {
        "cheap": "about 0.6 us per hit: the kernel does the work of its instruction",
        "dear": "about 10 us per hit: the kernel has the processor step over its instruction",
        "unknown": "0.6 to 16 us per hit",
    }
)
"""The same in words."""


@dataclass(frozen=True)
class ProbeSite:
    """A place where the kernel sets a breakpoint for a metric."""

    metric: str  # Its name
    number: int  # Its index among all software metrics
    name: str  # The target as the user wrote it
    kind: str  # `uprobe` or `usdt`
    path: Path  # The binary
    symbol: str  # The function, or provider:name
    offset: int  # Of the instruction in the file
    semaphore: int  # Offset in the file of the counter that makes the program prepare the probe's arguments; 0 for none
    hit: Hit  # Whether the kernel emulates the instruction (`cheap`) or has the processor execute it apart (`dear`)

    @property
    def text(self) -> str:
        """Return the place within its binary in words."""
        kind = event_kinds()[self.kind]
        assert issubclass(kind, ProbeKind), "no other kind makes probes"
        return f"{kind.place} {demangle(self.symbol)} at {self.offset:#x}"


def find_probes(
    metric: str,
    event: Event,
    *,
    number: int = 0,
    program: Path,
    search_path: Sequence[Path] = (),
    library_path: Sequence[Path] = (),
) -> tuple[ProbeSite, ...]:
    """Find the places of a metric that the kernel counts; it may have several, whose hits are added.

    `search_path`, `library_path`: Absolute folders of PATH and LD_LIBRARY_PATH in the program's environment.
    """
    try:
        return tuple(_sites(metric, number, event, program, search_path, library_path))
    except SpecError as error:
        raise SpecError(f"software metric {metric!r}: {error}") from None


def _sites(
    metric: str, number: int, event: Event, program: Path, search_path: Sequence[Path], library_path: Sequence[Path]
) -> Iterator[ProbeSite]:
    name, _, target = event.target.partition(":")
    binary = read_binary(find_binary(name, program=program, search_path=search_path, library_path=library_path))
    path, kind = binary.path.resolve(), event_kinds()[event.kind]
    assert issubclass(kind, ProbeKind), "the caller selects kernel probes"
    try:
        places = kind.find(binary, target)
    except SpecError as error:
        raise SpecError(f"{error}{_defined_elsewhere(binary, target, library_path)}") from None
    for symbol, offset, semaphore in places:
        # How the kernel gets past its breakpoint is known for x86-64; elsewhere nothing was measured.
        hit: Hit = "unknown"
        if binary.machine == "EM_X86_64":
            hit = "cheap" if _is_emulated(binary.code(offset)) else "dear"
        yield ProbeSite(metric, number, event.target, kind.name, path, symbol, offset, semaphore, hit)


def _defined_elsewhere(binary: Binary, function: str, library_path: Sequence[Path]) -> str:
    """Return the library that defines a function which a binary imports."""
    if function not in binary.imported:
        return ""
    libraries = needed_libraries(binary.path, library_path)
    found = next((name for name, path in libraries.items() if read_binary(path).exports(function)), None)
    return f" ({found}:{function})" if found else ""


_PUSH = range(0x50, 0x58)
_NOP, _CALL, _JUMP, _JUMP_SHORT = 0x90, 0xE8, 0xE9, 0xEB
_BRANCH_SHORT, _BRANCH = range(0x70, 0x80), range(0x80, 0x90)
_TWO_BYTES, _LONG_NOP = 0x0F, 0x1F
_WORD_SIZED, _REPEATED = 0x66, 0xF3


def _is_emulated(code: bytes) -> bool:
    """Return whether an instruction of x86-64 is one that the kernel emulates: a push, a nop, a relative call or jump.

    arch/x86/kernel/uprobes.c of Linux, `branch_setup_xol_ops` and `push_setup_xol_ops`.
    """
    begin = 0
    while code[begin] in (_WORD_SIZED, _REPEATED):
        begin += 1
    operation, following = code[begin], code[begin + 1]
    if operation == _NOP or code[0] in _PUSH or (code[0] == 0x41 and code[1] in _PUSH):
        return True
    if _WORD_SIZED not in code[:begin] and operation in (_CALL, _JUMP, _JUMP_SHORT, *_BRANCH_SHORT):
        return True
    return operation == _TWO_BYTES and (following in _BRANCH or (following == _LONG_NOP and _emulates_long_nops()))


def _emulates_long_nops() -> bool:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 18)
