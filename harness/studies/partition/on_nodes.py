"""Partition search on several nodes: all runs of a candidate, and its baselines, are made on the same node."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from unperturbed.analysis.partition import Ahead, Forecast, Measurement, Plan, forecast, search
from unperturbed.analysis.report import ReportContent
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import require
from unperturbed.common.wording import listing
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.execution import SEARCH, execute_plan, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.pilot import with_configuration
from unperturbed.harness.campaign.plan import Configuration, baselines_alone, plan_batch
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.traces import reopen_lost
from unperturbed.harness.nodes.coordinate import coordinated
from unperturbed.harness.nodes.engines import engine_of
from unperturbed.harness.nodes.shares import SEARCHES, NodePart, Requests, difference_notes, read_requests, reading
from unperturbed.harness.results.recorded import Traces, read_traces
from unperturbed.harness.results.reporting import partition_content
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.studies.partition.nodes_judge import NodesJudge
from unperturbed.harness.studies.partition.plan_file import write_plan
from unperturbed.harness.studies.partition.runs import missing_runs
from unperturbed.harness.studies.partition.software import (
    DEFAULT_STRATEGY,
    Partitioned,
    SearchOptions,
    settings_of,
    silent_notes,
    wanted_metrics,
)

_PAUSE_S = 0.1  # Pause between two checks for requests, while nothing is measured


def nodes_content(spec: CampaignSpec, plan: Plan, parts: Sequence[NodePart]) -> ReportContent:
    """Collect the content of a plan's page besides the plan; host, settings and examples are the first node's."""
    contents: list[ReportContent] = []
    places: list[str] = []
    differs: list[str] = []
    for part in parts:
        with reading(part) as manifest:
            if not manifest.counts().get("done"):
                continue
            traces = _named(read_traces(part.folder, manifest), part)
            content = partition_content(spec, plan, traces, manifest)
        rows = tuple(replace(row, run=f"{part.name}/{row.run}") for row in content.runs)
        contents.append(replace(content, runs=rows))
        places.append(f"{part.name} was measured on {part.owner}")
        differs += difference_notes(part)
    if not contents:
        raise RunError("no node has a finished run")
    where = f"Run names consist of part and number. Part {listing(places)}. Each subset was measured on one node."
    examples = {name: traces for content in reversed(contents) for name, traces in content.traces.items() if traces}
    return replace(
        contents[0],
        runs=tuple(row for content in contents for row in content.runs),
        traces=examples,
        notes=tuple(dict.fromkeys((where, *differs, *(note for content in contents for note in content.notes)))),
    )


def _named(traces: Traces, part: NodePart) -> dict[str, dict[str, tuple[Trace, ...]]]:
    """Return the traces with each run named by part and number, as in the plan."""

    def named(trace: Trace) -> Trace:
        return replace(trace, attributes={**trace.attributes, "run": f"{part.name}/{trace.attributes['run']}"})

    return {
        pass_name: {name: tuple(map(named, runs)) for name, runs in by_name.items()}
        for pass_name, by_name in traces.items()
    }


def partition_on_nodes(
    spec: CampaignSpec,
    folder: Path,
    how: SearchOptions,
    progress: Progress,
    *,
    announce: Callable[[Forecast], None],
    observer: Callable[[Measurement], None],
) -> Partitioned:
    """Search for a partition on nodes, or resume a search; the spec's `baseline_runs` is the total over all nodes."""
    require("analysis")
    metrics = wanted_metrics(spec)
    _check(spec)
    settings_of(spec, how, None)  # reject invalid settings before any build
    folder = folder.absolute()
    with coordinated(baselines_alone(spec), folder, progress, SEARCHES) as coordination:
        judge = NodesJudge(coordination, folder)
        try:
            judge.build(metrics)  # report an invalid event before hours of baseline runs
            seconds, passes = judge.begin()
            settings = settings_of(spec, how, seconds)
            parts = len(judge.live)
            baseline_runs = sum(judge.reference_runs(number) for number in judge.live) * passes
            strategy = how.strategy or DEFAULT_STRATEGY
            announce(forecast(len(metrics), strategy, settings, passes=passes, baseline_runs=baseline_runs))
            judge.make_references()
            plan = search(
                metrics,
                judge,
                settings,
                strategy=strategy,
                tolerance=spec.analysis.tolerance,
                observer=observer,
                ahead=Ahead(parts, judge.request) if parts > 1 else None,
            )
        finally:
            judge.end()
        notes = (*silent_notes(metrics, judge.counted), *judge.notes())
        content = nodes_content(spec, plan, coordination.parts)
        write_plan(spec, folder, plan, content, notes)
    return Partitioned(plan, judge.failed, notes)


