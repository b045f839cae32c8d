"""Runs of a simulated program: traces whose true correlations are known.

A program is `intervals` intervals of work. Each metric's rate follows an autocorrelated Gaussian signal over the work;
part of the signal belongs to the program and is the same in every run (`shared`), the rest is the run's own. Runs
differ as real ones do: the correlation matrix varies a little from run to run (`run_effect`), and the interval
boundaries wander (`jitter`), so that each run cuts the work differently and has another number of intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from unperturbed.analysis.perturbation.correlation import standard_ranks
from unperturbed.collectors.data import Metric, Trace

FloatArray: TypeAlias = NDArray[np.float64]

QUANTA = 2
"""Pieces of work an interval, on average: the grid on which the signals live."""

INTERVAL_NS = 10_000_000
MILESTONE = "MILESTONE"


@dataclass(frozen=True)
class Program:
    """What all runs have in common; see the module."""

    profile: FloatArray  # (quanta, metrics)
    correlation: FloatArray  # (metrics, metrics), of the Gaussian signals
    phi: float  # autocorrelation from interval to interval
    shared: float
    run_effect: float
    jitter: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"H{at}" for at in range(len(self.correlation)))


def equicorrelated(metrics: int, rho: float) -> FloatArray:
    """Return the matrix of Gaussian signals that all have the Spearman coefficient ρ with one another."""
    return np.where(np.eye(metrics, dtype=bool), 1.0, gaussian(rho))


def gaussian(rho: float) -> float:
    """Return Pearson's coefficient of Gaussian variables whose Spearman coefficient is ρ."""
    return float(2 * np.sin(np.pi * rho / 6))


def program(
    rng: np.random.Generator,
    *,
    correlation: FloatArray,
    intervals: int = 165,
    phi: float = 0.7,
    shared: float = 0.0,
    run_effect: float = 0.05,
    jitter: float = 0.1,
) -> Program:
    profile = _signals(rng, intervals * QUANTA, correlation, phi)
    return Program(profile, correlation, phi, shared, run_effect, jitter)


def run(
    of: Program,
    rng: np.random.Generator,
    *,
    correlation: FloatArray | None = None,
    shared: float | None = None,
    run_effect: float | None = None,
    work: float = 1.0,
    name: str = "run",
    configuration: str = "baseline",
) -> Trace:
    """Run the program once.

    Parameters
    ----------
    correlation, shared, run_effect : as the program's, unless perturbed.
    work : quanta that each quantum of the program's work takes; 1.03 is 3 % more instructions.
    """
    correlation = of.correlation if correlation is None else correlation
    shared = of.shared if shared is None else shared
    varied = _vary(rng, correlation, of.run_effect if run_effect is None else run_effect)
    own = _signals(rng, len(of.profile), varied, of.phi)
    signal = np.sqrt(shared) * of.profile + np.sqrt(1 - shared) * own
    cuts = _cut(rng, len(of.profile), of.jitter, work)
    grid = np.arange(len(of.profile) + 1)
    done = np.zeros((len(grid), signal.shape[1]))
    np.cumsum(1e5 * np.exp(0.3 * signal), axis=0, out=done[1:])
    counts = np.column_stack([np.diff(np.interp(cuts, grid, column)) for column in done.T])
    instructions = np.diff(cuts) * 1e6 * work
    milestones = np.floor(cuts / (QUANTA * 5))  # one in five intervals of work
    metrics = [
        *(Metric(metric, "hardware", source="simulation") for metric in of.names),
        Metric("PAPI_TOT_INS", "hardware", source="simulation"),
        Metric(MILESTONE, "software", source="simulation"),
    ]
    columns = {metric: counts[:, at].astype(np.int64) for at, metric in enumerate(of.names)}
    columns["PAPI_TOT_INS"] = instructions.astype(np.int64)
    columns[MILESTONE] = np.diff(milestones).astype(np.int64)
    ends = INTERVAL_NS * np.arange(1, len(counts) + 1)
    attributes = {"run": name, "configuration": configuration, "interval_ns": INTERVAL_NS, "host": "simulated"}
    return Trace.from_columns(metrics, columns, begin_ns=ends - INTERVAL_NS, end_ns=ends, attributes=attributes)


def runs(
    of: Program, rng: np.random.Generator, count: int, *, configuration: str = "baseline", **perturbed: object
) -> list[Trace]:
    return [
        run(of, rng, name=f"{configuration}-{number}", configuration=configuration, **perturbed)  # type: ignore[arg-type]
        for number in range(count)
    ]


def noisy_ranks(
    rng: np.random.Generator,
    campaigns: int,
    program: FloatArray,
    noise: float,
    spread: float,
    runs: int,
    zeros: float = 0.0,
) -> FloatArray:
    """Return ranks of runs that are a program and noise of their own, shape (campaigns, runs, intervals).

    The noise's standard deviation is log-normal between runs: `noise` times exp(`spread` · N). The scalar product of
    two runs is their Spearman coefficient. Nothing is aligned, so that coefficients up to 1 can be had. In the share
    `zeros` of its intervals, those with the lowest values, a run counts nothing.
    """
    deviations = noise * np.exp(spread * rng.standard_normal((campaigns, runs, 1)))
    rows = program + deviations * rng.standard_normal((campaigns, runs, len(program)))
    if zeros:
        rows = np.maximum(rows, np.quantile(rows, zeros, axis=-1, keepdims=True))
    return standard_ranks(rows.reshape(-1, len(program)).T).T.reshape(rows.shape)


def noise_for(within: float, across: float | None = None) -> float:
    """Return the noise of runs that correlate by `within`, or of others that correlate with them by `across`.

    In relation to a program of variance 1.
    """
    own = 1 / within - 1
    return float(np.sqrt(own if across is None else 1 / across**2 / (1 + own) - 1))


def with_pair(correlation: FloatArray, pair: Sequence[int], rho: float) -> FloatArray:
    """Return the matrix with one pair's Spearman coefficient changed."""
    changed = correlation.copy()
    i, j = pair
    changed[i, j] = changed[j, i] = gaussian(rho)
    np.linalg.cholesky(changed)  # refuses what is not a correlation matrix
    return changed


def _signals(rng: np.random.Generator, length: int, correlation: FloatArray, phi: float) -> FloatArray:
    """Autocorrelated standard normal signals, shape (length, metrics), stationary from the first value on."""
    step = phi ** (1 / QUANTA)
    noise = rng.standard_normal((length, len(correlation))) @ np.linalg.cholesky(correlation).T
    noise[1:] *= np.sqrt(1 - step**2)
    return np.asarray(lfilter([1.0], [1.0, -step], noise, axis=0), np.float64)


def _vary(rng: np.random.Generator, correlation: FloatArray, run_effect: float) -> FloatArray:
    """Draw a run's correlation matrix: each metric's own noise is mixed in to a degree that varies between runs."""
    kept = np.clip(1 - np.abs(rng.normal(0, run_effect, len(correlation))), 0.05, 1)
    varied = correlation * np.sqrt(np.outer(kept, kept))
    np.fill_diagonal(varied, 1)
    return varied


def _cut(rng: np.random.Generator, length: int, jitter: float, work: float) -> FloatArray:
    """Cut the work into intervals of about one unit, each a little longer or shorter; the last takes what is left."""
    most = int(length / QUANTA * work * 1.5) + 10
    lengths = QUANTA / work * np.clip(1 + rng.normal(0, jitter, most), 0.2, None)
    ends = np.cumsum(lengths)
    return np.concatenate(([0.0], ends[ends < length - 0.5 * QUANTA], [float(length)]))
