"""Campaigns on what runs already: a process or a cgroup, with and without a tool, sampled from outside."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import psutil
import pytest
import yaml

from unperturbed.collectors.data import Trace
from unperturbed.collectors.records.file import Setup, create_record_file, read_record_file
from unperturbed.collectors.runtime import build_observer
from unperturbed.collectors.sources import find_source
from unperturbed.errors import HostError, RunError, UnperturbedError
from unperturbed.harness.campaign.execution import run_campaign
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.program import attach as module
from unperturbed.harness.program.attach import find_target
from unperturbed.harness.program.process import Command
from unperturbed.harness.program.result import ProgramResult, check_outcome, result_digest
from unperturbed.harness.spec.load import load_spec
from unperturbed.harness.spec.sections._attach import Attach

_BUSY = """
import sys, threading, time
def work():
    while True:
        end = time.thread_time() + 0.002
        while time.thread_time() < end: pass
        time.sleep(0.002)
def more():
    while True:
        one = threading.Thread(target=lambda: time.sleep(0.01))
        one.start(); one.join()
for _ in range(int(sys.argv[1])): threading.Thread(target=work, daemon=True).start()
more()
"""
_ROOTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_TOOL = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("detached", flush=True), sys.exit(9)))
print("attached to", sys.argv[1], os.getpid(), flush=True)
time.sleep(100)
"""


_FIXED_WORK = """
#include <stdio.h>
#include <unistd.h>
static volatile long sum;
int main(void) {
    for (int i = 0; i < 4000; i++) { for (int n = 0; n < 1000; n++) sum += n; usleep(2000); }
    return getchar() != EOF; }
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOOL_STARTS_S", 0.8)


@pytest.fixture(scope="module")
def busy() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", _BUSY, "2"]) as process:
        time.sleep(0.5)
        yield process
        process.kill()


def write(folder: Path, attach: dict[str, Any], tool: str = "", **measure: Any) -> Path:
    (folder / "tool.py").write_text(_TOOL)
    hardware = ["perf::task-clock", "perf::context-switches"]
    measure = {"interval": "10 ms", "sampler": "outside", "hardware": hardware, **measure}
    program = {"attach": attach, "duration": "300 ms"}
    others = {"tool": {"tool": tool}} if tool else {}
    spec = {"name": "a", "program": program, "measure": measure, "programs": others, "campaign": {"baseline_runs": 5}}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return folder / "spec.yaml"


def run(spec: Path) -> dict[str, list[Trace]]:
    folder = spec.with_name("campaign")
    run_campaign(load_spec(spec), folder, create_autospec(Progress, instance=True))
    found: dict[str, list[Trace]] = {}
    for file in sorted(folder.glob("runs/[0-9]*/trace.parquet")):
        trace = Trace.read(file)
        if file.parent.name != "0000":
            found.setdefault(trace.attributes["configuration"], []).append(trace)
    return found


def _files_of(pid: int) -> list[str]:
    """Return the files that a process has mapped, in order."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line.split()[5] for line in lines if "/" in line]


def test_a_process_is_sampled_with_and_without_a_tool(tmp_path: Path, busy: subprocess.Popen[bytes]) -> None:
    loaded = _files_of(busy.pid)
    spec = write(
        tmp_path, {"pid": busy.pid}, f"{sys.executable} -S {{spec}}/tool.py {{pid}}", os=["voluntary_switches"]
    )
    found = run(spec)
    assert {name: len(runs) for name, runs in found.items()} == {"baseline": 5, "tool": 5}
    every = [trace for runs in found.values() for trace in runs]
    orders = {name: [trace.attributes["order"] for trace in runs] for name, runs in found.items()}
    assert max(orders["baseline"]) > min(orders["tool"])  # they alternate
    for trace in every:
        counted_s = trace["perf::task-clock"].sum() / 1e9  # threads that start meanwhile too
        # The kernel adds the time of a running thread to its process at the next tick.
        assert counted_s == pytest.approx(trace.attributes["cpu_s"], rel=0.3)
        assert trace.attributes["wall_seconds"] == pytest.approx(0.3, abs=0.1)
        assert "time_s" not in trace.attributes  # it would be the spec's
        assert 15 <= len(trace) <= 40
    assert _files_of(busy.pid) == loaded, "nothing is put into the process; its own memory may grow"
    for trace in found["tool"]:
        said = (tmp_path / "campaign/runs" / trace.attributes["run"] / "tool.stdout").read_text().splitlines()
        assert said[0].startswith(f"attached to {busy.pid} ")
        assert said[1] == "detached"
        assert not psutil.pid_exists(int(said[0].split()[-1]))


