"""Flat stretches, where two runs share only noise, and the even pace of a path through them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray

WINDOW = 33
"""Number of path elements in each window over which the runs are correlated."""

LEAST_AGREEMENT = 0.6
"""Correlation below which two runs share only noise: noise exceeds it in one of thousands of windows."""

SHORTEST = 8
"""Least number of path elements of a flat stretch."""


def agreement(x: FloatArray, y: FloatArray) -> FloatArray:
    """Correlate two runs' values at the elements of a path, shape (elements, metrics), in a window around each element.

    Result: shape (elements,). Pearson's correlation over the 33 elements around each element, of the metric with the
    largest correlation; 0 if a run does not vary.
    """
    at, half = np.arange(len(x)), WINDOW // 2
    starts, stops = np.maximum(at - half, 0), np.minimum(at + half + 1, len(x))
    counts = (stops - starts)[:, None]

    def means(values: FloatArray) -> FloatArray:
        sums = np.vstack((np.zeros(values.shape[1]), np.cumsum(values, axis=0)))
        return np.asarray((sums[stops] - sums[starts]) / counts, np.float64)

    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    mean_x, mean_y = means(x), means(y)
    spread_x, spread_y = means(x * x) - mean_x**2, means(y * y) - mean_y**2
    # Rounding leaves a tiny spread where all values are equal.
    varies = (spread_x > 1e-12 * (x * x).max(axis=0)) & (spread_y > 1e-12 * (y * y).max(axis=0))
    joint = np.sqrt(np.where(varies, spread_x * spread_y, 1.0))
    return np.asarray(np.where(varies, (means(x * y) - mean_x * mean_y) / joint, 0.0).max(axis=1), np.float64)


def flat_elements(path: WarpPath, x: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    """Mark the flat elements of a path: 8 or more consecutive elements where the two runs do not agree.

    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.2, observe that flat segments with slight
    variations lead dynamic time warping astray, but do not define when a segment is flat. One run alone cannot show
    this: a change that looks like a transition may occur in this run only, and apparent noise may recur in every run.
    So a stretch is flat if the two runs do not vary alike.
    """
    flat = agreement(x[path.x_index], y[path.y_index]) < LEAST_AGREEMENT
    for start, stop in stretches_between_anchors(path, flat):
        if stop - start < SHORTEST:
            flat[start:stop] = False
    return flat


def stretches_between_anchors(path: WarpPath, marks: NDArray[np.bool_]) -> IntArray:
    """Unmark anchors and ends of a path; return the first element and the end of each stretch that stays marked."""
    # i + j increases with each element, so it identifies the element.
    marks[np.searchsorted(path.x_index + path.y_index, [i + j for i, j in path.anchors])] = False
    marks[[0, -1]] = False
    return (np.flatnonzero(np.diff(marks)).reshape(-1, 2) + 1).astype(np.int64)


def even_pace(
    x_index: IntArray, y_index: IntArray, stretches: IntArray, pace_x: FloatArray, pace_y: FloatArray
) -> tuple[IntArray, IntArray]:
    """Replace stretches of a warp path with lines of even pace.

    `stretches`: shape (k, 2). Element before, and element after, each replaced stretch; in order, overlapping only at
    their ends.
    `pace_x`, `pace_y`: shape (n,) and (m,). Progress at the middle of each interval, never decreasing; within a stretch
    both runs progress alike. If progress is the interval's number, the line is straight in time.
    """
    parts_x, parts_y, done = [], [], 0
    for start, stop in stretches.tolist():
        i, j = _line(x_index[start], y_index[start], x_index[stop], y_index[stop], pace_x, pace_y)
        parts_x += [x_index[done:start], i]
        parts_y += [y_index[done:start], j]
        done = stop
    return np.concatenate([*parts_x, x_index[done:]]), np.concatenate([*parts_y, y_index[done:]])


def path_from_positions(positions: FloatArray, length_y: int) -> tuple[IntArray, IntArray]:
    """Return the warp path from (0, 0) to (n − 1, m − 1) that aligns each x interval with the y interval at its place.

    `positions`: shape (n,). Position in y of the work of each interval of x [intervals]; never decreasing.
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
    """Return progress scaled to 0 … 1; progress in time if the pace does not increase."""
    gained = pace[-1] - pace[0]
    return (pace - pace[0]) / gained if gained > 0 else np.linspace(0.0, 1.0, len(pace))


def _steps(i: IntArray, j: IntArray) -> tuple[IntArray, IntArray]:
    """Fill the gaps of two non-decreasing sequences with steps of at most 1 in each index, without repeated cells."""
    along_x, along_y = np.diff(i, prepend=i[0]), np.diff(j, prepend=j[0])
    needed = np.maximum(np.maximum(along_x, along_y), 0)
    ends = np.cumsum(needed)
    back = np.repeat(ends, needed) - np.arange(1, ends[-1] + 1)  # steps left before the element itself
    full_i = np.maximum(np.repeat(i, needed) - back, np.repeat(i - along_x, needed))
    full_j = np.maximum(np.repeat(j, needed) - back, np.repeat(j - along_y, needed))
    return np.concatenate((i[:1], full_i)), np.concatenate((j[:1], full_j))
