"""What is wrong with a spec, and where: every fault found, in the order of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from unperturbed.errors import SpecError

_LONG_WORD = re.compile(r"\S{121,}")
_LONGEST = 1000
_MOST_SHOWN = 100
"""Faults that a message spells out. Whoever has more of them has given the wrong file."""


@dataclass(frozen=True, order=True)
class Position:
    """A place in a text."""

    # line, column: Counted from 1; the column counts characters.
    line: int
    column: int


@dataclass(frozen=True, order=True)
class Diagnostic:
    """A fault of a spec: where it is, what is wrong and what to do."""

    position: Position  # Where it is
    message: str  # One line of bearable length, whatever the spec's own words are that it repeats

    def __post_init__(self) -> None:
        line = " ".join(self.message.split())
        line = _LONG_WORD.sub(lambda word: f"{word[0][:60]}…", line)
        object.__setattr__(self, "message", line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")

    def render(self, name: str) -> str:
        """Return `file:line:column: message`."""
        return f"{name}:{self.position.line}:{self.position.column}: {self.message}"


class InvalidSpec(SpecError):  # noqa: N818  as KeyboardInterrupt: the base says that it is an error
    """A spec has faults.

    Attributes
    ----------
    name : str
        The file's name.
    diagnostics : tuple of Diagnostic
        Every fault, once, sorted by position. The message has one line for each.
    """

    def __init__(self, name: str, diagnostics: Iterable[Diagnostic]) -> None:
        self.name = name
        self.diagnostics = tuple(sorted(set(diagnostics)))
        lines = [diagnostic.render(name) for diagnostic in self.diagnostics[:_MOST_SHOWN]]
        hidden = len(self.diagnostics) - len(lines)
        if hidden:
            lines.append(f"{name}: and {hidden:,} more faults")
        super().__init__("\n".join(lines))
