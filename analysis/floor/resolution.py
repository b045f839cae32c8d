"""The smallest change of each total and correlation that n runs in each group can show.

A comparison of two groups of runs has a standard error with its degrees of freedom. Both scale to any number of runs:
the error with 1 / √n, the degrees of freedom with n − 1. The groups are runs that differ by chance alone (A against A)
or the configurations of a campaign: what a configuration changed does not matter here, only how its runs vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.perturbation import MINIMUM_RUNS
from unperturbed.analysis.perturbation.compare import POWER, smallest_visible
from unperturbed.analysis.perturbation.compare_outer import COUNTED, FAR_LEVEL
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.rounds import FEWEST_ROUNDS
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.compare import smallest_visible as smallest_visible_total
from unperturbed.common.extras import LazyLibrary

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change

special = LazyLibrary("scipy.special")

RUNS = (3, 5, 10, 20, 50, 100)
"""Numbers of runs in each group for which the floor is computed; with 3, no correlation can be *unperturbed*."""

MOST_RUNS = 1000
"""Largest number of runs that is proposed."""


@dataclass(frozen=True)
class Resolution:
    """Smallest changes of one total or correlation that n runs in each group can show."""

    kind: str  # `total`, or the check of a correlation: `inner`, `outer`, …
    metrics: tuple[str, ...]  # One metric, or the two metrics of a correlation
    smallest: tuple[float, ...]  # Smallest change shown with power 80 %, for each of `RUNS`: relative, or of ρ
    tolerance: float  # Largest change that counts as none: relative, or of ρ
    runs: int | None  # Runs that show no change beyond the tolerance with power 80 %; None if above `MOST_RUNS`
    compared: int  # Runs of the smaller side of the comparison
    freedom: float  # Degrees of freedom of the standard error
    simulated: bool = False  # Whether a simulator counted the metric

    @property
    def is_total(self) -> bool:
        """Return whether the changes are relative changes of a total, not changes of ρ."""
        return self.kind == "total"


@dataclass(frozen=True)
class _Noise:
    """Error of a difference between two means of n runs each, on the scale of the test."""

    error: float  # Standard error with the runs that were made
    freedom: float
    designs: int  # Number of comparisons from which this one was chosen
    k: int  # Reference runs
    r: int  # Checked runs
    apart: float  # Standard deviation of one run, without regard to rounds

    def designs_with(self, runs: FloatArray, alpha: float) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """For each design, yield the standard errors, degrees of freedom and levels of `runs` runs in each group.

        If a comparison is chosen from two designs, each design is tested at half of the level; with fewer rounds than
        `FEWEST_ROUNDS`, only the first design is tested, at the full level.
        """
        several = (self.designs > 1) & (runs >= FEWEST_ROUNDS)
        levels = np.where(several, alpha / self.designs, alpha)
        within = self.designs > 1 and self.freedom == self.r - 1
        scale = np.sqrt(2 / runs / (1 / self.k + 1 / self.r))
        if within:
            yield self.apart * np.sqrt(2 / runs), 2 * runs - 2, levels
            yield np.where(several, self.error * scale, np.inf), np.maximum(1, runs - 1), levels
        else:
            yield self.error * scale, self.freedom * (2 * runs - 2) / (self.k + self.r - 2), levels


def resolution_of_total(change: TotalChange, alpha: float, family: int) -> Resolution:
    """Return the smallest changes of a total that n runs can show, in a family of `family` totals."""
    sides = (change.reference, change.observed)
    # A total that is 0 in all runs has no logarithm, and no noise.
    apart = 0.0 if change.equal else _deviation([np.log(np.array(side)) for side in sides])
    noise = _Noise(
        change.standard_error, change.freedom, change.designs, len(change.reference), len(change.observed), apart
    )

    def smallest(error: float, freedom: float, level: float) -> float:
        return math.expm1(smallest_visible_total(error, freedom, alpha=level, family=family)) if error else 0.0

    bound = math.log1p(change.tolerance)
    return Resolution(
        "total",
        (change.metric,),
        _smallest(noise, alpha, smallest),
        change.tolerance,
        _runs_within(noise, alpha, (bound, bound)),
        min(noise.k, noise.r),
        change.freedom,
        change.simulated,
    )


def resolution_of_correlation(change: Change, alpha: float, family: int, *, simulated: bool = False) -> Resolution:
    """Return the smallest changes of a correlation that n runs can show, in a family of `family` changes."""
    sides = [fisher(np.array(side)) for side in (change.reference, change.observed)]
    level = float(sides[0].mean())
    noise = _Noise(
        change.standard_error, change.freedom, change.designs, len(sides[0]), len(sides[1]), _deviation(sides)
    )

    def smallest(error: float, freedom: float, at: float) -> float:
        return smallest_visible(level, error, freedom, alpha=at, family=family)

    # Not by the slope at ρ: near ±1 the scale is so curved that a fall by the tolerance looked several times as far.
    at = float(from_fisher(np.array([level]))[0])
    ends = (at - change.tolerance, at + change.tolerance)
    below, above = (math.inf if abs(end) >= 1 else abs(float(fisher(np.array([end]))[0]) - level) for end in ends)
    return Resolution(
        change.check,
        tuple(dict.fromkeys((change.first, change.second))),
        _smallest(noise, alpha, smallest),
        change.tolerance,
        _runs_within(noise, alpha, (below, above), outer=change.check in ("outer", "across")),
        min(noise.k, noise.r),
        change.freedom,
        simulated,
    )


def _deviation(sides: Sequence[FloatArray]) -> float:
    """Return the standard deviation of one run, pooled over both sides."""
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    return math.sqrt(squares / max(1, sum(len(side) - 1 for side in sides)))


def _smallest(noise: _Noise, alpha: float, smallest: Callable[[float, float, float], float]) -> tuple[float, ...]:
    """Return the smallest visible change for each number of `RUNS`, by the design that shows the smaller change."""
    each = [
        [smallest(*map(float, design)) if np.isfinite(design[0]) else math.inf for design in zip(*designs, strict=True)]
        for designs in noise.designs_with(np.array(RUNS, np.float64), alpha)
    ]
    return tuple(min(values) for values in zip(*each, strict=True))


def _runs_within(noise: _Noise, alpha: float, bounds: tuple[float, float], *, outer: bool = False) -> int | None:
    """Return the fewest runs in each group that show an unchanged program to lie within the bounds with power 80 %.

    `outer`: Whether the interval is that of outer correlations (`compare_outer.outer_bounds`), which is wider.
    """
    if not noise.error:
        return MINIMUM_RUNS
    runs = np.arange(MINIMUM_RUNS, MOST_RUNS + 1, dtype=np.float64)
    enough = np.zeros(len(runs), bool)
    for error, freedom, level in noise.designs_with(runs, alpha):
        quantile = special.stdtrit(freedom, 1 - level)
        if outer:
            near = special.stdtrit(COUNTED * freedom, 1 - level)
            quantile = np.maximum(near, special.stdtrit(freedom, 1 - FAR_LEVEL * level))
        with np.errstate(divide="ignore", invalid="ignore"):  # an error of 0, or a design that is not tested
            inside = sum(special.stdtr(freedom, bound / error - quantile) for bound in bounds) - 1
        enough |= inside >= POWER
    return int(runs[enough][0]) if enough.any() else None
