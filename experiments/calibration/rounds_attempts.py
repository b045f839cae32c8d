"""Other ways to allow for rounds of few classes, on the campaigns of `rounds`: a part of the calibration.

Each was tried because ten rounds of three classes may miss a class. Then the level of a coefficient is known less well
than its rounds show, and falls by exactly the tolerance were called *perturbed* too often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import special

from experiments.calibration.attempts import shrunk
from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, header
from experiments.calibration.rounds import FALL, LEVEL, ROUND_KINDS, ROUNDS, SPREAD, run_effects
from unperturbed.analysis.multiple_testing import holm_of_intervals
from unperturbed.analysis.perturbation.compare import (
    Comparison,
    MeanErrors,
    compare_runs,
    comparison,
    widest_bounds,
)
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, fisher_slope, from_fisher
from unperturbed.analysis.perturbation.rounds import DESIGNS, LEAST_SPREAD, MOST_SHARED, compare_within_rounds


@dataclass(frozen=True)
class Case:
    """Inner coefficients that all fall, by the tolerance or further."""

    kind: str
    shared: float
    r: int
    spreads: tuple[float, ...] = (SPREAD,) * METRICS  # Of each coefficient, on Fisher's scale
    alike: bool = False  # Each round has the same effect on all coefficients


UNEQUAL = (0.02, 0.05, 0.15, 0.3, 0.4)
EDGES = {
    "r = 10": Case("three classes", 0.99, 10),
    "r = 5": Case("three classes", 0.99, 5),
    "spreads .02 to .4": Case("three classes", 0.99, 10, UNEQUAL),
    "20 coefficients": Case("three classes", 0.99, 10, (SPREAD,) * 20),
    "one class for all": Case("three classes", 0.99, 10, alike=True),
    "normal": Case("normal", 0.99, 10),
}
"""Where a fall by exactly the tolerance may be called *perturbed*: the first two are cells of the table of rounds."""
FOUND = {
    "r = 10": Case("three classes", 0.99, 10),
    "r = 5": Case("three classes", 0.99, 5),
    "normal, r = 5": Case("normal", 0.99, 5),
    "normal, .9, r = 5": Case("normal", 0.9, 5),
    "normal, .5, r = 10": Case("normal", 0.5, 10),
    "spreads .02 to .4, r = 5": Case("three classes", 0.99, 5, UNEQUAL),
}
"""Where a larger fall should be."""


@dataclass(frozen=True)
class Drawn:
    """Fisher's z of baseline and checked runs of all campaigns, (rounds, campaigns · coefficients): the rounds with
    checked runs come first."""

    before: FloatArray
    after: FloatArray
    shift: FloatArray  # Of the level, by the rounds that were drawn
    mean_change: FloatArray  # Of ρ in a round, over all rounds, if Fisher's z falls as ρ does from .8 by the tolerance
    coefficients: int

    @property
    def differences(self) -> FloatArray:
        """Of the checked runs from the baseline runs of their rounds."""
        return np.asarray(self.after - self.before[: len(self.after)], np.float64)

    @property
    def of_level(self) -> FloatArray:
        """The squared error that the level's own spread adds, as in `compare_within_rounds`."""
        level, between = self.before.mean(axis=0), self.before.var(axis=0, ddof=1)
        end = level + self.differences.mean(axis=0)
        moved = 1 - fisher_slope(from_fisher(end)) / fisher_slope(from_fisher(level))
        return np.asarray(moved**2 * between / ROUNDS, np.float64)

    def variance(self, least: float = MOST_SHARED) -> FloatArray:
        """Of a difference within a round, at least this share of that of independent runs."""
        partners = self.before[: len(self.after)]
        independent = partners.var(axis=0, ddof=1) + self.after.var(axis=0, ddof=1)
        return np.asarray(np.maximum(self.differences.var(axis=0, ddof=1), least * independent), np.float64)


