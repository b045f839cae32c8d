"""Functions, static probes and needed libraries of an ELF binary, from its own symbols or those of a debug file.

The names of C++ functions are demangled.
"""

from __future__ import annotations

import ctypes
import io
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from unperturbed.common.wording import nearest
from unperturbed.errors import SpecError
from unperturbed.instrument.events.targets import is_glob, without_parameters

_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")
_CLONE = re.compile(r"(?:\.(?:constprop|isra|lto_priv|localalias|llvm|__uniq)(?:\.\d+)*)+$")
_DELETING = re.compile(r"D0Ev$")
_UNWRITTEN = re.compile(r"\(anonymous namespace\)::|\b__cxx11::|\b__1::|::h[0-9a-f]{16}$")
_QUALIFIERS = re.compile(r"\s*(?:const|volatile|&&?|noexcept)$")
_CLOSING = {")": "(", ">": "<"}


@cache
def _runtime() -> ctypes.CDLL | None:
    """Return this host's C++ runtime library, which includes the compilers' demangler; None if there is none."""
    for name in _RUNTIMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.__cxa_demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        library.free.argtypes = (ctypes.c_void_p,)
        return library
    return None


def demangle(symbol: str) -> str:
    """Return a C++ function's name with its parameters; the symbol itself if it cannot be demangled.

    A clone that the compiler made of a function (`.constprop.0`, `.isra.0`, …) has that function's name.
    """
    base = _CLONE.sub("", symbol)
    runtime = _runtime() if base.startswith("_Z") and "." not in base else None
    text = runtime.__cxa_demangle(base.encode(errors="surrogateescape"), None, None, None) if runtime else None
    if not runtime or not text:
        return base
    try:
        return ctypes.string_at(text).decode(errors="surrogateescape")
    finally:
        runtime.free(text)


def spellings(symbol: str) -> tuple[str, ...]:
    """Return the names by which a target may refer to a symbol, the shortest first.

    The names are the symbol and, for C++ (and Rust, without the hash at the end), the qualified name with and without
    template arguments, each with and without parameters. A part that the compiler moved out of a function (`.part.0`,
    `.cold`) is not an entry of the function and keeps its own name. So does a deleting destructor, because it calls the
    complete destructor.
    """
    full = demangle(symbol)
    if _DELETING.search(_CLONE.sub("", symbol)):
        return (symbol,)
    if full.startswith("_Z") or not symbol.startswith("_Z"):
        return tuple(dict.fromkeys((full, symbol)))
    name, parameters = _split_parameters(full)
    name = _without_return_type(name)
    short = _without_template_arguments(name)
    names = [text for name in (short, name) for text in (_UNWRITTEN.sub("", name), name)]
    return tuple(dict.fromkeys([*names, *(f"{name}{parameters}" for name in names), full, symbol]))


def _split_parameters(full: str) -> tuple[str, str]:
    """Split `ns::f(int) const` before its parameters; a name without parameters (a guard variable) stays whole."""
    end = len(full)
    while qualifier := _QUALIFIERS.search(full[:end]):
        end = qualifier.start()
    if not full[:end].endswith(")"):
        return full, ""
    depth = 0
    for position in range(end - 1, -1, -1):
        depth += (full[position] == ")") - (full[position] == "(")
        if depth == 0:
            return full[:position], full[position:]
    return full, ""


def _without_return_type(name: str) -> str:
    """Remove the return type that precedes the name of a template instance."""
    depth = 0
    head = name[: operator.start()] if (operator := re.search(r"\boperator\b", name)) else name
    for position in range(len(head) - 1, -1, -1):
        depth += (head[position] in _CLOSING) - (head[position] in _CLOSING.values())
        if head[position] == " " and depth == 0:
            return name[position + 1 :]
    return name


def _without_template_arguments(name: str) -> str:
    operator = re.search(r"\boperator\s*(?:<=>|<<=?|>>=?|<=|>=|->\*?|<|>)", name)
    if operator:
        return f"{_without_template_arguments(name[: operator.start()])}{operator[0]}"
    kept, depth = [], 0
    for sign in name:
        depth += sign == "<"
        if depth == 0:
            kept.append(sign)
        depth -= sign == ">"
    return "".join(kept)


DEBUG_FOLDER = Path("/usr/lib/debug")
"""Folder in which distributions install stripped symbols."""

_FUNCTION, _INDIRECT = 2, 10
_EXPORTED_BINDINGS = (1, 2, 10)
_HIDDEN = (1, 2)
_EXECUTABLE = 1
_PROBE_NOTE = 3
_DAMAGE = (
    *(struct.error, lzma.LZMAError, ValueError, LookupError, AttributeError, TypeError),
    *(ArithmeticError, AssertionError, RecursionError, MemoryError),
)
"""Errors that can occur when reading a file with impossible sizes and offsets."""


