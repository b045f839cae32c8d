"""Command-line parser: commands in groups, and suggestions for mistyped words and for words of other tools."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from unperturbed.harness.cli.commands import Command, Entry, all_commands, foreign_words
from unperturbed.harness.cli.streams import drawing

EXIT_CODES = """\
exit codes: 0 success; 1 runs failed; 2 wrong spec or usage; 3 not possible on this host; 4 negative verdict
(perturbed, a metric without a certificate, anomalous, or inadequate); 130 interrupted"""

_CHOICE = re.compile(r"invalid choice: '(?P<word>.*)' \(choose from (?P<choices>.*)\)")
_WRONG_USAGE = 2

_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "fish": "(__fish_complete_path (commandline -ct))"}
"""Each shell's function that completes a path, in shtab's notation."""

_FOREIGN = {
    word: meant
    for meant, words in {
        "run -- ./program its arguments": "stat record measure exec bench benchmark perf profile time hyperfine",
        "run SPEC": "trace start resume continue go",
        "list": "ls campaigns show history log",
        "init": "new create template example examples quickstart clone",
        "check CAMPAIGN": "verdict verdicts judge verify",
        "check SPEC": "validate lint",
        "report CAMPAIGN": "html open view plot annotate",
        "export CAMPAIGN -o FILE": "convert save csv dump script",
        "metrics": "events counters avail papi_avail",
        "doctor": "env host system info tune",
        "compare -- A -- B": "diff ab versus vs",
        "partition SPEC": "split search subsets",
        "choose CAMPAIGN": "pick select reduce cluster",
        "cc --metrics FILE -- gcc …": "gcc clang compile",
        "completion bash": "completions complete",
        "cache": "clean purge warm",
        "--version": "version",
        "manual": "man",
    }.items()
    for word in words.split()
}
"""Commands of perf, git, hyperfine, asv, PAPI and other tools, each with the equivalent command here; commands from
entry points have more of them in their attribute `foreign`."""

_OPTION_OF = {
    word: meant
    for meant, words in {
        "--campaign": "--folder --dir --directory --output-dir --workdir",
        "--runs": "--iterations --repeat --repetitions -r -n --count",
        "--metrics": "-e --event --events --metric",
        "--quiet": "--silent -q",
        "--dry-run": "--no-run --plan",
        "--interval": "-I --period",
        "--out": "-o --out --output --file",
    }.items()
    for word in words.split()
}
"""Options of other tools, each with the equivalent option here."""

_ALIKE = 75  # Minimum similarity of a suggested option: the similarity of `--output` and `--out`


class RegisteredNames:
    """Choices of an option, to which extensions can add; they are looked up only when help or a value needs them."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __str__(self) -> str:
        return ", ".join(self)


def unknown_command(word: str, entries: Mapping[str, Entry]) -> str:
    """Return the message for a word that is not a command."""
    from unperturbed.common.wording import did_you_mean

    names = set(entries)
    meant = (foreign_words(entries) | _FOREIGN).get(word.casefold())
    path = Path(word)
    if meant is not None and (meant.startswith("-") or meant.split()[0] in names):
        advice = f"use `unperturbed {meant}`"
    elif word.endswith((".yaml", ".yml")):
        advice = f"to run a spec, type `unperturbed run {word}`"
    elif (path / "campaign.sqlite").is_file():
        advice = f"to judge this campaign again, type `unperturbed check {word}`"
    elif path.is_file():
        advice = f"to measure a program, type `unperturbed run -- {word}`"
    else:
        advice = did_you_mean(word, names, limit=2)
    return f"unknown command {word!r}; {advice or '`unperturbed help` lists all commands'}"


def unknown_option(word: str, known: Iterable[str]) -> str:
    """Return the message for an option that a command does not have."""
    from unperturbed.common.wording import did_you_mean

    name = word.partition("=")[0]
    options = [option for option in known if option.startswith("--")]
    meant = _OPTION_OF.get(name)
    if meant == "--out" and meant not in options:  # the command writes everything into one folder
        meant = "--campaign"
    if meant in options and (name != "--output" or meant != "--out"):
        return f"unknown option {name}; use {meant}"
    advice = did_you_mean(name, options, limit=1, cutoff=_ALIKE) if name.startswith("--") else ""
    return f"unknown option {name}{f'; {advice}' if advice else ''}"


def as_given(path: str) -> str:
    """Return a path unchanged; serves as `type` of arguments in which a leading `./` matters."""
    return path


