"""Which places of a parsed text the selected events happen at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from clang.cindex import CursorKind

from unperturbed.instrument.body import Body, Spot, read_body
from unperturbed.instrument.declarations import (
    FUNCTION_KINDS,
    Function,
    field_names,
    function_names,
    function_of,
    members,
    top_level,
    typedef_names,
    variable_names,
)
from unperturbed.instrument.expressions import called, objects
from unperturbed.instrument.parse import ParsedText, UnreadableError, span
from unperturbed.instrument.prefilter import Need, can_hold_site
from unperturbed.instrument.settings import Selected
from unperturbed.instrument.targets import LineTarget, file_matches, is_glob, name_matches, split_line

__all__ = ["Found", "Hit", "Unseen", "find_sites"]

_MAY_NEST = re.compile(rb"\][^][;]{0,80}[({]|\b(?:class|struct)\b")
_LOOP_PRAGMA = re.compile(rb"#pragma\s+(?:omp|acc|GCC\s+(?:unroll|ivdep)|clang\s+loop)\b[^\n]*\n\s*(?:#[^\n]*\n\s*)*\Z")
_CONSTANT = re.compile(rb"\b(?:constexpr|consteval)\b")


class Hit(NamedTuple):
    """One place where one metric counts.

    Attributes
    ----------
    metric : index of the metric.
    spot : where the counting text goes.
    add : expression whose value is added, '' for 1.
    guarded : the function may run in the compiler, where nothing can be counted.
    """

    metric: int
    spot: Spot
    add: str
    guarded: bool


class Unseen(NamedTuple):
    """One place where a metric's event may happen uncounted."""

    metric: int
    at: int
    reason: str


class Found(NamedTuple):
    """Sites and names of one text; `names` sorts names by `function`, `variable`, `field`, `label`, `loop`, `line`."""

    hits: list[Hit]
    unseen: list[Unseen]
    names: dict[str, set[str]]


def find_sites(parsed: ParsedText, standard: str, metrics: Sequence[Selected]) -> Found:
    """Find every place where the metrics' events happen.

    Parameters
    ----------
    standard : as in `Facts`.
    metrics : in the order of their indices.

    Raises
    ------
    UnreadableError
        libclang could not read a piece of the user's text that may hold a site; counts would be silently short.

    Notes
    -----
    A glob does not reach into system headers unless `file:` names them.
    """
    return _Finder(parsed, standard, metrics).find()


