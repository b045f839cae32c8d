"""Partial derivatives of a measured quantity with respect to a parameter, and the table of the parameter's steps.

Lemeire et al., section 7.3: (∂f/∂x)_{y,z}. From these, sections 8.2 and 8.5 learn what the effect of a parameter
depends on. The paper does not say how they are computed; here rows are grouped by all other parameters, replicates are
averaged, and the difference between neighbours is divided by their difference in x. The paper adds a derivative to the
table of runs, where all runs of one step have the same value, so an independence test counts one piece of evidence
several times. In the table of steps, each step is one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unperturbed.analysis.causal.model_text import frame_table
from unperturbed.analysis.causal.table.variables import Exclusion, gaps, is_text
from unperturbed.common.result import Result
from unperturbed.common.wording import counted, first_of, listing, no_such_column
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table


_OVER = "over"
_MEAN = "mean"


@dataclass(frozen=True, eq=False, repr=False)
class PartialDerivative(Result):
    """Partial derivative: its steps, and its value in each row of the table.

    Attributes
    ----------
    name, of, over : str
        Name of the derivative, quantity and parameter: "dT_dkernel", "T" and "kernel".
    steps : polars.DataFrame
        One row per step from one value of the parameter to the next, with all other parameters equal: the other
        parameters; `{over}_from` and `{over}_to`; the derivative, under its name; `standard_error` (null if either end
        has a single run); and `replicates`, the smaller number of runs of the two ends. Each step occurs once, so
        independence tests on this table count its evidence once.
    values : polars.Series, float64, shape (rows,)
        The derivative at each row of the table, named `name`: the difference quotient between neighbours; between two
        steps, their mean weighted towards the shorter step (the second-order formula). Runs of one group share their
        steps, so a test on the whole table counts each step several times and is overconfident. Null in the rows below.
    unmatched_rows : int64, shape (unmatched,)
        Rows, counted from 0, without another row that differs in this parameter alone.
    missing_rows : int64, shape (missing,)
        Rows without a value of the quantity or of a parameter.
    """

    name: str
    of: str
    over: str
    steps: pl.DataFrame
    values: pl.Series
    unmatched_rows: NDArray[np.int64]
    missing_rows: NDArray[np.int64]

    def headline(self) -> str:
        """Return the derivative and its number of steps."""
        return f"{self.name}: ∂{self.of}/∂{self.over} from {counted(self.steps.height, 'step')}"

    def tables(self) -> Sequence[Table]:
        """Return the table of steps."""
        return (frame_table(self.steps, f"Steps of {self.over}"),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per step."""
        return self.steps

    def to_dict(self) -> dict[str, Any]:
        """Return the steps and the rows without a value as plain data."""
        return {
            "name": self.name,
            "of": self.of,
            "over": self.over,
            "steps": self.steps.to_dicts(),
            "unmatched_rows": self.unmatched_rows.tolist(),
            "missing_rows": self.missing_rows.tolist(),
        }


def partial_derivative(
    frame: pl.DataFrame,
    of: str,
    over: str,
    *,
    parameters: Sequence[str],
    between: tuple[object, object] | None = None,
    name: str | None = None,
) -> PartialDerivative:
    """Compute ∂of/∂over with all other parameters held constant.

    Parameters
    ----------
    frame : polars.DataFrame
        One row per run.
    of : str
        The quantity: a column of numbers.
    over : str
        The parameter. For numbers, the difference of the quantity is divided by that of the numbers; false and true
        count as 0 and 1. For text with two values, the derivative is the difference from the first to the second in
        alphabetical order (or an Enum's own order). For text with more values, give `between`.
    parameters : sequence of str
        All input parameters of the experiment; may include `over`. Rows that agree in the others form a group.
    between : tuple of object, optional
        Two values of `over`: only steps between them are used. For text, the difference is the second less the first.
    name : str, optional
        Name of the derivative, by default "d{of}_d{over}".

    Returns
    -------
    PartialDerivative
        Slopes of the steps, and the derivative at each row.

    Raises
    ------
    DataError
        Unknown columns; a quantity that is not numeric; text with more than two values and no `between`; values that do
        not occur; no two matching rows.
    """
    others = [parameter for parameter in parameters if parameter != over]
    name = name or f"d{of}_d{over}"
    _check(frame, of, over, others, name)
    position, labels = _positions(frame[over], between)
    missing = np.logical_or.reduce([gaps(frame[column]) for column in (of, over, *others)])
    # Without other parameters, all rows form one group.
    key = [pl.lit(0).alias("group"), *(frame[parameter].alias(f"key {parameter}") for parameter in others)]
    keys = ["group", *(f"key {parameter}" for parameter in others)]
    rows = pl.DataFrame(
        {"row": np.arange(frame.height), _OVER: position, _MEAN: frame[of].cast(pl.Float64)}
    ).with_columns(key)
    usable = rows.filter(pl.Series(~missing) & pl.col(_OVER).is_not_null())
    cells = _cells(usable, keys)
    steps = cells.filter(pl.col("slope").is_not_null())
    if steps.is_empty():
        held = f" and agree in {first_of(others)}" if others else ""
        ends = f" ({between[0]!r} and {between[1]!r})" if between else ""
        raise DataError(
            f"no two complete rows differ in {over}{ends}{held}, so {name} has no value: measure runs that differ in "
            f"{over} alone"
        )
    joined = usable.select("row", *keys, _OVER).join(cells, on=[*keys, _OVER], how="left", nulls_equal=True)
    values = pl.DataFrame({"row": np.arange(frame.height)}).join(
        joined.select("row", "derivative"), on="row", how="left", maintain_order="left"
    )
    derivative = values["derivative"].alias(name)
    return PartialDerivative(
        name=name,
        of=of,
        over=over,
        steps=_labelled_steps(steps, others, over, name, labels),
        values=derivative,
        unmatched_rows=np.flatnonzero(derivative.is_null().to_numpy() & ~missing).astype(np.int64),
        missing_rows=np.flatnonzero(missing).astype(np.int64),
    )


