"""Write a campaign's HTML report again."""

from __future__ import annotations

import argparse
from pathlib import Path

from unperturbed.errors import HostError
from unperturbed.harness.cli.options import add_jobs, judging
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder, is_on_nodes, open_page
from unperturbed.harness.cli.warming import warm_once


class Command:
    """Write a campaign's HTML report again and print its path; with `--compare`, also compare two campaigns."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the campaign, and another campaign to compare it with."""
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        parser.add_argument(
            "--compare",
            type=Path,
            metavar="OTHER",
            help=(
                "also write comparison.html, which compares this campaign with OTHER (a campaign's folder or spec); "
                "OTHER stays unchanged"
            ),
        )
        add_jobs(parser)
        parser.add_argument(
            "--open", action="store_true", help="open the page (with --compare: comparison.html) in a browser"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the report, and the comparison if another campaign is given; return 0."""
        from unperturbed.analysis.report import render_comparison, write_page
        from unperturbed.harness.nodes.shares import whole_campaign
        from unperturbed.harness.results.judge import judge, judge_nodes
        from unperturbed.harness.results.recorded import recorded_campaign

        folder = campaign_folder(arguments.campaign)
        other = None if arguments.compare is None else campaign_folder(arguments.compare)
        other_spec = None if other is None else recorded_campaign(other)
        warm_once("alignment")
        written = folder / "report.html"
        with judging(arguments) as watch:
            if other is None and is_on_nodes(folder):
                judge_nodes(folder, whole_campaign(folder), watch=watch)
            else:
                judgement = judge(folder, recorded_campaign(folder), watch=watch)
                if judgement.unwritten:
                    raise HostError(f"cannot write the report: {judgement.unwritten}")
        print(written)
        if other is not None and other_spec is not None:
            with judging(arguments) as watch:
                reference = judge(other, other_spec, write=False, watch=watch).content
            written = folder / "comparison.html"
            write_page(written, render_comparison(reference, judgement.content, _names(other, folder)))
            print(written)
        if arguments.open:
            open_page(written)
        return 0


def _names(other: Path, folder: Path) -> tuple[str, str]:
    """Return the shortest ends of both paths that differ: the last folder, or more folders if the last are equal."""
    parts = other.parts, folder.parts
    for count in range(1, max(map(len, parts)) + 1):
        other_end, two = ("/".join(path[-count:]) for path in parts)
        if other_end != two:
            return other_end, two
    return str(other), str(folder)
