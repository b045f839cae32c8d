"""Random layouts of a program: objects linked in a different order, sections shifted by padding.

One binary is one sample of code layout, and the link order alone can change results ("Producing wrong data without
doing anything obviously wrong", ASPLOS 2009, section 4). A text (seed, configuration and number) seeds the random
generator that draws a layout:

- Adjacent objects on the link line are shuffled, unless their order could change the program's behaviour
  (`why_order_matters`).
- Padding before all objects adds a random number of alignment units, up to a page, to each kind of section. Smaller
  padding before up to eight other objects also shifts functions relative to each other where the order is kept.

The same text gives the same layout. No instruction of the program changes, and no added instruction ever runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from unperturbed.errors import HostError
from unperturbed.instrument.command_line import (
    LANGUAGES,
    UNCOUNTED,
    Argument,
    CompilerCommand,
    expanded,
    joined_value,
    machine_flags,
    response_text,
    split_arguments,
)
from unperturbed.instrument.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path


# pathlib would cost every link step 5 ms.
# ruff: noqa: PTH100, PTH103, PTH109, PTH113, PTH118, PTH119, PTH122, PTH123


_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_RELOCATABLE = 1
_SYMTAB = 2
_ALLOCATED = 2
_EXTENDED = 0xFFFF

_CONSTRUCTOR = b"__unperturbed_construct"
"""Constructor that `rewrite` adds. It only registers a table, so its order does not matter."""

_ORDERED = re.compile(r"\.(?:init_array|fini_array|preinit_array|ctors|dtors|init|fini)(?:\.|$)")
_TABLE = re.compile(r"[A-Za-z_]\w*")
_NO_TABLES = ("unperturbed_", "__llvm_", "__sancov_", "__patchable_function_entries", "__mcount_loc", "asan_globals")
"""Name prefixes of sections that the linker collects and whose order does not matter."""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    entry_size: int


def is_object(path: str) -> bool:
    """Return whether a file is an object file: relocatable ELF or LLVM bitcode."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    is_elf = len(head) == 20 and head.startswith(b"\x7fELF")
    kind = struct.unpack_from(f"{_order(head)}H", head, 16)[0] if is_elf else 0
    return head.startswith(_BITCODE) or kind == _RELOCATABLE


def why_order_matters(path: str) -> str:
    """Return why an object's position in its link may change the program's behaviour; '' if it cannot.

    Initialisers and finalisers run in link order, and tables that the linker collects (sections named like C
    identifiers) have their entries in link order. Link-time-optimised objects show neither.
    """
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(_BITCODE):
        return "compiled with link-time optimisation"
    try:
        sections = _sections(content)
        constructors = _own_constructors(content, sections)
    except (struct.error, IndexError, ValueError, OverflowError):
        return "not a readable ELF file"
    if any(section.name.startswith((".gnu.lto_", ".llvm.lto")) for section in sections):
        return "compiled with link-time optimisation"
    own = {".init_array": constructors * (8 if _is_wide(content) else 4)}
    for section in sections:
        if _ORDERED.match(section.name) and section.size > own.get(section.name, 0):
            return f"contains initialisers or finalisers ({section.name})"
        if section.flags & _ALLOCATED and _TABLE.fullmatch(section.name) and not section.name.startswith(_NO_TABLES):
            return f"contains entries of a table that the linker collects ({section.name})"
    return ""


def _order(head: bytes) -> str:
    return ">" if head[5] == 2 else "<"


def _is_wide(head: bytes) -> bool:
    return head[4] == 2


def _sections(content: bytes) -> list[_Section]:
    """Return the sections of an ELF file, without pyelftools, which would cost every link 20 ms."""
    order, wide = _order(content), _is_wide(content)
    (start,) = struct.unpack_from(f"{order}Q" if wide else f"{order}I", content, 40 if wide else 32)
    if start == 0:
        return []
    width, count, names = struct.unpack_from(f"{order}HHH", content, 58 if wide else 46)
    # Elf_Shdr: name, type, flags, address, offset, size, link, info, alignment, entry size.
    layout = struct.Struct(f"{order}IIQQQQIIQQ" if wide else f"{order}10I")
    first = layout.unpack_from(content, start)
    count, names = count or first[5], first[6] if names == _EXTENDED else names
    headers = [layout.unpack_from(content, start + number * width) for number in range(count)]
    begin = headers[names][4]
    return [
        _Section(_name(content, begin + at).decode("utf-8", "surrogateescape"), kind, flags, offset, size, link, entry)
        for at, kind, flags, _, offset, size, link, _, _, entry in headers
    ]


