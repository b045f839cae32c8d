"""Correlations of metrics that no run counts together, from aligned runs of two passes.

In a run of pass 1 there are a metric A and metrics S that both passes count, in a run of pass 2 B and S. Aligned runs
share the signals α and β of A and B. A metric's correlation with itself in an aligned run is its reliability, the share
of its variance that the signal has. So the covariances of A and B in one run with S, α and β are known. Let R be those
of S, α and β among each other, and a and b those of A and B with them. Then within a run

    ρ = a'R⁻¹b + c √(1 − a'R⁻¹a) √(1 − b'R⁻¹b),   −1 ≤ c ≤ 1,

where c is the correlation of what is left of A and B: what varies from run to run, and what the alignment misses. No
run has both, so the interval holds every c. It is short if both metrics are reliable, or if S tells them. The estimate
assumes that what is left correlates as the rest does. Without S, this is the correction for attenuation (Spearman, "The
proof and measurement of association between two things", 1904).

Simulated runs of equal work need no estimate if they share a round: they do the same, interval by interval, and ρ is
that of their joined intervals. That they do is seen in the metrics which both passes count.

Mytkowicz et al. use aligned runs "as if they had all been collected in the same run" (003, section 1). The interval
says when this is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from unperturbed.analysis.alignment import resample
from unperturbed.analysis.alignment.prepared_runs import PreparedRun, align_prepared, same_work
from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    correlate_ranks,
    fisher,
    from_fisher,
    standard_ranks,
)
from unperturbed.analysis.perturbation.rounds import same_rounds
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import LazyLibrary
from unperturbed.common.table import Column, Table
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")

_FEWEST = 3  # Runs of a pass, for the spread between runs

_SAME_RANKS = 0.99
"""Least rank correlation, between two runs of a round, of each metric that both count, if they do the same work."""


@dataclass(frozen=True)
class AcrossPasses:
    """Correlation of two metrics that no run counts together; all numbers are Spearman's ρ."""

    first: str
    second: str
    measured: float  # Between aligned runs of the two passes, or between runs of one round that do the same work
    # Of each metric: its correlation with itself between aligned runs of its pass; between runs of one round, the least
    # of any metric of both passes.
    reliabilities: tuple[float, float]
    estimate: float
    # Bounds, each at level 1 − α: for every c, with the error of the runs.
    low: float
    high: float
    is_reliable: bool  # Both bounds are within the tolerance of the estimate


def correlate_across_passes(
    first: Sequence[Trace],
    second: Sequence[Trace],
    metrics: tuple[Sequence[str], Sequence[str]],
    *,
    on: Sequence[str],
    anchor: str | None = None,
    alpha: float = 0.05,
    tolerance: float = 0.1,
) -> tuple[AcrossPasses, ...]:
    """Estimate the correlations of each metric of one pass with each metric of another pass.

    Parameters
    ----------
    first, second : sequence of Trace
        Runs of the two passes, at least 3 of each, of one configuration.
    metrics : tuple of sequence of str
        Metrics of the first pass, and of the second.
    on : sequence of str
        Metrics of both passes that the runs are aligned on.
    anchor : str, optional
        Software metric of both whose events the alignment passes through.
    alpha : float, default 0.05
        Each bound has level 1 − α.
    tolerance : float, default 0.1
        Largest distance of a bound from an estimate that can be relied on.

    Returns
    -------
    tuple of AcrossPasses
        One for each pair whose metrics vary.

    Raises
    ------
    DataError
        A pass has fewer than 3 runs, or the runs cannot be aligned.
    """
    if min(len(first), len(second)) < _FEWEST:
        raise DataError(f"correlations across passes need at least {_FEWEST} runs of each pass: make more runs")
    shared = [name for name in on if name in first[0] and name in second[0]]
    names = [[*shared, *(name for name in side if name not in shared)] for side in metrics]
    if same := _same_work(first, second):
        apart = product(*(side[len(shared) :] for side in names))
        made = (_within_rounds(first, second, same, (one, other), alpha, tolerance) for one, other in apart)
        return tuple(each for each in made if each is not None)
    known = _Known.of((first, second), names, len(shared), on, anchor)
    fewer = [known.without(side, run) for side, runs in enumerate((first, second)) for run in range(len(runs))]
    found = []
    for (at, one), (to, other) in product(*(list(enumerate(side))[len(shared) :] for side in names)):
        whole = known.bounds(at, to)
        if np.isfinite(whole).all():
            error = _jackknife([each.bounds(at, to) for each in fewer], len(first)) * known.quantile(alpha)
            estimate, measured, *reliabilities = whole[:4]
            low = max(-1.0, float(min(whole[4] - error[4], estimate - error[0])))
            high = min(1.0, float(max(whole[5] + error[5], estimate + error[0])))
            reliable = max(high - estimate, estimate - low) <= tolerance
            parts = (float(measured), (float(reliabilities[0]), float(reliabilities[1])), float(estimate))
            found.append(AcrossPasses(one, other, *parts, low, high, bool(reliable)))
    return tuple(found)


