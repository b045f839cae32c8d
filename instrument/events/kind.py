"""Kinds of software events, and their view of a parsed text. Each module of `kinds` defines one.

Other distributions add theirs: they name a class in the group `unperturbed.event_kinds`, as in this pyproject.toml::

    [project.entry-points."unperturbed.event_kinds"]
    goto = "my_package.goto:Goto"

The wrapper of a compiler loads the kinds that are in use, and no others; so a module of a kind imports little. It sees
functions, what happens in bodies, and where that can be counted: `finding` fills these from libclang's syntax tree, and
a kind needs no libclang of its own.
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


Means = Literal["compiled", "kernel", "preload", "python"]
"""The means of counting: code compiled into the program, a kernel probe, a preloaded library, Python's import hook."""

WORD = r"[\w$*?[~][]\w$*?![~-]*"
NAME = rf"(?:::)?{WORD}(?:::{WORD})*"
FUNCTION = rf"{NAME}(?:\(.*\))?|(?:{NAME}::)?operator\b.*"
FILE_LINE = r"[^:]*[^:\s][^:]*:[1-9]\d*"
PLAIN = r"[A-Za-z_$][\w$]*"
"""Patterns of targets: a name or glob without scopes, with scopes, a function's, `file.c:120`, a plain C name."""

FUNCTION_FORM = "a function's name, such as f, sort_* or ns::f"

GROUPS: Mapping[str, str] = {
    "probe": "An event that the kernel counts in a binary, without its source.",
    "python": "An event of a program that is written in Python.",
}
"""Keys of a spec below which several kinds are, and what they have in common."""


class EventKind:
    """A kind of event that a software metric counts.

    Attributes
    ----------
    name : str
        What `Event.kind` is.
    keys : tuple of str
        Where a spec's event has the target: `("enter",)`, or below a key of `GROUPS`, `("probe", "uprobe")`.
    meaning : str
        What is counted, and the forms of the target: one line for help, reference and JSON Schema.
    example : str
        A target.
    pattern : str
        Regular expression that a whole target matches.
    form : str
        How an error describes it.
    filters : tuple of str
        Which of a spec's `in`, `file`, `add` and `threads` have a meaning with it.
    means : {"compiled", "kernel", "preload", "python"}
        What counts.
    semantics : {"counter", "gauge"}
        Whether the metric counts, or is a value at the end of an interval.
    order : int
        Its place in lists; later numbers are further down.
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
        """Return what an error adds for a target of the wrong form, beginning with a space; '' for nothing."""
        return " (one site serves all instantiations of a template: leave <…> out)" if "<" in target else ""


class ProbeKind(EventKind):
    """A kind that the kernel counts at a place in a binary.

    Attributes
    ----------
    place : str
        What kind of place it is, in words.
    """

    means = "kernel"
    place: ClassVar[str]

    @classmethod
    def find(cls, binary: Any, target: str) -> Sequence[tuple[str, int, int]]:
        """Return the places in a binary that a target means.

        Parameters
        ----------
        binary : Any
            As `instrument.binaries.read_binary` returns it.
        target : str
            The target without the binary.

        Returns
        -------
        sequence of tuple of str, int and int
            Symbol, offset in the file, and offset of the counter that makes the program prepare the probe's arguments
            (0 for none).

        Raises
        ------
        SpecError
            The binary has no such place.
        """
        raise NotImplementedError


class BuildNames(Protocol):
    """The names in a build's sources, for the message of a metric without a site."""

    def parsed(self, part: str) -> set[str]:
        """Return the names of one part (`function`, `label`, `loop`, …) that parses found."""

    def known(self, parts: Collection[str]) -> set[str]:
        """Return the names of some parts that parses found or that the sources contain."""

    def similar(self, event: Event) -> tuple[str, ...]:
        """Return the targets nearest to an event's that have a site."""

    def labels(self, function: str) -> set[str]:
        """Return the labels `function::label` of functions of a name."""

    def files_of(self, function: str) -> list[str]:
        """Return the files that define a function."""


class CompiledKind(EventKind):
    """A kind that is compiled into the program. An object of it searches one parsed text for the sites of its metrics.

    Attributes
    ----------
    search : Search
        The search of the text.
    metrics : sequence of tuple of int and Selected
        The metrics of this kind, with their indices in the search.
    within_bodies : bool
        Sites are inside bodies, not at their beginnings alone.
    reads_expressions : bool
        Sites are inside expressions and declarations, so that a body's walk must enter these.
    reads_records : bool
        Names of targets include a record's typedefs.
    use : {"defined", "called", "written"}
        What must happen to the target's name in a text that holds a site.
    named : tuple of str
        What a target may name: `function`, `variable`, `field`, `label`, `loop`, `line`.
    enumerating : tuple of tuple of str
        Kind and target of events whose search notes every name that a target of this kind could have.
    written_as : str
        Regular expression of how the name `{0}` is written where the event happens; '' for what happens in functions
        of the name.
    happens : str
        What an error says of a file that contains the name.
    happens_outside : bool
        It may happen outside functions.
    at_line : str
        What begins on a line that a target names.
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
        """Add the sites of a function as a whole."""

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Add the sites of a function's body. Not every body is read: see `within_bodies`."""

    def at_variable(self, variable: Variable) -> None:
        """Add the sites of a variable's declaration."""

    def in_text(self) -> None:
        """Add what is known of the text as a whole, after all functions."""

    @classmethod
    def need(cls, event: Event) -> Need:
        """Return what a text must contain to hold a site."""
        return need_of_name(event, event.target, use=cls.use)

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:  # noqa: ARG003  kinds of lines use it
        """Return file and line of a target that names these; None for others."""
        return None

    @classmethod
    def reaches_system_headers(cls, target: str) -> bool:
        """Return whether sites in system headers count though `file` does not name them; a glob's do not."""
        return cls.line_of(target) is not None or not is_glob(target)

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the name of the function (or variable) that a target is looked for in."""
        return target

    @classmethod
    def file_of(cls, event: Event) -> str:
        """Return the glob over files to which an event is limited; '' for none."""
        return event.file or ""

    @classmethod
    def without_file(cls, target: str) -> str:
        """Return a target without a file that is part of it."""
        return target

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:  # noqa: ARG003
        """Return targets that may have been meant, whether they have a site or not.

        Parameters
        ----------
        target : str
            The target without a site.
        names : mapping of str to set of str
            The names of one source, by part as in `named`.
        words : sequence of str
            Words of the sources that are like the target's.

        Returns
        -------
        set of str
            Only those that are near the target will be tried.
        """
        return names.get("function", set())

    @classmethod
    def propose_further(cls, words: Sequence[str]) -> Sequence[str]:  # noqa: ARG003
        """Return targets to try in a source where none of the proposed has a site."""
        return ()

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return why a target has no site where the kind knows more than the nearest names; '' where it does not."""
        plain, has_parameters, _ = event.target.partition("#")[0].partition("(")
        overloads = [name for name in names.parsed("overload") if name_matches(name.partition("(")[0], plain)]
        if has_parameters and overloads:
            return f"overloads of that name: {first_of(sorted(overloads), 12)}"
        scope = plain.rpartition("::")[0]
        lambdas = [name for name in names.parsed("lambda") if scope and name_matches(name.rpartition("::")[0], scope)]
        return f"its lambdas are {first_of(sorted(lambdas), 12)}" if lambdas else ""


