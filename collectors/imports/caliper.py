"""Caliper: snapshots with times, from a `.cali` file or from JSON that `cali-query` writes.

A line in `.cali` is a node of the context tree (`__rec=node,id=…,attr=…,data=…,parent=…`) or a snapshot
(`__rec=ctx,ref=…,attr=…,data=…`), whose nodes come before the snapshot; attributes are nodes too (see Caliper's
documentation; tests compare with `caliper-reader`). Caliper 2 does not write the nodes that every tree begins with.
JSON is an array of snapshots (`format json`), an object with such an array (`json(object)`), or columns and rows
(`json-split`). A snapshot's counts are those since the previous snapshot of the same thread. Aggregated snapshots are a
trace only if they have a time slice or an iteration, which puts them in order.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    MOST,
    ImportFormat,
    as_number,
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
from unperturbed.common.packed import plain_name
from unperturbed.common.wording import counted, did_you_mean, first_of, listing

_NAME, _TYPE, _PROPERTIES = "8", "9", "10"
"""Ids of the attributes that describe attributes; Caliper uses the same ids in every file."""
_UNIT = "attribute.unit"
_HIDDEN, _AGGREGATABLE = 128, 2048
_PART = re.compile(r"((?:\\.|[^,=\\]|\\$)*)([,=]|$)", re.DOTALL)
_NUMBERS = ("int", "uint", "double")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Snapshot: the values of its attributes (numbers or text), and its position in the file."""

    values: Mapping[str, Any]
    line: int
    where: str


@dataclass(frozen=True, slots=True)
class _Node:
    """Node of the context tree."""

    attribute: str
    data: str
    parent: str


_TYPES = ("usr", "int", "uint", "string", "addr", "double", "bool", "type")
_BOOTSTRAP = {
    **{str(key): _Node(_TYPE, name, "") for key, name in enumerate(_TYPES)},
    _NAME: _Node(_NAME, "cali.attribute.name", "3"),
    _TYPE: _Node(_NAME, "cali.attribute.type", "7"),
    _PROPERTIES: _Node(_NAME, "cali.attribute.prop", "1"),
    "11": _Node(_TYPE, "ptr", ""),
}
"""Nodes that every tree begins with (Caliper's MetadataTree.cpp); version 1 writes them, and uses 11 otherwise."""


class _Tree:
    """Context tree of a file: the nodes read so far, and the attributes that some of these nodes describe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes: dict[str, _Node] = {}
        self._attributes: dict[str, tuple[str, str, int]] = {}
        self.units: dict[str, str] = {}
        self._expanded: dict[str, dict[str, Any]] = {}

    def add(self, record: Mapping[str, list[str]], number: int, cut: str) -> None:
        """Add the node that a line describes."""
        key, own, parent = ((record.get(name) or [""])[0] for name in ("id", "attr", "parent"))
        if not key.isdigit() or not own.isdigit() or not record.get("data") or cut:
            refuse(self._path, f"incomplete node{cut}", number)
        made = _Node(own, record["data"][0], parent)
        if made.parent and (not made.parent.isdigit() or made.parent not in self._nodes):
            self.node(made.parent, number)
        if self._nodes.setdefault(key, made) != made:
            refuse(self._path, f"node {key} was already defined differently: the file contains two recordings", number)

    def node(self, key: str, number: int) -> _Node:
        """Return the node that a line refers to."""
        if key in self._nodes:
            return self._nodes[key]
        if key not in _BOOTSTRAP:
            refuse(self._path, f"node {key} is not defined before this line: lines are missing or out of order", number)
        return _BOOTSTRAP[key]

    def attribute(self, key: str, number: int) -> tuple[str, str, int]:
        """Return an attribute's name, type and properties."""
        if key not in self._attributes:
            node = self.node(key, number)
            name, kind, properties = node.data, "", 0
            while node.parent:
                node = self.node(node.parent, number)
                if node.attribute == _PROPERTIES and node.data.isdigit():
                    properties = int(node.data)
                elif node.attribute == _TYPE:
                    kind = node.data
                elif node.attribute != _NAME and self.node(node.attribute, number).data == _UNIT:
                    self.units[name] = node.data
            self._attributes[key] = (name, kind, properties)
        return self._attributes[key]

    def expand(self, key: str, number: int) -> dict[str, Any]:
        """Return the attributes of a node and its ancestors; for each attribute, the innermost value."""
        above: list[str] = []
        while key and key not in self._expanded:
            above.append(key)
            key = self.node(key, number).parent
        held = self._expanded.get(key, {})
        for inner in reversed(above):
            node = self.node(inner, number)
            name, _, properties = self.attribute(node.attribute, number)
            if not properties & _HIDDEN:
                held = {**held, name: node.data}
            self._expanded[inner] = held
        return held


