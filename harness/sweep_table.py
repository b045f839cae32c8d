"""From a sweep's finished runs to its table, with what is missing and what speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unperturbed.collectors.assemble import derived_metric
from unperturbed.collectors.invariants import implausible
from unperturbed.collectors.table import Column, write_sweep
from unperturbed.collectors.trace import Metric
from unperturbed.harness.manifest import Manifest, RunState
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.parameters import Between, Value
from unperturbed.harness.spec.sweep import TIME_COLUMNS
from unperturbed.harness.sweep_plan import Step

__all__ = ["Missing", "SweepTable", "write_table"]

_SHORT = 20
"""A run is short when the program takes less than so many times what starting any process takes."""


@dataclass(frozen=True)
class Missing:
    """A row that is not there: its point, the repetition, and why. `failed` : a run of it failed; else its runs were not made."""

    point: int
    repetition: int
    parameters: Mapping[str, Value]
    why: str
    failed: bool


@dataclass(frozen=True)
class SweepTable:
    """A sweep's table as it was written; nothing is written while no row is complete."""

    frame: pl.DataFrame
    columns: tuple[Column, ...]
    missing: tuple[Missing, ...]
    notes: tuple[str, ...]
    facts: Mapping[str, Any]


def write_table(
    campaign: Campaign, folder: Path, manifest: Manifest, steps: Sequence[Step], points: Sequence[Mapping[str, Value]]
) -> SweepTable:
    """Make the table of all rows whose runs are done, and write it into the campaign's folder.

    Parameters
    ----------
    steps : what is run for each row.
    points : of the sweep, in the order of their numbers.
    """
    runs: dict[tuple[int, int], dict[str, RunState]] = defaultdict(dict)
    for state in manifest.runs():
        if state.run.point <= len(points):
            runs[state.run.point, state.run.repetition][state.run.pass_name] = state
    whole = [
        row for row in sorted(runs) if all(step.name in runs[row] and runs[row][step.name].state == "done" for step in steps)
    ]
    complete = set(whole)
    asked = [(point, number) for point in range(1, len(points) + 1) for number in range(1, campaign.campaign.repetitions + 1)]
    missing = tuple(_missing(row, runs.get(row, {}), points) for row in asked if row not in complete)
    metrics = {
        entry["name"]: Metric(**{**entry, "components": tuple(entry["components"])})
        for step in steps
        for entry in manifest.fact(f"columns:{step.name}") or ()
    }
    content = manifest.totals()
    rows = [
        {
            **points[row[0] - 1],
            **{name: value for step in steps for name, value in content[runs[row][step.name].run.id].items()},
        }
        for row in whole
    ]
    frame, columns = _frame(campaign, rows, metrics)
    notes = _notes(frame, columns, manifest.fact("starting"))
    facts = {
        "name": campaign.name,
        "program": manifest.fact("program"),
        "host": manifest.fact("host"),
        "begun": manifest.fact("begun"),
        "seed": campaign.campaign.seed,
        "complete": not missing,
        "missing": [{"point": item.point, "repetition": item.repetition, "why": item.why} for item in missing],
        "starting": manifest.fact("starting"),
        "notes": list(notes),
        "rows": [
            {"point": row[0], "repetition": row[1], "runs": {step.name: runs[row][step.name].run.id for step in steps}}
            for row in whole
        ],
    }
    if rows:
        write_sweep(folder, frame, columns, facts)
    return SweepTable(frame, columns, missing, notes, facts)


def _missing(row: tuple[int, int], runs: Mapping[str, RunState], points: Sequence[Mapping[str, Value]]) -> Missing:
    failed = [state for state in runs.values() if state.state == "failed"]
    why = f"run {failed[0].run.id} ({failed[0].run.pass_name}): {failed[0].error}" if failed else "its runs were not all made"
    return Missing(row[0], row[1], points[row[0] - 1], why, bool(failed))


def _frame(
    campaign: Campaign, rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, Metric]
) -> tuple[pl.DataFrame, tuple[Column, ...]]:
    """Put rows into columns: parameters, times, metrics in the order of the spec, what is computed of these."""
    measure = campaign.measure
    columns = [Column(name, "parameter", source="spec", meaning="parameter of the sweep") for name in campaign.parameters]
    columns += [
        Column(
            "time_s",
            "time",
            "s",
            "clock",
            "wall-clock time of the untouched program, from its start to its end, without any sampler",
        ),
        Column("cpu_s", "time", "s", "wait4", "processor time (user and system) of the same run, with that of its children"),
    ]
    measured = [name for name in (*measure.hardware, *measure.os, *measure.software) if name in metrics]
    columns += [_column(metrics[name]) for name in measured]
    held = {column.name: [row[column.name] for row in rows] for column in columns}
    parts = {name: np.asarray(held[name]) for name in measured}
    known = dict(metrics)
    for name, expression in measure.derived.items():
        if set(expression.names) <= set(measured):
            known[name] = derived_metric(name, expression, known)
            columns.append(_column(known[name]))
            values = expression.evaluate(parts) if rows else np.zeros(0)
            held[name] = [None if np.isnan(value) else value for value in values.tolist()]
    types = {column.name: _type(campaign, column, held[column.name]) for column in columns}
    return pl.DataFrame(held, schema=types), tuple(columns)


def _column(metric: Metric) -> Column:
    meaning = metric.meaning.replace("at the end of the interval", "at the end of the run")
    return Column(metric.name, metric.kind, metric.unit, metric.source, meaning, metric.semantics, metric.components)


def _type(campaign: Campaign, column: Column, values: Sequence[Any]) -> type[pl.DataType]:
    """Return a column's type. That of a parameter follows from the spec, whichever of its values were drawn."""
    parameter = campaign.parameters.get(column.name)
    if isinstance(parameter, Between):
        values = (parameter.low, parameter.high)
    elif parameter is not None:
        values = parameter.values
    if column.kind in ("time", "derived") or any(isinstance(value, float) for value in values):
        return pl.Float64
    return pl.String if any(isinstance(value, str) for value in values) else pl.Int64


def _notes(frame: pl.DataFrame, columns: Sequence[Column], starting: Mapping[str, float] | None) -> tuple[str, ...]:
    """Say what speaks against the numbers, a sentence each."""
    said = []
    if frame.height and starting is not None:
        short = frame.filter(*(pl.col(name) < _SHORT * starting[name] for name in TIME_COLUMNS)).height
        if short:
            said.append(
                f"In {short} of {frame.height} rows the program takes less than {_SHORT} times what starting any process takes here "
                f"({starting['time_s'] * 1e3:.2g} ms, {starting['cpu_s'] * 1e3:.2g} ms of a processor): much of their "
                f"{' and '.join(TIME_COLUMNS)} is that. Give the program more work."
            )
    counts = {
        column.name: frame[column.name].to_numpy()
        for column in columns
        if column.kind in ("hardware", "simulated", "software", "os")
    }
    said += [f"A count cannot be right: {sentence.split('; in ', 1)[0]}." for sentence in implausible(counts)]
    said += [
        f"{column.name} counted nothing in any run: is that the event that you meant?"
        for column in columns
        if column.kind == "software" and column.semantics == "counter" and frame.height and not (frame[column.name] != 0).any()
    ]
    cycles = [column.name for column in columns if column.kind == "simulated" and column.unit == "cycles"]
    said += [
        f"{name} is simulated: a formula of the other events, and no time. Times are {' and '.join(TIME_COLUMNS)}."
        for name in cycles
    ]
    return tuple(said)
