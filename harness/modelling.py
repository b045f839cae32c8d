"""A table made ready for a causal model: read, completed by derived variables, freed of what simulation made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import polars as pl

from unperturbed.analysis.causal import CurveParameters, Data, Exclusion, derive, logarithms, prepare
from unperturbed.analysis.causal.knowledge import Knowledge
from unperturbed.collectors.expressions import parse_expression
from unperturbed.collectors.table import Column
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.model_options import Said
from unperturbed.harness.model_reading import read_table, what_is_missing
from unperturbed.harness.model_tables import Made, made_of_curves, made_of_steps
from unperturbed.harness.model_words import as_options

__all__ = ["LOGARITHM", "Ready", "made_ready"]

LOGARITHM = "log_"
"""What the name of a logarithm begins with."""
_FEW_ROWS = 5
"""Rows a variable below which their number is told of."""
_REPEATED = 1.5
"""Rows a point of the parameters from which on repetitions are told of."""


@dataclass(frozen=True)
class Ready:
    """A table from which a model can be learnt.

    Attributes
    ----------
    name : str
    data : Data
    knowledge : Knowledge
    left_out : tuple of Exclusion
        Columns that were not offered to the analysis at all; `data.exclusions` has those that it refused.
    notes : tuple of str
        What the reader of the model must know of its table.
    derived : mapping of str to str
        Expressions of derived variables, logarithms and derivatives included.
    curves : tuple of CurveParameters
        Whose parameters the table has: a row is a cell then, and no run.
    """

    name: str
    data: Data
    knowledge: Knowledge
    left_out: tuple[Exclusion, ...]
    notes: tuple[str, ...]
    derived: Mapping[str, str]
    curves: tuple[CurveParameters, ...] = ()


def made_ready(path: Path, said: Said, *, missing: Literal["error", "drop"] = "error") -> Ready:
    """Read a table, add derived variables, choose what is analysed, and put together what is known of it.

    Parameters
    ----------
    path : of the table, or of a sweep's campaign.
    said : what the author of the model says of it.
    missing : what becomes of rows that lack a value.

    Raises
    ------
    SpecError
        Names of columns that there are not; knowledge that contradicts itself; a simulated cycle count that is asked for.
    DataError
        A table that cannot be analysed.
    """
    try:
        return _made_ready(path, said, missing)
    except DataError as error:
        raise DataError(as_options(str(error))) from None


def _made_ready(path: Path, said: Said, missing: Literal["error", "drop"]) -> Ready:
    frame, columns = read_table(path)
    lacking = what_is_missing(path)
    told = {name: f"{LOGARITHM}{name}" for name in said.logarithms}
    new = [*said.derived, *said.derivatives]
    if not said.curves:
        said.check_names([*frame.columns, *new])
    left_out = _simulated(columns, said.variables or frame.columns)
    frame, definitions = _derived(frame, said, left_out, missing)
    made = _made(frame, said, columns, left_out, missing)
    if made is not None:
        said.check_names([*frame.columns, *made.frame.columns])
        left_out |= made.left_out
        said = replace(said, outputs=(*said.outputs, *_effects(made.results, said)))
        frame = made.frame
    chosen = list(said.variables) or [name for name in frame.columns if name not in left_out]
    for name in said.logarithms:
        if name not in chosen:
            raise SpecError(f"log: {name} is not among the variables that are analysed")
    for name in chosen:
        if name in left_out and name not in frame.columns:
            raise SpecError(f"variables: {name} cannot be one: {left_out[name]}")
    given = [Exclusion(name, why) for name, why in left_out.items()]
    given += [Exclusion(name, "not asked for") for name in frame.columns if name not in chosen and name not in left_out]
    if told:
        frame, _ = derive(frame, logarithms(said.logarithms), undefined="null" if missing == "drop" else "error")
    definitions = _of_logarithms(definitions, told)
    names = [told.get(name, name) for name in chosen]
    kinds = {told.get(name, name): kind for name, kind in said.kinds.items() if name in chosen}
    try:
        data = prepare(frame.select(names), kinds=kinds, missing=missing)
    except DataError as error:
        # Nobody has seen a table that was made here.
        seen = (
            f". The table of {'cells' if said.curves else 'steps'} has {', '.join(frame.columns)}; choose by --variables"
            if made
            else ""
        )
        raise DataError(f"{error}{seen}") from None
    known = {**_sweep_definitions(columns), **definitions}
    knowledge = _knowledge(said, told, _complete(known, data), columns, data)
    derivatives = {name: f"∂{one.of}/∂{one.over}" for name, one in said.derivatives.items()}
    return Ready(
        name=path.resolve().name if path.is_dir() else path.name,
        data=data,
        knowledge=knowledge,
        left_out=tuple(given),
        notes=(*([lacking] if lacking else []), *(made.notes if made else ()), *_notes(said, columns, data, known, knowledge)),
        derived={**said.derived, **derivatives, **logarithms(said.logarithms)},
        curves=made.curves if made else (),
    )


def _made(
    frame: pl.DataFrame,
    said: Said,
    columns: Mapping[str, Column],
    left_out: Mapping[str, str],
    missing: Literal["error", "drop"],
) -> Made | None:
    """Return the table of steps or of cells that is analysed in place of the runs; None where runs are."""
    if said.derivatives and said.curves:
        raise SpecError("derivatives make a table of steps, and curves one of cells: learn a model of each")
    spoken: list[tuple[str, tuple[str, ...]]] = [(name, (one.of, one.over)) for name, one in said.derivatives.items()]
    spoken += [(f"the curve of {one.target}", (one.target, *one.over, *one.cells)) for one in said.curves]
    for what, names in spoken:
        for name in names:
            if name in left_out:
                raise SpecError(f"{what}: {name} cannot be part of a model: {left_out[name]}")
    usable = frame.drop([name for name in left_out if name in frame.columns])
    if said.derivatives:
        # Where nobody says what was varied, the causes that come first were.
        varied = [one.name for one in columns.values() if one.kind == "parameter"] + [*said.inputs]
        varied = varied or [name for tier in said.tiers[:1] for name in tier]
        for name in said.derivatives:
            if name in frame.columns:
                raise SpecError(f"derivatives: the table has a column {name} already; give the derivative another name")
        return made_of_steps(usable, said.derivatives, list(dict.fromkeys(varied)), missing=missing)
    return made_of_curves(usable, said.curves, kinds=said.kinds, missing=missing) if said.curves else None


def _effects(results: Iterable[str], said: Said) -> list[str]:
    """Return derivatives and parameters of curves that are only effects, as in the paper: those of which nothing else is said."""
    placed = {*said.outputs, *(name for tier in said.tiers for name in tier), *(cause for cause, _ in said.required)}
    return [name for name in results if name not in placed]


def _simulated(columns: Mapping[str, Column], asked: Sequence[str]) -> dict[str, str]:
    """Return the columns that simulation makes of other ones, each with the reason why a model cannot have it.

    A simulated cycle count is a formula of the simulated events: a model would find that formula, and not what takes time. Of
    two simulated counts that have events in common the one that is made of more is a sum with the other in it.
    """
    found: dict[str, str] = {}
    simulated = [column for column in columns.values() if column.kind == "simulated"]
    for cycles in (column for column in simulated if column.unit == "cycles"):
        events = ", ".join(part.split(":")[-1] for part in cycles.components)
        found[cycles.name] = f"simulated cycles are no cycles but a formula of {events}; times and real cycles are measured"
        for column in columns.values():
            if column.kind == "derived" and cycles.components and set(cycles.components) <= set(column.components):
                found[column.name] = f"computed from the simulated cycles {cycles.name}"
    kept: list[Column] = []
    for column in sorted(simulated, key=lambda one: len(one.components)):
        if column.name in found or column.name not in asked:
            continue
        other = next((one for one in kept if set(one.components) & set(column.components)), None)
        if other is None:
            kept.append(column)
        else:
            shared = ", ".join(part.split(":")[-1] for part in column.components if part in other.components)
            found[column.name] = f"simulated, and made of the same events as {other.name} ({shared}): related by construction"
    return found


def _derived(
    frame: pl.DataFrame, said: Said, left_out: Mapping[str, str], missing: str
) -> tuple[pl.DataFrame, dict[str, tuple[str, ...]]]:
    """Add derived variables. None can be made of simulated cycles, and these cannot be asked for."""
    frame, definitions = derive(frame, said.derived, undefined="null" if missing == "drop" else "error")
    cycles = {name: why for name, why in left_out.items() if "simulated cycles" in why}
    for name in said.variables:
        if name in cycles:
            raise SpecError(f"{name} cannot be a variable of a model: {cycles[name]}")
    for name, parts in definitions.items():
        for part in parts:
            if part in cycles:
                raise SpecError(f"{name} = {said.derived[name]}: {part} cannot be part of a model: {cycles[part]}")
    return frame, definitions


def _of_logarithms(definitions: Mapping[str, Sequence[str]], told: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return what derived variables are made of, where logarithms stand in the place of some."""
    return {told.get(name, name): tuple(told.get(part, part) for part in parts) for name, parts in definitions.items()}