def read_cali(content: bytes, path: Path) -> tuple[list[Snapshot], set[str], dict[str, str]]:
    """Return the snapshots in a `.cali` file, the attributes that it declares as sums, and the units of attributes."""
    snapshots: list[Snapshot] = []
    sums: set[str] = set()
    tree = _Tree(path)
    lines = decode(content, path).splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _fields(line)
        cut = ": the file is truncated" if number == len(lines) and not content.endswith(b"\n") else ""
        kind = (record.get("__rec") or [""])[0]
        if kind == "node":
            tree.add(record, number, cut)
        elif kind == "ctx":
            ids, data = record.get("attr", []), record.get("data", [])
            if len(ids) != len(data) or cut or not (ids or "ref" in record):
                refuse(path, f"incomplete snapshot{cut}", number)
            values: dict[str, Any] = {}
            for key in record.get("ref", []):
                values |= tree.expand(key, number)
            for key, text in zip(ids, data, strict=True):
                name, form, properties = tree.attribute(key, number)
                if not properties & _HIDDEN and (name != _SLICE_START or name not in values):
                    values[name] = _number(text, path, number) if form in _NUMBERS else text
                    if properties & _AGGREGATABLE:
                        sums.add(name)
            snapshots.append(Snapshot(values, number, "this snapshot"))
        elif kind != "globals":
            refuse(path, f"not a Caliper record (__rec=node, ctx or globals){cut}", number)
    return snapshots, sums, tree.units


def read_json(content: bytes, path: Path) -> tuple[list[Snapshot], dict[str, str]]:
    """Return the snapshots in JSON from `cali-query` (json, json(object), json(split) or json-split), and units."""
    text = decode(content, path)
    try:
        held = json.loads(text)
    except json.JSONDecodeError as error:
        cut = "the file is truncated" if error.pos >= len(text.rstrip()) else error.msg
        refuse(path, f"not JSON: {cut}", error.lineno)
    except RecursionError:
        refuse(path, "not JSON from Caliper: nested too deeply")
    rows = held
    if isinstance(held, dict):
        rows = _split_rows(held, path) if "data" in held else held.get("records")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        refuse(path, "no snapshots found: expected an array of snapshots, or data and columns, as Caliper writes", 1)
    found = [
        Snapshot({str(name): value for name, value in row.items() if value is not None}, 0, f"snapshot {at}")
        for at, row in enumerate(rows, 1)
    ]
    return found, _units(held) if isinstance(held, dict) else {}


def _units(held: Mapping[str, Any]) -> dict[str, str]:
    """Return the units of the attributes that the JSON describes."""
    described = held.get("attributes")
    if "data" in held:
        described = dict(zip(map(str, held["columns"]), held.get("column_metadata", []), strict=False))
    pairs = described.items() if isinstance(described, dict) else ()
    return {name: str(entry[_UNIT]) for name, entry in pairs if isinstance(entry, dict) and _UNIT in entry}


