"""Direct calls of functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unperturbed.instrument.events.kind import (
    FUNCTION,
    FUNCTION_FORM,
    Body,
    CompiledKind,
    ParsedFunction,
    is_within,
    matches,
)

_CONSTEXPR = "calls of a constexpr function are not counted: use `enter:`"
_ADDRESS_TAKEN = "the function's address is taken: calls through a pointer are not counted; use `enter:`"


class Call(CompiledKind):
    """Kind that counts direct calls of a function, just before each call."""

    name = "call"
    keys = ("call",)
    meaning = "direct calls of a function, counted before each call: its name or a glob; `in:` limits the caller"
    example = "compare"
    pattern = FUNCTION
    form = FUNCTION_FORM
    filters = ("in", "file", "add", "threads")
    order = 2
    reads_expressions = True
    use = "called"
    written_as = r"\b{0}\s*\("
    happens = "is called in"

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count before each direct call of a metric's target in the body; calls through pointers are not counted."""
        metrics = [(index, metric) for index, metric in self.metrics if is_within(metric, function)]
        for point, call in body.calls if metrics else ():
            for names, callee in self.search.callees(call):
                for index, metric in metrics:
                    if not matches(names, metric.target):
                        continue
                    if self.search.is_constant(callee):
                        self.search.note_uncounted(index, point.at, _CONSTEXPR)
                    else:
                        self.search.add(index, function, point, in_constant=self.search.is_lambda(callee))

    def in_text(self) -> None:
        """Record where a function's address is taken: only `enter` counts calls through pointers."""
        for index, metric in self.metrics:
            for offset, names in self.search.references(metric.target):
                if matches(names, metric.target):
                    self.search.note_uncounted(index, offset, _ADDRESS_TAKEN)

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return the functions and the similar words: the called function may belong to a library."""
        return super().propose(target, names, words) | set(words)

    @classmethod
    def propose_further(cls, words: Sequence[str]) -> Sequence[str]:
        """Return each word as a method of any class: without system headers, a library's classes are unknown."""
        return [f"*::{word}" for word in words]
