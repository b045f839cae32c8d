"""Functions written in Python, counted by an import hook."""

import re

from unperturbed.instrument.events.kind import EventKind

_NAME = r"[^\W\d][\w*?]*|[*?][\w*?]*"


class Python(EventKind):
    """Kind that counts entries into a function written in Python."""

    name = "python"
    keys = ("python", "enter")
    meaning = "entries into a function written in Python: module.function or module.Class.method; globs are allowed"
    example = "json.decoder.JSONDecoder.decode"
    pattern = rf"(?:{_NAME})(?:\.(?:{_NAME}))+"
    form = "module.function or module.Class.method"
    means = "python"
    order = 12

    @classmethod
    def hint(cls, target: str) -> str:
        """Return advice if the target is a lambda or a comprehension, which has no name; '' for other targets."""
        unnamed = re.search(r"<?\b(lambda|listcomp|setcomp|dictcomp|genexpr)\b>?", target)
        return " (a lambda or comprehension has no name: define a function with `def` instead)" if unnamed else ""
