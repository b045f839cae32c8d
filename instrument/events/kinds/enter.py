"""Entries into functions."""

from unperturbed.instrument.events.kind import (
    FUNCTION,
    FUNCTION_FORM,
    CompiledKind,
    InsertionPoint,
    ParsedFunction,
    matches,
)


class Enter(CompiledKind):
    """Kind that counts entries into a function."""

    name = "enter"
    keys = ("enter",)
    meaning = "entries into a function: its name or a glob; ns::f in C++, f(int, char) for one overload"
    example = "compress_block"
    pattern = FUNCTION
    form = FUNCTION_FORM
    order = 1
    within_bodies = False

    def at_function(self, function: ParsedFunction) -> None:
        """Count at the opening brace of the function's body."""
        for index, metric in self.metrics:
            if matches(function.names, metric.target):
                at = max(function.start, int(function.cursor.location.offset))
                self.search.add(index, function, InsertionPoint("block", function.opening, function.opening, at))
