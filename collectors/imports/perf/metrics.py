"""`perf stat -I MS --metric-only`: a row for each interval with the metrics that perf computed, which are gauges.

The heading names the metrics. Before a row's values are its time and, with -A, --per-core and the like, its place; the
metrics of each place are apart, because rates cannot be summed. An event that was not counted leaves one cell
empty, but may have any number of metrics: values cannot be assigned if a row has fewer of them than the heading names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import from_ends, leave_out_uncounted, make_trace, refuse, without_part
from unperturbed.collectors.imports.perf.rows import LATEST_S
from unperturbed.collectors.imports.perf.separated import PLACES, WITHOUT_NAMES
from unperturbed.collectors.imports.perf.table import CORES, PROCESSOR, lines_of
from unperturbed.common.wording import counted

HEADING = re.compile(rb"^[ \t]*#[ \t]*time\b|^[ \t]*time(?P<separator>[,;:|\t])", re.MULTILINE)
JSON = re.compile(rb'\{\}\s*$|\{"unit" : "|\{"interval" : \d+\.\d{9}(?:\}|, )')

_PLACES = "cpu|core|die|cluster|cache|socket|node"
_FOR_PEOPLE = re.compile(
    rf"\s*#\s+time(?=\s|$)(?:\s+(?:{_PLACES})(?P<number>\s+(?:cpus|ctrs))?(?=\s|$))?", re.IGNORECASE
)
_SEPARATED = re.compile(
    rf"[#\s]*time(?P<separator>[^\w\s]|\t)(?:(?P<cpu>cpu)(?P=separator)?,?"
    rf"|(?:{_PLACES})[^\w\s\t](?:cpus|ctrs)?[^\w\s]?)?(?P<names>.*)",
    re.IGNORECASE,
)
_ROW = re.compile(
    rf"\s*(?:\^C)?\s*(?P<time>\d+[.,]\d{{9}})(?:\s+(?P<place>{PROCESSOR}|{CORES})(?=\s|$))?\s*(?P<rest>.*)$"
)
_OBJECT = re.compile(r"\{[^{}]*\}")
_PART = re.compile(r'"(?P<key>[^"]+)" : "?(?P<value>[^",}]*)')
_NO_METRICS = {
    *PLACES,
    *("interval", "cgroup", "aggregate-number", "cpu-count", "counters", "metric-value", "metricgroup"),
}
_MISSING = {"", "nan", "-nan", "inf", "-inf", "none", "<not", "counted>", "supported>"}
_UNIT = r"%|[A-Za-z]{1,12}(?:/[A-Za-z]+)?"
_PREFIXED = re.compile(rf"(?P<unit>{_UNIT})  (?P<name>\S.*)")
_PERCENT = re.compile(r" of all |idle$|%$|^(?:retiring|bad speculation|frontend bound|backend bound)$|^tma_(?!info_)")
_SLOTS = re.compile(r"^(?:retiring|bad speculation|frontend bound|backend bound)$|^tma_(?!info_)")
_WIDTH = 20  # characters of a column, before a blank
_MOST_NAMES = 200
_COMPUTED_FROM: Mapping[str, tuple[str, ...]] = {
    "insn per cycle": ("instructions", "cycles"),
    "stalled cycles per insn": ("instructions",),
    "GHz": ("cycles", "task-clock"),
}
_TOPDOWN = ("slots",)
"""Shares of the pipeline's slots add up to 100 %."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Metrics of one interval at one place; no values if they cannot be assigned."""

    line: int
    time: float
    place: str
    values: Sequence[float] | None


def read_metrics(recording: bytes, path: Path, first_line: int, started: str | None) -> Trace:
    """Return the trace of a recording with --metric-only, in each of perf's formats."""
    lines = list(lines_of(recording, first_line))
    first = next((line for _, line in lines if not line.startswith("# started")), "")
    read = _json if first.startswith("{") else _people if _FOR_PEOPLE.match(_heading(lines, path)[1]) else _separated
    names, rows = read(lines, recording, path)
    if not rows:
        refuse(path, "no rows below perf's heading", first_line)
    return _trace(names, rows, path, started)


def _heading(lines: Sequence[tuple[int, str]], path: Path) -> tuple[int, str]:
    for number, line in lines:
        if HEADING.match(line.encode()):
            return number, line
    return refuse(path, WITHOUT_NAMES, lines[0][0])


_NONE = "the heading names no metric: perf computes none from these events on the host that recorded them"


