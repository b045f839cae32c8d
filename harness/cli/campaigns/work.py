"""Execute the runs of one part of a campaign on nodes: the command that each node runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.errors import HostError, RunError
from unperturbed.harness.cli.options import add_progress_option
from unperturbed.harness.cli.terminal import chosen_progress


class Command:
    """`unperturbed work PART`."""

    resumable = True

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the part's folder and `--progress`."""
        parser.description = (
            "Execute the runs of one part of a campaign on nodes. `unperturbed run` starts this command on each node; "
            "type it yourself only to run a part by hand, on the part's node."
        )
        parser.add_argument("part", type=Path, metavar="PART", help="the folder of one node's part, CAMPAIGN/nodes/NN")
        add_progress_option(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Execute the part's remaining runs; return 1 if runs failed."""
        from unperturbed.harness.campaign.execution import SEARCH, SWEEP
        from unperturbed.harness.nodes.worker import work
        from unperturbed.harness.studies.partition.on_nodes import make_search_part
        from unperturbed.harness.studies.sweep import make_sweep_part

        with chosen_progress(arguments) as progress:
            outcome = work(arguments.part, progress, {SWEEP: make_sweep_part, SEARCH: make_search_part})
        if outcome.message:
            raise (RunError if outcome.exit_code == RunError.exit_code else HostError)(outcome.message)
        progress.result(outcome.exit_code, campaign=str(arguments.part))
        return outcome.exit_code
