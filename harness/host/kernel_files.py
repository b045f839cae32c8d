"""A host by its files of /proc and /sys below a root folder, which may be a recorded tree of another host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

REAL = Path("/")
"""This host itself; any other root is a recorded tree."""

# Numbers of include/uapi/linux/capability.h.
_CAP_SYS_ADMIN = 21
_CAP_SYS_NICE = 23
_CAP_PERFMON = 38

_ALL_USERS = 4294967295
"""Length of the only range in the user map of a host's own namespace."""

_MANAGERS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
)


def text(file: Path) -> str | None:
    """Return a file's content without white space at its ends; None when it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:  # some files of sysfs exist and cannot be read: the same as none for who asks
        return None


def number(file: Path) -> int | None:
    """Return the whole number in a file; None when there is none."""
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


@dataclass(frozen=True)
class Host:
    """A host, and what is between this process and its processor.

    Attributes
    ----------
    root : Path
        Folder below which its /proc, /sys and programs lie: `REAL`, or a recorded tree.
    virtual_machine : bool
        Whether a hypervisor runs below this kernel.
    container : str or None
        What manages the container that this process is in (`docker`, `podman`, `kubernetes`, …); None outside of one.
    user_namespace : bool
        Whether rights are those of a user namespace, which the kernel's counters do not honour.
    filtered : bool
        Whether a seccomp filter inspects every system call.
    may_count : bool
        Whether the process has CAP_PERFMON or CAP_SYS_ADMIN of the host itself.
    may_hurry : bool
        Whether it has CAP_SYS_NICE, and so may have real-time priority.
    """

    root: Path
    virtual_machine: bool
    container: str | None
    user_namespace: bool
    filtered: bool
    may_count: bool
    may_hurry: bool


def detect_host(root: Path) -> Host:
    """Detect virtual machine, container and rights of the process whose /proc and /sys are below a root."""
    capabilities = int(status_field(root, "CapEff") or "0", 16)
    user_map = (text(root / "proc/self/uid_map") or "").split()
    nested = bool(user_map) and user_map[-1] != str(_ALL_USERS)

    def has(*wanted: int) -> bool:
        return not nested and any(capabilities >> capability & 1 for capability in wanted)

    return Host(
        root=root,
        virtual_machine=_virtual_machine(root),
        container=_container(root),
        user_namespace=nested,
        filtered=status_field(root, "Seccomp") == "2",
        may_count=has(_CAP_PERFMON, _CAP_SYS_ADMIN),
        may_hurry=has(_CAP_SYS_NICE),
    )


def _virtual_machine(root: Path) -> bool:
    flags = re.search(r"^flags\s*:(.*)$", text(root / "proc/cpuinfo") or "", re.MULTILINE)
    if flags is not None:
        return "hypervisor" in flags[1].split()
    # Other architectures have no such flag: firmware says it, or nobody does.
    vendor = text(root / "sys/class/dmi/id/sys_vendor") or ""
    hypervisor = (root / "sys/hypervisor/type").exists() or (root / "proc/device-tree/hypervisor").exists()
    return hypervisor or bool(re.match(r"QEMU|VMware|Xen|Amazon EC2|Microsoft|innotek|Parallels|Google", vendor))


def _container(root: Path) -> str | None:
    if (root / "run/.containerenv").exists():
        return "podman"
    groups = " ".join(text(root / "proc" / process / "cgroup") or "" for process in ("1", "self"))
    for trace, manager in _MANAGERS:
        if trace in groups:
            return manager
    return "docker" if (root / ".dockerenv").exists() else None
