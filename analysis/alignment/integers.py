"""Series of whole numbers as 32-bit integers, where that changes nothing: their kernels are twice as fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.series import FloatArray

__all__ = ["UNREACHED", "CellArray", "as_integers", "cells_of"]

CellArray: TypeAlias = NDArray[np.number[Any]]
"""float64 or int32."""

_INTEGER_CELLS = 1 << 28
"""Cells from which on integers are tried: below, they save less than 15 ms, and their kernels have to be compiled once."""

UNREACHED = (1 << 30) - 1
"""More than any path costs: the cost of each is bounded below this, so that twice as much does not overflow."""

_MARGIN = 256
"""Steps that kernels take beyond the ends of the series, at most."""


def cells_of(series: Sequence[FloatArray], penalty: float, cells: int) -> tuple[Sequence[CellArray], float, int]:
    """Return series, penalty and exponent for the kernels of a matrix of so many cells: integers where exact and worth it."""
    whole = as_integers(series, penalty) if cells >= _INTEGER_CELLS else None
    return whole if whole is not None else (series, penalty, 0)


def as_integers(series: Sequence[FloatArray], penalty: float) -> tuple[list[CellArray], int, int] | None:
    """Return series as integers whose alignment is the very same, or None where there are none.

    Parameters
    ----------
    series : each of shape (n, metrics), finite, of the same metrics; two or more.
    penalty : of a step that is not diagonal.

    Returns
    -------
    integers, penalty, exponent
        Series and penalty times 2^exponent, less the smallest value of each metric. All are whole and no path through
        any two of the series costs as much as `UNREACHED`, so no sum is rounded, neither here nor in float64.

    Notes
    -----
    The exponent is the largest that excludes an overflow: if values are not whole with it, they are with no smaller one.
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
