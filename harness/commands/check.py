"""`unperturbed check`."""

from __future__ import annotations

import argparse
from pathlib import Path


class Command:
    """Make the verdicts and the report of a campaign again, without running anything."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the campaign's folder."""
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN", help="the campaign's folder")
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Judge the campaign; 1 when runs failed, 4 when something is perturbed."""
        from unperturbed.harness.judge import judge, recorded_campaign

        folder = arguments.campaign.absolute()
        return judge(folder, recorded_campaign(folder), as_json=arguments.json)
