"""Is the baseline itself steady? Drift over the campaign, runs that stand apart, and how many runs would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from unperturbed.analysis.perturbation.compare import runs_to_decide
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.decide import holm

__all__ = ["Apart", "Columns", "Drift", "Stability", "advised_runs", "find_apart", "find_drift"]

_NAMED = 3
"""Drifting columns that are named, those with the smallest p; they often drift together."""


@dataclass(frozen=True)
class Columns:
    """What is looked at, run by run.

    Attributes
    ----------
    labels : of the columns.
    values : float64, shape (runs, columns)
        On a scale on which runs of one program vary alike: Fisher's z, or totals divided by their mean.
    correlations : the first so many columns are Fisher's z, to be shown as ρ.
    least_rho, least_ratio : of smaller differences of ρ, and of totals as ratios to their mean, nothing is said. What hardly varies, as in
        simulated runs, has significant trends in its last digits.
    """

    labels: tuple[str, ...]
    values: FloatArray
    correlations: int
    least_rho: float = 0.0
    least_ratio: float = 0.001

    def shown(self, column: int, value: float) -> float:
        """Bring a value back to what a reader knows."""
        return float(from_fisher(value)) if column < self.correlations else float(value)

    def matters(self, one: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
        """Tell which differences of values, shape (…, columns), are worth a word."""
        of_rho = np.abs(from_fisher(one) - from_fisher(other)) >= self.least_rho
        of_ratio = np.abs(one - other) >= self.least_ratio
        return np.where(np.arange(one.shape[-1]) < self.correlations, of_rho, of_ratio)


@dataclass(frozen=True)
class Drift:
    """A correlation or a level that moved with the order of the runs.

    Attributes
    ----------
    label : the pair, or the metric whose total is meant.
    first, last : the straight line's value at the first and at the last run: ρ, or the total as a ratio to its mean.
    p_corrected : family-wise over all that was looked at.
    """

    label: str
    first: float
    last: float
    p_corrected: float

    def __str__(self) -> str:
        return f"{self.label} goes from {self.first:.3f} in the first run to {self.last:.3f} in the last (p {self.p_corrected:.2g}, corrected)"


@dataclass(frozen=True)
class Apart:
    """A run with a correlation or a total far from those of all other runs.

    Attributes
    ----------
    run : its name.
    label : where it stands apart most. value : there; others : mean of the other runs.
    p_corrected : family-wise over runs and everything that was looked at.
    """

    run: str
    label: str
    value: float
    others: float
    p_corrected: float


@dataclass(frozen=True)
class Stability:
    """What is known of the baseline's steadiness.

    Attributes
    ----------
    runs : how many there are.
    drift, apart : what was found at level α, each family-wise.
    disturbed : runs on a disturbed host, and what disturbed it.
    advised : runs a configuration with which a change of 0 would probably be shown to lie within the tolerance for every pair; None when
        that is out of reach.
    widest : the pair that needs most.
    """

    runs: int
    drift: tuple[Drift, ...]
    apart: tuple[Apart, ...]
    disturbed: tuple[tuple[str, str], ...]
    advised: int | None
    widest: str

    @property
    def steady(self) -> bool:
        """Tell whether nothing speaks against the baseline."""
        return not (self.drift or self.apart or self.disturbed)

    def sentences(self) -> tuple[str, ...]:
        """Say what was found, a sentence each; none when the baseline is steady and large enough."""
        said = []
        if self.drift:
            named = "; ".join(map(str, self.drift[:_NAMED]))
            more = f"; and {len(self.drift) - _NAMED} more" if len(self.drift) > _NAMED else ""
            said.append(f"The baseline drifts: {named}{more}. What changed meanwhile on the host?")
        said += [
            f"Baseline run {one.run} stands apart: {one.label} is {one.value:.3f}, in the others {one.others:.3f} "
            f"(p {one.p_corrected:.2g}, corrected). Look at it, and leave it out if something disturbed it."
            for one in self.apart
        ]
        said += [f"Baseline run {run} was made on a disturbed host: {why}." for run, why in self.disturbed]
        return tuple(said)


def find_drift(columns: Columns, order: Sequence[float], *, alpha: float) -> tuple[Drift, ...]:
    """Find columns that move with the order of the runs.

    Parameters
    ----------
    columns : of the runs.
    order : when each run was made.
    alpha : family-wise level of finding any drift in a steady baseline.

    Notes
    -----
    Student's t of the slope of a straight line, k − 2 degrees of freedom; columns that do not vary are passed over.
    """
    values = columns.values
    k = len(values)
    when = np.asarray(order, np.float64) - np.mean(order)
    deviations = values - values.mean(axis=0)
    spread = np.sqrt((deviations**2).sum(axis=0))
    possible = np.flatnonzero(spread > 1e-12 * np.maximum(1, np.abs(values).max(axis=0)))
    if k < 4 or not len(possible) or not when.any():
        return ()
    r = (when @ deviations[:, possible]) / (np.sqrt(when @ when) * spread[possible])
    t = np.abs(r) * np.sqrt((k - 2) / np.maximum(1 - r**2, 1e-15))
    corrected = holm(2 * special.stdtr(k - 2, -t))
    ends = when[[when.argmin(), when.argmax()]]
    lines = values.mean(axis=0) + np.outer(ends, when @ deviations / (when @ when))
    matters = columns.matters(*lines)
    found = []
    for at, p in sorted(zip(possible.tolist(), corrected.tolist(), strict=True), key=lambda pair: pair[1]):
        if p <= alpha and matters[at]:
            first, last = lines[:, at]
            found.append(Drift(columns.labels[at], columns.shown(at, first), columns.shown(at, last), p))
    return tuple(found)


def find_apart(columns: Columns, runs: Sequence[str], *, alpha: float) -> tuple[Apart, ...]:
    """Find runs that stand apart from all others in some column.

    Parameters
    ----------
    columns : of the runs.
    runs : their names.
    alpha : family-wise level of finding any in a baseline whose runs are alike (normally distributed).

    Notes
    -----
    Each run against the others by Student's t, k − 2 degrees of freedom (the externally studentised residual; its maximum is Grubbs'
    test), corrected by Bonferroni over runs and columns. One entry a run: where it stands apart most.
    """
    values = columns.values
    k = len(values)
    if k < 4:
        return ()
    others = (values.sum(axis=0) - values) / (k - 1)
    distance = values - others
    sums = (values**2).sum(axis=0) - values**2 - (k - 1) * others**2
    spread = np.sqrt(np.maximum(sums, 0) / (k - 2))
    possible = spread > 1e-12 * np.maximum(1, np.abs(values))
    t = np.abs(distance) / np.where(possible, spread, np.inf) / np.sqrt(k / (k - 1))
    p = np.minimum(1, 2 * special.stdtr(k - 2, -t) * max(1, possible.sum()))
    p = np.where(columns.matters(values, others), p, 1)
    found = []
    for row in np.argsort(p.min(axis=1), kind="stable").tolist():
        at = int(p[row].argmin())
        if p[row, at] <= alpha:
            here, there = columns.shown(at, values[row, at]), columns.shown(at, others[row, at])
            found.append(Apart(runs[row], columns.labels[at], here, there, float(p[row, at])))
    return tuple(found)


def advised_runs(rho: FloatArray, labels: Sequence[str], *, alpha: float, tolerance: float) -> tuple[int | None, str]:
    """Return how many runs a configuration would probably show an unchanged program to be unperturbed, and the pair that needs most.

    Parameters
    ----------
    rho : float64, shape (runs, pairs)
        Of the baseline.
    labels : of the pairs.

    Notes
    -----
    The spread between runs is itself known from few runs: with 10, to a quarter.
    """
    z = fisher(rho)
    k = len(z)
    most, widest = 0, ""
    for at, label in enumerate(labels):
        spread = float(z[:, at].std(ddof=1))
        if spread == 0:
            continue
        error = spread * np.sqrt(2 / k)
        needed = runs_to_decide(
            float(z[:, at].mean()), 0.0, error, k, k, alpha=alpha, tolerance=tolerance, family=len(labels), fewest=3
        )
        if needed is None:
            return None, label
        if needed > most:
            most, widest = needed, label
    return max(most, 3), widest
