"""List the campaigns in a folder: runs done, runs failed, and verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.common.table import Cell, Column, Table
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.summary import HOME
from unperturbed.harness.cli.overview.status import TONES
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import terminal

if TYPE_CHECKING:
    from unperturbed.harness.campaign.summary import CampaignSummary


class Command:
    """`unperturbed list [FOLDER]`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the folder and `--json`."""
        parser.add_argument(
            "folder",
            type=Path,
            nargs="?",
            metavar="FOLDER",
            help="folder to search for campaigns, a few levels deep (default: campaigns/ if it exists, else the "
            "current folder)",
        )
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print one row for each campaign; return 0."""
        from unperturbed.harness.campaign.summary import find_campaigns, read_summary

        folder: Path = arguments.folder or (HOME if HOME.is_dir() else Path())
        if not folder.is_dir():
            raise SpecError(f"{folder}: no such folder; give an existing folder to search")
        summaries = [read_summary(place) for place in find_campaigns(folder)]
        if arguments.json:
            print_json([summary.to_dict() for summary in summaries])
        elif summaries:
            _show(summaries)
        else:
            print(
                f"no campaign in {folder.absolute()}: create one with `unperturbed run SPEC` or `unperturbed run -- "
                "./program`"
            )
        return 0


def _show(summaries: Sequence[CampaignSummary]) -> None:
    console = terminal(whole_rows=True)
    rows: list[list[Cell | str]] = []
    for summary in summaries:
        kind = "" if summary.purpose in ("", "a campaign") else f" ({summary.purpose.removeprefix('a ')})"
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in summary.verdicts.items())
        rows.append(
            [
                f"{summary.folder}{kind}",
                Cell(summary.phase, "bad" if summary.problem else TONES.get(summary.phase, "")),
                _runs(summary),
                summary.begun[:16].replace("T", " "),
                summary.problem or verdicts,
            ]
        )
    columns = [Column(head) for head in ("folder", "state", "runs", "started", "correlations")]
    console.print(Table(columns, rows).to_rich())
    left = [summary for summary in summaries if summary.phase == "stopped"]
    if left:
        console.print(f"To resume a stopped campaign ({len(left)} in this list), repeat its run command.")


def _runs(summary: CampaignSummary) -> str:
    if not summary.planned:
        return ""
    failed = summary.runs.get("failed", 0)
    return f"{summary.runs.get('done', 0)} of {summary.planned}{f', {failed} failed' if failed else ''}"
