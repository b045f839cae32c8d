"""Section on the noise floor: the smallest changes that more or fewer runs would show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.analysis.floor.resolution_text import floor_table, headline, sentences
from unperturbed.analysis.pages.document import section
from unperturbed.analysis.report.campaign.figures import Blocks, shown
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.report.campaign.content import ReportContent


def floor_section(content: ReportContent, blocks: Blocks) -> Html | None:
    """Return the section on the noise floor; None if nothing was compared."""
    floor = content.floor
    if floor is None or not floor.resolutions:
        return None
    said = headline(floor)
    return section(
        "floor",
        "Noise floor",
        tag(
            "p",
            "The noise floor is the smallest change that a comparison of two groups of n runs can show on this host. "
            "It is computed from how the runs varied. Smaller changes stay undecided, whatever the program does.",
        ),
        tag("ul", [tag("li", f"{said[0].upper()}{said[1:]}."), *(tag("li", text) for text in sentences(floor))]),
        shown(blocks),
        floor_table(floor).to_html(sortable=True),
    )
