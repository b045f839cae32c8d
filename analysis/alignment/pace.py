"""Paths at an even pace: straight lines through flat stretches, and paths from positions."""

from __future__ import annotations

import numpy as np

from unperturbed.analysis.alignment.warp import FloatArray, IntArray

__all__ = ["even_pace", "path_through"]


def even_pace(
    x_index: IntArray, y_index: IntArray, stretches: IntArray, pace_x: FloatArray, pace_y: FloatArray
) -> tuple[IntArray, IntArray]:
    """Replace stretches of a path by lines of even pace.

    Parameters
    ----------
    x_index, y_index : int64, shape (elements,)
        A warp path.
    stretches : int64, shape (k, 2)
        Element before, and element after, what is replaced; in order, apart but for their ends.
    pace_x, pace_y : float64, shape (n,) and (m,)
        Progress at the middle of each interval, never falling; within a stretch both runs progress alike. The interval's number
        makes the line straight in time.

    Returns
    -------
    x_index, y_index : int64, shape (elements,)
        A warp path.
    """
    parts_x, parts_y, done = [], [], 0
    for start, stop in stretches.tolist():
        i, j = _line(x_index[start], y_index[start], x_index[stop], y_index[stop], pace_x, pace_y)
        parts_x += [x_index[done:start], i]
        parts_y += [y_index[done:start], j]
        done = stop
    return np.concatenate([*parts_x, x_index[done:]]), np.concatenate([*parts_y, y_index[done:]])


def path_through(positions: FloatArray, length_y: int) -> tuple[IntArray, IntArray]:
    """Return the warp path that joins each interval of x with the interval of y at a position.

    Parameters
    ----------
    positions : float64, shape (n,)
        Where y does the work of each interval of x [intervals]; never falling.
    length_y : m.

    Returns
    -------
    x_index, y_index : int64, shape (elements,)
        From (0, 0) to (n − 1, m − 1).
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
    """Fill the gaps of two never falling sequences, so that each step grows either index by 1 at most, and leave out what repeats."""
    along_x, along_y = np.diff(i, prepend=i[0]), np.diff(j, prepend=j[0])
    needed = np.maximum(np.maximum(along_x, along_y), 0)
    ends = np.cumsum(needed)
    back = np.repeat(ends, needed) - np.arange(1, ends[-1] + 1)  # steps still to go to the element itself
    full_i = np.maximum(np.repeat(i, needed) - back, np.repeat(i - along_x, needed))
    full_j = np.maximum(np.repeat(j, needed) - back, np.repeat(j - along_y, needed))
    return np.concatenate((i[:1], full_i)), np.concatenate((j[:1], full_j))
