"""The page that compares two campaigns, for example with different compilers or on different hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unperturbed.analysis.metric_names import is_simulated, meaning, pair_name, plain_name
from unperturbed.analysis.pages.chart import Figure, axis, layout, plot_text, scatter, short
from unperturbed.analysis.pages.document import document, frame, moment, navigation, page_header, section
from unperturbed.analysis.perturbation import SEVERITY, VERDICT_SIGNS
from unperturbed.analysis.perturbation.verdict_text import mean_rho
from unperturbed.analysis.report.campaign.content import ReportView, configuration_results
from unperturbed.analysis.report.campaign.trust import metric_rows, metric_verdicts, ordered_configurations
from unperturbed.analysis.report.campaign.verdicts import campaign_sentence, doubts, simulated_banner, verdict_legend
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.compare import change_of, compare_totals
from unperturbed.common.markup import Content, Html, HtmlCell, TableColumns, table, table_of, tag
from unperturbed.common.wording import correlation, counted, number, percent, signed

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import VerdictName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult, ReportContent
    from unperturbed.collectors.data import Metric, Trace

_Views: TypeAlias = "tuple[ReportView, ReportView]"
"""Both campaigns."""

_MILDEST_FIRST = SEVERITY[::-1]
_CONFIDENCE = 0.95
_FEWEST = 2
_PLACES = (
    ("trust", "Metrics"),
    ("differences", "What differs"),
    ("totals", "Totals"),
    ("baselines", "Baselines"),
)


def render_comparison(first: ReportContent, second: ReportContent, names: tuple[str, str]) -> str:
    """Return the comparison of two campaigns as one HTML document.

    Parameters
    ----------
    first, second : ReportContent
        The content of each campaign's report.
    names : tuple of str
        Names of the campaigns on the page; their own names are often the same.

    Returns
    -------
    str
        A document as self-contained as the report.
    """
    contents = (first, second)
    views = ReportView(first, configuration_results(first)), ReportView(second, configuration_results(second))
    sections = [
        _trust_section(views, names),
        _differences_section(contents, names),
        _totals_section(views, names),
        _baselines_section(views, names),
    ]
    present = [place for place, written in zip(_PLACES, sections, strict=True) if written]
    header = page_header(
        "Unperturbed: two campaigns side by side",
        f"{names[0]} and {names[1]}",
        tag("p", comparison_sentence(views[0].results, views[1].results, names), class_="answer"),
        [
            [
                tag(
                    "p",
                    tag("b", f"{name}: "),
                    campaign_sentence([result for result in view.results if not result.is_sham]),
                ),
                doubts(view.content),
            ]
            for name, view in zip(names, views, strict=True)
        ],
        [simulated_banner(content) for content in contents if content.source.simulated][:1],
    )
    title = f"{names[0]} and {names[1]}: two campaigns side by side"
    version = first.headline.version
    return document(title, navigation(present), header, tag("main", sections), version=version)


def verdict_pairs(
    first: Sequence[ConfigurationResult], second: Sequence[ConfigurationResult]
) -> Mapping[tuple[str, str], tuple[VerdictName | None, VerdictName | None]]:
    """Return the verdicts of both campaigns by (configuration, metric); None if a campaign has no such verdict."""
    verdicts, other = (
        {
            (result.configuration, name): metric_verdict.verdict
            for result in results
            if not result.is_sham
            for name, metric_verdict in metric_verdicts(result).items()
        }
        for results in (first, second)
    )
    return {key: (verdicts.get(key), other.get(key)) for key in dict.fromkeys((*verdicts, *other))}


def comparison_sentence(
    first: Sequence[ConfigurationResult], second: Sequence[ConfigurationResult], names: tuple[str, str]
) -> str:
    """Return one sentence on the verdicts that differ between two campaigns."""
    both = [
        (_MILDEST_FIRST.index(verdict), _MILDEST_FIRST.index(other))
        for verdict, other in verdict_pairs(first, second).values()
        if verdict is not None and other is not None
    ]
    if not both:
        return "No metric was checked in both campaigns in configurations with the same name."
    worse, better = (sum(other > rank for rank, other in both), sum(other < rank for rank, other in both))
    whole = counted(len(both), "verdict")
    if not worse + better:
        agreed = "the only verdict" if len(both) == 1 else f"all {whole}"
        return f"Both campaigns agree on {agreed} (one per metric and configuration)."
    parts = [f"{worse} more serious" if worse else "", f"{better} less serious" if better else ""]
    return (
        f"{worse + better} of {whole} (one per metric and configuration) "
        f"{'differs' if worse + better == 1 else 'differ'}: "
        f"{' and '.join(filter(None, parts))} in {names[1]} than in {names[0]}."
    )


def _trust_section(views: _Views, names: tuple[str, str]) -> Html | None:
    pairs = verdict_pairs(views[0].results, views[1].results)
    if not pairs:
        return None
    described = {**views[1].described, **views[0].described}
    columns = list(
        dict.fromkeys(result.configuration for view in views for result in ordered_configurations(view.results))
    )
    rows = list(dict.fromkeys(row.name for view in views for row in metric_rows(view.results, described)))
    rows = [name for name in rows if any((column, name) in pairs for column in columns)]
    # Rows with differences come first.
    rows.sort(key=lambda name: -sum(_differs(pairs.get((column, name))) for column in columns))
    body: list[list[HtmlCell | Content]] = []
    for name in rows:
        code = tag("small", tag("code", name)) if plain_name(name) != name else None
        cells: list[HtmlCell | Content] = [HtmlCell([plain_name(name), " ", code], title=meaning(name, described))]
        cells += [_pair_cell(pairs.get((column, name), (None, None)), names) for column in columns]
        body.append(cells)
    whole = table(f"Verdicts on each metric in {names[0]} and {names[1]}", ["metric", *columns], body)
    return section(
        "trust",
        "Metrics you may trust in each campaign",
        tag(
            "p",
            f"In each cell, the left sign is for {names[0]} and the right sign for {names[1]}. A frame marks a "
            "difference. – means not checked.",
        ),
        verdict_legend(_MILDEST_FIRST),
        tag("div", whole, class_="trust"),
    )


def _differs(pair: tuple[VerdictName | None, VerdictName | None] | None) -> bool:
    return pair is not None and pair[0] != pair[1]


def _pair_cell(pair: tuple[VerdictName | None, VerdictName | None], names: tuple[str, str]) -> HtmlCell:
    if pair == (None, None):
        return HtmlCell("", class_="none")
    signs = [
        tag("span", VERDICT_SIGNS[verdict] if verdict else "–", class_=f"sign badge {verdict or ''}")
        for verdict in pair
    ]
    title = ", ".join(f"{name}: {verdict or 'not checked'}" for name, verdict in zip(names, pair, strict=True))
    key = " → ".join(verdict or "not checked" for verdict in pair)
    return HtmlCell(tag("span", signs, class_="twice", title=title), key, class_="differs" if _differs(pair) else None)


def _differences_section(contents: Sequence[ReportContent], names: tuple[str, str]) -> Html:
    facts = [_facts(content) for content in contents]
    keys = dict.fromkeys(key for recorded in facts for key in recorded)
    pairs = [(key, facts[0].get(key, "–"), facts[1].get(key, "–")) for key in keys]
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    same = [pair[:2] for pair in pairs if pair[1] == pair[2]]
    spec = _spec_difference(contents)
    return section(
        "differences",
        "What differs",
        tag("div", table("Facts that differ", ["fact", *names], differing), class_="wordy")
        if differing
        else tag("p", "All recorded facts are the same."),
        tag("details", tag("summary", "Differences between the specs"), tag("pre", spec)) if spec else None,
        tag(
            "details",
            tag("summary", f"{counted(len(same), 'fact')} in common"),
            tag("div", table("Facts that are the same", ["fact", "in both"], same), class_="wordy"),
        )
        if same
        else None,
    )


def _facts(content: ReportContent) -> dict[str, Content]:
    """Return the recorded facts of a campaign: name → value."""
    head, settings = content.headline, asdict(content.settings)
    runs = sum(row.state == "done" for row in content.runs)
    facts: dict[str, Content] = {
        "program": head.program,
        "command": head.command,
        "host": head.host,
        "started": moment(head.started),
        "Unperturbed": head.version,
        "counters": content.source.name,
        "runs": str(runs) if content.runs else "",
        **{name.replace("_", " "): _words(value) for name, value in settings.items()},
    }
    for group, values in content.provenance.items():
        facts |= {f"{group}: {name}": str(value) for name, value in values.items()}
    return {name: value for name, value in facts.items() if value}


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)


def _spec_difference(contents: Sequence[ReportContent]) -> str:
    from difflib import unified_diff  # noqa: PLC0415  rarely needed

    lines, other = (content.spec_text.splitlines() for content in contents)
    return "\n".join(list(unified_diff(lines, other, "first", "second", lineterm="", n=1))[2:])


def baseline_totals(contents: Sequence[ReportContent], baselines: Sequence[str]) -> list[TotalChange]:
    """Return the totals (for gauges: means) that both baselines have, the largest change first."""
    sides = [content.traces.get(name, ()) for content, name in zip(contents, baselines, strict=True)]
    if not all(sides):
        return []
    metrics = {name: metric for name, metric in sides[0][0].metrics.items() if name in sides[1][0].metrics}
    totals = [_total(name, metric, sides) for name, metric in metrics.items()]
    return sorted(filter(None, totals), key=lambda total: -abs(total.change))


def _total(name: str, metric: Metric, sides: Sequence[Sequence[Trace]]) -> TotalChange | None:
    """Compare a total between two campaigns, whose runs are independent: their rounds ran at different times."""
    values, other = (
        np.array([_of_run(trace, name, metric) for trace in side if name in trace.metrics]) for side in sides
    )
    if min(values.size, other.size) < 1 or min(values.min(), other.min()) <= 0:
        return None
    known = TotalChange(name, tuple(values), tuple(other), (), (), math.nan, math.nan, math.nan)
    if values.size < _FEWEST:
        return replace(known, change=known.after / known.before - 1)
    compared = compare_totals(values[:, None], other[:, None], alpha=(1 - _CONFIDENCE) / 2)
    change, low, high = (change_of(end[0]) for end in (compared.effect, compared.low, compared.high))
    return replace(known, change=change, low=low, high=high)


def _of_run(trace: Trace, name: str, metric: Metric) -> float:
    values = np.asarray(trace[name], np.float64)
    return float(values.sum() if metric.semantics == "counter" else np.nanmean(values))


def _totals_section(views: _Views, names: tuple[str, str]) -> Html | None:
    totals = baseline_totals([view.content for view in views], [view.baseline for view in views])
    overheads = _overheads(views)
    if not (totals or overheads):
        return None

    def named(total: TotalChange) -> str:
        simulated = is_simulated(views[0].described[total.metric])
        return f"{plain_name(total.metric)}{' (simulated)' if simulated else ''}"

    of_change = ("interval", "95 % confidence interval of the change, from the variation between runs")
    columns: TableColumns[TotalChange] = (
        ("metric", named),
        (names[0], lambda total: HtmlCell(number(total.before, 5), total.before)),
        (names[1], lambda total: HtmlCell(number(total.after, 5), total.after)),
        ("change", lambda total: HtmlCell(percent(total.change), total.change)),
        (of_change, lambda total: HtmlCell(total.interval, total.low)),
    )
    return section(
        "totals",
        "Totals of a run",
        table_of("Baseline: mean total of a run, or mean value of a gauge", columns, totals, sortable=True)
        if totals
        else None,
        [
            tag("h3", "Instructions that each configuration added"),
            table("Instructions added to a run", ["configuration", *names], overheads),
        ]
        if overheads
        else None,
    )


def _overheads(views: _Views) -> list[list[HtmlCell | Content]]:
    sides = [{result.configuration: result.overhead.instructions for result in view.results} for view in views]
    rows: list[list[HtmlCell | Content]] = []
    for name in dict.fromkeys(name for side in sides for name in side):
        added = [side.get(name) for side in sides]
        if any(value is not None for value in added):
            rows.append([name, *(HtmlCell(percent(value) if value is not None else "–", value) for value in added)])
    return rows


def baseline_rhos(view: ReportView) -> Mapping[tuple[str, str, str], float]:
    """Return the baseline's mean ρ by (check, metrics): of pairs within a run, and of metrics across runs."""
    rhos: dict[tuple[str, str, str], float] = {}
    for result in view.results:
        for change in result.changes:
            if change.check in ("inner", "outer") and (change.against or view.baseline) == view.baseline:
                rhos.setdefault((change.check, change.first, change.second), mean_rho(change.reference))
    return rhos


