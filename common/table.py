"""A table that is written once and shown alike in the terminal, on a page and in a notebook."""

from __future__ import annotations

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
"""Meaning of a cell's colour; pages have a class of this name."""

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

    head: str  # Its name
    align: Literal["left", "right"] = "left"  # Numbers are right-aligned
    meaning: str = ""  # An explanation: a tooltip on a page
    whole: bool = False  # Its cells are never broken over lines in a terminal: names that are copied, for instance
    detail: bool = False  # Text leaves it out where the table would not fit otherwise


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is more than its text."""

    text: str  # What is shown
    tone: Tone = ""  # What its colour means
    key: float | str | None = None  # What a page sorts it by; None sorts by the text
    link: str = ""  # Where it leads on a page
    # Number of its series in a figure, whose colour it has: from 1, and 0 for all further ones.
    series: int | None = None
    markup: Html | None = None  # What a page shows in place of the text, such as a button


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under named columns."""

    columns: Sequence[Column]  # From left to right
    rows: Sequence[Sequence[Cell | str]]  # As many cells each as there are columns
    caption: str = ""  # What the table holds

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells for {len(self.columns)} columns")

    def to_rich(self) -> rich.table.Table:
        """Return the table as rich draws it in a terminal."""
        from rich import box  # noqa: PLC0415  not every process that makes a table shows it
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
        for row in self.rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            table.add_row(*(Text(visible(cell.text), style=style_of(cell)) for cell in cells))
        return table

    def to_text(self, width: int | None = None) -> str:
        """Return the table as plain text that fits a width: by default the terminal's (or COLUMNS), else 120.

        Lines have no spaces at their ends. The last one names the columns that did not fit, if there are any.
        """
        from rich.console import Console  # noqa: PLC0415

        columns = shutil.get_terminal_size((120, 24)).columns if width is None else width
        console = Console(width=columns, color_system=None, force_terminal=False)
        shown, left_out = self, list[str]()
        details = [column.head for column in self.columns if column.detail]
        unbounded = console.options.update(max_width=10_000)
        while details and console.measure(shown.to_rich(), options=unbounded).maximum > columns:
            left_out.insert(0, details.pop())
            shown = self._without(left_out)
        with console.capture() as drawn:
            console.print(shown.to_rich())
            if left_out:
                console.print(f"{columns} columns are too narrow for: {listing(left_out)}.", soft_wrap=True)
        return "\n".join(line.rstrip() for line in drawn.get().splitlines()).strip("\n")

    def _without(self, heads: Collection[str]) -> Table:
        kept = [place for place, column in enumerate(self.columns) if column.head not in heads]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.columns[place] for place in kept], rows, self.caption)

    def to_html(self, *, identity: str | None = None, sortable: bool = False) -> Html:
        """Return the table as markup."""
        rows = []
        for row in self.rows:
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            rows.append([_html_cell(cell, column) for cell, column in zip(cells, self.columns, strict=True)])
        heads = [(column.head, column.meaning) if column.meaning else column.head for column in self.columns]
        return markup.table(self.caption, heads, rows, identity=identity, sortable=sortable)


def style_of(cell: Cell) -> str:
    """Return the style in which rich draws a cell."""
    return _STYLES[cell.tone] if cell.series is None else SERIES_STYLES[cell.series]


def _html_cell(cell: Cell, column: Column) -> markup.Cell:
    classes = " ".join(filter(None, (cell.tone, "number" if column.align == "right" else "")))
    shown: markup.Content = cell.markup or (markup.tag("a", cell.text, href=cell.link) if cell.link else cell.text)
    if cell.series is not None:
        colour = f"var(--series-{cell.series})" if cell.series else "var(--muted-bar)"
        swatch = markup.tag("span", style=f"background:{colour}", class_="swatch")
        shown = markup.tag("span", swatch, shown, class_="word")
    return markup.Cell(shown, cell.key, class_=classes or None)
