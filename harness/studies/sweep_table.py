"""The table of a sweep, built from its finished runs, with missing rows and notes on its limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unperturbed.collectors.data import Metric, SweepColumn, read_sweep, read_sweep_facts, write_sweep
from unperturbed.collectors.records.assemble import derived_metric
from unperturbed.collectors.records.counts import implausible
from unperturbed.common.result import Result
from unperturbed.common.table import Cell, Column, Table
from unperturbed.common.wording import counted
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.plan import FURTHER_NATIVE, NATIVE
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.parameters import NODE_COLUMN, TIME_COLUMNS, Between, Value

_SHORT = 20  # A run is short if the program takes less than this multiple of the time to start a process
_MOST_VALUES = 6  # Maximum number of distinct values shown for a text column


@dataclass(frozen=True)
class Missing:
    """A row that is missing from a sweep's table."""

    # point, repetition: Numbers of the point and the repetition, from 1.
    point: int
    repetition: int
    parameters: Mapping[str, Value]  # The point's values
    why: str  # The reason
    failed: bool  # Whether a run of the row failed; otherwise, some runs were not made


@dataclass(frozen=True)
class Row:
    """A complete row of a sweep's table."""

    # point, repetition: Numbers of the point and the repetition, from 1.
    point: int
    repetition: int
    node: str  # The node that measured the row; empty on a single host
    runs: Mapping[str, str]  # The run of each step
    # Values of the columns: parameters, node, counts of all its runs, minimum times of its runs.
    values: Mapping[str, Any]

    @property
    def native_runs(self) -> int:
        """Return the number of native runs from which the row's times were taken."""
        return sum(step == NATIVE or step.startswith(FURTHER_NATIVE) for step in self.runs)


@dataclass(frozen=True)
class Recorded:
    """The part of a sweep that one manifest contains: the whole sweep, or one node's part."""

    rows: tuple[Row, ...]  # The complete rows
    missing: tuple[Missing, ...]  # The incomplete rows
    metrics: Mapping[str, Metric]  # The measured metrics
    starting: Mapping[str, float] | None  # Minimum time to start a program that does nothing


def read_recorded(
    spec: CampaignSpec,
    manifest: Manifest,
    steps: Collection[str],
    points: Sequence[Mapping[str, Value]],
    own: Collection[int],
    *,
    node: str = "",
    lost: str = "",
) -> Recorded:
    """Read the part of a sweep that a manifest contains.

    `steps`: Names of the steps of each row; empty if no run was planned.
    `points`, `own`: All points of the sweep, in the order of their numbers, and the numbers of this part's points.
    """
    states: dict[tuple[int, int], dict[str, RunState]] = defaultdict(dict)
    for state in manifest.runs():
        if state.run.point in own:
            states[state.run.point, state.run.repetition][state.run.pass_name] = state
    totals = manifest.totals()
    rows: list[Row] = []
    missing: list[Missing] = []
    wanted = {(point, number) for point in own for number in range(1, spec.campaign.repetitions + 1)}
    for point, repetition in sorted({*states, *wanted}):
        given = states.get((point, repetition), {})
        runs = {step: given[step].run.id for step in steps if step in given and given[step].state == "done"}
        if steps and all(step in runs or _can_wait(step, given.get(step)) for step in steps):
            each = [totals[run] for run in runs.values()]
            values = {**points[point - 1], **({NODE_COLUMN: node} if node else {})}
            values |= {name: value for counts in each for name, value in counts.items()}
            values |= {name: min(counts[name] for counts in each if name in counts) for name in TIME_COLUMNS}
            rows.append(Row(point, repetition, node, runs, values))
        elif (point, repetition) in wanted:
            missing.append(_missing(point, repetition, points[point - 1], given, node, lost))
    metrics = {
        entry["name"]: Metric(**{**entry, "components": tuple(entry["components"])})
        for step in steps
        for entry in manifest.fact(f"columns:{step}") or ()
    }
    return Recorded(tuple(rows), tuple(missing), metrics, manifest.fact("starting"))


def _can_wait(step: str, state: RunState | None) -> bool:
    """Return whether a row is complete without this step, which only times the program once more."""
    return step.startswith(FURTHER_NATIVE) and (state is None or state.state != "failed")


def _missing(
    point: int, repetition: int, values: Mapping[str, Value], runs: Mapping[str, RunState], node: str, lost: str
) -> Missing:
    failed = [state for state in runs.values() if state.state == "failed"]
    why = lost or "some runs of this row were not made"
    if failed:
        run = failed[0].run
        why = f"run {run.id} ({run.pass_name}{node and f', {node}'}): {failed[0].error}"
    return Missing(point, repetition, values, why, bool(failed))


