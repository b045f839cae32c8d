"""Layouts of real builds: linked again where that gives what the build gave, else built again; kept, and put into
one place."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.program.linked_project import FUNCTIONS, OBJECTS, OUTPUT, SOFTWARE, SOURCES, Project, output, symbols
from unperturbed.common.user_cache import user_cache
from unperturbed.errors import RunError
from unperturbed.harness.program import layouts as layouts_module
from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.program.layouts import AS_BUILT, layout_notes, make_layout, put_in_place
from unperturbed.harness.program.sources import debian_source
from unperturbed.instrument.events import parse_event


def way(tree: Path) -> str:
    """Return why layouts are whole builds, empty when they are linked."""
    return layouts_module._read_recipe(tree).rebuilt


def test_layouts_of_a_program_of_objects_are_linked_and_stand_at_one_path(tmp_path: Path) -> None:
    project = Project(tmp_path, {**SOURCES, "Makefile": OBJECTS}, "make CC={cc}")
    tree = project.build().folder
    as_built = (tree / "prog").read_bytes()
    compiled = (tree / "a.o").stat().st_mtime_ns
    contents, places = {0: as_built}, {0: symbols(tree / "prog")}
    for number in (1, 2, 3):
        project.make(tree, number)
        put_in_place(tree, number)
        contents[number], places[number] = (tree / "prog").read_bytes(), symbols(tree / "prog")
        assert output(tree) == OUTPUT
    assert way(tree) == ""
    assert layout_notes(tree) == ()
    assert len(set(contents.values())) == 4
    for function in FUNCTIONS:
        assert len({found[function] for found in places.values()}) > 2, "two may meet by chance"
    assert len({tuple(sorted(FUNCTIONS, key=found.__getitem__)) for found in places.values()}) > 1
    assert (tree / "a.o").stat().st_mtime_ns == compiled, "nothing was compiled again"
    for number in (2, 0, 0, 3, 1):
        put_in_place(tree, number)
        assert (tree / "prog").read_bytes() == contents[number]
    kept = {path: path.stat().st_mtime_ns for path in tree.parent.glob("layouts/00?/*")}
    project.make(tree, 2)
    assert kept == {path: path.stat().st_mtime_ns for path in tree.parent.glob("layouts/00?/*")}, (
        "what is there is kept"
    )
    other = project.build("01").folder
    project.make(other, 7, "1/demo/2")
    put_in_place(other, 7)
    assert symbols(other / "prog") == places[2], "the text gives the layout, not the number or the folder"


def test_a_build_without_layouts_stands_as_it_is(tmp_path: Path) -> None:
    project = Project(tmp_path, {**SOURCES, "Makefile": OBJECTS}, "make CC={cc}")
    built = build_configuration(project.program, project.source, tmp_path / "00", SOFTWARE, spec_folder=tmp_path)
    put_in_place(built.folder, AS_BUILT)
    assert layout_notes(built.folder) == ()
    assert not (tmp_path / "00" / "toolchain" / "links").exists()
    with pytest.raises(RunError, match="has no layout 1: remove the campaign's folder `builds`"):
        put_in_place(built.folder, 1)
    noted = project.build()
    assert noted.folder == built.folder
    assert (tmp_path / "00" / "toolchain" / "links").exists(), "to be had in layouts is another build"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A program of objects that was built once."""
    made = Project(tmp_path_factory.mktemp("project"), {**SOURCES, "Makefile": OBJECTS}, "make CC={cc}")
    made.build()
    return made


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": 1}', "[" * 100_000])
def test_a_damaged_file_about_a_build_is_no_traceback(project: Project, content: str) -> None:
    built = project.build()
    project.make(built.folder, AS_BUILT)
    layouts_module._recipe_file(built.folder).write_text(content)
    with pytest.raises(RunError, match=r"is damaged .*: remove the campaign's folder `builds`"):
        put_in_place(built.folder, AS_BUILT)
    (project.folder / "00" / "built.json").write_text(content)
    again = project.build()
    assert (again.sites, again.skipped) == (built.sites, built.skipped)
    assert output(again.folder) == OUTPUT


CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(demo CXX)
add_library(says SHARED one.cc two.cc three.cc)
add_executable(prog main.cc four.cc five.cc)
target_link_libraries(prog says)
"""
SAYS = """\
#include <cstdio>
namespace { struct Says { Says() { std::printf("%s "); } } says; }
int f_%s() { return 1; }
"""


def test_a_library_and_a_program_with_static_initialisers_by_cmake(tmp_path: Path) -> None:
    files = {f"{name}.cc": SAYS % (name, name) for name in ("one", "two", "three", "four", "five")}
    main = "int f_one(), f_four(), f_five(); int main() { return f_one() + f_four() + f_five() - 3; }\n"
    project = Project(
        tmp_path,
        {**files, "main.cc": main, "CMakeLists.txt": CMAKE},
        "cmake -S . -B b -G Ninja -DCMAKE_CXX_COMPILER={cxx} && cmake --build b",
        shell=True,
    )
    tree = project.build().folder
    expected = output(tree, "b/prog")
    assert expected.startswith("one two three four five")
    found = {}
    for number in (0, 1, 2):
        if number:
            project.make(tree, number)
        put_in_place(tree, number)
        assert output(tree, "b/prog") == expected
        program = symbols(tree / "b/prog", ("main", "_Z6f_fourv", "_Z6f_fivev"))
        found[number] = {**program, **symbols(tree / "b/libsays.so", ("_Z5f_onev", "_Z7f_threev"))}
    assert way(tree) == ""
    for name in found[0]:
        assert len({places[name] for places in found.values()}) > 1, name
    assert len(layout_notes(tree)) == 2
    assert layout_notes(tree)[1].startswith(
        "b/prog keeps the order of its objects in every layout; only padding varies ("
    )
    assert "main.cc.o" not in layout_notes(tree)[1]
    assert layout_notes(tree)[1].endswith("four.cc.o: contains initialisers or finalisers (.init_array)).")


def test_a_program_that_is_moved_and_copied_after_its_link_is_linked_again(tmp_path: Path) -> None:
    files = {**SOURCES, "Makefile": OBJECTS}
    command = "make CC={cc} && mkdir bin && cp prog bin/copy && mv prog bin/prog"
    project = Project(tmp_path, files, command, shell=True)
    tree = project.build().folder
    as_built = (tree / "bin/prog").read_bytes()
    project.make(tree, 1)
    put_in_place(tree, 1)
    assert way(tree) == ""
    assert (tree / "bin/prog").read_bytes() == (tree / "bin/copy").read_bytes() != as_built
    assert not (tree / "prog").exists()
    assert output(tree, "bin/copy") == OUTPUT


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("make CC={cc} && strip prog", "prog was changed after it was linked"),
        (
            "make CC={cc} && rm a.o",
            "repeating this link failed (exit code 1): gcc -o prog main.o a.o b.o c.o",
        ),
        (
            "cat main.c a.c b.c c.c | {cc} -O2 -x c - -o prog",
            "cannot repeat this link, because it read its source from standard input: gcc -O2 -x c - -o prog",
        ),
    ],
)
def test_where_a_link_does_not_do_the_whole_build_is_made_again(tmp_path: Path, command: str, reason: str) -> None:
    project = Project(tmp_path, {**SOURCES, "Makefile": OBJECTS}, command, shell=True)
    if "|" in command:
        for name in ("a.c", "b.c", "c.c"):
            path = project.source / name
            path.write_text(path.read_text().replace("int work_b(int); ", "").replace("int work_a(int); ", ""))
        (project.source / "main.c").write_text(
            "int work_b(int);\n" + SOURCES["main.c"].replace("work_c(int);", "work_c(int);\n")
        )
    tree = project.build().folder
    contents = {0: (tree / "prog").read_bytes()}
    for number in (1, 2):
        project.make(tree, number)
        put_in_place(tree, number)
        contents[number] = (tree / "prog").read_bytes()
        assert output(tree) == OUTPUT
    assert way(tree) == reason
    assert layout_notes(tree)[0] == f"Every layout needs a complete build: {reason}."
    assert len(set(contents.values())) == 3
    for number in (0, 2, 1):
        (tree / "left by a run").touch()
        put_in_place(tree, number)
        assert (tree / "prog").read_bytes() == contents[number]
        assert not (tree / "left by a run").exists()


def test_a_link_that_fails_later_is_an_error_and_no_other_kind_of_layout(tmp_path: Path) -> None:
    project = Project(tmp_path, {**SOURCES, "Makefile": OBJECTS}, "make CC={cc}")
    tree = project.build().folder
    project.make(tree, 1)
    (tree / "a.o").unlink()
    with pytest.raises(RunError, match="repeating this link failed"):
        project.make(tree, 2)
    put_in_place(tree, 1)
    assert output(tree) == OUTPUT
    with pytest.raises(RunError, match="layouts/002 is missing"):
        put_in_place(tree, 2)


def test_a_linker_that_was_killed_changes_no_way_of_making_layouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, {**SOURCES, "Makefile": OBJECTS}, "make CC={cc}")
    tree = project.build().folder
    original, calls = layouts_module.relink, []

    def killed_at_first(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            (tree / "prog").write_bytes(b"half a program")
            raise RunError("repeating this link failed: collect2: fatal error: ld terminated with signal 9 [Killed]")
        original(*arguments)

    monkeypatch.setattr(layouts_module, "relink", killed_at_first)
    project.make(tree, 1)
    put_in_place(tree, 1)
    assert output(tree) == OUTPUT
    assert (len(calls), way(tree)) == (2, "")


@pytest.mark.parametrize(
    ("command", "where", "which"),
    [
        pytest.param("make CC={cc}", "_keep", 0, marks=pytest.mark.long),
        ("make CC={cc}", "_write", 0),
        ("make CC={cc}", "relink", 1),
        pytest.param("make CC={cc}", "_write", 2, marks=pytest.mark.long),
        ("make CC={cc} && strip prog", "compile_tree", 0),
        pytest.param("make CC={cc} && strip prog", "_keep", 1, marks=pytest.mark.long),
        ("make CC={cc} && rm a.o", "_write", 1),
    ],
)
def test_whoever_is_interrupted_goes_on_to_the_same_layouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, where: str, which: int
) -> None:
    """Killed before the chosen step, with half a program in its place: the next session makes what this one would
    have made."""
    project = Project(tmp_path, {**SOURCES, "Makefile": OBJECTS}, command, shell=True)
    tree = project.build().folder
    as_built = (tree / "prog").read_bytes()
    original = getattr(layouts_module, where)
    calls = []

    def interrupted(*arguments: object, **named: object) -> None:
        calls.append(arguments)
        if len(calls) == which + 1:
            if (tree.parent / "layouts" / "way.json").exists():
                (tree / "prog").write_bytes(b"half a program")
            raise KeyboardInterrupt
        original(*arguments, **named)

    monkeypatch.setattr(layouts_module, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        for number in (1, 2):
            project.make(tree, number)
            put_in_place(tree, number)
    monkeypatch.undo()
    assert project.build().folder == tree
    contents = {}
    for number in (1, 2, 0):
        if number:
            project.make(tree, number)
        put_in_place(tree, number)
        assert output(tree) == OUTPUT
        contents[number] = (tree / "prog").read_bytes()
    assert contents[0] == as_built
    assert len(set(contents.values())) == 3
    assert bool(way(tree)) == ("&&" in command)


@pytest.mark.parametrize("compilers", [{}, pytest.param({"cc": "clang"}, marks=pytest.mark.long)], ids=["gcc", "clang"])
def test_debians_bzip2_with_its_library(tmp_path: Path, compilers: dict[str, str]) -> None:
    if compilers and shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    source = debian_source("bzip2", user_cache())
    project = Project(tmp_path, {"x": ""}, "make CC={cc} bzip2", **({"compilers": compilers} if compilers else {}))
    software = {"sorts": parse_event({"enter": "mainSimpleSort"})}
    built = build_configuration(project.program, source, tmp_path / "00", software, spec_folder=tmp_path, layouts=True)
    names = ("BZ2_blockSort", "BZ2_compressBlock", "BZ2_hbMakeCodeLengths", "BZ2_decompress")
    packed, found = set(), []
    for number in (0, 1, 2):
        if number:
            make_layout(project.program, source, built.folder, number, f"1/bzip2/{number}", spec_folder=tmp_path)
        put_in_place(built.folder, number)
        done = subprocess.run(
            [str(built.folder / "bzip2"), "-9"],
            input=b"once upon a time " * 4000,
            capture_output=True,
            check=True,
            env={"LD_LIBRARY_PATH": str(built.folder)},
        )
        packed.add(done.stdout)
        library = next(path for path in sorted(built.folder.glob("libbz2.so.1.0*")) if not path.is_symlink())
        found.append({**symbols(library, names), **symbols(built.folder / "bzip2", ("main",))})
    assert way(built.folder) == ""
    assert len(packed) == 1
    for name in ("main", *names):
        assert len({places[name] for places in found}) > 1
    assert len({tuple(sorted(names, key=places.__getitem__)) for places in found}) > 1
