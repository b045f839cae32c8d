"""The outer check with few intervals, sparse metrics and monotone functions of metrics: a part of the calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from experiments.calibration.common import METRICS, header
from experiments.calibration.outer import OUTER, Runs, outer_cell, outer_header
from tests.analysis import simulate
from unperturbed.analysis.perturbation import outer_correlations
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.collectors.data import Trace

FEW_SPREAD = 0.15
FEW = [
    Runs(rho, FEW_SPREAD, intervals=intervals, zeros=zeros)
    for rho in (0.9, 0.97)
    for intervals, zeros in ((OUTER["intervals"], 0.0), (60, 0.0), (30, 0.0), (OUTER["intervals"], 0.8))
]
"""Runs of few intervals, or with metrics that are 0 in most of them."""

MONOTONE: dict[str, Callable[[FloatArray], FloatArray]] = {
    "logarithm": lambda counts: 1e6 * np.log1p(counts),
    "square": lambda counts: counts**2 / 1e3,
    "cube": lambda counts: (counts / 1e3) ** 3,
}
"""Functions that keep the order of counts, scaled so that rounding makes no ties."""
MONOTONE_INTERVALS, MONOTONE_PHI, MONOTONE_SHARED = 165, 0.7, 0.8


def few_header() -> Iterator[str]:
    """The header of the table of few intervals and sparse metrics."""
    head, rule = outer_header()
    yield f"| intervals | intervals at 0 {head}"
    yield f"|---|---{rule}"


def few_cell(campaigns: int, seed: int, of: Runs) -> Iterator[str]:
    """One row of that table."""
    for row in outer_cell(campaigns, seed, of):
        yield f"| {of.intervals} | {of.zeros:.0%} {row}"


def monotone_header() -> Iterator[str]:
    """The header of the table of monotone functions."""
    heads = ["function of the metrics", "aligned on", "milestones", "ρ", "ρ of the function", "change of ρ, mean size"]
    yield from header([*heads, "95 % of pairs of runs, at most", "largest"])


def monotone_rows(pairs: int, seed: int) -> Iterator[str]:
    """How outer correlations of pairs of runs change if every metric is replaced by a function that keeps its order."""
    rng = np.random.default_rng([seed, 6])
    program = simulate.program(
        rng,
        correlation=simulate.equicorrelated(METRICS, 0.2),
        intervals=MONOTONE_INTERVALS,
        phi=MONOTONE_PHI,
        shared=MONOTONE_SHARED,
    )
    runs = [simulate.runs(program, rng, 2) for _ in range(pairs)]
    for anchor in (simulate.MILESTONE, None):

        def correlations(both: Sequence[Trace], anchor: str | None = anchor) -> FloatArray:
            return outer_correlations(both[0], both[1], program.names, align_on=program.names[-1:], anchor=anchor)

        before = np.array([correlations(both) for both in runs])
        for name, function in MONOTONE.items():
            after = np.array([correlations([mapped(run, program.names, function) for run in both]) for both in runs])
            for what, columns in (("itself", slice(-1, None)), ("another metric", slice(0, -1))):
                change = np.abs(after - before)[:, columns]
                yield (
                    f"| {name} | {what} | {'yes' if anchor else 'no'} | {before[:, columns].mean():.3f} | "
                    f"{after[:, columns].mean():.3f} | {change.mean():.3f} | {np.quantile(change, 0.95):.3f} | "
                    f"{change.max():.3f} |"
                )


def mapped(run: Trace, names: tuple[str, ...], function: Callable[[FloatArray], FloatArray]) -> Trace:
    """Return a run of which some metrics are replaced by a function of them."""
    columns = {name: np.asarray(run[name]) for name in run.metrics}
    columns |= {name: np.rint(function(columns[name].astype(np.float64))).astype(np.int64) for name in names}
    return Trace.from_columns(
        run.metrics.values(), columns, begin_ns=run.begin_ns, end_ns=run.end_ns, attributes=run.attributes
    )
