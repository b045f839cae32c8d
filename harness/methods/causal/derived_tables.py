"""Tables that are derived from the table of runs and replace it: steps of a parameter, curves in cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from unperturbed.analysis.causal import CurveParameters, Kind, curve_parameters, gaps, prepare, step_table
from unperturbed.analysis.causal.table.variables import is_text
from unperturbed.common.wording import first_of, no_such_column
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.methods.causal.knowledge import CurveOption, DerivativeOption


@dataclass(frozen=True)
class DerivedTable:
    """Table that is derived from the table of runs."""

    frame: pl.DataFrame
    results: tuple[str, ...]  # New columns
    left_out: Mapping[str, str]  # Columns of the table of runs that are missing here, and why
    notes: tuple[str, ...]  # Sentences on the meaning of its rows
    curves: tuple[CurveParameters, ...] = ()  # Curves whose parameters are its columns


def tabulate_steps(
    frame: pl.DataFrame,
    derivatives: Mapping[str, DerivativeOption],
    parameters: Sequence[str],
    *,
    missing: Literal["error", "drop"],
) -> DerivedTable:
    """Return the table of the steps of a parameter; see `analysis.causal.step_table`."""
    first = next(iter(derivatives))
    betweens = {derivative.between: name for name, derivative in derivatives.items() if derivative.between}
    for name, derivative in derivatives.items():
        if derivative.over != derivatives[first].over or len(betweens) > 1:
            two = list(betweens.values())[:2] if len(betweens) > 1 else [first, name]
            differing = (
                "have different values after `from` or `to`" if len(betweens) > 1 else "have different parameters"
            )
            raise SpecError(f"the derivatives {' and '.join(two)} {differing}: learn a separate model for each")
    over = derivatives[first].over
    if over not in parameters:
        known = f"the known ones are {', '.join(parameters)}" if parameters else "none is known"
        raise SpecError(
            f"{first}: {over} is not a known input parameter ({known}): name all input parameters with --inputs"
        )
    quantities = {name: derivative.of for name, derivative in derivatives.items()}
    steps = step_table(
        frame, quantities, over, parameters=parameters, between=_between(frame[over], next(iter(betweens), None))
    )
    if missing == "error" and len(steps.missing_rows):
        rows = first_of([str(row) for row in steps.missing_rows.tolist()], 8)
        raise DataError(
            f"{len(steps.missing_rows)} of {frame.height} rows lack a value of {over}, of another parameter or of a "
            f'differentiated quantity (row numbers, counted from 0: {rows}); pass `missing="drop"` to leave them out'
        )
    gone = {exclusion.name: exclusion.why for exclusion in steps.exclusions}
    return DerivedTable(steps.frame, tuple(derivatives), gone, (str(steps),))


def _between(column: pl.Series, texts: tuple[str, str] | None) -> tuple[object, object] | None:
    """Return two values of a parameter with the table's type; an unknown value stays text, for the error message."""
    if texts is None:
        return None
    values = {_written(value): value for value in column.drop_nulls().unique().to_list()}
    first, last = (values.get(_written(_number(text, column)), text) for text in texts)
    return first, last


def _number(text: str, column: pl.Series) -> object:
    try:
        return text if is_text(column.dtype) or column.dtype == pl.Boolean else float(text)
    except ValueError:
        return text


def _written(value: object) -> str:
    return f"{float(value)!r}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value).lower()


def tabulate_curves(
    frame: pl.DataFrame, curves: Sequence[CurveOption], *, kinds: Mapping[str, Kind], missing: Literal["error", "drop"]
) -> DerivedTable:
    """Return the table of the parameters of curves, one row per cell; see `analysis.causal.curve_parameters`."""
    cells = curves[0].cells
    for option in curves[1:]:
        if set(option.cells) != set(cells):
            raise SpecError(
                f"all curves of a model must have the same discrete variables (after `in`), not {', '.join(cells)} for "
                f"one curve and {', '.join(option.cells)} for another: learn a separate model for each"
            )
    used = list(dict.fromkeys(name for option in curves for name in (*option.cells, *option.over, option.target)))
    for name in used:
        if name not in frame.columns:
            raise SpecError(f"a curve needs {name}, but the table has {no_such_column(name, frame.columns)}")
    steady = [name for name in frame.columns if name not in used and _is_steady(frame, name, cells)]
    known = {name: kind for name, kind in kinds.items() if name in {*used, *steady}}
    data = prepare(frame.select(*used, *steady), kinds=known, missing=missing)
    fitted = tuple(curve_parameters(data, option.target, option.over, cells=cells) for option in curves)
    made = fitted[0].frame
    results: list[str] = []
    for curve in fitted:
        new = [name for name in curve.frame.columns if name not in frame.columns]
        made = made.with_columns(curve.frame[name] for name in new)
        results += new
    # A column of another curve may have one value in each cell by chance.
    made = made.drop([name for name in made.columns if name in used and name not in cells])
    gone = {name: f"varies within a cell of {', '.join(cells)}" for name in frame.columns if name not in made.columns}
    gone |= {exclusion.name: exclusion.why for exclusion in data.exclusions if exclusion.name in gone}
    return DerivedTable(made, tuple(results), gone, _curve_notes(fitted, cells, made, results, data.rows), fitted)


def _is_steady(frame: pl.DataFrame, name: str, cells: Sequence[str]) -> bool:
    """Return whether a column has one value in each cell, and no gaps."""
    if gaps(frame[name]).any():
        return False
    return bool((frame.group_by(cells).agg(pl.col(name).n_unique())[name] == 1).all())


def _curve_notes(
    fitted: Sequence[CurveParameters], cells: Sequence[str], made: pl.DataFrame, results: Sequence[str], rows: int
) -> tuple[str, ...]:
    curves = " and ".join(f"{curve.target} over {', '.join(curve.over)}" for curve in fitted)
    rows_are = (
        f"Each row is a cell of {', '.join(cells)}: {made.height:,} cells from {rows:,} runs, each with the parameters "
        f"of its curve of {curves}."
    )
    lacking = [f"{name} ({int(gaps(made[name]).sum())})" for name in results if gaps(made[name]).any()]
    more = f"Parameters that the runs of some cells do not determine (number of cells): {', '.join(lacking)}."
    return (rows_are, more) if lacking else (rows_are,)
