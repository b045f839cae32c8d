"""A page of its own for a partition: which metrics can be measured together, why that is believed, how it was found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unperturbed.analysis.metric_names import is_simulated
from unperturbed.analysis.pages.document import document, navigation, packed_block, write_page
from unperturbed.analysis.partition.describe import alone_costs, cost_kind, ordered_metrics, plan_headline
from unperturbed.analysis.perturbation import Verdict
from unperturbed.analysis.report.campaign.changes import details, details_dialog
from unperturbed.analysis.report.campaign.content import CounterSource, ReportContent, described_metrics
from unperturbed.analysis.report.campaign.figures.forest import forest
from unperturbed.analysis.report.campaign.reference import provenance_section, runs_section
from unperturbed.analysis.report.campaign.results import change_key, configuration_results, listed_changes
from unperturbed.analysis.report.campaign.verdicts import failures, headline_facts, simulated_banner
from unperturbed.analysis.report.partition.figures import runs_figure, steps_figure
from unperturbed.analysis.report.partition.sections import (
    evidence_section,
    left_out_section,
    picture_section,
    search_section,
    tolerance_words,
)
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.partition import Plan
    from unperturbed.analysis.report.campaign.results import ConfigurationResult


_LISTED = 1000
"""Changes whose runs a click can show."""

_PLACES = (
    ("plan", "The plan"),
    ("left-out", "Left out"),
    ("evidence", "Evidence"),
    ("search", "How it was found"),
    ("runs", "Runs"),
    ("provenance", "Provenance"),
)


def render_partition(content: ReportContent, plan: Plan) -> str:
    """Return a plan as one HTML document, as self-contained as the report.

    Parameters
    ----------
    content : ReportContent
        What was measured and where, as for the report. Its verdicts play no part.
    plan : Plan
        What was found; unfinished, and without a certified subset, too.
    """
    subsets = [(each.name, each.verdict, each.metrics) for each in plan.subsets]
    lone = [(each.metric, each.verdict, (each.metric,)) for each in plan.unmeasurable]
    others = [(", ".join(each.metrics), each.verdict, each.metrics) for each in plan.undecided]
    certified = [_result(content, *each) for each in subsets]
    refused = [_result(content, *each) for each in (*lone, *others) if each[1] is not None]
    listed = listed_changes([*certified, *refused], _LISTED)
    index = {change_key(result, change): place for place, (result, change) in enumerate(listed)}
    costs = alone_costs(plan)
    kind = cost_kind([*costs.values(), *(subset.cost for subset in plan.subsets)])
    described = described_metrics(content)
    simulated = content.source.simulated or any(map(is_simulated, described.values()))
    # The picture comes first: people look before they read.
    beneath = [
        simulated_banner(content),
        headline_facts(content),
        [tag("p", note, class_="note") for note in content.notes],
    ]
    sections = [
        picture_section(plan, beneath, anchor=content.settings.anchor, simulated=simulated),
        left_out_section(plan, forest(refused, index, "forest-left-out")),
        evidence_section(
            plan, certified, [forest([each], index, f"forest-{place}") for place, each in enumerate(certified, 1)], kind
        ),
        search_section(plan, steps_figure(plan, ordered_metrics(plan, costs, kind)), runs_figure(plan)),
        runs_section(content.runs),
        provenance_section(content, certified, described),
    ]
    places = [
        (identity, name)
        for identity, name in _PLACES
        if any(f'id="{identity}"' in part[:200] for part in sections if part)
    ]
    header = tag(
        "header",
        tag("p", "Unperturbed: which metrics can be measured together?", class_="kicker"),
        tag("h1", content.campaign),
        tag("p", plan_headline(plan), class_="answer"),
        tag("p", tolerance_words(plan), class_="lead") if plan.subsets else None,
        _unfinished(plan),
        failures(content),
        tag("noscript", tag("p", "Figures need JavaScript. Every number is in the tables too.", class_="note")),
    )
    return document(
        f"{content.campaign}: which metrics can be measured together",
        tag("a", "Skip to the plan", href="#plan", class_="skip"),
        navigation(places),
        header,
        tag("main", sections),
        details_dialog(),
        packed_block("details-data", details(listed)),
        version=content.headline.version,
    )


def render_plan(plan: Plan) -> str:
    """Return a plan as one HTML document, without what only its campaign knows: program, host, runs."""
    return render_partition(ReportContent("partition", (), CounterSource("not recorded")), plan)


def write_partition(path: str | os.PathLike[str], content: ReportContent, plan: Plan) -> None:
    """Write a plan's page. It appears whole or not at all; one that is there is replaced."""
    write_page(path, render_partition(content, plan))


def _result(content: ReportContent, name: str, verdict: Verdict | None, metrics: Sequence[str]) -> ConfigurationResult:
    """Return a verdict as the report's figures and tables take it; without a verdict it has no changes."""
    anchor = content.settings.anchor
    held = (*(() if anchor is None else (anchor,)), *metrics)
    named = replace(verdict or Verdict("", "baseline", "undecided", ()), configuration=name)
    (found,) = configuration_results(replace(content, verdicts=(named,), software_by_configuration={name: held}))
    return found


def _unfinished(plan: Plan) -> Html | None:
    if plan.complete:
        return None
    go_on = "Repeat the command to continue the search" + (
        ", with a higher limit." if plan.stopped.startswith("max_") else "."
    )
    return tag(
        "aside",
        tag("strong", "Not finished: "),
        f"{plan.stopped}. This is the best plan so far. {go_on}",
        class_="banner",
        aria_label="Not finished",
    )
