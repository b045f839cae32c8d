"""The smallest change of each total and correlation that n runs in each group can show.

A comparison of two groups of runs has a standard error with its degrees of freedom. Both scale to any number of runs:
the error with 1 / √n, the degrees of freedom with n − 1. The groups are runs that differ by chance alone (A against A)
or the configurations of a campaign: what a configuration changed does not matter here, only how its runs vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.perturbation import MINIMUM_RUNS
from unperturbed.analysis.perturbation.compare import smallest_visible
from unperturbed.analysis.perturbation.correlation import fisher
from unperturbed.analysis.perturbation.decide import noise_of
from unperturbed.analysis.planned_runs import Noise, runs_for_acceptance
from unperturbed.analysis.totals import TotalChange
from unperturbed.analysis.totals.compare import change_of
from unperturbed.analysis.totals.compare import smallest_visible as smallest_visible_total
from unperturbed.analysis.totals.verdict import noise_of_total

if TYPE_CHECKING:
    from unperturbed.analysis.perturbation import Change

RUNS = (3, 5, 10, 20, 50, 100)
"""Numbers of runs in each group for which the floor is computed; with 3, no correlation can be *unperturbed*."""


@dataclass(frozen=True)
class Resolution:
    """Smallest changes of one total or correlation that n runs in each group can show."""

    kind: str  # `total`, or the check of a correlation: `inner`, `outer`, …
    metrics: tuple[str, ...]  # One metric, or the two metrics of a correlation
    smallest: tuple[float, ...]  # Smallest change shown with power 80 %, for each of `RUNS`: relative, or of ρ
    tolerance: float  # Largest change that counts as none: relative, or of ρ
    runs: int | None  # Runs that show no change beyond the tolerance with power 80 %; None if above 1,000
    compared: int  # Runs of the smaller side of the comparison
    freedom: float  # Degrees of freedom of the standard error
    simulated: bool = False  # Whether a simulator counted the metric

    @property
    def is_total(self) -> bool:
        """Return whether the changes are relative changes of a total, not changes of ρ."""
        return self.kind == "total"


def resolution_of_total(change: TotalChange, alpha: float, family: int) -> Resolution:
    """Return the smallest changes of a total that n runs can show, in a family of `family` totals."""
    noise = noise_of_total(change)

    def smallest(error: float, freedom: float, level: float) -> float:
        return change_of(smallest_visible_total(error, freedom, alpha=level, family=family)) if error else 0.0

    return Resolution(
        "total",
        (change.metric,),
        _smallest(noise, alpha, smallest),
        change.tolerance,
        runs_for_acceptance(noise, alpha=alpha, fewest=MINIMUM_RUNS),
        min(noise.k, noise.r),
        change.freedom,
        change.simulated,
    )


def resolution_of_correlation(change: Change, alpha: float, family: int, *, simulated: bool = False) -> Resolution:
    """Return the smallest changes of a correlation that n runs can show, in a family of `family` changes."""
    level, noise = float(fisher(change.reference).mean()), noise_of(change)

    def smallest(error: float, freedom: float, at: float) -> float:
        return smallest_visible(level, error, freedom, alpha=at, family=family)

    return Resolution(
        change.check,
        tuple(dict.fromkeys((change.first, change.second))),
        _smallest(noise, alpha, smallest),
        change.tolerance,
        runs_for_acceptance(noise, alpha=alpha, fewest=MINIMUM_RUNS),
        min(noise.k, noise.r),
        change.freedom,
        simulated,
    )


def _smallest(noise: Noise, alpha: float, smallest: Callable[[float, float, float], float]) -> tuple[float, ...]:
    """Return the smallest visible change for each number of `RUNS`, by the design that shows the smaller change."""
    each = [
        [smallest(*map(float, design)) if np.isfinite(design[0]) else math.inf for design in zip(*designs, strict=True)]
        for designs in noise.designs_with(np.array(RUNS, np.float64), alpha)
    ]
    return tuple(min(values) for values in zip(*each, strict=True))