def _sweep_definitions(columns: Mapping[str, Column]) -> dict[str, tuple[str, ...]]:
    """Return what the derived columns of a sweep are made of: their meaning is their formula."""
    found = {}
    for column in columns.values():
        if column.kind == "derived":
            parts = parse_expression(column.meaning.removeprefix("simulated: ")).names
            if set(parts) <= columns.keys():
                found[column.name] = tuple(parts)
    return found


def _complete(definitions: Mapping[str, Sequence[str]], data: Data) -> dict[str, tuple[str, ...]]:
    """Return the definitions of variables all of whose parts are analysed or constant.

    One of whose parts is not there says too little: C_op = cycles / ops without the cycles is what an operation costs, and no effect of ops.
    """
    constant = {one.name for one in data.exclusions if one.is_constant}
    return {
        name: tuple(part for part in parts if part not in constant)
        for name, parts in definitions.items()
        if name in data.names and all(part in data.names or part in constant for part in parts)
    }


def _knowledge(
    said: Said, told: Mapping[str, str], definitions: Mapping[str, Sequence[str]], columns: Mapping[str, Column], data: Data
) -> Knowledge:
    """Put together what was said with what a sweep knows: nothing causes its parameters, and its times cause nothing."""

    here = {*data.names, *(one.name for one in data.exclusions)}

    def named(names: Iterable[str]) -> list[str]:
        """Return the names under which columns are analysed, of those that are."""
        return [name for name in (told.get(name, name) for name in names) if name in here]

    def edges(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(ends[0], ends[1]) for ends in map(named, pairs) if len(ends) == 2]

    causes = {*(one for one, _ in edges(said.required)), *(part for parts in definitions.values() for part in parts)}
    parameters = named(one.name for one in columns.values() if one.kind == "parameter")
    times = named(one.name for one in columns.values() if one.kind == "time")
    try:
        return Knowledge(
            tiers=[named(tier) for tier in said.tiers],
            required=edges(said.required),
            forbidden=edges(said.forbidden),
            inputs=list(dict.fromkeys((*named(said.inputs), *parameters))),
            outputs=list(dict.fromkeys((*named(said.outputs), *(name for name in times if name not in causes)))),
            definitions=definitions,
        )
    except DataError as error:
        raise SpecError(f"{said.source}: {error}" if said.source else str(error)) from None


