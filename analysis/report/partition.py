"""The page of a partition: which metrics can be measured together, the evidence, and how the search found them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unperturbed.analysis.metric_names import is_simulated
from unperturbed.analysis.pages.document import (
    choice,
    definitions,
    document,
    frame,
    navigation,
    packed_block,
    page_header,
    section,
    write_page,
)
from unperturbed.analysis.partition.plan_text import (
    STAGES,
    TOO_CLOSE,
    CostKind,
    alone_costs,
    cost_kind,
    cost_words,
    families_table,
    forecast_words,
    measurement_verdict,
    new_runs,
    ordered_metrics,
    plan_headline,
    validity,
)
from unperturbed.analysis.perturbation import VERDICT_SIGNS, Verdict, change_sentence
from unperturbed.analysis.report.campaign.changes import details, details_dialog
from unperturbed.analysis.report.campaign.content import (
    CounterSource,
    ReportContent,
    ReportView,
    configuration_results,
    listed_changes,
)
from unperturbed.analysis.report.campaign.figures.forest import FOREST_ROWS, forest
from unperturbed.analysis.report.campaign.reference import provenance_section, runs_section
from unperturbed.analysis.report.campaign.verdicts import badge, failures, headline_facts, simulated_banner
from unperturbed.analysis.report.partition_figures import runs_figure, steps_figure
from unperturbed.common.markup import Content, Html, HtmlCell, table, tag
from unperturbed.common.wording import BAD, GOOD, correlation, counted, number

if TYPE_CHECKING:
    from unperturbed.analysis.pages.chart import Figure
    from unperturbed.analysis.partition import CertifiedSubset, Cost, Measurement, Plan
    from unperturbed.analysis.perturbation import VerdictName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult


_COLOURS = 6
_SIGNS = {str(name): sign for name, sign in VERDICT_SIGNS.items()} | {"certified": GOOD, "not certified": BAD}
_STYLES = {"certified": "unperturbed", "not certified": "perturbed"}
_KIND_HEADS: Mapping[CostKind, str] = {
    "instructions": "instructions added",
    "cycles": "cycles added",
    "time": "time added",
    "events": "events per run",
}
_WHAT_MAY_HELP = (
    "use more repetitions (--max-repetitions), a longer interval or a wider tolerance; with hardware counters, also a "
    "quieter host"
)


def picture_section(plan: Plan, beneath: Content, *, anchor: str | None, simulated: bool) -> Html:
    """Return the section with the plan as a table: one row per metric with its cost, one column per subset."""
    costs, kind, metrics = alone_costs(plan), cost_kind(plan), ordered_metrics(plan)
    most = max((getattr(cost, kind) or 0.0 for cost in costs.values()), default=0.0) if kind else 0.0
    held = {metric: at for at, subset in enumerate(plan.subsets) for metric in subset.metrics}
    perturbs = {each.metric for each in plan.unmeasurable}
    head = (
        f"alone: {_KIND_HEADS[kind]}{' (simulated)' if simulated and kind != 'events' else ''}"
        if kind
        else "cost alone"
    )
    heads: list[str | tuple[str, str]] = [
        "metric",
        (
            head,
            f"overhead of this metric alone{' (with the anchor)' if anchor else ''}, relative to runs that count "
            "nothing, of the same build if the subsets share one",
        ),
        *(subset.name for subset in plan.subsets),
    ]
    left_out = [""] if len(held) < len(metrics) else []
    if left_out:
        heads.append("left out")
    rows: list[list[HtmlCell | Content]] = []
    if anchor is not None and plan.subsets:
        in_all = [_held(at, anchor, subset.name) for at, subset in enumerate(plan.subsets)]
        rows.append([HtmlCell([anchor, tag("small", " anchor")]), "", *in_all, *left_out])
    for metric in metrics:
        cells: list[HtmlCell | Content] = [HtmlCell(metric), _cost(costs.get(metric), kind, most)]
        for at, subset in enumerate(plan.subsets):
            cells.append(_held(at, metric, subset.name) if held.get(metric) == at else HtmlCell("", class_="free"))
        if metric not in held and metric in perturbs:
            cells.append(HtmlCell(tag("a", "✗ perturbs alone", href="#left-out"), class_="out perturbed"))
        elif metric not in held:
            cells.append(HtmlCell(tag("a", "? no certificate", href="#left-out"), class_="out undecided"))
        else:
            cells += left_out
        rows.append(cells)
    if plan.subsets:
        sums = [HtmlCell(cost_words(subset.cost, kind), class_="sum") for subset in plan.subsets]
        rows.append(["together", "", *sums, *left_out])
    kinds = [{"class_": "sums"} if plan.subsets and row is rows[-1] else {} for row in rows]
    return section(
        "plan",
        "The plan",
        tag(
            "p",
            "One row per metric, one column per subset: the metrics of a column are measured in the same runs. ",
            ["plan.yaml contains the subsets; to measure them, run ", tag("code", "unperturbed run plan.yaml"), "."]
            if plan.subsets
            else "No subset is certified, so the table has no subset columns.",
        ),
        tag("div", table("Which metrics are measured together", heads, rows, row_attributes=kinds), class_="partition"),
        beneath,
    )


def _held(at: int, metric: str, subset: str) -> HtmlCell:
    filled = tag(
        "a", "✓", href=f"#evidence-{at + 1}", title=f"{metric} in {subset}", aria_label=f"{metric} in {subset}"
    )
    return HtmlCell(filled, class_=f"held s{at % _COLOURS + 1}")


def _cost(cost: Cost | None, kind: CostKind | None, most: float) -> HtmlCell:
    value = getattr(cost, kind) if cost is not None and kind is not None else None
    width = max(0.0, min(1.0, value / most)) if value is not None and most > 0 else 0.0
    bar = tag("span", "", class_="bar", style=f"width:{4.2 * width:.2f}rem") if width else None
    return HtmlCell([tag("span", cost_words(cost, kind), class_="amount"), bar], class_="cost")


def _left_out(plan: Plan) -> list[tuple[VerdictName, list[str], str, str]]:
    """Return the metrics that are not in a subset, grouped by reason: (verdict, metrics, reason, advice)."""
    helps = _WHAT_MAY_HELP if plan.complete else f"continue the search; if that does not help, {_WHAT_MAY_HELP}"
    metrics_by_reason: dict[tuple[VerdictName, str, str], list[str]] = {}
    for unmeasurable in plan.unmeasurable:
        metrics_by_reason.setdefault(("perturbed", unmeasurable.reason, unmeasurable.advice), []).append(
            unmeasurable.metric
        )
    for each in plan.undecided:
        metrics_by_reason.setdefault(("undecided", each.reason, helps), []).extend(each.metrics)
    return [(verdict, metrics, reason, advice) for (verdict, reason, advice), metrics in metrics_by_reason.items()]


def left_out_section(plan: Plan, figure: Figure | None) -> Html | None:
    """Return the section on metrics outside all subsets: reason, suggestion, changes; None if there are none."""
    listed = _left_out(plan)
    if not listed:
        return None
    cards = [
        tag(
            "article",
            tag("h3", ", ".join(metrics), " ", badge(verdict)),
            tag("p", _sentence(reason)),
            tag("p", tag("b", "Suggestion: "), _sentence(advice), class_="advice"),
            class_=f"card {verdict}",
        )
        for verdict, metrics, reason, advice in listed
    ]
    evidence: list[Html] = []
    if figure is not None:
        evidence.append(tag("h3", "Their measurements"))
        if len(figure.choices) > 1:
            evidence.append(choice(figure.group, "Metrics", [(name, name) for name in figure.choices], figure.chosen))
        said = "Changes of each metric, measured alone or in the uncertified subset. Click a point for its runs."
        evidence.append(frame(figure, said))
    return section("left-out", "Left out, and why", tag("div", cards, class_="cards"), evidence)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def evidence_section(plan: Plan, results: Sequence[ConfigurationResult], figures: Sequence[Figure | None]) -> Html:
    """Return the section with the evidence for each certified subset: runs, level, changes and forest plot."""
    if not plan.subsets:
        said = "No subset is certified, so there is no evidence to show."
        return section("evidence", "Evidence", tag("p", said, class_="empty"))
    said = (
        "Each line is the change of one correlation, with its confidence interval. A subset is certified if all "
        "intervals lie within the shaded band, in fresh runs that the search did not use. The change whose interval "
        "reaches farthest is on top."
    )
    kind = cost_kind(plan)
    cards = [
        _evidence(place, subset, result, figure, kind)
        for place, (subset, result, figure) in enumerate(zip(plan.subsets, results, figures, strict=True), 1)
    ]
    return section("evidence", "Evidence", tag("p", said), cards)


def _evidence(
    place: int, subset: CertifiedSubset, result: ConfigurationResult, figure: Figure | None, kind: CostKind | None
) -> Html:
    worst, runs = result.worst(), " … ".join(dict.fromkeys(subset.runs[:1] + subset.runs[-1:]))
    facts = [
        ("Metrics", ", ".join(subset.metrics)),
        ("Certifying runs", f"{len(subset.runs)}: {runs}" if runs else counted(subset.repetitions, "run")),
        *([("Node", subset.node)] if subset.node else []),
        ("α of each confidence bound", number(subset.level, 3)),
        *([("Changes within the tolerance", f"{len(result.changes)}")] if result.changes else []),
        (_KIND_HEADS[kind].capitalize() if kind else "Cost", cost_words(subset.cost, kind)),
    ]
    swatch = tag("span", "", class_=f"swatch s{(place - 1) % _COLOURS + 1}")
    left = max((len(result.of(check)) for check in ("inner", "outer")), default=0) - FOREST_ROWS
    caption = (
        f"Only the {FOREST_ROWS} changes of each kind that reach farthest are shown; plan.json has all. "
        if left > 0
        else ""
    )
    if any(change.aligned_on for change in result.changes):
        caption += "† The runs were aligned by this metric, which inflates its correlation across runs. "
    return tag(
        "article",
        tag("h3", swatch, subset.name, " ", badge("unperturbed")),
        definitions(facts, "facts"),
        tag("p", f"Nearest to the tolerance: {change_sentence(worst, result.bound_alpha)}.", class_="worst")
        if worst
        else None,
        frame(figure, f"{caption}Click a point for its runs.")
        if figure
        else tag("p", "The plan contains no changes for this subset."),
        id=f"evidence-{place}",
    )


def builds_section(plan: Plan) -> Html | None:
    """Return the section on the builds of the families; None if all metrics share one build."""
    if not plan.families:
        return None
    said = (
        "The build with the sites of all metrics is not shown to leave the program alone, even if nothing counts. Each "
        "of these builds has the sites of some metrics and is certified against the baseline, by runs that count "
        "nothing. Subsets are compared with the build of their family."
    )
    return section("builds", "Builds", tag("p", said), families_table(plan).to_html())


def search_section(plan: Plan, steps: Figure | None, runs: Figure) -> Html:
    """Return the section on the search: every measurement in order, and the runs used compared with the forecast."""
    lead = tag("p", f"{forecast_words(plan)} The search used strategy {plan.strategy}, seed {plan.seed}.")
    if steps is None:
        return section("search", "How it was found", lead, tag("p", "Nothing was measured.", class_="empty"))
    caption = (
        "Each column is one measurement, in order from left to right, and as wide as its number of runs. Filled rows "
        "are its metrics. Pale columns belong to the search, solid columns to the certification, whose fresh runs are "
        "the only evidence. Rows are in the same order as in the plan above."
    )
    names = {subset.metrics: subset.name for subset in plan.subsets}
    rows = [_measurement(made, taken, names) for made, taken in zip(plan.history, new_runs(plan), strict=True)]
    measurements = table("Every measurement", _HEADS, rows, identity="measurements", sortable=True)
    return section(
        "search",
        "How it was found",
        lead,
        frame(runs),
        tag("h3", "Every candidate, in order"),
        frame(steps, caption),
        tag("div", measurements, class_="tall"),
    )


_HEADS: list[str | tuple[str, str]] = [
    ("no.", "number of the measurement, in order of time"),
    ("stage", "purpose of the measurement"),
    "metrics",
    ("new runs", "runs that this measurement needed"),
    ("runs so far", "runs used, including this measurement"),
    "verdict",
    ("largest open change", "the largest change that is not shown to be within the tolerance"),
    ("in the plan", "the subset of the plan that this measurement certified"),
]


def _remark(measurement: Measurement) -> str:
    """Return the largest open change of a measurement, or why the search went on without one."""
    carried = measurement.outcome.carried if measurement.outcome is not None else ()
    return carried[0] if carried else "" if measurement.certifiable else f"none, {TOO_CLOSE}"


def _measurement(measurement: Measurement, runs: int, names: Mapping[tuple[str, ...], str]) -> list[HtmlCell]:
    verdict = measurement_verdict(measurement)
    level = f" at level {number(measurement.level, 2)}" if measurement.level is not None else ""
    outcome = measurement.outcome
    where = f" on {outcome.node}" if outcome is not None and outcome.node else ""
    return [
        HtmlCell(str(measurement.number), measurement.number),
        HtmlCell(STAGES[measurement.stage]),
        HtmlCell(", ".join(measurement.subset) or "the baseline", class_="words"),
        HtmlCell(str(runs), runs),
        HtmlCell(str(measurement.runs_used), measurement.runs_used),
        HtmlCell(
            f"{_SIGNS[verdict]} {verdict}{level}{where}" if verdict else "–",
            class_=_STYLES.get(verdict, verdict) or None,
        ),
        HtmlCell(_remark(measurement), class_="words"),
        HtmlCell(names.get(measurement.subset, "") if verdict == "certified" else ""),
    ]


def tolerance_words(plan: Plan) -> str:
    """Return what a certificate guarantees, and what it is valid for."""
    size = f"more than {correlation(plan.tolerance)}" if plan.tolerance is not None else "more than the tolerance"
    return (
        f"The probability that at least one certificate is wrong (its subset changes a correlation by {size}) is at "
        f"most {number(plan.alpha, 3)}. {validity(plan)}"
    )


_LISTED = 1000
"""Maximum number of changes with details that a click can show."""

_PLACES = (
    ("plan", "The plan"),
    ("left-out", "Left out"),
    ("evidence", "Evidence"),
    ("builds", "Builds"),
    ("search", "How it was found"),
    ("runs", "Runs"),
    ("provenance", "Provenance"),
)


def render_partition(content: ReportContent, plan: Plan) -> str:
    """Return a plan as one HTML document, as self-contained as the report.

    Parameters
    ----------
    content : ReportContent
        What was measured and where, as for the report; its verdicts are not used.
    plan : Plan
        The plan; it may be unfinished or have no certified subset.
    """
    lone = [(each.metric, each.verdict, (each.metric,)) for each in plan.unmeasurable]
    others = [(", ".join(each.metrics), each.verdict, each.metrics) for each in plan.undecided]
    certified = [_result(content, each.name, each.verdict, each.metrics) for each in plan.subsets]
    refused = [_result(content, *each) for each in (*lone, *others) if each[1] is not None]
    view = ReportView(content, certified, listed_changes([*certified, *refused], _LISTED))
    index = view.change_numbers
    simulated = content.source.simulated or any(map(is_simulated, view.described.values()))
    # The picture comes first, because people look before they read.
    beneath = [
        simulated_banner(content),
        headline_facts(content),
        [tag("p", note, class_="note") for note in content.notes],
    ]
    sections = [
        picture_section(plan, beneath, anchor=content.settings.anchor, simulated=simulated),
        left_out_section(plan, forest(refused, index, "forest-left-out")),
        evidence_section(
            plan, certified, [forest([each], index, f"forest-{place}") for place, each in enumerate(certified, 1)]
        ),
        builds_section(plan),
        search_section(plan, steps_figure(plan, ordered_metrics(plan)), runs_figure(plan)),
        runs_section(content.runs),
        provenance_section(view),
    ]
    places = [place for place, written in zip(_PLACES, sections, strict=True) if written]
    header = page_header(
        "Unperturbed: which metrics can be measured together?",
        content.campaign,
        tag("p", plan_headline(plan), class_="answer"),
        tag("p", tolerance_words(plan), class_="lead") if plan.subsets else None,
        _unfinished(plan),
        failures(content),
    )
    return document(
        f"{content.campaign}: which metrics can be measured together",
        tag("a", "Skip to the plan", href="#plan", class_="skip"),
        navigation(places),
        header,
        tag("main", sections),
        details_dialog(),
        packed_block("details-data", details(view.listed)),
        version=content.headline.version,
    )


def render_plan(plan: Plan) -> str:
    """Return a plan as one HTML document, without the facts of its campaign: program, host, runs."""
    return render_partition(ReportContent("partition", (), CounterSource("not recorded")), plan)


def write_partition(path: str | os.PathLike[str], content: ReportContent, plan: Plan) -> None:
    """Write a plan's page atomically; an existing file is replaced."""
    write_page(path, render_partition(content, plan))


def _result(content: ReportContent, name: str, verdict: Verdict | None, metrics: Sequence[str]) -> ConfigurationResult:
    """Return a verdict in the form that the report's figures and tables need; without a verdict, it has no changes."""
    anchor = content.settings.anchor
    held = (*(() if anchor is None else (anchor,)), *metrics)
    named = replace(verdict or Verdict("", "baseline", "undecided", ()), configuration=name)
    (result,) = configuration_results(replace(content, verdicts=(named,), software_by_configuration={name: held}))
    return result


def _unfinished(plan: Plan) -> Html | None:
    if plan.complete:
        return None
    go_on = "Repeat the command to continue the search" + (
        ", with a higher limit." if plan.stopped.startswith("`max_runs`") else "."
    )
    return tag(
        "aside",
        tag("strong", "Not finished: "),
        f"{plan.stopped}. This is the best plan so far. {go_on}",
        class_="banner",
        aria_label="Not finished",
    )
