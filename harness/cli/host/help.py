"""Describe the tool or one of its commands."""

from __future__ import annotations

import argparse

from unperturbed.errors import SpecError


class Command:
    """`unperturbed help [COMMAND]`: the same as `--help`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the `command` argument."""
        parser.add_argument("command", nargs="?", metavar="COMMAND", help="the command to describe (default: all)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the help and return 0; raise SpecError if there is no such command."""
        from unperturbed.harness.cli.commands import all_commands
        from unperturbed.harness.cli.parser import make_parser, prepare_command, unknown_command

        entries = all_commands()
        parser = make_parser(entries)
        if arguments.command is None:
            parser.print_help()
            return 0
        if arguments.command not in entries:
            raise SpecError(unknown_command(arguments.command, entries))
        described = parser.commands[arguments.command]
        prepare_command(described, entries[arguments.command].load())
        described.print_help()
        return 0
