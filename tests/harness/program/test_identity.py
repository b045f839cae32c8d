"""What tells one program from another, and that runs of two programs are not compared."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.campaign.test_sampling_campaign import traces
from tests.harness.phases_campaign import done_runs, unperturbed, verdicts, write_spec
from unperturbed.analysis.perturbation import Baseline
from unperturbed.collectors.data import Trace
from unperturbed.errors import DataError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.program.build import find_source
from unperturbed.harness.program.sources import program_identity
from unperturbed.harness.spec.load import load_spec

QUICK = {
    "analysis__anchor": None,
    "campaign__subsets": {"steps": ["steps", "rounds"]},
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec and its finished campaign."""
    folder = tmp_path_factory.mktemp("measured")
    done = unperturbed(folder, "run", write_spec(folder, **QUICK))
    assert done.returncode in (0, 4), done.stderr
    return folder


def identity(path: Path) -> str:
    spec = load_spec(path)
    return program_identity(spec, find_source(spec.program, spec.folder))


def test_it_is_the_same_wherever_the_program_lies_and_whatever_is_measured(tmp_path: Path) -> None:
    first = identity(write_spec(tmp_path / "a"))
    assert first.startswith("phases ")
    other = write_spec(
        tmp_path / "b", measure__software={"rounds": {"enter": "begin_round"}}, campaign__subsets={}, name="x"
    )
    (tmp_path / "b" / "phases" / "phases.c").touch()
    assert identity(other) == first


@pytest.mark.parametrize("change", ["source", "added", "executable", "build", "compiler", "run", "environment"])
def test_it_differs_as_soon_as_the_program_does(tmp_path: Path, change: str) -> None:
    first = identity(write_spec(tmp_path))
    source = tmp_path / "phases"
    changes: dict[str, object] = {}
    match change:
        case "source":
            (source / "phases.c").write_text((source / "phases.c").read_text().replace("found += 3", "found += 5"))
        case "added":
            (source / "config.h").write_text("")
        case "executable":
            (source / "phases.c").chmod(0o755)
        case "build":
            changes = {"program__build": "make CC={cc} CFLAGS=-O1"}
        case "compiler":
            changes = {"program__compilers": {"cc": "gcc -O3"}}
        case "run":
            changes = {"program__run": "{build}/phases 60"}
        case "environment":
            changes = {"program__environment": {"TZ": "UTC"}}
    assert identity(write_spec(tmp_path, **changes)) != first


def test_files_that_a_command_names_count_by_their_content(tmp_path: Path) -> None:
    software = {"allocations": {"preload": "malloc"}}
    found = []
    for name, text in (("a", "x = 1\n"), ("b", "x = 1\n"), ("c", "x = 2\n")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "work.py").write_text(text)
        (folder / "table").write_text("1 2 3\n")
        spec = write_spec(
            folder,
            program={
                "run": "python3 {spec}/work.py",
                "stdin": "{inputs}/table",
                "inputs": ["table"],
                "timeout": "1 min",
            },
            measure__software=software,
            campaign__subsets={"all": ["allocations"]},
            analysis__anchor=None,
        )
        found.append(identity(spec))
    assert found[0] == found[1] != found[2]
    (tmp_path / "a" / "table").write_text("1 2 4\n")
    assert identity(tmp_path / "a" / "spec.yaml") != found[0]
    assert found[0].startswith("python3 ")


@pytest.mark.parametrize(
    "commands",
    [
        {"build": '{cc} -c "{spec}/beside/part.c" phases.c; echo -I{spec}/beside', "shell": True},
        {"run": "exec {build}/phases $(cat '{spec}/beside/part.c');", "shell": True},
        {"build": "{cc} -I{spec}/none -o phases {spec}/beside/part.c phases.c"},
        {"build": "{cc} -DX=a#b -include{spec}/beside/part.c -o phases phases.c"},
        {"build": "make CC={cc} && {cc} -c {spec}/beside/part.c # it's odd", "shell": True},
    ],
)
def test_so_do_files_that_a_shell_or_a_build_names(tmp_path: Path, commands: dict[str, object]) -> None:
    found = []
    for name, text in (("a", "int x;\n"), ("b", "int x;\n"), ("c", "int y;\n")):
        beside = tmp_path / name / "beside"
        beside.mkdir(parents=True)
        (beside / "part.c").write_text(text)
        changes = {f"program__{key}": value for key, value in commands.items()}
        found.append(identity(write_spec(tmp_path / name, **changes)))
    assert found[0] == found[1] != found[2]


