"""Packets of a Perfetto trace, written as protobuf without its library: an event costs some nanoseconds so.

Field numbers are those of perfetto_trace.proto. Numbers that differ from event to event are written at one width for a
whole track, the unused groups of seven bits as zeros: protobuf reads such varints, up to ten bytes, and all events of a
track are then rows of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bytes = NDArray[np.uint8]

SEQUENCE = 1
"""The one packet sequence of the file: names are interned for it."""

_BOOTTIME = 6
"""Clock of all timestamps: the one that trace_processor takes for a trace's time, so nothing is converted."""

_STATE_CLEARED, _NEEDS_STATE = 1, 2
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4

_ROWS = 1 << 16
"""Events that are encoded at a time, so that their matrix stays in the processor's cache."""


def varint(value: int) -> bytes:
    """Return a whole number as protobuf writes it, negative ones as int64."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number(field: int, value: int) -> bytes:
    """Return a field that holds a whole number."""
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes | str) -> bytes:
    """Return a field that holds a message or text."""
    held = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(held)) + held


def packet(*fields: bytes) -> bytes:
    """Return a packet of the file's sequence."""
    return message(1, b"".join((*fields, number(10, SEQUENCE))))


def first_packet(names: Mapping[str, int]) -> bytes:
    """Return the packet that the file begins with: the clock of all others, and the names of events."""
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
    """Return the packet that describes a counter."""
    known = {"ns": number(3, 1), "events": number(3, 2), "bytes": number(3, 3)}
    counter = known.get(unit, message(6, unit) if unit else b"")
    described = number(1, uuid) + number(5, parent) + message(2, name) + message(8, counter) + _described(description)
    return packet(message(60, described))


def _described(text: str) -> bytes:
    return message(14, text) if text else b""


def counter_events(uuid: int, times_ns: NDArray[np.int64], values: NDArray[np.generic]) -> Iterator[bytes]:
    """Yield the packets of a counter's values, which are int64 or float64."""
    head = number(9, COUNTER) + number(11, uuid)
    if values.dtype.kind == "i":
        yield from _events(times_ns, head + varint(30 << 3), _Varints(values), b"")
    else:
        yield from _events(times_ns, head + varint(44 << 3 | 1), _Doubles(values), b"")


def instant_events(uuid: int, name: int, times_ns: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the packets of instants that share an interned name."""
    yield from _named_events(INSTANT, uuid, name, times_ns)


def slice_event(kind: int, uuid: int, name: int, time_ns: int) -> bytes:
    """Return the packet of a slice's begin or end."""
    return b"".join(_named_events(kind, uuid, name, np.array([time_ns])))


def _named_events(kind: int, uuid: int, name: int, times_ns: NDArray[np.int64]) -> Iterator[bytes]:
    content = number(9, kind) + number(11, uuid) + number(10, name)
    yield from _events(times_ns, content, None, number(13, _NEEDS_STATE))


def encode_varints(values: ArrayLike) -> Bytes:
    """Return whole numbers as varints of one width: the least that holds them all.

    `values`: array_like of int64, shape (n,). Negative ones take ten bytes, as in protobuf.
    Result: array of uint8, shape (n, width). A row a number.
    """
    columns = _Varints(np.asarray(values, np.int64))
    found = np.empty((len(columns.bits), columns.width), np.uint8)
    columns.fill(found, slice(None))
    return found


class _Varints:
    """Whole numbers that are written as varints of one width."""

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.bits = np.ascontiguousarray(values, np.int64).view(np.uint64)
        largest = int(self.bits.max()) if len(self.bits) else 0
        self.width = max(1, -(-largest.bit_length() // 7))

    def fill(self, into: Bytes, rows: slice) -> None:
        """Write those rows into a matrix."""
        left = self.bits[rows]
        for place in range(self.width - 1):
            # The cast keeps the lowest byte, so that the eighth bit only has to be set.
            into[:, place] = left.astype(np.uint8) | np.uint8(0x80)
            left = left >> np.uint64(7)
        into[:, self.width - 1] = left.astype(np.uint8)


class _Doubles:
    """Numbers that are written as eight bytes."""

    width = 8

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.bytes = np.ascontiguousarray(values, np.dtype("<f8")).view(np.uint8).reshape(-1, 8)

    def fill(self, into: Bytes, rows: slice) -> None:
        """Write those rows into a matrix."""
        into[:] = self.bytes[rows]


def _events(
    times_ns: NDArray[np.int64], content: bytes, value: _Varints | _Doubles | None, further: bytes
) -> Iterator[bytes]:
    """Yield packets of events that differ in time and value alone, a chunk of them at a time."""
    stamps = _Varints(times_ns)
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
