"""The report's page: its sections in order, cut to a size that opens at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from unperturbed.analysis.report.document import document, navigation, write_page
from unperturbed.analysis.report.figures import draw
from unperturbed.analysis.report.markup import json_block, tag
from unperturbed.analysis.report.names import described_metrics
from unperturbed.analysis.report.results import listed_changes, results
from unperturbed.analysis.report.sections_changes import changes_section, details, details_dialog
from unperturbed.analysis.report.sections_figures import alignment_section, correlation_section, signals_section
from unperturbed.analysis.report.sections_reference import (
    method_section,
    provenance_section,
    reading_section,
    runs_section,
)
from unperturbed.analysis.report.sections_result import result_section, top

if TYPE_CHECKING:
    from unperturbed.analysis.report.content import ReportContent

__all__ = ["render", "write_report"]

_PAGE_BYTES = 5_900_000
_LISTED = (1000, 500, 250, 100)
"""Changes that the page has rows and details of: as many as keep it below the size above. The JSON twin always has all."""

_PLACES = (
    ("verdicts", "Verdicts"),
    ("changes", "What changed"),
    ("signals", "Signals"),
    ("correlations", "Correlations"),
    ("alignment", "Alignment"),
    ("runs", "Runs"),
    ("provenance", "Provenance"),
    ("reading", "How to read"),
    ("method", "Method"),
)


def render(content: ReportContent) -> str:
    """Return the report as one HTML document.

    Parameters
    ----------
    content : what to show. Any text in it may hold anything: it is shown, never run.

    Returns
    -------
    str
        A document that needs no network and no other file; some 5 MB, most of it plotly.js, and never above 6. Everything but the figures is
        there without scripts. The root element's `data-state` becomes `drawn` when the last figure stands.
    """
    page = ""
    for most in _LISTED:
        page = _page(content, most)
        if len(page.encode()) <= _PAGE_BYTES:
            break
    return page


def _page(content: ReportContent, most: int) -> str:
    found = results(content)
    listed = listed_changes(found, most)
    described = described_metrics(content)
    figures = draw(content, found, listed)
    sections = [
        result_section(content, found),
        changes_section(found, listed, figures.forest, described),
        signals_section(content, figures),
        correlation_section(found, figures, content.steadiness),
        alignment_section(content.alignment, figures),
        runs_section(content.runs),
        provenance_section(content, found, described),
        reading_section(),
        method_section(content, found),
    ]
    shown = [identity for identity, _ in _PLACES if any(f'id="{identity}"' in part[:200] for part in sections if part)]
    return document(
        f"{content.campaign}: measurement perturbation report",
        tag("a", "Skip to the verdicts", href="#verdicts", class_="skip"),
        navigation([(identity, name) for identity, name in _PLACES if identity in shown]),
        top(content, found),
        tag("main", sections),
        details_dialog(),
        json_block("details-data", details(listed)),
        version=content.headline.version,
    )


def write_report(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the report. It appears whole or not at all.

    Parameters
    ----------
    path : the file to write; one that is there is replaced.
    content : what to show.
    """
    write_page(path, render(content))
