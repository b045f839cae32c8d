"""Verdicts over looks: error rates of campaigns that run until they are decided, and how many runs they make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.calibration.common import ALPHA, TOLERANCE, header, share
from unperturbed.analysis.looks import look_levels, plan_looks
from unperturbed.analysis.multiple_testing import holm, holm_of_intervals
from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher
from unperturbed.analysis.perturbation.decide import classify_change
from unperturbed.analysis.totals.compare import compare_totals, holm_beyond

FloatArray = NDArray[np.float64]

MOST = 60
FAMILY = 9
TOTAL_TOLERANCE = 0.01
LEVEL = 0.6
"""ρ of all pairs where nothing changed."""
DECIDED = ("unperturbed", "perturbed")


def looks_header() -> Iterator[str]:
    """The header of the table of campaigns until they are decided."""
    heads = ["compared", "spread", "changed by", "any shown", "all accepted", "any called perturbed"]
    yield from header([*heads, "decided", "runs, mean", "decided by 10 runs", f"decided by {MOST} runs"])


def looks_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Families of nine totals, then of nine correlations: unchanged, changed by the tolerance, by thrice that."""
    for kind, (name, tolerance) in enumerate((("totals", TOTAL_TOLERANCE), ("correlations", TOLERANCE))):
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
    """Return the verdicts at the last look, the runs then, and the verdicts of fixed plans of 10 and `MOST` runs."""
    noise = spread * tolerance * rng.standard_normal((2, MOST, FAMILY))
    judge = _judge_totals if name == "totals" else _judge_correlations
    looks = plan_looks(MOST)
    for runs, level in zip(looks, look_levels(ALPHA, looks), strict=True):
        verdicts = judge(noise[:, :runs], tolerance, times, level)
        if _is_decided(verdicts):
            break
    first, last = (judge(noise[:, :count], tolerance, times, ALPHA) for count in (looks[0], MOST))
    return verdicts, runs, first, last


def _judge_totals(noise: FloatArray, tolerance: float, times: float, alpha: float) -> Sequence[str]:
    before, after = np.exp(noise[0]), np.exp(noise[1] + times * np.log1p(tolerance))
    compared = compare_totals(before, after, alpha=alpha)
    bound = float(np.log1p(tolerance))
    beyond = holm_beyond(compared.p_beyond(np.full(FAMILY, bound)), np.full(FAMILY, compared.designs))
    numbers = zip(holm(compared.p), beyond, compared.low, compared.high, strict=True)
    return [classify_change(*four, alpha=alpha, tolerance=bound) for four in numbers]


def _judge_correlations(noise: FloatArray, tolerance: float, times: float, alpha: float) -> Sequence[str]:
    centre = fisher(np.array([LEVEL]))
    slope = (fisher(np.array([LEVEL + 1e-4])) - centre) / 1e-4
    before = from_fisher(centre + slope * noise[0])
    after = from_fisher(fisher(np.array([LEVEL - times * tolerance])) + slope * noise[1])
    compared = compare_runs(before, after, intervals=None, alpha=alpha)
    beyond = holm_of_intervals(compared.p_beyond(tolerance))
    numbers = zip(holm(compared.p), beyond, compared.low, compared.high, strict=True)
    return [classify_change(*four, alpha=alpha, tolerance=tolerance) for four in numbers]
