"""What a kind of software event is. Each module of `kinds` defines one, and other distributions add theirs.

A distribution names its class in the group `unperturbed.event_kinds`, for example in its pyproject.toml::

    [project.entry-points."unperturbed.event_kinds"]
    goto = "my_package.goto:Goto"

The wrapper of a compiler loads the kinds that are in use, and no others; so a module of a kind imports little.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.targets import LineTarget, Need, Selected, is_glob, name_matches, need_of_name

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event
    from unperturbed.instrument.events.places import Body, Function, Search, Variable

Means = Literal["compiled", "kernel", "preload", "python"]
"""What counts: code compiled into the program, a kernel probe, a preloaded library, Python's import hook."""

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
    named: ClassVar[tuple[str, ...]] = ("function",)
    enumerating: ClassVar[tuple[tuple[str, str], ...]] = (("enter", "*"),)
    written_as: ClassVar[str] = ""
    happens: ClassVar[str] = "is in"
    happens_outside: ClassVar[bool] = False
    at_line: ClassVar[str] = "statement"

    def __init__(self, search: Search, metrics: Sequence[tuple[int, Selected]]) -> None:
        self.search = search
        self.metrics = metrics

    def at_function(self, function: Function) -> None:
        """Add the sites of a function as a whole."""

    def in_body(self, function: Function, body: Body) -> None:
        """Add the sites of a function's body. Not every body is read: see `within_bodies`."""

    def at_variable(self, variable: Variable) -> None:
        """Add the sites of a variable's declaration."""

    def in_text(self) -> None:
        """Add what is known of the text as a whole, after all functions."""

    @classmethod
    def need(cls, event: Event) -> Need:
        """Return what a text must contain to hold a site."""
        return need_of_name(event, event.target)

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:
        """Return file and line of a target that names these; None for others."""
        del target
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
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
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
        del target, words
        return names.get("function", set())

    @classmethod
    def propose_further(cls, words: Sequence[str]) -> Sequence[str]:
        """Return targets to try in a source where none of the proposed has a site."""
        del words
        return ()

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return why a target has no site where the kind knows more than the nearest names; '' where it does not."""
        target = event.target.partition("#")[0]
        overloads = [
            name for name in names.parsed("overload") if name_matches(name.partition("(")[0], target.partition("(")[0])
        ]
        if "(" in target and overloads:
            return f"what has that name is {first_of(sorted(overloads), 12)}"
        scope = target.partition("(")[0].rpartition("::")[0]
        lambdas = [name for name in names.parsed("lambda") if scope and name_matches(name.rpartition("::")[0], scope)]
        return f"the lambdas there are {first_of(sorted(lambdas), 12)}" if lambdas else ""


def matches(names: Sequence[str], pattern: str) -> bool:
    """Return whether a pattern matches one of the names of a function or variable."""
    return any(name_matches(name, pattern) for name in names)


def is_within(metric: Selected, function: Function) -> bool:
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
