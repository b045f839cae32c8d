"""Markdown tables, and claims of a paper beside what was found here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


_AGREES = {True: "yes", False: "**no**", None: "in part"}


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, compared with the data."""

    paper: str  # What the paper claims, and where
    found: str  # What was found here, with figures
    agrees: bool | None  # None: in part
    verdict: str = ""  # Shown in the table instead of yes, no or in part, where the data cannot decide


def claims_table(claims: Iterable[Claim]) -> str:
    """Return a table with one row a claim, as Markdown."""
    rows = [(claim.paper, claim.found, claim.verdict or _AGREES[claim.agrees]) for claim in claims]
    return "\n".join(markdown_table(["the paper says", "found here", "agrees"], rows))


def agreement(claims: Sequence[Claim]) -> str:
    """Return in a sentence how many of the claims agree with the data."""
    yes, in_part, no = (
        sum(claim.agrees is agrees and not claim.verdict for claim in claims) for agrees in (True, None, False)
    )
    undecided = len(claims) - yes - in_part - no
    return (
        f"Of the paper's {len(claims)} claims {yes} agree with what was found here, {in_part} in part, {no} do not"
        f"{f', {undecided} cannot be told' if undecided else ''}."
    )
