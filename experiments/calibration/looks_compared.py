"""Ways to look again at a growing campaign, compared: how often they decide, and after how many runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.calibration.common import ALPHA, header, share
from experiments.calibration.looks import MOST
from unperturbed.analysis.looks import FIRST_LOOK, look_levels, plan_looks

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LATER_LOOKS = (10, 15, 22, 33, MOST)
"""Looks that start after ten runs, for a function that spends almost nothing before."""
SPREADS, CHANGES = (0.25, 0.5, 1.0, 2.0), (0.0, 0.5, 1.0, 2.0, 3.0)
"""In tolerances."""


def compared_header() -> Iterator[str]:
    """The header of the table."""
    ways = ["α t^1.5 (used here)", "as O'Brien and Fleming", "α t", "confidence sequence"]
    yield from header(["spread", "changed by", *(f"{way}: {what}" for way in ways for what in ("decided", "runs"))])


def compared_rows(campaigns: int, seed: int) -> Iterator[str]:
    """The mean of differences within rounds, of one metric: each spread and each change, in tolerances."""
    here = np.array(plan_looks(MOST))
    every = np.arange(FIRST_LOOK, MOST + 1)
    ways = (
        (here, _student(here, look_levels(ALPHA, plan_looks(MOST)))),
        (np.array(LATER_LOOKS), _student(np.array(LATER_LOOKS), _obrien_fleming(LATER_LOOKS))),
        (here, _student(here, np.diff([0, *here]) / MOST * ALPHA)),
        (every, confidence_sequence(every, 2 * ALPHA)),
    )
    for spread in SPREADS:
        for change in CHANGES:
            rng = np.random.default_rng([seed, 14, round(100 * spread), round(10 * change)])
            values = change + spread * np.sqrt(2) * rng.standard_normal((campaigns, MOST))
            cells = [cell for looks, half in ways for cell in _cells(values, looks, half)]
            yield f"| {spread:g} × tolerance | {change:g} × tolerance | {' | '.join(cells)} |"


def confidence_sequence(counts: IntArray, alpha: float, spread: float = 0.5) -> FloatArray:
    """Return half the width of a confidence sequence for a normal mean, in standard deviations of the sample.

    It is the sequence of Lai, "On confidence sequences", Annals of Statistics 4 (1976), in the form of Wang and Ramdas,
    "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance" (2024), for a normal
    mixture of effects with variance `spread`. It holds at all counts of runs at once.
    """
    growth = 1 + counts * spread
    limit = (np.sqrt(growth) / alpha) ** (2 / counts)
    with np.errstate(divide="ignore"):
        half = np.sqrt((counts - 1) * (limit - 1) / np.maximum(0, 1 - limit / growth) / counts)
    return np.asarray(half, np.float64)


def _student(looks: IntArray, levels: Sequence[float] | FloatArray) -> FloatArray:
    """Return half the width of Student's interval at each look, each side at the look's level."""
    return np.asarray(stats.t.ppf(1 - np.asarray(levels), looks - 1) / np.sqrt(looks), np.float64)


def _obrien_fleming(looks: Sequence[int]) -> FloatArray:
    """Return the shares of Lan and DeMets' first function: 2 − 2 Φ(z_{α/2} / √t)."""
    spent = 2 * stats.norm.cdf(stats.norm.ppf(ALPHA / 2) / np.sqrt(np.array(looks) / looks[-1]))
    return np.asarray(np.diff([0, *spent]), np.float64)


def _cells(values: FloatArray, looks: IntArray, half: FloatArray) -> list[str]:
    """Return the share of campaigns that are decided, and the mean number of runs."""
    counts = np.arange(1, MOST + 1)
    mean = np.cumsum(values, axis=1) / counts
    squares = np.cumsum(values**2, axis=1) - counts * mean**2
    spread = np.sqrt(np.maximum(0, squares) / np.maximum(1, counts - 1))
    low, high = (mean[:, looks - 1] + sign * half * spread[:, looks - 1] for sign in (-1, 1))
    decided = ((low > -1) & (high < 1)) | (low > 1) | (high < -1)
    ended: NDArray[np.bool_] = np.any(decided, axis=1)
    runs = np.where(ended, looks[np.argmax(decided, axis=1)], looks[-1])
    return [share([float(each) for each in ended]), f"{runs.mean():.1f}"]
