"""Compiled loop over the lines of a block: parse a line, number its event type, check the order of time.

Types are numbered by a hash table with open addressing. Its keys are the lines' own bytes; numba's typed dictionary
does not support such keys.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unperturbed.analysis.diagnosis.reading.spans import (
    CONTINUED,
    EVENT,
    LOADING,
    LOST,
    OPENING,
    READY,
    RUNNING,
    Integer,
    compiled,
    copy,
    equal,
    find_byte,
    hash_bytes,
    no_role,
    skip_whitespace,
)

BAD_TEXT = 120
"""Maximum number of bytes of a bad line that are kept for the user."""

_ESCAPE, _OPEN, _NEWLINE, _RETURN = 27, 91, 10, 13
_SEED = np.uint64(0x2545F4914F6CDD1D)


class ScanCounts(NamedTuple):
    """Counts and positions of the loop; the first fields are those of `Reading`, in the same order."""

    lines: int
    bad_lines: int
    further_lines: int
    start_up_lines: int
    other_process_lines: int
    lost_events: int
    out_of_order: int
    largest_delay: int
    latest_line: int
    blank: int
    events: int
    latest: int  # the greatest time so far
    types: int
    type_bytes: int
    threads: int
    processes: int
    thread: int  # of the previous event
    backwards_line: int  # the first line whose time no waiting thread explains
    backwards_by: int
    second_run_line: int
    lacks: int  # the array that must grow before the loop can continue


INDEX = ScanCounts(*range(21))
"""Index of each number in `ScanState.counts`."""

NOTHING, EVENTS, TYPES, TYPE_BYTES, THREADS = range(5)
"""Values of `ScanCounts.lacks`: the array that must grow before the loop can continue."""


class ScanState(NamedTuple):
    """State of the scanner between blocks. Arrays of bytes have spare bytes at the end."""

    counts: Any  # int64, indices as in INDEX
    times: Any  # int64 (room,)
    events: Any  # int32 (room,): numbers of types
    slots: Any  # int32 (a power of two,): the hash table: number of a type, or -1
    type_hash: Any  # uint64 (room,)
    type_range: Any  # int64 (room, 3): in type_bytes, the start of the head, the start of the tail, the end of the tail
    type_role: Any  # int64 (room,): role in start-up, -1 if unknown so far
    type_bytes: Any  # uint8 (room,)
    threads: Any  # int64 (room, 5): process, address, floor, whether it opens a plugin, index of the process
    processes: Any  # int64 (room, 5): process, kept events, whether it only loads plugins, whether a pipeline ran, line
    bad: Any  # int64 (shown, 3): line, fault, bytes of its text
    bad_text: Any  # uint8 (shown, BAD_TEXT)


_T_PROCESS, _T_ADDRESS, _T_FLOOR, _T_OPENING, _T_NUMBER = range(5)
_P_PROCESS, _P_EVENTS, _P_LOADS, _P_RAN, _P_LINE = range(5)


@compiled
def _without_colours(source: Any, start: Integer, stop: Integer, target: Any) -> Integer:
    """Copy a line without its escape sequences (ECMA-48: ESC [ …); return the copy's length."""
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
def _type_number(
    state: ScanState, source: Any, head: Integer, head_end: Integer, tail: Any, tail_end: Integer
) -> Integer:
    """Return the number of the type with this head and tail; a new type gets the next number.

    The table is at most half full, so a free slot ends every search. Equal hashes are confirmed by comparing the bytes.
    """
    counts = state.counts
    value = hash_bytes(tail, 0, tail_end, hash_bytes(source, head, head_end, _SEED))
    mask = len(state.slots) - 1
    slot = np.int64(value >> np.uint64(20)) & mask
    length = head_end - head
    while True:
        number = np.int64(state.slots[slot])
        if number < 0:
            break
        if state.type_hash[number] == value:
            begin, middle, end = state.type_range[number, 0], state.type_range[number, 1], state.type_range[number, 2]
            if (
                middle - begin == length
                and end - middle == tail_end
                and equal(state.type_bytes, begin, source, head, head_end)
                and equal(state.type_bytes, middle, tail, 0, tail_end)
            ):
                return number
        slot = (slot + 1) & mask
    number = counts[INDEX.types]
    begin = counts[INDEX.type_bytes]
    middle = copy(source, head, head_end, state.type_bytes, begin)
    end = copy(tail, 0, tail_end, state.type_bytes, middle)
    state.slots[slot] = number
    state.type_hash[number] = value
    state.type_range[number, 0], state.type_range[number, 1], state.type_range[number, 2] = begin, middle, end
    state.type_role[number] = -1
    counts[INDEX.types] += 1
    counts[INDEX.type_bytes] = end
    return number


@compiled
def rehash(slots: Any, type_hash: Any, types: Integer) -> None:
    """Fill the enlarged hash table with all types."""
    slots[:] = -1
    mask = len(slots) - 1
    for number in range(types):
        slot = np.int64(type_hash[number] >> np.uint64(20)) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number


@compiled
def _thread(state: ScanState, process: Integer, address: Integer) -> Integer:
    """Return the index of a thread; assign the next index to a new thread."""
    counts, threads = state.counts, state.threads
    for number in range(counts[INDEX.threads]):
        if threads[number, _T_ADDRESS] == address and threads[number, _T_PROCESS] == process:
            return number
    process_number = counts[INDEX.processes]
    for number in range(counts[INDEX.processes]):
        if state.processes[number, _P_PROCESS] == process:
            process_number = number
    if process_number == counts[INDEX.processes]:
        counts[INDEX.processes] += 1
        state.processes[process_number, :] = 0
        state.processes[process_number, _P_PROCESS] = process
    number = counts[INDEX.threads]
    counts[INDEX.threads] += 1
    threads[number, _T_PROCESS], threads[number, _T_ADDRESS] = process, address
    threads[number, _T_FLOOR] = threads[number, _T_OPENING] = 0
    threads[number, _T_NUMBER] = process_number
    return number


@compiled
def _current_thread(state: ScanState, process: Integer, address: Integer) -> Integer:
    """Return the index of the thread that wrote this event; it is usually the previous event's thread."""
    thread = state.counts[INDEX.thread]
    if (
        thread >= state.counts[INDEX.threads]
        or state.threads[thread, _T_ADDRESS] != address
        or state.threads[thread, _T_PROCESS] != process
    ):
        thread = _thread(state, process, address)
        state.counts[INDEX.thread] = thread
    return thread


@compiled
def _count_for(state: ScanState, thread: Integer) -> None:
    """Count an event for its process; record the line of the process's first event."""
    number = state.threads[thread, _T_NUMBER]
    if state.processes[number, _P_EVENTS] == 0:
        state.processes[number, _P_LINE] = state.counts[INDEX.lines]
    state.processes[number, _P_EVENTS] += 1


@compiled
def _lacks_room(state: ScanState, length: Integer) -> Integer:
    """Return the array that must grow before a line of this length can be read, or `NOTHING`."""
    counts = state.counts
    if counts[INDEX.events] == len(state.times):
        return EVENTS
    if counts[INDEX.types] == len(state.type_hash):
        return TYPES
    if counts[INDEX.type_bytes] + 3 * length + 64 > len(state.type_bytes):
        return TYPE_BYTES
    if counts[INDEX.threads] == len(state.threads):
        return THREADS
    return NOTHING


@compiled
def _discard_events_so_far(state: ScanState, number: Integer) -> None:
    """Discard all events so far: process `number` is ready, and other processes only loaded plugins for it."""
    counts = state.counts
    counts[INDEX.start_up_lines] += counts[INDEX.events]
    counts[INDEX.events] = 0
    counts[INDEX.out_of_order] = counts[INDEX.largest_delay] = counts[INDEX.latest_line] = 0
    counts[INDEX.latest] = counts[INDEX.backwards_line] = 0
    for other in range(counts[INDEX.processes]):
        state.processes[other, _P_EVENTS] = 0
        state.processes[other, _P_LOADS] = np.int64(other != number)
    for thread in range(counts[INDEX.threads]):
        state.threads[thread, _T_FLOOR] = 0


@compiled
def _is_start_up(state: ScanState, thread: Integer, role: Integer) -> Integer:
    """Return whether an event belongs to the start-up, and update the states of its thread and process."""
    counts, opening = state.counts, state.threads[thread, _T_OPENING]
    number = state.threads[thread, _T_NUMBER]
    if state.processes[number, _P_LOADS] and role != READY:
        return True
    if role == READY:
        for other in range(counts[INDEX.processes]):
            if state.processes[other, _P_RAN] and counts[INDEX.second_run_line] == 0:
                counts[INDEX.second_run_line] = counts[INDEX.lines]
        _discard_events_so_far(state, number)
        return True
    if role in (LOADING, OPENING):
        state.threads[thread, _T_OPENING] = np.int64(role == OPENING)
        return True
    if role == RUNNING:
        state.processes[number, _P_RAN] = 1
    return opening != 0


@compiled
def _check_order(state: ScanState, time: Integer, floor: Integer, most_late: Integer) -> None:
    """Count late events; record the first event that is later than allowed."""
    counts = state.counts
    delay = counts[INDEX.latest] - time
    if delay <= 0:
        counts[INDEX.latest] = time
        return
    counts[INDEX.out_of_order] += 1
    if delay > counts[INDEX.largest_delay]:
        counts[INDEX.largest_delay] = delay
        counts[INDEX.latest_line] = counts[INDEX.lines]
    impossible = time < floor if most_late < 0 else delay > most_late
    if impossible and counts[INDEX.backwards_line] == 0:
        counts[INDEX.backwards_line] = counts[INDEX.lines]
        counts[INDEX.backwards_by] = delay


@compiled
def _note_bad(state: ScanState, code: Integer, source: Any, start: Integer, stop: Integer) -> None:
    counts = state.counts
    number = counts[INDEX.bad_lines]
    counts[INDEX.bad_lines] += 1
    if number < len(state.bad):
        length = min(stop - start, np.int64(BAD_TEXT))
        state.bad[number, 0], state.bad[number, 1], state.bad[number, 2] = counts[INDEX.lines], code, length
        copy(source, start, start + length, state.bad_text[number], 0)


def line_scanner(parse: Any, role_of: Any = None) -> Any:  # noqa: PLR0915  the loop is inside
    """Return the loop over lines for one compiled format; the format's module assigns it to `scan`.

    `parse`: Compiled function (source, start, stop, settings, tail) → `Line`. `settings` are the layout's, `tail` is a
    buffer. `role_of`: Compiled function (source, head, message, stop) → role in start-up; None without threads.
    """
    logs_threads = role_of is not None
    role = role_of if logs_threads else no_role

    def scan(  # noqa: PLR0912, PLR0915 - one pass: all steps of a line, in order
        block: Any,
        start: Integer,
        stop: Integer,
        is_last: bool,
        settings: Any,
        process: Integer,
        keep_start_up: bool,
        most_late: Integer,
        plain: Any,
        tail: Any,
        state: ScanState,
    ) -> Integer:
        """Read the lines of a block; return the index of the first unused byte.

        It is the end of the block, or the beginning of a line that is incomplete or needs a larger array.

        `most_late`: Maximum delay of an event, in ticks. -1: a thread's event can be late only until its next event.
        `plain`, `tail`: Buffers for a line without colours, and for twice a line.
        """
        counts = state.counts
        counts[INDEX.lacks] = NOTHING
        at = np.int64(start)
        # Between two lines, `at` is the beginning of a line, and `state` is complete for all lines before it: the
        # caller can enlarge an array, or move the rest of the block to the front, and call again.
        while at < stop:
            end = find_byte(block, _NEWLINE, at, stop)
            if end < 0:
                if not is_last:
                    break
                end = np.int64(stop)
            counts[INDEX.lacks] = _lacks_room(state, end - at)
            if counts[INDEX.lacks] != NOTHING:
                break
            line, line_end = at, end
            at = end + 1
            counts[INDEX.lines] += 1
            if line_end > line and block[line_end - 1] == _RETURN:
                line_end -= 1
            source = block
            if find_byte(block, _ESCAPE, line, line_end) >= 0:
                line_end = _without_colours(block, line, line_end, plain)
                source, line = plain, np.int64(0)
            if skip_whitespace(source, line, line_end) == line_end:
                counts[INDEX.blank] += 1
                continue
            read = parse(source, line, line_end, settings, tail)
            if read.code != EVENT:
                if read.code == CONTINUED:
                    counts[INDEX.further_lines] += 1
                elif read.code == LOST:
                    counts[INDEX.further_lines] += 1
                    counts[INDEX.lost_events] += read.time
                else:
                    _note_bad(state, read.code, source, line, line_end)
                continue
            if logs_threads and process >= 0 and read.process != process:
                counts[INDEX.other_process_lines] += 1
                continue
            number = _type_number(state, source, read.head_start, read.head_end, tail, read.tail_end)
            if logs_threads:
                thread = _current_thread(state, read.process, read.thread)
                if state.type_role[number] < 0:
                    state.type_role[number] = role(source, read.head_start, read.message, line_end)
                if not keep_start_up and _is_start_up(state, thread, state.type_role[number]):
                    counts[INDEX.start_up_lines] += 1
                    continue
                _count_for(state, thread)
                # A thread takes the time, then waits to write: all events in the log when it writes this event are
                # earlier than its next event.
                _check_order(state, read.time, state.threads[thread, _T_FLOOR], most_late)
                state.threads[thread, _T_FLOOR] = counts[INDEX.latest]
            else:
                _check_order(state, read.time, 0, most_late)
            event = counts[INDEX.events]
            state.times[event] = read.time
            state.events[event] = number
            counts[INDEX.events] = event + 1
        return min(at, np.int64(stop))

    return scan


@compiled
def renumber(events: Any, type_of: Any, number_of: Any, order: Any) -> Integer:
    """Renumber the types of events in place, in order of first occurrence; return the number of types.

    `type_of` has the type of each number in the log; two numbers may have the same type. `number_of` has -1 for each
    type and is overwritten with its new number; `order` is overwritten with the type of each new number.
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
