"""Export a trace, a campaign's runs or a sweep's table to another tool's format."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from unperturbed.common.wording import listing
from unperturbed.errors import SpecError
from unperturbed.harness.cli.options import add_format
from unperturbed.harness.cli.paths import campaign_folder

if TYPE_CHECKING:
    from unperturbed.collectors.data import Trace
    from unperturbed.harness.exports import Format, Kind
    from unperturbed.harness.exports.content.runs import ExportedRuns
    from unperturbed.harness.studies.sweep_table import SweepTable

    Content = Trace | SweepTable | ExportedRuns


class Command:
    """`unperturbed export TRACE|CAMPAIGN|SPEC [-o FILE] [--format NAME]`."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: what to export, in which format, to which file, and which runs."""
        add = parser.add_argument
        add(
            "source",
            type=Path,
            metavar="TRACE|CAMPAIGN|SPEC",
            help="a trace file, the folder of a run, campaign or sweep, or the spec of a campaign or sweep",
        )
        add(
            "-o",
            "--out",
            type=Path,
            metavar="FILE",
            help="file to write. Default: for a folder, campaign.SUFFIX, table.SUFFIX or trace.SUFFIX in this folder; "
            "for a trace file NAME.parquet, NAME.SUFFIX beside it",
        )
        add_format(parser, "campaign")
        add(
            "--configuration",
            action="append",
            default=[],
            metavar="NAME",
            help="export only this configuration's runs; repeatable",
        )
        add("--run", action="append", default=[], metavar="ID", help="export only this run of a campaign; repeatable")
        add(
            "--split",
            choices=("configuration", "run"),
            help="write one file for each configuration or run, named after it; all files have the same columns",
        )
        add(
            "--aligned",
            action="store_true",
            help="map all runs to the time axis of one run: the first of the configuration `anchor`, or else the first "
            "of all runs (only for formats with a time axis)",
        )
        add(
            "--phases",
            action="store_true",
            help="show the phases that recur in the runs as slices, by phase word (only for formats with a time axis)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Export the chosen content and print the files' paths; return 0."""
        from unperturbed.harness.exports import choose_format, export

        source, kind = _find(arguments.source)
        out = _output_path(source, kind, arguments)
        chosen = choose_format(kind, out, arguments.format)  # refuse a wrong name before reading all runs
        _check(arguments, kind, chosen)
        if kind == "table":
            from unperturbed.harness.studies.sweep_table import read_table

            parts: dict[Path, Content] = {out: read_table(source)}
        elif kind == "trace" and not arguments.phases:
            from unperturbed.harness.library import read_trace

            parts = {out: read_trace(source)}
        else:
            kind, runs = "campaign", _read_runs(source, kind, arguments)
            parts = {out: runs} if arguments.split is None else _split(runs, out, chosen, arguments.split)
        for path in parts:
            choose_format(kind, path, chosen.name)
        for path, part in parts.items():
            export(part, kind, path, name=chosen.name)
            print(path)
        if not chosen.shows_kinds and (simulated := _simulated(parts.values())):
            print(
                f"note: the exported file does not show that these metrics are simulated: {', '.join(simulated)}",
                file=sys.stderr,
            )
        return 0


def _simulated(parts: Iterable[Content]) -> list[str]:
    """Return the exported metrics that a simulator counted."""
    from unperturbed.harness.studies.sweep_table import SweepTable

    names: dict[str, None] = {}
    for part in parts:
        described = part.columns if isinstance(part, SweepTable) else part.metrics.values()
        names |= dict.fromkeys(metric.name for metric in described if metric.kind == "simulated")
    return list(names)


def _find(given: Path) -> tuple[Path, Kind]:
    """Return the file or folder that the argument names, and its kind."""
    from unperturbed.collectors.data import TABLE

    if given.suffix in (".yaml", ".yml") and given.is_file():
        given = campaign_folder(given)
    source = given.absolute()
    if source.is_file() or (source / "trace.parquet").is_file():
        return source, "trace"
    return source, "table" if (source / TABLE).is_file() else "campaign"


def _output_path(source: Path, kind: Kind, arguments: argparse.Namespace) -> Path:
    from unperturbed.harness.exports import formats

    if arguments.out is not None:
        return Path(arguments.out.absolute())
    if arguments.format is None:
        raise SpecError("the format is missing: give --format NAME, or -o FILE with the suffix of a format")
    export_format = formats(kind).get(arguments.format)
    suffix = export_format.suffixes[0] if export_format else ".unknown"  # `choose_format` refuses an unknown name
    if source.is_file():
        out = source.with_name(source.name.removesuffix(".parquet") + suffix)
    else:
        out = source / f"{kind}{suffix}"
    if out == source or (out.exists() and out.name in ("trace.parquet", "table.parquet", "table.csv")):
        raise SpecError(f"the export would overwrite the recorded data in {out}: give a different file with -o")
    return out


def _check(arguments: argparse.Namespace, kind: Kind, chosen: Format) -> None:
    from unperturbed.harness.exports import formats

    for option in ("configuration", "run", "split", "aligned"):
        if getattr(arguments, option) and kind != "campaign":
            raise SpecError(f"--{option} applies to the runs of a campaign, but {arguments.source} is not a campaign")
    if arguments.phases and kind == "table":
        raise SpecError(f"--phases needs a time axis, but {arguments.source} is a sweep, and sweeps have no time axis")
    for option in ("aligned", "phases"):
        if getattr(arguments, option) and not chosen.timeline:
            others = listing((name for name, export_format in formats(kind).items() if export_format.timeline), "or")
            raise SpecError(f"--{option}: the format {chosen.name} has no time axis; use {others}")


def _read_runs(source: Path, kind: Kind, arguments: argparse.Namespace) -> ExportedRuns:
    """Return the chosen runs, with phases and aligned time axes if the options request them."""
    from unperturbed.harness.exports.content.runs import read_runs, single_run

    notes: list[str] = []
    if kind == "trace":
        from unperturbed.harness.library import read_trace

        runs = single_run(read_trace(source), source.name.removesuffix(".parquet"))
    else:
        runs = read_runs(source, configurations=arguments.configuration, ids=arguments.run)
    if arguments.phases:
        from types import FunctionType

        from unperturbed.common.extensions import loaders

        runs, added = loaders("unperturbed.slices", FunctionType)["phases"]()(runs)
        notes += added
    if arguments.aligned:
        from unperturbed.harness.exports.content.timeline import align_runs
        from unperturbed.harness.results.recorded import recorded_campaign

        runs, added = align_runs(runs, recorded_campaign(source))
        notes += added
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return runs


def _split(runs: ExportedRuns, out: Path, chosen: Format, by: str) -> dict[Path, Content]:
    """Return the files of a split export, such as `campaign.steps.csv`, and the runs in each file."""
    from dataclasses import replace

    suffix = next((end for end in chosen.suffixes if out.name.endswith(end)), out.suffix)
    stem = out.name.removesuffix(suffix)
    names = {run: run.configuration if by == "configuration" else run.id for run in runs}
    return {
        out.with_name(f"{stem}.{name}{suffix}"): replace(runs, runs=tuple(run for run in runs if names[run] == name))
        for name in dict.fromkeys(names.values())
    }
