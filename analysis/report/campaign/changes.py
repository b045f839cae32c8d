"""The section on changes: a matrix of pairs and configurations, a table of all changes, and details of each change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.metric_names import meaning, pair_name, plain_name
from unperturbed.analysis.pages.chart import short
from unperturbed.analysis.pages.document import packed_block, section
from unperturbed.analysis.perturbation import VERDICT_SIGNS, change_sentence, change_table
from unperturbed.analysis.perturbation.verdict_text import shown_levels
from unperturbed.analysis.report.campaign.content import ReportView, change_key, changed_pairs
from unperturbed.analysis.report.campaign.figures import Blocks, shown
from unperturbed.common.markup import Content, Html, HtmlCell, table, tag
from unperturbed.common.table import Cell
from unperturbed.common.wording import correlation, counted, number, p_value, signed, span

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change, CheckName
    from unperturbed.analysis.perturbation.verdict import OriginName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult


_ROWS_SHOWN = 12
_ROWS_MOST = 90
"""Maximum number of rows in a matrix; pairs that changed less are omitted."""

_TABLE_ROWS = 100
"""Rows of the table of all changes that are shown at first; a button adds the others."""

_REST = "changes-rest"

_STEPS = (0.25, 0.5, 1.0, 2.0)
"""Lower bounds of the matrix's shades, in multiples of the tolerance."""

Listed = Sequence[tuple["ConfigurationResult", "Change"]]


def changes_section(view: ReportView, every: Listed, blocks: Blocks) -> Html:
    """Return the section: matrices, forest plot and table; only the first changes of `every` have details."""
    listed = len(view.listed)
    if not every:
        said = "No correlation could be checked."
        return section("changes", "What changed", tag("p", said, class_="empty"), shown(blocks))
    rest = (
        f" This page has details of the {listed} most serious of {len(every)} changes; verdicts.json has all."
        if listed < len(every)
        else ""
    )
    return section(
        "changes",
        "What changed",
        tag(
            "p",
            "ρ shows how closely two signals rise and fall together: 1 in step, 0 unrelated, −1 in opposition. Each "
            "cell shows the change of ρ in one configuration, with its verdict: ✓ ✗ ~ ?. The shade shows the size of "
            f"the change: blue if ρ fell, orange if it rose. Click a cell for the values of each run.{rest}",
        ),
        _shades(),
        tag("h3", "Within a run: pairs of the baseline's metrics (inner)"),
        _matrix(view, "inner"),
        tag("h3", "Across aligned runs: each metric with itself (outer)"),
        _matrix(view, "outer"),
        _further(view, "software", "Within a run: pairs with a software metric", _SOFTWARE_WORDS),
        _further(view, "across", "Across aligned runs: pairs of different metrics", _ACROSS_WORDS),
        shown(blocks),
        _full_table(every, listed),
    )


_SOFTWARE_WORDS = (
    "The baseline does not count software metrics, so these pairs are compared with a configuration that counts the "
    "same software metric and fewer others. They can show a perturbation that pairs of hardware metrics do not show."
)
_ACROSS_WORDS = "These are correlations between different metrics of two runs, averaged over both directions."


def _further(view: ReportView, check: CheckName, title: str, words: str) -> list[Html]:
    if not any(result.of(check) for result in view.results):
        return []
    return [tag("h3", title), tag("p", words), _matrix(view, check)]


def shade(effect: float, tolerance: float) -> str:
    """Return a cell's CSS class: the direction and size of its change, such as `fell-3`."""
    size = abs(effect) / tolerance if tolerance > 0 else float("inf")
    return f"{'fell' if effect < 0 else 'rose'}-{sum(size >= bound for bound in _STEPS)}"


def _shades() -> Html:
    names = ["≥ 2 ×", "1–2 ×", "½–1 ×", "¼–½ ×", "< ¼ ×", "¼–½ ×", "½–1 ×", "1–2 ×", "≥ 2 ×"]
    classes = ["fell-4", "fell-3", "fell-2", "fell-1", "fell-0", "rose-1", "rose-2", "rose-3", "rose-4"]
    steps = [tag("li", name, class_=class_name) for name, class_name in zip(names, classes, strict=True)]
    return tag(
        "div",
        tag("span", "ρ fell"),
        tag("ul", steps, aria_label="Shades: size of the change, in multiples of the tolerance"),
        tag("span", "ρ rose (× the tolerance)"),
        class_="shades",
    )


