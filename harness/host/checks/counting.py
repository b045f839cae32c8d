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
    """Return the core PMUs: one on most hosts, one per kind of core on hybrid processors."""
    folder = root / _DEVICES
    names = (entry.name for entry in folder.iterdir()) if folder.is_dir() else ()
    return tuple(sorted(name for name in names if _CORE_PMU.fullmatch(name)))


@check("PMU", "counting", rank=10)
def pmu(host: Host) -> Finding:
    """Check whether the processor's counters are available, and whether there is more than one kind of core."""
    kinds = core_pmus(host.root)
    if not kinds:
        if host.virtual_machine:
            where = "no PMU: this virtual machine's host does not share the processor's counters"
            mend = "virt-xml GUEST --edit --features pmu.state=on    # on the guest's host; then restart the guest"
        else:
            where, mend = "no PMU: the kernel offers no processor counters", None
        still = "Still usable: the kernel's software events (perf::page-faults, …), os metrics, the simulated source."
        return Finding("PMU", "bad", where, still, mend)
    if len(kinds) == 1:
        topdown = (host.root / _DEVICES / kinds[0] / "events/slots").exists()
        what = f"the processor's counters are available ({kinds[0]})"
        return Finding("PMU", "good", f"{what}, with topdown events (perf::slots, …)" if topdown else what)
    cores = {kind: cpu_list(text(host.root / _DEVICES / kind / "cpus") or "") for kind in kinds}
    own = set(own_cpus(host.root))
    for kind, cpus in cores.items():
        if cpus and own <= set(cpus):
            what = f"hybrid processor; this process is limited to the cores of {kind} (CPUs {ranges(own)})"
            x86 = kind.startswith("cpu_")  # elsewhere the kernel chooses
            return Finding("PMU", "good", what, "Events without a PMU name count there (perf::cycles)." if x86 else "")
    each = ", ".join(f"{kind}: CPUs {ranges(cpus)}" for kind, cpus in cores.items())
    strongest = "cpu_core" if "cpu_core" in cores else max(cores, key=lambda kind: _capacity(host.root, cores[kind]))
    return Finding(
        "PMU",
        "bad",
        f"hybrid processor with one PMU for each kind of core ({each}); this process may run on all cores",
        "An event counts on one kind of core and pauses on the others; cycles on different kinds are not comparable.",
        f"taskset -c {ranges(cores[strongest])} unperturbed run SPEC",
    )


