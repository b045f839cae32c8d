"""The compiled loop over the lines of a block: fields are read, events numbered, time looked after.

Events of the same bytes get the same number, by a table with open addressing in which the bytes themselves are compared. What is
kept grows with the events, and with the different ones; what the numbers mean is found out afterwards, once for each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unperturbed.analysis.diagnosis.reading import ftrace, gstreamer, simple, table
from unperturbed.analysis.diagnosis.reading.line import EVENT, FURTHER, LOADING, LOST, OPENING, READY, RUNNING
from unperturbed.analysis.diagnosis.reading.spans import Integer, compiled, copy, equal, find, mixed, skip_blanks

__all__ = [
    "AT",
    "BAD_TEXT",
    "FTRACE",
    "GSTREAMER",
    "MORE_EVENTS",
    "MORE_KEYS",
    "MORE_KEY_BYTES",
    "NO_NEED",
    "SIMPLE",
    "TABLE",
    "Counts",
    "Held",
    "again_hashed",
    "renumbered",
    "scan",
]

SIMPLE, GSTREAMER, FTRACE, TABLE = range(4)
"""Formats."""

BAD_TEXT = 120
"""Bytes of a bad line that are kept to be shown."""

_ESCAPE, _OPEN, _NEWLINE, _RETURN = 27, 91, 10, 13
_SEED = np.uint64(0x2545F4914F6CDD1D)


class Counts(NamedTuple):
    """What is counted, and where the loop stands."""

    lines: int
    blank: int
    events: int
    bad: int
    further: int
    start_up: int
    other_process: int
    lost: int
    out_of_order: int
    largest_delay: int
    latest_line: int
    latest: int  # the greatest time so far
    keys: int
    key_bytes: int
    threads: int
    processes: int
    thread: int  # of the event before
    backwards_line: int  # the first line whose time no waiting thread explains
    backwards_by: int
    second_run_line: int
    needs: int  # what has to grow before the loop can go on


AT = Counts(*range(21))
"""Places in `Held.counts`."""

NO_NEED, MORE_EVENTS, MORE_KEYS, MORE_KEY_BYTES, MORE_THREADS = range(5)
"""What has to grow before the loop can go on."""


class Held(NamedTuple):
    """What is kept from block to block. Arrays of bytes have room for eight more."""

    counts: Any  # int64, places as in AT
    times: Any  # int64 (room,)
    events: Any  # int32 (room,): numbers of keys
    slots: Any  # int32 (a power of two,): number of a key, or -1
    key_hash: Any  # uint64 (room,)
    key_place: Any  # int64 (room, 3): where its bytes begin, where its tail does, where they end
    key_role: Any  # int64 (room,): of GStreamer's events, what they say of loading plugins
    key_bytes: Any  # uint8 (room,)
    threads: Any  # int64 (room, 5): process, address, floor, whether it opens a plugin, number of the process
    processes: (
        Any  # int64 (room, 5): process, events kept, whether it only loads plugins, whether it ran a pipeline, first line
    )
    bad: Any  # int64 (shown, 3): line, fault, bytes of its text
    bad_text: Any  # uint8 (shown, BAD_TEXT)


_T_PROCESS, _T_ADDRESS, _T_FLOOR, _T_OPENING, _T_NUMBER = range(5)
_P_PROCESS, _P_EVENTS, _P_LOADS, _P_RAN, _P_LINE = range(5)


@compiled
def _without_colours(source: Any, start: Integer, stop: Integer, target: Any) -> Integer:
    """Copy a line without escape sequences (ECMA-48: ESC [ parameters, intermediates, final), and return its length."""
    length = np.int64(0)
    at = start
    while at < stop:
        if source[at] == _ESCAPE and at + 1 < stop and source[at + 1] == _OPEN:
            end = at + 2
            while end < stop and 0x30 <= source[end] <= 0x3F:
                end += 1
            while end < stop and 0x20 <= source[end] <= 0x2F:
                end += 1
            if end < stop and 0x40 <= source[end] <= 0x7E:
                at = end + 1
                continue
        target[length] = source[at]
        length += 1
        at += 1
    return length


@compiled
def _key(held: Held, source: Any, head: Integer, head_end: Integer, tail: Any, tail_end: Integer) -> Integer:
    """Return the number of the event with these bytes, a new one where there is none yet."""
    counts = held.counts
    value = mixed(tail, 0, tail_end, mixed(source, head, head_end, _SEED))
    wanted = len(held.slots) - 1
    slot = np.int64(value >> np.uint64(20)) & wanted
    length = head_end - head
    while True:
        key = np.int64(held.slots[slot])
        if key < 0:
            break
        if held.key_hash[key] == value:
            begin, middle, end = held.key_place[key, 0], held.key_place[key, 1], held.key_place[key, 2]
            if (
                middle - begin == length
                and end - middle == tail_end
                and equal(held.key_bytes, begin, source, head, head_end)
                and equal(held.key_bytes, middle, tail, 0, tail_end)
            ):
                return key
        slot = (slot + 1) & wanted
    key = counts[AT.keys]
    begin = counts[AT.key_bytes]
    middle = copy(source, head, head_end, held.key_bytes, begin)
    end = copy(tail, 0, tail_end, held.key_bytes, middle)
    held.slots[slot] = key
    held.key_hash[key] = value
    held.key_place[key, 0], held.key_place[key, 1], held.key_place[key, 2] = begin, middle, end
    held.key_role[key] = -1
    counts[AT.keys] += 1
    counts[AT.key_bytes] = end
    return key


@compiled
def again_hashed(slots: Any, key_hash: Any, keys: Integer) -> None:
    """Fill a table that has grown."""
    slots[:] = -1
    wanted = len(slots) - 1
    for key in range(keys):
        slot = np.int64(key_hash[key] >> np.uint64(20)) & wanted
        while slots[slot] >= 0:
            slot = (slot + 1) & wanted
        slots[slot] = key


@compiled
def _thread(held: Held, process: Integer, address: Integer) -> Integer:
    """Return the number of a thread, a new one where it has not written yet."""
    counts, threads = held.counts, held.threads
    for number in range(counts[AT.threads]):
        if threads[number, _T_ADDRESS] == address and threads[number, _T_PROCESS] == process:
            return number
    found = counts[AT.processes]
    for number in range(counts[AT.processes]):
        if held.processes[number, _P_PROCESS] == process:
            found = number
    if found == counts[AT.processes]:
        counts[AT.processes] += 1
        held.processes[found, :] = 0
        held.processes[found, _P_PROCESS] = process
    number = counts[AT.threads]
    counts[AT.threads] += 1
    threads[number, _T_PROCESS], threads[number, _T_ADDRESS] = process, address
    threads[number, _T_FLOOR] = threads[number, _T_OPENING] = 0
    threads[number, _T_NUMBER] = found
    return number


@compiled
def _current_thread(held: Held, process: Integer, address: Integer) -> Integer:
    """Return the number of the thread that writes now: most often the one that wrote before."""
    thread = held.counts[AT.thread]
    if (
        thread >= held.counts[AT.threads]
        or held.threads[thread, _T_ADDRESS] != address
        or held.threads[thread, _T_PROCESS] != process
    ):
        thread = _thread(held, process, address)
        held.counts[AT.thread] = thread
    return thread


@compiled
def _count_for(held: Held, thread: Integer) -> None:
    """Count an event for its process, and keep the line of the first."""
    number = held.threads[thread, _T_NUMBER]
    if held.processes[number, _P_EVENTS] == 0:
        held.processes[number, _P_LINE] = held.counts[AT.lines]
    held.processes[number, _P_EVENTS] += 1


@compiled
def _lacks_room(held: Held, length: Integer) -> Integer:
    """Return what has to grow before a line of some bytes can be read."""
    counts = held.counts
    if counts[AT.events] == len(held.times):
        return MORE_EVENTS
    if counts[AT.keys] == len(held.key_hash):
        return MORE_KEYS
    if counts[AT.key_bytes] + 3 * length + 64 > len(held.key_bytes):
        return MORE_KEY_BYTES
    if counts[AT.threads] == len(held.threads):
        return MORE_THREADS
    return NO_NEED


@compiled
def _begin_anew(held: Held, number: Integer) -> None:
    """Leave out all events up to here: process `number` is ready, and those seen before it only helped it to load plugins."""
    counts = held.counts
    counts[AT.start_up] += counts[AT.events]
    counts[AT.events] = 0
    counts[AT.out_of_order] = counts[AT.largest_delay] = counts[AT.latest_line] = 0
    counts[AT.latest] = counts[AT.backwards_line] = 0
    for other in range(counts[AT.processes]):
        held.processes[other, _P_EVENTS] = 0
        held.processes[other, _P_LOADS] = np.int64(other != number)
    for thread in range(counts[AT.threads]):
        held.threads[thread, _T_FLOOR] = 0


@compiled
def _is_start_up(held: Held, thread: Integer, role: Integer) -> Integer:
    """Tell whether an event comes from loading plugins, and keep in mind what it says of those after it."""
    counts, opening = held.counts, held.threads[thread, _T_OPENING]
    number = held.threads[thread, _T_NUMBER]
    if held.processes[number, _P_LOADS] and role != READY:
        return True
    if role == READY:
        for other in range(counts[AT.processes]):
            if held.processes[other, _P_RAN] and counts[AT.second_run_line] == 0:
                counts[AT.second_run_line] = counts[AT.lines]
        _begin_anew(held, number)
        return True
    if role in (LOADING, OPENING):
        held.threads[thread, _T_OPENING] = np.int64(role == OPENING)
        return True
    if role == RUNNING:
        held.processes[number, _P_RAN] = 1
    return opening != 0


@compiled
def _look_after_time(held: Held, time: Integer, floor: Integer, most_late: Integer) -> None:
    """Count what is late; keep the first event that is later than it can be."""
    counts = held.counts
    delay = counts[AT.latest] - time
    if delay <= 0:
        counts[AT.latest] = time
        return
    counts[AT.out_of_order] += 1
    if delay > counts[AT.largest_delay]:
        counts[AT.largest_delay] = delay
        counts[AT.latest_line] = counts[AT.lines]
    impossible = time < floor if most_late < 0 else delay > most_late
    if impossible and counts[AT.backwards_line] == 0:
        counts[AT.backwards_line] = counts[AT.lines]
        counts[AT.backwards_by] = delay


@compiled
def _note_bad(held: Held, code: Integer, source: Any, start: Integer, stop: Integer) -> None:
    counts = held.counts
    number = counts[AT.bad]
    counts[AT.bad] += 1
    if number < len(held.bad):
        length = min(stop - start, np.int64(BAD_TEXT))
        held.bad[number, 0], held.bad[number, 1], held.bad[number, 2] = counts[AT.lines], code, length
        copy(source, start, start + length, held.bad_text[number], 0)


@compiled
def scan(  # noqa: PLR0912, PLR0915 - one pass: what a line goes through, in order
    kind: Integer,
    block: Any,
    start: Integer,
    stop: Integer,
    is_last: bool,
    options: Any,
    process: Integer,
    keep_start_up: bool,
    most_late: Integer,
    plain: Any,
    tail: Any,
    held: Held,
) -> Integer:
    """Read the lines of a block, and return how far: to its end, to where its last line begins, or to where something has to grow.

    Parameters
    ----------
    kind : SIMPLE, GSTREAMER, FTRACE or TABLE
    block, start, stop, is_last
        Bytes, and which of them; whether nothing comes behind them.
    options : int64, shape (16,)
        The format's.
    process : int
        Events of other processes are left out; -1 keeps all.
    keep_start_up : bool
    most_late : int
        Ticks that an event can be before the latest one. -1: a thread's event can be late only until its next one.
    plain, tail : uint8
        Room for a line without colours, and for twice a line.
    held : Held
    """
    counts = held.counts
    counts[AT.needs] = NO_NEED
    at = np.int64(start)
    while at < stop:
        end = find(block, _NEWLINE, at, stop)
        if end < 0:
            if not is_last:
                break
            end = np.int64(stop)
        counts[AT.needs] = _lacks_room(held, end - at)
        if counts[AT.needs] != NO_NEED:
            break
        line, line_end = at, end
        at = end + 1
        counts[AT.lines] += 1
        if line_end > line and block[line_end - 1] == _RETURN:
            line_end -= 1
        source = block
        if find(block, _ESCAPE, line, line_end) >= 0:
            line_end = _without_colours(block, line, line_end, plain)
            source, line = plain, np.int64(0)
        if skip_blanks(source, line, line_end) == line_end:
            counts[AT.blank] += 1
            continue

        if kind == GSTREAMER:
            read = gstreamer.parse(source, line, line_end, options, tail)
        elif kind == FTRACE:
            read = ftrace.parse(source, line, line_end, options, tail)
        elif kind == TABLE:
            read = table.parse(source, line, line_end, options, tail)
        else:
            read = simple.parse(source, line, line_end, options, tail)

        if read.code != EVENT:
            if read.code == FURTHER:
                counts[AT.further] += 1
            elif read.code == LOST:
                counts[AT.further] += 1
                counts[AT.lost] += read.time
            else:
                _note_bad(held, read.code, source, line, line_end)
            continue
        if kind == GSTREAMER and process >= 0 and read.process != process:
            counts[AT.other_process] += 1
            continue
        key = _key(held, source, read.head_start, read.head_end, tail, read.tail_end)
        if kind == GSTREAMER:
            thread = _current_thread(held, read.process, read.thread)
            if held.key_role[key] < 0:
                held.key_role[key] = gstreamer.role_of(source, read.head_start, read.message, line_end)
            if not keep_start_up and _is_start_up(held, thread, held.key_role[key]):
                counts[AT.start_up] += 1
                continue
            _count_for(held, thread)
            _look_after_time(held, read.time, held.threads[thread, _T_FLOOR], most_late)
            held.threads[thread, _T_FLOOR] = counts[AT.latest]
        else:
            _look_after_time(held, read.time, 0, most_late)
        event = counts[AT.events]
        held.times[event] = read.time
        held.events[event] = key
        counts[AT.events] = event + 1
    return min(at, np.int64(stop))


@compiled
def renumbered(events: Any, type_of: Any, number_of: Any, order: Any) -> Integer:
    """Replace keys by types, numbered by first occurrence, in place.

    `number_of` comes with -1 for each type, and leaves with its number; `order` leaves with the type of each number. Returns how many occur.
    """
    used = np.int64(0)
    for index in range(len(events)):
        kind = type_of[events[index]]
        if number_of[kind] < 0:
            number_of[kind] = used
            order[used] = kind
            used += 1
        events[index] = number_of[kind]
    return used
