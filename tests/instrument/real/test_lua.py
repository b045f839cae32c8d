"""Debian's Lua interpreter, whose virtual machine jumps by computed gotos.

Counts equal gcov's, a script prints what it always prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.instrument.real.choice import Choice
from tests.instrument.real.programs import Program, Run, check_debug_lines, shell

RECORDS = ("lua_State", "global_State", "CallInfo", "FuncState", "LexState", "Proto", "Token", "LoadState", "BlockCnt")
# The addresses of strings, and of what else not, decide neither a hash nor what is cached: so each run does the same.
STEADY = r"-DSTRCACHE_N=1 -DSTRCACHE_M=1 -Dluai_makeseed\(L\)=42u"


def build(folder: Path, cc: str, _cxx: str, flags: str) -> None:
    # Debian's patches put libtool into the Makefile; the author's own builds the same program.
    patches = ("0002-lua-modules-paths.patch", "0001-build-system.patch")
    shell(folder, *(f"patch -s -R -p1 < debian/patches/{name}" for name in patches))
    shell(folder, f'make -C src -j2 lua CC="{cc} -std=gnu99" CFLAGS="{flags} {STEADY}" MYLDFLAGS="{flags}" LIBS=-lm')


LUA = Program(
    "lua5.4",
    build,
    [Run(["src/lua", "work.lua"]), Run(["src/lua", "-v", "-"], b"print(#arg, arg[0]) error('ends')", code=1)],
    files={"work.lua": Path(__file__).with_name("work.lua").read_bytes()},
)


@pytest.mark.long
def test_counts_equal_gcovs_of_the_interpreter(tmp_path):
    covered = LUA.covered(tmp_path / "covered")
    # gcov adds the jumps to the entries of a function with computed gotos. The lines that call it tell the truth.
    calls = sum(
        covered.coverage.lines.get(("ldo.c", number), 0)
        for number, line in enumerate((covered.folder / "src/ldo.c").read_text().splitlines(), 1)
        if "luaV_execute(" in line
    )
    coverage = covered.coverage.with_entries("luaV_execute", calls)
    choice = Choice(coverage, [path for path in covered.sources("src/*.[ch]") if path.name != "luac.c"])
    choice.enters()
    choice.returns()
    choice.globs()
    choice.calls(200)
    choice.writes(*RECORDS)
    choice.loops()
    choice.labels()
    choice.lines("lvm.c", "lgc.c", "ltable.c", "lstrlib.c")
    opcodes = dict(instructions(choice))
    for name, count in opcodes.items():
        choice.add(f"label {name}", {"label": f"luaV_execute::L_{name}"}, count)
    additions = sum(opcodes[name] for name in ("OP_ADD", "OP_ADDI", "OP_ADDK"))
    choice.add("labels of additions", {"label": "luaV_execute::L_OP_ADD*"}, additions)

    counted = LUA.counted(tmp_path / "counted", choice.software, flags="-O2")
    assert counted.outputs == covered.outputs
    assert counted.report.skipped == {}
    assert not counted.missing
    assert choice.differences(counted.counts) == []
    assert calls > 100
    kinds = choice.kinds()
    assert kinds.keys() >= {"line", "enter", "return", "call", "loop", "loops", "label", "add", "write", "glob", "all"}
    assert kinds["label"] > 70
    assert kinds.total() > 3000
    check_debug_lines(counted.folder / "src", ["gcc", "-std=gnu99"], "lvm.c")


def instructions(choice: Choice) -> Iterator[tuple[str, int]]:
    """Yield each instruction of the virtual machine with the entries of its block, where its first line of code is a plain statement."""
    text = choice.texts["lvm.c"]
    for line, _ in text.uses["vmcase"]:
        name = next((name for name in text.words(line) if name.startswith("OP_")), "")
        first = next((n for n in range(line + 1, line + 9) if ("lvm.c", n) in choice.coverage.lines), 0)
        counts = choice.coverage.statement("lvm.c", first)
        if name and first in text.statements and len(counts) == 1:
            yield name, min(counts)
