"""Stability of the baseline: drift over the campaign, outlier runs, and the recommended number of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.decide import tolerance_on_scale
from unperturbed.analysis.planned_runs import MOST_RUNS, Noise, runs_for_acceptance
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

_NAMED = 3
"""Maximum number of drifting columns to name, smallest p first; columns often drift together."""

_STATE = (
    "A total grows or falls from each run to the next: the program may keep state between runs, such as a file that "
    'grows (`working_folder: "{scratch}"` in a spec starts each run in an empty folder), or something changed on the '
    "host during the campaign."
)
"""Likely cause of a steady trend, and what to do."""


_REPEATABLE = (
    "Simulated counts do not depend on the host's load (mispredicted branches may, by about 1 %), but on the size of "
    "the environment, which runs of one round share: see whether other runs of this round differ too."
)
_DRIFT = "Check what changed on the host during the campaign."
_REPEATABLE_DRIFT = (
    "Simulated counts do not depend on the host's load (mispredicted branches may, by about 1 %): check whether the "
    "program's input changes from run to run, such as files, the clock or random numbers. A p near the level of the "
    "tests may be chance."
)


@dataclass(frozen=True)
class RunStatistics:
    """Values of the baseline runs, to test for drift and outliers."""

    labels: tuple[str, ...]  # One for each column
    # Shape (runs, columns), on a scale on which runs of one program vary alike: Fisher's z, or totals divided by
    # their mean.
    values: FloatArray
    correlations: int  # Number of leading columns with Fisher's z, shown as ρ
    # least_rho, least_ratio: Smaller differences of ρ, and of totals as ratios to their mean, are not reported:
    # values that barely vary, as in simulated runs, have significant trends in their last digits.
    least_rho: float = 0.0
    least_ratio: float = 0.001

    def to_display(self, column: int, value: float) -> float:
        """Convert a value to the scale of reports: ρ, or a ratio."""
        return float(from_fisher(value)) if column < self.correlations else float(value)

    def relevant(self, values: FloatArray, other: FloatArray) -> NDArray[np.bool_]:
        """Return which differences of values, shape (…, columns), are large enough to report."""
        of_rho = np.abs(from_fisher(values) - from_fisher(other)) >= self.least_rho
        of_ratio = np.abs(values - other) >= self.least_ratio
        return np.where(np.arange(values.shape[-1]) < self.correlations, of_rho, of_ratio)


@dataclass(frozen=True)
class Drift:
    """Correlation or total that drifts with the order of the runs.

    Attributes
    ----------
    label : str
        The correlation of a pair, or the total of a metric.
    first, last : float
        Value of the fitted line at the first and at the last run: ρ, or the total as a ratio to its mean.
    p_corrected : float
        Corrected family-wise over all correlations and totals.
    is_total : bool
        Whether this is a total.
    grows_steadily : bool
        Whether every run has a larger value than the run before, or every run a smaller one.
    """

    label: str
    first: float
    last: float
    p_corrected: float
    is_total: bool = False
    grows_steadily: bool = False

    def __str__(self) -> str:
        first, last = (_shown(value, is_total=self.is_total) for value in (self.first, self.last))
        of_mean = " of the mean" if self.is_total else ""
        return (
            f"{self.label} changes from {first} to {last}{of_mean}, along a line fitted from the first to the last run "
            f"(corrected p {self.p_corrected:.2g})"
        )


def _shown(value: float, *, is_total: bool) -> str:
    """Return a ρ, or a total's ratio to its mean in percent."""
    if not is_total:
        return f"{value:.3f}"
    digits = 0 if abs(value - 1) >= 0.1 else 1
    return f"{100 * value:.{digits}f}\u00a0%"


