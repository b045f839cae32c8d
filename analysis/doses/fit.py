"""Extrapolation to dose 0 within rounds, its interval, and how far the response deviates from a line.

Malony, Reed and Wijshoff ("Performance Measurement Intrusion and Perturbation Analysis", IEEE Transactions on Parallel
and Distributed Systems 3(4), 1992) remove the cost of measurement by a model of it. Here the model is measured: a
campaign runs the program at several doses, and a line through them is extended to dose 0.

The runs of a round share environment and layout. So each round gives a line of its own (least squares over its doses),
and the rounds are a sample of such lines: their mean at dose 0 has Student's t with r − 1 degrees of freedom, whatever
the doses of a round have in common. Nothing is assumed about the variance at different doses.

Two contrasts tell whether the response is a line. *bend*: what a parabola through the doses would give at dose 0, minus
the line; it needs three doses. *miss*: the observed value at dose 0 minus the line, if the program ran without
counting. Both are deviations at dose 0, in the unit of the value, so that the tolerance applies to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.perturbation.compare import NO_SPREAD
from unperturbed.analysis.perturbation.rounds import MOST_SHARED
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

FloatArray = NDArray[np.float64]

FEWEST_ROUNDS = 3
"""Minimum number of rounds with a run at each dose."""

_PARABOLA = 3  # Doses that a parabola needs


@dataclass(frozen=True)
class Contrast:
    """A weighted sum over the doses of a round: its mean over the rounds and its standard error, shape (m,)."""

    mean: FloatArray
    error: FloatArray
    freedom: int  # Rounds − 1

    def bounds(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper confidence bound, each with error probability `alpha`."""
        reach = special.stdtrit(self.freedom, 1 - alpha) * self.error
        return self.mean - reach, self.mean + reach

    def p(self) -> FloatArray:
        """Return the two-sided p-value of a mean of 0."""
        return 2 * _tail(np.abs(self.mean), self.error, self.freedom)

    def p_beyond(self, below: FloatArray, above: FloatArray) -> FloatArray:
        """Return the p-value of a mean from −`below` to `above`: both tails of a minimum-effect test."""
        near, far = np.where(self.mean > 0, above, below), np.where(self.mean > 0, below, above)
        size = np.abs(self.mean)
        tails = _tail(size - near, self.error, self.freedom) + _tail(size + far, self.error, self.freedom)
        return np.minimum(1, tails)


@dataclass(frozen=True)
class DoseFit:
    """Line through the values at the doses above 0, extended to dose 0, of m coefficients or totals."""

    value: Contrast  # At dose 0, by the line
    # low, high: Bounds of the confidence intervals at 1 − α of the line and of the parabola, both taken in.
    low: FloatArray
    high: FloatArray
    bend: Contrast | None  # None for two doses
    miss: Contrast | None  # None if the program did not run without counting

    @property
    def deviation(self) -> Contrast | None:
        """Return the contrast that shows most about linearity: `miss`, or else `bend`."""
        return self.miss if self.miss is not None else self.bend


def line_weights(doses: Sequence[int], degree: int = 1) -> FloatArray:
    """Return the weight of each dose in the value at dose 0 of a polynomial by least squares; their sum is 1."""
    powers = np.vander(np.asarray(doses, np.float64), degree + 1, increasing=True)
    return np.asarray(np.linalg.pinv(powers)[0], np.float64)


def fit_doses(
    doses: Sequence[int],
    values: FloatArray,
    without: FloatArray | None = None,
    *,
    alpha: float,
    at_zero: tuple[FloatArray, FloatArray] | None = None,
) -> DoseFit:
    """Extrapolate to dose 0.

    `doses`: The k doses above 0, at least two.
    `values`: float64, shape (r, k, m). One row for each round, on a scale on which differences are comparable.
    `without`: float64, shape (r, m). Values of the same rounds without counting.
    `at_zero`: float64, shape (r, m) each. Values of each round at dose 0 by lines and by parabolas through something
    else than the values (`signals`).

    The interval takes in that of a parabola. A response within the tolerance of a line need not be a line, and runs
    that vary little would give the line an interval so short that it misses the value of the slightest curve.
    """
    weights = {degree: line_weights(doses, degree) for degree in (1, 2)}
    line, parabola = at_zero if at_zero is not None else (_weighted(values, weights[degree]) for degree in (1, 2))
    value, bend, miss = _contrast(line, values, weights[1]), None, None
    low, high = value.bounds(alpha / 2)
    if len(doses) >= _PARABOLA:
        bend = _contrast(parabola - line, values, weights[2] - weights[1])
        lower, higher = _contrast(parabola, values, weights[2]).bounds(alpha / 2)
        low, high = np.minimum(low, lower), np.maximum(high, higher)
    if without is not None:
        all_values = np.concatenate([without[:, None], values], axis=1)
        miss = _contrast(without - line, all_values, np.array([1, *-weights[1]]))
    return DoseFit(value, low, high, bend, miss)


def _weighted(values: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("rkm,k->rm", values, weights), np.float64)


def _contrast(of_rounds: FloatArray, values: FloatArray, weights: FloatArray) -> Contrast:
    """Return a contrast from its values in each round, (r, m).

    Its variance is at least a share of what runs that share no round would give: even if a few rounds agree exactly,
    another round may differ (`perturbation/rounds.py`). `values`: (r, k, m). `weights`: of the k runs of a round.
    """
    r = len(values)
    independent = np.einsum("km,k->m", values.var(axis=0, ddof=1), weights**2)
    variance = np.maximum(of_rounds.var(axis=0, ddof=1), np.maximum(MOST_SHARED * independent, NO_SPREAD**2))
    return Contrast(of_rounds.mean(axis=0), np.sqrt(variance / r), r - 1)


def _tail(size: FloatArray, error: FloatArray, freedom: int) -> FloatArray:
    return np.asarray(special.stdtr(freedom, -size / error), np.float64)
