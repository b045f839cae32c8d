"""The doctor on this host through the command line, and that it changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.phases_campaign import unperturbed, write_spec
from unperturbed.harness.host.checks.counting import core_pmus, tracepoints
from unperturbed.harness.host.doctor import REAL, detect_host, find_tool


def report(done: subprocess.CompletedProcess[str], code: int) -> dict[str, Any]:
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_this_host_and_a_spec_as_text(tmp_path: Path) -> None:
    done = unperturbed(tmp_path, "doctor", write_spec(tmp_path))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert {"Available counters", "Sources of noise"} <= set(lines)
    for subject in (
        "PMU",
        "permission",
        "container",
        "libpapi",
        "valgrind",
        "governor",
        "load",
        "swap",
        "clock",
        "pyperf",
    ):
        assert any(re.match(rf"  [✓!✗] {subject} ", line) for line in lines), subject
    assert "Nothing was changed" in done.stdout
    assert "  PAPI_L1_DCM    simulated (callgrind)   main       " in lines
    assert "✓ can run here: 13 runs" in lines


def test_this_host_as_json(tmp_path: Path) -> None:
    found = report(unperturbed(tmp_path, "doctor", "--json"), 0)
    assert set(found) == {"format", "counting", "noise", "spec"}
    assert found["format"] == 1
    assert found["spec"] is None
    for finding in (*found["counting"], *found["noise"]):
        assert set(finding) == {"subject", "status", "what", "why", "mend"}
        assert finding["status"] in ("good", "note", "bad")
    by_subject = {finding["subject"]: finding for finding in found["counting"]}
    if not core_pmus(REAL):
        assert by_subject["PMU"]["status"] == "bad"


def test_without_rights_the_level_decides(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("rights can be dropped by root only")
    command = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        sys.executable,
        "-m",
        "unperturbed.harness.cli",
        "doctor",
        "--json",
    ]
    found = report(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False), 0)
    permission = next(finding for finding in found["counting"] if finding["subject"] == "permission")
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    assert permission["status"] == ("good" if level < 2 else "note" if level == 2 else "bad")
    assert permission["mend"] == (None if level < 2 else "sysctl kernel.perf_event_paranoid=1")


def test_a_spec_that_can_run_here(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, measure__hardware=["PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", "PAPI_TLB_DM"])
    found = report(unperturbed(tmp_path, "doctor", spec, "--json"), 0)["spec"]
    assert (found["name"], found["can_run"], found["exit_code"], found["problems"]) == ("phases", True, 0, [])
    assert [item["source"] for item in found["passes"]] == ["simulated", "simulated"]
    assert found["runs"] == 2 * (5 + 5 + 3) == sum(found["configurations"].values())
    passes = [item["name"] for item in found["passes"]]
    sources = {item["metric"]: (item["source"], item["passes"]) for item in found["metrics"]}
    assert sources["PAPI_TOT_INS"] == ("simulated", passes)
    assert sources["PAPI_TLB_DM"] == ("simulated", ["page-cache"])
    assert sources["minor_faults"] == ("getrusage", passes)
    assert sources["steps"] == ("compiled in", passes)
    # The estimate of cycles is not that of this machine in the other pass, so an IPC is only in the first.
    assert sources["IPC"] == ("computed", ["main"])
    assert not list(tmp_path.glob("campaigns")), "nothing is begun"


def test_a_spec_that_wants_a_pmu_where_there_is_none(tmp_path: Path) -> None:
    if core_pmus(REAL):
        pytest.skip("this host has a PMU")
    spec = write_spec(tmp_path, measure__source="papi", measure__interval="8 ms", campaign__max_runs=2)
    found = report(unperturbed(tmp_path, "doctor", spec, "--json"), 3)["spec"]
    assert not found["can_run"]
    assert found["passes"] == []
    # Each metric with its own reason, and the plan's size as well.
    asked = ["PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_BR_MSP", "PAPI_SR_INS", "PAPI_TOT_CYC"]
    assert [problem["what"].split()[0] for problem in found["problems"]] == [*asked, "the"]
    assert [problem["exit_code"] for problem in found["problems"]] == [*[3] * 5, 2]
    assert all("`source: auto`" in problem["why"] for problem in found["problems"][:5])


def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    spec = write_spec(tmp_path, program__build="make CC={cc} CXX={cxx}", program__prepare="make-corpus {inputs}/x")
    found = report(unperturbed(tmp_path, "doctor", spec, "--json", environment={"PATH": str(tools)}), 3)
    subjects = [problem["subject"] for problem in found["spec"]["problems"]]
    assert subjects[:5] == ["compiler", "compiler", "setpriv", "prepare", "build"]
    mends = {problem["subject"]: problem["mend"] for problem in found["spec"]["problems"]}
    assert mends["setpriv"] == "apt-get install util-linux"
    assert mends["build"] == "apt-get install make"
    valgrind = next(finding for finding in found["counting"] if finding["subject"] == "valgrind")
    assert valgrind["mend"] == "apt-get install valgrind"


def test_no_valgrind_for_a_simulated_spec(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/local/bin", "/usr/bin", "/bin"):
        for file in Path(folder).iterdir():
            if file.name != "valgrind" and not (tools / file.name).exists():
                (tools / file.name).symlink_to(file)
    found = report(
        unperturbed(tmp_path, "doctor", write_spec(tmp_path), "--json", environment={"PATH": str(tools)}), 3
    )["spec"]
    assert {problem["subject"] for problem in found["problems"]} == {"metric"}
    assert {problem["mend"] for problem in found["problems"]} == {"apt-get install valgrind"}


def test_a_wrong_spec(tmp_path: Path) -> None:
    for spec, said in (
        (tmp_path / "none.yaml", "no such file"),
        (write_spec(tmp_path, measure__interval="soon"), ":9:"),
    ):
        done = unperturbed(tmp_path, "doctor", spec)
        assert done.returncode == 2
        assert done.stdout == ""
        assert said in done.stderr or re.search(r":\d+:\d+: ", done.stderr)


WATCH = """
import os, sys
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
"os.truncate",
           "os.utime", "os.kill", "os.setxattr", "shutil.rmtree"}
