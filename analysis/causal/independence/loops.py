"""Compiled loops of the independence tests: residuals, bases and their correlations, and kernel densities.

Blocks of `centre`, `orthonormalise` and `project_out` are ranges of rows. Each row of their arrays is a column of the
table, so the innermost loops access contiguous memory.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compiled

_MATRIX, _SQUARE, _CODES = "const float64[:,::1]", "const float32[:,::1]", "const int64[::1]"
_CHANGED = _MATRIX.removeprefix("const ")
_SIGNATURES: dict[str, tuple[str, bool]] = {
    "canonical": (f"{_MATRIX}, {_MATRIX}", False),
    "orthonormal": (f"{_MATRIX}, float64, float64", False),
    "gaussian": ("const float64[::1], float64, float32[:,::1]", True),
    "information_at": (f"{_MATRIX}, const int64[:,::1], {_MATRIX}, const int64[:,::1], {_CODES}, {_CODES}", False),
    "information_of_permutation": (f"{_SQUARE}, {_SQUARE}, {_SQUARE}, {_CODES}", True),
    "centre": (f"{_CHANGED}, {_CODES}", True),
    "orthonormalise": (f"{_CHANGED}, {_CODES}, {_CODES}", True),
    "project_out": (f"{_MATRIX}, {_CODES}, {_CODES}, {_CHANGED}", True),
}
"""Argument types of each loop, and whether its sums may be reordered."""


@cache
def compiled_loop(name: str) -> Any:
    """Return a compiled loop of this module."""
    signature, reordered = _SIGNATURES[name]
    return compiled(__name__, name, (signature,), called="the independence tests", fastmath=reordered)


_DEPENDENT = 1e-9
"""A column that keeps less than this share of its sum of squares is a combination of earlier columns."""


def orthonormalise(basis: Any, starts: Any, most: Any) -> Any:
    """Orthonormalise a basis, shape (p, rows), in place block by block; return each block's number of vectors.

    starts : shape (blocks + 1,), the first row of each block, and the number of rows. most : shape (blocks,), the
    maximum number of vectors of each block. Modified Gram–Schmidt runs twice, which is enough for double precision.
    """
    kept = np.zeros(len(most), np.int64)
    for block in range(len(most)):
        first, end = starts[block], starts[block + 1]
        for column in range(basis.shape[0]):
            if kept[block] == most[block]:
                break
            own = basis[column, first:end]
            before = 0.0
            for row in range(end - first):
                before += own[row] * own[row]
            if before <= 0.0:
                continue
            # Vectors before `kept` are orthonormal in this block; the second pass removes what rounding left.
            for _ in range(2):
                for earlier in range(kept[block]):
                    other = basis[earlier, first:end]
                    along = 0.0
                    for row in range(end - first):
                        along += own[row] * other[row]
                    for row in range(end - first):
                        own[row] -= along * other[row]
            after = 0.0
            for row in range(end - first):
                after += own[row] * own[row]
            if after <= _DEPENDENT * before:
                continue
            # Skipped columns free their rows: kept[block] never exceeds `column`, which is no longer needed.
            place = basis[kept[block], first:end]
            length = np.sqrt(after)
            for row in range(end - first):
                place[row] = own[row] / length
            kept[block] += 1
    return kept


def project_out(basis: Any, starts: Any, kept: Any, columns: Any) -> None:
    """Replace columns, shape (q, rows), by their residuals on a basis made by `orthonormalise`, in place."""
    for block in range(len(kept)):
        first, end = starts[block], starts[block + 1]
        for column in range(columns.shape[0]):
            own = columns[column, first:end]
            for _ in range(2):
                for earlier in range(kept[block]):
                    other = basis[earlier, first:end]
                    along = 0.0
                    for row in range(end - first):
                        along += own[row] * other[row]
                    for row in range(end - first):
                        own[row] -= along * other[row]


def centre(columns: Any, starts: Any) -> None:
    """Subtract the mean of each block from columns, shape (q, rows), in place."""
    for column in range(columns.shape[0]):
        for block in range(len(starts) - 1):
            own = columns[column, starts[block] : starts[block + 1]]
            total = 0.0
            for row in range(len(own)):
                total += own[row]
            mean = total / len(own)
            for row in range(len(own)):
                own[row] -= mean


def orthonormal(columns: Any, least: float, independent: float) -> Any:
    """Return an orthonormal basis of columns, shape (rows, q).

    The basis excludes columns with a mean square below `least`, and directions with less than the share `independent`
    of the columns' squares.
    """
    rows = len(columns)
    # The scaled eigenvectors of the small matrix of products turn the columns into an orthonormal basis.
    products = np.dot(columns.T, columns)
    kept = np.flatnonzero(np.diag(products) > least * rows)
    lengths = np.sqrt(np.diag(products)[kept])
    small = np.empty((len(kept), len(kept)))
    for column in range(len(kept)):
        for other in range(len(kept)):
            small[column, other] = products[kept[column], kept[other]] / (lengths[column] * lengths[other])
    if len(kept) == 0:
        return np.empty((rows, 0))
    values, vectors = np.linalg.eigh(small)
    inside = np.flatnonzero(values > independent)
    turned = np.zeros((columns.shape[1], len(inside)))
    for place in range(len(inside)):
        scale = np.sqrt(values[inside[place]])
        for column in range(len(kept)):
            turned[kept[column], place] = vectors[column, inside[place]] / (scale * lengths[column])
    return np.dot(columns, turned)


def canonical(basis: Any, other: Any) -> Any:
    """Return the squared canonical correlations of two orthonormal bases, and the inflation of their scatter.

    The bases have shapes (rows, p) and (rows, q); the inflation is 1 under independence.
    """
    rows = len(basis)
    # The singular values of QᵀR are the cosines between both spaces: the canonical correlations.
    left, correlations, right = np.linalg.svd(np.dot(basis.T, other), full_matrices=False)
    along, across = np.dot(basis, left), np.dot(other, np.ascontiguousarray(right.T))
    squares = np.minimum(correlations**2, 1.0 - 1e-12)
    # `both` over `alone` estimates the variance of products of the canonical variates, 1 / rows under independence.
    weights, inflation = 0.0, 0.0
    for pair in range(len(squares)):
        both, alone = 0.0, 0.0
        for row in range(rows):
            residual = across[row, pair] - correlations[pair] * along[row, pair]
            both += (along[row, pair] * residual) ** 2
            alone += residual**2
        weight = squares[pair] + 1e-12
        inflation += weight * rows * both / max(alone, 1e-12)
        weights += weight
    return squares, inflation / weights


def gaussian(values: Any, width: float, into: Any) -> None:
    """Multiply the elements of a square matrix, float32, by exp(−½ (vᵢ − vⱼ)² / width²)."""
    scale = np.float32(-0.5 / width**2)
    # One exponential for both halves of the symmetric matrix.
    for row in range(len(values)):
        for at in range(row + 1):
            apart = np.float32(values[row] - values[at])
            weight = np.exp(scale * apart * apart)
            into[row, at] *= weight
            into[at, row] *= weight


def information_of_permutation(own: Any, other: Any, held: Any, order: Any) -> Any:
    """Return Σ log₂ p(xyz) / p(xz) over rows; permutations of X do not change the remaining factor, p(z) / p(yz).

    own, other, held : shape (rows, rows), the kernels of X, Y and Z. order : the row whose X each row gets.
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

    points, rows : shapes (m, d) and (n, d), continuous variables in units of their bandwidth. codes_at, codes : shapes
    (m, e) and (n, e), discrete ones. sides, discrete_sides : shapes (d,) and (e,), 0 for X, 1 for Y, 2 for Z.
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
            own, other = np.exp(-0.5 * exponent[0]), np.exp(-0.5 * exponent[1])
            held += weight
            first += weight * own
            second += weight * other
            joint += weight * own * other
        total += np.log2(joint * held / (first * second))
    return total / len(points)
