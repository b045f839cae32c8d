"""Where this host stands: in a virtual machine, in a container, and with which rights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from unperturbed.harness.doctor.reading import status_field, text

__all__ = ["Surroundings", "surroundings"]

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


@dataclass(frozen=True)
class Surroundings:
    """What lies between this process and the processor.

    Attributes
    ----------
    virtual_machine : a hypervisor runs below this kernel.
    container : what manages the container that this process is in (`docker`, `podman`, `kubernetes`, …); None outside of one.
    user_namespace : rights are those of a user namespace, which the kernel's counters do not honour.
    filtered : a seccomp filter looks at every system call.
    may_count : CAP_PERFMON or CAP_SYS_ADMIN of the host itself.
    may_hurry : CAP_SYS_NICE: real-time priority.
    """

    virtual_machine: bool
    container: str | None
    user_namespace: bool
    filtered: bool
    may_count: bool
    may_hurry: bool


def surroundings(root: Path) -> Surroundings:
    """Find out where the process stands whose /proc and /sys lie below a root."""
    capabilities = int(status_field(root, "CapEff") or "0", 16)
    user_map = (text(root / "proc/self/uid_map") or "").split()
    nested = bool(user_map) and user_map[-1] != str(_ALL_USERS)

    def has(*wanted: int) -> bool:
        return not nested and any(capabilities >> capability & 1 for capability in wanted)

    return Surroundings(
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
