"""Import of other tools' recordings as a campaign, and hints for users who pass files of other tools."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from unperturbed.analysis.perturbation.comparable import vary_in_few_intervals
from unperturbed.collectors.data import Kind, Trace
from unperturbed.collectors.data.trace import SCALING
from unperturbed.collectors.imports import ImportFormat, find_files, find_format, read_traces, recognise
from unperturbed.common.scratch import scratch_folder
from unperturbed.common.wording import counted, did_you_mean, first_of, listing
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.manifest import Manifest, now
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.spec.campaign_spec import Imported
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, PILOT, REFERENCE, SHAM_PREFIX

RECORD = "imported.yaml"  # File in an imported campaign's folder that records the import
_PASS = "main"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
_ALIGNED_ON = ("IPC", "PAPI_TOT_INS", "instructions", "instructions:u", "PAPI_TOT_CYC")
"""Metrics to align on, the best first; else the first hardware metric is used, else the first metric."""
_MOST_NOTES = 12


@dataclass(frozen=True)
class Group:
    """Files with the runs of one configuration."""

    name: str  # Name of the configuration; empty if the files contain the name
    files: Sequence[str]  # Paths, folders and patterns


def format_with_intervals(name: str) -> ImportFormat:
    """Return a format by its name; refuse one whose files have totals of whole runs."""
    chosen = find_format(name)
    if chosen.whole_runs:
        raise SpecError(
            f"{chosen.title} has totals of whole runs, and a campaign needs intervals: to compare two recordings, use "
            f"`unperturbed check --from {chosen.name} --baseline FILES --checked FILES`"
        )
    return chosen


def import_campaign(
    format: str,  # noqa: A002
    groups: Sequence[Group],
    folder: Path,
    *,
    options: Mapping[str, str] | None = None,
    baseline: str | None = None,
    align_on: Sequence[str] = (),
    command: str = "",
    tolerance: float | None = None,
    totals: Mapping[str, float] | None = None,
    after: Literal["start", "steady"] = "start",
) -> Imported:
    """Import traces of another tool as a campaign, atomically, into a new or empty folder.

    `tolerance`, `totals` and `after` are as in `analysis` and `measure` of a spec.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "is a file" if not folder.is_dir() else "is not empty"
        raise SpecError(f"{folder} {what}: choose a new folder for the campaign")
    chosen = format_with_intervals(format)
    by_configuration = _read(format, groups, options or {})
    ordered = _with_baseline_first(by_configuration, baseline)
    renamed = [f"{name} was imported as the baseline." for name in by_configuration if name not in ordered]
    metrics, notes = _common_metrics(ordered)
    traces = [trace for runs in ordered.values() for trace in runs]
    name = re.sub(r"[^\w.-]", "-", folder.resolve().name)
    imported = Imported(
        name=name if _NAME.fullmatch(name) else "imported",
        format=chosen.name,
        title=chosen.title,
        options=dict(options or {}),
        files=tuple(_files_of(ordered)),
        configurations={name: len(runs) for name, runs in ordered.items()},
        metrics=metrics,
        align_on=_chosen_to_align(align_on, metrics, next(iter(ordered.values()))),
        interval_ns=int(np.median(np.concatenate([trace.end_ns - trace.begin_ns for trace in traces]))),
        command=command,
        tolerance=tolerance,
        totals=_known_totals(totals or {}, metrics),
        after=after,
        notes=(*renamed, *notes, *_notes_of(traces), *_notes_on_runs(ordered), *_notes_on_order(ordered)),
    )
    _write(folder, imported, ordered)
    return imported


def _read(format_name: str, groups: Sequence[Group], options: Mapping[str, str]) -> dict[str, list[Trace]]:
    runs_of: dict[str, list[Trace]] = {}
    seen: dict[str, tuple[int, str]] = {}  # Number of the group and file, by checksum
    for number, group in enumerate(groups):
        for trace in read_traces(group.files, format_name, **options):
            said = str(trace.attributes.get("configuration", ""))
            if not group.name and not said:
                raise SpecError(
                    f"{trace.attributes['file']} does not name the configuration of its runs: put --as NAME after each "
                    "configuration's files"
                )
            name, file, digest = group.name or said, str(trace.attributes["file"]), str(trace.attributes["sha256"])
            _check_name(name, "--as" if group.name else f"{file}: configuration")
            if seen.setdefault(digest, (number, file)) != (number, file):
                other = seen[digest][1]
                if file == other:
                    raise DataError(f"{file} is given more than once: give each file once")
                raise DataError(f"{file} and {other} are identical, byte for byte: import each run only once")
            runs_of.setdefault(name, []).append(trace)
    return runs_of


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{place} {name!r}: this name is not valid; use --as with a name that begins with a letter (a to z, "
            "A to Z) or a digit, and has at most 64 characters: letters, digits, `_`, `-` and `.`"
        )
    if name in (ANCHOR, PILOT, REFERENCE) or name.startswith(SHAM_PREFIX):
        raise SpecError(f"{place} {name}: this name is reserved; choose another name with --as")


