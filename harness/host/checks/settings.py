"""Settings of the kernel that make equal runs differ: SMT, isolation, memory, address layout, the clock."""

from __future__ import annotations

import re

from unperturbed.harness.host.doctor import Finding, check
from unperturbed.harness.host.kernel_files import Host, cpu_list, number, ranges, text

_CPUS = "sys/devices/system/cpu"
_CHEAP_CLOCKS = (
    "tsc",
    "arch_sys_counter",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "timebase",
    "riscv_clocksource",
    "tod",
)
"""Clock sources that a program reads without a system call."""


@check("SMT", "noise", rank=30)
def smt(host: Host) -> Finding:
    """Check whether two CPUs share a core."""
    if number(host.root / _CPUS / "smt/active") != 1:
        return Finding("SMT", "good", "no two CPUs share a core (SMT is off or not there)")
    shared = {text(file) for file in (host.root / _CPUS).glob("cpu[0-9]*/topology/thread_siblings_list")}
    pairs = sorted(cpus for cpus in map(cpu_list, filter(None, shared)) if len(cpus) > 1)
    listed = f": {'; '.join(ranges(pair) for pair in pairs[:4])}{'; …' if len(pairs) > 4 else ''}" if pairs else ""
    why = "Whatever runs on the sibling takes half the program's core: its caches, its ports, some of its counters."
    return Finding("SMT", "note", f"CPUs share cores{listed}", why, f"echo off | tee /{_CPUS}/smt/control")


@check("isolation", "noise", rank=120)
def isolation(host: Host) -> Finding:
    """Check whether a CPU is kept free for the program."""
    isolated = cpu_list(text(host.root / _CPUS / "isolated") or "")
    if isolated:
        return Finding("isolation", "good", f"CPUs {ranges(isolated)} are isolated")
    online = cpu_list(text(host.root / _CPUS / "online") or "0")
    mend = None
    if (host.root / "etc/default/grub").exists() and len(online) > 1:
        kept = f"isolcpus={online[-1]} rcu_nocbs={online[-1]}"
        mend = (
            f"sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{kept} /' /etc/default/grub && update-grub    # then start the "
            "system again"
        )
    why = (
        "The scheduler puts other tasks, and the kernel its own work, on the program's CPU. After isolating one: "
        "taskset -c it."
    )
    return Finding("isolation", "note", "no CPU is isolated", why, mend)


@check("huge pages", "noise", rank=140)
def huge_pages(host: Host) -> Finding | None:
    """Check whether the kernel makes huge pages by itself; None when it has none."""
    modes = re.search(r"\[(\w+)\]", text(host.root / "sys/kernel/mm/transparent_hugepage/enabled") or "")
    if modes is None:
        return None
    if modes[1] != "always":
        return Finding("huge pages", "good", f"transparent huge pages: {modes[1]}")
    why = "The kernel joins pages when it finds the time: page faults and TLB misses differ from run to run."
    mend = "echo madvise | tee /sys/kernel/mm/transparent_hugepage/enabled"
    return Finding("huge pages", "note", "transparent huge pages: always", why, mend)


@check("layout", "noise", rank=150)
def layout(host: Host) -> Finding:
    """Check whether addresses differ from run to run."""
    if number(host.root / "proc/sys/kernel/randomize_va_space") == 2:
        return Finding(
            "layout", "good", "addresses are random in every run: no layout is favoured (setarch -R fixes them)"
        )
    why = "All runs share one layout of memory, lucky or not, and its effect on caches looks like the program's own."
    return Finding("layout", "note", "addresses are not fully random", why, "sysctl kernel.randomize_va_space=2")


@check("memory nodes", "noise", rank=130)
def memory_nodes(host: Host) -> Finding | None:
    """Check whether the kernel moves pages between memory nodes; None on a host with one node."""
    nodes = cpu_list(text(host.root / "sys/devices/system/node/online") or "0")
    if len(nodes) < 2:
        return None
    if number(host.root / "proc/sys/kernel/numa_balancing"):
        why = "Pages are unmapped to see who uses them, and moved: page faults that are not the program's own."
        what = f"the kernel moves pages between {len(nodes)} memory nodes"
        return Finding("memory nodes", "note", what, why, "sysctl kernel.numa_balancing=0")
    return Finding("memory nodes", "good", f"{len(nodes)} memory nodes; pages stay where they are")


@check("clock", "noise", rank=160)
def clock(host: Host) -> Finding | None:
    """Check whether a time stamp is cheap; None where the clock source is unknown."""
    folder = host.root / "sys/devices/system/clocksource/clocksource0"
    source = text(folder / "current_clocksource")
    if not source:
        return None
    if source in _CHEAP_CLOCKS:
        return Finding("clock", "good", f"clock source {source}: time stamps cost no system call")
    better = [name for name in (text(folder / "available_clocksource") or "").split() if name in _CHEAP_CLOCKS]
    mend = (
        f"echo {better[0]} | tee /sys/devices/system/clocksource/clocksource0/current_clocksource" if better else None
    )
    why = "Every time stamp is a system call, and a slow one: samples cost more, intervals are less even."
    return Finding("clock", "note", f"clock source {source}", why, mend)
