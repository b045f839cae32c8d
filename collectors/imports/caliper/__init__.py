"""Caliper: snapshots with a time, of a `.cali` file or of the JSON that `cali-query` makes of one.

A line of `.cali` is a node of the context tree (`__rec=node,id=…,attr=…,data=…,parent=…`) or a snapshot
(`__rec=ctx,ref=…,attr=…,data=…`), whose nodes stand before it; attributes are nodes themselves (Caliper's
documentation, and its own `caliper-reader`, which the tests hold this reader against). JSON is an array of snapshots
(`format json`), an object that holds it (`json(object)`), or columns and rows (`json-split`). A snapshot's counts are
those since the snapshot before, of the same thread.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.caliper.records import Snapshot, read_cali, read_json
from unperturbed.collectors.imports.format import (
    ImportFormat,
    common_options,
    from_ends,
    known_kind,
    make_trace,
    refuse,
    with_attributes,
    without_part,
)
from unperturbed.common.wording import counted, did_you_mean, first_of, listing

_OFFSETS = ("time.offset.ns", "time.offset")
_DURATIONS = ("time.duration.ns", "sum#time.duration.ns", "time.duration", "sum#time.duration")
"""Attributes that are times, the better ones first; those that do not end in ns are microseconds, Caliper's default."""
_COUNTS = re.compile(r"(sum#)?(papi\.|libpfm\.|perf\.|topdown\.|rusage\.|io\.bytes|alloc\.|mem\.|count$|sum#)")
_TIMES = re.compile(r"(sum#|avg#|min#|max#|inclusive#)*time\.|.*\.(duration|offset)(\.ns)?$")
_PLACES = ("mpi.rank", "omp.thread.id", "pthread.id", "thread")
"""Attributes that tell whose snapshot it is."""
_INTERVAL_MS = 20.0
_JSON = re.compile(rb'\s*(\[\s*\{\s*"|\{\s*"(records|columns|globals|attributes)"\s*:)')
_SPLIT = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*\[')
_OWN = re.compile(
    rb'"(sum#|avg#|inclusive#)?(time\.(offset|duration|inclusive)|papi\.|cali\.|event\.(begin|end)#|path")'
)


@dataclass
class _Stream:
    """The snapshots of a rank or of all: their times, and each count with the place of its snapshot."""

    times: list[int] = field(default_factory=list)
    counts: defaultdict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))


def _recognise(head: bytes) -> bool:
    if head.startswith(b"__rec=") or _SPLIT.match(head):
        return True
    return _JSON.match(head) is not None and _OWN.search(head) is not None


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    apart = common_options(options, path, "ranks", ("sum", "runs"), "sum") == "runs"
    found = read_cali(content, path) if content.startswith(b"__rec=") else read_json(content, path)
    if not found.snapshots:
        refuse(path, "no snapshot is in this file: it is cut off, or nothing was recorded")
    names = list(dict.fromkeys(name for one in found.snapshots for name in one.values))
    time = _time(names, path, options)
    metrics = _metrics(names, found.aggregatable, path, options)
    streams: defaultdict[str, _Stream] = defaultdict(_Stream)
    for place, at, one in _timed(found.snapshots, time, path):
        stream = streams[place.partition("/")[0] if apart else ""]
        stream.times.append(at)
        for name in metrics:
            if name in one.values:
                stream.counts[name].append((len(stream.times) - 1, float(one.values[name])))
    untimed = len(found.snapshots) - sum(len(one.times) for one in streams.values())
    notes = [f"{counted(untimed, 'snapshot')} without {time} left out"] if untimed else []
    traces = []
    for rank, stream in sorted(streams.items()):
        trace = _trace(stream, path, options, notes)
        traces.append(with_attributes(trace, run=f"{path.stem} rank {rank}") if apart else trace)
    return traces


def _time(names: list[str], path: Path, options: Mapping[str, str]) -> str:
    """Return the attribute that is the time: the one that `time=` names, else the first that is known."""
    known = [name for name in (*_OFFSETS, *_DURATIONS) if name in names]
    if "time" in options:
        chosen = options["time"]
        if chosen not in names:
            refuse(path, f"time={chosen}: no snapshot has it; {did_you_mean(chosen, names) or first_of(names)}")
        return chosen
    if not known:
        refuse(
            path,
            "no snapshot has a time, so this is a profile of a whole run and no trace: record with "
            f"CALI_CONFIG=event-trace, or name the attribute by time=…; there are {first_of(names)}",
        )
    return known[0]


