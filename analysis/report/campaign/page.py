"""The report's page: all sections in order, limited to a size that loads quickly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.pages.document import choice, document, folded, navigation, packed_block, section, write_page
from unperturbed.analysis.report.campaign.changes import changes_section, details, details_dialog
from unperturbed.analysis.report.campaign.content import (
    CounterSource,
    ReportContent,
    ReportSettings,
    ReportView,
    configuration_results,
    listed_changes,
    to_json,
)
from unperturbed.analysis.report.campaign.figures import Blocks, drawn_blocks, shown
from unperturbed.analysis.report.campaign.figures.correlation import SCALES
from unperturbed.analysis.report.campaign.floor import floor_section
from unperturbed.analysis.report.campaign.reference import (
    method_section,
    provenance_section,
    reading_section,
    runs_section,
)
from unperturbed.analysis.report.campaign.totals import (
    doses_section,
    multiplexing_section,
    strata_section,
    totals_section,
)
from unperturbed.analysis.report.campaign.trust import trust_section
from unperturbed.analysis.report.campaign.verdicts import facts_section, result_section, top
from unperturbed.common.markup import Html, tag
from unperturbed.common.wording import counted, number

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Verdict
    from unperturbed.analysis.report.alignment import AlignmentExample

_LISTED = 1000
_VALUES = 100_000
"""Limits of the details on the page: number of changes, and of their runs' coefficients; verdicts.json has all."""

_TWIN = "verdicts-json"
_TWIN_MOST = 20_000
"""Maximum number of coefficients in a verdicts.json that is embedded in the page; a larger file is only beside it."""

_PLACES = {
    "trust": "Metrics",
    "totals": "Totals",
    "doses": "Doses",
    "ranks": "Ranks",
    "threads": "Threads",
    "multiplexing": "Multiplexed metrics",
    "campaign": "Campaign",
    "verdicts": "Verdicts",
    "changes": "What changed",
    "signals": "Signals",
    "correlations": "Correlations",
    "alignment": "Alignment",
    "floor": "Noise floor",
    "runs": "Runs",
    "provenance": "Provenance",
    "reading": "How to read",
    "method": "Method",
}
_WITH_FIGURES = ("totals", "doses", "changes", "signals", "correlations", "alignment", "floor")


def render(content: ReportContent) -> str:
    """Return the report as one HTML document.

    Parameters
    ----------
    content : ReportContent
        The content to show. Its texts are untrusted: they are shown, never executed.

    Returns
    -------
    str
        A document that needs neither the network nor other files. Its size is about 1 MB, half of it plotly.js, and a
        few MB for a campaign of thousands of runs. Without scripts, only the figures are missing. The root element's
        `data-state` becomes `drawn` when the last figure is drawn.
    """
    results = configuration_results(content)
    every = listed_changes(results)
    sizes = np.cumsum([len(change.reference) + len(change.observed) for _, change in every])
    view = ReportView(content, results, every[: min(_LISTED, int(np.searchsorted(sizes, _VALUES, side="right")))])
    blocks = drawn_blocks(view)
    # Sections of the page that have no figures of their own get a second section for added figures.
    further = {
        f"{place}-figures" if place in _PLACES else place: drawn
        for place, drawn in blocks.items()
        if place not in _WITH_FIGURES
    }
    small = not every or sizes[-1] <= _TWIN_MOST
    data = (
        tag("button", "verdicts.json", type="button", class_="save", data_packed=_TWIN, data_name="verdicts.json")
        if small
        else Html("verdicts.json is in the same folder as this page")
    )
    # The worst pair before and after comes first, then every configuration.
    signals = blocks.get("signals", {})
    no_traces = None if "traces" in signals else tag("p", "No traces are available.", class_="empty")
    sections = {
        "trust": trust_section(view),
        "totals": totals_section(content, blocks.get("totals", {})),
        "doses": doses_section(content, blocks.get("doses", {})),
        "ranks": strata_section(content.ranks),
        "threads": strata_section(content.threads),
        "multiplexing": multiplexing_section(content),
        "campaign": facts_section(content, data),
        "verdicts": result_section(content, results),
        "changes": changes_section(view, every, blocks.get("changes", {})),
        "signals": section("signals", "The signals over time", shown(signals), no_traces),
        "correlations": _correlation_section(blocks.get("correlations", {})),
        "alignment": _alignment_section(content.alignment, blocks.get("alignment", {})),
        # Sections that figures of other distributions add.
        **{place: section(place, _section_title(place), shown(drawn)) for place, drawn in further.items()},
        "floor": floor_section(content, blocks.get("floor", {})),
        "runs": runs_section(content.runs),
        "provenance": provenance_section(view),
        "reading": reading_section(),
        "method": method_section(view),
    }
    present = [(name, _PLACES.get(name) or _section_title(name)) for name, written in sections.items() if written]
    return document(
        f"{content.campaign}: measurement perturbation report",
        tag("a", "Skip to the metrics", href="#trust", class_="skip"),
        navigation(present),
        top(content, results),
        tag("main", list(sections.values())),
        details_dialog(),
        packed_block("details-data", details(view.listed)),
        packed_block(_TWIN, to_json(content)) if small else None,
        version=content.headline.version,
    )


def render_verdict(verdict: Verdict) -> str:
    """Return one verdict as an HTML document, without the facts of its campaign."""
    settings = ReportSettings(alpha=verdict.alpha, tolerance=verdict.tolerance)
    return render(ReportContent(verdict.configuration, (verdict,), CounterSource("not recorded"), settings))


def write_report(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the report's page atomically.

    Parameters
    ----------
    path : str or PathLike of str
        The file to write; an existing file is replaced.
    content : ReportContent
        The content to show.
    """
    write_page(path, render(content))


def _correlation_section(blocks: Blocks) -> Html | None:
    """Return the section on correlations, by run and against overhead (figures 3, 4, 6, 7 and 8 of the paper)."""
    if not blocks:
        return None
    return folded(
        "correlations",
        "Correlations",
        "in the baseline, run by run, and in each configuration, against its overhead",
        choice("scale", "Scale", list(SCALES.items()), "signed"),
        shown(blocks),
    )


def _alignment_section(example: AlignmentExample | None, blocks: Blocks) -> Html | None:
    """Return the section on the alignment of two runs."""
    if not blocks:
        return None
    introduced = _introduction(example) if example is not None else None
    return folded(
        "alignment", "Alignment of two runs", "an example of how runs are compared", introduced, shown(blocks)
    )


def _introduction(example: AlignmentExample) -> Html:
    scores = np.asarray(example.milestone_scores)
    judged = (
        f"{number(100 * float(np.mean(scores == 0)), 2)} % of the {counted(scores.size, 'path step')} with a milestone "
        f"match it exactly, and {number(100 * float(np.mean(scores <= 1)), 2)} % within one interval."
        if scores.size
        else "The runs have no milestone in common, so this alignment cannot be checked independently."
    )
    return tag(
        "p",
        "Two runs never have exactly the same speed. Dynamic time warping finds the intervals that show the same work, "
        f"so metrics can be compared across runs. {example.description} {judged}",
    )


def _section_title(identity: str) -> str:
    """Return the heading of a section that another distribution adds: `Cache lines` for `cache-lines`."""
    return identity.replace("-", " ").capitalize()
