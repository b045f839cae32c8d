"""Probability tables of discrete variables, and their length.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2: "For discrete variables, the
conditional distributions P(X_i | parents(X_i)) are described by discrete distributions. The number of probabilities in the
probability table determine the complexity." The paper leaves open what the length of the data is, and what to do with parents
that are continuous. Here the data cost −log₂ of their probabilities, and continuous parents are cut into intervals where that
shortens the whole; parents that do not shorten it are left out of the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.problem import OPERATION_BITS
from unperturbed.analysis.compiling import compiled

__all__ = ["Table", "shortest_table"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_ALL_SUBSETS = 4
"""With more discrete parents than this, they are taken out one by one instead of trying all choices."""
_FEWEST_ROWS = 3
"""On each side of a cut."""
_MOST_CUTS = 6
_CUTS = "int64[::1], int64[::1], int64[::1], float64[::1], int64, int64, float64, int64, float64[::1]"


@dataclass(frozen=True, eq=False)
class Table:
    """Probabilities of a discrete variable's values in each cell.

    Attributes
    ----------
    names : tuple of str
        Discrete parents that tell a cell from another.
    cuts : mapping of str to tuple of float
        Where continuous parents are cut, rising.
    keys : int64, shape (cells, names + cuts)
        Codes of the discrete parents and numbers of the intervals, of each cell that occurs; sorted.
    counts : int64, shape (cells, categories)
    hypothesis_bits, data_bits : float
    """

    names: tuple[str, ...]
    cuts: Mapping[str, tuple[float, ...]]
    keys: Codes
    counts: Codes
    hypothesis_bits: float
    data_bits: float

    @property
    def probabilities(self) -> Floats:
        """Relative frequencies: shape (cells, categories)."""
        return np.asarray(self.counts / self.counts.sum(axis=1, keepdims=True))

    def cells_of(self, numbers: Mapping[str, Floats], codes: Mapping[str, Codes], rows: int) -> Codes:
        """Return the cell of each row: int64, shape (rows,); −1 for a combination that did not occur."""
        wanted = _keys(self.names, self.cuts, numbers, codes, rows)
        known = {tuple(key): cell for cell, key in enumerate(self.keys.tolist())}
        return np.array([known.get(tuple(key), -1) for key in wanted.tolist()], np.int64)


def shortest_table(target: Codes, categories: int, numbers: Mapping[str, Floats], codes: Mapping[str, Codes]) -> Table:
    """Return the table of least description length.

    Parameters
    ----------
    target : int64, shape (rows,)
    categories : int
    numbers, codes : mappings
        Parents: continuous ones by numbers, discrete ones by codes, and those that are both in both.
    """
    tried: dict[tuple[str, ...], Table] = {}

    def table(names: tuple[str, ...]) -> Table:
        if names not in tried:
            cut = {name: x for name, x in numbers.items() if name not in names}
            tried[names] = _with_cuts(target, categories, names, cut, codes)
        return tried[names]

    everything = tuple(codes)
    if len(everything) <= _ALL_SUBSETS:
        subsets = [subset for size in range(len(everything) + 1) for subset in combinations(everything, size)]
        return min((table(subset) for subset in subsets), key=_length)
    best = table(everything)
    while best.names:
        fewer = min((table(tuple(name for name in best.names if name != left)) for left in best.names), key=_length)
        if _length(fewer) > _length(best):
            break
        best = fewer
    return best


def _length(table: Table) -> float:
    return table.hypothesis_bits + table.data_bits


def _with_cuts(
    target: Codes, categories: int, names: tuple[str, ...], numbers: Mapping[str, Floats], codes: Mapping[str, Codes]
) -> Table:
    """Cut continuous parents where it shortens the table most, until none does."""
    cuts: dict[str, tuple[float, ...]] = {}
    best = _table(target, categories, names, cuts, numbers, codes)
    orders = {name: np.argsort(x, kind="stable").astype(np.int64) for name, x in numbers.items()}
    while sum(map(len, best.cuts.values())) < _MOST_CUTS:
        cells = np.unique(_keys(names, best.cuts, numbers, codes, len(target)), axis=0, return_inverse=True)[1]
        further = [
            {**best.cuts, name: tuple(sorted((*best.cuts.get(name, ()), cut)))}
            for name, x in numbers.items()
            if (cut := _best_cut(target, categories, cells.reshape(-1).astype(np.int64), x, orders[name])) is not None
        ]
        if not further:
            break
        longer = min((_table(target, categories, names, one, numbers, codes) for one in further), key=_length)
        if _length(longer) >= _length(best):
            break
        best = longer
    return best


def _best_cut(target: Codes, categories: int, cells: Codes, x: Floats, order: Codes) -> float | None:
    """Return the cut of a continuous parent, in all cells, that shortens the table most."""
    rows = len(target)
    lengths = np.empty(rows)
    module = f"{__package__}.cutting"
    sizes = (int(cells.max()) + 1, categories)
    price = 0.5 * math.log2(rows) * (categories - 1)
    compiled(module, "cut_lengths", (_CUTS,), called="the regressions' loops")(
        target, cells, order, x, *sizes, price, _FEWEST_ROWS, lengths
    )
    at = int(lengths.argmin())
    if not math.isfinite(lengths[at]):
        return None
    low, high = float(x[order[at]]), float(x[order[at + 1]])
    return low + (high - low) / 2


def _table(
    target: Codes,
    categories: int,
    names: tuple[str, ...],
    cuts: Mapping[str, tuple[float, ...]],
    numbers: Mapping[str, Floats],
    codes: Mapping[str, Codes],
) -> Table:
    rows = len(target)
    keys, cells = np.unique(_keys(names, cuts, numbers, codes, rows), axis=0, return_inverse=True)
    counts = np.zeros((len(keys), categories), np.int64)
    np.add.at(counts, (cells.reshape(-1), target), 1)
    seen = np.count_nonzero(counts.sum(axis=0))
    parameter_bits, thresholds = 0.5 * math.log2(rows), sum(map(len, cuts.values()))
    hypothesis = (len(keys) * (seen - 1) + thresholds) * parameter_bits + OPERATION_BITS * thresholds
    present = counts[counts > 0]
    totals = counts.sum(axis=1)
    data = float((totals * np.log2(totals)).sum() - (present * np.log2(present)).sum())
    return Table(names, dict(cuts), keys, counts, hypothesis, max(data, 0.0))


def _keys(
    names: Sequence[str],
    cuts: Mapping[str, tuple[float, ...]],
    numbers: Mapping[str, Floats],
    codes: Mapping[str, Codes],
    rows: int,
) -> Codes:
    """Return what tells the cell of each row: shape (rows, names + cuts)."""
    keys = np.zeros((rows, len(names) + len(cuts)), np.int64)
    for at, name in enumerate(names):
        keys[:, at] = codes[name]
    for at, (name, where) in enumerate(cuts.items(), len(names)):
        keys[:, at] = np.searchsorted(np.array(where), numbers[name], side="left")
    return keys
