"""Create a campaign from runs that other tools recorded: perf stat, tables and others."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.common.wording import did_you_mean, listing
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.cli.options import add_judging_of_imports, format_options, parse_tolerances
from unperturbed.harness.cli.parser import as_given

if TYPE_CHECKING:
    from unperturbed.harness.campaign.importing import Group

_EPILOG = """\
  unperturbed import perf-stat base/*.csv --as baseline new/*.csv --as new -o campaigns/upgrade
  unperturbed import csv time=t run=id runs.csv --as baseline other.csv --as other -o campaigns/two

Then use check, report, merge, model and export on the folder, and align and structure on its runs, such as
campaigns/upgrade/runs/0001. docs/how-to/imports.md describes the formats."""


class Command:
    """`unperturbed import [FORMAT] FILES… --as NAME [FILES… --as NAME] -o CAMPAIGN`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the format, then files and options."""
        parser.usage = "unperturbed import [FORMAT] FILES… --as NAME [FILES… --as NAME] -o CAMPAIGN [options]"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        parser.add_argument(
            "format",
            metavar="FORMAT",
            help="name of the format (`unperturbed import list` lists all formats), or a recipe's file (.yaml); "
            "without it, the first file shows the format",
        )
        parser.add_argument(
            "words",
            nargs=argparse.REMAINDER,
            type=as_given,
            metavar="FILES… --as NAME",
            help="files, folders or glob patterns of one configuration, then --as and the configuration's name; repeat "
            "for each further configuration. Without --as, the files must name their configurations",
        )
        _add_options(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Import the runs and write the campaign; return 0."""
        from unperturbed.common.wording import counted
        from unperturbed.harness.campaign.importing import format_with_intervals, import_campaign

        if arguments.format == "list":
            return _show_formats()
        name, words = _find_format(arguments.format, arguments.words)
        groups, options = _split(words)
        rest = argparse.ArgumentParser(prog="unperturbed import", add_help=False, argument_default=argparse.SUPPRESS)
        _add_options(rest)
        rest.add_argument("-v", "--verbose", action="store_true")
        rest.add_argument("--quiet", action="store_true")
        rest.parse_args(options, namespace=arguments)
        format_with_intervals(name)
        if arguments.out is None:
            raise SpecError("the folder of the new campaign is missing: give -o CAMPAIGN")
        tolerance, totals = parse_tolerances(arguments.tolerance)
        made = import_campaign(
            name,
            groups,
            arguments.out,
            options=format_options(arguments.option),
            baseline=arguments.baseline,
            align_on=[name.strip() for name in (arguments.align_on or "").split(",") if name.strip()],
            command=shlex.join(["unperturbed", "import", name, *words]),
            tolerance=tolerance,
            totals=totals,
            after=arguments.after,
        )
        if not arguments.quiet:
            for note in (*([f"the format is {name}"] if name != arguments.format else []), *made.notes):
                print(f"note: {note}", file=sys.stderr)
            each = ", ".join(f"{name} {count}" for name, count in made.configurations.items())
            runs = counted(sum(made.configurations.values()), "run")
            print(f"{runs} ({each}), {counted(len(made.metrics), 'metric')}", file=sys.stderr)
        print(arguments.out)
        return 0


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--out", type=Path, metavar="CAMPAIGN", help="folder of the new campaign")
    add(
        "--baseline",
        metavar="NAME",
        help="configuration to compare the others with (default: the one named `baseline`, else the first)",
    )
    add(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the format, such as time=COLUMN; also accepted among the files, without --option",
    )
    add("--align-on", metavar="METRICS", help="comma-separated metrics to align runs on")
    add_judging_of_imports(add)


def _find_format(name: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the format and the words after it; if the first word names files, their content shows the format."""
    from unperturbed.collectors.imports import find_files, find_format, import_formats, recognise
    from unperturbed.collectors.imports.reading import broken_recipes, or_broken_recipe

    files = []
    if name not in import_formats() and name not in broken_recipes() and not name.endswith((".yaml", ".yml")):
        with suppress(DataError):
            files = find_files(name)
    if not files:
        find_format(name)
        return name, list(words)
    found = next((known for known in map(recognise, files) if known is not None), None)
    if found is None:
        command = shlex.join(["unperturbed", "import", "FORMAT", name, *words])
        known = listing(import_formats(), "or")
        message = f"{name} has no format that this tool recognises: write `{command}` with a format: {known}"
        raise SpecError(or_broken_recipe(message))
    return found.name, [name, *words]


_ALONE = ("-v", "--verbose", "--quiet", "-h", "--help")
_WITH_VALUES = ("-o", "--out", "--baseline", "--option", "--align-on", "--tolerance", "--after")


def _split(words: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Split the words into options and groups of files; `--as NAME` ends each group."""
    from unperturbed.harness.campaign.importing import Group

    groups: list[Group] = []
    files: list[str] = []
    options: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--as" or word.startswith("--as="):
            name = word[5:] if word != "--as" else left.pop(0) if left else ""
            if not name or not files:
                raise SpecError(
                    f"{f'--as {name}'.strip()}: put files before --as, and a name after it (FILES… --as NAME)"
                )
            groups.append(Group(name, files))
            files = []
        elif word.startswith("-") and word != "-":
            option = "-o" if re.match("-o.", word) else word.partition("=")[0]
            if option not in (*_WITH_VALUES, *_ALONE):
                known = did_you_mean(option, _WITH_VALUES, limit=1) or "`unperturbed import --help` lists the options"
                raise SpecError(f"unknown option {option}; {known}")
            takes_value = word in _WITH_VALUES and left
            options.append(f"{word}={left.pop(0)}" if takes_value else word)
        elif re.match(r"[a-z_]+=", word) and not Path(word).exists():
            options += ["--option", word]
        else:
            files.append(word)
    if files and groups:
        raise SpecError(f"{files[0]} belongs to no configuration: put --as NAME after the files of each configuration")
    return [*groups, *([Group("", files)] if files else [])], options


def _show_formats() -> int:
    from unperturbed.collectors.imports import import_formats
    from unperturbed.collectors.imports.reading import broken_recipes

    for import_format in import_formats().values():
        only = "; totals, for check --from and model" if import_format.whole_runs else ""
        print(f"{import_format.name:16} {import_format.title} ({', '.join(import_format.suffixes)}{only})")
        for key, meaning in import_format.options.items():
            print(f"{'':16}   {key}=…  {meaning}")
    for name, fault in broken_recipes().items():
        print(f"note: {name} is left out: {fault}", file=sys.stderr)
    return 0
