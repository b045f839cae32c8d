"""Counting of calls to library functions by an LD_PRELOAD library, for programs that are not built here.

A call from one binary to another reads the address from a table, which the dynamic linker fills with the first function
of that name. A preloaded library comes first. Its function must have the symbol's version, and sees only calls through
the table.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from unperturbed.errors import SpecError
from unperturbed.instrument.binaries.elf import Binary, nearest_names, read_binary
from unperturbed.instrument.binaries.probes import needed_libraries
from unperturbed.instrument.events.event import Event

_OBJECT, _FUNCTION, _INDIRECT = 1, 2, 10
_HIDDEN_VERSION = 0x8000
_SYMBOLIC = 2
_LINKED_KINDS = {"EM_X86_64": (1, 6, 7), "EM_AARCH64": (257, 1025, 1026)}
"""Relocation types that bind a symbol by its name: absolute address, GLOB_DAT and JUMP_SLOT."""


class _Symbol(NamedTuple):
    place: int
    kind: int
    defined: bool
    version: str | None
    default: bool


def read_version(path: Path, name: str, *, defined: bool, functions: bool = True) -> tuple[str | None, tuple[str, ...]]:
    """Return the default version, and all versions, of a symbol that a binary defines or imports.

    The default version is the one that a program linked today gets, or that the binary imports; '' if the symbol has no
    version; None if there is no such symbol.
    """
    kinds = (_FUNCTION, _INDIRECT) if functions else (_OBJECT,)
    symbols = [
        symbol
        for symbol in _symbols(path, name, path.stat().st_mtime_ns)[0]
        if symbol.defined == defined and (symbol.kind in kinds or not defined)
    ]
    default = next((symbol.version for symbol in symbols if symbol.default), symbols[0].version if symbols else None)
    return default, tuple(symbol.version or "" for symbol in symbols)


def is_bound_within(path: Path, name: str) -> bool:
    """Return whether a library's own calls to a function are bound at link time and cannot be interposed."""
    symbols, linked, symbolic = _symbols(path, name, path.stat().st_mtime_ns)
    return symbolic or not any(symbol.place in linked for symbol in symbols if symbol.defined)