def _check(frame: pl.DataFrame, of: str, over: str, others: Sequence[str], name: str) -> None:
    """Reject columns that have no derivative, and names that are already taken."""
    for column in (of, over, *others):
        if column not in frame.columns:
            raise DataError(no_such_column(column, frame.columns))
    if of in {over, *others}:
        raise DataError(f"{of} is itself a parameter: choose a measured quantity to differentiate")
    if not (frame[of].dtype.is_numeric() or frame[of].dtype == pl.Boolean):
        raise DataError(f"{of} has type {frame[of].dtype}, but only numbers have a derivative: choose a numeric column")
    taken = {f"{over}_from", f"{over}_to", name, "standard_error", "replicates"} & set(others)
    if taken:
        raise DataError(f"parameter `{taken.pop()}` has the name of a result column: rename the parameter")
    if len(set(others)) < len(others):
        raise DataError(f"a parameter is named twice in {', '.join(others)}: name each parameter once")


def _positions(column: pl.Series, between: tuple[object, object] | None) -> tuple[pl.Series, dict[float, object]]:
    """Return each row's position along the parameter (null for unused rows), and the parameter's value by position."""
    values = column.cast(pl.String) if isinstance(column.dtype, pl.Categorical) else column
    distinct = values.drop_nulls().unique().sort().to_list()
    if len(distinct) < 2:
        raise DataError(
            f"a derivative needs at least two values of {column.name}, but the table has {len(distinct)}: "
            "measure runs with other values"
        )
    if between is not None:
        absent = [value for value in between if value not in distinct]
        if absent or between[0] == between[1]:
            known = first_of([repr(value) for value in distinct])
            raise DataError(
                f"steps of {column.name} cannot be from {between[0]!r} to {between[1]!r}: choose two different values "
                f"from {known}"
            )
    if is_text(column.dtype):
        ends = list(between or distinct)
        if len(ends) != 2:
            known = first_of([repr(value) for value in ends])
            raise DataError(
                f"{column.name} is text with {len(ends)} values ({known}), and the distances between these are "
                f"unknown: choose two values, as in `between={tuple(ends[:2])!r}`"
            )
        position = values.cast(pl.String).replace_strict(
            {str(end): float(at) for at, end in enumerate(ends)}, default=None
        )
        return position.cast(pl.Float64), dict(enumerate(ends))
    position = values.cast(pl.Float64)
    if between is not None:
        position = position.set(~values.is_in(list(between)).fill_null(value=False), None)
    return position, {float(value): value for value in distinct}


