"""Residuals of variables given a conditioning set by kernel ridge regression, which follows any smooth function.

A regression on a few columns leaves a misfit. Of counters without noise that misfit is nearly all that is left, and is
the same function of the conditioning set in each of them. Kernel ridge regression leaves far less, but takes the third
power of the rows in time, so that it only confirms what faster tests find.

Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), sections 2.2 and 5.4.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unperturbed.analysis.causal.independence.features import Features
from unperturbed.analysis.causal.table.variables import Codes, Floats

MOST_ROWS = 400
_WIDTHS = 0.3, 1.0, 3.0
"""Of the kernels, in standard deviations."""
_PENALTIES = 10.0 ** np.arange(-9.0, 2.0)
_SHARED = 0.5
"""Share of a function that is the same in all cells of the discrete variables."""


class Smoother:
    """Kernel ridge regressions on a conditioning set.

    `held`: Of the conditioning set; scales of continuous ones are coordinates, combinations of discrete ones are cells.
    `rows`: int64, shape (at most MOST_ROWS,). Rows of the table that are used.
    """

    def __init__(self, held: Sequence[Features], rows: Codes) -> None:
        alike = np.full((len(rows), len(rows)), 1.0)
        for one in held:
            if one.codes is not None:
                own = one.codes[rows]
                alike *= own[:, None] == own[None, :]
        coordinates = [one.scales[rows] for one in held if one.codes is None]
        apart = np.zeros((len(rows), len(rows)))
        for column in np.hstack([np.zeros((len(rows), 0)), *coordinates]).T:
            apart += (column[:, None] - column[None, :]) ** 2
        self._bases = [
            np.linalg.eigh((_SHARED + (1 - _SHARED) * alike) * np.exp(-apart / (2 * width**2)))
            for width in (_WIDTHS if coordinates else _WIDTHS[:1])
        ]

    @property
    def bytes(self) -> int:
        """Memory that it uses."""
        return sum(vectors.nbytes for _, vectors in self._bases)

    def residuals(self, columns: Floats) -> tuple[Floats, Floats, float]:
        """Return residuals, by the width and penalty that predict left-out rows best.

        `columns`: float64, shape (rows, q). Of another variable.
        Result `residuals`: float64, shape (rows, q). What is left of the columns.
        Result `unexplained`: float64, shape (q,). Mean squared error of left-out rows, as a share of each column's
        variance.
        Result `freedom`: The rows less the parameters that were fitted, in effect, to the column that took most.
        """
        found = [self._residual(column - column.mean()) for column in columns.T]
        return (
            np.array([one for one, _, _ in found]).T,
            np.array([share for _, share, _ in found]),
            min(freedom for _, _, freedom in found),
        )

    def _residual(self, column: Floats) -> tuple[Floats, float, float]:
        best = np.inf
        for values, vectors in self._bases:
            turned, squares = vectors.T @ column, vectors**2
            for penalty in _PENALTIES:
                left = penalty / (np.maximum(values, 0.0) + penalty)
                own = vectors @ (left * turned)
                error = float(np.mean((own / np.maximum(squares @ left, 1e-12)) ** 2))
                if error < best:
                    best, residual, freedom = error, own, float(left.sum())
        return residual, best / max(float(np.mean(column**2)), np.finfo(float).tiny), freedom
