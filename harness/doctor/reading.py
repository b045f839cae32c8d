"""Reading what the kernel says below a root folder, so that a recorded tree can stand for another host. Nothing is ever written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["REAL", "cpu_list", "find_tool", "number", "own_cpus", "ranges", "status_field", "text"]

REAL = Path("/")
"""This host itself; any other root is a recorded tree."""


def text(file: Path) -> str | None:
    """Return what a file holds, without white space at its ends; None when it is not there or may not be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:  # some files of sysfs exist and cannot be read: the same as none for who asks
        return None


def number(file: Path) -> int | None:
    """Return the whole number that a file holds; None when there is none."""
    content = text(file)
    return int(content) if content is not None and re.fullmatch(r"-?\d+", content) else None


def cpu_list(listed: str) -> tuple[int, ...]:
    """Return the processors of a kernel's list such as `0-3,8`, in ascending order."""
    found: set[int] = set()
    for part in filter(None, listed.replace("\n", "").split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def ranges(cpus: Iterable[int]) -> str:
    """Write processors as the kernel lists them: the inverse of `cpu_list`."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def status_field(root: Path, name: str) -> str | None:
    """Return a field of this process's own status."""
    for line in (text(root / "proc/self/status") or "").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return None


def own_cpus(root: Path) -> tuple[int, ...]:
    """Return the processors that this process, and so the measured program, may run on."""
    allowed = status_field(root, "Cpus_allowed_list")
    return cpu_list(allowed if allowed is not None else text(root / "sys/devices/system/cpu/online") or "0")


def find_tool(root: Path, name: str) -> Path | None:
    """Return where a program is on the PATH below a root; None when it is not installed."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        file = root / folder.lstrip("/") / name
        # Not Path.is_file, which raises where a folder on the way may not be entered.
        if os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113
            return file
    return None
