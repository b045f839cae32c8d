"""Counts of a hardware metric within a function."""

from unperturbed.instrument.events.kind import (
    FUNCTION,
    FUNCTION_FORM,
    CompiledKind,
    InsertionPoint,
    ParsedFunction,
    matches,
)

_CONSTANT = "the function is constexpr, or a lambda that may be: it cannot contain the code that switches the counting"


class Within(CompiledKind):
    """Kind that counts a hardware metric from a function's entry until the function is left."""

    name = "within"
    keys = ("within",)
    meaning = (
        "counts of the hardware metric that `of` names, from a function's entry until it is left: its name or a glob"
    )
    example = "compress_block"
    pattern = FUNCTION
    form = FUNCTION_FORM
    filters = ("of", "file")
    order = 8
    within_bodies = False

    def at_function(self, function: ParsedFunction) -> None:
        """Switch at the opening brace of the function's body; the code there also switches where it is left."""
        for index, metric in self.metrics:
            if matches(function.names, metric.target):
                at = max(function.start, int(function.cursor.location.offset))
                if function.constant or function.is_lambda:
                    self.search.note_uncounted(index, at, _CONSTANT)
                else:
                    self.search.add(index, function, InsertionPoint("block", function.opening, function.opening, at))
