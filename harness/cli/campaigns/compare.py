"""Compare two builds, inputs or set-ups of a program by how their metrics correlate."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.errors import SpecError
from unperturbed.harness.cli.drafting import draft, typed
from unperturbed.harness.cli.options import add_fail_on, add_no_check, add_program_options, add_progress_option
from unperturbed.harness.cli.running import run_and_show, show_plan
from unperturbed.harness.cli.terminal import chosen_progress

_EPILOG = """\
  unperturbed compare -- ./sort-O2 data -- ./sort-O3 data          two builds
  unperturbed compare -- ./sort data -- env MALLOC_ARENA_MAX=1 ./sort data
  unperturbed compare -- ./sort data -- perf record -o /dev/null ./sort data     with another tool attached

Both commands are measured in the same way, in shuffled order, with hardware metrics only. The first command is the
baseline. To build both programs from a spec, use `programs:` (docs/reference/spec.md). A command in which another tool
starts the program can be measured with hardware counters, but not with simulated counters."""


class Command:
    """`unperturbed compare [options] -- A … -- B …`."""

    resumable = True
    takes_program = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of `run -- PROGRAM` that apply to both programs."""
        parser.usage = "unperturbed compare [options] -- A its arguments -- B its arguments"
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("--campaign", type=Path, metavar="FOLDER", help="folder of the campaign (default: campaigns/<A>-and-<B>)")
        add_fail_on(parser)
        add_no_check(parser)
        add("--json", action="store_true", help="print the verdict as JSON")
        add("--dry-run", action="store_true", help="show the plan without running or writing anything")
        add_progress_option(parser)
        add("--open", action="store_true", help="open the report in a browser at the end")
        add_program_options(parser, comparing=True)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run and compare both commands; return 1 if runs failed, 4 if a verdict reaches `--fail-on`, else 0."""
        from unperturbed.harness.drafts.command import describe_comparison

        words = list(arguments.program)
        first, second = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else ([], [])
        if not first or not second:
            raise SpecError(
                "give two commands, each after --: unperturbed compare -- ./a its arguments -- ./b its arguments"
            )
        progress = chosen_progress(arguments)
        drafted = draft(
            lambda choices: describe_comparison(first, second, choices),
            typed("compare", arguments),
            arguments,
            progress,
        )
        campaign, folder = drafted.load(), drafted.campaign.absolute()
        if arguments.dry_run:
            return show_plan(campaign, folder, as_json=arguments.json)
        with drafted.removed_unless_run():
            return run_and_show(campaign, folder, arguments, progress, drafted=drafted.spec)
