"""Exact dynamic time warping of two series, plain and through anchors."""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.errors import DataError

__all__ = ["FloatArray", "IntArray", "WarpPath", "anchored_dtw", "dtw"]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

_Cell: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False)
class WarpPath:
    """Which interval of x is aligned to which interval of y.

    Attributes
    ----------
    x_index, y_index : int64, shape (elements,). Path element e aligns interval `x_index[e]` of x to `y_index[e]` of y. Both
        begin at 0, end at the last interval and grow by 0 or 1, never both by 0 (constraints 1–3 of the paper's section 2).
        Read-only.
    cost : sum of |x − y| over elements and metrics, plus the penalties.
    anchors : cells that the path was made to pass, in order; empty for a free path.
    """

    x_index: IntArray
    y_index: IntArray
    cost: float
    anchors: tuple[_Cell, ...] = ()

    def __post_init__(self) -> None:
        for name in ("x_index", "y_index"):
            index = np.asarray(getattr(self, name), np.int64).view()
            index.setflags(write=False)
            object.__setattr__(self, name, index)

    def __len__(self) -> int:
        return len(self.x_index)

    def swapped(self) -> WarpPath:
        """Return the same path seen from y."""
        return WarpPath(self.y_index, self.x_index, self.cost, tuple((j, i) for i, j in self.anchors))


def dtw(x: ArrayLike, y: ArrayLike, *, penalty: float = 0.0, band: int | None = None) -> WarpPath:
    """Align two series exactly by dynamic time warping.

    Parameters
    ----------
    x, y : float64, shape (n,) or (n, metrics)
        One row an interval. Finite; a NaN raises DataError (a ValueError) naming its index.
    penalty : same unit as the cost [metric units]
        Added for each step that is not diagonal (amerced DTW). 0 is the paper's DTW.
    band : intervals, optional
        Sakoe–Chiba half-width around the diagonals through the two corners: with x the shorter series, j lies between i − band
        and i + (m − n) + band. 0 allows no detour. None searches everything.

    Returns
    -------
    WarpPath
        `x_index`, `y_index` (equal length, monotone), `cost`.

    Raises
    ------
    DataError
        A series is empty, of another shape, or not finite.
    ValueError
        The penalty or the band is negative.

    Notes
    -----
    Constraints 1–3 and eq. (1) of Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 2. Ties prefer the
    diagonal; the path is the same with the arguments swapped. O(nm) time, one byte of memory a cell.
    """
    return anchored_dtw(x, y, (), penalty=penalty, band=band)


def anchored_dtw(
    x: ArrayLike, y: ArrayLike, anchors: Iterable[tuple[int, int]], *, penalty: float = 0.0, band: int | None = None
) -> WarpPath:
    """Align two series by dynamic time warping between anchors.

    Parameters
    ----------
    x, y, penalty : as for `dtw`.
    anchors : pairs (interval of x, interval of y)
        Cells that the path must pass. Anchors that cross are thinned to a largest set that one path can pass;
        `WarpPath.anchors` holds those that were kept.
    band : intervals, optional
        As for `dtw`, within each segment.

    Returns
    -------
    WarpPath
        The cheapest path through the anchors.

    Raises
    ------
    DataError
        As for `dtw`.
    ValueError
        An anchor is out of range, or as for `dtw`.

    Notes
    -----
    ADTW of Mytkowicz et al., section 5.3: the series are split at the anchors and each segment is aligned by itself. How
    neighbouring segments meet the paper leaves open: here both hold the anchor's cell, and its cost counts once.
    """
    rows_x, rows_y = _rows("x", x), _rows("y", y)
    if rows_x.shape[1] != rows_y.shape[1]:
        raise DataError(f"x has {rows_x.shape[1]} metrics and y has {rows_y.shape[1]}: give both the same metrics")
    if not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty is {penalty}: give a finite number, 0 or more")
    if band is not None and operator.index(band) < 0:
        raise ValueError(f"band is {band}: give a number of intervals, 0 or more, or None")
    cells = sorted({_cell(anchor, len(rows_x), len(rows_y)) for anchor in anchors})
    mirrored = sorted((j, i) for i, j in cells)
    # One orientation for both orders of the arguments, so that ties fall alike.
    if _is_after(rows_x, rows_y, default=cells > mirrored):
        return _warp_through(rows_y, rows_x, mirrored, penalty, band).swapped()
    return _warp_through(rows_x, rows_y, cells, penalty, band)


