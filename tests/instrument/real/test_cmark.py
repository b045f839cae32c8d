"""Debian's cmark, built by CMake: counts equal gcov's, its own specification is rendered the same in every format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instrument.real.choice import Choice
from tests.instrument.real.programs import Program, Run, check_debug_lines, shell

RECORDS = (
    "cmark_node",
    "cmark_parser",
    "cmark_renderer",
    "subject",
    "delimiter",
    "bracket",
    "cmark_strbuf",
    "cmark_iter",
)


def build(folder: Path, cc: str, _cxx: str, flags: str) -> None:
    options = f'-DCMAKE_C_COMPILER={cc} -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="{flags}" -DCMARK_TESTS=OFF -DCMARK_SHARED=OFF'
    shell(folder, f"cmake -B build {options}", "make -C build -j2 cmark_exe")


WAYS = (["-t", "html"], ["-t", "commonmark", "--width", "60"], ["-t", "latex", "--smart"], ["-t", "xml"], ["-t", "man"])
CMARK = Program("cmark", build, [Run(["build/src/cmark", *way, "test/spec.txt"]) for way in WAYS])


@pytest.mark.long
def test_counts_equal_gcovs(tmp_path):
    covered = CMARK.covered(tmp_path / "covered")
    choice = Choice(covered.coverage, covered.sources("src/*.[ch]"))
    choice.enters()
    choice.returns()
    choice.globs()
    choice.calls()
    choice.writes(*RECORDS)
    choice.loops()
    choice.labels()
    choice.lines(*choice.texts.keys() - {"scanners.c"})  # written by re2c: thousands of lines of one sort
    specification = (covered.folder / "test/spec.txt").read_bytes()
    bytes_of_lines = len(specification) - specification.count(b"\n")
    choice.add("add bytes", {"enter": "S_process_line", "add": "bytes"}, len(WAYS) * bytes_of_lines)

    counted = CMARK.counted(tmp_path / "counted", choice.software)
    assert counted.outputs == covered.outputs
    assert counted.report.skipped == {}
    assert not counted.missing
    assert choice.differences(counted.counts) == []
    kinds = choice.kinds()
    assert kinds.keys() >= {"line", "enter", "return", "call", "loop", "loops", "label", "add", "write", "glob", "all"}
    assert kinds.total() > 2000
    check_debug_lines(counted.folder, ["gcc", "-Ibuild/src"], "src/inlines.c")
