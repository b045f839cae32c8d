"""Each node's share of a campaign: its runs, its folder, the node that owns it, and its remaining runs."""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import environ, link
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unperturbed.common.scratch import scratch_file, write_whole
from unperturbed.common.wording import listing
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.execution import CAMPAIGN, SEARCH, SWEEP
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import NATIVE, baselines_alone, configurations
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import parse_spec
from unperturbed.harness.spec.sections.campaign import BASELINE
from unperturbed.harness.spec.sections.nodes import LEAST_BASELINE_RUNS, LEAST_RUNS
from unperturbed.harness.spec.sections.parameters import at_a_point, count_points

NODES = "a campaign on nodes"  # Purpose of a campaign folder whose parts execute the runs
FOLDER = "nodes"  # The parts' folder, in the campaign's folder
OUTCOME = "outcome.json"  # Outcome of the last work on a part, in the part's folder


_REQUESTS = "requests.json"


@dataclass(frozen=True)
class NodePart:
    """One node's share of a campaign, with a campaign folder of its own."""

    number: int  # From 1
    folder: Path  # Its folder: manifest, runs, log

    @property
    def name(self) -> str:
        """Return the part's number as in its folder's name, such as `01`."""
        return self.folder.name

    @property
    def owner(self) -> str | None:
        """Return the node that executes the part's runs; None if no node has claimed the part."""
        content = read_json(self.folder / "owner.json")
        return None if content is None else str(content.get("node", ""))

    @property
    def label(self) -> str:
        """Return the node that executes the part's runs, or `part NN` if no node has claimed it."""
        return self.owner or f"part {self.name}"


def parts_of(folder: Path, count: int) -> tuple[NodePart, ...]:
    """Return the parts of a campaign, whether or not their folders exist."""
    return tuple(NodePart(number, folder / FOLDER / f"{number:02d}") for number in range(1, count + 1))


def share_of(spec: CampaignSpec, number: int) -> CampaignSpec:
    """Return the spec of one node's share of the runs, with the node's own order and the whole campaign's digest.

    A larger total never makes a share smaller. A sweep is distributed by points: its share is the spec at one point.
    """
    if spec.nodes is None:
        return spec
    if spec.parameters:
        return at_a_point(spec)
    design, count = spec.campaign, spec.nodes.count
    shares = {
        key: total // count + (number <= total % count)
        for key, total in (("baseline_runs", design.baseline_runs), ("runs", design.most_runs))
    }
    update = {**shares, "seed": own_seed(spec, number)}
    return spec.model_copy(update={"campaign": design.model_copy(update=update)})


def own_seed(spec: CampaignSpec, number: int) -> int:
    """Return the seed for the order of one node's runs."""
    return random.Random(f"{spec.campaign.seed}/{number}").randrange(2**63)


def dealt_points(spec: CampaignSpec, number: int) -> tuple[int, ...]:
    """Return the numbers (counted from 1) of the sweep's points that one node measures, with all repetitions.

    A randomised block design: of every `count` successive points, each node gets one, at random by the seed. Shares
    differ by at most one point, points of a block are on different nodes, no parameter is confounded with the node,
    and further points do not move earlier points to other nodes.
    """
    if spec.nodes is None:
        return tuple(range(1, count_points(spec) + 1))
    count, total, points = spec.nodes.count, count_points(spec), []
    for start in range(0, total, count):
        order = list(range(1, count + 1))
        random.Random(f"nodes/{spec.campaign.seed}/{start}").shuffle(order)
        point = start + 1 + order.index(number)
        points += [point] if point <= total else []
    return tuple(points)


@contextmanager
def reading(part: NodePart) -> Iterator[Manifest]:
    """Open a part's manifest read-only, after rolling back what a killed process left half written."""
    path = part.folder / "campaign.sqlite"
    try:
        manifest = Manifest(path, read_only=True)
    except SpecError:
        if not is_half_written(part.folder):
            raise
        Manifest(path).close()
        manifest = Manifest(path, read_only=True)
    with manifest:
        yield manifest


def is_half_written(folder: Path) -> bool:
    """Return whether a manifest has a journal: a process is writing the manifest, or was killed while writing it."""
    return (folder / "campaign.sqlite-journal").exists()


def recorded_share(manifest: Manifest) -> CampaignSpec | None:
    """Return the spec of a part from its manifest; None if the manifest does not belong to a part."""
    number = manifest.fact("part")
    text, path = manifest.fact("spec_text"), manifest.fact("spec_path")
    if number is None or text is None or path is None:
        return None
    return share_of(parse_spec(text, path, Path(path).parent, recorded=True), number)


