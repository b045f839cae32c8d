"""The last sections of the report: runs, provenance, how to read the page, glossary and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.analysis.metric_names import is_simulated, plain_name
from unperturbed.analysis.pages.document import definitions, folded, section
from unperturbed.analysis.pages.glossary import CAMPAIGN_TERMS, GLOSSARY
from unperturbed.common.markup import Html, HtmlCell, TableColumns, table, table_of, tag
from unperturbed.common.wording import correlation, counted, duration, listing, number

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import CheckName
    from unperturbed.analysis.report.campaign.content import ConfigurationResult, ReportView, RunRow
    from unperturbed.collectors.data import Metric


_CHECKS: dict[CheckName, str] = {
    "inner": "pairs",
    "outer": "metrics",
    "software": "software pairs",
    "across": "pairs across runs",
}

_RUNS_LISTED = 400
_ERROR_LENGTH = 240
_SPEC_LENGTH = 40_000


def runs_section(runs: Sequence[RunRow]) -> Html | None:
    """Return the section with the table of all attempts at runs, failures marked."""
    if not runs:
        return None
    shown = sorted(runs, key=lambda row: row.state == "done")[:_RUNS_LISTED] if len(runs) > _RUNS_LISTED else runs
    rest = (
        f" Only {len(shown)} of {len(runs)} are listed, failures first; verdicts.json has all."
        if len(shown) < len(runs)
        else ""
    )
    whole = table_of("All attempts at runs", _RUN_COLUMNS, shown, identity="runs-table", sortable=True)
    return section(
        "runs",
        "Runs",
        tag(
            "p",
            f"{_run_counts(runs)}{rest} Distrust a run whose load is much higher than that of the others.",
        ),
        tag("div", whole, class_="tall"),
    )


def _run_counts(runs: Sequence[RunRow]) -> str:
    states = [row.state for row in runs]
    parts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    return f"{counted(len(runs), 'attempt')}: {listing(parts)}."


def _state(row: RunRow) -> HtmlCell:
    sign = {"done": "✓ ", "failed": "✗ "}.get(row.state, "")
    return HtmlCell(f"{sign}{row.state}", class_=f"state {row.state}")


def _error(row: RunRow) -> HtmlCell:
    shown = row.error if len(row.error) <= _ERROR_LENGTH else f"{row.error[:_ERROR_LENGTH]} …"
    return HtmlCell(shown, class_="error")


def _load(load: float | None) -> HtmlCell:
    return HtmlCell("–" if load is None else f"{load:.2f}", load)


def _count(value: int | None) -> HtmlCell:
    return HtmlCell(number(value, 6), value)


_ENVIRONMENT = "bytes added to the environment, to vary the memory layout from run to run"
_MEANWHILE = "activity of the host during the run; verdicts.json has the host's full state before and after"
_RUN_COLUMNS: TableColumns[RunRow] = (
    ("run", lambda row: row.run),
    ("configuration", lambda row: row.configuration),
    (("repetition", "number of the run within its configuration"), lambda row: str(row.repetition)),
    (("attempt", "number of the attempt; failed runs are repeated"), lambda row: str(row.attempt)),
    ("state", _state),
    ("time", lambda row: HtmlCell(duration(row.seconds), row.seconds)),
    ("intervals", lambda row: _count(row.intervals)),
    (
        ("layout", "number of the program's code layout; 0 is the layout of the original build"),
        lambda row: _count(row.layout),
    ),
    (("environment padding", _ENVIRONMENT), lambda row: _count(row.environment_pad_bytes)),
    (("load before", "the host's one-minute load average"), lambda row: _load(row.load_before)),
    ("load after", lambda row: _load(row.load_after)),
    (("host activity", _MEANWHILE), lambda row: row.host),
    ("error", _error),
)


def provenance_section(view: ReportView) -> Html:
    """Return the section on the origin of the numbers: runs behind each verdict, metrics, host, tools and spec."""
    content, spec = view.content, view.content.spec_text
    groups = [
        tag(
            "section",
            tag("h3", name),
            definitions(((key, str(value)) for key, value in values.items()), "provenance"),
            class_="group",
        )
        for name, values in content.provenance.items()
    ]
    cut = f"\n… ({len(spec):,} characters in all)" if len(spec) > _SPEC_LENGTH else ""
    return folded(
        "provenance",
        "Where the numbers come from",
        "runs behind each verdict, metrics, host, tools, spec",
        tag("p", tag("b", f"Counters: {content.source.name}. "), content.source.sentence),
        _rests_on(view.results),
        _metrics(view.described),
        tag("div", tag("h3", "Passes"), content.passes.to_html()) if content.passes else None,
        tag("div", groups, class_="groups"),
        tag("details", tag("summary", "The spec as it was run"), tag("pre", spec[:_SPEC_LENGTH], cut))
        if spec
        else None,
    )


def _rests_on(results: Sequence[ConfigurationResult]) -> Html | None:
    if not results:
        return None
    rows = []
    for result in results:
        reference: dict[str, dict[str, None]] = {}
        for change in result.changes:
            reference.setdefault(change.against, {}).update(dict.fromkeys(change.reference_runs))
        observed = dict.fromkeys(run for change in result.changes for run in change.observed_runs)
        left_out = (
            tag("ul", [tag("li", f"{name}: {reason}") for name, reason in result.excluded])
            if result.excluded
            else "nothing"
        )
        rows.append(
            [
                result.configuration,
                "; ".join(f"{len(runs)} of {name}: {', '.join(runs)}" for name, runs in reference.items()),
                f"{len(observed)}: {', '.join(observed)}",
                ", ".join(
                    f"{len(result.of(check))} {noun}"
                    for check, noun in _CHECKS.items()
                    if result.of(check) or check in ("inner", "outer")
                ),
                left_out,
            ]
        )
    heads = ["configuration", "reference runs", "checked runs", "checked", "left out, and why"]
    return tag(
        "div", tag("h3", "Evidence of each verdict"), table("Runs behind each verdict", heads, rows), class_="wordy"
    )


def _metrics(described: Mapping[str, Metric]) -> Html | None:
    if not described:
        return None
    shown = table_of("Every metric on this page", _METRIC_COLUMNS, described.values())
    return tag("div", tag("h3", "Metrics"), shown)


def _kind(metric: Metric) -> str:
    return f"{metric.kind}{' (simulated)' if is_simulated(metric) and metric.kind != 'simulated' else ''}"


_SHARED = "metrics that share a component are correlated by construction, so they are never checked as a pair"
_METRIC_COLUMNS: TableColumns[Metric] = (
    ("metric", lambda metric: tag("code", metric.name)),
    ("in plain words", lambda metric: plain_name(metric.name) if plain_name(metric.name) != metric.name else ""),
    ("meaning", lambda metric: metric.meaning),
    ("kind", _kind),
    ("read by", lambda metric: metric.source),
    ("unit", lambda metric: metric.unit),
    (("computed from", _SHARED), lambda metric: ", ".join(metric.components)),
    (("extrapolated", "counted during part of the run, and scaled up"), lambda metric: "yes" if metric.scaled else ""),
)


_QUESTION = (
    "Some runs of the program counted only hardware metrics (the baseline). Others also counted events in the "
    "program's code (the configurations). If a configuration changes how hardware metrics rise and fall together, its "
    "runs show a program that was changed by the measurement, not the original program."
)

_READING = (
    (
        "Metrics",
        "Start with the first table. You can use every number with a ✓. The list below the table has advice on the "
        "others.",
    ),
    ("Verdicts", "Each card shows the overhead of its configuration, and the most serious change."),
    (
        "What changed",
        "For a ✗ or ?, find its column in the matrix. The top rows changed most. Click a cell for details.",
    ),
    (
        "Forest plot",
        "Below the matrix, check whether the bar touches an edge of the band. Short bars decide; long bars need more "
        "runs.",
    ),
    (
        "Signals",
        "Look at the worst pair before and after: the cause often shows where the software metric is high.",
    ),
    (
        "Correlations",
        "The first figure shows the baseline's noise; the others show the overhead at which correlations change.",
    ),
    ("Runs", "Before you trust the verdicts, check whether a run failed or the host was busy."),
)


def reading_section() -> Html:
    """Return the section on how to read the page, with a glossary."""
    return folded(
        "reading",
        "How to read this page",
        "where to look first, and what the words mean",
        tag("p", _QUESTION),
        tag("ol", [tag("li", tag("b", f"{name}. "), said) for name, said in _READING]),
        tag("h3", "Words"),
        definitions(((term, GLOSSARY[term]) for term in CAMPAIGN_TERMS), "glossary"),
    )


def _level_words(view: ReportView, alpha: float) -> str:
    """Return the level of the confidence intervals; that of each configuration if looks use shares of α."""
    if view.content.looks is None or not view.results:
        return f"at level {number(100 * (1 - 2 * alpha))} % (each side at α = {number(alpha)})"
    each = listing(
        f"{result.configuration} {number(100 * result.level)} %, each side at {number(result.bound_alpha)}"
        for result in view.results
    )
    return f"at the level of the look that judged it ({each})"


def method_section(view: ReportView) -> Html:
    """Return the section on the method: exact statements, references to the papers, and deviations from them."""
    settings = view.content.settings
    decided = view.results[0] if view.results else settings
    alpha, tolerance = decided.alpha, decided.tolerance
    aligned = listing([plain_name(name) for name in settings.align_on])
    statements = (
        "Baseline, inner and outer perturbation are defined as by Mytkowicz, Diwan, Hauswirth and Sweeney in "
        "“Understanding Measurement Perturbation in Trace-based Data”, sections 2.1, 2.2 and 2.3: Spearman's ρ of "
        "every pair of hardware metrics within a run, and of every hardware metric between aligned runs.",
        f"Runs are aligned by dynamic time warping{f' on {aligned}' if aligned else ''} (Mytkowicz, Diwan, Hauswirth "
        "and Sweeney, “Aligning Traces for Performance Evaluation”, section 2). Milestone scores check the alignment "
        "(section 4 there). † marks the outer correlation of a metric that the runs were aligned on.",
        "Section 3.3 of the first paper calls a deviation significant if it exceeds the deviations among baseline "
        "runs. Here the run is the unit: each run gives one ρ, on Fisher's scale, and the confidence interval of the "
        "change comes from the variation between runs. Successive sampling intervals of one run are not independent, "
        "so their number is not a sample size.",
        f"A change is unperturbed if its confidence interval {_level_words(view, alpha)} lies within "
        f"±{correlation(tolerance)} (an equivalence test); perturbed if it is shown to lie beyond "
        f"±{correlation(tolerance)} (a minimum-effect test); shifted if only a change from zero "
        f"is shown, each at α = {number(alpha)} after correction for all changes of the configuration; otherwise "
        "undecided. “Not significant” alone is never “unperturbed”.",
        "A configuration is unperturbed only if all its changes are; otherwise its most serious change decides.",
        "Pairs in which one metric is computed from the other, and metrics without variation, are left out and "
        "listed above.",
        "The paper draws |ρ| between 0.3 and 1; this page draws ρ with its sign over its whole range and offers the "
        "paper's scale.",
        *view.content.method,
    )
    hint = "how each number was computed, and where it deviates from the papers"
    return folded("method", "Method", hint, tag("ol", [tag("li", said) for said in statements]))
