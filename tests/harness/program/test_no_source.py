"""Builds that never call the instrumenting compiler: what the message says is wrong, and what to change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.spec.sections.program import Program
from unperturbed.instrument.events import parse_event

_HEAD = "software metric 'f': the program has no site for `enter: f`; the instrumenting compiler compiled no source: "
_MAKEFILE = "x: main.o\n\t$(CC) -o x main.o\nmain.o: main.c\n\t$(CC) -c main.c\nclean:\n\trm -f x main.o\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "main.c").write_text(
        "int f(int n) { return n; }\nint main(int argc, char **argv) { return f(argc - 1); }\n"
    )
    (folder / "Makefile").write_text(_MAKEFILE)
    return folder


def _missing(source: Path, build: str, *, shell: bool = False) -> str:
    program = Program(source=str(source), build=build, run="{build}/x", shell=shell)
    software = {"f": parse_event({"enter": "f"})}
    built = build_configuration(program, source, source.parent / "00", software, spec_folder=source.parent)
    return dict(built.missing).get("f", "")


def test_a_build_command_without_the_compiler_is_told_where_to_put_it(source: Path) -> None:
    assert _missing(source, "make") == (
        f"{_HEAD}the build command `make` has neither `{{cc}}` nor `{{cxx}}`, which stand for that compiler: add them, "
        "such as `build: make CC={cc}`"
    )
    assert _missing(source, "gcc -o x main.c").endswith("which stand for that compiler: add them")


def test_a_build_that_finds_its_objects_up_to_date_is_told_to_remove_them(source: Path) -> None:
    subprocess.run(["make"], cwd=source, check=True)
    said = f"{_HEAD}the build command has `{{cc}}`, but had nothing to compile, as the source folder has object files "
    said += "(the newest is main.o): remove them, or make everything again: "
    assert _missing(source, "make CC={cc}") == f"{said}`build: make -B CC={{cc}}`"
    assert not _missing(source, "make -B CC={cc}")


def test_a_build_that_finds_its_program_up_to_date_is_told_how_to_make_it_again(source: Path) -> None:
    (source / "Makefile").write_text("x: main.c\n\t$(CC) -o x main.c\n")
    subprocess.run(["make"], cwd=source, check=True)
    said = _missing(source, "make CC={cc}")
    assert said.startswith(
        f"{_HEAD}the build command has `{{cc}}`, but called no compiler. If make had nothing to do, "
    )
    assert "or make it again: `build: make -B CC={cc}`" in said
    assert not _missing(source, "make -B CC={cc}")


def test_a_build_that_compiles_with_another_compiler_is_told_so(source: Path) -> None:
    (source / "Makefile").write_text(_MAKEFILE.replace("$(CC)", "gcc"))
    said = _missing(source, "make CC={cc}")
    wrong = "the build command has `{cc}`, but the build made main.o with another compiler: let it compile with `{cc}`"
    assert said == _HEAD + wrong


def test_errors_that_the_build_ignored_are_shown(source: Path) -> None:
    (source / "Makefile").write_text("x: main.c\n\t-no-such-compiler $(CC) main.c\n\ttouch x\n")
    for build, begin in (
        (
            "make CC={cc}",
            "the build command has `{cc}`, but called no compiler: let the build compile the program",
        ),
        ("make", "the build command `make` has neither `{cc}` nor `{cxx}`"),
    ):
        said = _missing(source, build)
        assert said.startswith(_HEAD + begin)
        assert ". The build's output has errors: " in said
        assert "no-such-compiler" in said
        assert said.endswith("Error 127 (ignored)")


def test_what_all_metrics_have_in_common_is_said_once(source: Path) -> None:
    spec_text = (
        "name: x\nprogram: {source: source, build: 'make CC={cc}', run: '{build}/x'}\n"
        "measure:\n  hardware: [PAPI_TOT_INS]\n  software:\n    f: {enter: f}\n    g: {enter: main}\n"
        "campaign: {subsets: {both: [f, g]}}\n"
    )
    subprocess.run(["make"], cwd=source, check=True)
    (source.parent / "spec.yaml").write_text(spec_text)
    for command in ("run", "sites"):
        refused = unperturbed(source.parent, command, "spec.yaml")
        assert refused.returncode != 0
        said = " ".join((refused.stderr + refused.stdout).split())
        assert said.count("but had nothing to compile") == 1, said
    done = unperturbed(source.parent, "run", "spec.yaml")
    assert "no site for the software metrics f and g; the instrumenting compiler" in " ".join(done.stderr.split())