def _matrix(view: ReportView, check: CheckName) -> Html:
    checked = [result for result in view.results if result.of(check)]
    every = changed_pairs(checked, check)
    pairs = every[:_ROWS_MOST]
    if not pairs:
        return tag("p", "No correlation was checked.", class_="empty")
    by_pair = {
        result.configuration: {(change.first, change.second): change for change in result.of(check)}
        for result in checked
    }
    rows = []
    for first, second in pairs:
        meanings = dict.fromkeys((meaning(first, view.described), meaning(second, view.described)))
        cells = [HtmlCell(pair_name(first, second), title="\n".join(meanings))]
        for result in checked:
            change = by_pair[result.configuration].get((first, second))
            cells.append(_matrix_cell(view, result, change, (first, second)))
        rows.append(cells)
    noun = "metric" if check == "outer" else "pair"
    heads = [noun]
    heads += [
        f"{result.configuration} {VERDICT_SIGNS[result.check_verdict(check) or 'undecided']}" for result in checked
    ]
    more = [{"class_": "more"} if place >= _ROWS_SHOWN else {} for place in range(len(pairs))]
    whole = table(
        f"Change of ρ of each {noun} in each configuration, the most serious changes first",
        heads,
        rows,
        row_attributes=more,
    )
    button = (
        tag("button", f"Show all {counted(len(pairs), noun)}", type="button", class_="show-more", aria_expanded="false")
        if len(pairs) > _ROWS_SHOWN
        else None
    )
    left_out = (
        tag("p", f"The {counted(len(every) - len(pairs), noun)} that changed least are not shown.")
        if len(every) > len(pairs)
        else None
    )
    return tag("div", whole, button, left_out, class_="matrix folded" if button else "matrix")


def _matrix_cell(
    view: ReportView, result: ConfigurationResult, change: Change | None, pair: tuple[str, str]
) -> HtmlCell:
    if change is None:
        names = {pair_name(*pair), f"{pair[0]} – {pair[1]}", pair[0], pair[1]}
        reason = next((why for name, why in result.excluded if name in names), "not checked in this configuration")
        return HtmlCell("–", title=reason, class_="none")
    shown = [
        tag("span", VERDICT_SIGNS[change.verdict], class_="sign"),
        f" {signed(change.effect)}",
        " †" if change.aligned_on else "",
    ]
    number = view.change_numbers.get(change_key(result, change))
    inside = opening(number, shown, f"{change.verdict} {signed(change.effect)}")
    return HtmlCell(inside, class_=f"{shade(change.effect, change.tolerance)} {change.verdict}")


def _full_table(every: Listed, listed: int) -> Html:
    """Return the table of all changes: the most serious as HTML, the rest compressed until a reader asks for them."""
    plain = change_table(
        [(result.configuration, change) for result, change in every], "All changes (click a heading to sort)"
    )
    rows = [
        [_opening_cell(change, place) if place < listed else cells[0], *cells[1:]]
        for place, ((_, change), cells) in enumerate(zip(every, plain.rows, strict=True))
    ]
    configurations = list(dict.fromkeys(result.configuration for result, _ in every))
    rest = replace(plain, rows=rows[_TABLE_ROWS:]).to_html().partition("<tbody>")[2].rpartition("</tbody>")[0]
    return tag(
        "div",
        tag("h3", "All changes in numbers"),
        tag(
            "div",
            _filter("verdict", 3, list(VERDICT_SIGNS)),
            _filter("configuration", 1, configurations),
            _filter("check", 2, list(dict.fromkeys(change.check for _, change in every))),
            tag("output", counted(min(len(rows), _TABLE_ROWS), "change"), id="changes-count"),
            class_="filters",
        ),
        tag(
            "div",
            replace(plain, rows=rows[:_TABLE_ROWS]).to_html(identity="changes-table", sortable=True),
            class_="tall",
        ),
        [
            tag(
                "button", f"Show all {counted(len(rows), 'change')}", type="button", class_="show-more", data_rest=_REST
            ),
            packed_block(_REST, rest),
        ]
        if rest
        else None,
    )


def _opening_cell(change: Change, place: int) -> Cell:
    """Return a change's metrics as a button that opens its details."""
    name, codes = pair_name(change.first, change.second), " / ".join(dict.fromkeys((change.first, change.second)))
    button = tag("button", name, type="button", data_change=place, class_="link", title=codes)
    return Cell(name, markup=button)


