"""Show where a spec's software metrics count, what they miss, and what one event costs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from unperturbed.errors import SpecError
from unperturbed.harness.cli.streams import print_json
from unperturbed.harness.cli.terminal import terminal

if TYPE_CHECKING:
    from rich.console import Console

    from unperturbed.harness.program.software_metrics import MetricSites, Place, SpecSites

_SHOWN = 12


class Command:
    """List where each software metric of a spec counts, what it misses, and what one event costs; run nothing."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments: the spec and options."""
        parser.add_argument("spec", type=Path, metavar="SPEC", help="an experiment's YAML file")
        parser.add_argument(
            "--all", action="store_true", help=f"list every site, not only the first {_SHOWN} of each metric"
        )
        parser.add_argument("--json", action="store_true", help="print everything as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Build the program, find the sites and print them; raise SpecError if a metric has no site."""
        from unperturbed.harness.program.software_metrics import find_all_sites
        from unperturbed.harness.spec.load import load_spec
        from unperturbed.harness.spec.sections.parameters import at_a_point

        def step(what: str) -> None:
            print(f"{what} …", file=sys.stderr)

        sites = find_all_sites(at_a_point(load_spec(arguments.spec)), step)
        if arguments.json:
            print_json(_as_json(sites))
        else:
            _show(sites, most=None if arguments.all else _SHOWN)
        if faults := [metric.fault for metric in sites.metrics if metric.fault]:
            raise SpecError("\n".join(faults))
        return 0


def _as_json(sites: SpecSites) -> dict[str, Any]:
    return {
        "metrics": {
            metric.name: {
                "event": metric.event.to_json(),
                "counted": metric.event.means,
                "semantics": metric.event.semantics,
                "sites": [vars(place) for place in metric.sites],
                "unseen": [vars(place) for place in metric.uncounted],
                "instructions_per_event": metric.instructions,
                "cost": metric.cost,
                "fault": metric.fault or None,
            }
            for metric in sites.metrics
        },
        "without_counters": dict(sites.skipped),
    }


def _show(sites: SpecSites, *, most: int | None) -> None:
    console = terminal(whole_rows=True)
    for metric in sites.metrics:
        _show_metric(console, metric, most)
    for source, reason in sites.skipped.items():
        console.print(f"compiled without counters: {source} ({reason})", markup=False)


def _show_metric(console: Console, metric: MetricSites, most: int | None) -> None:
    count = len(metric.sites)
    places = f"{count} site{'' if count == 1 else 's'}" if count else "[bold red]no site[/bold red]"
    event = ", ".join(f"{key}: {_inner(value)}" for key, value in metric.event.to_json().items())
    cost = f"; {escape(metric.cost)}" if count else ""
    console.print(f"[bold]{escape(metric.name)}[/bold]  {escape('{' + event + '}')}  {places}{cost}")
    width = max((len(_at(place)) for place in metric.sites), default=0)
    for place in metric.sites[:most]:
        console.print(f"    {_at(place):{width}}  {place.text}", markup=False, overflow="ellipsis", no_wrap=True)
    if most is not None and count > most:
        console.print(f"    … and {count - most} more (--all)", markup=False)
    for place in metric.uncounted[:most]:
        console.print(
            f"    not counted: {_at(place)}{': ' if place.file else ''}{place.text}", markup=False, style="yellow"
        )
    if most is not None and len(metric.uncounted) > most:
        console.print(f"    … and {len(metric.uncounted) - most} more that are not counted (--all)", markup=False)


def _inner(value: object) -> str:
    return (
        "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
        if isinstance(value, dict)
        else str(value)
    )


def _at(place: Place) -> str:
    return f"{place.file}:{place.line}" if place.line else place.file
