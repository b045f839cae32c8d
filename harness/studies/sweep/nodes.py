"""A sweep on several nodes: each node measures whole points, and the rows of all are joined to one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unperturbed.common.wording import listing
from unperturbed.errors import RunError
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.nodes.coordinate import Coordination, coordinated
from unperturbed.harness.nodes.kinds import SWEEPS
from unperturbed.harness.nodes.shares import NodePart, dealt_points, differing_facts, reading
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.parameters import points
from unperturbed.harness.studies.sweep.rows import Recorded, read_recorded
from unperturbed.harness.studies.sweep.runs import run_sweep
from unperturbed.harness.studies.sweep.table import SweepTable, join_recorded


def run_sweep_on_nodes(spec: CampaignSpec, folder: Path, progress: Progress) -> SweepTable:
    """Run a sweep on nodes, or what is left of it, and write its table.

    Result: What was written: the complete rows of all nodes, and what is missing, with the reason.
    """
    with coordinated(spec, folder, progress, SWEEPS) as coordination:
        try:
            coordination.watch()
        finally:
            table = _join(coordination, folder)
    if coordination.given_up and not table.frame.height:
        reasons = "; ".join(dict.fromkeys(coordination.given_up.values()))
        raise RunError(f"no row of the sweep is complete; every run is kept, and the same command resumes. {reasons}")
    return table


def make_part(spec: CampaignSpec, part: NodePart, progress: Progress) -> None:
    """Measure what is left of the points of one node, and write their table into the part's folder."""
    run_sweep(spec, part.folder, progress, part=part.number)


def _join(coordination: Coordination, folder: Path) -> SweepTable:
    """Write the table of what all parts have recorded."""
    campaign = coordination.spec
    found, every = [], points(campaign)
    parts = coordination.parts
    for part in parts:
        why = coordination.given_up.get(part.number, "")
        found.append(_recorded(campaign, part, every, f"part {part.name} ended before: {why}" if why else ""))
    return join_recorded(
        campaign, folder, coordination.manifest, found, every, notes=_notes(parts), host=None, nodes=_nodes(parts)
    )


def _recorded(spec: CampaignSpec, part: NodePart, every: Sequence[Mapping[str, Any]], lost: str) -> Recorded:
    own = dealt_points(spec, part.number)
    with reading(part) as manifest:
        steps = tuple(manifest.fact("steps") or ())
        return read_recorded(spec, manifest, steps, every, own, node=_label(part), lost=lost)


def _label(part: NodePart) -> str:
    return part.owner or f"part {part.name}"


def _nodes(parts: Sequence[NodePart]) -> list[dict[str, Any]]:
    """Return the description of each node for `table.json`."""
    found = []
    for part in parts:
        with reading(part) as manifest:
            host = manifest.fact("host")
        found.append({"node": _label(part), "part": part.name, "host": host, "differs": list(differing_facts(part))})
    return found


def _notes(parts: Sequence[NodePart]) -> list[str]:
    """Return in what nodes differ from the one that began, a sentence each."""
    return [
        f"{_label(part)} differs from the node that began in {listing(differs)}."
        for part in parts
        if (differs := differing_facts(part))
    ]
