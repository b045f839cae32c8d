"""Arguments of an alignment: series as rows of metrics, their scale, and the limits of a path.

Series are converted to 32-bit integers if this changes no result, because the kernels are then twice as fast.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.common.wording import counted
from unperturbed.errors import DataError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

Scale: TypeAlias = Literal["std", "range"] | ArrayLike | None
"""Divisor of the metrics: none, a spread of all series' values together, or one number for each metric."""

_RANGE_PERCENT = (5, 95)
"""Percentiles that span a program's phases without single outlying intervals."""


def rows_of(name: str, series: ArrayLike) -> FloatArray:
    """Return a series as contiguous float64 rows, one for each interval."""
    rows = np.asarray(series, dtype=np.float64)
    if rows.ndim not in (1, 2):
        raise DataError(f"{name} has shape {rows.shape}: give an array of shape (intervals,) or (intervals, metrics)")
    if rows.size == 0:
        raise DataError(f"{name} is empty (shape {rows.shape}): give at least one interval and one metric")
    if not np.isfinite(rows).all():
        wrong = np.argwhere(~np.isfinite(rows))
        at = tuple(int(index) for index in wrong[0])
        more = f", one of {len(wrong)} values that are not finite" if len(wrong) > 1 else ""
        raise DataError(
            f"{name}[{', '.join(map(str, at))}] is {rows[at]}{more}: drop or replace values that are "
            "not finite before aligning"
        )
    return np.require(rows.reshape(len(rows), -1), requirements=("C", "A"))


def comparable_rows(
    series: Mapping[str, ArrayLike], penalty: float, band: int | None, scale: Scale
) -> tuple[list[FloatArray], tuple[float, ...] | None]:
    """Check all arguments; return the series as rows of metrics, divided by the scale, and the divisors."""
    rows = [rows_of(name, array) for name, array in series.items()]
    (first, *_), metrics = series, rows[0].shape[1]
    for name, array in zip(series, rows, strict=True):
        if array.shape[1] != metrics:
            raise DataError(
                f"{first} has {counted(metrics, 'metric')} and {name} has {array.shape[1]}: give every series the same "
                "metrics"
            )
    if not (math.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"`penalty` is {penalty}: give a finite number, 0 or more")
    if band is not None and operator.index(band) < 0:
        raise ValueError(f"`band` is {band}: give a number of intervals, 0 or more, or None")
    if scale is None:
        return rows, None
    if isinstance(scale, str):
        divisors = np.array([_spread(scale, metric, [array[:, metric] for array in rows]) for metric in range(metrics)])
    else:
        divisors = np.asarray(scale, dtype=np.float64)
        if divisors.shape != (metrics,):
            raise ValueError(f"`scale` has shape {divisors.shape}: give shape ({metrics},), a divisor for each metric")
        wrong = np.flatnonzero(~(np.isfinite(divisors) & (divisors > 0)))
        if len(wrong):
            raise ValueError(f"`scale[{wrong[0]}]` is {divisors[wrong[0]]}: give a positive, finite number")
    return [array / divisors for array in rows], tuple(divisors.tolist())


def _spread(scale: str, metric: int, values: Sequence[FloatArray]) -> float:
    together = np.sort(np.concatenate(values))  # the last bit must not depend on the order of the series
    if scale == "std":
        what, spread = "standard deviation", float(together.std())
    elif scale == "range":
        low, high = np.percentile(together, _RANGE_PERCENT)
        what, spread = "range from the 5th to the 95th percentile", float(high - low)
    else:
        raise ValueError(f"`scale` is {scale!r}: give 'std', 'range', an array of divisors, or None")
    if not (math.isfinite(spread) and spread > 0):
        raise DataError(
            f"metric {metric} (counted from 0) cannot be divided by its {what} over all series, which is {spread:g}: "
            "leave the metric out, or set `scale` to an array with one divisor for each metric"
        )
    return spread


CellArray: TypeAlias = NDArray[np.number[Any]]
"""float64 or int32."""

_INTEGER_CELLS = 1 << 28
"""Least number of cells to try integers: for fewer, they save less than 15 ms, and their kernels must be compiled."""

UNREACHED = (1 << 30) - 1
"""Number above the cost of any integer path; twice this number does not overflow."""

_MARGIN = 256
"""Largest number of steps that kernels take beyond the ends of the series."""


def cells_of(series: Sequence[FloatArray], penalty: float, cells: int) -> tuple[Sequence[CellArray], float, int]:
    """Return series, penalty and exponent for the kernels, as integers if these are exact and save time."""
    whole = as_integers(series, penalty) if cells >= _INTEGER_CELLS else None
    return whole if whole is not None else (series, penalty, 0)


def as_integers(series: Sequence[FloatArray], penalty: float) -> tuple[list[CellArray], int, int] | None:
    """Return two or more series as integers with exactly the same alignment, or None if there are no such integers.

    The smallest value of each metric is subtracted; series and penalty are multiplied by 2^exponent. All results are
    whole, and a path through any two of the series costs less than `UNREACHED`, so no sum is rounded, neither here nor
    in float64. The exponent is the largest that excludes an overflow: values that are not whole with it are not whole
    with any smaller one.
    """
    low = np.min([rows.min(axis=0) for rows in series], axis=0)
    high = np.max([rows.max(axis=0) for rows in series], axis=0)
    with np.errstate(over="ignore"):
        dearest_step = float((high - low).sum()) + penalty
    longest = sum(sorted(map(len, series))[-2:]) + _MARGIN
    if not 0 < dearest_step < math.inf:
        return None
    exponent = math.floor(math.log2(UNREACHED / longest) - math.log2(dearest_step)) - 1
    if not _are_whole(np.array([penalty]), exponent) or not all(_are_whole(rows, exponent) for rows in series):
        return None
    integers: list[CellArray] = [np.ldexp(rows - low, exponent).astype(np.int32) for rows in series]
    return integers, int(math.ldexp(penalty, exponent)), exponent


def _are_whole(values: FloatArray, exponent: int) -> bool:
    with np.errstate(over="ignore", under="ignore"):
        times = np.ldexp(values, exponent)
    return bool((np.isfinite(times) & (times == np.rint(times)) & (np.ldexp(times, -exponent) == values)).all())
