"""The gate for pipelines, run as a runner does: a repository with a program, and three changes of it.

What the script does around a measurement is tried with `unperturbed` replaced by a script that measures nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
static unsigned keys[6000];
static int by_key(const void *a, const void *b)
{
    unsigned one = *(unsigned *)a, other = *(unsigned *)b;
    return (one > other) - (one < other);
}
int main(void)
{
    unsigned seed = 7, sum = 0;
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 6000; i++) keys[i] = (seed = seed * 1664525u + 1013904223u) >> 8;
        qsort(keys, 6000, sizeof *keys, by_key);
        for (int i = 0; i < 6000; i += 9) sum = sum * 31 + keys[i];
    }
    printf("%u\\n", sum);
    return 0;
}
"""
INSERTION = """\
        for (int i = 1; i < 700; i++)
            for (int j = i; j > 0 && keys[j - 1] > keys[j]; j--) {
                unsigned key = keys[j];
                keys[j] = keys[j - 1];
                keys[j - 1] = key;
            }
"""
SORT = "        qsort(keys, 6000, sizeof *keys, by_key);\n"
CHANGES = {
    "slower": (PROGRAM.replace(SORT, INSERTION + SORT), 4),
    "no slower": (PROGRAM.replace("sum * 31", "31 * sum"), 0),
    "within the tolerance": (PROGRAM.replace(SORT, SORT + '        __asm__ volatile("");\n'), 0),
}
SPEC = {
    "name": "gate",
    "program": {"source": "base", "build": "make CC={cc}", "run": "{build}/sorter"},
    "programs": {"change": {"source": "change"}},
    "measure": {"interval": {"records": 40}, "hardware": ["PAPI_TOT_INS", "PAPI_L1_DCM"], "source": "simulated"},
    "campaign": {"baseline_runs": 5, "runs": 5, "seed": 1},
    "analysis": {
        "totals": {"PAPI_TOT_INS": "1 %", "default": "10 %"},
        "fail_on": {"totals": "perturbed", "correlations": "never"},
    },
}

STAND_IN = """\
#!/bin/sh
case $1 in
run) mkdir campaign; : >campaign/report.html; exec sh -c "$RUN" ;;
report) for out; do :; done; echo "a report" >"$out" ;;
esac
"""


def git(folder: Path, *words: str) -> None:
    names = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env={**os.environ, **names})


def start_gate(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{plain['PATH']}"
    command = [str(ROOT / "tools" / "gate.sh"), *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**plain, "PATH": path, **environment},
    )


def gate(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    process = start_gate(folder, *words, **environment)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def commit(folder: Path) -> None:
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "base")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    (folder / "sorter.c").write_text(PROGRAM)
    (folder / "Makefile").write_text("sorter: sorter.c\n\t$(CC) -O2 -o $@ $<\n")
    (folder / "gate.yaml").write_text(yaml.safe_dump(SPEC))
    commit(folder)
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a repository with one commit."""
    folder = tmp_path / "small"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "c.txt", "d.txt", "-dash.yaml"):
        (folder / name).write_text("committed\n")
    commit(folder)
    return folder


@pytest.fixture
def stand_in(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `unperturbed run` does what the variable RUN holds, in the gate's folder."""
    script = tmp_path / "bin" / "unperturbed"
    script.parent.mkdir()
    script.write_text(STAND_IN)
    script.chmod(0o755)
    return {"PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}", "RUN": "exit 0"}


@pytest.mark.parametrize("name", ["slower", "no slower", pytest.param("within the tolerance", marks=pytest.mark.long)])
def test_a_change_passes_or_fails_by_what_it_costs(repository: Path, tmp_path: Path, name: str) -> None:
    text, wanted = CHANGES[name]
    git(repository, "checkout", "--quiet", "-B", "change", "main")
    (repository / "sorter.c").write_text(text)
    git(repository, "commit", "--quiet", "-am", name)
    page = tmp_path / "summary.md"
    done = gate(repository, "gate.yaml", "main", GITHUB_STEP_SUMMARY=str(page))
    assert done.returncode == wanted, done.stderr
    assert "### Totals of whole runs" in page.read_text()
    assert page.read_text() == (repository / "gate" / "report.md").read_text()
    assert (repository / "gate" / "report.html").is_file()
    suite = ET.parse(repository / "gate" / "report.xml").getroot()
    (case,) = suite.findall(".//testcase[@classname='gate.change'][@name='totals']")
    assert (case.find("failure") is not None) == (wanted == 4)
    assert (repository / "gate" / "change" / "sorter.c").read_text() == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "usage: tools/gate.sh SPEC [BASE]"),
        (("missing.yaml",), "gate: missing.yaml does not exist: name the spec of the measurement"),
        (("gate.yaml", "elsewhere"), "gate: there is no commit elsewhere here: fetch it"),
    ],
)
def test_what_is_missing_is_named(repository: Path, words: tuple[str, ...], message: str) -> None:
    done = gate(repository, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_folder_of_the_repository_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "gate" / "base").mkdir(parents=True)
    (tmp_path / "gate" / "base" / "kept.txt").write_text("mine")
    (tmp_path / "gate.yaml").write_text(yaml.safe_dump(SPEC))
    commit(tmp_path)
    done = gate(tmp_path, "gate.yaml", "HEAD")
    assert (done.returncode, "is not a folder of this script" in done.stderr) == (2, True)
    assert (tmp_path / "gate" / "base" / "kept.txt").read_text() == "mine"


