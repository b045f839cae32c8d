"""Direct calls of a function."""

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

_CONSTEXPR = "calls of a constexpr function are not counted; use enter:"
_ADDRESS_TAKEN = "its address is taken: calls through it are not counted; use enter:"


class Call(CompiledKind):
    """A direct call of a function is about to be evaluated."""

    name = "call"
    keys = ("call",)
    meaning = "a direct call of a function is about to be evaluated: name or glob; `in:` names the calling function"
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
        """Count before each call of the function, by name; calls through pointers are not seen."""
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
        """Note where a function's name stands for its address: calls through it are counted by `enter` alone."""
        for index, metric in self.metrics:
            for offset, names in self.search.references(metric.target):
                if matches(names, metric.target):
                    self.search.note_uncounted(index, offset, _ADDRESS_TAKEN)

    @classmethod
    def propose(cls, target: str, names: Mapping[str, set[str]], words: Sequence[str]) -> set[str]:
        """Return the functions, and the words: what is called may be a library's."""
        return super().propose(target, names, words) | set(words)

    @classmethod
    def propose_further(cls, words: Sequence[str]) -> Sequence[str]:
        """Return methods of any class: which class of a library declares one is unknown without its system headers."""
        return [f"*::{word}" for word in words]
