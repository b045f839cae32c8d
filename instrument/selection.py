"""What the selected metrics ask of a text: which names, lines and files they mean, and which pieces of it may hold their sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from unperturbed.instrument.prefilter import Need, can_hold_site
from unperturbed.instrument.targets import LineTarget, file_matches, is_glob, name_matches, split_gauge, split_line

if TYPE_CHECKING:
    from unperturbed.instrument.body import Spot
    from unperturbed.instrument.declarations import Function
    from unperturbed.instrument.preprocessed import PreprocessedText
    from unperturbed.instrument.settings import Selected

__all__ = ["Selection", "is_within", "matches", "on_line"]


class Selection:
    """The metrics whose events are looked for in one text; each is known by its index.

    Attributes
    ----------
    metrics : in the order of their indices.
    lines : index → the line that a metric names instead of a function.
    gauges : index → the variable that it reads.
    inside : indices of those that happen within bodies, and not at their beginning alone.
    reaching_system : indices of those that count in system headers too.
    """

    def __init__(self, text: PreprocessedText, metrics: Sequence[Selected]) -> None:
        self.metrics = metrics
        self.lines = {index: place for index, event in enumerate(metrics) if (place := _line_of(event)) is not None}
        self.gauges = {index: split_gauge(event.target) for index, event in enumerate(metrics) if event.kind == "gauge"}
        self.inside = frozenset(index for index, event in enumerate(metrics) if event.kind != "enter")
        self.reaching_system = frozenset(index for index, event in enumerate(metrics) if self._reaches_system(index, event))
        self._text = text
        # Within a piece of the text only the innermost name need stand; namespaces and classes may be opened before it.
        self._needs = [_needed_within(metric.need) for metric in metrics]
        self._inner = [metric.need.inner.encode() for metric in metrics]
        self._by_kind: dict[str, list[tuple[int, Selected]]] = {}
        for index, event in enumerate(metrics):
            self._by_kind.setdefault(event.kind, []).append((index, event))

    def of_kind(self, kind: str) -> list[tuple[int, Selected]]:
        """Return the metrics of a kind of event, with their indices."""
        return self._by_kind.get(kind, [])

    def is_in_file(self, index: int, offset: int) -> bool:
        """Tell whether a metric counts in the file that an offset came from."""
        event = self.metrics[index]
        if event.file is not None:
            return file_matches(self._text.locate(offset)[0], event.file)
        return index in self.reaching_system or not self._text.is_system(offset)

    def may_count(self, start: int, end: int, *, among: frozenset[int] | None = None) -> bool:
        """Tell whether a piece of the text may hold sites of the metrics (of those `among` them)."""
        piece = self._text.data[start:end]
        ends = (self._text.locate(start), self._text.locate(end - 1)) if self.lines else None
        for index in range(len(self.metrics)):
            if among is not None and index not in among:
                continue
            if ends is not None and index in self.lines:
                if _reaches(*ends, self.lines[index]):
                    return True
            elif self._inner[index] in piece and can_hold_site(self._text, [self._needs[index]], piece):
                return True
        return False

    def _reaches_system(self, index: int, event: Selected) -> bool:
        return event.file is not None or index in self.lines or index in self.gauges or not is_glob(event.target)


def on_line(by_line: dict[int, list[tuple[str, Spot]]], target: LineTarget) -> Iterator[Spot]:
    """Return the spots, sorted by line with their files, on the line that a target names."""
    return (spot for file, spot in by_line.get(target[1], ()) if file_matches(file, target[0]))


def matches(names: Sequence[str], pattern: str) -> bool:
    """Tell whether one of the names that a thing has is meant by a pattern."""
    return any(name_matches(name, pattern) for name in names)


def is_within(event: Selected, function: Function) -> bool:
    """Tell whether a metric counts in a function, as far as its `in:` says."""
    return event.within is None or matches(function.names, event.within)


def _needed_within(need: Need) -> Need:
    return need._replace(words=(need.inner,) if need.inner else (), files=())


def _line_of(event: Selected) -> LineTarget | None:
    return split_line(event.target) if event.kind in ("line", "loop") else None


def _reaches(first: tuple[str, int], last: tuple[str, int], target: LineTarget) -> bool:
    """Tell whether a target lies between two places; they may also enclose text of another file."""
    return first[0] != last[0] or (file_matches(first[0], target[0]) and first[1] <= target[1] <= last[1])
