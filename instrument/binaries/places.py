"""Places of a patchable build: which bytes of a program count an event, and which leave it uncounted.

A patchable build has a no-op at every site, as long as the instructions that would count there. For each copy of a site
that the compiler made, `finding.rewrite` puts an entry into the section `unperturbed_places`: where the copy is, which
metric it counts, and the instructions that count, assembled with the operands that the compiler chose. `patch` writes
these instructions over the no-ops of some metrics in a program's file, and no-ops over those of all others. Nothing
else in the file changes, so all configurations of one build have the same addresses.

With doses (`finding.doses`), a place holds several increments, and the entry lists the length of each.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from unperturbed.common.wording import counted
from unperturbed.errors import RunError

SECTION = "unperturbed_places"
"""Section of the entries; it is part of the running program, so that stripping keeps it."""

_ENTRY = struct.Struct("<iIHH")
"""Entry: distance from itself to the place, number of the metric, version, length of the instructions that follow."""
_VERSION, _WITH_DOSES = 1, 2
"""With doses, the number of doses and the length of each follow the entry, a byte each, before the instructions."""
_ALIGNMENT = 4

_LONGEST_X86, _LONGEST_NO_OP = 15, 8
_NO_OPS = {
    2: b"\x66\x90",
    3: b"\x0f\x1f\x00",
    4: b"\x0f\x1f\x40\x00",
    5: b"\x0f\x1f\x44\x00\x00",
    6: b"\x66\x0f\x1f\x44\x00\x00",
    7: b"\x0f\x1f\x80\x00\x00\x00\x00",
    8: b"\x0f\x1f\x84\x00\x00\x00\x00\x00",
}
"""No-ops of x86-64 by length, as `finding.rewrite` writes them."""
_ARM_NO_OP = b"\x1f\x20\x03\xd5"

_PREFIXES = (0xF0, 0x64, 0x66, 0x67)
"""`lock`, the segment of a thread's own variables, and sizes."""
_REX = range(0x40, 0x50)
_COUNTING = (0xFF, 0x01, 0x81, 0x83, 0x8D)
"""Opcodes of `inc` and `add` on memory, and of `call` by a pointer and `lea` at the edges of regions."""


class Place(NamedTuple):
    """Place in a program's file at which a metric is counted or not."""

    metric: int  # Number of the metric in the build's settings
    address: int  # Address in the file's memory image
    offset: int  # Offset in the file
    counting: bytes  # Instructions that count, of all doses
    idle: bytes  # No-ops of the same lengths
    lengths: tuple[int, ...]  # Length of the instructions of each dose

    def at_dose(self, dose: int) -> bytes:
        """Return the place's code with this number of increments, and no-ops for the others."""
        end = sum(self.lengths[:dose])
        return self.counting[:end] + self.idle[end:]

    @property
    def addresses(self) -> tuple[int, ...]:
        """Return the address of each increment."""
        return tuple(self.address + sum(self.lengths[:dose]) for dose in range(len(self.lengths)))

    @property
    def states(self) -> tuple[bytes, ...]:
        """Return the code that the place can hold, by the number of increments."""
        return tuple(self.at_dose(dose) for dose in range(len(self.lengths) + 1))