def _capacity(root: Path, cpus: tuple[int, ...]) -> int:
    return max((number(root / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity") or 0 for cpu in cpus), default=0)


@check("permission", "counting", rank=20)
def permission(host: Host) -> Finding:
    """Check what perf_event_paranoid and this process's capabilities allow."""
    level = number(host.root / _PARANOID)
    if level is None:
        return Finding("permission", "bad", "the kernel was built without perf_event, so programs cannot count events")
    set_to = f"perf_event_paranoid is {level}"
    if host.may_count:
        return Finding("permission", "good", f"CAP_PERFMON or CAP_SYS_ADMIN allows counting everything ({set_to})")
    where = " Type on the container's host:" if host.container else ""
    mend = "sysctl kernel.perf_event_paranoid=1"
    if level >= 3:
        why = f"Without CAP_PERFMON, a program may count nothing, not even its own events.{where}"
        return Finding("permission", "bad", set_to, why, mend)
    if level == 2:
        why = f"Events in user space may be counted, but not in the kernel (context switches, page faults).{where}"
        return Finding("permission", "note", set_to, why, mend)
    return Finding("permission", "good", f"events may be counted in user space and in the kernel ({set_to})")


@check("container", "counting", rank=30)
def container(host: Host) -> Finding:
    """Check whether a container or a seccomp filter prevents counting."""
    if host.container is None:
        if host.filtered and not host.may_count:
            what = "a seccomp filter inspects this process's system calls"
            why = "The filter may refuse perf_event_open with “Operation not permitted”."
            return Finding("container", "note", what, why)
        return Finding("container", "good", "no container")
    shared = "Settings in /proc/sys and /sys belong to the container's host: change them there, for all containers."
    tool = host.container if host.container in ("docker", "podman") else None
    mend = f"{tool} run --cap-add PERFMON --security-opt seccomp=unconfined IMAGE" if tool else None
    if host.filtered and not host.may_count:
        why = "The default filter refuses perf_event_open (“Operation not permitted”) for any perf_event_paranoid. "
        if tool is None:
            why += "Add the capability PERFMON to the container. "
        return Finding("container", "bad", f"a {host.container} container with a seccomp filter", why + shared, mend)
    kind = (
        "in its own user namespace: its capabilities do not allow counting"
        if host.user_namespace
        else "without a filter that prevents counting"
    )
    return Finding("container", "note", f"a {host.container} container, {kind}", shared)


@check("user reads", "counting", rank=80)
def user_reads(host: Host) -> Finding | None:
    """Check whether a program may read its counters without a system call; None if there is no PMU."""
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
        return Finding("user reads", "note", "this kernel does not let programs read counters directly", slow)
    if allowed == 0:
        return Finding("user reads", "note", "direct reading of counters by programs is switched off", slow, mend)
    return Finding("user reads", "good", "programs may read counters directly, without a system call")


@check("watchdog", "counting", rank=90)
def watchdog(host: Host) -> Finding | None:
    """Check whether the NMI watchdog occupies a counter; None without a PMU."""
    state = number(host.root / "proc/sys/kernel/nmi_watchdog")
    if not core_pmus(host.root) or state is None:
        return None
    if state == 0:
        return Finding("watchdog", "good", "the NMI watchdog occupies no counter")
    why = "One event fewer fits into a run, and more passes may be needed."
    return Finding(
        "watchdog", "note", "the NMI watchdog occupies one counter on each CPU", why, "sysctl kernel.nmi_watchdog=0"
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
    """Check whether the kernel can count how often a program executes a given instruction."""
    if not (host.root / _DEVICES / "uprobe").exists():
        return Finding(
            "uprobes", "note", "the kernel has no uprobe PMU", "Sites in an unmodified program cannot be counted."
        )
    if not host.may_count:
        why = "Only root can count at sites in an unmodified program."
        return Finding("uprobes", "note", "uprobes need CAP_PERFMON", why, "sudo unperturbed run SPEC")
    return Finding("uprobes", "good", "sites in unmodified programs can be counted")


@check("priority", "counting", rank=120)
def realtime(host: Host) -> Finding:
    """Check whether an observer process may have real-time priority."""
    limit = re.search(r"^Max realtime priority\s+(\S+)", text(host.root / "proc/self/limits") or "", re.MULTILINE)
    granted = limit is not None and limit[1] != "0"
    if host.may_hurry or granted:
        return Finding("priority", "good", "an observer process may have real-time priority")
    why = "On a loaded host, an observer process then misses ticks, so the gaps between its records grow."
    return Finding(
        "priority", "note", "no real-time priority for an observer process", why, "sudo prlimit --pid $$ --rtprio=1"
    )


@check("second CPU", "counting", rank=130)
def observer_cpu(host: Host) -> Finding:
    """Check whether there is a second CPU for an observer process, besides the program's CPU."""
    cpus = own_cpus(host.root)
    if len(cpus) > 1:
        return Finding("second CPU", "good", f"an observer process has a CPU of its own (CPUs {ranges(cpus)})")
    why = "An observer process runs on the program's CPU and takes CPU time from the program (about 3 % at 1 ms)."
    there = cpu_list(text(host.root / "sys/devices/system/cpu/online") or "")
    mend = f"taskset -pc {ranges(there)} $$" if len(there) > 1 else None
    return Finding("second CPU", "note", f"this process has only one CPU (CPU {ranges(cpus)})", why, mend)
