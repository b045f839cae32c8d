"""Where a series has transitions that an alignment can hold on to, and where it is flat but for noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.alignment.warp import IntArray
from unperturbed.errors import DataError

__all__ = ["Flatness", "flatness", "neighbour_difference"]

_WIDEST = 64
"""Widest blocks whose means are compared [intervals]: a rise that takes longer does not tell neighbouring intervals apart."""

_NOISE_QUANTILE = 0.25
"""Quantile of the differences that stands for noise: three quarters of them may be transitions."""

_VALUES_A_DEGREE = 3.2
"""Intervals, for each of a block's width, that tell the noise as well as one degree of freedom of a variance: measured on noise."""


@dataclass(frozen=True, eq=False)
class Flatness:
    """What there is in a series for an alignment to hold on to.

    Attributes
    ----------
    transitions : bool, shape (n,). The series changes here by more than its noise.
    stretches : int64, shape (k, 2). First interval, and the one after the last, of each longest run without a transition.
    share : share of intervals that lie in stretches of at least `least` intervals.
    longest : length of the longest stretch [intervals]; as far may dynamic time warping stray.
    least : intervals.
    """

    transitions: NDArray[np.bool_]
    stretches: IntArray
    share: float
    longest: int
    least: int


def flatness(series: ArrayLike, *, alpha: float = 0.05, least: int = 16) -> Flatness:
    """Find the transitions of a series, and the flat stretches between them.

    Parameters
    ----------
    series : float64, shape (n,) or (n, metrics). Finite.
    alpha : probability that a series of nothing but white noise shows any transition.
    least : stretches shorter than that count as no flat ones [intervals].

    Returns
    -------
    Flatness

    Raises
    ------
    DataError
        The series is empty.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.2, see that flat segments with slight variations lead
    dynamic time warping astray, and leave open when a segment is flat. Here the means of neighbouring blocks of 1, 2, 4 … 64
    intervals are compared (Haar's wavelet at each position). A difference is a transition when normal noise would be as large
    with probability `alpha` over all positions, widths and metrics together. The noise of each width is taken from the smallest
    quarter of the differences, so that it may be correlated in time (Johnstone and Silverman, "Wavelet threshold estimators for
    data with correlated noise", 1997). A series that changes in more than three quarters of its intervals passes for noise.
    """
    rows = np.asarray(series, np.float64)
    n = len(rows)
    if not rows.size:
        raise DataError("the series is empty: there is nothing to look for transitions in")
    rows = rows.reshape(n, -1)
    from scipy.stats import norm, t  # noqa: PLC0415  half a second that few need

    widths = [width for width in (2**power for power in range(7)) if width <= min(_WIDEST, max(1, n // 32))]
    each = alpha / (2 * n * len(widths) * rows.shape[1])
    of_noise = norm.isf((1 - _NOISE_QUANTILE) / 2)
    sums = np.vstack((np.zeros(rows.shape[1]), np.cumsum(rows - rows.mean(axis=0), axis=0)))
    marks = np.zeros(n + 2, np.int64)
    for width in widths:
        if 2 * width > n:
            break
        threshold = t.isf(each, max(1.0, n / (_VALUES_A_DEGREE * width)))
        differences = np.abs(sums[2 * width :] - 2 * sums[width:-width] + sums[: -2 * width]) / width
        noise = np.quantile(differences, _NOISE_QUANTILE, axis=0) / of_noise
        # Sums of many values differ in their last bits where the values are equal.
        rounding = 8 * np.finfo(np.float64).eps * np.abs(rows).max(axis=0) * n
        borders = np.flatnonzero((differences > np.maximum(threshold * noise, rounding)).any(axis=1)) + width
        np.add.at(marks, borders - 1 - width // 2, 1)
        np.add.at(marks, borders + 1 + width // 2, -1)
    transitions = np.cumsum(marks)[:n] > 0
    edges = np.diff(transitions, prepend=True, append=True)
    stretches = np.flatnonzero(edges).reshape(-1, 2).astype(np.int64)
    lengths = stretches[:, 1] - stretches[:, 0]
    share = float(lengths[lengths >= least].sum()) / n
    return Flatness(transitions, stretches, share, int(lengths.max(initial=0)), least)


def neighbour_difference(series: ArrayLike) -> float:
    """Return the median difference of neighbouring intervals, |·| summed over metrics: how far noise moves a series."""
    rows = np.asarray(series, np.float64)
    if len(rows) < 2:
        return 0.0
    return float(np.median(np.abs(np.diff(rows.reshape(len(rows), -1), axis=0)).sum(axis=1)))
