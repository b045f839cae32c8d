"""Error rates and power of the outer check, by how well the runs of the baseline agree: a part of `calibration.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from calibration_common import ALPHA, METRICS, TOLERANCE, classified, header, share

from tests.analysis import simulate
from unperturbed.analysis.perturbation import SHOWN
from unperturbed.analysis.perturbation.compare import Comparison
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher

OUTER = {"k": 10, "intervals": 300}
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
    for row in outer_cell(campaigns, seed, rho, WIDER_SPREAD, checked, k):
        yield f"| {k} | {checked} {row}"


def outer_cell(
    campaigns: int, seed: int, rho: float, spread: float, checked: float | None = None, k: int = OUTER["k"]
) -> Iterator[str]:
    """One row: five metrics of runs that are a program and noise, of which one falls, all by the tolerance, or none.

    How wide the noise varies from run to run is the row's: values of the baseline within a narrow range or a wide one.
    Of checked runs it is the same, or `checked`.
    """
    wide = spread if checked is None else checked
    rng = np.random.default_rng([seed, 4, round(1e4 * rho), round(100 * spread), round(100 * wide), k])
    most = max(OUTER_CHECKED)
    program = rng.standard_normal((METRICS, OUTER["intervals"]))
    own = simulate.noise_for(rho)
    noises = {name: noise_of_fall(rng, program[0], own, (spread, wide), fall, k) for name, fall in FALLS.items()}
    z: dict[str, list[FloatArray]] = defaultdict(list)
    for metric in program:
        runs = simulate.noisy_ranks(rng, campaigns, metric, own, spread, k)
        matrix = outer_z(runs, runs)
        matrix[range(k), range(k)] = 0
        z["reference"].append(matrix)
        for name, noise in noises.items():
            z[name].append(outer_z(runs, simulate.noisy_ranks(rng, campaigns, metric, noise, wide, most)))
    stacked = {name: np.stack(each, axis=-1) for name, each in z.items()}
    before = from_fisher(stacked["none"].mean(axis=(0, 1, 2)))
    falls = {name: before - from_fisher(stacked[name].mean(axis=(0, 1, 2))) for name in FALLS}
    reference = [reference_outer_rho(stacked["reference"][:, :, at]) for at in range(campaigns)]
    shared = [pair_variance(stacked["reference"][:, :, at]) for at in range(campaigns)]

    def verdicts(at: int, z: FloatArray, r: int, tolerances: FloatArray) -> tuple[Comparison, list[str]]:
        observed = from_fisher(z[:, :r, at].mean(axis=0))
        compared = compare_outer_runs(reference[at], observed, shared[at], intervals=OUTER["intervals"], alpha=ALPHA)
        return compared, classified(compared, compared.p_beyond(tolerances), tolerances)

    one_falls = np.concatenate((stacked["goal"][..., :1], stacked["none"][..., 1:]), axis=-1)
    usual = np.full(METRICS, TOLERANCE)
    found = {
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
        f"| {before.mean():.3f} | {spread} | {within[0]:.4f} to {within[1]:.4f} | {falls['goal'][0]:.2f} | "
        f"**{found[3]}** | {found[5]} | {oracle.mean():.2f} | {share(alarms)} | {share(accepted)} | "
        f"{share(['perturbed' in names for _, names in edge])} | {falls['tolerance'].mean():.3f} |"
    )


def noise_of_fall(
    rng: np.random.Generator, program: FloatArray, own: float, spreads: tuple[float, float], fall: float, k: int
) -> float:
    """The noise of checked runs whose mean correlation with the baseline's is lower by `fall`, by bisection."""
    spread, wide = spreads
    if not fall and wide == spread:
        return own
    runs = simulate.noisy_ranks(rng, 60, program, own, spread, k)
    state = rng.bit_generator.state

    def mean(noise: float, of: float) -> float:
        rng.bit_generator.state = state  # the same draws for every noise
        return float(from_fisher(outer_z(runs, simulate.noisy_ranks(rng, 60, program, noise, of, 5)).mean()))

    low, high, wanted = own / 50, 60.0, mean(own, spread) - fall
    for _ in range(20):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if mean(middle, wide) > wanted else (low, middle)
    return float(low)


def outer_z(runs: FloatArray, others: FloatArray) -> FloatArray:
    """Fisher's z of runs and others by their ranks, shape (runs, others, campaigns)."""
    return fisher(np.einsum("cin,cjn->ijc", runs, others))