def _own_constructors(content: bytes, sections: list[_Section]) -> int:
    """Count the constructors that `rewrite` added: several if objects were linked into one (-r)."""
    count = 0
    for table in sections:
        if table.kind != _SYMTAB or table.entry_size == 0:
            continue
        begin = sections[table.link].offset
        if content.find(_CONSTRUCTOR, begin, begin + sections[table.link].size) < 0:
            continue
        for offset in range(table.offset, table.offset + table.size, table.entry_size):
            (name,) = struct.unpack_from(f"{_order(content)}I", content, offset)
            count += _CONSTRUCTOR in _name(content, begin + name)  # C++ mangles it: _ZL23__unperturbed_constructv
    return count


def _name(content: bytes, offset: int) -> bytes:
    return content[offset : content.index(b"\0", offset)]


_UNIT = 16  # bytes; padding in whole units keeps every alignment that the compiler chose
_FRONT_UNITS = 256
_GAP_UNITS = 16
_GAPS = 8
"""Limits of padding: units before all objects (a page), units before another object, and the number of such objects.
More padding would spread a large program over many more pages."""

_SECTIONS = {
    "u": '.section .text.unlikely,"ax",%progbits',
    "t": ".text",
    "r": '.section .rodata,"a",%progbits',
    "d": ".data",
    "b": ".bss",
}
"""Padded sections. Linkers place unlikely code first, then `main` (.text.startup), then all other code."""


class _Operand(NamedTuple):
    """Object or source on a link line."""

    place: int  # Index among the arguments
    forced: str  # Language that `-x` sets here; '' if none
    group: int | None  # Operands of one group may be reordered


class LinkLayout(NamedTuple):
    """Random layout of one link."""

    seed: str  # Text that seeds the random generator
    pads: tuple[str, ...]  # Padding objects: the first goes before everything, the others before operands
    folder: str  # Folder of the padding; `remove` deletes it

    def arranged(self, arguments: Sequence[str]) -> list[str]:
        """Return a link's arguments in this layout."""
        words = expanded(tuple(arguments))
        parsed = split_arguments(words)
        operands = _operands(parsed)
        texts = {operand.place: list(parsed[operand.place].words) for operand in operands}
        if not _why_order_stays(parsed, operands):
            chance = random.Random(f"{self.seed}:order")
            for group in dict.fromkeys(operand.group for operand in operands):
                places = [operand.place for operand in operands if operand.group == group and group is not None]
                drawn = chance.sample(places, len(places))
                texts |= {place: list(parsed[other].words) for place, other in zip(places, drawn, strict=True)}
        for operand, pad in zip(_chosen_gaps(self.seed, operands), self.pads[1:], strict=False):
            between = ["-x", "none", pad, "-x", operand.forced] if operand.forced else [pad]
            texts[operand.place][:0] = between
        # -u keeps the padding if the linker removes unreferenced sections (--gc-sections).
        symbols = (_symbol(number, letter) for number in range(len(self.pads)) for letter in _SECTIONS)
        arranged = [f"-Wl,{','.join(f'-u,{symbol}' for symbol in symbols)}", self.pads[0]]
        for place, argument in enumerate(parsed):
            arranged += texts.get(place, argument.words)
        return arranged if words == tuple(arguments) else [self._response_file(arranged)]

    def remove(self) -> None:
        """Delete the padding objects, after the link."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _response_file(self, words: Sequence[str]) -> str:
        """Write the words, which may be too long for a command line, to a response file; return `@file`."""
        path = os.path.join(self.folder, "arguments")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(response_text(words))
        return f"@{path}"


def draw_layout(command: CompilerCommand, text: str, folder: str) -> LinkLayout:
    """Draw a link's layout, with a text as the random seed, and compile its padding."""
    # Without the folder: a sham build has a different folder, but must have the layout of the build that counts.
    seed = f"{text}:{os.path.basename(command.output)}"
    folder = os.path.join(folder, f"{os.getpid()}-{os.urandom(4).hex()}-layout")
    os.makedirs(folder)
    gaps = _chosen_gaps(seed, _operands(split_arguments(command.arguments)))
    chance = random.Random(f"{seed}:padding")
    sources = []
    for number in range(1 + len(gaps)):
        sources.append(f"pad{number}.c")
        with open(os.path.join(folder, sources[-1]), "w", encoding="ascii") as file:
            file.write(_padding(number, chance, _GAP_UNITS if number else _FRONT_UNITS))
    words = [command.compiler[-1], *machine_flags(command), "-fno-lto", "-g0", "-w", "-x", "c", "-c", *sources]
    try:
        result = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        advice = "is it installed and on PATH?"
        raise HostError(f"cannot run the compiler {words[0]} ({error.strerror}); {advice}") from None
    if result.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise HostError(f"{words[0]} cannot compile the padding for a random layout: {result.stderr.strip()}")
    return LinkLayout(seed, tuple(os.path.join(folder, f"pad{number}.o") for number in range(len(sources))), folder)


