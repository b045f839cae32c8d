"""The syntax of `unperturbed model`'s options: names, values, edges, derivatives, curves.

A name with a sign of the syntax in it is put in backquotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from unperturbed.errors import SpecError

Arrow = tuple[str, str]
"""A cause and its effect."""

_ARROW = re.compile(r"\s*(?:->|→)\s*")


_DERIVATIVE = re.compile(
    r"\s*(?:d\s+|∂\s*)(`[^`]+`|.+?)\s*/\s*(?:d\s+|∂\s*)(`[^`]+`|.+?)(?:\s+from\s+(`[^`]+`|.+?)\s+to\s+(`[^`]+`|.+?))?\s*",
    re.DOTALL,
)
_CURVE_WANTED = "write TARGET over NUMBER in DISCRETE, as in 'L2M_op over n in datatype'; several separated by commas"
_DERIVATIVE_WANTED = (
    "write NAME = d COLUMN / d PARAMETER, as in 'gain = d T / d kernel', or 'gain = d T / d kernel from 5/3 to 9/7'"
)


@dataclass(frozen=True)
class Derivative:
    """A partial derivative with all other parameters held constant."""

    of: str  # The column that is derived
    over: str  # The parameter
    between: tuple[str, str] | None = None  # Two values of the parameter, as text


@dataclass(frozen=True)
class Curve:
    """The curve of a variable over numbers, one in each cell of discrete variables."""

    target: str
    over: tuple[str, ...]
    cells: tuple[str, ...]


def with_option_names(words: str) -> str:
    """Rewrite an error that names Python arguments so that it names command-line options."""
    return re.sub(r'kinds=\{"(.+?)": "(\w+)"\}', r"--kinds \1=\2", words.replace('missing="drop"', "--missing drop"))


def names_of(text: str, option: str) -> tuple[str, ...]:
    """Return names separated by commas; one with a comma, a slash or an arrow in it is put in backquotes."""
    found = tuple(unquote(part, option) for part in split(text, ","))
    for name in found:
        if found.count(name) > 1:
            raise SpecError(f"{option} {text}: {name} is named twice")
    return found


def named_values(text: str, option: str, example: str) -> dict[str, str]:
    """Return the values of `name=value,name=value` by name."""
    found: dict[str, str] = {}
    for part in split(text, ","):
        halves = split(part, "=")
        if len(halves) != 2 or not all(half.strip() for half in halves):
            raise SpecError(f"{option} {text}: write NAME=VALUE, several separated by commas, as in {example}")
        name, value = (unquote(half, option) for half in halves)
        if name in found:
            raise SpecError(f"{option} {text}: {name} is given twice")
        found[name] = value
    return found


def split(text: str, separator: str) -> list[str]:
    """Split a text at a separator outside backquotes; the backquotes stay.

    A separator that is a word has to be between blanks.
    """
    apart = rf"\s+{separator}\s+" if separator.isalpha() else re.escape(separator)
    parts = [""]
    for match in re.finditer(rf"`[^`]*`|(?P<apart>{apart})|.", text, re.DOTALL):
        if match["apart"] is not None:
            parts.append("")
        else:
            parts[-1] += match[0]
    return parts


def unquote(text: str, option: str) -> str:
    """Return a name without blanks around it, and without its backquotes."""
    name = text.strip()
    if len(name) > 2 and name[0] == name[-1] == "`":
        name = name[1:-1]
    if not name:
        raise SpecError(f"{option}: a name is missing between two separators, before the first or after the last")
    return name


def read_arrow(text: str, option: str) -> Arrow:
    """Return the ends of an edge, CAUSE->EFFECT."""
    whole = re.fullmatch(r"\s*(`[^`]+`|.+?)\s*(?:->|→)\s*(`[^`]+`|.+?)\s*", text, re.DOTALL)
    if whole is None or (_ARROW.search(whole[2]) and not whole[2].startswith("`")):
        raise SpecError(f"{option} {text}: write CAUSE->EFFECT, in quotes, as the shell takes > for something else")
    return unquote(whole[1], option), unquote(whole[2], option)


def read_derivative(text: str, option: str) -> Derivative:
    """Read `d COLUMN / d PARAMETER`, optionally followed by `from VALUE to VALUE`. SpecError if it is neither."""
    whole = _DERIVATIVE.fullmatch(text)
    if whole is None:
        raise SpecError(f"{option} {text.strip()}: {_DERIVATIVE_WANTED}")
    ends = (unquote(whole[3], option), unquote(whole[4], option)) if whole[3] else None
    return Derivative(unquote(whole[1], option), unquote(whole[2], option), ends)


def read_named_derivative(text: str, option: str) -> tuple[str, Derivative]:
    """Read `NAME = d COLUMN / d PARAMETER`."""
    name, *rest = split(text, "=")
    if not rest:
        raise SpecError(f"{option} {text}: {_DERIVATIVE_WANTED}")
    return unquote(name, option), read_derivative("=".join(rest), option)


def read_curve(text: str, option: str) -> Curve:
    """Read `TARGET over NAMES in NAMES`. SpecError where it is something else."""
    halves = split(f" {text} ", "over")
    ends = split(halves[1], "in") if len(halves) == 2 else []
    if len(ends) != 2 or not all(part.strip() for part in (halves[0], *ends)):
        raise SpecError(f"{option} {text.strip()}: {_CURVE_WANTED}")
    return Curve(unquote(halves[0], option), names_of(ends[0], option), names_of(ends[1], option))
