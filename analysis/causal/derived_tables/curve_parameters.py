"""Parameters of fitted curves as variables: one row per cell of the discrete variables, one column per parameter.

Lemeire et al., section 7.3. Section 8.3 applies this to the jump and the threshold of cache misses, eq. (17), and to
the cycles per instruction and per miss, eq. (18).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from unperturbed.analysis.causal.model_text import curve_table
from unperturbed.analysis.causal.regression.fit import fit_mechanism
from unperturbed.analysis.causal.regression.mechanism import Mechanism, Parameter
from unperturbed.analysis.causal.table.variables import Data, Kind, prepare
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.result import Result, finite_or_none
from unperturbed.common.wording import counted, listing
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table

special = LazyLibrary("scipy.special")

_LOCATED = 0.05
"""Significance level of a cell's jump at the best of all thresholds."""
_JUMPS: Mapping[str, Callable[[float], float]] = {"jump of": float, "factor of": math.log}
"""Parameters that belong to a threshold, and the scale on which 0 means no jump."""


@dataclass(frozen=True, eq=False, repr=False)
class CurveParameters(Result):
    """Parameters of one curve in each cell.

    Attributes
    ----------
    target : str
        The variable that the curves describe.
    over : tuple of str
        The numeric variables that the curves are functions of.
    frame : polars.DataFrame
        One row per cell, in order of first appearance: the cells' variables; all other variables with one value in
        each cell, such as the elementsize of a datatype; and the parameters, named `{target}_{parameter}`:
        "L2M_op_jump_of_n", "L2M_op_threshold_of_n". A parameter that is the same in all cells, because that shortens
        the description, is a constant column. Null: the cell's runs do not determine the parameter.
    intervals : polars.DataFrame
        One row per cell and parameter: the cells' variables, `runs`, `parameter`, `value`, `low`, `high`.
    mechanism : Mechanism
        The curve, fitted to all cells at once; it has values of discrete variables as text.
    """

    target: str
    over: tuple[str, ...]
    frame: pl.DataFrame
    intervals: pl.DataFrame
    mechanism: Mechanism

    def headline(self) -> str:
        """Return the curve's variables and the number of cells."""
        return f"{self.target} over {listing(self.over)} in {counted(self.frame.height, 'cell')}"

    def tables(self) -> Sequence[Table]:
        """Return the table of parameters with their intervals."""
        return (curve_table(self),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per cell, one column per parameter."""
        return self.frame

    def to_dict(self) -> dict[str, Any]:
        """Return the formula, the parameters and their intervals as plain data; NaN becomes None."""
        return {
            "target": self.target,
            "over": list(self.over),
            "formula": self.mechanism.formula,
            "parameters": [{name: _plain(value) for name, value in row.items()} for row in self.intervals.to_dicts()],
        }


def _plain(value: object) -> object:
    if isinstance(value, float):
        return finite_or_none(value)
    return value if isinstance(value, str | int) or value is None else str(value)


def curve_parameters(
    data: Data, target: str, over: str | Sequence[str], *, cells: Sequence[str], level: float = 0.95
) -> CurveParameters:
    """Fit one form of curve to all cells, and return its parameters in each cell.

    Parameters
    ----------
    data : Data
        The table of runs.
    target : str
        The variable that the curves describe, such as L2M_op.
    over : str or sequence of str
        Numeric variables that the curves are functions of: n, or instr_op and L2M_op for C_op.
    cells : sequence of str
        Discrete variables; each combination of their values has its own curve.
    level : float
        Confidence level of the intervals, from 0 to 1.

    Returns
    -------
    CurveParameters
        Its `frame` can be passed to `prepare`, which makes the parameters variables.

    Raises
    ------
    DataError
        Unknown names; continuous cells; a target or `over` variable that is text or constant; a single cell; a variable
        with the name of a result column.

    Notes
    -----
    The form is chosen once for all cells by description length (`fit_mechanism`), so parameters are comparable; the
    paper fits each curve separately and compares curves that happen to have similar shapes. A parameter has one value
    for all cells, or a separate value for each cell, from that cell's runs: values shared by some cells would look like
    agreeing observations in the table. A threshold is given only if its jump is significant at the best of all
    positions (Bonferroni over the cell's positions, 5 %): data of a type that always fit the cache show no threshold.
    """
    over = (over,) if isinstance(over, str) else tuple(over)
    cells = tuple(cells)
    if not over or not cells:
        raise DataError(
            f"curves of {target} need at least one numeric variable, in `over`, and at least one discrete variable, "
            "in `cells`"
        )
    if len({target, *over, *cells}) < 1 + len(over) + len(cells):
        raise DataError(
            f"a variable is named twice in {', '.join([target, *over, *cells])}: name each variable once, as "
            "`target`, in `over` or in `cells`"
        )
    rows_of_cells, runs, places_of = _cells(data, over, cells)
    curves = _with_text_cells(data, [target, *over], cells)
    mechanism = fit_mechanism(curves, target, [*over, *cells], level=level, sharing=False)
    of_cells = [_in_cell(mechanism.parameters, where, places, level) for where, places in places_of]
    most = Counter[str]()
    for here in of_cells:
        most |= Counter(parameter.name for parameter, _ in here)
    determined = [
        (number, _column(target, parameter.name, copy), parameter)
        for number, here in enumerate(of_cells)
        for parameter, copy in _numbered(here, most)
    ]
    columns = dict.fromkeys(name for _, name, _ in determined)
    taken = (set(columns) & set(rows_of_cells.columns)) | ({"runs", "parameter", "value", "low", "high"} & set(cells))
    if taken:
        raise DataError(f"variable `{min(taken)}` has the name of a result column: rename the variable")
    values = {(number, name): parameter.value for number, name, parameter in determined}
    frame = rows_of_cells.with_columns(
        pl.Series(name, [values.get((row, name)) for row in range(len(of_cells))], pl.Float64) for name in columns
    )
    which = frame.select(*cells, pl.Series("runs", runs))[[number for number, _, _ in determined]]
    intervals = which.with_columns(
        pl.Series("parameter", [name for _, name, _ in determined], pl.String),
        *(
            pl.Series(part, [getattr(parameter, part) for _, _, parameter in determined], pl.Float64)
            for part in ("value", "low", "high")
        ),
    )
    return CurveParameters(target, over, frame, intervals, mechanism)


def _with_text_cells(data: Data, numbers: Sequence[str], cells: Sequence[str]) -> Data:
    """Return the curves' data with discrete variables as text, because numbers would become part of the formula."""
    texts = [pl.Series(name, [str(data.categories(name)[code]) for code in data.codes(name)]) for name in cells]
    continuous: dict[str, Kind] = dict.fromkeys(numbers, "continuous")
    discrete: dict[str, Kind] = dict.fromkeys(cells, "discrete")
    for name in numbers:
        data.values(name)
    return prepare(data.frame.select(numbers).with_columns(texts), kinds=continuous | discrete)


def _cells(
    data: Data, over: Sequence[str], cells: Sequence[str]
) -> tuple[pl.DataFrame, list[int], list[tuple[dict[str, str], int]]]:
    """Return the table of cells, the runs in each, and each cell's values as text with its count of `over` values.

    The table of cells also has the other variables with one value in each cell.
    """
    named = data.frame.with_columns(
        pl.Series(f"text {name}", [str(data.categories(name)[code]) for code in data.codes(name)]) for name in cells
    )
    others = [name for name in data.names if name not in {*over, *cells}]
    table = named.group_by(cells, maintain_order=True).agg(
        pl.len().alias("number of runs"),
        pl.struct(over).n_unique().alias("number of places"),
        pl.col(others).first(),
        *(pl.col(f"text {name}").first() for name in cells),
        *(pl.col(name).n_unique().alias(f"distinct {name}") for name in others),
    )
    if table.height < 2:
        raise DataError(
            f"all runs have the same {' and '.join(cells)}, so there is only one curve, and no variable can "
            "explain its parameters: choose discrete variables that differ between runs"
        )
    kept = [*cells, *(name for name in others if (table[f"distinct {name}"] == 1).all())]
    texts = [dict(zip(cells, row, strict=True)) for row in table.select(f"text {name}" for name in cells).iter_rows()]
    places = list(zip(texts, table["number of places"].to_list(), strict=True))
    return table.select(kept), table["number of runs"].to_list(), places


def _in_cell(
    parameters: Sequence[Parameter], cell: Mapping[str, str], places: int, level: float
) -> list[tuple[Parameter, bool]]:
    """Return the parameters that apply to a cell, and whether the cell's runs determine each of them."""
    here = [
        parameter
        for parameter in parameters
        if not parameter.where or any(where.items() <= cell.items() for where in parameter.where)
    ]
    unlocated: set[int] = set()
    for jump, scale in _JUMPS.items():
        for about in {parameter.name.removeprefix(jump) for parameter in here if parameter.name.startswith(jump)}:
            jumps = [parameter for parameter in here if parameter.name == jump + about]
            thresholds = [parameter for parameter in here if parameter.name == "threshold of" + about]
            # Both are in the order of the curve's steps; if a step has several terms, the pairs are unknown.
            if len(jumps) == len(thresholds):
                unlocated |= {
                    id(threshold)
                    for parameter, threshold in zip(jumps, thresholds, strict=True)
                    if not _is_significant(parameter, scale, places, level)
                }
    return [(parameter, id(parameter) not in unlocated) for parameter in here]


def _is_significant(jump: Parameter, scale: Callable[[float], float], places: int, level: float) -> bool:
    """Return whether a jump is significant, given that its position was chosen as the best of all positions."""
    deviation = (scale(jump.high) - scale(jump.low)) / 2 / special.ndtri(0.5 + level / 2)
    return bool(abs(scale(jump.value)) > deviation * special.ndtri(1 - _LOCATED / 2 / places))


def _numbered(here: Sequence[tuple[Parameter, bool]], most: Mapping[str, int]) -> Iterator[tuple[Parameter, int]]:
    """Yield a cell's determined parameters, each with its number among those of the same name (0 for a single one)."""
    counts = Counter(parameter.name for parameter, _ in here)
    seen = Counter[str]()
    for parameter, is_determined in here:
        seen[parameter.name] += 1
        # If a cell lacks one of several, it is unknown which one.
        if is_determined and counts[parameter.name] == most[parameter.name]:
            yield parameter, seen[parameter.name] if most[parameter.name] > 1 else 0


def _column(target: str, parameter: str, copy: int) -> str:
    """Return the name of a parameter's column."""
    suffix = re.sub(r"\W+", "_", parameter)
    return f"{target}_{suffix}_{copy}" if copy else f"{target}_{suffix}"
