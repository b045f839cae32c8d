"""The vocabulary of software metrics: which event in the source text a metric counts.

An event is one kind with a target, and optional filters, as a spec's `software:` mapping names it::

    blocks:   {enter: BZ2_compressBlock}
    compares: {call: mainGtU, in: mainSimpleSort}
    nblock:   {write: EState.nblock}
    gtu_iter: {loop: "mainGtU#1"}
    out_bits: {enter: bsW, add: n}
    backlog:  {gauge: "server.c::queue.length"}
    decoded:  {probe: {uprobe: "xz:lzma_code"}}
    thrown:   {probe: {usdt: "libstdc++.so.6:libstdcxx:throw"}}
    allocs:   {preload: malloc}
    parsed:   {python: {enter: json.decoder.JSONDecoder.decode}}

Mytkowicz et al., "Understanding Measurement Perturbation in Trace-based Data", section 3.1, counts "every update of a particular
variable or every call to a particular function"; the other kinds follow the same idea.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from unperturbed.errors import SpecError

__all__ = ["DEFAULT_MAX_RATE", "EVENT_KEYS", "EVENT_KINDS", "SOURCELESS_KINDS", "Event", "Means", "parse_event"]

EVENT_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "enter": "a function's body is entered: name or glob, ns::f in C++, f(int, char) for one overload",
        "call": "a direct call of a function is about to be evaluated: name or glob; `in:` names the calling function",
        "write": "an assignment, compound assignment, ++ or -- of a variable x, a field Type.field or a local function::x",
        "loop": "an iteration begins: f (every loop in f), f#n (the nth loop of f, from 1) or file.c:120",
        "line": "the first statement that starts on a line is reached: file.c:120",
        "label": "a label is reached, by goto or from above: function::label",
        "return": "a return statement, or the end, of a function is reached: name or glob",
        "gauge": "no event, but a value at each sample: of a variable x with static storage, function::x, or a part of it, x.field",
    }
)
"""Kind of event that is compiled into the program → what is counted, and the forms its target may have."""

SOURCELESS_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "uprobe": "a function of a binary is entered, counted by the kernel at some 1 us a hit: binary:function",
        "usdt": "a static probe of a binary is passed, counted by the kernel at some 1 us a hit: binary:provider:name",
        "preload": "a function of a shared library is called by another part of the program: its name",
        "python": "a function written in Python is entered: module.function or module.Class.method; globs too",
    }
)
"""Kind of event that needs no source and no build → what is counted, and the form of its target."""

DEFAULT_MAX_RATE = 10_000
"""Hits a second that a probe of the kernel may have unless more are asked for: at 1 us a hit, one hundredth of the run's time."""

_FILTERS: Mapping[str, str] = MappingProxyType({"in": "within", "file": "file", "add": "add", "threads": "threads"})
_NESTED: Mapping[str, tuple[str, ...]] = MappingProxyType({"probe": ("uprobe", "usdt"), "python": ("enter",)})
_WITH_CALLER = ("call", "write")
_THREADS = ("plain", "exact")

_WORD = r"[\w$*?[~][]\w$*?![~-]*"
_NAME = rf"(?:::)?{_WORD}(?:::{_WORD})*"
_FUNCTION = rf"{_NAME}(?:\(.*\))?|(?:{_NAME}::)?operator\b.*"
_PLACE = r"[^:]*[^:\s][^:]*:[1-9]\d*"
_PLAIN = r"[A-Za-z_$][\w$]*"
_PYTHON = r"[^\W\d][\w*?]*|[*?][\w*?]*"
_FORMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "enter": (_FUNCTION, "a function's name, such as f, sort_* or ns::f"),
        "call": (_FUNCTION, "a function's name, such as f, sort_* or ns::f"),
        "return": (_FUNCTION, "a function's name, such as f, sort_* or ns::f"),
        "write": (rf"{_NAME}(?:\.{_WORD})?", "a variable x, a field Type.field or a local function::x"),
        "loop": (rf"{_NAME}(?:#[1-9]\d*)?|{_PLACE}", "f, f#1 or file.c:120"),
        "line": (_PLACE, "file.c:120"),
        "label": (rf"{_NAME}::{_WORD}", "function::label"),
        "gauge": (
            rf"(?:::)?(?:[^\s:]+::)*{_PLAIN}(?:\.{_PLAIN}|\[\d+\])*",
            "a variable x, file.c::x, ns::x or function::x, or a part of it such as x.field or x[2]",
        ),
        "uprobe": (r"[^:\s][^:]*:\S+", "binary:function, such as xz:lzma_code"),
        "usdt": (r"[^:\s][^:]*:[\w*?-]+:[\w*?-]+", "binary:provider:name, such as libstdc++.so.6:libstdcxx:throw"),
        "preload": (_PLAIN, "a function's name, such as malloc"),
        "python": (rf"(?:{_PYTHON})(?:\.(?:{_PYTHON}))+", "module.function or module.Class.method"),
    }
)
"""Kind of event → pattern of its target, and how an error describes it."""

