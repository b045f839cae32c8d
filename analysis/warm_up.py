"""Warm-up: does the start of a run differ from the rest, and from which interval on is the run steady?

Change points divide a run into segments, as in Barrett, Bolz-Tereick, Killick, Mount and Tratt, "Virtual Machine Warmup
Blows Hot and Cold" (OOPSLA 2017). There, the intervals are iterations of a benchmark, and the segments before the last
level are the warm-up. Here, a program may go through phases that recur, which are no warm-up: the steady part begins
at the first segment whose level, or levels that recur from there on, make up most of the rest. A run whose phases each
occur once has no steady part.

Levels are those of values whose outliers are drawn in. Their ranks would hide the size of differences: counts with
little noise may drift by 1 % after a start that differs tenfold, and have ranks as far apart within the rest as between
start and rest. Ranks are asked only where outliers are so frequent that they rule the variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary

ruptures = LazyLibrary("ruptures")
stats = LazyLibrary("scipy.stats")

FloatArray = NDArray[np.float64]

FEWEST_INTERVALS = 30  # that a run must have after its start: fewer give no verdict
_LEAST_STEADY = 0.4  # Share of a run that its steady part makes up at least
_LEAST_ALIKE = 0.75  # Share of the rest of a run at the level that begins it, or at levels that recur
_MOST_POINTS = 1_000  # Longer runs are averaged over neighbouring intervals
_FEWEST_POINTS = 5  # in a segment
_PENALTY = 2.0  # of a change point, in units of (metrics + 2 λ) log(points); λ: the largest eigenvalue of correlations
_ALIKE = 0.5  # Levels that differ by less are the same, in standard deviations of the run
_ERRORS = 3.0  # … or by less than so many standard errors
_TAIL = 0.03  # Share of the points at each end that are drawn in to the value of the others
_SPIKY = 2.0  # Standard deviation, in interquartile ranges, above which outliers rule a metric's variance
_SMALL = 0.05  # Differences that are no part of a start, in standard deviations of the run
_WINDOWS = 40  # Windows in a run, whose means show where a start has passed
_USUAL = 0.95  # Share of the windows of a steady part that are nearer to its level than the limit
_ROUNDS = 5  # in which the penalty and the variance within segments are adjusted to each other
_FIRST_NOISE = 0.5  # before the first round: few levels then stand together as one
_LEAST_NOISE = 1e-6  # of the variance of a run: simulated counts may have none
_SETTLED = 0.05  # Relative change of that variance below which it is settled
_MOST_CORRELATED = 0.98


@dataclass(frozen=True)
class Start:
    """The start of a run.

    Attributes
    ----------
    intervals : int
        The number of intervals in the run.
    steady : int or None
        The first interval of the steady part: 0 if the run is steady from its beginning, None if it never is.
    """

    intervals: int
    steady: int | None


@dataclass(frozen=True)
class Starts:
    """The starts of a configuration's runs, in their order."""

    runs: tuple[Start, ...]

    @property
    def longest(self) -> int:
        """Return the number of intervals before the steady part, in the run with most of them."""
        return max((start.steady for start in self.runs if start.steady is not None), default=0)

    @property
    def never(self) -> int:
        """Return the number of runs that are never steady."""
        return sum(start.steady is None for start in self.runs)

    @property
    def warm_up(self) -> int:
        """Return the number of runs whose start differs from the rest."""
        return sum(bool(start.steady) for start in self.runs)


def find_starts(runs: Sequence[Trace], metrics: Sequence[str]) -> Starts:
    """Find the start of each run, from all given metrics together."""
    return Starts(tuple(find_start(trace, metrics) for trace in runs))


