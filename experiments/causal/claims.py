"""What a paper says, what was found here, and whether the two agree: a row a claim."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Held", "claims_table"]


@dataclass(frozen=True)
class Held:
    """A claim held against the data.

    Attributes
    ----------
    paper : str
        What the paper says, and where.
    found : str
        What was found here, with figures.
    agrees : bool or None
        None: in part, or nothing here could tell; `found` says which.
    """

    paper: str
    found: str
    agrees: bool | None


def claims_table(rows: Iterable[Held]) -> str:
    """Return the rows as a table of the page."""
    told = {True: "yes", False: "**no**", None: "in part"}
    lines = ["| the paper says | found here | agrees |", "|---|---|---|"]
    lines += [f"| {_cell(row.paper)} | {_cell(row.found)} | {told[row.agrees]} |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
