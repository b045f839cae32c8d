"""`unperturbed diagnose`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unperturbed.analysis.diagnosis import EventTrace
    from unperturbed.analysis.diagnosis.diagnosing import DistanceChoice
    from unperturbed.analysis.diagnosis.kinds import Kind

DISTANCES = ("dropping", "occurrence", "temporal", "mannila")
_ANOMALOUS = 4


class Command:
    """Diagnose an event log against logs of runs that went well."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the logs and what to look for."""
        parser.add_argument(
            "logs",
            nargs="+",
            metavar="REFERENCE… TRACE",
            help="logs of runs that went well, six are good; the last is the one to diagnose, - is standard input",
        )
        asked = parser.add_mutually_exclusive_group()
        asked.add_argument(
            "--distance",
            choices=DISTANCES,
            help="compute this distance of the paper, and look only for the kinds that stand on it",
        )
        asked.add_argument("--find", action="store_true", help="stop at the first anomaly, in the paper's order of distances")
        asked.add_argument("--all", action="store_true", help="every kind, and every distance of the paper for each plugin")
        parser.add_argument(
            "--as-the-paper",
            action="store_true",
            help="the paper's rule: any distance above 0 is an anomaly (needs a distance)",
        )
        parser.add_argument("--theta", type=float, default=0.25, metavar="θ", help="of the occurrence distance (0.25)")
        parser.add_argument(
            "--identity",
            default="level,function,object,word",
            metavar="FIELDS",
            help="what makes two GStreamer events the same (level,function,object,word; the paper's: level,function,word)",
        )
        parser.add_argument("--format", choices=("gstreamer", "ftrace", "simple", "csv"), help="of all logs (told from each)")
        parser.add_argument("--unit", choices=("ns", "us", "ms", "s", "ticks"), help="of timestamps, where the format has none")
        parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Diagnose and print; 4 when the trace is anomalous."""
        from unperturbed.analysis.diagnosis import diagnose

        _refuse(arguments)
        *references, trace = (_read(path, arguments) for path in arguments.logs)
        diagnosis = diagnose(
            references,
            trace,
            kinds=_kinds(arguments.distance),
            distances=_distances(arguments),
            first_only=arguments.find,
            as_paper=arguments.as_the_paper,
            theta=arguments.theta,
        )
        if arguments.json:
            print(json.dumps(diagnosis.to_json(), indent=2, ensure_ascii=False))
        else:
            from unperturbed.harness.terminal_diagnosis import show_diagnosis

            show_diagnosis(diagnosis)
        return _ANOMALOUS if diagnosis.verdict == "anomalous" else 0


def _refuse(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if len(arguments.logs) < 2:
        raise SpecError(
            f"only {arguments.logs[0]} is given: give at least one log of a run that went well, and last the one to diagnose"
        )
    if arguments.logs.count("-") > 1:
        raise SpecError("standard input holds one log: give - once")
    if not 0 <= arguments.theta <= 1:
        raise SpecError(f"--theta {arguments.theta:g}: give a ratio from 0 to 1")
    if arguments.as_the_paper and not (arguments.distance or arguments.find or arguments.all):
        raise SpecError("--as-the-paper needs --distance, --find or --all")


def _read(path: str, arguments: argparse.Namespace) -> EventTrace:
    from unperturbed.analysis.diagnosis import read_events

    fields = tuple(field.strip() for field in arguments.identity.split(","))
    return read_events(path, format=arguments.format, unit=arguments.unit, identity=fields)


def _kinds(distance: str | None) -> list[Kind]:
    from unperturbed.analysis.diagnosis import KINDS

    stands_on = "temporal" if distance == "mannila" else distance
    return [kind for kind in KINDS.values() if distance is None or kind.distance == stands_on]


def _distances(arguments: argparse.Namespace) -> Sequence[DistanceChoice]:
    if arguments.all:
        return DISTANCES
    if arguments.find and arguments.as_the_paper:
        return DISTANCES[:3]
    return [arguments.distance] if arguments.distance else []
