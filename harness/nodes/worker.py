"""Work of one node: compare the node with the first node, claim a part, and execute the part's runs.

Each node's runs are compared with the same node's baseline, so most differences between nodes are only reported. A node
that would run a different program or count different metrics is refused: a mean over nodes would mix two things.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from unperturbed.errors import HostError, RunError, SpecError, UnperturbedError
from unperturbed.harness.campaign.execution import CAMPAIGN, run_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.preparation import shared_workspace
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.summary import is_locked
from unperturbed.harness.host.doctor import REAL, field, text
from unperturbed.harness.nodes.shares import (
    FOLDER,
    OUTCOME,
    VERDICTS,
    NodePart,
    claim,
    kind_of,
    parts_of,
    read_json,
    reading,
    share_of,
    this_node,
    whole_campaign,
    write_json,
    write_once,
)
from unperturbed.harness.nodes.staging import binaries_digest, staged
from unperturbed.harness.spec.campaign_spec import CampaignSpec

HARD = ("architecture", "processor model", "C library", "program and libraries")  # Facts that must be equal
_FIRST = "facts.json"
_LOCK = "work.lock"

Maker: TypeAlias = Callable[[CampaignSpec, NodePart, Progress], None]
"""`maker(campaign, part, progress)` executes the remaining runs of a part of a campaign."""

Ending = Literal["over", "refused", "elsewhere", "error"]


@dataclass(frozen=True)
class WorkOutcome:
    """Outcome of the work on a part."""

    # `over`: every run is done, or failed in all attempts; `refused`: this node differs from the other parts' nodes;
    # `elsewhere`: the part belongs to another node, or this node has another part.
    ending: Ending
    node: str  # The node's name
    message: str = ""  # What was wrong; empty if nothing was
    exit_code: int = 0  # Exit code of the command: 1 if runs failed


def _make_runs(spec: CampaignSpec, part: NodePart, progress: Progress) -> None:
    with Manifest(part.folder.parent.parent / "campaign.sqlite", read_only=True) as manifest:
        checked = manifest.fact("checked") is not False
    run_campaign(share_of(spec, part.number), part.folder, progress, checked=checked)


def work(folder: Path, progress: Progress, makers: Mapping[str, Maker] = MappingProxyType({})) -> WorkOutcome:
    """Execute a part's remaining runs with the maker for the part's purpose; a plain campaign needs no maker."""
    folder = folder.absolute()
    if folder.parent.name != FOLDER or not (folder / "campaign.sqlite").is_file():
        raise SpecError(f"{folder} is not a part of a campaign; parts are the folders CAMPAIGN/{FOLDER}/01, 02, …")
    home = folder.parent.parent
    spec = whole_campaign(home)
    if is_locked(folder):
        raise SpecError(f"{folder}: another process is working on this part")
    part, node = NodePart(int(folder.name), folder), this_node()
    with (folder / _LOCK).open("a") as file:
        try:  # lock before copying builds
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpecError(f"{folder}: another process is working on this part") from None
        try:
            outcome = _work(spec, home, part, node, progress, makers)
        except UnperturbedError as error:
            outcome = WorkOutcome("error", node, str(error), error.exit_code)
        write_json(folder / OUTCOME, vars(outcome))
    return outcome


def _work(
    spec: CampaignSpec, home: Path, part: NodePart, node: str, progress: Progress, makers: Mapping[str, Maker]
) -> WorkOutcome:
    """Execute the runs of a part, unless this node is refused or the part belongs to another node."""
    with Manifest(home / "campaign.sqlite", read_only=True) as manifest:
        kind = kind_of(manifest) or VERDICTS
    share = kind.share(spec, part.number)
    with reading(part) as manifest:
        workspace, copy = shared_workspace(share, manifest, staged=False), manifest.fact("staged")
    if workspace is None:
        raise SpecError(f"{part.folder} is not a part of a campaign")
    parts = parts_of(home, spec.nodes.count if spec.nodes else 0)
    with ExitStack() as kept:
        if copy is not None:
            if part.owner is not None and (why := claim(part, parts, node)):
                return WorkOutcome("elsewhere", node, why, HostError.exit_code)  # before anything is copied
            try:
                workspace = kept.enter_context(staged(share, home, workspace, Path(copy)))
            except HostError as error:  # another node may have room for it
                return WorkOutcome("refused", node, f"node {node}: {error}", error.exit_code)
        own = node_facts(share, workspace.builds, workspace.inputs)
        first = home / FOLDER / _FIRST
        write_once(first, {"node": node, "facts": own})
        known = read_json(first) or {}
        hard, soft = differences(known.get("facts", {}), own)
        if hard:
            why = f"node {node} differs from the first node, {known.get('node')}: {'; '.join(hard)}"
            return WorkOutcome("refused", node, why, HostError.exit_code)
        if why := claim(part, parts, node):
            return WorkOutcome("elsewhere", node, why, HostError.exit_code)
        for difference in soft:
            progress.note(f"node {node} differs from the first node, {known.get('node')}: {difference}")
        write_json(part.folder / _FIRST, {"node": node, "facts": own, "differs": list(soft)})
        {CAMPAIGN: _make_runs, **makers}[kind.part](spec, part, progress)
    with reading(part) as manifest:
        failed = manifest.counts().get("failed", 0)
    # No message: the coordinator reads the manifest, where each failed run has its error.
    return WorkOutcome("over", node, exit_code=RunError.exit_code if failed else 0)


def node_facts(
    spec: CampaignSpec, builds: Mapping[str, Path | None], inputs: Path, *, root: Path = REAL
) -> dict[str, str]:
    """Return the facts by which nodes are compared."""
    cpuinfo, memory = root / "proc/cpuinfo", field(root / "proc/meminfo", "MemTotal")
    cpu = root / "sys/devices/system/cpu"
    pages = re.search(r"\[(\w+)\]", text(root / "sys/kernel/mm/transparent_hugepage/enabled") or "")
    return {
        "architecture": platform.machine(),
        "processor model": field(cpuinfo, "model name") or "unknown",
        "microcode": field(cpuinfo, "microcode") or "unknown",
        "processors": str(len(re.findall(r"^processor\s*:", text(cpuinfo) or "", re.MULTILINE)) or "unknown"),
        "kernel": text(root / "proc/sys/kernel/osrelease") or "unknown",
        "C library": _c_library(),
        "governor": text(cpu / "cpu0/cpufreq/scaling_governor") or "unknown",
        "simultaneous multithreading": text(cpu / "smt/control") or "unknown",
        "address randomisation": text(root / "proc/sys/kernel/randomize_va_space") or "unknown",
        "transparent huge pages": pages[1] if pages else "unknown",
        "perf_event_paranoid": text(root / "proc/sys/kernel/perf_event_paranoid") or "unknown",
        "memory": f"{int(memory.split()[0]) / 2**20:.0f} GiB" if memory else "unknown",
        "program and libraries": binaries_digest(spec, builds, inputs),
    }


def differences(first: Mapping[str, str], own: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two nodes' differences (`kernel: 6.1 there, 6.2 here`): those that exclude a node, and others."""
    hard: list[str] = []
    soft: list[str] = []
    for name in dict.fromkeys((*first, *own)):
        before, here = first.get(name, "unknown"), own.get(name, "unknown")
        if before != here:
            (hard if name in HARD else soft).append(f"{name}: {before} there, {here} here")
    return tuple(hard), tuple(soft)


def _c_library() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "unknown"
    except (ValueError, OSError):  # only glibc has this name
        return " ".join(platform.libc_ver()).strip() or "unknown"
