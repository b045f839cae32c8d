"""Mechanism of a node given its parents: the base class of curves and tables.

Lemeire et al., sections 3 and 7.2: the submodel P(X_i | parents(X_i)), written X_i = f_i(parents(X_i)) + U_i.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from unperturbed.analysis.causal.model_text import parameters_table
from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.table.variables import Category, Codes, Floats
from unperturbed.common.result import Result
from unperturbed.common.wording import first_of, listing
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table


Columns = Mapping[str, ArrayLike] | pl.DataFrame
"""Values of the parents: numbers for continuous parents, categories for discrete ones, as in the table."""


@dataclass(frozen=True)
class MechanismCell:
    """Mechanism for some values of the discrete parents.

    Attributes
    ----------
    where : mapping of str to str, bool, int or float
        Values of the discrete parents that make a difference.
    rows : int
        Number of rows with these values.
    formula : str
        The cell's mechanism as text.
    spread : float
        Standard deviation of the cell's residuals; for a discrete target, bits per row.
    """

    where: Mapping[str, Category]
    rows: int
    formula: str
    spread: float


@dataclass(frozen=True)
class Parameter:
    """Fitted number of a mechanism.

    Attributes
    ----------
    name : str
        Meaning of the number: "intercept", "coefficient of n²", "jump of n", "threshold of n", "exponent of n".
    value : float
        The fitted number.
    low, high : float
        Ends of its confidence interval.
    where : tuple of mappings
        Values of discrete parents that the number applies to, one mapping per combination; empty if everywhere.
    """

    name: str
    value: float
    low: float
    high: float
    where: tuple[Mapping[str, Category], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism(Result):
    """Mechanism of a node given its parents.

    Attributes
    ----------
    target : str
        The node.
    parents : tuple of str
        The parents as given; for those that the mechanism uses, see `used`.
    rows : int
        Number of rows of the table that the mechanism was fitted to.
    hypothesis_bits : float
        L(H), eq. (15).
    data_bits : float
        L(D | H), without an unknown constant that depends on the target and the rows alone, so lengths are comparable
        for one target.
    """

    target: str
    parents: tuple[str, ...]
    rows: int
    hypothesis_bits: float
    data_bits: float

    @property
    def bits(self) -> float:
        """The description length L(H) + L(D | H), eq. (14): the shorter, the better the parents explain the target."""
        return self.hypothesis_bits + self.data_bits

    @property
    @abstractmethod
    def used(self) -> tuple[str, ...]:
        """Parents that make a difference to the target."""

    @property
    @abstractmethod
    def formula(self) -> str:
        """The mechanism as text, with numbers; one line per cell if numbers depend on discrete parents."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """All fitted numbers, with their confidence intervals."""

    @property
    @abstractmethod
    def cells(self) -> tuple[MechanismCell, ...]:
        """The mechanism for each combination of discrete parents' values that has its own numbers."""

    @property
    @abstractmethod
    def residuals(self) -> Floats:
        """The residual of each row: float64, shape (rows,)."""

    def headline(self) -> str:
        """Return the target, its parents and the first line of the formula."""
        causes = f"from {listing(self.parents)}" if self.parents else "without parents"
        return f"{self.target} {causes}: {self.formula.partition(chr(10))[0]}"

    def tables(self) -> Sequence[Table]:
        """Return the table of fitted numbers with their intervals."""
        return (parameters_table(self),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per fitted number."""
        names = ("name", "value", "low", "high")
        return pl.DataFrame({name: [getattr(parameter, name) for parameter in self.parameters] for name in names})

    def to_dict(self) -> dict[str, object]:
        """Return the mechanism as plain data: bits, formula, fitted numbers and cells."""
        return {
            "target": self.target,
            "parents": list(self.parents),
            "used": list(self.used),
            "rows": self.rows,
            "bits": {"hypothesis": float(self.hypothesis_bits), "data": float(self.data_bits)},
            "formula": self.formula,
            "parameters": [
                {**asdict(parameter), "where": [dict(each) for each in parameter.where]}
                for parameter in self.parameters
            ],
            "cells": [{**asdict(cell), "where": dict(cell.where)} for cell in self.cells],
        }

    @abstractmethod
    def values_of(self, rows: Codes) -> list[Category] | Floats:
        """Return the target's values in some rows of the table."""

    @abstractmethod
    def predict(self, columns: Columns) -> tuple[Floats, Floats] | Floats:
        """Return the target's expected values, or its probabilities.

        Parameters
        ----------
        columns : mapping of str to array_like, or polars.DataFrame
            Values of the parents that are `used`, each of shape (rows,), or single values.

        Returns
        -------
        mean : array of float64, shape (rows,)
            Expected values of a continuous target.
        standard_deviation : array of float64, shape (rows,)
            Standard deviation of a new run of a continuous target, from errors and uncertain parameters together.
        probabilities : array of float64, shape (rows, categories)
            Probabilities of a discrete target, instead of the two above.

        Raises
        ------
        DataError
            A parent without values, values of a discrete parent that were not in the table, numbers at which the
            formula has no value.
        """

    @abstractmethod
    def draw(self, columns: Columns, random: np.random.Generator, rows: int | None = None) -> list[Category] | Floats:
        """Return a random value of the target for each row; see `predict`. Without parents, return `rows` values."""

    @abstractmethod
    def log_density(self, columns: Columns, values: Sequence[object] | Floats) -> Floats:
        """Return the natural logarithm of the density or probability of values of the target; see `predict`."""


class Inputs:
    """Values of parents, checked and converted for a curve or a table; categories become codes on demand."""

    def __init__(
        self, columns: Columns, cells: Cells, numeric: Sequence[str], needed: Sequence[str], rows: int | None = None
    ) -> None:
        self._cells = cells
        by_name: dict[str, list[object]] = {}
        for name in needed:
            if name not in columns:
                raise DataError(f"the prediction depends on {name}: give its values")
            column = columns[name]
            values = column.to_list() if isinstance(column, pl.Series) else np.atleast_1d(np.asarray(column)).tolist()
            by_name[name] = values
        lengths = {len(values) for values in by_name.values()} - {1}
        if len(lengths) > 1:
            shown = ", ".join(f"{name} has {len(values)}" for name, values in by_name.items())
            raise DataError(f"each parent needs one value, or as many values as the other parents: {shown}")
        self.rows = rows if rows is not None else lengths.pop() if lengths else 1
        self._values = {name: values * self.rows if len(values) == 1 else values for name, values in by_name.items()}
        self.numbers = {name: _numbers(name, self._values[name]) for name in needed if name in numeric}
        self._codes: dict[str, Codes] = {}

    def codes(self, names: Sequence[str]) -> Mapping[str, Codes]:
        """Return codes of discrete parents: int64, shape (rows,)."""
        for name in names:
            if name not in self._codes:
                self._codes[name] = self._cells.coded(name, self._values[name])
        return self._codes

    def ids(self, scope: Scope) -> Codes:
        """Return the index of each row's value in a scope; raise DataError for a combination that the table lacks."""
        ids = self._cells.ids(scope, self.codes(scope.names), self.rows)
        if (ids < 0).any():
            row = int(np.flatnonzero(ids < 0)[0])
            shown = ", ".join(f"{name}={self._values[name][row]}" for name in scope.names)
            raise DataError(f"no run has the combination {shown}: measure it, or choose other values")
        return ids


def _numbers(name: str, values: Sequence[object]) -> Floats:
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} needs numbers, not {first_of([repr(value) for value in values])}") from None
    if not np.isfinite(numbers).all():
        raise DataError(f"{name} needs finite numbers, not {numbers[~np.isfinite(numbers)][0]}")
    return numbers
