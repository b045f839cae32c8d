"""The report's page: its sections in order, cut to a size that opens at once."""

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
from unperturbed.analysis.report.campaign.totals import totals_section
from unperturbed.analysis.report.campaign.trust import trust_section
from unperturbed.analysis.report.campaign.verdicts import facts_section, result_section, top
from unperturbed.common.markup import Html, tag
from unperturbed.common.wording import counted, number

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Verdict
    from unperturbed.analysis.report.alignment import AlignmentExample

_LISTED = 1000
_VALUES = 100_000
"""Most changes, and most coefficients of runs, that the page has details of; the JSON twin has all."""

_TWIN = "verdicts-json"
_TWIN_MOST = 20_000
"""Coefficients of a JSON twin that a page takes along; a larger one lies beside it only."""

_PLACES = {
    "trust": "Metrics",
    "totals": "Totals",
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
_WITH_FIGURES = ("totals", "changes", "signals", "correlations", "alignment", "floor")


def render(content: ReportContent) -> str:
    """Return the report as one HTML document.

    Parameters
    ----------
    content : ReportContent
        What to show. Any text in it may hold anything: it is shown, never run.

    Returns
    -------
    str
        A document that needs no network and no other file; about 1 MB, half of it plotly.js, and a few for a campaign
        of thousands of runs.
        Everything but the figures is there without scripts. The root element's `data-state` becomes `drawn` when the
        last figure stands.
    """
    found = configuration_results(content)
    every = listed_changes(found)
    sizes = np.cumsum([len(change.reference) + len(change.observed) for _, change in every])
    view = ReportView(content, found, every[: min(_LISTED, int(np.searchsorted(sizes, _VALUES, side="right")))])
    blocks = drawn_blocks(view)
    # A section that the page has without figures is followed by another one for them.
    further = {
        f"{place}-figures" if place in _PLACES else place: drawn
        for place, drawn in blocks.items()
        if place not in _WITH_FIGURES
    }
    small = not every or sizes[-1] <= _TWIN_MOST
    data = (
        tag("button", "verdicts.json", type="button", class_="save", data_packed=_TWIN, data_name="verdicts.json")
        if small
        else Html("verdicts.json is in the folder of this page")
    )
    # The worst pair before and after, then every configuration.
    signals = blocks.get("signals", {})
    no_traces = None if "traces" in signals else tag("p", "No traces are available.", class_="empty")
    sections = {
        "trust": trust_section(view),
        "totals": totals_section(content, blocks.get("totals", {})),
        "campaign": facts_section(content, data),
        "verdicts": result_section(content, found),
        "changes": changes_section(view, every, blocks.get("changes", {})),
        "signals": section("signals", "The signals over time", shown(signals), no_traces),
        "correlations": _correlation_section(blocks.get("correlations", {})),
        "alignment": _alignment_section(content.alignment, blocks.get("alignment", {})),
        # Sections that only figures of other distributions have.
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
        top(content, found),
        tag("main", list(sections.values())),
        details_dialog(),
        packed_block("details-data", details(view.listed)),
        packed_block(_TWIN, to_json(content)) if small else None,
        version=content.headline.version,
    )


def render_verdict(verdict: Verdict) -> str:
    """Return one verdict as an HTML document: what is not known of its campaign is left out."""
    settings = ReportSettings(alpha=verdict.alpha, tolerance=verdict.tolerance)
    return render(ReportContent(verdict.configuration, (verdict,), CounterSource("not recorded"), settings))


def write_report(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the report. It appears whole or not at all.

    Parameters
    ----------
    path : str or PathLike of str
        The file to write; one that is there is replaced.
    content : ReportContent
        What to show.
    """
    write_page(path, render(content))


def _correlation_section(blocks: Blocks) -> Html | None:
    """Return the correlations by run and against what was added (figures 3, 4, 6, 7, 8 of the paper)."""
    if not blocks:
        return None
    return folded(
        "correlations",
        "Correlations",
        "of the baseline run by run, and of each configuration against its overhead",
        choice("scale", "Scale", list(SCALES.items()), "signed"),
        shown(blocks),
    )


def _alignment_section(example: AlignmentExample | None, blocks: Blocks) -> Html | None:
    """Return the alignment of two runs."""
    if not blocks:
        return None
    introduced = _introduction(example) if example is not None else None
    return folded("alignment", "Two runs, aligned", "an example of how runs are compared", introduced, shown(blocks))


def _introduction(example: AlignmentExample) -> Html:
    scores = np.asarray(example.milestone_scores)
    judged = (
        f"{number(100 * float(np.mean(scores == 0)), 2)} % of the {counted(scores.size, 'aligned step')} with a "
        f"milestone meet it in the same interval, and {number(100 * float(np.mean(scores <= 1)), 2)} % within one."
        if scores.size
        else "The runs share no milestone, so this alignment cannot be checked independently."
    )
    return tag(
        "p",
        "Two runs are never equally fast. Dynamic time warping finds the intervals that show the same work, so "
        f"metrics can be compared across runs. {example.description} {judged}",
    )


def _section_title(identity: str) -> str:
    """Return the heading of a section that the page does not know: `cache-lines` is `Cache lines`."""
    return identity.replace("-", " ").capitalize()
