"""Base classes of event kinds, and the interface through which a kind searches a parsed text for sites.

Each module of `kinds` defines one kind. Other distributions add a kind by an entry point in the group
`unperturbed.event_kinds`, as in this pyproject.toml::

    [project.entry-points."unperturbed.event_kinds"]
    goto = "my_package.goto:Goto"

The compiler wrapper loads only the kinds in use, so a kind's module should import little. A kind gets functions, the
events in their bodies, and the points where these can be counted. `finding` reads all of this from libclang's syntax
tree, so a kind does not need libclang.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.targets import (
    GaugeTarget,
    LineTarget,
    Need,
    Selected,
    is_glob,
    name_matches,
    need_of_name,
)

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


Means = Literal["compiled", "kernel", "preload", "python", "jvm"]
"""What counts an event: code compiled into the program, a kernel probe, a preloaded library, Python's import hook, or a
library that the Java virtual machine loads."""

WORD = r"[\w$*?[~][]\w$*?![~-]*"
NAME = rf"(?:::)?{WORD}(?:::{WORD})*"
FUNCTION = rf"{NAME}(?:\(.*\))?|(?:{NAME}::)?operator\b.*"
FILE_LINE = r"[^:]*[^:\s][^:]*:[1-9]\d*"
PLAIN = r"[A-Za-z_$][\w$]*"
"""Patterns of targets: name or glob without scopes, the same with scopes, function, `file.c:120`, plain C name."""

FUNCTION_FORM = "a function's name, such as f, sort_* or ns::f"

GROUPS: Mapping[str, str] = {
    "probe": "An event in a binary that the kernel counts; the source is not needed.",
    "python": "An event in a program that is written in Python.",
    "jvm": "An event in a program on the Java virtual machine, or of that machine itself.",
}
"""Spec keys that group several kinds, with a description of each group."""


class EventKind:
    """Kind of event that a software metric counts.

    Attributes
    ----------
    name : str
        Name of the kind, as in `Event.kind`.
    keys : tuple of str
        Spec keys that lead to the target: `("enter",)`, or below a key of `GROUPS`, `("probe", "uprobe")`.
    meaning : str
        Counted event and forms of the target: one line for help, reference and JSON Schema.
    example : str
        Example of a target.
    pattern : str
        Regular expression that a whole target must match.
    form : str
        Description of the target's form in error messages.
    filters : tuple of str
        Supported filters: those of a spec's `in`, `file`, `add` and `threads` that the kind accepts.
    means : {"compiled", "kernel", "preload", "python", "jvm"}
        What counts the event.
    semantics : {"counter", "gauge"}
        Whether the metric counts events, or reads a value at the end of each interval.
    order : int
        Position in lists, lowest first.
    """

    name: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    meaning: ClassVar[str]
    example: ClassVar[str]
    pattern: ClassVar[str]
    form: ClassVar[str]
    filters: ClassVar[tuple[str, ...]] = ()
    means: ClassVar[Means]
    semantics: ClassVar[Literal["counter", "gauge"]] = "counter"
    order: ClassVar[int] = 100

    @classmethod
    def hint(cls, target: str) -> str:
        """Return advice on a malformed target for the end of an error message, after a space; '' for none."""
        return " (leave out <…>: one site counts all instantiations of a template)" if "<" in target else ""


class ProbeKind(EventKind):
    """Kind of event that the kernel counts with a probe in a binary.

    Attributes
    ----------
    place : str
        What the probe is attached to, in words, such as `static probe`.
    """

    means = "kernel"
    place: ClassVar[str]

    @classmethod
    def find(cls, binary: Any, target: str) -> Sequence[tuple[str, int, int]]:
        """Return the locations in a binary that match a target.

        Parameters
        ----------
        binary : Any
            Binary, as `instrument.binaries.read_binary` returns it.
        target : str
            The target without the binary.

        Returns
        -------
        sequence of tuple of str, int and int
            Symbol, offset in the file, and offset of the semaphore that makes the program compute the probe's
            arguments (0 for none).

        Raises
        ------
        SpecError
            No location in the binary matches.
        """
        raise NotImplementedError


class BuildNames(Protocol):
    """Names in a build's sources, used to explain why a metric has no site."""

    def parsed(self, part: str) -> set[str]:
        """Return the names in one category (`function`, `label`, `loop`, …) that parsing found."""

    def known(self, parts: Collection[str]) -> set[str]:
        """Return the names in some categories: those that parsing found and those written in the sources."""

    def similar(self, event: Event) -> tuple[str, ...]:
        """Return the targets that have a site and are nearest to an event's target."""

    def labels(self, function: str) -> set[str]:
        """Return the labels, as `function::label`, of all functions with the given name."""

    def files_of(self, function: str) -> list[str]:
        """Return the files that define a function."""


