"""Which places of a parsed text the selected events happen at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from clang.cindex import CursorKind

from unperturbed.instrument.body import Body, Spot, read_body
from unperturbed.instrument.declarations import (
    FUNCTION_KINDS,
    RECORD_KINDS,
    Function,
    field_names,
    function_names,
    function_of,
    has_initialiser,
    is_lambda,
    lambdas_of,
    members,
    record_names,
    top_level,
    typedef_names,
    variable_names,
)
from unperturbed.instrument.expressions import called, objects
from unperturbed.instrument.gauges import Gauge, gauge_of, is_definition
from unperturbed.instrument.parse import ParsedText, UnreadableError, cursor_at, span
from unperturbed.instrument.preprocessed import next_token
from unperturbed.instrument.selection import Selection, is_within, matches, on_line
from unperturbed.instrument.settings import Selected
from unperturbed.instrument.targets import file_matches, is_glob, name_matches, needed_words

__all__ = ["Found", "Hit", "Unseen", "find_sites"]

_MAY_NEST = re.compile(rb"\][^][;]{0,80}[({]|\b(?:class|struct)\b")
_LOOP_PRAGMA = re.compile(rb"#pragma\s+(?:omp|acc|GCC\s+(?:unroll|ivdep)|clang\s+loop)\b[^\n]*\n\s*(?:#[^\n]*\n\s*)*\Z")
_CONSTANT = re.compile(rb"\b(?:constexpr|consteval)\b")


class Hit(NamedTuple):
    """One place where one metric counts, or one variable that it reads.

    Attributes
    ----------
    metric : index of the metric.
    spot : where the counting text goes.
    add : expression whose value is added, '' for 1.
    guarded : the function may run in the compiler, where nothing can be counted.
    gauge : the variable; None for an event that is counted.
    """

    metric: int
    spot: Spot
    add: str
    guarded: bool
    gauge: Gauge | None = None


class Unseen(NamedTuple):
    """One place where a metric's event may happen uncounted."""

    metric: int
    at: int
    reason: str


