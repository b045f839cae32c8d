"""What a paper says, what was found here, and whether the two agree: a row a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Held", "claims_table", "counted"]

_TOLD = {True: "yes", False: "**no**", None: "in part"}


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
        None: in part.
    verdict : str
        What stands in the table instead of yes, no or in part.
    """

    paper: str
    found: str
    agrees: bool | None
    verdict: str = ""


def claims_table(rows: Iterable[Held]) -> str:
    """Return the rows as a table of the page."""
    lines = ["| the paper says | found here | agrees |", "|---|---|---|"]
    lines += [f"| {_cell(row.paper)} | {_cell(row.found)} | {row.verdict or _TOLD[row.agrees]} |" for row in rows]
    return "\n".join(lines)


def counted(rows: Sequence[Held]) -> str:
    """Return in a sentence how many claims agree."""
    told = [sum(row.agrees is agrees and not row.verdict for row in rows) for agrees in (True, None, False)]
    untold = f", {left} cannot be told" if (left := len(rows) - sum(told)) else ""
    return f"Of the paper's {len(rows)} claims {told[0]} agree with what was found here, {told[1]} in part, {told[2]} do not{untold}."


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
