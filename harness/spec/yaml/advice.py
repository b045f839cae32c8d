"""YAML syntax errors in plain words: what the author most likely did, where, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import yaml

from unperturbed.harness.spec.errors import Diagnostic, Position

_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- )?[A-Za-z_][\w-]*:[^\s/]")
_TEXT_AFTER_VALUE = re.compile(r""":\s+(\{[^}]*\}|\[[^\]]*\]|"[^"]*"|'[^']*')\s*\S""")


@dataclass(frozen=True)
class _Failure:
    """A syntax error and the text around it."""

    # here, opened: Where the reader failed; where the list, mapping or text began that it was reading.
    here: Position
    opened: Position
    # line, line_above: The line in which it failed, and the one before.
    line: str
    line_above: str
    problem: str  # PyYAML's message

    @property
    def before(self) -> str:
        return self.line[: self.here.column - 1]

    @property
    def rest(self) -> str:
        return self.line[self.here.column - 1 :]


def explain(error: yaml.MarkedYAMLError, text: str) -> Diagnostic:
    """Turn a syntax error of PyYAML into a diagnostic."""
    mark = error.problem_mark or error.context_mark
    assert mark is not None, error
    opened = error.context_mark or mark
    lines = ["", *text.splitlines(), ""]
    problem = f"{error.context or ''}: {error.problem or ''}"
    failure = _Failure(
        here=Position(mark.line + 1, mark.column + 1),
        opened=Position(opened.line + 1, opened.column + 1),
        line=lines[min(mark.line + 1, len(lines) - 1)],
        line_above=lines[min(mark.line, len(lines) - 1)],
        problem=problem,
    )
    for pattern, advise in _ADVICE:
        if re.search(pattern, problem):
            return advise(failure)
    return Diagnostic(failure.here, f"this is not valid YAML {problem}")


def _here(message: str) -> Callable[[_Failure], Diagnostic]:
    return lambda failure: Diagnostic(failure.here, message)


def _opened(message: str) -> Callable[[_Failure], Diagnostic]:
    return lambda failure: Diagnostic(failure.opened, message)


def _quote(sign: str) -> Callable[[_Failure], Diagnostic]:
    return _opened(f'text that begins with `{sign}` must be quoted: "{sign}…"')


def _bad_beginning(failure: _Failure) -> Diagnostic:
    if failure.rest.startswith("\t"):
        return Diagnostic(failure.here, "a tab is not allowed here: YAML requires spaces")
    sign = failure.rest[:1]
    return Diagnostic(failure.here, f'text that begins with `{sign}` must be quoted: "{sign}…"')


def _unexpected_colon(failure: _Failure) -> Diagnostic:
    here, above = failure.here, failure.line_above
    if _KEY_WITHOUT_SPACE.match(above):
        key = above.strip()
        place = Position(here.line - 1, above.index(key) + 1)
        return Diagnostic(place, f"`{key[:40]}`: a space is missing after the `:`")
    if ":" in failure.before:
        return Diagnostic(here, "a second `: ` in one line: text that holds `: ` must be quoted as a whole")
    what = "is this line indented deeper than the line above, which has a value already?"
    return Diagnostic(here, f"`:` is not allowed here: {what}")


def _unexpected_in_block(failure: _Failure) -> Diagnostic:
    here, begins = failure.here, failure.opened.line
    if failure.rest == "-" or failure.rest.startswith("- "):
        return Diagnostic(here, f"a list item is among the keys of the mapping that begins in line {begins}")
    if _TEXT_AFTER_VALUE.search(failure.line):
        what = 'quote the whole, as in run: "{build}/program"'
        return Diagnostic(here, f"there is text after a closed brace or quote: {what}")
    what = f"neither the mapping nor the list that begins in line {begins}"
    return Diagnostic(here, f"this line fits {what}: check its indentation")


def _unclosed(failure: _Failure) -> Diagnostic:
    kind, bracket = ("list", "]") if "or ']'" in failure.problem else ("mapping", "}")
    what = f"a `,` or `{bracket}` is missing (noticed in line {failure.here.line})"
    return Diagnostic(failure.opened, f"the {kind} that opens here is not closed: {what}")


def _no_value(failure: _Failure) -> Diagnostic:
    where = f"before `{failure.rest[:1]}`" if failure.rest else "at the end"
    return Diagnostic(failure.here, f"a value is missing {where}")


_ADVICE: tuple[tuple[str, Callable[[_Failure], Diagnostic]], ...] = (
    (
        "single document",
        _here("a second document begins here (`---`): a spec is one document; put the other into its own file"),
    ),
    ("cannot start any token", _bad_beginning),
    ("mapping values are not allowed", _unexpected_colon),
    ("<block end>", _unexpected_in_block),
    ("flow (sequence|mapping): expected ','", _unclosed),
    ("node content", _no_value),
    (
        "quoted scalar: found unexpected (end of stream|document separator)",
        _opened("the quote that opens here is never closed"),
    ),
    (
        "escape",
        _here("this `\\` begins no escape that YAML knows: in double quotes write `\\\\`, or use single quotes"),
    ),
    (
        "could not find expected ':'",
        _opened(
            "this line is neither `key: value` nor part of a longer value: is a `:` missing, or the indentation wrong?"
        ),
    ),
    ("scanning an alias", _quote("*")),
    ("scanning an anchor", _quote("&")),
    ("tag", _quote("!")),
    (
        "sequence entries are not allowed",
        _here("a list with `-` begins on a line of its own; in one line write `[a, b]`"),
    ),
    (
        "block scalar",
        _here(
            "nothing may follow `|` or `>` in its line, and what follows is indented by spaces; quote text that begins "
            "so"
        ),
    ),
    (
        "document start|directive|incompatible",
        _here(
            "there is something before the first key or after the end: a spec is one mapping, with no lines that begin "
            "with `%`"
        ),
    ),
)
"""A pattern of PyYAML's message, and the advice; the first that matches counts."""