def _check(spec: CampaignSpec) -> None:
    """Reject settings that need all builds before the first run: a search builds candidates while nodes work."""
    if spec.nodes is not None and spec.nodes.stage is not None:
        raise SpecError(
            "a search on nodes builds the program again for each subset that it tries, so `stage` cannot copy the "
            "builds in advance: remove `stage`"
        )
    if spec.campaign.layouts == "varied":
        raise SpecError(
            "a search on nodes does not vary layouts: remove `layouts: varied` for the search, and add it again to run "
            "the plan that the search finds"
        )


def make_search_part(spec: CampaignSpec, part: NodePart, progress: Progress) -> None:
    """Make the requested runs of a part, and wait for more requests.

    The part ends when the search is over, or when no request came for the time `patience`, because the coordinator was
    probably killed. If parts are executed one after another, the part ends as soon as no requested run is left.
    """
    share = SEARCHES.share(spec, part.number)
    with prepare_campaign(share, part.folder, progress, purpose=SEARCH, judged=True) as (prepared, samplings, manifest):
        session = prepared
        patience = _patience(spec, part)
        waiting_since = time.monotonic()
        while True:
            requests = read_requests(part)
            if requests.session != manifest.fact("session"):
                if requests.session:  # a new coordinator started: retry failed and lost runs
                    manifest.reopen()
                    reopen_lost(part.folder, manifest, progress)
                manifest.set_facts(session=requests.session)
            for name in requests.totals:
                if name not in session.built:
                    item = _candidate(requests, name, manifest)
                    session = with_configuration(session, item, samplings, manifest, progress)
            _plan(share, list(samplings), requests, manifest)
            if manifest.counts().get("planned", 0):
                execute_plan(session, samplings, manifest, progress)
                waiting_since = time.monotonic()
            elif not requests.session or time.monotonic() - waiting_since > patience:
                return
            else:
                time.sleep(_PAUSE_S)


def _patience(spec: CampaignSpec, part: NodePart) -> float:
    """Return how many seconds a part waits for requests."""
    if spec.nodes is None:
        return 0.0
    engine = engine_of(spec.nodes, part.folder.parent.parent, "")
    return spec.nodes.patience.seconds if engine.at_once is None else 0.0


def _candidate(requests: Requests, name: str, manifest: Manifest) -> Configuration:
    """Return the configuration of a candidate that the coordinator has built."""
    known = requests.configurations[name]
    if known["build"] is not None:
        manifest.set_facts(builds={**(manifest.fact("builds") or {}), name: known["build"]})
    return Configuration(name, tuple(known["software"]), 1)


def _plan(share: CampaignSpec, passes: list[str], requests: Requests, manifest: Manifest) -> None:
    """Add requested runs to the plan unless already planned, batch by batch."""
    design, totals = share.campaign, Counter[str]()
    before = [state.run for state in manifest.runs(hosts=False)]
    for batch in requests.batches:
        totals.update(batch)
        if missing := missing_runs({name: totals[name] for name in batch}, before, passes[0]):
            more = plan_batch(missing, passes, seed=design.seed, before=before, order=design.order, builds=share.builds)
            manifest.plan(more)
            before += more
