"""Runs of equal symbols: where they begin, and how short ones join a neighbour."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

__all__ = ["join_short_runs", "run_starts"]


def run_starts(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each run's first element: shape (runs,)."""
    if not len(labels):
        return np.zeros(0, np.int64)
    return np.concatenate(([0], np.flatnonzero(np.diff(labels)) + 1)).astype(np.int64)


def join_short_runs(labels: NDArray[np.int64], least: int) -> NDArray[np.int64]:
    """Return labels in which no run is shorter than asked for, if there is more than one.

    Parameters
    ----------
    labels : int64, shape (n,)
    least : int
        Elements. 1 leaves everything as it is.

    Returns
    -------
    int64, shape (n,)
        The shortest run, of equal ones the first, takes the label of its longer neighbour, of equal ones the one before it, and becomes
        one with it; and so on until no run is too short. O(n log n).
    """
    starts = run_starts(labels)
    lengths = np.diff(np.append(starts, len(labels))).tolist()
    symbols = labels[starts].tolist()
    before = list(range(-1, len(starts) - 1))
    after = [*range(1, len(starts)), -1]
    waiting = [(length, run) for run, length in enumerate(lengths) if length < least]
    heapq.heapify(waiting)
    gone = [False] * len(starts)
    while waiting:
        length, run = heapq.heappop(waiting)
        if gone[run] or length != lengths[run]:
            continue
        left, right = before[run], after[run]
        if left < 0 and right < 0:
            break
        longer = left if right < 0 or (left >= 0 and lengths[left] >= lengths[right]) else right
        symbols[run] = symbols[longer]
        # A run keeps the place of its first part.
        for first, second in ((run, right), (left, run)):
            if first >= 0 and second >= 0 and symbols[first] == symbols[second]:
                lengths[first] += lengths[second]
                gone[second] = True
                after[first] = after[second]
                if after[second] >= 0:
                    before[after[second]] = first
                run = first
        if lengths[run] < least:
            heapq.heappush(waiting, (lengths[run], run))
    kept = [run for run in range(len(starts)) if not gone[run]]
    return np.repeat(np.array([symbols[run] for run in kept], np.int64), [lengths[run] for run in kept])
