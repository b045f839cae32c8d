"""`unperturbed diagnose`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unperturbed.analysis.diagnosis import EventTrace
    from unperturbed.analysis.diagnosis.diagnosing import DistanceChoice
    from unperturbed.analysis.diagnosis.kinds import Kind

DISTANCES: tuple[DistanceChoice, ...] = ("dropping", "occurrence", "temporal", "mannila")
_ANOMALOUS = 4


class Command:
    """Diagnose an event log against logs of runs that went well."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the logs and what to look for."""
        parser.add_argument(
            "logs",
            nargs="*",
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
        parser.add_argument(
            "--calibrate",
            type=Path,
            metavar="FOLDER",
            help="fit thresholds to the labelled logs of FOLDER/labels.csv (columns log, group, label), write FOLDER/thresholds.json",
        )
        parser.add_argument("--thresholds", type=Path, metavar="FILE", help="thresholds that --calibrate fitted")
        parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
        parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with both timelines, differences marked")

    def run(self, arguments: argparse.Namespace) -> int:
        """Diagnose and print; 4 when the trace is anomalous."""
        from unperturbed.analysis.diagnosis import diagnose

        _refuse(arguments)
        if arguments.calibrate:
            return _calibrate(arguments)
        *references, trace = (_read(path, arguments) for path in arguments.logs)
        diagnosis = diagnose(
            references,
            trace,
            kinds=_kinds(arguments),
            distances=_distances(arguments),
            first_only=arguments.find,
            as_paper=arguments.as_the_paper,
            theta=arguments.theta,
        )
        if arguments.html:
            from unperturbed.analysis.report import render_diagnosis, write_page

            write_page(arguments.html, render_diagnosis(diagnosis))
        if arguments.json:
            print(json.dumps(diagnosis.to_json(), indent=2, ensure_ascii=False))
        else:
            from unperturbed.harness.terminal_diagnosis import show_diagnosis

            show_diagnosis(diagnosis)
        return _ANOMALOUS if diagnosis.verdict == "anomalous" else 0


def _refuse(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if arguments.calibrate:
        if arguments.logs:
            raise SpecError(
                f"--calibrate reads the logs that {arguments.calibrate}/labels.csv names; leave out {' '.join(arguments.logs)}"
            )
        return
    if len(arguments.logs) < 2:
        given = f"only {arguments.logs[0]} is given" if arguments.logs else "no log is given"
        raise SpecError(f"{given}: give at least one log of a run that went well, and last the one to diagnose")
    if arguments.logs.count("-") > 1:
        raise SpecError("standard input holds one log: give - once")
    if not 0 <= arguments.theta <= 1:
        raise SpecError(f"--theta {arguments.theta:g}: give a ratio from 0 to 1")
    if arguments.as_the_paper and not (arguments.distance or arguments.find or arguments.all):
        raise SpecError("--as-the-paper needs --distance, --find or --all")


def _calibrate(arguments: argparse.Namespace) -> int:
    """Fit thresholds, print and write them."""
    from unperturbed.analysis.diagnosis import calibrate, read_labelled
    from unperturbed.analysis.diagnosis.calibrating import write_strictness

    fitted = calibrate(read_labelled(arguments.calibrate, **_reading(arguments)))
    write_strictness(arguments.calibrate / "thresholds.json", fitted)
    if arguments.json:
        print(json.dumps([vars(one) for one in fitted], indent=2))
    else:
        from unperturbed.harness.terminal_diagnosis import show_fitted

        show_fitted(fitted, arguments.calibrate / "thresholds.json")
    return 0


def _read(path: str, arguments: argparse.Namespace) -> EventTrace:
    from unperturbed.analysis.diagnosis import read_events

    return read_events(path, **_reading(arguments))


def _reading(arguments: argparse.Namespace) -> dict[str, Any]:
    fields = tuple(field.strip() for field in arguments.identity.split(","))
    return {"format": arguments.format, "unit": arguments.unit, "identity": fields}


def _kinds(arguments: argparse.Namespace) -> list[Kind]:
    from unperturbed.analysis.diagnosis import KINDS, with_strictness
    from unperturbed.analysis.diagnosis.calibrating import read_strictness

    kinds = with_strictness(read_strictness(arguments.thresholds)) if arguments.thresholds else KINDS
    stands_on = "temporal" if arguments.distance == "mannila" else arguments.distance
    return [kind for kind in kinds.values() if stands_on is None or kind.distance == stands_on]


def _distances(arguments: argparse.Namespace) -> Sequence[DistanceChoice]:
    if arguments.all:
        return DISTANCES
    if arguments.find and arguments.as_the_paper:
        return DISTANCES[:3]
    return [arguments.distance] if arguments.distance else []
