"""A run of what runs already: a time in which a process or a cgroup is sampled from outside, with or without a tool."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Literal

from unperturbed.common import supervision
from unperturbed.errors import HostError, RunError
from unperturbed.harness.program.process import (
    Command,
    ProcessOutcome,
    ServiceRun,
    as_in_shell,
    end_of_output,
    ended_within,
    has_ended,
    how_it_ended,
    start,
)
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections._attach import Attach
from unperturbed.harness.spec.sections._service import find_free_port
from unperturbed.harness.spec.sections.program import PROGRAM_PATH
from unperturbed.harness.spec.text import substitute

TOOL_STDOUT, TOOL_STDERR = "tool.stdout", "tool.stderr"
"""Files in the folder of a run: what the tool printed."""

TOOL_STARTS_S = 1.0
"""Time before each run: a tool attaches itself, and runs without a tool begin after the same pause."""

_TOOL_ENDS_S = 10.0
_LATE_S = 10.0  # Time after the duration in which the observer must end
_ENDED, _STOPPED = "ZX", "T"  # States of processes in /proc
_BEGAN = 19  # Place of a process's start time in /proc/PID/stat, after the name
_CGROUPS = Path("/sys/fs/cgroup")
_HIERARCHIES = ("", "unified", "perf_event")  # Where the kernel's cgroups of perf_event may be


@dataclass(frozen=True)
class Target:
    """What runs already."""

    kind: Literal["pid", "cgroup"]
    where: str  # The number of the process, or the folder of the cgroup
    pid: int  # The process, or the first one of the cgroup


def find_target(attach: Attach) -> Target:
    """Find the process or the cgroup that a spec names; HostError if there is none."""
    if attach.pid is not None:
        return _process(attach.pid)
    if attach.unit is not None:
        shown = _ask("systemctl", "show", "--property=ControlGroup", "--value", attach.unit)
        if not shown:
            raise HostError(f"`attach`: the systemd unit {attach.unit} does not run (see `systemctl status`)")
        return _cgroup(shown, f"the systemd unit {attach.unit}")
    if attach.container is not None:
        pid = _ask("docker", "inspect", "--format", "{{.State.Pid}}", attach.container)
        if not pid.isdecimal() or pid == "0":
            raise HostError(f"`attach`: the container {attach.container} does not run (see `docker ps`)")
        return _cgroup(_cgroup_of(int(pid)), f"the container {attach.container}")
    assert attach.cgroup is not None
    return _cgroup(attach.cgroup, f"the cgroup {attach.cgroup}")


def _process(pid: int) -> Target:
    if pid == os.getpid():
        raise HostError(f"`attach`: process {pid} is this tool itself")
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        raise HostError(f"`attach`: there is no process {pid} (see `ps` or `pgrep`)") from None
    fields = {name: value.split() for name, _, value in (line.partition(":") for line in status.splitlines())}
    of, state = int(fields["Tgid"][0]), fields["State"][0]
    if of != pid:
        raise HostError(f"`attach`: {pid} is a thread of process {of}: attach to the process, `pid: {of}`")
    if state in _ENDED:
        raise HostError(f"`attach`: process {pid} has ended (a zombie: its parent has not waited for it)")
    if state == _STOPPED:
        raise HostError(f"`attach`: process {pid} is stopped, so nothing would be measured: `kill -CONT {pid}`")
    return Target("pid", str(pid), pid)


def identity_of(target: Target) -> str:
    """Return the start time and the program of a process, by which another one with its number is recognised."""
    if target.kind != "pid":
        return ""
    try:
        began = Path(f"/proc/{target.pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[_BEGAN]
        return f"started at tick {began}, program {os.readlink(f'/proc/{target.pid}/exe')}"  # noqa: PTH115  may be gone
    except OSError:  # a thread of the kernel, or it has just ended
        return ""


def _ask(*command: str) -> str:
    """Return what a command prints; HostError if there is no such command, or it fails."""
    program = shutil.which(command[0])
    if program is None:
        raise HostError(f"`attach`: {command[0]} is not installed here; use `pid` or `cgroup`")
    done = supervision.run([program, *command[1:]], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise HostError(f"`attach`: {' '.join(command)} failed: {(done.stderr or done.stdout).strip()}")
    return str(done.stdout).strip()


def _cgroup_of(pid: int) -> str:
    """Return the path of a process's cgroup in the hierarchy that perf_event counts by."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    named = {name: path for _, names, path in lines for name in names.split(",")}
    return named.get("perf_event", named.get("", "/"))


def _cgroup(path: str, what: str) -> Target:
    """Return a cgroup by its path, which is absolute or below one of the hierarchies."""
    places = (
        [Path(path)]
        if path.startswith(f"{_CGROUPS}/")
        else [_CGROUPS / each / path.lstrip("/") for each in _HIERARCHIES]
    )
    folder = next((place for place in places if (place / "cgroup.procs").is_file()), None)
    if folder is None:
        raise HostError(f"`attach`: {what} has no folder below {_CGROUPS}")
    first = next(_members(folder), None)
    if first is None:
        raise HostError(f"`attach`: {what} has no process")
    return Target("cgroup", str(folder), first)


def _members(folder: Path) -> Iterator[int]:
    for file in sorted(folder.rglob("cgroup.procs")):
        with contextlib.suppress(OSError):
            yield from map(int, file.read_text().split())


