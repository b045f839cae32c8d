"""Debian's {fmt} in C++20.

Templates, lambdas, overloads, constexpr functions and inline namespaces, called by a program of ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instrument.real.choice_cxx import CxxChoice
from tests.instrument.real.programs import Program, Run, check_debug_lines, shell


def build(folder: Path, _cc: str, cxx: str, flags: str) -> None:
    flags += " -std=c++20 -Iinclude"
    compiling = "& ".join(
        f"{cxx} {flags} -c {source} -o {name}.o" for name, source in (("format", "src/format.cc"), ("main", "main.cc"))
    )
    shell(folder, f"{compiling} && wait $! && {cxx} {flags} main.o format.o -o main")


FMT = Program(
    "fmtlib", build, [Run(["main"])], files={"main.cc": Path(__file__).with_name("fmt_program.cc").read_bytes()}
)


@pytest.mark.long
def test_counts_equal_gcovs_over_all_instantiations(tmp_path):
    covered = FMT.covered(tmp_path / "covered")
    choice = CxxChoice(
        covered.coverage, covered.sources("main.cc", "src/format.cc", "include/fmt/*.h"), inlined="FMT_INLINE"
    )
    choice.names(150)
    choice.heads()
    choice.loops()
    choice.lines("format.h", "main.cc")
    # The first is a class in a function that is always inlined; the second, gcov counts when it is over, and it ends by
    # exceptions too.
    choice.leave_out("head core.h:2700", "line format.h:4128")
    choice.add("lambdas of write_int", {"enter": "fmt::detail::write_int::lambda*"}, lambdas(choice, "write_int"))

    counted = FMT.counted(tmp_path / "counted", choice.software)
    assert counted.outputs == covered.outputs
    assert counted.report.skipped == {}
    choice.settle(counted.report)
    assert choice.differences(counted.counts) == []
    kinds = choice.kinds()
    assert (kinds["enter"] > 100, kinds["head"] > 300, kinds["line"] > 500, kinds["loop"] > 30) == (True,) * 4
    assert sum("lambda" in name for name in choice.expected) > 10
    check_debug_lines(counted.folder, ["g++", "-std=c++20", "-Iinclude"], "src/format.cc")


def lambdas(choice: CxxChoice, function: str) -> int:
    return sum(count for found, count in choice.coverage.functions.items() if f"::{function}::lambda" in found.name)