class CompiledKind(EventKind):
    """Kind whose counters are compiled into the program. An instance finds the sites of its metrics in one parsed text.

    Attributes
    ----------
    search : Search
        Search of the parsed text.
    metrics : sequence of tuple of int and Selected
        The metrics of this kind, with their indices in the search.
    within_bodies : bool
        Whether sites are inside function bodies, not only at their beginning.
    reads_expressions : bool
        Whether sites are inside expressions and declarations, which a walk through a body must then visit.
    reads_records : bool
        Whether targets may name a struct, union or class by a typedef.
    use : {"defined", "called", "written"}
        How a text with a site must use the target's name.
    named : tuple of str
        What a target may name: `function`, `variable`, `field`, `label`, `loop`, `line`.
    enumerating : tuple of tuple of str
        Kind and target of events whose search records every name that a target of this kind could have.
    written_as : str
        Regular expression for the source text of an event on the name `{0}`; '' for events in functions with the
        name.
    happens : str
        Verb by which an error links the name to a file or function, such as `is called in`.
    happens_outside : bool
        Whether the event may happen outside functions.
    at_line : str
        What must begin on a line that a target names, in words.
    """

    means = "compiled"
    filters: ClassVar[tuple[str, ...]] = ("file", "add", "threads")

    within_bodies: ClassVar[bool] = True
    reads_expressions: ClassVar[bool] = False
    reads_records: ClassVar[bool] = False
    use: ClassVar[str] = "defined"
    named: ClassVar[tuple[str, ...]] = ("function",)
    enumerating: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "*"),)
    written_as: ClassVar[str] = ""
    happens: ClassVar[str] = "is in"
    happens_outside: ClassVar[bool] = False
    at_line: ClassVar[str] = "statement"

    def __init__(self, search: SiteSearch, metrics: Sequence[tuple[int, Selected]]) -> None:
        self.search = search
        self.metrics = metrics

    def at_function(self, function: ParsedFunction) -> None:
        """Add the sites of a function that do not depend on its body's contents."""

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Add the sites in a function's body. This is not called for every function: see `within_bodies`."""

    def at_variable(self, variable: Variable) -> None:
        """Add the sites of a variable's declaration."""

    def in_text(self) -> None:
        """Add results that need the whole text, after all functions have been searched."""

    @classmethod
    def need(cls, event: Event) -> Need:
        """Return what a text must contain to have a site."""
        return need_of_name(event, event.target, use=cls.use)

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:  # noqa: ARG003  overrides use it
        """Return file and line of a target such as `file.c:120`; None for other targets."""
        return None

    @classmethod
    def reaches_system_headers(cls, target: str) -> bool:
        """Return whether a target matches in system headers that `file` does not name; globs do not."""
        return cls.line_of(target) is not None or not is_glob(target)

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the function (or variable) that a target is in."""
        return target

    @classmethod
    def file_of(cls, event: Event) -> str:
        """Return the glob that limits an event to certain files; '' for none."""
        return event.file or ""

    @classmethod
    def without_file(cls, target: str) -> str:
        """Return a target without its file part, if any."""
        return target

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:  # noqa: ARG003
        """Return targets that the user may have meant, with or without a site.

        Parameters
        ----------
        target : str
            The target without a site.
        names : mapping of str to set of str
            Names in one source, by category as in `named`.
        words : sequence of str
            Words in the sources that are similar to the target's.

        Returns
        -------
        set of str
            Candidates; the caller tries only those near the target.
        """
        return names.get("function", set())

    @classmethod
    def propose_further(cls, words: Sequence[str]) -> Sequence[str]:  # noqa: ARG003
        """Return targets to try in a source where no proposed target has a site."""
        return ()

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return a reason, specific to the kind, why a target has no site; '' if there is none."""
        plain, has_parameters, _ = event.target.partition("#")[0].partition("(")
        overloads = [name for name in names.parsed("overload") if name_matches(name.partition("(")[0], plain)]
        if has_parameters and overloads:
            return f"the overloads of `{plain}` are {first_of(sorted(overloads), 12)}"
        scope = plain.rpartition("::")[0]
        lambdas = [name for name in names.parsed("lambda") if scope and name_matches(name.rpartition("::")[0], scope)]
        return f"the lambdas in `{scope}` are {first_of(sorted(lambdas), 12)}" if lambdas else ""


def matches(names: Sequence[str], pattern: str) -> bool:
    """Return whether a pattern matches one of the names of a function or variable."""
    return any(name_matches(name, pattern) for name in names)


def is_within(metric: Selected, function: ParsedFunction) -> bool:
    """Return whether a metric counts in a function, given its `in:` filter."""
    return metric.within is None or matches(function.names, metric.within)


def loader_of(kind: type[EventKind]) -> tuple[str, str]:
    """Return a kind's `module:class`, and the import folder of another distribution's module ('' for ours)."""
    module = kind.__module__
    if module.startswith("unperturbed."):
        return f"{module}:{kind.__qualname__}", ""
    from pathlib import Path  # noqa: PLC0415  the compiler wrapper loads kinds without pathlib

    file = Path(sys.modules[module].__file__ or "")
    levels = module.count(".") + (file.name == "__init__.py")
    return f"{module}:{kind.__qualname__}", str(file.absolute().parents[levels])


def load_kind(loader: str, folder: str = "") -> type[CompiledKind]:
    """Return the kind that `loader_of` described, without reading entry points."""
    if folder and folder not in sys.path:
        sys.path.append(folder)
    module, _, name = loader.partition(":")
    kind: type[CompiledKind] = getattr(importlib.import_module(module), name)
    return kind


