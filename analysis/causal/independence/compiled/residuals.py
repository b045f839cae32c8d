"""Compiled loops of residuals: project columns out of others, each block of rows by itself.

All arrays hold one column of the table a row, so that the innermost loops run through neighbouring numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_DEPENDENT = 1e-9
"""A column of which less than this share of its sum of squares is left is a combination of those before it."""


def orthonormalise(basis: Any, starts: Any, most: Any) -> Any:
    """Make the rows of a basis orthonormal in each block, in place, and return how many of them each block has.

    basis : float64, shape (p, rows). starts : int64, shape (blocks + 1,), the first row of each block, and the number
    of rows. most : int64, shape (blocks,), how many a block can carry; first ones go first, and combinations of those
    before are left out.

    Modified Gram and Schmidt, each one orthogonalised twice, which is enough for double precision.
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
            # Columns that are left out make room: kept[block] never passes `column`, which is not needed any more.
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
    """Subtract the mean of each block from columns, shape (q, rows), in place. starts : int64, shape (blocks + 1,)."""
    for column in range(columns.shape[0]):
        for block in range(len(starts) - 1):
            own = columns[column, starts[block] : starts[block + 1]]
            total = 0.0
            for row in range(len(own)):
                total += own[row]
            mean = total / len(own)
            for row in range(len(own)):
                own[row] -= mean
