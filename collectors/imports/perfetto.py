"""Counters of Perfetto traces: Perfetto's protobuf, and JSON (Chrome's Trace Event Format, events with phase `C`).

Each process is a run. Field numbers are those of perfetto_trace.proto; no Perfetto library is needed.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    ImportFormat,
    as_number,
    as_numbers,
    common_options,
    increments,
    interval_ns,
    known_kind,
    make_counted_trace,
    refuse,
    sum_at,
    with_attributes,
)
from unperturbed.common.wording import counted

_OPTIONS = {
    "values": "meaning of counters' values: gauge (value at that time), cumulative (count since the start) or counts "
    "(count until the next value) (default: as described in the trace, or else gauge)",
    "threads": "apart: counters of one name that several threads write are separate; together: they are one counter "
    "(default: apart)",
    "interval": "interval length in ms (default: intervals between the values of the counter with most values)",
}
_PACKET, _TIMESTAMP, _TRACK_EVENT, _COMPRESSED, _CLOCK, _DEFAULTS, _TRACK = 1, 8, 11, 50, 58, 59, 60
_SEQUENCE = 10
_TRACK_NAMES = (2, 10, 13)  # name, static_name, atrace_name
_DIGITS = 17  # a number of fewer characters has at most 15 digits and a point, which a float holds
_END = 4096
_LAST_NS = 2**63 - 1
_COUNTER_TYPE = 4
_INCREMENTAL_CLOCKS = 64  # clocks from this number on belong to one packet sequence
_OWN_COUNTS = "an interval's count"
"""Text in this tool's exports that marks counters whose values are recorded at the beginning of their intervals."""


class _CutOffError(Exception):
    """Error for a message that extends beyond its container; the argument is the offset."""


@dataclass
class _Counter:
    """Counter, with its values read so far."""

    name: str
    process: int
    series: str = ""  # Key of its values among the arguments of an event of JSON
    id: str = ""
    thread: str = ""
    unit: str = ""
    values: str = "gauge"
    multiplier: int = 1
    times: list[int] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)


def _recognise(head: bytes) -> bool:
    text = head.lstrip()
    if text[:1] in (b"{", b"["):
        return b'"traceEvents"' in head or (b'"ph"' in head and b'"ts"' in head)
    if not head.startswith(b"\n"):
        return False
    try:
        length, at = _varint(head, 1)
    except _CutOffError:
        return False
    following = head[at + length : at + length + 1]
    return length > 0 and at < len(head) and head[at] & 7 in (0, 2) and following in (b"\n", b"")


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    together = common_options(options, path, "threads", ("apart", "together"), "apart") == "together"
    if content.lstrip()[:1] in (b"{", b"["):
        counters, names = _from_json(content, path, together=together)
    else:
        try:
            counters, names = _from_packets(content, path)
        except _CutOffError as error:
            refuse(path, f"byte {error.args[0]:,}: truncated or damaged packet; the trace is incomplete")
    runs: defaultdict[int, list[_Counter]] = defaultdict(list)
    for counter in counters:
        if counter.times:
            runs[counter.process].append(counter)
    if not runs:
        refuse(path, "nothing to import: the trace has no counters, only slices or other tracks")
    named = [names.get(process) or None for process in runs]
    traces = []
    for process, held in runs.items():
        trace = _trace(held, path, options, _named_apart(held))
        # Names that several processes share cannot distinguish runs.
        apart = names.get(process) and len(set(named)) == len(named)
        traces.append(with_attributes(trace, run=names[process]) if apart else trace)
    return traces


def _named_apart(counters: list[_Counter]) -> list[str]:
    """Give the counters of a process different names; return a note on counters of several threads."""
    series, threads = defaultdict(set), defaultdict(set)
    for counter in counters:
        series[counter.name].add(counter.series)
        threads[counter.name, counter.id].add(counter.thread)
    notes = {}
    taken: Counter[str] = Counter()
    for counter in counters:
        name, several = counter.name, threads[counter.name, counter.id]
        if len(series[name]) > 1:
            counter.name += f".{counter.series}"
        counter.name += f" id {counter.id}" if counter.id else ""
        if len(several) > 1:
            counter.name += f" thread {counter.thread}"
            many = counted(len(several), "thread")
            notes[name] = f"{name} has values of {many}, kept apart; if it belongs to the process, use threads=together"
        taken[counter.name] += 1
        if taken[counter.name] > 1:
            counter.name += f" #{taken[counter.name]}"
    return list(notes.values())


