"""Labels in functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.kind import NAME, WORD, Body, BuildNames, CompiledKind, ParsedFunction, matches
from unperturbed.instrument.events.targets import Need, name_matches, need_of_name

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


class Label(CompiledKind):
    """Kind that counts arrivals at a label, by goto or from the statement before the label."""

    name = "label"
    keys = ("label",)
    meaning = "arrivals at a label, by goto or from the statement before the label: function::label"
    example = "decode::finish"
    pattern = rf"{NAME}::{WORD}"
    form = "function::label"
    order = 6
    named = ("label",)
    enumerating = (("label", "*::*"),)

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count just after each label."""
        for index, metric in self.metrics:
            scope, _, wanted = metric.target.rpartition("::")
            if not matches(function.names, scope):
                continue
            self.search.note_names("label", (f"{function.names[0]}::{label}" for label, _ in body.labels))
            for label, point in body.labels:
                if name_matches(label, wanted):
                    self.search.add(index, function, point)

    @classmethod
    def need(cls, event: Event) -> Need:
        """Require that the text contains both names and defines the function."""
        return need_of_name(event, event.target, used=cls.owner(event.target))

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the function that contains the label."""
        return target.rpartition("::")[0]

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return all labels."""
        return names.get("label", set())

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return the labels in the function, if any."""
        scope = cls.owner(event.target)
        labels = [name for name in names.parsed("label") if name_matches(cls.owner(name), scope)]
        labels = labels or list(names.labels(scope))
        return f"the labels in `{scope}` are {first_of(sorted(labels), 12)}" if labels else ""
