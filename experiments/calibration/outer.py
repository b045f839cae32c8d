"""Error rates and power of the outer check, by how well the runs of the baseline agree: a part of the calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, classified, header, share
from tests.analysis import simulate
from unperturbed.analysis.perturbation import SHOWN
from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher

OUTER = {"k": 10, "intervals": 300}
"""Baseline runs and intervals, unless a row says otherwise."""
OUTER_CHECKED = (3, 5)
OUTER_RHO, NOISE_SPREAD = (0.9, 0.97, 0.99, 0.999), (0.0, 0.15, 0.3, 0.6)
FALLS = {"none": 0.0, "tolerance": TOLERANCE, "goal": 0.3}
"""Of outer correlations: baseline values, standard deviations of the logarithm of the runs' noise, and falls."""

WIDER = [(rho, checked, k) for rho in (0.9, 0.97, 0.999) for checked in (0.3, 0.6, 0.9) for k in (10, 26)]
WIDER_SPREAD = 0.15
"""Checked runs whose noise varies more than the baseline's (by `WIDER_SPREAD`): baseline values, spreads, runs."""


def outer_header() -> Iterator[str]:
    """The header of the table of outer checks."""
    heads = ["ρ", "spread of the noise", "ρ of the baseline's runs", "fall", "found", "found at r = 5", "oracle"]
    yield from header([*heads, "false alarms", "accepted", "called perturbed", "at a tolerance of Δρ"])


def wider_header() -> Iterator[str]:
    """The header of the table of checked runs that vary more than the baseline's."""
    head, rule = outer_header()
    yield f"| baseline runs | spread of the checked runs' noise {head}"
    yield f"|---|---{rule}"


def wider_cell(campaigns: int, seed: int, rho: float, checked: float, k: int) -> Iterator[str]:
    """One row of that table."""
    for row in outer_cell(campaigns, seed, Runs(rho, WIDER_SPREAD, checked, k)):
        yield f"| {k} | {checked} {row}"


@dataclass(frozen=True)
class Runs:
    """Runs that are a program and noise."""

    rho: float  # Of two runs, by design
    spread: float  # Standard deviation of the noise's logarithm between runs
    checked: float | None = None  # The same of checked runs, where it differs
    k: int = OUTER["k"]  # Runs of the baseline
    intervals: int = OUTER["intervals"]
    zeros: float = 0.0  # Share of intervals in which a metric is 0

    @property
    def wide(self) -> float:
        """The spread of the checked runs' noise."""
        return self.spread if self.checked is None else self.checked

    def seeds(self) -> list[int]:
        """Whole numbers that make the draws of these runs their own."""
        usual = [round(1e4 * self.rho), round(100 * self.spread), round(100 * self.wide), self.k]
        other = self.intervals != OUTER["intervals"] or self.zeros
        return [*usual, self.intervals, round(100 * self.zeros)] if other else usual


def draw(rng: np.random.Generator, campaigns: int, of: Runs, r: int, metrics: int = METRICS) -> dict[str, FloatArray]:
    """Draw Fisher's z of baseline runs and others: "reference", and r checked runs by the name of their fall.

    Each has the shape (baseline runs, runs, campaigns, metrics).
    """
    program = rng.standard_normal((metrics, of.intervals))
    own = simulate.noise_for(of.rho)
    noises = {name: noise_of_fall(rng, program[0], own, of, fall) for name, fall in FALLS.items()}
    z: dict[str, list[FloatArray]] = defaultdict(list)
    for metric in program:
        runs = simulate.noisy_ranks(rng, campaigns, metric, own, of.spread, of.k, of.zeros)
        matrix = outer_z(runs, runs)
        matrix[range(of.k), range(of.k)] = 0
        z["reference"].append(matrix)
        for name, noise in noises.items():
            z[name].append(outer_z(runs, simulate.noisy_ranks(rng, campaigns, metric, noise, of.wide, r, of.zeros)))
    return {name: np.stack(each, axis=-1) for name, each in z.items()}


