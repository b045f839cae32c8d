"""Perfetto, for ui.perfetto.dev and trace_processor: one process per run, one track per metric.

An interval's count is recorded at its begin and lasts until the next value. The counter is 0 after the last interval
and after each interval that is followed by a gap: the sum of a track's values is the run's total. A gauge's value is
recorded at the end of its interval.

The packets are encoded as protobuf without the protobuf library, with the field numbers of perfetto_trace.proto: this
takes a few nanoseconds per event. All varints of a track have the same width, padded with zero groups of seven bits,
which protobuf accepts: the track's events are then rows of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.harness.exports import Format, run_writers, title_of

if TYPE_CHECKING:
    from unperturbed.collectors.data import Metric, Trace
    from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns

Bytes = NDArray[np.uint8]

SEQUENCE = 1  # The file's only packet sequence: names are interned in it
_BOOTTIME = 6  # Clock of all timestamps: trace_processor's default trace clock, so no timestamp is converted
_STATE_CLEARED, _NEEDS_STATE = 1, 2
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4

_ROWS = 1 << 16  # Events that are encoded at once: few enough for their matrix to stay in the processor's cache


def varint(value: int) -> bytes:
    """Return an integer encoded as a protobuf varint; a negative integer is encoded as int64."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def number(field: int, value: int) -> bytes:
    """Return a protobuf field with an integer value."""
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes | str) -> bytes:
    """Return a protobuf field that contains a message or text."""
    held = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(held)) + held


def packet(*fields: bytes) -> bytes:
    """Return a packet with the given fields, in the file's packet sequence."""
    return message(1, b"".join((*fields, number(10, SEQUENCE))))


def first_packet(names: Mapping[str, int]) -> bytes:
    """Return the file's first packet: the clock of all later packets, and the names of events."""
    interned = b"".join(message(2, number(1, iid) + message(2, name)) for name, iid in names.items())
    return packet(
        number(13, _STATE_CLEARED),
        number(87, 1),
        message(59, number(58, _BOOTTIME)),
        message(12, interned) if interned else b"",
    )


def process_track(uuid: int, pid: int, name: str, labels: Sequence[str]) -> bytes:
    """Return the packet that describes a process."""
    process = number(1, pid) + message(6, name) + b"".join(message(8, label) for label in labels)
    return packet(message(60, number(1, uuid) + message(3, process)))


def event_track(uuid: int, parent: int, name: str, description: str = "") -> bytes:
    """Return the packet that describes a track of slices or instants."""
    return packet(message(60, number(1, uuid) + number(5, parent) + message(2, name) + _described(description)))


def counter_track(uuid: int, parent: int, name: str, unit: str, description: str = "") -> bytes:
    """Return the packet that describes a counter track."""
    known = {"ns": number(3, 1), "events": number(3, 2), "bytes": number(3, 3)}
    counter = known.get(unit, message(6, unit) if unit else b"")
    described = number(1, uuid) + number(5, parent) + message(2, name) + message(8, counter) + _described(description)
    return packet(message(60, described))


def _described(text: str) -> bytes:
    return message(14, text) if text else b""


def counter_events(uuid: int, times_ns: NDArray[np.int64], values: NDArray[np.generic]) -> Iterator[bytes]:
    """Yield the packets of a counter's values, int64 or float64."""
    head = number(9, COUNTER) + number(11, uuid)
    if values.dtype.kind == "i":
        yield from _events(times_ns, head + varint(30 << 3), Varints(values), b"")
    else:
        yield from _events(times_ns, head + varint(44 << 3 | 1), _Doubles(values), b"")


