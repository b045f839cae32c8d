"""Calls of library functions, counted by a preloaded library."""

from unperturbed.instrument.events.kind import PLAIN, EventKind


class Preload(EventKind):
    """A function of a shared library is called by another part of the program."""

    name = "preload"
    keys = ("preload",)
    meaning = "a function of a shared library is called by another part of the program: its name"
    example = "malloc"
    pattern = PLAIN
    form = "a function's name, such as malloc"
    filters = ("threads",)
    means = "preload"
    order = 11
