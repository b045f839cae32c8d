"""Claims of a paper, each with what was found here and whether the two agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.common.tables import markdown_table

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
