"""Align two runs of the same work: warp path, scores, and where the path is unreliable."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from unperturbed.errors import SpecError, UnperturbedError
from unperturbed.harness.cli.paths import require_trace, require_writable_path
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import print_note, terminal
from unperturbed.harness.cli.warming import warm_once

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from unperturbed.analysis.alignment import Alignment, Region
    from unperturbed.collectors import Trace

_OF_RUNS = ("method", "anchor", "anchors", "penalty", "moved", "region")
"""Options that are for the alignment of whole runs."""
_BARS = "▁▂▃▄▅▆▇█"


class Command:
    """Align two runs of one program: warp path, scores, and where the path is unreliable."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the runs, and how to align them."""
        add = parser.add_argument
        add("first", type=Path, metavar="RUN_A", help="a run's folder or its trace.parquet")
        add("second", type=Path, metavar="RUN_B", help="folder or trace.parquet of another run that does the same work")
        add(
            "--on",
            metavar="METRICS",
            help="comma-separated metrics to align on. Default: the metrics of `align_on` if both runs belong to one "
            "campaign whose spec sets this key; otherwise IPC; without IPC, all hardware metrics",
        )
        add(
            "--method",
            choices=("dtw", "milestones", "paper"),
            default="dtw",
            help="dtw (default): dynamic time warping; milestones: interpolation between the anchor's milestones; "
            'paper: dynamic time warping as in "Aligning Traces for Performance Evaluation", without this tool\'s '
            "additions: replacement of short intervals, penalty, guide, and even pace in flat stretches "
            "(docs/explanation/alignment.md)",
        )
        add(
            "--anchor",
            metavar="COUNTER",
            help="counter whose nth event marks the same work in every run; the warp path must align intervals that "
            "certainly share an event",
        )
        add(
            "--anchors",
            type=int,
            metavar="N",
            help="use at most N milestones of --anchor, mostly where the metrics cannot guide the alignment "
            "(default: all)",
        )
        add(
            "--penalty",
            type=float,
            metavar="P",
            help="cost of a non-diagonal step (default: 5 times the median distance between intervals aligned "
            "without penalty)",
        )
        add(
            "--moved",
            choices=("absorb", "match"),
            default="absorb",
            help="match: search for stretches that change places between the runs, such as a garbage collection that "
            "comes earlier in one run, and align them separately; absorb (default): align them with a neighbour",
        )
        add(
            "--region",
            metavar="START:STOP",
            help="show which intervals of RUN_B do the same work as these intervals of RUN_A",
        )
        add(
            "--threads",
            choices=("role", "work"),
            help="align the runs' threads one by one (`measure: threads: each`): role pairs threads of the same role, "
            "in the order of their creation; work pairs threads of one routine by the work that they took, as from a "
            "queue",
        )
        add("--html", type=Path, metavar="FILE", help="write an HTML page with the runs, the warp path and the scores")
        add("--json", action="store_true", help="print everything as JSON, including the warp path")

    def run(self, arguments: argparse.Namespace) -> int:
        """Align the runs, print or write the result; return 0."""
        from unperturbed.analysis.alignment import align, map_region, matching_counters
        from unperturbed.collectors import Trace

        _refuse(arguments)
        if arguments.threads:
            return _align_threads(arguments)
        region = _region(arguments.region)
        for given in (arguments.first, arguments.second):
            require_trace(given)
        a, b = Trace.read(arguments.first), Trace.read(arguments.second)
        warm_once("alignment")
        alignment = align(
            a,
            b,
            on=tuple(name.strip() for name in arguments.on.split(","))
            if arguments.on
            else _named_by_spec(a, b, arguments),
            method=arguments.method,
            anchor=arguments.anchor,
            budget=arguments.anchors,
            penalty=arguments.penalty,
            moved=arguments.moved,
        )
        mapped = map_region(alignment, *region) if region else None
        if arguments.html:
            alignment.write_html(arguments.html)
        if arguments.json:
            described = alignment.to_dict()
            if mapped:
                described["region"] = vars(mapped)
            print_json(described)
            return 0
        _show(alignment)
        if arguments.moved == "match" and not len(alignment.moved):
            print("\nno stretch was found that changed places")
        if region and mapped:
            _show_region(region, mapped, certain=bool(matching_counters(a, b)))
        if arguments.html:
            print(f"page: {arguments.html}")
        return 0


def _align_threads(arguments: argparse.Namespace) -> int:
    from unperturbed.analysis.alignment.threads import align_threads
    from unperturbed.harness.campaign.traces import read_threads

    threads = [read_threads(given) for given in (arguments.first, arguments.second)]
    warm_once("alignment")
    on = [name.strip() for name in arguments.on.split(",")] if arguments.on else None
    aligned = align_threads(*threads, by=arguments.threads, on=on)
    if arguments.html:
        aligned.write_html(arguments.html)
    if arguments.json:
        print_json(aligned.to_dict())
        return 0
    console = terminal()
    console.print(escape(aligned.headline()))
    for table in aligned.tables():
        console.print()
        console.print(table.to_rich())
    for note in aligned.notes:
        print_note(console, note)
    if arguments.html:
        print(f"page: {arguments.html}")
    return 0


