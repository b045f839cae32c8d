"""Short names of classes: which metrics are high or low in each, or where its values lie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.structure.classes.scaling import RESOLUTION, FloatArray

_GAP = 0.2
"""Share of a metric's range over the classes that must lie between two levels."""

_LEAST_GAP = 3 * RESOLUTION
"""A smaller one, on the scale, is not a difference worth a name."""

_LEVELS = {1: ("",), 2: ("low", "high"), 3: ("low", "medium", "high")}
_MOST_METRICS = 3


def class_names(centres: FloatArray, metrics: Sequence[str]) -> tuple[str, ...]:
    """Name classes by the fewest metrics that distinguish each from all others: `PAPI_L2_TCM high, PAPI_BR_MSP low`.

    `centres`: array of float64, shape (k, metrics). On one scale.
    Result: All different. One class alone is `all alike`. Classes that have the same levels in every three metrics are
    numbered.
    """
    if len(centres) == 1:
        return ("all alike",)
    levels = [_levels(column) for column in centres.T]
    # Metrics in which classes differ most come first.
    order = sorted(range(len(metrics)), key=lambda column: -float(np.ptp(centres[:, column])))
    names = [_name(one, levels, order, metrics) for one in range(len(centres))]
    counts = {name: names.count(name) for name in names}
    seen = dict.fromkeys(names, 0)
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} ({seen[name]})" if counts[name] > 1 else name)
    return tuple(numbered)


def _levels(column: FloatArray) -> tuple[str, ...]:
    """Return the level of each class in one metric: at most two gaps divide them, the widest ones."""
    ordered = np.sort(column)
    gaps = np.diff(ordered)
    wide = np.flatnonzero(gaps > max(_GAP * (ordered[-1] - ordered[0]), _LEAST_GAP))
    cuts = sorted(wide[np.argsort(-gaps[wide], kind="stable")][:2].tolist())
    level: NDArray[np.int64] = np.searchsorted(ordered[cuts], column, "left")
    return tuple(_LEVELS[len(cuts) + 1][one] for one in level.tolist())


def _name(one: int, levels: Sequence[tuple[str, ...]], order: Sequence[int], metrics: Sequence[str]) -> str:
    """Name one class by the smallest set of metrics that the fewest others share with it."""
    others = [other for other in range(len(levels[0])) if other != one]
    distinguishing = [column for column in order if levels[column][one]]
    best: tuple[int, ...] = ()
    fewest = len(others) + 1
    for size in range(1, min(_MOST_METRICS, len(distinguishing)) + 1):
        for chosen in combinations(distinguishing, size):
            alike = sum(all(levels[column][other] == levels[column][one] for column in chosen) for other in others)
            if alike < fewest:
                best, fewest = chosen, alike
        if fewest == 0:
            break
    return ", ".join(f"{metrics[column]} {levels[column][one]}" for column in sorted(best)) or "unlike the others"


def band_names(edges: FloatArray, metric: str) -> tuple[str, ...]:
    """Name the bands between edges, such as `x < 3`, `3 ≤ x < 7`, `x ≥ 7`."""
    if not len(edges):
        return ("all alike",)
    texts = _distinct(edges, 6)
    inner = [f"{low} ≤ {metric} < {high}" for low, high in pairwise(texts)]
    return (f"{metric} < {texts[0]}", *inner, f"{metric} ≥ {texts[-1]}")


def location_names(centres: FloatArray, metric: str) -> tuple[str, ...]:
    """Name classes of one value by where they lie, such as `x near 4100`; of addresses `low` would mean little."""
    if len(centres) == 1:
        return ("all alike",)
    return tuple(f"{metric} near {text}" for text in _distinct(centres, 3))


def _distinct(values: FloatArray, digits: int) -> list[str]:
    """Format numbers with so many digits, or as many more as make them differ."""
    for count in range(digits, 17):
        texts = [_format(value, count) for value in values.tolist()]
        if len(set(texts)) == len(values):
            return texts
    return [_format(value, 17) for value in values.tolist()]


def _format(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text and 1 <= abs(value) < 1e15 else text
