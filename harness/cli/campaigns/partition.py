"""Find subsets of the software metrics that leave the program unperturbed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.harness.campaign.summary import HOME
from unperturbed.harness.cli.drafting import add_progress_option
from unperturbed.harness.cli.folders import open_page

if TYPE_CHECKING:
    from unperturbed.harness.spec.campaign_spec import CampaignSpec

_FAILED, _NEGATIVE, _INTERRUPTED = 1, 4, 130


class Command:
    """Find subsets of the software metrics that leave the program unperturbed; write the plan and its page."""

    resumable = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the spec, the folder, and how to search."""
        parser.add_argument(
            "spec", type=Path, metavar="SPEC", help="the experiment's YAML file; its subsets are ignored"
        )
        parser.add_argument(
            "--campaign",
            type=Path,
            metavar="FOLDER",
            help="folder of the search (default: campaigns/<name of the spec>-partition)",
        )
        parser.add_argument(
            "--strategy",
            default="first-fit",
            choices=("first-fit", "restarts", "halving", "costly-alone"),
            help="how to choose candidates (default: first-fit)",
        )
        parser.add_argument(
            "--repetitions", type=int, default=3, metavar="N", help="initial runs of a candidate per pass (default: 3)"
        )
        parser.add_argument(
            "--max-repetitions",
            type=int,
            default=20,
            metavar="N",
            help="maximum runs per pass of a candidate that stays undecided (default: 20)",
        )
        parser.add_argument(
            "--max-runs",
            type=int,
            metavar="N",
            help="stop after this many runs with the best plan so far; the first baseline's do not count (default: the "
            "spec's)",
        )
        parser.add_argument(
            "--max-hours",
            type=float,
            metavar="H",
            help=("stop after this many hours with the best plan so far (default: the spec's)"),
        )
        parser.add_argument("--json", action="store_true", help="print the plan and its evidence as JSON")
        add_progress_option(parser)
        parser.add_argument(
            "--cancel", action="store_true", help="end the jobs of a search on nodes; finished runs are kept"
        )
        parser.add_argument("--open", action="store_true", help="open the plan's page in a browser at the end")

    def run(self, arguments: argparse.Namespace) -> int:
        """Search and write the plan.

        0 when every metric is in a certified subset, 4 when one is in none, 1 when a run failed, 130 when interrupted.
        """
        from unperturbed.harness.cli.terminal.partition import PartitionProgress, show_plan
        from unperturbed.harness.cli.terminal.progress import chosen_progress
        from unperturbed.harness.cli.warming import warm_once
        from unperturbed.harness.spec.load import load_spec
        from unperturbed.harness.studies.partition import Search, partition_campaign
        from unperturbed.harness.studies.search_on_nodes.coordinator import partition_on_nodes

        campaign = load_spec(arguments.spec)
        folder = (arguments.campaign or HOME / f"{campaign.name}-partition").absolute()
        if arguments.cancel:
            return _cancel(campaign, folder)
        search = Search(
            arguments.strategy,
            arguments.repetitions,
            arguments.max_repetitions,
            arguments.max_runs,
            arguments.max_hours,
        )
        progress = PartitionProgress(chosen_progress(arguments))
        warm_once("alignment", progress.step)
        try:
            find = partition_campaign if campaign.nodes is None else partition_on_nodes
            found = find(campaign, folder, search, progress, announce=progress.forecast, observer=progress.measured)
        finally:
            progress.end()
        plan = found.plan
        if arguments.json:
            print(json.dumps(plan.to_json(), indent=2, ensure_ascii=False))
        else:
            show_plan(plan, folder, found.notes)
        if arguments.open:
            open_page(folder / "partition.html")
        if plan.stopped == "interrupted":
            return _INTERRUPTED
        if found.failed:
            return _FAILED
        return _NEGATIVE if plan.unmeasurable or plan.undecided else 0


def _cancel(spec: CampaignSpec, folder: Path) -> int:
    """End the jobs of a search on nodes."""
    from unperturbed.common.wording import counted
    from unperturbed.errors import SpecError
    from unperturbed.harness.nodes.coordinate import cancel

    if spec.nodes is None:
        raise SpecError("--cancel is for searches on nodes (`nodes:` in the spec); end this one by Ctrl-C")
    ended = cancel(spec, folder)
    print(f"{counted(ended, 'job')} cancelled; finished runs are kept, and `unperturbed partition` resumes: {folder}")
    return 0
