"""Search for the sites of selected events in a parsed text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from clang.cindex import CursorKind

from unperturbed.instrument.events.kind import InsertionPoint, ParsedFunction, Variable, load_kind, matches
from unperturbed.instrument.events.targets import GaugeTarget, LineTarget, Selected, file_matches, is_glob, needed_words
from unperturbed.instrument.finding.body import called, objects, read_body
from unperturbed.instrument.finding.declarations import (
    FUNCTION_KINDS,
    RECORD_KINDS,
    SCOPE_KINDS,
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
from unperturbed.instrument.finding.gauges import Gauge, gauge_of, is_definition
from unperturbed.instrument.finding.prefilter import Selection
from unperturbed.instrument.finding.preprocessed import (
    ParsedText,
    PreprocessedText,
    UnreadableError,
    cursor_at,
    next_token,
    span,
    words_like,
    words_with,
)

_WITH_BODIES = FUNCTION_KINDS | SCOPE_KINDS
_MAY_NEST = re.compile(rb"\][^][;]{0,80}[({]|\b(?:class|struct)\b")
_LOOP_PRAGMA = re.compile(rb"#pragma\s+(?:omp|acc|GCC\s+(?:unroll|ivdep)|clang\s+loop)\b[^\n]*\n\s*(?:#[^\n]*\n\s*)*\Z")
_CONSTANT = re.compile(rb"\b(?:constexpr|consteval)\b")


class Site(NamedTuple):
    """Point where a metric counts, or variable that a gauge reads."""

    metric: int  # Index of the metric
    point: InsertionPoint  # Where the counting code is inserted
    add: str  # Expression whose value is added; '' for 1
    guarded: bool  # The compiler may evaluate the function; nothing is counted then
    gauge: Gauge | None = None  # Variable to read; None for a counted event


class UncountedSite(NamedTuple):
    """Point where a metric's event may happen uncounted."""

    metric: int  # Index of the metric
    at: int  # Byte offset
    reason: str  # Why it is not counted


class FoundSites(NamedTuple):
    """Sites found in one text."""

    sites: list[Site]  # Gauges are last
    uncounted: list[UncountedSite]  # Where events may happen uncounted
    # Names that targets could have: `function`, `variable`, `field`, `label`, `loop`, `line`.
    names: dict[str, set[str]]


def find_sites(parsed: ParsedText, standard: str, metrics: Sequence[Selected]) -> FoundSites:
    """Find every site of the metrics; a glob does not match in system headers unless `file:` names them."""
    return _TextSearch(parsed, standard, metrics).run()


class _PointsByLine:
    """Implementation of `PointsByLine`."""

    def __init__(self, text: PreprocessedText) -> None:
        self._text = text
        self._found: dict[int, list[tuple[str, InsertionPoint]]] = {}

    def add(self, point: InsertionPoint) -> tuple[str, int]:
        file, line = self._text.locate(point.at)
        self._found.setdefault(line, []).append((file, point))
        return file, line

    def add_head(self, point: InsertionPoint, start: int, end: int) -> None:
        file, first = self._text.locate(start)
        for line in range(first, 1 + self._text.locate(end)[1]):
            self._found.setdefault(line, []).insert(0, (file, point))

    def at(self, place: LineTarget) -> list[InsertionPoint]:
        return [point for file, point in self._found.get(place[1], ()) if file_matches(file, place[0])]


