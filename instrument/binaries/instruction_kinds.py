"""Kinds of a program's machine instructions, which show what a compiler did otherwise, from a disassembly."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from unperturbed.common import supervision

InstructionKind: TypeAlias = Literal["vector", "call", "branch", "memory", "other"]
"""Packed arithmetic or move, call, jump or return, access to memory, or arithmetic in registers."""

KINDS: tuple[InstructionKind, ...] = get_args(InstructionKind)

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)[ \t]*(.*)$")
_X86_PREFIXES = ("lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "addr32")
_X86_PACKED = re.compile(r"v?(p(?!refetch|op|ush|ause)\w+|mov[au]p[sd]|movdq[au]\d*|lddqu|\w+p[sd])$")
_ARM_VECTOR = re.compile(r"\bv\d+\.")
_ARM_BRANCH = re.compile(r"(b|br|ret|b\.\w+|cbn?z|tbn?z)$")


def instruction_kinds(path: Path) -> Mapping[int, InstructionKind]:
    """Return the kind of each instruction of a program or library by its address in the file; {} without objdump."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return {}
    made = supervision.run(
        [objdump, "--disassemble", "--no-show-raw-insn", "--wide", str(path)],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    is_arm = "aarch64" in made.stdout[:500]
    matches = filter(None, map(_LINE.match, made.stdout.splitlines()))
    kind_of = _arm_kind if is_arm else _x86_kind
    return {int(match[1], 16): kind_of(match[2], match[3]) for match in matches}


def _x86_kind(name: str, operands: str) -> InstructionKind:
    while name in _X86_PREFIXES and operands:
        name, _, operands = operands.partition(" ")
        operands = operands.lstrip()
    if name.startswith("call"):
        return "call"
    if name.startswith(("j", "ret")):
        return "branch"
    if re.search(r"%[xyz]mm", operands) and _X86_PACKED.match(name):
        return "vector"
    touches = "(" in operands and not name.startswith(("lea", "nop"))
    return "memory" if touches or name.startswith(("push", "pop")) else "other"


def _arm_kind(name: str, operands: str) -> InstructionKind:
    if name in ("bl", "blr"):
        return "call"
    if _ARM_BRANCH.match(name):
        return "branch"
    if _ARM_VECTOR.search(operands):
        return "vector"
    return "memory" if name.startswith(("ld", "st")) else "other"
