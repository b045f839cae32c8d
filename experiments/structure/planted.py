"""How many classes are found in values with planted classes, and in values without structure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from experiments.common.tables import markdown_table, right
from experiments.structure.milestones import adjusted_rand_index
from unperturbed.analysis.structure import structural_sequence

FloatArray = NDArray[np.float64]
Rng = np.random.Generator

ELEMENTS = 400


def _autoregressive(rng: Rng, memory: float, metrics: int) -> FloatArray:
    values = rng.normal(size=(ELEMENTS, metrics))
    for row in range(1, ELEMENTS):
        values[row] += memory * values[row - 1]
    return values


STRUCTURELESS: dict[str, Callable[[Rng], FloatArray]] = {
    "normal, 1 metric": lambda rng: rng.normal(size=(ELEMENTS, 1)),
    "normal, 4 metrics": lambda rng: rng.normal(size=(ELEMENTS, 4)),
    "4 metrics that nearly say the same": lambda rng: (
        rng.normal(size=(ELEMENTS, 1)) + 0.1 * rng.normal(size=(ELEMENTS, 4))
    ),
    "uniform, 3 metrics": lambda rng: rng.random((ELEMENTS, 3)),
    "exponential, 2 metrics": lambda rng: rng.exponential(size=(ELEMENTS, 2)),
    "log-normal, σ = 1, 3 metrics": lambda rng: np.exp(rng.normal(size=(ELEMENTS, 3))),
    "log-normal, σ = 3, 3 metrics": lambda rng: np.exp(3 * rng.normal(size=(ELEMENTS, 3))),
    "Student's t, 2 degrees of freedom, 2 metrics": lambda rng: rng.standard_t(2, size=(ELEMENTS, 2)),
    "changes of less than a percent": lambda rng: 1e6 + 500 * rng.integers(0, 2, size=(ELEMENTS, 1)).astype(np.float64),
    "autoregressive, φ = 0.5, 2 metrics": lambda rng: _autoregressive(rng, 0.5, 2),
    "autoregressive, φ = 0.9, 2 metrics": lambda rng: _autoregressive(rng, 0.9, 2),
    "autoregressive, φ = 0.99, 1 metric": lambda rng: _autoregressive(rng, 0.99, 1),
    "random walk, 1 metric": lambda rng: _autoregressive(rng, 1.0, 1),
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
    rows = []
    for name, draw in STRUCTURELESS.items():
        counts = Counter(_count(draw(np.random.default_rng(seed)), seed) for seed in range(seeds))
        more = ", ".join(f"{classes} classes: {times}" for classes, times in sorted(counts.items()) if classes > 1)
        rows.append((name, f"{counts[1]} of {seeds}", more or "–"))
    return markdown_table(["values", *right("one class"), "more"], rows)


def planted_table(seeds: int) -> list[str]:
    """Return how often planted classes are found, and how well each element is classified."""
    rows = []
    for classes, metrics, separation, dwell, noise in PLANTED:
        correct, agreement = 0, []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            truth = _phases(rng, classes, dwell)
            values = _centres(rng, classes, metrics, separation)[truth] + _noise(rng, noise, (ELEMENTS, metrics))
            sequence = structural_sequence(values * 10.0 ** (3 * np.arange(metrics)), seed=seed)
            correct += len(sequence.classes) == classes
            agreement.append(adjusted_rand_index(sequence.labels.astype(np.int64), truth))
        planted = (classes, metrics, f"{separation:g} σ", f"{dwell:g}", noise)
        rows.append((*planted, f"{correct} of {seeds}", f"{np.median(agreement):.3f}", f"{min(agreement):.3f}"))
    heads = right("classes", "metrics", "apart", "phase")
    return markdown_table([*heads, "noise", *right("as many found", "adjusted Rand index: median", "least")], rows)


def time_table(sizes: tuple[int, ...] = (1_000, 10_000, 100_000)) -> list[str]:
    """Return the CPU time for runs of 5 phases and 6 metrics."""
    rows = []
    for size in sizes:
        rng = np.random.default_rng(1)
        values = 6 * _centres(rng, 5, 6, 1.0)[np.repeat(rng.integers(0, 5, size // 5), 5)] + rng.normal(size=(size, 6))
        start = time.process_time()
        structural_sequence(values)
        rows.append((f"{size:,}", f"{time.process_time() - start:.2f}"))
    return markdown_table(right("intervals", "processor s"), rows)


def _count(values: FloatArray, seed: int) -> int:
    return len(structural_sequence(values, seed=seed).classes)


def _phases(rng: Rng, classes: int, dwell: float) -> NDArray[np.int64]:
    labels: list[int] = []
    label = int(rng.integers(classes))
    while len(labels) < ELEMENTS:
        labels += [label] * int(rng.geometric(1 / dwell))
        label = (label + 1 + int(rng.integers(classes - 1))) % classes
    return np.array(labels[:ELEMENTS])


def _centres(rng: Rng, classes: int, metrics: int, separation: float) -> FloatArray:
    while True:
        places = rng.random((classes, metrics))
        distances = np.sqrt(np.square(places[:, None] - places[None]).sum(axis=2))[np.triu_indices(classes, 1)]
        if distances.min() > 0.5 / classes:
            centres: FloatArray = places / distances.min() * separation
            return centres


def _noise(rng: Rng, kind: str, shape: tuple[int, int]) -> FloatArray:
    if kind == "heavy":
        return rng.standard_t(3, size=shape)
    noise = rng.normal(size=shape)
    if kind == "spikes":
        noise += (rng.random((len(noise), 1)) < 0.04) * rng.exponential(50, size=shape)
    return noise
