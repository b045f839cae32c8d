"""LIKWID timeline: `likwid-perfctr -t 20ms -g GROUP ./program 2> run.txt` (or with -o, since 5.2).

A row is `GID metrics threads time value…`: first all threads of the first metric, then of the second, and so on. The
header begins with `# GID|MetricsCount|CpuCount|`, or with EventCount if a set of events was measured instead of a group
(script of likwid-perfctr 5.2.2, LIKWID's wiki, and RRZE-HPC/likwid #387). The rows go to stderr, which the program
also writes to, so some rows are garbled or mixed with other text (#387, #512): these are left out with a note.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import Metric, Trace
from unperturbed.collectors.imports.format import (
    ImportFormat,
    decode,
    from_ends,
    make_counted_trace,
    refuse,
    without_part,
)
from unperturbed.common.wording import counted, listing

_HEADING = re.compile(r"#\s*GID\s*[|,]\s*(Metrics|Event)Count\s*[|,]\s*CpuCount\s*[|,]")
_BLANK = re.compile(r"#\s*GID (Metrics|Event)Count CpuCount ")
_ROW = re.compile(r"\s*\d+[\s,|]+\d+[\s,|]+\d+[\s,|]+\d")
_UNIT = re.compile(r"\[(?P<unit>[^\]]+)\]|\b(?P<bare>M(FL|I|U)?OPS?/s)$")
_AMOUNT = re.compile(
    r"([kKMGT]|Mega|Giga)?(Bytes?|B|bits?|FLOPS?|I?OPS?|UOPS?|[Ee]vents|misses|J|W|Joules?|Watts?)(/s)?"
)
"""Units of amounts, and of amounts a second: LIKWID's formulas for them grow with the counts, so threads are summed."""
_LIVELY = ("MHz", "GHz", "C", "GT/s", "V")
"""Units of values that are 0 only where LIKWID does not read them: it reads those of a socket on one of its threads."""
_RATIO = re.compile(
    r"\b(ratio|rate|CPI|IPC|per|percentage|utili[sz]ation|intensity|contention|avg|average|mean|temperature|voltage|"
    r"(front|back)end bound|bad speculation|runtime)\b|^retiring$",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"number of|\b(miss(es)?|hits|accesses|requests|refills|stalls?|stalled|ops|uops|fmas|slots|bubbles|cycles|"
    r"executed|mispredicts|latency|bound|sent|received|bandwidth|wavefronts|instructions|loads|stores|events|power|energy)\b",
    re.IGNORECASE,
)
"""Words in the names of metrics without a unit: of ratios, and of counts if none of those is there."""
_STATE = re.compile(r"(TEMP|VOLTAGE|THERMAL)_")
"""Beginning of the names of events whose values are states, not counts."""
_LAST_S = 9.2e9  # the largest time that fits 64-bit nanoseconds
_MOST_RAGGED = 0.5
_TOO_SHORT_NS = 100_000_000
_BEFORE = 4  # fields of a row before its values


def _recognise(head: bytes) -> bool:
    return any(_HEADING.match(line) or _BLANK.match(line) for line in head.decode("utf-8", "replace").splitlines())


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:
    headings: list[list[str]] = []
    rows: list[tuple[int, list[str]]] = []
    ragged: list[int] = []
    lines = decode(content, path).splitlines()
    for number, line in enumerate(lines, 1):
        if _HEADING.match(line):
            headings.append([field.strip() for field in re.split(r"[|,]", line.lstrip("# "))])
        elif _ROW.match(line):
            rows.append((number, re.split(r"[\s,|]+", line.strip())))
        elif line.strip() and not line.startswith(("#", "-")) and headings:
            ragged.append(number)
    if not headings:
        blank = next((at for at, line in enumerate(lines, 1) if _BLANK.match(line)), 0)
        if blank:
            refuse(
                path,
                "ambiguous header: metrics' names contain blanks and are separated by blanks; record with -o FILE.csv",
                blank,
            )
        refuse(path, "the file has no header of a LIKWID timeline (# GID|MetricsCount|CpuCount|…)", 1)
    if not rows:
        refuse(
            path,
            "no rows below the header: the program ended in the first interval; record with a shorter one (-t)",
            len(lines),
        )
    group = _group(rows, path, options)
    metrics = headings[min(int(group), len(headings)) - 1][_BEFORE:]
    times, values = _values(rows, ragged, group, metrics, path)
    notes = []
    if ragged:
        torn = f"{counted(len(ragged), 'line')} of the timeline (first: line {min(ragged)})"
        notes.append(f"the import leaves out {torn}, damaged or not from LIKWID")
    order = np.diff(times) <= 0
    if order.any():
        whole = [number for number, fields in rows if fields[0] == group and number not in ragged]
        number = whole[int(np.flatnonzero(order)[0]) + 1]
        refuse(
            path,
            "this row is not later than the previous row: rows are out of order, or from a second recording",
            number,
        )
    return [_trace(metrics, times, values, path, notes)]


