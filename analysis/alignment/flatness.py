"""Flat stretches, along which two runs have nothing in common to align by, and the even pace of a path through them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray

WINDOW = 33
"""Path elements over which the runs are correlated."""

LEAST_AGREEMENT = 0.6
"""Correlation below which two runs have nothing in common: that of noise exceeds it once in thousands of windows."""

SHORTEST = 8
"""Path elements; a shorter stretch is not called flat."""


def agreement(x: FloatArray, y: FloatArray) -> FloatArray:
    """Correlate two runs along a path, window by window.

    `x`, `y`: array of float64, shape (elements, metrics). Both runs' values at each element of a path.
    Result: float64, shape (elements,). Pearson's correlation over the 33 elements around each, of that metric in which
    it is largest; 0 where one does not vary.
    """
    elements = len(x)
    half = WINDOW // 2
    starts, stops = np.maximum(np.arange(elements) - half, 0), np.minimum(np.arange(elements) + half + 1, elements)
    counts = (stops - starts)[:, None]

    def means(values: FloatArray) -> FloatArray:
        sums = np.vstack((np.zeros(values.shape[1]), np.cumsum(values, axis=0)))
        return np.asarray((sums[stops] - sums[starts]) / counts, np.float64)

    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    mean_x, mean_y = means(x), means(y)
    spread_x, spread_y = means(x * x) - mean_x**2, means(y * y) - mean_y**2
    # Sums of many values differ in their last bits where the values are equal.
    varies = (spread_x > 1e-12 * (x * x).max(axis=0)) & (spread_y > 1e-12 * (y * y).max(axis=0))
    joint = np.sqrt(np.where(varies, spread_x * spread_y, 1.0))
    return np.asarray(np.where(varies, (means(x * y) - mean_x * mean_y) / joint, 0.0).max(axis=1), np.float64)


def flat_elements(path: WarpPath, x: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    """Mark the elements of a path along which two runs have nothing in common.

    `x`, `y`: array of float64, shape (n, metrics) and (m, metrics). The runs.
    Result: array of bool, shape (elements,). True in stretches of at least 8 elements without agreement. An anchor, and
    the ends, are no part of any.

    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.2, see that flat segments with slight
    variations lead dynamic time warping astray, and leave open when a segment is flat. One run alone cannot tell: what
    looks like a transition may happen in this run only, and what looks like noise may come again in every run. So a
    stretch is called flat when the two runs do not vary alike.
    """
    flat = agreement(x[path.x_index], y[path.y_index]) < LEAST_AGREEMENT
    flat[[0, -1]] = False
    if path.anchors:
        # i + j grows with each element, so it tells the elements apart.
        flat[np.searchsorted(path.x_index + path.y_index, [i + j for i, j in path.anchors])] = False
    for start, stop in np.flatnonzero(np.diff(flat)).reshape(-1, 2) + 1:
        if stop - start < SHORTEST:
            flat[start:stop] = False
    return flat


def even_pace(
    x_index: IntArray, y_index: IntArray, stretches: IntArray, pace_x: FloatArray, pace_y: FloatArray
) -> tuple[IntArray, IntArray]:
    """Replace stretches of a path by lines of even pace.

    `x_index`, `y_index`: array of int64, shape (elements,). A warp path.
    `stretches`: array of int64, shape (k, 2). Element before, and element after, what is replaced; in order, apart but
    for their ends.
    `pace_x`, `pace_y`: array of float64, shape (n,) and (m,). Progress at the middle of each interval, never falling;
    within a stretch both runs progress alike. The interval's number makes the line straight in time.
    Result `x_index`, `y_index`: int64, shape (elements,). A warp path.
    """
    parts_x, parts_y, done = [], [], 0
    for start, stop in stretches.tolist():
        i, j = _line(x_index[start], y_index[start], x_index[stop], y_index[stop], pace_x, pace_y)
        parts_x += [x_index[done:start], i]
        parts_y += [y_index[done:start], j]
        done = stop
    return np.concatenate([*parts_x, x_index[done:]]), np.concatenate([*parts_y, y_index[done:]])


def path_from_positions(positions: FloatArray, length_y: int) -> tuple[IntArray, IntArray]:
    """Return the warp path that aligns each interval of x with the interval of y at a position.

    `positions`: array of float64, shape (n,). Where y does the work of each interval of x [intervals]; never falling.
    Result `x_index`, `y_index`: int64, shape (elements,). From (0, 0) to (n − 1, m − 1).
    """
    n = len(positions)
    j = np.clip(np.floor(positions).astype(np.int64), 0, length_y - 1)
    return _steps(np.concatenate(([0], np.arange(n), [n - 1])), np.concatenate(([0], j, [length_y - 1])))


def _line(i0: int, j0: int, i1: int, j1: int, pace_x: FloatArray, pace_y: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the elements of a line from one cell to another, without the last."""
    if i1 - i0 < j1 - j0:
        j, i = _line(j0, i0, j1, i1, pace_y, pace_x)
        return i, j
    progress_x = _progress(pace_x[i0 : i1 + 1])
    progress_y = _progress(pace_y[j0 : j1 + 1])
    nearest = np.rint(np.interp(progress_x, progress_y, np.arange(j1 - j0 + 1))).astype(np.int64)
    nearest[0], nearest[-1] = 0, j1 - j0
    i, j = _steps(np.arange(i0, i1 + 1), j0 + nearest)
    return i[:-1], j[:-1]


def _progress(pace: FloatArray) -> FloatArray:
    """Return progress from 0 to 1; in time where there is none."""
    gained = pace[-1] - pace[0]
    return (pace - pace[0]) / gained if gained > 0 else np.linspace(0.0, 1.0, len(pace))


def _steps(i: IntArray, j: IntArray) -> tuple[IntArray, IntArray]:
    """Fill the gaps of two non-decreasing sequences with steps of at most 1 in each index, without repeated cells."""
    along_x, along_y = np.diff(i, prepend=i[0]), np.diff(j, prepend=j[0])
    needed = np.maximum(np.maximum(along_x, along_y), 0)
    ends = np.cumsum(needed)
    back = np.repeat(ends, needed) - np.arange(1, ends[-1] + 1)  # steps still to go to the element itself
    full_i = np.maximum(np.repeat(i, needed) - back, np.repeat(i - along_x, needed))
    full_j = np.maximum(np.repeat(j, needed) - back, np.repeat(j - along_y, needed))
    return np.concatenate((i[:1], full_i)), np.concatenate((j[:1], full_j))
