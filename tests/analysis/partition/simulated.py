"""A simulated program whose true perturbation is known for every subset of its software metrics.

Two kinds of cause, neither monotone:

- *pressures*: each metric adds to a few totals, more or less its cost; where a total goes over its threshold, some
  pairs change. Half of the pressures are relieved by one metric: while it is there, they change nothing, however large
  the total.
- *conflicts*: two metrics change some pairs when both are there; half of the conflicts are cancelled by a third metric.

Beside these every metric changes some pairs a little. A subset is valid when no pair's true change exceeds the
tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.multiple_testing import holm, holm_of_intervals
from unperturbed.analysis.partition import Cost, SubsetOutcome, judging
from unperturbed.analysis.perturbation import combine
from unperturbed.analysis.perturbation.compare import Comparison, compare_runs
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.perturbation.decide import classify_change

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

NOBODY = -1
INTERVALS = 3000


@dataclass(frozen=True)
class Program:
    """See the module. Shapes: n metrics, p pairs, g pressures, c conflicts."""

    rho: FloatArray  # (p,) without software metrics
    spread: FloatArray  # (p,) standard deviation between runs, Fisher's scale
    cost: FloatArray  # (n,) instructions added, as a ratio
    small: FloatArray  # (n, p) change of ρ by each metric by itself
    load: FloatArray  # (g, n) share of each threshold that a metric takes
    width: FloatArray  # (g,) over which share of the threshold the change comes up
    pressed: FloatArray  # (g, p) change of ρ far above the threshold
    relief: NDArray[np.int64]  # (g,) the metric that relieves it, or NOBODY
    conflict: NDArray[np.int64]  # (c, 3) the two metrics, and the third that cancels them, or NOBODY
    clash: FloatArray  # (c, p) change of ρ

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(f"S{at:02d}" for at in range(len(self.cost)))

    def change(self, chosen: BoolArray) -> FloatArray:
        """Return the true changes of ρ, shape (subsets, p), of subsets given as rows of booleans (subsets, n)."""
        there = np.column_stack([chosen, np.zeros(len(chosen), bool)])  # so that NOBODY, the last, is never there
        pressure = 1 / (1 + np.exp(np.clip((1 - chosen @ self.load.T) / self.width, -40, 40)))
        pressure[there[:, self.relief]] = 0
        one, other, third = self.conflict.T
        clashing = there[:, one] & there[:, other] & ~there[:, third]
        return np.asarray(chosen @ self.small + pressure @ self.pressed + clashing @ self.clash)

    def valid(self, chosen: BoolArray, tolerance: float = 0.1) -> BoolArray:
        """Return which subsets are valid, shape (subsets,)."""
        return np.asarray((np.abs(self.change(chosen)) <= tolerance).all(axis=1))

    def row(self, subset: Sequence[str]) -> BoolArray:
        """Return a subset as one row of booleans, shape (1, n)."""
        chosen = np.zeros((1, len(self.cost)), bool)
        chosen[0, [int(name[1:]) for name in subset]] = True
        return chosen

    def is_valid(self, subset: Sequence[str], tolerance: float = 0.1) -> bool:
        return bool(self.valid(self.row(subset), tolerance)[0])


def program(
    rng: np.random.Generator,
    *,
    metrics: int = 20,
    hardware: int = 12,
    pressures: int = 3,
    conflicts: int | None = None,
    unmeasurable: int = 1,
    spread: tuple[float, float] = (0.02, 0.05),
    changed: tuple[float, float] = (0.15, 0.35),
    touched: int = 5,
    rho: tuple[float, float] = (-0.5, 0.6),
) -> Program:
    """Draw a program.

    Parameters
    ----------
    metrics : int, default 20
        TODO software and hardware metrics; all pairs of the latter are watched.
    hardware : int, default 12
        TODO.
    conflicts : int, optional
        Two for each five metrics by default.
    unmeasurable : int, default 1
        Metrics that perturb alone.
    spread : tuple of float, default (0.02, 0.05)
        Standard deviations of pairs between runs, on Fisher's scale.
    changed : tuple of float, default (0.15, 0.35)
        |Δρ| of pressures and conflicts.
    touched : int, default 5
        Pairs that each of them changes.
    rho : tuple of float, default (-0.5, 0.6)
        Of the pairs, without software metrics.
    """
    pairs = hardware * (hardware - 1) // 2
    conflicts = metrics * 2 // 5 if conflicts is None else conflicts

    def changes(causes: int) -> FloatArray:
        drawn = np.zeros((causes, pairs))
        for row in drawn:
            at = rng.choice(pairs, min(touched, pairs), replace=False)
            row[at] = rng.uniform(*changed, len(at)) * rng.choice([-1, 1], len(at))
        return drawn

    cost = rng.lognormal(0, 1, metrics)
    load = cost * rng.lognormal(0, 0.5, (pressures, metrics))
    # Each pressure by itself would ask for so many subsets; no metric goes over a threshold alone but those planted.
    load *= (rng.uniform(1.5, 4, pressures) / load.sum(axis=1))[:, None]
    load = np.minimum(load, 0.8)
    for at in rng.choice(metrics, unmeasurable, replace=False):
        load[rng.integers(pressures), at] = 1.6
    threes = np.array([rng.choice(metrics, 3, replace=False) for _ in range(conflicts)], np.int64).reshape(conflicts, 3)
    threes[conflicts // 2 :, 2] = NOBODY
    return Program(
        rho=rng.uniform(*rho, pairs),
        spread=rng.uniform(*spread, pairs),
        cost=cost * 0.05 / cost.sum(),
        small=np.where(rng.random((metrics, pairs)) < 0.05, rng.normal(0, 0.01, (metrics, pairs)), 0.0),
        load=load,
        width=rng.uniform(0.02, 0.12, pressures),
        pressed=changes(pressures),
        relief=np.where(rng.random(pressures) < 0.5, rng.integers(metrics, size=pressures), NOBODY),
        conflict=threes,
        clash=changes(conflicts),
    )


class FastJudge:
    """Draws each run's correlations on Fisher's scale and judges them as `Baseline.inner` does, without traces.

    What a run shows depends on the seed, its subset and its number alone, not on what was measured before.
    """

    runs_per_repetition = 1

    def __init__(
        self,
        of: Program,
        seed: int,
        *,
        references: int = 20,
        tolerance: float = 0.1,
        alpha: float = 0.05,
        fresh: bool = False,
    ):
        self.of, self.seed, self.tolerance, self.alpha = of, seed, tolerance, alpha
        self.references, self.baseline_runs = references, references if fresh else 0
        self.searching = self.certifying = self._runs((), 0, references)
        self.pool: dict[tuple[str, ...], FloatArray] = {}
        self.found: dict[tuple[str, ...], Comparison] = {}
        self.renewed = 0

    def explore(self, subset: tuple[str, ...], repetitions: int) -> SubsetOutcome:
        pool = self.pool.setdefault(subset, np.empty((0, len(self.of.rho))))
        self.pool[subset] = np.concatenate([pool, self._runs(subset, len(pool), repetitions)])
        self.found[subset], outcome = self._judged(subset, self.searching, self.pool[subset], self.alpha)
        return outcome

    def certify(self, subset: tuple[str, ...], repetitions: int, level: float) -> SubsetOutcome:
        made = self._runs(subset, len(self.pool[subset]), repetitions)
        self.pool[subset] = np.concatenate([self.pool[subset], made])
        return self._judged(subset, self.certifying, made, level)[1]

    def repetitions_to_certify(self, subset: tuple[str, ...], level: float, maximum: int) -> int | None:
        seen = self._seen(self.found[subset], len(self.pool[subset]))
        return judging.repetitions_to_certify(seen, level=level, tolerance=self.tolerance, maximum=maximum)

    def renew_baseline(self) -> None:
        self.renewed += 1
        self.certifying = self._runs((), self.renewed * self.references, self.references)

    def _runs(self, subset: tuple[str, ...], first: int, count: int) -> FloatArray:
        chosen = self.of.row(subset)
        rng = np.random.default_rng([self.seed, int("0" + "".join(map(str, chosen[0].astype(int))), 2), first])
        mean = fisher(np.clip(self.of.rho + self.of.change(chosen)[0], -0.98, 0.98))
        return from_fisher(mean + self.of.spread * rng.standard_normal((count, len(mean))))

    def _seen(self, compared: Comparison, repetitions: int) -> judging.ObservedChanges:
        return judging.ObservedChanges(
            compared.reference_mean,
            compared.observed_mean - compared.reference_mean,
            compared.standard_error,
            self.references,
            repetitions,
        )

    def _judged(
        self, subset: tuple[str, ...], reference: FloatArray, observed: FloatArray, level: float
    ) -> tuple[Comparison, SubsetOutcome]:
        compared = compare_runs(reference, observed, intervals=INTERVALS, alpha=level)
        verdict = combine(
            classify_change(*numbers, alpha=level, tolerance=self.tolerance)
            for numbers in zip(
                holm(compared.p).tolist(),
                holm_of_intervals(compared.p_beyond(self.tolerance)).tolist(),
                compared.low.tolist(),
                compared.high.tolist(),
                strict=True,
            )
        )
        wanted = None
        if verdict != "unperturbed":
            wanted = judging.repetitions_to_accept(
                self._seen(compared, len(observed)), level=level, tolerance=self.tolerance
            )
        cost = Cost(instructions=float(self.of.cost @ self.of.row(subset)[0]))
        return compared, SubsetOutcome(verdict, len(observed), wanted, cost=cost)


class Oracle:
    """A judge that knows the truth at once."""

    runs_per_repetition, baseline_runs = 1, 0

    def __init__(self, of: Program, tolerance: float = 0.1):
        self.of, self.tolerance = of, tolerance

    def explore(self, subset: tuple[str, ...], repetitions: int) -> SubsetOutcome:
        verdict = "unperturbed" if self.of.is_valid(subset, self.tolerance) else "perturbed"
        return SubsetOutcome(verdict, repetitions, cost=Cost(instructions=float(self.of.cost @ self.of.row(subset)[0])))

    def certify(self, subset: tuple[str, ...], repetitions: int, level: float) -> SubsetOutcome:
        return self.explore(subset, repetitions)

    def repetitions_to_certify(self, subset: tuple[str, ...], level: float, maximum: int) -> int | None:
        return 3

    def renew_baseline(self) -> None:
        """Change nothing."""
