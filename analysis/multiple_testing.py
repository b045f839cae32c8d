"""Corrections for testing many hypotheses at once: one p-value each, adjusted so that it may be compared with α."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that comparing each with α keeps the family-wise error rate at α; shape (n,), at most 1.

    The step-down procedure of Holm (1979), which holds whatever the dependence of the tests is. NaN is not a test: it
    stays, and does not count.
    """
    return _adjust(p_values, lambda p: np.maximum.accumulate(p * np.arange(len(p), 0, -1)))


LIKELY_NULL = 0.5
"""p-values of interval hypotheses above this leave the family: most hypotheses lie far inside of their intervals."""


def holm_of_intervals(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values of hypotheses that hold an interval each, such as "the change is at most the tolerance".

    The p-values are uniform at the interval's end and larger within. Ellis, Pecanka and Goeman, "Gaining power in
    multiple testing of interval hypotheses via conditionalization", Biostatistics 21 (2020): a p-value above λ = 0.5
    leaves the family, one below is divided by λ. Of a family of changes that mostly are none, nearly all leave, and
    Holm's correction is over the rest. That it holds for the changes of one campaign, which depend on one another, is
    measured in `docs/evidence/calibration.md`.
    """
    p = np.asarray(p_values, np.float64)
    adjusted = holm(np.where(p <= LIKELY_NULL, p / LIKELY_NULL, np.nan))
    return np.where(p > LIKELY_NULL, 1.0, adjusted)


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values so that comparing each with α keeps the expected share of false discoveries at α.

    Benjamini and Hochberg (1995). Sound for tests that are independent or positively dependent, as those of pairs that
    share metrics mostly are. NaN as in `holm`.
    """

    def step_up(p: FloatArray) -> FloatArray:
        raised = p * len(p) / np.arange(1, len(p) + 1)
        return np.asarray(np.minimum.accumulate(raised[::-1])[::-1], np.float64)

    return _adjust(p_values, step_up)


def _adjust(p_values: ArrayLike, of_ascending: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Apply a correction to the p-values that are numbers, in ascending order, and put the results back in place."""
    values = np.asarray(p_values, np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    adjusted = np.full_like(values, np.nan)
    adjusted[order] = np.minimum(of_ascending(values[order]), 1)
    return adjusted
