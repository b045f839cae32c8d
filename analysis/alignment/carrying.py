"""What is carried over a path: values, and stretches of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.alignment.warp import FloatArray, WarpPath
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.analysis.alignment.traces import Alignment

__all__ = ["Region", "map_region", "resample", "share_out"]


@dataclass(frozen=True)
class Region:
    """A stretch of a run, and how well its borders are known.

    Attributes
    ----------
    start, stop : first interval, and the one after the last.
    uncertainty : by how far different ways to align these runs differ at `start` and at `stop` [intervals]. No bound on the error.
    possible : for `start` and for `stop` the least and the greatest that milestones leave possible; these are certain. All of the run
        where no software counter was counted alike.
    """

    start: int
    stop: int
    uncertainty: tuple[float, float]
    possible: tuple[tuple[int, int], tuple[int, int]]


def map_region(alignment: Alignment, start: int, stop: int) -> Region:
    """Return the stretch of run b that shows the work of a stretch of run a.

    Parameters
    ----------
    alignment : of a and b.
    start, stop : first interval of a's stretch, and the one after the last.

    Returns
    -------
    Region
        In b's intervals.

    Raises
    ------
    DataError
        The stretch is empty, or not within a.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 6: selecting corresponding stretches, and reasoning within
    each run, is often all that is needed. A border that milestones show to be wrong is moved to where they allow it. Its uncertainty is
    the largest of: half of how many intervals meet it, how far the path differs there from the one before flat stretches were made even,
    how far it was moved, and half an interval.
    """
    n = int(alignment.x_index[-1]) + 1
    if not 0 <= start < stop <= n:
        raise DataError(f"the stretch {start}:{stop} is empty or not within the run's {n} intervals")
    first, of_first = _border(alignment, start, 0)
    last, of_last = _border(alignment, stop - 1, 1)
    (low, high), (last_low, last_high) = alignment.possible[[start, stop - 1]].tolist()
    return Region(first, max(first, last) + 1, (of_first, of_last), ((low, high), (last_low + 1, last_high + 1)))


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
    values = _spanned(path, series_y, length_x)
    starts = np.searchsorted(path.x_index, np.arange(length_x))  # every interval of x is on the path, in order
    sums = np.add.reduceat(values[path.y_index], starts, axis=0)
    meeting = np.diff(starts, append=len(path))
    return np.asarray(sums / meeting.reshape(-1, *(1,) * (values.ndim - 1)), dtype=np.float64)


def share_out(path: WarpPath, events_y: ArrayLike, length_x: int) -> FloatArray:
    """Carry y's events over to x's intervals, so that none is lost or doubled.

    Parameters
    ----------
    path : the alignment of x and y.
    events_y : shape (m,) or (m, metrics). Events of each interval; those of one that meets several of x are shared equally.
    length_x : n, number of intervals of x.

    Returns
    -------
    float64, shape (n,) or (n, metrics)

    Raises
    ------
    DataError
        As for `resample`.
    """
    values = _spanned(path, events_y, length_x)
    meeting = np.bincount(path.y_index)
    shares = (values.T / meeting).T
    starts = np.searchsorted(path.x_index, np.arange(length_x))
    return np.asarray(np.add.reduceat(shares[path.y_index], starts, axis=0), np.float64)


def _spanned(path: WarpPath, series_y: ArrayLike, length_x: int) -> FloatArray:
    values = np.asarray(series_y, dtype=np.float64)
    n, m = int(path.x_index[-1]) + 1, int(path.y_index[-1]) + 1
    if values.ndim not in (1, 2) or (length_x, len(values)) != (n, m):
        raise DataError(
            f"the path aligns {n} intervals to {m}, but length_x is {length_x} and the series has shape {values.shape}"
        )
    return values


def _span(path: WarpPath, interval: int) -> tuple[int, int]:
    """Return the first and the last interval of b that meet one of a."""
    first, after = np.searchsorted(path.x_index, (interval, interval + 1))
    return int(path.y_index[first]), int(path.y_index[after - 1])


def _border(alignment: Alignment, interval: int, side: int) -> tuple[int, float]:
    """Return the first (side 0) or last interval of b that meets one of a, as milestones allow it, and its uncertainty."""
    span = _span(alignment, interval)
    before = _span(alignment.warped, interval)
    low, high = alignment.possible[interval].tolist()
    allowed = min(max(span[side], low), high)
    return allowed, max((span[1] - span[0]) / 2, abs(sum(span) - sum(before)) / 2, abs(allowed - span[side]), 0.5)
