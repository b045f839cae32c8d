"""Error rates of the inner check alone, where more campaigns can be had: a part of the calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, classified, header, share
from tests.analysis import simulate
from unperturbed.analysis.multiple_testing import holm
from unperturbed.analysis.perturbation import SHOWN
from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    correlate_ranks,
    fisher,
    from_fisher,
    standard_ranks,
)
from unperturbed.collectors.data import Trace

INNER_BASELINE, INNER_CHECKED = (5, 10, 20), (3, 5)
RHO = {"unchanged": 0.5, "tolerance": 0.38}
"""Spearman's ρ of a pair in the checked runs: of one alone, or of every one."""


@dataclass
class Tally:
    """What the campaigns of one row gave: a list entry a campaign."""

    alarms: list[bool] = field(default_factory=list)
    significant: list[bool] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)

    def cells(self) -> str:
        """Shares and their standard errors, as cells of a table."""
        return " | ".join(share(each) for each in (self.alarms, self.significant))


def judged_at(reference: FloatArray, observed: FloatArray, intervals: int, tolerances: FloatArray) -> list[str]:
    """Judge a family of inner changes, each at a tolerance of its own."""
    compared = compare_runs(reference, observed, intervals=intervals, alpha=ALPHA)
    return classified(compared, compared.p_beyond(tolerances), tolerances)


def pair_correlations(traces: Sequence[Trace], names: Sequence[str]) -> FloatArray:
    """ρ of every pair in every run, shape (runs, pairs)."""
    first, second = zip(*combinations(range(len(names)), 2), strict=True)
    ranks = [standard_ranks(trace.values(names)) for trace in traces]
    return np.array([correlate_ranks(run_ranks, run_ranks)[list(first), list(second)] for run_ranks in ranks])


def judge(
    reference: FloatArray, observed: FloatArray, intervals: int
) -> tuple[list[str], FloatArray, FloatArray, FloatArray]:
    """Judge a family of pairs as `Baseline.inner` does, without its records: verdicts, corrected p-values, bounds."""
    compared = compare_runs(reference, observed, intervals=intervals, alpha=ALPHA)
    verdicts = classified(compared, compared.p_beyond(TOLERANCE), np.full(len(compared.p), TOLERANCE))
    return verdicts, holm(compared.p), compared.low, compared.high


def inner_header() -> Iterator[str]:
    """The header of the table of inner checks."""
    heads = ["φ", "intervals", "k", "r", "campaigns", "false alarms", "significant"]
    yield from header(
        [*heads, "accepted", "one called perturbed", "any of all called perturbed", "at a tolerance of Δρ"]
    )


def inner_cell(campaigns: int, seed: int, phi: float, intervals: int) -> Iterator[str]:
    """Inner checks of 10 pairs with ρ ≈ .5, unchanged, and with one pair changed by about the tolerance."""
    matrix = simulate.equicorrelated(METRICS, RHO["unchanged"])
    changed = {name: simulate.with_pair(matrix, (0, 1), rho) for name, rho in RHO.items()}
    changed["every"] = simulate.equicorrelated(METRICS, RHO["tolerance"])
    rng = np.random.default_rng([seed, round(100 * phi), intervals])
    program = simulate.program(rng, correlation=matrix, intervals=intervals, phi=phi)
    rows: dict[tuple[int, int], Tally] = defaultdict(Tally)
    bounds: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    means: dict[str, list[FloatArray]] = defaultdict(list)
    kept = []
    for _ in range(campaigns):
        reference = pair_correlations(simulate.runs(program, rng, max(INNER_BASELINE)), program.names)
        observed = {
            name: pair_correlations(simulate.runs(program, rng, max(INNER_CHECKED), correlation=each), program.names)
            for name, each in changed.items()
        }
        for name, each in (("before", reference), *observed.items()):
            means[name].append(fisher(each).mean(axis=0))
        kept.append((reference, observed))
        for k, r in product(INNER_BASELINE, INNER_CHECKED):
            verdicts, corrected, *_ = judge(reference[:k], observed["unchanged"][:r], intervals)
            rows[k, r].alarms.append(any(verdict in SHOWN for verdict in verdicts))
            rows[k, r].significant.append(bool((corrected <= ALPHA).any()))
            *_, low, high = judge(reference[:k], observed["tolerance"][:r], intervals)
            bounds[k, r].append((low[0], high[0]))
    before = from_fisher(np.mean(means["before"], axis=0))
    falls = {name: np.abs(before - from_fisher(np.mean(means[name], axis=0))) for name in ("tolerance", "every")}
    fall = float(falls["tolerance"][0])
    for (k, r), row in rows.items():
        accepted = share([-fall < low and high < fall for low, high in bounds[k, r]])
        # One pair at the tolerance among unchanged ones, and all of them there.
        single = [
            judged_at(reference[:k], observed["tolerance"][:r], intervals, np.full(len(before), fall))[0]
            for reference, observed in kept
        ]
        every = [
            judged_at(reference[:k], observed["every"][:r], intervals, falls["every"]) for reference, observed in kept
        ]
        yield (
            f"| {phi} | {intervals} | {k} | {r} | {campaigns} | {row.cells()} | {accepted} | "
            f"{share([verdict == 'perturbed' for verdict in single])} | "
            f"**{share(['perturbed' in verdicts for verdicts in every])}** | {fall:.3f} |"
        )