@dataclass(frozen=True)
class BinaryFunction:
    """Function that a binary defines, under one of its names."""

    name: str  # Symbol, mangled if C++
    offset: int  # Offset of its first instruction in the file
    size: int  # Size in bytes; 0 if the symbol has none
    exported: bool  # Whether other binaries can call it by this name
    # Whether this is an IFUNC, without code of its own: at load time, the binary chooses one of several functions for
    # this name. `offset` is that of the resolver.
    indirect: bool


@dataclass(frozen=True)
class StaticProbe:
    """Location of a static probe (USDT): a nop that the program's author inserted, described by an ELF note."""

    provider: str
    name: str
    offset: int  # Offset of the instruction in the file
    # Offset in the file of a counter that the program tests before it prepares the probe's arguments; 0 for none.
    semaphore: int


@dataclass(frozen=True)
class Binary:
    """An executable or a shared library."""

    path: Path
    # Every name of every function that it defines, by offset; exported names before others.
    functions: tuple[BinaryFunction, ...]
    imported: frozenset[str]  # Names that it imports from other binaries
    static_probes: tuple[StaticProbe, ...]  # In the order of the file
    needed: tuple[str, ...]  # Names of the libraries that it needs directly (DT_NEEDED)
    interpreter: str  # The dynamic linker that starts it; '' for a library or a static program
    machine: str  # Processor architecture, such as `EM_X86_64`
    # Whether the binary or a debug file has a full symbol table; otherwise only exported functions are known.
    has_symbols: bool

    def exports(self, name: str) -> bool:
        """Return whether other binaries can call a function of this binary by the given name."""
        return any(function.exported for function in self.functions if function.name == name)

    def code(self, offset: int, length: int = 16) -> bytes:
        """Return the bytes at an offset of the file."""
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def find_functions(self, target: str) -> tuple[BinaryFunction, ...]:
        """Return the functions of a binary that a target names, one for each offset in the file.

        `target`: One of `spellings`, or an fnmatch glob.

        A constructor has one function for complete objects and one for base objects. Compilers merge them if they can,
        but in unoptimised code of clang the first calls the second: then name one of them by its symbol.
        """
        named = [function for function in self.functions if function.name == target]
        if not named or not self.exports(target):
            # The compiler may keep clones of a function that is not exported, instead of the function or besides it.
            plain = _without_spaces(target)
            pattern = re.compile(translate(plain) if is_glob(target) else f"{re.escape(plain)}\\Z")
            own = without_parameters if is_glob(target) and "(" not in target else str
            known = ((each, map(own, map(_without_spaces, spellings(each.name)))) for each in self.functions)
            named = [function for function, names in known if any(map(pattern.match, names))]
        choosers = {function.offset for function in self.functions if function.indirect}
        by_offset = {function.offset: function for function in reversed(named) if function.offset not in choosers}
        # An IFUNC may have a plain twin for programs linked long ago, which would count nothing.
        is_chosen = any(function.indirect for function in named) and not is_glob(target)
        if by_offset and not is_chosen:
            return tuple(by_offset[offset] for offset in sorted(by_offset))
        if named and is_glob(target):
            raise SpecError(
                f"{self.path}: `{target}` matches only IFUNCs, which have no code of their own: at load time, the "
                "dynamic linker replaces each by one of several implementations; name the implementations that are used"
            )
        if named:
            raise SpecError(
                f"{self.path}: `{target}` is an IFUNC, which has no code of its own: at load time, the dynamic linker "
                f"replaces it by one of several implementations; use `{{preload: {target}}}`, or name the "
                "implementation that is used"
            )
        raise SpecError(_missing_function(self, target))

    def find_static_probes(self, provider: str, name: str) -> tuple[StaticProbe, ...]:
        """Return all locations of static probes with this provider and name, which may be fnmatch globs."""
        pattern = re.compile(translate(f"{provider}:{name}"))
        probes = tuple(probe for probe in self.static_probes if pattern.match(f"{probe.provider}:{probe.name}"))
        if probes:
            return probes
        message = f"{self.path}: no static probe {provider}:{name}"
        if not self.static_probes:
            none_at_all = "the binary has no static probes (`readelf --notes` would list them)"
            raise SpecError(f"{message}; {none_at_all}: build it with its static probes (USDT) enabled")
        known = sorted({f"{probe.provider}:{probe.name}" for probe in self.static_probes})
        raise SpecError(f"{message}{nearest_names(f'{provider}:{name}', known)}")