@dataclass(frozen=True)
class OutlierRun:
    """Run with a correlation or a total far from those of all other runs.

    Attributes
    ----------
    run : str
        Name of the run.
    label : str
        The correlation or total that differs most.
    value : float
        Its value in this run.
    others : float
        Its mean over the other runs.
    p_corrected : float
        Corrected family-wise over runs, correlations and totals.
    is_total : bool
        Whether this is a total, as a ratio to the mean of all runs.
    """

    run: str
    label: str
    value: float
    others: float
    p_corrected: float
    is_total: bool = False

    def __str__(self) -> str:
        value, others = (_shown(value, is_total=self.is_total) for value in (self.value, self.others))
        of_mean = " of the mean" if self.is_total else ""
        return f"{self.label} is {value}{of_mean}, in the other runs {others} (corrected p {self.p_corrected:.2g})"


@dataclass(frozen=True)
class Stability:
    """Stability of a baseline.

    Attributes
    ----------
    runs : int
        Number of baseline runs.
    drift : tuple of Drift
        Drifts that are significant at level α.
    outliers : tuple of OutlierRun
        Runs far from all others, significant family-wise.
    disturbed : tuple of tuple of str
        Runs on a disturbed host, each with the cause.
    advised : int or None
        Runs per configuration that would probably show a change of 0 to lie within the tolerance for every pair; None
        if more than 1,000.
    widest : str
        The pair that needs the most runs.
    repeatable : bool
        Whether all metrics are simulated in intervals of equal work, which the load of the host does not disturb.
    """

    runs: int
    drift: tuple[Drift, ...]
    outliers: tuple[OutlierRun, ...]
    disturbed: tuple[tuple[str, str], ...]
    advised: int | None
    widest: str
    repeatable: bool = False

    @property
    def steady(self) -> bool:
        """Return whether the baseline has no drift, no outliers and no disturbed runs."""
        return not (self.drift or self.outliers or self.disturbed)

    def sentences(self) -> tuple[str, ...]:
        """Return the findings, one sentence each; empty if the baseline is steady."""
        findings = []
        if self.drift:
            named = "; ".join(map(str, self.drift[:_NAMED]))
            more = f"; and {len(self.drift) - _NAMED} more" if len(self.drift) > _NAMED else ""
            steadily = any(drift.is_total and drift.grows_steadily for drift in self.drift)
            cause = _STATE if steadily else _REPEATABLE_DRIFT if self.repeatable else _DRIFT
            findings.append(f"The baseline drifts: {named}{more}. {cause}")
        what = _REPEATABLE if self.repeatable else "Check this run, and leave it out if something disturbed it."
        findings += [f"Baseline run {outlier.run} is an outlier: {outlier}. {what}" for outlier in self.outliers]
        findings += [f"Baseline run {run} was made on a disturbed host: {why}." for run, why in self.disturbed]
        return tuple(findings)

    def advice(self) -> str:
        """Return a sentence on the number of runs that would show an unchanged program to be unperturbed."""
        widest = f" ({self.widest} varies most)" if self.widest else ""
        shown = "To show that an unchanged program is unperturbed, "
        if self.advised is None:
            return (
                f"{shown}more than {MOST_RUNS:,} runs per configuration would be needed{widest}: use a longer interval "
                "or a wider tolerance."
            )
        return f"{shown}about {self.advised} runs per configuration are recommended{widest}."


def assess_stability(
    runs: Sequence[str],
    order: Sequence[float],
    pairs: Sequence[tuple[str, str]],
    rho: FloatArray,
    totals_of: Sequence[str],
    totals: FloatArray,
    disturbed: Mapping[str, str],
    *,
    alpha: float,
    tolerance: float,
) -> Stability:
    """Assess a baseline's stability from each run's ρ, shape (k, pairs), and totals, shape (k, metrics).

    `totals_of`: What each total is called, such as `the total of cycles`.
    `tolerance`: Largest |Δρ| that counts as no perturbation; differences below a tenth of it are not reported.
    """
    means = totals.mean(axis=0)
    columns = RunStatistics(
        (*(f"ρ of {first} and {second}" for first, second in pairs), *totals_of),
        np.hstack([fisher(rho), totals / np.where(means == 0, 1, means)]),
        len(pairs),
        least_rho=tolerance / 10,
    )
    advised, widest = advised_runs(
        rho, [f"{first} – {second}" for first, second in pairs], alpha=alpha, tolerance=tolerance
    )
    return Stability(
        runs=len(runs),
        drift=find_drift(columns, order, alpha=alpha),
        outliers=find_outliers(columns, runs, alpha=alpha),
        disturbed=tuple((run, disturbed[run]) for run in runs if run in disturbed),
        advised=advised,
        widest=widest,
    )


