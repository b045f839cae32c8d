"""`unperturbed run -- ./program`: a verdict, a report and the spec without writing one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.phases_campaign import PHASES, unperturbed, verdicts
from unperturbed.harness.spec.load import load_spec

FEW = ("--runs", "3", "--baseline-runs", "5", "--metrics", "PAPI_TOT_INS,PAPI_L1_DCM,PAPI_BR_MSP")

SLOW = (
    "volatile long double slow = 2;\n        for (int turn = 0; turn < 60000; turn++)\n            slow = 1 + 1 / slow;"
)
"""Much CPU time for few instructions, which are simulated: `run` refuses programs of some ms."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The phases program, which reads a file of the folder that it is called in and allocates in every round."""
    folder = tmp_path_factory.mktemp("program")
    text = (PHASES / "phases.c").read_text()
    text = text.replace(
        "begin_round(round);", f"begin_round(round);\n        free(malloc(round + 9000));\n        {SLOW}"
    )
    text = text.replace("int rounds =", 'if (fopen("input.txt", "r") == NULL)\n        return 9;\n    int rounds =')
    (folder / "phases.c").write_text(text)
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", "phases", "phases.c"], cwd=folder, check=True)
    (folder / "input.txt").write_text("here\n")
    return folder


def test_from_a_command_to_a_verdict_and_its_spec(program: Path) -> None:
    done = unperturbed(program, "run", *FEW, "--", "./phases", "40")
    assert done.returncode in (0, 4), done.stderr
    assert "verdicts per configuration" in done.stdout
    assert "spec:   campaigns/phases.yaml (edit it to continue)" in done.stdout
    campaign = program / "campaigns" / "phases"
    assert (campaign / "report.html").is_file()
    found = verdicts(campaign)
    assert [verdict["configuration"] for verdict in found["verdicts"]] == ["calls"]
    spec = load_spec(program / "campaigns" / "phases.yaml")
    assert spec.program.run == f"{program}/phases 40"
    assert spec.measure.software["calls_malloc"].target == "malloc"
    assert (spec.campaign.baseline_runs, spec.campaign.runs) == (5, 3)
    totals = {line.split()[0]: line.split()[2] for line in done.stdout.splitlines() if "calls_malloc" in line}
    assert totals["calls_malloc"] != "counts"
    # The same command goes on, and has nothing to do.
    again = unperturbed(program, "run", *FEW, "--json", "--", "./phases", "40")
    assert again.returncode == done.returncode
    assert "continuing the campaign of campaigns/phases.yaml" in again.stderr
    assert "8 runs are already done" in again.stderr
    assert json.loads(again.stdout)["campaign"] == "phases"
    # So does its spec; another command has a campaign of its own.
    by_spec = unperturbed(program, "run", "campaigns/phases.yaml")
    assert "8 runs are already done" in by_spec.stderr
    other = unperturbed(program, "run", *FEW, "--", "./phases", "1")
    assert other.returncode == 1
    assert "too short for enough intervals" in other.stderr
    assert not (program / "campaigns" / "phases-2.yaml").exists()


