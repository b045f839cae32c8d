"""The compiled loops of kernel density estimates: mutual information at the rows, for a local permutation, and for the
paper's integral."""

from __future__ import annotations

from typing import Any

import numpy as np


def gaussian(values: Any, width: float, into: Any) -> None:
    """Multiply a square matrix, float32, by exp(−½ (vᵢ − vⱼ)² / width²)."""
    scale = np.float32(-0.5 / width**2)
    # One exponential for both halves of the symmetric matrix.
    for row in range(len(values)):
        for at in range(row + 1):
            apart = np.float32(values[row] - values[at])
            weight = np.exp(scale * apart * apart)
            into[row, at] *= weight
            if at != row:
                into[at, row] *= weight


def information_of_permutation(own: Any, other: Any, held: Any, order: Any) -> Any:
    """Return Σ log₂ p(xyz) / p(xz) over rows when X's rows are permuted.

    own, other, held : float32, shape (rows, rows), values of the kernels of X, Y and Z between rows. order : int64,
    shape (rows,), which row's X each row gets. Of the mutual information p(z) / p(yz) is left out, which no permutation
    of X changes.
    """
    rows = len(order)
    total = 0.0
    for row in range(rows):
        mine = own[order[row]]
        # Sums over rows of the kernel products XZ and XYZ; constant factors of the densities cancel in the ratio.
        joint, apart = 0.0, 0.0
        for at in range(rows):
            weight = mine[order[at]] * held[row, at]
            apart += weight
            joint += weight * other[row, at]
        total += np.log2(joint / apart)
    return total


def information_at(points: Any, codes_at: Any, rows: Any, codes: Any, sides: Any, discrete_sides: Any) -> Any:
    """Return the mean of log₂ p(xyz) p(z) / (p(xz) p(yz)) at some points, by kernel estimates from rows.

    points : float64, shape (m, d); rows : float64, shape (n, d), continuous variables in units of their bandwidth.
    codes_at, codes : int64, shapes (m, e) and (n, e), discrete ones. sides, discrete_sides : int64, shapes (d,) and
    (e,), 0 for X, 1 for Y, 2 for Z.
    """
    total = 0.0
    exponent = np.zeros(3)
    for point in range(len(points)):
        joint, first, second, held = 0.0, 0.0, 0.0, 0.0
        for row in range(len(rows)):
            # Squared distances on the sides X, Y and Z; unequal categories are infinitely far: their weight is 0.
            exponent[:] = 0.0
            for at in range(points.shape[1]):
                exponent[sides[at]] += (points[point, at] - rows[row, at]) ** 2
            for at in range(codes.shape[1]):
                if codes_at[point, at] != codes[row, at]:
                    exponent[discrete_sides[at]] = np.inf
            weight = np.exp(-0.5 * exponent[2])
            one, other = np.exp(-0.5 * exponent[0]), np.exp(-0.5 * exponent[1])
            held += weight
            first += weight * one
            second += weight * other
            joint += weight * one * other
        total += np.log2(joint * held / (first * second))
    return total / len(points)
