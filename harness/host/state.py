"""The host's description, and its state before and after each run."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import psutil

from unperturbed.common import supervision
from unperturbed.harness.host.doctor import PyperfAnswer, ask_pyperf

_PACKAGES = ("unperturbed", "libclang", "numba", "numpy", "polars", "psutil", "pydantic", "pyperf", "scipy")
_FIXED = ("perf_version", "platform", "hostname", "boot_time", "cpu_model_name", "cpu_machine", "cpu_count")
_FLEETING = ("date", "load_avg_1min", "runnable_threads", "uptime", "cpu_temp")
"""pyperf's metadata kept only for a campaign (`_FIXED`) or only for a run (`_FLEETING`); all else is kept for both."""


def state() -> dict[str, float | int | str | None]:
    """Return the host's current state; it is read before and after every run, which takes about 5 ms.

    `steal_s`, `iowait_s`, `idle_s` and `busy_s` are seconds since the system was started, summed over all processors.
    """
    # pyperf's only access to its metadata without a new process, which would cost 0.3 s per run.
    from pyperf._collect_metadata import collect_metadata  # noqa: PLC0415  slow to load

    times = psutil.cpu_times()
    memory = psutil.virtual_memory()
    readings: dict[str, float | int | str | None] = {
        "load_1min": psutil.getloadavg()[0],
        "steal_s": getattr(times, "steal", None),
        "iowait_s": getattr(times, "iowait", None),
        "idle_s": times.idle,
        "busy_s": times.user + times.system,
        "context_switches": psutil.cpu_stats().ctx_switches,
        "memory_available_mib": memory.available >> 20,
        "swap_used_mib": psutil.swap_memory().used >> 20,
    }
    temperatures = [
        entry.current for entries in psutil.sensors_temperatures().values() for entry in entries if entry.current
    ]
    if temperatures:
        readings["hottest_celsius"] = max(temperatures)
    seen = collect_metadata(process=False)
    return {**readings, **{f"pyperf_{name}": value for name, value in seen.items() if name not in _FIXED}}


def describe(compilers: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return a campaign's provenance: host, processor, tools, packages, pyperf's metadata; this takes about 1 s."""
    from pyperf import format_metadata  # noqa: PLC0415
    from pyperf._collect_metadata import collect_metadata  # noqa: PLC0415

    seen = collect_metadata(process=False)
    memory = psutil.virtual_memory().total
    host = {
        "name": platform.node(),
        "system": _pretty_system(),
        "kernel": f"{platform.system()} {platform.release()} {platform.version()}",
        "architecture": platform.machine(),
        "virtual machine": _virtualisation(),
        "boot time": str(seen.get("boot_time", "")),
        "address randomisation": str(seen.get("aslr", "unknown")),
    }
    processor = {
        "model": str(seen.get("cpu_model_name", platform.processor() or "unknown")),
        "processors": f"{os.cpu_count()} ({len(os.sched_getaffinity(0))} for this process)",
        "frequency": str(seen.get("cpu_freq", "unknown")),
        "governor and idle driver": str(seen.get("cpu_config", "unknown")),
        "memory": f"{memory / 2**30:.1f} GiB",
    }
    tools = {name: _version(name) for name in (*compilers, "ld", "valgrind")}
    packages = {"Python": platform.python_version(), **{name: _package(name) for name in _PACKAGES}}
    return {
        "host": host,
        "processor": processor,
        "tools": tools,
        "packages": packages,
        "pyperf's metadata": {
            name: format_metadata(name, value) for name, value in seen.items() if name not in _FLEETING
        },
        "pyperf's system checks": _checks(ask_pyperf()),
    }


def _package(name: str) -> str:
    """Return a Python package's version, or `not installed`: hosts that only measure lack some packages."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def fingerprint(description: dict[str, dict[str, str]]) -> str:
    """Return a line that identifies a host: traces from different hosts are not compared."""
    host, processor = description["host"], description["processor"]
    return f"{host['name']} {host['architecture']} {processor['model']} {host['kernel'].split()[1]}"


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return a line on what changed between two states; '' if a state is missing."""
    if not before or not after:
        return ""
    parts = [f"{after['context_switches'] - before['context_switches']:,} context switches"]
    for name, what in (("steal_s", "stolen by other guests"), ("iowait_s", "waiting for disks")):
        if before.get(name) is not None and after.get(name) is not None:
            # The kernel sums both over the processors.
            parts.append(f"{after[name] - before[name]:.2f} s of CPU time {what}")
    parts.append(f"{after['memory_available_mib'] / 1024:.1f} GiB free")
    if after["swap_used_mib"] > before["swap_used_mib"]:
        parts.append(f"{after['swap_used_mib'] - before['swap_used_mib']} MiB swapped out")
    if after.get("hottest_celsius") is not None:
        parts.append(f"{after['hottest_celsius']:.0f} °C")
    return ", ".join(parts)


def _checks(answer: PyperfAnswer) -> dict[str, str]:
    """Return pyperf's advice by subject, and pyperf's failed checks."""
    if answer.problem:
        return {"not made": answer.problem}
    by_subject: dict[str, list[str]] = {}
    for line in answer.advice:
        subject, _, advice = line.partition(": ")
        by_subject.setdefault(subject, []).append(advice)
    for line in answer.errors:
        by_subject.setdefault("failed", []).append(line)
    return {subject: "; ".join(lines) for subject, lines in by_subject.items()} or {"advice": "none"}


def _pretty_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _virtualisation() -> str:
    tool = shutil.which("systemd-detect-virt")
    if tool is None:
        return "unknown"
    return supervision.run([tool], capture_output=True, text=True).stdout.strip() or "unknown"


def _version(tool: str) -> str:
    executable = shutil.which(tool)
    if executable is None:
        return "not installed"
    result = supervision.run([executable, "--version"], capture_output=True, text=True)
    return (result.stdout or result.stderr).strip().split("\n")[0] or "unknown"
