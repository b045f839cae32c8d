"""Counters of this host: the PMU, permission to use it, and other users of its counters."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unperturbed.harness.host.doctor import Finding, Host, check, cpu_list, number, own_cpus, ranges, text

_DEVICES = "sys/bus/event_source/devices"
_CORE_PMU = re.compile(r"cpu|cpu_(core|atom|lowpower)|armv\d\w*|apple_\w+_pmu")
_PARANOID = "proc/sys/kernel/perf_event_paranoid"


def core_pmus(root: Path) -> tuple[str, ...]:
    """Return the PMUs of the processor's cores: one on most hosts, one a kind of core on hybrid ones."""
    folder = root / _DEVICES
    names = (entry.name for entry in folder.iterdir()) if folder.is_dir() else ()
    return tuple(sorted(name for name in names if _CORE_PMU.fullmatch(name)))


@check("PMU", "counting", rank=10)
def pmu(host: Host) -> Finding:
    """Check whether the processor's counters are there, and whether there is more than one kind of core."""
    kinds = core_pmus(host.root)
    if not kinds:
        if host.virtual_machine:
            where = "no PMU: the machine that hosts this guest keeps the processor's counters to itself"
            mend = "virt-xml GUEST --edit --features pmu.state=on    # on its host; then restart the guest"
        else:
            where, mend = "no PMU: the kernel offers no counters of the processor", None
        still = "Still works: the kernel's software events (perf::page-faults, …), os metrics, the simulated source."
        return Finding("PMU", "bad", where, still, mend)
    if len(kinds) == 1:
        topdown = (host.root / _DEVICES / kinds[0] / "events/slots").exists()
        what = f"the processor's counters are there ({kinds[0]})"
        return Finding("PMU", "good", f"{what}, with topdown events (perf::slots, …)" if topdown else what)
    cores = {kind: cpu_list(text(host.root / _DEVICES / kind / "cpus") or "") for kind in kinds}
    own = set(own_cpus(host.root))
    for kind, cpus in cores.items():
        if cpus and own <= set(cpus):
            what = f"hybrid processor; this process stays on the cores of {kind} (CPUs {ranges(own)})"
            x86 = kind.startswith("cpu_")  # elsewhere the kernel chooses
            return Finding("PMU", "good", what, "Events that name no PMU count there (perf::cycles)." if x86 else "")
    each = ", ".join(f"{kind}: CPUs {ranges(cpus)}" for kind, cpus in cores.items())
    strongest = "cpu_core" if "cpu_core" in cores else max(cores, key=lambda kind: _capacity(host.root, cores[kind]))
    return Finding(
        "PMU",
        "bad",
        f"hybrid processor with a PMU for each kind of core ({each}), and this process may run on all",
        "An event counts on one kind only, and pauses on the other; cycles of the two are not comparable.",
        f"taskset -c {ranges(cores[strongest])} unperturbed run SPEC",
    )


