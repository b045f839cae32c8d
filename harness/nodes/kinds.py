"""Kinds of campaigns on nodes: verdicts, sweeps and searches, and what a part of each has to make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.execution import CAMPAIGN, SEARCH, SWEEP
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import NATIVE, baselines_alone, configurations
from unperturbed.harness.nodes.shares import NODES, NodePart, dealt_points, read_json, share_of, write_json
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec

_FILE = "requests.json"


@dataclass(frozen=True)
class Requests:
    """What is requested of a part."""

    session: str = ""  # The coordinator that may request more; empty where none will
    # Of each candidate: `software`, its metrics, and `build`, what the manifest of the whole says of its build (None
    # where nothing is built).
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batches: Sequence[Mapping[str, int]] = ()  # Further runs a pass, by configuration

    @property
    def totals(self) -> Counter[str]:
        """Return how many runs a pass are requested of each configuration, all batches together."""
        found: Counter[str] = Counter()
        for batch in self.batches:
            found.update(batch)
        return found

    def write(self, part: NodePart) -> None:
        """Write them for the part's node."""
        write_json(part.folder / _FILE, vars(self))


def read_requests(part: NodePart) -> Requests:
    """Return what is requested of a part; nothing where no file is."""
    # Opening the folder has a network file system look for a file that was replaced there.
    list(part.folder.iterdir())
    content = read_json(part.folder / _FILE)
    if content is None:
        return Requests()
    try:
        return Requests(str(content["session"]), dict(content["configurations"]), tuple(map(dict, content["batches"])))
    except (KeyError, TypeError, ValueError):
        raise SpecError(f"{part.folder / _FILE}: the file is damaged; remove it and repeat the command") from None


@dataclass(frozen=True)
class Kind:
    """What the parts of a campaign on nodes make."""

    # whole, part: The purpose of the campaign's folder, and that of a part's folder.
    whole: str
    part: str
    share: Callable[[CampaignSpec, int], CampaignSpec]  # `share(campaign, number)`: the campaign that a node makes
    # `least(campaign, number)`: how many runs a part has at least, before its node has planned any.
    least: Callable[[CampaignSpec, int], int]
    # `needed(campaign, part, manifest)`: the runs of a part that count, by state, and how many of them there must be.
    needed: Callable[[CampaignSpec, NodePart, Manifest], tuple[Counter[str], int]]
    # Runs are requested one batch after another: a job that ends without runs left is not an end of the part.
    on_demand: bool = False


def _planned(spec: CampaignSpec, number: int) -> int:
    return sum(item.runs for item in configurations(share_of(spec, number)))


def _needed(spec: CampaignSpec, part: NodePart, manifest: Manifest) -> tuple[Counter[str], int]:
    passes = len(manifest.fact("passes") or [{}])
    return Counter(manifest.counts()), _planned(spec, part.number) * passes


def _rows(spec: CampaignSpec, number: int) -> int:
    return len(dealt_points(spec, number)) * spec.campaign.repetitions


def _needed_for_rows(spec: CampaignSpec, part: NodePart, manifest: Manifest) -> tuple[Counter[str], int]:
    """Leave out the runs of points, repetitions and steps that the spec no longer has.

    Where the unmeasured program fails, nothing else is run at the point: its planned runs have failed too.
    """
    own, repetitions = set(dealt_points(spec, part.number)), spec.campaign.repetitions
    steps = manifest.fact("steps")
    runs = [
        state
        for state in manifest.runs(hosts=False)
        if state.run.point in own
        and state.run.repetition <= repetitions
        and (steps is None or state.run.pass_name in steps)
    ]
    first_failed = {
        state.run.point
        for state in runs
        if state.state == "failed" and state.run.pass_name == NATIVE and state.run.repetition == 1
    }
    found: Counter[str] = Counter(
        "failed" if state.state == "planned" and state.run.point in first_failed else state.state for state in runs
    )
    return found, _rows(spec, part.number) * len(steps or [""])


def _baselines(spec: CampaignSpec, number: int) -> CampaignSpec:
    return share_of(baselines_alone(spec), number)


def _requested(_campaign: CampaignSpec, part: NodePart, manifest: Manifest) -> tuple[Counter[str], int]:
    """Count a run that failed in an earlier session as one that is still to be made."""
    requests = read_requests(part)
    found: Counter[str] = Counter(manifest.counts())
    if manifest.fact("session") != requests.session:
        found["planned"] += found.pop("failed", 0)
    return found, requests.totals.total() * len(manifest.fact("passes") or [{}])


VERDICTS = Kind(NODES, CAMPAIGN, share_of, _planned, _needed)
"""Each node makes its share of the runs; the verdicts are combined over nodes."""

SWEEPS = Kind(f"{SWEEP} on nodes", SWEEP, share_of, _rows, _needed_for_rows)
"""Each node measures whole points; their rows are joined to one table."""

SEARCHES = Kind(f"{SEARCH} on nodes", SEARCH, _baselines, lambda _campaign, _number: 0, _requested, on_demand=True)
"""Each candidate of a search for a partition is measured wholly on one node, beside that node's baselines."""

KINDS: Mapping[str, Kind] = MappingProxyType({kind.whole: kind for kind in (VERDICTS, SWEEPS, SEARCHES)})
"""The kinds by the purpose of a campaign's folder."""


def kind_of(manifest: Manifest) -> Kind | None:
    """Return the kind of the campaign on nodes that a folder holds; None where it holds something else."""
    return KINDS.get(str(manifest.fact("purpose")))


def whole_campaign(folder: Path) -> CampaignSpec:
    """Return the spec of a campaign on nodes, as its manifest has it now."""
    path = folder / "campaign.sqlite"
    if not path.is_file():
        raise SpecError(f"{folder} holds no campaign (no campaign.sqlite)")
    with Manifest(path, read_only=True) as manifest:
        if kind_of(manifest) is None:
            raise SpecError(f"{folder} holds no campaign on nodes: its spec has no `nodes`")
        text, spec_path = manifest.fact("spec_text"), manifest.fact("spec_path")
    return parse_spec(text, spec_path, Path(spec_path).parent, recorded=True)
