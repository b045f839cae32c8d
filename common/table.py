"""A table that looks the same in a terminal, on an HTML page and in a notebook."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from unperturbed.common import markup
from unperturbed.common.markup import Html
from unperturbed.common.wording import listing, visible

if TYPE_CHECKING:
    import rich.table


Tone = Literal["", "good", "bad", "shifted", "undecided", "quiet", "strong"]
"""Meaning of a cell's colour; also the name of its CSS class on pages."""

_STYLES: dict[Tone, str] = {
    "": "",
    "good": "green",
    "bad": "bold red",
    "shifted": "magenta",
    "undecided": "yellow",
    "quiet": "dim",
    "strong": "bold",
}


SERIES_STYLES = ("bright_black", "blue", "dark_orange", "green", "magenta", "yellow", "cyan")
"""Colours of series in a terminal, by `Cell.series`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    head: str  # Name of the column
    align: Literal["left", "right"] = "left"  # Numbers are right-aligned
    meaning: str = ""  # An explanation, shown as a tooltip on a page
    whole: bool = False  # Never wrap its cells in a terminal, for example names that users copy
    detail: bool = False  # Plain text leaves the column out if the table would not fit otherwise


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell with more than text: colour, sort key, link or markup."""

    text: str  # What is shown
    tone: Tone = ""  # Meaning of its colour
    key: float | str | None = None  # Sort key on a page; None sorts by the text
    link: str = ""  # Link target on a page
    # Number of its series in a figure, which sets its colour: from 1; 0 for all series without their own colour.
    series: int | None = None
    markup: Html | None = None  # Shown on a page instead of the text, such as a button


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns."""

    columns: Sequence[Column]  # From left to right
    rows: Sequence[Sequence[Cell | str]]  # Each row has one cell per column
    caption: str = ""  # Caption of the table

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells, but the table has {len(self.columns)} columns")

    def to_rich(self, width: int | None = None) -> rich.table.Table:
        """Return the table as a rich table for a terminal.

        `width`: columns of the terminal; details that do not fit are left out. No column that is `whole` is cut, so a
        table can remain wider: print it without cropping.
        """
        if width is not None:
            return self._fitted(width)[0].to_rich()
        from rich import box  # noqa: PLC0415  not every process that creates a table displays it
        from rich.cells import cell_len  # noqa: PLC0415
        from rich.table import Table as RichTable  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = RichTable(
            title=visible(self.caption) or None,
            title_justify="left",
            title_style="",
            header_style="bold",
            box=box.SIMPLE_HEAD,
        )
        for column in self.columns:
            table.add_column(visible(column.head), justify=column.align, overflow="fold", no_wrap=column.whole)
            if column.whole:
                below = (row[len(table.columns) - 1] for row in self.rows)
                texts = [column.head, *(cell.text if isinstance(cell, Cell) else cell for cell in below)]
                table.columns[-1].min_width = max(cell_len(visible(text)) for text in texts)
        for row in self.rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            table.add_row(*(Text(visible(cell.text), style=style_of(cell)) for cell in cells))
        return table

    def to_text(self, width: int | None = None) -> str:
        """Return the table as plain text of at most `width` columns: by default the terminal's width, else 120.

        COLUMNS overrides the terminal's width. Lines have no trailing spaces. If columns did not fit, the last line
        names them.
        """
        from rich.console import Console  # noqa: PLC0415

        columns = shutil.get_terminal_size((120, 24)).columns if width is None else width
        shown, left_out = self._fitted(columns)
        console = Console(width=columns, color_system=None, force_terminal=False)
        with console.capture() as drawn:
            console.print(shown.to_rich(), crop=False)
            if left_out:
                console.print(f"Columns left out at width {columns}: {listing(left_out)}.", soft_wrap=True)
        return "\n".join(line.rstrip() for line in drawn.get().splitlines()).strip("\n")

    def _fitted(self, width: int) -> tuple[Table, list[str]]:
        """Return the table without details that do not fit, and the heads of these columns."""
        from rich.console import Console  # noqa: PLC0415

        console = Console(width=width, color_system=None, force_terminal=False)
        shown, left_out = self, list[str]()
        details = [column.head for column in self.columns if column.detail]
        unbounded = console.options.update(max_width=10_000)
        while details and console.measure(shown.to_rich(), options=unbounded).maximum > width:
            left_out.insert(0, details.pop())
            shown = self._without(left_out)
        return shown, left_out

    def _without(self, heads: Collection[str]) -> Table:
        kept = [place for place, column in enumerate(self.columns) if column.head not in heads]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.columns[place] for place in kept], rows, self.caption)

    def to_markdown(self) -> str:
        """Return the table in GitHub's Markdown, without its caption."""

        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cells)} |"

        rule = ("---:" if column.align == "right" else "---" for column in self.columns)
        rows = ([markdown(cell.text if isinstance(cell, Cell) else cell) for cell in row] for row in self.rows)
        return "\n".join([line([markdown(column.head) for column in self.columns]), line(list(rule)), *map(line, rows)])

    def to_html(self, *, identity: str | None = None, sortable: bool = False) -> Html:
        """Return the table as HTML."""
        rows = []
        for row in self.rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            rows.append([_html_cell(cell, column) for cell, column in zip(cells, self.columns, strict=True)])
        heads = [(column.head, column.meaning) if column.meaning else column.head for column in self.columns]
        return markup.table(self.caption, heads, rows, identity=identity, sortable=sortable)


def markdown(text: str) -> str:
    """Return text in which Markdown reads no character as markup."""
    escaped = html.escape(visible(text).replace("\n", " "), quote=False)
    escaped = re.sub(r"([\\`*_\[\]#|])", r"\\\1", escaped)
    # GitHub reads `$m$` as a formula also after a backslash; an element of its own is the escape that it documents.
    return escaped.replace("~", "&#126;").replace("$", "<span>$</span>")


def style_of(cell: Cell) -> str:
    """Return the rich style of a cell."""
    return _STYLES[cell.tone] if cell.series is None else SERIES_STYLES[cell.series]


def _html_cell(cell: Cell, column: Column) -> markup.HtmlCell:
    classes = " ".join(filter(None, (cell.tone, "number" if column.align == "right" else "")))
    shown: markup.Content = cell.markup or (markup.tag("a", cell.text, href=cell.link) if cell.link else cell.text)
    if cell.series is not None:
        colour = f"var(--series-{cell.series})" if cell.series else "var(--muted-bar)"
        swatch = markup.tag("span", style=f"background:{colour}", class_="swatch")
        shown = markup.tag("span", swatch, shown, class_="word")
    return markup.HtmlCell(shown, cell.key, class_=classes or None)
