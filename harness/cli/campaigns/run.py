"""Run or resume a campaign, check it, write the report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.errors import SpecError
from unperturbed.harness.campaign.summary import HOME
from unperturbed.harness.cli.campaigns._options import add_fail_on, add_no_check
from unperturbed.harness.cli.drafting import add_program_options, add_progress_option, spec_of_program
from unperturbed.harness.cli.running import run_and_show

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_RUNS_FAILED = 1


class Command:
    """`unperturbed run SPEC | -- PROGRAM`: a campaign with its report, or a sweep with its table."""

    resumable = True
    takes_program = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the spec and the campaign's folder."""
        parser.usage = "unperturbed run [options] (SPEC | -- ./program its arguments)"
        parser.add_argument(
            "spec",
            type=Path,
            nargs="?",
            metavar="SPEC",
            help="the experiment's YAML file; without one, give a program and its arguments after --",
        )
        parser.add_argument(
            "--campaign",
            type=Path,
            metavar="FOLDER",
            help="folder of the campaign (default: campaigns/<name of the spec>)",
        )
        add_fail_on(parser)
        add_no_check(parser)
        parser.add_argument(
            "--json", action="store_true", help="print the verdicts (for a sweep, a description of its table) as JSON"
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="show the plan, its builds and, if known, its duration, without running or writing anything",
        )
        add_progress_option(parser)
        parser.add_argument(
            "--cancel", action="store_true", help="end the jobs of a campaign on nodes; finished runs are kept"
        )
        parser.add_argument("--open", action="store_true", help="open the report in a browser at the end")
        add_program_options(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run what is left, then check it; return 1 when runs failed or rows are missing, 4 when perturbed."""
        from unperturbed.harness.cli.terminal.progress import TerminalProgress, chosen_progress
        from unperturbed.harness.spec.load import load_spec

        progress = TerminalProgress(chosen_progress(arguments))
        drafted = spec_of_program(arguments, progress)
        if drafted is not None:
            arguments.spec, arguments.campaign = drafted.spec, drafted.campaign
        campaign = load_spec(arguments.spec) if drafted is None else drafted.load()
        folder = (arguments.campaign or HOME / campaign.name).absolute()
        if arguments.dry_run:
            from unperturbed.harness.cli.terminal.plan import show_plan

            return show_plan(campaign, folder, as_json=arguments.json)
        if campaign.nodes is not None and not (campaign.parameters and not arguments.cancel):
            from unperturbed.harness.cli.terminal.nodes import run_and_show_nodes

            return run_and_show_nodes(campaign, folder, arguments, progress)
        if arguments.cancel and campaign.nodes is None:
            raise SpecError("--cancel is for campaigns on nodes (`nodes:` in the spec); end this one by Ctrl-C")
        if campaign.parameters:
            return _sweep(campaign, folder, arguments)
        if drafted is None:
            return run_and_show(campaign, folder, arguments, progress)
        with drafted.removed_unless_run():
            return run_and_show(campaign, folder, arguments, progress, drafted=drafted.spec)


def _sweep(spec: CampaignSpec, folder: Path, arguments: argparse.Namespace) -> int:
    """Run what is left of a sweep, and show what its table holds; 1 when rows are missing."""
    from unperturbed.harness.cli.terminal.progress import chosen_progress
    from unperturbed.harness.cli.terminal.sweep import SweepProgress, show_sweep, to_json
    from unperturbed.harness.spec.sections.parameters import points
    from unperturbed.harness.studies.sweep.nodes import run_sweep_on_nodes
    from unperturbed.harness.studies.sweep.runs import run_sweep

    progress = SweepProgress(points(spec), chosen_progress(arguments))
    try:
        table = (run_sweep if spec.nodes is None else run_sweep_on_nodes)(spec, folder, progress)
    finally:
        progress.end()
    if arguments.json:
        print(to_json(table, folder))
    else:
        show_sweep(table, folder)
    code = _RUNS_FAILED if table.missing else 0
    progress.result(code, campaign=str(folder))
    return code