def _split_rows(held: Mapping[str, Any], path: Path) -> Sequence[Mapping[str, Any]]:
    """Return the rows of json-split as mappings; values from the tree are indices into `nodes`."""
    columns, data, nodes = held.get("columns"), held["data"], held.get("nodes", [])
    described = held.get("column_metadata", [])
    if not isinstance(columns, list) or not isinstance(data, list) or not isinstance(described, list):
        refuse(path, "incomplete json-split: data, columns and column_metadata must be lists", 1)
    direct = [not isinstance(entry, dict) or bool(entry.get("is_value", True)) for entry in described]
    direct += [True] * (len(columns) - len(direct))
    rows = []
    for at, row in enumerate(data, 1):
        if not isinstance(row, list) or len(row) != len(columns):
            refuse(path, f"snapshot {at} must have {len(columns)} values, one for each column")
        named = zip(columns, row, direct, strict=False)
        rows.append({str(name): _value(value, is_direct, nodes) for name, value, is_direct in named})
    return rows


def _value(value: Any, direct: bool, nodes: Any) -> Any:
    """Return a value of json-split; for an index into the tree, the node's label."""
    if direct or not isinstance(value, int) or not isinstance(nodes, list) or not 0 <= value < len(nodes):
        return value
    return nodes[value].get("label", value) if isinstance(nodes[value], dict) else value


def _fields(line: str) -> dict[str, list[str]]:
    """Return the fields of a line, `key=value=value,…`; a backslash escapes the next character."""
    if "\\" not in line:
        return {parts[0]: parts[1:] for parts in (field.split("=") for field in line.strip().split(","))}
    fields: dict[str, list[str]] = {}
    parts: list[str] = []
    for part, sign in _PART.findall(line.strip()):
        parts.append(re.sub(r"\\(.)", lambda escaped: "\n" if escaped[1] == "n" else escaped[1], part))
        if sign != "=":
            fields[parts[0]] = parts[1:]
            parts = []
        if not sign:
            break
    return fields


def _number(text: str, path: Path, line: int) -> float | int:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        commas = ": decimal commas are not supported; record with LC_ALL=C" if "," in text else ""
        refuse(path, f"{text!r} is not a number{commas}", line)


_SLICE, _SLICE_START, _SLICE_LENGTH = "timeseries.snapshot", "timeseries.starttime", "timeseries.duration"
"""Attributes of time slices: number, begin [s since 1970], and length [s] in the snapshot that ends the slice."""
_OFFSETS = ("time.offset.ns", "time.offset")
_DURATIONS = ("time.duration.ns", "sum#time.duration.ns", "time.duration", "sum#time.duration")
"""Time attributes, the preferred ones first."""
_ITERATION = re.compile(r"iteration#.*|loop\.start_iteration|block", re.IGNORECASE)
_FACTORS = {"s": 10**9, "sec": 10**9, "ms": 10**6, "msec": 10**6, "us": 1000, "usec": 1000, "ns": 1, "nsec": 1}
_STATE = re.compile(r".*(watermark|watts)$|memstat\.")
"""Attributes whose values are states, not counts."""
_COUNTS = re.compile(r"(sum#)?(papi\.|libpfm\.|perf\.|topdown\.|rusage\.|io\.bytes|alloc\.|mem\.|count$|sum#)")
_NO_COUNT = re.compile(r"(min|max|avg|scale|ratio|percent_total)#|aggregate\.slot$|timeseries\.")
_TIMES = re.compile(r"(sum#|avg#|min#|max#|inclusive#)*time\.|.*\.(duration|offset)(\.ns)?$")
_PLACES = ("mpi.rank", "omp.thread.id", "pthread.id", "thread")
"""Attributes that identify the rank and thread of a snapshot."""
_INTERVAL_MS = 20.0
_JSON = re.compile(rb'\s*(\[\s*\{\s*"|\{\s*"(records|columns|globals|attributes)"\s*:)')
_SPLIT = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*\[')
_OWN = re.compile(
    rb'"(sum#|avg#|inclusive#)?(time\.(offset|duration|inclusive)|papi\.|cali\.|event\.(begin|end)#|path")'
)


@dataclass
class _Stream:
    """Snapshots of one rank or of all ranks: their times, and each count with the index of its snapshot."""

    times: list[int] = field(default_factory=list)
    begin: int = 0
    places: set[str] = field(default_factory=set)
    sliced: bool = False
    counts: defaultdict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))


