"""Mechanisms of discrete variables: probability tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from unperturbed.analysis.causal.regression.cells import Cells
from unperturbed.analysis.causal.regression.mechanism import Cell, Columns, Inputs, Mechanism
from unperturbed.analysis.causal.regression.parameters import Parameter
from unperturbed.analysis.causal.regression.tables import Table
from unperturbed.analysis.causal.variables import Category
from unperturbed.errors import DataError

__all__ = ["TableMechanism"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableMechanism(Mechanism):
    """A discrete variable as a table of probabilities, one row for each cell of its parents.

    Attributes
    ----------
    categories : tuple
        Values of the target, in the order of the table's columns.
    table : Table
    level : float
        Of the parameters' intervals.
    observed : int64, shape (rows,)
        Codes of the target.
    """

    categories: tuple[Category, ...]
    table: Table
    level: float
    observed: Codes
    _parents: Cells
    _numeric: tuple[str, ...]
    _cells_of_rows: Codes

    @property
    def used(self) -> tuple[str, ...]:
        """Parents that make a difference."""
        return tuple(name for name in self.parents if name in self.table.names or name in self.table.cuts)

    @cached_property
    def formula(self) -> str:
        """The mechanism as text."""
        return "\n".join(cell.formula for cell in self.cells)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Probabilities with Wilson's intervals, and cuts, whose intervals are not known (the cut itself, twice)."""
        reach = float(special.ndtri(0.5 + self.level / 2))
        found = []
        for row, counts in enumerate(self.table.counts.tolist()):
            where, given = self._discrete(row), self._given(row)
            for category, count in zip(self.categories, counts, strict=True):
                low, high = _wilson(count, sum(counts), reach)
                name = f"P({self.target}={category}{f' | {given}' if given else ''})"
                found.append(Parameter(name, count / sum(counts), low, high, (where,) if where else ()))
        for name, cuts in self.table.cuts.items():
            found += [Parameter(f"cut of {name}", cut, cut, cut) for cut in cuts]
        return tuple(found)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """What holds for which values of discrete parents."""
        found = []
        for row, (counts, probabilities) in enumerate(zip(self.table.counts, self.table.probabilities.tolist(), strict=True)):
            given = self._given(row)
            shown = ", ".join(
                f"{category}: {probability:.3g}"
                for category, probability in zip(self.categories, probabilities, strict=True)
                if probability > 0
            )
            text = f"P({self.target}{f' | {given}' if given else ''}) = {{{shown}}}"
            here = self.residuals[self._cells_of_rows == row]
            found.append(Cell(self._discrete(row), int(counts.sum()), text, float(np.mean(here))))
        return tuple(found)

    @cached_property
    def residuals(self) -> Floats:
        """Bits that each row's value costs given its parents: −log₂ of its probability."""
        return np.asarray(-np.log2(self.table.probabilities[self._cells_of_rows, self.observed]))

    def values_of(self, rows: Codes) -> list[Category]:
        """Return what the target was in some rows of the table."""
        return [self.categories[code] for code in self.observed[rows].tolist()]

    def predict(self, columns: Columns) -> Floats:
        """Return the probability of each category: shape (rows, categories)."""
        inputs = self._inputs(columns, None)
        return np.asarray(self.table.probabilities[self._rows_of_table(inputs)])

    def draw(self, columns: Columns, random: np.random.Generator, rows: int | None = None) -> list[Category]:
        """Return random categories."""
        inputs = self._inputs(columns, rows)
        steps = np.cumsum(self.table.probabilities, axis=1)[self._rows_of_table(inputs)]
        # The last step is 1 but for rounding.
        drawn = (random.random(inputs.rows)[:, None] >= steps[:, :-1]).sum(axis=1)
        return [self.categories[code] for code in drawn.tolist()]

    def log_density(self, columns: Columns, values: Sequence[object] | Floats) -> Floats:
        """Return the logarithm of the probabilities of categories."""
        inputs = self._inputs(columns, None)
        wanted = np.array([self.code_of(value) for value in values], np.int64)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.table.probabilities[self._rows_of_table(inputs), wanted]))

    def code_of(self, value: object) -> int:
        """Return the number of a value of the target. Raises DataError where it is none."""
        if value not in self._codes:
            shown = ", ".join(map(str, self.categories[:12]))
            raise DataError(f"{self.target} has no value {value!r} in the data that the model was fitted to; it has {shown}")
        return self._codes[value]

    @cached_property
    def _codes(self) -> dict[object, int]:
        return {category: code for code, category in enumerate(self.categories)}

    def _inputs(self, columns: Columns, rows: int | None) -> Inputs:
        return Inputs(columns, self._parents, [name for name in self._numeric if name in self.table.cuts], self.used, rows)

    def _rows_of_table(self, inputs: Inputs) -> Codes:
        rows = self.table.cells_of(inputs.numbers, inputs.codes(self.table.names), inputs.rows)
        if (rows < 0).any():
            told = " and ".join(self.used)
            raise DataError(
                f"{self.target} is asked for values of {told} that no run has together, so nothing is known of it; measure them, or choose others"
            )
        return rows

    def _discrete(self, row: int) -> dict[str, Category]:
        """Return the values of discrete parents of a row of the table."""
        keys = self.table.keys[row, : len(self.table.names)].tolist()
        return {name: self._parents.categories[name][code] for name, code in zip(self.table.names, keys, strict=True)}

    def _given(self, row: int) -> str:
        """Return what a row of the table is for, as text."""
        told = [f"{name}={value}" for name, value in self._discrete(row).items()]
        keys = self.table.keys[row, len(self.table.names) :].tolist()
        for (name, cuts), interval in zip(self.table.cuts.items(), keys, strict=True):
            above = f"{cuts[interval - 1]:.5g} < " if interval > 0 else ""
            below = f" ≤ {cuts[interval]:.5g}" if interval < len(cuts) else ""
            told.append(f"{above}{name}{below}" if below else f"{name} > {cuts[-1]:.5g}")
        return ", ".join(told)


def _wilson(count: int, total: int, reach: float) -> tuple[float, float]:
    """Return Wilson's interval of a probability."""
    share = count / total
    middle = (share + reach**2 / (2 * total)) / (1 + reach**2 / total)
    margin = reach * np.sqrt(share * (1 - share) / total + reach**2 / (4 * total**2)) / (1 + reach**2 / total)
    return max(0.0, float(middle - margin)), min(1.0, float(middle + margin))
