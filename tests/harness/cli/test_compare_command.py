"""`unperturbed compare -- A -- B`, and `programs:` of a spec: set-ups that are measured alike and compared."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.harness.nodes.forked import Forked
from tests.harness.phases_campaign import PHASES, done_runs, unperturbed, verdicts, write_spec
from unperturbed.collectors.data import Trace
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.cli.verdicts import describe_configuration
from unperturbed.harness.drafts.command import Choices, describe_comparison
from unperturbed.harness.spec.load import load_spec, parse_spec
from unperturbed.harness.spec.yaml import InvalidSpec

FEW = (
    "--runs",
    "5",
    "--metrics",
    "PAPI_TOT_INS,PAPI_L1_DCM,PAPI_BR_MSP",
    "--interval",
    "60",
)  # twice what a verdict takes
PLAIN: dict[str, Any] = {
    "measure__hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP"],
    "measure__derived": {},
    "measure__software": {},
    "campaign__subsets": {},
    "analysis__anchor": None,
}

SLOW = """
__attribute__((constructor)) static void divide(void)
{
    volatile long double slow = 2;
    for (long turn = 0; turn < 2500000; turn++)
        slow = 1 + 1 / slow;
}
"""
"""Much CPU time for few instructions, which are simulated: `run` and `compare` refuse programs of some ms."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two builds of one program: `other` does five times the work in one of its phases, and prints another result."""
    folder = tmp_path_factory.mktemp("programs")
    text = (PHASES / "phases.c").read_text() + SLOW
    (folder / "one.c").write_text(text)
    (folder / "other.c").write_text(text.replace("branch(STEPS", "walk(5 * STEPS"))
    for name in ("one", "other"):
        subprocess.run(["gcc", "-O1", "-o", name, f"{name}.c"], cwd=folder, check=True)
    (folder / "same").write_bytes((folder / "one").read_bytes())
    (folder / "same").chmod(0o755)
    return folder


def test_another_program_changes_the_numbers(programs: Path) -> None:
    done = unperturbed(programs, "compare", *FEW, "--", "./one", "25", "--", "./other", "25")
    assert done.returncode in (0, 4), done.stderr
    assert "spec:   campaigns/one-and-other.yaml (edit it to continue)" in done.stdout
    assert "B is a different set-up of the program" in done.stdout
    assert "verdicts per set-up" in done.stdout
    found = verdicts(programs / "campaigns" / "one-and-other")
    (verdict,) = found["verdicts"]
    assert (verdict["configuration"], verdict["reference"]) == ("B", "baseline")
    # On a busy host five runs may leave the verdict open; what the programs execute does not vary.
    levels = {one["metric"]: one for one in found["levels"]["B"]}
    assert levels["PAPI_TOT_INS"]["ratio"] > 0.5
    assert done.returncode == (4 if verdict["verdict"] == "perturbed" else 0)
    assert any("run: " in note and "sampled in the same way" in note for note in found["notes"])
    spec = load_spec(programs / "campaigns" / "one-and-other.yaml")
    assert [(item.name, item.runs, item.program) for item in configurations(spec)] == [
        ("baseline", 5, ""),
        ("B", 5, "B"),
    ]
    # Other work has other levels, which stand beside the correlations.
    levels = {one["metric"]: one for one in found["levels"]["B"]}
    assert levels["PAPI_TOT_INS"]["ratio"] > 0.05
    assert levels["PAPI_TOT_INS"]["low"] > 0
    assert done.stdout.splitlines()[-1].startswith("B has ")
    assert "Totals of a run, and how much B differs" in done.stdout
    page = (programs / "campaigns" / "one-and-other" / "report.html").read_text()
    assert "Measuring changed the program" not in page
    assert 'id="totals"' in page
    # The spec that was written is the campaign's; the same command goes on.
    again = unperturbed(programs, "run", "campaigns/one-and-other.yaml")
    assert "10 runs are already done" in again.stderr
    typed = (programs / "campaigns" / "one-and-other.yaml").read_text().splitlines()[0].partition("unperturbed ")[2]
    assert "continuing the campaign of" in unperturbed(programs, *typed.split()).stderr