def find_drift(columns: RunStatistics, order: Sequence[float], *, alpha: float) -> tuple[Drift, ...]:
    """Find columns that drift with the order of the runs: Student's t of a line's slope, k − 2 degrees of freedom."""
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
    relevant = columns.relevant(*lines)
    steps = np.diff(values[np.argsort(when, kind="stable")], axis=0)
    drifts = []
    for at, p in sorted(zip(possible.tolist(), corrected.tolist(), strict=True), key=lambda pair: pair[1]):
        if p <= alpha and relevant[at]:
            first, last = lines[:, at]
            drifts.append(
                Drift(
                    columns.labels[at],
                    columns.to_display(at, first),
                    columns.to_display(at, last),
                    p,
                    is_total=at >= columns.correlations,
                    grows_steadily=bool((steps[:, at] > 0).all() or (steps[:, at] < 0).all()),
                )
            )
    return tuple(drifts)


def find_outliers(columns: RunStatistics, runs: Sequence[str], *, alpha: float) -> tuple[OutlierRun, ...]:
    """Find runs that differ from all others in a column; report each run once, for the column that differs most.

    Each run is compared with the others by Student's t with k − 2 degrees of freedom (the externally studentised
    residual; its maximum is Grubbs' test), corrected by Bonferroni over runs and columns. Runs are assumed to be
    normally distributed.
    """
    values = columns.values
    k = len(values)
    if k < 4 or not values.size:
        return ()
    others = (values.sum(axis=0) - values) / (k - 1)
    distance = values - others
    sums = (values**2).sum(axis=0) - values**2 - (k - 1) * others**2
    spread = np.sqrt(np.maximum(sums, 0) / (k - 2))
    possible = spread > 1e-12 * np.maximum(1, np.abs(values))
    t = np.abs(distance) / np.where(possible, spread, np.inf) / np.sqrt(k / (k - 1))
    p = np.minimum(1, 2 * special.stdtr(k - 2, -t) * max(1, possible.sum()))
    p = np.where(columns.relevant(values, others), p, 1)
    outliers = []
    for row in np.argsort(p.min(axis=1), kind="stable").tolist():
        at = int(p[row].argmin())
        if p[row, at] <= alpha:
            here, there = columns.to_display(at, values[row, at]), columns.to_display(at, others[row, at])
            is_total = at >= columns.correlations
            outliers.append(OutlierRun(runs[row], columns.labels[at], here, there, float(p[row, at]), is_total))
    return tuple(outliers)


def advised_runs(rho: FloatArray, labels: Sequence[str], *, alpha: float, tolerance: float) -> tuple[int | None, str]:
    """Return the recommended runs per configuration for an unchanged program, and the pair that needs the most.

    `rho`: float64, shape (runs, pairs). ρ of the baseline; 10 runs give the spread between runs to a quarter.
    """
    z = fisher(rho)
    k = len(z)
    most, widest = 0, ""
    for at, label in enumerate(labels):
        spread = float(z[:, at].std(ddof=1))
        if spread == 0:
            continue
        bounds, counts = tolerance_on_scale(float(z[:, at].mean()), tolerance)
        noise = Noise(spread * float(np.sqrt(2 / k)), k - 1, k, k, bounds, counts=counts)
        needed = runs_for_acceptance(noise, alpha=alpha, fewest=3)
        if needed is None:
            return None, label
        if needed > most:
            most, widest = needed, label
    return max(most, 3), widest