@dataclass(frozen=True, repr=False)
class SweepTable(Result):
    """A sweep's table; it has no files until a row is complete."""

    frame: pl.DataFrame  # One row for each point and repetition
    columns: tuple[SweepColumn, ...]  # Descriptions of the frame's columns
    missing: tuple[Missing, ...]  # The incomplete rows
    notes: tuple[str, ...]  # Limits on the use of the numbers, one sentence each
    facts: Mapping[str, Any]  # Facts about the whole sweep, as in `table.json`

    _page = "unperturbed.analysis.report:render_result"

    def headline(self) -> str:
        """Return a line with the sweep's name and its number of rows."""
        missing = f", {counted(len(self.facts['missing']), 'row')} missing" if self.facts["missing"] else ""
        return f"{self.facts['name']}: {counted(self.frame.height, 'row')}{missing}"

    def tables(self) -> Sequence[Table]:
        """Return one table that describes the columns; no table if there is no row."""
        if not self.frame.height:
            return ()
        rows: list[list[Cell | str]] = [
            [
                column.name,
                Cell(column.kind, "undecided" if column.kind == "simulated" else ""),
                column.unit,
                describe_values(self.frame[column.name]),
            ]
            for column in self.columns
        ]
        heads = (Column("column"), Column("kind"), Column("unit"), Column("values"))
        return (Table(heads, rows, self.headline()),)

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as a polars frame."""
        return self.frame

    def to_dict(self) -> dict[str, Any]:
        """Return the columns and the facts of the sweep as JSON types, without the rows."""
        return {"columns": [vars(column) for column in self.columns], **self.facts}


def describe_values(series: pl.Series) -> str:
    """Return the range of a numeric column, or the first values of a text column."""
    if series.dtype == pl.String:
        values = series.unique(maintain_order=True).sort().to_list()
        return ", ".join(values[:_MOST_VALUES]) + (f", … ({len(values)} values)" if len(values) > _MOST_VALUES else "")
    known = series.drop_nulls()
    if not len(known):
        return "no values"
    least, most = known.min(), known.max()
    empty = f"; {series.null_count()} empty" if series.null_count() else ""
    form = "{:,}".format if series.dtype == pl.Int64 else "{:.4g}".format
    return (form(least) if least == most else f"{form(least)} … {form(most)}") + empty


def read_table(folder: Path) -> SweepTable:
    """Read the table of a recorded sweep."""
    frame, columns = read_sweep(folder)
    facts = read_sweep_facts(folder)
    return SweepTable(frame, tuple(columns.values()), (), tuple(facts["notes"]), facts)


def write_table(
    spec: CampaignSpec,
    folder: Path,
    manifest: Manifest,
    recorded: Sequence[Recorded],
    *,
    notes: Sequence[str] = (),
    **facts: Any,
) -> SweepTable:
    """Write the rows of all `recorded` parts as a table into the campaign's folder; add `facts` to `table.json`."""
    rows = sorted((row for part in recorded for row in part.rows), key=attrgetter("point", "repetition"))
    missing = sorted((row for part in recorded for row in part.missing), key=attrgetter("point", "repetition"))
    metrics = {name: metric for part in recorded for name, metric in part.metrics.items()}
    asked = spec.campaign.native_runs
    fewer = sum(row.native_runs < asked for row in rows)
    frame, columns = _frame(spec, rows, metrics)
    times = [part.starting for part in recorded if part.starting is not None]
    starting = {name: max(each[name] for each in times) for name in times[0]} if times else None
    every_note = list(notes)
    if fewer:
        every_note.append(
            f"In {fewer} of {len(rows)} rows, the times are the minimum of fewer than {asked} runs, because some runs "
            "were not made yet."
        )
    every_note += _notes(frame, columns, starting)
    facts = {
        "name": spec.name,
        "program": manifest.fact("program"),
        "host": manifest.fact("host"),
        "begun": manifest.fact("begun"),
        "seed": spec.campaign.seed,
        "complete": not missing and not fewer,
        "missing": [{"point": row.point, "repetition": row.repetition, "why": row.why} for row in missing],
        "starting": starting,
        "notes": every_note,
        "rows": [
            {
                "point": row.point,
                "repetition": row.repetition,
                **({"node": row.node} if row.node else {}),
                "runs": dict(row.runs),
            }
            for row in rows
        ],
        **facts,
    }
    if rows:
        write_sweep(folder, frame, columns, facts)
    return SweepTable(frame, columns, tuple(missing), tuple(every_note), facts)


