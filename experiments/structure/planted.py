"""How many classes are found where it is known how many there are: values with planted classes, and values without structure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from milestones import adjusted_rand_index
from numpy.typing import NDArray

from unperturbed.analysis.structure import structural_sequence

__all__ = ["planted_table", "structureless_table", "time_table"]

FloatArray = NDArray[np.float64]
Rng = np.random.Generator

ELEMENTS = 400


def _remembering(rng: Rng, memory: float, metrics: int) -> FloatArray:
    values = rng.normal(size=(ELEMENTS, metrics))
    for row in range(1, ELEMENTS):
        values[row] += memory * values[row - 1]
    return values


STRUCTURELESS: dict[str, Callable[[Rng], FloatArray]] = {
    "normal, 1 metric": lambda rng: rng.normal(size=(ELEMENTS, 1)),
    "normal, 4 metrics": lambda rng: rng.normal(size=(ELEMENTS, 4)),
    "4 metrics that nearly say the same": lambda rng: rng.normal(size=(ELEMENTS, 1)) + 0.1 * rng.normal(size=(ELEMENTS, 4)),
    "uniform, 3 metrics": lambda rng: rng.random((ELEMENTS, 3)),
    "exponential, 2 metrics": lambda rng: rng.exponential(size=(ELEMENTS, 2)),
    "log-normal, σ = 1, 3 metrics": lambda rng: np.exp(rng.normal(size=(ELEMENTS, 3))),
    "log-normal, σ = 3, 3 metrics": lambda rng: np.exp(3 * rng.normal(size=(ELEMENTS, 3))),
    "Student's t, 2 degrees of freedom, 2 metrics": lambda rng: rng.standard_t(2, size=(ELEMENTS, 2)),
    "changes of less than a percent": lambda rng: 1e6 + 500 * rng.integers(0, 2, size=(ELEMENTS, 1)).astype(np.float64),
    "autoregressive, φ = 0.5, 2 metrics": lambda rng: _remembering(rng, 0.5, 2),
    "autoregressive, φ = 0.9, 2 metrics": lambda rng: _remembering(rng, 0.9, 2),
    "autoregressive, φ = 0.99, 1 metric": lambda rng: _remembering(rng, 0.99, 1),
    "random walk, 1 metric": lambda rng: _remembering(rng, 1.0, 1),
}

PLANTED: tuple[tuple[int, int, float, float, str], ...] = (
    (2, 1, 4, 10, "normal"),
    (2, 1, 6, 10, "normal"),
    (3, 2, 6, 5, "normal"),
    (4, 3, 6, 1, "normal"),
    (6, 4, 6, 5, "normal"),
    (8, 5, 8, 5, "normal"),
    (4, 3, 8, 5, "heavy"),
    (3, 3, 6, 5, "spikes"),
)
"""Classes; metrics; distance of the nearest two classes, in standard deviations; length of a phase, mean; noise."""


def structureless_table(seeds: int) -> list[str]:
    """Return how many classes are found in values without structure."""
    lines = ["| values | one class | more |", "|---|---:|---|"]
    for name, make in STRUCTURELESS.items():
        counts = Counter(_count(make(np.random.default_rng(seed)), seed) for seed in range(seeds))
        more = ", ".join(f"{classes} classes: {times}" for classes, times in sorted(counts.items()) if classes > 1)
        lines.append(f"| {name} | {counts[1]} of {seeds} | {more or '–'} |")
    return lines


def planted_table(seeds: int) -> list[str]:
    """Return how often planted classes are found, and how well each element is."""
    lines = [
        "| classes | metrics | apart | phase | noise | as many found | adjusted Rand index: median | least |",
        "|---:|---:|---:|---:|---|---:|---:|---:|",
    ]
    for classes, metrics, apart, dwell, noise in PLANTED:
        right, agreement = 0, []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            truth = _phases(rng, classes, dwell)
            values = _centres(rng, classes, metrics, apart)[truth] + _noise(rng, noise, (ELEMENTS, metrics))
            found = structural_sequence(values * 10.0 ** (3 * np.arange(metrics)), seed=seed)
            right += len(found.classes) == classes
            agreement.append(adjusted_rand_index(found.labels.astype(np.int64), truth))
        lines.append(
            f"| {classes} | {metrics} | {apart:g} σ | {dwell:g} | {noise} | {right} of {seeds} | {np.median(agreement):.3f} | {min(agreement):.3f} |"
        )
    return lines


def time_table(sizes: tuple[int, ...] = (1_000, 10_000, 100_000)) -> list[str]:
    """Return how long runs of 5 phases and 6 metrics take."""
    lines = ["| intervals | processor s |", "|---:|---:|"]
    for size in sizes:
        rng = np.random.default_rng(1)
        values = 6 * _centres(rng, 5, 6, 1.0)[np.repeat(rng.integers(0, 5, size // 5), 5)] + rng.normal(size=(size, 6))
        begun = time.process_time()
        structural_sequence(values)
        lines.append(f"| {size:,} | {time.process_time() - begun:.2f} |")
    return lines


def _count(values: FloatArray, seed: int) -> int:
    return len(structural_sequence(values, seed=seed).classes)


def _phases(rng: Rng, classes: int, dwell: float) -> NDArray[np.int64]:
    labels: list[int] = []
    label = int(rng.integers(classes))
    while len(labels) < ELEMENTS:
        labels += [label] * int(rng.geometric(1 / dwell))
        label = (label + 1 + int(rng.integers(classes - 1))) % classes
    return np.array(labels[:ELEMENTS])


def _centres(rng: Rng, classes: int, metrics: int, apart: float) -> FloatArray:
    while True:
        places = rng.random((classes, metrics))
        distances = np.sqrt(np.square(places[:, None] - places[None]).sum(axis=2))[np.triu_indices(classes, 1)]
        if distances.min() > 0.5 / classes:
            centres: FloatArray = places / distances.min() * apart
            return centres


def _noise(rng: Rng, kind: str, shape: tuple[int, int]) -> FloatArray:
    if kind == "heavy":
        return rng.standard_t(3, size=shape)
    noise = rng.normal(size=shape)
    if kind == "spikes":
        noise += (rng.random((len(noise), 1)) < 0.04) * rng.exponential(50, size=shape)
    return noise
