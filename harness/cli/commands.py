"""Find the commands: modules with a class `Command` in the folders of `ROOMS`, and entry points.

A module's name is the command's name (`import_.py` is `import`), and the first line of its docstring is the command's
help. Entry points of the group `unperturbed.commands` refer to classes of the same interface, in `harness.methods` and
in other distributions.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unperturbed.errors import HostError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Command"]  # what a command of another distribution is written against

ROOMS = {
    "campaigns": "campaigns",
    "overview": "the state of campaigns",
    "analyses": "analyses of any traces, logs and tables",
    "host": "this host and this tool",
}
"""Folders with commands, and the heading of each folder's commands in the help."""

GROUP = "unperturbed.commands"  # Entry points with which other distributions add commands


class Command(Protocol):
    """Interface of a command's class.

    `resumable = True`: after an interruption, the same command continues the work. `takes_program = True`: the words
    after the first `--` are another program's command line, `arguments.program`, and are never parsed. `foreign =
    {"phases": "structure TRACE"}`, in a command from an entry point: words that users may type in place of the command,
    each with the command line to suggest.
    """

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Execute the command; return the exit code."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Command that the user can choose."""

    heading: str  # Its group in the help
    help: str  # One line, without a full stop
    load: Callable[[], Command]  # Imports its module and returns an instance


def own_commands() -> dict[str, Entry]:
    """Return the commands of this distribution by name, without importing any."""
    return {name: entry for room in ROOMS for name, entry in commands_in(f"{__package__}.{room}", ROOMS[room])}


def all_commands() -> dict[str, Entry]:
    """Return every command by name; commands from entry points come last."""
    own = own_commands()
    return own | dict(_offered(own))


def foreign_words(entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the words that commands from entry points take to mean them, each with the command line to suggest."""
    own = own_commands()
    words: dict[str, str] = {}
    for entry in (entry for name, entry in entries.items() if name not in own):
        with suppress(HostError):  # a faulty extension must not hide the user's mistake
            words |= getattr(entry.load(), "foreign", {})
    return words


def commands_in(package: str, heading: str) -> Iterator[tuple[str, Entry]]:
    """Yield the name and entry of every command in a folder, without importing any."""
    for file in sorted(Path(importlib.import_module(package).__path__[0]).glob("[!_]*.py")):
        yield file.stem.rstrip("_"), Entry(heading, _first_line(file), partial(_load, f"{package}.{file.stem}"))


def _load(module: str) -> Command:
    command: Command = importlib.import_module(module).Command()
    return command


def _first_line(file: Path) -> str:
    """Return the first line of a module's docstring."""
    with file.open(encoding="utf-8") as source:
        return source.readline().strip().strip('"').removesuffix(".")


def _offered(own: Mapping[str, Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield the commands from entry points, without importing any."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    from unperturbed.common import extensions

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        owner = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
        if point.name in own:
            raise HostError(
                f"{owner} adds a command {point.name}, but unperturbed has a command of this name: uninstall that "
                "distribution, or rename its command"
            )
        heading, line = "commands of other distributions", f"from {owner}"
        if (module := point.module).startswith("unperturbed."):
            spec = find_spec(module)
            if spec is None or spec.origin is None:
                raise HostError(f"the installation is incomplete: {module} is missing; reinstall unperturbed")
            heading, line = ROOMS["analyses"], _first_line(Path(spec.origin))

        def load(point: EntryPoint = point) -> Command:
            command: Command = extensions.load(point, type)()
            return command

        yield point.name, Entry(heading, line, load)