class Found(NamedTuple):
    """Sites (gauges last) and names of one text; `names` sorts names by `function`, `variable`, `field`, `label`, `loop`, `line`."""

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
        self._standard = standard
        self._is_cxx = "++" in standard
        # From C++17 on a lambda that can be constexpr is, said or not; and its call an argument that the compiler wants to know.
        self._lambdas_are_constant = self._is_cxx and standard[-2:] not in ("98", "11", "14")
        self._constexpr_holds_statements = not standard.endswith("++11")
        self._selection = Selection(parsed.text, metrics)
        self._of = self._selection.of_kind
        self._lines = self._selection.lines
        self._gauge_targets = self._selection.gauges
        self._numbers: dict[int, list[int]] = {}
        for index, _ in self._of("line"):
            self._numbers.setdefault(self._lines[index][1], []).append(index)
        self._typedefs = typedef_names(parsed) if any(event.kind == "write" for event in metrics) else {}
        self._taken: set[tuple[int, int]] = set()
        self._hits: dict[tuple[int, Spot], Hit] = {}
        self._gauges: dict[tuple[int, int], Hit] = {}
        self._unseen: dict[tuple[int, int], Unseen] = {}
        self._names: dict[str, set[str]] = {}

    def find(self) -> Found:
        spans = []
        for cursor in top_level(self._parsed):
            whole = span(cursor)
            system = self._text.is_system(whole[0])
            if system and not self._selection.may_count(*whole, among=self._selection.reaching_system):
                continue
            spans.append(whole)
            for member in members(cursor):
                self._declaration(member, cursor, system=system)
        self._function_pointers()
        for offset, message in self._parsed.errors:
            held = next((whole for whole in spans if whole[0] <= offset < whole[1]), None)
            if held is None or self._selection.may_count(*held):
                file, line = self._text.locate(offset)
                raise UnreadableError(f"{file}:{line}: libclang: {message}")
        return Found([*self._hits.values(), *self._gauges.values()], list(self._unseen.values()), self._names)

    def _declaration(self, cursor: Any, outermost: Any, *, system: bool) -> None:
        if cursor.kind in FUNCTION_KINDS:
            function = function_of(cursor, self._data)
            if function is not None:
                if not system:
                    self._name("function", function.names[:1])
                self._function_events(function)
        elif not system and cursor.kind == CursorKind.FIELD_DECL:
            self._name("field", field_names(cursor, self._typedefs))
            self._lambdas(cursor)
        elif cursor.kind == CursorKind.VAR_DECL and cursor.spelling:
            if not system:
                self._name("variable", variable_names(cursor, None))
                self._initialiser(cursor, None)
                self._lambdas(cursor)
            self._gauge_events(cursor, outermost, None, in_block=True)

    def _lambdas(self, declaration: Any) -> None:
        """Look into the lambdas of an initialiser outside functions."""
        if self._is_cxx and _MAY_NEST.search(self._data, *span(declaration)):
            for function in lambdas_of(declaration, self._data):
                self._name("function", function.names[:1])
                self._function_events(function)

    def _function_events(self, function: Function) -> None:
        for index, event in self._of("enter"):
            if matches(function.names, event.target):
                self._add(index, function, Spot("block", function.opening, function.opening, _name_offset(function)))
        if self._wants_body(function):
            inner = ("call", "write", "gauge")
            body = read_body(function, self._data, expressions=self._is_cxx or any(self._of(kind) for kind in inner))
            self._flow_events(function, body)
            self._line_events(function, body)
            self._write_events(function, body)
            self._call_events(function, body)
            for variable, _ in body.variables:
                self._initialiser(variable, function)
            for variable, in_block in body.variables if self._gauge_targets else ():
                self._name("variable", variable_names(variable, function)[:1])
                self._gauge_events(variable, variable, function, in_block=in_block)
            for nested in body.nested:
                self._function_events(nested)

    def _flow_events(self, function: Function, body: Body) -> None:
        for index, event in self._of("return"):
            if matches(function.names, event.target):
                self._add_all(index, function, body.returns)
        for index, event in self._of("label"):
            scope, _, wanted = event.target.rpartition("::")
            if matches(function.names, scope):
                self._name("label", (f"{function.names[0]}::{label}" for label, _ in body.labels))
                self._add_all(index, function, [spot for label, spot in body.labels if name_matches(label, wanted)])
        loops = self._of("loop")
        by_line = self._by_line(body.loops, loops)
        for index, event in loops:
            if index in self._lines:
                self._add_all(index, function, list(on_line(by_line, self._lines[index]))[:1])
                continue
            name, _, number = event.target.partition("#")
            if matches(function.names, name):
                self._name("loop", (f"{function.names[0]}#{count}" for count in range(1, 1 + len(body.loops))))
                chosen = body.loops[int(number) - 1 : int(number)] if number else body.loops
                self._add_all(index, function, chosen)

    def _line_events(self, function: Function, body: Body) -> None:
        by_line = self._by_line(body.statements, self._of("line"))
        if self._numbers and function.cursor.kind != CursorKind.LAMBDA_EXPR:
            file, first = self._text.locate(function.start)
            header = file, Spot("block", function.opening, function.opening, function.start)
            for line in range(first, 1 + self._text.locate(function.opening - 1)[1]):
                by_line.setdefault(line, []).insert(0, header)
        outermost = function
        while outermost.outer is not None:
            outermost = outermost.outer
        for line in by_line.keys() & self._numbers.keys():
            for index in self._numbers[line]:
                spots = list(on_line(by_line, self._lines[index]))[:1]
                # What a lambda or a local class does on a line comes after the statement that holds it.
                if spots and (function is outermost or (index, outermost.start) not in self._taken):
                    self._taken.add((index, outermost.start))
                    self._add_all(index, function, spots)

    def _by_line(self, spots: Sequence[Spot], events: Sequence[tuple[int, Selected]]) -> dict[int, list[tuple[str, Spot]]]:
        """Return the spots with their files by line, where events name lines; the lines of their files are noted as names."""
        wanted = {self._lines[index][0] for index, _ in events if index in self._lines}
        found: dict[int, list[tuple[str, Spot]]] = {}
        for spot in spots if wanted else ():
            file, line = self._text.locate(spot.at)
            found.setdefault(line, []).append((file, spot))
            self._name("line", (f"{name}:{line}" for name in wanted if file_matches(file, name)))
        return found

    def _write_events(self, function: Function, body: Body) -> None:
        for spot, left in body.assignments:
            for index in self._written(function, left):
                self._add(index, function, spot)
        for offset, operand in body.addresses:
            for index in self._written(function, operand):
                self._note_unseen(index, offset, "address taken: writes through it are not counted")

    def _initialiser(self, variable: Any, function: Function | None) -> None:
        """Note a variable that gets its first value where it is declared, which is no assignment."""
        events = [(index, event) for index, event in self._of("write") if function is None or is_within(event, function)]
        if not events or not has_initialiser(variable, self._data):
            return
        names = variable_names(variable, function)
        record = variable.type.get_canonical().get_declaration()
        records = record_names(record, self._typedefs) if record.kind in RECORD_KINDS else ()
        for index, event in events:
            holder, is_field, _ = event.target.rpartition(".")
            if matches(records if is_field else names, holder if is_field else event.target):
                self._note_unseen(index, variable.location.offset, "an initialiser: not counted as a write")

    def _function_pointers(self) -> None:
        """Note where a function's name stands for its address: what is called through it is seen by `enter` alone."""
        for index, event in self._of("call"):
            words = needed_words(event.target)
            if not words:
                continue  # every function is meant, and most of them are called by pointers somewhere
            if words[-1].encode() not in self._data:
                continue
            more = rb"[\w$]*" if is_glob(event.target) else b""
            word = rb"(?<![\w$])" + more + re.escape(words[-1].encode()) + more + rb"(?![\w$])"
            for found in re.finditer(word, self._data):
                if self._text.is_system(found.start()) or self._is_called(found.end()):
                    continue
                reference = cursor_at(self._parsed, found.start())
                if reference is None or reference.kind != CursorKind.DECL_REF_EXPR or reference.referenced is None:
                    continue
                function = reference.referenced
                if function.kind in FUNCTION_KINDS and matches(function_names(function), event.target):
                    self._note_unseen(
                        index, found.start(), "its address is taken: calls through it are not counted; use enter:"
                    )

    def _is_called(self, offset: int) -> bool:
        """Tell whether a name that ends at an offset is called there: f(…), (f)(…)."""
        token, offset = next_token(self._data, offset)
        while token == b")":
            token, offset = next_token(self._data, offset + 1)
        return token == b"("

    def _written(self, function: Function, expression: Any) -> set[int]:
        """Return the indices of the `write` metrics whose variable or field holds the object that an lvalue designates."""
        events = [(index, event) for index, event in self._of("write") if is_within(event, function)]
        found: set[int] = set()
        if not events:
            return found
        for declaration in objects(expression, self._data):
            is_field = declaration.kind == CursorKind.FIELD_DECL
            names = field_names(declaration, self._typedefs) if is_field else variable_names(declaration, function)
            found |= {index for index, event in events if ("." in event.target) == is_field and matches(names, event.target)}
        return found

    def _call_events(self, function: Function, body: Body) -> None:
        events = [(index, event) for index, event in self._of("call") if is_within(event, function)]
        if not events:
            return
        for spot, call in body.calls:
            for callee in called(call):
                names = function_names(callee)
                for index, event in events:
                    if not matches(names, event.target):
                        continue
                    if self._is_constant(callee):
                        self._note_unseen(index, spot.at, "calls of a constexpr function are not counted; use enter:")
                    else:
                        self._add(index, function, spot, in_constant=is_lambda(callee))

    def _gauge_events(self, variable: Any, outermost: Any, function: Function | None, *, in_block: bool) -> None:
        if not self._gauge_targets or not is_definition(variable, is_cxx=self._is_cxx):
            return
        names = variable_names(variable, function)
        at = variable.location.offset
        for index, target in self._gauge_targets.items():
            if not matches(names, target.name) or not self._selection.is_in_file(index, at):
                continue
            if target.file and not file_matches(self._text.locate(at)[0], target.file):
                continue
            found = gauge_of(
                variable, target, self._data, self._standard, outermost=outermost, function=function, in_block=in_block
            )
            if isinstance(found, str):
                self._note_unseen(index, at, found)
            else:  # of several tentative definitions the last one, whose type is whole
                self._gauges[index, variable.canonical.location.offset] = Hit(
                    index, found[0], "", guarded=False, gauge=found[1]
                )

    def _add_all(self, index: int, function: Function, spots: Iterable[Spot]) -> None:
        for spot in spots:
            self._add(index, function, spot)

    def _add(self, index: int, function: Function, spot: Spot, *, in_constant: bool = False) -> None:
        reason = self._cannot_count(function, spot)
        if reason:
            self._note_unseen(index, spot.at, reason)
        elif self._selection.is_in_file(index, spot.at):
            in_constant |= function.cursor.kind == CursorKind.LAMBDA_EXPR
            guarded = function.constant or (in_constant and self._lambdas_are_constant)
            hit = Hit(index, spot, self._selection.metrics[index].add or "", guarded)
            self._hits.setdefault((index, spot), hit)

    def _note_unseen(self, index: int, offset: int, reason: str) -> None:
        if self._selection.is_in_file(index, offset):
            self._unseen.setdefault((index, offset), Unseen(index, offset, reason))

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
        return self._selection.may_count(function.start, function.end, among=None if may_nest else self._selection.inside)

    def _is_constant(self, callee: Any) -> bool:
        start = span(callee)[0]
        return self._is_cxx and _CONSTANT.search(self._data, start, max(start, callee.location.offset)) is not None

    def _name(self, kind: str, names: Iterable[str]) -> None:
        self._names.setdefault(kind, set()).update(names)


def _name_offset(function: Function) -> int:
    offset: int = function.cursor.location.offset
    return max(function.start, offset)
