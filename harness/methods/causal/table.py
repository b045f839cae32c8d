"""Prepare a table for causal learning: read it, add derived variables, exclude simulated artefacts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from unperturbed.analysis.causal import CurveParameters, Data, Exclusion, Knowledge, derive, logarithms, prepare
from unperturbed.analysis.causal.table.variables import gaps
from unperturbed.collectors.data import SweepColumn
from unperturbed.common.expressions.metrics import parse_metric_expression
from unperturbed.common.reading.cells import missing_of
from unperturbed.common.wording import first_of
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.methods.causal.derived_tables import DerivedTable, tabulate_curves, tabulate_steps
from unperturbed.harness.methods.causal.knowledge import PriorKnowledge, with_option_names
from unperturbed.harness.methods.causal.reading import TableReading, missing_points, read_table

LOGARITHM = "log_"
"""Prefix of the names of logarithms."""
_FEW_ROWS = 5
"""Rows per variable below which a note warns that there are few."""
_REPEATED = 1.5
"""Rows per point of the parameters above which a note warns of repeated runs."""


@dataclass(frozen=True)
class ModelInput:
    """Input of `learn`, with facts to report about its table."""

    name: str
    data: Data
    knowledge: Knowledge  # Prior knowledge about the variables
    # Columns that were not passed to the analysis; `data.exclusions` has those that the analysis rejected.
    left_out: tuple[Exclusion, ...]
    notes: tuple[str, ...]  # Remarks on the table for the reader of the model
    derived: Mapping[str, str]  # Expressions of derived variables, logarithms and derivatives included
    curves: tuple[CurveParameters, ...] = ()  # Curves whose parameters are columns: a row is then a cell, not a run
    reading: TableReading | None = None  # How the file was read; None for this tool's own tables


def prepare_table(path: Path, prior: PriorKnowledge, *, missing: Literal["error", "drop"] = "error") -> ModelInput:
    """Read a table, add derived variables, choose the variables, and combine all prior knowledge."""
    try:
        return _prepare_table(path, prior, missing)
    except DataError as error:
        raise DataError(with_option_names(str(error))) from None


def _prepare_table(path: Path, prior: PriorKnowledge, missing: Literal["error", "drop"]) -> ModelInput:
    discrete = [name for name, kind in prior.kinds.items() if kind == "discrete"]
    frame, columns, reading = read_table(path, texts=discrete)
    table = frame
    for name in frame.columns:
        if name == "*" or (name.startswith("^") and name.endswith("$")):  # for polars these stand for other columns
            raise DataError(
                f"{path}: the name {name!r} would be read as a pattern for several columns: rename the column"
            )
    lacking = missing_points(path)
    log_names = {name: f"{LOGARITHM}{name}" for name in prior.log}
    new = [*prior.derive, *prior.derivatives]
    if not prior.curves:
        prior.check_names([*frame.columns, *new])
    left_out = _simulated_artefacts(columns, prior.variables or frame.columns)
    frame, definitions = _derived(frame, prior, left_out, missing)
    made = _derived_table(frame, prior, columns, left_out, missing)
    if made is not None:
        prior.check_names([*frame.columns, *made.frame.columns])
        left_out |= made.left_out
        prior = prior.model_copy(update={"outputs": (*prior.outputs, *_pure_effects(made.results, prior))})
        frame = made.frame
    chosen = list(prior.variables) or [name for name in frame.columns if name not in left_out]
    for name in prior.log:
        if name not in chosen:
            raise SpecError(f"`log`: {name} is not among the analysed variables: add it to `variables`")
    for name in chosen:
        if name in left_out and name not in frame.columns:
            raise SpecError(f"`variables`: {name} cannot be a variable: {left_out[name]}")
    given = [Exclusion(name, why) for name, why in left_out.items()]
    given += [Exclusion(name, "not requested") for name in frame.columns if name not in chosen and name not in left_out]
    if log_names:
        frame, _ = derive(frame, logarithms(prior.log), undefined="null" if missing == "drop" else "error")
    definitions = {
        log_names.get(name, name): tuple(log_names.get(part, part) for part in parts)
        for name, parts in definitions.items()
    }
    names = [log_names.get(name, name) for name in chosen]
    kinds = {log_names.get(name, name): kind for name, kind in prior.kinds.items() if name in chosen}
    try:
        data = prepare(frame.select(names), kinds=kinds, missing=missing)
    except DataError as error:
        # The user has not seen a table that was made here.
        seen = (
            f". The table of {'cells' if prior.curves else 'steps'} has the columns {', '.join(frame.columns)}: choose "
            "some with --variables"
            if made
            else ""
        )
        raise DataError(f"{_where_missing(path, table, names, reading, str(error))}{error}{seen}") from None
    known = {**_sweep_definitions(columns), **definitions}
    knowledge = _knowledge(prior, log_names, _complete(known, data), columns, data)
    derivatives = {name: f"∂{derivative.of}/∂{derivative.over}" for name, derivative in prior.derivatives.items()}
    return ModelInput(
        name=path.resolve().name if path.is_dir() else path.name,
        data=data,
        knowledge=knowledge,
        left_out=tuple(given),
        notes=(
            *([lacking] if lacking else []),
            *(made.notes if made else ()),
            *_notes(prior, columns, data, known, knowledge),
        ),
        derived={**prior.derive, **derivatives, **logarithms(prior.log)},
        curves=made.curves if made else (),
        reading=reading,
    )


def _where_missing(
    path: Path, table: pl.DataFrame, names: Sequence[str], reading: TableReading | None, fault: str
) -> str:
    """Return where an analysed column first lacks a value, and the marks of all columns; empty for other faults."""
    if reading is None or not fault.startswith("values are missing"):
        return ""
    lacking = [column for column in reading.columns if column.name in names and column.missing]
    if not lacking:
        return ""
    row, column = min((int(gaps(table[entry.name]).argmax()), table.columns.index(entry.name)) for entry in lacking)
    place = f"{path}:{reading.place(row, column)}" if reading.place else f"{path}"
    marks = first_of([f"{entry.name}: {missing_of(entry)}" for entry in lacking])
    return f"{place}: the first missing value is here ({marks}): "


def _derived_table(
    frame: pl.DataFrame,
    prior: PriorKnowledge,
    columns: Mapping[str, SweepColumn],
    left_out: Mapping[str, str],
    missing: Literal["error", "drop"],
) -> DerivedTable | None:
    """Return the table of steps or of cells to analyse instead of the runs; None to analyse the runs."""
    if prior.derivatives and prior.curves:
        raise SpecError(
            "derivatives and curves cannot be combined: with derivatives, each row of the analysed table is a step "
            "between two values of a parameter, but with curves, each row is a combination of discrete values; learn "
            "one model with the derivatives, and another with the curves"
        )
    columns_used: list[tuple[str, tuple[str, ...]]] = [
        (name, (derivative.of, derivative.over)) for name, derivative in prior.derivatives.items()
    ]
    columns_used += [
        (f"the curve of {curve.target}", (curve.target, *curve.over, *curve.cells)) for curve in prior.curves
    ]
    for what, names in columns_used:
        for name in names:
            if name in left_out:
                raise SpecError(f"{what}: {name} cannot be part of a model: {left_out[name]}")
    usable = frame.drop([name for name in left_out if name in frame.columns])
    if prior.derivatives:
        # Without declared parameters, the first tier contains them.
        varied = [column.name for column in columns.values() if column.kind == "parameter"] + [*prior.inputs]
        varied = varied or [name for tier in prior.tiers[:1] for name in tier]
        for name in prior.derivatives:
            if name in frame.columns:
                raise SpecError(
                    f"`derivatives`: the table already has a column {name}: give the derivative a different name"
                )
        return tabulate_steps(usable, prior.derivatives, list(dict.fromkeys(varied)), missing=missing)
    return tabulate_curves(usable, prior.curves, kinds=prior.kinds, missing=missing) if prior.curves else None


def _pure_effects(results: Iterable[str], prior: PriorKnowledge) -> list[str]:
    """Return the derivatives and curve parameters that cause nothing: those without a tier or a required effect."""
    placed = {*prior.outputs, *(name for tier in prior.tiers for name in tier), *(cause for cause, _ in prior.required)}
    return [name for name in results if name not in placed]


def _simulated_artefacts(columns: Mapping[str, SweepColumn], asked: Sequence[str]) -> dict[str, str]:
    """Return the columns that simulation computes from others, each with the reason why a model cannot use it.

    If two simulated counts have events in common, the count of more events is a sum that contains the other.
    """
    reasons: dict[str, str] = {}
    simulated = [column for column in columns.values() if column.kind == "simulated"]
    for cycles in (column for column in simulated if column.unit == "cycles"):
        events = ", ".join(part.split(":")[-1] for part in cycles.components)
        reasons[cycles.name] = f"simulated cycles are not measured but computed from {events}: use times or real cycles"
        for column in columns.values():
            if column.kind == "derived" and cycles.components and set(cycles.components) <= set(column.components):
                reasons[column.name] = f"computed from the simulated cycles {cycles.name}"
    kept: list[SweepColumn] = []
    for column in sorted(simulated, key=lambda candidate: len(candidate.components)):
        if column.name in reasons or column.name not in asked:
            continue
        other = next(
            (kept_column for kept_column in kept if set(kept_column.components) & set(column.components)), None
        )
        if other is None:
            kept.append(column)
        else:
            shared = ", ".join(part.split(":")[-1] for part in column.components if part in other.components)
            reasons[column.name] = (
                f"simulated, and computed from the same events as {other.name} ({shared}), so related by construction"
            )
    return reasons


def _derived(
    frame: pl.DataFrame, prior: PriorKnowledge, left_out: Mapping[str, str], missing: str
) -> tuple[pl.DataFrame, dict[str, tuple[str, ...]]]:
    """Add derived variables; reject simulated cycles in them and among the variables."""
    frame, definitions = derive(frame, prior.derive, undefined="null" if missing == "drop" else "error")
    cycles = {name: why for name, why in left_out.items() if "simulated cycles" in why}
    for name in prior.variables:
        if name in cycles:
            raise SpecError(f"{name} cannot be a variable of a model: {cycles[name]}")
    for name, parts in definitions.items():
        for part in parts:
            if part in cycles:
                raise SpecError(f"{name} = {prior.derive[name]}: {part} cannot be part of a model: {cycles[part]}")
    return frame, definitions


def _sweep_definitions(columns: Mapping[str, SweepColumn]) -> dict[str, tuple[str, ...]]:
    """Return, for each derived column of a sweep, the columns that its formula (its meaning) names."""
    definitions = {}
    for column in columns.values():
        if column.kind == "derived":
            parts = parse_metric_expression(column.meaning.removeprefix("simulated: ")).names
            if set(parts) <= columns.keys():
                definitions[column.name] = tuple(parts)
    return definitions


def _complete(definitions: Mapping[str, Sequence[str]], data: Data) -> dict[str, tuple[str, ...]]:
    """Return the definitions of variables whose parts are all analysed or constant: see `Knowledge.restricted_to`."""
    constant = {exclusion.name for exclusion in data.exclusions if exclusion.is_constant}
    return {
        name: tuple(part for part in parts if part not in constant)
        for name, parts in definitions.items()
        if name in data.names and all(part in data.names or part in constant for part in parts)
    }


def _knowledge(
    prior: PriorKnowledge,
    log_names: Mapping[str, str],
    definitions: Mapping[str, Sequence[str]],
    columns: Mapping[str, SweepColumn],
    data: Data,
) -> Knowledge:
    """Combine prior knowledge with what a sweep implies: nothing causes its parameters, and its times cause nothing."""
    here = {*data.names, *(exclusion.name for exclusion in data.exclusions)}

    def named(names: Iterable[str]) -> list[str]:
        """Return the names that columns are analysed under, without columns that are not analysed."""
        return [name for name in (log_names.get(name, name) for name in names) if name in here]

    def edges(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(ends[0], ends[1]) for ends in map(named, pairs) if len(ends) == 2]

    causes = {
        *(cause for cause, _ in edges(prior.required)),
        *(part for parts in definitions.values() for part in parts),
    }
    parameters = named(column.name for column in columns.values() if column.kind == "parameter")
    times = named(column.name for column in columns.values() if column.kind == "time")
    try:
        return Knowledge(
            tiers=[named(tier) for tier in prior.tiers],
            required=edges(prior.required),
            forbidden=edges(prior.forbidden),
            inputs=list(dict.fromkeys((*named(prior.inputs), *parameters))),
            outputs=list(dict.fromkeys((*named(prior.outputs), *(name for name in times if name not in causes)))),
            definitions=definitions,
        )
    except DataError as error:
        raise SpecError(f"{prior.file}: {error}" if prior.file else str(error)) from None


def _notes(
    prior: PriorKnowledge,
    columns: Mapping[str, SweepColumn],
    data: Data,
    definitions: Mapping[str, Sequence[str]],
    known: Knowledge,
) -> tuple[str, ...]:
    """Return notes on relations by construction, and on what the data cannot show."""
    notes = []
    for name, parts in definitions.items():
        used = [part for part in parts if part in data.names]
        if name in data.names and used and len(used) < len(parts):
            lacking = [part for part in parts if part not in data.names]
            notes.append(
                f"{name} is computed from {' and '.join(parts)}, but the model does not have {' and '.join(lacking)}: "
                f"whether {name} is an effect of {' and '.join(used)} is learnt, not assumed."
            )
    varied = [name for name in known.inputs if name in data.names]
    points = data.frame.select(varied).n_unique() if varied else data.rows
    if _REPEATED * points <= data.rows and points < data.rows:
        notes.append(
            f"The {data.rows:,} rows have only {points:,} different points of {', '.join(varied)}. Repeated runs of a "
            "point are not independent, so p-values are too small: measure more points."
        )
    if data.rows < _FEW_ROWS * len(data.names):
        notes.append(
            f"{data.rows:,} rows of {len(data.names)} variables show only strong relations: variables without an "
            "edge may still be related, and with this many pairs some edges are due to chance."
        )
    simulated = [name for name in data.names if name in columns and columns[name].kind == "simulated"]
    if simulated:
        notes.append(f"Simulated, not counted by a processor: {', '.join(simulated)}.")
    here = {*data.names, *(name for name in prior.log if f"{LOGARITHM}{name}" in data.names)}
    notes += [
        f"The {what} edge {cause} → {other} is ignored: the table does not have both columns."
        for what, edges in (("required", prior.required), ("forbidden", prior.forbidden))
        for cause, other in edges
        if not {cause, other} <= here
    ]
    return tuple(notes)
