"""Methods of a program on the Java virtual machine, counted by code that is inserted as their classes are loaded."""

import re

from unperturbed.instrument.events.kind import EventKind

_NAME = r"[\w$*?]+"


class Jvm(EventKind):
    """Kind that counts entries into a method of a program on the Java virtual machine."""

    name = "jvm"
    keys = ("jvm", "enter")
    meaning = (
        "entries into a method on the Java virtual machine, all overloads: package.Class.method, "
        "package.Outer$Inner.method or package.Class.<init>; globs are allowed"
    )
    example = "java.util.HashMap.resize"
    pattern = rf"(?:{_NAME}\.)+(?:{_NAME}|<init>|<clinit>)"
    form = "package.Class.method"
    filters = ("threads",)
    means = "jvm"
    order = 13

    @classmethod
    def hint(cls, target: str) -> str:
        """Return advice if the target has parameters or slashes; '' for other targets."""
        if "(" in target:
            return " (leave out the parameters: all overloads are counted)"
        return " (write dots instead of slashes or `::`)" if re.search(r"/|::|#", target) else ""