def _recognise(head: bytes) -> bool:
    if head.startswith(b"__rec=") or _SPLIT.match(head):
        return True
    return _JSON.match(head) is not None and _OWN.search(head) is not None


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    apart = common_options(options, path, "ranks", ("sum", "runs"), "sum") == "runs"
    is_cali = content.startswith(b"__rec=")
    sums: set[str] = set()
    if is_cali:
        snapshots, sums, units = read_cali(content, path)
    else:
        snapshots, units = read_json(content, path)
    if not snapshots:
        refuse(path, "the file has no snapshots: it is truncated, or nothing was recorded")
    names = list(dict.fromkeys(name for snapshot in snapshots for name in snapshot.values))
    time = _time(names, path, options)
    order = _SLICE if time == _SLICE else _iteration(time, names, path)
    metrics = _metrics(names, sums, path, options)
    factor = 10**9 if time == _SLICE else _factor(time, units, snapshots, path, options)
    found = _sliced(snapshots, order, time, factor, metrics, path) if order else _timed(snapshots, time, factor, path)
    streams: defaultdict[str, _Stream] = defaultdict(_Stream)
    for place, begin, at, snapshot in found:
        stream = streams[place.partition("/")[0] if apart else ""]
        stream.places.add(place)
        stream.sliced |= bool(order)
        stream.begin = min(begin, stream.begin) if stream.times else begin
        stream.times.append(at)
        for name in metrics:
            if name in snapshot.values:
                stream.counts[name].append((len(stream.times) - 1, as_number(snapshot.values[name])))
    needed = order or time
    untimed = sum(needed not in snapshot.values for snapshot in snapshots)
    notes = [f"the import leaves out {counted(untimed, 'snapshot')} without {needed}"] if untimed else []
    traces = []
    for rank, stream in sorted(streams.items()):
        trace = _trace(stream, path, options, notes)
        traces.append(with_attributes(trace, run=f"{plain_name(path).stem} rank {rank}") if apart else trace)
    return traces


def _time(names: list[str], path: Path, options: Mapping[str, str]) -> str:
    """Return the name of the time attribute: the value of `time=`, or else the first known time attribute."""
    known = [name for name in (_SLICE, *_OFFSETS, *_DURATIONS) if name in names]
    if "time" in options:
        chosen = options["time"]
        if chosen not in names:
            refuse(
                path, f"time={chosen}: no snapshot has this attribute; {did_you_mean(chosen, names) or first_of(names)}"
            )
        return chosen
    if not known:
        refuse(
            path,
            f"no snapshot has a time: {_PROFILE}, or name the time attribute with time=…; the attributes are "
            f"{first_of(names)}",
        )
    return known[0]


_PROFILE = (
    "this is the profile of a whole run, not a trace. Record with CALI_CONFIG=event-trace, or with time slices (the "
    "option timeseries of spot)"
)


def _iteration(time: str, names: Sequence[str], path: Path) -> str:
    """Return the attribute that orders aggregated snapshots; empty if they are not aggregated."""
    if "#" not in time and not ("duration" in time and "count" in names):
        return ""
    order = next((name for name in names if _ITERATION.fullmatch(name)), "")
    if not order:
        refuse(path, f"{time} is a sum over the run, and no snapshot has an iteration: {_PROFILE}")
    return order


