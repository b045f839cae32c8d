"""`unperturbed merge`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unperturbed.harness.merging import MergedCampaign


class Command:
    """Join a campaign's runs into one trace that holds every metric."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the campaign's folder and what to do with it."""
        parser.add_argument("campaign", type=Path, metavar="CAMPAIGN", help="the campaign's folder")
        parser.add_argument(
            "--out",
            type=Path,
            metavar="FILE",
            help="the trace to write: .parquet, or .csv for the values alone (CAMPAIGN/merged.parquet)",
        )
        parser.add_argument("--anchors", type=int, metavar="N", help="milestones of the anchor that may be used (all)")
        parser.add_argument(
            "--force", action="store_true", help="merge configurations too that the outer check shows perturbed, marked so"
        )
        parser.add_argument(
            "--without",
            action="append",
            default=[],
            metavar="CONFIGURATION",
            help="leave a configuration out; may be given again",
        )
        parser.add_argument("--json", action="store_true", help="print what was merged as JSON instead of a table")

    def run(self, arguments: argparse.Namespace) -> int:
        """Merge and write; 0 once the trace stands."""
        from unperturbed.errors import SpecError
        from unperturbed.harness.merging import merge_campaign

        folder: Path = arguments.campaign.absolute()
        out: Path = (arguments.out or folder / "merged.parquet").absolute()
        if out.suffix not in (".parquet", ".csv"):
            raise SpecError(f"--out {arguments.out}: give a name that ends in .parquet or .csv")
        if not out.parent.is_dir():
            raise SpecError(f"--out {arguments.out}: there is no folder {out.parent}")
        if arguments.anchors is not None and arguments.anchors < 0:
            raise SpecError(f"--anchors {arguments.anchors}: give a number, 0 or more")
        found = merge_campaign(folder, budget=arguments.anchors, force=arguments.force, without=arguments.without)
        if out.suffix == ".csv":
            found.merged.trace.to_polars().write_csv(out)
        else:
            found.merged.trace.write(out)
        if arguments.json:
            print(json.dumps(_described(found, out), indent=2, ensure_ascii=False))
        else:
            _show(found, out)
        return 0


def _described(found: MergedCampaign, out: Path) -> dict[str, object]:
    sources = [
        {
            "configuration": source.configuration,
            "pass": source.pass_name,
            "run": source.run,
            "repetitions": source.repetitions,
            "metrics": list(source.metrics),
            "rejected": source.configuration in found.rejected,
            "median_spread": None if source.spread is None else _quantile(source.spread, 0.5),
            "spread_90": None if source.spread is None else _quantile(source.spread, 0.9),
            "warning": source.alignment.warning if source.alignment else "",
        }
        for source in found.merged.sources
    ]
    return {"trace": str(out), "intervals": len(found.merged.trace), "sources": sources, "notes": list(found.notes)}


def _show(found: MergedCampaign, out: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False, emoji=False)
    table = Table(title="One trace with every metric", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for header in ("from", "run", "metrics"):
        table.add_column(header)
    for header in ("spread, median", "90 %"):
        table.add_column(header, justify="right")
    for source in found.merged.sources:
        mark = " [bold red]✗ perturbed[/bold red]" if source.configuration in found.rejected else ""
        spread = ("–", "–") if source.spread is None else tuple(f"{_quantile(source.spread, q):.1f}" for q in (0.5, 0.9))
        run = f"{source.run} of {source.repetitions}" + (" (reference)" if source.alignment is None else "")
        table.add_row(escape(source.title) + mark, run, escape(", ".join(source.metrics)), *spread)
    console.print(table)
    console.print(
        "Spread: intervals by which alignments by way of the other repetitions end elsewhere than the direct one; interval by interval it is in "
        "the columns spread:…"
    )
    for source in found.merged.sources:
        if source.alignment and source.alignment.warning:
            console.print(f"[yellow]note:[/yellow] {escape(source.title)}: {escape(source.alignment.warning)}")
    for note in found.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}")
    console.print(f"{len(found.merged.trace)} intervals: {out}", soft_wrap=True)


def _quantile(values: object, share: float) -> float:
    import numpy as np

    return float(np.quantile(np.asarray(values), share))