def _exact(text: str) -> float | Decimal:
    """Return a number of JSON: one with more digits than a float holds, such as µs since 1970, as a decimal."""
    return float(text) if len(text) < _DIGITS else Decimal(text)


def _load(content: bytes, path: Path) -> Any:
    """Return the JSON of a trace; the `]` at its end may be missing, as a killed program leaves it."""
    try:
        return json.loads(content, parse_float=_exact)
    except (ValueError, RecursionError) as error:
        if content.lstrip().startswith(b"["):
            events = re.sub(rb"[\s,]*(\]\s*)?\Z", b"", content[-_END:])
            with suppress(ValueError, RecursionError):
                return json.loads(content[:-_END] + events + b"]", parse_float=_exact)
        line = getattr(error, "lineno", 1)
        refuse(path, f"truncated or damaged JSON ({error})", line)


def _from_json(content: bytes, path: Path, *, together: bool) -> tuple[list[_Counter], dict[int, str]]:
    document = _load(content, path)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        refuse(path, "the JSON has no list of trace events", 1)
    counters: dict[tuple[Any, ...], _Counter] = {}
    numbers: dict[Any, int] = {}
    names: dict[int, str] = {}
    for place, event in enumerate(events):
        if not isinstance(event, dict):
            refuse(path, f"event {place} is not an object")
        # Process ids are numbers, but some tools write them as text.
        process = numbers.setdefault(str(event.get("pid", 0)), len(numbers))
        if event.get("ph") == "M" and event.get("name") == "process_name" and isinstance(event.get("args"), dict):
            names[process] = str(event["args"].get("name", ""))
        if event.get("ph") != "C":
            continue
        try:
            stamp = event["ts"]
            time = round((stamp if isinstance(stamp, int | Decimal) else float(stamp)) * 1000)
            name, given = str(event["name"]), event["args"].items()
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
            refuse(path, f"event {place}: a counter event must have name, ts, and args with numbers")
        try:
            series = {str(key): as_number(value) for key, value in given}
        except (TypeError, ValueError, OverflowError):
            refuse(path, f"event {place}: the counter {name!r} has a value that is no number in its args")
        if not -_LAST_NS <= time <= _LAST_NS:
            refuse(path, f"event {place}: the time is more than 292 years")
        # The format: the combination of name and id is the counter's name. `id2` says whose the id is.
        said = event.get("id", event.get("id2", ""))
        own = " ".join(map(str, said.values())) if isinstance(said, dict) else str(said)
        thread = "" if together else str(event.get("tid", ""))
        for key, value in series.items():
            which = (process, name, key, own, thread)
            if which not in counters:
                counters[which] = _Counter(name, process, key, own, thread)
            counters[which].times.append(time)
            counters[which].counts.append(value)
    return list(counters.values()), names


def _varint(content: bytes, at: int, offset: int = 0) -> tuple[int, int]:
    """Return a varint and the index after it; `offset` is the position of `content` in the file."""
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise _CutOffError(offset + at)
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(content: bytes, offset: int = 0) -> Iterator[tuple[int, Any, int]]:
    """Yield number, value and file offset of each field of a message; values are int or bytes."""
    if not isinstance(content, bytes):  # a number, although the schema requires a message
        raise _CutOffError(offset)
    at = 0
    while at < len(content):
        tag, begin = _varint(content, at, offset)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(content, begin, offset)
            yield number, value, offset + begin
            continue
        if kind not in (1, 2, 5):
            raise _CutOffError(offset + at)
        length = 8 if kind == 1 else 4
        if kind == 2:
            length, begin = _varint(content, begin, offset)
        at = begin + length
        if at > len(content):
            raise _CutOffError(offset + begin)
        yield number, content[begin:at], offset + begin


def _message(content: bytes, offset: int = 0) -> dict[int, Any]:
    """Return the fields of a message by number; for a repeated field, the last value."""
    return {number: value for number, value, _ in _fields(content, offset)}


def _packets(content: bytes, path: Path) -> Iterator[tuple[dict[int, Any], int]]:
    """Yield the fields and offset of each packet; packets inside a compressed packet have that packet's offset."""
    for number, packet, offset in _fields(content):
        if number != _PACKET or not isinstance(packet, bytes):
            raise _CutOffError(offset)
        parts = _message(packet, offset)
        if _COMPRESSED not in parts:
            yield parts, offset
            continue
        try:
            held = zlib.decompress(parts[_COMPRESSED])
            inner = [(_message(message), offset) for _, message, _ in _fields(held)]
        except (zlib.error, TypeError, _CutOffError):
            refuse(path, f"byte {offset:,}: damaged compressed packets; the trace is incomplete")
        yield from inner


