"""Results of Google Benchmark: `--benchmark_format=json` or `csv`, and files of `--benchmark_out`.

Each repetition is an entry with the mean time of its iterations. Aggregates (mean, median, …) are left out, and so are
rates, which are another form of the time. All repetitions of a file are of one process. A program may register several
benchmarks under one name; each has repetitions of its own.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat, decode, refuse
from unperturbed.collectors.imports.totals.runs import (
    CPU,
    WALL,
    Runs,
    entries,
    mapping,
    numbered,
    plain_number,
    quantity,
    read_json,
    seconds,
    total,
)
from unperturbed.common.wording import counted

NAME = "google-benchmark"
_HEADER = re.compile(rb'^"?name"?,"?iterations"?,"?real_time"?,', re.MULTILINE)
_AGGREGATE = re.compile(r"(.*)_(mean|median|stddev|cv|BigO|RMS)")
"""Names of aggregates, in CSV and in files of versions before `run_type`."""
_RATES = ("bytes_per_second", "items_per_second")
_OWN = frozenset(
    (
        *("name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions"),
        *("repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "label"),
        *("error_occurred", "error_message", "skipped", "skip_message", "aggregate_name", "aggregate_unit"),
        *("cpu_coefficient", "real_coefficient", "big_o", "rms"),
    )
)
"""Keys of an entry that are not counters."""


def _recognise(head: bytes) -> bool:
    text = head.lstrip()
    if text.startswith(b"{"):
        return b'"context"' in head and any(
            word in head for word in (b'"num_cpus"', b'"library_build_type"', b'"mhz_per_cpu"', b'"cpu_time"')
        )
    return _HEADER.search(head) is not None


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    runs = Runs(path, NAME)
    started = ""
    if content.lstrip().startswith(b"{"):
        found = read_json(content, path)
        context = mapping(found.get("context"))
        runs.host, started = str(context.get("host_name", "")), str(context.get("date", ""))
        if context.get("library_build_type") == "debug":
            runs.note("the library of the benchmarks was a debug build")
        all_entries: list[Mapping[str, Any]] = entries(found.get("benchmarks"))
    else:
        all_entries = list(_rows(decode(content, path), path))
    names = [str(entry.get("run_name") or entry.get("name", "")) for entry in all_entries]
    of_names = _aggregates(names)
    aggregates = 0
    titles = _titles(names, all_entries)
    for name, title, entry in zip(names, titles, all_entries, strict=True):
        kind = entry.get("run_type") or ("aggregate" if name in of_names else "")
        if kind == "aggregate" or "aggregate_name" in entry:
            aggregates += 1
        elif entry.get("error_occurred") or entry.get("skipped"):
            runs.leave_out("failed, or skipped", title)
        else:
            _add(runs, (name, title), entry, process=str(path), started=started)
    if aggregates:
        runs.note(f"aggregates are left out ({counted(aggregates, 'entry', 'entries')})")
    return runs.traces()


def _aggregates(names: Sequence[str]) -> frozenset[str]:
    """Return the names of aggregates: of a benchmark in the file, or several of one benchmark.

    A benchmark of its own may be named `geometric_mean`.
    """
    bases = {name: match[1] for name in set(names) if (match := _AGGREGATE.fullmatch(name)) is not None}
    several = Counter(bases.values())
    known = set(names)
    return frozenset(name for name, base in bases.items() if base in known or several[base] > 1)


def _titles(names: Sequence[str], all_entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the benchmark of each entry: `sort`, and `sort #2` for another one of this name.

    Instances have numbers in recent versions. A repetition that comes again is also of another benchmark.
    """
    seen: Counter[tuple[Any, ...]] = Counter()
    instances = []
    for name, entry in zip(names, all_entries, strict=True):
        numbers = [plain_number(entry.get(key)) for key in ("family_index", "per_family_instance_index")]
        repetition = plain_number(entry.get("repetition_index"))
        key = (name, *numbers, repetition)
        instances.append((name, *numbers, seen[key]))
        if repetition is not None:  # aggregates have none, nor have tables and old versions
            seen[key] += 1
    known = list(dict.fromkeys(instances))
    titles = dict(zip(known, numbered(str(instance[0]) for instance in known), strict=True))
    return [titles[instance] for instance in instances]


def _add(runs: Runs, names: tuple[str, str], entry: Mapping[str, Any], *, process: str, started: str) -> None:
    """Add an entry as a run. `names`: Name of the benchmark in the file, and its title here."""
    name, title = names
    unit = str(entry.get("time_unit", "ns"))
    totals = {
        WALL: seconds(plain_number(entry.get("real_time")), unit),
        CPU: seconds(plain_number(entry.get("cpu_time")), unit),
    }
    counters = [key for key in entry if key not in _OWN and plain_number(entry[key]) is not None]
    if any(key in _RATES for key in counters):
        runs.note("rates (bytes or items a second) are left out: they are another form of the time")
    totals |= {key: total(plain_number(entry[key]), "1") for key in counters if key not in _RATES}
    family, *arguments = name.split("/")
    parameters = dict(argument.split(":", 1) for argument in arguments if ":" in argument)
    family = "/".join([family, *(argument for argument in arguments if ":" not in argument)])
    runs.add(title, totals, process=process, started=started, family=family, parameters=parameters)


def _rows(text: str, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV file as entries, below its header; lines on the host may come before."""
    lines = text.splitlines()
    begin = next((at for at, line in enumerate(lines) if _HEADER.match(line.encode())), None)
    if begin is None:
        refuse(path, "no line of column names (name,iterations,real_time,…)", 1)
    reader = csv.reader(io.StringIO("\n".join(lines[begin:])))
    try:
        header = next(reader)
        for row in reader:
            if not row or row == header:  # several files may be in one
                continue
            if len(row) != len(header):
                what = f"this row has {len(row)} fields, but the header names {len(header)}"
                refuse(path, what, begin + reader.line_num)
            yield _entry(dict(zip(header, row, strict=True)))
    except csv.Error as error:
        refuse(path, f"cannot read this row ({error})", begin + reader.line_num)


def _entry(row: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of CSV as the entry of JSON that it would be."""
    entry: dict[str, Any] = {"name": row.get("name", "")}
    for name, text in row.items():
        if name in ("time_unit", "label", "error_message"):
            entry[name] = text or "ns" if name == "time_unit" else text
        elif name == "error_occurred":
            entry[name] = text.lower() == "true"
        elif name != "name" and (found := quantity(text)) is not None:
            entry[name] = found[0]
    return entry


FORMAT = ImportFormat(NAME, "JSON or CSV of Google Benchmark", (".json", ".csv"), _recognise, _read, whole_runs=True)