def test_outside_of_a_repository_there_is_nothing_to_fetch(tmp_path: Path, stand_in: dict[str, str]) -> None:
    (tmp_path / "gate.yaml").touch()
    done = gate(tmp_path, "gate.yaml", GIT_CEILING_DIRECTORIES=str(tmp_path.parent), **stand_in)
    assert (done.returncode, "gate: git finds no repository in" in done.stderr) == (2, True)
    git(tmp_path, "init", "--quiet")
    done = gate(tmp_path, "gate.yaml", **stand_in)
    assert (done.returncode, done.stderr) == (
        2,
        f"gate: {tmp_path} has no commits: commit the program, and then the change to measure\n",
    )
    commit(tmp_path)
    done = gate(tmp_path, "gate.yaml", **stand_in)
    assert (done.returncode, "gate: HEAD is the first commit of" in done.stderr) == (2, True)
    assert not (tmp_path / "gate").exists()


def test_a_missing_tool_is_named_before_anything_is_checked_out(small: Path) -> None:
    done = gate(small, "-dash.yaml", "HEAD", PATH=str(small))
    assert (done.returncode, "gate: there is no unperturbed on PATH: install it" in done.stderr) == (2, True)
    assert not (small / "gate").exists()


@pytest.mark.parametrize("code", [0, 4])
def test_a_summary_that_cannot_be_written_leaves_the_verdict(
    small: Path, stand_in: dict[str, str], tmp_path: Path, code: int
) -> None:
    page = tmp_path / "missing" / "summary.md"
    stand_in |= {"RUN": f"exit {code}", "GITHUB_STEP_SUMMARY": str(page)}
    done = gate(small, "-dash.yaml", "HEAD", **stand_in)
    assert done.returncode == code
    assert f"gate: warning: cannot write to {page} (GITHUB_STEP_SUMMARY)" in done.stderr
    assert "a report" in (small / "gate" / "report.md").read_text()


def test_a_failed_gate_leaves_no_report_of_an_earlier_one(small: Path, stand_in: dict[str, str]) -> None:
    assert gate(small, "-dash.yaml", "HEAD", **stand_in).returncode == 0
    assert {path.suffix for path in (small / "gate").glob("report.*")} == {".html", ".md", ".xml"}
    done = gate(small, "-dash.yaml", "HEAD", **{**stand_in, "RUN": "exit 1"})
    assert (done.returncode, done.stderr) == (1, "")
    assert not list((small / "gate").glob("report.*"))


def test_one_gate_at_a_time_which_ends_what_it_started(small: Path, stand_in: dict[str, str]) -> None:
    waits = {**stand_in, "RUN": "echo $$ >pid.new; mv pid.new pid; exec sleep 300"}
    pid = small / "gate" / "pid"
    with start_gate(small, "-dash.yaml", "HEAD", **waits) as first:
        try:
            while not pid.exists() and first.poll() is None:
                time.sleep(0.01)
            second = gate(small, "-dash.yaml", "HEAD", **stand_in)
            assert (second.returncode, second.stdout) == (2, "")
            assert second.stderr.startswith(f"gate: another gate is at work in {small}/gate: wait until it ends")
            assert (small / "gate" / "change" / "a.txt").exists()
        finally:
            first.send_signal(signal.SIGTERM)
        assert first.wait() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert gate(small, "-dash.yaml", "HEAD", **stand_in).returncode == 0


def test_what_the_gate_starts_can_be_interrupted(small: Path, stand_in: dict[str, str]) -> None:
    done = gate(small, "-dash.yaml", "HEAD", **{**stand_in, "RUN": "kill -INT $$; exit 1"})
    assert done.returncode == 128 + signal.SIGINT


def test_submodules_are_checked_out(small: Path, stand_in: dict[str, str], tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "n.h").write_text("#define N 1\n")
    commit(library)
    git(small, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(small, "commit", "--quiet", "-m", "with a submodule")
    stand_in["RUN"] = "cat change/lib/n.h; test ! -e base/lib"
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    for _ in range(2):
        done = gate(small, "-dash.yaml", **stand_in, **allowed)
        assert (done.returncode, done.stdout, done.stderr) == (0, "#define N 1\n", "")
    library.rename(tmp_path / "moved")
    done = gate(small, "-dash.yaml", **stand_in, **allowed)
    assert done.returncode == 2
    assert "gate: git cannot check out the submodules of" in done.stderr


def test_uncommitted_changes_are_noted(small: Path, stand_in: dict[str, str]) -> None:
    for name in ("a.txt", "-dash.yaml", "untracked.txt"):
        (small / name).write_text("changed\n")
    note = "gate: note: uncommitted changes are not measured: the gate measures HEAD"
    stand_in["RUN"] = "cat gate.yaml change/a.txt"
    done = gate(small, "-dash.yaml", "HEAD", **stand_in)
    assert (done.returncode, done.stdout, done.stderr) == (0, "changed\ncommitted\n", f"{note} (a.txt)\n")
    for name in ("b.txt", "c.txt", "d.txt"):
        (small / name).unlink()
    done = gate(small, "-dash.yaml", "HEAD", **stand_in)
    assert (done.returncode, done.stderr) == (0, f"{note} (a.txt, b.txt, c.txt and 1 more)\n")


def test_the_action_calls_the_script_with_its_inputs() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (measure,) = (step for step in action["runs"]["steps"] if step["name"] == "Measure")
    assert set(measure["env"]) == {"ACTION", "SPEC", "BASE"}
    named = {f"inputs.{name}" for name in action["inputs"]}
    used = {
        word for step in action["runs"]["steps"] for word in str(step).replace("}", " ").split() if "inputs." in word
    }
    assert used == named
    assert action["runs"]["using"] == "composite"
    assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)
