"""Fast computation of Spearman's coefficients, and Fisher's transformation of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.parallel import choose_workers

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

_SHRINKAGE = 1e-3
"""Coefficients are multiplied by one minus this before Fisher's transformation, which maps ±1 to ±∞.

The number is fixed: the scale is the same for runs of different length and for every campaign. 1e-3 is 1 / (2n) for
500 intervals, the usual continuity correction; it bounds |z| at 3.8. All coefficients shrink by the same factor, so
different ones stay different (clipping would make them equal, without spread between runs), and `from_fisher` reverses
the shrinkage.
"""


_VALUE_S = 0.05e-6
"""Seconds to rank one value; only the choice of workers depends on it."""


def standard_ranks(values: ArrayLike) -> FloatArray:
    """Rank each column (ties share their mean rank) and scale it to mean 0 and length 1; constant columns are NaN.

    The scalar product of two columns is their Spearman coefficient. Values must be finite, (intervals, metrics).
    """
    columns = np.ascontiguousarray(np.asarray(values, np.float64).T)
    ranks = np.empty_like(columns)
    for column, into in zip(columns, ranks, strict=True):
        _rank(column, into)
    ranks -= (ranks.shape[1] - 1) / 2
    length = np.sqrt(np.einsum("ij,ij->i", ranks, ranks))
    length[length == 0] = np.nan
    return np.ascontiguousarray((ranks / length[:, None]).T)


def _rank(values: FloatArray, into: FloatArray) -> None:
    """Write a column's ranks, counted from 0 (ties: mean rank). Takes a third of the time of scipy's `rankdata`."""
    order = np.argsort(values)
    ascending = values[order]
    first = np.flatnonzero(np.concatenate(([True], ascending[1:] != ascending[:-1])))
    if len(first) == len(values):
        into[order] = np.arange(len(values))
        return
    behind = np.append(first[1:], len(values))
    into[order] = np.repeat((first + behind - 1) / 2, behind - first)


def correlate_ranks(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return Spearman's coefficients of each column of x with each column of y, both from `standard_ranks`.

    To the last bit, the result does not depend on the number of BLAS threads, which is lower in workers.
    """
    if x is y:
        return np.asarray(np.clip(x.T @ x, -1, 1), np.float64)
    products = np.einsum("ji,ki->jk", np.ascontiguousarray(x.T), np.ascontiguousarray(y.T))
    return np.asarray(np.clip(products, -1, 1), np.float64)