def lacks(spec: CampaignSpec, done: Mapping[str, int]) -> tuple[str, ...]:
    """Return the configurations that have too few runs on a node for a comparison, each as `baseline 3 of 5`."""
    lacking = []
    for item in configurations(spec):
        least = LEAST_BASELINE_RUNS if item.name == BASELINE else LEAST_RUNS
        if done.get(item.name, 0) < least:
            lacking.append(f"{item.name} {done.get(item.name, 0)} of {least}")
    return tuple(lacking)


def this_node() -> str:
    """Return the name of the node that this process runs on: Slurm's name if Slurm started the process."""
    return environ.get("SLURMD_NODENAME") or environ.get("UNPERTURBED_NODE") or socket.gethostname()


def claim(part: NodePart, others: tuple[NodePart, ...], node: str) -> str:
    """Claim a part permanently for a node; return why the node cannot have it, or ''. Each node owns one part.

    link(2) makes the owner's file appear whole, and fails if the file exists, also on NFS.
    """
    if part.owner is None:
        write_once(part.folder / "owner.json", {"node": node})
    if part.owner != node:
        return f"the part belongs to node {part.owner}"
    for other in others:
        if other.number != part.number and other.owner == node:
            (part.folder / "owner.json").unlink()
            return f"node {node} already owns part {other.name}"
    return ""


def write_once(path: Path, content: Mapping[str, Any]) -> bool:
    """Write a JSON file atomically unless it exists; return whether it was written."""
    with scratch_file(path) as file:
        file.write(json.dumps(content, indent=1).encode())
        file.flush()
        try:
            link(file.name, path)
        except FileExistsError:
            return False
    return True


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, replacing an existing file."""
    write_whole(path, json.dumps(content, indent=1))


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the content of a JSON file; None if the file does not exist."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path}: the file is damaged ({error}); remove it and run the campaign again") from None
    if not isinstance(content, dict):
        raise SpecError(f"{path}: the file is damaged (not a JSON object); remove it and run the campaign again")
    return content


def done_runs(manifest: Manifest) -> dict[str, int]:
    """Return each configuration's number of finished runs, in the pass that has the fewest."""
    by_configuration: dict[str, dict[str, int]] = {}
    names = [item["name"] for item in manifest.fact("passes") or []]
    for state in manifest.runs("done"):
        by_pass = by_configuration.setdefault(state.run.configuration, dict.fromkeys(names, 0))
        by_pass[state.run.pass_name] = by_pass.get(state.run.pass_name, 0) + 1
    return {name: min(by_pass.values()) for name, by_pass in by_configuration.items()}


def differing_facts(part: NodePart) -> list[str]:
    """Return the differences between a part's node and the first node, one clause each."""
    known = read_json(part.folder / "facts.json") or {}
    return [str(difference) for difference in known.get("differs", ())]


def difference_notes(part: NodePart) -> list[str]:
    """Return a sentence on the differences between a part's node and the first node, if there are any."""
    differs = differing_facts(part)
    return [f"{part.label} differs from the first node in {listing(differs)}."] if differs else []


@dataclass(frozen=True)
class Requests:
    """Runs that are requested from a part in batches, because earlier outcomes decide which runs come next.

    Only the coordinator writes a part's `requests.json`, and only the node writes the part's manifest. Batches are only
    ever added, and each is planned after the batches before it: a process that is started again finds the same plan.
    """

    session: str = ""  # The coordinator that may request more runs; empty if none will
    # For each candidate: `software`, its metrics, and `build`, the description of its build in the campaign's manifest
    # (None if nothing is built).
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batches: Sequence[Mapping[str, int]] = ()  # Number of further runs in each pass, by configuration

    @property
    def totals(self) -> Counter[str]:
        """Return how many runs per pass are requested for each configuration, over all batches."""
        totals: Counter[str] = Counter()
        for batch in self.batches:
            totals.update(batch)
        return totals

    def write(self, part: NodePart) -> None:
        """Write the requests to the part's folder, for the part's node."""
        write_json(part.folder / _REQUESTS, vars(self))


