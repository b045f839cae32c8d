"""Lookup of the binaries that targets name, and of the sites in them where the kernel sets the probes of metrics.

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

    The program's own dynamic linker lists them (`ld.so --list`, as ldd(1) does). The program is not executed, so
    libraries that it opens itself (dlopen) are not listed.
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
        raise SpecError(f"{program}: cannot run its dynamic linker {linker} ({error.strerror})") from None
    missing = [name for names in _MISSING.findall(listed.stdout + listed.stderr) for name in names if name]
    if missing:
        raise SpecError(
            f"{program}: the dynamic linker cannot find {', '.join(dict.fromkeys(missing))}, which the program "
            "needs; add the folder that contains the missing library to LD_LIBRARY_PATH in the spec's `environment`"
        )
    if listed.returncode != 0:
        raise SpecError(f"{program}: the dynamic linker cannot load the program: {listed.stderr.strip()}")
    return {entry["name"] or Path(entry["path"]).name: Path(entry["path"]) for entry in _LOADED.finditer(listed.stdout)}


def _linker_of_this_host(library: Binary) -> str:
    """Return the dynamic linker of this host's own programs, for a library, which does not name one."""
    host = read_binary(Path("/proc/self/exe").resolve())
    if host.machine != library.machine or not host.interpreter:
        raise SpecError(f"{library.path}: this library is for {library.machine}, but the host is {host.machine}")
    return host.interpreter


def find_binary(
    name: str, *, program: Path, search_path: Sequence[Path] = (), library_path: Sequence[Path] = ()
) -> Path:
    """Return the file that a name denotes: a path, the program, its library, or a program in its folder or on PATH."""
    if "/" in name:
        return read_binary(program.absolute().parent / name).path
    if name == program.name:
        return read_binary(program).path
    libraries: Mapping[str, Path] = {}
    script = ""
    try:
        libraries = needed_libraries(program, library_path)
    except SpecError as error:
        script = f"; the program's libraries are not known: {error}"
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
    message = f"{name}: this is neither the program {program.name}, nor a library that it loads at startup"
    message += ", nor a program in its folder or on PATH" + (f"; nearest names: {', '.join(near)}" if near else "")
    return f"{message}; for any other file, such as a library that the program opens later, give its path"


Hit = Literal["cheap", "dear", "unknown"]

HIT_NS: Mapping[Hit, int] = MappingProxyType({"cheap": 600, "dear": 10_000, "unknown": 16_000})
"""Class of a site's instruction → default cost of a hit, in ns of the program's time.

Measured on an AMD EPYC in a virtual machine, Linux 6.18; `collectors.kernel_probes` measures the cost on this host.
"""

HIT_COSTS: Mapping[Hit, str] = MappingProxyType(
    {
        "cheap": "about 0.6 us per hit: the kernel emulates the instruction at the site",
        "dear": "about 10 us per hit: the kernel single-steps the instruction at the site",
        "unknown": "0.6 to 16 us per hit",
    }
)
"""Class of a site's instruction → default cost of a hit, in words."""


@dataclass(frozen=True)
class ProbeSite:
    """Site where the kernel sets a breakpoint for a metric."""

    metric: str  # Name of the metric
    number: int  # Index of the metric among all software metrics
    name: str  # The target as the user wrote it
    kind: str  # `uprobe` or `usdt`
    path: Path  # The binary
    symbol: str  # The function, or provider:name
    offset: int  # Offset of the instruction in the file
    semaphore: int  # Offset in the file of the counter that makes the program prepare the probe's arguments; 0 for none
    hit: Hit  # Whether the kernel emulates the instruction (`cheap`) or single-steps it out of line (`dear`)

    @property
    def text(self) -> str:
        """Describe the site within its binary in words."""
        kind = event_kinds()[self.kind]
        assert issubclass(kind, ProbeKind), "only a ProbeKind has probe sites"
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
    """Find the sites of a metric that the kernel counts; the hits of several sites are added.

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
        # The cost of passing a breakpoint is known only for x86-64: other architectures were not measured.
        hit: Hit = "unknown"
        if binary.machine == "EM_X86_64":
            hit = "cheap" if _is_emulated(binary.code(offset)) else "dear"
        yield ProbeSite(metric, number, event.target, kind.name, path, symbol, offset, semaphore, hit)


def _defined_elsewhere(binary: Binary, function: str, library_path: Sequence[Path]) -> str:
    """Return `LIBRARY:FUNCTION` in parentheses if a library defines a function that a binary imports; else ''."""
    if function not in binary.imported:
        return ""
    libraries = needed_libraries(binary.path, library_path)
    library = next((name for name, path in libraries.items() if read_binary(path).exports(function)), None)
    return f" (`{library}:{function}`)" if library else ""


_PUSH = range(0x50, 0x58)
_NOP, _CALL, _JUMP, _JUMP_SHORT = 0x90, 0xE8, 0xE9, 0xEB
_BRANCH_SHORT, _BRANCH = range(0x70, 0x80), range(0x80, 0x90)
_TWO_BYTES, _LONG_NOP = 0x0F, 0x1F
_WORD_SIZED, _REPEATED = 0x66, 0xF3


def _is_emulated(code: bytes) -> bool:
    """Return whether the kernel emulates this x86-64 instruction: a push, a nop, a relative call or jump.

    See arch/x86/kernel/uprobes.c of Linux, `branch_setup_xol_ops` and `push_setup_xol_ops`.
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
