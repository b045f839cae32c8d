"""Writes to variables and fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unperturbed.instrument.events.kind import (
    NAME,
    WORD,
    Body,
    CompiledKind,
    ParsedFunction,
    Variable,
    is_within,
    matches,
)

_ASSIGNED = r"(?:\[[^]\n]*\])*\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"


class Write(CompiledKind):
    """Kind that counts assignments, increments and decrements of a variable or field, just before each."""

    name = "write"
    keys = ("write",)
    meaning = (
        "assignments, compound assignments, ++ and -- of a variable x, a field Type.field or a local function::x, each "
        "counted before its right side is computed"
    )
    example = "Stack.depth"
    pattern = rf"{NAME}(?:\.{WORD})?"
    form = "a variable x, a field Type.field or a local variable function::x"
    filters = ("in", "file", "add", "threads")
    order = 3
    reads_expressions = True
    reads_records = True
    use = "written"
    named = ("variable", "field")
    enumerating = (("write", "*"), ("gauge", "no_such_variable"))  # only a search for gauges records local variables
    written_as = r"(?:\+\+|--)[\w\s.>-]*\b{0}\b|\b{0}\b" + _ASSIGNED

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count at assignments; record where an address is taken, because writes through pointers are not counted."""
        for point, left in body.assignments:
            for index in self._written(function, left):
                self.search.add(index, function, point)
        for offset, operand in body.addresses:
            for index in self._written(function, operand):
                self.search.note_uncounted(index, offset, "address taken: writes through a pointer are not counted")

    def at_variable(self, variable: Variable) -> None:
        """Record a variable's initialiser, which does not count as an assignment."""
        function = variable.function
        metrics = [pair for pair in self.metrics if function is None or is_within(pair[1], function)]
        if variable.in_system_header or not metrics:
            return
        initialised = self.search.initialised_names(variable.cursor, function)
        if initialised is None:
            return
        names, records = initialised
        for index, metric in metrics:
            holder, is_field, _ = metric.target.rpartition(".")
            if matches(records if is_field else names, holder if is_field else metric.target):
                offset = variable.cursor.location.offset
                self.search.note_uncounted(index, offset, "an initialiser: not counted as a write")

    def _written(self, function: ParsedFunction, expression: Any) -> set[int]:
        """Return the indices of the metrics whose variable or field contains the object that an lvalue designates."""
        metrics = [(index, metric) for index, metric in self.metrics if is_within(metric, function)]
        written = list(self.search.written_objects(function, expression)) if metrics else []
        return {
            index
            for names, is_field in written
            for index, metric in metrics
            if ("." in metric.target) == is_field and matches(names, metric.target)
        }

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return fields, variables, and the words in the target's own scope, because no list contains parameters."""
        scoped = {
            f"{scope}{mark}{word}" for mark in ("::", ".") if (scope := target.rpartition(mark)[0]) for word in words
        }
        return names.get("field", set()) | names.get("variable", set()) | scoped