def _with_baseline_first(runs_of: Mapping[str, list[Trace]], baseline: str | None) -> dict[str, list[Trace]]:
    """Return the configurations, with the baseline first and renamed to `baseline`."""
    first = baseline or (BASELINE if BASELINE in runs_of else next(iter(runs_of)))
    if first not in runs_of:
        known = did_you_mean(first, runs_of, limit=1) or f"use {listing(runs_of, 'or')}"
        raise SpecError(f"--baseline {first}: no such configuration; {known}")
    if first != BASELINE and BASELINE in runs_of:
        raise SpecError(
            f"--baseline {first}: another configuration is named `{BASELINE}`; rename that configuration with --as"
        )
    return {BASELINE: runs_of[first], **{name: runs for name, runs in runs_of.items() if name != first}}


def _common_metrics(runs_of: Mapping[str, list[Trace]]) -> tuple[dict[str, Kind], list[str]]:
    """Return the metrics that all runs have, and notes on metrics that only some runs have."""
    traces = [(name, trace) for name, runs in runs_of.items() for trace in runs]
    first = traces[0][1]
    metrics = {
        name: metric.kind
        for name, metric in first.metrics.items()
        if not name.endswith(SCALING) and all(name in trace.metrics for _, trace in traces)
    }
    every = dict.fromkeys(name for _, trace in traces for name in trace.metrics if not name.endswith(SCALING))
    notes = []
    for name in every:
        if name not in metrics:
            having = sum(name in trace.metrics for _, trace in traces)
            notes.append(f"{name} is not compared: the metric is only in {having} of {counted(len(traces), 'run')}.")
    if not metrics:
        _, other = next(pair for pair in traces if not set(pair[1].metrics) & set(first.metrics) or pair is traces[-1])
        raise DataError(
            f"no metric is common to all runs: {first.attributes['file']} has {first_of(list(first.metrics))}; "
            f"{other.attributes['file']} has {first_of(list(other.metrics))}"
        )
    for name, trace in traces:
        for metric in metrics:
            here, there = trace.metrics[metric], first.metrics[metric]
            if (here.kind, here.source, here.unit) != (there.kind, there.source, there.unit):
                raise DataError(
                    f"{metric} differs between runs: kind {here.kind}, unit {here.unit}, source {here.source} in "
                    f"{trace.attributes['file']} ({name}); kind {there.kind}, unit {there.unit}, source {there.source} "
                    f"in {first.attributes['file']}"
                )
    return metrics, notes


def _chosen_to_align(asked: Sequence[str], metrics: Mapping[str, Kind], baseline: Sequence[Trace]) -> tuple[str, ...]:
    """Return the metrics to align on: those asked for, or one that varies in more than a few intervals."""
    for name in asked:
        if name not in metrics:
            known = did_you_mean(name, metrics, limit=1) or f"use {listing(metrics, 'or')}"
            raise SpecError(f"--align-on {name}: not all runs have this metric; {known}")
    if asked:
        return tuple(asked)
    few = vary_in_few_intervals([trace.values(list(metrics)) for trace in baseline], list(metrics))
    possible = {name: kind for name, kind in metrics.items() if name not in few} or metrics
    best = next((name for name in _ALIGNED_ON if name in possible), None)
    counts = (name for name, kind in possible.items() if kind in ("hardware", "simulated"))
    return (best or next(counts, next(iter(possible))),)


def _notes_on_order(runs_of: Mapping[str, list[Trace]]) -> Iterator[str]:
    """Yield what a comparison with the baseline cannot exclude; nothing on runs that overlap in time with its runs."""
    (_, baseline), *others = runs_of.items()
    yield from dict.fromkeys(
        note for name, runs in others if not _overlap(baseline, runs) for note in doubts_on_sides(baseline, runs, name)
    )