def _same_work(first: Sequence[Trace], second: Sequence[Trace]) -> list[tuple[int, int, float]]:
    """Return the runs of both passes that do the same work in one round, with the least correlation that shows it.

    Empty: too few do, or the counts are a processor's, which vary though the work is the same.
    """
    both = [name for name in first[0].names("simulated") if all(name in run for run in second)]
    found = []
    for at, to in np.argwhere(same_rounds(first, second)).tolist():
        if same_work(first[at], second[to]) and (least := _agreement(first[at], second[to], both)) >= _SAME_RANKS:
            found.append((at, to, least))
    return found if len(found) >= _FEWEST else []


def _agreement(one: Trace, other: Trace, metrics: Sequence[str]) -> float:
    """Return the least rank correlation of a metric of one run with itself in another; 0 if one does not vary."""
    here, there = (standard_ranks(np.asarray(run.values(metrics), np.float64)) for run in (one, other))
    least = float(np.diag(correlate_ranks(here, there)).min())
    return least if np.isfinite(least) else 0.0


def _within_rounds(
    first: Sequence[Trace],
    second: Sequence[Trace],
    same: Sequence[tuple[int, int, float]],
    pair: tuple[str, str],
    alpha: float,
    tolerance: float,
) -> AcrossPasses | None:
    """Return the correlation of joined intervals, the mean over rounds; None if a metric does not vary.

    The interval is wider by what the runs of a round are not alike.
    """
    one, other = (
        [standard_ranks(np.asarray(runs[int(each[side])].values([pair[side]]), np.float64)) for each in same]
        for side, runs in enumerate((first, second))
    )
    z = fisher(np.array([correlate_ranks(here, there)[0, 0] for here, there in zip(one, other, strict=True)]))
    if not np.isfinite(z).all():
        return None
    least = min(agreed for _, _, agreed in same)
    error = float(special.stdtrit(len(z) - 1, 1 - alpha)) * float(z.std(ddof=1)) / np.sqrt(len(z))
    estimate, low, high = (float(from_fisher(z.mean() + side * error)) for side in (0, -1, 1))
    low, high = max(-1.0, low - (1 - least)), min(1.0, high + (1 - least))
    return AcrossPasses(
        *pair, estimate, (least, least), estimate, low, high, max(high - estimate, estimate - low) <= tolerance
    )


class _Run:
    """A run, prepared once for all of its alignments."""

    def __init__(self, trace: Trace, metrics: Sequence[str], on: Sequence[str], anchor: str | None) -> None:
        self.rows = np.asarray(trace.values(metrics), np.float64)
        self.ranks = standard_ranks(self.rows)
        self.prepared = PreparedRun.of(trace, on=tuple(on), anchor=anchor)

    def with_other(self, other: _Run) -> FloatArray:
        """Return Fisher's z of each metric with each metric of another run, aligned to this one."""
        path = align_prepared(self.prepared, other.prepared)
        return fisher(correlate_ranks(self.ranks, standard_ranks(resample(path, other.rows, len(self.rows)))))


