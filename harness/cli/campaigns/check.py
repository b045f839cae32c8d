"""Baseline, inner and outer verdicts of a campaign again."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.harness.cli.campaigns._options import add_fail_on
from unperturbed.harness.cli.folders import CAMPAIGN_OR_SPEC, campaign_folder, open_page


class Command:
    """Make the verdicts of a campaign again, and its report, without running anything."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the campaign's folder."""
        parser.description = (
            "Baseline, inner and outer verdicts of a campaign again. Writes report.html and verdicts.json into its "
            "folder, unless --no-write or --method paper is given."
        )
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        parser.add_argument("--no-write", action="store_true", help="show the verdicts and write nothing")
        parser.add_argument("--open", action="store_true", help="open the report in a browser")
        parser.add_argument(
            "--method",
            choices=("runs", "paper"),
            default="runs",
            help="paper: judge by the paper's own rule, perturbed is what deviates more than any baseline run (the "
            "report stays as it is); runs: by the variation between runs (runs)",
        )
        parser.add_argument(
            "--across", action="store_true", help="across aligned runs, hold each metric against each other one too"
        )
        parser.add_argument(
            "--without", action="append", default=[], metavar="RUN", help="leave a run out, as 0007; may be given again"
        )
        add_fail_on(parser)
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Judge the campaign; 1 when runs failed, 4 when something is perturbed, or as `--fail-on` sets."""
        from unperturbed.harness.cli.terminal.campaign import show_judgement
        from unperturbed.harness.results.judge import judge
        from unperturbed.harness.results.recorded import recorded_campaign

        folder = campaign_folder(arguments.campaign)
        campaign = recorded_campaign(folder)
        judgement = judge(
            folder,
            campaign,
            method=arguments.method,
            across=arguments.across,
            without=arguments.without,
            write=not arguments.no_write,
        )
        written = folder / "report.html" if arguments.method == "runs" and not arguments.no_write else None
        if arguments.open:
            open_page(folder / "report.html")
        return show_judgement(campaign, judgement, written, as_json=arguments.json, fail_on=arguments.fail_on)
