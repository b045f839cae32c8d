"""`unperturbed run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unperturbed.harness.spec import Campaign

_RUNS_FAILED = 1


class Command:
    """Run or resume a campaign, check it, write the report; of a sweep, write its table."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the spec and the campaign's folder."""
        parser.add_argument("spec", type=Path, metavar="SPEC", help="the experiment's YAML file")
        parser.add_argument(
            "--campaign", type=Path, metavar="FOLDER", help="where everything is kept (default: campaigns/<name of the spec>)"
        )
        parser.add_argument("--json", action="store_true", help="print the verdicts (of a sweep, what its table holds) as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run what is left of the campaign, then judge it; 1 when runs failed, 4 when something is perturbed; of a sweep 1 when rows are missing."""
        from unperturbed.harness.campaign import run_campaign
        from unperturbed.harness.judge import judge
        from unperturbed.harness.spec import load_spec
        from unperturbed.harness.terminal import TerminalProgress

        campaign = load_spec(arguments.spec)
        folder = (arguments.campaign or Path("campaigns") / campaign.name).absolute()
        if campaign.parameters:
            return _sweep(campaign, folder, as_json=arguments.json)
        progress = TerminalProgress()
        try:
            run_campaign(campaign, folder, progress)
        finally:
            progress.end()
        return judge(folder, campaign, as_json=arguments.json, progress=progress)


def _sweep(campaign: Campaign, folder: Path, *, as_json: bool) -> int:
    """Run what is left of a sweep, and show what its table holds; 1 when rows are missing."""
    from unperturbed.harness.sweep import run_sweep
    from unperturbed.harness.sweep_plan import points
    from unperturbed.harness.terminal_sweep import SweepProgress, show_sweep, to_json

    progress = SweepProgress(points(campaign))
    try:
        table = run_sweep(campaign, folder, progress)
    finally:
        progress.end()
    if as_json:
        print(to_json(table, folder))
    else:
        show_sweep(table, folder)
    return _RUNS_FAILED if table.missing else 0