def doubts_on_sides(baseline: Sequence[Trace], checked: Sequence[Trace], role: str) -> list[str]:
    """Return what the comparison of two recordings cannot exclude: drift between them, and another host."""
    looks_like = (
        "drift of the host from one to the other (clock rate, temperature, other load) looks like a change, and the "
        "confidence intervals do not cover it. `unperturbed compare -- A -- B` runs both sides in turn."
    )
    first, second = _span(baseline), _span(checked)
    if first is None or second is None:
        how = "The files do not show when each run took place. If the sides were recorded one after the other,"
    elif _overlap(baseline, checked):
        how = "The recordings of the sides overlap in time. Unless they took turns,"
    else:
        when = f"the baseline from {' to '.join(first)}, {role} from {' to '.join(second)}"
        how = f"The sides were recorded one after the other ({when}):"
    hosts = [sorted({str(trace.attributes.get("host") or "") for trace in side}) for side in (baseline, checked)]
    other = (
        f"The baseline was recorded on {listing(hosts[0])}, and {role} on {listing(hosts[1])}: the changes include the "
        "difference between the hosts."
    )
    return [f"{how} {looks_like}", *([other] if hosts[0] != hosts[1] and all(map(all, hosts)) else [])]


def _overlap(baseline: Sequence[Trace], checked: Sequence[Trace]) -> bool:
    """Return whether the sides took turns, or were recorded at the same time."""
    first, second = _span(baseline), _span(checked)
    if first is None or second is None:
        return False
    took_turns = all(one[0] <= max(_begins(other)) for one, other in ((first, checked), (second, baseline)))
    return took_turns or (first[0] < second[1] and second[0] < first[1])


def _span(traces: Sequence[Trace]) -> tuple[str, str] | None:
    """Return when the first run began and the last one ended; None unless all runs have a start time."""
    begins = _begins(traces)
    if not all(begins):
        return None
    return min(begins), max(_later(begin, _seconds(trace)) for begin, trace in zip(begins, traces, strict=True))


def _begins(traces: Sequence[Trace]) -> list[str]:
    return [str(trace.attributes.get("started") or "")[:19].replace("T", " ") for trace in traces]


def _later(time: str, seconds: float) -> str:
    """Return a time so many seconds later, in whole seconds; a time of another form as it is."""
    try:
        return (datetime.fromisoformat(time) + timedelta(seconds=seconds)).isoformat(" ", "seconds")
    except (ValueError, OverflowError):
        return time


def _seconds(trace: Trace) -> float:
    """Return the time from the begin of a recording to its end."""
    if not len(trace):
        return float(trace.attributes.get("time_s", 0.0))
    after = trace.attributes.get("after_last", {}).get("ns", 0)
    return float(trace.end_ns[-1] + after - trace.begin_ns[0]) / 1e9


def _known_totals(totals: Mapping[str, float], metrics: Mapping[str, Kind]) -> dict[str, float]:
    for name in totals:
        if name not in ("default", "time", *metrics):
            known = did_you_mean(name, metrics, limit=1) or f"use {listing(metrics, 'or')}"
            raise SpecError(f"--tolerance {name}: not all runs have this metric; {known}")
    return dict(totals)


def _notes_of(traces: Sequence[Trace]) -> list[str]:
    """Return each note of the importers once, with the first file that has it and the number of other runs."""
    places: dict[str, list[str]] = {}
    for trace in traces:
        for note in trace.attributes.get("notes", ()):
            about = re.sub(r"\d[\d,.]*( (min|s)\b)?", "…", note)
            places.setdefault(about, []).append(f"{trace.attributes['file']}: {note}")
    said = [
        f"{here[0]}." if len(here) == 1 else f"{here[0]} (also in {counted(len(here) - 1, 'other run')})."
        for here in places.values()
    ]
    further = [f"The traces contain {len(said) - _MOST_NOTES} further notes."] if said[_MOST_NOTES:] else []
    return said[:_MOST_NOTES] + further


def _notes_on_runs(runs_of: Mapping[str, list[Trace]]) -> list[str]:
    """Return notes on too few runs of the baseline, and on the numbers of runs that a file names otherwise."""
    from unperturbed.analysis.perturbation.baseline import MINIMUM_RUNS  # noqa: PLC0415  not for each command

    few = len(runs_of[BASELINE])
    notes = [
        f"The baseline has {counted(few, 'run')}: from fewer than {MINIMUM_RUNS}, `check` does not see how much "
        "correlations vary between runs."
    ] * (few < MINIMUM_RUNS)
    numbers: dict[str, list[tuple[str, str]]] = {}
    for number, trace in enumerate((trace for runs in runs_of.values() for trace in runs), 1):
        own = str(trace.attributes["run"])
        numbers.setdefault(str(trace.attributes["file"]), []).append((f"{number:04d}", own))
    for file, named in numbers.items():
        if len(named) > 1:
            shown = first_of([f"{number} is {own}" for number, own in named])
            notes.append(f"Runs of {file} have numbers: {shown}.")
    return notes


