"""What an alignment takes: series as rows of metrics, divided as asked, and the limits that a path is held to."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.errors import DataError

__all__ = ["FloatArray", "IntArray", "Scale", "check_limits", "rows_of", "scaled"]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

Scale: TypeAlias = Literal["std", "range"] | ArrayLike | None
"""What the metrics are divided by: nothing, a spread of all series' values taken together, or one number for each metric."""

_RANGE_PERCENT = (5, 95)
"""Wide enough to span a program's phases, blind to a single outlying interval."""


def rows_of(name: str, series: ArrayLike) -> FloatArray:
    """Return a series as contiguous, writable float64 rows, one an interval, or say what is wrong with it.

    Raises
    ------
    DataError
        It is empty, of another shape than (n,) or (n, metrics), or not finite.
    """
    rows = np.asarray(series, dtype=np.float64)
    if rows.ndim not in (1, 2):
        raise DataError(f"{name} has shape {rows.shape}: give (n,) or (n, metrics)")
    if rows.size == 0:
        raise DataError(f"{name} is empty (shape {rows.shape}): there is nothing to align")
    if not np.isfinite(rows).all():
        wrong = np.argwhere(~np.isfinite(rows))
        at = tuple(int(index) for index in wrong[0])
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise DataError(f"{name}[{', '.join(map(str, at))}] is {rows[at]}{more}: drop or fill it before aligning")
    return np.require(rows.reshape(len(rows), -1), requirements=("C", "A", "W"))


def check_limits(penalty: float, band: int | None) -> None:
    """Refuse a penalty or a band that is negative, or no number.

    Raises
    ------
    ValueError
        The penalty is negative or not finite, or the band negative; TypeError where the band is no whole number.
    """
    if not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty is {penalty}: give a finite number, 0 or more")
    if band is not None and operator.index(band) < 0:
        raise ValueError(f"band is {band}: give a number of intervals, 0 or more, or None")


def scaled(series: Sequence[FloatArray], scale: Scale) -> tuple[list[FloatArray], tuple[float, ...] | None]:
    """Divide series by one number for each metric, the same for all series.

    Parameters
    ----------
    series : each of shape (n, metrics), of the same metrics.
    scale : `std` is the standard deviation of all series' values taken together, `range` their range from the 5th to the 95th
        percentile; an array holds the divisors, shape (metrics,). None divides by nothing.

    Returns
    -------
    series, divisors : None for the divisors where there are none.

    Raises
    ------
    DataError
        A metric does not vary enough to have the spread asked for.
    ValueError
        The scale is unknown, or a divisor is not positive.
    """
    if scale is None:
        return list(series), None
    metrics = series[0].shape[1]
    if isinstance(scale, str):
        divisors = np.array([_spread(scale, metric, [rows[:, metric] for rows in series]) for metric in range(metrics)])
    else:
        divisors = np.asarray(scale, dtype=np.float64)
        if divisors.shape != (metrics,):
            raise ValueError(f"scale has shape {divisors.shape}: give one divisor for each of {metrics} metrics")
        wrong = np.flatnonzero(~(np.isfinite(divisors) & (divisors > 0)))
        if len(wrong):
            raise ValueError(f"scale[{wrong[0]}] is {divisors[wrong[0]]}: give a positive number")
    return [rows / divisors for rows in series], tuple(divisors.tolist())


def _spread(scale: str, metric: int, values: Sequence[FloatArray]) -> float:
    together = np.sort(np.concatenate(values))  # so that the order of the series does not show in the last bit
    if scale == "std":
        spread = float(together.std())
    elif scale == "range":
        low, high = np.percentile(together, _RANGE_PERCENT)
        spread = float(high - low)
    else:
        raise ValueError(f"scale is {scale!r}: give 'std', 'range', an array of divisors, or None")
    if not (math.isfinite(spread) and spread > 0):
        raise DataError(f"the {scale} of metric {metric} over all series is {spread:g}: leave it out, or give its divisor")
    return spread
