"""`perf stat -I MS`, with `-x SEPARATOR`, `-j` or as a table for people; with counts, or metrics alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat, refuse
from unperturbed.collectors.imports.perf import metrics, table
from unperturbed.collectors.imports.perf.rows import Lines, to_trace
from unperturbed.collectors.imports.perf.separated import FIRST_ROW, read_csv, read_json

_STARTED = b"# started on "
_HEAD = 4096
_TIMED = re.compile(rb"[ \t]*\d+[.,]\d{9}(?P<separator>[^\w\n])")


def _recognise(head: bytes) -> bool:
    started = head.lstrip().startswith(_STARTED)
    all_lines = [line for line in head.splitlines() if line.strip()]
    lines = [line for line in all_lines if not line.startswith(b"#")]
    if table.HEADING.search(head) or any(table.FOR_PEOPLE.match(line) for line in all_lines[:2]):
        return True
    if any(map(table.TOTALS.match, all_lines[:3])):
        return True
    if not lines:
        return started
    line = lines[0]
    if line.startswith(b"{"):
        return any(b'"interval"' in row and (b'"counter-value"' in row or metrics.JSON.match(row)) for row in lines)
    if _has_metrics_alone(head, started=started):
        return True
    match = FIRST_ROW.match(line)
    return match is not None and (started or (line.count(match["separator"]) >= 5 and len(line.split()) <= 6))


def _has_metrics_alone(head: bytes, *, started: bool = True) -> bool:
    """Return whether a heading of --metric-only is there: a table of another tool has no such times below it."""
    if (heading := metrics.HEADING.search(head)) is None:
        return False
    line, _, below = head[heading.start() :].partition(b"\n")
    timed = _TIMED.match(below.lstrip(b"\r\n"))
    closed = heading["separator"] is None or (timed is not None and line.rstrip(b"\r").endswith(timed["separator"]))
    return started or (timed is not None and closed)


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    return [_read_recording(recording, path, line) for recording, line in _recordings(content)]


def _read_recording(recording: bytes, path: Path, line: int) -> Trace:
    number, first = next(iter(Lines(recording, line)), (line, b""))
    head, started = recording[:_HEAD], _started(recording)
    if not first:
        refuse(path, "no rows below perf's header", line)
    if first.startswith(b"{"):
        if b'"counter-value"' not in head and metrics.JSON.match(first):
            return metrics.read_metrics(recording, path, line, started)
        return to_trace(read_json(recording, path, line), started)
    if table.HEADING.search(head):
        return to_trace(table.read_table(recording, path, line), started)
    if metrics.HEADING.search(head):
        return metrics.read_metrics(recording, path, line, started)
    if table.FOR_PEOPLE.match(first):
        return to_trace(table.read_table(recording, path, line), started)
    if table.TOTALS.match(first):
        refuse(path, "these are totals of a whole run: record with intervals (perf stat -I 20 -x, …)", number)
    return to_trace(read_csv(recording, path, line), started)


def _recordings(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each recording of a file (`perf stat --append` adds more) and the number of its first line."""
    begins = [0]
    while (at := content.find(b"\n" + _STARTED, begins[-1])) >= 0:
        begins.append(at + 1)
    if len(begins) > 1 and not content[: begins[1]].strip():
        del begins[0]
    for begin, end in zip(begins, [*begins[1:], len(content)], strict=True):
        yield content[begin:end], content.count(b"\n", 0, begin) + 1


def _started(recording: bytes) -> str | None:
    """Return a recording's start time in ISO 8601; perf writes local time without a time zone."""
    if recording.startswith(_STARTED):
        text = " ".join(recording[len(_STARTED) :].partition(b"\n")[0].decode("ascii", "replace").split())
        with suppress(ValueError):
            return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").isoformat()
    return None


FORMAT = ImportFormat("perf-stat", "perf stat -I output", (".csv", ".json", ".txt"), _recognise, _read)