seen = []
def watch(event, arguments):
    pipe = isinstance(arguments[0], int) if event == "open" else False
    if event == "open" and arguments[2] & WRITES and arguments[0] != os.devnull and not pipe:
        seen.append((event, str(arguments[0])))
    elif event in CHANGES:
        seen.append((event, str(arguments)))
sys.addaudithook(watch)
from unperturbed.harness.cli import main
code = main(["doctor", *sys.argv[1:]])
print(code, seen, file=sys.stderr)
"""


def watched(folder: Path, *arguments: str | Path) -> tuple[int, list[tuple[str, str]]]:
    import ast

    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCH, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    code, _, seen = done.stderr.strip().partition(" ")
    return int(code), ast.literal_eval(seen)


@pytest.fixture
def kernel_settings() -> Iterator[None]:
    """Hold every setting that a mending command could touch against what it was before."""
    places = ("/proc/sys/kernel", "/proc/sys/vm", "/sys/kernel/mm/transparent_hugepage")

    def settings() -> dict[str, str]:
        found = {}
        for place in places:
            for file in Path(place).glob("*"):
                if (
                    file.is_file()
                    and os.access(file, os.R_OK)
                    and file.stat().st_mode & 0o200
                    and "random" not in file.name
                ):
                    found[str(file)] = file.read_text(errors="replace")
        # These count by themselves, or belong to whoever forks.
        return {name: value for name, value in found.items() if not name.endswith(("ns_last_pid", "compact_memory"))}

    before = settings()
    yield
    assert settings() == before


@pytest.mark.usefixtures("kernel_settings")
def test_it_opens_nothing_for_writing(tmp_path: Path) -> None:
    assert watched(tmp_path) == (0, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("kernel_settings")
def test_with_a_spec_it_writes_in_its_cache_and_in_temporary_folders_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"TMPDIR": tmp_path / "temporary", "XDG_CACHE_HOME": tmp_path / "cache"}
    for name, folder in own.items():
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    spec = write_spec(tmp_path / "here", measure__source="auto", measure__interval="8 ms")
    before = sorted(map(str, (tmp_path / "here").rglob("*")))
    code, seen = watched(tmp_path, spec)
    assert code == 0
    assert seen
    for event, where in seen:
        place = where.removeprefix("(").removeprefix("PosixPath(").strip("'")
        # What is cleared in a temporary folder is named relative to it.
        relative = event in ("os.remove", "os.rmdir") and not place.startswith("/")
        assert relative or place.startswith(tuple(map(str, own.values()))), (event, where)
    assert sorted(map(str, (tmp_path / "here").rglob("*"))) == before
    assert list(own["TMPDIR"].iterdir()) == []


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "doctor.md").read_text()
    keys = (
        "format",
        "counting",
        "noise",
        "spec",
        "subject",
        "status",
        "what",
        "why",
        "mend",
        "name",
        "path",
        "can_run",
        "exit_code",
    )
    for key in (*keys, "problems", "runs", "configurations", "passes", "metrics", "metric", "source", "passed_over"):
        assert f"`{key}`" in page, key


def test_what_an_ordinary_user_may_not_look_into_is_a_finding_and_no_crash() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    root = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    closed = root / "sys/kernel/tracing"
    (closed / "events").mkdir(parents=True)
    tool = root / "closed"
    (tool / "bin").mkdir(parents=True)
    root.chmod(0o755)
    closed.chmod(0o700)
    tool.chmod(0o700)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.environ["PATH"] = f"/closed/bin:{os.environ['PATH']}"
            found = tracepoints.examine(detect_host(root))
            code = (
                0
                if found is not None and found.what.endswith("root only") and find_tool(root, "valgrind") is None
                else 2
            )
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(root)
    assert os.waitstatus_to_exitcode(status) == 0
