"""What a kind of event sees of a parsed text: functions, what happens in bodies, and where that can be counted.

`finding` fills these from libclang's syntax tree; a kind of event reads them and needs no libclang of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from unperturbed.instrument.events.targets import GaugeTarget, LineTarget


class InsertionPoint(NamedTuple):
    """Where counting text goes."""

    # `block`: a statement may be inserted at `start`. `bare`: a prefix that makes one statement of what follows.
    # `expression`: the text from `start` to `end` is one expression. `gauge`: a declaration may be inserted.
    form: str
    # start, end: Byte offsets.
    start: int
    end: int
    at: int  # Byte offset that gives file and line of the event


class Function(NamedTuple):
    """A function with a body."""

    names: tuple[str, ...]  # Qualified names, the usual one first; the last one with parameter types, `ns::f(int,char)`
    cursor: Any  # libclang's cursor
    body: Any  # Cursor of the body's compound statement
    # start, end: Byte offsets of the whole definition.
    start: int
    end: int
    opening: int  # Offset behind the body's `{`, where a statement may be inserted
    closing: int  # Offset of the body's `}`
    constant: bool  # Declared constexpr or consteval, so that it may run in the compiler
    is_lambda: bool = False  # It is a lambda's
    outer: Function | None = None  # The function whose body contains this one (a lambda, a method of a local class)


class Body(NamedTuple):
    """What a function's body contains, each in the order of the text, without what nested functions contain."""

    # loops, returns: Iterations of loops; return statements and the end.
    loops: list[InsertionPoint]
    returns: list[InsertionPoint]
    labels: list[tuple[str, InsertionPoint]]  # Labels by name
    statements: list[tuple[Any, InsertionPoint]]  # List of tuple of cursor and InsertionPoint Every statement
    # List of tuple of InsertionPoint and cursor Assignments with their left sides.
    assignments: list[tuple[InsertionPoint, Any]]
    calls: list[tuple[InsertionPoint, Any]]  # List of tuple of InsertionPoint and cursor Calls
    addresses: list[tuple[int, Any]]  # List of tuple of int and cursor Offset and operand of each unary &
    # List of tuple of cursor and bool Declared variables, and whether a statement may follow the declaration.
    variables: list[tuple[Any, bool]]
    nested: list[Function]  # Lambdas, and methods of local classes


class Variable(NamedTuple):
    """A variable's declaration."""

    cursor: Any  # libclang's cursor
    outermost: Any  # Cursor of the declaration on the text's top level that contains it
    function: Function | None  # The function that declares it
    in_block: bool  # A statement may follow the declaration
    in_system_header: bool = False  # It is outside all functions, in a system header


class PointsByLine(Protocol):
    """Points of a function by the line that they are on."""

    def at(self, place: LineTarget) -> list[InsertionPoint]:
        """Return the points on the line that a target names, in the order of the text."""

    def add_head(self, point: InsertionPoint, start: int, end: int) -> None:
        """Have the lines from one offset to another mean a point first."""


class Search(Protocol):
    """The search of one parsed text for sites, as a kind of event sees it."""

    data: bytes  # The preprocessed text
    is_cxx: bool  # It is C++

    def add(self, metric: int, function: Function, point: InsertionPoint, *, in_constant: bool = False) -> None:
        """Count a metric at a point, or note why it cannot be counted there.

        `in_constant`: The point may be evaluated by the compiler although the function is not constexpr.
        """

    def add_gauge(self, metric: int, variable: Variable, target: GaugeTarget) -> None:
        """Have a metric read a variable, or a part of it, or note why it cannot be read."""

    def note_uncounted(self, metric: int, offset: int, reason: str) -> None:
        """Note a place where a metric's event may happen uncounted."""

    def note_names(self, kind: str, names: Iterable[str]) -> None:
        """Note names that a target could have, for the message of a metric without a site."""

    def is_in_file(self, metric: int, offset: int) -> bool:
        """Return whether a metric counts in the file that an offset came from."""

    def locate(self, offset: int) -> tuple[str, int]:
        """Return file and line that an offset came from."""

    def by_line(self, points: Sequence[InsertionPoint], places: Collection[LineTarget]) -> PointsByLine:
        """Return points by their lines, as far as some of the places need them."""

    def callees(self, call: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield names and cursor of each function that a call expression may call directly."""

    def is_constant(self, function: Any) -> bool:
        """Return whether a function, by its cursor, is constexpr or consteval."""

    def is_lambda(self, function: Any) -> bool:
        """Return whether a function, by its cursor, is a lambda's call operator."""

    def references(self, target: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield offset and names of each function that is named, in user code, without being called."""

    def written_objects(self, function: Function, expression: Any) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield the names of each variable and field that an lvalue designates, and whether it is a field."""

    def initialised_names(
        self, variable: Any, function: Function | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the names of a variable that is initialised, and those of its record type; None for others."""

    def variable_names(self, variable: Any, function: Function | None) -> tuple[str, ...]:
        """Return a variable's qualified names, `function::x` for a local one."""

    def is_definition(self, variable: Any) -> bool:
        """Return whether a declaration reserves memory."""
