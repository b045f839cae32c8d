"""The links of a build, noted so that they can be made again in another layout without the compilations before them."""

# pathlib would cost every link step 5 ms.
# ruff: noqa: PTH100, PTH109, PTH113, PTH118, PTH123

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from unperturbed.instrument.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from unperturbed.instrument.command_line.command import Command

_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SOURCE_DATE_EPOCH"),
    *("LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"),
)
"""Variables of the environment that compilers and linkers read. Not all: make's job server is gone when a link is
made again."""


class Link(NamedTuple):
    """One link of a build."""

    words: tuple[str, ...]  # The compiler and its arguments, response files expanded: build systems remove these
    folder: str  # Where it ran
    environment: dict[str, str]  # Variables that it may depend on
    output: str  # Path of what it made, absolute
    digest: str  # Of its content
    order: str  # Why a layout leaves the objects in their order; empty when they are shuffled


def note_link(folder: str, command: Command) -> None:
    """Record a link that succeeded, unless its output is gone already."""
    from unperturbed.instrument.layout.relink import why_order_stays  # noqa: PLC0415  only builds in several layouts need it

    output = os.path.abspath(command.output or "a.out")
    if not os.path.isfile(output):
        return
    link = Link(
        (*command.compiler, *command.arguments),
        os.getcwd(),
        {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        output,
        file_digest(output),
        why_order_stays(command.arguments),
    )
    name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}.json"
    write_whole(os.path.join(folder, name), json.dumps(link._asdict()).encode())


def read_links(folder: Path) -> list[Link]:
    """Return the recorded links in their order; of several that wrote the same file, the last."""
    found: dict[str, Link] = {}
    for path in sorted((folder / "links").glob("*.json")):
        described = json.loads(path.read_bytes())
        link = Link(**{**described, "words": tuple(described["words"])})
        found.pop(link.output, None)
        found[link.output] = link
    return list(found.values())


def file_digest(path: str | Path) -> str:
    """Return a digest of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
