"""Runs with given totals, and comparisons of simulated ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unperturbed.analysis.totals import TotalChange, check_totals
from unperturbed.collectors.data import Metric, Trace


def runs_of_totals(name: str, totals: Sequence[float], *, rounds: bool = False) -> list[Trace]:
    """Return runs of one interval with these totals; `rounds`: run i belongs to round i."""
    runs = []
    for at, total in enumerate(totals):
        own = {"block": at, "environment_pad_bytes": at} if rounds else {}
        edges = np.arange(2, dtype=np.int64)
        runs.append(
            Trace(
                {"cycles": Metric("cycles", "hardware")},
                edges[:-1],
                edges[1:],
                np.zeros(1, np.int64),
                {"cycles": np.array([round(total)], np.int64)},
                {"run": f"{name}-{at}", **own},
            )
        )
    return runs


def compared(
    rng: np.random.Generator, runs: int, spread: float, change: float = 0.0, *, shared: float = 0.0
) -> TotalChange:
    """Compare runs whose logarithms have a standard deviation; `shared` is that of what both runs of a round share."""
    of_round = shared * rng.standard_normal(runs)
    logs = [of_round + spread * rng.standard_normal(runs) + level for level in (0.0, math.log1p(change))]
    sides = [runs_of_totals(name, 1e9 * np.exp(log), rounds=shared > 0) for name, log in zip("ab", logs, strict=True)]
    (found,) = check_totals(*sides, ["cycles"])
    return found