def _named_by_spec(a: Trace, b: Trace, arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the spec's `align_on` metrics that both runs have; None unless both are of one campaign that sets it."""
    import yaml

    from unperturbed.harness.results.recorded import recorded_campaign

    runs = [given if given.is_dir() else given.parent for given in (arguments.first, arguments.second)]
    folder, other = (run.resolve().parent.parent for run in runs)
    if folder != other or not (folder / "campaign.sqlite").is_file():
        return None
    try:
        spec = recorded_campaign(folder)
    except UnperturbedError:  # a sweep or a damaged folder: two runs can still be aligned
        return None
    if spec.imported is None and "align_on" not in (yaml.safe_load(spec.text).get("analysis") or {}):
        return None
    return tuple(name for name in spec.analysis.align_on if name in a.metrics and name in b.metrics) or None


def _refuse(arguments: argparse.Namespace) -> None:
    if arguments.threads:
        unused = [name for name in _OF_RUNS if getattr(arguments, name) not in (None, "dtw", "absorb")]
        if unused:
            raise SpecError(
                f"--{unused[0]} cannot be used with --threads, which aligns the threads by plain dynamic time warping"
            )
    if arguments.method == "paper" and arguments.penalty is not None:
        raise SpecError("--penalty cannot be used with --method paper: the paper's method has no penalty")
    if arguments.method == "milestones" and arguments.moved == "match":
        raise SpecError("--moved match compares the metric, which --method milestones ignores: use another method")
    if arguments.penalty is not None and not 0 <= arguments.penalty < float("inf"):
        raise SpecError(f"--penalty {arguments.penalty:g}: give a finite number, 0 or more")
    if arguments.anchors is not None and not arguments.anchor:
        raise SpecError("--anchors needs --anchor: give --anchor COUNTER too")
    if arguments.anchors is not None and arguments.anchors < 0:
        raise SpecError(f"--anchors {arguments.anchors}: give a whole number, 0 or more")
    if arguments.html:
        require_writable_path(arguments.html)


def _show_region(region: tuple[int, int], mapped: Region, *, certain: bool) -> None:
    print(
        f"\nintervals {region[0]}:{region[1]} of the first run correspond to intervals {mapped.start}:{mapped.stop} of "
        "the second run"
    )
    borders = ("start", mapped.uncertainty[0], mapped.possible[0]), ("stop", mapped.uncertainty[1], mapped.possible[1])
    for name, uncertainty, (low, high) in borders:
        bound = f"; by the milestones, the {name} is between {low} and {high}" if certain else ""
        print(f"  {name}: different alignments of these runs differ by {uncertainty:g} intervals{bound}")
    if not certain:
        print("  the runs have no common milestones, so the error has no known bound")


def _region(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    start, colon, stop = text.partition(":")
    if not (colon and start.isdigit() and stop.isdigit()):
        raise SpecError(f"--region {text}: give START:STOP as interval numbers, such as 120:480")
    return int(start), int(stop)


def _show(alignment: Alignment) -> None:
    import numpy as np

    from unperturbed.analysis.alignment import merge_text, resample

    console = terminal()
    for name, value in merge_text.facts(alignment):
        console.print(f"{name:>11}  {escape(value)}")
    a, b = alignment.runs
    metric = alignment.on[0]
    mapped = resample(alignment, b[metric], len(a))
    console.print(f"\n[dim]{escape(metric)} of the first run, and of the second run aligned to the first:[/dim]")
    # Quantiles keep one outlying interval from flattening all others.
    low, high = np.quantile(np.concatenate((a[metric], mapped)), (0.01, 0.99))
    for series in (a[metric], mapped):
        console.print(_sparkline(series, low, high, max(1, console.width - 1)))
    console.print()
    if alignment.scores:
        console.print(merge_text.scores_table(alignment.scores).to_rich())
    else:
        console.print(
            "No other software counter has the same total in both runs, so the path cannot be checked independently."
        )
    for note in merge_text.notes(alignment):
        print_note(console, note)


def _sparkline(series: ArrayLike, low: float, high: float, width: int) -> str:
    """Return a series as a line of bars; each bar shows the mean of an equal share of the intervals."""
    import numpy as np

    values = np.asarray(series, np.float64)
    parts = np.array_split(values, min(width, len(values)))
    means = np.array([part.mean() for part in parts])
    levels = (
        np.clip((means - low) / (high - low) * len(_BARS), 0, len(_BARS) - 1) if high > low else np.zeros(len(means))
    )
    return "".join(_BARS[int(level)] for level in levels)