def read_requests(part: NodePart) -> Requests:
    """Return the requests to a part; an empty `Requests` if there is no file."""
    # Listing the folder makes a network file system notice a file that was replaced there.
    list(part.folder.iterdir())
    content = read_json(part.folder / _REQUESTS)
    if content is None:
        return Requests()
    try:
        return Requests(str(content["session"]), dict(content["configurations"]), tuple(map(dict, content["batches"])))
    except (KeyError, TypeError, ValueError):
        raise SpecError(f"{part.folder / _REQUESTS}: the file is damaged; remove it and repeat the command") from None


@dataclass(frozen=True)
class Kind:
    """Kind of campaign on nodes, which defines the work of the parts."""

    # whole, part: Purpose of the campaign's folder, and purpose of a part's folder.
    whole: str
    part: str
    share: Callable[[CampaignSpec, int], CampaignSpec]  # `share(campaign, number)`: the spec of a node's share
    # `least(campaign, number)`: the minimum number of runs of a part, before its node has planned any.
    least: Callable[[CampaignSpec, int], int]
    # `needed(campaign, part, manifest)`: the relevant runs of a part by state, and how many of them are required.
    needed: Callable[[CampaignSpec, NodePart, Manifest], tuple[Counter[str], int]]
    # Whether runs are requested in batches: a job that ends without runs left does not end the part.
    on_demand: bool = False


def _planned(spec: CampaignSpec, number: int) -> int:
    return sum(item.runs for item in configurations(share_of(spec, number)))


def _needed(spec: CampaignSpec, part: NodePart, manifest: Manifest) -> tuple[Counter[str], int]:
    passes = len(manifest.fact("passes") or [{}])
    return Counter(manifest.counts()), _planned(spec, part.number) * passes


def _rows(spec: CampaignSpec, number: int) -> int:
    return len(dealt_points(spec, number)) * spec.campaign.repetitions


def _needed_for_rows(spec: CampaignSpec, part: NodePart, manifest: Manifest) -> tuple[Counter[str], int]:
    """Count a sweep's runs, except those of points, repetitions and steps that the spec no longer has.

    If the unmeasured program fails at a point, nothing else is run there: the point's planned runs count as failed.
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
    counts: Counter[str] = Counter(
        "failed" if state.state == "planned" and state.run.point in first_failed else state.state for state in runs
    )
    return counts, _rows(spec, part.number) * len(steps or [""])


def _baselines(spec: CampaignSpec, number: int) -> CampaignSpec:
    return share_of(baselines_alone(spec), number)


def _requested(_spec: CampaignSpec, part: NodePart, manifest: Manifest) -> tuple[Counter[str], int]:
    """Count the requested runs; a run that failed in an earlier session counts as planned."""
    requests = read_requests(part)
    counts: Counter[str] = Counter(manifest.counts())
    if manifest.fact("session") != requests.session:
        counts["planned"] += counts.pop("failed", 0)
    return counts, requests.totals.total() * len(manifest.fact("passes") or [{}])


VERDICTS = Kind(NODES, CAMPAIGN, share_of, _planned, _needed)
"""Each node executes its share of the runs; the verdicts are combined over nodes."""

SWEEPS = Kind(f"{SWEEP} on nodes", SWEEP, share_of, _rows, _needed_for_rows)
"""Each node measures whole points; the rows of all nodes form one table."""

SEARCHES = Kind(f"{SEARCH} on nodes", SEARCH, _baselines, lambda _campaign, _number: 0, _requested, on_demand=True)
"""Each candidate of a search for a partition is measured on one node only, together with that node's baselines."""

KINDS: Mapping[str, Kind] = MappingProxyType({kind.whole: kind for kind in (VERDICTS, SWEEPS, SEARCHES)})


def kind_of(manifest: Manifest) -> Kind | None:
    """Return the kind of campaign on nodes that a manifest belongs to; None for any other manifest."""
    return KINDS.get(str(manifest.fact("purpose")))


def whole_campaign(folder: Path) -> CampaignSpec:
    """Return the spec of a campaign on nodes, as currently recorded in its manifest."""
    path = folder / "campaign.sqlite"
    if not path.is_file():
        raise SpecError(f"{folder} contains no campaign: it has no file campaign.sqlite")
    with Manifest(path, read_only=True) as manifest:
        if kind_of(manifest) is None:
            raise SpecError(f"{folder} contains no campaign on nodes: the campaign's spec has no section `nodes`")
        text, spec_path = manifest.fact("spec_text"), manifest.fact("spec_path")
    return parse_spec(text, spec_path, Path(spec_path).parent, recorded=True)