class _TextSearch:
    """Walk through the functions of one text, for the event kinds in use. Implementation of `SiteSearch`."""

    is_lambda = staticmethod(is_lambda)
    variable_names = staticmethod(variable_names)

    def __init__(self, parsed: ParsedText, standard: str, metrics: Sequence[Selected]) -> None:
        self.data = parsed.text.data
        self.is_cxx = "++" in standard
        self._parsed = parsed
        self._text = parsed.text
        self._standard = standard
        # Since C++17 every lambda that can be constexpr is constexpr, and its call may be a constant that the compiler
        # must evaluate.
        self._lambdas_are_constant = self.is_cxx and standard[-2:] not in ("98", "11", "14")
        self._constexpr_holds_statements = not standard.endswith("++11")
        self._selection = Selection(parsed.text, metrics)
        self.locate, self.is_in_file = parsed.text.locate, self._selection.is_in_file
        classes = self._selection.by_kind
        self._kinds = [kind(self, pairs) for kind, pairs in classes.items()]
        self._reads_expressions = self.is_cxx or any(kind.reads_expressions for kind in classes)
        self._typedefs = typedef_names(parsed) if any(kind.reads_records for kind in classes) else {}
        self._sites: dict[tuple[int, InsertionPoint], Site] = {}
        self._gauges: dict[tuple[int, int], Site] = {}
        self._uncounted: dict[tuple[int, int], UncountedSite] = {}
        self._names: dict[str, set[str]] = {}

    def run(self) -> FoundSites:
        spans = []
        for cursor in top_level(self._parsed):
            whole = span(cursor)
            system = self._text.is_system(whole[0])
            if system and not self._selection.may_count(*whole, among=self._selection.reaching_system):
                continue
            spans.append(whole)
            for member in members(cursor, self._may_count_in_system_header if system else None):
                self._declaration(member, cursor, system=system)
        for kind in self._kinds:
            kind.in_text()
        for offset, message in self._parsed.errors:
            around = next((whole for whole in spans if whole[0] <= offset < whole[1]), None)
            if around is None or self._selection.may_count(*around):
                file, line = self._text.locate(offset)
                raise UnreadableError(f"{file}:{line}: libclang: {message}")
        return FoundSites([*self._sites.values(), *self._gauges.values()], list(self._uncounted.values()), self._names)

    def _may_count_in_system_header(self, cursor: Any) -> bool:
        """Return whether a member of a declaration in a system header may contain a site."""
        if cursor.kind not in _WITH_BODIES:
            return bool(cursor.kind == CursorKind.VAR_DECL)
        start, end = span(cursor)
        # libclang gives no position for some templates (see `function_of`).
        return end == 0 or self._selection.may_count(start, end, among=self._selection.reaching_system)

    def _declaration(self, cursor: Any, outermost: Any, *, system: bool) -> None:
        if cursor.kind in FUNCTION_KINDS:
            function = function_of(cursor, self.data)
            if function is not None:
                if not system:
                    self.note_names("function", function.names[:1])
                self._function(function)
        elif not system and cursor.kind == CursorKind.FIELD_DECL:
            self.note_names("field", field_names(cursor, self._typedefs))
            self._lambdas(cursor)
        elif cursor.kind == CursorKind.VAR_DECL and cursor.spelling:
            if not system:
                self.note_names("variable", variable_names(cursor, None))
                self._lambdas(cursor)
            self._variable(Variable(cursor, outermost, None, in_block=True, in_system_header=system))

    def _lambdas(self, declaration: Any) -> None:
        """Search for sites in the lambdas of an initialiser outside functions."""
        if self.is_cxx and _MAY_NEST.search(self.data, *span(declaration)):
            for function in lambdas_of(declaration, self.data):
                self.note_names("function", function.names[:1])
                self._function(function)

    def _function(self, function: ParsedFunction) -> None:
        for kind in self._kinds:
            kind.at_function(function)
        if not self._wants_body(function):
            return
        body = read_body(function, self.data, expressions=self._reads_expressions)
        for kind in self._kinds:
            kind.in_body(function, body)
        for cursor, in_block in body.variables:
            self._variable(Variable(cursor, cursor, function, in_block))
        for nested in body.nested:
            self._function(nested)

    def _variable(self, variable: Variable) -> None:
        for kind in self._kinds:
            kind.at_variable(variable)

    def _wants_body(self, function: ParsedFunction) -> bool:
        if function.outer is not None:
            return True
        may_nest = self.is_cxx and _MAY_NEST.search(self.data, function.opening, function.closing) is not None
        among = None if may_nest else self._selection.within_bodies
        return self._selection.may_count(function.start, function.end, among=among)

    def add(self, metric: int, function: ParsedFunction, point: InsertionPoint, *, in_constant: bool = False) -> None:
        reason = self._why_uncountable(function, point)
        if reason:
            self.note_uncounted(metric, point.at, reason)
        elif self.is_in_file(metric, point.at):
            in_constant |= function.is_lambda
            guarded = function.constant or (in_constant and self._lambdas_are_constant)
            site = Site(metric, point, self._selection.metrics[metric].add or "", guarded)
            self._sites.setdefault((metric, point), site)

    def add_gauge(self, metric: int, variable: Variable, target: GaugeTarget) -> None:
        entry_or_reason = gauge_of(variable, target, self.data, self._standard)
        if isinstance(entry_or_reason, str):
            self.note_uncounted(metric, variable.cursor.location.offset, entry_or_reason)
        else:  # keep the last of several tentative definitions: its type is complete
            key = metric, variable.cursor.canonical.location.offset
            self._gauges[key] = Site(metric, entry_or_reason[0], "", guarded=False, gauge=entry_or_reason[1])

    def note_uncounted(self, metric: int, offset: int, reason: str) -> None:
        if self.is_in_file(metric, offset):
            self._uncounted.setdefault((metric, offset), UncountedSite(metric, offset, reason))

    def note_names(self, kind: str, names: Iterable[str]) -> None:
        self._names.setdefault(kind, set()).update(names)

    def by_line(self, points: Sequence[InsertionPoint], places: Collection[LineTarget]) -> _PointsByLine:
        files = {file for file, _ in places}
        points_by_line = _PointsByLine(self._text)
        for point in points if files else ():
            file, line = points_by_line.add(point)
            self.note_names("line", (f"{name}:{line}" for name in files if file_matches(file, name)))
        return points_by_line

    def callees(self, call: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        return ((function_names(callee), callee) for callee in called(call))

    def is_constant(self, function: Any) -> bool:
        start = span(function)[0]
        return self.is_cxx and _CONSTANT.search(self.data, start, max(start, function.location.offset)) is not None

    def references(self, target: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        words = needed_words(target)
        # A glob without a literal word matches every function, most of which are called through pointers somewhere.
        if not words or words[-1].encode() not in self.data:
            return
        word = words[-1].encode()
        spans = words_with(self.data, word) if is_glob(target) else (at.span() for at in words_like(self.data, word))
        for start, end in spans:
            if self._text.is_system(start) or self._is_called(end):
                continue
            reference = cursor_at(self._parsed, start)
            if reference is None or reference.kind != CursorKind.DECL_REF_EXPR or reference.referenced is None:
                continue
            if reference.referenced.kind in FUNCTION_KINDS:
                yield start, function_names(reference.referenced)

    def written_objects(self, function: ParsedFunction, expression: Any) -> Iterator[tuple[tuple[str, ...], bool]]:
        for declaration in objects(expression, self.data):
            if declaration.kind == CursorKind.FIELD_DECL:
                yield field_names(declaration, self._typedefs), True
            else:
                yield variable_names(declaration, function), False

    def initialised_names(
        self, variable: Any, function: ParsedFunction | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        if not has_initialiser(variable, self.data):
            return None
        record = variable.type.get_canonical().get_declaration()
        records = record_names(record, self._typedefs) if record.kind in RECORD_KINDS else ()
        return variable_names(variable, function), records

    def is_definition(self, variable: Any) -> bool:
        return is_definition(variable, is_cxx=self.is_cxx)

    def _is_called(self, offset: int) -> bool:
        """Return whether a name that ends at an offset is called, as in f(…) or (f)(…)."""
        token, offset = next_token(self.data, offset)
        while token == b")":
            token, offset = next_token(self.data, offset + 1)
        return token == b"("

    def _why_uncountable(self, function: ParsedFunction, point: InsertionPoint) -> str:
        """Return why no code can be inserted at a point; '' if it can."""
        is_consteval = b"consteval" in self.data[function.start : function.opening]
        if function.constant and is_consteval:
            return "the function is consteval: the compiler evaluates it at compile time"
        if function.constant and not self._constexpr_holds_statements:
            return "the function is constexpr: in C++11, it cannot contain the code that counts"
        before = self.data[max(0, point.start - 400) : point.start]
        on_pragma = self.data.startswith(b"#", point.start)  # libclang starts the loop at the pragmas that it knows
        if on_pragma or (point.form != "expression" and _LOOP_PRAGMA.search(before)):
            return "no code can be inserted between the statement and its #pragma"
        return ""


def candidates(parsed: ParsedText, metrics: Iterable[Selected]) -> dict[str, set[str]]:
    """Return names in a text that the metrics' targets may have meant.

    Result: `overload`: functions with the target's name, with their parameters. `lambda`: lambdas, and functions of
    local classes, in the function `f` of a target such as `f::lambda3`.
    """
    names: dict[str, set[str]] = {"overload": set(), "lambda": set()}
    kinds = [(load_kind(metric.loader, metric.folder), metric.target) for metric in metrics]
    targets = [kind.owner(target) for kind, target in kinds if "function" in kind.named]
    overloaded = [target.partition("(")[0] for target in targets if "(" in target and "operator" not in target]
    scopes = [scope for target in targets if (scope := target.partition("(")[0].rpartition("::")[0])]
    for function in _functions(parsed) if overloaded or scopes else ():
        if any(matches(function.names, target) for target in overloaded):
            names["overload"].add(function.names[0] + _parameters(function))
        if any(matches(function.names, scope) for scope in scopes):
            nested = read_body(function, parsed.text.data).nested
            names["lambda"] |= {name for inner in nested for name in inner.names[:-1]}
    return names


def _functions(parsed: ParsedText) -> Iterator[ParsedFunction]:
    for cursor in top_level(parsed):
        if parsed.text.is_system(span(cursor)[0]):
            continue
        for member in members(cursor):
            function = function_of(member, parsed.text.data) if member.kind in FUNCTION_KINDS else None
            if function is not None:
                yield function


def _parameters(function: ParsedFunction) -> str:
    """Return a function's parameter types as libclang writes them, without template parameters."""
    return re.sub(r"^<[^(]*>", "", function.cursor.displayname[len(function.cursor.spelling) :])
