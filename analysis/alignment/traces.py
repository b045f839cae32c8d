"""Alignment of traces: which metrics, how they are scaled, where the anchors are, and values carried over the path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.alignment.scores import cumulative
from unperturbed.analysis.alignment.warp import FloatArray, IntArray, WarpPath, anchored_dtw
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["align", "milestone_anchors", "resample"]

_RANGE_PERCENT = (5, 95)
"""Range of values that scales a metric: wide enough to span a program's phases, blind to a single outlying interval."""


def align(a: Trace, b: Trace, *, on: Sequence[str] = ("IPC",), anchor: str | None = None) -> WarpPath:
    """Align two traces of one program by dynamic time warping, through the milestones of `anchor` if given.

    Parameters
    ----------
    a, b : traces of the same work.
    on : names of the metrics to align on, present in both; the paper's choice is IPC.
        Each is divided by one number for both traces, the range from the 5th to the 95th percentile of both traces' values
        taken together (their mean distance from the median where that is 0), so that metrics of different units weigh alike.
        Levels are not shifted: one metric alone is aligned as the paper does.
    anchor : name of a counter of deterministic milestones, optional
        The nth milestone is the same work in both runs; see `milestone_anchors`.

    Returns
    -------
    WarpPath
        `x_index` counts a's intervals, `y_index` b's.

    Raises
    ------
    DataError
        A metric is missing, not finite, or constant in both traces; the anchor counted differently in the two runs, or never.
    """
    if not on:
        raise DataError("no metric to align on: name at least one, such as IPC")
    x, y = a.values(on), b.values(on)
    for trace, rows in ((a, x), (b, y)):
        wrong = np.argwhere(~np.isfinite(rows))
        if len(wrong):
            row, column = (int(index) for index in wrong[0])
            raise DataError(
                f"metric {on[column]!r} of run {trace.attributes.get('run', '?')} is {rows[row, column]} in interval {row}: "
                "align on a metric that has a value in every interval"
            )
    scale = np.array([_scale(name, x[:, column], y[:, column]) for column, name in enumerate(on)])
    anchors: list[tuple[int, int]] = []
    if anchor is not None:
        pairs = milestone_anchors(_counts(a, anchor), _counts(b, anchor), name=anchor)
        anchors = [(int(i), int(j)) for i, j in pairs]
    return anchored_dtw(x / scale, y / scale, anchors)


def milestone_anchors(milestones_x: ArrayLike, milestones_y: ArrayLike, *, name: str = "the milestone") -> IntArray:
    """Choose pairs of intervals that surely show the same work, because the same milestones happened in both.

    An interval says how many milestones happened in it, not when. Two intervals that share an ordinal overlap in the program's
    work for certain; nothing is certain of others. One interval may share ordinals with several of the other run: a pair is
    kept when each is the one with which the other shares most (the earlier, when equal). So each interval is anchored once at
    most, the pairs rise in both runs, and between them the alignment stays free.

    Parameters
    ----------
    milestones_x, milestones_y : int, shape (n,) and (m,)
        Cumulative count at the end of each interval.
    name : the milestone's name, for messages.

    Returns
    -------
    int64, shape (anchors, 2)
        Strictly rising in both columns.

    Raises
    ------
    DataError
        The totals differ, so that ordinals do not name the same work; or no milestone happened.
    """
    x = cumulative(f"{name} of the first run", milestones_x, np.size(milestones_x))
    y = cumulative(f"{name} of the second run", milestones_y, np.size(milestones_y))
    if not x.size or not y.size or x[-1] != y[-1]:
        totals = [int(counts[-1]) if counts.size else 0 for counts in (x, y)]
        raise DataError(
            f"{name} happened {totals[0]} times in one run and {totals[1]} times in the other: "
            "it is no deterministic milestone; anchor on another or on none"
        )
    if x[-1] == 0:
        raise DataError(f"{name} never happened in these runs: anchor on another milestone or on none")
    # Every interval's end cuts the ordinals: between two cuts all belong to one interval of x and one of y.
    cuts = np.union1d(x, y)
    cuts = cuts[cuts > 0]
    shared = np.diff(cuts, prepend=0)
    i, j = np.searchsorted(x, cuts), np.searchsorted(y, cuts)
    mutual = _first_largest(i, shared) & _first_largest(j, shared)
    return np.column_stack((i[mutual], j[mutual])).astype(np.int64)


def resample(path: WarpPath, series_y: ArrayLike, length_x: int) -> FloatArray:
    """Carry y's values over to x's intervals: the mean where several intervals of y meet one of x.

    Parameters
    ----------
    path : the alignment of x and y.
    series_y : shape (m,) or (m, metrics).
    length_x : n, number of intervals of x.

    Returns
    -------
    float64, shape (n,) or (n, metrics)

    Raises
    ------
    DataError
        The path does not span n intervals of x and the series' intervals of y.
    """
    values = np.asarray(series_y, dtype=np.float64)
    n, m = int(path.x_index[-1]) + 1, int(path.y_index[-1]) + 1
    if values.ndim not in (1, 2) or (length_x, len(values)) != (n, m):
        raise DataError(
            f"the path aligns {n} intervals to {m}, but length_x is {length_x} and the series has shape {values.shape}"
        )
    starts = np.searchsorted(path.x_index, np.arange(n))  # every interval of x is on the path, in order
    sums = np.add.reduceat(values[path.y_index], starts, axis=0)
    meeting = np.diff(starts, append=len(path))
    return np.asarray(sums / meeting.reshape(-1, *(1,) * (values.ndim - 1)), dtype=np.float64)


def _scale(name: str, x: FloatArray, y: FloatArray) -> float:
    values = np.sort(np.concatenate((x, y)))  # sorted, so that swapped traces give the same number to the last bit
    low, high = np.percentile(values, _RANGE_PERCENT)
    if high > low:
        return float(high - low)
    spread = float(np.abs(values - np.median(values)).mean())
    if spread == 0:
        raise DataError(f"metric {name!r} is {values[0]:g} in every interval of both runs: align on a metric that varies")
    return spread


def _counts(trace: Trace, anchor: str) -> IntArray:
    column = trace[anchor]
    if trace.metrics[anchor].semantics != "counter" or not np.issubdtype(column.dtype, np.integer):
        raise DataError(f"metric {anchor!r} is no event counter: anchor on a software metric that counts a milestone")
    return np.cumsum(column)


def _first_largest(interval: IntArray, shared: IntArray) -> NDArray[np.bool_]:
    """Mark, for each interval, the first of its pieces that is as large as its largest."""
    order = np.lexsort((np.arange(len(interval)), -shared, interval))
    chosen = np.zeros(len(interval), bool)
    chosen[order[np.flatnonzero(np.diff(interval[order], prepend=-1))]] = True
    return chosen
