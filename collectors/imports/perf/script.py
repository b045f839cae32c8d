"""`perf script`: samples from perf record as text, with their periods summed over intervals.

A sample's line is `command pid time: period event: address symbol`, as perf-script(1) prints it; lines of call chains
and of other records are skipped. A sample stands for as many events as its period, so the sum is an estimate; perf
prints no period of tracepoints, whose samples are counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import (
    MOST,
    ImportFormat,
    as_numbers,
    check_intervals,
    decode,
    from_ends,
    interval_ns,
    make_trace,
    refuse,
    sum_at,
    without_part,
)
from unperturbed.collectors.imports.perf.events import describe_event
from unperturbed.common.wording import counted, first_of

_SAMPLE = re.compile(
    r"\s*(?P<command>\S.*?)\s+-?\d+(/-?\d+)?\s+(\[\d+\]\s+)?(?P<time>\d+\.\d{6,9}):\s+(?:(?P<period>\d+)\s+)?"
    r"(?P<event>[^\s\d]\S*?):(?=\s|$)"
)
_CHAIN = re.compile(r"\s+[0-9a-f]+ |\s*$|#")
_MORE = re.compile(r"(\t|  \S)(?!.*\d\.\d{6,9}:)")
"""Other lines of a call chain: functions that the compiler inlined, and lines of source code (`-F +srcline`)."""
_RECORD = re.compile(r".*\d\.\d{6,9}: PERF_RECORD_(?P<kind>[A-Z]+)")
"""Lines of `--show-task-events` and the like, which are no samples."""
_UNTIMED = re.compile(r"\s*\S.*?\s-?\d+(/-?\d+)?\s+(\[\d+\]\s+)?(\d+\s+)?[a-zA-Z][^\s.]*:(\s|$)")
_WITHOUT_COMMAND = re.compile(r"\s*(-?\d+(/-?\d+)?\s+)?(\[\d+\]\s+)?\d+\.\d{6,9}:\s")
_FRAME = re.compile(r"\s+[0-9a-f]{4,} \S")
_INTERVAL_MS = 20.0
_FIELDS = "print the fields that the import needs by perf script -F comm,tid,time,period,event"
_ESTIMATE = "estimate: sum of the samples' periods"
_FEW = 2.0  # samples per interval and event below which a sum is too imprecise


def _recognise(head: bytes) -> bool:
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if not line.startswith("#")]
    if any(_SAMPLE.match(line) or _RECORD.match(line) for line in lines[:20]):
        return True
    return len(lines) > 1 and _UNTIMED.match(lines[0]) is not None and _FRAME.match(lines[1]) is not None


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    interval = interval_ns(options.get("interval", str(_INTERVAL_MS)), path)
    times: list[int] = []
    periods: list[int] = []
    codes: list[int] = []
    events: dict[str, int] = {}
    without_period: dict[str, bool] = {}
    lost = 0
    before = ""
    lines = decode(content, path).splitlines()
    unended = () if content.endswith(b"\n") else (len(lines),)
    for number, line in enumerate(lines, 1):
        sample = _SAMPLE.match(line)
        if sample is None or sample["event"].startswith("PERF_RECORD_"):
            record = _RECORD.match(line)
            lost += record is not None and record["kind"].startswith("LOST")
            if not record and not _CHAIN.match(line) and (number in unended or not _MORE.match(line)):
                _refuse(line, path, number, last=number == len(lines))
            continue
        seconds, _, fraction = sample["time"].partition(".")
        time = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        period = int(sample["period"] or 1)
        if max(time, period) > MOST:
            refuse(path, "this sample's time or period is too large for 64 bits", number)
        if times and time < times[-1]:
            refuse(
                path,
                "this sample is earlier than the previous one: samples are out of order, or from a second recording",
                number,
            )
        if line == before:
            refuse(path, "duplicate sample: its period would be added twice", number)
        before = line
        event = sample["event"]
        code = events.setdefault(event, len(events))
        if code == len(without_period):
            without_period[event] = sample["period"] is None
        elif without_period[event] != (sample["period"] is None):
            refuse(path, f"samples of {event} with and without a period cannot be summed: {_FIELDS}", number)
        times.append(time)
        periods.append(period)
        codes.append(code)
    if not times:
        _refuse_all(lines, path)
    place = (np.array(times, np.int64) - times[0]) // interval
    count = int(place[-1]) + 1
    check_intervals(count, path)
    table = sum_at(place * len(events) + codes, as_numbers(periods), count * len(events))
    metrics = [
        replace(describe_event(name, source="perf script"), unit="samples", meaning="samples")
        if without_period[name]
        else replace(describe_event(name, source="perf script"), scaled=True, meaning=_ESTIMATE)
        for name in events
    ]
    ends = interval * np.arange(1, count + 1, dtype=np.int64)
    ends[-1] = max(times[-1] - times[0], int(ends[-2]) + 1 if count > 1 else 1)
    columns = {name: table.reshape(count, len(events))[:, at] for name, at in events.items()}
    sampled = np.bincount(codes, minlength=len(events)) / count
    notes = _notes(events, sampled, without_period, lost)
    if unended:
        notes.append("the file's last line has no end of line: the file may be truncated")
    return [without_part(make_trace(metrics, columns, from_ends(ends, 0), path, notes=notes))]


def _notes(
    events: Mapping[str, int], sampled: NDArray[np.float64], without_period: Mapping[str, bool], lost: int
) -> list[str]:
    """Return notes on events with few samples or without periods, and on lost samples."""
    notes = [
        f"{name} has {share:.2g} samples per interval, so its sums are imprecise: use longer intervals (interval=MS)"
        for name, share in zip(events, sampled.tolist(), strict=True)
        if share < _FEW
    ]
    if any(without_period.values()) and not all(without_period.values()):
        counted_so = first_of([name for name in events if without_period[name]])
        notes.append(f"{counted_so} has no periods, so its samples are counted, as of tracepoints")
    if lost:
        notes.append(f"perf lost samples in {counted(lost, 'place')}, so all sums are too small")
    return notes


def _refuse_all(lines: Sequence[str], path: Path) -> NoReturn:
    if bare := next((at for at, line in enumerate(lines, 1) if _WITHOUT_COMMAND.match(line)), 0):
        refuse(path, f"this sample has no command and thread: {_FIELDS}", bare)
    refuse(path, "the file has no samples", 1)


def _refuse(line: str, path: Path, number: int, *, last: bool) -> NoReturn:
    if _WITHOUT_COMMAND.match(line):
        refuse(path, f"this sample has no command and thread: {_FIELDS}", number)
    if _UNTIMED.match(line):
        refuse(path, f"this sample has no time: {_FIELDS}", number)
    refuse(path, f"not a sample from perf script{': the last line is truncated' if last else ''}", number)


FORMAT = ImportFormat(
    "perf-script",
    "perf script output",
    (".txt", ".script"),
    _recognise,
    _read,
    {"interval": f"interval length in ms (default: {_INTERVAL_MS:g})"},
)
