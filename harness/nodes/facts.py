"""What a node is, and whether it may make runs of a campaign that another node has begun.

Each node is compared with its own baseline, so most differences between nodes are told and refuse nothing. What would
make another program of it, or other metrics, is refused: then a mean over nodes is of two things.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from unperturbed.errors import SpecError
from unperturbed.harness.host.doctor import REAL, text
from unperturbed.harness.program.process import program_command
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.instrument.binaries.probes import needed_libraries

HARD = ("architecture", "processor model", "C library", "program and libraries")
"""Facts that must agree."""

_DIGITS = 16


def node_facts(
    spec: CampaignSpec, builds: Mapping[str, Path | None], inputs: Path, *, root: Path = REAL
) -> dict[str, str]:
    """Return what is compared of a node.

    `builds`: Folder of each build, None where nothing is built.
    """
    cpuinfo = text(root / "proc/cpuinfo") or ""
    memory = re.search(r"^MemTotal:\s+(\d+)", text(root / "proc/meminfo") or "", re.MULTILINE)
    cpu = root / "sys/devices/system/cpu"
    pages = re.search(r"\[(\w+)\]", text(root / "sys/kernel/mm/transparent_hugepage/enabled") or "")
    return {
        "architecture": platform.machine(),
        "processor model": _field(cpuinfo, "model name"),
        "microcode": _field(cpuinfo, "microcode"),
        "processors": str(len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)) or "unknown"),
        "kernel": text(root / "proc/sys/kernel/osrelease") or "unknown",
        "C library": _c_library(),
        "governor": text(cpu / "cpu0/cpufreq/scaling_governor") or "unknown",
        "simultaneous multithreading": text(cpu / "smt/control") or "unknown",
        "address randomisation": text(root / "proc/sys/kernel/randomize_va_space") or "unknown",
        "transparent huge pages": pages[1] if pages else "unknown",
        "perf_event_paranoid": text(root / "proc/sys/kernel/perf_event_paranoid") or "unknown",
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "unknown",
        "program and libraries": binaries_digest(spec, builds, inputs),
    }


def differences(first: Mapping[str, str], own: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return in which facts two nodes differ: those that refuse a node, and those that are only shown.

    Result: A clause each, such as `kernel: 6.1 there, 6.2 here`.
    """
    hard: list[str] = []
    soft: list[str] = []
    for name in dict.fromkeys((*first, *own)):
        before, here = first.get(name, "unknown"), own.get(name, "unknown")
        if before != here:
            (hard if name in HARD else soft).append(f"{name}: {before} there, {here} here")
    return tuple(hard), tuple(soft)


def binary_files(spec: CampaignSpec, name: str, build: Path | None, inputs: Path) -> dict[str, Path]:
    """Return the files of one build's program that a node loads before it runs.

    `build`: The build's folder, None where nothing is built.
    Result: The `program`, and each library by its name, as this node's linker finds it; empty where the program is
    none.
    """
    own = spec.of_program(name if name in spec.programs else "")
    command = program_command(own, scratch=inputs, build=build, inputs=inputs)
    if command.binary is None:
        return {}
    files = {"program": command.binary}
    with suppress(SpecError):  # a script needs none
        files |= needed_libraries(command.binary, command.library_path)
    return files


def _field(cpuinfo: str, name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else "unknown"


def _c_library() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (ValueError, OSError):  # another C library than glibc has no such name
        return " ".join(platform.libc_ver()).strip() or "unknown"


def binaries_digest(spec: CampaignSpec, builds: Mapping[str, Path | None], inputs: Path) -> str:
    """Return one digest of the program of every build, and of the libraries that this node's linker finds for it."""
    content = hashlib.sha256()
    for name, build in sorted(builds.items()):
        files = binary_files(spec, name, build, inputs)
        if not files:
            content.update(f"{name}: none\n".encode())
        for label, file in sorted(files.items()):
            content.update(f"{name} {label} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return f"sha256 {content.hexdigest()[:_DIGITS]}"
