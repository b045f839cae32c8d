"""A search for a partition on several nodes: each candidate is measured wholly on one, beside that node's baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from unperturbed.analysis.partition import Ahead, Forecast, Measurement, forecast, search
from unperturbed.common.extras import require
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.plan import baselines_alone
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.nodes.coordinate import coordinated
from unperturbed.harness.nodes.kinds import SEARCHES
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.studies.partition import (
    Partitioned,
    Search,
    settings_of,
    silent_notes,
    wanted_metrics,
    write_plan,
)
from unperturbed.harness.studies.search_on_nodes.judge import NodesJudge
from unperturbed.harness.studies.search_on_nodes.page import nodes_content


def partition_on_nodes(
    spec: CampaignSpec,
    folder: Path,
    how: Search,
    progress: Progress,
    *,
    announce: Callable[[Forecast], None],
    observer: Callable[[Measurement], None],
) -> Partitioned:
    """Search for a partition of a spec's software metrics on nodes, or go on with a search.

    `campaign`: The spec, with `nodes`; its subsets play no part. `baseline_runs` is the total of all nodes.
    """
    require("analysis")
    metrics = wanted_metrics(spec)
    _check(spec)
    settings_of(spec, how, None)  # what is wrong with them is said before anything is built
    folder = folder.absolute()
    with coordinated(baselines_alone(spec), folder, progress, SEARCHES) as coordination:
        judge = NodesJudge(coordination, folder)
        try:
            judge.build(metrics)  # what is wrong with an event is said before hours of baseline runs
            seconds, passes = judge.begin()
            settings = settings_of(spec, how, seconds)
            parts = len(judge.live)
            baseline_runs = sum(judge.reference_runs(number) for number in judge.live) * passes
            announce(forecast(len(metrics), how.strategy, settings, passes=passes, baseline_runs=baseline_runs))
            judge.make_references()
            plan = search(
                metrics,
                judge,
                settings,
                strategy=how.strategy,
                tolerance=spec.analysis.tolerance,
                observer=observer,
                ahead=Ahead(parts, judge.request) if parts > 1 else None,
            )
        finally:
            judge.end()
        notes = (*silent_notes(metrics, judge.counted), *judge.notes())
        content = nodes_content(spec, plan, coordination.parts)
        write_plan(spec, folder, plan, replace(content, notes=(*notes, *content.notes)))
    return Partitioned(plan, judge.failed, notes)


def _check(spec: CampaignSpec) -> None:
    """Refuse what needs all builds before the first run: a search builds its candidates while nodes work."""
    if spec.nodes is not None and spec.nodes.stage is not None:
        raise SpecError(
            "a search on nodes builds candidates while it runs, so it cannot copy them first: remove `stage`"
        )
    if spec.campaign.layouts == "varied":
        raise SpecError(
            "a search on nodes runs each build as it is: remove `layouts: varied`, and run the plan with it afterwards"
        )