def _from_packets(content: bytes, path: Path) -> tuple[list[_Counter], dict[int, str]]:
    counters: dict[int, _Counter] = {}
    names: dict[int, str] = {}
    parents: dict[int, int] = {}
    owners: dict[int, tuple[str, str]] = {}
    clocks: dict[int, int] = {}
    tracks: dict[int, int] = {}
    for parts, offset in _packets(content, path):
        sequence = _number(parts, _SEQUENCE, offset)
        if _DEFAULTS in parts:
            defaults = _message(parts[_DEFAULTS], offset)
            clocks[sequence] = _number(defaults, _CLOCK, offset)
            if _TRACK_EVENT in defaults:
                event = _message(defaults[_TRACK_EVENT], offset)
                tracks[sequence] = _number(event, 11, offset)
        if _TRACK in parts:
            _describe(parts[_TRACK], offset, counters, names, parents, owners)
        if _TRACK_EVENT not in parts:
            continue
        event = _message(parts[_TRACK_EVENT], offset)
        if event.get(9) != _COUNTER_TYPE:
            continue
        if _number(parts, _CLOCK, offset, clocks.get(sequence, 0)) >= _INCREMENTAL_CLOCKS:
            refuse(path, f"byte {offset:,}: timestamps use an incremental clock: record with absolute timestamps")
        track = _number(event, 11, offset, tracks.get(sequence, 0))
        counter = counters.setdefault(track, _Counter(f"counter {track}", track))
        if 44 in event and (not isinstance(event[44], bytes) or len(event[44]) != struct.calcsize("<d")):
            raise _CutOffError(offset)
        value = struct.unpack("<d", event[44])[0] if 44 in event else _signed(_number(event, 30, offset))
        time = _number(parts, _TIMESTAMP, offset)
        if time >> 63:
            refuse(path, f"byte {offset:,}: time {time:,} ns is more than 292 years; the packet is damaged")
        counter.times.append(time)
        counter.counts.append(value)
    _place(counters, parents, owners)
    return list(counters.values()), names


def _place(counters: Mapping[int, _Counter], parents: Mapping[int, int], owners: Mapping[int, tuple[str, str]]) -> None:
    """Find each counter's process and thread, and apply its multiplier."""
    of_processes = {pid: uuid for uuid, (pid, thread) in owners.items() if not thread}
    for track, counter in counters.items():
        process = track
        seen = {process}
        while process in parents and parents[process] not in seen:
            process = parents[process]
            seen.add(process)
        of_threads = [owners[uuid] for uuid in seen if uuid in owners and owners[uuid][1]]
        for pid, thread in of_threads[:1]:
            counter.thread = thread
            if owners.get(process, ("", ""))[1]:  # a thread's track need not name its process's track
                process = of_processes.setdefault(pid, process)
        counter.process = process
        counter.counts = [value * counter.multiplier for value in counter.counts]


def _number(parts: Mapping[int, Any], key: int, offset: int, default: int = 0) -> int:
    """Return a field that is a number in the schema."""
    value = parts.get(key, default)
    if not isinstance(value, int):
        raise _CutOffError(offset)
    return value


def _text(parts: Mapping[int, Any], key: int, offset: int) -> str:
    """Return a field that is text in the schema."""
    value = parts.get(key, b"")
    if not isinstance(value, bytes):
        raise _CutOffError(offset)
    return value.decode("utf-8", "replace")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _describe(
    descriptor: bytes,
    offset: int,
    counters: dict[int, _Counter],
    names: dict[int, str],
    parents: dict[int, int],
    owners: dict[int, tuple[str, str]],
) -> None:
    """Add the counter, name, parent, process and thread of a track descriptor."""
    parts = _message(descriptor, offset)
    uuid = _number(parts, 1, offset)
    if 5 in parts:
        parents[uuid] = _number(parts, 5, offset)
    if 3 in parts:
        process = _message(parts[3], offset)
        names[uuid] = _text(process, 6, offset)
        owners[uuid] = (str(_number(process, 1, offset)), "")
    if 4 in parts:
        thread = _message(parts[4], offset)
        owners[uuid] = (str(_number(thread, 1, offset)), str(_number(thread, 2, offset)))
    if 8 in parts:
        unit = _message(parts[8], offset)
        known = {1: "ns", 2: "events", 3: "bytes"}.get(_number(unit, 3, offset), "")
        name = next(filter(None, (_text(parts, key, offset) for key in _TRACK_NAMES)), f"counter {uuid}")
        own = _OWN_COUNTS in _text(parts, 14, offset)
        values = "deltas" if unit.get(5) else "counts" if own else "gauge"
        multiplier = _signed(_number(unit, 4, offset)) or 1
        made = _Counter(name, uuid, unit=_text(unit, 6, offset) or known, values=values, multiplier=multiplier)
        if uuid in counters:  # described again, or after its first values
            made.times, made.counts = counters[uuid].times, counters[uuid].counts
        counters[uuid] = made