def read_places(path: Path) -> tuple[Place, ...]:
    """Return the places of a linked program or library; none if it has no site.

    Raises
    ------
    RunError
        The file is not readable ELF, or an entry does not fit the code: its place holds other instructions.
    """
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
            section = elf.get_section_by_name(SECTION)
            if section is None or elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
                return ()
            entries, address, machine = section.data(), section["sh_addr"], elf["e_machine"]
            segments = [
                (segment["p_vaddr"], segment["p_filesz"], segment["p_offset"])
                for segment in elf.iter_segments("PT_LOAD")
            ]
        except (ELFError, struct.error, ValueError) as error:
            raise RunError(f"{path}: cannot read the file's sections ({error})") from None
        if machine not in ("EM_X86_64", "EM_AARCH64"):
            raise RunError(f"{path}: cannot patch programs for this machine ({machine})")
        places = []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = 0
            while at + _ENTRY.size <= len(entries):
                distance, metric, version, length = _ENTRY.unpack_from(entries, at)
                start = at + _ENTRY.size
                lengths: tuple[int, ...] = (length,)
                if version == _WITH_DOSES:
                    doses = int.from_bytes(entries[start : start + 1], "little")
                    lengths = tuple(entries[start + 1 : start + 1 + doses])
                    start += 1 + doses
                code = entries[start : start + length]
                is_whole = version in (_VERSION, _WITH_DOSES) and len(code) == length == sum(lengths)
                if not is_whole or not all(_is_length(each, machine) for each in lengths):
                    raise RunError(f"{path}: entry at offset {at} of section {SECTION} is damaged")
                distance_moved = address + start - (address + at + distance)
                if machine == "EM_X86_64":
                    code = b"".join(_moved(path, part, distance_moved) for part in _split(code, lengths))
                offset = _file_offset(path, segments, address + at + distance)
                idle = b"".join(_no_op(each, machine) for each in lengths)
                place = Place(metric, address + at + distance, offset, code, idle, lengths)
                if content[offset : offset + length] not in place.states:
                    raise RunError(f"{path}: the code at {place.address:#x} is neither the no-op nor the counting code")
                places.append(place)
                at = start + length
                at += -at % _ALIGNMENT
    return tuple(places)


def patch(path: Path, places: Sequence[Place], metrics: Collection[int], *, dose: int = 1) -> None:
    """Make a file count the given metrics and no others.

    `places`: As `read_places` returned them for this file.
    `dose`: Number of increments at each place of these metrics; the count is that of one increment.
    """
    wanted = set(metrics)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for place in places:
            if dose > len(place.lengths):
                most = counted(len(place.lengths), "increment")
                raise RunError(f"{path}: a place in this file holds at most {most}, not {dose}")
            new, end = place.at_dose(dose if place.metric in wanted else 0), place.offset + len(place.idle)
            old = content[place.offset : end]
            if old == new:
                continue
            if old not in place.states:
                raise RunError(f"{path}: the code at offset {place.offset:#x} has changed since the file was built")
            content[place.offset : end] = new


def _split(code: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    """Yield the instructions of each dose."""
    start = 0
    for length in lengths:
        yield code[start : start + length]
        start += length


def _file_offset(path: Path, segments: Sequence[tuple[int, int, int]], address: int) -> int:
    for start, size, offset in segments:
        if start <= address < start + size:
            return offset + address - start
    raise RunError(f"{path}: address {address:#x} of section {SECTION} is in no segment of the file")


def _is_length(length: int, machine: str) -> bool:
    """Return whether counting instructions and their no-op can have a length."""
    return length % len(_ARM_NO_OP) == 0 < length if machine == "EM_AARCH64" else min(_NO_OPS) <= length <= _LONGEST_X86


def _no_op(length: int, machine: str) -> bytes:
    if machine == "EM_AARCH64":
        return _ARM_NO_OP * (length // len(_ARM_NO_OP))
    longest = min(length, _LONGEST_NO_OP)
    return b"\x66" * (length - longest) + _NO_OPS[longest]


def _moved(path: Path, code: bytes, distance: int) -> bytes:
    """Return an x86-64 instruction, assembled `distance` bytes after its place, as it must be at its place.

    Only an operand relative to the instruction pointer depends on the address (ModRM with mod 0 and r/m 5).
    """
    at = next((place for place, byte in enumerate(code) if byte not in _PREFIXES), 0)
    at += code[at] in _REX
    relative_end = at + 6  # opcode, ModRM, displacement
    if code[at] not in _COUNTING or at + 1 >= len(code) or (code[at + 1] & 0xC7 == 5 and relative_end > len(code)):
        raise RunError(
            f"{path}: section {SECTION} contains an instruction that unperturbed does not recognise: {code.hex(' ')}"
        )
    if code[at + 1] & 0xC7 != 5:
        return code
    (displacement,) = struct.unpack_from("<i", code, at + 2)
    return code[: at + 2] + struct.pack("<i", displacement + distance) + code[relative_end:]
