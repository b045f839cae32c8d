"""Calls of library functions, counted by a preloaded library."""

from unperturbed.instrument.events.kind import PLAIN, EventKind


class Preload(EventKind):
    """Kind that counts calls of a shared library's function from other parts of the program."""

    name = "preload"
    keys = ("preload",)
    meaning = "calls of a shared library's function from other parts of the program: the function's name"
    example = "malloc"
    pattern = PLAIN
    form = "a function's name, such as malloc"
    filters = ("threads",)
    means = "preload"
    order = 11
