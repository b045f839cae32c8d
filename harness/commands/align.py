"""`unperturbed align`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from unperturbed.analysis.alignment import Alignment, Region, ScoreSummary
    from unperturbed.collectors.trace import Trace

_BARS = "▁▂▃▄▅▆▇█"


class Command:
    """Align two runs of one program: warp path, scores, and what is not to be trusted."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the runs and how to align them."""
        parser.add_argument("first", type=Path, metavar="RUN_A", help="a run's folder or its trace.parquet")
        parser.add_argument("second", type=Path, metavar="RUN_B", help="another run of the same work")
        parser.add_argument(
            "--on",
            metavar="METRICS",
            help="metrics to align on, separated by commas (IPC; where there is none, all hardware metrics)",
        )
        parser.add_argument(
            "--method",
            choices=("dtw", "milestones"),
            default="dtw",
            help="warp time, or interpolate between the anchor's milestones",
        )
        parser.add_argument(
            "--anchor", metavar="COUNTER", help="a counter of deterministic milestones that the path is made to pass"
        )
        parser.add_argument(
            "--anchors", type=int, metavar="N", help="milestones that may be used, mostly in flat stretches (all)"
        )
        parser.add_argument(
            "--penalty",
            type=float,
            metavar="P",
            help="of a step that is not diagonal (5 median distances of freely aligned intervals)",
        )
        parser.add_argument("--as-the-paper", action="store_true", help="no penalty, no guide, nothing mended or evened")
        parser.add_argument("--region", metavar="START:STOP", help="say where RUN_B does the work of these intervals of RUN_A")
        parser.add_argument(
            "--plot", type=Path, metavar="FILE", help="write a page with the runs, the path and the scores (.html)"
        )
        parser.add_argument("--json", action="store_true", help="print all as JSON, the path too")

    def run(self, arguments: argparse.Namespace) -> int:
        """Align, print, draw; 0 when it could be done."""
        from unperturbed.analysis.alignment import align, judging_counters, map_region, scores_of, with_default_metrics
        from unperturbed.harness.aligning import alignment_json, different_campaigns, read_run

        _refuse(arguments)
        region = _region(arguments.region)
        a, b = read_run(arguments.first), read_run(arguments.second)
        if arguments.on:
            on = tuple(name.strip() for name in arguments.on.split(","))
        else:
            a, b, on = with_default_metrics(a, b)
        alignment = align(
            a,
            b,
            on=on,
            method=arguments.method,
            anchor=arguments.anchor,
            budget=arguments.anchors,
            penalty=0.0 if arguments.as_the_paper else arguments.penalty,
            flat="warped" if arguments.as_the_paper else "even",
            pace="time" if arguments.as_the_paper else None,
            mend=not arguments.as_the_paper,
        )
        scores = scores_of(alignment, a, b, anchor=arguments.anchor)
        mapped = map_region(alignment, *region) if region else None
        notes = [note for note in (different_campaigns(a, b), alignment.warning) if note]
        if arguments.plot:
            _draw(arguments.plot, alignment, a, b, scores, notes)
        if arguments.json:
            described = alignment_json(alignment, a, b, scores)
            if mapped:
                described["region"] = vars(mapped)
            print(json.dumps(described, indent=2, ensure_ascii=False))
            return 0
        _show(alignment, a, b, scores, notes)
        if region and mapped:
            _show_region(region, mapped, certain=bool(judging_counters(a, b)))
        if arguments.plot:
            print(f"plot: {arguments.plot}")
        return 0