def find_start(trace: Trace, metrics: Sequence[str]) -> Start:
    """Find where a run becomes steady, from its metrics together.

    Parameters
    ----------
    trace : Trace
        The run.
    metrics : sequence of str
        The metrics; those that are constant, or have no value in some interval, are left out.

    Returns
    -------
    Start
        With `steady` 0 if the run is shorter than 60 intervals or has no suitable metric.
    """
    intervals = len(trace)
    width = -(-intervals // _MOST_POINTS)
    if intervals < 2 * FEWEST_INTERVALS:
        return Start(intervals, 0)
    points = intervals // width
    columns = [
        column[: points * width].reshape(points, width).mean(axis=1)
        for column in (np.asarray(trace[name], np.float64) for name in metrics)
        if np.isfinite(column).all()
    ]
    columns = [column / np.abs(column).max() for column in columns if column.max() > column.min()]
    if not columns:
        return Start(intervals, 0)
    values = np.column_stack(columns)
    drawn_in = np.clip(values, *np.quantile(values, (_TAIL, 1 - _TAIL), axis=0, method="nearest"))
    begins = _begin(drawn_in)
    if not begins and _is_spiky(drawn_in):
        begins = _begin(stats.rankdata(values, axis=0)) or begins
    steady = None if begins is None else width * begins
    if steady is not None and intervals - steady < FEWEST_INTERVALS:
        steady = None
    return Start(intervals, steady)


def _begin(values: FloatArray) -> int | None:
    """Return the point at which the steady part of values begins, shape (points, metrics); None if there is none."""
    varying = values[:, values.max(axis=0) > values.min(axis=0)]
    if varying.shape[1] == 0:
        return 0
    signals = (varying - varying.mean(axis=0)) / varying.std(axis=0)
    bounds, noise = _segments(signals)
    begin = _steady_from(signals, bounds, noise)
    return _settled(signals, begin) if begin else begin


def _is_spiky(values: FloatArray) -> bool:
    """Return whether the variance of some metric is that of values far from most others."""
    spread = np.subtract(*np.quantile(values, (0.75, 0.25), axis=0))
    return bool((values.std(axis=0) > _SPIKY * spread).any())


def _segments(signals: FloatArray) -> tuple[list[int], float]:
    """Return the bounds of segments with equal levels, and the long-run variance of a point within them.

    The penalty of a change point grows with the long-run variance, which is larger than the variance if neighbouring
    intervals resemble each other: otherwise, most runs of a program with short phases would be cut to pieces.
    """
    points, metrics = signals.shape
    search: Any = ruptures.KernelCPD(kernel="linear", min_size=_FEWEST_POINTS).fit(signals)
    noise, largest = _FIRST_NOISE, 1.0
    for _ in range(_ROUNDS):
        bounds = [0, *map(int, search.predict(pen=_PENALTY * (metrics + 2 * largest) * np.log(points) * noise))]
        residuals = signals - _levels(signals, bounds)
        before, noise = noise, max(_LEAST_NOISE, _long_run_variance(residuals, len(bounds) - 1))
        largest = _largest_eigenvalue(residuals)
        if abs(noise - before) <= _SETTLED * before:
            break
    return bounds, noise


def _largest_eigenvalue(residuals: FloatArray) -> float:
    """Return the largest eigenvalue of the correlations: 1 for independent metrics, their number if they are one."""
    varying = residuals[:, residuals.std(axis=0) > 0]
    if varying.shape[1] < 2:
        return 1.0
    return float(np.linalg.eigvalsh(np.corrcoef(varying, rowvar=False))[-1])


def _levels(signals: FloatArray, bounds: Sequence[int]) -> FloatArray:
    """Return each point's level: the mean of its segment."""
    parts = [np.tile(signals[a:b].mean(axis=0), (b - a, 1)) for a, b in pairwise(bounds)]
    return np.concatenate(parts)


def _long_run_variance(residuals: FloatArray, segments: int) -> float:
    """Return the mean over metrics of the long-run variance, each as of an autoregression of order 1.

    The autocorrelation is corrected for its bias in short segments, (1 + 3ρ)/n (Kendall 1954).
    """
    variance = (residuals**2).mean(axis=0)
    lagged = (residuals[1:] * residuals[:-1]).mean(axis=0)
    seen = np.divide(lagged, variance, out=np.zeros_like(lagged), where=variance > 0)
    rho = np.clip(seen + (1 + 3 * seen) * segments / len(residuals), 0.0, _MOST_CORRELATED)
    return float((variance * (1 + rho) / (1 - rho)).mean())


def _steady_from(signals: FloatArray, bounds: Sequence[int], noise: float) -> int | None:
    """Return the point at which the steady part begins, or None if there is none."""
    points, metrics = signals.shape
    spans = list(pairwise(bounds))
    sizes = np.array([end - begin for begin, end in spans])
    levels = np.array([signals[begin:end].mean(axis=0) for begin, end in spans])
    apart = ((levels[:, None] - levels[None]) ** 2).sum(axis=2) / metrics
    errors = noise * (1 / sizes[:, None] + 1 / sizes[None])
    alike = apart <= np.maximum(_ALIKE**2, _ERRORS**2 * errors)
    for first, (begin, _) in enumerate(spans):
        least = _LEAST_ALIKE * (points - begin)
        if points - begin < _LEAST_STEADY * points:
            return None
        rest, same = sizes[first:], alike[first:, first:]
        recurs = np.array([_comes_again(row, at) for at, row in enumerate(same)])
        if (recurs[0] or rest[same[0]].sum() >= least) and rest[recurs | same[0]].sum() >= least:
            return begin
    return None


def _settled(signals: FloatArray, begin: int) -> int:
    """Return the first point from `begin` on at which the values are like those of the last half of the rest.

    A change point stands where most of a start has passed; a start that fades, or ends in a short peak, goes on there.
    The values of a few points together are held against as many at every place of that half.
    """
    points = len(signals)
    window = max(_FEWEST_POINTS, points // _WINDOWS)
    last = signals[(begin + points) // 2 :]
    if len(last) < 2 * window:
        return begin
    sums = np.cumsum(np.vstack([np.zeros(signals.shape[1]), signals - np.median(last, axis=0)]), axis=0)
    means = np.abs(sums[window:] - sums[:-window]) / window  # of the window that begins at each point
    spread = np.maximum(last.std(axis=0), _LEAST_NOISE)
    apart = ((np.maximum(means - _SMALL, 0) / spread) ** 2).sum(axis=1)
    limit = np.quantile(apart[(begin + points) // 2 :], _USUAL)
    latest = round((1 - _LEAST_STEADY) * points)
    return next((at for at in range(begin, latest + 1) if apart[at] <= limit), begin)


def _comes_again(alike: NDArray[np.bool_], at: int) -> bool:
    """Return whether a segment's level is left and comes again: neighbours that are alike may be part of a drift."""
    others = np.flatnonzero(~alike)
    return any(bool(alike[other:].any()) if other > at else bool(alike[:other].any()) for other in others)
