"""What `unperturbed align` and `unperturbed merge` do: which traces, aligned how, judged by what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unperturbed.analysis.alignment import (
    Alignment,
    Merged,
    ScoreSummary,
    WarpPath,
    merge,
    milestone_scores,
    summarise_scores,
)
from unperturbed.analysis.report import AlignmentExample
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.check import Checked, align_on, check, read_traces
from unperturbed.harness.judge import recorded_campaign
from unperturbed.harness.manifest import Manifest
from unperturbed.harness.plan import configurations
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import ANCHOR, BASELINE

__all__ = ["MergedCampaign", "example_of", "merge_campaign", "read_run", "scores_of", "to_json"]


@dataclass(frozen=True)
class MergedCampaign:
    """A campaign's runs joined into one trace.

    Attributes
    ----------
    merged : the trace, and where each metric came from.
    rejected : configurations whose outer check showed them perturbed, and that were merged all the same.
    notes : one sentence each.
    """

    merged: Merged
    rejected: tuple[str, ...]
    notes: tuple[str, ...]


def read_run(path: Path) -> Trace:
    """Read a trace from its file, or from the folder of a run.

    Raises
    ------
    DataError
        There is none.
    """
    return Trace.read(path / "trace.parquet" if path.is_dir() and (path / "trace.parquet").is_file() else path)


def scores_of(path: WarpPath, a: Trace, b: Trace, *, anchor: str | None = None) -> dict[str, ScoreSummary]:
    """Judge a path by every software counter that both runs counted alike, but for the anchor, which would flatter it.

    Returns
    -------
    dict
        Counter's name to the summary of its scores, rarest counter first; without those that no path element holds.
    """
    names = [
        name
        for name in a.names("software")
        if name != anchor
        and name in b.metrics
        and a.metrics[name].semantics == "counter"
        and a[name].sum() == b[name].sum() > 0
    ]
    names.sort(key=lambda name: int(a[name].sum()))
    summaries = {name: summarise_scores(milestone_scores(path, a[name].cumsum(), b[name].cumsum())) for name in names}
    return {name: summary for name, summary in summaries.items() if summary.elements}


def example_of(alignment: Alignment, a: Trace, b: Trace, scores: dict[str, ScoreSummary]) -> AlignmentExample:
    """Return what the page of an alignment shows."""
    judge = next(iter(scores), None)
    ways = f"on {', '.join(alignment.on)}" + (f", through milestones of {alignment.anchor}" if alignment.anchor else "")
    judged = f" The scores say by how many intervals the path misses the milestones of {judge}." if judge else ""
    x_flat = alignment.warped.x_index[alignment.flat - (0, 1)] + (0, 1)
    return AlignmentExample(
        first=name_of(a, "a"),
        second=name_of(b, "b"),
        metric=alignment.on[0],
        x=a[alignment.on[0]],
        y=b[alignment.on[0]],
        x_index=alignment.x_index,
        y_index=alignment.y_index,
        milestone_scores=milestone_scores(alignment, a[judge].cumsum(), b[judge].cumsum()) if judge else (),
        description=f"Aligned {ways}.{judged}",
        flat=[(int(start), int(stop)) for start, stop in x_flat],
    )


def name_of(trace: Trace, otherwise: str) -> str:
    """Return the name of a trace's run."""
    return str(trace.attributes.get("run", otherwise))


def to_json(alignment: Alignment, a: Trace, b: Trace, scores: dict[str, ScoreSummary]) -> dict[str, Any]:
    """Return all that is known of an alignment as JSON types."""
    return {
        "first": {"run": name_of(a, "a"), "intervals": len(a)},
        "second": {"run": name_of(b, "b"), "intervals": len(b)},
        "method": alignment.method,
        "on": dict(zip(alignment.on, alignment.scale or (), strict=True)),
        "penalty": alignment.penalty,
        "cost": alignment.cost,
        "anchor": alignment.anchor,
        "anchors": [list(cell) for cell in alignment.anchors],
        "flat_share": alignment.flat_share,
        "longest_flat": alignment.longest_flat,
        "pace": alignment.pace,
        "warning": alignment.warning,
        "scores": {name: vars(summary) for name, summary in scores.items()},
        "x_index": alignment.x_index.tolist(),
        "y_index": alignment.y_index.tolist(),
    }


def merge_campaign(folder: Path, *, budget: int | None, force: bool) -> MergedCampaign:
    """Join the runs of a campaign into one trace with every metric.

    The reference is a run of the anchor's configuration where there is one, as all subsets share its milestones, else of the baseline.

    Parameters
    ----------
    folder : of the campaign.
    budget : milestones of the anchor that may be used; None for all.
    force : merge configurations too whose outer check showed them perturbed.

    Raises
    ------
    SpecError
        The folder holds no campaign, or a configuration was rejected and force is not given.
    DataError
        Two runs cannot be aligned.
    """
    campaign = recorded_campaign(folder)
    with Manifest(folder / "campaign.sqlite") as manifest:
        checked = check(campaign, read_traces(folder, manifest))
    rejected = _rejected(checked)
    if rejected and not force:
        raise SpecError(
            f"the outer check shows {', '.join(rejected)} perturbed: its metrics are of another program's run, so to speak; "
            "--force merges all the same, and marks them"
        )
    traces = _in_order(campaign, checked)
    if not traces:
        raise DataError(f"{folder}: no run of this campaign gave a trace, so there is nothing to merge")
    anchor = campaign.analysis.anchor if ANCHOR in {trace.attributes["configuration"] for trace in traces} else None
    merged = merge(traces, on=align_on(campaign, traces[0]), anchor=anchor, budget=budget)
    merged.trace.attributes["merged"]["rejected"] = list(rejected)
    undecided = sorted({verdict.configuration for verdict in checked.verdicts if verdict.verdict == "undecided"})
    notes = [f"Not shown unperturbed, only not shown perturbed: {', '.join(undecided)}."] if undecided else []
    return MergedCampaign(merged, rejected, (*notes, *checked.notes))


def _rejected(checked: Checked) -> tuple[str, ...]:
    """Return the configurations with a metric whose outer correlation was shown to differ."""
    return tuple(
        dict.fromkeys(
            verdict.configuration
            for verdict in checked.verdicts
            if any(change.check == "outer" and change.verdict == "perturbed" for change in verdict.changes)
        )
    )


def _in_order(campaign: Campaign, checked: Checked) -> Sequence[Trace]:
    """Return all traces: the reference's configuration first, pass by pass, then the baseline, then the subsets."""
    names = [item.name for item in configurations(campaign)]
    names.sort(key=lambda name: {ANCHOR: 0, BASELINE: 1}.get(name, 2))
    return [trace for name in names for by_configuration in checked.traces.values() for trace in by_configuration.get(name, ())]
