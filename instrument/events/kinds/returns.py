"""Returns from functions."""

from unperturbed.instrument.events.kind import FUNCTION, FUNCTION_FORM, Body, CompiledKind, ParsedFunction, matches


class Return(CompiledKind):
    """Kind that counts returns from a function, by a return statement or at its end."""

    name = "return"
    keys = ("return",)
    meaning = (
        "returns from a function, by a return statement (counted before its value is computed) or at its end: its name "
        "or a glob"
    )
    example = "search"
    pattern = FUNCTION
    form = FUNCTION_FORM
    order = 7

    def in_body(self, function: ParsedFunction, body: Body) -> None:
        """Count before each return and at the closing brace."""
        for index, metric in self.metrics:
            if matches(function.names, metric.target):
                for point in body.returns:
                    self.search.add(index, function, point)
