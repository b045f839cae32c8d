"""Costs and warp paths of all pairs of a set of series, computed by threads, processes or a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.alignment.dtw.paths import WarpPath, align_rows, band_width
from unperturbed.analysis.alignment.dtw.series import (
    FloatArray,
    IntArray,
    Scale,
    cells_of,
    comparable_rows,
)
from unperturbed.analysis.parallel import choose_workers
from unperturbed.errors import DataError

_Result = TypeVar("_Result")

Progress = Callable[[int, int], None]
"""Called with the number of finished pairs and the number of all pairs."""

_CHUNK_CELLS = 1 << 22
"""Least number of cells in a worker's chunk: a millisecond of work."""
_CHUNKS_A_WORKER = 16
_CELL_S, _PAIR_S = 0.25e-9, 50e-6
"""Time for one cell, and the overhead of a pair [s]; only the choice of workers depends on them."""


def distance_matrix(
    series: Sequence[ArrayLike],
    *,
    penalty: float = 0.0,
    band: int | None = None,
    scale: Scale = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> FloatArray:
    """Return the cost of aligning each pair of series.

    Parameters
    ----------
    series : sequence of array_like
        Arrays, each of shape (n,) or (n, metrics), with the same metrics; lengths may differ.
    penalty, band : float, default 0.0
        As for `dtw`.
    scale : {"std", "range"} or array_like
        As for `dtw`, with spreads over all series.
    workers : int, optional
        Number of parallel workers. None uses the setting of `joblib.parallel_config`, else one thread for each
        processor: the kernels release Python's lock.
    progress : callable, optional
        Called in this thread with the number of finished pairs and the number of all pairs.

    Returns
    -------
    float64, shape (k, k)
        Symmetric, zeros on the diagonal; each cost equals the cost of `dtw` to the last bit.

    Raises
    ------
    DataError
        No series is given; a series is empty, has a wrong shape, different metrics or a value that is not finite; or
        differences overflow.
    ValueError
        The penalty or the band is negative, or the number of workers is not positive.
    """
    from unperturbed.analysis.alignment.dtw import kernels  # noqa: PLC0415  loads the compiler

    rows, _ = _comparable(series, penalty, band, scale)
    pairs, cells = _pairs(rows)
    taken, step, exponent = cells_of(rows, penalty, int(cells.sum()))
    together, starts = np.concatenate(taken), np.cumsum([0, *map(len, rows)])
    longest = max(rows, key=len)
    kernels.prepare("pair_costs", together)
    common = (together, starts, step, band_width(band, longest, longest))
    costs = np.ldexp(_over_pairs(_costs_of, common, pairs, cells, workers, progress), -exponent)
    wrong = np.flatnonzero(~np.isfinite(costs))
    if len(wrong):
        first, second = pairs[wrong[0]]
        raise DataError(
            f"the differences between series[{first}] and series[{second}] overflow: divide all series by the same "
            "large number"
        )
    matrix = np.zeros((len(rows), len(rows)))
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = costs
    return matrix


def warp_paths(
    series: Sequence[ArrayLike],
    *,
    penalty: float = 0.0,
    band: int | None = None,
    scale: Scale = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> dict[tuple[int, int], WarpPath]:
    """Return the warp path of each pair of series.

    Parameters
    ----------
    series, penalty, band, scale, workers, progress : sequence of array_like
        As for `distance_matrix`.

    Returns
    -------
    dict
        For each a < b the path with `series[a]` as x and `series[b]` as y, as `dtw` finds it.

    Raises
    ------
    DataError, ValueError
        As for `distance_matrix`.
    """
    rows, divisors = _comparable(series, penalty, band, scale)
    pairs, cells = _pairs(rows)
    paths = _over_pairs(_paths_of, (rows, penalty, band, divisors), pairs, cells, workers, progress)
    return {(int(a), int(b)): path for (a, b), path in zip(pairs, paths, strict=True)}


def _comparable(
    series: Sequence[ArrayLike], penalty: float, band: int | None, scale: Scale
) -> tuple[list[FloatArray], tuple[float, ...] | None]:
    """Name the series `series[0]`, `series[1]`, …, and return them as `comparable_rows` does."""
    named = {f"series[{number}]": array for number, array in enumerate(series)}
    if not named:
        raise DataError("no series given: give at least one")
    return comparable_rows(named, penalty, band, scale)


def _pairs(rows: Sequence[FloatArray]) -> tuple[IntArray, IntArray]:
    """Return all pairs, shape (pairs, 2), and the number of matrix cells of each pair."""
    pairs = np.array(list(combinations(range(len(rows)), 2)), np.int64).reshape(-1, 2)
    lengths = np.array([len(array) for array in rows], np.int64)
    return pairs, lengths[pairs].prod(axis=1)


def _costs_of(common: tuple[Any, ...], chunk: IntArray) -> Iterable[float]:
    from unperturbed.analysis.alignment.dtw import kernels  # noqa: PLC0415  loads the compiler

    together, starts, step, width = common
    costs: FloatArray = kernels.pair_costs(together, starts, chunk, step, width)
    return costs


def _paths_of(common: tuple[Any, ...], chunk: IntArray) -> list[WarpPath]:
    rows, penalty, band, divisors = common
    return [align_rows(rows[a], rows[b], (), penalty, band, divisors) for a, b in chunk]


def _over_pairs(
    results_of: Callable[[Any, IntArray], Iterable[_Result]],
    common: object,
    pairs: IntArray,
    cells: IntArray,
    workers: int | None,
    progress: Progress | None,
) -> list[_Result]:
    """Return the result of each pair, in order, computed in chunks with about the same number of cells."""
    chosen = choose_workers(workers, seconds=int(cells.sum()) * _CELL_S + len(pairs) * _PAIR_S)
    share = max(_CHUNK_CELLS, int(cells.sum()) // (chosen.count * _CHUNKS_A_WORKER))
    ends = np.flatnonzero(np.diff(np.cumsum(cells) // share)) + 1
    chunks = [chunk for chunk in np.split(pairs, ends) if len(chunk)]
    done: list[_Result] = []
    with closing(chosen.map(results_of, common, chunks)) as in_order:
        for results in in_order:
            done.extend(results)
            if progress is not None:
                progress(len(done), len(pairs))
    return done