def _factor(
    time: str, units: Mapping[str, str], snapshots: Sequence[Snapshot], path: Path, options: Mapping[str, str]
) -> int:
    """Return the length in ns of the unit of a time attribute: of the file, or of the option `unit`."""
    said = units.get(time) or ("ns" if time.endswith(".ns") else "")
    said = said or next((str(held.values["time.unit"]) for held in snapshots if "time.unit" in held.values), "")
    if said not in _FACTORS:
        said = common_options(options, path, "unit", ("s", "ms", "us", "ns", ""), "")
    if not said:
        refuse(
            path,
            f"the file does not contain the unit of {time}: give it, as unit=us or unit=s (Caliper before 2.10 writes "
            "us, unless CALI_TIMER_UNIT or the configuration says otherwise)",
        )
    return _FACTORS[said]


def _number_of(snapshot: Snapshot, name: str, path: Path) -> float:
    """Return the value of a snapshot that must be a number."""
    value = float("nan")
    with suppress(TypeError, ValueError, OverflowError):
        value = as_number(snapshot.values[name])
    if not abs(value) < MOST:
        refuse(path, f"{snapshot.where} has no number as {name}: {snapshot.values[name]!r}", snapshot.line)
    return value


def _place(snapshot: Snapshot) -> str:
    """Return the rank and the thread of a snapshot, joined by `/`."""
    return "/".join(str(snapshot.values.get(name, "")) for name in _PLACES)


def _sliced(
    snapshots: list[Snapshot], order: str, time: str, factor: int, metrics: Sequence[str], path: Path
) -> Iterator[tuple[str, int, int, Snapshot]]:
    """Yield place, begin and end time [ns], and sums of each time slice or iteration, in order.

    Caliper copies a slice's own values, such as its number of iterations, to all its snapshots: these count once.
    """
    slices: defaultdict[tuple[str, float], list[Snapshot]] = defaultdict(list)
    for snapshot in snapshots:
        if order in snapshot.values:
            slices[_place(snapshot), _number_of(snapshot, order, path)].append(snapshot)
    last: dict[str, int] = {}
    for (place, number), rows in sorted(slices.items()):
        own = next((row for row in rows if _SLICE_LENGTH in row.values), None)
        if time == _SLICE:
            starts = [_number_of(row, _SLICE_START, path) for row in rows if _SLICE_START in row.values]
            if own is None or not starts:
                refuse(path, f"time slice {number:g} has no {_SLICE_LENGTH if starts else _SLICE_START}", rows[0].line)
            begin = round(min(starts) * factor)
            end = begin + round(_number_of(own, _SLICE_LENGTH, path) * factor)
        else:
            begin = last.get(place, 0)
            end = begin + round(sum(_number_of(row, time, path) for row in rows if time in row.values) * factor)
        if end < last.get(place, end):
            refuse(path, f"{order} {number:g} is earlier than the previous one", rows[0].line)
        last[place] = end
        sums: dict[str, Any] = {}
        for name in metrics:
            having = [own] if own is not None and name in own.values else [row for row in rows if name in row.values]
            if having:
                sums[name] = sum(_number_of(row, name, path) for row in having)
        yield place, begin, end, Snapshot(sums, rows[0].line, rows[0].where)


def _metrics(names: list[str], sums: set[str], path: Path, options: Mapping[str, str]) -> list[str]:
    """Return the count attributes: those that `metrics=` names, or else all that are known to be counts."""
    if "metrics" in options:
        chosen = [name.strip() for name in options["metrics"].split(",")]
        if missing := [name for name in chosen if name not in names]:
            near = did_you_mean(missing[0], names) or first_of(names)
            refuse(path, f"metrics={options['metrics']}: no snapshot has attribute {missing[0]!r}; {near}")
        return chosen
    counts = [name for name in names if (name in sums or _COUNTS.match(name)) and not _TIMES.match(name)]
    counts = [name for name in counts if not _NO_COUNT.match(name)]
    if not counts:
        there = f"the attributes are {first_of(names)}"
        refuse(path, f"no attribute is known to be a count: name the count attributes with metrics=A,B; {there}")
    return counts