def _files_of(runs_of: Mapping[str, list[Trace]]) -> list[dict[str, Any]]:
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for number, (name, trace) in enumerate(((name, trace) for name, runs in runs_of.items() for trace in runs), 1):
        file, digest = str(trace.attributes["file"]), str(trace.attributes["sha256"])
        entry = files.setdefault((file, name), {"file": file, "sha256": digest, "configuration": name, "runs": []})
        entry["runs"].append(f"{number:04d}")
    return list(files.values())


def _write(folder: Path, imported: Imported, runs_of: Mapping[str, list[Trace]]) -> None:
    """Write a campaign's folder atomically: first under another name, then renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder("import", folder.parent) as aside:
        place = aside / folder.name
        (place / "runs").mkdir(parents=True)
        head = f"# The record of an import. `unperturbed check {folder}` judges the runs; there is no program to run.\n"
        text = head + str(yaml.safe_dump(imported.to_dict(), sort_keys=False, allow_unicode=True, width=120))
        (place / RECORD).write_text(text, encoding="utf-8")
        _write_runs(place, imported, runs_of, text, folder)
        if folder.exists():
            folder.rmdir()  # an empty one
        shutil.move(place, folder)


def _write_runs(place: Path, imported: Imported, runs_of: Mapping[str, list[Trace]], text: str, folder: Path) -> None:
    order = _order([trace for runs in runs_of.values() for trace in runs])
    listed = ((name, at, trace) for name, runs in runs_of.items() for at, trace in enumerate(runs, 1))
    planned = [
        (PlannedRun(f"{number:04d}", name, _PASS, repetition, 0, 0), trace)
        for number, (name, repetition, trace) in enumerate(listed, 1)
    ]
    begun = now()
    with Manifest(place / "campaign.sqlite") as manifest:
        manifest.set_facts(
            purpose="a campaign",
            imported=imported.to_dict(),
            spec_text=text,
            spec_path=str(folder.absolute() / RECORD),
            name=imported.name,
            begun=begun,
            host="not recorded",
            passes=[
                {
                    "name": _PASS,
                    "source": "simulated" if "simulated" in imported.metrics.values() else "imported",
                    "metrics": list(imported.metrics),
                    "machine": None,
                }
            ],
            **{f"{PILOT}:{_PASS}": {"interval_ns": imported.interval_ns, "intervals": 0, "seconds": 0.0, "note": ""}},
        )
        manifest.plan(run for run, _ in planned)
        for (run, trace), at in zip(planned, order, strict=True):
            (place / "runs" / run.id).mkdir()
            attributes = {
                **trace.attributes,
                "run": run.id,
                "recorded_as": str(trace.attributes["run"]),
                "configuration": run.configuration,
                "order": at,
                "campaign": imported.name,
                "pass": _PASS,
            }
            seconds = _seconds(trace)
            attributes.setdefault("time_s", seconds)
            replace(trace, attributes=attributes).write(place / "runs" / run.id / "trace.parquet")
            started = str(trace.attributes.get("started", begun))
            manifest.start(run, attempt=1, started=started, host={})
            manifest.finish(run, seconds=seconds, intervals=len(trace), host={})


def _order(traces: Sequence[Trace]) -> list[int]:
    """Return each run's position in time, or in the order of the files if any start time is missing."""
    started = [str(trace.attributes.get("started", "")) for trace in traces]
    if not all(started):
        return list(range(len(traces)))
    order = sorted(range(len(traces)), key=lambda at: started[at])
    return [int(rank) for rank in np.argsort(order)]


_LOOKED_AT = 20


def what_to_type(path: Path) -> str:
    """Return a hint with the command that reads a file or folder of another tool; empty if no command can."""
    try:
        files = find_files(path)[:_LOOKED_AT]
    except (DataError, OSError):
        return ""
    for file in files:
        file_format = recognise(file)
        if file_format is not None:
            what = (
                f"{path} is {file_format.title}" if path.is_file() else f"the files in {path} are {file_format.title}"
            )
            place = path if path.is_dir() else path.parent
            if file_format.whole_runs:
                return (
                    f"{what}, with totals of whole runs; to compare two recordings, use `unperturbed check --from "
                    f"{file_format.name} --baseline '{place}/…' --checked '…'`"
                )
            return (
                f"{what}; to check these runs, use `unperturbed check --from {file_format.name} --baseline '{place}/…' "
                f"--checked '…'`; to import these runs as a campaign, use `unperturbed import {file_format.name} FILES "
                "--as baseline FILES --as NAME -o CAMPAIGN`"
            )
    return ""
