"""What a node does: compare itself with the node that began, claim its part, and make the part's runs."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from unperturbed.errors import HostError, RunError, SpecError, UnperturbedError
from unperturbed.harness.campaign.execution import CAMPAIGN, run_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.preparation import Workspace, shared_workspace
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.summary import is_locked
from unperturbed.harness.nodes.facts import differences, node_facts
from unperturbed.harness.nodes.kinds import VERDICTS, kind_of, whole_campaign
from unperturbed.harness.nodes.shares import (
    FOLDER,
    OUTCOME,
    NodePart,
    claim,
    parts_of,
    read_json,
    reading,
    share_of,
    this_node,
    write_json,
    write_once,
)
from unperturbed.harness.nodes.staging import staged
from unperturbed.harness.spec.campaign_spec import CampaignSpec

_FIRST = "facts.json"
_LOCK = "work.lock"

Maker: TypeAlias = Callable[[CampaignSpec, NodePart, Progress], None]
"""`maker(campaign, part, progress)` makes what is left of a part of a campaign."""

Ending = Literal["over", "refused", "elsewhere", "error"]


@dataclass(frozen=True)
class Outcome:
    """How the work at a part ended."""

    # {"over", "refused", "elsewhere", "error"}: `refused`: this node differs from those that make the other parts;
    # `elsewhere`: the part belongs to another node, or this node to another part; `over`: every run is done, or
    # failed for good.
    ending: Ending
    node: str  # The node's name
    message: str = ""  # What was wrong; empty where nothing was
    exit_code: int = 0  # Of the command: 1 where runs failed


def _make_runs(spec: CampaignSpec, part: NodePart, progress: Progress) -> None:
    run_campaign(share_of(spec, part.number), part.folder, progress)


def work(folder: Path, progress: Progress, makers: Mapping[str, Maker] = MappingProxyType({})) -> Outcome:
    """Make the runs of a part, or what is left of them.

    `makers`: What makes the runs of a part, by the purpose of its folder; a plain campaign's need none.
    """
    folder = folder.absolute()
    if folder.parent.name != FOLDER or not (folder / "campaign.sqlite").is_file():
        raise SpecError(f"{folder} is no part of a campaign; parts are the folders CAMPAIGN/{FOLDER}/01, 02, …")
    home = folder.parent.parent
    campaign = whole_campaign(home)
    if campaign.nodes is None:
        raise SpecError(f"{home}: its spec has no `nodes`")
    if is_locked(folder):
        raise SpecError(f"{folder}: another process is working on this part")
    part, node = NodePart(int(folder.name), folder), this_node()
    with _alone(folder):
        try:
            outcome = _work(campaign, home, part, node, progress, makers)
        except UnperturbedError as error:
            outcome = Outcome("error", node, str(error), error.exit_code)
        write_json(folder / OUTCOME, vars(outcome))
    return outcome


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a part against another process that would work at it, from before its builds are copied."""
    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpecError(f"{folder}: another process is working on this part") from None
        yield


def _work(
    spec: CampaignSpec, home: Path, part: NodePart, node: str, progress: Progress, makers: Mapping[str, Maker]
) -> Outcome:
    with Manifest(home / "campaign.sqlite", read_only=True) as manifest:
        kind = kind_of(manifest) or VERDICTS
    share = kind.share(spec, part.number)
    with reading(part) as manifest:
        workspace, copy = shared_workspace(share, manifest, staged=False), manifest.fact("staged")
    if workspace is None:
        raise SpecError(f"{part.folder} is no part of a campaign")
    parts = parts_of(home, spec.nodes.count if spec.nodes else 0)
    make = partial({CAMPAIGN: _make_runs, **makers}[kind.part], spec, part, progress)
    if copy is None:
        return _work_from(workspace, share, home, part, parts, node, progress, make)
    if part.owner is not None and (why := claim(part, parts, node)):
        return Outcome("elsewhere", node, why, HostError.exit_code)  # before anything is copied
    with ExitStack() as kept:
        try:
            copies = kept.enter_context(staged(share, home, workspace, Path(copy)))
        except HostError as error:  # another node may have room for it
            return Outcome("refused", node, f"the node {node}: {error}", error.exit_code)
        return _work_from(copies, share, home, part, parts, node, progress, make)


def _work_from(
    workspace: Workspace,
    share: CampaignSpec,
    home: Path,
    part: NodePart,
    parts: tuple[NodePart, ...],
    node: str,
    progress: Progress,
    make: Callable[[], None],
) -> Outcome:
    """Make the runs from these builds and inputs, unless this node must not."""
    own = node_facts(share, workspace.builds, workspace.inputs)
    first = home / FOLDER / _FIRST
    write_once(first, {"node": node, "facts": own})
    known = read_json(first) or {}
    hard, soft = differences(known.get("facts", {}), own)
    if hard:
        why = f"the node {node} differs from {known.get('node')}, which began: {'; '.join(hard)}"
        return Outcome("refused", node, why, HostError.exit_code)
    if why := claim(part, parts, node):
        return Outcome("elsewhere", node, why, HostError.exit_code)
    for difference in soft:
        progress.note(f"the node {node} differs from {known.get('node')} in {difference}")
    write_json(part.folder / _FIRST, {"node": node, "facts": own, "differs": list(soft)})
    make()
    with reading(part) as manifest:
        failed = manifest.counts().get("failed", 0)
    # No message: whoever watches reads the manifest, where each failed run has its error.
    return Outcome("over", node, exit_code=RunError.exit_code if failed else 0)
