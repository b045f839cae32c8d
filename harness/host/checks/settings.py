"""Settings that make equal runs differ: SMT, isolation, memory, address layout, clock; governor, turbo, heat, power."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unperturbed.harness.host.doctor import Finding, Host, check, cpu_list, number, ranges, text

_CPUS = "sys/devices/system/cpu"
_CHEAP_CLOCKS = "tsc arch_sys_counter kvm-clock hyperv_clocksource_tsc_page timebase riscv_clocksource tod"
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
        mend = f"sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{kept} /' /etc/default/grub && update-grub    # then restart"
    why = "Other tasks and the kernel's own work run on the program's CPU. After isolating one: taskset -c it."
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
    if source in _CHEAP_CLOCKS.split():
        return Finding("clock", "good", f"clock source {source}: time stamps cost no system call")
    better = [name for name in (text(folder / "available_clocksource") or "").split() if name in _CHEAP_CLOCKS.split()]
    mend = (
        f"echo {better[0]} | tee /sys/devices/system/clocksource/clocksource0/current_clocksource" if better else None
    )
    why = "Every time stamp is a system call, and a slow one: samples cost more, intervals are less even."
    return Finding("clock", "note", f"clock source {source}", why, mend)


_PROCESSOR_SENSORS = "coretemp k10temp zenpower cpu_thermal cpu-thermal soc_thermal acpitz x86_pkg_temp"
_NEAR_C = 10.0
_WARM_C = 20.0
_HOT_C = 85.0
"""A processor throttles at its limit: within `_NEAR_C` of it is bad, within `_WARM_C` is worth a note. Where a sensor
has no known limit, `_HOT_C` is worth one."""


@check("governor", "noise", rank=10)
def governor(host: Host) -> Finding:
    """Check whether the kernel keeps the processor at one speed."""
    by_governor: dict[str, list[int]] = defaultdict(list)
    for cpu in cpu_list(text(host.root / _CPUS / "online") or ""):
        name = text(host.root / _CPUS / f"cpu{cpu}/cpufreq/scaling_governor")
        if name:
            by_governor[name].append(cpu)
    if not by_governor:
        if host.virtual_machine:
            why = "Times vary with it; counts of events do not."
            return Finding("governor", "note", "the machine that hosts this guest decides its speed, unseen", why)
        return Finding("governor", "good", "the kernel does not change the processor's speed")
    each = ", ".join(f"{name} (CPUs {ranges(cpus)})" for name, cpus in by_governor.items())
    if set(by_governor) == {"performance"}:
        return Finding("governor", "good", f"frequency governor {each}")
    why = "The speed follows the load of the program: times and cycles per second move with the intervals."
    mend = f"echo performance | tee /{_CPUS}/cpu*/cpufreq/scaling_governor"
    return Finding("governor", "note", f"frequency governor {each}", why, mend)


@check("turbo", "noise", rank=20)
def turbo(host: Host) -> Finding | None:
    """Check whether the processor may exceed its nominal speed; None where that is unknown."""
    mend = _turbo_off(host.root)
    if mend is None:
        return None
    if not mend:
        return Finding("turbo", "good", "turbo is off")
    why = "The speed depends on heat and on how many other CPUs work: equal runs take different times."
    return Finding("turbo", "note", "turbo is on", why, mend)


def _turbo_off(root: Path) -> str | None:
    """Return the command that switches turbo off; empty when it is off, None when that is unknown."""
    for name, on, off in (("intel_pstate/no_turbo", 0, 1), ("cpufreq/boost", 1, 0)):
        state = number(root / _CPUS / name)
        if state is not None:
            return f"echo {off} | tee /{_CPUS}/{name}" if state == on else ""
    return None


@dataclass(frozen=True)
class _Sensor:
    name: str
    celsius: float
    limit: float | None


def _sensors(root: Path) -> Iterator[_Sensor]:
    """Yield the temperatures of the processor; other sensors (disks, radios) are none of its business."""
    for chip in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        if text(chip / "name") in _PROCESSOR_SENSORS.split():
            for file in sorted(chip.glob("temp*_input")):
                start = file.name.removesuffix("input")
                limits = [number(chip / f"{start}{kind}") for kind in ("max", "crit")]
                yield from _sensor(text(chip / f"{start}label") or text(chip / "name") or "", number(file), limits)
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        kind = text(zone / "type") or ""
        if kind in _PROCESSOR_SENSORS.split() or kind.startswith(("cpu", "soc")):
            trips = [
                number(file.with_name(file.name.replace("_type", "_temp")))
                for file in sorted(zone.glob("trip_point_*_type"))
                if text(file) in ("passive", "hot", "critical")
            ]
            yield from _sensor(kind, number(zone / "temp"), trips)


def _sensor(name: str, thousandths: int | None, limits: list[int | None]) -> Iterator[_Sensor]:
    # A limit of zero, or of more than 150 °C, is what firmware writes that knows none.
    known = [limit / 1000 for limit in limits if limit is not None and 0 < limit <= 150_000]
    if thousandths is not None and thousandths > 0:
        yield _Sensor(name, thousandths / 1000, min(known, default=None))


@check("temperature", "noise", rank=80)
def temperature(host: Host) -> Finding | None:
    """Check how far the hottest sensor of the processor is from its limit; None without a sensor."""
    sensors = list(_sensors(host.root))
    if not sensors:
        return None
    hottest = min(sensors, key=lambda sensor: (sensor.limit or _HOT_C + _NEAR_C) - sensor.celsius)
    shown = f"{hottest.name} is at {hottest.celsius:.0f} °C"
    if hottest.limit is None:
        status = "good" if hottest.celsius < _HOT_C else "note"
    else:
        shown += f", its limit is {hottest.limit:.0f} °C"
        left = hottest.limit - hottest.celsius
        status = "bad" if left < _NEAR_C else "note" if left < _WARM_C else "good"
    if status == "good":
        return Finding("temperature", "good", shown)
    why = "At the limit the processor slows down by itself. Let it cool; less speed makes less heat."
    return Finding("temperature", "bad" if status == "bad" else "note", shown, why, _turbo_off(host.root) or None)


@check("throttling", "noise", rank=90)
def throttling(host: Host) -> Finding | None:
    """Check whether heat has slowed the processor since the system started; None where that is not counted."""
    counts = [
        number(file)
        for kind in ("core", "package")
        for file in (host.root / _CPUS).glob(f"cpu[0-9]*/thermal_throttle/{kind}_throttle_count")
    ]
    known = [count for count in counts if count is not None]
    if not known:
        return None
    if not any(known):
        return Finding("throttling", "good", "heat has not slowed the processor since the system was started")
    why = "Runs in such a moment are slower than others."
    what = f"heat has slowed a core or the package {max(known)} times since the system was started"
    return Finding("throttling", "note", what, why, _turbo_off(host.root) or None)


@check("power", "noise", rank=100)
def power(host: Host) -> Finding | None:
    """Check whether the host runs on its battery; None without a power supply."""
    supplies = sorted((host.root / "sys/class/power_supply").glob("*"))
    online = [number(supply / "online") for supply in supplies if text(supply / "type") == "Mains"]
    if not online:
        return None
    if any(online):
        return Finding("power", "good", "the host is on mains power")
    return Finding(
        "power", "bad", "the host runs on its battery", "Firmware slows the processor to save it: plug the cable in."
    )