Means = Literal["compiled", "kernel", "preload", "python"]
_MEANS: Mapping[str, Means] = MappingProxyType({"uprobe": "kernel", "usdt": "kernel", "preload": "preload", "python": "python"})
EVENT_KEYS = (*EVENT_KINDS, "probe", "preload", "python")
"""Keys of a mapping of which an event has exactly one."""


@dataclass(frozen=True)
class Event:
    """What one software metric counts.

    Attributes
    ----------
    kind : one of `EVENT_KINDS` or `SOURCELESS_KINDS`.
    target : as the kind wants it; globs are those of fnmatch, case matters.
    within : glob over the enclosing function's name (`call` and `write`).
    file : glob over the file that the line markers name; `x.c` also matches `src/x.c`.
    add : C expression; its value, evaluated where and just before the event happens, is added instead of 1. Macros do not
        expand in it; it is converted to a 64-bit integer.
    threads : `plain`: one instruction an event; where several threads count at one site at once, some counts are lost. `exact`: none
        is, by an atomic addition that costs ten times as much.
    max_rate : hits a second above which a probe of the kernel is refused.
    """

    kind: str
    target: str
    within: str | None = None
    file: str | None = None
    add: str | None = None
    threads: str = "plain"
    max_rate: int = DEFAULT_MAX_RATE

    @property
    def means(self) -> Means:
        """Return by what means the event is counted: `compiled` into the program, `kernel` probe, `preload`ed library, `python` hook."""
        return _MEANS.get(self.kind, "compiled")

    @property
    def semantics(self) -> Literal["counter", "gauge"]:
        """Return whether the metric counts or is a value at the end of an interval."""
        return "gauge" if self.kind == "gauge" else "counter"

    def to_json(self) -> dict[str, object]:
        """Return the mapping that `parse_event` reads back."""
        if self.means == "kernel":
            rate = {} if self.max_rate == DEFAULT_MAX_RATE else {"max_rate": self.max_rate}
            return {"probe": {self.kind: self.target, **rate}}
        if self.means == "python":
            return {"python": {"enter": self.target}}
        filters = {key: getattr(self, name) for key, name in _FILTERS.items()}
        return {self.kind: self.target, **{key: value for key, value in filters.items() if value not in (None, "plain")}}


def parse_event(mapping: Mapping[str, object]) -> Event:
    """Read one event of a `software:` mapping.

    Parameters
    ----------
    mapping : exactly one kind with its target, and any of `in`, `file`, `add`, `threads`; or `probe:` with a mapping of `uprobe` or
        `usdt` and `max_rate`; or `python:` with a mapping of `enter`; or `preload:`.

    Raises
    ------
    SpecError
        Unknown key (with the nearest one), no kind or two, a target of the wrong form, a filter where it has no meaning: every fault at once.
    """
    if not isinstance(mapping, Mapping) or not mapping:
        raise SpecError(f"an event is a mapping such as {{enter: function}}, with one of {', '.join(EVENT_KEYS)}")
    faults = [_unknown_key(str(key)) for key in mapping if key not in EVENT_KEYS and key not in _FILTERS]
    kinds = [key for key in mapping if key in EVENT_KEYS]
    if len(kinds) != 1:
        found = f"it has {' and '.join(kinds)}" if kinds else "it has none"
        # An unknown key may be the missing one, misspelt.
        faults += [f"an event needs exactly one of {', '.join(EVENT_KEYS)}; {found}"] if kinds or not faults else []
        raise SpecError("; ".join(faults))
    try:
        event = _read(kinds[0], mapping)
    except SpecError as error:
        raise SpecError("; ".join([*faults, str(error)])) from None
    faults += [*_useless_filters(event, kinds[0], mapping), *_wrong_forms(event)]
    if faults:
        raise SpecError("; ".join(faults))
    return event