@lru_cache(maxsize=256)
def _symbols(path: Path, name: str, modified_ns: int) -> tuple[tuple[_Symbol, ...], frozenset[int], bool]:
    """Return a name's symbols, the indices of those that relocations bind, and whether the file prefers its own."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  about 20 ms, only for preloading

    del modified_ns  # a rebuilt file is read again
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        if table is None or elf.elfclass != 64:
            return (), frozenset(), False
        order = "<" if elf.little_endian else ">"
        names = elf.get_section(table["sh_link"]).data()
        versions = _versions(elf)
        numbers = elf.get_section_by_name(".gnu.version")
        number_of = [row[0] for row in struct.iter_unpack(f"{order}H", numbers.data())] if numbers else []
        encoded = name.encode() + b"\0"
        symbols = []
        for index, row in enumerate(struct.iter_unpack(f"{order}IBBHQQ", table.data())):
            if not names.startswith(encoded, row[0]):
                continue
            number = number_of[index] if index < len(number_of) else 1
            version = versions.get(number & ~_HIDDEN_VERSION, "")
            symbols.append(_Symbol(index, row[1] & 15, bool(row[3]), version, not number & _HIDDEN_VERSION))
        kinds = _LINKED_KINDS.get(str(elf.header.e_machine), ())
        linked = frozenset(
            info >> 32
            for section in elf.iter_sections()
            if section["sh_type"] == "SHT_RELA"
            for _, info, _ in struct.iter_unpack(f"{order}QQq", section.data())
            if info & 0xFFFFFFFF in kinds
        )
        dynamic = [tag.entry for segment in elf.iter_segments("PT_DYNAMIC") for tag in segment.iter_tags()]
        tags = {entry.d_tag: entry.d_val for entry in dynamic}
        symbolic = "DT_SYMBOLIC" in tags or bool(tags.get("DT_FLAGS", 0) & _SYMBOLIC)
        return tuple(symbols), linked, symbolic


def _versions(elf: Any) -> dict[int, str]:
    """Return the symbol versions that a binary defines and imports, by number."""
    versions: dict[int, str] = {}
    defined = elf.get_section_by_name(".gnu.version_d")
    for entry, names in defined.iter_versions() if defined else ():
        versions[entry["vd_ndx"]] = next(names).name
    needed = elf.get_section_by_name(".gnu.version_r")
    for _, auxiliaries in needed.iter_versions() if needed else ():
        for auxiliary in auxiliaries:
            versions[auxiliary["vna_other"] & ~_HIDDEN_VERSION] = auxiliary.name
    return versions


_FIXED_TEXT = Path(__file__).with_name("interposer.c")
_RUNTIME = "unperturbed_register"
"""Symbol that a program exports if the runtime is linked into it."""

_THREAD_STARTERS = ("pthread_create", "thrd_create")
"""Functions that the runtime defines and forwards, so their calls can still be counted."""

_BUILTINS = (
    "abs calloc ceil exit floor fprintf fputs free isalpha isdigit labs malloc memchr memcmp memcpy memmove mempcpy "
    "memset printf putchar puts realloc sin cos sprintf sqrt stpcpy strcat strchr strcmp strcpy strlen strncat strncmp "
    "strncpy strrchr strstr vprintf"
)
"""Functions that compilers treat as built-in: they evaluate some calls, or replace them with other functions."""

_ALSO_KNOWN_AS = "__{}_chk {}64 __isoc99_{} __isoc23_{} __{} _IO_{} __libc_{} {}_unlocked {}at {}at2"
"""Other names that compilers and headers use for a function: overflow-checked, for large files, of a newer standard,
without locks."""


@dataclass(frozen=True)
class Interposed:
    """Library function whose calls are counted."""

    function: str  # Symbol; mangled if C++
    exact: bool = False  # Count with a locked instruction, which loses no concurrent calls
    library: Path = Path()  # File that defines the function; calls are forwarded to it
    notes: tuple[str, ...] = ()  # Remarks for users
    uncounted: tuple[str, ...] = ()  # Which calls are not counted, and why


def interposer_source(functions: Mapping[int, Interposed]) -> str:
    """Return the C source of an LD_PRELOAD library that counts calls (GNU C for x86-64 and aarch64).

    Link the library between the first and the last object of a module (see collectors/runtime/README.md), with
    `-z initfirst`, and preload it after the runtime.

    `functions`: Index of a metric among all software metrics → the function that the metric counts.
    """
    names = list(dict.fromkeys(item.function for item in functions.values()))
    slots = list(functions.items())
    head = [
        f"#define NAMES {', '.join(_quoted(name) for name in names)}",
        f"#define METRICS {', '.join(str(number) for number, _ in slots)}",
        f"#define SITES {len(slots)}",
    ]
    tail = []
    for index, name in enumerate(names):
        own = [(slot, item) for slot, (_, item) in enumerate(slots) if item.function == name]
        counting = " ".join(f"{'EXACT' if item.exact else 'PLAIN'}({slot})" for slot, item in own)
        tail.append(f"FUNCTION({index}, {_quoted(name)}, {counting});")
    return "\n".join([*head, _FIXED_TEXT.read_text(), *tail, ""])


def _quoted(name: str) -> str:
    if not re.fullmatch(r"[\w$.]+", name):
        advice = "give a C++ function by its mangled name, such as _ZN2ns1fEi"
        raise SpecError(f"`preload`: {name!r} is not a symbol; {advice}")
    return f'"{name}"'


def find_function(event: Event, *, program: Path, library_path: Sequence[Path] = ()) -> Interposed:
    """Find the function of a `preload` metric in the libraries that a program loads at startup."""
    name = event.target
    _quoted(name)
    if name == "dlsym":
        raise SpecError(
            "`preload` cannot count `dlsym`, because the counting functions themselves call it: use `{probe: {uprobe: "
            '"libc.so.6:dlsym"}}`'
        )
    binary = read_binary(program)
    if not binary.interpreter:
        static = "this file is statically linked, or not a program"
        raise SpecError(f"{program}: {static}, so calls to libraries cannot be counted")
    libraries = {path: read_binary(path) for path in needed_libraries(program, library_path).values()}
    libraries = {path: library for path, library in libraries.items() if library.needed or library.functions}
    _check_own_definition(name, binary)
    owner = next((library for library in libraries.values() if library.exports(name)), None)
    if owner is None:
        raise SpecError(_missing(name, binary, list(libraries.values())))
    callers = [other for other in (binary, *libraries.values()) if name in other.imported and other is not owner]
    _check_versions(name, owner, callers)
    inner_calls = name in {function.name for function in owner.functions} and not is_bound_within(owner.path, name)
    return Interposed(
        name,
        event.threads == "exact",
        owner.path,
        tuple(_notes(name, owner, callers, inner_calls=inner_calls)),
        tuple(_uncounted_calls(name, binary, owner, callers, [binary, *libraries.values()], inner_calls=inner_calls)),
    )


def _check_own_definition(name: str, binary: Binary) -> None:
    own = [function for function in binary.functions if function.name == name]
    if not own or (name in _THREAD_STARTERS and binary.exports(_RUNTIME)):
        return
    if binary.exports(name) or name not in binary.imported:
        raise SpecError(
            f"{binary.path} defines `{name}` itself, so calls to `{name}` do not reach a library: build the program "
            f'from source and use `{{enter: {name}}}`, or use `{{probe: {{uprobe: "{binary.path.name}:{name}"}}}}`'
        )


def _check_versions(name: str, owner: Binary, callers: Sequence[Binary]) -> None:
    """Reject a function that a binary imports in an old version: its calls would be forwarded to the new version."""
    default, versions = read_version(owner.path, name, defined=True)
    if len(versions) < 2:
        return
    for caller in callers:
        asked, _ = read_version(caller.path, name, defined=False)
        if asked and asked in versions and asked != default:
            raise SpecError(
                f"{caller.path} uses the old version {asked} of `{name}`, but `preload` can forward the calls only to "
                f"the newer version {default} in {owner.path.name}: use "
                f'`{{probe: {{uprobe: "{owner.path.name}:{name}"}}}}`, or rebuild {caller.path.name}'
            )


def _missing(name: str, binary: Binary, libraries: Sequence[Binary]) -> str:
    for library in libraries:
        default, _ = read_version(library.path, name, defined=True, functions=False)
        if default is not None:
            return f"`{name}` is a variable of {library.path}, not a function, so it has no calls to count"
        if any(function.name == name for function in library.functions):
            kept = f"{library.path} defines `{name}` but does not export it, so no other binary can call it by name"
            return f'{kept}: use `{{probe: {{uprobe: "{library.path.name}:{name}"}}}}`'
    known = {function.name for library in libraries for function in library.functions if function.exported}
    message = f"no library that {binary.path} loads at startup has a function `{name}`{nearest_names(name, known)}"
    return f"{message}; libraries: {', '.join(library.path.name for library in libraries)}"


def _notes(name: str, owner: Binary, callers: Sequence[Binary], *, inner_calls: bool) -> list[str]:
    called_by = [caller.path.name for caller in callers] + [f"{owner.path.name} itself"] * inner_calls
    notes = [f"called by {', '.join(called_by)}"] if called_by else []
    if any(function.indirect for function in owner.functions if function.name == name):
        several = f"{owner.path.name} has several implementations of {name} and chooses one for this processor"
        notes.append(f"{several}; calls to any of them are counted")
    return notes


def _uncounted_calls(
    name: str, binary: Binary, owner: Binary, callers: Sequence[Binary], loaded: Sequence[Binary], *, inner_calls: bool
) -> list[str]:
    uncounted = []
    if not inner_calls:
        uncounted.append(f"calls within {owner.path.name} itself are bound at link time and bypass the counter")
    if not callers:
        nothing = f"nothing that {binary.path.name} loads at startup calls {name}"
        uncounted.append(f"{nothing}; only libraries that it opens later may call the function")
    for other in sorted(pattern.format(name) for pattern in _ALSO_KNOWN_AS.split()):
        using = [caller.path.name for caller in loaded if other in caller.imported and caller is not owner]
        if using and owner.exports(other):
            uncounted.append(f"{', '.join(using)} also calls it by another name, {other}: add a metric for {other}")
    if name in _BUILTINS.split():
        computed = f"compilers treat {name} as built-in: calls that they evaluate or replace with another function"
        uncounted.append(f"{computed} are not counted")
    if not binary.imported.isdisjoint(("dlopen", "dlmopen")):
        by_address = "calls through an address from dlsym"
        uncounted.append(f"{by_address}, and calls from libraries opened with RTLD_DEEPBIND, bypass the counter")
    return uncounted
