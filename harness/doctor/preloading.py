"""Whether a program that is there already can be given the sampler by LD_PRELOAD, from the head of its file."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

__all__ = ["cannot_preload"]

_MAGIC = b"\x7fELF"
_INTERPRETER = 3
"""PT_INTERP of elf(5): the program names a dynamic linker."""


def cannot_preload(file: str | Path) -> str | None:
    """Return why the dynamic linker would not load the sampler into a program; None when it would, as far as its file tells.

    Parameters
    ----------
    file : the program. A script is judged by nobody here: its interpreter decides.
    """
    program = Path(file)
    state = program.stat()
    as_other_user = state.st_mode & stat.S_ISUID and state.st_uid != os.geteuid()
    as_other_group = state.st_mode & stat.S_ISGID and state.st_gid != os.getegid()
    if as_other_user or as_other_group:
        return "is set-uid or set-gid: the dynamic linker ignores LD_PRELOAD for it"
    with program.open("rb") as stream:
        head = stream.read(64)
        if head[:4] != _MAGIC or len(head) < 64:
            return None
        order = "<" if head[5] == 1 else ">"
        wide = head[4] == 2
        place, size, count = _program_headers(head, order, wide=wide)
        stream.seek(place)
        table = stream.read(size * count)
    kinds = {struct.unpack_from(f"{order}I", table, index * size)[0] for index in range(len(table) // size)} if size else set()
    return None if _INTERPRETER in kinds else "is linked statically: no dynamic linker is there to load the sampler"


def _program_headers(head: bytes, order: str, *, wide: bool) -> tuple[int, int, int]:
    """Return offset, size of an entry and number of the program headers."""
    (place,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", head, 32 if wide else 28)
    size, count = struct.unpack_from(f"{order}HH", head, 54 if wide else 42)
    return place, size, count