def _cells(usable: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return one row per group and parameter value: mean of replicates, slope to the next value, derivative."""
    mean, spread, count = pl.col(_MEAN).mean(), pl.col(_MEAN).var(), pl.len()
    cells = usable.group_by(*keys, _OVER, maintain_order=True).agg(mean, spread.alias("variance"), count.alias("runs"))
    # Groups in order of first appearance, each with the parameter ascending.
    cells = (
        cells.with_row_index("cell")
        .with_columns(first=pl.col("cell").first().over(keys))
        .sort("first", _OVER, maintain_order=True)
    )
    following = {column: pl.col(column).shift(-1).over(keys) for column in (_OVER, _MEAN, "variance", "runs")}
    cells = cells.with_columns(**{f"{column} next": value for column, value in following.items()})
    length = pl.col(f"{_OVER} next") - pl.col(_OVER)
    cells = cells.with_columns(length=length, slope=(pl.col(f"{_MEAN} next") - pl.col(_MEAN)) / length)
    before, length_before = (pl.col(column).shift(1).over(keys) for column in ("slope", "length"))
    # Second order on uneven steps: the nearer neighbour counts more.
    inner = (pl.col("length") * before + length_before * pl.col("slope")) / (pl.col("length") + length_before)
    return cells.with_columns(derivative=pl.coalesce(inner, "slope", before))


def _labelled_steps(
    steps: pl.DataFrame, others: Sequence[str], over: str, name: str, labels: Mapping[float, object]
) -> pl.DataFrame:
    """Return the steps with the column names of the resulting table."""
    error = (pl.col("variance") / pl.col("runs") + pl.col("variance next") / pl.col("runs next")).sqrt() / pl.col(
        "length"
    )
    ends = [
        pl.Series(f"{over}_{end}", [labels[at] for at in steps[column]])
        for end, column in (("from", _OVER), ("to", f"{_OVER} next"))
    ]
    return steps.select(
        *(pl.col(f"key {parameter}").alias(parameter) for parameter in others),
        *ends,
        pl.col("slope").alias(name),
        error.alias("standard_error"),
        pl.min_horizontal("runs", "runs next").alias("replicates"),
    )


_ENDS = ("from", "to")


@dataclass(frozen=True, eq=False, repr=False)
class StepTable(Result):
    """Table of the steps of one parameter.

    Attributes
    ----------
    frame : polars.DataFrame
        One row per step, with replicates averaged: the other parameters; the parameter itself, at the middle of the
        step, if steps differ in position; all other columns, as the mean of both ends; and the derivatives.
    over : str
        The parameter.
    held : tuple of str
        The other parameters.
    derivatives : tuple of PartialDerivative
        The derivatives; their rows are those of the table without `missing_rows`.
    exclusions : tuple of Exclusion
        Columns that have no value for a step.
    unmatched_rows : int64, shape (unmatched,)
        Rows of the table of runs, counted from 0, without another row that differs in this parameter alone.
    missing_rows : int64, shape (missing,)
        Rows without a value of a parameter or of a differentiated quantity.
    """

    frame: pl.DataFrame
    over: str
    held: tuple[str, ...]
    derivatives: tuple[PartialDerivative, ...]
    exclusions: tuple[Exclusion, ...]
    unmatched_rows: NDArray[np.int64]
    missing_rows: NDArray[np.int64]

    def headline(self) -> str:
        """Return the number of steps and the names of the derivatives."""
        names = listing(derivative.name for derivative in self.derivatives)
        return f"{counted(self.frame.height, 'step')} of {self.over}: {names}"

    def tables(self) -> Sequence[Table]:
        """Return a table of the first steps."""
        return (frame_table(self.frame, str(self)),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per step."""
        return self.frame

    def to_dict(self) -> dict[str, Any]:
        """Return the steps, the excluded columns and the rows that belong to no step as plain data."""
        return {
            "over": self.over,
            "held": list(self.held),
            "derivatives": [derivative.name for derivative in self.derivatives],
            "steps": self.frame.to_dicts(),
            "exclusions": {exclusion.name: exclusion.why for exclusion in self.exclusions},
            "unmatched_rows": self.unmatched_rows.tolist(),
            "missing_rows": self.missing_rows.tolist(),
        }

    def __str__(self) -> str:
        """Describe the steps, and list the rows that were left out of the table of runs."""
        names = first_of([derivative.name for derivative in self.derivatives])
        held = f", {first_of(self.held)} held fixed" if self.held else ""
        text = (
            f"Each row is a step of {self.over}{held}: {self.frame.height:,} steps give {names}; values are averaged "
            "over replicates and over both ends of a step."
        )
        for rows, why in (
            (self.unmatched_rows, f"no other row differs from them in {self.over} alone"),
            (self.missing_rows, "they lack a value of a parameter or of a differentiated quantity"),
        ):
            if len(rows):
                shown = first_of([str(row) for row in rows])
                text += f" Rows left out because {why}: {len(rows):,} (row numbers, counted from 0: {shown})."
        return text


def step_table(
    frame: pl.DataFrame,
    derivatives: Mapping[str, str],
    over: str,
    *,
    parameters: Sequence[str],
    between: tuple[object, object] | None = None,
) -> StepTable:
    """Compute partial derivatives with respect to a parameter, and the table of its steps.

    Parameters
    ----------
    frame : polars.DataFrame
        One row per run.
    derivatives : mapping of str to str
        The quantity of each derivative, by the derivative's name: {"dT_dkernel": "T"}.
    over : str
        The parameter.
    parameters : sequence of str
        All input parameters of the experiment.
    between : tuple of object, optional
        Two values of `over`: only steps between them are used.

    Returns
    -------
    StepTable
        One row per step.

    Raises
    ------
    DataError
        As for `partial_derivative`; also a derivative with the name of a column, or no derivative at all.
    """
    if not derivatives:
        raise DataError(f"name at least one quantity to differentiate with respect to {over}")
    for name in (*derivatives.values(), over, *parameters):
        if name not in frame.columns:
            raise DataError(no_such_column(name, frame.columns))
    for name in derivatives:
        if name in frame.columns:
            raise DataError(f"the table already has a column {name}: give the derivative a different name")
    held = tuple(name for name in parameters if name != over)
    missing = np.logical_or.reduce([gaps(frame[name]) for name in {*derivatives.values(), over, *held}])
    whole = np.flatnonzero(~missing)
    runs = frame[whole]
    partial_derivatives = tuple(
        partial_derivative(runs, of, over, parameters=parameters, between=between, name=name)
        for name, of in derivatives.items()
    )
    steps, gone = _with_means(runs, partial_derivatives[0].steps, over, held)
    steps, also_gone = _with_place(steps, over)
    return StepTable(
        frame=steps.with_columns(derivative.steps[derivative.name] for derivative in partial_derivatives),
        over=over,
        held=held,
        derivatives=partial_derivatives,
        exclusions=(*gone, *also_gone),
        unmatched_rows=whole[partial_derivatives[0].unmatched_rows],
        missing_rows=np.flatnonzero(missing).astype(np.int64),
    )


def _with_means(
    runs: pl.DataFrame, steps: pl.DataFrame, over: str, held: Sequence[str]
) -> tuple[pl.DataFrame, list[Exclusion]]:
    """Return the table of steps with the means of all other columns, and the columns without a mean."""
    others = [name for name in runs.columns if name not in {over, *held}]
    many = {name: runs[name].dtype.is_numeric() or runs[name].dtype == pl.Boolean for name in others}
    cells = runs.group_by([*held, over], maintain_order=True).agg(
        *(pl.col(name).first().alias(f"first {number}") for number, name in enumerate(others)),
        *(pl.col(name).n_unique().alias(f"distinct {number}") for number, name in enumerate(others)),
        *(
            pl.col(name).cast(pl.Float64).mean().alias(f"mean {number}")
            for number, name in enumerate(others)
            if many[name]
        ),
    )
    made = steps.select(*held, *(f"{over}_{end}" for end in _ENDS))
    at = {end: _at(cells, made, over, held, end) for end in _ENDS}
    columns, gone = [], []
    for number, name in enumerate(others):
        first = [at[end][f"first {number}"] for end in _ENDS]
        alone = all((at[end][f"distinct {number}"] == 1).all() for end in _ENDS)
        if alone and first[0].eq_missing(first[1]).all():
            columns.append(first[0].alias(name))
        elif many[name]:
            means = [at[end][f"mean {number}"] for end in _ENDS]
            columns.append(((means[0] + means[1]) / 2).alias(name))
        else:
            gone.append(Exclusion(name, f"differs between the two ends of a step of {over}, and text has no mean"))
    return made.with_columns(columns), gone


def _at(cells: pl.DataFrame, steps: pl.DataFrame, over: str, held: Sequence[str], end: str) -> pl.DataFrame:
    """Return the columns' values at one end of each step."""
    place = steps[f"{over}_{end}"]
    # Values of an Enum or a Categorical are text in a step.
    ends = cells.with_columns(cells[over].cast(pl.String) if is_text(cells[over].dtype) else cells[over])
    wanted = pl.DataFrame([*(steps[name] for name in held), place.cast(ends[over].dtype).alias(over)])
    return wanted.join(ends, on=[*held, over], how="left", maintain_order="left")


def _with_place(steps: pl.DataFrame, over: str) -> tuple[pl.DataFrame, list[Exclusion]]:
    """Replace the ends of each step by its middle; drop them if all steps have the same ends."""
    first, last = (steps[f"{over}_{end}"] for end in _ENDS)
    steps = steps.drop(first.name, last.name)
    if first.n_unique() == last.n_unique() == 1:
        return steps, [Exclusion(over, f"all steps are from {first[0]} to {last[0]}")]
    return steps.with_columns(((first.cast(pl.Float64) + last.cast(pl.Float64)) / 2).alias(over)), []
