"""Functions of a binary, counted by the kernel."""

from collections.abc import Sequence
from typing import Any

from unperturbed.instrument.events.kind import ProbeKind


class Uprobe(ProbeKind):
    """Kind that counts entries into a function of a binary."""

    name = "uprobe"
    keys = ("probe", "uprobe")
    meaning = "entries into a function of a binary, counted by the kernel: binary:function"
    example = "liblzma.so.5:lzma_code"
    pattern = r"[^:\s][^:]*:\S+"
    form = "binary:function, such as liblzma.so.5:lzma_code"
    order = 9
    place = "function"

    @classmethod
    def find(cls, binary: Any, target: str) -> Sequence[tuple[str, int, int]]:
        """Return the functions that match a name or glob."""
        return [(function.name, function.offset, 0) for function in binary.find_functions(target)]