def test_the_same_program_by_another_name_does_not(programs: Path) -> None:
    done = unperturbed(programs, "compare", *FEW, "--", "./one", "25", "--", "./same", "25")
    assert done.returncode in (0, 4), done.stderr
    found = verdicts(programs / "campaigns" / "one-and-same")
    (verdict,) = found["verdicts"]
    # Five runs vary enough for a change to be shown by chance; what the program executes does not vary.
    assert done.returncode == (4 if verdict["verdict"] == "perturbed" else 0)
    levels = {one["metric"]: one for one in found["levels"]["B"]}
    assert abs(levels["PAPI_TOT_INS"]["ratio"]) < 0.005


def test_an_option_of_this_command_among_the_words_of_a_program_is_noted(programs: Path) -> None:
    done = unperturbed(programs, "compare", "--dry-run", "--", "./one", "25", "--", "./same", "25", "--open")
    assert done.returncode == 0, done.stderr
    assert "the program gets --open, which follows --" in " ".join(done.stderr.split())
    done = unperturbed(programs, "compare", "--dry-run", "--", "./one", "25", "--", "./same", "--fail")
    assert "the program gets" not in done.stderr


def test_a_second_program_that_is_too_short_is_named_after_the_pilot_run(programs: Path) -> None:
    # Few instructions that take long: the unmeasured runs do not refuse the program.
    text = (programs / "one.c").read_text().replace("turn < 2500000", "turn < 1500000")
    (programs / "brief.c").write_text(text)
    subprocess.run(["gcc", "-O1", "-o", "brief", "brief.c"], cwd=programs, check=True)
    done = unperturbed(programs, "compare", *FEW, "--name", "brief", "--", "./one", "25", "--", "./brief", "1")
    assert done.returncode == 1, done.stderr
    assert re.search(r"the pilot run of B has \d+ intervals of .*, but a verdict needs at least 30: ", done.stderr)
    assert re.search(r"give B [\d.]+ times as much work", done.stderr)
    assert not done_runs(programs / "campaigns" / "brief")


def test_the_advised_number_of_runs_shortens_an_interrupted_plan(programs: Path) -> None:
    options = ("--name", "shorter", *FEW[2:], "--", "./one", "25", "--", "./same", "25")
    campaign, spec = programs / "campaigns" / "shorter", programs / "campaigns" / "shorter.yaml"
    first = Forked(programs, "compare", *options)
    deadline = time.monotonic() + 200
    while len(done_runs(campaign)) < 2 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    first.communicate()
    assert "baseline_runs: 10 " in spec.read_text()
    refused = unperturbed(programs, "compare", "--runs", "4", "--dry-run", *options)
    assert "in the options before --: --runs is 4, but must be at least 5" in refused.stderr
    shorter = unperturbed(programs, "compare", "--runs", "5", *options)
    assert "--runs 5: campaigns/shorter.yaml has baseline_runs: 5 now (10 before)" in shorter.stderr
    assert "10 runs (baseline 5, B 5)" in shorter.stderr
    assert len(done_runs(campaign)) == 10
    with Manifest(campaign / "campaign.sqlite", read_only=True) as manifest:
        rounds = Counter(state.run.block for state in manifest.runs())
    assert {*rounds.values()} == {2}
    fewest = unperturbed(programs, "compare", "--runs", "3", "--dry-run", *options)
    assert "--runs 3: campaigns/shorter.yaml still has baseline_runs: 5; 5 runs are already made" in fewest.stderr