@dataclass(frozen=True)
class Window:
    """One run."""

    target: Target
    duration_s: float
    tool: tuple[str, ...]  # The words of the tool's command; () without one
    environment: Mapping[str, str]  # The tool's

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the observer's arguments for this run."""
        return str(round(self.duration_s * 1e9)), self.target.kind, self.target.where


def window_of(spec: CampaignSpec, scratch: Path) -> Window | None:
    """Find what a spec names and fill in the command of its tool; None for a program that is started here."""
    program = spec.program
    if program.attach is None or program.duration is None:
        return None
    target = find_target(program.attach)
    port, folder = str(find_free_port()), str(scratch)
    known = {"pid": str(target.pid), "scratch": folder, "spec": str(spec.folder), "port": port}
    tool = tuple(substitute(word, known) for word in shlex.split(program.load or ""))
    return Window(target, program.duration.seconds, tool, {"PATH": PROGRAM_PATH, "HOME": folder, "LC_ALL": "C"})


def watch(command: Command, window: Window) -> ProcessOutcome:
    """Sample what runs already for a time, by the command of an observer; without a command, only measure its CPU time.

    What goes wrong is the outcome's `trouble`. Nothing that was started here is left behind.
    """
    ends = os.pidfd_open(window.target.pid) if window.target.kind == "pid" else None
    with supervision.orphans_ended():
        tool = None
        if window.tool:
            stdout, stderr = (command.stdout.with_name(name) for name in (TOOL_STDOUT, TOOL_STDERR))
            try:
                tool = start(Command(window.tool, command.folder, window.environment, stdout, stderr))
            except RunError as error:
                raise RunError(f"`tool`: {error}") from None
        try:
            time.sleep(TOOL_STARTS_S)
            trouble = _end_of_tool(tool, command, "before the run began")
            before, began_ns = _cpu_times(window.target), time.monotonic_ns()
            if not trouble:
                code, timed_out = _observe(command, window)
            after, ended_ns = _cpu_times(window.target), time.monotonic_ns()
            trouble = trouble or _end_of_tool(tool, command, "during the run")
            if tool is None and not trouble and ends is not None and not has_ended(ends, 0):
                trouble = _stopped(window.target.pid)
            if tool is not None and not trouble:
                tool.send_signal(signal.SIGTERM)
                ended_within(tool.pid, _TOOL_ENDS_S)
        finally:
            if tool is not None:
                supervision.end(tool)
    if ends is not None:
        if has_ended(ends, 0):
            trouble = f"process {window.target.pid}, which the run was attached to, has ended"
        os.close(ends)
    elif next(_members(Path(window.target.where)), None) is None:
        fate = "has no process any more" if Path(window.target.where).is_dir() else "was removed"
        trouble = f"the cgroup {window.target.where}, which the run was attached to, {fate}"
    if trouble:
        code, timed_out = 0, False
    run = ServiceRun(began_ns, ended_ns, trouble=trouble)
    cpu, system = (late - early for late, early in zip(after, before, strict=True))
    return ProcessOutcome(code, timed_out, (ended_ns - began_ns) / 1e9, max(cpu - system, 0.0), system, 0, run)


def _stopped(pid: int) -> str:
    """Describe a process that was stopped while no tool could have stopped it; '' if it goes on."""
    try:
        _process(pid)
    except HostError as error:
        return str(error)
    return ""


def within_records(outcome: ProcessOutcome, seconds: float, cpu_s: float) -> ProcessOutcome:
    """Return an outcome with the times that the observer measured between its first record and its last one.

    `cpu_s`: 0 if the observer could not measure it; the CPU time around the observer's life is then scaled.
    """
    around_s = outcome.user_s + outcome.system_s
    cpu_s = cpu_s or around_s * min(1.0, seconds / outcome.seconds)
    system_s = cpu_s * outcome.system_s / around_s if around_s else 0.0
    return replace(outcome, seconds=seconds, user_s=cpu_s - system_s, system_s=system_s)


def _observe(command: Command, window: Window) -> tuple[int, bool]:
    """Run the observer to its end; return its exit code, and whether it had to be stopped."""
    if not command.argv:
        time.sleep(window.duration_s)
        return 0, False
    observer = start(command)
    try:
        timed_out = not ended_within(observer.pid, window.duration_s + _LATE_S)
    finally:
        supervision.end(observer)
    return 0, timed_out


def _end_of_tool(tool: Popen[bytes] | None, command: Command, when: str) -> str:
    """Return what happened if a tool has ended by itself; '' if it runs."""
    if tool is None or tool.poll() is None:
        return ""
    files = (command.stdout.with_name(name) for name in (TOOL_STDERR, TOOL_STDOUT))
    said = next(filter(None, map(end_of_output, files)), "")
    printed = f"its last output is:\n{said}\n" if said else "it printed nothing"
    return f"the tool {how_it_ended(as_in_shell(tool.returncode))} {when}; {printed}"


def _cpu_times(target: Target) -> tuple[float, float]:
    """Return the CPU time so far, and the kernel's part, in seconds."""
    usage = Path(target.where, "cpu.stat")
    if target.kind == "cgroup" and usage.is_file():
        fields = dict(line.split() for line in usage.read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6, int(fields.get("system_usec", 0)) / 1e6
    pids = {target.pid} if target.kind == "pid" else set(_members(Path(target.where)))
    total = sum(map(supervision.cpu_seconds, pids))
    ticks = sum(process.system for process in supervision.processes() if process.pid in pids)
    return total, ticks / os.sysconf("SC_CLK_TCK")