@dataclass(frozen=True)
class _Known:
    """All known correlations, as Fisher's z by run or by pair of runs; the first metrics of both passes are shared."""

    shared: int
    within: tuple[FloatArray, FloatArray]  # Of each pass: shape (runs, metrics, metrics)
    own: tuple[FloatArray, FloatArray]  # Between runs of a pass: shape (runs, runs, metrics, metrics)
    cross: FloatArray  # Between the passes: shape (runs, runs of the second, metrics, metrics of the second)

    @classmethod
    def of(
        cls,
        passes: Sequence[Sequence[Trace]],
        names: Sequence[Sequence[str]],
        shared: int,
        on: Sequence[str],
        anchor: str | None,
    ) -> _Known:
        """Align all runs with each other, in both directions."""
        first, second = (
            [_Run(trace, side, on, anchor) for trace in runs] for runs, side in zip(passes, names, strict=True)
        )
        back = _between(second, first).transpose(1, 0, 3, 2)
        within = [np.array([fisher(correlate_ranks(run.ranks, run.ranks)) for run in runs]) for runs in (first, second)]
        own = [_between(runs, runs) for runs in (first, second)]
        return cls(shared, (within[0], within[1]), (own[0], own[1]), (_between(first, second) + back) / 2)

    def without(self, side: int, run: int) -> _Known:
        """Return what is known without one run of a pass."""
        within, own = list(self.within), list(self.own)
        within[side] = np.delete(within[side], run, axis=0)
        own[side] = np.delete(np.delete(own[side], run, axis=0), run, axis=1)
        cross = np.delete(self.cross, run, axis=side)
        return _Known(self.shared, (within[0], within[1]), (own[0], own[1]), cross)

    def quantile(self, alpha: float) -> float:
        """Return Student's quantile, with the degrees of freedom of the pass with fewer runs."""
        return float(special.stdtrit(min(self.cross.shape[:2]) - 1, 1 - alpha))

    @cached_property
    def _means(self) -> tuple[list[FloatArray], list[FloatArray], FloatArray]:
        """Return the mean correlations within runs, between runs of a pass, and between the passes."""
        own = []
        for z in self.own:
            mean = z.sum(axis=(0, 1)) / (len(z) * (len(z) - 1))  # that of a run with itself is 0
            own.append(from_fisher((mean + mean.T) / 2))
        within = [from_fisher(z.mean(axis=0)) for z in self.within]
        return within, own, from_fisher(self.cross.mean(axis=(0, 1)))

    def bounds(self, at: int, to: int) -> FloatArray:
        """Return estimate, correlation between the passes, both reliabilities, and the bounds for every c."""
        within, own, cross = self._means
        count = self.shared
        series = np.eye(count + 2)
        series[:count, :count] = (within[0][:count, :count] + within[1][:count, :count]) / 2
        series[:count, count] = series[count, :count] = own[0][:count, at]
        series[:count, count + 1] = series[count + 1, :count] = own[1][:count, to]
        series[count, count + 1] = series[count + 1, count] = cross[at, to]
        np.fill_diagonal(series, [*[1.0] * count, own[0][at, at], own[1][to, to]])
        first = np.append(within[0][:count, at], [own[0][at, at], cross[at, to]])
        second = np.append(within[1][:count, to], [cross[at, to], own[1][to, to]])
        if not np.isfinite([*first, *second]).all() or min(first[count], second[count + 1]) <= 0:
            return np.full(6, np.nan)
        if np.linalg.eigvalsh(series)[0] > _LEAST:
            center, told = (
                float(first @ np.linalg.solve(series, second)),
                [float(np.clip(side @ np.linalg.solve(series, side), 0, 1)) for side in (first, second)],
            )
        else:  # estimates from different runs contradict each other: leave out S
            center, told = float(cross[at, to]), [float(own[0][at, at]), float(own[1][to, to])]
        rest = float(np.sqrt((1 - told[0]) * (1 - told[1])))
        alike = float(np.clip(center / np.sqrt(told[0] * told[1]), -1, 1)) if min(told) > 0 else 0.0
        estimate = np.clip(center + alike * rest, -1, 1)
        return np.array([estimate, cross[at, to], own[0][at, at], own[1][to, to], center - rest, center + rest])


_LEAST = 0.02  # Smallest eigenvalue of covariances that do not contradict each other


def _between(first: Sequence[_Run], second: Sequence[_Run]) -> FloatArray:
    """Return z of metrics of two runs, shape (runs, runs, metrics, metrics); of a run with itself, 0."""
    z = np.zeros((len(first), len(second), first[0].rows.shape[1], second[0].rows.shape[1]))
    for (i, one), (j, other) in product(enumerate(first), enumerate(second)):
        if one is not other:
            z[i, j] = one.with_other(other)
    return z


def _jackknife(fewer: Sequence[FloatArray], first: int) -> FloatArray:
    """Return the standard error of each number, from those without one run; `first`: runs of the first pass."""
    variance = np.zeros(len(fewer[0]))
    for side in (np.array(fewer[:first]), np.array(fewer[first:])):
        variance += (len(side) - 1) * side.var(axis=0)
    return np.asarray(np.sqrt(variance), np.float64)


def across_table(pairs: Sequence[AcrossPasses]) -> Table:
    """Return a table with one row for each pair that no run counts together."""
    rows = [
        [
            *(pair.first, pair.second, f"{pair.estimate:+.2f}", f"{pair.low:+.2f} … {pair.high:+.2f}"),
            *(f"{pair.measured:+.2f}", "yes" if pair.is_reliable else "no"),
        ]
        for pair in pairs
    ]
    columns = (
        *(Column("first"), Column("second"), Column("ρ", "right"), Column("interval", "right")),
        *(Column("between runs", "right"), Column("reliable")),
    )
    return Table(columns, rows, "Correlations across passes")


def across_to_dict(pairs: Sequence[AcrossPasses]) -> list[dict[str, Any]]:
    """Return the pairs as JSON types."""
    return [{**asdict(pair), "reliabilities": list(pair.reliabilities)} for pair in pairs]
