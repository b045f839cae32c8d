"""The vocabulary of software metrics: which event in the source text a metric counts.

An event is one kind with a target, and optional filters, as a spec's `software:` mapping names it::

    blocks:   {enter: BZ2_compressBlock}
    compares: {call: mainGtU, in: mainSimpleSort}
    nblock:   {write: EState.nblock}
    gtu_iter: {loop: "mainGtU#1"}
    out_bits: {enter: bsW, add: n}

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 3.1, counts "every update of a particular
variable or every call to a particular function"; the other kinds follow the same idea.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from unperturbed.errors import SpecError

__all__ = ["EVENT_KINDS", "Event", "parse_event"]

EVENT_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "enter": "a function's body is entered: name or glob, ns::f in C++, f(int, char) for one overload",
        "call": "a direct call of a function is about to be evaluated: name or glob; `in:` names the calling function",
        "write": "an assignment, compound assignment, ++ or -- of a variable x, a field Type.field or a local function::x",
        "loop": "an iteration begins: f (every loop in f), f#n (the nth loop of f, from 1) or file.c:120",
        "line": "the first statement that starts on a line is reached: file.c:120",
        "label": "a label is reached, by goto or from above: function::label",
        "return": "a return statement, or the end, of a function is reached: name or glob",
    }
)
"""Kind of event → what is counted, and the forms its target may have."""

_FILTERS: Mapping[str, str] = MappingProxyType({"in": "within", "file": "file", "add": "add"})
_WITH_CALLER = ("call", "write")

_WORD = r"[\w$*?[~][]\w$*?![~-]*"
_NAME = rf"(?:::)?{_WORD}(?:::{_WORD})*"
_FUNCTION = rf"{_NAME}(?:\(.*\))?|(?:{_NAME}::)?operator\b.*"
_PLACE = r"[^:]*[^:\s][^:]*:[1-9]\d*"
_FORMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "enter": (_FUNCTION, "a function's name, such as f, sort_* or ns::f"),
        "call": (_FUNCTION, "a function's name, such as f, sort_* or ns::f"),
        "return": (_FUNCTION, "a function's name, such as f, sort_* or ns::f"),
        "write": (rf"{_NAME}(?:\.{_WORD})?", "a variable x, a field Type.field or a local function::x"),
        "loop": (rf"{_NAME}(?:#[1-9]\d*)?|{_PLACE}", "f, f#1 or file.c:120"),
        "line": (_PLACE, "file.c:120"),
        "label": (rf"{_NAME}::{_WORD}", "function::label"),
    }
)
"""Kind of event → pattern of its target, and how an error describes it."""


@dataclass(frozen=True)
class Event:
    """What one software metric counts.

    Attributes
    ----------
    kind : one of `EVENT_KINDS`.
    target : as the kind wants it; globs are those of fnmatch, case matters.
    within : glob over the enclosing function's name (`call` and `write`).
    file : glob over the file that the line markers name; `x.c` also matches `src/x.c`.
    add : C expression; its value, evaluated where and just before the event happens, is added instead of 1. Macros do not
        expand in it; it is converted to a 64-bit integer.
    """

    kind: str
    target: str
    within: str | None = None
    file: str | None = None
    add: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return the mapping that `parse_event` reads back."""
        filters = {key: getattr(self, name) for key, name in _FILTERS.items()}
        return {self.kind: self.target, **{key: value for key, value in filters.items() if value is not None}}


def parse_event(mapping: Mapping[str, object]) -> Event:
    """Read one event of a `software:` mapping.

    Parameters
    ----------
    mapping : exactly one kind with its target, and any of `in`, `file`, `add`.

    Raises
    ------
    SpecError
        Unknown key (with the nearest one), no kind or two, a target of the wrong form, a filter where it has no meaning.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise SpecError(f"an event is a mapping such as {{enter: function}}, with one of {', '.join(EVENT_KINDS)}")
    for key in mapping:
        if key not in EVENT_KINDS and key not in _FILTERS:
            raise SpecError(_unknown_key(str(key)))
    kinds = [key for key in mapping if key in EVENT_KINDS]
    if len(kinds) != 1:
        found = f"it has {' and '.join(kinds)}" if kinds else "it has none"
        raise SpecError(f"an event needs exactly one of {', '.join(EVENT_KINDS)}; {found}")
    kind = kinds[0]
    event = Event(
        kind,
        _text(kind, mapping[kind]),
        **{name: _text(key, mapping[key]) for key, name in _FILTERS.items() if key in mapping},
    )
    _check_form(event)
    return event


def _unknown_key(key: str) -> str:
    from rapidfuzz import process  # noqa: PLC0415  only an error needs it

    known = [*EVENT_KINDS, *_FILTERS]
    nearest = process.extractOne(key, known, score_cutoff=50)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ";"
    return f"unknown key {key!r} in an event{hint} an event has one of {', '.join(EVENT_KINDS)}, and may have in, file, add"


def _text(key: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and key == "add":
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise SpecError(f"{key}: {value!r} is no text; write it in quotes")
    return value.strip()


def _check_form(event: Event) -> None:
    pattern, form = _FORMS[event.kind]
    if not re.fullmatch(pattern, event.target):
        hint = " (one site serves all instantiations of a template: leave <…> out)" if "<" in event.target else ""
        raise SpecError(f"{event.kind}: {event.target!r} has not the form of its target: {form}{hint}")
    if event.within is not None:
        if event.kind not in _WITH_CALLER:
            raise SpecError(f"in: has a meaning with {' and '.join(_WITH_CALLER)} only, not with {event.kind}")
        if not re.fullmatch(_FUNCTION, event.within):
            raise SpecError(f"in: {event.within!r} is no function's name or glob")
    if event.add is not None and not _is_expression(event.add):
        raise SpecError(f"add: {event.add!r} is not one C expression on one line, with its parentheses closed")


def _is_expression(text: str) -> bool:
    depth = 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if depth < 0 or sign in ";{}#\n":
            return False
    return depth == 0