def why_order_stays(arguments: Sequence[str]) -> str:
    """Return why a layout keeps the order of a link's operands; '' if it shuffles them."""
    parsed = split_arguments(expanded(tuple(arguments)))
    operands = _operands(parsed)
    groups = [operand.group for operand in operands if operand.group is not None]
    if len(groups) == len(set(groups)):
        return "the link has no adjacent objects to shuffle"
    return _why_order_stays(parsed, operands)


def _why_order_stays(parsed: Sequence[Argument], operands: Sequence[_Operand]) -> str:
    for operand in operands:
        path = parsed[operand.place].name
        if operand.group is not None and (reason := why_order_matters(path)):
            return f"{path}: {reason}"
    return ""


def _operands(parsed: Sequence[Argument]) -> list[_Operand]:
    """Return the objects and sources of a link; objects between two libraries or linker options form a group."""
    operands: list[_Operand] = []
    forced, group = "", 0
    for place, argument in enumerate(parsed):
        name = argument.name
        if not argument.is_input:
            if name.startswith("-x"):
                value = joined_value(argument, "-x")
                forced = "" if value == "none" else value
            if name.startswith(("-l", "-Wl,", "-Xlinker", "-x")):
                group += 1
        elif not forced and is_object(name):
            operands.append(_Operand(place, "", group))
        else:
            group += 1
            if forced or os.path.splitext(name)[1] in {*LANGUAGES, *UNCOUNTED}:
                operands.append(_Operand(place, forced, None))
    return operands


def _chosen_gaps(seed: str, operands: Sequence[_Operand]) -> list[_Operand]:
    """Return the operands before which padding is inserted."""
    behind_first = range(1, len(operands))
    chosen = random.Random(f"{seed}:gaps").sample(behind_first, min(_GAPS, len(behind_first)))
    return [operands[number] for number in sorted(chosen)]


def _padding(number: int, chance: random.Random, units: int) -> str:
    """Return the C source of a padding object."""
    lines = []
    for letter, section in _SECTIONS.items():
        symbol = _symbol(number, letter)
        lines += [section, f".balign {_UNIT}", f".globl {symbol}", f".hidden {symbol}", f"{symbol}:"]
        lines.append(f".skip {_UNIT * chance.randrange(units)}")
    escaped = (line.replace('"', '\\"') for line in lines)
    return "".join(f'__asm__("{line}\\n");\n' for line in escaped)


def _symbol(number: int, letter: str) -> str:
    return f"unperturbed_pad_{number}{letter}"


_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SOURCE_DATE_EPOCH"),
    *("LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"),
)
"""Environment variables that compilers and linkers read. A repeated link gets only these: make's job server, for
example, no longer exists."""


class Link(NamedTuple):
    """Recorded link of a build."""

    words: tuple[str, ...]  # Compiler and arguments; response files are expanded, as build systems delete them
    folder: str  # Working folder of the command
    environment: dict[str, str]  # Variables that the link may depend on
    output: str  # Absolute path of the output
    digest: str  # Digest of the output's content
    order: str  # Why a layout keeps the order of the objects; '' if it shuffles them


def note_link(folder: str, command: CompilerCommand) -> None:
    """Record a successful link, unless its output no longer exists."""
    output = os.path.abspath(command.output or "a.out")
    if not os.path.isfile(output):
        return
    link = Link(
        (*command.compiler, *command.arguments),
        os.getcwd(),
        {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        output,
        file_digest(output),
        why_order_stays(command.arguments),
    )
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    write_whole(os.path.join(folder, name), json.dumps(link._asdict()).encode())


def read_links(folder: Path) -> list[Link]:
    """Return the recorded links in order; if several wrote the same file, only the last of them."""
    by_output: dict[str, Link] = {}
    for path in sorted((folder / "links").glob("*.json")):
        described = json.loads(path.read_bytes())
        link = Link(**{**described, "words": tuple(described["words"])})
        by_output.pop(link.output, None)
        by_output[link.output] = link
    return list(by_output.values())


def file_digest(path: str | Path) -> str:
    """Return a digest of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