def _timed(snapshots: list[Snapshot], time: str, factor: int, path: Path) -> Iterator[tuple[str, int, int, Snapshot]]:
    """For each snapshot with a time, yield rank and thread, begin and end time [ns], and the snapshot."""
    lengths = time not in _OFFSETS and "duration" in time
    last: dict[str, tuple[int, Snapshot]] = {}
    for snapshot in snapshots:
        if time not in snapshot.values:
            continue
        place = _place(snapshot)
        try:
            at = round(as_number(snapshot.values[time]) * factor)
            for name, value in snapshot.values.items():
                if not isinstance(value, str) or name == time:
                    float(value)
        except (ValueError, OverflowError):
            what = f"{snapshot.where} has a value that is not a number ({time} is {snapshot.values[time]!r})"
            refuse(path, what, snapshot.line)
        before = last.get(place)
        if lengths:
            at += before[0] if before else 0
        elif before and at < before[0]:
            refuse(
                path, f"{snapshot.where} is earlier than the previous one: snapshots are out of order", snapshot.line
            )
        if before and before[1].values == snapshot.values and not lengths:
            refuse(path, f"{snapshot.where} appears twice", snapshot.line)
        last[place] = (at, snapshot)
        yield place, 0, at, snapshot


def _trace(stream: _Stream, path: Path, options: Mapping[str, str], notes: list[str]) -> Trace:
    times = np.array(stream.times, np.int64)
    first, last = int(times.min()), int(times.max())
    asked = options.get("interval", "snapshots" if stream.sliced else f"{_INTERVAL_MS:g}")
    if "interval" not in options and stream.sliced and len(stream.places) > 1:
        refuse(
            path, "ranks or threads have time slices of their own: set interval=MS, or ranks=runs for one run per rank"
        )
    if asked == "snapshots":
        ends = np.unique(times[times > stream.begin])
        start = stream.begin
    else:
        length = interval_ns(asked, path, ", or interval=snapshots")
        # Start with the first snapshot's interval: nothing is known about earlier times, and offsets may be large.
        start = first // length * length
        check_intervals((last - start) // length, path)
        ends = np.append(np.arange(start + length, last, length), max(last, start + 1)).astype(np.int64)
    metrics, columns = [], {}
    for name, values in stream.counts.items():
        places, counts = zip(*values, strict=True)
        metric = _metric(name)
        metrics.append(metric)
        columns[metric.name] = sum_in_intervals(ends, times[list(places)], counts)
    clash = [metric.name for metric in metrics if sum(other.name == metric.name for other in metrics) > 1]
    if clash:
        refuse(
            path, f"{clash[0]} exists both as a count and as a sum: choose one with metrics=…: {listing(stream.counts)}"
        )
    return without_part(make_trace(metrics, columns, from_ends(ends, start), path, notes=notes))


def _metric(attribute: str) -> Metric:
    """Return the metric for an attribute: for `sum#papi.PAPI_TOT_INS`, PAPI_TOT_INS."""
    name = attribute.removeprefix("sum#")
    counted_by = name.partition(".")[0]
    if counted_by in ("papi", "libpfm", "perf"):
        name = name.removeprefix(f"{counted_by}.")
    kind = known_kind(name) or ("hardware" if counted_by in ("papi", "libpfm", "perf", "topdown") else "os")
    state = _STATE.match(name) is not None
    meaning = "" if name == attribute else attribute
    return Metric(name, kind, "" if state else "events", "gauge" if state else "counter", "caliper", meaning)


FORMAT = ImportFormat(
    "caliper",
    "a Caliper recording",
    (".cali", ".json"),
    _recognise,
    _read,
    {
        "time": "attribute with the time (default: time.offset, or else the running sum of time.duration)",
        "unit": "unit of the time, if the file does not contain it: s, ms, us or ns",
        "metrics": "attributes with counts, separated by commas (default: all known count attributes)",
        "interval": f"interval length in ms, or snapshots: each snapshot ends an interval (default: {_INTERVAL_MS:g})",
        "ranks": "sum: one run with the sum of all ranks and threads; runs: one run per rank (default: sum)",
    },
)
