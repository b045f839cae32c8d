"""What is wrong with a spec, and where: every fault found, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from unperturbed.errors import SpecError

__all__ = ["Diagnostic", "InvalidSpec", "Position", "nearest"]

_LONG_WORD = re.compile(r"\S{121,}")
_LONGEST = 1000
_MOST_SHOWN = 100
"""Faults that a message spells out. Whoever has more of them has given the wrong file."""


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text, both counted from 1; the column counts characters."""

    line: int
    column: int


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One fault: where it is, what is wrong and what to do.

    The message is one line of bearable length, whatever the spec's own words are that it repeats.
    """

    position: Position
    message: str

    def __post_init__(self) -> None:
        line = " ".join(self.message.split())
        line = _LONG_WORD.sub(lambda word: f"{word[0][:60]}…", line)
        object.__setattr__(self, "message", line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")

    def render(self, name: str) -> str:
        """Return `file:line:column: message`."""
        return f"{name}:{self.position.line}:{self.position.column}: {self.message}"


class InvalidSpec(SpecError):  # noqa: N818  as KeyboardInterrupt: the name says what is the case, the base says that it is an error
    """A spec has faults.

    Attributes
    ----------
    name : the file's name, as the user gave it.
    diagnostics : every fault, once, sorted by position. The message holds one line for each.
    """

    def __init__(self, name: str, diagnostics: Iterable[Diagnostic]) -> None:
        self.name = name
        self.diagnostics = tuple(sorted(set(diagnostics)))
        lines = [diagnostic.render(name) for diagnostic in self.diagnostics[:_MOST_SHOWN]]
        hidden = len(self.diagnostics) - len(lines)
        if hidden:
            lines.append(f"{name}: and {hidden:,} more faults")
        super().__init__("\n".join(lines))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is spelt most like this one, or None when none is near enough to be meant."""
    from rapidfuzz import fuzz, process, utils  # noqa: PLC0415  a spec without faults never needs it
    from rapidfuzz.distance import OSA  # noqa: PLC0415

    candidates = sorted(known)
    # One letter wrong, missing or too many, or two swapped: no other reading is nearer (PAPI_L1_DMC is PAPI_L1_DCM).
    slip = process.extractOne(word[:100], candidates, scorer=OSA.distance, processor=utils.default_process, score_cutoff=1)
    if slip is not None:
        return slip[0]
    # Parts of words count first (`env` for `environment`), slips of the pen second (`working_dir` for `working_folder`).
    for scorer, cutoff in ((fuzz.WRatio, 86), (fuzz.ratio, 74)):
        found = process.extractOne(word[:100], candidates, scorer=scorer, processor=utils.default_process, score_cutoff=cutoff)
        if found is not None:
            return found[0]
    return None
