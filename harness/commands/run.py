"""`unperturbed run`."""

from __future__ import annotations

import argparse
from pathlib import Path


class Command:
    """Run or resume a campaign, check it, write the report."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the spec and the campaign's folder."""
        parser.add_argument("spec", type=Path, metavar="SPEC", help="the experiment's YAML file")
        parser.add_argument(
            "--campaign", type=Path, metavar="FOLDER", help="where everything is kept (default: campaigns/<name of the spec>)"
        )
        parser.add_argument("--json", action="store_true", help="print the verdicts as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run what is left of the campaign, then judge it; 1 when runs failed, 4 when something is perturbed."""
        from unperturbed.harness.campaign import run_campaign
        from unperturbed.harness.judge import judge
        from unperturbed.harness.spec import load_spec
        from unperturbed.harness.terminal import TerminalProgress

        campaign = load_spec(arguments.spec)
        folder = (arguments.campaign or Path("campaigns") / campaign.name).absolute()
        progress = TerminalProgress()
        try:
            run_campaign(campaign, folder, progress)
        finally:
            progress.end()
        return judge(folder, campaign, as_json=arguments.json, progress=progress)
