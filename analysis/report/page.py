"""The page itself: one HTML file that holds everything it needs, and may ask for nothing more."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.analysis.report.figures import draw
from unperturbed.analysis.report.markup import Html, json_block, tag
from unperturbed.analysis.report.names import described_metrics
from unperturbed.analysis.report.results import listed_changes, results
from unperturbed.analysis.report.sections_changes import changes_section, details
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

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
"""What the browser lets the page do: run what stands in it. It cannot fetch anything, whatever a metric is called."""

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
        correlation_section(found, figures),
        alignment_section(content.alignment, figures),
        runs_section(content.runs),
        provenance_section(content, found, described),
        reading_section(),
        method_section(content, found),
    ]
    body = tag(
        "body",
        tag("a", "Skip to the verdicts", href="#verdicts", class_="skip"),
        _navigation(
            [identity for identity, _ in _PLACES if any(f'id="{identity}"' in part[:200] for part in sections if part)]
        ),
        top(content, found),
        tag("main", sections),
        tag(
            "footer",
            tag(
                "p",
                f"Made by Unperturbed {content.headline.version}. This page is complete in itself and asks the network for nothing.",
            ),
        ),
        _dialog(),
        json_block("details-data", details(listed)),
        _inert_plotly(),
        Html(f"<script>{_asset('report.js')}</script>"),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{content.campaign}: measurement perturbation report"),
        Html(f"<style>{_asset('report.css')}</style>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en', data_state='loading')}\n"


def write_report(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the report. It appears whole or not at all: written aside, synced, renamed.

    Parameters
    ----------
    path : the file to write; one that is there is replaced.
    content : what to show.
    """
    target = Path(path)
    page = render(content)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _navigation(identities: list[str]) -> Html:
    names = dict(_PLACES)
    links = [tag("li", tag("a", names[identity], href=f"#{identity}")) for identity in identities]
    return tag("nav", tag("ul", links), aria_label="Sections")


def _dialog() -> Html:
    """Return the empty window that a click on a change fills."""
    return tag(
        "dialog",
        tag("button", "Close ✕", type="button", class_="close"),
        tag("h2", "", id="details-title"),
        tag("p", "", id="details-verdict"),
        tag("p", "", id="details-sentence"),
        tag("div", id="details-chart", class_="chart"),
        tag("dl", "", id="details-facts", class_="provenance"),
        tag("table", tag("caption", "ρ of each run"), tag("tbody", "", id="details-runs")),
        id="details",
        aria_labelledby="details-title",
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _inert_plotly() -> Html:
    """Return plotly.js as inert text: the page's own script wakes it once the page has been painted."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  slow to load, and only a report needs it

    # The HTML parser ends a script at its closing tag and changes its mind at a comment's start, whatever the script means by them.
    library = get_plotlyjs().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return Html(f'<script type="text/plain" id="plotly-source">{library}</script>')
