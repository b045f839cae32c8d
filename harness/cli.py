"""The command line: one class a command, and the one place that turns errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Protocol

from unperturbed.errors import HostError, UnperturbedError

__all__ = ["main"]

_COMMANDS = {
    "doctor": "what this host can count, what is noisy, and what to do about it",
    "metrics": "every metric of this host: source, unit, meaning, and how many fit one run",
    "sites": "where a spec's software metrics count, what they cannot see, and what an event costs",
    "run": "run or resume a campaign, check it, write the report",
    "check": "baseline, inner and outer verdicts of a campaign again",
    "partition": "find subsets of the software metrics that leave the program unperturbed; write the certified plan",
    "align": "align two runs: warp path, scores, what is not to be trusted",
    "merge": "one trace with every metric of a campaign",
    "diagnose": "compare an event log with logs of runs that went well: which anomaly, how strong, since when, where",
    "structure": "which phases recur in a run, in which order, and how a second run differs in structure",
    "model": "what causes what in a table of runs, by which formula, and what happens when something is set",
    "report": "write a campaign's HTML report again",
    "cc": "the instrumenting compiler wrapper, for any build system",
    "schema": "print the JSON Schema of the spec",
}
"""Name and one line of each command. Its class `Command` is in the module of the same name, loaded only when it is asked for."""

INTERRUPTED = 130
_RESUMED = ("run", "partition")
_KEPT = "; nothing that was finished is lost, the same command goes on"

_EXIT_CODES = """\
exit codes: 0 good; 1 runs failed; 2 wrong spec or usage; 3 this host cannot do it; 4 the verdict is negative (perturbed, a metric without
certificate, anomalous, or inadequate); 130 interrupted"""


class Command(Protocol):
    """A command of the tool."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Carry the command out; return the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit code.

    Parameters
    ----------
    argv : the arguments; those of the process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(words[0] if words and words[0] in _COMMANDS else None)
    arguments = parser.parse_args(words)
    command: Command | None = getattr(arguments, "command", None)
    if command is None:
        parser.print_help()
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    _tell_what_takes_long()
    try:
        return command.run(arguments)
    except UnperturbedError as error:
        print(f"unperturbed: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"\nunperturbed: interrupted{_KEPT if words[0] in _RESUMED else ''}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a file that may not be read
        where = f"{error.filename}: " if error.filename else ""
        print(f"unperturbed: {where}{error.strerror or error}", file=sys.stderr)
        return HostError.exit_code


def _tell_what_takes_long() -> None:
    """Let the library's word before long work, such as compiling a kernel for the first time, be seen on stderr."""
    teller = logging.StreamHandler()
    teller.setFormatter(logging.Formatter("  %(message)s"))
    logger = logging.getLogger("unperturbed")
    logger.handlers = [teller]
    logger.setLevel(logging.INFO)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    """Make the parser; only the chosen command's module is loaded."""
    parser = argparse.ArgumentParser(
        prog="unperturbed",
        description="Measurement campaigns you can believe: which metrics of a program did measuring it spoil, and which can be collected together?",
        epilog=_EXIT_CODES,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, line in _COMMANDS.items():
        sub = commands.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.", epilog=_EXIT_CODES)
        if name == chosen:
            command: Command = importlib.import_module(f"unperturbed.harness.commands.{name}").Command()
            command.prepare_parser(sub)
            sub.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
