"""Metrics of different units and spreads on one scale, on which a step of 1 is the range of a metric over the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

RESOLUTION = 0.02
"""Differences of less than this share of a metric's range over the run are not resolved."""

_RANGE_PERCENT = (5, 95)
"""Wide enough to span a program's phases, blind to a single outlying interval."""

_LEVEL = 0.1
"""A metric whose range is a smaller share of its own size is as good as constant, and is not stretched to the scale."""

_TINY = 1e-100
"""Smaller spreads are none: their reciprocals overflow."""

_NEGLIGIBLE = 1e-3
"""On a logarithmic scale: values below this share of the largest are as good as 0."""

_SMALL, _MANY_SMALL, _SMALL_RANGE = 0.05, 0.25, 3.0
"""A metric is heavy-tailed when a quarter of its values are below a twentieth of its largest, yet not negligible, and
differ by this factor."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """A scale for each metric.

    A linear metric becomes arsinh((x − centre) / spread), which is linear over the range of the run and logarithmic
    beyond, so that one outlying interval does not outweigh all others. A heavy-tailed metric becomes log(1 + x /
    centre) / spread.
    """

    # centre, spread: (metrics,): In the metric's unit; of a logarithmic scale the spread is one of logarithms.
    centre: FloatArray
    spread: FloatArray
    logarithmic: NDArray[np.bool_]  # (metrics,): Whether the metric is heavy-tailed

    def apply(self, values: FloatArray) -> FloatArray:
        """Return values of shape (n, metrics) on the scale."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            heavy = np.log1p(np.maximum(values, 0) / self.centre) / self.spread
        return np.where(self.logarithmic, heavy, np.arcsinh((values - self.centre) / self.spread))

    def revert(self, scaled: FloatArray) -> FloatArray:
        """Return the values of points on the scale."""
        with np.errstate(over="ignore", invalid="ignore"):  # of metrics on the other scale
            heavy = np.expm1(scaled * self.spread) * self.centre
        return np.where(self.logarithmic, heavy, np.sinh(scaled) * self.spread + self.centre)

    def slope(self, values: FloatArray) -> FloatArray:
        """Return by how much the scale rises where a value rises by 1."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            heavy = 1 / (self.spread * (self.centre + np.maximum(values, 0)))
        return np.where(self.logarithmic, heavy, 1 / np.hypot(self.spread, values - self.centre))


def choose_scaling(values: FloatArray) -> Scaling:
    """Choose a scale for each metric of finite values, shape (n, metrics), one row or more.

    It is logarithmic where no value is negative and many are small beside the largest: a linear scale would show these
    as equal.
    """
    low, middle, high = np.percentile(values, (_RANGE_PERCENT[0], 50, _RANGE_PERCENT[1]), axis=0)
    spread = np.maximum(high - low, _LEVEL * np.abs(middle))
    away = np.abs(values - middle).mean(axis=0)  # of a metric that is mostly constant the range is 0
    spread = np.where(spread > _TINY, spread, np.where(away > _TINY, away, 1.0))
    small = (values > _NEGLIGIBLE * high) & (values < _SMALL * high)
    chosen = (values.min(axis=0) >= 0) & (high > _TINY) & (small.mean(axis=0) >= _MANY_SMALL)
    for column in np.flatnonzero(chosen):
        least, most = np.percentile(values[small[:, column], column], (10, 90))
        chosen[column] = most > _SMALL_RANGE * least
    centre = np.where(high > _TINY, high * _NEGLIGIBLE, 1.0)
    low, high = np.percentile(np.log1p(np.maximum(values, 0) / centre), _RANGE_PERCENT, axis=0)
    heavy = np.maximum(high - low, np.log1p(_LEVEL))
    return Scaling(np.where(chosen, centre, middle), np.where(chosen, heavy, spread), chosen)