def _notes(
    said: Said, columns: Mapping[str, Column], data: Data, definitions: Mapping[str, Sequence[str]], known: Knowledge
) -> tuple[str, ...]:
    """Say what is related by construction, and what is not seen."""
    told = []
    for name, parts in definitions.items():
        used = [part for part in parts if part in data.names]
        if name in data.names and used and len(used) < len(parts):
            lacking = [part for part in parts if part not in data.names]
            told.append(
                f"{name} is computed from {' and '.join(parts)}, and {' and '.join(lacking)} is no variable here: whether {' and '.join(used)} "
                f"is a cause of {name} is learnt, not taken for granted."
            )
    varied = [name for name in known.inputs if name in data.names]
    points = data.frame.select(varied).n_unique() if varied else data.rows
    if _REPEATED * points <= data.rows and points < data.rows:
        told.append(
            f"The {data.rows:,} rows are of {points:,} points of {', '.join(varied)}. Repetitions of a point are no further evidence of what these "
            f"act on, and p-values take them for it: measure more points."
        )
    if data.rows < _FEW_ROWS * len(data.names):
        told.append(
            f"{data.rows:,} rows of {len(data.names)} variables tell strong relations alone: what has no edge may well be related, and among so "
            "many pairs chance finds some."
        )
    simulated = [name for name in data.names if name in columns and columns[name].kind == "simulated"]
    if simulated:
        told.append(f"Simulated, not counted by a processor: {', '.join(simulated)}.")
    here = {
        *data.names,
        *(name.removeprefix(LOGARITHM) for name in data.names if name.removeprefix(LOGARITHM) in said.logarithms),
    }
    told += [
        f"The edge {one} → {other} is {what}, and says nothing: not both are variables here."
        for what, edges in (("required", said.required), ("forbidden", said.forbidden))
        for one, other in edges
        if not {one, other} <= here
    ]
    return tuple(told)
