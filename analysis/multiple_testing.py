"""Corrections for multiple comparisons: adjusted p-values, each of which can be compared with α directly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values by Holm's method: comparing each with α limits the family-wise error rate to α.

    The step-down procedure of Holm (1979) is valid for dependent tests too. Results have shape (n,) and are at most 1.
    A NaN is not counted as a test and stays NaN.
    """
    return _adjust(p_values, lambda p: np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


LIKELY_NULL = 0.5
"""Maximum p-value in a family of interval hypotheses: larger p-values mean a true value inside the interval."""


def holm_of_intervals(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values of interval hypotheses, such as "the change is at most the tolerance".

    Such p-values are uniform if the true value is at the interval's end, and larger if it is inside. By Ellis, Pecanka
    and Goeman, "Gaining power in multiple testing of interval hypotheses via conditionalization", Biostatistics 21
    (2020), p-values above λ = 0.5 leave the family, and the others are divided by λ. If most changes are close to zero,
    nearly all leave, and Holm's correction covers only the rest. `docs/evidence/calibration.md` measures that this is
    valid for the changes of one campaign, which depend on one another.
    """
    p = np.asarray(p_values, np.float64)
    adjusted = holm(np.where(p <= LIKELY_NULL, p / LIKELY_NULL, np.nan))
    return np.where(p > LIKELY_NULL, 1.0, adjusted)


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values by Benjamini and Hochberg's method: comparing each with α limits the false discovery rate to α.

    The procedure (1995) is valid for tests that are independent or positively dependent, like most tests of pairs that
    share a metric. NaN is treated as in `holm`.
    """

    def step_up(p: FloatArray) -> FloatArray:
        raised = p * len(p) / np.arange(1, len(p) + 1)
        return np.asarray(np.minimum.accumulate(raised[::-1])[::-1], np.float64)

    return _adjust(p_values, step_up)


def _adjust(p_values: ArrayLike, of_ascending: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Apply a correction to the p-values in ascending order, and return the results in the given order; NaN stays."""
    values = np.asarray(p_values, np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    adjusted = np.full_like(values, np.nan)
    adjusted[order] = np.minimum(of_ascending(values[order]), 1)
    return adjusted