def test_a_program_that_prints_another_thing_each_time_and_ends_otherwise(tmp_path: Path) -> None:
    (tmp_path / "work.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n"
        "int main(void) {\n    struct timespec now;\n    char read[80];\n    clock_gettime(CLOCK_REALTIME, &now);\n"
        '    printf("%ld %s %s\\n", now.tv_nsec, getenv("WORK"), fgets(read, sizeof read, stdin));\n'
        "    long double slow = 2;\n    for (long i = 0; i < 5000000; i++)\n        slow = 1 + 1 / slow;\n"
        "    for (int i = 0; i < 500; i++)\n        free(malloc(i + 9000));\n    return slow > 3 ? 0 : 3;\n}\n"
    )  # divisions: much time for few instructions, which are simulated
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", "work", "work.c"], cwd=tmp_path, check=True)
    (tmp_path / "in.txt").write_text("read me")
    words = ["run", *FEW, "--env", "WORK=hard", "--interval", "100", "--", "./work"]
    with (tmp_path / "in.txt").open() as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "unperturbed.harness.cli", *words],
            cwd=tmp_path,
            stdin=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
            env=os.environ,
        )
    assert done.returncode in (0, 4), done.stderr
    said = " ".join(done.stderr.split())
    assert "the program ends with exit code 3, and the spec expects this code" in said
    assert "the program's output differs between runs" in said
    (written,) = (tmp_path / "campaigns").glob("*.yaml")
    spec = load_spec(written)
    assert (spec.program.exit_code, spec.program.result) == (3, "any")
    assert spec.program.environment["WORK"] == "hard"
    assert spec.program.stdin == str(tmp_path / "in.txt")
    assert str(spec.measure.interval) == "{records: 100}"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give a spec (unperturbed run SPEC) or a program after --"),
        (["x.yaml", "--", "ls"], 2, "not both"),
        (["--runs", "3", "x.yaml"], 2, "--runs can be used only with a program after --"),
        (["--", "./nothing"], 2, "./nothing does not exist"),
        (["--", "python3", "nothing.py"], 2, "nothing.py: no such file"),
        (["--", "python3", "-u", "nothing.py"], 2, "nothing.py: no such file"),
        (["--", "env", "X=1", "bash", "nothing.sh"], 2, "nothing.sh: no such file"),
        (["--", "awk", "-f", "nothing.awk"], 2, "a program or file is missing or cannot be opened. The program wrote"),
        (["--", "sh", "-c", "./nothing.sh"], 2, "set `exit_code: 127` in it"),
        (["--runs", "2", "--", "true"], 2, "in the options before --: --runs is 2, but must be at least 3"),
        (["--until", "decided", "--runs", "9", "--", "true"], 2, "remove --runs and --baseline-runs"),
        (["--max-runs", "20", "--", "true"], 2, "--max-runs needs --until decided"),
        (["--until", "decided", "--max-runs", "0", "--", "true"], 2, "--max-runs is 0, but must be at least 10"),
        (["--", "mkdir", "made"], 1, 'set `working_folder: "{scratch}"` in it'),
        (["--", "mkdir", "made"], 1, "lists all calls that it may make: keep a few), set `working_folder"),
        (["--", "sh", "-c", "kill -SEGV $$"], 1, "was killed by signal 11 in an unmeasured run"),
        (["--", "true"], 1, "too short for enough intervals"),
        (["--env", "NO_SUCH_VARIABLE", "--", "true"], 2, "use --env NO_SUCH_VARIABLE=VALUE"),
        (["--interval", "5 m", "--", "true"], 2, "`m` is not a unit for a duration"),
        (["--metrics", "PAPI_TOT_INSS", "--", "true"], 2, "did you mean `PAPI_TOT_INS`?"),
        (["--metrics", "bogus", "--", "true"], 2, "unperturbed: in the options before --: unknown metric `bogus`;"),
        (["--metrics", "cylces", "--", "true"], 2, "did you mean perf's `cycles`? Its name here is `PAPI_TOT_CYC`"),
        (
            ["--metrics", "perf::cylces", "--", "true"],
            2,
            "in the options before --: perf has no event 'cylces'; did you",
        ),
        (
            ["--count", "nosuchf", "--", "true"],
            2,
            "unperturbed: --count nosuchf: no library that /usr/bin/true loads at",
        ),
        # What nothing here counts is found before the program runs, and nothing is left of the attempt.
        (
            [
                "--source",
                "simulated",
                "--metrics",
                "perf::page-faults",
                "--",
                sys.executable,
                "-c",
                "sum(range(10**6))",
            ],
            3,
            "cannot be counted on this host",
        ),
    ],
)
def test_what_cannot_be_run(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    done = unperturbed(tmp_path, "run", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("campaigns/*"))
    if "--metrics" in words and code == 2:
        assert "running the program" not in done.stderr


def test_a_faulty_option_announces_no_new_campaign(tmp_path: Path) -> None:
    """A note on another campaign's name is true only if a campaign is made."""
    (tmp_path / "campaigns" / "true").mkdir(parents=True)
    for words in (
        ["--metrics", "PAPI_TOT_IN"],
        ["--count", "nosuchf"],
        ["--interval", "3q"],
        ["--interval", "3q", "--dry-run"],
    ):
        done = unperturbed(tmp_path, "run", *words, "--", "true")
        assert (done.returncode, "note:" in done.stderr) == (2, False), done.stderr
    shown = unperturbed(tmp_path, "run", "--dry-run", "--", "true")
    assert "this campaign is written to campaigns/true-2" in shown.stderr
    assert [path.name for path in (tmp_path / "campaigns").iterdir()] == ["true"]