def _trace(counters: list[_Counter], path: Path, options: Mapping[str, str], notes: list[str]) -> Trace:
    said = common_options(options, path, "values", ("gauge", "cumulative", "counts", ""), "")
    times = [np.array(counter.times, np.int64) for counter in counters]
    densest = max(range(len(counters)), key=lambda at: len(times[at]))
    axis = np.unique(times[densest])
    if "interval" in options:
        length = interval_ns(options["interval"], path)
        first, last = min(int(moments.min()) for moments in times), max(int(moments.max()) for moments in times)
        axis = np.arange(first, last + 1, length).astype(np.int64)
    elif any(not np.isin(moments, axis).all() for moments in times):
        notes.append(f"counters have values at different times: resampled to the intervals of {counters[densest].name}")
    if len(axis) < 2:
        refuse(path, "nothing to import: every counter has at most one value, so there are no intervals")
    metrics, columns = [], {}
    for counter, moments in zip(counters, times, strict=True):
        meaning = said or counter.values
        if meaning == "counts":
            _require_once(counter, path)
        values, more = _in_intervals(moments, as_numbers(counter.counts), axis, meaning, counter.name)
        columns[counter.name] = values
        notes += more
        name = counter.name.removesuffix(" (simulated)")
        kind = "simulated" if name != counter.name else known_kind(name) or "os"
        semantics = "gauge" if meaning == "gauge" else "counter"
        metrics.append(Metric(counter.name, kind, counter.unit or "events", semantics, "perfetto"))  # type: ignore[arg-type]
    bounds = axis[:-1] - axis[0], axis[1:] - axis[0]
    return make_counted_trace(metrics, columns, bounds, path, missing="not recorded", notes=notes)


def _require_once(counter: _Counter, path: Path) -> None:
    """Refuse a count that appears twice at the same time: it would be added twice."""
    seen = Counter((time, count) for time, count in zip(counter.times, counter.counts, strict=True) if count)
    twice = next((time for (time, _), times in seen.items() if times > 1), None)
    if twice is not None:
        refuse(path, f"{counter.name} has the same count twice at {twice:,} ns: it would be added twice")


def _in_intervals(
    times: NDArray[np.int64], values: NDArray[Any], axis: NDArray[np.int64], meaning: str, name: str
) -> tuple[NDArray[Any], list[str]]:
    """Return a counter's value in each interval between the times of an axis, and notes."""
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    if meaning == "cumulative":
        return _differences(times, values, axis, name)
    if meaning == "gauge":
        last = np.searchsorted(times, axis[1:], side="right") - 1
        known = values[np.maximum(last, 0)]
        return (np.ma.MaskedArray(known, last < 0) if (last < 0).any() else known), []
    side = "left" if meaning == "deltas" else "right"
    place = np.searchsorted(axis, times, side=side) - 1  # type: ignore[call-overload]
    inside = (place >= 0) & (place < len(axis) - 1)
    return sum_at(place[inside], values[inside], len(axis) - 1), []


def _differences(
    times: NDArray[np.int64], values: NDArray[Any], axis: NDArray[np.int64], name: str
) -> tuple[NDArray[Any], list[str]]:
    """Return a cumulative counter's increase in each interval between the times of an axis, and notes."""
    change = increments(values)
    notes = change.note(name)
    if change.decreases:
        notes.append(f"{name} decreases, so it is no cumulative counter: leave out values=cumulative")
    if values.dtype.kind == "f":
        if change.rounded:
            notes.append(f"{name} has values above 2^53 that are not whole numbers: their differences are rounded")
        return np.diff(np.interp(axis, times, values)), notes
    since_first = np.concatenate((np.zeros(1, np.int64), np.cumsum(change.values)))
    if np.isin(axis, times).all():
        return np.diff(since_first[np.searchsorted(times, axis, side="right") - 1]), notes
    return np.diff(np.interp(axis, times, since_first)), notes


FORMAT = ImportFormat(
    "perfetto", "a Perfetto trace", (".perfetto-trace", ".pftrace", ".json"), _recognise, _read, _OPTIONS
)
