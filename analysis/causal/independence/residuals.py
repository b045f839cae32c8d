"""Features of variables, and their residuals given a conditioning set: by regressions on features, or by kernels.

The paper requires a test that assumes no functional form (section 6.1). Regression on indicators of categories, and on
scales and bends of numbers, follows any smooth function and most steps, keeps exact p-values, and is a thousand times
faster than density estimates. Each cell of the discrete variables has its own curve (section 7.2).

A regression on a few columns leaves a misfit. For counters without noise, the misfit is nearly the whole residual, and
it is the same function of the conditioning set for each counter. Kernel ridge regression (`Smoother`) leaves far less,
but its time grows with the third power of the rows, so it only confirms what faster tests find (Rasmussen and Williams,
"Gaussian Processes for Machine Learning", 2006, sections 2.2 and 5.4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.loops import compiled_loop
from unperturbed.analysis.causal.table.variables import Codes, Data, Floats
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

_BENDS = 0.5, 0.25, 0.75
"""Knots of the bends, as quantiles."""
_FINEST_BENDS = 3, 5
_ROWS_A_BEND = 50
"""Rows for each further bend: with more rows, a smaller misfit of a curve becomes significant."""
_SAME_SCALE = 0.98
"""If a variable and its logarithm correlate by more than this, the logarithm adds nothing."""
_HEAVY_KURTOSIS = 12.0
"""Excess kurtosis above which a few extreme rows would dominate a regression, so ranks are used instead."""
_FEWEST = 5
"""Categories with fewer rows share one indicator: an F distribution does not describe them."""


@dataclass(frozen=True)
class Features:
    """Columns of one variable, each with mean 0 and variance 1."""

    # (rows, scales): The variable itself, and its logarithm if that differs, the scale with lighter tails first; for
    # a discrete variable, indicators of all but one category.
    scales: Floats
    # (rows, columns): `scales`, and bends of the first scale at the quartiles; tests search these for a dependence.
    curve: Floats
    other_curve: Floats  # (rows, columns): The second scale and its bends; no columns if there is one scale
    rest: Floats  # (rows, columns): Further columns for functions of a continuous variable, the most useful first
    codes: Codes | None  # (rows,): Categories of a discrete variable
    categories: int  # Number of categories; 0 for a continuous variable
    # (rows,): Ranks of a continuous variable, from 1; equal values share their mean rank.
    ranks: Floats | None
    entropy_bits: float  # Entropy of a discrete variable; infinite for a continuous one


def features_of(data: Data) -> Mapping[str, Features]:
    """Return each variable's features; positive variables also have logarithms, which turn T = #op·C into a sum."""
    return {
        name: _discrete(data.codes(name)) if data.kinds[name] == "discrete" else _continuous(data.values(name))
        for name in data.names
    }


def normal_scores(values: Floats) -> Floats:
    """Return the normal quantile of each value's rank; equal values share a quantile."""
    scores: Floats = special.ndtri((_ranks(values) - 0.5) / len(values))
    return scores


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def _discrete(codes: Codes) -> Features:
    present, dense = np.unique(codes, return_inverse=True)
    counts = np.bincount(dense)
    own = [category for category in np.argsort(-counts, kind="stable")[1:] if counts[category] >= _FEWEST]
    columns = [dense == category for category in own]
    rare = np.isin(dense, [category for category in range(len(counts)) if counts[category] < _FEWEST])
    if rare.sum() >= _FEWEST and not all(rare):
        columns.append(rare)
    elif not columns and len(counts) > 1:
        columns.append(dense != np.argmax(counts))
    indicators = _standardised(np.array(columns, dtype=np.float64).reshape(len(columns), len(codes)).T)
    shares = counts / len(codes)
    entropy = -float(np.sum(shares * np.log2(shares)))
    nothing = indicators[:, :0]
    return Features(indicators, indicators, nothing, nothing, dense.astype(np.int64), len(present), None, entropy)


def _continuous(values: Floats) -> Features:
    own = _standard(values)
    tails = _excess_kurtosis(own)
    if tails > _HEAVY_KURTOSIS:
        own = _standard(normal_scores(values))
    scales = [own]
    if values.min() > 0:
        logarithm = _standard(np.log(values))
        tails_of_logarithm = _excess_kurtosis(logarithm)
        if tails_of_logarithm <= _HEAVY_KURTOSIS and abs(float(np.mean(logarithm * own))) < _SAME_SCALE:
            # Bends and powers can follow a curve only where they have rows.
            scales = [logarithm, own] if tails_of_logarithm < tails else [own, logarithm]
    columns = _standardised(np.array(scales).T)
    first, bends = scales[0], _bends(scales[0], _BENDS)
    square, cube = (_standardised(first[:, None] ** exponent) for exponent in (2, 3))
    return Features(
        scales=columns,
        curve=np.hstack([columns, bends]),
        other_curve=np.hstack([columns[:, 1:], *(_bends(scale, _BENDS) for scale in scales[1:])]),
        rest=np.hstack([square, bends, cube, _bends(first, _finer(len(own)))]),
        codes=None,
        categories=0,
        ranks=_ranks(values),
        entropy_bits=np.inf,
    )