def _read(key: str, mapping: Mapping[str, object]) -> Event:
    filters: dict[str, Any] = {name: _text(key, mapping[key]) for key, name in _FILTERS.items() if key in mapping}
    event = _nested(key, mapping[key]) if key in _NESTED else Event(key, _text(key, mapping[key]))
    return replace(event, **filters)


def _useless_filters(event: Event, key: str, mapping: Mapping[str, object]) -> Iterator[str]:
    if event.kind in SOURCELESS_KINDS or event.kind == "gauge":
        meant = {"gauge": "file", "preload": "threads"}.get(event.kind)
        useless = [name for name in mapping if name in _FILTERS and name != meant]
        if useless:
            yield f"{' and '.join(useless)} {'has' if len(useless) == 1 else 'have'} no meaning with {key}"
    elif event.within is not None and event.kind not in _WITH_CALLER:
        yield f"in: has a meaning with {' and '.join(_WITH_CALLER)} only, not with {event.kind}"


def _nested(key: str, value: object) -> Event:
    """Read `probe: {uprobe: …}` and `python: {enter: …}`."""
    inner = _NESTED[key]
    form = f"{key}: is a mapping such as {{{inner[0]}: {_FORMS[inner[0] if key == 'probe' else key][1].split(', ')[0]}}}"
    if not isinstance(value, Mapping):
        raise SpecError(form)
    allowed = (*inner, *(("max_rate",) if key == "probe" else ()))
    unknown = [name for name in value if name not in allowed]
    chosen = [name for name in inner if name in value]
    if unknown or len(chosen) != 1:
        raise SpecError(f"{form}, with one of {', '.join(inner)}" + (f"; unknown key {unknown[0]!r}" if unknown else ""))
    rate = value.get("max_rate", DEFAULT_MAX_RATE)
    if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
        raise SpecError(f"max_rate: {rate!r} is no number of hits a second, such as {DEFAULT_MAX_RATE}")
    return Event("python" if key == "python" else chosen[0], _text(chosen[0], value[chosen[0]]), max_rate=rate)


def _unknown_key(key: str) -> str:
    from rapidfuzz import fuzz, process  # noqa: PLC0415  only an error needs it

    known = [*EVENT_KEYS, *_FILTERS]
    nearest = process.extractOne(key, known, scorer=fuzz.ratio, score_cutoff=50)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ";"
    return (
        f"unknown key {key!r} in an event{hint} an event has one of {', '.join(EVENT_KEYS)}, and may have {', '.join(_FILTERS)}"
    )


def _text(key: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and key == "add":
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise SpecError(f"{key}: {value!r} is no text; write it in quotes")
    return value.strip()


def _wrong_forms(event: Event) -> Iterator[str]:
    pattern, form = _FORMS[event.kind]
    if not re.fullmatch(pattern, event.target):
        yield f"{event.kind}: {event.target!r} has not the form of its target: {form}{_form_hint(event)}"
    if event.within is not None and not re.fullmatch(_FUNCTION, event.within):
        yield f"in: {event.within!r} is no function's name or glob"
    if event.threads not in _THREADS:
        yield f"threads: {event.threads!r} is neither plain (fast, loses counts of threads that collide) nor exact"
    if event.add is not None and not _is_expression(event.add):
        yield f"add: {event.add!r} is not one C expression on one line, with its parentheses closed"


def _form_hint(event: Event) -> str:
    if event.kind == "python":
        unnamed = re.search(r"<?\b(lambda|listcomp|setcomp|dictcomp|genexpr)\b>?", event.target)
        return " (a lambda or comprehension has no name to count it by: make it a function with def)" if unnamed else ""
    return " (one site serves all instantiations of a template: leave <…> out)" if "<" in event.target else ""


def _is_expression(text: str) -> bool:
    depth = 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if depth < 0 or sign in ";{}#\n":
            return False
    return depth == 0
