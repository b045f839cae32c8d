"""Debian's TinyXML-2, C++ with overloads, virtual methods and class templates, by its own Makefile.

Counts equal gcov's, its tests pass.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.instrument.real.choice_cxx import CxxChoice
from tests.instrument.real.programs import CLANG, Program, Run, check_debug_lines, shell


def build(folder: Path, _cc: str, cxx: str, flags: str) -> None:
    shell(folder, f'make -j2 CXX={cxx} CXXFLAGS="{flags}" xmltest')


XML = Program("tinyxml2", build, [Run(["xmltest"])], unsteady=rb"[\d.]+ milli-seconds")


@pytest.fixture(scope="module")
def covered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tinyxml2")
    found = XML.covered(folder / "covered")
    assert found.outputs == XML.plain(folder / "plain")
    return found


@pytest.mark.parametrize("clang", [pytest.param(False, id="gcc", marks=pytest.mark.long), CLANG])
def test_counts_equal_gcovs_and_the_programs_own(tmp_path, covered, clang):
    choice = CxxChoice(covered.coverage, covered.sources("*.cpp", "*.h"))
    choice.names()
    choice.heads()
    choice.globs()
    choice.lines()
    choice.loops()
    passed, failed = map(int, re.findall(rb"Pass (\d+), Fail (\d+)", covered.outputs[0])[0])
    choice.add("gauge passed", {"gauge": "gPass"}, passed)
    choice.add("gauge failed", {"gauge": "gFail"}, failed)
    choice.add("writes of gPass", {"write": "gPass"}, passed)
    for target, count in overloads(choice).items():
        choice.add(f"overload {target}", {"enter": target}, count)

    counted = XML.counted(tmp_path / "counted", choice.software, clang=clang)
    assert counted.outputs == covered.outputs
    assert counted.report.skipped == {}
    choice.settle(counted.report)
    assert choice.differences(counted.counts) == []
    kinds = choice.kinds()
    assert (kinds["enter"] > 200, kinds["head"] > 300, kinds["line"] > 1500, kinds["overload"] > 30) == (True,) * 4
    check_debug_lines(counted.folder, ["clang++" if clang else "g++"], "tinyxml2.cpp")
    assert passed > 400


def overloads(choice: CxxChoice) -> Counter[str]:
    """Return gcov's entries of overloads, each by its name with the types of its parameters.

    One for const objects is the same name.
    """
    counts = choice.coverage.functions
    bodies = Counter(function.name for function in counts)
    found: Counter[str] = Counter()
    for function, count in counts.items():
        text = choice.texts.get(function.file)
        if bodies[function.name] > 1 and text is not None and text.has_body(function.first):
            types = text.parameters(function.first, function.name.rpartition("::")[2])
            if types is not None:
                found[f"{function.name}({', '.join(types)})"] += count
    return +found