def _json(lines: Sequence[tuple[int, str]], recording: bytes, path: Path) -> tuple[list[str], list[_Row]]:  # noqa: ARG001
    names: list[str] = []
    found: list[tuple[int, str, str, dict[str, str] | list[str]]] = []
    for number, line in lines:
        if not line.startswith("{"):
            continue
        if not line.rstrip(" ,").endswith("}"):
            refuse(path, "truncated or damaged JSON from perf stat -j", number)
        objects = [_parts(text, path, number) for text in _OBJECT.findall(line)]
        time = next((one["interval"] for one in objects if "interval" in one), None)
        if time is None:
            names = names or [one["unit"] for one in objects if one.get("unit", "sec") != "sec"]
            continue
        keys = {match["key"]: match["value"] for match in _PART.finditer(line)}
        place = " ".join(keys[key] for key in (*PLACES, "cgroup") if keys.get(key))
        place = f"CPU{place}" if place.isdigit() else place
        if len(objects) == 1 and len(objects[0]) > 1:
            values = {key: value for key, value in objects[0].items() if key not in _NO_METRICS}
            names += [name for name in values if name not in names]
            found.append((number, time, place, values))
        else:
            found.append((number, time, place, [one["metric-value"] for one in objects if "metric-value" in one]))
    if not names:
        refuse(path, _NONE, lines[0][0])
    rows = [
        _row(
            number,
            time,
            place,
            [values.get(name, "") for name in names] if isinstance(values, dict) else values,
            len(names),
            path,
        )
        for number, time, place, values in found
    ]
    return names, rows


def _parts(text: str, path: Path, line: int) -> dict[str, str]:
    try:
        return {str(key): str(value) for key, value in json.loads(re.sub(r",\s*\}", "}", text)).items()}
    except (ValueError, RecursionError) as error:
        refuse(path, f"truncated or damaged JSON from perf stat -j ({error})", line)


def _separated(lines: Sequence[tuple[int, str]], recording: bytes, path: Path) -> tuple[list[str], list[_Row]]:
    number, heading = _heading(lines, path)
    found = _SEPARATED.match(heading)
    row = next((line for _, line in lines if re.match(r"\s*\d+[.,]\d{9}", line)), "")
    after = re.match(r"\s*\d+[.,]\d{9}(?P<separator>[^\w\s]|\t)", row)
    if found is None or after is None:
        refuse(path, WITHOUT_NAMES, number)
    separator = after["separator"]
    names = [name.strip() for name in found["names"].removesuffix(separator).split(separator)]
    names = names if any(names) else []
    if not names:
        refuse(path, _NONE, number)
    rows = []
    for line_number, line in lines:
        cells = [cell.strip() for cell in line.split(separator)]
        if not re.fullmatch(r"\d+[.,]\d{9}", cells[0]):
            continue
        place = cells[1] if len(cells) > 1 and re.fullmatch(f"{PROCESSOR}|{CORES}", cells[1]) else ""
        skipped = 1 + (bool(place) and (1 if found["cpu"] else 2))
        values = cells[skipped:]
        if values and not values[-1]:  # a separator ends each value
            del values[-1]
        if (line_number, line) == lines[-1] and not (recording.endswith(b"\n") and len(cells) > 1):
            refuse(path, _TRUNCATED, line_number)
        rows.append(_row(line_number, cells[0], place, values, len(names), path))
    return names, rows


_TRUNCATED = "the last row is truncated: the recording is incomplete"


def _people(lines: Sequence[tuple[int, str]], recording: bytes, path: Path) -> tuple[list[str], list[_Row]]:
    number, heading = _heading(lines, path)
    rows: list[tuple[int, re.Match[str], list[str]]] = []
    for line_number, line in lines:
        found = _ROW.match(line)
        if found is not None and "Performance counter" not in line:
            rows.append((line_number, found, found["rest"].split()))
    if not rows:
        return [], []
    if rows[-1][0] == lines[-1][0] and not recording.endswith(b"\n"):
        refuse(path, _TRUNCATED, rows[-1][0])
    found = _FOR_PEOPLE.match(heading)
    text = heading[found.end() :] if found else ""
    numbered = found is not None and found["number"] is not None
    wanted = max(
        len(values) - (numbered and match["place"] is not None) - (bool(values) and not _is_value(values[0]))
        for _, match, values in rows
    )
    names = _names(text, wanted, path, number)
    has_places = any(match["place"] for _, match, _ in rows)
    result = []
    for line_number, match, cells in rows:
        place, values = match["place"] or "", cells
        if has_places and not place and not values:
            continue  # some versions write a line for processors without a metric
        if place and numbered:
            values = values[1:]
        if values and not _is_value(values[0]):
            place, values = f"{place} {values[0]}".strip(), values[1:]
        result.append(_row(line_number, match["time"], place, values, len(names), path))
    return names, result


def _is_value(text: str) -> bool:
    return text.lower() in _MISSING or re.match(r"-?\d", text) is not None