def _capacity(root: Path, cpus: tuple[int, ...]) -> int:
    return max((number(root / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity") or 0 for cpu in cpus), default=0)


@check("permission", "counting", rank=20)
def permission(host: Host) -> Finding:
    """Check what perf_event_paranoid and this process's own rights allow together."""
    level = number(host.root / _PARANOID)
    if level is None:
        return Finding("permission", "bad", "the kernel was built without perf_event: it counts nothing for programs")
    set_to = f"perf_event_paranoid is {level}"
    if host.may_count:
        return Finding("permission", "good", f"everything may be counted, by CAP_PERFMON or CAP_SYS_ADMIN ({set_to})")
    where = " On the container's host:" if host.container else ""
    mend = "sysctl kernel.perf_event_paranoid=1"
    if level >= 3:
        why = f"A program may count nothing, not even itself, without CAP_PERFMON.{where}"
        return Finding("permission", "bad", set_to, why, mend)
    if level == 2:
        why = f"A program's own code may be counted, but not the kernel's (context switches, page faults).{where}"
        return Finding("permission", "note", set_to, why, mend)
    return Finding("permission", "good", f"programs may be counted, in the kernel too ({set_to})")


@check("container", "counting", rank=30)
def container(host: Host) -> Finding:
    """Check whether a container or a filter of system calls prevents counting."""
    if host.container is None:
        if host.filtered and not host.may_count:
            what = "a seccomp filter looks at this process's system calls"
            return Finding("container", "note", what, "It may refuse perf_event_open with “Operation not permitted”.")
        return Finding("container", "good", "no container")
    shared = "Settings in /proc/sys and /sys are those of its host, for all its containers: change them there."
    tool = host.container if host.container in ("docker", "podman") else None
    mend = f"{tool} run --cap-add PERFMON --security-opt seccomp=unconfined IMAGE" if tool else None
    if host.filtered and not host.may_count:
        why = "The usual filter refuses perf_event_open (“Operation not permitted”), whatever perf_event_paranoid is. "
        if tool is None:
            why += "Add the capability PERFMON to the container. "
        return Finding("container", "bad", f"a {host.container} container with a seccomp filter", why + shared, mend)
    kind = (
        "a user namespace of its own: its rights do not reach the counters"
        if host.user_namespace
        else "no filter in the way"
    )
    return Finding("container", "note", f"a {host.container} container, {kind}", shared)


@check("user reads", "counting", rank=80)
def user_reads(host: Host) -> Finding | None:
    """Check whether a program may read its counters without a system call; None when there are none to read."""
    kinds = core_pmus(host.root)
    arm = host.root / "proc/sys/kernel/perf_user_access"
    if not kinds:
        return None
    slow = "Each sample then costs a system call: about 1 µs instead of 0.05 µs."
    if (allowed := number(arm)) is not None:
        mend = "sysctl kernel.perf_user_access=1"
    else:
        values = [number(host.root / _DEVICES / kind / "rdpmc") for kind in kinds]
        allowed = min((value for value in values if value is not None), default=None)
        mend = f"echo 1 | tee /{_DEVICES}/{kinds[0] if len(kinds) == 1 else 'cpu_*'}/rdpmc"
    if allowed is None:
        return Finding("user reads", "note", "this kernel has no reading of counters in the program itself", slow)
    if allowed == 0:
        return Finding("user reads", "note", "reading counters in the program itself is switched off", slow, mend)
    return Finding("user reads", "good", "counters may be read in the program itself, without a system call")


@check("watchdog", "counting", rank=90)
def watchdog(host: Host) -> Finding | None:
    """Check whether the NMI watchdog holds a counter; None without a PMU."""
    state = number(host.root / "proc/sys/kernel/nmi_watchdog")
    if not core_pmus(host.root) or state is None:
        return None
    if state == 0:
        return Finding("watchdog", "good", "the NMI watchdog holds no counter")
    why = "One event fewer fits a run, and more passes may be needed."
    return Finding(
        "watchdog", "note", "the NMI watchdog holds one counter of each CPU", why, "sysctl kernel.nmi_watchdog=0"
    )


@check("tracepoints", "counting", rank=100)
def tracepoints(host: Host) -> Finding:
    """Check whether the kernel's tracepoints can be found by name."""
    for place in ("sys/kernel/tracing", "sys/kernel/debug/tracing"):
        events = host.root / place / "events"
        if os.access(events, os.R_OK | os.X_OK):
            return Finding("tracepoints", "good", f"the kernel's tracepoints are readable (/{place})")
    folder = host.root / "sys/kernel/tracing"
    why = "Tracepoint events (perf's sched:sched_switch, …) cannot be counted."
    if not folder.is_dir():
        return Finding("tracepoints", "note", "the kernel was built without tracing", why)
    if os.access(folder, os.R_OK | os.X_OK):
        return Finding(
            "tracepoints", "note", "tracefs is not mounted", why, "mount -t tracefs nodev /sys/kernel/tracing"
        )
    mend = "mount -o remount,mode=755 /sys/kernel/tracing"
    return Finding("tracepoints", "note", "the kernel's tracepoints are readable by root only", why, mend)


@check("uprobes", "counting", rank=110)
def uprobes(host: Host) -> Finding:
    """Check whether the kernel can count how often a place in a program is passed."""
    if not (host.root / _DEVICES / "uprobe").exists():
        return Finding(
            "uprobes", "note", "the kernel has no uprobe PMU", "Places in an unmodified program cannot be counted."
        )
    if not host.may_count:
        why = "Places in an unmodified program can be counted by root only."
        return Finding("uprobes", "note", "uprobes need CAP_PERFMON", why, "sudo unperturbed run SPEC")
    return Finding("uprobes", "good", "places in unmodified programs can be counted")


@check("priority", "counting", rank=120)
def realtime(host: Host) -> Finding:
    """Check whether an observer process may have real-time priority."""
    limit = re.search(r"^Max realtime priority\s+(\S+)", text(host.root / "proc/self/limits") or "", re.MULTILINE)
    granted = limit is not None and limit[1] != "0"
    if host.may_hurry or granted:
        return Finding("priority", "good", "an observer process may have real-time priority")
    why = "On a loaded host an observer then misses ticks: the gaps between its records grow."
    return Finding(
        "priority", "note", "no real-time priority for an observer process", why, "sudo prlimit --pid $$ --rtprio=1"
    )


@check("second CPU", "counting", rank=130)
def observer_cpu(host: Host) -> Finding:
    """Check whether there is a CPU for an observer beside the program's."""
    cpus = own_cpus(host.root)
    if len(cpus) > 1:
        return Finding("second CPU", "good", f"an observer process has a CPU of its own (CPUs {ranges(cpus)})")
    why = "An observer process runs on the program's own CPU and takes time from it (about 3 % at 1 ms)."
    there = cpu_list(text(host.root / "sys/devices/system/cpu/online") or "")
    mend = f"taskset -pc {ranges(there)} $$" if len(there) > 1 else None
    return Finding("second CPU", "note", f"this process has one CPU only (CPU {ranges(cpus)})", why, mend)
