"""Scaling of metrics with different units and spreads: on the common scale, each metric's range over the run is 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

RESOLUTION = 0.02
"""Differences below this share of a metric's range over the run are not resolved."""

_RANGE_PERCENT = (5, 95)
"""Percentiles that bound a metric's range: they span a program's phases and ignore a single outlying interval."""

_LEVEL = 0.1
"""Minimum range of a metric, as a share of its median; a metric that varies less is treated as constant."""

_TINY = 1e-100
"""Smaller spreads are treated as 0, because their reciprocals overflow."""

_NEGLIGIBLE = 1e-3
"""On a logarithmic scale, values below this share of the largest are treated as 0."""

_SMALL, _MANY_SMALL, _SMALL_RANGE = 0.05, 0.25, 3.0
"""A metric is heavy-tailed if a quarter of its values are below a twentieth of the largest, but not negligible, and
differ by more than this factor."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Scale of each metric.

    A linear metric becomes arsinh((x − centre) / spread), which is linear over the range of the run and logarithmic
    beyond, so one outlying interval does not outweigh all others. A heavy-tailed metric becomes log(1 + x / centre) /
    spread.
    """

    # centre, spread: (metrics,): In the metric's unit; on a logarithmic scale, the spread is that of the logarithms.
    centre: FloatArray
    spread: FloatArray
    logarithmic: NDArray[np.bool_]  # (metrics,): Whether the metric is heavy-tailed

    def apply(self, values: FloatArray) -> FloatArray:
        """Convert values, shape (n, metrics), to the scale."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            heavy = np.log1p(np.maximum(values, 0) / self.centre) / self.spread
        return np.where(self.logarithmic, heavy, np.arcsinh((values - self.centre) / self.spread))

    def revert(self, scaled: FloatArray) -> FloatArray:
        """Convert points on the scale back to values."""
        with np.errstate(over="ignore", invalid="ignore"):  # from metrics with the other kind of scale
            heavy = np.expm1(scaled * self.spread) * self.centre
        return np.where(self.logarithmic, heavy, np.sinh(scaled) * self.spread + self.centre)

    def slope(self, values: FloatArray) -> FloatArray:
        """Return the derivative of the scale at each value."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            heavy = 1 / (self.spread * (self.centre + np.maximum(values, 0)))
        return np.where(self.logarithmic, heavy, 1 / np.hypot(self.spread, values - self.centre))


def choose_scaling(values: FloatArray) -> Scaling:
    """Choose a scale for each metric of finite values, shape (n, metrics), with at least one row.

    The scale is logarithmic if no value is negative and many are small compared with the largest; on a linear scale,
    the small values would be equal.
    """
    low, middle, high = np.percentile(values, (_RANGE_PERCENT[0], 50, _RANGE_PERCENT[1]), axis=0)
    spread = np.maximum(high - low, _LEVEL * np.abs(middle))
    away = np.abs(values - middle).mean(axis=0)  # the range of a mostly constant metric is 0
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
