"""Static probes of a binary, counted by the kernel."""

from collections.abc import Sequence
from typing import Any

from unperturbed.instrument.events.kind import ProbeKind


class Usdt(ProbeKind):
    """Kind that counts hits of a static probe in a binary."""

    name = "usdt"
    keys = ("probe", "usdt")
    meaning = "hits of a static probe in a binary, counted by the kernel: binary:provider:name"
    example = "libstdc++.so.6:libstdcxx:throw"
    pattern = r"[^:\s][^:]*:[\w*?-]+:[\w*?-]+"
    form = "binary:provider:name, such as libstdc++.so.6:libstdcxx:throw"
    order = 10
    place = "static probe"

    @classmethod
    def find(cls, binary: Any, target: str) -> Sequence[tuple[str, int, int]]:
        """Return the static probes that match a provider and a name; both may be globs."""
        provider, _, name = target.partition(":")
        probes = binary.find_static_probes(provider, name)
        return [(f"{probe.provider}:{probe.name}", probe.offset, probe.semaphore) for probe in probes]
