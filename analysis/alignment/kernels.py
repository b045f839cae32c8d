"""The compiled loops of dynamic time warping, float64 and exact.

Importing this module loads the compiler (about half a second): only `warp` does, and only when it aligns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["path_cost", "warp"]

_Loop = TypeVar("_Loop", bound=Callable[..., object])

_DIAGONAL, _ALONG_X, _ALONG_Y = 0, 1, 2
"""The step that led to a cell: both indices grew, only x's, only y's."""


def _warp(
    x: NDArray[np.float64], y: NDArray[np.float64], penalty: float, band: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cheapest path through the matrix of |x − y| summed over metrics; one byte a cell is kept.

    The band runs between the two diagonals through the corners, widened by `band` on either side, so a path always exists.
    """
    n, m = x.shape[0], y.shape[0]
    left_edge = min(0, m - n) - band
    right_edge = max(0, m - n) + band
    steps = np.empty((n, m), np.uint8)
    best = np.full(m, np.inf)  # of the row before, replaced from left to right
    costs = np.empty(m)
    columns = np.ascontiguousarray(y.T)
    for i in range(n):
        first = max(0, i + left_edge)
        last = min(m - 1, i + right_edge)
        corner = best[first - 1] if first > 0 else np.inf
        before = np.inf
        # Apart from the recurrence, whose steps wait for each other, so that the compiler can use vectors here.
        costs[first : last + 1] = 0.0
        for metric in range(x.shape[1]):
            for j in range(first, last + 1):
                costs[j] += abs(x[i, metric] - columns[metric, j])
        for j in range(first, last + 1):
            above = best[j]
            if i == 0 and j == 0:
                reached, step = 0.0, _DIAGONAL
            else:
                reached, step = corner, _DIAGONAL
                if above + penalty < reached:
                    reached, step = above + penalty, _ALONG_X
                if before + penalty < reached:
                    reached, step = before + penalty, _ALONG_Y
            corner = above
            before = reached + costs[j]
            best[j] = before
            steps[i, j] = step
    x_index = np.empty(n + m - 1, np.int64)
    y_index = np.empty(n + m - 1, np.int64)
    i, j, at = n - 1, m - 1, n + m - 2
    x_index[at], y_index[at] = i, j
    while i > 0 or j > 0:
        step = steps[i, j]
        if step != _ALONG_Y:
            i -= 1
        if step != _ALONG_X:
            j -= 1
        at -= 1
        x_index[at], y_index[at] = i, j
    return x_index[at:].copy(), y_index[at:].copy()


def _path_cost(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    x_index: NDArray[np.int64],
    y_index: NDArray[np.int64],
    penalty: float,
) -> float:
    """Return the cost of a path, added up in the order in which `_warp` does, so that both agree to the last bit."""
    total = 0.0
    for at in range(x_index.shape[0]):
        i, j = x_index[at], y_index[at]
        if at > 0 and (x_index[at - 1] == i or y_index[at - 1] == j):
            total += penalty
        cost = 0.0
        for metric in range(x.shape[1]):
            cost += abs(x[i, metric] - y[j, metric])
        total += cost
    return total


def _cache_folder() -> Path | None:
    """Return the user's cache folder of this tool, or None where it cannot be written (then every process compiles anew)."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The base directory specification: a relative path there is invalid and has to be ignored.
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    folder = base / "unperturbed" / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@contextmanager
def _compiler_caching_in(folder: Path | None) -> Iterator[None]:
    """Let numba choose this folder while functions are declared: left alone, it writes beside the source."""
    settings = vars(numba.config)  # the module sets its names at run time, so type checkers do not know them
    chosen = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = str(folder or "")
    try:
        yield
    finally:
        settings["CACHE_DIR"] = chosen


def _compiled(loop: _Loop, *, cache: bool) -> _Loop:
    compiled: _Loop = numba.njit(loop, cache=cache, nogil=True)
    return compiled


_folder = _cache_folder()
with _compiler_caching_in(_folder):
    warp = _compiled(_warp, cache=_folder is not None)
    path_cost = _compiled(_path_cost, cache=_folder is not None)
