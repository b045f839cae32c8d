"""Find anomalies in an event log by comparing it with logs of good runs."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unperturbed.harness.cli.parser import RegisteredNames
from unperturbed.harness.cli.paths import require_writable_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unperturbed.analysis.diagnosis import DistanceChoice, EventTrace, Kind

DISTANCES: tuple[DistanceChoice, ...] = ("dropping", "occurrence", "temporal", "mannila")
_ANOMALOUS = 4
_THETA = 0.25


def _formats() -> Iterator[str]:
    from unperturbed.analysis.diagnosis import log_formats

    return (name for name in log_formats() if name != "pattern")


class Command:
    """Diagnose an event log against logs of runs that went well."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the logs and what to look for."""
        parser.add_argument(
            "logs",
            nargs="*",
            metavar="REFERENCE… TRACE",
            help="logs of good runs (six are recommended), then the log to diagnose; - is standard input",
        )
        asked = parser.add_mutually_exclusive_group()
        asked.add_argument(
            "--distance",
            choices=DISTANCES,
            help="compute this distance of the paper, and look only for the kinds of anomaly that it belongs to",
        )
        asked.add_argument(
            "--find", action="store_true", help="stop at the first anomaly, in the paper's order of distances"
        )
        asked.add_argument(
            "--all",
            action="store_true",
            help=("look for every kind of anomaly, and compute every distance of the paper for each plugin"),
        )
        parser.add_argument(
            "--method",
            choices=("effects", "paper"),
            default="effects",
            help="effects (default): an anomaly is a physical effect beyond the references' noise; paper: it is any "
            "distance above 0 (needs a distance)",
        )
        parser.add_argument(
            "--theta", type=float, metavar="θ", help=("ratio θ of the occurrence distance (default: 0.25)")
        )
        parser.add_argument(
            "--identity",
            default="level,function,object,word",
            metavar="FIELDS",
            help="fields that identify a GStreamer event (default: level,function,object,word; the paper's: "
            "level,function,word)",
        )
        parser.add_argument(
            "--format",
            choices=RegisteredNames(_formats),
            metavar="FORMAT",
            help="format of all logs: %(choices)s (default: detected from each log's first lines)",
        )
        parser.add_argument(
            "--unit", choices=("ns", "us", "ms", "s", "ticks"), help="unit of timestamps, if the format defines none"
        )
        parser.add_argument(
            "--columns",
            metavar="PART=NAME,…",
            help="columns of a csv log that hold time, name, plugin, level (time=when,name=what)",
        )
        parser.add_argument(
            "--pattern",
            metavar="REGEX",
            help=(
                "regular expression for a line of any other log, with the groups time and name, optionally "
                "plugin and level"
            ),
        )
        parser.add_argument(
            "--process",
            type=int,
            metavar="N",
            help=("process to diagnose in a GStreamer log that several processes wrote"),
        )
        parser.add_argument(
            "--most-late", type=int, metavar="TICKS", help="accept events that are late in the log by at most this time"
        )
        parser.add_argument(
            "--most-bad",
            type=float,
            default=0.1,
            metavar="SHARE",
            help="refuse a log if more than this share of its lines hold no event (default: 0.1)",
        )
        parser.add_argument(
            "--calibrate",
            type=Path,
            metavar="FOLDER",
            help="fit thresholds to the labelled logs in FOLDER/labels.csv (columns log, group, label) and write "
            "FOLDER/thresholds.json",
        )
        parser.add_argument("--thresholds", type=Path, metavar="FILE", help="file of thresholds that --calibrate wrote")
        parser.add_argument("--json", action="store_true", help="print the diagnosis as JSON")
        parser.add_argument(
            "--html",
            type=Path,
            metavar="FILE",
            help=("write an HTML page with both timelines and their differences marked"),
        )
        parser.add_argument(
            "--export",
            type=Path,
            metavar="FILE",
            help="write the events and findings for Perfetto: FILE.perfetto-trace (ui.perfetto.dev opens it)",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Diagnose and print; 4 when the trace is anomalous."""
        from unperturbed.analysis.diagnosis import diagnose
        from unperturbed.harness.cli.warming import warm_once

        _refuse(arguments)
        if arguments.html:
            require_writable_path(arguments.html)
        if arguments.export:
            from unperturbed.harness.exports import choose_format

            choose_format("diagnosis", arguments.export)
        warm_once("diagnosis")
        if arguments.calibrate:
            return _calibrate(arguments)
        *references, trace = (_read(path, arguments) for path in arguments.logs)
        diagnosis = diagnose(
            references,
            trace,
            kinds=_kinds(arguments),
            distances=_distances(arguments),
            first_only=arguments.find,
            method=arguments.method,
            theta=_THETA if arguments.theta is None else arguments.theta,
        )
        if arguments.html:
            diagnosis.write_html(arguments.html)
        if arguments.export:
            from unperturbed.harness.exports import export

            export(diagnosis, "diagnosis", arguments.export)
        if arguments.json:
            print(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
        else:
            from unperturbed.harness.methods.diagnosis.terminal import show_diagnosis

            show_diagnosis(diagnosis)
        return _ANOMALOUS if diagnosis.verdict == "anomalous" else 0


def _refuse(arguments: argparse.Namespace) -> None:
    from unperturbed.errors import SpecError

    if arguments.calibrate:
        if arguments.logs:
            raise SpecError(
                f"--calibrate reads the logs that {arguments.calibrate}/labels.csv names; leave out "
                f"{' '.join(arguments.logs)}"
            )
        if arguments.thresholds:
            raise SpecError("--calibrate fits thresholds, and --thresholds gives them: leave one out")
        return
    if len(arguments.logs) < 2:
        given = f"only {arguments.logs[0]} is given" if arguments.logs else "no log is given"
        raise SpecError(f"{given}: give at least one log of a good run, then the log to diagnose")
    if arguments.logs.count("-") > 1:
        raise SpecError("standard input holds one log: give - once")
    twice = [
        path for path, number in Counter(os.path.realpath(path) for path in arguments.logs[:-1]).items() if number > 1
    ]
    if twice:
        raise SpecError(
            f"{twice[0]} is given twice as a reference: give different runs, since references show how much "
            "clean runs differ"
        )
    if arguments.theta is not None and not 0 <= arguments.theta <= 1:
        raise SpecError(f"--theta {arguments.theta:g}: give a ratio from 0 to 1")
    if arguments.theta is not None and not (arguments.distance == "occurrence" or arguments.all or arguments.find):
        raise SpecError("--theta belongs to the occurrence distance: give --distance occurrence, --find or --all too")
    if arguments.pattern and arguments.format:
        raise SpecError("--pattern is a format of its own: leave out --format")
    if not 0 <= arguments.most_bad <= 1:
        raise SpecError(f"--most-bad {arguments.most_bad:g}: give a share from 0 to 1")
    if arguments.method == "paper" and not (arguments.distance or arguments.find or arguments.all):
        raise SpecError("--method paper needs --distance, --find or --all")


def _calibrate(arguments: argparse.Namespace) -> int:
    """Fit thresholds, print and write them."""
    from unperturbed.analysis.diagnosis import calibrate, read_labelled, write_strictness

    fitted = calibrate(read_labelled(arguments.calibrate, **_reading(arguments)))
    write_strictness(arguments.calibrate / "thresholds.json", fitted)
    if arguments.json:
        print(json.dumps([vars(one) for one in fitted], indent=2))
    else:
        from unperturbed.harness.methods.diagnosis.terminal import show_fitted_strictness

        show_fitted_strictness(fitted, arguments.calibrate / "thresholds.json")
    return 0


def _read(path: str, arguments: argparse.Namespace) -> EventTrace:
    from unperturbed.analysis.diagnosis import read_events

    return read_events(path, **_reading(arguments))


def _reading(arguments: argparse.Namespace) -> dict[str, Any]:
    fields = tuple(field.strip() for field in arguments.identity.split(","))
    return {
        "format": "pattern" if arguments.pattern else arguments.format,
        "unit": arguments.unit,
        "identity": fields,
        "columns": _columns(arguments.columns),
        "pattern": arguments.pattern,
        "process": arguments.process,
        "most_late": arguments.most_late,
        "most_bad": arguments.most_bad,
    }


def _columns(text: str | None) -> dict[str, str] | None:
    """Read --columns."""
    from unperturbed.errors import SpecError

    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    columns = {part.strip(): name.strip() for part, equals, name in pairs if equals}
    if len(columns) < len(pairs) or not set(columns) <= {"time", "name", "plugin", "level"}:
        raise SpecError(
            f"--columns {text}: give parts and columns, as in time=when,name=what; parts are time, name, plugin and "
            "level"
        )
    return columns


def _kinds(arguments: argparse.Namespace) -> list[Kind]:
    from unperturbed.analysis.diagnosis import anomaly_kinds, read_strictness, with_strictness

    kinds = with_strictness(read_strictness(arguments.thresholds)) if arguments.thresholds else anomaly_kinds()
    distance = "temporal" if arguments.distance == "mannila" else arguments.distance
    return [kind for kind in kinds.values() if distance is None or kind.distance == distance]


def _distances(arguments: argparse.Namespace) -> Sequence[DistanceChoice]:
    if arguments.all:
        return DISTANCES
    if arguments.find and arguments.method == "paper":
        return DISTANCES[:3]
    return [arguments.distance] if arguments.distance else []