def _finer(rows: int) -> list[float]:
    """Return shares of rows: the odd eighths and, if there are enough rows, odd sixteenths and thirty-seconds."""
    coarsest, finest = _FINEST_BENDS
    levels = [level for level in range(coarsest, finest + 1) if level == coarsest or 2**level * _ROWS_A_BEND <= rows]
    return [place / 2**level for level in levels for place in range(1, 2**level, 2)]


def _bends(values: Floats, shares: Sequence[float]) -> Floats:
    """Return columns that are flat up to a quantile and rise above it."""
    knots = dict.fromkeys(np.quantile(values, shares).tolist())
    return _standardised(np.array([np.maximum(values - knot, 0.0) for knot in knots]).T)


def _excess_kurtosis(standard: Floats) -> float:
    return float(np.mean(standard**4)) - 3.0


def _standard(values: Floats) -> Floats:
    centred = values - values.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    scaled: Floats = centred / spread if spread > 0 else centred
    return scaled


def _standardised(columns: Floats) -> Floats:
    """Return the columns scaled to mean 0 and variance 1, without constant columns."""
    centred = columns - columns.mean(axis=0)
    spread = np.sqrt(np.mean(centred**2, axis=0))
    varying = spread > 1e-12
    scaled: Floats = np.ascontiguousarray(centred[:, varying] / spread[varying])
    return scaled


_Array = TypeVar("_Array", Floats, Codes)

ROWS_A_PARAMETER = 5
_OWN_CURVE_ROWS = 10
"""A cell with fewer rows has its own mean, but shares its curve with the other small cells."""
_LARGEST_BLOCK = 36
"""Maximum number of columns of one curve: all of a single variable, a dozen of each of three."""
_FEWEST_COLUMNS = 3
"""Minimum number of columns of one curve, if each has ROWS_A_PARAMETER rows: two scales and a bend."""
_UNEVEN = 1e-3
"""Below this p-value, the size of residuals is taken to depend on the conditioning set."""
_LEAST_SIZE = 0.2
"""Smallest expected size of a residual, as a share of the mean size."""


class ConditioningSet:
    """Regressions on a conditioning set.

    `parameters`: Number of fitted numbers: one mean per cell, and the coefficients of each curve.
    `cells`, `cell_of`: Number of combinations of categories that occur, and the combination of each row.
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
        self.cell_of, self.cells = _cells_of([feature for feature in held if feature.codes is not None], rows)
        curves = _interleaved([feature for feature in held if feature.codes is None])
        self._curved = bool(curves)
        self.parameters = self.cells
        # Cells with their own curves come first, each as a block; all other cells share the last block.
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

    def residuals(self, columns: Floats) -> Floats:
        """Return the residuals of columns, shape (rows, q); each column must have mean 0."""
        if self.cells == 1 and not self._curved:
            return columns
        ordered = np.array(self._sorted(columns).T, order="C")  # a copy, changed in place
        compiled_loop("centre")(ordered, self._cell_starts)
        if self._curved:
            compiled_loop("project_out")(self._basis, self._starts, self._kept, ordered)
        return self._unsorted(ordered.T)

    def even_residuals(self, own: Features) -> tuple[Floats, int]:
        """Return residuals of a variable's columns with even variance, scales first, and the number of scales.

        Of two scales, the scale with the more even residuals is used. If they are still uneven, the regression is
        repeated with the inverse of the expected size as weights. Dividing residuals by that size would be wrong:
        misfit where errors are small would become large, and look like a dependence.
        """
        scales, ways = own.scales.shape[1], [own.curve]
        if own.codes is None:
            scales, ways = 1, [np.delete(own.curve, range(1, scales), axis=1)]
            if own.other_curve.shape[1]:
                ways.append(own.other_curve)
        candidates = []
        for columns in ways:
            left = self.residuals(columns)
            candidates.append((*self._expected_sizes(left[:, :scales]), columns, left))
        uneven, expected, columns, left = min(candidates, key=lambda candidate: candidate[0])
        freedom = self.parameters - 1, len(left) - self.parameters
        if uneven > 0 and special.fdtrc(*freedom, uneven) < _UNEVEN:
            left = self._weighted_residuals(columns, 1 / np.maximum(expected, _LEAST_SIZE))
        return left, scales

    def _expected_sizes(self, left: Floats) -> tuple[float, Floats]:
        """Regress the residuals' sizes on the conditioning set; return the F statistic and the expected sizes."""
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
        """Return the weighted residuals of columns, shape (rows, q), by least squares with weights, shape (rows,)."""
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
        """Return the share of each row's variance that its residual keeps, 1 − leverage: float64, shape (rows,)."""
        used = 1 / self._sizes[self._cell]
        if self._curved:
            for block, kept in enumerate(self._kept):
                rows = slice(self._starts[block], self._starts[block + 1])
                used[rows] += (self._basis[:kept, rows] ** 2).sum(axis=0)
        return self._unsorted(1 - used)

    def _sorted(self, values: _Array) -> _Array:
        """Return the rows sorted by cell."""
        return values if self._order is None else values[self._order]

    def _unsorted(self, values: Floats) -> Floats:
        if self._order is None:
            return values
        back: Floats = np.empty(values.shape)
        back[self._order] = values
        return back