def _filter(name: str, column: int, values: Sequence[str]) -> Html:
    options = [tag("option", f"any {name}", value=""), *(tag("option", value, value=value) for value in values)]
    return tag("label", f"{name} ", tag("select", options, data_filter="changes-table", data_column=column))


_ORIGIN: Mapping[OriginName | None, str] = {
    None: "unknown, because there are no sham runs",
    "layout": (
        "the layout of the code, or the no-ops that replace the increments: the sham build, which does not count, "
        "shows the change too"
    ),
    "counting": "the counting: runs that count differ from runs of the sham build",
    "both": "the counting, and the layout or the no-ops: the sham build shows a change too",
    "unclear": "counting, layout or no-ops: the sham runs do not show which",
}


def details(listed: Listed) -> dict[str, Any]:
    """Return the details that the page's script shows when a change is clicked, as JSON types."""
    runs: dict[tuple[str, ...], int] = {}
    entries = []
    for result, change in listed:
        entries.append(
            {
                "title": _title(change),
                "configuration": result.configuration,
                "verdict": change.verdict,
                "sign": VERDICT_SIGNS[change.verdict],
                "sentence": change_sentence(change, result.bound_alpha) + ".",
                "facts": [fact(result, change) for _, fact in _FACTS],
                "reference": short(change.reference, 3),
                "observed": short(change.observed, 3),
                "runs": [runs.setdefault(names, len(runs)) for names in (change.reference_runs, change.observed_runs)],
                "interval": short((change.effect, change.low, change.high, change.tolerance), 3),
                "means": short(shown_levels(change), 3),
            }
        )
    return {"labels": [label for label, _ in _FACTS], "runs": [list(names) for names in runs], "changes": entries}


def _runs_needed(_: ConfigurationResult, change: Change) -> str:
    return "–" if change.runs_to_decide is None else f"about {change.runs_to_decide} per configuration"


def _note(_: ConfigurationResult, change: Change) -> str:
    flattered = "The runs were aligned by this metric, which inflates its correlation." if change.aligned_on else ""
    return " ".join(said for said in (change.note, flattered) if said)


_FACTS: tuple[tuple[str, Callable[[ConfigurationResult, Change], str]], ...] = (
    ("reference", lambda result, change: change.against or " and ".join(result.references)),
    ("change of ρ", lambda _, change: signed(change.effect)),
    (
        "confidence interval",
        lambda result, change: f"{span(change.low, change.high)} ({number(100 * result.level, 3)} %)",
    ),
    ("tolerance", lambda _, change: f"±{correlation(change.tolerance)}"),
    ("p", lambda _, change: p_value(change.p)),
    ("p, corrected", lambda _, change: p_value(change.p_corrected)),
    ("p, beyond the tolerance, corrected", lambda _, change: p_value(change.p_beyond_corrected)),
    ("p, false discoveries", lambda _, change: p_value(change.p_discovery)),
    ("smallest visible change", lambda _, change: correlation(change.smallest_visible)),
    ("runs needed to decide", _runs_needed),
    ("cause", lambda _, change: _ORIGIN[change.origin]),
    ("note", _note),
)


def opening(number: int | None, shown: Content, label: str, style: str | None = None) -> Html:
    """Return a button that opens the details of a change, or plain text if the page has no details of the change."""
    if number is None:
        return tag("span", shown, title=label, class_=style)
    return tag("button", shown, type="button", data_change=number, aria_label=label, class_=style)


def details_dialog() -> Html:
    """Return the empty dialog that shows the details of a clicked change."""
    return tag(
        "dialog",
        tag("button", "Close", type="button", class_="close"),
        tag("h2", "", id="details-title"),
        tag("p", "", id="details-verdict"),
        tag("p", "", id="details-sentence"),
        tag("div", id="details-chart", class_="chart"),
        tag("dl", "", id="details-facts", class_="provenance"),
        tag("table", tag("caption", "ρ of each run"), tag("tbody", "", id="details-runs")),
        id="details",
        aria_labelledby="details-title",
    )


def _title(change: Change) -> str:
    codes = " and ".join(dict.fromkeys((change.first, change.second)))
    plain = pair_name(change.first, change.second)
    known = {plain_name(change.first), plain_name(change.second)} != {change.first, change.second}
    return f"{plain} ({codes})" if known else plain