def _warp_through(x: FloatArray, y: FloatArray, cells: list[_Cell], penalty: float, band: int | None) -> WarpPath:
    from unperturbed.analysis.alignment import kernels  # noqa: PLC0415  loads the compiler

    anchors = _passable(cells)
    corners = [(0, 0), *anchors, (len(x) - 1, len(y) - 1)]
    width = len(x) + len(y) if band is None else min(operator.index(band), len(x) + len(y))
    x_parts = [np.zeros(1, np.int64)]
    y_parts = [np.zeros(1, np.int64)]
    for (i, j), (next_i, next_j) in pairwise(corners):
        x_index, y_index = kernels.warp(x[i : next_i + 1], y[j : next_j + 1], float(penalty), width)
        x_parts.append(x_index[1:] + i)
        y_parts.append(y_index[1:] + j)
    x_path, y_path = np.concatenate(x_parts), np.concatenate(y_parts)
    cost = float(kernels.path_cost(x, y, x_path, y_path, float(penalty)))
    if not math.isfinite(cost):
        raise DataError("the values are so large that their differences overflow: scale the series")
    return WarpPath(x_path, y_path, cost, tuple(anchors))


def _rows(name: str, series: ArrayLike) -> FloatArray:
    """Return a series as contiguous float64 rows, one an interval, or say what is wrong with it."""
    rows = np.asarray(series, dtype=np.float64)
    if rows.ndim not in (1, 2):
        raise DataError(f"{name} has shape {rows.shape}: give (n,) or (n, metrics)")
    if rows.size == 0:
        raise DataError(f"{name} is empty (shape {rows.shape}): there is nothing to align")
    wrong = np.argwhere(~np.isfinite(rows))
    if len(wrong):
        at = tuple(int(index) for index in wrong[0])
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DataError(f"{name}[{', '.join(map(str, at))}] is {rows[at]}{more}: drop or fill it before aligning")
    return np.ascontiguousarray(rows.reshape(len(rows), -1))


def _cell(anchor: tuple[int, int], n: int, m: int) -> _Cell:
    i, j = (operator.index(index) for index in anchor)
    if not (0 <= i < n and 0 <= j < m):
        raise ValueError(f"anchor ({i}, {j}) is out of range: x has {n} intervals and y has {m}, counted from 0")
    return i, j


def _is_after(x: FloatArray, y: FloatArray, *, default: bool) -> bool:
    """Tell whether x comes after y, by length and then by the first value that differs; `default` when nothing differs."""
    if len(x) != len(y):
        return len(x) > len(y)
    differing = np.flatnonzero(x.ravel() != y.ravel())
    return bool(x.ravel()[differing[0]] > y.ravel()[differing[0]]) if len(differing) else default


def _passable(cells: list[_Cell]) -> list[_Cell]:
    """Return a largest subset of sorted cells in which no index falls: a longest non-decreasing subsequence, by patience."""
    tails: list[int] = []  # the smallest y index that ends a subsequence of each length
    holders: list[int] = []
    previous: list[int] = []
    for at, (_, j) in enumerate(cells):
        length = bisect_right(tails, j)
        previous.append(holders[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        holders[length : length + 1] = [at]
    kept: list[_Cell] = []
    at = holders[-1] if holders else -1
    while at >= 0:
        kept.append(cells[at])
        at = previous[at]
    return kept[::-1]
