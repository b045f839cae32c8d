"""Find anomalies in an event log by comparing it with logs of good runs."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from unperturbed.harness.cli.parser import RegisteredNames
from unperturbed.harness.cli.paths import require_writable_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from unperturbed.analysis.diagnosis import DistanceChoice, Kind

DISTANCES: tuple[DistanceChoice, ...] = ("dropping", "occurrence", "temporal", "mannila")
_ANOMALOUS = 4
_THETA = 0.25


def _formats() -> Iterator[str]:
    from unperturbed.analysis.diagnosis import log_formats

    return (name for name in log_formats() if name != "pattern")


class Command:
    """Diagnose an event log by comparison with logs of good runs."""

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments for the logs, and the options for the anomalies to look for."""
        add = parser.add_argument
        logs = "logs of good runs (six are recommended), then the log to diagnose; - reads standard input"
        add("logs", nargs="*", metavar="REFERENCE… TRACE", help=logs)
        asked = parser.add_mutually_exclusive_group()
        distance = "compute this distance of the paper, and look only for the kinds of anomaly that it measures"
        asked.add_argument("--distance", choices=DISTANCES, help=distance)
        find = "stop at the first anomaly, in the paper's order of distances"
        asked.add_argument("--find", action="store_true", help=find)
        everything = "look for every kind of anomaly, and compute every distance of the paper for each plugin"
        asked.add_argument("--all", action="store_true", help=everything)
        method = (
            "effects (default): an anomaly is a physical effect that exceeds the references' noise; paper: an anomaly "
            "is any distance above 0 (needs --distance, --find or --all)"
        )
        add("--method", choices=("effects", "paper"), default="effects", help=method)
        add(
            "--theta",
            type=float,
            metavar="θ",
            help="for the occurrence distance, a ratio from 0 to 1: an event type differs if one log contains at most "
            f"θ times as many events of this type as the other log (default: {_THETA})",
        )
        identity = "level,function,object,word"
        fields = f"fields that identify a GStreamer event (default: {identity}; in the paper: level,function,word)"
        add("--identity", default=identity, metavar="FIELDS", help=fields)
        formats = "format of all logs: %(choices)s (default: detected from each log)"
        add("--format", choices=RegisteredNames(_formats), metavar="FORMAT", help=formats)
        units = ("ns", "us", "ms", "s", "ticks")
        add("--unit", choices=units, help="unit of timestamps, if the format defines none")
        columns = "columns of a CSV log that contain time, name, plugin and level, as in time=when,name=what"
        add("--columns", metavar="PART=COLUMN,…", help=columns)
        pattern = (
            "regular expression for each line of a log in another format, with groups time and name, and optionally "
            "plugin and level"
        )
        add("--pattern", metavar="REGEX", help=pattern)
        process = "process to diagnose in a GStreamer log that several processes wrote"
        add("--process", type=int, metavar="N", help=process)
        late = "accept events that are out of order in a log if they are late by at most this time"
        add("--most-late", type=int, metavar="TICKS", help=late)
        bad = "reject a log if more than this share of its lines contain no event (default: 0.1)"
        add("--most-bad", type=float, default=0.1, metavar="SHARE", help=bad)
        calibrate = (
            "fit thresholds to the labelled logs in FOLDER/labels.csv (columns log, group, label) and write "
            "FOLDER/thresholds.json"
        )
        add("--calibrate", type=Path, metavar="FOLDER", help=calibrate)
        add("--thresholds", type=Path, metavar="FILE", help="use the thresholds in this file, which --calibrate wrote")
        add("--json", action="store_true", help="print the diagnosis as JSON")
        page = "write an HTML page that shows both timelines and marks their differences"
        add("--html", type=Path, metavar="FILE", help=page)
        perfetto = "write the events and findings to FILE.perfetto-trace, for ui.perfetto.dev"
        add("--export", type=Path, metavar="FILE", help=perfetto)

    def run(self, arguments: argparse.Namespace) -> int:
        """Diagnose the log and print the result; return 4 if the log is anomalous."""
        from unperturbed.analysis.diagnosis import diagnose, read_events
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
        reading = _reading(arguments)
        *references, trace = (read_events(path, **reading) for path in arguments.logs)
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
                f"--calibrate reads the logs listed in {arguments.calibrate}/labels.csv: leave out "
                f"{' '.join(arguments.logs)}"
            )
        if arguments.thresholds:
            raise SpecError("--calibrate fits thresholds, and --thresholds reads fitted ones: use only one of them")
        return
    if len(arguments.logs) < 2:
        given = f"only one log is given, {arguments.logs[0]}" if arguments.logs else "no log is given"
        raise SpecError(f"{given}: give at least one log of a good run, then the log to diagnose")
    if arguments.logs.count("-") > 1:
        raise SpecError("standard input can be only one of the logs: give `-` once")
    twice = [
        path for path, number in Counter(os.path.realpath(path) for path in arguments.logs[:-1]).items() if number > 1
    ]
    if twice:
        raise SpecError(
            f"{twice[0]} is given twice as a reference: give logs of different runs, because references show how much "
            "good runs differ"
        )
    if arguments.theta is not None and not 0 <= arguments.theta <= 1:
        raise SpecError(f"--theta {arguments.theta:g}: give a ratio from 0 to 1")
    if arguments.theta is not None and not (arguments.distance == "occurrence" or arguments.all or arguments.find):
        raise SpecError("--theta needs the occurrence distance: add --distance occurrence, --find or --all")
    if arguments.pattern and arguments.format:
        raise SpecError("--pattern defines a format: use --pattern without --format")
    if not 0 <= arguments.most_bad <= 1:
        raise SpecError(f"--most-bad {arguments.most_bad:g}: give a share from 0 to 1")
    if arguments.method == "paper" and not (arguments.distance or arguments.find or arguments.all):
        raise SpecError("--method paper needs a choice of distances: add --distance, --find or --all")


