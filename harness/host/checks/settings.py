"""Settings that make equal runs differ: SMT, isolation, memory, layout, clock, governor, turbo, temperature, power."""

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
        return Finding("SMT", "good", "no two CPUs share a core (SMT is off or not available)")
    shared = {text(file) for file in (host.root / _CPUS).glob("cpu[0-9]*/topology/thread_siblings_list")}
    pairs = sorted(cpus for cpus in map(cpu_list, filter(None, shared)) if len(cpus) > 1)
    listed = f": {'; '.join(ranges(pair) for pair in pairs[:4])}{'; …' if len(pairs) > 4 else ''}" if pairs else ""
    why = "A process on the sibling CPU takes half of the program's core: caches, ports, and some counters."
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
    why = "Other tasks and the kernel's own work run on the program's CPU. Isolate a CPU, and use it with taskset -c."
    return Finding("isolation", "note", "no CPU is isolated", why, mend)


@check("huge pages", "noise", rank=140)
def huge_pages(host: Host) -> Finding | None:
    """Check whether the kernel creates huge pages on its own; None if it does not support huge pages."""
    modes = re.search(r"\[(\w+)\]", text(host.root / "sys/kernel/mm/transparent_hugepage/enabled") or "")
    if modes is None:
        return None
    if modes[1] != "always":
        return Finding("huge pages", "good", f"transparent huge pages: {modes[1]}")
    why = "The kernel merges pages whenever it has time: page faults and TLB misses differ from run to run."
    mend = "echo madvise | tee /sys/kernel/mm/transparent_hugepage/enabled"
    return Finding("huge pages", "note", "transparent huge pages: always", why, mend)


@check("layout", "noise", rank=150)
def layout(host: Host) -> Finding:
    """Check whether addresses differ from run to run."""
    if number(host.root / "proc/sys/kernel/randomize_va_space") == 2:
        return Finding(
            "layout", "good", "addresses are random in every run, so no layout is favoured (setarch -R fixes them)"
        )
    why = "All runs share one memory layout, whose effect on caches looks like a property of the program."
    return Finding("layout", "note", "addresses are not fully random", why, "sysctl kernel.randomize_va_space=2")


@check("memory nodes", "noise", rank=130)
def memory_nodes(host: Host) -> Finding | None:
    """Check whether the kernel moves pages between memory nodes; None on a host with one node."""
    nodes = cpu_list(text(host.root / "sys/devices/system/node/online") or "0")
    if len(nodes) < 2:
        return None
    if number(host.root / "proc/sys/kernel/numa_balancing"):
        why = "To see which CPU uses a page, the kernel unmaps it: the program gets page faults that are not its own."
        what = f"the kernel moves pages between {len(nodes)} memory nodes"
        return Finding("memory nodes", "note", what, why, "sysctl kernel.numa_balancing=0")
    return Finding("memory nodes", "good", f"{len(nodes)} memory nodes; the kernel does not move pages")


@check("clock", "noise", rank=160)
def clock(host: Host) -> Finding | None:
    """Check whether a time stamp is cheap; None if the clock source is unknown."""
    folder = host.root / "sys/devices/system/clocksource/clocksource0"
    source = text(folder / "current_clocksource")
    if not source:
        return None
    if source in _CHEAP_CLOCKS.split():
        return Finding("clock", "good", f"clock source {source}: time stamps need no system call")
    better = [name for name in (text(folder / "available_clocksource") or "").split() if name in _CHEAP_CLOCKS.split()]
    mend = (
        f"echo {better[0]} | tee /sys/devices/system/clocksource/clocksource0/current_clocksource" if better else None
    )
    why = "Every time stamp is a slow system call: samples cost more, and intervals are less even."
    return Finding("clock", "note", f"clock source {source}", why, mend)


_PROCESSOR_SENSORS = "coretemp k10temp zenpower cpu_thermal cpu-thermal soc_thermal acpitz x86_pkg_temp"
_NEAR_C = 10.0
_WARM_C = 20.0
_HOT_C = 85.0
"""A processor throttles at its limit: within `_NEAR_C` of the limit is bad, within `_WARM_C` is worth a note. If the
limit is unknown, `_HOT_C` is worth a note."""


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
            why = "Times vary with the speed; counts of events do not."
            what = "the host of this virtual machine controls the processor's speed, which is unknown here"
            return Finding("governor", "note", what, why)
        return Finding("governor", "good", "the kernel does not change the processor's speed")
    each = ", ".join(f"{name} (CPUs {ranges(cpus)})" for name, cpus in by_governor.items())
    if set(by_governor) == {"performance"}:
        return Finding("governor", "good", f"frequency governor {each}")
    why = "The speed follows the program's load: times and cycles per second vary between intervals."
    mend = f"echo performance | tee /{_CPUS}/cpu*/cpufreq/scaling_governor"
    return Finding("governor", "note", f"frequency governor {each}", why, mend)


@check("turbo", "noise", rank=20)
def turbo(host: Host) -> Finding | None:
    """Check whether the processor may exceed its nominal speed; None if this is unknown."""
    mend = _turbo_off(host.root)
    if mend is None:
        return None
    if not mend:
        return Finding("turbo", "good", "turbo is off")
    why = "The speed depends on temperature and on how many CPUs are busy: equal runs take different times."
    return Finding("turbo", "note", "turbo is on", why, mend)


def _turbo_off(root: Path) -> str | None:
    """Return the command that switches turbo off; empty if turbo is off, None if its state is unknown."""
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
    """Yield the processor's temperatures, without those of other devices (disks, radios)."""
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
    # Firmware that knows no limit writes zero, or more than 150 °C.
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
        shown += f" (limit: {hottest.limit:.0f} °C)"
        left = hottest.limit - hottest.celsius
        status = "bad" if left < _NEAR_C else "note" if left < _WARM_C else "good"
    if status == "good":
        return Finding("temperature", "good", shown)
    why = "At the limit, the processor slows itself down. Let it cool; a lower speed produces less heat."
    return Finding("temperature", "bad" if status == "bad" else "note", shown, why, _turbo_off(host.root) or None)


@check("throttling", "noise", rank=90)
def throttling(host: Host) -> Finding | None:
    """Check whether heat has slowed the processor since the system started; None if the kernel does not count this."""
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
    why = "Runs during throttling are slower than others."
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
        "power",
        "bad",
        "the host runs on its battery",
        "Firmware slows the processor to save power: plug the cable in.",
    )
