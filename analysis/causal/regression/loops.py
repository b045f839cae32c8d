"""Compiled loops of regression: what candidate terms explain of a residual, the best thresholds, the cuts of a table.

A basis is orthonormal, with one vector per row of the array, shape (vectors, rows). Rows of the table are sorted by
cell, so a cell is a range. A candidate is a function with a coefficient for each value of a scope: it has as many
columns, each zero outside its cells. Beyond the basis, these explain uᵀM⁻¹u of a residual r, where u = Cᵀr and
M = Cᵀ(I − QQᵀ)C for the candidate's columns C and the basis Q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable, compiled

_VECTORS, _NUMBERS, _CODES = "const float64[:, ::1]", "const float64[::1]", "const int64[::1]"
_SIGNATURES: dict[str, tuple[str, bool]] = {
    "extend": (f"float64[:, ::1], int64, {_VECTORS}, float64, float64[::1], boolean[::1], float64[::1]", True),
    "gains": (
        f"{_NUMBERS}, {_VECTORS}, {_VECTORS}, {_CODES}, const int64[:, ::1], {_CODES}, float64, "
        "float64[:, ::1], int64[:, ::1]",
        True,
    ),
    "scan": (
        f"{_NUMBERS}, {_VECTORS}, {_VECTORS}, const int64[:, ::1], {_VECTORS}, {_CODES}, {_CODES}, {_CODES}, "
        "int64, float64[:, :, ::1]",
        True,
    ),
    "cut_lengths": (
        f"{_CODES}, {_CODES}, {_CODES}, {_NUMBERS}, int64, int64, float64, int64, float64[::1]",
        False,
    ),
}
"""Argument types of each loop, and whether its sums may be reordered."""


def compiled_loop(name: str) -> Callable[..., Any]:
    """Return a compiled loop of this module."""
    signature, reordered = _SIGNATURES[name]
    return compiled(__name__, name, (signature,), called="the regressions' loops", fastmath=reordered)


@compilable
def _dot(x: Any, y: Any) -> float:
    """Return the inner product; the compiler vectorises it."""
    total = 0.0
    for at in range(len(x)):
        total += x[at] * y[at]
    return total


def extend(basis: Any, filled: int, columns: Any, tolerance: float, residual: Any, kept: Any, explained: Any) -> int:
    """Extend an orthonormal basis by columns, and remove what they explain from a residual.

    `basis`: Shape (room, rows). The first `filled` rows are the basis; the rows after them are written.
    `columns`: Shape (columns, rows). A column is left out if at most the share `tolerance` of its squared length is
    new.
    `kept`, `explained`: Shape (columns,). Output: which columns were added, and how much of the residual's squared
    length each explains beyond earlier columns.
    """
    rows = columns.shape[1]
    new = np.empty(rows)
    for column in range(len(columns)):
        new[:] = columns[column]
        before = _dot(new, new)
        for _ in range(2):  # the second pass removes what rounding left
            for vector in range(filled):
                known = basis[vector]
                part = _dot(known, new)
                for row in range(rows):
                    new[row] -= part * known[row]
        after = _dot(new, new)
        kept[column] = after > tolerance * before and filled < len(basis)
        explained[column] = 0.0
        if kept[column]:
            scale = 1 / np.sqrt(after)
            for row in range(rows):
                basis[filled, row] = new[row] * scale
            explained[column] = _without(residual, basis[filled]) ** 2
            filled += 1
    for vector in range(filled):
        _without(residual, basis[vector])
    return filled


@compilable
def _without(residual: Any, vector: Any) -> float:
    """Subtract the part along a unit vector from a residual; return the length of that part."""
    part = _dot(vector, residual)
    for row in range(len(residual)):
        residual[row] -= part * vector[row]
    return part


@compilable
def _explained(own: Any, shared: Any, against: Any, size: int, tolerance: float, factor: Any, solved: Any) -> Any:
    """Return uᵀM⁻¹u and the rank of M, without dependent columns; the last two arguments are scratch space.

    own: squared lengths of the columns; shared, against: their products with the basis and with the residual.
    """
    # Cholesky factorisation of M, with forward substitution of u in the same pass: uᵀM⁻¹u is the squared length of
    # `solved`. A dependent pivot sets its row to zero and does not count.
    explained, rank = 0.0, 0
    for row in range(size):
        value = against[row]
        for column in range(row + 1):
            entry = -_dot(shared[row], shared[column])
            if column == row:
                entry += own[row]
            for before in range(column):
                entry -= factor[row, before] * factor[column, before]
            if column < row:
                factor[row, column] = entry / factor[column, column] if factor[column, column] > 0 else 0.0
                value -= factor[row, column] * solved[column]
            elif entry > tolerance * own[row] and entry > 0:
                factor[row, row] = np.sqrt(entry)
                solved[row] = value / factor[row, row]
                explained += solved[row] * solved[row]
                rank += 1
            else:
                factor[row, row] = 0.0
                solved[row] = 0.0
    return explained, rank


def gains(
    residual: Any,
    basis: Any,
    functions: Any,
    starts: Any,
    values_of: Any,
    sizes: Any,
    tolerance: float,
    gain: Any,
    rank: Any,
) -> None:
    """Compute how much of a residual's squared length each function explains, with coefficients for each scope.

    `starts`: Shape (cells + 1,). Where the rows of each cell start.
    `values_of`: Shape (scopes, cells). The index of each cell's value in a scope.
    `sizes`: Shape (scopes,). Number of values of each scope; 0 leaves the scope out.
    `gain`, `rank`: Shape (functions, scopes). Output: what is explained, and the number of independent columns.
    """
    vectors, cells = len(basis), len(starts) - 1
    by_cell = np.empty((cells, vectors))
    own_by_cell, against_by_cell = np.empty(cells), np.empty(cells)
    most = sizes.max()
    own, against, shared = np.empty(most), np.empty(most), np.empty((most, vectors))
    factor, solved = np.empty((most, most)), np.empty(most)
    for number in range(len(functions)):
        # Compute products with residual and basis once per cell; each scope then only sums over cells.
        for cell in range(cells):
            part = functions[number, starts[cell] : starts[cell + 1]]
            own_by_cell[cell] = _dot(part, part)
            against_by_cell[cell] = _dot(part, residual[starts[cell] : starts[cell + 1]])
            for vector in range(vectors):
                by_cell[cell, vector] = _dot(part, basis[vector, starts[cell] : starts[cell + 1]])
        for scope in range(len(sizes)):
            size = sizes[scope]
            own[:size], against[:size], shared[:size] = 0.0, 0.0, 0.0
            for cell in range(cells):
                value = values_of[scope, cell]
                if size > 0:
                    own[value] += own_by_cell[cell]
                    against[value] += against_by_cell[cell]
                    for vector in range(vectors):
                        shared[value, vector] += by_cell[cell, vector]
            gain[number, scope], rank[number, scope] = _explained(own, shared, against, size, tolerance, factor, solved)


def scan(
    residual: Any,
    basis: Any,
    compared: Any,
    falling: Any,
    weights: Any,
    threshold_of: Any,
    jump_of: Any,
    sizes: Any,
    fewest: int,
    best: Any,
) -> None:
    """Find, for each of several steps, the thresholds at which it explains the largest part of a residual.

    Several jumps at one threshold are assumed to explain the sum of what each explains alone.

    `basis`: Shape (rows, vectors): transposed.
    `compared`, `falling`, `weights`: Shape (steps, rows). The values compared with the threshold, the rows in
    descending order of these values, and the factor of the step.
    `threshold_of`, `jump_of`: Shape (rows,). Each row's threshold and jump; rows with the same jump share a threshold.
    `sizes`: Numbers of thresholds and of jumps.
    `fewest`: Minimum number of rows on each side of a threshold.
    `best`: Shape (steps, thresholds, 2). Output: what is explained, and the threshold; 0 and NaN for none.
    """
    # Rows enter above their threshold one by one, in descending order of `compared`. The loop maintains, for each
    # jump, the products of the step's column with itself, the residual and the basis, and from these what it explains;
    # for each threshold, it maintains the sum over its jumps. So all thresholds cost one pass instead of one fit each.
    vectors = basis.shape[1]
    every = np.zeros(sizes[0], np.int64)
    for row in range(len(threshold_of)):
        every[threshold_of[row]] += 1
    for step in range(len(compared)):
        above, total, last = np.zeros(sizes[0], np.int64), np.zeros(sizes[0]), np.empty(sizes[0])
        own, against, explained = np.zeros(sizes[1]), np.zeros(sizes[1]), np.zeros(sizes[1])
        shared = np.zeros((sizes[1], vectors))
        best[step, :, 0], best[step, :, 1] = 0.0, np.nan
        for at in range(compared.shape[1]):
            row = falling[step, at]
            threshold, jump = threshold_of[row], jump_of[row]
            rest = every[threshold] - above[threshold]
            # Before this row enters: try a threshold between this row and the last one, if the two differ and both
            # sides have enough rows.
            here = compared[step, row]
            if (
                above[threshold] >= fewest
                and rest >= fewest
                and last[threshold] > here
                and total[threshold] > best[step, threshold, 0]
            ):
                best[step, threshold, 0] = total[threshold]
                best[step, threshold, 1] = here + (last[threshold] - here) / 2
            weight = weights[step, row]
            own[jump] += weight * weight
            against[jump] += weight * residual[row]
            known = 0.0
            for vector in range(vectors):
                shared[jump, vector] += weight * basis[row, vector]
                known += shared[jump, vector] * shared[jump, vector]
            total[threshold] -= explained[jump]
            new = own[jump] - known
            explained[jump] = against[jump] * against[jump] / new if new > 1e-9 * own[jump] else 0.0
            total[threshold] += explained[jump]
            above[threshold] += 1
            last[threshold] = here


def cut_lengths(
    target: Any,
    cells: Any,
    order: Any,
    x: Any,
    cell_count: int,
    categories: int,
    price: float,
    fewest: int,
    lengths: Any,
) -> None:
    """Compute the length of a probability table and its data for each cut of a parent into two intervals.

    `cells`: Shape (rows,). Each row's cell before the cut, which splits every cell.
    `order`: Shape (rows,). Rows in ascending order of `x`.
    `lengths`: Shape (rows,). Output: the length with a cut after each row of `order`; infinite if it cannot be cut.
    """
    rows = len(target)
    counts = np.zeros((2, cell_count, categories), np.int64)
    totals = np.zeros((2, cell_count), np.int64)
    of = np.zeros(rows + 2)  # m·log₂ m
    for many in range(1, rows + 2):
        of[many] = many * np.log2(many)
    for row in range(rows):
        counts[1, cells[row], target[row]] += 1
        totals[1, cells[row]] += 1
    bits, present = 0.0, 0
    for cell in range(cell_count):
        bits += of[totals[1, cell]]
        present += totals[1, cell] > 0
        for category in range(categories):
            bits -= of[counts[1, cell, category]]
    # Rows move from the upper interval (1) to the lower one (0) in ascending order of x. `bits` is always the code
    # length of all counts, Σ m·log₂ m over cells less that over categories: each move changes four of its summands.
    for at in range(rows):
        row = order[at]
        cell, category = cells[row], target[row]
        for side, change in ((1, -1), (0, 1)):
            many, all_of_them = counts[side, cell, category], totals[side, cell]
            bits += of[all_of_them + change] - of[all_of_them] - of[many + change] + of[many]
            present += int(all_of_them + change > 0) - int(all_of_them > 0)
            counts[side, cell, category] = many + change
            totals[side, cell] = all_of_them + change
        usable = at + 1 >= fewest and rows - at - 1 >= fewest and x[order[min(at + 1, rows - 1)]] > x[row]
        lengths[at] = bits + present * price if usable else np.inf
