"""Print the manual page, for man(1)."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unperturbed.harness.cli.parser import CommandParser

_FILES = {
    "campaigns/NAME": "A campaign: its manifest, builds, runs, report.html and verdicts.json.",
    "~/.cache/unperturbed": "Code compiled and sources downloaded once for all campaigns; see unperturbed cache.",
    "share/doc/unperturbed": "The documentation, in the installation's environment; messages cite its pages as docs/….",
}


class Command:
    """`unperturbed manual`: the help of all commands as one page."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add examples to the help; the command has no arguments."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = (
            "  unperturbed manual | man -l -\n"
            "  unperturbed manual > ~/.local/share/man/man1/unperturbed.1      (then: man unperturbed)"
        )

    def run(self, _arguments: argparse.Namespace) -> int:
        """Print the page; return 0."""
        from importlib import metadata

        from unperturbed.harness.cli.parser import full_parser

        print("\n".join(_page(full_parser(), metadata.version("unperturbed"))))
        return 0


def _page(parser: CommandParser, version: str) -> Iterator[str]:
    """Yield the lines of the page."""
    from unperturbed.harness.cli.commands import all_commands
    from unperturbed.harness.cli.parser import EXIT_CODES

    entries = all_commands()
    yield f'.TH UNPERTURBED 1 "" "unperturbed {version}" "User Commands"'
    yield ".SH NAME"
    yield r"unperturbed \- measurement campaigns you can believe"
    yield ".SH SYNOPSIS"
    yield ".B unperturbed"
    yield r"\fICOMMAND\fR \[u2026]"
    yield ".SH DESCRIPTION"
    yield _escaped(" ".join(str(parser.description).split()))
    yield from _options(parser)
    yield ".SH COMMANDS"
    for name, described in parser.commands.items():
        yield f".SS {_escaped(name)}"
        yield _escaped(" ".join(str(described.description or entries[name].help).split()))
        yield ".PP"
        yield rf"\fB{_escaped(_usage(described))}\fR"
        yield from _options(described)
        if described.epilog and described.epilog != EXIT_CODES:
            yield ".PP"
            yield ".nf"
            yield from map(_escaped, described.epilog.splitlines())
            yield ".fi"
    yield ".SH EXIT STATUS"
    yield from _definitions(dict(re.findall(r"(\d+) ([^;]+)", " ".join(EXIT_CODES.split()))))
    yield ".SH FILES"
    yield from _definitions(_FILES)


def _usage(parser: argparse.ArgumentParser) -> str:
    return " ".join(parser.format_usage().removeprefix("usage:").split())


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield one paragraph per argument, and the usage of each subcommand."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            if parser.prog != "unperturbed":
                for name, described in action.choices.items():
                    yield from _definitions({f"{name} …": " ".join(_usage(described).split())})
        elif action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            yield from _definitions({_named(action): _helped(parser, action)})


def _named(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    value = value if isinstance(value, str) else " ".join(value)
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def _helped(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return " ".join(parser._get_formatter()._expand_help(action).split()) if action.help else ""


def _definitions(entries: dict[str, str]) -> Iterator[str]:
    for name, meaning in entries.items():
        yield ".TP"
        yield rf"\fB{_escaped(name)}\fR"
        yield _escaped(meaning) or r"\&"


def _escaped(text: str) -> str:
    """Escape a text for roff: no character starts a request or an escape, and a minus stays a minus."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in {".", "'"} else text