class _Finder:
    def __init__(self, parsed: ParsedText, standard: str, metrics: Sequence[Selected]) -> None:
        self._parsed = parsed
        self._text = parsed.text
        self._data = parsed.text.data
        self._is_cxx = "++" in standard
        self._constexpr_holds_statements = not standard.endswith("++11")
        self._events = list(enumerate(metrics))
        # Within a piece of the text only the innermost name need stand; namespaces and classes may be opened before it.
        self._needs = [_needed_within(metric.need) for metric in metrics]
        self._lines = {index: place for index, event in self._events if (place := _line_of(event)) is not None}
        self._inside = frozenset(index for index, event in self._events if event.kind != "enter")
        self._reaching_system = frozenset(index for index, event in self._events if self._reaches_system(index, event))
        self._typedefs = typedef_names(parsed) if any(event.kind == "write" for event in metrics) else {}
        self._hits: dict[tuple[int, Spot], Hit] = {}
        self._unseen: dict[tuple[int, int], Unseen] = {}
        self._names: dict[str, set[str]] = {}

    def find(self) -> Found:
        spans = []
        for cursor in top_level(self._parsed):
            whole = span(cursor)
            system = self._text.is_system(whole[0])
            if system and not self._may_count(*whole, among=self._reaching_system):
                continue
            spans.append(whole)
            for member in members(cursor):
                self._declaration(member, system=system)
        for offset, message in self._parsed.errors:
            held = next((whole for whole in spans if whole[0] <= offset < whole[1]), None)
            if held is None or self._may_count(*held):
                file, line = self._text.locate(offset)
                raise UnreadableError(f"{file}:{line}: libclang: {message}")
        return Found(list(self._hits.values()), list(self._unseen.values()), self._names)

    def _declaration(self, cursor: Any, *, system: bool) -> None:
        if cursor.kind in FUNCTION_KINDS:
            function = function_of(cursor, self._data)
            if function is not None:
                if not system:
                    self._name("function", function.names[:1])
                self._function_events(function)
        elif not system and cursor.kind == CursorKind.FIELD_DECL:
            self._name("field", field_names(cursor, self._typedefs))
        elif not system and cursor.kind == CursorKind.VAR_DECL and cursor.spelling:
            self._name("variable", variable_names(cursor, None))

    def _function_events(self, function: Function) -> None:
        for index, event in self._of("enter"):
            if _matches(function.names, event.target):
                self._add(index, function, Spot("block", function.opening, function.opening, _name_offset(function)))
        if self._wants_body(function):
            body = read_body(function, self._data, expressions=self._is_cxx or bool(self._of("call") or self._of("write")))
            self._flow_events(function, body)
            self._line_events(function, body)
            self._write_events(function, body)
            self._call_events(function, body)
            for nested in body.nested:
                self._function_events(nested)

    def _flow_events(self, function: Function, body: Body) -> None:
        for index, event in self._of("return"):
            if _matches(function.names, event.target):
                self._add_all(index, function, body.returns)
        for index, event in self._of("label"):
            scope, _, wanted = event.target.rpartition("::")
            if _matches(function.names, scope):
                self._name("label", (f"{function.names[0]}::{label}" for label, _ in body.labels))
                self._add_all(index, function, [spot for label, spot in body.labels if name_matches(label, wanted)])
        for index, event in self._of("loop"):
            if index in self._lines:
                self._name_lines(body.loops, self._lines[index])
                self._add_all(index, function, list(self._on_line(body.loops, self._lines[index]))[:1])
                continue
            name, _, number = event.target.partition("#")
            if _matches(function.names, name):
                self._name("loop", (f"{function.names[0]}#{count}" for count in range(1, 1 + len(body.loops))))
                chosen = body.loops[int(number) - 1 : int(number)] if number else body.loops
                self._add_all(index, function, chosen)

    def _line_events(self, function: Function, body: Body) -> None:
        for index, _ in self._of("line"):
            target = self._lines[index]
            spots = [*self._header(function, target), *self._on_line(body.statements, target)]
            self._add_all(index, function, spots[:1])
            self._name_lines(body.statements, target)

    def _name_lines(self, spots: Iterable[Spot], target: LineTarget) -> None:
        places = (self._text.locate(spot.at) for spot in spots)
        self._name("line", (f"{target[0]}:{line}" for file, line in places if file_matches(file, target[0])))

    def _write_events(self, function: Function, body: Body) -> None:
        for spot, left in body.assignments:
            for index in self._written(function, left):
                self._add(index, function, spot)
        for offset, operand in body.addresses:
            for index in self._written(function, operand):
                self._note_unseen(index, offset, "address taken: writes through it are not counted")

    def _written(self, function: Function, expression: Any) -> set[int]:
        """Return the indices of the `write` metrics whose variable or field holds the object that an lvalue designates."""
        events = [(index, event) for index, event in self._of("write") if _within(event, function)]
        found: set[int] = set()
        if not events:
            return found
        for declaration in objects(expression, self._data):
            is_field = declaration.kind == CursorKind.FIELD_DECL
            names = field_names(declaration, self._typedefs) if is_field else variable_names(declaration, function)
            found |= {index for index, event in events if ("." in event.target) == is_field and _matches(names, event.target)}
        return found

    def _call_events(self, function: Function, body: Body) -> None:
        events = [(index, event) for index, event in self._of("call") if _within(event, function)]
        if not events:
            return
        for spot, call in body.calls:
            for callee in called(call):
                names = function_names(callee)
                for index, event in events:
                    if not _matches(names, event.target):
                        continue
                    if self._is_constant(callee):
                        self._note_unseen(index, spot.at, "calls of a constexpr function are not counted; use enter:")
                    else:
                        self._add(index, function, spot)

    def _add_all(self, index: int, function: Function, spots: Iterable[Spot]) -> None:
        for spot in spots:
            self._add(index, function, spot)

    def _add(self, index: int, function: Function, spot: Spot) -> None:
        reason = self._cannot_count(function, spot)
        if reason:
            self._note_unseen(index, spot.at, reason)
        elif self._is_in_file(index, spot.at):
            hit = Hit(index, spot, self._events[index][1].add or "", function.constant)
            self._hits.setdefault((index, spot), hit)

    def _note_unseen(self, index: int, offset: int, reason: str) -> None:
        if self._is_in_file(index, offset):
            self._unseen.setdefault((index, offset), Unseen(index, offset, reason))

    def _is_in_file(self, index: int, offset: int) -> bool:
        """Tell whether a metric counts in the file that an offset came from."""
        event = self._events[index][1]
        if event.file is not None:
            return file_matches(self._text.locate(offset)[0], event.file)
        return self._reaches_system(index, event) or not self._text.is_system(offset)

    def _reaches_system(self, index: int, event: Selected) -> bool:
        return event.file is not None or index in self._lines or not is_glob(event.target)

    def _cannot_count(self, function: Function, spot: Spot) -> str:
        if function.constant and (
            not self._constexpr_holds_statements or b"consteval" in self._data[function.start : function.opening]
        ):
            return "the function runs in the compiler"
        before = self._data[max(0, spot.start - 400) : spot.start]
        on_pragma = self._data.startswith(b"#", spot.start)  # libclang starts the loop at the pragmas that it knows
        if on_pragma or (spot.form != "expression" and _LOOP_PRAGMA.search(before)):
            return "the statement must follow its #pragma"
        return ""

    def _wants_body(self, function: Function) -> bool:
        if function.outer is not None:
            return True
        may_nest = self._is_cxx and _MAY_NEST.search(self._data, function.opening, function.closing) is not None
        return self._may_count(function.start, function.end, among=None if may_nest else self._inside)

    def _may_count(self, start: int, end: int, *, among: frozenset[int] | None = None) -> bool:
        """Tell whether a piece of the text may hold sites of the metrics (of those `among` them)."""
        piece = self._data[start:end]
        for index, _ in self._events:
            if among is not None and index not in among:
                continue
            if index in self._lines:
                if self._reaches(start, end, self._lines[index]):
                    return True
            elif can_hold_site(self._text, [self._needs[index]], piece):
                return True
        return False

    def _reaches(self, start: int, end: int, target: LineTarget) -> bool:
        file, first = self._text.locate(start)
        last_file, last = self._text.locate(end - 1)
        if file != last_file:
            return True
        return file_matches(file, target[0]) and first <= target[1] <= last

    def _header(self, function: Function, target: LineTarget) -> Iterator[Spot]:
        file, first = self._text.locate(function.start)
        _, last = self._text.locate(function.opening - 1)
        if function.outer is None and file_matches(file, target[0]) and first <= target[1] <= last:
            yield Spot("block", function.opening, function.opening, function.start)

    def _on_line(self, spots: Iterable[Spot], target: LineTarget) -> Iterator[Spot]:
        for spot in spots:
            file, line = self._text.locate(spot.at)
            if line == target[1] and file_matches(file, target[0]):
                yield spot

    def _is_constant(self, callee: Any) -> bool:
        start = span(callee)[0]
        return self._is_cxx and _CONSTANT.search(self._data, start, max(start, callee.location.offset)) is not None

    def _of(self, kind: str) -> list[tuple[int, Selected]]:
        return [(index, event) for index, event in self._events if event.kind == kind]

    def _name(self, kind: str, names: Iterable[str]) -> None:
        self._names.setdefault(kind, set()).update(names)


def _needed_within(need: Need) -> Need:
    return need._replace(words=(need.inner,) if need.inner else (), files=())


def _line_of(event: Selected) -> LineTarget | None:
    return split_line(event.target) if event.kind in ("line", "loop") else None


def _matches(names: Sequence[str], pattern: str) -> bool:
    return any(name_matches(name, pattern) for name in names)


def _within(event: Selected, function: Function) -> bool:
    return event.within is None or _matches(function.names, event.within)


def _name_offset(function: Function) -> int:
    offset: int = function.cursor.location.offset
    return max(function.start, offset)