def _names(text: str, wanted: int, path: Path, line: int) -> list[str]:
    """Return the names in the heading of a table for people.

    They may contain one or two blanks, are at the right of columns of 20 characters, and fill their column if they are
    longer: only the places of the columns show where a name ends.
    """
    text = text.rstrip()
    if not text:
        refuse(path, _NONE, line)
    found: dict[tuple[int, int], list[tuple[str, ...]]] = {}

    def ways(end: int, count: int) -> list[tuple[str, ...]]:
        """Return at most two ways to divide the text before `end` into names."""
        if (end, count) not in found:
            several: list[tuple[str, ...]] = []
            if count == 1 and (first := text[:end].strip()) and (len(first) >= _WIDTH or "  " not in first[3:]):
                several.append((first,))
            elif count > 1:
                short = end - _WIDTH
                begins = [short] if text[max(short, 0) : end].strip() and text[short - 1 : short] == " " else []
                begins += [at for at in range(1, short) if text[at - 1] == " " != text[at]]
                several += [
                    (*before, text[at:end].strip())
                    for at in begins
                    if at > 1 and text[at - 2] != " "
                    for before in ways(at - 1, count - 1)
                ]
            found[end, count] = several[:2]
        return found[end, count]

    several = ways(len(text), wanted) if 0 < wanted <= _MOST_NAMES else []
    names = list(several[0]) if len(several) == 1 else re.split(r"\s{2,}", text.strip())
    if wanted > 0 and (len(names) != wanted or len(several) > 1):
        what = f"the names of {counted(wanted, 'metric')} cannot be separated in the heading: record with -x ';', or -j"
        refuse(path, what, line)
    return names


def _row(line: int, time: str, place: str, values: Sequence[str], wanted: int, path: Path) -> _Row:
    numbers: list[float] | None = None
    if len(values) == wanted:
        numbers = []
        for value in values:
            text = value.rstrip("%").replace(",", ".")
            number = np.nan
            if text.lower() not in _MISSING:
                try:
                    number = float(text)
                except ValueError:
                    refuse(path, f"{value!r} is not a number", line)
            numbers.append(number)
    try:
        return _Row(line, float(time.replace(",", ".")), place, numbers)
    except ValueError:
        refuse(path, f"the time {time!r} is not a number", line)


def _trace(names: list[str], rows: list[_Row], path: Path, started: str | None) -> Trace:
    times = np.array([row.time for row in rows])
    if (wrong := np.flatnonzero(~(np.abs(times) < LATEST_S))).size:
        refuse(path, "this time is too large for 64-bit nanoseconds", rows[int(wrong[0])].line)
    steps = np.diff(times)
    if len(steps) and steps.min() < 0:
        what = "this row is earlier than the previous row: rows are out of order, or from a second recording"
        refuse(path, what, rows[int(np.argmax(steps < 0)) + 1].line)
    interval = np.concatenate((np.zeros(1, np.int64), np.cumsum(steps > 0, dtype=np.int64)))
    ends = np.rint(np.unique(times) * 1e9).astype(np.int64)
    places = list(dict.fromkeys(row.place for row in rows))
    columns: dict[str, NDArray[np.float64]] = {}
    metrics: dict[str, Metric] = {}
    for place in places:
        for name, metric in _described(names, place):
            columns[name], metrics[name] = np.full(len(ends), np.nan), metric
    keys = {place: [name for name, _ in _described(names, place)] for place in places}
    seen: set[tuple[int, str]] = set()
    unassigned = set()
    for at, row in zip(interval.tolist(), rows, strict=True):
        if (at, row.place) in seen:
            refuse(path, f"a second row for this interval{row.place and f' and {row.place}'}", row.line)
        seen.add((at, row.place))
        if row.values is None:
            unassigned.add(at)
            continue
        for name, value in zip(keys[row.place], row.values, strict=True):
            columns[name][at] = value
    chosen, kept, notes = leave_out_uncounted(columns, "not computed")
    if not chosen:
        what = f"no row has a value for each of the {counted(len(names), 'metric')} that the heading names"
        refuse(path, f"{what}: record only events that can be counted", rows[0].line)
    notes = [*_notes(len(unassigned)), *notes]
    begin, end = from_ends(ends, 0)
    trace = make_trace(
        [metrics[name] for name in chosen],
        {name: values[kept] for name, values in chosen.items()},
        (begin[kept], end[kept]),
        path,
        notes=notes,
        attributes={} if started is None else {"started": started},
    )
    return without_part(trace)


def _notes(unassigned: int) -> Iterator[str]:
    yield "the recording has only metrics that perf computed and rounded (--metric-only): they are gauges, not counts"
    if unassigned:
        few = "fewer values than the heading has names: they cannot be assigned"
        yield f"{counted(unassigned, 'interval')} {'has' if unassigned == 1 else 'have'} {few}"


def _described(names: Sequence[str], place: str) -> Iterator[tuple[str, Metric]]:
    """Yield the metrics of the heading, at a place, by name; a name that appears again gets a number."""
    times: dict[str, int] = {}
    for given in names:
        prefixed = _PREFIXED.fullmatch(given)
        name, unit = (prefixed["name"], prefixed["unit"]) if prefixed else (given, _unit(given))
        times[name] = times.get(name, 0) + 1
        plain = name
        if times[name] > 1:
            name = f"{name} #{times[name]}"
        sources = _COMPUTED_FROM.get(plain, _TOPDOWN if _SLOTS.search(plain) else ())
        at = f" {place}" if place else ""
        components = tuple(f"perf stat:{event}:{mode}{at}" for event in sources for mode in ("user", "kernel"))
        named = f"{name}{at}"
        yield named, Metric(named, "hardware", unit, "gauge", "perf stat", "metric that perf computed", components)


def _unit(name: str) -> str:
    return "GHz" if name.lower() == "ghz" else "%" if _PERCENT.search(name) else "1"
