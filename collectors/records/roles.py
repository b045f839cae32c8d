"""Roles of a process's threads: what each was created to run, as which of them, and by whom.

The runtime writes a line of text at a thread's beginning and one at its end (`runtime/program/each.c`). A role is the
routine that a thread was created with and its place among the threads of this routine that the same thread created:
`worker#2`, and for one that the first `reader` creates `reader#1/worker#2`. Neither thread ids nor the order in which
the kernel starts threads are part of it, so runs of one program have the same roles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from unperturbed.errors import RunError

MAIN = "main"
"""Role of the main thread."""

_FIELDS = 11
_SIMULATOR = "callgrind-"  # Valgrind's own name, which threads inherit


@dataclass(frozen=True)
class Address:
    """Function, or class of an object, at which a thread begins."""

    file: str  # Path of its executable or library; '' if unknown, as in a static program
    offset: int  # From the first byte of the file in memory
    symbol: str  # Exported symbol; '' if there is none


@dataclass(frozen=True)
class Birth:
    """Beginning and end of a thread, as the runtime notes them."""

    number: int  # Number in the record file; 0 is the main thread
    tid: int
    creator: int  # Number of the thread that created it
    order: int  # Place among all created threads, from 1
    start: Address
    object_class: Address  # Class of std::thread's object, which libstdc++ gives to its start routine
    name: str | None  # At its end; None if the process ended first


def threads_file(record: Path) -> Path:
    """Return the path of the file with the beginnings and ends of a process's threads."""
    return record.with_name(f"{record.name}.threads")


def read_births(record: Path) -> dict[int, Birth]:
    """Return the threads of the process with this record file, by number; none if it noted none."""
    file = threads_file(record)
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    births: dict[int, Birth] = {}
    names: dict[int, str] = {}
    try:
        for line in lines:
            kind, number, *rest = line.split("\t")
            if kind == "end":
                names[int(number)] = "" if rest[0].startswith(_SIMULATOR) else rest[0]
            elif len(rest) + 2 == _FIELDS:
                tid, creator, order = map(int, rest[:3])
                start, object_class = (Address(rest[at], int(rest[at + 1], 16), rest[at + 2]) for at in (3, 6))
                births[int(number)] = Birth(int(number), tid, creator, order, start, object_class, None)
    except (ValueError, IndexError):
        raise RunError(
            f"{file}: the notes on the program's threads are damaged; did the program overwrite them?"
        ) from None
    return {number: Birth(**{**vars(birth), "name": names.get(number)}) for number, birth in births.items()}


def roles(births: Mapping[int, Birth], name_of: Callable[[Address], str]) -> dict[int, str]:
    """Return the role of each thread, by number.

    `name_of`: Finds the name of a function or class; '' if it has none.
    """
    found = {0: MAIN}
    used: Counter[tuple[int, str]] = Counter()
    for birth in sorted(births.values(), key=lambda each: each.order):
        if birth.number == 0:
            continue
        routine = _routine(birth, name_of)
        used[birth.creator, routine] += 1
        creator = found.get(birth.creator, MAIN)
        within = "" if creator == MAIN else f"{creator}/"
        found[birth.number] = f"{within}{routine}#{used[birth.creator, routine]}"
    return found


def _routine(birth: Birth, name_of: Callable[[Address], str]) -> str:
    start = birth.start
    if birth.object_class.file and (name := name_of(birth.object_class)):
        return name.replace("/", "|").replace("#", "$")
    name = name_of(start) or f"{Path(start.file).name or 'program'}+{start.offset:#x}"
    return name.replace("/", "|").replace("#", "$")