def _metrics(names: list[str], aggregatable: set[str], path: Path, options: Mapping[str, str]) -> list[str]:
    """Return the attributes that are counts: those that `metrics=` names, else all that are known to be."""
    if "metrics" in options:
        chosen = [name.strip() for name in options["metrics"].split(",")]
        if missing := [name for name in chosen if name not in names]:
            near = did_you_mean(missing[0], names) or first_of(names)
            refuse(path, f"metrics={options['metrics']}: no snapshot has {missing[0]!r}; {near}")
        return chosen
    found = [name for name in names if (name in aggregatable or _COUNTS.match(name)) and not _TIMES.match(name)]
    if not found:
        refuse(path, f"no attribute is known to be a count: name them by metrics=A,B; there are {first_of(names)}")
    return found


def _timed(snapshots: list[Snapshot], time: str, path: Path) -> Iterator[tuple[str, int, Snapshot]]:
    """Yield the snapshots that have a time, with their place (rank/thread) and when they ended [ns]."""
    factor = 1 if time.endswith(".ns") else 1000
    lengths = time not in _OFFSETS and "duration" in time
    last: dict[str, tuple[int, Snapshot]] = {}
    for one in snapshots:
        if time not in one.values:
            continue
        place = "/".join(str(one.values.get(name, "")) for name in _PLACES)
        try:
            at = round(float(one.values[time]) * factor)
            for name, value in one.values.items():
                if not isinstance(value, str) or name == time:
                    float(value)
        except (ValueError, OverflowError):
            refuse(path, f"{time} is {one.values[time]!r} in {one.where}, which is not a number", one.line)
        before = last.get(place)
        if lengths:
            at += before[0] if before else 0
        elif before and at < before[0]:
            refuse(path, f"the time goes back in {one.where}: snapshots are out of order", one.line)
        if before and before[1].values == one.values and not lengths:
            refuse(path, f"{one.where} appears twice", one.line)
        last[place] = (at, one)
        yield place, at, one


def _trace(stream: _Stream, path: Path, options: Mapping[str, str], notes: list[str]) -> Trace:
    times = np.array(stream.times, np.int64)
    first, last = int(times.min()), int(times.max())
    asked = options.get("interval", f"{_INTERVAL_MS:g}")
    if asked == "snapshots":
        ends = np.unique(times[times > 0])
        start = 0
    else:
        try:
            length = round(float(asked.removesuffix("ms")) * 1e6)
        except (ValueError, OverflowError):
            length = 0
        if length <= 0:
            refuse(path, f"interval={asked}: give a length in ms, as interval=20, or interval=snapshots")
        # Before the first snapshot's interval nothing is known; offsets may begin anywhere.
        start = first // length * length
        ends = np.append(np.arange(start + length, last, length), max(last, start + 1)).astype(np.int64)
    metrics, columns = [], {}
    for name, values in stream.counts.items():
        places, counts = zip(*values, strict=True)
        at = np.minimum(np.searchsorted(ends, times[list(places)], side="left"), len(ends) - 1)
        metric = _metric(name)
        metrics.append(metric)
        columns[metric.name] = np.bincount(at, np.array(counts, np.float64), len(ends))
    clash = [metric.name for metric in metrics if sum(one.name == metric.name for one in metrics) > 1]
    if clash:
        refuse(
            path, f"{clash[0]} is there by itself and as a sum: choose by metrics=…; there are {listing(stream.counts)}"
        )
    return without_part(make_trace(metrics, columns, from_ends(ends, start), path, notes=notes))


def _metric(attribute: str) -> Metric:
    """Return the metric of an attribute: `sum#papi.PAPI_TOT_INS` is PAPI_TOT_INS."""
    name = attribute.removeprefix("sum#")
    counted_by = name.partition(".")[0]
    if counted_by in ("papi", "libpfm", "perf"):
        name = name.removeprefix(f"{counted_by}.")
    kind = known_kind(name) or ("hardware" if counted_by in ("papi", "libpfm", "perf", "topdown") else "os")
    return Metric(name, kind, unit="events", source="caliper", meaning="" if name == attribute else attribute)


FORMAT = ImportFormat(
    "caliper",
    "a recording of Caliper",
    (".cali", ".json"),
    _recognise,
    _read,
    {
        "time": "the attribute that is the time (time.offset, else time.duration, added up)",
        "metrics": "the attributes that are counts, separated by commas (all that are known to be)",
        "interval": f"length of the intervals in ms, or snapshots: each snapshot ends one ({_INTERVAL_MS:g})",
        "ranks": "sum: all ranks and threads are one run; runs: each rank is a run (sum)",
    },
)