def test_what_a_command_writes_beside_the_spec_is_no_part_of_the_program(tmp_path: Path) -> None:
    """A campaign would be refused when it goes on, as what its build or its runs wrote was not there at first."""
    build = "make CC={cc} > '{spec}/build.log' 2>>{spec}/build.err"
    spec = write_spec(tmp_path, program__build=build, program__run="{build}/phases >{spec}/log", program__shell=True)
    first = identity(spec)
    for name in ("build.log", "build.err", "log"):
        (tmp_path / name).write_text("written\n")
    assert identity(spec) == first


def test_a_command_counts_as_it_is_written(tmp_path: Path) -> None:
    commands = [
        "{cc} -I{spec}/none a#b phases.c",
        "{cc} -I{spec}/none a#c phases.c",
        "{cc} -I{spec}/none ; phases.c",
        "{cc} -I{spec}/none ';' phases.c",
    ]
    found = {identity(write_spec(tmp_path, program__build=one, program__shell=True)) for one in commands}
    assert len(found) == len(commands)


def test_runs_say_what_they_are_of_and_those_of_another_program_are_refused(measured: Path) -> None:
    spec = measured / "spec.yaml"
    campaign = measured / "campaigns" / "phases"
    done = unperturbed(measured, "run", spec)
    named = identity(spec)
    runs = {name: traces(campaign, name) for name in ("baseline", "steps")}
    assert {trace.attributes["program"] for found in runs.values() for trace in found} == {named}
    assert verdicts(campaign)["provenance"]["program"]["identity"] == named

    def of(program: str | None, found: Sequence[Trace]) -> list[Trace]:
        return [replace(trace, attributes={**trace.attributes, "program": program}) for trace in found]

    Baseline(runs["baseline"], metrics=["PAPI_TOT_INS", "PAPI_SR_INS"]).inner(runs["steps"])
    with pytest.raises(
        DataError, match=f"program is {named}, the baseline's is bzip2 0123: compare runs with the same settings"
    ):
        Baseline(of("bzip2 0123", runs["baseline"]), metrics=["PAPI_TOT_INS", "PAPI_SR_INS"]).inner(runs["steps"])

    source = measured / "phases" / "phases.c"
    kept = source.read_text()
    source.write_text(kept.replace("found += 3", "found += 5"))
    changed = identity(spec)
    refused = unperturbed(measured, "run", spec)
    assert refused.returncode == 2
    assert (
        f"the program has changed since this campaign was started (it was {named}, and is now {changed})"
        in refused.stderr
    )
    assert "Traceback" not in refused.stderr
    # It is still judged by what was recorded, and goes on once the program is put back.
    assert unperturbed(measured, "check", campaign).returncode == done.returncode
    source.write_text(kept)
    assert unperturbed(measured, "run", spec).returncode == done.returncode


def test_a_campaign_from_before_goes_on_as_it_was_and_a_program_may_change_before_its_first_run(
    measured: Path, tmp_path: Path
) -> None:
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True, symlinks=True)
    campaign = tmp_path / "campaigns" / "phases"
    with Manifest(campaign / "campaign.sqlite") as manifest:
        manifest.set_facts(program=None)
    for path in campaign.glob("runs/*/trace.parquet"):
        trace = Trace.read(path)
        without = {name: value for name, value in trace.attributes.items() if name != "program"}
        replace(trace, attributes=without).write(path)
    more = write_spec(tmp_path, **QUICK, campaign__runs=4)
    went_on = unperturbed(tmp_path, "run", more)
    assert went_on.returncode in (0, 4), went_on.stderr
    assert len(done_runs(campaign)) == 5 + 4
    assert {trace.attributes.get("program") for trace in traces(campaign, "steps")} == {None}

    shutil.rmtree(campaign)
    alone = write_spec(tmp_path, **{**QUICK, "campaign__subsets": {}})
    source = tmp_path / "phases" / "phases.c"
    kept = source.read_text()
    source.write_text(kept.replace('printf("%ld\\n", found);', 'printf("%ld %p\\n", found, (void *)&argc); return 3;'))
    failed = unperturbed(tmp_path, "run", alone)
    assert failed.returncode == 1, failed.stderr
    assert done_runs(campaign) == []
    source.write_text(kept)
    ended = unperturbed(tmp_path, "run", alone)
    assert ended.returncode in (0, 4), ended.stderr
    assert {trace.attributes["program"] for trace in traces(campaign, "baseline")} == {identity(alone)}
