"""Figures of the report. Each is a `ReportFigure` in a module of this package, and is found automatically.

Other distributions add figures by entry points in the group `unperturbed.report_figures`::

    [project.entry-points."unperturbed.report_figures"]
    heatmap = "my_package.heatmap:HEATMAP"

The record names the section of the figure, and draws the figure from the report's content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unperturbed.analysis.pages.chart import Figure
from unperturbed.analysis.pages.document import frame
from unperturbed.analysis.report.campaign.content import ReportView as ReportView  # the data of a figure
from unperturbed.common.extensions import records_in
from unperturbed.common.markup import Content, Html, tag


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure with its own caption and title."""

    figure: Figure  # The figure
    caption: Content = None  # Text below the figure
    title: Content = None  # Small heading above the figure, for blocks of several figures
    half_width: bool = False  # Show the figure beside the next figure with half width


@dataclass(frozen=True)
class FigureBlock:
    """Figures that share a heading and an introduction."""

    figures: Sequence[CaptionedFigure]  # From top to bottom
    heading: str = ""  # The heading above them
    text: Content = None  # Paragraphs and controls between heading and figures

    def to_html(self) -> Html:
        """Return heading, text and figures; figures with half width are side by side."""
        parts: list[Html] = []
        pair: list[Html] = []
        for captioned in self.figures:
            shown = frame(captioned.figure, captioned.caption)
            if captioned.half_width:
                pair.append(shown)
            else:
                parts.append(tag("div", tag("h4", captioned.title), shown) if captioned.title else shown)
        beside = tag("div", pair, class_="pair") if pair else None
        return tag("div", tag("h3", self.heading) if self.heading else None, self.text, parts, beside)


Blocks = Mapping[str, FigureBlock]
"""Figures of a section by name, in the order of the page."""


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report."""

    name: str  # Name of the figure; also the id of its element if there is a single figure
    # Id of the figure's section: `totals`, `changes`, `signals`, `correlations` or `alignment`. Any other id adds a
    # section with that name.
    section: str
    # Takes a `ReportView`; returns a `Figure`, a `FigureBlock` if heading or text depend on the content, or None if
    # there is nothing to draw.
    # Its traces are of the types `scatter`, `bar` and `pie`: the page holds plotly's basic bundle.
    draw: Callable[[ReportView], Figure | FigureBlock | None] = field(repr=False)
    heading: str = ""  # Heading above a single figure
    text: Content = None  # Text between the heading and a single figure
    caption: Content = None  # Text below a single figure
    place: int = 100  # Sort key within the section, ascending

    def block(self, view: ReportView) -> FigureBlock | None:
        """Return the figure with its heading, text and caption; None if there is nothing to draw."""
        drawn = self.draw(view)
        if isinstance(drawn, Figure):
            figure = CaptionedFigure(replace(drawn, name=self.name), self.caption)
            return FigureBlock([figure], self.heading, self.text)
        return drawn if drawn is not None and drawn.figures else None


def report_figures() -> tuple[ReportFigure, ...]:
    """Return all figures, from this package and from other distributions, sorted by `place`."""
    records = records_in(__name__, ReportFigure, group="unperturbed.report_figures")
    return tuple(sorted(records.values(), key=lambda record: record.place))


def drawn_blocks(view: ReportView) -> Mapping[str, Blocks]:
    """Draw all figures that have data, in the order of the page: section → name → block."""
    blocks: dict[str, dict[str, FigureBlock]] = {}
    for record in report_figures():
        block = record.block(view)
        if block is not None:
            blocks.setdefault(record.section, {})[record.name] = block
    return blocks


def shown(blocks: Blocks) -> list[Html]:
    """Return the figures of a section as HTML, with headings, texts and captions."""
    return [block.to_html() for block in blocks.values()]
