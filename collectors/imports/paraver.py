"""Paraver: counters in the event records of a .prv file, with names from the .pcf file beside it, as Extrae writes.

An event record is `2:cpu:application:task:thread:time:type:value…`; a counter's value is its count since the previous
record of the same thread (Paraver's "Trace generation" manual; Extrae's event types of counters). Other records (states
and communication) are skipped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    MOST,
    ImportFormat,
    IntArray,
    check_intervals,
    common_options,
    decode,
    from_ends,
    interval_ns,
    known_kind,
    make_counted_trace,
    refuse,
    sum_in_intervals,
    with_attributes,
    without_part,
)
from unperturbed.common.packed import open_file, plain_name
from unperturbed.common.wording import counted, first_of

_OPTIONS = {
    "tasks": "sum: one run with the sum of all tasks and threads; runs: one run per task (default: sum)",
    "interval": "interval length in ms; required to sum several threads (default: intervals between records)",
}
_HEADER = re.compile(r"#Paraver \(.*?\):(?P<length>\d+)(?P<unit>_ns|_us)?:")
_UNITS = {"_ns": 1, "_us": 1000, None: 1000}
_COUNTERS = (range(41_000_000, 46_000_000), range(71_000_001, 72_000_000))
"""Event types of counters: Extrae's, and those that this tool's export uses for metrics that are not presets."""
_SETS = range(41_999_990, 42_000_000)
"""Event types about counter sets: the value of 41999999 is the number of the set that counts from then on."""
_CHANGE = 41_999_999
_THOUSANDTHS = "thousandths"
_FASTEST, _SHORT = 1000, 10**6
"""A counter of a thread counts at most so many events a ns; times are not exact below some ns, here 1 ms."""


_Task = tuple[str, ...]
"""Application, task and, for a thread, its number; empty for the sum of all tasks."""


@dataclass
class _Events:
    """Values of an event type in one task or in all tasks, and the time of each value [ns]."""

    times: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)  # times of values that no counter can have


@dataclass
class _Absurd:
    """Values of an event type that no counter can have: how many there are, and the first."""

    line: int
    value: int
    count: int = 0

    def note(self, name: str) -> str:
        """Return a note on the values of the counter with this name."""
        which = f"{counted(self.count, 'value')} of {name} that no counter can have"
        return f"the import leaves out {which} (first: {self.value:,} in line {self.line})"


@cache
def _is_counter(kind: int) -> bool:
    return kind not in _SETS and any(kind in types for types in _COUNTERS)


@dataclass
class _Records:
    """Values of the event records of a trace, by the run that they belong to."""

    runs: defaultdict[_Task, defaultdict[int, _Events]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_Events))
    )
    threads: defaultdict[_Task, set[_Task]] = field(default_factory=lambda: defaultdict(set))
    others: set[int] = field(default_factory=set)
    absurd: dict[int, _Absurd] = field(default_factory=dict)
    sets: set[int] = field(default_factory=set)
    together: set[frozenset[int]] = field(default_factory=set)  # event types of counters in a record
    scaled: Container[int] = ()  # event types whose values are thousandths
    before: defaultdict[_Task, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Time of each thread's last value of an event type [ns]."""

    @property
    def are_rotating(self) -> bool:
        """Whether sets of counters alternate: by their numbers, or as records have counters that others lack."""
        pairs = combinations(filter(None, self.together), 2)
        return len(self.sets) > 1 or any(one - other and other - one for one, other in pairs)

    def add(self, task: _Task, thread: _Task, time: int, payload: list[int], line: int) -> None:
        """Add the types and values of a record."""
        before, runs = self.before[thread], self.runs
        self.together.add(frozenset(filter(_is_counter, payload[::2])))
        for kind, value in zip(payload[::2], payload[1::2], strict=True):
            if kind == _CHANGE:
                self.sets.add(value)
            if not (_COUNTERS[0].start <= kind < _COUNTERS[1].stop) or not _is_counter(kind):
                self.others.add(kind)
                continue
            events = runs[task][kind]
            self.threads[task].add(thread)
            least, most = -MOST, MOST
            if kind < _COUNTERS[0].stop:
                least, most = 0, _FASTEST * max(_SHORT, time - before.get(kind, 0))
                most = min(MOST, most * 1000 if kind in self.scaled else most)
                before[kind] = time
            if least <= value <= most:
                events.times.append(time)
                events.values.append(value)
            else:
                events.left_out.append(time)
                self.absurd.setdefault(kind, _Absurd(line, value)).count += 1


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    lines = decode(content, path).splitlines()
    header = _HEADER.match(lines[0]) if lines else None
    if header is None:
        refuse(path, "not a Paraver header (#Paraver (date):duration:…)", 1)
    factor = _UNITS[header["unit"]]
    apart = common_options(options, path, "tasks", ("sum", "runs"), "sum") == "runs"
    names = _names(path)
    records = _Records(scaled={kind for kind, title in names.items() if _metric(kind, title)[1] > 1})
    last = 0
    latest: dict[_Task, str] = {}
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
        records.add(task, thread, time, payload, number)
    if not records.runs:
        refuse(path, "no record contains a counter (event types from 42000000 on): enable counters when recording")
    others = counted(len(records.others), "event type")
    notes = [f"the import leaves out {others} without counts"] if records.others else []
    notes += [held.note(_metric(kind, names.get(kind, ""))[0].name) for kind, held in records.absurd.items()]
    rotating = records.are_rotating
    traces = []
    for task, events in sorted(records.runs.items(), key=lambda item: [int(part) for part in item[0]]):
        several = len(records.threads[task]) > 1
        trace = _trace(events, names, path, options, several=several, rotating=rotating, notes=notes)
        traces.append(with_attributes(trace, run=f"{plain_name(path).stem} task {'.'.join(task)}") if task else trace)
    return traces


