"""Residuals of variables given a conditioning set: regressions with one curve in each cell of the discrete variables.

"If some of the parents of a node in a causal model are discrete variables, several distinct curves are considered: one
for each value combination of the discrete variables" (Lemeire et al., section 7.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.compiled import compiled_loop
from unperturbed.analysis.causal.independence.features import Features
from unperturbed.analysis.causal.table.variables import Codes, Floats
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

_Array = TypeVar("_Array", Floats, Codes)

ROWS_A_PARAMETER = 5
_OWN_CURVE_ROWS = 10
"""A cell with fewer rows has a mean of its own, and shares its curve with other such cells."""
_LARGEST_BLOCK = 36
"""Columns of one curve at most: all of a single variable, a dozen of each of three."""
_FEWEST_COLUMNS = 3
"""Columns of one curve at least, if there are ROWS_A_PARAMETER rows for each: two scales and a bend."""
_UNEVEN = 1e-3
"""Residuals are taken to be larger for some values of the conditioning set than for others below this p-value."""
_LEAST_SIZE = 0.2
"""Least expected size of a residual, as a share of the mean size."""


class ConditioningSet:
    """Regressions on a conditioning set.

    Attributes
    ----------
    parameters : int
        Number of fitted numbers: a mean a cell, and the coefficients of each curve.
    cells : int
        Combinations of categories that occur.
    cell_of : int64, shape (rows,)
        Which one each row has.
    """

    def __init__(
        self,
        features: Mapping[str, Features],
        given: Sequence[str],
        rows: int,
        *,
        rows_a_parameter: int = ROWS_A_PARAMETER,
    ) -> None:
        held = [features[name] for name in given]
        self.cell_of, self.cells = _cells_of([one for one in held if one.codes is not None], rows)
        curves = _interleaved([one for one in held if one.codes is None])
        self._curved = bool(curves)
        self.parameters = self.cells
        # Cells with curves of their own come first, each a block; all others are one block at the end.
        sizes = np.bincount(self.cell_of, minlength=self.cells)
        few = sizes < _OWN_CURVE_ROWS
        places = np.argsort(few, kind="stable")
        rank = np.empty(self.cells, np.int64)
        rank[places] = np.arange(self.cells)
        self._cell = rank[self.cell_of]
        self._order = None if self.cells == 1 else np.argsort(self._cell, kind="stable")
        self._cell = self._sorted(self._cell)
        self._sizes = sizes[places].astype(np.float64)
        self._cell_starts = np.cumsum([0, *sizes[places]]).astype(np.int64)
        if curves:
            shared = [sizes[few].sum()] if few.any() else []
            self._starts = np.cumsum([0, *sizes[~few], *shared]).astype(np.int64)
            counts = np.diff(self._starts)
            means = np.ones(len(counts), np.int64)
            if shared:
                means[-1] = few.sum()
            least = np.clip(counts // ROWS_A_PARAMETER - means, 0, _FEWEST_COLUMNS)
            self._fit_curves(curves, np.clip(counts // rows_a_parameter - means, least, _LARGEST_BLOCK))

    def _fit_curves(self, curves: Sequence[Floats], most: NDArray[np.int64]) -> None:
        self._basis = np.array([self._sorted(column) for column in curves[: max(1, most.max())]])
        compiled_loop("centre")(self._basis, self._cell_starts)
        self._kept = compiled_loop("orthonormalise")(self._basis, self._starts, most)
        self.parameters += int(self._kept.sum())

    @property
    def bytes(self) -> int:
        """Memory that it uses."""
        return len(self.cell_of) * (24 + (8 * len(self._basis) if self._curved else 0))

    def residuals(self, columns: Floats) -> Floats:
        """Return the residuals of columns of shape (rows, q). The columns' own mean is 0."""
        if self.cells == 1 and not self._curved:
            return columns
        ordered = np.array(self._sorted(columns).T, order="C")  # a copy, which is changed
        compiled_loop("centre")(ordered, self._cell_starts)
        if self._curved:
            compiled_loop("project_out")(self._basis, self._starts, self._kept, ordered)
        return self._unsorted(ordered.T)

    def even_residuals(self, own: Features) -> tuple[Floats, int]:
        """Return residuals of a variable's curve that are of much the same size whatever is held fixed.

        Errors in proportion to a value are even on the scale of its logarithm, so that of two scales the one with the
        more even residuals is taken. What is uneven still is regressed anew, weighted by the inverse of the size that
        is expected. Dividing residuals by it would not do: what a regression misses where errors are small would become
        large, and pass for a dependence.

        Result `residuals`: float64, shape (rows, columns). Scales first.
        Result `scales`: How many columns are scales.
        """
        scales, ways = own.scales.shape[1], [own.curve]
        if own.codes is None:
            scales, ways = 1, [np.delete(own.curve, range(1, scales), axis=1)]
            if own.other_curve.shape[1]:
                ways.append(own.other_curve)
        tried = []
        for columns in ways:
            left = self.residuals(columns)
            tried.append((*self._expected_sizes(left[:, :scales]), columns, left))
        uneven, expected, columns, left = min(tried, key=lambda one: one[0])
        freedom = self.parameters - 1, len(left) - self.parameters
        if uneven > 0 and special.fdtrc(*freedom, uneven) < _UNEVEN:
            left = self._weighted_residuals(columns, 1 / np.maximum(expected, _LEAST_SIZE))
        return left, scales

    def _expected_sizes(self, left: Floats) -> tuple[float, Floats]:
        """Return the F statistic of the sizes of residuals regressed on the conditioning set, and the sizes that it
        expects, 1 on average."""
        fitted, spare = self.parameters - 1, len(left) - self.parameters
        level = np.abs(left).mean(axis=0)
        if fitted < 1 or spare < 1 or not level.size or not level.all():
            return 0.0, np.ones(len(left))
        size = (np.abs(left) / level).mean(axis=1)
        rest = self.residuals(size[:, None] - 1)[:, 0]
        total, unexplained = float(np.sum((size - 1) ** 2)), float(rest @ rest)
        ratio = (total - unexplained) / unexplained * spare / fitted if unexplained > 0 else 0.0
        return ratio, size - rest

    def _weighted_residuals(self, columns: Floats, weights: Floats) -> Floats:
        """Return the weighted residuals of weighted least squares: columns of shape (rows, q), weights (rows,)."""
        weight = self._sorted(weights)
        sizes = self._sizes.astype(np.int64)
        lengths = np.add.reduceat(weight**2, self._cell_starts[:-1])

        def without_means(ordered: Floats) -> Floats:
            means = np.add.reduceat(ordered * weight, self._cell_starts[:-1], axis=1) / lengths
            return np.ascontiguousarray(ordered - np.repeat(means, sizes, axis=1) * weight)

        left = without_means(self._sorted(columns).T * weight)
        if self._curved:
            basis = without_means(self._basis[: max(1, self._kept.max())] * weight)
            kept = compiled_loop("orthonormalise")(basis, self._starts, self._kept)
            compiled_loop("project_out")(basis, self._starts, kept, left)
        return self._unsorted(left.T)

    def residual_variances(self) -> Floats:
        """Return each row's residual variance as a share of its own: float64, shape (rows,), 1 less its leverage."""
        used = 1 / self._sizes[self._cell]
        if self._curved:
            for block, kept in enumerate(self._kept):
                rows = slice(self._starts[block], self._starts[block + 1])
                used[rows] += (self._basis[:kept, rows] ** 2).sum(axis=0)
        return self._unsorted(1 - used)

    def _sorted(self, values: _Array) -> _Array:
        """Return rows in the order of cells."""
        return values if self._order is None else values[self._order]

    def _unsorted(self, values: Floats) -> Floats:
        if self._order is None:
            return values
        back: Floats = np.empty(values.shape)
        back[self._order] = values
        return back


def _cells_of(discrete: Sequence[Features], rows: int) -> tuple[Codes, int]:
    """Return for each row which combination of categories it has, and how many of them occur."""
    cell, count = np.zeros(rows, np.int64), 1
    for one in discrete:
        assert one.codes is not None
        cell = cell * one.categories + one.codes
        present, cell = np.unique(cell, return_inverse=True)
        count = len(present)
    return cell, count


def _interleaved(held: Sequence[Features]) -> list[Floats]:
    """Return the columns of continuous variables, the most useful ones first: scales, products, bends."""
    found = []
    scales = max((one.scales.shape[1] for one in held), default=0)
    for place in range(scales):
        found += [one.scales[:, place] for one in held if place < one.scales.shape[1]]
    found += [one.scales[:, 0] * other.scales[:, 0] for one, other in combinations(held, 2)]
    for place in range(max((one.rest.shape[1] for one in held), default=0)):
        found += [one.rest[:, place] for one in held if place < one.rest.shape[1]]
    return found