def test_an_attached_process_executes_no_instruction_more(tmp_path: Path) -> None:
    """Callgrind counts what the process itself executes: alone, and while it is sampled in five windows."""
    subprocess.run(["gcc", "-x", "c", "-", "-o", tmp_path / "work"], input=_FIXED_WORK.encode(), check=True)
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", tmp_path / "work"]
    executed = []
    for attached in (False, True):
        with subprocess.Popen(valgrind, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if attached:
                (runs,) = run(write(tmp_path, {"pid": process.pid})).values()
                assert any(trace["perf::task-clock"].sum() > 0 for trace in runs)  # it waits after its work
            _, said = process.communicate()
        assert process.returncode == 0, said
        executed.append(next(int(line.split()[-1]) for line in said.splitlines() if "Collected" in line))
    assert executed[0] == executed[1] > 4_000 * 1_000


def test_a_cgroup_is_sampled_as_a_whole(tmp_path: Path, busy: subprocess.Popen[bytes]) -> None:
    root = next((path for path in _ROOTS if (path / "cgroup.controllers").is_file()), None)
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("no cgroup of version 2 can be made here")
    group = root / f"unperturbed-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(busy.pid))
        found = run(write(tmp_path, {"cgroup": group.name}, hardware=["perf::context-switches"]))
        for trace in (trace for runs in found.values() for trace in runs):
            assert trace["perf::context-switches"].sum() > 50
            assert 0 < trace.attributes["cpu_s"] < 1.2
    finally:
        (root / "cgroup.procs").write_text(str(busy.pid))
        group.rmdir()


@pytest.mark.parametrize(("is_removed", "fate"), [(True, "was removed"), (False, "has no process any more")])
def test_a_cgroup_that_ends_during_a_run_is_named(tmp_path: Path, *, is_removed: bool, fate: str) -> None:
    root = next((path for path in _ROOTS if (path / "cgroup.controllers").is_file()), None)
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("no cgroup of version 2 can be made here")
    group = root / f"unperturbed-ending-{os.getpid()}"
    group.mkdir()
    events = find_source("perf_event").event("perf::context-switches")
    assert events is not None
    setup = Setup("perf_event", 10_000_000, "monotonic", (events,), sampler="outside", attached=True)
    record = tmp_path / "record"
    create_record_file(record, setup)

    def end() -> None:
        process.kill()
        process.wait()
        if is_removed:
            group.rmdir()

    with subprocess.Popen(["sleep", "100"]) as process:
        (group / "cgroup.procs").write_text(str(process.pid))
        try:
            window = module.Window(find_target(Attach(cgroup=group.name)), 1.0, (), {})
            observer = (str(build_observer("gcc", attached=True)), str(record), *window.arguments)
            threading.Timer(module.TOOL_STARTS_S + 0.5, end).start()
            files = tmp_path / "stdout", tmp_path / "stderr"
            outcome = module.watch(Command(observer, tmp_path, {}, *files, window=window), window)
        finally:
            process.kill()
            process.wait()
            if group.is_dir():
                group.rmdir()
    assert outcome.service is not None
    assert outcome.service.trouble.endswith(f"/{group.name}, which the run was attached to, {fate}")


@pytest.mark.parametrize(
    ("attach", "message"),
    [
        ({"pid": 1}, "another user's process; run as that user or as root, or with CAP_PERFMON"),
        ({"cgroup": "/"}, "a cgroup's events need root, CAP_PERFMON or kernel.perf_event_paranoid of 0 or less"),
    ],
)
def test_a_user_without_rights_reads_what_is_lacking(tmp_path: Path, attach: dict[str, Any], message: str) -> None:
    """As this user without any capability, whom the kernel lets count its own processes alone."""
    dropped = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    is_root = os.geteuid() == 0 and subprocess.run([*dropped, "true"], check=False).returncode == 0
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 1:
        pytest.skip("this kernel lets everybody count everything")
    spec = write(tmp_path, attach, hardware=["perf::page-faults:u"])
    command = [*(dropped if is_root else ()), Path(sys.executable).with_name("unperturbed"), "run", spec]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("unperturbed: "))
    assert message in error


@pytest.mark.parametrize(
    ("attach", "message"),
    [
        ({"pid": 4194303}, "there is no process 4194303"),
        ({"pid": os.getpid()}, "is this tool itself"),
        ({"cgroup": "no/such/group"}, "the cgroup no/such/group has no folder below /sys/fs/cgroup"),
        ({"unit": "no-such-unit"}, "systemctl is not installed here|no-such-unit (does not run|failed)"),
        ({"container": "no-such"}, "docker is not installed here|docker inspect --format .* no-such failed"),
    ],
)
def test_what_does_not_run_is_refused_by_name(tmp_path: Path, attach: dict[str, Any], message: str) -> None:
    spec = write(tmp_path, attach, "sleep 100", hardware=["perf::context-switches"])
    with pytest.raises(HostError, match=message):
        run(spec)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (
            "ls /no/such/file",
            "the tool ended with exit code 2 before the run began; its last output is:\n.*cannot access",
        ),
        ("sleep 1", "the tool ended with exit code 0 during the run; it printed nothing"),
        ("no-such-tool", "`tool`: no-such-tool: no such program"),
    ],
)
def test_a_tool_that_ends_is_named(tmp_path: Path, busy: subprocess.Popen[bytes], tool: str, message: str) -> None:
    with pytest.raises(UnperturbedError, match=message):
        run(write(tmp_path, {"pid": busy.pid}, tool))


