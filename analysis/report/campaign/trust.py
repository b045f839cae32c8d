"""The table of metrics that can be trusted, by metric and configuration, with advice on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unperturbed.analysis.metric_names import meaning, plain_name
from unperturbed.analysis.pages.document import definitions, section
from unperturbed.analysis.perturbation import SEVERITY, VERDICT_MEANINGS, VERDICT_SIGNS
from unperturbed.analysis.perturbation.verdict import change_weight
from unperturbed.analysis.perturbation.verdict_text import anchor_notes
from unperturbed.analysis.report.campaign.changes import opening
from unperturbed.analysis.report.campaign.content import ReportView, change_key
from unperturbed.analysis.report.campaign.setups import all_setups
from unperturbed.analysis.report.campaign.verdicts import advice, badge, verdict_legend
from unperturbed.collectors.data.trace import SCALING
from unperturbed.common.markup import Content, Html, HtmlCell, table, tag
from unperturbed.common.wording import counted, first_of, listing

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change, VerdictName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult, ReportContent
    from unperturbed.collectors.data import Metric

_SERIOUSNESS: Mapping[VerdictName, int] = {verdict: place for place, verdict in enumerate(reversed(SEVERITY))}
"""Verdict → seriousness; 0 is unperturbed, the highest number is the most serious verdict."""

_WIDE = 8
"""With more configurations, cells show only the sign, so that the table fits into the window."""

_NAMED = 4
"""Maximum number of metrics that a sentence lists."""


@dataclass(frozen=True)
class MetricVerdict:
    """Verdict on one metric in one configuration."""

    verdict: VerdictName  # The most serious verdict on a change of the metric
    worst: Change  # The most serious change of the metric
    serious: int  # Number of the metric's changes with this verdict
    changes: int  # Number of the metric's changes


@dataclass(frozen=True)
class MetricRow:
    """Verdicts on one metric in all configurations."""

    name: str
    software: bool
    verdicts: tuple[MetricVerdict | None, ...]  # None in a configuration that did not check the metric

    @property
    def trusted(self) -> bool:
        """Return whether the metric was checked and is unperturbed in all configurations that checked it."""
        verdicts = [metric_verdict.verdict for metric_verdict in self.verdicts if metric_verdict is not None]
        return bool(verdicts) and all(_SERIOUSNESS[verdict] == 0 for verdict in verdicts)


def metric_verdicts(result: ConfigurationResult) -> Mapping[str, MetricVerdict]:
    """Return the verdict on each metric that a configuration checked."""
    changes_by_metric: dict[str, list[Change]] = {}
    for change in result.changes:
        for name in dict.fromkeys((change.first, change.second)):
            changes_by_metric.setdefault(name, []).append(change)
    verdicts = {}
    for name, changes in changes_by_metric.items():
        worst = max(changes, key=change_weight)
        serious = sum(change.verdict == worst.verdict for change in changes)
        verdicts[name] = MetricVerdict(worst.verdict, worst, serious, len(changes))
    return verdicts


def ordered_configurations(results: Sequence[ConfigurationResult]) -> list[ConfigurationResult]:
    """Return the configurations without shams, the least serious verdicts first."""
    counting = [result for result in results if not result.is_sham]
    return sorted(counting, key=lambda result: _SERIOUSNESS[result.verdict])


def metric_rows(results: Sequence[ConfigurationResult], described: Mapping[str, Metric]) -> list[MetricRow]:
    """Return one row per metric: hardware before software metrics; in each group, the least serious verdicts first."""
    columns = [metric_verdicts(result) for result in results]
    collected = {name for result in results for name in result.software}
    measured = (name for name in described if not name.endswith(SCALING))
    names = dict.fromkeys((*measured, *(name for column in columns for name in column), *sorted(collected)))
    rows = []
    for name in names:
        software = described[name].kind == "software" if name in described else name in collected
        rows.append(MetricRow(name, software, tuple(column.get(name) for column in columns)))
    return sorted(rows, key=_row_order)


def _row_order(row: MetricRow) -> tuple[bool, bool, list[float]]:
    """Return a row's sort key: software or not, checked or not, and the seriousness of its cells, the worst first."""
    cells = [
        _SERIOUSNESS[metric_verdict.verdict] + metric_verdict.serious / (metric_verdict.changes + 1)
        for metric_verdict in row.verdicts
        if metric_verdict is not None
    ]
    # Unperturbed cells rank equally, whatever their number of changes.
    return row.software, not cells, sorted((max(0.0, cell) if cell >= 1 else 0.0 for cell in cells), reverse=True)


def trust_sentence(rows: Sequence[MetricRow], configurations: int) -> str:
    """Return one sentence on the metrics that can be trusted in all configurations."""
    checked, trusted, named = _trusted(rows)
    everywhere = {1: "", 2: " in both configurations"}.get(configurations, f" in all {configurations} configurations")
    if any(None in row.verdicts for row in trusted):
        everywhere = " in every configuration that checks them"
    if not checked:
        return "No metric was checked."
    if len(trusted) == len(checked):
        return f"The correlations of every metric that was checked can be trusted{everywhere}."
    if not trusted:
        if configurations == 1:
            return (
                "No metric is shown to be unperturbed; each cell shows how many checks of the metric failed or are "
                "undecided."
            )
        return f"No metric's correlations can be trusted{everywhere}; the columns show where they can."
    return f"The correlations of {len(trusted)} of {counted(len(checked), 'metric')} can be trusted{everywhere}{named}."


