"""Other activity on this host: load, busy processes, swap, CPU quota, and time that other guests take."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

from unperturbed.harness.host.doctor import REAL, Finding, Host, check, cpu_list, detect_host, number, text

_WATCHED_S = 0.5
_BUSY = 0.1
_SHOWN = 5
_KERNEL_THREADS = 2  # The kernel's own threads are children of process 2


@dataclass(frozen=True)
class BusyProcess:
    """Another process that uses CPU time."""

    pid: int  # Its process ID
    name: str  # Its name
    cpus: float  # CPUs that it uses; 1.0 means one CPU all the time
    kernel: bool = False  # Whether it is a thread of the kernel
    own: bool = False  # Whether it belongs to this user


def busy_processes(seconds: float = _WATCHED_S) -> tuple[BusyProcess, ...]:
    """Return the processes that use at least a tenth of a CPU, busiest first, without this process's ancestors."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    before = _cpu_seconds()
    began = time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - began
    busy = []
    for process, used in _cpu_seconds().items():
        if process in before and process.pid not in own and (cpus := (used - before[process]) / lasted) >= _BUSY:
            kernel = process.info["ppid"] == _KERNEL_THREADS
            uids = process.info["uids"]
            own_user = uids is not None and uids.real == os.getuid()
            busy.append(BusyProcess(process.pid, process.info["name"] or "?", cpus, kernel, own_user))
    return tuple(sorted(busy, key=lambda process: -process.cpus))


def _cpu_seconds() -> dict[psutil.Process, float]:
    """Return the CPU time of each process; psutil distinguishes processes that reuse an ID."""
    return {
        process: process.info["cpu_times"].user + process.info["cpu_times"].system
        for process in psutil.process_iter(["name", "ppid", "cpu_times", "uids"])
        if process.info["cpu_times"] is not None
    }


@check("processes", "noise", rank=50)
def processes(host: Host) -> Finding | None:
    """Watch which other processes are busy; None on a recorded tree."""
    if host.root != REAL:
        return None
    try:
        return neighbours(busy_processes())
    except (psutil.Error, OSError):
        return Finding("processes", "note", "/proc cannot be read, so other busy processes are unknown")


def neighbours(busy: Sequence[BusyProcess]) -> Finding:
    """Return the finding on other busy processes."""
    if not busy:
        return Finding("processes", "good", "no other process uses as much as a tenth of a CPU")
    shown = ", ".join(f"{process.name} [{process.pid}] {process.cpus:.0%}" for process in busy[:_SHOWN])
    more = f" and {len(busy) - _SHOWN} more" if len(busy) > _SHOWN else ""
    total = sum(process.cpus for process in busy)
    pids = " ".join(str(process.pid) for process in busy if process.own and not process.kernel)
    stop = ", or stop your own while a campaign runs (kill -CONT continues them)" if pids else ""
    why = f"They take CPU time, caches and memory from the program. Wait for them to end{stop}."
    mend = f"kill -STOP {pids}    # after the campaign: kill -CONT {pids}" if pids else None
    return Finding(
        "processes", "bad" if total >= 1 else "note", f"other processes use {total:.1f} CPUs: {shown}{more}", why, mend
    )


@check("load", "noise", rank=40)
def load(host: Host) -> Finding:
    """Check the load average of the last minute."""
    loads = text(host.root / "proc/loadavg")
    if not loads:
        return Finding("load", "note", "/proc/loadavg cannot be read, so the load of this host is unknown")
    average = float(loads.split()[0])
    cpus = len(cpu_list(text(host.root / "sys/devices/system/cpu/online") or "0"))
    what = f"the load of the last minute is {average:.2f} on {cpus} CPUs"
    if average < cpus / 4:
        return Finding("load", "good", what)
    why = (
        "Other work delays runs, shares their caches, and stretches intervals. See what runs: ps -eo "
        "pcpu,pid,user,comm --sort=-pcpu | head"
    )
    return Finding("load", "bad" if average >= cpus else "note", what, why)


def disturbing_load(root: Path = REAL) -> Finding | None:
    """Return the finding on the load average if it leaves less than one processor idle, which a program needs."""
    host = detect_host(root)
    cpus = len(cpu_list(text(root / "sys/devices/system/cpu/online") or "0"))
    loads = text(root / "proc/loadavg")
    return load.examine(host) if loads and float(loads.split()[0]) > cpus - 1 else None


@check("swap", "noise", rank=110)
def swap(host: Host) -> Finding:
    """Check whether memory has been swapped out."""
    lines = (text(host.root / "proc/swaps") or "").splitlines()[1:]
    used = sum(int(line.split()[3]) for line in lines)
    eagerness = number(host.root / "proc/sys/vm/swappiness")
    if not lines:
        return Finding("swap", "good", "no swap")
    if used == 0:
        return Finding("swap", "good", f"swap is configured but unused (swappiness {eagerness})")
    why = "Reading a page of the program from swap costs milliseconds within an interval. To undo: swapon -a."
    return Finding("swap", "note", f"{used / 1024:.0f} MiB are swapped out (swappiness {eagerness})", why, "swapoff -a")


@check("steal", "noise", rank=70)
def steal(host: Host) -> Finding | None:
    """Check how much time other guests of the same machine took; None if the kernel counted none."""
    words = ((text(host.root / "proc/stat") or "").splitlines() or [""])[0].split()
    if len(words) < 9:
        return None
    times = [int(word) for word in words[1:9]]
    stolen, total = times[7], sum(times)
    if stolen == 0:
        return None
    share = stolen / total
    what = f"other guests of this machine took {share:.2%} of the time since the system was started"
    if share < 0.001:
        return Finding("steal", "good", what)
    why = "Runs are delayed from outside, invisibly to the program. Only a dedicated machine or dedicated CPUs help."
    return Finding("steal", "bad" if share >= 0.02 else "note", what, why)


@check("quota", "noise", rank=60)
def quota(host: Host) -> Finding | None:
    """Check whether a control group limits this process's CPU time; None without a limit."""
    for folder, limit in _limits(host.root):
        what = f"the control group of this process may use {limit:g} CPUs"
        why = "Once the group has used its share of each 100 ms, all its processes pause, which leaves gaps in runs."
        if host.container == "docker":
            mend = "docker update --cpus 0 CONTAINER    # on the container's host"
        elif (folder / "cpu.max").exists():
            mend = f"echo max | tee /{(folder / 'cpu.max').relative_to(host.root)}"
        else:
            mend = f"echo -1 | tee /{(folder / 'cpu.cfs_quota_us').relative_to(host.root)}"
        return Finding("quota", "bad", what, why, mend)
    return None


def _limits(root: Path) -> Iterator[tuple[Path, float]]:
    """Yield the control groups that limit this process's CPU time, nearest first, each with its number of CPUs."""
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        unified = not controllers
        if not unified and "cpu" not in controllers.split(","):
            continue
        inner = PurePosixPath(path)
        for mount in ("", "unified") if unified else ("cpu", "cpu,cpuacct"):
            for place in (inner, *inner.parents):
                folder = root / "sys/fs/cgroup" / mount / str(place).lstrip("/")
                if (limit := _limit(folder, unified=unified)) is not None:
                    yield folder, limit


def _limit(folder: Path, *, unified: bool) -> float | None:
    """Return the number of CPUs that a control group (version 2 if `unified`, else 1) may use; None if unlimited."""
    if unified:
        words = (text(folder / "cpu.max") or "max").split()
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    allowed, period = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
    return None if allowed is None or allowed <= 0 or not period else allowed / period
