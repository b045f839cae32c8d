"""Error rates of the inner check where checked runs differ in spread, length or level: a part of the calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from scipy.signal import lfilter

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, classified, header, share
from tests.analysis.simulate import gaussian
from unperturbed.analysis.perturbation import SHOWN
from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.correlation import (
    FloatArray,
    correlate_ranks,
    fisher,
    from_fisher,
    standard_ranks,
)

Runs = Callable[[np.random.Generator], FloatArray]
"""Draws the signals of one run, shape (intervals, metrics)."""

RUNS, CHECKED, PHI, INTERVALS = 10, 3, 0.7, 165
RHO, FALLEN = 0.5, 0.4


def _common(rng: np.random.Generator, intervals: int, metrics: int) -> tuple[FloatArray, FloatArray]:
    """Draw one signal that metrics share, and one for each, of variance 1."""
    noise = rng.standard_normal((intervals, metrics + 1))
    noise[1:] *= np.sqrt(1 - PHI**2)
    signals = lfilter([1.0], [1.0, -PHI], noise, axis=0)
    return signals[:, :1], signals[:, 1:]


def _together(rho: float, intervals: int = INTERVALS, metrics: int = METRICS, spread: float = 0.0) -> Runs:
    """Each two metrics have the coefficient ρ, which varies between runs on Fisher's scale."""

    def run(rng: np.random.Generator) -> FloatArray:
        common, own = _common(rng, intervals, metrics)
        shared = gaussian(np.clip(np.tanh(np.arctanh(rho) + spread * rng.standard_normal()), 0.01, 0.98))
        return np.asarray(np.sqrt(shared) * common + np.sqrt(1 - shared) * own, np.float64)

    return run


def _nearly_one(noise: float) -> Runs:
    """Metrics are one signal and noise, whose logarithm varies by .3 between runs."""

    def run(rng: np.random.Generator) -> FloatArray:
        common, _ = _common(rng, INTERVALS, METRICS)
        varied = noise * np.exp(0.3 * rng.standard_normal((1, METRICS)))
        return np.asarray(common + varied * rng.standard_normal((INTERVALS, METRICS)), np.float64)

    return run


def _disturbed(metrics: int, rho: float) -> Runs:
    """Each metric is disturbed in one run of ten."""
    undisturbed = _together(rho, 1000, metrics)

    def run(rng: np.random.Generator) -> FloatArray:
        noise = 1.5 * rng.standard_normal((1000, metrics))
        return undisturbed(rng) + (rng.random(metrics) < 0.1) * noise

    return run


KINDS: dict[str, tuple[Runs, Runs | None, Runs]] = {
    "alike": (_together(RHO), _together(RHO), _together(FALLEN)),
    "ρ falls from .9999": (_nearly_one(0.003), None, _nearly_one(0.3)),
    "ρ falls from .999": (_nearly_one(0.02), None, _nearly_one(0.3)),
    "ρ falls from .99": (_nearly_one(0.08), None, _nearly_one(0.32)),
    "checked runs vary twice as much": (_together(RHO), _together(RHO, spread=0.3), _together(FALLEN, spread=0.3)),
    "checked runs have half the intervals": (_together(RHO, 200), _together(RHO, 100), _together(FALLEN, 100)),
    "checked runs have a tenth of them": (_together(RHO, 600), _together(RHO, 60), _together(FALLEN, 60)),
    "5 metrics, each disturbed in a tenth of all runs": (_disturbed(5, RHO), _disturbed(5, RHO), _disturbed(5, FALLEN)),
    "20 such metrics": (_disturbed(20, RHO), _disturbed(20, RHO), _disturbed(20, FALLEN)),
}
"""Baseline runs, checked runs whose coefficients are the same, and those whose coefficients fell by about .1."""


def unlike_header() -> Iterator[str]:
    """The header of the table."""
    heads = ["runs", "ρ", "spread of z, baseline", "checked", "false alarms", "of these perturbed"]
    yield from header([*heads, "accepted", "called perturbed", "at a tolerance of Δρ"])


def unlike_row(campaigns: int, seed: int, kind: str) -> Iterator[str]:
    """One kind of runs: all pairs unchanged, and all changed by the tolerance."""
    rng = np.random.default_rng([seed, 5, list(KINDS).index(kind)])
    baseline, unchanged, changed = KINDS[kind]
    intervals = len(baseline(rng))

    def verdicts(run: Runs, tolerances: FloatArray | None) -> Iterator[tuple[list[str], FloatArray, FloatArray]]:
        for before, after in drawn[run]:
            compared = compare_runs(before, after, intervals=intervals, alpha=ALPHA)
            limits = np.full(before.shape[1], TOLERANCE) if tolerances is None else tolerances
            yield classified(compared, compared.p_beyond(limits), limits), compared.low, compared.high

    drawn = {
        run: [(_coefficients(rng, baseline, RUNS), _coefficients(rng, run, CHECKED)) for _ in range(campaigns)]
        for run in (unchanged, changed)
        if run
    }
    z = [fisher([campaign[side] for campaign in drawn[changed]]) for side in (0, 1)]
    before, after = (from_fisher(each.mean(axis=(0, 1))) for each in z)
    fall = np.abs(after - before)
    spreads = [np.sqrt(each.var(axis=1, ddof=1).mean()) for each in z]
    alarms = perturbed = "–"
    if unchanged:
        unchanged_names = [names for names, *_ in verdicts(unchanged, None)]
        alarms = share([any(name in SHOWN for name in names) for names in unchanged_names])
        perturbed = share(["perturbed" in names for names in unchanged_names])
    edge = list(verdicts(changed, fall))
    accepted = share([float(np.mean((-fall < low) & (high < fall))) for _, low, high in edge])
    yield (
        f"| {kind} | {before.mean():.4f} | {spreads[0]:.3f} | {spreads[1]:.3f} | {alarms} | {perturbed} | {accepted} | "
        f"{share(['perturbed' in names for names, *_ in edge])} | {fall.mean():.3f} |"
    )


def _coefficients(rng: np.random.Generator, run: Runs, count: int) -> FloatArray:
    """ρ of every pair in so many runs, shape (runs, pairs)."""
    ranks = [standard_ranks(run(rng)) for _ in range(count)]
    first, second = zip(*combinations(range(ranks[0].shape[1]), 2), strict=True)
    return np.array([correlate_ranks(each, each)[list(first), list(second)] for each in ranks])
