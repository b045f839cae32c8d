"""Exact dynamic time warping of two series, plain and through anchors."""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.alignment.dtw.series import (
    FloatArray,
    IntArray,
    Scale,
    cells_of,
    comparable_rows,
)
from unperturbed.common.result import Result
from unperturbed.common.table import Table
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_Cell: TypeAlias = tuple[int, int]


@dataclass(frozen=True, eq=False, repr=False)
class WarpPath(Result):
    """Alignment of the intervals of two series.

    Attributes
    ----------
    x_index, y_index : array of int64, shape (elements,)
        Path element e aligns interval `x_index[e]` of x to `y_index[e]` of y. Both begin at 0, end at the last interval
        and grow by 0 or 1, never both by 0 (constraints 1–3 of the paper's section 2). Read-only.
    cost : float
        Sum of |x − y| over elements and metrics, plus the penalties.
    anchors : tuple of tuple of (int, int), default ()
        Cells that the path had to pass, in order; empty for a free path.
    dropped : tuple of tuple of (int, int), default ()
        Anchors that were left out because they cross the others.
    scale : tuple of float, optional
        Divisor of each metric before the alignment, in the metric's unit; None if nothing was divided.
    """

    _page: ClassVar[str] = "unperturbed.analysis.report.alignment:render_path"

    x_index: IntArray
    y_index: IntArray
    cost: float
    anchors: tuple[_Cell, ...] = ()
    dropped: tuple[_Cell, ...] = ()
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("x_index", "y_index"):
            index = np.asarray(getattr(self, name), np.int64).view()
            index.setflags(write=False)
            object.__setattr__(self, name, index)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # a path from another process is read-only too

    def __len__(self) -> int:
        return len(self.x_index)

    def headline(self) -> str:
        """Return the lengths and the cost in one line."""
        n, m = int(self.x_index[-1]) + 1, int(self.y_index[-1]) + 1
        return f"{n:,} intervals aligned to {m:,} by {len(self):,} path elements at cost {self.cost:.6g}"

    def tables(self) -> list[Table]:
        """Return no table: the path is in `to_frame`."""
        return []

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row for each path element: x_index, y_index."""
        import polars as pl  # noqa: PLC0415  slow to load

        return pl.DataFrame({"x_index": self.x_index, "y_index": self.y_index})

    def to_dict(self) -> dict[str, Any]:
        """Return the path as plain data, ready for JSON."""
        return {
            "cost": self.cost,
            "anchors": [list(cell) for cell in self.anchors],
            "dropped": [list(cell) for cell in self.dropped],
            "scale": None if self.scale is None else list(self.scale),
            "x_index": self.x_index.tolist(),
            "y_index": self.y_index.tolist(),
        }

    def swapped(self) -> WarpPath:
        """Return the same path with x and y swapped."""
        anchors = tuple((j, i) for i, j in self.anchors)
        dropped = tuple(sorted((j, i) for i, j in self.dropped))
        return WarpPath(self.y_index, self.x_index, self.cost, anchors, dropped, self.scale)


def dtw(x: ArrayLike, y: ArrayLike, *, penalty: float = 0.0, band: int | None = None, scale: Scale = None) -> WarpPath:
    """Align two series exactly by dynamic time warping.

    Parameters
    ----------
    x, y : array_like, shape (n,) or (n, metrics)
        One row for each interval. Values must be finite; for a NaN, DataError (a ValueError) names its index.
    penalty : float, default 0.0
        Cost of each step that is not diagonal (amerced DTW; Herrmann and Webb 2023) [metric units, or multiples of the
        scale]. 0 is the paper's DTW.
    band : int, optional
        Sakoe–Chiba half-width in intervals around the diagonals through the two corners: with x the shorter series, j
        lies between i − band and i + (m − n) + band. 0 allows no detour. None searches the whole matrix.
    scale : {"std", "range"} or array_like
        Divisor of each metric, the same for both series, so metrics of different units have equal weight: `std`, the
        standard deviation of both series' values together; `range`, their range from the 5th to the 95th percentile; or
        an array of divisors, shape (metrics,). None does not divide. The path's `scale` has the divisors.

    Returns
    -------
    WarpPath
        `x_index`, `y_index` (equal length, monotone), `cost`.

    Raises
    ------
    DataError
        A series is empty, has a wrong shape or a value that is not finite; or a metric does not vary, so it has no
        spread to divide by.
    ValueError
        The penalty or the band is negative, or a divisor is not positive.

    Notes
    -----
    Constraints 1–3 and eq. (1) of Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 2, with |x −
    y| summed over metrics. Ties prefer the diagonal; swapped arguments give the same path. float64 and exact: the cost
    summed along the path must equal the matrix's cost to the last bit. O(nm) time and O((n + m) · √(n + m)) memory by
    checkpoints; within a band of width w, O((n + m) · w) time.
    """
    return anchored_dtw(x, y, (), penalty=penalty, band=band, scale=scale)


def anchored_dtw(
    x: ArrayLike,
    y: ArrayLike,
    anchors: Iterable[tuple[int, int]],
    *,
    penalty: float = 0.0,
    band: int | None = None,
    scale: Scale = None,
) -> WarpPath:
    """Align two series by dynamic time warping between anchors.

    Parameters
    ----------
    x, y, penalty, scale : array_like
        As for `dtw`.
    anchors : iterable of tuple of (int, int)
        Cells (interval of x, interval of y) that the path must pass. If anchors cross, a largest set that one path can
        pass is kept: `WarpPath.anchors` has the kept anchors, `WarpPath.dropped` the others.
    band : int, optional
        As for `dtw`, in intervals, within each segment.

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
    ADTW of Mytkowicz et al., section 5.3: the series are split at the anchors and each segment is aligned by itself.
    The paper does not specify how neighbouring segments meet: here both contain the anchor's cell, and its cost counts
    once.
    """
    (rows_x, rows_y), divisors = comparable_rows({"x": x, "y": y}, penalty, band, scale)
    cells = [_cell(anchor, len(rows_x), len(rows_y)) for anchor in anchors]
    return align_rows(rows_x, rows_y, cells, penalty, band, divisors)


def dtw_cost(
    x: ArrayLike, y: ArrayLike, *, penalty: float = 0.0, band: int | None = None, scale: Scale = None
) -> float:
    """Return the cost of the path that `dtw` finds, without the path: faster, in O(n + m) memory.

    Parameters
    ----------
    x, y, penalty, band, scale : array_like
        As for `dtw`.

    Returns
    -------
    float
        The cost of `dtw`'s path, to the last bit.

    Raises
    ------
    DataError, ValueError
        As for `dtw`.
    """
    from unperturbed.analysis.alignment.dtw import kernels  # noqa: PLC0415  loads the compiler

    rows, _ = comparable_rows({"x": x, "y": y}, penalty, band, scale)
    series, step, exponent = cells_of(rows, penalty, len(rows[0]) * len(rows[1]))
    starts = np.cumsum([0, *map(len, rows)])
    (cost,) = kernels.pair_costs(np.concatenate(series), starts, np.array([[0, 1]]), step, band_width(band, *rows))
    return _finite(math.ldexp(float(cost), -exponent))


def align_rows(
    x: FloatArray,
    y: FloatArray,
    cells: Iterable[_Cell],
    penalty: float,
    band: int | None,
    divisors: tuple[float, ...] | None = None,
) -> WarpPath:
    """Align rows, as `anchored_dtw` does after it has checked and converted its arguments."""
    cells = sorted(set(cells))
    mirrored = sorted((j, i) for i, j in cells)
    # Both orders of the arguments use the same orientation, to break ties alike.
    if _is_after(x, y, default=cells > mirrored):
        return _warp_through(y, x, mirrored, penalty, band, divisors).swapped()
    return _warp_through(x, y, cells, penalty, band, divisors)


def _warp_through(
    x: FloatArray,
    y: FloatArray,
    cells: list[_Cell],
    penalty: float,
    band: int | None,
    divisors: tuple[float, ...] | None,
) -> WarpPath:
    from unperturbed.analysis.alignment.dtw import kernels  # noqa: PLC0415  loads the compiler

    anchors = _passable(cells)
    corners = np.array([(0, 0), *anchors, (len(x) - 1, len(y) - 1)], np.int64)
    largest = int(np.diff(corners, axis=0).prod(axis=1).max())
    (cells_x, cells_y), step, exponent = cells_of((x, y), penalty, largest)
    path, cost, wrong = kernels.path_through(cells_x, cells_y, corners, step, band_width(band, x, y))
    if wrong >= 0:
        raise RuntimeError(
            "internal error: the cost of the path from ({}, {}) to ({}, {}) differs from the matrix's cost: "
            "please report this with the two series".format(*corners[wrong], *corners[wrong + 1])
        )
    kept = set(anchors)
    dropped = tuple(cell for cell in cells if cell not in kept)
    return WarpPath(path[0], path[1], _finite(math.ldexp(cost, -exponent)), tuple(anchors), dropped, divisors)


def band_width(band: int | None, x: FloatArray, y: FloatArray) -> int:
    """Return the band for the kernels, limited to the number of intervals of both series together."""
    everything = len(x) + len(y)
    return everything if band is None else min(operator.index(band), everything)


def _finite(cost: float) -> float:
    if not math.isfinite(cost):
        raise DataError(
            "the values are so large that their differences overflow: divide both series by the same large number"
        )
    return cost


def _cell(anchor: tuple[int, int], n: int, m: int) -> _Cell:
    i, j = (operator.index(index) for index in anchor)
    if not (0 <= i < n and 0 <= j < m):
        raise ValueError(
            f"anchor ({i}, {j}) is out of range: the first number must be from 0 to {n - 1}, and the second from 0 "
            f"to {m - 1}"
        )
    return i, j


def _is_after(x: FloatArray, y: FloatArray, *, default: bool) -> bool:
    """Return whether x comes after y, by length and then by the first value that differs; `default` if none does."""
    if len(x) != len(y):
        return len(x) > len(y)
    differing = np.flatnonzero(x.ravel() != y.ravel())
    return bool(x.ravel()[differing[0]] > y.ravel()[differing[0]]) if len(differing) else default


def _passable(cells: list[_Cell]) -> list[_Cell]:
    """Return a largest subset of sorted cells in which no index decreases, by patience sorting of the y indices."""
    tails: list[int] = []  # the smallest y index that ends a subsequence of each length
    holders: list[int] = []  # the cells with these y indices
    previous: list[int] = []  # the cell before each in its subsequence
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