def _calibrate(arguments: argparse.Namespace) -> int:
    """Fit thresholds to labelled logs, write them to a file and print them."""
    from unperturbed.analysis.diagnosis import calibrate, read_labelled, write_strictness

    fitted = calibrate(read_labelled(arguments.calibrate, **_reading(arguments)))
    write_strictness(arguments.calibrate / "thresholds.json", fitted)
    if arguments.json:
        print(json.dumps([vars(strictness) for strictness in fitted], indent=2))
    else:
        from unperturbed.harness.methods.diagnosis.terminal import show_fitted_strictness

        show_fitted_strictness(fitted, arguments.calibrate / "thresholds.json")
    return 0


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
    """Return the columns that --columns names, by the parts of an event that they contain."""
    from unperturbed.errors import SpecError

    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    columns = {part.strip(): name.strip() for part, equals, name in pairs if equals}
    if len(columns) < len(pairs) or not set(columns) <= {"time", "name", "plugin", "level"}:
        raise SpecError(
            f"--columns {text}: write PART=COLUMN pairs, separated by commas, as in time=when,name=what; PART is time, "
            "name, plugin or level"
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


def warm() -> None:
    """Compile the readers of event logs and the distances of event traces ahead of their first use."""
    from unperturbed.analysis import diagnosis
    from unperturbed.common.scratch import scratch_folder

    for log_format in diagnosis.log_formats().values():
        log_format.compile()
    with scratch_folder("warming") as place:
        path = place / "log"
        path.write_text("".join(f"{1000 * at} {'abc'[at % 3]}\n" for at in range(60)))
        trace = diagnosis.read_events(path, format="simple")
    diagnosis.abstract(trace, diagnosis.learn_blocks([trace]))
    diagnosis.diagnose([trace, trace, trace], trace)
    for types, step in ((3, 1), (3, 1 << 30), (50, 1)):  # few and many types, times of 32 bits and of more
        events, others = (
            diagnosis.EventTrace.from_pairs(
                [((step + 10) * at + at % 7, f"type{at * stride % types}") for at in range(300)]
            )
            for stride in (1, 7)
        )
        for variant in get_args(diagnosis.Variant):
            diagnosis.temporal_distance(events, others, variant=variant).script()
