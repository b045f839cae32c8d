"""`unperturbed report`."""

from __future__ import annotations

import argparse
from pathlib import Path


class Command:
    """Write a campaign's HTML report again and print its path."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the campaign's folder."""
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN", help="the campaign's folder")

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the report; 0 once it stands."""
        from unperturbed.harness.judge import recorded_campaign, write_report_of

        folder = arguments.campaign.absolute()
        print(write_report_of(folder, recorded_campaign(folder)))
        return 0
