"""The simulated program as real traces: autocorrelated counts, interval by interval, in the correlations that a
subset gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from tests.analysis import simulate
from tests.analysis.partition.simulated import FloatArray, Program, program
from unperturbed.analysis.partition import Reference
from unperturbed.analysis.perturbation import Baseline
from unperturbed.collectors.data import Trace

SHARED = 0.3
"""Part of every signal that is the same in all runs, so that runs can be laid side by side."""


@dataclass
class TracedProgram:
    """Runs of a simulated program; calling it is `measure(subset, repetitions)`."""

    of: Program
    traced: simulate.Program
    rng: np.random.Generator
    counts: dict[tuple[str, ...], int] = field(default_factory=dict)
    calls: list[tuple[tuple[str, ...], int]] = field(default_factory=list)

    def __call__(self, subset: tuple[str, ...], repetitions: int) -> list[Trace]:
        self.calls.append((subset, repetitions))
        first = self.counts.get(subset, 0)
        self.counts[subset] = first + repetitions
        own = own_correlation(self.of, self.traced, subset)
        name = "+".join(subset) or "baseline"
        return [
            simulate.run(
                self.traced,
                self.rng,
                correlation=own,
                work=1 + float(self.of.cost @ self.of.row(subset)[0]),
                name=f"{name}-{first + number}",
                configuration=name,
            )
            for number in range(repetitions)
        ]

    def baseline(self, runs: int = 10, **options: float) -> Reference:
        found = Baseline(self((), runs), metrics=self.traced.names, **options)  # type: ignore[arg-type]
        return Reference(found, align_on=self.traced.names[:1], anchor=simulate.MILESTONE)


def traced_program(seed: Sequence[int], *, intervals: int = 2000, phi: float = 0.7, **options: object) -> TracedProgram:
    """Draw programs until one has a correlation matrix for every subset of its metrics. `options` are those of
    `program`."""
    rng = np.random.default_rng(seed)
    while True:
        of = program(rng, **options)  # type: ignore[arg-type]
        correlation = _gaussian(of.rho)
        if np.linalg.eigvalsh(correlation)[0] < 0.05:
            continue
        traced = simulate.program(
            rng, correlation=correlation, intervals=intervals, phi=phi, shared=SHARED, run_effect=0.02
        )
        n = len(of.cost)
        every = [[name for at, name in enumerate(of.metrics) if mask >> at & 1] for mask in range(2**n)]
        if all(np.linalg.eigvalsh(own_correlation(of, traced, subset))[0] > 0.01 for subset in every):
            return TracedProgram(of, traced, rng)


def own_correlation(of: Program, traced: simulate.Program, subset: Sequence[str]) -> FloatArray:
    """Return the correlation of a run's own part that gives the whole the subset's Spearman coefficients."""
    wanted = _gaussian(of.rho + of.change(of.row(subset))[0])
    own = (wanted - SHARED * np.corrcoef(traced.profile.T)) / (1 - SHARED)
    np.fill_diagonal(own, 1)
    return np.asarray(own)


def _gaussian(rho: FloatArray) -> FloatArray:
    size = int((1 + np.sqrt(1 + 8 * len(rho))) / 2)
    matrix = np.eye(size)
    for value, (one, other) in zip(rho, combinations(range(size), 2), strict=True):
        matrix[one, other] = matrix[other, one] = simulate.gaussian(float(value))
    return matrix