def test_a_process_that_ends_during_a_run_is_named(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1.2"]) as process:
        with pytest.raises(UnperturbedError, match=r"the process ended before|has ended"):
            run(write(tmp_path, {"pid": process.pid}, "sleep 100", interval="20 ms"))
        process.kill()


def test_a_process_that_executes_another_program_is_named(tmp_path: Path) -> None:
    """As its number that another process got; a campaign that was begun by an earlier version is not refused."""
    spec = load_spec(write(tmp_path, {"pid": 1}))
    code = "import os, sys\nsys.stdin.read(1)\nos.execv('/bin/sleep', ['sleep', '100'])\n"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE) as process:
        window = module.Window(find_target(Attach(pid=process.pid)), 0.1, (), {})
        command = Command((), tmp_path, {}, tmp_path / "stdout", tmp_path / "stderr", window=window)
        first = ProgramResult(0, result_digest(spec, command))
        outcome = module.watch(command, window)
        check_outcome(spec, command, outcome, first)
        assert process.stdin is not None
        process.stdin.close()
        deadline = time.monotonic() + 10
        while "sleep" not in psutil.Process(process.pid).name():
            assert time.monotonic() < deadline
        with pytest.raises(RunError, match=r"is not the one of the first run: now started .*/sleep; then started"):
            check_outcome(spec, command, outcome, first)
        check_outcome(spec, command, outcome, ProgramResult(0, "any"))
        process.kill()


@pytest.mark.parametrize(("number", "message"), [(signal.SIGSTOP, "is stopped"), (signal.SIGKILL, "has ended")])
def test_a_process_that_does_not_run_is_named(number: signal.Signals, message: str) -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        process.send_signal(number)
        deadline = time.monotonic() + 10
        while psutil.Process(process.pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
            assert time.monotonic() < deadline
        with pytest.raises(HostError, match=f"process {process.pid} {message}"):
            find_target(Attach(pid=process.pid))
        process.kill()


def test_a_process_that_is_stopped_during_a_run_is_named(
    tmp_path: Path, busy: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOOL_STARTS_S", 0.2)
    stop = threading.Timer(0.35, busy.send_signal, [signal.SIGSTOP])
    files = tmp_path / "stdout", tmp_path / "stderr"
    window = module.Window(find_target(Attach(pid=busy.pid)), 0.5, (), {})
    stop.start()
    outcome = module.watch(Command((), tmp_path, {}, *files), window)
    busy.send_signal(signal.SIGCONT)
    assert outcome.service is not None
    assert f"process {busy.pid} is stopped" in outcome.service.trouble


@pytest.mark.parametrize(
    ("kind", "message"),
    [("pid", "another user's process; run as that user or as root, or with CAP_PERFMON"), ("cgroup", "need root")],
)
def test_what_this_user_may_not_count_is_refused_by_name(tmp_path: Path, kind: str, message: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has another user's rights")
    events = find_source("perf_event").event("perf::context-switches")
    assert events is not None
    setup = Setup("perf_event", 10_000_000, "monotonic", (events,), sampler="outside", attached=True)
    record = tmp_path / "record"
    create_record_file(record, setup)
    record.chmod(0o666)
    where = str(os.getpid()) if kind == "pid" else next(str(path) for path in _ROOTS if path.is_dir())
    # Another user may not pass through the folders of these files, but may use them if they are open.
    with build_observer("gcc", attached=True).open("rb") as program, record.open("rb+") as file:
        files = program.fileno(), file.fileno()
        observer, shown = (f"/proc/self/fd/{number}" for number in files)
        command = [observer, shown, "100000000", kind, where]
        done = subprocess.run(command, pass_fds=files, user=65534, group=65534, extra_groups=[], check=False)
    assert done.returncode == 127
    assert message in read_record_file(record, setup).message


def test_the_number_of_a_thread_is_refused() -> None:
    number, end = queue.SimpleQueue[int](), threading.Event()
    thread = threading.Thread(target=lambda: (number.put(threading.get_native_id()), end.wait()))
    thread.start()
    try:
        with pytest.raises(HostError, match=f"is a thread of process {os.getpid()}: attach to the process"):
            find_target(Attach(pid=number.get()))
    finally:
        end.set()
        thread.join()
