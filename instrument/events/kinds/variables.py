"""Variables: written, or read at each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.kind import (
    NAME,
    PLAIN,
    WORD,
    Body,
    BuildNames,
    CompiledKind,
    ParsedFunction,
    SiteSearch,
    Variable,
    is_within,
    matches,
)
from unperturbed.instrument.events.targets import Need, Selected, file_matches, need_of_name, split_gauge

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event

_ASSIGNED = r"(?:\[[^]\n]*\])*\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"


class Write(CompiledKind):
    """A variable or a field is assigned, incremented or decremented."""

    name = "write"
    keys = ("write",)
    meaning = "an assignment, compound assignment, ++ or -- of a variable x, a field Type.field or a local function::x"
    example = "Stack.depth"
    pattern = rf"{NAME}(?:\.{WORD})?"
    form = "a variable x, a field Type.field or a local function::x"
    filters = ("in", "file", "add", "threads")
    order = 3
    reads_expressions = True
    reads_records = True
    named = ("variable", "field")
    enumerating = (("write", "*"), ("gauge", "no_such_variable"))  # local variables are noted for gauges alone
    written_as = r"(?:\+\+|--)[\w\s.>-]*\b{0}\b|\b{0}\b" + _ASSIGNED

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count at assignments; note where an address is taken, as writes through it are not counted."""
        for point, left in body.assignments:
            for index in self._written(function, left):
                self.search.add(index, function, point)
        for offset, operand in body.addresses:
            for index in self._written(function, operand):
                self.search.note_uncounted(index, offset, "address taken: writes through it are not counted")

    def at_variable(self, variable: Variable) -> None:
        """Note a variable that is initialised where it is declared, which is not an assignment."""
        function = variable.function
        metrics = [pair for pair in self.metrics if function is None or is_within(pair[1], function)]
        if variable.in_system_header or not metrics:
            return
        found = self.search.initialised_names(variable.cursor, function)
        if found is None:
            return
        names, records = found
        for index, metric in metrics:
            holder, is_field, _ = metric.target.rpartition(".")
            if matches(records if is_field else names, holder if is_field else metric.target):
                offset = variable.cursor.location.offset
                self.search.note_uncounted(index, offset, "an initialiser: not counted as a write")

    def _written(self, function: ParsedFunction, expression: Any) -> set[int]:
        """Return the indices of the metrics whose variable or field holds the object that an lvalue designates."""
        metrics = [(index, metric) for index, metric in self.metrics if is_within(metric, function)]
        found: set[int] = set()
        for names, is_field in self.search.written_objects(function, expression) if metrics else ():
            found |= {
                index
                for index, metric in metrics
                if ("." in metric.target) == is_field and matches(names, metric.target)
            }
        return found

    @classmethod
    def need(cls, event: Event) -> Need:
        """Return the need of a name that is written."""
        return need_of_name(event, event.target, use="written")

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return the fields and variables, and the words in the target's own scope: parameters are in no list."""
        scoped = {
            f"{scope}{mark}{word}" for mark in ("::", ".") if (scope := target.rpartition(mark)[0]) for word in words
        }
        return names.get("field", set()) | names.get("variable", set()) | scoped


class Gauge(CompiledKind):
    """No event, but a variable's value at each sample."""

    name = "gauge"
    keys = ("gauge",)
    meaning = (
        "no event, but a value at each sample: of a variable x with static storage, function::x, or a part of it, "
        "x.field"
    )
    example = "server.c::queue.length"
    pattern = rf"(?:::)?(?:[^\s:]+::)*{PLAIN}(?:\.{PLAIN}|\[\d+\])*"
    form = "a variable x, file.c::x, ns::x or function::x, or a part of it such as x.field or x[2]"
    filters = ("file",)
    semantics = "gauge"
    order = 8
    reads_expressions = True
    named = ("variable",)
    enumerating = (("write", "*"), ("gauge", "no_such_variable"))
    written_as = r"\b{0}\b"
    happens_outside = True

    def __init__(self, search: SiteSearch, metrics: Sequence[tuple[int, Selected]]) -> None:
        super().__init__(search, metrics)
        self._targets = {index: split_gauge(metric.target) for index, metric in metrics}

    def at_variable(self, variable: Variable) -> None:
        """Read the variable, if its declaration is the definition that a target names."""
        names = self.search.variable_names(variable.cursor, variable.function)
        if variable.function is not None:
            self.search.note_names("variable", names[:1])
        at = variable.cursor.location.offset
        for index, target in self._targets.items():
            if not matches(names, target.name) or not self.search.is_definition(variable.cursor):
                continue
            if target.file and not file_matches(self.search.locate(at)[0], target.file):
                continue
            if self.search.is_in_file(index, at):
                self.search.add_gauge(index, variable, target)

    @classmethod
    def need(cls, event: Event) -> Need:
        """Return the need of a variable that is defined."""
        target = split_gauge(event.target)
        need = need_of_name(event, target.name, use="stored")
        return need._replace(
            inner=target.variable, used=target.variable, files=(*need.files, *((target.file,) if target.file else ()))
        )

    @classmethod
    def reaches_system_headers(cls, target: str) -> bool:
        """Return True: a variable is named by itself."""
        del target
        return True

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the variable's own name."""
        return split_gauge(target).variable

    @classmethod
    def file_of(cls, event: Event) -> str:
        """Return `file:`, or the file in the target."""
        return event.file or split_gauge(event.target).file

    @classmethod
    def without_file(cls, target: str) -> str:
        """Return the target without its file."""
        file = split_gauge(target).file
        return target[len(file) + 2 :] if file else target

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return variables, with fields, and with the parts that the target has."""
        variables = names.get("variable", set())
        parts = target[len(split_gauge(target).name) :]
        fields = {f"{name}.{word}" for name in variables for word in words}
        return variables | fields | {name + parts for name in variables}

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return where the variable's name is found, if that is not where the target has it."""
        target = split_gauge(event.target)
        known, near = names.known(cls.named), names.similar(event)
        scoped = sorted(
            name for name in {*known, *near} if name.endswith(f"::{target.variable}") and name != target.name
        )
        if scoped:
            return f"{target.variable} is the name of {first_of(scoped, 3)}"
        if target.name in known and not near:
            return (
                f"{target.name} is named there, but none of the sources defines it (a variable in a function is "
                "function::variable)"
            )
        return ""
