"""Merge the runs of a campaign into one trace with every metric."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.errors import SpecError
from unperturbed.harness.cli.options import add_format
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import print_note, terminal
from unperturbed.harness.cli.warming import warm_once

if TYPE_CHECKING:
    from unperturbed.harness.results.merging import MergedCampaign


class Command:
    """Merge a campaign's runs into one trace with every metric."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the campaign and options."""
        add = parser.add_argument
        add("campaign", type=Path, metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        add(
            "-o",
            "--out",
            type=Path,
            metavar="FILE",
            help="trace to write: .parquet, or .csv for the values only (default: CAMPAIGN/merged.parquet)",
        )
        add_format(parser, "trace")
        add("--anchors", type=int, metavar="N", help="use at most N milestones of the anchor (default: all)")
        add(
            "--force",
            action="store_true",
            help="also merge configurations that the outer check finds perturbed, and mark them",
        )
        add(
            "--without",
            action="append",
            default=[],
            metavar="CONFIGURATION",
            help="leave out this configuration; repeatable",
        )
        add(
            "--threads",
            choices=("role", "work"),
            help="also merge the runs' threads one by one (`measure: threads: each`), and write a trace for each role "
            "of the reference run into CAMPAIGN/merged_threads; role and work as for `align`",
        )
        add("--json", action="store_true", help="print what was merged as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Merge the runs and write the trace; return 0."""
        from unperturbed.harness.exports import choose_format, export
        from unperturbed.harness.results.merging import merge_campaign

        folder = campaign_folder(arguments.campaign)
        out: Path = (arguments.out or folder / "merged.parquet").absolute()
        choose_format("trace", out, arguments.format)  # before the work
        if arguments.anchors is not None and arguments.anchors < 0:
            raise SpecError(f"--anchors {arguments.anchors}: give a whole number, 0 or more")
        warm_once("alignment")
        campaign = merge_campaign(folder, budget=arguments.anchors, force=arguments.force, without=arguments.without)
        export(campaign.merged.trace, "trace", out, name=arguments.format)
        threads = _merge_threads(arguments, folder, campaign) if arguments.threads else {}
        if arguments.json:
            print_json({**_described(campaign, out), **({"threads": threads} if threads else {})})
            return 0
        _show(campaign, out)
        for role, file in threads.items():
            print(f"{role}: {file}")
        return 0


def _merge_threads(arguments: argparse.Namespace, folder: Path, campaign: MergedCampaign) -> dict[str, str]:
    """Write the merged trace of each role; return the files by role."""
    from unperturbed.harness.results.merging import merge_threads

    place = folder / "merged_threads"
    merged = merge_threads(folder, campaign, by=arguments.threads)
    place.mkdir(exist_ok=True)
    for old in place.glob("*.parquet"):
        old.unlink()
    files = {}
    for number, (role, trace) in enumerate(merged.items()):
        files[role] = str(place / f"{number:03d}.parquet")
        trace.write(files[role])
    return files


def _described(campaign: MergedCampaign, out: Path) -> dict[str, object]:
    from unperturbed.analysis.across_passes import across_to_dict

    described = campaign.merged.to_dict()
    first = ("configuration", "pass", "run", "repetitions", "metrics")
    described["sources"] = [
        {**{key: source[key] for key in first}, "rejected": source["configuration"] in campaign.rejected, **source}
        for source in described["sources"]
    ]
    across = across_to_dict(campaign.across)
    return {"trace": str(out), **described, "across_passes": across, "notes": list(campaign.notes)}


def _show(campaign: MergedCampaign, out: Path) -> None:
    from unperturbed.analysis.across_passes import across_table
    from unperturbed.analysis.alignment import merge_text

    console = terminal()
    console.print(merge_text.merge_table(campaign.merged, campaign.rejected).to_rich())
    console.print(
        "Spread: number of intervals by which alignments through other repetitions differ from the direct alignment. "
        "The columns spread:… contain the spread of each interval."
    )
    if campaign.across:
        console.print(across_table(campaign.across).to_rich())
    for source in campaign.merged.sources:
        if source.alignment and source.alignment.warning:
            print_note(console, f"{source.title}: {source.alignment.warning}")
    for note in campaign.notes:
        print_note(console, note)
    if campaign.merged.trace.names("simulated"):
        console.say("Hardware metrics are [bold yellow]simulated[/bold yellow], not counted by a processor.")
    console.say(f"{len(campaign.merged.trace)} intervals: {out}")
