"""Search for the k metrics that predict most of the others: forward, exact where the subsets are few, and backward.

The problem is column subset selection. The forward search is that of Farahat, Ghodsi and Kamel, "An efficient greedy
method for unsupervised feature selection", ICDM 2011: it works on the matrix of correlations and never forms residuals
of the data. The backward search removes the metric whose removal leaves the highest lowest R². Forward finds the few
that explain most of all metrics; backward finds what it takes to predict each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from math import comb
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.choice.moments import FloatArray, coefficients

MOST_WORK = 2_000_000
"""Largest number of subsets of one size, times the cube of the size, for the exact search (about 0.1 s). Beyond it,
only the other searches choose."""

_LEAST = 1e-9
"""A metric with less than this share of its variance left is explained; it can explain nothing more."""
_RIDGE = 1e-9


class Choice(NamedTuple):
    """Metrics chosen to predict the others, in the data that the search saw."""

    chosen: tuple[int, ...]  # Numbers of the metrics, in the order of the forward search, or ascending
    how: Literal["exact", "forward", "backward"]  # The search that found them
    forward: tuple[int, ...]  # The choice of the forward search, which may be the same


def choose(correlations: FloatArray, most: int, target: float, *, most_work: int = MOST_WORK) -> list[Choice]:
    """Return the choice of 1, 2, … up to `most` metrics.

    Of the searches' choices, the one counts that predicts the most metrics to an R² of `target`; if that is the same
    number, the one that explains most.
    """
    order, backward = forward_order(correlations, most), backward_subsets(correlations)
    found = []
    for size in range(1, len(order) + 1):
        forward = tuple(order[:size])
        candidates = [Choice(forward, "forward", forward)]
        if comb(len(correlations), size) * size**3 <= most_work:
            candidates.append(Choice(best_subset(correlations, size), "exact", forward))
        candidates.append(Choice(backward[size], "backward", forward))
        # Of equals the first is returned: forward choices contain the smaller ones.
        found.append(max(candidates, key=lambda choice: _worth(correlations, choice.chosen, target)))
    return found


def _worth(correlations: FloatArray, chosen: tuple[int, ...], target: float) -> tuple[int, float]:
    each = r2_of_all(correlations, chosen)
    return int((each >= target).sum()), round(float(each.mean()), 9)


def backward_subsets(correlations: FloatArray) -> dict[int, tuple[int, ...]]:
    """Return the metrics that remain, by their number, as each removal leaves the highest lowest R²."""
    kept = list(range(len(correlations)))
    found = {len(kept): tuple(kept)}
    while len(kept) > 1:
        inverse = np.linalg.inv(correlations[np.ix_(kept, kept)] + _RIDGE * np.eye(len(kept)))
        own = np.diag(inverse)
        removed = np.delete(correlations, kept, axis=1)[kept]
        weights = inverse @ removed
        # Without metric j, a prediction loses its squared weight over the inverse's diagonal; j keeps 1 − 1 / diagonal.
        losses = weights**2 / own[:, None]
        lowest = np.column_stack([1 - 1 / own, (weights * removed).sum(axis=0) - losses]).min(axis=1)
        del kept[int(np.argmax(np.round(lowest, 6)))]
        found[len(kept)] = tuple(kept)
    return found


def forward_order(correlations: FloatArray, most: int) -> list[int]:
    """Return metrics in the order in which each explains most of what those before it leave; `most` at most."""
    left = correlations.copy()
    chosen: list[int] = []
    while len(chosen) < most:
        own = np.diag(left).copy()
        open_ones = own > _LEAST
        open_ones[chosen] = False
        if not open_ones.any():
            break
        gain = np.where(open_ones, (left**2).sum(axis=0) / np.where(open_ones, own, 1.0), -1.0)
        best = int(np.round(gain, 9).argmax())  # of exact twins, always the first
        left -= np.outer(left[best], left[best]) / own[best]
        chosen.append(best)
    return chosen


def best_subset(correlations: FloatArray, size: int) -> tuple[int, ...]:
    """Return the subset that explains most; the first of equals, in the order of the metrics."""
    squares = correlations @ correlations
    best, most = (), -1.0
    for subsets in _chunks(len(correlations), size):
        rows, columns = subsets[:, :, None], subsets[:, None, :]
        among = correlations[rows, columns] + _RIDGE * np.eye(size)
        # The share of the summed variance that a subset S explains is the trace of R_SS⁻¹ (R²)_SS.
        shares = np.trace(np.linalg.solve(among, squares[rows, columns]), axis1=1, axis2=2)
        place = int(shares.argmax())
        if shares[place] > most + _LEAST:
            best, most = tuple(subsets[place].tolist()), float(shares[place])
    return best


def explained(correlations: FloatArray, chosen: Sequence[int]) -> float:
    """Return the share of the variance of all metrics, the chosen ones included, that these explain."""
    return float(r2_of_all(correlations, chosen).mean())


def r2_of_all(correlations: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Return the share of each metric's variance that the chosen ones explain, in the data that the search saw."""
    weights = coefficients(correlations, chosen)
    return np.asarray((weights * correlations[list(chosen)]).sum(axis=0), np.float64)


def _chunks(metrics: int, size: int) -> Iterator[NDArray[np.int64]]:
    every = combinations(range(metrics), size)
    while subsets := list(islice(every, 4096)):
        yield np.array(subsets, np.int64)
