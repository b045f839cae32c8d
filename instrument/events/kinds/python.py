"""Functions written in Python, counted by an import hook."""

import re

from unperturbed.instrument.events.kind import EventKind

_NAME = r"[^\W\d][\w*?]*|[*?][\w*?]*"


class Python(EventKind):
    """A function written in Python is entered."""

    name = "python"
    keys = ("python", "enter")
    meaning = "a function written in Python is entered: module.function or module.Class.method; globs too"
    example = "json.decoder.JSONDecoder.decode"
    pattern = rf"(?:{_NAME})(?:\.(?:{_NAME}))+"
    form = "module.function or module.Class.method"
    means = "python"
    order = 12

    @classmethod
    def hint(cls, target: str) -> str:
        """Explain that lambdas and comprehensions have no name."""
        unnamed = re.search(r"<?\b(lambda|listcomp|setcomp|dictcomp|genexpr)\b>?", target)
        return " (a lambda or comprehension has no name to count it by: make it a function with def)" if unnamed else ""
