"""Results of pyperf: `python -m pyperf timeit -o FILE …` and suites of benchmarks.

A run of a benchmark is a process. Its `values` are seconds for one loop (or bytes, or a number, by `unit`), its
`warmups` and the runs that only calibrate are left out. Values of one process depend on each other, so a run's total is
their mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat
from unperturbed.collectors.imports.totals.runs import (
    NO_NUMBER,
    WALL,
    Runs,
    Total,
    entries,
    mapping,
    mean,
    numbered,
    plain_number,
    read_json,
)
from unperturbed.common.packed import plain_name
from unperturbed.common.wording import counted

NAME = "pyperf"
_TOTALS: Mapping[str, tuple[str, str]] = {"second": (WALL, "s"), "byte": ("memory", "B"), "integer": ("value", "1")}
"""pyperf's units, each with the name of the total and its unit here."""


def _recognise(head: bytes) -> bool:
    return (
        head.lstrip().startswith(b"{")
        and b'"benchmarks"' in head
        and b'"context"' not in head
        and any(word in head for word in (b'"warmups"', b'"runs"', b'"values"'))
    )


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    suite = read_json(content, path)
    shared = mapping(suite.get("metadata"))
    benchmarks = entries(suite.get("benchmarks"))
    facts = [{**shared, **mapping(benchmark.get("metadata"))} for benchmark in benchmarks]
    runs = Runs(path, NAME, host=str(shared.get("hostname", "")))
    names = numbered(str(each.get("name", plain_name(path).stem)) for each in facts)
    most = 0
    for name, benchmark, each in zip(names, benchmarks, facts, strict=True):
        runs.host = runs.host or _host(benchmark)
        metric, unit = _TOTALS.get(str(each.get("unit", "second")), _TOTALS["integer"])
        for run in entries(benchmark.get("runs")):
            found = run.get("values")
            numbers = [plain_number(value) for value in found] if isinstance(found, list) else []
            values = [value for value in numbers if value is not None]
            for _ in range(len(numbers) - len(values)):
                runs.leave_out(NO_NUMBER, name, what="value")
            if values:  # else it only calibrated
                most = max(most, len(values))
                started = str(mapping(run.get("metadata")).get("date", ""))
                runs.add(name, {metric: Total(mean(values), unit)}, started=started)
    if most > 1:
        runs.note(f"a run is a process: the mean of its values, at most {counted(most, 'value')}, without warm-ups")
    return runs.traces()


def _host(benchmark: Mapping[str, Any]) -> str:
    """Return the host's name from the facts of a benchmark or, in old files, of its runs."""
    places = [benchmark, *entries(benchmark.get("runs"))[:1]]
    return next((str(name) for place in places if (name := mapping(place.get("metadata")).get("hostname"))), "")


FORMAT = ImportFormat(NAME, "JSON of pyperf", (".json",), _recognise, _read, whole_runs=True)
