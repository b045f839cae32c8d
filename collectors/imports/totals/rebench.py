"""Data files of ReBench: `example.data`, tab-separated, with a row for each measurement.

An invocation is a process, and an iteration one measurement in it. Iterations of one invocation depend on each other,
so a run's total is their mean. The number of warm-up iterations stands in the benchmark's description, which recent
versions write into the file.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unperturbed.collectors.data.trace import Trace
from unperturbed.collectors.imports.format import ImportFormat, decode, refuse
from unperturbed.collectors.imports.totals.runs import (
    NO_NUMBER,
    SECONDS,
    WALL,
    Runs,
    Total,
    mapping,
    mean,
    plain_number,
    quantity,
)
from unperturbed.common.wording import counted

NAME = "rebench"
_COLUMNS = "invocation iteration value unit criterion benchmark executor suite extraArgs cores inputSize varValue"
_FIRST = ("invocation", "iteration", "value", "unit", "criterion")
_LEAST = 6  # fields of a row: those, and the benchmark
_KEYS = ("executor", "vm", "suite", "extraArgs", "cores", "inputSize", "varValue", "tag", "machine")
"""Columns that tell benchmarks of one name apart; older versions call the executor `vm`."""
_HEADER = re.compile(rb"^invocation\titeration\tvalue\tunit\tcriterion\t", re.MULTILINE)
_DESCRIBED = re.compile(r"# (benchmark|run_id): (\d+)=(.*)")


def _recognise(head: bytes) -> bool:
    return _HEADER.search(head) is not None or (head.startswith(b"#!") and b"\n# Execution Start: " in head)


def _read(content: bytes, path: Path, options: Mapping[str, str]) -> list[Trace]:  # noqa: ARG001
    runs = Runs(path, NAME)
    columns = _COLUMNS.split()
    described: dict[tuple[str, int], Mapping[str, Any]] = {}
    started, rows = "", []
    for number, line in enumerate(decode(content, path).splitlines(), 1):
        if line.startswith("#"):
            if line.startswith("# Execution Start: ") and not started:
                started = line.partition(": ")[2].strip()
            elif (match := _DESCRIBED.match(line)) is not None and len(match[2]) < 10:
                described[match[1], int(match[2])] = _json(match[3])
            elif line.startswith("# Environment: "):
                runs.host = runs.host or str(_json(line.partition(": ")[2]).get("hostName", ""))
        elif line.startswith("invocation\t"):
            columns = line.split("\t")
        elif line.strip():
            rows.append((number, _row(line, columns, path, number)))
    if not rows:
        refuse(path, "the data file has no measurements: did ReBench end before its first run?")
    _add_runs(runs, rows, described, started)
    return runs.traces()


def _row(line: str, columns: Sequence[str], path: Path, number: int) -> Mapping[str, str]:
    fields = line.split("\t")
    if len(fields) < _LEAST:
        refuse(path, f"this row has {len(fields)} fields, but a measurement has at least {_LEAST}", number)
    return dict(zip(columns, fields, strict=False)) | dict(zip(_FIRST, fields, strict=False))


def _add_runs(
    runs: Runs,
    rows: Sequence[tuple[int, Mapping[str, str]]],
    described: Mapping[tuple[str, int], Mapping[str, Any]],
    started: str,
) -> None:
    several = [key for key in _KEYS if len({row.get(key, "") for _, row in rows}) > 1]
    measured: dict[tuple[str, str], dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    parameters: dict[str, Mapping[str, str]] = {}
    lines: dict[tuple[str, ...], int] = {}
    warm_ups = 0
    for number, row in rows:
        parts = ", ".join(row[key] for key in several if row.get(key))
        name = f"{row.get('benchmark', '')} ({parts})" if parts else row.get("benchmark", "")
        parameters.setdefault(name, {key: row[key] for key in several if row.get(key)})
        place = row["invocation"], row["iteration"]
        first = lines.setdefault((name, *place, row["criterion"]), number)
        if first != number:
            what = f"{row['criterion']} of {name}, invocation {place[0]}, iteration {place[1]}, is also in line {first}"
            advice = "if the file has several executions of ReBench, make each a file of its own"
            refuse(runs.path, f"{what}: {advice}", number)
        found, iteration = quantity(row["value"]), quantity(row["iteration"])
        if found is None:
            runs.leave_out(NO_NUMBER, name, what="value")
        elif iteration is not None and iteration[0] <= _warm_up(row, described):
            warm_ups += 1
        else:
            measured[name, row["invocation"]][row["criterion"], row["unit"]].append(found[0])
    for (name, _), by_criterion in measured.items():
        totals = dict(_total(*criterion, mean(values)) for criterion, values in by_criterion.items())
        runs.add(name, totals, started=started, parameters=parameters[name])
    most = max((len(values) for each in measured.values() for values in each.values()), default=0)
    if warm_ups:
        runs.note(f"warm-up iterations are left out ({counted(warm_ups, 'measurement')})")
    if most > 1:
        runs.note(f"a run is an invocation: the mean of its iterations, at most {most:,}")
        if not any(kind == "benchmark" for kind, _ in described):
            runs.note("the file does not name warm-up iterations: if there are any, they are part of the mean")


def _total(criterion: str, unit: str, value: float) -> tuple[str, Total]:
    if criterion == "total" and unit in SECONDS:
        return WALL, Total(value * SECONDS[unit], "s")
    return criterion or "value", Total(value, unit or "1")


def _warm_up(row: Mapping[str, str], described: Mapping[tuple[str, int], Mapping[str, Any]]) -> float:
    """Return the number of warm-up iterations of a row's benchmark; 0 if the file does not name them."""
    run = row.get("runId", "")
    found = described.get(("run_id", int(run)), {}) if run.isdecimal() and len(run) < 10 else {}
    number = plain_number(found.get("benchmark_id"))
    benchmark = described.get(("benchmark", int(number)), {}) if number is not None else {}
    return plain_number(mapping(benchmark.get("runDetails")).get("warmup")) or 0


def _json(text: str) -> Mapping[str, Any]:
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


FORMAT = ImportFormat(NAME, "a data file of ReBench", (".data",), _recognise, _read, whole_runs=True)
