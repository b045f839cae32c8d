"""Mechanisms of discrete variables: probability tables, and their description length.

Lemeire et al., section 7.2, do not define the length of the data, nor how to treat continuous parents. Here the data
cost −log₂ of their probabilities, and continuous parents are cut into intervals if that shortens the total; parents
that do not shorten it are left out of the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from unperturbed.analysis.causal.regression.cells import Cells
from unperturbed.analysis.causal.regression.loops import compiled_loop
from unperturbed.analysis.causal.regression.mechanism import Columns, Inputs, Mechanism, MechanismCell, Parameter
from unperturbed.analysis.causal.regression.problem import OPERATION_BITS
from unperturbed.analysis.causal.table.variables import Category, Codes, Floats
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.wording import first_of
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")

_ALL_SUBSETS = 4
"""With more discrete parents than this, they are removed one by one instead of trying all subsets."""
_FEWEST_ROWS = 3
"""Minimum number of rows on each side of a cut."""
_MOST_CUTS = 6


@dataclass(frozen=True, eq=False)
class ProbabilityTable:
    """Probabilities of a discrete variable's values in each cell."""

    names: tuple[str, ...]  # Discrete parents that distinguish cells
    cuts: Mapping[str, tuple[float, ...]]  # Where continuous parents are cut, ascending
    keys: Codes  # (cells, names + cuts): Codes of discrete parents and numbers of intervals of the cells; sorted
    counts: Codes  # (cells, categories): How often each category occurs in each cell
    hypothesis_bits: float  # L(H)
    data_bits: float  # L(D | H)

    @property
    def probabilities(self) -> Floats:
        """Relative frequencies: shape (cells, categories)."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))

    def cells_of(self, numbers: Mapping[str, Floats], codes: Mapping[str, Codes], rows: int) -> Codes:
        """Return the cell of each row: int64, shape (rows,); −1 for a combination that did not occur."""
        wanted = _keys(self.names, self.cuts, numbers, codes, rows)
        known = {tuple(key): cell for cell, key in enumerate(self.keys.tolist())}
        return np.array([known.get(tuple(key), -1) for key in wanted.tolist()], np.int64)


def shortest_table(
    target: Codes, categories: int, numbers: Mapping[str, Floats], codes: Mapping[str, Codes]
) -> ProbabilityTable:
    """Return the table with the shortest description.

    `numbers`, `codes`: Parents: continuous ones as numbers, discrete ones as codes, and discrete numbers in both.
    """
    search = _TableSearch(target, categories, numbers, codes)
    everything = tuple(codes)
    if len(everything) <= _ALL_SUBSETS:
        subsets = [subset for size in range(len(everything) + 1) for subset in combinations(everything, size)]
        return min((search.table(subset) for subset in subsets), key=_length)
    best = search.table(everything)
    while best.names:
        left_out = [tuple(name for name in best.names if name != left) for left in best.names]
        fewer = min((search.table(names) for names in left_out), key=_length)
        if _length(fewer) > _length(best):
            break
        best = fewer
    return best


def _length(table: ProbabilityTable) -> float:
    return table.hypothesis_bits + table.data_bits


@dataclass(frozen=True, eq=False)
class _TableSearch:
    """Search for the probability table of a target given its parents."""

    target: Codes
    categories: int
    numbers: Mapping[str, Floats]
    codes: Mapping[str, Codes]

    def table(self, names: tuple[str, ...]) -> ProbabilityTable:
        """Return the table for some discrete parents; continuous parents are cut as long as that shortens it."""
        numbers = {name: x for name, x in self.numbers.items() if name not in names}
        orders = {name: np.argsort(x, kind="stable").astype(np.int64) for name, x in numbers.items()}
        best = self._counted(names, {})
        while sum(map(len, best.cuts.values())) < _MOST_CUTS:
            cells = np.unique(self._keys(names, best.cuts), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
            further = [
                {**best.cuts, name: tuple(sorted((*best.cuts.get(name, ()), cut)))}
                for name, x in numbers.items()
                if (cut := self._best_cut(cells, x, orders[name])) is not None
            ]
            if not further:
                break
            longer = min((self._counted(names, cuts) for cuts in further), key=_length)
            if _length(longer) >= _length(best):
                break
            best = longer
        return best

    def _best_cut(self, cells: Codes, x: Floats, order: Codes) -> float | None:
        """Return the cut of a continuous parent, in all cells, that shortens the table most; None if no cut does."""
        rows = len(self.target)
        lengths = np.empty(rows)
        sizes = (int(cells.max()) + 1, self.categories)
        price = 0.5 * math.log2(rows) * (self.categories - 1)
        compiled_loop("cut_lengths")(self.target, cells, order, x, *sizes, price, _FEWEST_ROWS, lengths)
        at = int(lengths.argmin())
        if not math.isfinite(lengths[at]):
            return None
        low, high = float(x[order[at]]), float(x[order[at + 1]])
        return low + (high - low) / 2

    def _counted(self, names: tuple[str, ...], cuts: Mapping[str, tuple[float, ...]]) -> ProbabilityTable:
        keys, cells = np.unique(self._keys(names, cuts), axis=0, return_inverse=True)
        counts = np.zeros((len(keys), self.categories), np.int64)
        np.add.at(counts, (cells.reshape(-1), self.target), 1)
        seen = np.count_nonzero(counts.sum(axis=0))
        parameter_bits, thresholds = 0.5 * math.log2(len(self.target)), sum(map(len, cuts.values()))
        hypothesis = (len(keys) * (seen - 1) + thresholds) * parameter_bits + OPERATION_BITS * thresholds
        present = counts[counts > 0]
        totals = counts.sum(axis=1)
        data = float((totals * np.log2(totals)).sum() - (present * np.log2(present)).sum())
        return ProbabilityTable(names, dict(cuts), keys, counts, hypothesis, max(data, 0.0))

    def _keys(self, names: Sequence[str], cuts: Mapping[str, tuple[float, ...]]) -> Codes:
        return _keys(names, cuts, self.numbers, self.codes, len(self.target))


def _keys(
    names: Sequence[str],
    cuts: Mapping[str, tuple[float, ...]],
    numbers: Mapping[str, Floats],
    codes: Mapping[str, Codes],
    rows: int,
) -> Codes:
    """Return the keys that identify the cell of each row: shape (rows, names + cuts)."""
    keys = np.zeros((rows, len(names) + len(cuts)), np.int64)
    for at, name in enumerate(names):
        keys[:, at] = codes[name]
    for at, (name, where) in enumerate(cuts.items(), len(names)):
        keys[:, at] = np.searchsorted(np.array(where), numbers[name], side="left")
    return keys


@dataclass(frozen=True, eq=False, repr=False)
class TableMechanism(Mechanism):
    """Discrete variable as a table of probabilities, with one row for each cell of its parents.

    Attributes
    ----------
    categories : tuple
        Values of the target, in the order of the table's columns.
    table : ProbabilityTable
        The frequencies.
    level : float
        Confidence level of the parameters' intervals.
    observed : int64, shape (rows,)
        Codes of the target in each row.
    """

    categories: tuple[Category, ...]
    table: ProbabilityTable
    level: float
    observed: Codes
    _parents: Cells
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
        """Probabilities with Wilson's intervals, and cuts: both ends of a cut's unknown interval are the cut."""
        reach = float(special.ndtri(0.5 + self.level / 2))
        parameters = []
        for row, counts in enumerate(self.table.counts.tolist()):
            where, given = self._discrete(row), self._given(row)
            for category, count in zip(self.categories, counts, strict=True):
                low, high = _wilson(count, sum(counts), reach)
                name = f"P({self.target}={category}{f' | {given}' if given else ''})"
                parameters.append(Parameter(name, count / sum(counts), low, high, (where,) if where else ()))
        for name, cuts in self.table.cuts.items():
            parameters += [Parameter(f"cut of {name}", cut, cut, cut) for cut in cuts]
        return tuple(parameters)

    @cached_property
    def cells(self) -> tuple[MechanismCell, ...]:
        """The mechanism for each set of values of the discrete parents."""
        cells = []
        for row, (counts, probabilities) in enumerate(
            zip(self.table.counts, self.table.probabilities.tolist(), strict=True)
        ):
            given = self._given(row)
            shown = ", ".join(
                f"{category}: {probability:.3g}"
                for category, probability in zip(self.categories, probabilities, strict=True)
                if probability > 0
            )
            text = f"P({self.target}{f' | {given}' if given else ''}) = {{{shown}}}"
            here = self.residuals[self._cells_of_rows == row]
            cells.append(MechanismCell(self._discrete(row), int(counts.sum()), text, float(np.mean(here))))
        return tuple(cells)

    @cached_property
    def residuals(self) -> Floats:
        """Bits that each row's value costs given its parents: −log₂ of its probability."""
        return np.asarray(-np.log2(self.table.probabilities[self._cells_of_rows, self.observed]))

    def values_of(self, rows: Codes) -> list[Category]:
        """Return the target's values in some rows of the table."""
        return [self.categories[code] for code in self.observed[rows].tolist()]

    def predict(self, columns: Columns) -> Floats:
        """Return the probability of each category: shape (rows, categories)."""
        inputs = self._inputs(columns, None)
        return np.asarray(self.table.probabilities[self._rows_of_table(inputs)])

    def draw(self, columns: Columns, random: np.random.Generator, rows: int | None = None) -> list[Category]:
        """Return random categories."""
        inputs = self._inputs(columns, rows)
        steps = np.cumsum(self.table.probabilities, axis=1)[self._rows_of_table(inputs)]
        # The last step is 1 apart from rounding.
        drawn = (random.random(inputs.rows)[:, None] >= steps[:, :-1]).sum(axis=1)
        return [self.categories[code] for code in drawn.tolist()]

    def log_density(self, columns: Columns, values: Sequence[object] | Floats) -> Floats:
        """Return the logarithm of the probabilities of categories."""
        inputs = self._inputs(columns, None)
        wanted = np.array([self.code_of(value) for value in values], np.int64)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.table.probabilities[self._rows_of_table(inputs), wanted]))

    def code_of(self, value: object) -> int:
        """Return the code of a value of the target; raise DataError for other values."""
        if value not in self._codes:
            shown = first_of([str(category) for category in self.categories], 12)
            raise DataError(f"{self.target} never has the value {value!r} in the model's data; use one of {shown}")
        return self._codes[value]

    @cached_property
    def _codes(self) -> dict[object, int]:
        return {category: code for code, category in enumerate(self.categories)}

    def _inputs(self, columns: Columns, rows: int | None) -> Inputs:
        return Inputs(columns, self._parents, list(self.table.cuts), self.used, rows)

    def _rows_of_table(self, inputs: Inputs) -> Codes:
        rows = self.table.cells_of(inputs.numbers, inputs.codes(self.table.names), inputs.rows)
        if (rows < 0).any():
            shown = " and ".join(self.used)
            raise DataError(
                f"the prediction of {self.target} needs a combination of {shown} that no run has: measure it, or "
                "choose other values"
            )
        return rows

    def _discrete(self, row: int) -> dict[str, Category]:
        """Return the discrete parents' values for a row of the table."""
        keys = self.table.keys[row, : len(self.table.names)].tolist()
        return {name: self._parents.categories[name][code] for name, code in zip(self.table.names, keys, strict=True)}

    def _given(self, row: int) -> str:
        """Return the condition that a row of the table applies to, as text."""
        shown = [f"{name}={value}" for name, value in self._discrete(row).items()]
        keys = self.table.keys[row, len(self.table.names) :].tolist()
        for (name, cuts), interval in zip(self.table.cuts.items(), keys, strict=True):
            above = f"{cuts[interval - 1]:.5g} < " if interval > 0 else ""
            below = f" ≤ {cuts[interval]:.5g}" if interval < len(cuts) else ""
            shown.append(f"{above}{name}{below}" if below else f"{name} > {cuts[-1]:.5g}")
        return ", ".join(shown)


def _wilson(count: int, total: int, reach: float) -> tuple[float, float]:
    """Return Wilson's interval of a probability."""
    share = count / total
    middle = (share + reach**2 / (2 * total)) / (1 + reach**2 / total)
    margin = reach * np.sqrt(share * (1 - share) / total + reach**2 / (4 * total**2)) / (1 + reach**2 / total)
    return max(0.0, float(middle - margin)), min(1.0, float(middle + margin))