def _frame(
    spec: CampaignSpec, rows: Sequence[Row], metrics: Mapping[str, Metric]
) -> tuple[pl.DataFrame, tuple[SweepColumn, ...]]:
    """Return rows as a frame: parameters, node, times, metrics in the order of the spec, and derived metrics."""
    measure = spec.measure
    columns = [
        SweepColumn(name, "parameter", source="spec", meaning="parameter of the sweep") for name in spec.parameters
    ]
    if any(row.node for row in rows):
        # The plan assigned the node, like a parameter: no measured column can cause it.
        columns.append(SweepColumn(NODE_COLUMN, "parameter", source="nodes", meaning="node that measured the point"))
    columns += _time_columns(spec.campaign.native_runs)
    measured = [name for name in (*measure.hardware, *measure.os, *measure.software) if name in metrics]
    columns += [_column(metrics[name]) for name in measured]
    values_of = {column.name: [row.values[column.name] for row in rows] for column in columns}
    parts = {name: np.asarray(values_of[name]) for name in measured}
    known = dict(metrics)
    for name, expression in measure.derived.items():
        if set(expression.names) <= set(measured):
            known[name] = derived_metric(name, expression, known)
            columns.append(_column(known[name]))
            values = expression.evaluate(parts) if rows else np.zeros(0)
            values_of[name] = [None if np.isnan(value) else value for value in values.tolist()]
    types = {column.name: _type(spec, column, values_of[column.name]) for column in columns}
    return pl.DataFrame(values_of, schema=types), tuple(columns)


def _time_columns(native_runs: int) -> tuple[SweepColumn, SweepColumn]:
    least = f"; the minimum of {native_runs} runs" if native_runs > 1 else ""
    run = "these runs" if least else "the same run"
    wall = f"wall-clock time of the untouched program, from start to end, without a sampler{least}"
    cpu = f"CPU time (user and system) of {run}, including child processes{least}"
    return SweepColumn("time_s", "time", "s", "clock", wall), SweepColumn("cpu_s", "time", "s", "wait4", cpu)


def _column(metric: Metric) -> SweepColumn:
    meaning = metric.meaning.replace("at the end of the interval", "at the end of the run")
    return SweepColumn(
        metric.name, metric.kind, metric.unit, metric.source, meaning, metric.semantics, metric.components
    )


def _type(spec: CampaignSpec, column: SweepColumn, values: Sequence[Any]) -> type[pl.DataType]:
    """Return a column's type; a parameter's type depends on the spec, not on the drawn values."""
    parameter = spec.parameters.get(column.name)
    if isinstance(parameter, Between):
        values = (parameter.low, parameter.high)
    elif parameter is not None:
        values = parameter.values
    if column.kind in ("time", "derived") or any(isinstance(value, float) for value in values):
        return pl.Float64
    return pl.String if any(isinstance(value, str) for value in values) else pl.Int64


def _notes(
    frame: pl.DataFrame, columns: Sequence[SweepColumn], starting: Mapping[str, float] | None
) -> tuple[str, ...]:
    """Return notes on the limits of the numbers, one sentence each."""
    notes = []
    if frame.height and starting is not None:
        short = frame.filter(*(pl.col(name) < _SHORT * starting[name] for name in TIME_COLUMNS)).height
        if short:
            notes.append(
                f"In {short} of {frame.height} rows, the program takes less than {_SHORT} times as long as starting "
                f"a process ({starting['time_s'] * 1e3:.2g} ms, {starting['cpu_s'] * 1e3:.2g} ms of CPU time), which "
                f"is a large part of {' and '.join(TIME_COLUMNS)}. Give the program more work."
            )
    counts = {
        column.name: frame[column.name].to_numpy()
        for column in columns
        if column.kind in ("hardware", "simulated", "software", "os")
    }
    notes += [f"Counts are implausible: {sentence.split('; in ', 1)[0]}." for sentence in implausible(counts)]
    notes += [
        f"{column.name} counted nothing in any run: check that the spec names the right event."
        for column in columns
        if column.kind == "software"
        and column.semantics == "counter"
        and frame.height
        and not (frame[column.name] != 0).any()
    ]
    cycles = [column.name for column in columns if column.kind == "simulated" and column.unit == "cycles"]
    notes += [
        f"{name} is computed from simulated events, not measured: use {' and '.join(TIME_COLUMNS)} as times."
        for name in cycles
    ]
    return tuple(notes)
