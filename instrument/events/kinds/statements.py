"""Statements: iterations of loops, lines of the source, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.common.wording import first_of
from unperturbed.instrument.events.kind import (
    FILE_LINE,
    NAME,
    WORD,
    Body,
    BuildNames,
    CompiledKind,
    InsertionPoint,
    ParsedFunction,
    SiteSearch,
    matches,
)
from unperturbed.instrument.events.targets import (
    LineTarget,
    Need,
    Selected,
    is_glob,
    name_matches,
    need_of_name,
    split_line,
)

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


class Loop(CompiledKind):
    """An iteration of a loop begins."""

    name = "loop"
    keys = ("loop",)
    meaning = "an iteration begins: f (every loop in f), f#n (the nth loop of f, from 1) or file.c:120"
    example = "sort#1"
    pattern = rf"{NAME}(?:#[1-9]\d*)?|{FILE_LINE}"
    form = "f, f#1 or file.c:120"
    order = 4
    named = ("function", "loop", "line")
    enumerating = (("loop", "*"),)
    at_line = "loop"

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count at the beginning of each iteration."""
        by_line = self.search.by_line(body.loops, self.places.values())
        for index, metric in self.metrics:
            if index in self.places:
                chosen = by_line.at(self.places[index])[:1]
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
        """Return the need of the function, or of the file."""
        place = split_line(event.target)
        if place is not None:
            return Need((), "", "", "", (*((event.file,) if event.file else ()), place[0]))
        return need_of_name(event, cls.owner(event.target))

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:
        """Return file and line of `file.c:120`."""
        return split_line(target)

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the function."""
        return target.partition("#")[0]

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return loops, with their numbers if the target has one."""
        if split_line(target) is not None:
            return names.get("line", set())
        loops = names.get("loop", set())
        return loops if "#" in target else {cls.owner(name) for name in loops}

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return that a function is there and has no loop."""
        name = cls.owner(event.target)
        if more := super().explain(event, names):
            return more
        if (
            is_glob(name)
            or split_line(event.target)
            or any(cls.owner(similar) == name for similar in names.similar(event))
        ):
            return ""
        files = names.files_of(name)
        return f"{name} is in {first_of(list(dict.fromkeys(files)), 3)}, and has no loop" if files else ""


class Line(CompiledKind):
    """The first statement that begins on a line is reached."""

    name = "line"
    keys = ("line",)
    meaning = "the first statement that starts on a line is reached: file.c:120"
    example = "compress.c:170"
    pattern = FILE_LINE
    form = "file.c:120"
    order = 5
    named = ("line",)
    enumerating = (("return", "*"),)

    def __init__(self, search: SiteSearch, metrics: Sequence[tuple[int, Selected]]) -> None:
        super().__init__(search, metrics)
        self._counted: set[tuple[int, int]] = set()

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count at the first statement on the line; the lines of a function's head mean its opening brace."""
        by_line = self.search.by_line([point for _, point in body.statements], self.places.values())
        if not function.is_lambda:
            head = InsertionPoint("block", function.opening, function.opening, function.start)
            by_line.add_head(head, function.start, function.opening - 1)
        outermost = function
        while outermost.outer is not None:
            outermost = outermost.outer
        for index, place in self.places.items():
            points = by_line.at(place)[:1]
            # What a lambda or a local class does on a line comes after the statement that contains it.
            if points and (function is outermost or (index, outermost.start) not in self._counted):
                self._counted.add((index, outermost.start))
                self.search.add(index, function, points[0])

    @classmethod
    def need(cls, event: Event) -> Need:
        """Return the need of the file."""
        place = split_line(event.target)
        return Need((), "", "", "", (*((event.file,) if event.file else ()), *((place[0],) if place else ())))

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:
        """Return file and line."""
        return split_line(target)

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return the lines on which statements begin."""
        return names.get("line", set())


class Label(CompiledKind):
    """A label is reached, by goto or from above."""

    name = "label"
    keys = ("label",)
    meaning = "a label is reached, by goto or from above: function::label"
    example = "decode::finish"
    pattern = rf"{NAME}::{WORD}"
    form = "function::label"
    order = 6
    named = ("label",)
    enumerating = (("label", "*::*"),)

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count behind the labels."""
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
        """Return the need of both names, of which the function is defined."""
        return need_of_name(event, event.target, used=cls.owner(event.target))

    @classmethod
    def owner(cls, target: str) -> str:
        """Return the function."""
        return target.rpartition("::")[0]

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return the labels."""
        return names.get("label", set())

    @classmethod
    def explain(cls, event: Event, names: BuildNames) -> str:
        """Return the labels that the function has."""
        scope = cls.owner(event.target)
        labels = [name for name in names.parsed("label") if name_matches(cls.owner(name), scope)]
        labels = labels or list(names.labels(scope))
        return f"the labels there are {first_of(sorted(labels), 12)}" if labels else ""