def instant_events(uuid: int, name: int, times_ns: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the packets of instant events that share an interned name."""
    yield from _named_events(INSTANT, uuid, name, times_ns)


def slice_event(kind: int, uuid: int, name: int, time_ns: int) -> bytes:
    """Return the packet of a slice's begin or end."""
    return b"".join(_named_events(kind, uuid, name, np.array([time_ns])))


def _named_events(kind: int, uuid: int, name: int, times_ns: NDArray[np.int64]) -> Iterator[bytes]:
    content = number(9, kind) + number(11, uuid) + number(10, name)
    yield from _events(times_ns, content, None, number(13, _NEEDS_STATE))


class Varints:
    """Integers (int64) encoded as varints of equal width: the smallest that fits all, 10 if any is negative."""

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.bits = np.ascontiguousarray(values, np.int64).view(np.uint64)
        largest = int(self.bits.max()) if len(self.bits) else 0
        self.width = max(1, -(-largest.bit_length() // 7))

    def fill(self, into: Bytes, rows: slice) -> None:
        """Write the encoded values of some rows into a matrix."""
        left = self.bits[rows]
        for place in range(self.width - 1):
            # The cast keeps the lowest byte: only the eighth bit must be set.
            into[:, place] = left.astype(np.uint8) | np.uint8(0x80)
            left = left >> np.uint64(7)
        into[:, self.width - 1] = left.astype(np.uint8)


class _Doubles:
    """Numbers encoded as eight bytes each."""

    width = 8

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.bytes = np.ascontiguousarray(values, np.dtype("<f8")).view(np.uint8).reshape(-1, 8)

    def fill(self, into: Bytes, rows: slice) -> None:
        """Write the encoded values of some rows into a matrix."""
        into[:] = self.bytes[rows]


def _events(
    times_ns: NDArray[np.int64], content: bytes, value: Varints | _Doubles | None, further: bytes
) -> Iterator[bytes]:
    """Yield the packets, in chunks, of events that differ only in time and value."""
    stamps = Varints(times_ns)
    wide = value.width if value else 0
    event = message(11, content + bytes(wide))
    body = varint(8 << 3) + bytes(stamps.width) + number(10, SEQUENCE) + further + event
    row = np.frombuffer(message(1, body), np.uint8)
    before = len(row) - len(body) + 1
    for first in range(0, len(times_ns), _ROWS):
        chunk = slice(first, first + _ROWS)
        rows = np.empty((min(_ROWS, len(times_ns) - first), len(row)), np.uint8)
        rows[:] = row
        stamps.fill(rows[:, before : before + stamps.width], chunk)
        if value:
            value.fill(rows[:, len(row) - wide :], chunk)
        yield rows.tobytes()


def _write_runs(runs: ExportedRuns, path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(_packets(runs))


def _packets(runs: ExportedRuns) -> Iterator[bytes]:
    names: dict[str, int] = {}
    for run in runs:
        for text in (*_milestones(run.trace), *(span.name for span in run.slices)):
            names.setdefault(text, len(names) + 1)
    yield first_packet(names)
    uuid = 0
    for pid, run in enumerate(runs, 1):
        uuid += 1
        process = uuid
        yield process_track(process, pid, run.title, _labels(runs, run))
        for track in dict.fromkeys(span.track for span in run.slices):
            uuid += 1
            yield event_track(uuid, process, track)
            for span in run.slices:
                if span.track == track:
                    for kind, time in zip((SLICE_BEGIN, SLICE_END), run.bounds(span), strict=True):
                        yield slice_event(kind, uuid, names[span.name], time)
        for name, times in _milestones(run.trace).items():
            uuid += 1
            described = f"each event of {name}, at times evenly spaced within the event's interval"
            yield event_track(uuid, process, f"{name} (instants)", described)
            yield from instant_events(uuid, names[name], times)
        for name, metric in run.trace.metrics.items():
            uuid += 1
            yield counter_track(uuid, process, title_of(metric), metric.unit, _description(metric))
            yield from counter_events(uuid, *_steps(run.trace, name))


def _labels(runs: ExportedRuns, run: ExportedRun) -> list[str]:
    facts = run.trace.attributes
    labels = [f"campaign {runs.name}"]
    if run.pass_name:
        labels.append(f"pass {run.pass_name}")
    if run.repetition is not None:
        labels.append(f"repetition {run.repetition}")
    if facts.get("clock"):
        labels.append(f"clock {facts['clock']}")
    if runs.aligned_to:
        labels.append(f"on the time axis of run {runs.aligned_to}")
    if any(metric.kind == "simulated" for metric in run.trace.metrics.values()):
        labels.append("simulated counters")
    return labels


def _description(metric: Metric) -> str:
    source = f"{metric.kind} metric" + (f" from {metric.source}" if metric.source else "")
    # The import recognises "an interval's count".
    what = "an interval's count" if metric.semantics == "counter" else "value at the end of the interval"
    return "; ".join(text for text in (metric.meaning, source, what) if text)


def _milestones(trace: Trace) -> dict[str, NDArray[np.int64]]:
    """Return event times for each software counter with at most one event per interval on average."""
    times = {}
    for name, metric in trace.metrics.items():
        counts = trace[name]
        if metric.kind != "software" or metric.semantics != "counter" or counts.dtype.kind != "i" or not len(counts):
            continue
        if not 0 < counts.sum() <= len(counts) or counts.min() < 0:
            continue
        where = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(where)) - np.repeat(np.cumsum(counts) - counts, counts)
        length = (trace.end_ns - trace.begin_ns)[where]
        times[name] = trace.begin_ns[where] + (2 * rank + 1) * length // (2 * counts[where])
    return times


def _steps(trace: Trace, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the times at which a metric's value changes, and its new value at each of them."""
    values = trace[name]
    known = np.isfinite(values) if values.dtype.kind == "f" else np.ones(len(values), np.bool_)
    if trace.metrics[name].semantics == "gauge":
        return trace.end_ns[known], values[known]
    begin, end, values = trace.begin_ns[known], trace.end_ns[known], values[known]
    joined = np.append(begin[1:] == end[:-1], False) if len(begin) else np.zeros(0, np.bool_)
    at = np.flatnonzero(~joined) + 1
    return np.insert(begin, at, end[~joined]), np.insert(values, at, 0)


SUFFIXES = (".perfetto-trace", ".pftrace")

FORMAT = Format("perfetto", SUFFIXES, run_writers(_write_runs), timeline=True)