def _baselines_section(views: _Views, names: tuple[str, str]) -> Html | None:
    rhos, other = map(baseline_rhos, views)
    common = sorted((key for key in rhos if key in other), key=lambda key: -abs(other[key] - rhos[key]))
    if not common:
        return None
    columns: TableColumns[tuple[str, str, str]] = (
        ("metrics", lambda key: pair_name(*key[1:])),
        ("check", lambda key: "within a run" if key[0] == "inner" else "across runs"),
        (names[0], lambda key: HtmlCell(correlation(rhos[key]), rhos[key])),
        (names[1], lambda key: HtmlCell(correlation(other[key]), other[key])),
        ("change of ρ", lambda key: HtmlCell(signed(other[key] - rhos[key]), other[key] - rhos[key])),
    )
    whole = table_of("ρ in both baselines, largest difference first", columns, common, sortable=True)
    said = (
        "Correlations of metrics in the baseline of each campaign. Points on the diagonal are the same in both "
        "campaigns."
    )
    return section(
        "baselines",
        "The baselines",
        tag("p", said),
        frame(baselines_figure(rhos, other, names)),
        tag("div", whole, class_="tall"),
    )


def baselines_figure(
    rhos: Mapping[tuple[str, str, str], float], other: Mapping[tuple[str, str, str], float], names: tuple[str, str]
) -> Figure:
    """Draw ρ in the second baseline against ρ in the first baseline."""
    dashes = {"color": "@muted-line", "width": 1.5, "dash": "dash"}
    data = [scatter("lines", [-1, 1], [-1, 1], line=dashes, hoverinfo="skip", showlegend=False)]
    for check, said, symbol, colour in (
        ("inner", "within a run", "circle", "@series-1"),
        ("outer", "across runs", "diamond-open", "@series-2"),
    ):
        keys = [key for key in rhos if key[0] == check and key in other]
        data.append(
            scatter(
                "markers",
                short((rhos[key] for key in keys), 3),
                short((other[key] for key in keys), 3),
                name=said,
                marker={"symbol": symbol, "color": colour, "size": 9},
                hovertext=[plot_text(pair_name(*key[1:])) for key in keys],
                hovertemplate="%{hovertext}<br>%{x:.2f} → %{y:.2f}<extra></extra>",
            )
        )
    figure = layout(460, margin={"l": 64, "r": 16, "t": 40, "b": 54})
    figure["xaxis"] = axis(plot_text(f"ρ in {names[0]}"), range=[-1.05, 1.05])
    figure["yaxis"] = axis(plot_text(f"ρ in {names[1]}"), range=[-1.05, 1.05])
    said = f"Correlations in the baseline of {names[1]} against those of {names[0]}; the table has the same numbers."
    return Figure("baselines-rho", data, figure, said)