def matches_form(kind: type[EventKind], target: str) -> bool:
    """Return whether a target has the form that a kind requires."""
    return re.fullmatch(kind.pattern, target) is not None


class InsertionPoint(NamedTuple):
    """Point where counting code is inserted."""

    # `block`: a statement may be inserted at `start`. `bare`: only a prefix that forms one statement with what follows.
    # `expression`: the text from `start` to `end` is one expression. `gauge`: a declaration may be inserted.
    form: str
    start: int  # Byte offset
    end: int
    at: int  # Byte offset that determines the event's file and line


class ParsedFunction(NamedTuple):
    """Function with a body."""

    names: tuple[str, ...]  # Qualified names, the usual one first; the last one with parameter types, `ns::f(int,char)`
    cursor: Any  # libclang's cursor
    body: Any  # Cursor of the body's compound statement
    start: int  # Byte offset of the whole definition
    end: int
    opening: int  # Offset after the body's `{`, where a statement may be inserted
    closing: int  # Offset of the body's `}`
    constant: bool  # Declared constexpr or consteval: the compiler may evaluate the function
    is_lambda: bool = False  # Whether the function is a lambda
    outer: ParsedFunction | None = None  # Enclosing function of a lambda or of a local class's method


class Body(NamedTuple):
    """Contents of a function's body in source order, without those of nested functions."""

    loops: list[InsertionPoint]  # Iterations of loops
    returns: list[InsertionPoint]  # Return statements and the end
    labels: list[tuple[str, InsertionPoint]]  # Labels by name
    statements: list[tuple[Any, InsertionPoint]]  # Every statement, by its cursor
    assignments: list[tuple[InsertionPoint, Any]]  # Assignments, with the cursors of their left sides
    calls: list[tuple[InsertionPoint, Any]]  # Calls, with their cursors
    addresses: list[tuple[int, Any]]  # Offset and operand of each unary &
    variables: list[tuple[Any, bool]]  # Declared variables, and whether a statement may follow the declaration
    nested: list[ParsedFunction]  # Lambdas, and methods of local classes


class Variable(NamedTuple):
    """Declaration of a variable."""

    cursor: Any  # libclang's cursor
    outermost: Any  # Cursor of the top-level declaration that contains this one
    function: ParsedFunction | None  # Function that contains the declaration; None outside functions
    in_block: bool  # A statement may follow the declaration
    in_system_header: bool = False  # Declared outside functions, in a system header


class PointsByLine(Protocol):
    """Insertion points of a function by source line."""

    def at(self, place: LineTarget) -> list[InsertionPoint]:
        """Return the points on the line that a target names, in source order."""

    def add_head(self, point: InsertionPoint, start: int, end: int) -> None:
        """Make a point the first on every line between two offsets."""


class SiteSearch(Protocol):
    """Search of one parsed text for sites: the interface for event kinds."""

    data: bytes  # The preprocessed text
    is_cxx: bool  # Whether the text is C++

    def add(self, metric: int, function: ParsedFunction, point: InsertionPoint, *, in_constant: bool = False) -> None:
        """Count a metric at a point, or record why it cannot be counted there.

        `in_constant`: The compiler may evaluate the point although the function is not constexpr.
        """

    def add_gauge(self, metric: int, variable: Variable, target: GaugeTarget) -> None:
        """Let a metric read a variable or a part of the variable, or record why it cannot be read."""

    def note_uncounted(self, metric: int, offset: int, reason: str) -> None:
        """Record a point where a metric's event may happen uncounted."""

    def note_names(self, kind: str, names: Iterable[str]) -> None:
        """Record names that a target could have, to explain metrics without a site."""

    def is_in_file(self, metric: int, offset: int) -> bool:
        """Return whether a metric counts in the source file of an offset."""

    def locate(self, offset: int) -> tuple[str, int]:
        """Return the source file and line of an offset."""

    def by_line(self, points: Sequence[InsertionPoint], places: Collection[LineTarget]) -> PointsByLine:
        """Return the points by source line; no points if no target names a line."""

    def callees(self, call: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield the names and the cursor of each function that a call expression may call directly."""

    def is_constant(self, function: Any) -> bool:
        """Return whether a function, given by its cursor, is declared constexpr or consteval."""

    def is_lambda(self, function: Any) -> bool:
        """Return whether a function's cursor is the call operator of a lambda."""

    def references(self, target: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the offset and the function's names wherever user code names a function without calling it."""

    def written_objects(self, function: ParsedFunction, expression: Any) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield the names of each variable and field that an lvalue designates, and whether it is a field."""

    def initialised_names(
        self, variable: Any, function: ParsedFunction | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the names of a variable and of its record type; None if the variable is not initialised."""

    def variable_names(self, cursor: Any, function: ParsedFunction | None) -> tuple[str, ...]:
        """Return a variable's qualified names, `function::x` for a local variable."""

    def is_definition(self, variable: Any) -> bool:
        """Return whether a declaration reserves memory."""
