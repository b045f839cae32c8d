"""Figures of the report: each is a `ReportFigure` in a module of this room, and found by itself.

Another distribution adds a figure by an entry point of the group `unperturbed.report_figures`::

    [project.entry-points."unperturbed.report_figures"]
    heatmap = "my_package.heatmap:HEATMAP"

The record names the section that holds the figure, and draws it from the report's content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unperturbed.analysis.pages.chart import Figure
from unperturbed.analysis.pages.document import frame
from unperturbed.analysis.report.campaign.content import ReportView as ReportView  # what a figure is drawn from
from unperturbed.common.extensions import records_in
from unperturbed.common.markup import Content, Html, tag


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure and the text that belongs to it alone."""

    figure: Figure  # The figure
    caption: Content = None  # Text below it
    title: Content = None  # A small heading above it, for a block of several figures
    half_width: bool = False  # Set it beside the next figure of half width


@dataclass(frozen=True)
class FigureBlock:
    """Figures that share a heading and an introduction."""

    figures: Sequence[CaptionedFigure]  # From top to bottom
    heading: str = ""  # The heading above them
    text: Content = None  # Paragraphs and controls between heading and figures

    def to_html(self) -> Html:
        """Return heading, text and figures; neighbours of half width are side by side."""
        parts: list[Html] = []
        pair: list[Html] = []
        for one in self.figures:
            shown = frame(one.figure, one.caption)
            if one.half_width:
                pair.append(shown)
            else:
                parts.append(tag("div", tag("h4", one.title), shown) if one.title else shown)
        beside = tag("div", pair, class_="pair") if pair else None
        return tag("div", tag("h3", self.heading) if self.heading else None, self.text, parts, beside)


Blocks = Mapping[str, FigureBlock]
"""The figures of a section: the name of each to what is shown of it, in the order of the page."""


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report."""

    name: str  # The figure's name, and the id of its element where there is one figure
    # The id of the section that holds it: `changes`, `signals`, `correlations` or `alignment`. Another id adds a
    # section of that name.
    section: str
    # Takes a `ReportView`; returns the `Figure`, a `FigureBlock` where heading or text depend on the content, or None
    # where the content has nothing for it.
    draw: Callable[[ReportView], Figure | FigureBlock | None] = field(repr=False)
    heading: str = ""  # The heading above a single figure
    text: Content = None  # What is written between the heading and a single figure
    caption: Content = None  # What is written below a single figure
    place: int = 100  # Its place in the section, in ascending order

    def block(self, view: ReportView) -> FigureBlock | None:
        """Return the figure with everything beside it, None where there is nothing to draw."""
        drawn = self.draw(view)
        if isinstance(drawn, Figure):
            figure = CaptionedFigure(replace(drawn, name=self.name), self.caption)
            return FigureBlock([figure], self.heading, self.text)
        return drawn if drawn is not None and drawn.figures else None


def report_figures() -> tuple[ReportFigure, ...]:
    """Return all figures that there are, of this room and of other distributions, in the order of their places."""
    found = records_in(__name__, ReportFigure, group="unperturbed.report_figures")
    return tuple(sorted(found.values(), key=lambda record: record.place))


def drawn_blocks(view: ReportView) -> Mapping[str, Blocks]:
    """Draw every figure for which the content has something: section to name to block, in the order of the page."""
    blocks: dict[str, dict[str, FigureBlock]] = {}
    for record in report_figures():
        block = record.block(view)
        if block is not None:
            blocks.setdefault(record.section, {})[record.name] = block
    return blocks


def shown(blocks: Blocks) -> list[Html]:
    """Return the figures of a section with everything beside them."""
    return [block.to_html() for block in blocks.values()]
