"""What can be read off an object file before it is linked: whether the order of the link may be changed for it."""

# pathlib would cost every link step 5 ms.
# ruff: noqa: PTH123

from __future__ import annotations

import re
import struct
from typing import NamedTuple

__all__ = ["is_object", "why_order_matters"]

_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_RELOCATABLE = 1
_SYMTAB = 2
_ALLOCATED = 2
_EXTENDED = 0xFFFF

_CONSTRUCTOR = b"__unperturbed_construct"
"""The constructor that `rewrite` adds: it only registers a table, in whatever order."""

_ORDERED = re.compile(r"\.(?:init_array|fini_array|preinit_array|ctors|dtors|init|fini)(?:\.|$)")
_TABLE = re.compile(r"[A-Za-z_]\w*")
_NO_TABLES = ("unperturbed_", "__llvm_", "__sancov_", "__patchable_function_entries", "__mcount_loc", "asan_globals")
"""Beginnings of names of sections that the linker collects and whose order means nothing."""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    entry_size: int


class _Form(NamedTuple):
    """How numbers stand in an ELF file: byte order, and whether addresses have 64 bits."""

    order: str
    wide: bool


def is_object(path: str) -> bool:
    """Tell whether a file is one translation unit's code: a relocatable ELF file, or LLVM's bitcode."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    if head.startswith(_BITCODE):
        return True
    return len(head) == 20 and head.startswith(b"\x7fELF") and _number(head, 16, _form(head)) == _RELOCATABLE


def why_order_matters(path: str) -> str:
    """Say why a program could be another one if this object stood elsewhere in its link; empty when it could not.

    Parameters
    ----------
    path : of a file that `is_object` accepts.

    Notes
    -----
    Initialisers and finalisers of several translation units run in the order of the link, and tables that the linker collects
    (sections named like C identifiers) have their entries in that order. Of link-time-optimised objects neither can be seen, and their order
    also decides what is inlined.
    """
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(_BITCODE):
        return "it is link-time-optimised"
    form = _form(content)
    try:
        sections = _sections(content, form)
        registering = _registering(content, form, sections)
    except (struct.error, IndexError, ValueError, OverflowError):
        return "it cannot be read"
    if any(section.name.startswith((".gnu.lto_", ".llvm.lto")) for section in sections):
        return "it is link-time-optimised"
    own = {".init_array": registering * (8 if form.wide else 4)}
    for section in sections:
        if _ORDERED.match(section.name) and section.size > own.get(section.name, 0):
            return f"it has initialisers or finalisers ({section.name})"
        if section.flags & _ALLOCATED and _TABLE.fullmatch(section.name) and not section.name.startswith(_NO_TABLES):
            return f"it has entries of a table that the linker collects ({section.name})"
    return ""


def _form(head: bytes) -> _Form:
    return _Form(">" if head[5] == 2 else "<", head[4] == 2)


def _number(content: bytes, offset: int, form: _Form, kind: str = "H") -> int:
    found: int = struct.unpack_from(form.order + kind, content, offset)[0]
    return found


def _sections(content: bytes, form: _Form) -> list[_Section]:
    start = _number(content, 40 if form.wide else 32, form, "Q" if form.wide else "I")
    width, count, names = struct.unpack_from(f"{form.order}HHH", content, 58 if form.wide else 46)
    layout = f"{form.order}IIQQQQIIQQ" if form.wide else f"{form.order}IIIIIIIIII"
    if start == 0:
        return []
    first = struct.unpack_from(layout, content, start)
    count, names = count or first[5], first[6] if names == _EXTENDED else names
    headers = [struct.unpack_from(layout, content, start + number * width) for number in range(count)]
    begin = headers[names][4]
    return [
        _Section(_text(content, begin + name), kind, flags, offset, size, link, entry_size)
        for name, kind, flags, _, offset, size, link, _, _, entry_size in headers
    ]


def _registering(content: bytes, form: _Form, sections: list[_Section]) -> int:
    """Return how many of the constructors are ours: several where objects were linked into one (-r)."""
    count = 0
    for table in sections:
        if table.kind != _SYMTAB or table.entry_size == 0:
            continue
        begin = sections[table.link].offset
        if content.find(_CONSTRUCTOR, begin, begin + sections[table.link].size) < 0:
            continue
        for offset in range(table.offset, table.offset + table.size, table.entry_size):
            name = begin + _number(content, offset, form, "I")
            # C++ mangles it: _ZL23__unperturbed_constructv.
            count += _CONSTRUCTOR in content[name : content.index(b"\0", name)]
    return count


def _text(content: bytes, offset: int) -> str:
    return content[offset : content.index(b"\0", offset)].decode("utf-8", "surrogateescape")