def _group(rows: Sequence[tuple[int, list[str]]], path: Path, options: Mapping[str, str]) -> str:
    """Return the number of the rows' only group, or of the chosen group."""
    groups = list(dict.fromkeys(fields[0] for _, fields in rows))
    chosen = options.get("group", groups[0])
    if chosen not in groups:
        refuse(path, f"group={chosen}: no row has this group; the groups are {listing(groups)}")
    if len(groups) > 1 and "group" not in options:
        refuse(path, f"the recording multiplexes groups {listing(groups)}: choose one with group=NUMBER", rows[0][0])
    return chosen


def _values(
    rows: Sequence[tuple[int, list[str]]], ragged: list[int], group: str, metrics: Sequence[str], path: Path
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times [s] and values, shape (rows, metrics, threads); add line numbers of damaged rows to `ragged`."""
    heads = [tuple(fields[1:3]) for _, fields in rows if fields[0] == group]
    usual = max(set(heads), key=heads.count)
    threads = int(usual[1])
    if int(usual[0]) != len(metrics) or not threads:
        refuse(path, f"the rows have {usual[0]} metrics, but the header names {len(metrics)}", rows[0][0])
    times, values = [], []
    for number, fields in rows:
        if fields[0] != group:
            continue
        whole = tuple(fields[1:3]) == usual and len(fields) == _BEFORE + len(metrics) * threads
        numbers = _numbers(fields[_BEFORE - 1 :]) if whole else None
        if numbers is None or not 0 <= numbers[0] <= _LAST_S:
            ragged.append(number)
        else:
            times.append(numbers[0])
            values.append(numbers[1:])
    if len(times) < (1 - _MOST_RAGGED) * len(heads) or not times:
        longer = min(len(fields) for _, fields in rows) > _BEFORE + len(metrics) * threads
        commas = "; if numbers have decimal commas, record with LC_ALL=C" if longer else ""
        torn = (
            f"{len(heads) - len(times)} of {len(heads)} rows are damaged, which is too many to trust the rest{commas}"
        )
        refuse(path, torn, min(ragged))
    return np.array(times), np.array(values).reshape(len(times), len(metrics), threads)


def _numbers(words: Sequence[str]) -> list[float] | None:
    """Convert words to numbers; return None if any word is damaged."""
    try:
        return [float("nan") if word == "-" else float(word) for word in words]
    except ValueError:
        return None


def _meaning(name: str) -> tuple[str, bool, bool]:
    """Return a metric's unit, whether it is an event, and whether its values are averaged over threads, not summed."""
    match = _UNIT.search(name)
    unit = (match["unit"] or match["bare"]) if match else ""
    if match is None and name != "CPI" and re.fullmatch(r"[A-Z0-9_]+(:[A-Z0-9_=]+)*", name) and name != "IPC":
        state = _STATE.match(name) is not None
        return "", not state, state
    if unit == "s":
        return unit, False, "unhalted" not in name  # CPU time is summed; wall time is the same for all threads
    if unit:
        return unit, False, _AMOUNT.fullmatch(unit) is None
    return "", False, _RATIO.search(name) is not None or _COUNT.search(name) is None


def _trace(
    metrics: Sequence[str], times: NDArray[np.float64], values: NDArray[np.float64], path: Path, notes: list[str]
) -> Trace:
    values = np.where(np.isfinite(values), values, np.nan)
    described, columns = [], {}
    for at, name in enumerate(metrics):
        unit, event, mean = _meaning(name)
        column = values[:, at]
        silent = np.isnan(column) | (column == 0) if unit in _LIVELY else np.isnan(column)
        heard = ~silent.all(axis=0) if not silent.all() else np.ones(column.shape[1], np.bool_)
        column = column[:, heard]
        columns[name] = column.mean(axis=1) if mean else column.sum(axis=1)
        meaning = f"{'mean' if mean else 'sum'} over the threads of LIKWID's values"
        unit, semantics = ("events", "counter") if event else (unit or "1", "gauge")
        described.append(Metric(name, "hardware", unit, semantics, "likwid", meaning))  # type: ignore[arg-type]
    ends = np.rint(times * 1e9).astype(np.int64)
    begin, end = from_ends(ends, 0)
    usual = int(np.quantile(end - begin, 0.25))
    # After an omitted row, an interval does not begin at the end of the previous kept row.
    begin = np.where(end - begin > 1.5 * usual, end - usual, begin)
    if len(ends) > 1 and np.median(np.diff(ends)) < _TOO_SHORT_NS:
        notes = [*notes, "LIKWID's developers call its values invalid for intervals below 100 ms (likwid #272)"]
    return without_part(make_counted_trace(described, columns, (begin, end), path, missing="missing", notes=notes))


FORMAT = ImportFormat(
    "likwid",
    "a likwid-perfctr timeline",
    (".txt", ".csv", ".log"),
    _recognise,
    _read,
    {"group": "number of the group to import, if the recording multiplexes several groups"},
)
