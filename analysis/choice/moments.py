"""Means and products of the metrics within each run, from which every regression of the choice is computed.

A least-squares fit needs only the means of the metrics and of their products, and so does its error on other runs. They
are computed once for each run; each choice, fit and error then takes a few operations on small matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
Scale = Literal["count", "sqrt"]

_RIDGE = 1e-9
"""Added to the variance 1 of each predictor, so that exact twins among predictors can be fitted."""


def rescale(values: FloatArray, scale: Scale) -> FloatArray:
    """Return counts as they are, or their square roots; a metric with negative values stays as it is.

    Counts add up: L1 misses are the sum of data and instruction misses, and cycles nearly a sum of costs. A linear fit
    finds such sums in counts alone, which is why they are the default. But intervals with large counts then decide the
    fit. Square roots give all intervals about the same error (Bartlett 1936), as the scatter of a count is about its
    square root.
    """
    if scale == "count":
        return values
    negative = (values < 0).any(axis=0)
    return np.where(negative, values, np.sqrt(np.where(negative, 0.0, values)))


@dataclass(frozen=True)
class Moments:
    """Moments of p metrics in each run; every run has the same weight, however many intervals it has."""

    means: FloatArray  # Shape (runs, p)
    products: FloatArray  # Means of the products of two metrics, shape (runs, p, p)
    spread: FloatArray  # Variance of each metric within each run, shape (runs, p)

    @classmethod
    def of(cls, runs: Sequence[FloatArray]) -> Moments:
        """Return the moments of runs, each of shape (intervals, p), on a scale on which each metric varies by 1.

        The scale serves precision alone: least squares with an intercept gives the same predictions on any scale.
        """
        centre = np.mean([run.mean(axis=0) for run in runs], axis=0)
        width = np.sqrt(np.mean([((run - centre) ** 2).mean(axis=0) for run in runs], axis=0))
        scaled = [(run - centre) / width for run in runs]
        return cls(
            np.array([run.mean(axis=0) for run in scaled]),
            np.array([run.T @ run / len(run) for run in scaled]),
            np.array([run.var(axis=0) for run in scaled]),
        )

    def __len__(self) -> int:
        return len(self.means)

    def fitted(self, held_back: int | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the mean, the width and the correlation matrix of the metrics over all runs but one."""
        used = [run for run in range(len(self)) if run != held_back]
        centre = self.means[used].mean(axis=0)
        covariance = self.products[used].mean(axis=0) - np.outer(centre, centre)
        width = np.sqrt(np.diag(covariance))
        return centre, width, covariance / np.outer(width, width)

    def about(self, run: int, centre: FloatArray, width: FloatArray) -> FloatArray:
        """Return a run's mean products of standardised metrics: their distances from `centre` in units of `width`."""
        mean = self.means[run]
        products = self.products[run] - np.outer(mean, centre) - np.outer(centre, mean) + np.outer(centre, centre)
        return np.asarray(products / np.outer(width, width), np.float64)


def coefficients(correlations: FloatArray, chosen: Sequence[int]) -> FloatArray:
    """Return the least-squares coefficients of all metrics from the chosen ones, shape (chosen, p)."""
    among = correlations[np.ix_(chosen, chosen)] + _RIDGE * np.eye(len(chosen))
    return np.asarray(np.linalg.solve(among, correlations[list(chosen)]), np.float64)


def coefficients_of_others(correlations: FloatArray) -> FloatArray:
    """Return the coefficients of each metric from all others, shape (p, p): a column for each, with 0 for itself."""
    precision = np.linalg.inv(correlations + _RIDGE * np.eye(len(correlations)))
    weights = -precision / np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return np.asarray(weights, np.float64)


def errors(products: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mean squared error of each predicted metric, from a run's `Moments.about` and coefficients (p, p)."""
    remainders = np.eye(len(products)) - weights
    return np.asarray(np.einsum("im,ij,jm->m", remainders, products, remainders, optimize=True), np.float64)
