"""Values of variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.kind import PLAIN, BuildNames, CompiledKind, SiteSearch, Variable, matches
from unperturbed.instrument.events.targets import Need, Selected, file_matches, need_of_name, split_gauge

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


class Gauge(CompiledKind):
    """Kind that reads a variable's value at each sample, instead of counting events."""

    name = "gauge"
    keys = ("gauge",)
    meaning = (
        "no event, but the value at each sample of a variable with static storage: x, function::x, or a part such as "
        "x.field"
    )
    example = "server.c::queue.length"
    pattern = rf"(?:::)?(?:[^\s:]+::)*{PLAIN}(?:\.{PLAIN}|\[\d+\])*"
    form = "a variable x, file.c::x, ns::x or function::x, or a part such as x.field or x[2]"
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
        """Add a gauge for each target whose variable this declaration defines."""
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
        """Return what a text must contain to define the variable."""
        target = split_gauge(event.target)
        need = need_of_name(event, target.name, use="stored")
        files = (*need.files, target.file) if target.file else need.files
        return need._replace(inner=target.variable, used=target.variable, files=files)

    @classmethod
    def reaches_system_headers(cls, target: str) -> bool:
        """Return True: a target names a single variable, which may be in a system header."""
        return True

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the variable's own name."""
        return split_gauge(target).variable

    @classmethod
    def file_of(cls, event: Event) -> str:
        """Return the glob of `file:`, or the file in the target."""
        return event.file or split_gauge(event.target).file

    @classmethod
    def without_file(cls, target: str) -> str:
        """Return the target without its file."""
        file = split_gauge(target).file
        return target[len(file) + 2 :] if file else target

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return variables: alone, with each word as a field, and with the target's own parts."""
        variables = names.get("variable", set())
        parts = target[len(split_gauge(target).name) :]
        fields = {f"{name}.{word}" for name in variables for word in words}
        return variables | fields | {name + parts for name in variables}

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return the other scopes that contain the variable's name, or a note that no source defines the variable."""
        target = split_gauge(event.target)
        known, near = names.known(cls.named), names.similar(event)
        others = {*known, *near} - {target.name}
        if scoped := sorted(name for name in others if name.endswith(f"::{target.variable}")):
            return f"`{target.variable}` exists as {first_of(scoped, 3)}"
        if target.name in known and not near:
            undefined = f"the sources use `{target.name}`, but none of them defines it"
            return f"{undefined} (write a local variable as `function::variable`)"
        return ""
