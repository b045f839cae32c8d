"""Show the state of a campaign: runs done and left, time left, and why it waits."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import duration
from unperturbed.harness.cli.paths import CAMPAIGN_OR_SPEC, campaign_folder
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import terminal

if TYPE_CHECKING:
    from unperturbed.common.table import Tone
    from unperturbed.harness.nodes.status import CampaignStatus, PartStatus

TONES: Mapping[str, Tone] = {"done": "good", "running": "strong", "failed": "bad", "stopped": "undecided"}


class Command:
    """`unperturbed status CAMPAIGN|SPEC`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the campaign and `--json`."""
        parser.description = (
            "Show the state of a campaign from any terminal, while the campaign runs or later. The command writes "
            "nothing and does not disturb a running campaign."
        )
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN|SPEC", help=CAMPAIGN_OR_SPEC)
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the campaign's state; return 0."""
        from unperturbed.harness.nodes.status import read_status

        status = read_status(campaign_folder(arguments.campaign))
        if arguments.json:
            print_json(status.to_dict())
        else:
            _show(status)
        return 0


def _show(status: CampaignStatus) -> None:
    console = terminal(whole_rows=True)
    kind = "" if status.purpose == "a campaign" else f" ({status.purpose.removeprefix('a ')})"
    started = f", started {status.begun[:16].replace('T', ' ')}" if status.begun else ""
    console.say(f"[bold]{escape(status.name)}[/bold]{escape(kind)}{started}")
    rows: list[list[Cell | str]] = []
    for part in status.parts:
        left = "" if part.seconds_left is None else duration(part.seconds_left, whole=True)
        counts = [str(part.runs.get(state, 0)) for state in ("done", "running", "failed", "planned")]
        rows.append(
            [
                part.node or "node not chosen yet",
                Cell(part.phase, TONES.get(part.phase, "")),
                *counts,
                "" if part.phase in ("done", "failed") else left,
            ]
        )
    heads = [Column("host" if len(status.parts) == 1 else "node"), Column("state")]
    numbers = [Column(head, "right") for head in ("done", "running", "failed", "left", "time left")]
    console.print(Table([*heads, *numbers], rows).to_rich())
    for part in status.parts:
        for line in _remarks(part):
            console.say(escape(line))


def _remarks(part: PartStatus) -> list[str]:
    """Return the lines below the table for one part: its current run, why it waits, and its failures."""
    remarks = []
    if part.current is not None:
        now = part.current
        again = f", attempt {now.attempt}" if now.attempt > 1 else ""
        remarks.append(
            f"now:    run {now.run} ({now.configuration}, {now.pass_name}{again}), running for {duration(now.seconds)}"
        )
    if part.waits:
        remarks.append(f"waits:  {part.waits}")
    return remarks + [f"failed: {failure}" for failure in part.failures]
