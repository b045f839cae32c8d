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
    uncertainty : how far `start` and `stop` may be off [intervals].
    """

    start: int
    stop: int
    uncertainty: tuple[float, float]


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
    each run, is often all that is needed. A border is as uncertain as the path is many-to-one there, or as the freely warped path and
    the one at an even pace differ there, whichever is more, and by half an interval at least.
    """
    n = int(alignment.x_index[-1]) + 1
    if not 0 <= start < stop <= n:
        raise DataError(f"the stretch {start}:{stop} is empty or not within the run's {n} intervals")
    first, until = _span(alignment, start)[0], _span(alignment, stop - 1)[1] + 1
    return Region(first, until, (_uncertainty(alignment, start), _uncertainty(alignment, stop - 1)))


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


def _uncertainty(alignment: Alignment, interval: int) -> float:
    low, high = _span(alignment, interval)
    other_low, other_high = _span(alignment.warped, interval)
    return max((high - low) / 2, abs(low + high - other_low - other_high) / 2, 0.5)
