"""The choice of metrics in C++: overloads, templates, what the compiler makes itself, and what gcov cannot tell."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.instrument.real.choice import Choice
from tests.instrument.real.gcov import Coverage, Function
from unperturbed.instrument.finding.site_log import SiteReport

_CONSTANT = "constexpr|CONSTEXPR"


class CxxChoice(Choice):
    """As `Choice`, with what C++ needs.

    gcc evaluates some calls of constexpr functions in the compiler, but not those that hold a counter: of these gcov
    tells the least number only. It has no numbers of its own for functions that are always inlined.

    Parameters
    ----------
    inlined : pattern in the head of functions that are always inlined.
    """

    def __init__(self, coverage: Coverage, sources: Iterable[Path], *, inlined: str | None = None) -> None:
        super().__init__(coverage, sources)
        self._inlined = inlined
        self._least: set[str] = set()

    def names(self, most: int | None = None) -> None:
        """Choose `enter:` of the qualified names that are entered most often, and of all lambdas.

        `settle` says what they must count.
        """
        for place, (name, count) in enumerate(self.coverage.by_name(self.texts).most_common()):
            chosen = count and (most is None or place < most or "::lambda" in name)
            if chosen and re.fullmatch(r"[\w:~]+(?:operator.*)?", name):
                self.software[f"enter {name}"] = {"enter": name}

    def heads(self) -> None:
        """Choose `line:` of the line where a function's head stands, for each overload and template by itself."""
        for file, text in self.texts.items():
            functions = [function for function in self.coverage.functions if function.file == file]
            heads = Counter(function.first for function in functions)
            for function in functions:
                line, count = function.first, self.coverage.functions[function]
                if count and heads[line] == 1 and text.has_body(line) and not self._is_nested(function):
                    self._add_head(file, line, count)

    def settle(self, report: SiteReport) -> None:
        """Say what the metrics of `names` must count, where gcov knows all bodies that are counted.

        A name stands for several bodies: of overloads, specialisations, same names in other scopes.
        """
        heads: defaultdict[tuple[str, int], int] = defaultdict(int)
        named: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        for function, count in self.coverage.functions.items():
            heads[function.file, function.first] += count
            named[function.name].add((function.file, function.first))
        for name in [name for name in self.software if name not in self.expected]:
            places = {(Path(site.file).name, site.line) for site in report.sites.get(name, ())}
            if places and places == named[name.removeprefix("enter ")]:
                self.expected[name] = frozenset({sum(heads[place] for place in places)})
                if any(self._said(*place, _CONSTANT) for place in places):
                    self._least.add(name)

    def is_right(self, name: str, count: int) -> bool:
        """Tell whether a count is one that gcov tells; of constexpr functions, at least that."""
        return count >= min(self.expected[name]) if name in self._least else super().is_right(name, count)

    def add_place(self, kind: str, file: str, line: int, counted: int) -> None:
        """Choose a metric of a line as `Choice` does, where gcov is sure."""
        if self._inlined is not None:
            known = self.coverage.around(file, line) is not None and not self._said(file, line, self._inlined)
            if not known or len(self.coverage.statement(file, counted)) != 1:
                return
        super().add_place(kind, file, line, counted)
        if self._said(file, line, _CONSTANT):
            self._least.add(f"{kind} {file}:{line}")

    def _add_head(self, file: str, line: int, count: int) -> None:
        if self._inlined is None or not self._said(file, line, self._inlined):
            name = f"head {file}:{line}"
            self.add(name, {"line": f"{file}:{line}"}, count)
            if self._said(file, line, _CONSTANT):
                self._least.add(name)

    def _said(self, file: str, line: int, pattern: str) -> bool:
        """Tell whether a pattern occurs in the head of a function that holds this line."""
        holders = [f for f in self.coverage.functions if f.file == file and f.first <= line <= f.last]
        return any(self.texts[file].is_said(function.first, pattern) for function in holders if file in self.texts)

    def _is_nested(self, inner: Function) -> bool:
        around = [
            f
            for f in self.coverage.functions
            if f.file == inner.file and f.first <= inner.first and inner.last <= f.last
        ]
        return any(f.last - f.first > inner.last - inner.first for f in around)
