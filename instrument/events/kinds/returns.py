"""Returns from a function."""

from unperturbed.instrument.events.kind import FUNCTION, FUNCTION_FORM, Body, CompiledKind, ParsedFunction, matches


class Return(CompiledKind):
    """A return statement, or the end, of a function is reached."""

    name = "return"
    keys = ("return",)
    meaning = "a return statement, or the end, of a function is reached: name or glob"
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