def agreement_sentence(rows: Sequence[MetricRow]) -> str:
    """Return one sentence on the metrics that correlate in all set-ups as in the baseline."""
    checked, alike, named = _trusted(rows)
    if not checked:
        return "No metric was checked."
    if not alike:
        return "No metric is shown to correlate with all others as it does in the baseline."
    correlate = "correlates" if len(alike) == 1 else "correlate"
    return f"{len(alike)} of {counted(len(checked), 'metric')} {correlate} with all others as in the baseline{named}."


def _trusted(rows: Sequence[MetricRow]) -> tuple[list[MetricRow], list[MetricRow], str]:
    """Return the rows that were checked, the rows that can be trusted, and the names of the latter if they are few."""
    checked = [row for row in rows if any(row.verdicts)]
    trusted = [row for row in checked if row.trusted]
    few = 0 < len(trusted) <= _NAMED
    return checked, trusted, f": {listing([plain_name(row.name) for row in trusted])}" if few else ""


def trust_section(view: ReportView) -> Html | None:
    """Return the first section of the report: the table of metrics, and advice below."""
    columns = ordered_configurations(view.results)
    rows = metric_rows(columns, view.described)
    if not columns or not rows:
        return None
    comparing = all_setups(columns)
    places = {id(result): place for place, result in enumerate(view.results)}
    heads: list[str | tuple[str, str]] = [
        "metric",
        *(
            tag(
                "a",
                tag("span", result.configuration, class_="name"),
                " ",
                tag("span", VERDICT_SIGNS[result.verdict], class_=f"sign {result.verdict}"),
                href=f"#card-{places[id(result)]}",
                title=f"{result.configuration} is {result.verdict}: {VERDICT_MEANINGS[result.verdict]}",
            )
            for result in columns
        ),
    ]
    body: list[list[HtmlCell | Content]] = []
    for row in rows:
        cells: list[HtmlCell | Content] = [_row_head(row, view.described)]
        cells += [_cell(view, row, result, verdict) for result, verdict in zip(columns, row.verdicts, strict=True)]
        body.append(cells)
    first_software = next((place for place, row in enumerate(rows) if row.software), len(rows))
    attributes = [{"class_": "begins"} if place == first_software and place else {} for place in range(len(rows))]
    whole = table(
        "Metrics, and whether each can be trusted in each configuration", heads, body, row_attributes=attributes
    )
    return section(
        "trust",
        "Metrics that correlate alike" if comparing else "Metrics you may trust",
        tag(
            "p",
            tag("b", agreement_sentence(rows) if comparing else trust_sentence(rows, len(columns))),
            " Each cell shows the most serious verdict on the metric's correlations, and how many of its checks have "
            "this verdict. Click a cell for the worst change.",
            *([" Totals are judged ", tag("a", "below", href="#totals"), "."] if view.content.totals else []),
        ),
        [tag("p", said, class_="note") for said in anchor_notes(columns)],
        verdict_legend(
            reversed(tuple(VERDICT_SIGNS)),
            tag("li", tag("span", "–", class_="sign"), " collected but not checked; point at the cell for the reason"),
        ),
        tag("div", whole, class_="trust compact" if len(columns) > _WIDE else "trust"),
        tag("h3", "What to do"),
        _what_to_do(columns, view.content),
    )


def _row_head(row: MetricRow, described: Mapping[str, Metric]) -> HtmlCell:
    plain = plain_name(row.name)
    code = tag("small", tag("code", row.name)) if plain != row.name else None
    kind = tag("small", "software") if row.software else None
    return HtmlCell([plain, " " if code or kind else None, code, kind], title=meaning(row.name, described))


def _cell(
    view: ReportView, row: MetricRow, result: ConfigurationResult, metric_verdict: MetricVerdict | None
) -> HtmlCell:
    if metric_verdict is None:
        if row.software and row.name not in result.software:
            return HtmlCell("", title=f"{result.configuration} does not collect this metric", class_="none")
        reason = next((why for name, why in result.excluded if row.name in name.split(" – ")), "")
        unheld = "no configuration with fewer metrics counts this metric, so there is no reference"
        return HtmlCell("–", title=reason or (unheld if row.software else "not checked"), class_="none")
    share = f"{metric_verdict.serious} of {metric_verdict.changes}"
    shown: list[Content] = [
        tag("span", VERDICT_SIGNS[metric_verdict.verdict], class_="sign"),
        tag("span", f" {share}", class_="share"),
    ]
    number = view.change_numbers.get(change_key(result, metric_verdict.worst))
    inside = opening(number, shown, f"{metric_verdict.verdict}, {share} checks", f"badge {metric_verdict.verdict}")
    return HtmlCell(inside, -_SERIOUSNESS[metric_verdict.verdict])


def _what_to_do(columns: Sequence[ConfigurationResult], content: ReportContent) -> Html:
    """Return the advice, grouped by configurations with the same advice, the most serious first."""
    advised: dict[tuple[str, ...], list[ConfigurationResult]] = {}
    for result in sorted(columns, key=lambda column: -_SERIOUSNESS[column.verdict]):
        advised.setdefault(advice(result, content), []).append(result)
    return definitions(
        (
            (
                [badge(results[0].verdict), " ", first_of([result.configuration for result in results])],
                tag("ul", [tag("li", sentence) for sentence in sentences]),
            )
            for sentences, results in advised.items()
        ),
        "todo",
    )
