"""Functions and static probes of finished binaries, counted by the kernel or by a preloaded library."""

from collections.abc import Sequence
from typing import Any

from unperturbed.instrument.events.kind import PLAIN, EventKind, ProbeKind


class Uprobe(ProbeKind):
    """A function of a binary is entered."""

    name = "uprobe"
    keys = ("probe", "uprobe")
    meaning = "a function of a binary is entered, counted by the kernel at about 1 us per hit: binary:function"
    example = "xz:lzma_code"
    pattern = r"[^:\s][^:]*:\S+"
    form = "binary:function, such as xz:lzma_code"
    order = 9
    place = "function"

    @classmethod
    def find(cls, binary: Any, target: str) -> Sequence[tuple[str, int, int]]:
        """Return the functions of a name or glob."""
        return [(function.name, function.offset, 0) for function in binary.find_functions(target)]


class Usdt(ProbeKind):
    """A static probe of a binary is passed."""

    name = "usdt"
    keys = ("probe", "usdt")
    meaning = "a static probe of a binary is passed, counted by the kernel at about 1 us per hit: binary:provider:name"
    example = "libstdc++.so.6:libstdcxx:throw"
    pattern = r"[^:\s][^:]*:[\w*?-]+:[\w*?-]+"
    form = "binary:provider:name, such as libstdc++.so.6:libstdcxx:throw"
    order = 10
    place = "static probe"

    @classmethod
    def find(cls, binary: Any, target: str) -> Sequence[tuple[str, int, int]]:
        """Return the static probes of a provider and a name, either of which may be a glob."""
        provider, _, name = target.partition(":")
        found = binary.find_static_probes(provider, name)
        return [(f"{probe.provider}:{probe.name}", probe.offset, probe.semaphore) for probe in found]


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
