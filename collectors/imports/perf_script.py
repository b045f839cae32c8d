"""`perf script`: samples of perf record as text, their periods summed into intervals.

A sample's line is `command pid time: period event: address symbol`, as perf-script(1) prints it; lines of its
call chain are passed over. A sample stands for as many events as its period says, so that a sum is an estimate.
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
    check_intervals,
    decode,
    from_ends,
    interval_ns,
    make_trace,
    refuse,
    without_part,
)
from unperturbed.collectors.imports.perf_stat import describe_event

_SAMPLE = re.compile(
    r"\s*(?P<command>\S.*?)\s+-?\d+(/-?\d+)?\s+(\[\d+\]\s+)?(?P<time>\d+\.\d{6,9}):\s+(?:(?P<period>\d+)\s+)?"
    r"(?P<event>[^\s\d]\S*?):(?=\s|$)"
)
_CHAIN = re.compile(r"\s+[0-9a-f]+ |\s*$|#")
_INTERVAL_MS = 20.0
_FEW = 2.0  # samples per interval and event below which a sum says little


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
        found = _SAMPLE.match(line)
        if found is None:
            if not _CHAIN.match(line):
                cut_off = ": the last line is cut off" if number == len(lines) else ""
                refuse(path, f"this is not a sample of perf script{cut_off}", number)
            continue
        seconds, _, fraction = found["time"].partition(".")
        time = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
        period = int(found["period"] or 1)
        if max(time, period) > MOST:
            refuse(path, "the time or period of this sample does not fit 64 bits", number)
        if times and time < times[-1]:
            refuse(path, "the time goes back here: samples are out of order, or of a second recording", number)
        if line == before:
            refuse(path, "this sample appears twice, so its period would be counted twice", number)
        before = line
        without_period |= found["period"] is None
        times.append(time)
        periods.append(period)
        codes.append(events.setdefault(found["event"], len(events)))
    if not times:
        refuse(path, "this file has no sample", 1)
    if without_period and max(periods) > 1:
        refuse(path, "some samples have a period and some have none, so they cannot be summed")
    place = (np.array(times, np.int64) - times[0]) // interval
    count = int(place[-1]) + 1
    check_intervals(count, path)
    table = np.bincount(place * len(events) + codes, np.array(periods, np.float64), count * len(events))
    metrics = [describe_event(name, source="perf script") for name in events]
    if without_period:
        metrics = [replace(metric, unit="samples", meaning="samples") for metric in metrics]
    else:
        meaning = "an estimate: periods of samples, summed"
        metrics = [replace(metric, scaled=True, meaning=meaning) for metric in metrics]
    ends = interval * np.arange(1, count + 1, dtype=np.int64)
    ends[-1] = max(times[-1] - times[0], int(ends[-2]) + 1 if count > 1 else 1)
    columns = {name: table.reshape(count, len(events))[:, at] for name, at in events.items()}
    sampled = np.bincount(codes, minlength=len(events)) / count
    notes = [
        f"{name} has {share:.2g} samples per interval: its sums are rough, and longer intervals (interval=…) are better"
        for name, share in zip(events, sampled.tolist(), strict=True)
        if share < _FEW
    ]
    if not content.endswith(b"\n"):
        notes.append("the file ends within a line: it may be cut off")
    return [without_part(make_trace(metrics, columns, from_ends(ends, 0), path, notes=notes))]


FORMAT = ImportFormat(
    "perf-script",
    "samples by perf script",
    (".txt", ".script"),
    _recognise,
    _read,
    {"interval": f"length of the intervals in ms ({_INTERVAL_MS:g})"},
)
