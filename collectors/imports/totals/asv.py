"""Results of asv: `results/MACHINE/COMMIT-ENVIRONMENT.json`.

A benchmark has one result (a median) for each combination of its parameters and, with `asv run --record-samples`, the
samples. Samples of a file are of one or two processes, and depend on each other. The kind of a benchmark is the
beginning of its name: `time_` and `timeraw_` are seconds, `mem_` and `peakmem_` bytes, `track_` is any number.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat
from unperturbed.collectors.imports.totals.runs import NO_TOTAL, WALL, Runs, Total, mapping, plain_number, read_json
from unperturbed.common.packed import plain_name

NAME = "asv"
_TOTALS: Mapping[str, tuple[str, str]] = {
    "time": (WALL, "s"),
    "timeraw": (WALL, "s"),
    "mem": ("memory", "B"),
    "peakmem": ("memory", "B"),
}
"""Kinds of benchmarks, each with the name of the total and its unit."""
_WITHOUT_RESULTS = ("machine.json", "benchmarks.json")
"""Files that asv writes beside its results, and that `results/MACHINE/*.json` matches too."""


def _recognise(head: bytes) -> bool:
    return (
        head.lstrip().startswith(b"{")
        and b'"commit_hash"' in head
        and any(word in head for word in (b'"results"', b'"result_columns"', b'"env_name"', b'"requirements"'))
    )


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    found = read_json(content, path)
    if "results" not in found and plain_name(path).name in _WITHOUT_RESULTS:
        return []
    columns = found.get("result_columns")
    runs = Runs(path, NAME, host=str(mapping(found.get("params")).get("machine", "")))
    medians = 0
    for name, result in mapping(found.get("results")).items():
        fields = _fields(result, columns)
        metric, unit = _TOTALS.get(name.rpartition(".")[2].partition("_")[0], ("value", "1"))
        started = _time(fields.get("started_at"))
        for combination, value, samples in _values(fields):
            full = f"{name}({', '.join(combination)})" if combination else name
            parameters = {f"parameter {at}": text for at, text in enumerate(combination, 1)}
            numbers = [number for item in samples if (number := plain_number(item)) is not None]
            for _ in range(len(samples) - len(numbers)):
                runs.leave_out(NO_TOTAL, full)
            if not numbers and (number := plain_number(value)) is not None:
                numbers, medians = [number], medians + 1
            if not (numbers or samples):
                runs.leave_out("failed, or skipped", full)
            for number in numbers:
                totals = {metric: Total(number, unit)}
                runs.add(full, totals, process=str(path), started=started, family=name, parameters=parameters)
    if medians:
        runs.note("a benchmark without samples is one run, its median: give several files, or use --record-samples")
    return runs.traces()


def _fields(result: Any, columns: Any) -> Mapping[str, Any]:
    """Return the fields of a benchmark's result, which older versions write as a number or an object."""
    if isinstance(result, dict):
        return result
    if isinstance(result, list) and isinstance(columns, list):
        return dict(zip(map(str, columns), result, strict=False))  # columns at the end may be missing
    return {"result": result}


def _values(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any, list[Any]]]:
    """Yield each combination of parameters, with its result and its samples."""
    results, samples = fields.get("result"), fields.get("samples")
    axes = fields.get("params")
    results = results if isinstance(results, list) else [results]
    axes = [list(map(str, axis)) for axis in axes if isinstance(axis, list)] if isinstance(axes, list) else []
    combinations = itertools.product(*axes) if axes else iter([()])
    for at, (combination, value) in enumerate(zip(combinations, results, strict=False)):
        own = samples[at] if isinstance(samples, list) and at < len(samples) else None
        yield combination, value, own if isinstance(own, list) else []


def _time(value: Any) -> str:
    """Return the time of day of a number of milliseconds since 1970; empty if there is none."""
    number = plain_number(value)
    try:
        return "" if number is None else datetime.fromtimestamp(number / 1e3, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return ""


FORMAT = ImportFormat(NAME, "results of asv", (".json",), _recognise, _read, whole_runs=True)