def _events(line: str, factor: int) -> tuple[list[str], int, list[int]]:
    """Return an event record's fields, its time [ns], and its types and values (empty if the record is incomplete)."""
    fields = line.split(":")
    try:
        time, payload = int(fields[5]) * factor, [int(word) for word in fields[6:]]
    except (IndexError, ValueError):
        return fields, -1, []
    whole = payload and time >= 0 and not len(payload) % 2 and time <= MOST
    return fields, time, payload if whole else []


def _names(path: Path) -> dict[int, str]:
    """Return the names of event types from the .pcf file beside the trace; empty if there is no such file."""
    names: dict[int, str] = {}
    beside = plain_name(path).with_suffix(".pcf")
    packed = beside.with_name(f"{beside.name}{path.suffix}")
    with suppress(OSError), open_file(beside if beside.exists() else packed) as file:
        inside = False
        for line in file.read().decode("utf-8", "replace").splitlines():
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
    rotating: bool,
    notes: list[str],
) -> Trace:
    times = {kind: np.array(held.times, np.int64) for kind, held in events.items()}
    without = [np.array(held.left_out, np.int64) for held in events.values()]
    records = np.unique(np.concatenate([*times.values(), *without]))
    last = int(records[-1])
    if "interval" in options:
        length = interval_ns(options["interval"], path)
        check_intervals(last // length, path)
        ends = np.append(np.arange(length, last, length), last).astype(np.int64)
    elif several:
        refuse(path, "several threads record at different times: set interval=MS, or tasks=runs for one run per task")
    else:
        ends = records
    metrics, columns = [], {}
    missing = [kind for kind in events if kind not in names]
    for kind, held in events.items():
        metric, divisor = _metric(kind, names.get(kind, ""))
        metrics.append(metric)
        sums = sum_in_intervals(ends, times[kind], held.values)
        sums = sums / divisor if divisor > 1 else sums
        absent = _at(ends, held.left_out)
        if rotating:  # an interval without a record of the counter is one in which another set counted
            absent |= ~_at(ends, held.times)
        columns[metric.name] = np.ma.MaskedArray(sums, absent) if absent.any() else sums
    if missing:
        said = first_of([str(kind) for kind in missing])
        notes = [*notes, f"no names for event types {said}: copy the trace's .pcf file to the same folder"]
    if not ends[0] and len(ends) > 1:
        notes = [*notes, "the import leaves out the first record, before which no time passed"]
        ends, columns = ends[1:], {name: column[1:] for name, column in columns.items()}
    bounds = from_ends(ends, 0)
    why = "in no active counter set" if rotating else "not credible"
    trace = make_counted_trace(metrics, columns, bounds, path, missing=why, notes=notes)
    return without_part(trace) if "interval" in options else trace  # intervals between records are complete


def _at(ends: IntArray, times: list[int]) -> NDArray[np.bool_]:
    """Return in which intervals the times lie."""
    there: NDArray[np.bool_] = sum_in_intervals(ends, np.array(times, np.int64), [1] * len(times)) > 0
    return there


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
