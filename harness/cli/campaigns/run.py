"""Run or resume a campaign, judge it, and write the report."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from unperturbed.common.wording import counted
from unperturbed.harness.campaign.summary import HOME
from unperturbed.harness.cli.drafting import spec_of_program
from unperturbed.harness.cli.options import add_fail_on, add_no_check, add_program_options, add_progress_option
from unperturbed.harness.cli.running import cancel_jobs, run_and_show, run_and_show_nodes, show_plan
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import chosen_progress, point_text, print_note, terminal

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec
    from unperturbed.harness.studies.sweep_table import SweepTable

_RUNS_FAILED = 1
_MOST_MISSING = 10


class Command:
    """`unperturbed run SPEC | -- PROGRAM`: a campaign with its report, or a sweep with its table."""

    resumable = True
    takes_program = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the spec or program, the campaign's folder, and options."""
        parser.usage = "unperturbed run [options] (SPEC | -- ./program its arguments)"
        add = parser.add_argument
        add(
            "spec",
            type=Path,
            nargs="?",
            metavar="SPEC",
            help="the experiment's YAML file; without one, give a program and its arguments after --",
        )
        add(
            "--campaign",
            type=Path,
            metavar="FOLDER",
            help="folder of the campaign (default: campaigns/<name of the spec>)",
        )
        add_fail_on(parser)
        add_no_check(parser)
        add("--json", action="store_true", help="print the verdicts (for a sweep, a description of its table) as JSON")
        add(
            "--dry-run",
            action="store_true",
            help="show the plan, its builds and, if known, its duration, without running or writing anything",
        )
        add_progress_option(parser)
        add("--cancel", action="store_true", help="cancel the jobs of a campaign on nodes; finished runs are kept")
        add("--open", action="store_true", help="open the report in a browser at the end")
        add_program_options(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Make and judge remaining runs; return 1 if some failed or are missing, 4 if a verdict reaches `--fail-on`."""
        from unperturbed.harness.spec.load import load_spec

        progress = chosen_progress(arguments)
        drafted = spec_of_program(arguments, progress)
        if drafted is not None:
            arguments.spec, arguments.campaign = drafted.spec, drafted.campaign
        spec = load_spec(arguments.spec) if drafted is None else drafted.load()
        folder = (arguments.campaign or HOME / spec.name).absolute()
        if arguments.dry_run:
            return show_plan(spec, folder, as_json=arguments.json)
        if arguments.cancel:
            return cancel_jobs(spec, folder, "run")
        if spec.parameters:
            return _run_sweep(spec, folder, arguments)
        if spec.nodes is not None:
            return run_and_show_nodes(spec, folder, arguments, progress)
        with nullcontext() if drafted is None else drafted.removed_unless_run():
            return run_and_show(spec, folder, arguments, progress, drafted=None if drafted is None else drafted.spec)


def _run_sweep(spec: CampaignSpec, folder: Path, arguments: argparse.Namespace) -> int:
    """Execute the remaining runs of a sweep and show its table; return 1 if rows are missing."""
    from unperturbed.collectors.data import TABLE
    from unperturbed.harness.spec.sections.parameters import points
    from unperturbed.harness.studies.sweep import run_sweep, run_sweep_on_nodes

    with chosen_progress(arguments, points=points(spec)) as progress:
        table = (run_sweep if spec.nodes is None else run_sweep_on_nodes)(spec, folder, progress)
    if arguments.json:
        path = str(folder / TABLE) if table.frame.height else None
        print_json({"table": path, **table.to_dict()})
    else:
        console = terminal()
        for shown in table.tables():
            console.print(shown.to_rich())
        for note in table.notes:
            print_note(console, note)
        _show_missing(table)
        if table.frame.height:
            print(f"table: {folder / TABLE}, with table.csv and table.json beside it")
    code = _RUNS_FAILED if table.missing else 0
    progress.result(code, campaign=str(folder))
    return code


def _show_missing(table: SweepTable) -> None:
    console = terminal(stderr=True)
    failed = [row for row in table.missing if row.failed]
    for row in failed[:_MOST_MISSING]:
        console.say(f"[red]failed, not in the table:[/red] {escape(point_text(row.parameters))}: {escape(row.why)}")
    if len(failed) > _MOST_MISSING:
        where = "; table.json lists all of them" if table.frame.height else ""
        more = counted(len(failed) - _MOST_MISSING, "more row")
        console.say(f"[red]failed, not in the table:[/red] {more}{where}")
    unmade = len(table.missing) - len(failed)
    if unmade:
        console.say(f"[red]missing:[/red] {counted(unmade, 'row')}; repeat the run command to measure them")
    if table.missing and not table.frame.height:
        console.say("No row is complete, so there is no table yet.")
