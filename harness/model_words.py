"""The words of `unperturbed model`'s options: lists of names, values, edges. A name that holds a sign of the syntax stands in backquotes."""

from __future__ import annotations

import re

from unperturbed.errors import SpecError

__all__ = ["Arrow", "arrow", "as_options", "bare", "named_values", "names_of", "split"]

Arrow = tuple[str, str]
"""A cause and its effect."""

_ARROW = re.compile(r"\s*(?:->|→)\s*")


def as_options(words: str) -> str:
    """Return what a caller from Python is told to say as what is said on the command line."""
    return re.sub(r'kinds=\{"(.+?)": "(\w+)"\}', r"--kinds \1=\2", words.replace('missing="drop"', "--missing drop"))


def names_of(text: str, option: str) -> tuple[str, ...]:
    """Return names that commas separate; a name that holds a comma, a slash or an arrow stands in backquotes."""
    found = tuple(bare(part, option) for part in split(text, ","))
    for name in found:
        if found.count(name) > 1:
            raise SpecError(f"{option} {text}: {name} is named twice")
    return found


def named_values(text: str, option: str, example: str) -> dict[str, str]:
    """Return what `name=value,name=value` says."""
    found: dict[str, str] = {}
    for part in split(text, ","):
        halves = split(part, "=")
        if len(halves) != 2 or not all(half.strip() for half in halves):
            raise SpecError(f"{option} {text}: write NAME=VALUE, several separated by commas, as in {example}")
        name, value = (bare(half, option) for half in halves)
        if name in found:
            raise SpecError(f"{option} {text}: {name} is given twice")
        found[name] = value
    return found


def split(text: str, separator: str) -> list[str]:
    """Split a text where a separator stands outside backquotes; the backquotes stay.

    A separator that is a word stands between blanks.
    """
    apart = rf"\s+{separator}\s+" if separator.isalpha() else re.escape(separator)
    parts = [""]
    for match in re.finditer(rf"`[^`]*`|(?P<apart>{apart})|.", text, re.DOTALL):
        if match["apart"] is not None:
            parts.append("")
        else:
            parts[-1] += match[0]
    return parts


def bare(text: str, option: str) -> str:
    """Return a name without blanks around it, and without its backquotes."""
    name = text.strip()
    if len(name) > 2 and name[0] == name[-1] == "`":
        name = name[1:-1]
    if not name:
        raise SpecError(f"{option}: a name is missing between two separators, before the first or after the last")
    return name


def arrow(text: str, option: str) -> Arrow:
    """Return the ends of an edge, CAUSE->EFFECT."""
    whole = re.fullmatch(r"\s*(`[^`]+`|.+?)\s*(?:->|→)\s*(`[^`]+`|.+?)\s*", text, re.DOTALL)
    if whole is None or (_ARROW.search(whole[2]) and not whole[2].startswith("`")):
        raise SpecError(f"{option} {text}: write CAUSE->EFFECT, in quotes, as the shell takes > for something else")
    return bare(whole[1], option), bare(whole[2], option)