def correlate_runs(
    values: Sequence[FloatArray], metrics: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> list[FloatArray]:
    """Return Spearman's coefficients of pairs of metrics within each run, shape (pairs,), using several workers."""
    workers = choose_workers(kernels=False, seconds=sum(run.size for run in values) * _VALUE_S)
    parts = workers.chunks(len(values))
    with closing(workers.map(_correlate_part, (values, tuple(metrics), tuple(pairs)), parts)) as in_order:
        return [row for rows in in_order for row in rows]


def _correlate_part(
    common: tuple[Sequence[FloatArray], Sequence[str], Sequence[tuple[str, str]]], part: slice
) -> list[FloatArray]:
    values, metrics, pairs = common
    first, second = pair_columns(metrics, pairs)
    ranks = [standard_ranks(run) for run in values[part]]
    return [np.asarray(correlate_ranks(run, run)[first, second], np.float64) for run in ranks]


def pair_columns(metrics: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[list[int], list[int]]:
    """Return the column indices of the first and of the second metric of each pair."""
    column = {metric: at for at, metric in enumerate(metrics)}
    return [column[first] for first, _ in pairs], [column[second] for _, second in pairs]


def correlate_along(  # noqa: PLR0912  one loop, compiled as a whole
    starts: IntArray, y_index: IntArray, ranks: FloatArray, other: FloatArray, ascending: IntArray
) -> FloatArray:
    """Return Spearman's coefficient of each metric of one run with the same metric of another run, aligned to it.

    `starts`: int64, shape (n + 1,). Index on the warp path where each of the first run's n intervals begins; then the
    path's length.
    `y_index`: int64, shape (elements,). The path's intervals of the other run.
    `ranks`: float64, shape (metrics, n). Transposed result of `standard_ranks` for the first run.
    `other`: float64, shape (metrics, m). The other run's values. If several of its intervals are aligned to one
    interval of the first run, their mean is used.
    `ascending`: int64, shape (metrics, m). Indices that sort each row of `other`.
    Result: float64, shape (metrics,). NaN if a metric is constant along the path.

    `compiled_correlate_along` compiles it. Up to rounding, the result is that of `standard_ranks` of the resampled
    values.
    """
    metrics, n = ranks.shape
    rho, order, values = np.empty(metrics), np.empty(n, np.int64), np.empty(n)
    exact, exact_values = np.empty(n + 2, np.int64), np.empty(n + 2)
    means, mean_values = np.empty(n, np.int64), np.empty(n)
    # From first_of[j] on, alone[j] intervals of the first run are aligned only to j. The other intervals get means.
    first_of, alone, apart = np.zeros(other.shape[1], np.int64), np.zeros(other.shape[1], np.int64), 0
    for i in range(n - 1, -1, -1):
        if starts[i + 1] - starts[i] > 1:
            means[apart] = i
            apart += 1
            continue
        j = y_index[starts[i]]
        first_of[j] = i
        alone[j] += 1
    for metric in range(metrics):
        for index in range(apart):
            first, end = starts[means[index]], starts[means[index] + 1]
            total = 0.0
            for element in range(first, end):
                total += other[metric, y_index[element]]
            mean_values[index] = total / (end - first)
        by_value = np.argsort(mean_values[:apart])
        right = 0
        for j in ascending[metric]:
            # Always write two elements: alone[j] is mostly 0 to 2, and a mispredicted branch takes longer.
            i, value = first_of[j], other[metric, j]
            exact[right], exact[right + 1] = i, i + 1
            exact_values[right], exact_values[right + 1] = value, value
            for more in range(2, alone[j]):
                exact[right + more], exact_values[right + more] = i + more, value
            right += alone[j]
        index, at = 0, 0
        for two in range(apart):
            value, i = mean_values[by_value[two]], means[by_value[two]]
            while index < right and exact_values[index] <= value:
                order[at], values[at] = exact[index], exact_values[index]
                index += 1
                at += 1
            order[at], values[at] = i, value
            at += 1
        while index < right:
            order[at], values[at] = exact[index], exact_values[index]
            index += 1
            at += 1
        squares, product, at = 0.0, 0.0, 0
        while at < n:
            last = at
            while last + 1 < n and values[last + 1] == values[at]:
                last += 1
            rank = (at + last - n + 1) / 2
            for place in range(at, last + 1):
                product += rank * ranks[metric, order[place]]
            squares += rank * rank * (last + 1 - at)
            at = last + 1
        coefficient = product / np.sqrt(squares) if squares > 0 else np.nan
        rho[metric] = 1.0 if coefficient > 1 else -1.0 if coefficient < -1 else coefficient  # NaN stays NaN
    return rho


def compiled_correlate_along() -> Callable[..., FloatArray]:
    """Return the compiled `correlate_along`."""
    from unperturbed.analysis.compiling import compiled  # noqa: PLC0415  loads the compiler

    numbers, indices = "const float64[:, ::1]", "const int64[::1]"
    signature = f"{indices}, {indices}, {numbers}, {numbers}, const int64[:, ::1]"
    return compiled(__name__, "correlate_along", (signature,), called="the correlations of aligned runs")


def fisher(rho: ArrayLike) -> FloatArray:
    """Return Fisher's z of coefficients: atanh of ρ, shrunk by 0.1 % to keep ±1 finite."""
    return np.asarray(np.arctanh(np.asarray(rho, np.float64) * (1 - _SHRINKAGE)), np.float64)


def from_fisher(z: ArrayLike) -> FloatArray:
    """Return the coefficients of Fisher's z, within ±1: the inverse of `fisher`."""
    return np.asarray(np.clip(np.tanh(np.asarray(z, np.float64)) / (1 - _SHRINKAGE), -1, 1), np.float64)


def fisher_slope(rho: ArrayLike) -> FloatArray:
    """Return the slope dz/dρ of Fisher's transformation at each coefficient."""
    shrunk = np.asarray(rho, np.float64) * (1 - _SHRINKAGE)
    return np.asarray((1 - _SHRINKAGE) / (1 - shrunk**2), np.float64)


def shown_spread(rho: ArrayLike) -> FloatArray:
    """Return the share of the spread of atanh ρ that remains after the shrinkage of `fisher`: 0.5 at .999."""
    gap = np.maximum(1 - np.abs(np.asarray(rho, np.float64)), 1e-9)
    return np.asarray(gap / (gap + _SHRINKAGE), np.float64)
