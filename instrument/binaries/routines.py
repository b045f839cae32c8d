"""Names of the routines that threads begin with: of a function at an address, or of a class by its table.

Only exported symbols are known to the running program. Most start routines are `static`, so their names are in the full
symbol table of the program's file.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from unperturbed.instrument.binaries.elf import demangle

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS = {1, 2}  # STT_OBJECT (tables of classes) and STT_FUNC
_TABLE = "vtable for "
_HEAD_BYTES = 2 * 8  # An object points behind two words of its class's table
_STD_THREAD = re.compile(r"std::thread::_State_impl<std::thread::_Invoker<std::tuple<(.*)>\s*>\s*>$")


def routine_name(file: str, offset: int, exported: str = "") -> str:
    """Return the name of what is at an offset from a file's first byte in memory; '' if it has none.

    A function has its name without parameters; a class of libstdc++ for a thread has what the thread calls.
    `exported`: The symbol, if the running program knows it.
    """
    found = _symbols_of(file)
    symbol = exported or found.get(offset, "") or found.get(offset - _HEAD_BYTES, "")
    full = demangle(symbol) if symbol else ""
    if full.startswith(_TABLE):
        whole = full.removeprefix(_TABLE)
        inner = _STD_THREAD.match(whole)
        return inner[1] if inner else whole
    return full.partition("(")[0] or full if not full.startswith("(") else full


def _symbols_of(file: str) -> Mapping[int, str]:
    path = Path(file)
    try:
        state = path.stat()
        return _read(path, state.st_mtime_ns, state.st_size) if file else {}
    except (OSError, ELFError, struct.error, ValueError, IndexError):
        return {}


@lru_cache(maxsize=16)
def _read(path: Path, _modified_ns: int, _size: int) -> Mapping[int, str]:
    """Return the symbols of functions and objects by their offsets from the file's first byte in memory."""
    with path.open("rb") as opened:
        elf: Any = ELFFile(opened)
        base = min((load["p_vaddr"] & -load["p_align"] for load in elf.iter_segments("PT_LOAD")), default=0)
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        if table is None or elf.elfclass != 64:
            return {}
        names = elf.get_section(table["sh_link"]).data()
        rows = struct.iter_unpack("<IBBHQQ" if elf.little_endian else ">IBBHQQ", table.data())
        found = {
            address - base: names[at : names.index(b"\0", at)].decode(errors="surrogateescape").partition("@")[0]
            for at, info, _, index, address, _ in rows
            if index and info & 15 in _KINDS
        }
    return MappingProxyType(found)
