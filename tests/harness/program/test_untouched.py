"""The untouched program and the baseline from one build: its links are repeated with the sampler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.program.linked_project import OBJECTS, OUTPUT, SOURCES, Project, output
from unperturbed.errors import RunError
from unperturbed.harness.program import layouts as layouts_module
from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.program.layouts import AS_BUILT, link_sampler, put_in_place, without_sampler

LIBRARY = """\
all: prog
libshared.so: c.c
\t$(CC) -O2 -shared -fPIC c.c -o libshared.so
libab.a: a.o b.o
\tar rcs libab.a a.o b.o
prog: main.o libab.a libshared.so
\t$(CC) -o prog main.o -L. -lab -l:libshared.so -Wl,-rpath,'$$ORIGIN'
%.o: %.c
\t$(CC) -O2 -c $< -o $@
"""
MAKEFILE = {**SOURCES, "Makefile": OBJECTS}

WAYS = {
    "objects": (MAKEFILE, "make CC={cc}"),
    "libraries": ({**SOURCES, "Makefile": LIBRARY}, "make CC={cc}"),
    "static": (SOURCES, "{cc} -O2 -static main.c a.c b.c c.c -o prog"),
    "optimised at link time": (SOURCES, "{cc} -O2 -flto main.c a.c b.c c.c -o prog"),
    "installed": (MAKEFILE, "make CC={cc} && mkdir bin && install -m 555 prog bin/copy && mv prog bin/prog"),
}


def programs(tree: Path) -> dict[str, bytes]:
    """Return the content of each program and library of a build."""
    files = (path for path in sorted(tree.rglob("*")) if path.is_file() and layouts_module._is_program(path))
    return {str(path.relative_to(tree)): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", WAYS)
def test_both_are_the_programs_that_two_builds_make(tmp_path: Path, name: str) -> None:
    files, command = WAYS[name]
    project = Project(tmp_path, files, command, shell=True)
    tree = project.untouched()
    plain = build_configuration(project.program, project.source, tmp_path / "01", None, spec_folder=tmp_path).folder
    assert programs(tree) == programs(plain), "the toolchain records links and adds nothing"
    assert link_sampler(tree, project.source) == ""
    sampled = build_configuration(project.program, project.source, tmp_path / "02", {}, spec_folder=tmp_path).folder
    assert programs(tree) == programs(sampled) != programs(plain)
    with without_sampler(tree):
        assert programs(tree) == programs(plain)
    assert programs(tree) == programs(sampled)
    linked = {path: path.stat().st_mtime_ns for path in tree.parent.rglob("*") if path.is_file()}
    assert project.untouched() == tree
    assert link_sampler(tree, project.source) == ""
    assert linked == {path: path.stat().st_mtime_ns for path in linked}, "what is there is kept"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("make CC={cc} && strip prog", "prog was changed after it was linked"),
        ("make CC={cc} && strip -o small prog", "small was changed after it was linked"),
        ("make CC={cc} && rm a.o", "repeating this link failed (exit code 1): gcc -o prog main.o a.o b.o c.o"),
        ("make CC=gcc && echo {cc}", "prog was changed after it was linked, or not linked by {cc} or {cxx}"),
    ],
)
def test_where_the_links_do_not_do_it_the_untouched_program_stays(tmp_path: Path, command: str, reason: str) -> None:
    project = Project(tmp_path, MAKEFILE, command, shell=True)
    tree = project.untouched()
    before = programs(tree)
    assert link_sampler(tree, project.source).startswith(reason)
    assert programs(tree) == before
    with without_sampler(tree):
        assert programs(tree) == before
    put_in_place(tree, AS_BUILT)
    assert programs(tree) == before


def test_a_program_that_the_source_has_already_is_no_fault(tmp_path: Path) -> None:
    project = Project(tmp_path, MAKEFILE, "make CC={cc}")
    shutil.copy2("/bin/true", project.source / "helper")
    tree = project.untouched()
    assert link_sampler(tree, project.source) == ""
    assert (tree / "helper").read_bytes() == Path("/bin/true").read_bytes()


@pytest.mark.parametrize(("where", "which"), [("_keep", 0), ("_write", 0), ("relink", 1), ("_keep", 1)])
def test_a_killed_session_leaves_no_program_that_is_linked_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, which: int
) -> None:
    project = Project(tmp_path, {**SOURCES, "Makefile": LIBRARY}, "make CC={cc}")
    tree = project.untouched()
    before = programs(tree)
    original, calls = getattr(layouts_module, where), []

    def interrupted(*arguments: object, **named: object) -> None:
        calls.append(arguments)
        if len(calls) == which + 1:
            if where == "relink":
                (tree / "prog").write_bytes(b"half a program")
            raise KeyboardInterrupt
        original(*arguments, **named)

    monkeypatch.setattr(layouts_module, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        link_sampler(tree, project.source)
    monkeypatch.undo()
    assert link_sampler(tree, project.source) == ""
    after = programs(tree)
    assert all(after[name] != before[name] for name in ("prog", "libshared.so"))
    with without_sampler(tree):
        assert programs(tree) == before


@pytest.mark.parametrize("rebuilt", [False, True])
def test_layouts_are_linked_with_the_sampler(tmp_path: Path, rebuilt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path, MAKEFILE, "make CC={cc}")
    tree = project.untouched()
    before = programs(tree)
    assert link_sampler(tree, project.source) == ""
    as_built = programs(tree)
    if rebuilt:

        def failing(*_: object) -> None:
            raise RunError("the linker says no")

        monkeypatch.setattr(layouts_module, "relink", failing)
    project.make(tree, 1)
    put_in_place(tree, 1)
    in_layout = programs(tree)
    assert output(tree) == OUTPUT
    assert in_layout["prog"] not in (before["prog"], as_built["prog"])
    assert layouts_module._MARK in in_layout["prog"]
    with without_sampler(tree):
        assert programs(tree) == before
    assert programs(tree) == as_built
    put_in_place(tree, 1)
    assert programs(tree) == in_layout


def test_no_instruction_of_the_program_differs(tmp_path: Path) -> None:
    """The functions of the untouched program have the same code with the sampler linked in."""
    project = Project(tmp_path, MAKEFILE, "make CC={cc}")
    tree = project.untouched()

    def code() -> list[str]:
        printed = subprocess.run(
            ["objdump", "-d", "--no-addresses", "--disassemble=work_a", str(tree / "prog")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return [line.split("#")[0].split("<")[0] for line in printed.splitlines()[6:]]

    before = code()
    assert link_sampler(tree, project.source) == ""
    assert len(before) > 4
    assert code() == before
