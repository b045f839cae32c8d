"""Find a campaign's redundant metrics, and the few from which the others can be predicted."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from unperturbed.errors import SpecError
from unperturbed.harness.cli.options import add_progress_option
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder, open_page, require_writable_path
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import chosen_progress, print_note, terminal

if TYPE_CHECKING:
    from unperturbed.analysis.choice.metric_choice import MetricChoice

_NEGATIVE = 4
_ROWS = 12

_EPILOG = """\
  unperturbed choose campaigns/pilot --html choice.html
  unperturbed choose campaigns/pilot --r2 .9 --hours 2
  unperturbed choose pilot.yaml --decide 1

Give a pilot campaign that measured all metrics, in at least five runs. The exit code is 4 if the metrics of the choice
do not predict all others to the R² of --r2."""


class Command:
    """Find the few metrics of a campaign from which the others can be predicted."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the campaign, how well the rest is to be predicted, and the time."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = _EPILOG
        add = parser.add_argument
        add("campaign", type=Path, metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        add(
            "--r2",
            type=float,
            default=0.95,
            metavar="R2",
            help="share of a metric's variation over intervals that others must predict, in runs held back, for the "
            "metric to count as predicted (default: %(default)s)",
        )
        add(
            "--hours",
            type=float,
            metavar="H",
            help="time to measure the choice: show the choice that gives the most metrics in this time",
        )
        add(
            "--runs",
            type=int,
            metavar="N",
            help="with --hours: runs of each pass (default: as many as the campaign has)",
        )
        add(
            "--decide",
            type=float,
            metavar="H",
            help="with a spec: make further runs for up to H hours in all, of the passes that decide which choice is "
            "enough; repeat the command to go on",
        )
        add(
            "--configuration",
            default="baseline",
            metavar="NAME",
            help="configuration whose runs are used (default: %(default)s); another one also has software metrics",
        )
        add(
            "--scale",
            choices=("count", "sqrt"),
            default="count",
            help="predict counts (default), or their square roots, which give intervals with large counts less weight",
        )
        add_progress_option(parser)
        add("--html", type=Path, metavar="FILE", help="write an HTML page with the dendrogram and all choices")
        add("--open", action="store_true", help="with --html: open the page in a browser")
        add("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Find the choice, print or write it; return 4 if it does not predict all other metrics, else 0."""
        from unperturbed.harness.results.recorded import recorded_campaign
        from unperturbed.harness.studies.choice import choose_of_campaign

        folder = campaign_folder(arguments.campaign)
        if arguments.html:
            require_writable_path(arguments.html)
        how: dict[str, Any] = {
            "target": arguments.r2,
            "hours": arguments.hours,
            "runs": arguments.runs,
            "configuration": arguments.configuration,
            "scale": arguments.scale,
        }
        if arguments.decide is not None:
            choice = _decide(arguments, folder, how)
        else:
            choice = choose_of_campaign(folder, recorded_campaign(folder), **how)
        if arguments.html:
            choice.write_html(arguments.html)
        if arguments.json:
            print_json({"campaign": str(folder), **choice.to_dict()})
        else:
            _show(choice)
            if arguments.html:
                print(f"page: {arguments.html}")
        if arguments.html and arguments.open:
            open_page(arguments.html)
        return 0 if choice.enough is not None and choice.recommended is choice.enough else _NEGATIVE


def _decide(arguments: argparse.Namespace, folder: Path, how: Mapping[str, Any]) -> MetricChoice:
    """Make further runs by the spec; a campaign's folder is refused, because it may come from someone else."""
    from unperturbed.harness.spec.load import load_spec
    from unperturbed.harness.studies.choice_runs import decide_choice

    if arguments.campaign.is_dir():
        raise SpecError(f"--decide runs the program: give the spec of {arguments.campaign} instead of its folder")
    progress = chosen_progress(arguments, plan_once=True)
    with progress:
        return decide_choice(load_spec(arguments.campaign), folder, arguments.decide, progress, **how)


def _show(choice: MetricChoice) -> None:
    from unperturbed.analysis.choice import answer_text

    console = terminal()
    tables = [answer_text.steps_table(choice, _ROWS), answer_text.metrics_table(choice)]
    if choice.tree.clusters:
        tables.append(answer_text.clusters_table(choice))
    for table in tables:
        console.print(table.to_rich(console.width), crop=False)
    console.say(f"[bold]{escape(answer_text.headline(choice))}[/bold].")
    for sentence in answer_text.sentences(choice):
        print_note(console, sentence)