def drawn(campaigns: int, seed: int, case: Case, fall: float) -> Drawn:
    """Draw campaigns; those whose coefficients are as in the table of rounds are those of the table."""
    rng = np.random.default_rng([seed, 6, list(ROUND_KINDS).index(case.kind), round(100 * case.shared), case.r, 0])
    by_fall = {each: [_campaign(rng, case, each) for _ in range(campaigns)] for each in (0.0, TOLERANCE, FALL)}
    before, after, shift = (np.concatenate(parts, axis=-1) for parts in zip(*by_fall[fall], strict=True))
    many = replace(case, r=ROUNDS)
    pairs = [_campaign(np.random.default_rng([8, at]), many, TOLERANCE)[:2] for at in range(4000)]
    changes = [from_fisher(first).mean(axis=0) - from_fisher(second).mean(axis=0) for first, second in pairs]
    return Drawn(before, after, shift, np.tile(np.mean(changes, axis=0), campaigns), len(case.spreads))


def _campaign(rng: np.random.Generator, case: Case, fall: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    effects: list[FloatArray] = []

    def of_rounds(rng: np.random.Generator, count: int) -> FloatArray:
        columns = np.concatenate([ROUND_KINDS[case.kind](rng, count) for _ in range(len(case.spreads) // METRICS)], 1)
        effects.append(columns[:, :1].repeat(columns.shape[1], axis=1) if case.alike else columns)
        return effects[0]

    spreads = np.array(case.spreads) / SPREAD
    before, after, of_checked = run_effects(of_rounds, case.shared, ROUNDS, case.r, rng)
    order = np.concatenate([of_checked, np.setdiff1d(np.arange(ROUNDS), of_checked)])
    shift = SPREAD * spreads * np.sqrt(case.shared) * effects[0].mean(axis=0)
    return fisher(LEVEL) + spreads * before[order], fisher(LEVEL - fall) + spreads * after, shift


Judged = tuple[FloatArray, FloatArray, NDArray[np.bool_]]
"""Of each coefficient, the p-value of "it fell by the tolerance at most", the half width of the interval, and whether
that lies beyond the tolerance."""
Way = Callable[[Drawn], Judged]
Floor = Callable[[FloatArray], FloatArray]
"""Minimum variances between rounds from the coefficients' own, both (campaigns, coefficients)."""
_LEVEL = ALPHA / DESIGNS
_SHIFT = float(fisher(LEVEL) - fisher(LEVEL - TOLERANCE))


def _judged(made: Comparison, tolerance: FloatArray | float = TOLERANCE) -> Judged:
    p = np.minimum(1, DESIGNS * made.p_beyond(tolerance))
    return np.where(made.effect < 0, p, 1.0), (made.high - made.low) / 2, made.high < -tolerance


def _floored(floor: Floor) -> Way:
    """`compare_within_rounds`, with another minimum of the variance between rounds."""

    def judge(runs: Drawn) -> Judged:
        between = runs.before.var(axis=0, ddof=1).reshape(-1, runs.coefficients)
        least = np.broadcast_to(floor(between), between.shape).ravel()
        values, partners = (from_fisher(runs.before), from_fisher(runs.after)), np.arange(len(runs.after))
        return _judged(compare_within_rounds(*values, partners, alpha=_LEVEL, least=least))

    return judge


def _empirical_bayes(between: FloatArray) -> FloatArray:
    return np.stack([shrunk(of_campaign, ROUNDS - 1) for of_campaign in between])


def _student(
    runs: Drawn, variance: FloatArray, of_level: FloatArray, freedom: FloatArray, tolerance: FloatArray | float
) -> Judged:
    """Student's t of the differences: their variance, and the squared error that the level adds."""
    level, error = runs.before.mean(axis=0), np.sqrt(variance / len(runs.after) + of_level)
    means, errors = (level, level + runs.differences.mean(axis=0)), MeanErrors(0 * error, error, freedom)
    made = comparison(means, error, widest_bounds(*means, [errors], _LEVEL), [errors], freedom, ("",) * len(error))
    return _judged(made, tolerance)


def _most_shared(least: float) -> Way:
    """Another minimum of the variance of differences within rounds than `MOST_SHARED`."""

    def judge(runs: Drawn) -> Judged:
        freedom = np.full(runs.before.shape[1], len(runs.after) - 1.0)
        return _student(runs, runs.variance(least), runs.of_level, freedom, TOLERANCE)

    return judge


def _by_classes(runs: Drawn) -> Judged:
    """The level's degrees of freedom are the classes that rounds fall into, less one; rounds that are further apart
    than two runs of a round usually are belong to different classes."""
    variance, between = runs.variance(), runs.before.var(axis=0, ddof=1)
    classes = 1 + (np.diff(np.sort(runs.before, axis=0), axis=0) > np.sqrt(variance)).sum(axis=0)
    of_runs = np.minimum(variance / 2, between) / between
    of_difference, of_level = variance / len(runs.after), runs.of_level
    parts = of_difference, of_level * of_runs, of_level * (1 - of_runs)
    known = len(runs.after) - 1.0, ROUNDS - 1.0, np.maximum(classes - 1.0, 0.5)
    freedom = sum(parts) ** 2 / sum(part**2 / of for part, of in zip(parts, known, strict=True))
    return _student(runs, variance, of_level, np.clip(freedom, 1, len(runs.after) - 1.0), TOLERANCE)


def _these_rounds(runs: Drawn) -> Judged:
    """The claim is on the rounds that were made: their level is known, and what is tolerated is the fall there."""
    start = fisher(LEVEL) + runs.shift
    tolerance = from_fisher(start) - from_fisher(start - _SHIFT)
    freedom = np.full(len(start), len(runs.after) - 1.0)
    return _student(runs, runs.variance(), np.zeros_like(start), freedom, tolerance)


def _union(ends: Callable[[Drawn, FloatArray | float], tuple[FloatArray, FloatArray]], share: float) -> Way:
    """The interval holds the change at every level between two ends; `share` of the error rate is the differences'."""

    def bounds(runs: Drawn, alpha: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        r = len(runs.after)
        half = special.stdtrit(r - 1, 1 - share * alpha) * np.sqrt(runs.variance() / r)
        change, levels = runs.differences.mean(axis=0), ends(runs, alpha)
        found = []
        for z in (change - half, change + half):
            at = np.stack([*levels, np.clip(-z / 2, *levels)])
            found.append(from_fisher(at + z) - from_fisher(at))
        return found[0].min(axis=0), found[1].max(axis=0)

    def judge(runs: Drawn) -> Judged:
        low, high = bounds(runs, _LEVEL)
        below, above = np.full(len(low), -20.0), np.zeros(len(low))
        for _ in range(30):
            middle = (below + above) / 2
            shown = bounds(runs, np.exp(middle))[1] < -TOLERANCE
            below, above = np.where(shown, below, middle), np.where(shown, middle, above)
        return np.minimum(1, DESIGNS * np.exp(above)), (high - low) / 2, high < -TOLERANCE

    return judge


def _interval_of_level(runs: Drawn, alpha: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    half = special.stdtrit(ROUNDS - 1, 1 - alpha / 2) * runs.before.std(axis=0, ddof=1) / np.sqrt(ROUNDS)
    return runs.before.mean(axis=0) - half, runs.before.mean(axis=0) + half


def _range_of_levels(runs: Drawn, _alpha: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    return runs.before.min(axis=0), runs.before.max(axis=0)


def _each_round(runs: Drawn) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The change of ρ in each round less what is tolerated, its mean's error, and the half width of the interval."""
    change = from_fisher(runs.after) - from_fisher(runs.before[: len(runs.after)]) + runs.mean_change
    error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
    return change, error, special.stdtrit(len(change) - 1, 1 - _LEVEL) * error


def _mean_of_rounds(runs: Drawn) -> Judged:
    """Student's t of each round's change of ρ, whose mean over all rounds is the change that is tolerated."""
    change, error, half = _each_round(runs)
    p = np.minimum(1, DESIGNS * special.stdtr(len(change) - 1, change.mean(axis=0) / error))
    return p, half, change.mean(axis=0) + half < 0


def _signs(runs: Drawn) -> Judged:
    """Change the signs of rounds' changes, less what is tolerated, in all ways."""
    change, _, half = _each_round(runs)
    flips = np.array([*product((-1.0, 1.0), repeat=len(change))])
    p = np.minimum(1, DESIGNS * np.mean(flips @ change <= change.sum(axis=0) + 1e-12, axis=0))
    return p, half, p <= ALPHA


def _bootstrap(runs: Drawn) -> Judged:
    """Percentiles over resampled rounds, both the level and the differences."""
    rng, r, samples = np.random.default_rng(7), len(runs.after), 2000
    weights = rng.multinomial(r, np.full(r, 1 / r), samples) / ROUNDS
    if r < ROUNDS:
        others = rng.multinomial(ROUNDS - r, np.full(ROUNDS - r, 1 / (ROUNDS - r)), samples) / ROUNDS
        weights = np.concatenate([weights, others], axis=1)
    level = weights @ runs.before
    change = from_fisher(level + weights[:, :r] @ runs.differences * ROUNDS / r) - from_fisher(level)
    low, high = np.quantile(change, [_LEVEL, 1 - _LEVEL], axis=0)
    p = np.minimum(1, DESIGNS * (1 + (change >= -TOLERANCE).sum(axis=0)) / (1 + samples))
    return p, (high - low) / 2, high < -TOLERANCE


WAYS: dict[str, Way] = {
    "its own rounds alone, as before": _floored(np.zeros_like),
    "**in use**: at least half of the mean variance": _floored(
        lambda between: LEAST_SPREAD * between.mean(axis=1, keepdims=True)
    ),
    "at least the mean variance": _floored(lambda between: between.mean(axis=1, keepdims=True)),
    "at least half of the median variance": _floored(lambda between: np.median(between, axis=1, keepdims=True) / 2),
    "empirical Bayes over coefficients": _floored(_empirical_bayes),
    "three times the level's error": _floored(lambda between: 9 * between),
    "all levels of an interval, α halved": _union(_interval_of_level, 0.5),
    "all levels that rounds have": _union(_range_of_levels, 1.0),
    "degrees of freedom by classes": _by_classes,
    "differences have at least 1/4 of the variance of independent runs": _most_shared(1 / 4),
    "differences have at least 1/2 of the variance of independent runs": _most_shared(1 / 2),
    "mean of each round's change of ρ": _mean_of_rounds,
    "signs of these": _signs,
    "bootstrap over rounds": _bootstrap,
    "a claim on these rounds alone": _these_rounds,
}


def rounds_attempts(campaigns: int, seed: int) -> Iterator[str]:
    """One row a way: falls by the tolerance that are called perturbed, then larger falls that are found."""
    yield from header(["way", *(f"called: {name}" for name in EDGES), *(f"found: {name}" for name in FOUND)])
    cells: dict[str, list[str]] = {way: [] for way in WAYS}
    for cases, fall in ((EDGES, TOLERANCE), (FOUND, FALL)):
        for case in cases.values():
            runs = drawn(campaigns, seed, case, fall)
            independent = _independent(runs)
            for way, judge in WAYS.items():
                names = perturbed_by(judge, runs, independent)
                rate = names.any(axis=1).mean() if fall == TOLERANCE else names.mean()
                cells[way].append(f"{rate:.3f}")
    for way, of_way in cells.items():
        yield f"| {way} | {' | '.join(of_way)} |"


def _independent(runs: Drawn) -> Judged:
    return _judged(compare_runs(from_fisher(runs.before), from_fisher(runs.after), intervals=None, alpha=_LEVEL))


def perturbed_by(judge: Way, runs: Drawn, independent: Judged | None = None) -> NDArray[np.bool_]:
    """Return whether each coefficient of each campaign is called perturbed, by the design with the shorter interval."""
    within, independent = judge(runs), independent or _independent(runs)
    taken = within[1] < independent[1]
    p, shown = (np.where(taken, within[at], independent[at]).reshape(-1, runs.coefficients) for at in (0, 2))
    return np.asarray(shown & np.stack([holm_of_intervals(of_campaign) <= ALPHA for of_campaign in p]), np.bool_)
