"""Verdicts over looks: error rates of campaigns that run until they are decided, and how many runs they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.calibration.common import ALPHA, TOLERANCE, header, share
from unperturbed.analysis.looks import look_levels, plan_looks
from unperturbed.analysis.multiple_testing import holm, holm_of_intervals
from unperturbed.analysis.perturbation.compare import Comparison, compare_runs
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.perturbation.decide import classify_change
from unperturbed.analysis.totals.compare import compare_totals, holm_beyond
from unperturbed.common.wording import listing

FloatArray = NDArray[np.float64]

FEW, MOST = 10, 60
"""Runs of fixed plans; the latter also the maximum until decided."""
FAMILY = 9
TOTAL_TOLERANCE = 0.01
LEVEL = 0.6
"""ρ of all pairs where nothing changed."""
DECIDED = ("unperturbed", "perturbed")


def planned_looks() -> str:
    """Return the numbers of runs at the looks of these campaigns, for a sentence."""
    return listing(map(str, plan_looks(MOST)))


def looks_header() -> Iterator[str]:
    """The header of the table of campaigns until they are decided."""
    heads = ["compared", "spread", "changed by", "any shown", "all accepted", "any called perturbed"]
    yield from header([*heads, "decided", "runs, mean", f"decided by {FEW} runs", f"decided by {MOST} runs"])


def looks_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Families of nine totals, inner and outer correlations: unchanged, changed by the tolerance, by thrice that."""
    for kind, (name, tolerance) in enumerate((("totals", TOTAL_TOLERANCE), ("inner", TOLERANCE), ("outer", TOLERANCE))):
        for spread in (0.25, 1.0, 2.0):
            for times in (0.0, 1.0, 3.0):
                rng = np.random.default_rng([seed, 13, kind, round(100 * spread), round(times)])
                outcomes = [_campaign(name, rng, tolerance, spread, times) for _ in range(campaigns)]
                yield f"| {name} | {spread:g} × tolerance | {times:g} × tolerance | {_cells(outcomes)} |"


def _cells(outcomes: Sequence[tuple[Sequence[str], int, Sequence[str], Sequence[str]]]) -> str:
    verdicts, runs = [outcome[0] for outcome in outcomes], [outcome[1] for outcome in outcomes]

    def part(names: Sequence[Sequence[str]], *wanted: str, every: bool = False) -> str:
        return share([float((all if every else any)(name in wanted for name in each)) for each in names])

    cells = [
        part(verdicts, "perturbed", "shifted"),
        part(verdicts, "unperturbed", every=True),
        part(verdicts, "perturbed"),
        share([float(_is_decided(each)) for each in verdicts]),
        f"{np.mean(runs):.1f}",
        share([float(_is_decided(outcome[2])) for outcome in outcomes]),
        share([float(_is_decided(outcome[3])) for outcome in outcomes]),
    ]
    return " | ".join(cells)


def _is_decided(names: Sequence[str]) -> bool:
    """Return whether a family's verdict cannot become another: perturbed, or every change accepted."""
    return "perturbed" in names or all(name == "unperturbed" for name in names)


def _campaign(
    name: str, rng: np.random.Generator, tolerance: float, spread: float, times: float
) -> tuple[Sequence[str], int, Sequence[str], Sequence[str]]:
    """Return the verdicts at the last look, the runs then, and the verdicts of fixed plans of `FEW` and `MOST` runs."""
    shape = (2, MOST, 1 + MOST, FAMILY) if name == "outer" else (2, MOST, FAMILY)  # outer: the run, then its pairs
    noise = spread * tolerance * rng.standard_normal(shape)
    judge = {"totals": _judge_totals, "inner": _judge_inner, "outer": _judge_outer}[name]
    looks = plan_looks(MOST)
    for runs, level in zip(looks, look_levels(ALPHA, looks), strict=True):
        verdicts = judge(noise[:, :runs], tolerance, times, level)
        if _is_decided(verdicts):
            break
    first, last = (judge(noise[:, :count], tolerance, times, ALPHA) for count in (FEW, MOST))
    return verdicts, runs, first, last


def _judge_totals(noise: FloatArray, tolerance: float, times: float, alpha: float) -> Sequence[str]:
    before, after = np.exp(noise[0]), np.exp(noise[1] + times * np.log1p(tolerance))
    compared = compare_totals(before, after, alpha=alpha)
    bound = float(np.log1p(tolerance))
    beyond = holm_beyond(compared.p_beyond(np.full(FAMILY, bound)), np.full(FAMILY, compared.designs))
    numbers = zip(holm(compared.p), beyond, compared.low, compared.high, strict=True)
    return [classify_change(*four, alpha=alpha, tolerance=bound) for four in numbers]


def _judge_inner(noise: FloatArray, tolerance: float, times: float, alpha: float) -> Sequence[str]:
    noise = _on_fishers_scale(noise)
    before, after = from_fisher(fisher(LEVEL) + noise[0]), from_fisher(fisher(LEVEL - times * tolerance) + noise[1])
    return _named(compare_runs(before, after, intervals=None, alpha=alpha), tolerance, alpha)


def _judge_outer(noise: FloatArray, tolerance: float, times: float, alpha: float) -> Sequence[str]:
    """Draw z_ij = a + b_i + b_j + e_ij, as `rounds.py` does; the e_ij vary as the b_i do."""
    runs = noise.shape[1]
    noise = _on_fishers_scale(noise)
    of_runs, pairs = noise[:, :, 0], noise[:, :, 1 : 1 + runs]
    matrix = fisher(LEVEL) + of_runs[0][:, None] + of_runs[0][None] + (pairs[0] + pairs[0].swapaxes(0, 1)) / np.sqrt(2)
    matrix[np.arange(runs), np.arange(runs)] = 0
    each = fisher(LEVEL - times * tolerance) + of_runs[0][:, None] + of_runs[1][None] + pairs[1]
    reference, observed = reference_outer_rho(matrix), from_fisher(each.mean(axis=0))
    compared = compare_outer_runs(reference, observed, pair_variance(matrix), intervals=None, alpha=alpha)
    return _named(compared, tolerance, alpha)


def _on_fishers_scale(noise: FloatArray) -> FloatArray:
    """Return noise of ρ around `LEVEL` as noise of Fisher's z."""
    return noise / (1 - LEVEL**2)


def _named(compared: Comparison, tolerance: float, alpha: float) -> Sequence[str]:
    beyond = holm_of_intervals(compared.p_beyond(np.full(len(compared.p), tolerance)))
    numbers = zip(holm(compared.p), beyond, compared.low, compared.high, strict=True)
    return [classify_change(*four, alpha=alpha, tolerance=tolerance) for four in numbers]
