"""YAML syntax errors in plain words: what a spec's author most likely did, where, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import yaml

from unperturbed.harness.spec.errors import Diagnostic, Position

__all__ = ["explain"]

_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- )?[A-Za-z_][\w-]*:[^\s/]")
_TEXT_AFTER_VALUE = re.compile(r""":\s+(\{[^}]*\}|\[[^\]]*\]|"[^"]*"|'[^']*')\s*\S""")


@dataclass(frozen=True)
class _Stumble:
    """Where the reader stumbled (`here`), where what it was reading began (`there`), and the text around."""

    here: Position
    there: Position
    line: str
    line_above: str
    problem: str

    @property
    def before(self) -> str:
        return self.line[: self.here.column - 1]

    @property
    def rest(self) -> str:
        return self.line[self.here.column - 1 :]


def explain(error: yaml.MarkedYAMLError, text: str) -> Diagnostic:
    """Turn a syntax error of the YAML reader into a diagnostic.

    Parameters
    ----------
    error : as raised. text : the document, to look at what stands where the reader stumbled.
    """
    mark = error.problem_mark or error.context_mark
    assert mark is not None, error
    opened = error.context_mark or mark
    lines = ["", *text.splitlines(), ""]
    stumble = _Stumble(
        Position(mark.line + 1, mark.column + 1),
        Position(opened.line + 1, opened.column + 1),
        lines[min(mark.line + 1, len(lines) - 1)],
        lines[min(mark.line, len(lines) - 1)],
        error.problem or "",
    )
    said = f"{error.context or ''}: {error.problem or ''}"
    for pattern, advise in _ADVICE:
        if re.search(pattern, said):
            return advise(stumble)
    return Diagnostic(stumble.here, f"this is not valid YAML {said}")


def _bad_beginning(at: _Stumble) -> Diagnostic:
    if at.rest.startswith("\t"):
        return Diagnostic(at.here, "a tab stands here: YAML wants spaces")
    return _quote(at.here, at.rest[:1])


def _quote(position: Position, sign: str) -> Diagnostic:
    return Diagnostic(position, f'text that begins with `{sign}` must be quoted: "{sign}…"')


def _unexpected_colon(at: _Stumble) -> Diagnostic:
    if _KEY_WITHOUT_SPACE.match(at.line_above):
        key = at.line_above.strip()
        place = Position(at.here.line - 1, at.line_above.index(key) + 1)
        return Diagnostic(place, f"`{key[:40]}`: a space is missing after the `:`")
    if ":" in at.before:
        return Diagnostic(at.here, "a second `: ` in one line: text that holds `: ` must be quoted as a whole")
    return Diagnostic(
        at.here, "`:` cannot stand here: is this line indented deeper than the line above, which has a value already?"
    )


def _unexpected_in_block(at: _Stumble) -> Diagnostic:
    begins = at.there.line
    if at.rest == "-" or at.rest.startswith("- "):
        return Diagnostic(at.here, f"a list item stands among the keys of the mapping that begins in line {begins}")
    if _TEXT_AFTER_VALUE.search(at.line):
        return Diagnostic(
            at.here, 'text goes on after a brace or quote is closed: quote the whole, as in run: "{build}/program"'
        )
    return Diagnostic(
        at.here, f"this line fits neither the mapping nor the list that begins in line {begins}: check its indentation"
    )


def _unclosed(at: _Stumble) -> Diagnostic:
    kind, bracket = ("list", "]") if "or ']'" in at.problem else ("mapping", "}")
    what = f"the {kind} that opens here is not closed: a `,` or `{bracket}` is missing (noticed in line {at.here.line})"
    return Diagnostic(at.there, what)


def _no_value(at: _Stumble) -> Diagnostic:
    return Diagnostic(at.here, f"a value is missing before `{at.rest[:1]}`" if at.rest else "a value is missing at the end")


def _here(message: str) -> Callable[[_Stumble], Diagnostic]:
    return lambda at: Diagnostic(at.here, message)


def _there(message: str) -> Callable[[_Stumble], Diagnostic]:
    return lambda at: Diagnostic(at.there, message)


_ADVICE: tuple[tuple[str, Callable[[_Stumble], Diagnostic]], ...] = (
    ("cannot start any token", _bad_beginning),
    ("mapping values are not allowed", _unexpected_colon),
    ("<block end>", _unexpected_in_block),
    ("flow (sequence|mapping): expected ','", _unclosed),
    ("node content", _no_value),
    ("quoted scalar: found unexpected (end of stream|document separator)", _there("the quote that opens here is never closed")),
    ("escape", _here("this `\\` begins no escape that YAML knows: in double quotes write `\\\\`, or use single quotes")),
    (
        "could not find expected ':'",
        _there("this line is neither `key: value` nor part of a longer value: is a `:` missing, or the indentation wrong?"),
    ),
    ("scanning an alias", lambda at: _quote(at.there, "*")),
    ("scanning an anchor", lambda at: _quote(at.there, "&")),
    ("tag", lambda at: _quote(at.there, "!")),
    ("sequence entries are not allowed", _here("a list with `-` begins on a line of its own; in one line write `[a, b]`")),
    (
        "block scalar",
        _here("nothing may follow `|` or `>` in its line, and what follows is indented by spaces; quote text that begins so"),
    ),
    (
        "document start|directive|incompatible",
        _here(
            "something stands before the first key or after the end: a spec is one mapping, with no lines that begin with `%`"
        ),
    ),
)
"""What the reader said → what to tell the author; the first that matches counts."""
