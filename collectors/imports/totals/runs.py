"""Runs of a results file: a trace of one interval for each run, with its totals, and what all readers share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unperturbed.collectors.data.trace import INTERVAL_COLUMNS, Metric, Trace
from unperturbed.collectors.imports.format import MOST, decode, known_kind, make_trace, refuse
from unperturbed.common.wording import counted

WALL, CPU = "time_s", "cpu_s"
"""Totals that are wall-clock and CPU time, in seconds, as in the runs of this tool."""

SECONDS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
"""Units of time, each in seconds."""

NO_TOTAL = "no total is a number"
"""Why a run is left out."""

NO_NUMBER = "the value is not a number"
"""Why a value of a run is left out."""

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)\s*([A-Za-zµ%]*)\s*")


@dataclass(frozen=True)
class Total:
    """One total of a run."""

    value: float
    unit: str


@dataclass
class Runs:
    """The runs of a results file, and what the reader leaves out."""

    path: Path
    source: str  # Name of the format
    host: str = ""
    notes: list[str] = field(default_factory=list)
    _runs: list[tuple[Mapping[str, Total], dict[str, Any]]] = field(default_factory=list)
    _left_out: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def add(
        self,
        benchmark: str,
        totals: Mapping[str, Total | None],
        *,
        process: str = "",
        started: str = "",
        family: str = "",
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Add a run with the totals that have a number; leave it out if none has.

        process: Name of the process; runs of one process depend on each other. Empty if each run is a process.
        family: Name of the benchmark without the values of its parameters.
        """
        known = {name: total for name, total in totals.items() if total is not None and name not in INTERVAL_COLUMNS}
        if any(name in known and known[name].value < 0 for name in (WALL, CPU)):
            self.leave_out("a time is below 0", benchmark)
        elif not known:
            self.leave_out(NO_TOTAL, benchmark)
        else:
            facts = {"benchmark": benchmark, "process": process, "started": started}
            self._runs.append((known, {**facts, "family": family or benchmark, "parameters": dict(parameters or {})}))

    def leave_out(self, why: str, benchmark: str, *, what: str = "run") -> None:
        """Count a run, or a `value` of a run, that is left out, with the reason: `failed, or skipped`."""
        self._left_out.setdefault((what, why), []).append(benchmark)

    def note(self, text: str) -> None:
        """Add a note on the file, once."""
        if text not in self.notes:
            self.notes.append(text)

    def traces(self) -> list[Trace]:
        """Return the trace of each run; refuse a file without any."""
        left_out = [
            f"the import leaves out {counted(len(names), what)}: {why} (first: {names[0]})"
            for (what, why), names in self._left_out.items()
        ]
        if not self._runs:
            refuse(self.path, "; ".join(["no run of this file has totals", *left_out, *self.notes]))
        notes = [*self.notes, *left_out]
        return [self._trace(totals, facts, notes) for totals, facts in self._runs]

    def _trace(self, totals: Mapping[str, Total], facts: Mapping[str, Any], notes: list[str]) -> Trace:
        time = totals.get(WALL) or totals.get(CPU)
        seconds = time.value if time else 0.0
        if seconds * 1e9 > MOST:
            refuse(self.path, f"a run of {facts['benchmark']} takes {seconds:g} s, which is too long to be true")
        length = max(1, round(seconds * 1e9))  # an iteration of a benchmark may take less than a nanosecond
        times = {name: totals[name].value for name in (WALL, CPU) if name in totals}
        return make_trace(
            [Metric(name, known_kind(name) or "os", total.unit, source=self.source) for name, total in totals.items()],
            {name: np.array([total.value], np.float64) for name, total in totals.items()},
            (np.zeros(1, np.int64), np.full(1, length, np.int64)),
            self.path,
            notes=notes,
            attributes={**facts, **times, "host": self.host},
        )


def plain_number(value: object) -> float | None:
    """Return a finite number of JSON; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def quantity(text: str) -> tuple[float, str] | None:
    """Return the number and the unit of a text such as `2.5s`; None if it is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    value = float(match[1])
    return (value, match[2]) if math.isfinite(value) else None


def total(value: float | None, unit: str) -> Total | None:
    """Return a total, or None where there is no number."""
    return None if value is None else Total(value, unit)


def seconds(value: float | None, unit: str) -> Total | None:
    """Return a time in seconds, or None where there is no number or the unit is not one of time."""
    return None if value is None or unit not in SECONDS else Total(value * SECONDS[unit], "s")


def mean(values: Iterable[float]) -> float:
    """Return the mean of at least one number."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers)


def read_json(content: bytes, path: Path) -> Mapping[str, Any]:
    """Return the object that a JSON file holds."""
    try:
        found = json.loads(decode(content, path))
    except json.JSONDecodeError as error:
        refuse(path, f"not JSON ({error.msg}): is the file complete?", error.lineno)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or thousands of brackets
        refuse(path, f"not JSON that can be read ({error})")
    return mapping(found)


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list of JSON."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def numbered(names: Iterable[str]) -> list[str]:
    """Return the names, each further one of the same name with a number: `sort`, `sort #2`."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result