class CommandParser(argparse.ArgumentParser):
    """Parser of the tool or of one command, which suggests the option that the user probably meant."""

    commands: Mapping[str, CommandParser]  # The commands' parsers, by name; empty in a command's own parser

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {}
        self._words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words, and remember them for messages."""
        self._words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def print_help(self, file: Any = None) -> None:
        """Print the help, with argparse's colours."""
        super().print_help(drawing(file or sys.stdout))

    def refuse(self, extra: Sequence[str]) -> NoReturn:
        """Refuse words that match no argument."""
        pairs = "--option" in self._option_string_actions and all("=" in word.lstrip("-") for word in extra)
        advice = f"; give options of the format as --option {extra[0]}" if pairs else ""
        self.error(f"unexpected argument{'s' if len(extra) > 1 else ''}: {' '.join(extra)}{advice}")

    def error(self, message: str) -> NoReturn:
        """Print the error and a suggestion; exit with code 2."""
        unknown = [word for word in takewhile(lambda word: word != "--", self._words) if self._is_unknown(word)]
        choice = _CHOICE.search(message)
        if unknown:
            message = "; ".join(unknown_option(word, self._option_string_actions) for word in unknown)
        elif choice is not None:
            from unperturbed.common.wording import did_you_mean

            advice = did_you_mean(choice["word"], re.findall(r"[^\s,']+", choice["choices"]), limit=1)
            message += f"; {advice}" if advice else ""
        self.exit(_WRONG_USAGE, f"{self.prog}: {message}\n(for help: `{self.prog} --help`)\n")

    def _is_unknown(self, word: str) -> bool:
        """Return whether a word looks like an option but matches none."""
        name = word.partition("=")[0]
        if not re.match(r"--?[A-Za-z]", name):
            return False
        if name.startswith("--"):
            return not any(option.startswith(name) for option in self._option_string_actions)
        return name[:2] not in self._option_string_actions


def prepare_command(parser: argparse.ArgumentParser, command: Command) -> None:
    """Add the command's arguments, and the options that all commands share, to the command's parser."""
    command.prepare_parser(parser)
    for action in parser._actions:
        if action.type is int:  # compiled loops and files cannot store larger numbers
            action.type = _whole_number
    _add_common_options(parser, default=False)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):  # also after the subcommand; values before it are kept
            for part in action.choices.values():
                _add_common_options(part, default=argparse.SUPPRESS)


def _add_common_options(parser: argparse.ArgumentParser, default: object) -> None:
    common = parser.add_argument_group("common options")
    verbose, quiet = "show more on stderr: each run and each step", "show results and errors only"
    common.add_argument("-v", "--verbose", action="store_true", default=default, help=verbose)
    common.add_argument("--quiet", action="store_true", default=default, help=quiet)


def _whole_number(text: str) -> int:
    """Return an option's value as an integer of at most 64 bits."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not -(2**63) <= number < 2**63:
        raise argparse.ArgumentTypeError(f"{text} does not fit into 64 bits")
    return number


def full_parser() -> CommandParser:
    """Return a parser with all arguments for completion and manual; path arguments have the attribute `complete`."""
    entries = all_commands()
    parser = make_parser(entries)
    for action in parser._actions:
        if action.dest == "chosen_command":  # the tool's own help lists commands in groups instead
            action.help = "the command"
    for name, described in parser.commands.items():
        command = entries[name].load()
        prepare_command(described, command)
        if getattr(command, "takes_program", False):
            described.add_argument(
                "program", nargs=argparse.REMAINDER, type=Path, metavar="-- PROGRAM", help="a program and its arguments"
            )
        for action in described._actions:
            if action.type in (Path, as_given):
                action.complete = dict(_FILES)  # type: ignore[attr-defined]
    return parser


class _Version(argparse.Action):
    """Option that prints the versions needed in a bug report."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from unperturbed.harness.host.checks.tools import versions

        print("\n".join(versions()))
        parser.exit()


def make_parser(entries: Mapping[str, Entry]) -> CommandParser:
    """Return a parser for the given commands; its help lists them in groups."""
    parser = CommandParser(
        prog="unperturbed",
        usage="unperturbed COMMAND …     (unperturbed help COMMAND describes a command)",
        description="Measurement campaigns you can believe: find which metrics of a program change when it is "
        "measured, and\nwhich can be collected together.",
        epilog=_listed(entries) + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-V", "--version", action=_Version, nargs=0, help="print the versions of this tool, Python, PAPI and the kernel"
    )
    made = parser.add_subparsers(
        prog="unperturbed", dest="chosen_command", metavar="COMMAND", help=argparse.SUPPRESS, parser_class=CommandParser
    )
    parser.commands = {
        name: made.add_parser(name, help=entry.help, description=f"{entry.help}.", epilog=EXIT_CODES)
        for name, entry in entries.items()
    }
    return parser


def _listed(entries: Mapping[str, Entry]) -> str:
    width = max(map(len, entries))
    headings: Iterable[str] = dict.fromkeys(entry.heading for entry in entries.values())
    return "".join(
        f"{heading}:\n"
        + "".join(f"  {name:{width}}  {entry.help}\n" for name, entry in entries.items() if entry.heading == heading)
        + "\n"
        for heading in headings
    )
