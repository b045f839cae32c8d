"""Numbers of runs that decide with a power of 80 %: every number of runs that is advised is computed here.

A comparison of two groups of runs has a standard error with its degrees of freedom, on the scale of its test (Fisher's
for correlations, logarithms for totals). Both scale to any number of runs, and the verdict's own rules say how short an
interval must be. Two things are not known, and the power is a mean over both:

- **Spread.** A few runs know it only roughly. It is averaged over its distribution given these runs (σ² = s² ν / χ²).
- **Effect.** An observed effect is the true one and noise. If runs are added to those that showed it, the effect of all
  runs will differ from it by √(e² − E²), where e and E are the standard errors now and then. This is the predictive
  distribution without prior knowledge of the effect (Spiegelhalter, Freedman and Blackburn, "Monitoring clinical
  trials: conditional or predictive power?", Controlled Clinical Trials 7, 1986). Where the interval holds 0, no change
  at all is as probable as any change. To take the observed effect and spread as the true ones promised too much. How
  often the advised runs decide is measured in `docs/evidence/totals.md`, "Advised numbers of runs".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.looks import FIRST_LOOK as FEWEST_ROUNDS
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

FloatArray = NDArray[np.float64]

POWER = 0.8
"""Probability that a change of `smallest_visible` is shown, and that an advised number of runs decides."""

MOST_RUNS = 1000
"""Largest number of runs in a group that is computed; more are out of reach."""

_SPREADS = (np.arange(8) + 0.5) / 8
"""Levels of the quantiles that stand for the distribution of the spread."""


@dataclass(frozen=True)
class Noise:
    """Error of a difference between the means of k reference runs and r checked runs, and its tolerance.

    Both are on the scale of the test.
    """

    error: float  # Standard error from which the interval is computed
    freedom: float
    k: int
    r: int
    # How far the tolerance reaches below and above no change; infinite if there is no bound.
    bounds: tuple[float, float]
    nodes: int = 1  # Nodes with k and r runs each, over which the difference is a mean
    designs: int = 1  # Number of comparisons from which this one was chosen
    within: bool = False  # Whether the comparison within rounds was chosen
    apart: float = 0.0  # If it was, the standard deviation of one run without regard to rounds
    observed_error: float | None = None  # Standard error by which the effect varies, if it is smaller than `error`
    # counted, far_level: Share of the degrees of freedom that counts, and level of the interval's far end relative to
    # that of the near end; of outer correlations, both are below 1 (`compare_outer`).
    counted: float = 1.0
    far_level: float = 1.0
    relative: float = 1.0  # Ratio of the checked runs' spread to the reference's, if there is a change
    # How much an error of the reference counts at the lower and at the upper bound: on Fisher's scale, a tolerance of ρ
    # is longer or shorter there.
    counts: tuple[float, float] = (1.0, 1.0)

    def apart_from_rounds(self) -> Noise:
        """Return the noise of the comparison of independent runs, if runs are compared within rounds."""
        return replace(
            self,
            error=self.apart * math.sqrt(1 / self.k + 1 / self.r),
            freedom=self.nodes * (self.k + self.r - 2),
            within=False,
            observed_error=None,
        )

    def designs_with(self, runs: FloatArray, alpha: float) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """For each design, yield the standard errors, degrees of freedom and levels of `runs` runs in each group.

        If a comparison is chosen from two designs, each design is tested at half of the level; with fewer rounds than
        `FEWEST_ROUNDS`, only the first design is tested, at the full level.
        """
        several = (self.designs > 1) & (runs >= FEWEST_ROUNDS)
        levels = np.where(several, alpha / self.designs, alpha)
        scale = np.sqrt(2 / runs / (1 / self.k + 1 / self.r))
        if self.within:
            yield self.apart * np.sqrt(2 / runs), 2 * runs - 2, levels
            yield np.where(several, self.error * scale, np.inf), np.maximum(1, runs - 1), levels
        else:
            yield self.error * scale, self.freedom * (2 * runs - 2) / (self.k + self.r - 2), levels


def runs_for_acceptance(noise: Noise, *, alpha: float, fewest: int) -> int | None:
    """Return the fewest runs in each group that show an unchanged program, measured anew, to be within the tolerance.

    `alpha`: Level of each bound of the interval before it is divided among designs. `fewest`: The least that counts.
    Result: None if more than `MOST_RUNS` are needed.
    """
    return _first(fewest, _power(noise, fewest, alpha, 1, None)) if noise.error else fewest


def runs_to_decide(
    changed: Noise, effect: float, *, alpha: float, family: int, unchanged: Noise | None = None
) -> int | None:
    """Return the runs of each configuration that decide a change with power 80 %, with the runs that there are.

    A change is decided if it is shown to lie within the tolerance or beyond it. The reference keeps its runs if it has
    more.

    `changed`: The noise, if the program has changed by about the observed `effect`.
    `unchanged`: The noise if it has not changed at all; given where the interval holds 0. Both are then equally
    probable, and the runs must also have the power if there is no change: an effect may be noise alone, which no number
    of runs shows to be beyond the tolerance.
    `family`: Number of tests that share α for a change beyond the tolerance.
    Result: None if more than `MOST_RUNS` are needed.
    """
    if not changed.error:
        return None
    fewest = changed.r + 1
    power = _power(changed, fewest, alpha, family, effect)
    if unchanged is not None:
        of_none = _power(unchanged, fewest, alpha, family, None)
        power = np.minimum(of_none, (power + of_none) / 2)
    return _first(fewest, power)


def _first(fewest: int, power: FloatArray) -> int | None:
    enough = np.flatnonzero(power >= POWER)
    return int(_candidates(fewest)[enough[0]]) if len(enough) else None


def _power(noise: Noise, fewest: int, alpha: float, family: int, effect: float | None) -> FloatArray:
    """Return the probability that each number of runs decides, by the better of its designs.

    Without an effect, an unchanged program is measured anew.
    """
    power = _power_of_design(noise, fewest, alpha, family, effect)
    if not noise.within:
        return power
    return np.maximum(power, _power_of_design(noise.apart_from_rounds(), fewest, alpha, family, effect))


def _power_of_design(noise: Noise, fewest: int, alpha: float, family: int, effect: float | None) -> FloatArray:
    """Return the power by one design.

    At each bound, Student's t of the runs to come is approximated by a normal distribution: the mean varies, and so
    does the width of the interval.
    """
    kept = effect is not None
    least = noise.k if kept else 0
    rules = _Rules(least, noise.nodes, noise.designs, noise.within, noise.counted, noise.far_level, alpha, family)
    references, freedom, inside, beyond = _quantiles(rules, fewest)
    runs = _candidates(fewest)
    spread = noise.error / math.sqrt(1 / noise.k + 1 / noise.r)
    varies_by = 1.0 if noise.observed_error is None else min(1.0, noise.observed_error / noise.error)
    share = np.minimum(1, noise.freedom / freedom) if kept else np.zeros_like(runs)
    ratio = _ratios(noise.freedom)[:, None]
    # The spread that the runs will show, which is partly that of the runs that are kept.
    shown = np.sqrt(share + (1 - share) * ratio**2)
    own_width = np.sqrt((1 - share) / (2 * freedom))
    bias = 1 - 1 / (4 * freedom)
    change = effect or 0.0

    def error(count: float, of_reference: FloatArray | float, of_checked: FloatArray | float) -> FloatArray:
        parts = count * np.sqrt(1 / np.asarray(of_reference)), noise.relative * np.sqrt(1 / np.asarray(of_checked))
        return np.asarray(spread * np.hypot(*parts), np.float64)

    total = np.zeros_like(shown)
    decided_inside = np.full_like(shown, -1.0)
    for side, bound, count in zip((-1, 1), noise.bounds, noise.counts, strict=True):
        if math.isinf(bound):
            decided_inside += 1
            continue
        then = error(count, references, runs)
        now = error(count, noise.k, noise.r) if kept else 0.0
        moves = varies_by * ratio * np.sqrt(np.maximum(np.abs(now**2 - then**2), np.finfo(np.float64).tiny))
        for quantile, to_bound in ((inside, bound - side * change), (beyond, side * change - bound)):
            reach = quantile * shown * then
            passed = special.ndtr((to_bound - bias * reach) / np.hypot(moves, reach * own_width))
            if quantile is inside:
                decided_inside += passed
            else:
                total += passed
    return np.asarray((total + np.maximum(0, decided_inside)).mean(axis=0), np.float64)


@lru_cache(maxsize=32)
def _candidates(fewest: int) -> FloatArray:
    """Return the numbers of runs that are tried: all up to 100, then steps of at most 2 %."""
    steps = np.unique(np.geomspace(100, MOST_RUNS, 120).round())
    return np.concatenate([np.arange(fewest, 100.0), steps[steps >= fewest]])


@lru_cache(maxsize=32)
def _ratios(freedom: float) -> FloatArray:
    """Return equally probable ratios of the true spread to a spread with these degrees of freedom."""
    if math.isinf(freedom):
        return np.ones(1)
    return np.asarray(np.sqrt(freedom / special.chdtri(freedom, _SPREADS)), np.float64)


class _Rules(NamedTuple):
    """Rules of the test of a planned comparison; see `Noise`."""

    least: int  # Reference runs that are kept
    nodes: int
    designs: int
    within: bool
    counted: float
    far_level: float
    alpha: float
    family: int


@lru_cache(maxsize=64)
def _quantiles(rules: _Rules, fewest: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the reference runs, degrees of freedom, and quantiles inside and beyond the bounds, for each candidate."""
    runs = _candidates(fewest)
    several = (rules.designs > 1) & (runs >= FEWEST_ROUNDS)
    level = np.where(several, rules.alpha / rules.designs, rules.alpha)
    references = np.maximum(float(rules.least), runs)
    if rules.within:
        references, freedom = runs, rules.nodes * np.maximum(1, runs - 1)
    else:  # Welch's
        parts = 1 / references, 1 / runs
        freedom = (
            rules.nodes * (parts[0] + parts[1]) ** 2 / (parts[0] ** 2 / (references - 1) + parts[1] ** 2 / (runs - 1))
        )
    near = special.stdtrit(rules.counted * freedom, 1 - level)
    beyond = np.maximum(near, special.stdtrit(rules.counted * freedom, 1 - level / (2 * rules.family)))
    inside = np.maximum(near, special.stdtrit(freedom, 1 - rules.far_level * level))
    if rules.within:
        inside, beyond = (np.where(several, quantile, np.inf) for quantile in (inside, beyond))
    return references, freedom, inside, beyond