def matches(names: Sequence[str], pattern: str) -> bool:
    """Return whether a pattern matches one of the names of a function or variable."""
    return any(name_matches(name, pattern) for name in names)


def is_within(metric: Selected, function: ParsedFunction) -> bool:
    """Return whether a metric counts in a function, according to its `in:`."""
    return metric.within is None or matches(function.names, metric.within)


def loader_of(kind: type[EventKind]) -> tuple[str, str]:
    """Return `module:class` of a kind, and the folder to import another distribution's module from ('' for ours)."""
    module = kind.__module__
    if module.startswith("unperturbed."):
        return f"{module}:{kind.__qualname__}", ""
    from pathlib import Path  # noqa: PLC0415  the wrapper of a compiler loads kinds without it

    file = Path(sys.modules[module].__file__ or "")
    levels = module.count(".") + (file.name == "__init__.py")
    return f"{module}:{kind.__qualname__}", str(file.absolute().parents[levels])


def load_kind(loader: str, folder: str = "") -> type[CompiledKind]:
    """Return the kind that `loader_of` described, in a process that knows no entry points."""
    if folder and folder not in sys.path:
        sys.path.append(folder)
    module, _, name = loader.partition(":")
    kind: type[CompiledKind] = getattr(importlib.import_module(module), name)
    return kind


def matches_form(kind: type[EventKind], target: str) -> bool:
    """Return whether a target has the form that a kind wants."""
    return re.fullmatch(kind.pattern, target) is not None


class InsertionPoint(NamedTuple):
    """Where counting text goes."""

    # `block`: a statement may be inserted at `start`. `bare`: a prefix that makes one statement of what follows.
    # `expression`: the text from `start` to `end` is one expression. `gauge`: a declaration may be inserted.
    form: str
    start: int  # Byte offset
    end: int
    at: int  # Byte offset that gives file and line of the event


class ParsedFunction(NamedTuple):
    """A function with a body."""

    names: tuple[str, ...]  # Qualified names, the usual one first; the last one with parameter types, `ns::f(int,char)`
    cursor: Any  # libclang's cursor
    body: Any  # Cursor of the body's compound statement
    start: int  # Byte offset of the whole definition
    end: int
    opening: int  # Offset behind the body's `{`, where a statement may be inserted
    closing: int  # Offset of the body's `}`
    constant: bool  # Declared constexpr or consteval, so that it may run in the compiler
    is_lambda: bool = False  # It is a lambda's
    outer: ParsedFunction | None = None  # The one around this one (a lambda, a method of a local class)


class Body(NamedTuple):
    """Contents of a function's body in the order of the text, without those of nested functions."""

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
    """A variable's declaration."""

    cursor: Any  # libclang's cursor
    outermost: Any  # Cursor of the declaration on the text's top level that contains it
    function: ParsedFunction | None  # The function that declares it
    in_block: bool  # A statement may follow the declaration
    in_system_header: bool = False  # It is outside all functions, in a system header


class PointsByLine(Protocol):
    """Points of a function by the line that they are on."""

    def at(self, place: LineTarget) -> list[InsertionPoint]:
        """Return the points on the line that a target names, in the order of the text."""

    def add_head(self, point: InsertionPoint, start: int, end: int) -> None:
        """Have the lines from one offset to another mean a point first."""


class SiteSearch(Protocol):
    """The search of one parsed text for sites, as a kind of event sees it."""

    data: bytes  # The preprocessed text
    is_cxx: bool  # It is C++

    def add(self, metric: int, function: ParsedFunction, point: InsertionPoint, *, in_constant: bool = False) -> None:
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

    def written_objects(self, function: ParsedFunction, expression: Any) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield the names of each variable and field that an lvalue designates, and whether it is a field."""

    def initialised_names(
        self, variable: Any, function: ParsedFunction | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the names of a variable that is initialised, and those of its record type; None for others."""

    def variable_names(self, cursor: Any, function: ParsedFunction | None) -> tuple[str, ...]:
        """Return a variable's qualified names, `function::x` for a local one."""

    def is_definition(self, variable: Any) -> bool:
        """Return whether a declaration reserves memory."""
