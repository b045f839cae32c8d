"""Tables of a page of evidence, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unperturbed.common.table import Column


def right(*heads: str) -> list[Column]:
    """Return columns of numbers, which are right-aligned."""
    return [Column(head, "right") for head in heads]


def markdown_table(columns: Sequence[Column | str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table as lines of Markdown.

    `rows`: As many cells each as there are columns. A `|` and line ends in a cell are replaced, so that they break no
    row.
    """
    heads = [Column(column) if isinstance(column, str) else column for column in columns]
    lines = [
        _line(column.head for column in heads),
        f"|{'|'.join('---:' if column.align == 'right' else '---' for column in heads)}|",
    ]
    for row in rows:
        if len(row) != len(heads):
            raise ValueError(f"the row {row} has {len(row)} cells, and there are {len(heads)} columns")
        lines.append(_line(row))
    return lines


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(content: object) -> str:
    return " ".join(str(content).replace("|", r"\|").split())
