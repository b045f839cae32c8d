"""Judge a campaign on nodes: each node by itself, then over nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unperturbed.analysis.nodes.combine import apart, combine_nodes
from unperturbed.analysis.nodes.verdicts import NodeVerdicts
from unperturbed.common.wording import listing
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.plan import configurations
from unperturbed.harness.campaign.progress import Watch, unwatched
from unperturbed.harness.nodes.shares import (
    NodePart,
    differing_facts,
    done_runs,
    lacks,
    parts_of,
    reading,
    share_of,
    write_json,
)
from unperturbed.harness.results.judge import Judgement, judge
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE

VERDICTS = "nodes.json"
"""The verdicts over nodes, as `check --json` prints them."""


@dataclass(frozen=True)
class NodesJudgement:
    """The verdicts of a campaign on nodes."""

    verdicts: NodeVerdicts  # Over nodes
    by_node: Mapping[str, Judgement]  # Of each node that was judged
    # failed, missing: Runs that failed for good, and runs that were not made, as `NN/RUN`.
    failed: tuple[str, ...]
    missing: tuple[str, ...]


def judge_nodes(
    folder: Path, spec: CampaignSpec, *, notes: Sequence[str] = (), write: bool = True, watch: Watch = unwatched
) -> NodesJudgement:
    """Compute the verdicts of a campaign on nodes.

    `write`: Write `report.html` and `nodes.json` into the folder, and the report of each node into its own.
    Result: Over the nodes that have enough runs; the others are named in its notes.
    """
    if spec.nodes is None:
        raise SpecError(f"{folder}: its spec has no `nodes`")
    judged: dict[str, Judgement] = {}
    said, failed, missing = list(notes), list[str](), list[str]()
    results: dict[str, str] = {}
    for part in parts_of(folder, spec.nodes.count):
        if not (part.folder / "campaign.sqlite").is_file():
            said.append(f"Part {part.name} was never started.")
            continue
        share = share_of(spec, part.number)
        with reading(part) as manifest:
            failed += [f"{part.name}/{state.run.id}" for state in manifest.runs("failed")]
            missing += [f"{part.name}/{state.run.id}" for state in manifest.runs("planned", "running")]
            lacking = lacks(share, done_runs(manifest))
            expected = manifest.fact("expected")
        node = _label(part)
        if lacking:
            if not any(f"Part {part.name} " in note for note in said):
                said.append(f"Part {part.name} ({node}) has too few finished runs to be judged: {', '.join(lacking)}.")
            continue
        results[node] = expected["digest"] if expected else ""
        said += _differences(part, node)
        judged[node] = judge(part.folder, share, write=write, watch=watch)
    if not judged:
        raise SpecError(f"{folder}: no node has enough finished runs to be judged. {' '.join(said)}".rstrip())
    if len(set(results.values())) > 1 and spec.program.result == "same":
        said.append("The program gave other results on some nodes than on others: the nodes ran different work.")
    verdicts = NodeVerdicts(
        tuple(
            combine_nodes(found)
            for item in configurations(spec)
            if (found := {node: verdict for node, one in judged.items() if (verdict := one.verdicts.of(item.name))})
        ),
        apart(_baselines(judged)),
        tuple(said),
        tuple(item.name for item in configurations(spec) if item.sham_of is not None),
    )
    if write:
        verdicts.write_html(folder / "report.html")
        write_json(folder / VERDICTS, verdicts.to_dict())
    return NodesJudgement(verdicts, judged, tuple(failed), tuple(missing))


def _label(part: NodePart) -> str:
    return part.owner or f"part {part.name}"


def _differences(part: NodePart, node: str) -> list[str]:
    """Return in what a node differs from the one that began, in a sentence."""
    differs = differing_facts(part)
    return [f"{node} differs from the node that began in {listing(differs)}."] if differs else []


def _baselines(judged: Mapping[str, Judgement]) -> dict[str, dict[str, float]]:
    """Return the mean logarithm of each hardware metric's total in the baseline, by node."""
    found: dict[str, dict[str, float]] = {}
    for node, one in judged.items():
        for by_configuration in one.verdicts.traces.values():
            runs = by_configuration.get(BASELINE, ())
            for metric in runs[0].names("hardware", "simulated") if runs else ():
                totals = [float(trace[metric].sum()) for trace in runs]
                if min(totals) > 0:
                    found.setdefault(f"total of {metric}", {}).setdefault(node, float(np.log(totals).mean()))
    return {name: by_node for name, by_node in found.items() if len(by_node) == len(judged)}
