"""Results of BenchExec: its result XML, and the CSV tables of its table-generator.

A run is one execution of the tool on a task. A file has each task once, so several files are several runs of a task.
Runs that reached a limit or failed are left out: their time is that of the limit. The totals are the columns that
BenchExec measured, without those that the tool printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat, decode, refuse
from unperturbed.collectors.imports.totals.runs import CPU, SECONDS, WALL, Runs, Total, quantity
from unperturbed.common.wording import first_of

NAME = "benchexec"
_TOTALS: Mapping[str, str] = {
    "cputime": CPU,
    "walltime": WALL,
    "memory": "memory",
    "memUsage": "memory",
    "cpuenergy": "cpuenergy",
}
"""Columns that BenchExec measures, each with the total's name."""
_SCALES: Mapping[str, float] = {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "J": 1}
_FAILED = re.compile(r"TIMEOUT|OUT OF|ERROR|KILLED|SEGMENTATION|ABORTED|EXCEPTION|ASSERTION|failed|killed|timeout")
"""Beginnings of the status of runs without a result."""
_HOSTS = 3  # that are named
_ROWS_ABOVE = 3  # rows of a table above its values: tools, run sets, columns
_TITLE = re.compile(r"(?P<name>.*?)(?: \((?P<unit>[^()]*)\))?")


def _recognise(head: bytes) -> bool:
    text = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    if text.startswith(b"<"):
        return b"DTD BenchExec result" in head or (b"<result " in head and b"benchmarkname=" in head)
    lines = text.splitlines()
    return len(lines) >= _ROWS_ABOVE and lines[0].startswith(b"tool\t") and lines[1].startswith(b"run set\t")


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    runs = Runs(path, NAME)
    if content.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        _read_xml(content, path, runs)
    else:
        _read_table(decode(content, path), path, runs)
    return runs.traces()


def _read_xml(content: bytes, path: Path, runs: Runs) -> None:
    if re.search(rb"<!ENTITY", content):  # BenchExec writes none, and they can be made to fill the memory
        refuse(path, "the XML defines entities, which result files of BenchExec do not")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        refuse(path, f"not XML ({error}): is the file complete?", error.position[0])
    except (ValueError, LookupError) as error:  # an encoding that is not known
        refuse(path, f"not XML that can be read ({error})")
    hosts = dict.fromkeys(info.get("hostname", "") for info in root.iter("systeminfo"))
    runs.host = first_of([name for name in hosts if name], _HOSTS)
    started = root.get("starttime") or root.get("date") or ""
    for run in root.iter("run"):
        columns = {column.get("title", ""): column.get("value", "") for column in run.iter("column")}
        name = _named([run.get("name", ""), run.get("properties", "")])
        _add(runs, name, columns, {title: quantity(text) for title, text in columns.items()}, started)


def _named(parts: Sequence[str]) -> str:
    """Return the name of a task: `sort.yml (unreach-call)`."""
    first, *others = parts
    further = ", ".join(part for part in others if part)
    return f"{first} ({further})" if further else first


def _add(
    runs: Runs,
    name: str,
    columns: Mapping[str, str],
    quantities: Mapping[str, tuple[float, str] | None],
    started: str = "",
) -> None:
    if columns.get("category") == "error" or _FAILED.match(columns.get("status", "")):
        runs.leave_out("failed, or reached a limit", name)
        return
    totals = {}
    for title, found in quantities.items():
        total = _TOTALS.get(title) or ("cpuenergy" if title.startswith("cpuenergy-pkg0-package") else None)
        if total is None:
            continue
        if found is not None:
            totals[total] = _scaled(total, *found)
    runs.add(name, totals, started=started)


def _scaled(name: str, value: float, unit: str) -> Total | None:
    """Return a total in its base unit: seconds, bytes or joules; None for a unit that is not known."""
    if name in (CPU, WALL):
        return Total(value * SECONDS[unit or "s"], "s") if (unit or "s") in SECONDS else None
    if unit not in _SCALES:
        return None
    return Total(value * _SCALES[unit], "J" if name == "cpuenergy" else "B")


@dataclass(frozen=True)
class _RunSet:
    """Adjacent columns of a table that are one run of each task."""

    name: str
    columns: dict[int, tuple[str, str]]  # Position → title and unit


def _read_table(text: str, path: Path, runs: Runs) -> None:
    lines = [line.split("\t") for line in text.splitlines()]
    if len(lines) <= _ROWS_ABOVE:
        refuse(path, "the table has no rows below the names of its columns", len(lines))
    tools, names, titles = lines[:_ROWS_ABOVE]
    if not len(tools) == len(names) == len(titles):
        refuse(path, "the three rows above the values differ in their number of fields", _ROWS_ABOVE)
    first = next((at for at in range(1, len(tools)) if tools[at]), len(tools))
    sets = list(_run_sets(tools, names, titles, first))
    several = len({each.name for each in sets}) > 1
    for number, row in enumerate(lines[_ROWS_ABOVE:], _ROWS_ABOVE + 1):
        if len(row) > len(titles):
            refuse(path, f"this row has {len(row)} fields, but the table has {len(titles)} columns", number)
        # A run set without a task may have no fields at the end of the row.
        texts = [*row, *[""] * (len(titles) - len(row))]
        task = _named(texts[:first])
        for each in sets:
            columns = {title: texts[at] for at, (title, _) in each.columns.items()}
            quantities = {}
            for at, (title, unit) in each.columns.items():
                found = quantity(texts[at])
                quantities[title] = None if found is None else (found[0], found[1] or unit)
            if any(columns.values()):  # a run set need not have every task
                _add(runs, f"{each.name}: {task}" if several else task, columns, quantities)


def _run_sets(tools: Sequence[str], names: Sequence[str], titles: Sequence[str], first: int) -> Iterator[_RunSet]:
    """Yield the run sets of a table; a title that comes again begins the next one."""
    columns: dict[int, tuple[str, str]] = {}
    for at in range(first, len(titles)):
        match = _TITLE.fullmatch(titles[at])
        title, unit = (match["name"], match["unit"] or "") if match else (titles[at], "")
        changed = at > first and (tools[at], names[at]) != (tools[at - 1], names[at - 1])
        if columns and (changed or title in (known for known, _ in columns.values())):
            yield _RunSet(names[at - 1], columns)
            columns = {}
        columns[at] = (title, unit)
    if columns:
        yield _RunSet(names[-1], columns)


FORMAT = ImportFormat(NAME, "XML or a table of BenchExec", (".xml", ".csv"), _recognise, _read, whole_runs=True)
