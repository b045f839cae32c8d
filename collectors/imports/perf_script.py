"""`perf script`: samples from perf record as text, with their periods summed over intervals.

A sample's line is `command pid time: period event: address symbol`, as perf-script(1) prints it; lines of call chains
are skipped. A sample stands for as many events as its period, so the sum is an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

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
from unperturbed.collectors.imports.perf_stat import describe_event

_SAMPLE = re.compile(
    r"\s*(?P<command>\S.*?)\s+-?\d+(/-?\d+)?\s+(\[\d+\]\s+)?(?P<time>\d+\.\d{6,9}):\s+(?:(?P<period>\d+)\s+)?"
    r"(?P<event>[^\s\d]\S*?):(?=\s|$)"
)
_CHAIN = re.compile(r"\s+[0-9a-f]+ |\s*$|#")
_INTERVAL_MS = 20.0
_FEW = 2.0  # samples per interval and event below which a sum is too imprecise


def _recognise(head: bytes) -> bool:
    lines = [line for line in head.decode("utf-8", "replace").splitlines()[:20] if not line.startswith("#")]
    return any(_SAMPLE.match(line) for line in lines)


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    interval = interval_ns(options.get("interval", str(_INTERVAL_MS)), path)
    times: list[int] = []
    periods: list[int] = []
    codes: list[int] = []
    events: dict[str, int] = {}
    without_period = False
    before = ""
    lines = decode(content, path).splitlines()
    for number, line in enumerate(lines, 1):
        sample = _SAMPLE.match(line)
        if sample is None:
            if not _CHAIN.match(line):
                cut_off = ": the last line is truncated" if number == len(lines) else ""
                refuse(path, f"not a sample from perf script{cut_off}", number)
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
        without_period |= sample["period"] is None
        times.append(time)
        periods.append(period)
        codes.append(events.setdefault(sample["event"], len(events)))
    if not times:
        refuse(path, "the file has no samples", 1)
    if without_period and max(periods) > 1:
        refuse(path, "samples with and without a period cannot be summed: record all events with a period")
    place = (np.array(times, np.int64) - times[0]) // interval
    count = int(place[-1]) + 1
    check_intervals(count, path)
    table = sum_at(place * len(events) + codes, as_numbers(periods), count * len(events))
    metrics = [describe_event(name, source="perf script") for name in events]
    if without_period:
        metrics = [replace(metric, unit="samples", meaning="samples") for metric in metrics]
    else:
        meaning = "estimate: sum of the samples' periods"
        metrics = [replace(metric, scaled=True, meaning=meaning) for metric in metrics]
    ends = interval * np.arange(1, count + 1, dtype=np.int64)
    ends[-1] = max(times[-1] - times[0], int(ends[-2]) + 1 if count > 1 else 1)
    columns = {name: table.reshape(count, len(events))[:, at] for name, at in events.items()}
    sampled = np.bincount(codes, minlength=len(events)) / count
    notes = [
        f"{name} has {share:.2g} samples per interval, so its sums are imprecise: use longer intervals (interval=MS)"
        for name, share in zip(events, sampled.tolist(), strict=True)
        if share < _FEW
    ]
    if not content.endswith(b"\n"):
        notes.append("the file's last line has no end of line: the file may be truncated")
    return [without_part(make_trace(metrics, columns, from_ends(ends, 0), path, notes=notes))]


FORMAT = ImportFormat(
    "perf-script",
    "perf script output",
    (".txt", ".script"),
    _recognise,
    _read,
    {"interval": f"interval length in ms (default: {_INTERVAL_MS:g})"},
)
