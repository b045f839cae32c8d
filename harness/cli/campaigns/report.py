"""Write a campaign's report again, as HTML or for a pipeline."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from unperturbed.analysis.perturbation import SEVERITY, VerdictName
from unperturbed.common.scratch import naming, write_whole
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.cli.options import add_jobs, judging
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder, is_on_nodes, open_page
from unperturbed.harness.cli.warming import warm_once

_TEXTS = {"markdown": "report.md", "junit": "report.xml", "json": "report.json"}
"""Formats for pipelines, each with the name of its file in the campaign's folder."""


class Command:
    """Write a campaign's report again and print its path; with `--compare`, also compare two campaigns."""

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
        parser.add_argument(
            "--format",
            choices=("html", *_TEXTS),
            default="html",
            help="markdown: the verdicts for the page of a pipeline's job, in report.md; junit: for its list of "
            "tests, in report.xml; json: as in verdicts.json (default: html)",
        )
        parser.add_argument(
            "-o", "--out", type=Path, metavar="FILE", help="file to write with another --format than html; - for stdout"
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
        if arguments.format != "html":
            return _write_text(folder, arguments)
        if arguments.out is not None:
            raise SpecError("--out: the HTML report is report.html in the campaign's folder; use it with --format")
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


def _write_text(folder: Path, arguments: argparse.Namespace) -> int:
    """Write the verdicts of a campaign as text; return 0."""
    from unperturbed.analysis.report import to_json
    from unperturbed.analysis.report.campaign.summary import to_junit, to_markdown
    from unperturbed.harness.results.judge import judge
    from unperturbed.harness.results.recorded import recorded_campaign

    if arguments.compare is not None or arguments.open:
        raise SpecError(f"--format {arguments.format} has no comparison and no page: leave out --compare and --open")
    if is_on_nodes(folder):
        raise SpecError(f"--format {arguments.format}: the report over nodes is HTML alone; give the folder of a node")
    with judging(arguments) as watch:
        judgement = judge(folder, recorded_campaign(folder), write=False, watch=watch)
    fail_on, shams = judgement.spec.analysis.fail_on, judgement.verdicts.shams

    def fails(configuration: str, subject: str, verdict: VerdictName) -> bool:
        mildest = fail_on.correlations if subject == "correlations" else fail_on.totals
        return configuration not in shams and mildest != "never" and SEVERITY.index(verdict) <= SEVERITY.index(mildest)

    text = {
        "markdown": lambda: to_markdown(judgement.content),
        "junit": lambda: to_junit(judgement.content, fails),
        "json": lambda: json.dumps(to_json(judgement.content), indent=1, ensure_ascii=False) + "\n",
    }[arguments.format]()
    written = arguments.out or folder / _TEXTS[arguments.format]
    if str(written) == "-":
        print(text, end="")
        return 0
    with naming(written):
        write_whole(written, text)
    print(written)
    return 0


def _names(other: Path, folder: Path) -> tuple[str, str]:
    """Return the shortest ends of both paths that differ: the last folder, or more folders if the last are equal."""
    parts = other.parts, folder.parts
    for count in range(1, max(map(len, parts)) + 1):
        other_end, two = ("/".join(path[-count:]) for path in parts)
        if other_end != two:
            return other_end, two
    return str(other), str(folder)
