"""Kinds of machine instructions, read from a disassembly."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from unperturbed.instrument.binaries.instruction_kinds import _arm_kind, instruction_kinds

X86 = """\
    .text
    .globl all
all:
    addq %rax, %rbx
    leaq 8(%rdi), %rax
    nopw 0(%rax,%rax,1)
    movq (%rdi), %rax
    lock incq (%rdi)
    rep stosb
    pushq %rbx
    paddd %xmm0, %xmm1
    mulps %xmm0, %xmm1
    vaddpd %ymm0, %ymm1, %ymm2
    movups (%rdi), %xmm0
    addsd %xmm0, %xmm1
    movsd (%rdi), %xmm0
    prefetcht0 (%rdi)
    call all
    jne all
    ret
"""
WANTED = {"other": 4, "memory": 6, "vector": 4, "call": 1, "branch": 2}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")
def test_each_instruction_has_the_kind_that_shows_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "all.s").write_text(X86)
    subprocess.run(["gcc", "-c", "all.s"], cwd=tmp_path, check=True)
    assert Counter(instruction_kinds(tmp_path / "all.o").values()) == WANTED


def test_instructions_of_aarch64() -> None:
    lines = {
        ("bl", "0 <f>"): "call",
        ("b.ne", "0 <f>"): "branch",
        ("cbz", "x0, 0 <f>"): "branch",
        ("bic", "x0, x1, x2"): "other",
        ("ldr", "q0, [x0]"): "memory",
        ("fadd", "v0.2d, v1.2d, v2.2d"): "vector",
        ("fadd", "d0, d1, d2"): "other",
    }
    assert {line: _arm_kind(*line) for line in lines} == lines


def test_a_file_that_is_no_program_has_no_instruction(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a program\n")
    assert instruction_kinds(tmp_path / "text") == {}