def test_what_is_otherwise_in_a_set_up(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs)
    by_variable = describe_comparison(["./one", "60"], ["env", "MALLOC_ARENA_MAX=1", "./one", "60"], Choices())
    spec = parse_spec(by_variable.text("x"), "x.yaml", programs)
    assert spec.name == "one-and-second"
    assert dict(spec.programs["B"].environment) == {"MALLOC_ARENA_MAX": "1"}
    assert spec.programs["B"].run == f"{programs}/one 60"
    changed = spec.of_program("B").program
    assert changed.environment["MALLOC_ARENA_MAX"] == "1"
    assert changed.working_folder == spec.program.working_folder == str(programs)
    assert spec.of_program("").program == spec.program


def test_a_program_against_itself_has_noise_alone(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(programs)
    said = {}
    for second in ("60", "61"):
        drafted = describe_comparison(["./one", "60"], ["./one", second], Choices())
        spec = parse_spec(drafted.text("x"), "x.yaml", programs)
        other = next(item for item in configurations(spec) if item.program == "B")
        said[second] = describe_configuration(other, spec)
    assert said == {
        "60": "is the same program again",
        "61": f"is a different set-up of the program (run: {programs}/one 61)",
    }


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "./one"], 2, "give two commands"),
        (["--", "./one", "--"], 2, "give two commands"),
        ([], 2, "give two commands"),
        (["--", "./one", "--", "./nothing"], 2, "./nothing does not exist"),
        (["--runs", "3", "--", "./one", "--", "./same"], 2, "--runs is 3, but must be at least 5"),
    ],
)
def test_what_cannot_be_compared(programs: Path, words: list[str], code: int, said: str) -> None:
    done = unperturbed(programs, "compare", *words)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_tool_that_starts_the_program_takes_a_real_counter(programs: Path) -> None:
    done = unperturbed(programs, "compare", "--dry-run", "--", "./one", "--", "nice", "-n", "1", "./one")
    if done.returncode == 0:  # on a host with a PMU
        assert "baseline 10, B 10" in done.stdout
    else:
        assert (done.returncode, "host with hardware counters" in done.stderr) == (3, True)


def test_the_sampler_is_in_the_program_that_a_tool_starts(programs: Path) -> None:
    """By counters of the operating system, which every host has: traces, and no verdict."""
    (programs / "late").write_text('#!/bin/sh\n"$@"\nsleep 0.6\n')  # as perf, which writes when the program has ended
    (programs / "late").chmod(0o755)
    (programs / "wrapped.yaml").write_text(
        f"name: wrapped\nprogram: {{run: '{programs}/one 300', result: any}}\nprograms:\n"
        f"  late: {{run: '{programs}/late {programs}/one 300', sampled: one}}\n"
        "measure: {interval: 2 ms, os: [minor_faults, user_time_us]}\ncampaign: {baseline_runs: 5}\n"
    )
    done = unperturbed(programs, "run", "wrapped.yaml")
    assert done.returncode == 0, done.stderr
    traces = [
        Trace.read(path)
        for path in sorted((programs / "campaigns/wrapped/runs").glob("*/trace.parquet"))
        if path.parent.name != "0000"
    ]
    lengths = {
        name: [len(trace) for trace in traces if trace.attributes["configuration"] == name]
        for name in ("baseline", "late")
    }
    assert len(lengths["baseline"]) == len(lengths["late"]) == 5
    assert min(lengths["late"]) > 0.3 * max(lengths["baseline"])


