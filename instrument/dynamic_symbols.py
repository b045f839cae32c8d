"""What the dynamic linker knows of one symbol of a binary: its version, and whether calls within the binary pass by the linker's table."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["is_bound_within", "read_version"]

_OBJECT, _FUNCTION, _INDIRECT = 1, 2, 10
_HIDDEN_VERSION = 0x8000
_SYMBOLIC = 2
_LINKED_KINDS = {"EM_X86_64": (1, 6, 7), "EM_AARCH64": (257, 1025, 1026)}
"""Relocations that bind a place to a symbol by its name: an address in data, in the table of addresses, in the table of calls."""


class _Symbol(NamedTuple):
    place: int
    kind: int
    defined: bool
    version: str | None
    default: bool


def read_version(path: Path, name: str, *, defined: bool, functions: bool = True) -> tuple[str | None, tuple[str, ...]]:
    """Return the version of a symbol that a binary defines or asks for.

    Parameters
    ----------
    defined : what it defines, not what it asks for. functions : functions, not variables.

    Returns
    -------
    default : the version that a program linked today gets, or that the binary asks for; '' if it has none; None if there is no such symbol.
    versions : all.
    """
    kinds = (_FUNCTION, _INDIRECT) if functions else (_OBJECT,)
    found = [
        symbol
        for symbol in _symbols(path, name, path.stat().st_mtime_ns)[0]
        if symbol.defined == defined and (symbol.kind in kinds or not defined)
    ]
    default = next((symbol.version for symbol in found if symbol.default), found[0].version if found else None)
    return default, tuple(symbol.version or "" for symbol in found)


def is_bound_within(path: Path, name: str) -> bool:
    """Tell whether a library's own calls of its function are bound when it is linked, so that no other function can come between."""
    symbols, linked, symbolic = _symbols(path, name, path.stat().st_mtime_ns)
    return symbolic or not any(symbol.place in linked for symbol in symbols if symbol.defined)


@lru_cache(maxsize=256)
def _symbols(path: Path, name: str, modified_ns: int) -> tuple[tuple[_Symbol, ...], frozenset[int], bool]:
    """Return the symbols of a name, the indices of all symbols that the linker binds, and whether the library binds its own first."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  some 20 ms, for who preloads

    del modified_ns  # a file built anew is read anew
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
        found = []
        for index, row in enumerate(struct.iter_unpack(f"{order}IBBHQQ", table.data())):
            if not names.startswith(encoded, row[0]):
                continue
            number = number_of[index] if index < len(number_of) else 1
            version = versions.get(number & ~_HIDDEN_VERSION, "")
            found.append(_Symbol(index, row[1] & 15, bool(row[3]), version, not number & _HIDDEN_VERSION))
        kinds = _LINKED_KINDS.get(str(elf.header.e_machine), ())
        linked = frozenset(
            info >> 32
            for section in elf.iter_sections()
            if section["sh_type"] == "SHT_RELA"
            for _, info, _ in struct.iter_unpack(f"{order}QQq", section.data())
            if info & 0xFFFFFFFF in kinds
        )
        return tuple(found), linked, _is_symbolic(elf)


def _versions(elf: Any) -> dict[int, str]:
    """Return number → version, of those that the binary defines and those that it asks for."""
    found: dict[int, str] = {}
    defined = elf.get_section_by_name(".gnu.version_d")
    for entry, names in defined.iter_versions() if defined else ():
        found[entry["vd_ndx"]] = next(names).name
    needed = elf.get_section_by_name(".gnu.version_r")
    for _, auxiliaries in needed.iter_versions() if needed else ():
        for auxiliary in auxiliaries:
            found[auxiliary["vna_other"] & ~_HIDDEN_VERSION] = auxiliary.name
    return found


def _is_symbolic(elf: Any) -> bool:
    tags = {tag.entry.d_tag: tag.entry.d_val for segment in elf.iter_segments("PT_DYNAMIC") for tag in segment.iter_tags()}
    return "DT_SYMBOLIC" in tags or bool(tags.get("DT_FLAGS", 0) & _SYMBOLIC)
