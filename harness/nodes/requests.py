"""Runs that are requested of a part one batch after another, where outcomes decide which run is made next.

The coordinator alone writes a part's `requests.json`, the node alone its manifest. Batches are only ever added, and
each is planned behind those before it, so that whoever is started again finds the same plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unperturbed.errors import SpecError
from unperturbed.harness.nodes.shares import NodePart, read_json, write_json

_FILE = "requests.json"


@dataclass(frozen=True)
class Requests:
    """What is requested of a part."""

    session: str = ""  # The coordinator that may request more; empty where none will
    # Of each candidate: `software`, its metrics, and `build`, what the manifest of the whole says of its build (None
    # where nothing is built).
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batches: Sequence[Mapping[str, int]] = ()  # Further runs a pass, by configuration

    @property
    def totals(self) -> Counter[str]:
        """Return how many runs a pass are requested of each configuration, all batches together."""
        found: Counter[str] = Counter()
        for batch in self.batches:
            found.update(batch)
        return found

    def write(self, part: NodePart) -> None:
        """Write them for the part's node."""
        write_json(part.folder / _FILE, vars(self))


def read_requests(part: NodePart) -> Requests:
    """Return what is requested of a part; nothing where no file is."""
    # Opening the folder has a network file system look for a file that was replaced there.
    list(part.folder.iterdir())
    content = read_json(part.folder / _FILE)
    if content is None:
        return Requests()
    try:
        return Requests(str(content["session"]), dict(content["configurations"]), tuple(map(dict, content["batches"])))
    except (KeyError, TypeError, ValueError):
        raise SpecError(f"{part.folder / _FILE}: the file is damaged; remove it and repeat the command") from None
