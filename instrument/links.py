"""The links of a build, noted so that they can be made again in another layout without the compilations before them."""

# pathlib would cost every link step 5 ms.
# ruff: noqa: PTH100, PTH109, PTH113, PTH118, PTH123

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from unperturbed.instrument.settings import Settings, write_aside

if TYPE_CHECKING:
    from pathlib import Path

    from unperturbed.instrument.commandline import Command

__all__ = ["Link", "file_digest", "note_link", "read_links"]

_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SOURCE_DATE_EPOCH"),
    *("LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS"),
)
"""Variables of the environment that compilers and linkers read. Not all: make's job server is gone when a link is made again."""


class Link(NamedTuple):
    """One link of a build.

    Attributes
    ----------
    words : the compiler and its arguments, response files expanded: build systems remove these. folder : where it ran.
    environment : variables that it may depend on.
    output : path of what it made, absolute. digest : of its content.
    order : why a layout leaves the objects in their order; empty when they are shuffled.
    """

    words: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    output: str
    digest: str
    order: str


def note_link(settings: Settings, command: Command) -> None:
    """Note a link that succeeded; links whose output is no file of this build by now are of no use later, and left out."""
    from unperturbed.instrument.layout import why_order_stays  # noqa: PLC0415  only builds in several layouts need it

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
    write_aside(os.path.join(settings.link_folder, name), json.dumps(link._asdict()).encode())


def read_links(folder: Path) -> list[Link]:
    """Return the links that a toolchain's folder has noted, in their order; of several that made the same file, the last."""
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
