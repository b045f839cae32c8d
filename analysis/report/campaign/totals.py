"""The section on totals: how totals of whole runs changed in each configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.pages.document import section
from unperturbed.analysis.report.campaign.figures import Blocks, shown
from unperturbed.analysis.report.campaign.setups import SECOND
from unperturbed.analysis.totals.total_text import total_table, totals_sentence
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.report.campaign.content import ReportContent


def totals_section(content: ReportContent, blocks: Blocks) -> Html | None:
    """Return the section on totals; None if no totals were compared."""
    if not content.totals:
        return None
    first = "A" if set(content.totals) == {SECOND} else "the baseline"
    said = [
        tag("li", totals_sentence(name, changes, first, advice=content.looks is None))
        for name, changes in content.totals.items()
    ]
    return section(
        "totals",
        "Totals of a run",
        tag(
            "p",
            "Instructions, misses and time of whole runs, each compared with a relative tolerance. Totals have their "
            "own verdicts: a total can halve without a change of correlations, and a correlation can change without a "
            "change of totals.",
        ),
        tag("ul", said),
        shown(blocks),
        total_table(content.totals, "Totals").to_html(sortable=True),
    )