def outer_cell(campaigns: int, seed: int, of: Runs) -> Iterator[str]:
    """One row: five metrics of runs that are a program and noise, of which one falls, all by the tolerance, or none.

    How wide the noise varies from run to run is the row's: values of the baseline within a narrow range or a wide one.
    """
    stacked = draw(np.random.default_rng([seed, 4, *of.seeds()]), campaigns, of, max(OUTER_CHECKED))
    before = from_fisher(stacked["none"].mean(axis=(0, 1, 2)))
    falls = {name: before - from_fisher(stacked[name].mean(axis=(0, 1, 2))) for name in FALLS}
    reference = [reference_outer_rho(stacked["reference"][:, :, at]) for at in range(campaigns)]
    shared = [pair_variance(stacked["reference"][:, :, at]) for at in range(campaigns)]

    def verdicts(at: int, z: FloatArray, r: int, tolerances: FloatArray) -> tuple[Comparison, list[str]]:
        observed = from_fisher(z[:, :r, at].mean(axis=0))
        compared = compare_outer_runs(reference[at], observed, shared[at], intervals=of.intervals, alpha=ALPHA)
        return compared, classified(compared, compared.p_beyond(tolerances), tolerances)

    one_falls = np.concatenate((stacked["goal"][..., :1], stacked["none"][..., 1:]), axis=-1)
    usual = np.full(METRICS, TOLERANCE)
    power = {
        r: share([verdicts(at, one_falls, r, usual)[1][0] == "perturbed" for at in range(campaigns)])
        for r in OUTER_CHECKED
    }
    alarms = [
        any(verdict in SHOWN for verdict in verdicts(at, stacked["none"], 3, usual)[1]) for at in range(campaigns)
    ]
    edge = [verdicts(at, stacked["tolerance"], 3, falls["tolerance"]) for at in range(campaigns)]
    accepted = [
        np.mean((-falls["tolerance"] < compared.low) & (compared.high < falls["tolerance"])) for compared, _ in edge
    ]
    within = np.quantile(np.stack(reference), (0.05, 0.95))
    start = from_fisher(fisher(np.stack(reference)[..., 0]).mean(axis=1))
    changes = {
        name: from_fisher(stacked[name][:, :3, :, 0].mean(axis=(0, 1))) - start for name in ("tolerance", "goal")
    }
    oracle = changes["goal"] < np.quantile(changes["tolerance"], ALPHA)
    yield (
        f"| {before.mean():.3f} | {of.spread} | {within[0]:.4f} to {within[1]:.4f} | {falls['goal'][0]:.2f} | "
        f"**{power[3]}** | {power[5]} | {oracle.mean():.2f} | {share(alarms)} | {share(accepted)} | "
        f"{share(['perturbed' in names for _, names in edge])} | {falls['tolerance'].mean():.3f} |"
    )


def noise_of_fall(rng: np.random.Generator, program: FloatArray, own: float, of: Runs, fall: float) -> float:
    """The noise of checked runs whose mean correlation with the baseline's is lower by `fall`, by bisection."""
    if not fall and of.wide == of.spread:
        return own
    runs = simulate.noisy_ranks(rng, 60, program, own, of.spread, of.k, of.zeros)
    state = rng.bit_generator.state

    def mean(noise: float, spread: float) -> float:
        rng.bit_generator.state = state  # the same draws for every noise
        others = simulate.noisy_ranks(rng, 60, program, noise, spread, 5, of.zeros)
        return float(from_fisher(outer_z(runs, others).mean()))

    low, high, wanted = own / 50, 60.0, mean(own, of.spread) - fall
    for _ in range(20):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if mean(middle, of.wide) > wanted else (low, middle)
    return float(low)


def outer_z(runs: FloatArray, others: FloatArray) -> FloatArray:
    """Fisher's z of runs and others by their ranks, shape (runs, others, campaigns)."""
    return fisher(np.einsum("cin,cjn->ijc", runs, others))
