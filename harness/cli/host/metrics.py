"""List every metric of this host: source, unit, meaning, and how many fit into one run."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from unperturbed.common.table import Column, Table
from unperturbed.errors import SpecError
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import Terminal, terminal

if TYPE_CHECKING:
    from unperturbed.collectors.listing import Listing
    from unperturbed.collectors.sources import CatalogueEntry


class Command:
    """List every metric of this host: its source, unit and meaning, and how many metrics fit into one run."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the pattern, and options that narrow or widen the list."""
        add = parser.add_argument
        add(
            "pattern",
            nargs="?",
            metavar="PATTERN",
            help="list only matching metrics: a glob on names ('perf::L1-*', 'sched:*'), or part of a name or meaning",
        )
        add("--json", action="store_true", help="print everything as JSON, including metrics that cannot be counted")
        add("--all", action="store_true", help="also show metrics that cannot be counted here, each with the reason")
        from unperturbed.collectors.sources import source_names

        names = source_names()
        add("--source", choices=names, metavar="NAME", help=f"list only metrics of this source: {', '.join(names)}")
        add(
            "--compiler",
            default="gcc",
            metavar="CC",
            help="C compiler for the program that tries the events (default: gcc)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Try the events and print the result; raise SpecError if no metric matches."""
        from unperturbed.collectors.listing import list_metrics, nearest

        listing = list_metrics(arguments.compiler, pattern=arguments.pattern, source=arguments.source)
        if not listing.metrics and not listing.perf_metrics:
            names = nearest(arguments.pattern, list_metrics(arguments.compiler, source=arguments.source))
            proposal = (
                f"; the nearest names are {', '.join(names)}"
                if names
                else "; `unperturbed metrics --all` lists every metric"
            )
            by = f" of source {arguments.source}" if arguments.source else ""
            raise SpecError(f"no metric{by} matches {arguments.pattern!r}{proposal}")
        if arguments.json:
            print_json(_as_json(listing))
        else:
            _show(listing, refused=arguments.all or arguments.pattern is not None, whole=arguments.pattern is None)
        return 0


def _as_json(listing: Listing) -> dict[str, Any]:
    return {
        "sources": [vars(state) for state in listing.sources],
        "metrics": [
            {
                "name": metric.name,
                "family": metric.family,
                "available": metric.best.available,
                "source": metric.best.source if metric.best.available else None,
                "kind": metric.best.kind,
                "unit": metric.best.unit,
                "meaning": metric.best.meaning,
                "aliases": metric.aliases,
                "sources": [{**vars(way), "available": way.available} for way in metric.ways],
            }
            for metric in listing.metrics
        ],
        "tracepoints": dict(listing.tracepoints),
        "tracepoint_problem": listing.tracepoint_problem,
        "perf_metrics": [vars(metric) for metric in listing.perf_metrics],
        "perf_metric_problem": listing.perf_metric_problem,
    }


def _show(listing: Listing, *, refused: bool, whole: bool) -> None:
    """Print one table per source, the metrics that no source counts, and how many metrics fit into one run."""
    from unperturbed.collectors.sources import source_names

    console = terminal(whole_rows=True)
    for source in source_names():
        chosen = [metric for metric in listing.metrics if metric.best.available and metric.best.source == source]
        if chosen:
            by = "simulated by callgrind" if source == "simulated" else source
            _table(console, f"{by} ({len(chosen)})", chosen, "also by", _others)
    dead = [metric for metric in listing.metrics if not metric.best.available]
    if refused and dead:
        _table(console, f"cannot be counted here ({len(dead)})", dead, "why", _why)
    elif dead:
        console.print("[bold]cannot be counted here[/bold] (--all lists them)")
        # One line for all metrics of a family that the preferred source refuses for the same reason.
        groups = Counter((metric.family, metric.ways[0].source, metric.ways[0].problem) for metric in dead)
        for (family, first, problem), number in groups.items():
            line = f"  {number} {family}{'' if number == 1 else 's'} — {first}: {problem}"
            console.say(escape(line))
    if refused:
        _show_perf_metrics(console, listing)
    if whole:
        _show_tracepoints(console, listing)
        if not refused:
            _summarise_perf_metrics(console, listing)
        console.print("[bold]metrics that fit into one run[/bold]")
        for state in listing.sources:
            name = f"{state.name} {state.version}".strip()
            fits = "–" if state.fits is None else str(state.fits)
            note = f"[red]{escape(state.problem)}[/red]" if state.problem else escape(state.note)
            console.say(f"  {name:<12} {fits:>3}  {note}")


def _others(metric: CatalogueEntry) -> str:
    return ", ".join(way.source for way in metric.ways if way.available and way is not metric.best)


def _why(metric: CatalogueEntry) -> str:
    reasons: dict[str, list[str]] = {}
    for way in metric.ways:
        reasons.setdefault(way.problem, []).append(way.source)
    return "; ".join(f"{', '.join(sources)}: {reason}" for reason, sources in reasons.items())


def _show_tracepoints(console: Terminal, listing: Listing) -> None:
    number = sum(listing.tracepoints.values())
    if listing.tracepoint_problem:
        console.say(f"[bold]tracepoints[/bold]: {escape(listing.tracepoint_problem)}")
    if number:
        systems = ", ".join(f"{name} {count}" for name, count in sorted(listing.tracepoints.items()))
        console.say(
            f"[bold]tracepoints[/bold], counted by perf_event ({number} in {len(listing.tracepoints)} subsystems; list "
            f"some with: unperturbed metrics 'sched:*')\n  {escape(systems)}"
        )


def _show_perf_metrics(console: Terminal, listing: Listing) -> None:
    """Print the metrics from perf's tables; a spec requests them under `derived`."""
    rows = [
        (f"perf-metric:{metric.asked}", ", ".join(metric.groups), metric.meaning) for metric in listing.perf_metrics
    ]
    if rows:
        columns = [Column("metric", whole=True), Column("groups"), Column("meaning")]
        console.print(Table(columns, rows, f"perf's metrics, for derived: ({len(rows)})").to_rich(), crop=False)


def _summarise_perf_metrics(console: Terminal, listing: Listing) -> None:
    if listing.perf_metric_problem:
        console.say(f"[bold]perf's metrics[/bold]: {escape(listing.perf_metric_problem)}")
        return
    if not listing.perf_metrics:
        return
    groups = Counter(group for metric in listing.perf_metrics for group in metric.groups)
    named = ", ".join(f"{group} {number}" for group, number in groups.items())
    console.say(
        f"[bold]perf's metrics[/bold] ({len(listing.perf_metrics)} in {len(groups)} groups; list some with: "
        f"unperturbed metrics {next(iter(groups), 'GROUP')})\n  {escape(named)}"
    )


def _table(
    console: Terminal,
    caption: str,
    metrics: Sequence[CatalogueEntry],
    last: str,
    describe: Callable[[CatalogueEntry], str],
) -> None:
    rows: list[tuple[str, ...]] = [
        (metric.name, metric.best.unit, metric.best.kind, metric.best.meaning, describe(metric)) for metric in metrics
    ]
    columns = [*(Column(head, whole=True) for head in ("metric", "unit", "kind")), Column("meaning"), Column(last)]
    if not any(row[-1] for row in rows):
        rows, columns = [row[:-1] for row in rows], columns[:-1]
    console.print(Table(columns, rows, caption).to_rich(), crop=False)