def test_a_sampler_outside_would_count_the_tool_too(programs: Path) -> None:
    (programs / "outside.yaml").write_text(
        f"name: outside\nprogram: {{run: {programs}/one 300}}\n"
        f"programs:\n  nice: {{run: nice {programs}/one 300, sampled: one}}\n"
        'measure: {sampler: outside, interval: 2 ms, hardware: ["perf::task-clock"]}\ncampaign: {baseline_runs: 5}\n'
    )
    done = unperturbed(programs, "run", "outside.yaml")
    told = " ".join(done.stderr.split())
    assert done.returncode == 2, done.stderr
    assert "outside.yaml:5:20: `run` starts nice through another program, and `sampler: outside` counts all" in told


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_hands_the_samplers_signal_on(programs: Path) -> None:
    """By counters of the kernel, which give levels and no verdict; with counters of a processor: tests/pmu."""
    options = ("--runs", "5", "--interval", "2 ms", "--metrics", "perf::page-faults,perf::task-clock")
    debugged = ("gdb", "-nx", "-batch", "-ex", "run", "--args", "./one", "300")
    done = unperturbed(programs, "compare", *options, "--", "./one", "300", "--", *debugged)
    assert done.returncode == 0, done.stderr
    assert "signal: 23" in (programs / "campaigns" / "one-and-gdb.yaml").read_text()
    found = verdicts(programs / "campaigns" / "one-and-gdb")
    assert {one["metric"] for one in found["levels"]["B"]} == {"perf::page-faults", "perf::task-clock"}
    assert {run["state"] for run in found["runs"]} == {"done"}


def test_programs_of_a_spec_are_built_each_by_its_own_command(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path,
        **PLAIN,
        program__build="make CC={cc}",
        program__run="{build}/phases 19",
        campaign__baseline_runs=5,
    )
    text = spec.read_text()
    spec.write_text(
        f"{text}\nprograms:\n  plain: {{build: \"make CC={{cc}} CFLAGS='-O0 -g'\"}}\n"
        "  fewer: {run: '{build}/phases 18', environment: {X: '1'}}\n"
    )
    done = unperturbed(tmp_path, "run", "spec.yaml")
    assert done.returncode in (0, 4), done.stderr
    assert "15 runs (baseline 5, plain 5, fewer 5)" in done.stderr
    said = verdicts(tmp_path / "campaigns" / "phases")
    found = {one["configuration"]: one["verdict"] for one in said["verdicts"]}
    assert found.keys() == {"plain", "fewer"}
    assert done.returncode == (4 if "perturbed" in found.values() else 0)
    # Each was built and run by its own command: -O0 executes far more, one round of 19 less only its own part.
    ratios = {name: one["ratio"] for name in found for one in said["levels"][name] if one["metric"] == "PAPI_TOT_INS"}
    assert ratios["plain"] > 0.5
    assert -0.05 < ratios["fewer"] < -0.005
    # A program that changes is another campaign.
    spec.write_text(spec.read_text().replace("-O0 -g", "-O0"))
    assert "contains a campaign of another spec" in unperturbed(tmp_path, "run", "spec.yaml").stderr


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ("{a: {}}", "`a` does not differ from `program`"),
        ("{baseline: {run: sh -c x}}", "`baseline` is a reserved name: choose another name"),
        ("{sham-a: {run: sh -c x}}", "are reserved for shams"),
        ("{a: {run: 'sh -c x | cat'}}", "needs a shell, but `run` runs without one"),
        ("{a: {run: '{biuld}/x'}}", "unknown placeholder `{biuld}`; did you mean `{build}`?"),
        ("{a: {build: make}}", "`program:` has no `build`"),
        ("{a: {rnu: sh}}", "unknown key `rnu`"),
    ],
)
def test_faults_of_programs(tmp_path: Path, programs: str, said: str) -> None:
    text = f"name: x\nprogram: {{run: sh -c true}}\nprograms: {programs}\nmeasure: {{os: [minor_faults]}}\n"
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(text, "s.yaml", tmp_path)
    assert said in str(caught.value)


def test_a_sweep_has_no_other_programs(tmp_path: Path) -> None:
    text = (
        "name: x\nparameters: {n: [1, 2]}\nprogram: {run: 'sh -c {parameters.n}'}\n"
        "programs: {a: {run: 'sh -c x {parameters.n}'}}\nmeasure: {os: [minor_faults]}\n"
    )
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(text, "s.yaml", tmp_path)
    assert "which gives no verdict: remove `programs` or `parameters`" in str(caught.value)
