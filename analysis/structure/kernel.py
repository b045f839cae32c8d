"""The kernel of a set of segments: the subset of "maximally distant" ones, which the paper takes as words.

"Structural analysis of measurement paths", section 2, eqs. (2), (3) and (5): Kuznetsov's method of monotonic functions. The maximum over all
subsets is exact, by one pass that takes away the segment of least weight again and again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.structure.distances import square
from unperturbed.errors import DataError

__all__ = ["Kernel", "kernel"]

_LARGEST_EXACT = 2**53
_LARGEST_SUM = 2**61
"""Of weights in whole numbers: half of what int64 holds stays free, for the mark of what is taken away."""
_TAKEN = np.iinfo(np.int64).max
_ROUNDING = 2.0**-52
"""Of a power, relative to the largest one."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """The subset H* of eq. (3), and how it was found.

    Attributes
    ----------
    members : int64, shape (size,)
        Rows of the matrix that belong to H*, in order.
    value : float
        F(H*): the least sum, over a member's distances to all members, of their powers.
    defining_sequence : int64, shape (d,)
        All rows in the order in which they were taken away. H* is what was left at the last threshold step.
    weights : float64, shape (d,)
        π of each at that moment: F of what was left, itself included.
    threshold_steps : int64, shape (steps,)
        Positions in the defining sequence at which the threshold u changes; the first is 0.
    """

    members: NDArray[np.int64]
    value: float
    defining_sequence: NDArray[np.int64]
    weights: NDArray[np.float64]
    threshold_steps: NDArray[np.int64]


def kernel(distances: ArrayLike, power: float = 1.0, *, smallest: bool = False) -> Kernel:
    """Find the subset whose least connected member is connected best, exactly.

    Parameters
    ----------
    distances : shape (d, d)
        Symmetric, 0 or more, finite, with a zero diagonal; see `indel_distances`.
    power : float
        p, above 0: distances are raised to it. Large ones set segments apart that are far from all others ("sufficiently high power", section 2).
    smallest : bool
        Whether the threshold also changes at an equal weight. Off, the paper's way, gives the largest of all subsets that reach the maximum; on, the
        smallest where no two rows are at distance 0. Among duplicates it is one of those that cannot be made smaller, and in a matrix in
        which rows at distance 0 are not the same, any of those that reach the maximum.

    Returns
    -------
    Kernel
        No rows: no members, with value 0. One row, or all at distance 0: value 0.

    Raises
    ------
    ValueError
        A power that is not above 0, or so large that the powers are.
    DataError
        A matrix that is not one of distances.

    Notes
    -----
    Of rows with the same weight the lowest is taken away first. O(d²) time and one copy of the matrix. Sums are whole numbers, so that they do not
    drift as columns are subtracted: exact for whole distances and a whole power; else of a resolution that lies below the rounding of the powers, and
    weights that differ by no more than that rounding are equal.
    """
    matrix = _checked(distances)
    if not (power > 0 and math.isfinite(power)):
        raise ValueError(f"power is {power}; give a number above 0")
    if not len(matrix):
        return Kernel(np.empty(0, np.int64), 0.0, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))
    powers, exponent, rounding = _whole_powers(matrix, power)
    order, weights = _defining_sequence(powers)
    steps = _threshold_steps(weights, rounding, smallest)
    last = steps[-1]
    scaled = np.ldexp(weights.astype(np.float64), exponent)
    return Kernel(np.sort(order[last:]), float(scaled[last]), order, scaled, np.array(steps, np.int64))


def _checked(distances: ArrayLike) -> NDArray[np.float64]:
    matrix = square(distances)
    for wrong, what in (
        (~np.isfinite(matrix), "not finite"),
        (matrix < 0, "below 0"),
        (np.diag(np.diag(matrix) != 0), "not 0, of a segment to itself"),
        (matrix != matrix.T, "not that of the opposite direction"),
    ):
        if wrong.any():
            row, column = (int(index) for index in np.argwhere(wrong)[0])
            raise DataError(f"the distance of {row} to {column} is {matrix[row, column]}, {what}")
    return matrix


def _whole_powers(matrix: NDArray[np.float64], power: float) -> tuple[NDArray[np.int64], int, int]:
    """Return the powers as whole multiples of 2 to an exponent, the exponent, and how many of these a sum may be wrong by."""
    furthest, rows = float(matrix.max()), len(matrix)
    try:
        largest = furthest**power
    except OverflowError:
        largest = math.inf
    if math.isinf(largest * rows) or (furthest and not largest):
        raise ValueError(
            f"the power {power:g} of the distance {furthest:g} is beyond the range of numbers; give one that is nearer to 1"
        )
    if float(power).is_integer() and furthest <= _LARGEST_EXACT and largest * rows <= _LARGEST_SUM and (matrix % 1 == 0).all():
        return matrix.astype(np.int64) ** int(power), 0, 0
    # The maximum of F is at least the largest power, that of the furthest pair: what counts is the resolution relative to it. By a power
    # of two, so that powers are rounded at most once.
    exponent = math.frexp(largest * rows)[1] - _LARGEST_SUM.bit_length() + 1
    whole = np.rint(np.ldexp(matrix**power, -exponent)).astype(np.int64)
    return whole, exponent, math.ceil(math.ldexp(rows * largest * _ROUNDING, -exponent))


def _defining_sequence(powers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows in the order in which they are taken away, and their weights then (the algorithm of section 2)."""
    remaining = powers.sum(axis=0)
    order, weights = np.empty(len(powers), np.int64), np.empty(len(powers), np.int64)
    for step in range(len(powers)):
        row = int(remaining.argmin())
        order[step], weights[step] = row, remaining[row]
        remaining -= powers[row]  # section 3: π(L, H_k) = π(L, H_k-1) − ρ
        remaining[row] = _TAKEN
    return order, weights


def _threshold_steps(weights: NDArray[np.int64], rounding: int, smallest: bool) -> list[int]:
    """Return the steps at which the threshold u changes."""
    steps, threshold = [0], int(weights[0])
    for step, weight in enumerate(weights[1:].tolist(), start=1):
        if weight > threshold + rounding or (smallest and weight >= threshold - rounding):
            steps.append(step)
            threshold = max(threshold, weight)
    return steps
