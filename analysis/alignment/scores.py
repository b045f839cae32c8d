"""How good an alignment is, judged by milestones: events whose ordinal is the same work in every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.alignment.warp import IntArray, WarpPath
from unperturbed.errors import DataError

__all__ = ["ScoreSummary", "cumulative", "milestone_scores", "summarise_scores"]

_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class ScoreSummary:
    """How milestone scores are distributed.

    Attributes
    ----------
    elements : how many were scored.
    perfect, within_one : shares of scores 0, and 0 or 1; NaN when none was scored.
    median, most, nearly_all : quantiles .5, .9 and .99 [intervals]; NaN when none was scored.
    largest : intervals.
    shares : share of each score from 0 to `largest`: the bars of figures 4–7 and 10.
    """

    elements: int
    perfect: float
    within_one: float
    median: float
    most: float
    nearly_all: float
    largest: int
    shares: tuple[float, ...]


def summarise_scores(scores: ArrayLike) -> ScoreSummary:
    """Summarise the scores that `milestone_scores` returns, shape (scored elements,)."""
    given = np.asarray(scores, np.int64)
    if not given.size:
        nothing = float("nan")
        return ScoreSummary(0, nothing, nothing, nothing, nothing, nothing, 0, ())
    shares = np.bincount(given) / given.size
    median, most, nearly_all = (float(value) for value in np.quantile(given, _QUANTILES))
    return ScoreSummary(
        given.size,
        float(shares[0]),
        float(shares[:2].sum()),
        median,
        most,
        nearly_all,
        int(given.max()),
        tuple(map(float, shares)),
    )


def milestone_scores(path: WarpPath, milestones_x: ArrayLike, milestones_y: ArrayLike) -> IntArray:
    """Score a path by how far it is from joining intervals that hold the same milestones.

    Parameters
    ----------
    path : the alignment of x and y.
    milestones_x, milestones_y : int, shape (n,) and (m,)
        Cumulative count of one deterministic milestone at the end of each interval.

    Returns
    -------
    int64, shape (scored elements,)
        One score [intervals] for each path element whose x-interval holds a milestone, in path order: 0 where the two intervals
        share an ordinal, else the smallest distance, over the ordinals of the x-interval, to an interval of y that holds one.
        Ordinals that y never reaches are left out, and so is an element that has no others.

    Raises
    ------
    DataError
        A count falls, is negative, no whole number, or does not fit the path's length.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 4. A milestone that served as an anchor flatters the
    path: evaluate with another. O(elements · log m).
    """
    x = cumulative("milestones_x", milestones_x, int(path.x_index[-1]) + 1)
    y = cumulative("milestones_y", milestones_y, int(path.y_index[-1]) + 1)
    before_x = np.concatenate(([0], x[:-1]))
    # Ordinals held by an x-interval: first … last, cut to those that y has too.
    first = before_x[path.x_index] + 1
    last = np.minimum(x[path.x_index], y[-1])
    scored = first <= last
    first, last, at = first[scored], last[scored], path.y_index[scored]
    # The nearest interval of y, at or before `at` and after it: ordinals are in order, so only two can be nearest.
    reached = y[at]
    earlier = np.minimum(last, reached)
    later = np.maximum(first, reached + 1)
    far = np.iinfo(np.int64).max
    back = np.where(earlier >= first, at - np.searchsorted(y, np.maximum(earlier, 1)), far)
    ahead = np.where(later <= last, np.searchsorted(y, np.minimum(later, y[-1])) - at, far)
    return np.minimum(back, ahead).astype(np.int64)


def cumulative(name: str, counts: ArrayLike, length: int) -> IntArray:
    """Return cumulative counts as int64, or say what is wrong with them."""
    given = np.asarray(counts)
    if given.shape != (length,):
        raise DataError(f"{name} has shape {given.shape}: give one cumulative count for each of {length} intervals")
    whole = given.astype(np.int64) if np.isfinite(given).all() else None
    if whole is None or (whole != given).any():
        raise DataError(f"{name} holds a value that is no whole number: give cumulative counts")
    falls = np.flatnonzero(np.diff(whole, prepend=0) < 0)
    if len(falls):
        raise DataError(f"{name}[{falls[0]}] is {whole[falls[0]]}, less than the count before it: give cumulative counts")
    return whole
