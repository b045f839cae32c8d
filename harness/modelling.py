"""A table made ready for a causal model: read, completed by derived variables, freed of what simulation made up."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from unperturbed.analysis.causal import Data, Exclusion, derive, logarithms, prepare
from unperturbed.analysis.causal.knowledge import Knowledge
from unperturbed.collectors.expressions import parse_expression
from unperturbed.collectors.table import Column, read_sweep
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.model_options import Said

__all__ = ["LOGARITHM", "Ready", "made_ready", "read_table"]

_ABSENT = ["", "NA", "N/A", "null", "NULL", "None"]
LOGARITHM = "log_"
"""What the name of a logarithm begins with."""


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
        Expressions of derived variables, logarithms included.
    """

    name: str
    data: Data
    knowledge: Knowledge
    left_out: tuple[Exclusion, ...]
    notes: tuple[str, ...]
    derived: Mapping[str, str]


def read_table(path: Path) -> tuple[pl.DataFrame, Mapping[str, Column]]:
    """Read a sweep's table, with what is known of its columns, or any CSV or Parquet file, of which nothing is known.

    Raises
    ------
    DataError
        There is no table, or none that can be read.
    """
    if path.is_dir() or _is_sweep(path):
        return read_sweep(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such table; name a CSV or Parquet file, or the folder of a sweep's campaign")
    try:
        return _read(path), {}
    except (pl.exceptions.PolarsError, UnicodeDecodeError, csv.Error) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path}: no table can be read from it ({first}); it is to be CSV with a line of names, or Parquet"
        ) from None


def _is_sweep(path: Path) -> bool:
    if path.name == "table.csv" and path.with_suffix(".json").is_file():
        return True
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return "unperturbed-table" in pl.read_parquet_metadata(path)
    except pl.exceptions.PolarsError:
        return False


def _read(path: Path) -> pl.DataFrame:
    if path.suffix.lower() in (".parquet", ".pq"):
        return pl.read_parquet(path)
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        names = next(csv.reader(file, delimiter=separator), [])
    if len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        raise DataError(
            f"{path}: its first line is one column, {names[0]!r}; separate columns by commas, or by tabs in a .tsv file"
        )
    for number, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{path}: column {number} has no name; the first line names all columns")
        if names.count(name) > 1:
            raise DataError(f"{path}: two columns are named {name}; give each its own name")
    frame = pl.read_csv(path, separator=separator, null_values=_ABSENT, infer_schema_length=None)
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


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
    frame, columns = read_table(path)
    told = {name: f"{LOGARITHM}{name}" for name in said.logarithms}
    said.check_names([*frame.columns, *said.derived])
    left_out = _simulated(columns, said.variables or frame.columns)
    frame, definitions = _derived(frame, said, left_out, missing)
    chosen = list(said.variables) or [name for name in frame.columns if name not in left_out]
    for name in said.logarithms:
        if name not in chosen:
            raise SpecError(f"log: {name} is not among the variables that are analysed")
    given = [Exclusion(name, left_out[name]) for name in columns if name in left_out]
    given += [Exclusion(name, "not asked for") for name in frame.columns if name not in chosen and name not in left_out]
    if told:
        made, _ = derive(frame, logarithms(said.logarithms), undefined="null" if missing == "drop" else "error")
        frame = made
    definitions = _of_logarithms(definitions, told)
    names = [told.get(name, name) for name in chosen]
    kinds = {told.get(name, name): kind for name, kind in said.kinds.items() if name in chosen}
    data = prepare(frame.select(names), kinds=kinds, missing=missing)
    known = {**_sweep_definitions(columns), **definitions}
    knowledge = _knowledge(said, told, _complete(known, data), columns, data)
    return Ready(
        name=path.resolve().name if path.is_dir() else path.name,
        data=data,
        knowledge=knowledge,
        left_out=tuple(given),
        notes=_notes(said, columns, data, known),
        derived={**said.derived, **logarithms(said.logarithms)},
    )


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
    constant = {one.name for one in data.exclusions if one.why.startswith("constant")}
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


def _notes(said: Said, columns: Mapping[str, Column], data: Data, definitions: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
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
