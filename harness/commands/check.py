"""`unperturbed check`."""

from __future__ import annotations

import argparse
from pathlib import Path


class Command:
    """Make the verdicts and the report of a campaign again, without running anything."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the campaign's folder."""
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN", help="the campaign's folder")
        parser.add_argument(
            "--as-the-paper",
            action="store_true",
            help="judge by the paper's own rule: perturbed is what deviates more than any baseline run (the report stays as it is)",
        )
        parser.add_argument(
            "--across", action="store_true", help="across aligned runs, hold each metric against each other one too"
        )
        parser.add_argument(
            "--without", action="append", default=[], metavar="RUN", help="leave a run out, as 0007; may be given again"
        )
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Judge the campaign; 1 when runs failed, 4 when something is perturbed."""
        from unperturbed.harness.judge import judge, recorded_campaign

        folder = arguments.campaign.absolute()
        return judge(
            folder,
            recorded_campaign(folder),
            as_json=arguments.json,
            method="paper" if arguments.as_the_paper else "runs",
            across=arguments.across,
            without=arguments.without,
        )
