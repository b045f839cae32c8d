"""`unperturbed init`: specs of commands, of source folders and of examples, each accepted and run as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness.phases_campaign import PHASES, unperturbed
from unperturbed.harness.drafts.starters import EXAMPLES
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import load_spec


def _init(folder: Path, *words: str | Path) -> CampaignSpec:
    done = unperturbed(folder, "init", *words)
    assert done.returncode == 0, done.stderr
    return load_spec(folder / done.stdout.split()[0])


def test_a_command(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("3\n1\n")
    spec = _init(tmp_path, "--", "sort", "-n", "--parallel=1", "{data}", "a b")
    assert spec.name == "sort"
    assert spec.program.run.startswith(f"{shutil.which('sort')} -n --parallel=1 ")
    assert "{{data}}" in spec.program.run and "'a b'" in spec.program.run
    assert spec.program.working_folder == str(tmp_path)
    assert spec.program.build is None
    assert "PAPI_TOT_INS" in spec.measure.hardware
    assert {event.target for event in spec.measure.software.values()} >= {"malloc"}
    head = " ".join((tmp_path / "sort.yaml").read_text().partition("\nname:")[0].replace("#", "").split())
    assert "written without running it" in head
    assert "its spec keeps at most three calls that the program makes" in head
    assert len(spec.measure.software) > 3
    assert "All calls that the program may make are listed below: keep a few" in head
    refused = unperturbed(tmp_path, "init", "--", "sort")
    assert (refused.returncode, "sort.yaml already exists" in refused.stderr) == (2, True)
    assert _init(tmp_path, "--out", "other.yaml", "--name", "mine", "--", "sort").name == "mine"


def test_a_script_is_run_by_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "go"
    script.write_text("#!/usr/bin/env sh\necho hi\n")
    script.chmod(0o755)
    assert _init(tmp_path, "--", "./go", "x").program.run == f"{shutil.which('sh')} {script} x"


def test_a_source_folder_that_can_be_run_as_it_is(tmp_path: Path) -> None:
    shutil.copytree(PHASES, tmp_path / "phases")
    spec = _init(tmp_path, "phases")
    assert (spec.program.source, spec.program.run) == ("phases", "{build}/phases")
    text = (tmp_path / "phases.yaml").read_text()
    for name in ("walk", "branch", "begin_round"):
        assert f"#   {name}_entered: {{enter: {name}}}" in text
    chosen = text.replace("  # software:", "  software:").replace("  #   walk_entered", "    walk_entered")
    (tmp_path / "phases.yaml").write_text(chosen)
    found = unperturbed(tmp_path, "sites", "phases.yaml")
    assert found.returncode == 0, found.stderr
    assert "walk_entered  {enter: walk}  1 site;" in found.stdout


@pytest.mark.parametrize(
    ("files", "build", "run"),
    [
        ({"CMakeLists.txt": "project(x C)\nadd_executable(mine a.c)\n", "a.c": ""}, "cmake -S .", "out/mine"),
        ({"meson.build": "project('x', 'c')\nexecutable('mine', 'a.c')\n"}, "CC={cc} CXX={cxx} meson", "out/mine"),
        ({"configure": "#!/bin/sh\n"}, "./configure CC={cc}", "src"),
        ({"Makefile": "all: one two\none: one.c\n\tcc\nclean:\n"}, "make CC={cc} CXX={cxx}", "one"),
        (
            {"Makefile": "P= tool\nall: o lib $(P)\no: a.o\nlib:\n\tcc -shared -o $@\n$(P): a.o\n\tcc -o $@ a.o\n"},
            "make CC={cc} CXX={cxx}",
            "tool",
        ),
        (
            {"Makefile": ".PHONY: some src\nall: some\nsome: src\nsrc:\n\t$(MAKE) -C p $@\n\tcp p/src .\n"},
            "make CC={cc} CXX={cxx}",
            "src",
        ),
        ({"a.c": "int main(void){return 0;}"}, "{cc} -O2 -g -o a a.c", "a"),
        ({"a.c": "", "b.cpp": ""}, "{cxx} -O2 -g -o src a.c b.cpp", "src"),
    ],
    ids=["cmake", "meson", "configure", "make", "linked", "delegated", "one file", "files"],
)
def test_how_a_folder_is_built_is_guessed(tmp_path: Path, files: dict[str, str], build: str, run: str) -> None:
    (tmp_path / "src").mkdir()
    for name, text in files.items():
        (tmp_path / "src" / name).write_text(text)
    spec = _init(tmp_path, "src")
    assert spec.program.build is not None and spec.program.build.startswith(build)
    assert spec.program.run == f"{{build}}/{run}"
    assert (spec.name, _init(tmp_path, "--name", "mine", "src").name) == ("src", "mine")


def test_the_functions_called_at_most_places_are_offered_and_none_of_tests(tmp_path: Path) -> None:
    (tmp_path / "src" / "tests").mkdir(parents=True)
    (tmp_path / "src" / "a.c").write_text(
        "int rare(void) {\n return 1; }\nint often(int x) {\n return x; }\n"
        "int main(void) {\n return often(1) + often(2) + rare(); }\n"
    )
    (tmp_path / "src" / "tests" / "t.c").write_text(
        "int check(void) {\n return 0; }\nint all(void) {\n return check(); }\n"
    )
    _init(tmp_path, "src")
    text = (tmp_path / "src.yaml").read_text()
    assert 0 < text.index("{enter: often}") < text.index("{enter: rare}")
    assert "check" not in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_spec_with_its_program(tmp_path: Path, name: str) -> None:
    spec = _init(tmp_path, "--example", name, "--out", "here")
    assert spec.name == name
    done = unperturbed(tmp_path, "sites", f"here/{name}.yaml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / EXAMPLES[name].program).is_dir()
    assert unperturbed(tmp_path, "init", "--example", name, "--out", "here").returncode == 2


@pytest.mark.long  # as the tutorial on causal models does, whose commands are tested
def test_the_sweep_of_the_examples_gives_a_table(tmp_path: Path) -> None:
    _init(tmp_path, "--example", "sweep")
    text = (tmp_path / "sweep.yaml").read_text()
    (tmp_path / "sweep.yaml").write_text(
        text.replace("step: 10", "step: 30").replace("from: 10, to: 40", "from: 1, to: 31")
    )
    done = unperturbed(tmp_path, "run", "sweep.yaml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "campaigns" / "sweep" / "table.parquet").is_file()


def test_the_examples_are_in_the_wheel(tmp_path: Path) -> None:
    """The package data names them; `setup.py` and the manifest are not asked twice."""
    import tomllib

    root = Path(__file__).parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    taken = {path for pattern in patterns["unperturbed.harness"] for path in (root / "harness").glob(pattern)}
    listed = {path for path in (root / "harness/drafts/examples").rglob("*") if path.is_file()}
    assert listed
    assert listed <= taken


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give exactly one of these: a folder"),
        (["x", "--example", "sweep"], "give exactly one of these: a folder"),
        (["nowhere"], "no such folder"),
        (["empty"], "no Makefile, CMakeLists.txt"),
        (["--example", "verdict"], "did you mean verdicts?"),
        (["--", "./nothing"], "./nothing does not exist"),
        (["--", "./data"], "is not executable"),
        (["--", "nothing"], "nothing is not a program on the PATH; after --"),
        (["--", "data"], "data is not a program on the PATH (write ./data for the one in this folder)"),
    ],
)
def test_what_no_spec_can_be_written_of(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "data").write_text("")
    done = unperturbed(tmp_path, "init", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "empty"]