def read_binary(path: Path) -> Binary:
    """Read an executable or shared library and its debug file, found by build-id or .gnu_debuglink."""
    try:
        state = path.stat()
    except OSError as error:
        raise SpecError(f"{path}: cannot read the binary ({error.strerror})") from None
    return _read_version(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _read_version(path: Path, modified_ns: int, size: int) -> Binary:
    from elftools.common.exceptions import ELFError  # noqa: PLC0415  about 20 ms, only for probing or preloading
    from elftools.construct import ConstructError  # noqa: PLC0415

    del modified_ns, size  # a rebuilt file is read again
    try:
        with path.open("rb") as file:
            begin = file.read(256)
            if begin.startswith(b"#!"):
                interpreter = begin[2:].split(b"\n", maxsplit=1)[0].strip().decode(errors="replace")
                work = "give the path of the binary that does the work"
                raise SpecError(f"{path}: this is a script for {interpreter}, not a binary; {work}")
            if not begin.startswith(b"\x7fELF"):
                raise SpecError(f"{path}: this is not an ELF binary; name an executable or a shared library")
            return _described(path, file)
    except OSError as error:  # also for impossible offsets
        raise SpecError(f"{path}: cannot read the binary ({error.strerror})") from None
    except (*_DAMAGE, ELFError, ConstructError) as error:
        raise SpecError(f"{path}: this ELF file is damaged ({type(error).__name__}: {error})") from None


def is_static(path: Path) -> bool:
    """Return whether a program is a statically linked ELF binary; False for a damaged file."""
    return _holds(path, lambda elf: not any(elf.iter_segments("PT_INTERP")))


def is_go(path: Path) -> bool:
    """Return whether Go's toolchain linked a program; False for a damaged file."""
    return _holds(path, lambda elf: elf.get_section_by_name(".go.buildinfo") is not None)


def _holds(path: Path, condition: Callable[[Any], bool]) -> bool:
    from elftools.common.exceptions import ELFError  # noqa: PLC0415
    from elftools.construct import ConstructError  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    with path.open("rb") as file:
        try:
            return file.read(4) == b"\x7fELF" and condition(ELFFile(file))
        except (*_DAMAGE, OSError, ELFError, ConstructError):
            return False


class _Load(NamedTuple):
    """Segment that is mapped into memory: address, offset and length in the file, and whether it is code."""

    address: int
    offset: int
    length: int
    is_code: bool


def _described(path: Path, file: Any) -> Binary:
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    elf: Any = ELFFile(file)
    loads = [
        _Load(load["p_vaddr"], load["p_offset"], load["p_filesz"], bool(load["p_flags"] & _EXECUTABLE))
        for load in elf.iter_segments("PT_LOAD")
    ]
    dynamic, imported = _symbols(elf, ".dynsym", loads)
    full, _ = _symbols(elf, ".symtab", loads)
    for debug in () if full else _debug_files(path, elf):
        with debug as opened:
            full, _ = _symbols(ELFFile(opened), ".symtab", loads)
        if full:
            break
    names = {(function.name, function.offset): function for function in (*full, *dynamic)}
    tags = [tag for segment in elf.iter_segments("PT_DYNAMIC") for tag in segment.iter_tags()]
    functions = sorted(names.values(), key=lambda function: (function.offset, not function.exported, function.name))
    return Binary(
        path=path,
        functions=tuple(functions),
        imported=frozenset(imported),
        static_probes=tuple(_static_probes(elf, loads)),
        needed=tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
        interpreter=next((segment.get_interp_name() for segment in elf.iter_segments("PT_INTERP")), ""),
        machine=str(elf.header.e_machine),
        has_symbols=bool(full),
    )


def _file_offset(loads: Sequence[_Load], address: int, *, code: bool) -> int | None:
    for load in loads:
        if load.address <= address < load.address + load.length and (load.is_code or not code):
            return address - load.address + load.offset
    return None


def _symbols(elf: Any, section_name: str, loads: Sequence[_Load]) -> tuple[list[BinaryFunction], set[str]]:
    """Return the functions and imported names of one symbol table, faster than pyelftools (20 us per symbol)."""
    section = elf.get_section_by_name(section_name)
    functions: list[BinaryFunction] = []
    imported: set[str] = set()
    if section is None or section["sh_type"] == "SHT_NOBITS":
        return functions, imported
    names = elf.get_section(section["sh_link"]).data()
    order = "<" if elf.little_endian else ">"
    # Elf64_Sym: name, info, other, shndx, value, size; Elf32_Sym: name, value, size, info, other, shndx.
    rows = struct.iter_unpack(f"{order}IBBHQQ" if elf.elfclass == 64 else f"{order}IIIBBH", section.data())
    is_dynamic = section_name == ".dynsym"
    thumb = elf.header.e_machine == "EM_ARM"
    for row in rows:
        name_at, info, other, index, address, size = row if elf.elfclass == 64 else (*row[:1], *row[3:], *row[1:3])
        kind, binding = info & 15, info >> 4
        if not index and is_dynamic:
            imported.add(_name(names, name_at))
        if not index or kind not in (_FUNCTION, _INDIRECT):
            continue
        offset = _file_offset(loads, address & ~1 if thumb else address, code=True)
        if offset is not None:
            exported = is_dynamic and binding in _EXPORTED_BINDINGS and other & 3 not in _HIDDEN
            functions.append(BinaryFunction(_name(names, name_at), offset, size, exported, kind == _INDIRECT))
    return functions, imported


def _name(names: bytes, begin: int) -> str:
    name = names[begin : names.index(b"\0", begin)].decode(errors="surrogateescape")
    return name.partition("@")[0] or name  # the linker writes f@@VERSION_1 into a full table


def _debug_files(path: Path, elf: Any) -> Iterator[Any]:
    """Yield open files that may have the symbols stripped from a binary: debug files, and its own .gnu_debugdata."""
    identity = elf.get_section_by_name(".note.gnu.build-id")
    for note in identity.iter_notes() if identity else ():
        number = str(note["n_desc"])
        by_number = DEBUG_FOLDER / ".build-id" / number[:2] / f"{number[2:]}.debug"
        if note["n_type"] == "NT_GNU_BUILD_ID" and by_number.is_file():
            yield by_number.open("rb")
    link = elf.get_section_by_name(".gnu_debuglink")
    if link:
        name, _, rest = link.data().partition(b"\0")
        folder = path.resolve().parent
        checksum = int.from_bytes(rest[-4:], "little" if elf.little_endian else "big")
        for candidate in (folder, folder / ".debug", DEBUG_FOLDER / folder.relative_to("/")):
            debug = candidate / name.decode(errors="surrogateescape")
            if debug.is_file() and zlib.crc32(debug.read_bytes()) == checksum:
                yield debug.open("rb")
    packed = elf.get_section_by_name(".gnu_debugdata")
    if packed:
        yield io.BytesIO(lzma.decompress(packed.data()))


def _static_probes(elf: Any, loads: Sequence[_Load]) -> Iterator[StaticProbe]:
    """Yield the probes in .note.stapsdt: a note has three addresses, provider, name, and the arguments' locations.

    https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation: if a tool moved the sections after linking, the
    note's address of .stapsdt.base differs from that section's address, by as much as all other addresses moved.
    """
    section = elf.get_section_by_name(".note.stapsdt")
    base_section = elf.get_section_by_name(".stapsdt.base")
    order, width = "<" if elf.little_endian else ">", elf.elfclass // 8
    content = section.data() if section else b""
    place = 0
    while place + 12 <= len(content):
        name_bytes, note_bytes, kind = struct.unpack_from(f"{order}III", content, place)
        begin = place + 12 + (name_bytes + 3 & ~3)
        note = content[begin : begin + note_bytes]
        place = begin + (note_bytes + 3 & ~3)
        if kind != _PROBE_NOTE:
            continue
        location, base, semaphore = struct.unpack_from(f"{order}3{'Q' if width == 8 else 'I'}", note)
        moved = base_section["sh_addr"] - base if base_section and base else 0
        provider, name = (text.decode(errors="replace") for text in note[3 * width :].split(b"\0")[:2])
        offset = _file_offset(loads, location + moved, code=True)
        counter = _file_offset(loads, semaphore + moved, code=False) if semaphore else 0
        if offset is not None and counter is not None:
            yield StaticProbe(provider, name, offset, counter)


def _missing_function(binary: Binary, target: str) -> str:
    message = f"{binary.path}: no function `{target}`"
    if target in binary.imported:
        return f"{message}; the binary imports the function from a library: name the library, as in `LIBRARY:{target}`"
    known = {name for function in binary.functions for name in spellings(function.name)[:2]} | binary.imported
    message += nearest_names(target, known)
    if binary.has_symbols:
        gone = "the compiler has inlined it into all callers, or removed it as unused"
        return f"{message}; if the source defines the function, {gone}"
    stripped = "the binary is stripped, so only exported functions are known"
    return f"{message}; {stripped}: build it with symbols, or install its debug package"


def nearest_names(target: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known names that are most similar to a target."""
    near = nearest(target, known)
    return f"; nearest names: {', '.join(near)}" if near else "; no name is similar"


def _without_spaces(name: str) -> str:
    return re.sub(r"\s+", "", name).removeprefix("::")
