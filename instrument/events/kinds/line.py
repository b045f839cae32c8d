"""Source lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unperturbed.instrument.events.kind import FILE_LINE, Body, CompiledKind, InsertionPoint, ParsedFunction, SiteSearch
from unperturbed.instrument.events.targets import LineTarget, Need, Selected, split_line

if TYPE_CHECKING:
    from unperturbed.instrument.events.event import Event


class Line(CompiledKind):
    """Kind that counts executions of the first statement that begins on a line."""

    name = "line"
    keys = ("line",)
    meaning = "executions of the first statement that begins on a line: file.c:120"
    example = "compress.c:170"
    pattern = FILE_LINE
    form = "file.c:120"
    order = 5
    named = ("line",)
    enumerating = (("return", "*"),)

    def __init__(self, search: SiteSearch, metrics: Sequence[tuple[int, Selected]]) -> None:
        super().__init__(search, metrics)
        self._places = {index: place for index, metric in metrics if (place := split_line(metric.target))}
        self._counted: set[tuple[int, int]] = set()

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count at the first statement on the line; for the lines of a function's head, at its opening brace."""
        by_line = self.search.by_line([point for _, point in body.statements], self._places.values())
        if not function.is_lambda:
            head = InsertionPoint("block", function.opening, function.opening, function.start)
            by_line.add_head(head, function.start, function.opening - 1)
        outermost = function
        while outermost.outer is not None:
            outermost = outermost.outer
        for index, place in self._places.items():
            points = by_line.at(place)[:1]
            # On the same line, a statement comes before the lambda or local class that it contains.
            if points and (function is outermost or (index, outermost.start) not in self._counted):
                self._counted.add((index, outermost.start))
                self.search.add(index, function, points[0])

    @classmethod
    def need(cls, event: Event) -> Need:
        """Require that the text contains lines of the file."""
        place = split_line(event.target)
        return Need((), "", "", "", (*((event.file,) if event.file else ()), *((place[0],) if place else ())))

    @classmethod
    def line_of(cls, target: str) -> LineTarget | None:
        """Return the target's file and line."""
        return split_line(target)

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return the lines on which statements begin."""
        return names.get("line", set())