def _refuse(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if arguments.as_the_paper and arguments.penalty is not None:
        raise SpecError("--penalty and --as-the-paper exclude each other: the paper has no penalty")
    if arguments.penalty is not None and not 0 <= arguments.penalty < float("inf"):
        raise SpecError(f"--penalty {arguments.penalty:g}: give a number, 0 or more")
    if arguments.anchors is not None and not arguments.anchor:
        raise SpecError("--anchors needs --anchor: whose milestones?")
    if arguments.anchors is not None and arguments.anchors < 0:
        raise SpecError(f"--anchors {arguments.anchors}: give a number, 0 or more")
    if arguments.plot and (arguments.plot.suffix != ".html" or not arguments.plot.parent.is_dir()):
        raise SpecError(f"--plot {arguments.plot}: give a name that ends in .html, in a folder that is there")


def _show_region(region: tuple[int, int], mapped: Region, *, certain: bool) -> None:
    print(f"\nintervals {region[0]}:{region[1]} of the first run are {mapped.start}:{mapped.stop} of the second")
    borders = ("start", mapped.uncertainty[0], mapped.possible[0]), ("stop", mapped.uncertainty[1], mapped.possible[1])
    for name, uncertainty, (low, high) in borders:
        bound = f"; milestones leave {low} to {high} possible" if certain else ""
        print(f"  {name}: ways to align these runs differ by {uncertainty:g} there{bound}")
    if not certain:
        print("  no milestone stands in both runs, so nothing bounds the error")


def _region(text: str | None) -> tuple[int, int] | None:
    from unperturbed.errors import SpecError

    if text is None:
        return None
    start, colon, stop = text.partition(":")
    if not (colon and start.isdigit() and stop.isdigit()):
        raise SpecError(f"--region {text}: give two intervals, as in 120:480")
    return int(start), int(stop)


def _facts(alignment: Alignment, a: Trace, b: Trace) -> list[tuple[str, str]]:
    on = ", ".join(f"{name} (÷ {scale:.4g})" for name, scale in zip(alignment.on, alignment.scale or (), strict=True))
    facts = [
        ("intervals", f"{len(a)} and {len(b)}"),
        ("aligned on", on),
        ("method", alignment.method),
        ("penalty", f"{alignment.penalty:.4g}"),
        ("cost", f"{alignment.cost:.6g}, {alignment.cost / len(alignment):.4g} a path element"),
    ]
    if alignment.anchor and alignment.method == "dtw":
        facts.append(("anchors", f"{len(alignment.anchors)} milestones of {alignment.anchor}"))
    if alignment.method == "dtw":
        facts.append(("progress", f"{alignment.pace}" + ("" if alignment.pace == "time" else ", which guides the path too")))
        flat = f"{alignment.flat_share:.0%} of the path, longest stretch {alignment.longest_flat} intervals"
        facts.append(("flat", flat))
    return facts


def _rows(scores: dict[str, ScoreSummary]) -> list[tuple[str, str, str, str, str]]:
    return [
        (name, f"{summary.elements}", f"{summary.perfect:.1%}", f"{summary.within_one:.1%}", f"{summary.largest}")
        for name, summary in scores.items()
    ]


def _show(alignment: Alignment, a: Trace, b: Trace, scores: dict[str, ScoreSummary], notes: Iterable[str]) -> None:
    import numpy as np
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unperturbed.analysis.alignment import resample

    console = Console(highlight=False, emoji=False)
    for name, value in _facts(alignment, a, b):
        console.print(f"{name:>11}  {escape(value)}")
    metric = alignment.on[0]
    carried = resample(alignment, b[metric], len(a))
    console.print(f"\n[dim]{escape(metric)} of the first run, and of the second where it does the same work:[/dim]")
    low, high = np.quantile(
        np.concatenate((a[metric], carried)), (0.01, 0.99)
    )  # one outlying interval must not press all others flat
    for series in (a[metric], carried):
        console.print(_sparkline(series, low, high, console.width - 1))
    table = Table(
        title="\nby how many intervals milestones are missed", title_justify="left", header_style="bold", box=SIMPLE_HEAD
    )
    table.add_column("milestone")
    for header in ("scored", "0", "at most 1", "largest"):
        table.add_column(header, justify="right")
    for row in _rows(scores):
        table.add_row(*map(escape, row))
    if scores:
        console.print(table)
    else:
        console.print(
            "\nNo other software counter stands in both runs with the same total, so nothing independent judges this path."
        )
    for note in notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}")


def _sparkline(series: ArrayLike, low: float, high: float, width: int) -> str:
    """Return a series as a line of bars; each is the mean of its share of the intervals."""
    import numpy as np

    values = np.asarray(series, np.float64)
    parts = np.array_split(values, min(width, len(values)))
    means = np.array([part.mean() for part in parts])
    levels = np.clip((means - low) / (high - low) * len(_BARS), 0, len(_BARS) - 1) if high > low else np.zeros(len(means))
    return "".join(_BARS[int(level)] for level in levels)


def _draw(path: Path, alignment: Alignment, a: Trace, b: Trace, scores: dict[str, ScoreSummary], notes: Iterable[str]) -> None:
    from unperturbed.analysis.report import render_alignment, write_page
    from unperturbed.harness.aligning import example_of

    page = render_alignment(
        example_of(alignment, a, b, on=alignment.on, anchor=alignment.anchor),
        _facts(alignment, a, b),
        _rows(scores),
        "; ".join(notes),
    )
    write_page(path, page)
