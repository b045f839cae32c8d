"""Slow, obvious twins of the choice of metrics: each fit from the rows of all runs, each subset tried."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from unperturbed.analysis.choice.moments import FloatArray


def predicted(
    train: Sequence[FloatArray], held_back: FloatArray, chosen: Sequence[int], metric: int
) -> tuple[FloatArray, FloatArray]:
    """Return a metric of the run held back, and its prediction by least squares; runs weigh the same, not intervals."""
    rows = np.concatenate([run[:, list(chosen)] for run in train])
    weight = np.sqrt(np.concatenate([np.full(len(run), 1 / len(run)) for run in train]))[:, None]
    design = np.column_stack([np.ones(len(rows)), rows])
    values = np.concatenate([run[:, metric] for run in train])[:, None]
    fit, *_ = np.linalg.lstsq(design * weight, values * weight, rcond=None)
    of_run = np.column_stack([np.ones(len(held_back)), held_back[:, list(chosen)]])
    return held_back[:, metric], (of_run @ fit)[:, 0]


def unexplained(runs: Sequence[FloatArray], at: int, chosen: Sequence[int], metric: int) -> float:
    """Return the share of a metric's variation in a run that a fit of the other runs leaves."""
    train = [run for place, run in enumerate(runs) if place != at]
    values, prediction = predicted(train, runs[at], chosen, metric)
    return float(((values - prediction) ** 2).mean() / values.var())


def r2(rows: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Return the share of each metric's variance that the chosen ones explain."""
    design = np.column_stack([np.ones(len(rows)), rows[:, list(chosen)]])
    fit, *_ = np.linalg.lstsq(design, rows, rcond=None)
    return np.asarray(1 - ((rows - design @ fit) ** 2).mean(axis=0) / rows.var(axis=0), np.float64)


def explained(rows: FloatArray, chosen: Sequence[int]) -> float:
    """Return the mean over all metrics of the share of variance that the chosen ones explain."""
    return float(r2(rows, chosen).mean())


def best(rows: FloatArray, size: int) -> float:
    """Return the most that any subset of this size explains."""
    return max(explained(rows, subset) for subset in combinations(range(rows.shape[1]), size))


def most_added(rows: FloatArray, chosen: Sequence[int]) -> float:
    """Return the most that is explained after one metric more is chosen."""
    left = [metric for metric in range(rows.shape[1]) if metric not in chosen]
    return max(explained(rows, [*chosen, metric]) for metric in left)


def best_removal(rows: FloatArray, kept: Sequence[int]) -> float:
    """Return the highest lowest R² of all metrics that remains when one of the kept metrics is removed."""
    return max(float(r2(rows, [other for other in kept if other != one]).min()) for one in kept)