def _cells_of(discrete: Sequence[Features], rows: int) -> tuple[Codes, int]:
    """Return the combination of categories of each row, and the number of combinations that occur."""
    cell, count = np.zeros(rows, np.int64), 1
    for feature in discrete:
        assert feature.codes is not None
        cell = cell * feature.categories + feature.codes
        present, cell = np.unique(cell, return_inverse=True)
        count = len(present)
    return cell, count


def _interleaved(held: Sequence[Features]) -> list[Floats]:
    """Return the columns of continuous variables, the most useful ones first: scales, products, bends."""
    columns = []
    scales = max((feature.scales.shape[1] for feature in held), default=0)
    for place in range(scales):
        columns += [feature.scales[:, place] for feature in held if place < feature.scales.shape[1]]
    columns += [feature.scales[:, 0] * other.scales[:, 0] for feature, other in combinations(held, 2)]
    for place in range(max((feature.rest.shape[1] for feature in held), default=0)):
        columns += [feature.rest[:, place] for feature in held if place < feature.rest.shape[1]]
    return columns


MOST_ROWS = 400
_WIDTHS = 0.3, 1.0, 3.0
"""Widths of the kernels in standard deviations."""
_PENALTIES = 10.0 ** np.arange(-9.0, 2.0)
_SHARED = 0.5
"""Share of a function that is the same in all cells of the discrete variables."""


class Smoother:
    """Kernel ridge regressions on a conditioning set, fitted to at most MOST_ROWS rows of the table.

    Scales of continuous variables are coordinates; combinations of discrete variables are cells.
    """

    def __init__(self, held: Sequence[Features], rows: Codes) -> None:
        alike = np.full((len(rows), len(rows)), 1.0)
        for feature in held:
            if feature.codes is not None:
                own = feature.codes[rows]
                alike *= own[:, None] == own[None, :]
        coordinates = [feature.scales[rows] for feature in held if feature.codes is None]
        apart = np.zeros((len(rows), len(rows)))
        for column in np.hstack([np.zeros((len(rows), 0)), *coordinates]).T:
            apart += (column[:, None] - column[None, :]) ** 2
        widths = _WIDTHS if coordinates else _WIDTHS[:1]
        kernels = [(_SHARED + (1 - _SHARED) * alike) * np.exp(-apart / (2 * width**2)) for width in widths]
        self._values, self._vectors = np.linalg.eigh(np.array(kernels))

    def residuals(self, columns: Floats) -> tuple[Floats, Floats, float]:
        """Return the residuals of columns, shape (rows, q), for the width and penalty that best predict left-out rows.

        Also return each column's mean squared error on left-out rows as a share of its variance, and the number of rows
        less the effective number of fitted parameters, for the column with the most parameters.
        """
        fits = [self._residual(column - column.mean()) for column in columns.T]
        return (
            np.array([residual for residual, _, _ in fits]).T,
            np.array([share for _, share, _ in fits]),
            min(freedom for _, _, freedom in fits),
        )

    def _residual(self, column: Floats) -> tuple[Floats, float, float]:
        best = np.inf
        for values, vectors in zip(self._values, self._vectors, strict=True):
            turned, squares = vectors.T @ column, vectors**2
            for penalty in _PENALTIES:
                left = penalty / (np.maximum(values, 0.0) + penalty)
                own = vectors @ (left * turned)
                error = float(np.mean((own / np.maximum(squares @ left, 1e-12)) ** 2))
                if error < best:
                    best, residual, freedom = error, own, float(left.sum())
        return residual, best / max(float(np.mean(column**2)), np.finfo(float).tiny), freedom
