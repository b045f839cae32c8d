"""Paraver: counters in the event records of a .prv file, with names from the .pcf file beside it, as Extrae writes.

An event record is `2:cpu:application:task:thread:time:type:value…`; a counter's value is its count since the previous
record of the same thread (Paraver's "Trace generation" manual; Extrae's event types of counters). Other records (states
and communication) are skipped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    MOST,
    ImportFormat,
    check_intervals,
    common_options,
    decode,
    from_ends,
    interval_ns,
    known_kind,
    make_trace,
    refuse,
    sum_in_intervals,
    with_attributes,
    without_part,
)
from unperturbed.common.wording import counted, first_of

_OPTIONS = {
    "tasks": "sum: one run with the sum of all tasks and threads; runs: one run per task (default: sum)",
    "interval": "interval length in ms; required to sum several threads (default: intervals between records)",
}
_HEADER = re.compile(r"#Paraver \(.*?\):(?P<length>\d+)(?P<unit>_ns|_us)?:")
_UNITS = {"_ns": 1, "_us": 1000, None: 1000}
_COUNTERS = (range(41_000_000, 46_000_000), range(71_000_001, 72_000_000))
"""Event types of counters: Extrae's, and those that this tool's export uses for metrics that are not presets."""
_THOUSANDTHS = "thousandths"


@dataclass
class _Events:
    """Values of an event type in one task or in all tasks, and the time of each value [ns]."""

    times: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    lines = decode(content, path).splitlines()
    header = _HEADER.match(lines[0]) if lines else None
    if header is None:
        refuse(path, "not a Paraver header (#Paraver (date):duration:…)", 1)
    factor = _UNITS[header["unit"]]
    apart = common_options(options, path, "tasks", ("sum", "runs"), "sum") == "runs"
    runs: defaultdict[tuple[str, ...], defaultdict[int, _Events]] = defaultdict(lambda: defaultdict(_Events))
    threads: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    others: dict[int, None] = {}
    last = 0
    latest: dict[tuple[str, ...], str] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.startswith("2:"):
            if line.strip() and line[0] not in "13c#":
                refuse(path, "not a Paraver record", number)
            continue
        fields, time, payload = _events(line, factor)
        if not payload:
            cut = ": the trace is truncated" if number == len(lines) else ""
            refuse(path, f"incomplete event record{cut}", number)
        if time < last:
            refuse(path, "this record is earlier than the previous one: records are out of order", number)
        last = time
        task = tuple(fields[2:4]) if apart else ()
        thread = tuple(fields[2:5])
        if latest.get(thread) == line:
            refuse(path, "duplicate record: its counts would be added twice", number)
        latest[thread] = line
        for kind, value in zip(payload[::2], payload[1::2], strict=True):
            if any(kind in types for types in _COUNTERS):
                runs[task][kind].times.append(time)
                runs[task][kind].values.append(value)
                threads[task].add(thread)
            else:
                others[kind] = None
    if not runs:
        refuse(path, "no record contains a counter (event types from 42000000 on): enable counters when recording")
    names = _names(path)
    notes = [f"the import leaves out {counted(len(others), 'event type')} without counts"] if others else []
    traces = []
    for task, events in sorted(runs.items(), key=lambda item: [int(part) for part in item[0]]):
        trace = _trace(events, names, path, options, several=len(threads[task]) > 1, notes=notes)
        traces.append(with_attributes(trace, run=f"{path.stem} task {'.'.join(task)}") if task else trace)
    return traces


def _events(line: str, factor: int) -> tuple[list[str], int, list[int]]:
    """Return an event record's fields, its time [ns], and its types and values (empty if the record is incomplete)."""
    fields = line.split(":")
    try:
        time, payload = int(fields[5]) * factor, [int(word) for word in fields[6:]]
    except (IndexError, ValueError):
        return fields, -1, []
    whole = payload and time >= 0 and not len(payload) % 2 and max(time, *map(abs, payload)) <= MOST
    return fields, time, payload if whole else []


def _names(path: Path) -> dict[int, str]:
    """Return the names of event types from the .pcf file beside the trace; empty if there is no such file."""
    names: dict[int, str] = {}
    with suppress(OSError):
        inside = False
        for line in path.with_suffix(".pcf").read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split(None, 2)
            if line.strip() == "EVENT_TYPE":
                inside = True
            elif inside and len(words) == 3 and words[0].isdigit() and words[1].isdigit():
                names[int(words[1])] = words[2].strip()
            else:
                inside = False
    return names


def _trace(
    events: Mapping[int, _Events],
    names: Mapping[int, str],
    path: Path,
    options: Mapping[str, str],
    *,
    several: bool,
    notes: list[str],
) -> Trace:
    times = {kind: np.array(held.times, np.int64) for kind, held in events.items()}
    last = max(int(moments[-1]) for moments in times.values())
    if "interval" in options:
        length = interval_ns(options["interval"], path)
        check_intervals(last // length, path)
        ends = np.append(np.arange(length, last, length), last).astype(np.int64)
    elif several:
        refuse(path, "several threads record at different times: set interval=MS, or tasks=runs for one run per task")
    else:
        ends = np.unique(np.concatenate(list(times.values())))
    metrics, columns = [], {}
    missing = [kind for kind in events if kind not in names]
    for kind, held in events.items():
        metric, divisor = _metric(kind, names.get(kind, ""))
        metrics.append(metric)
        columns[metric.name] = sum_in_intervals(ends, times[kind], held.values) / divisor
    if missing:
        said = first_of([str(kind) for kind in missing])
        notes = [*notes, f"no names for event types {said}: copy the trace's .pcf file to the same folder"]
    trace = make_trace(metrics, columns, from_ends(ends, 0), path, notes=notes)
    return without_part(trace) if "interval" in options else trace  # intervals between records are complete


def _metric(kind: int, title: str) -> tuple[Metric, int]:
    """Return the metric of an event type, and the divisor of its values."""
    name = title.split(maxsplit=1)[0] if title else f"event {kind}"
    inside = title[title.rindex("[") + 1 : -1] if title.endswith("]") else ""
    divisor = 1000 if inside.startswith(_THOUSANDTHS) else 1
    unit = inside.removeprefix(_THOUSANDTHS).removeprefix(" of ") if divisor == 1000 else ""
    own = 71_000_000 < kind < 72_000_000
    simulated = "(simulated)" in title
    origin = "simulated" if simulated else known_kind(name) or ("os" if own else "hardware")
    return Metric(name, origin, unit=unit or "events", source="paraver", meaning="" if own else title), divisor


FORMAT = ImportFormat(
    "paraver", "a Paraver trace", (".prv",), lambda head: head.startswith(b"#Paraver "), _read, _OPTIONS
)
