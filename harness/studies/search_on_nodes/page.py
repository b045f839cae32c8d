"""What the page of a partition shows of a search on several nodes: the runs of all of them, and where each was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unperturbed.analysis.partition import Plan
from unperturbed.analysis.report import ReportContent
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import listing
from unperturbed.errors import RunError
from unperturbed.harness.nodes.shares import NodePart, differing_facts, reading
from unperturbed.harness.results.recorded import Traces, read_traces
from unperturbed.harness.results.reporting import partition_content
from unperturbed.harness.spec.campaign_spec import CampaignSpec


def nodes_content(spec: CampaignSpec, plan: Plan, parts: Sequence[NodePart]) -> ReportContent:
    """Gather what a plan's page shows beside the plan.

    Result: Host, settings and example traces are those of the first node; runs are named as `PART/RUN`.
    """
    found: list[ReportContent] = []
    places: list[str] = []
    differs: list[str] = []
    for part in parts:
        with reading(part) as manifest:
            if not manifest.counts().get("done"):
                continue
            traces = _named(read_traces(part.folder, manifest), part)
            content = partition_content(spec, plan, traces, manifest)
        rows = tuple(replace(row, run=f"{part.name}/{row.run}") for row in content.runs)
        found.append(replace(content, runs=rows))
        places.append(f"{part.name} was made by {part.owner}")
        if differences := differing_facts(part):
            differs.append(f"{part.owner} differs from the node that began in {listing(differences)}.")
    if not found:
        raise RunError("no node has a finished run")
    where = f"Runs are named by part and number. Part {listing(places)}. Each subset was measured on one node."
    examples = {name: traces for content in reversed(found) for name, traces in content.traces.items() if traces}
    return replace(
        found[0],
        runs=tuple(row for content in found for row in content.runs),
        traces=examples,
        notes=tuple(dict.fromkeys((where, *differs, *(note for content in found for note in content.notes)))),
    )


def _named(traces: Traces, part: NodePart) -> dict[str, dict[str, tuple[Trace, ...]]]:
    """Return traces whose runs are named by part and number, as in the plan."""

    def named(trace: Trace) -> Trace:
        return replace(trace, attributes={**trace.attributes, "run": f"{part.name}/{trace.attributes['run']}"})

    return {
        pass_name: {name: tuple(map(named, found)) for name, found in by_name.items()}
        for pass_name, by_name in traces.items()
    }
