"""A table of steps: runs that differ in one parameter alone become a row, with derivatives over it as variables.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 8.2: "To investigate deeper the
effect of the optimization on the performance, the partial derivative ∂C_op/∂optimization is calculated. [...] By adding
this variable, we can learn on which variables the effect of the optimization depends." The paper adds it to the table
of runs, where the runs of one step all have the same value: a test of independence then counts one piece of evidence
several times. Here a step is a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unperturbed.analysis.causal.derived_tables.derivatives import PartialDerivative, partial_derivative
from unperturbed.analysis.causal.describe import frame_table
from unperturbed.analysis.causal.table.variables import Exclusion, gaps, is_text
from unperturbed.common.result import Result
from unperturbed.common.wording import counted, first_of, listing, no_such_column
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table

_ENDS = ("from", "to")


@dataclass(frozen=True, eq=False, repr=False)
class StepTable(Result):
    """Steps of one parameter.

    Attributes
    ----------
    frame : polars.DataFrame
        One row a step, replicates averaged: the other parameters; the parameter itself, at the middle of the step,
        where steps lie at several places; all other columns, the mean of both ends; and the derivatives.
    over : str
        The parameter.
    held : tuple of str
        The other parameters.
    derivatives : tuple of PartialDerivative
        Their rows are those of the table without `missing_rows`.
    exclusions : tuple of Exclusion
        Columns that a step has no value of.
    unmatched_rows : int64, shape (unmatched,)
        Rows of the runs' table, from 0, that no other one differs from in the parameter alone.
    missing_rows : int64, shape (missing,)
        Rows without a value of a parameter, or of what is derived.
    """

    frame: pl.DataFrame
    over: str
    held: tuple[str, ...]
    derivatives: tuple[PartialDerivative, ...]
    exclusions: tuple[Exclusion, ...]
    unmatched_rows: NDArray[np.int64]
    missing_rows: NDArray[np.int64]

    def headline(self) -> str:
        """Return what a row is, and how many there are."""
        names = listing(one.name for one in self.derivatives)
        return f"{counted(self.frame.height, 'step')} of {self.over}: {names}"

    def tables(self) -> Sequence[Table]:
        """Return the first steps."""
        return (frame_table(self.frame, str(self)),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row a step."""
        return self.frame

    def to_dict(self) -> dict[str, Any]:
        """Return steps, excluded columns and rows that are in no step as plain data."""
        return {
            "over": self.over,
            "held": list(self.held),
            "derivatives": [one.name for one in self.derivatives],
            "steps": self.frame.to_dicts(),
            "exclusions": {one.name: one.why for one in self.exclusions},
            "unmatched_rows": self.unmatched_rows.tolist(),
            "missing_rows": self.missing_rows.tolist(),
        }

    def __str__(self) -> str:
        """Describe the rows, and the runs that are in none."""
        names = first_of([one.name for one in self.derivatives])
        held = f", {first_of(self.held)} held fixed" if self.held else ""
        text = (
            f"A row is a step of {self.over}{held}: {self.frame.height:,} steps give {names}; replicates and both "
            "ends are averaged."
        )
        for rows, what in (
            (self.unmatched_rows, f"differ from no other one in {self.over} alone, and are left out"),
            (self.missing_rows, "lack a value of a parameter or of what is derived, and are left out"),
        ):
            if len(rows):
                shown = first_of([str(row) for row in rows])
                text += f" {len(rows):,} of the rows {what} (from 0: {shown})."
        return text


def step_table(
    frame: pl.DataFrame,
    derivatives: Mapping[str, str],
    over: str,
    *,
    parameters: Sequence[str],
    between: tuple[object, object] | None = None,
) -> StepTable:
    """Compute partial derivatives over a parameter, and the table of its steps.

    Parameters
    ----------
    frame : polars.DataFrame
        One row a run.
    derivatives : mapping of str to str
        {"dT_dkernel": "T"}: names of derivatives, and of what.
    over : str
        The parameter.
    parameters : sequence of str
        All columns that were varied.
    between : tuple of object, optional
        Two values of `over`: use steps between them alone.

    Returns
    -------
    StepTable
        One row a step.

    Raises
    ------
    DataError
        Those of `partial_derivative`; a derivative that has the name of a column; no derivative at all.
    """
    if not derivatives:
        raise DataError(f"name at least one quantity whose derivative over {over} is wanted")
    for name in (*derivatives.values(), over, *parameters):
        if name not in frame.columns:
            raise DataError(no_such_column(name, frame.columns))
    for name in derivatives:
        if name in frame.columns:
            raise DataError(f"the table has a column {name} already; give the derivative another name")
    held = tuple(name for name in parameters if name != over)
    missing = np.logical_or.reduce([gaps(frame[name]) for name in {*derivatives.values(), over, *held}])
    whole = np.flatnonzero(~missing)
    runs = frame[whole]
    found = tuple(
        partial_derivative(runs, of, over, parameters=parameters, between=between, name=name)
        for name, of in derivatives.items()
    )
    steps, gone = _with_means(runs, found[0].steps, over, held)
    steps, also_gone = _with_place(steps, over)
    return StepTable(
        frame=steps.with_columns(one.steps[one.name] for one in found),
        over=over,
        held=held,
        derivatives=found,
        exclusions=(*gone, *also_gone),
        unmatched_rows=whole[found[0].unmatched_rows],
        missing_rows=np.flatnonzero(missing).astype(np.int64),
    )


def _with_means(
    runs: pl.DataFrame, steps: pl.DataFrame, over: str, held: Sequence[str]
) -> tuple[pl.DataFrame, list[Exclusion]]:
    """Return the table of steps with the means of all other columns, and the columns that have none."""
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
            gone.append(Exclusion(name, f"is not the same at both ends of a step of {over}, and has no mean"))
    return made.with_columns(columns), gone


def _at(cells: pl.DataFrame, steps: pl.DataFrame, over: str, held: Sequence[str], end: str) -> pl.DataFrame:
    """Return what the columns are at one end of each step."""
    place = steps[f"{over}_{end}"]
    # Words of an Enum or a Categorical are text in a step.
    ends = cells.with_columns(cells[over].cast(pl.String) if is_text(cells[over].dtype) else cells[over])
    wanted = pl.DataFrame([*(steps[name] for name in held), place.cast(ends[over].dtype).alias(over)])
    return wanted.join(ends, on=[*held, over], how="left", maintain_order="left")


def _with_place(steps: pl.DataFrame, over: str) -> tuple[pl.DataFrame, list[Exclusion]]:
    """Put the middle of each step in the place of its ends, where steps lie at several places and these are numbers."""
    first, last = (steps[f"{over}_{end}"] for end in _ENDS)
    steps = steps.drop(first.name, last.name)
    if first.n_unique() == last.n_unique() == 1:
        return steps, [Exclusion(over, f"each step goes from {first[0]} to {last[0]}")]
    return steps.with_columns(((first.cast(pl.Float64) + last.cast(pl.Float64)) / 2).alias(over)), []
