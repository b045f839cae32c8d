"""Compiled part of the regression test: bases of residuals and their canonical correlations, for small matrices."""

from __future__ import annotations

from typing import Any

import numpy as np


def orthonormal(columns: Any, least: float, independent: float) -> Any:
    """Return an orthonormal basis of columns, shape (rows, q).

    Those with a mean square below `least` are left out, and directions in which less than the share `independent` of
    their squares is left.
    """
    rows = len(columns)
    # Through the small matrix of products: its eigenvectors, scaled, turn the columns into an orthonormal basis.
    products = np.dot(columns.T, columns)
    kept = np.flatnonzero(np.diag(products) > least * rows)
    lengths = np.sqrt(np.diag(products)[kept])
    small = np.empty((len(kept), len(kept)))
    for one in range(len(kept)):
        for other in range(len(kept)):
            small[one, other] = products[kept[one], kept[other]] / (lengths[one] * lengths[other])
    if len(kept) == 0:
        return np.empty((rows, 0))
    values, vectors = np.linalg.eigh(small)
    inside = np.flatnonzero(values > independent)
    turned = np.zeros((columns.shape[1], len(inside)))
    for place in range(len(inside)):
        scale = np.sqrt(values[inside[place]])
        for one in range(len(kept)):
            turned[kept[one], place] = vectors[one, inside[place]] / (scale * lengths[one])
    return np.dot(columns, turned)


def canonical(one: Any, other: Any) -> Any:
    """Return the squared canonical correlations of two orthonormal bases, and by how much more they scatter than
    independence makes them.

    one, other : float64, shapes (rows, p) and (rows, q), both with columns.
    """
    rows = len(one)
    # The singular values of QᵀR are the cosines between both spaces: the canonical correlations.
    left, correlations, right = np.linalg.svd(np.dot(one.T, other), full_matrices=False)
    along, across = np.dot(one, left), np.dot(other, np.ascontiguousarray(right.T))
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
