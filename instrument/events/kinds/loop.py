"""Loop iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.kind import (
    FILE_LINE,
    NAME,
    Body,
    BuildNames,
    CompiledKind,
    ParsedFunction,
    SiteSearch,
    matches,
)
from unperturbed.instrument.events.targets import LineTarget, Need, Selected, is_glob, need_of_name, split_line

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


class Loop(CompiledKind):
    """Kind that counts iterations of a loop, at the beginning of each."""

    name = "loop"
    keys = ("loop",)
    meaning = "iterations of a loop: f (every loop in f), f#n (the nth loop in f, from 1) or file.c:120"
    example = "sort#1"
    pattern = rf"{NAME}(?:#[1-9]\d*)?|{FILE_LINE}"
    form = "f, f#1 or file.c:120"
    order = 4
    named = ("function", "loop", "line")
    enumerating = (("loop", "*"),)
    at_line = "loop"

    def __init__(self, search: SiteSearch, metrics: Sequence[tuple[int, Selected]]) -> None:
        super().__init__(search, metrics)
        self._places = {index: place for index, metric in metrics if (place := split_line(metric.target))}

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count at the beginning of each iteration."""
        by_line = self.search.by_line(body.loops, self._places.values())
        for index, metric in self.metrics:
            if index in self._places:
                chosen = by_line.at(self._places[index])[:1]
            else:
                name, _, number = metric.target.partition("#")
                if not matches(function.names, name):
                    continue
                self.search.note_names("loop", (f"{function.names[0]}#{n}" for n in range(1, 1 + len(body.loops))))
                chosen = body.loops[int(number) - 1 : int(number)] if number else body.loops
            for point in chosen:
                self.search.add(index, function, point)

    @classmethod
    def need(cls, event: Event) -> Need:
        """Require that the text defines the function, or contains lines of the file."""
        place = split_line(event.target)
        if place is not None:
            return Need((), "", "", "", (*((event.file,) if event.file else ()), place[0]))
        return need_of_name(event, cls.owner(event.target))

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:
        """Return file and line of a target such as `file.c:120`; None for other targets."""
        return split_line(target)

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the function that contains the loop."""
        return target.partition("#")[0]

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return lines, loops with numbers, or functions with loops, depending on the target's form."""
        if split_line(target) is not None:
            return names.get("line", set())
        loops = names.get("loop", set())
        return loops if "#" in target else {cls.owner(name) for name in loops}

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return a reason, such as that the function exists but contains no loop."""
        name = cls.owner(event.target)
        if more := super().explain(event, names):
            return more
        if is_glob(name) or split_line(event.target) or name in map(cls.owner, names.similar(event)):
            return ""
        files = names.files_of(name)
        return f"`{name}` is in {first_of(list(dict.fromkeys(files)), 3)}, but contains no loop" if files else ""
