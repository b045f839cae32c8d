"""`fit_mechanism`: the regression of a node on its parents, section 7.2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unperturbed.analysis.causal.regression.cells import Cells
from unperturbed.analysis.causal.regression.curve_mechanism import fit_curve
from unperturbed.analysis.causal.regression.mechanism import Mechanism
from unperturbed.analysis.causal.regression.problem import Coding, Errors
from unperturbed.analysis.causal.regression.table_mechanism import TableMechanism, shortest_table
from unperturbed.analysis.causal.table.variables import Data
from unperturbed.errors import DataError

_FEWEST_VALUES = 3
"""Minimum number of values for trying a discrete parent as a number: with two, a line equals one value for each."""


def is_counted(data: Data, name: str) -> bool:
    """Return whether a discrete variable is also tried as a number."""
    return data.has_values(name) and len(np.unique(data.codes(name))) >= _FEWEST_VALUES


def fit_mechanism(
    data: Data,
    target: str,
    parents: Sequence[str],
    *,
    level: float = 0.95,
    coding: Coding = "corrected",
    errors: Errors | None = None,
    sharing: bool = True,
    lookup: bool = True,
) -> Mechanism:
    """Fit the regression of a variable on its parents with the shortest description.

    Parameters
    ----------
    data : Data
        The table.
    target : str
        The variable to describe.
    parents : sequence of str
        The variable's parents. Without parents, the target has its own mean and spread, or its own frequencies.
    level : float
        Confidence level of the parameters' intervals.
    coding : {"corrected", "paper"}
        Length of the data: ½n·log₂(RSS/n), or the paper's eq. (16) as printed (the sum of squared errors, which is not
        in bits and depends on the target's unit).
    errors : {"even", "proportional", "factor"}, optional
        How errors grow with the curve; by default the kind that makes the description shortest.
    sharing : bool
        Whether some combinations of discrete parents may share a value that others do not have. False: all share one
        value, or each has its own, as is necessary if the values become data.
    lookup : bool
        Whether the target may have its own value for each value of a discrete parent with three or more numbers. False:
        the parent is used as a number only.

    Returns
    -------
    Mechanism
        A `CurveMechanism` for a continuous target, a `TableMechanism` for a discrete one.

    Raises
    ------
    DataError
        Unknown names; a parent named twice; the target among the parents; fewer than three rows.
    ValueError
        A level that is not between 0 and 1.

    Notes
    -----
    Section 7.2, eq. (14) to (16), with the corrections in `problem`. Curves are sums of terms: polynomials up to degree
    5, inverse, power with a fitted exponent, square root, logarithm, steps, and products of terms of different parents;
    each coefficient and threshold has one value, or one for each value of some or all discrete parents. Errors that
    grow with the curve, and curves that are products, are tried if a positive target spans a factor of 4. A discrete
    parent with three or more numbers is also tried as a number.
    """
    if not 0 < level < 1:
        raise ValueError(f"the confidence level `level` must be above 0 and below 1, not {level}")
    if target in parents or len(set(parents)) < len(parents):
        raise DataError(f"parents of {target} must be other variables, each named once, not {', '.join(parents)}")
    if data.rows < 3:
        raise DataError(f"too few rows to fit {target} ({data.rows}): give at least three")
    for name in (target, *parents):
        data.has_values(name)  # raises for unknown names
    discrete = [name for name in parents if data.kinds[name] == "discrete"]
    if not lookup:
        discrete = [name for name in discrete if not is_counted(data, name)]
    codes = {name: np.array(data.codes(name)) for name in discrete}
    categories = {name: data.categories(name) for name in discrete}
    numbers = {name: np.array(data.values(name)) for name in parents if name not in codes or is_counted(data, name)}
    cells = Cells.of(codes, categories, data.rows, sharing=sharing)
    if data.kinds[target] == "continuous":
        observed = np.array(data.values(target))
        return fit_curve(target, parents, observed, numbers, codes, cells, level=level, coding=coding, errors=errors)
    observed_codes = np.array(data.codes(target))
    table = shortest_table(observed_codes, len(data.categories(target)), numbers, codes)
    return TableMechanism(
        target=target,
        parents=tuple(parents),
        rows=data.rows,
        hypothesis_bits=table.hypothesis_bits,
        data_bits=table.data_bits,
        categories=data.categories(target),
        table=table,
        level=level,
        observed=observed_codes,
        _parents=cells,
        _cells_of_rows=table.cells_of(numbers, codes, data.rows),
    )
