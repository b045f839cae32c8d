"""Milestones, events whose ordinal is the same work in every run: anchors for a warp path, and scores of any path."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray
from unperturbed.collectors.data import Trace
from unperturbed.errors import DataError

_ACTIVE_WEIGHT = 0.1
"""Weight of an interval among transitions in the choice of anchors; one in a flat stretch weighs 1."""


def milestone_anchors(milestones_x: ArrayLike, milestones_y: ArrayLike, *, name: str = "the milestone") -> IntArray:
    """Choose pairs of intervals that surely show the same work, because the same milestones happened in both.

    Number the milestones of each run from 1: the n-th of one run is the same work as the n-th of the other. An
    interval says which numbers happened in it, not when. Two intervals that share a number overlap in the program's
    work; nothing is certain of others. An interval may share numbers with several intervals of the other run. A pair
    becomes an anchor if each of the two shares more numbers with the other than with any other interval (the earlier
    one, when equal). So each interval is anchored at most once, the anchors rise in both runs, and between them the
    alignment stays free.

    Parameters
    ----------
    milestones_x, milestones_y : array_like, shape (n,) and (m,)
        Cumulative count at the end of each interval.
    name : str, default "the milestone"
        The milestone's name, for messages.

    Returns
    -------
    int64, shape (anchors, 2)
        Strictly increasing in both columns.

    Raises
    ------
    DataError
        The totals differ, so that equal numbers are not the same work; or no milestone happened.
    """
    return shared_anchors(*map(Milestones.of, _checked_counts(milestones_x, milestones_y, name)))


class Milestones(NamedTuple):
    """The intervals of a run in which a milestone happened, and how often it had happened at the end of each."""

    # intervals, counts: (intervals with a milestone,): Both rise.
    intervals: IntArray
    counts: IntArray

    @classmethod
    def of(cls, cumulative_counts: IntArray) -> Milestones:
        """Return the milestones of a run with these counts at the end of its intervals."""
        intervals = np.flatnonzero(np.diff(cumulative_counts, prepend=0))
        return cls(intervals, cumulative_counts[intervals])


def shared_anchors(x: Milestones, y: Milestones) -> IntArray:
    """Return the anchors of two runs with the same number of milestones; see `milestone_anchors`."""
    # Cut the numbers at the ends of all intervals: a piece between two cuts lies in one interval of x and one of y.
    cuts = np.union1d(x.counts, y.counts)
    shared = np.diff(cuts, prepend=0)
    i = x.intervals[np.searchsorted(x.counts, cuts)]
    j = y.intervals[np.searchsorted(y.counts, cuts)]
    mutual = _first_largest(i, shared) & _first_largest(j, shared)
    return np.column_stack((i[mutual], j[mutual])).astype(np.int64)


def choose_anchors(anchors: IntArray, flat_x: NDArray[np.bool_], flat_y: NDArray[np.bool_], budget: int) -> IntArray:
    """Choose a few of many possible anchors: mostly in flat stretches, where nothing else holds the alignment.

    Parameters
    ----------
    anchors : array of int64, shape (possible, 2)
        As `milestone_anchors` returns them.
    flat_x, flat_y : array of bool, shape (n,) and (m,)
        Intervals in flat stretches.
    budget : int
        How many to choose at most.

    Returns
    -------
    int64, shape (chosen, 2)
        Rising, `chosen` ≤ budget.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.3: "concentrate the anchors in relatively
    flat areas of behavior and omit anchors from active areas". Each interval gets a weight, 1 in a flat stretch and 0.1
    elsewhere; the anchors nearest to the places that part the whole weight into budget + 1 equal shares are chosen.
    Without flat stretches that spreads them evenly over the run.
    """
    if budget <= 0 or not len(anchors):
        return anchors[:0]
    if len(anchors) <= budget:
        return anchors
    weights = [np.cumsum(np.where(flat, 1.0, _ACTIVE_WEIGHT)) for flat in (flat_x, flat_y)]
    places = sum(weight[anchors[:, side]] / weight[-1] for side, weight in enumerate(weights)) / 2
    wanted = np.arange(1, budget + 1) / (budget + 1)
    after = np.clip(np.searchsorted(places, wanted), 1, len(places) - 1)
    nearest = np.where(wanted - places[after - 1] < places[after] - wanted, after - 1, after)
    chosen: IntArray = anchors[np.unique(nearest)]
    return chosen


def milestone_positions(milestones_x: ArrayLike, milestones_y: ArrayLike, *, name: str = "the milestone") -> FloatArray:
    """Return the position in y of the work of each interval of x, by the milestones: the true alignment.

    Parameters
    ----------
    milestones_x, milestones_y, name : array_like
        As for `milestone_anchors`.

    Returns
    -------
    float64, shape (n,)
        Position in y of the middle of each interval of x [intervals]: 3.5 is the middle of interval 3. Never falls.

    Raises
    ------
    DataError
        As for `milestone_anchors`.

    Notes
    -----
    The nth milestone is the same work in both runs. The milestones of an interval are taken as evenly spread over it,
    and the progress between two milestones as even; so a position is known to about an interval where milestones are
    dense, and to the distance between milestones where they are not. The runs' ends are joined.
    """
    x, y = _checked_counts(milestones_x, milestones_y, name)
    # Between the first and last ordinals of all intervals both runs progress evenly, as far as can be known.
    ends = [milestones.counts for milestones in (Milestones.of(x), Milestones.of(y))]
    ordinals = np.unique(np.concatenate([*ends, *(np.append(1, last[:-1] + 1) for last in ends)]))
    of_x, of_y = ([0.0, *_times(counts, ordinals), float(len(counts))] for counts in (x, y))
    return np.asarray(np.interp(np.arange(len(x)) + 0.5, of_x, of_y), np.float64)


def _times(counts: IntArray, ordinals: IntArray) -> FloatArray:
    """Return when each milestone happened [intervals], those of one interval evenly spread."""
    interval = np.searchsorted(counts, ordinals)
    before = np.concatenate(([0], counts[:-1]))[interval]
    times: FloatArray = interval + (ordinals - before - 0.5) / (counts[interval] - before)
    return times


def _checked_counts(milestones_x: ArrayLike, milestones_y: ArrayLike, name: str) -> tuple[IntArray, IntArray]:
    x = cumulative(f"{name} of the first run", milestones_x, np.size(milestones_x))
    y = cumulative(f"{name} of the second run", milestones_y, np.size(milestones_y))
    require_same_total(x, y, name)
    return x, y


def require_same_total(counts_x: IntArray, counts_y: IntArray, name: str) -> None:
    """Raise DataError unless a milestone happened, and equally often in both runs, by its cumulative counts."""
    x, y = (int(counts.max(initial=0)) for counts in (counts_x, counts_y))
    if x != y:
        raise DataError(
            f"{name} happened {x} times in one run and {y} times in the other: it is not a deterministic milestone; "
            "use another anchor or none"
        )
    if x == 0:
        raise DataError(f"{name} never happened in these runs: use another anchor or none")


def milestone_counts(trace: Trace, anchor: str) -> IntArray:
    """Return how often a trace's milestone had happened at the end of each interval."""
    column = trace[anchor]
    if trace.metrics[anchor].semantics != "counter" or not np.issubdtype(column.dtype, np.integer):
        raise DataError(f"metric {anchor!r} is not an event counter: use a software metric that counts a milestone")
    return np.cumsum(column)


def _first_largest(interval: IntArray, shared: IntArray) -> NDArray[np.bool_]:
    """Mark, for each interval, the largest of the pieces that its numbers were cut into (the first, when equal)."""
    order = np.lexsort((np.arange(len(interval)), -shared, interval))
    chosen = np.zeros(len(interval), bool)
    chosen[order[np.flatnonzero(np.diff(interval[order], prepend=-1))]] = True
    return chosen


_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class ScoreSummary:
    """How milestone scores are distributed.

    Attributes
    ----------
    elements : int
        How many were scored.
    perfect, within_one : float
        Shares of scores 0, and 0 or 1; NaN when none was scored.
    median, most, nearly_all : float
        Quantiles .5, .9 and .99 [intervals]; NaN when none was scored.
    largest : int
        Intervals.
    shares : tuple of float
        Share of each score from 0 to `largest`: the bars of figures 4–7 and 10.
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
        return ScoreSummary(0, nan, nan, nan, nan, nan, 0, ())
    shares = np.bincount(given) / given.size
    median, most, nearly_all = np.quantile(given, _QUANTILES).tolist()
    perfect, within_one = float(shares[0]), float(shares[:2].sum())
    largest, every = int(given.max()), tuple(shares.tolist())
    return ScoreSummary(given.size, perfect, within_one, median, most, nearly_all, largest, every)


def milestone_scores(path: WarpPath, milestones_x: ArrayLike, milestones_y: ArrayLike) -> IntArray:
    """Score a path by how far it is from joining intervals that hold the same milestones.

    Parameters
    ----------
    path : WarpPath
        The alignment of x and y.
    milestones_x, milestones_y : array_like, shape (n,) and (m,)
        Cumulative count of one deterministic milestone at the end of each interval.

    Returns
    -------
    int64, shape (scored elements,)
        One score [intervals] for each path element whose x-interval holds a milestone, in path order: 0 where the two
        intervals share an ordinal, else the smallest distance, over the ordinals of the x-interval, to an interval of y
        that holds one. Ordinals that y never reaches are left out, and so is an element that has no others.

    Raises
    ------
    DataError
        A count falls, is negative, no whole number, or does not fit the path's length.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 4. A milestone that served as an anchor
    flatters the path: evaluate with another. O(elements · log m).
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
    """Return cumulative counts as int64; DataError where they are not cumulative, whole and of this length."""
    given = np.asarray(counts)
    if given.shape != (length,):
        raise DataError(f"{name} has shape {given.shape}: give one cumulative count for each of {length} intervals")
    whole = given.astype(np.int64) if np.isfinite(given).all() else None
    if whole is None or (whole != given).any():
        raise DataError(f"{name} holds a value that is not a whole number: give cumulative counts")
    falls = np.flatnonzero(np.diff(whole, prepend=0) < 0)
    if len(falls):
        raise DataError(
            f"{name}[{falls[0]}] is {whole[falls[0]]}, less than the count before it: give cumulative counts"
        )
    return whole


def matching_counters(a: Trace, b: Trace, *, anchor: str | None = None) -> list[str]:
    """Return the software counters that both runs counted alike, except the anchor; the rarest first."""
    names = [
        name
        for name in a.names("software")
        if name != anchor
        and name in b.metrics
        and a.metrics[name].semantics == "counter"
        and np.issubdtype(a[name].dtype, np.integer)
        and a[name].sum() == b[name].sum() > 0
    ]
    return sorted(names, key=lambda name: int(a[name].sum()))


def score_summaries(path: WarpPath, a: Trace, b: Trace, *, anchor: str | None = None) -> dict[str, ScoreSummary]:
    """Score a path by every software counter that both runs counted alike, except the anchor, which would flatter it.

    Parameters
    ----------
    path : WarpPath
        The alignment of a and b.
    a, b : Trace
        The runs.
    anchor : str, optional
        The counter that gave the anchors.

    Returns
    -------
    dict of str to ScoreSummary
        Counter's name to the summary of its scores, rarest counter first; without those that no path element holds.
    """
    summaries = {
        name: summarise_scores(milestone_scores(path, np.cumsum(a[name]), np.cumsum(b[name])))
        for name in matching_counters(a, b, anchor=anchor)
    }
    return {name: summary for name, summary in summaries.items() if summary.elements}


def possible_intervals(a: Trace, b: Trace) -> IntArray:
    """Return which intervals of b can hold the work of each interval of a, by their milestones.

    Returns
    -------
    array of int64, shape (n, 2)
        First and last interval of b: not before the last milestone that a had passed, nor after the first that it had
        not come to. All of b where the runs have no software counter in common, or counted none alike.
    """
    first, last = np.zeros(len(a), np.int64), np.full(len(a), len(b) - 1)
    for name in matching_counters(a, b):
        in_a, in_b = np.cumsum(a[name]), np.cumsum(b[name])
        passed = np.concatenate(([0], in_a[:-1]))
        first = np.maximum(first, np.where(passed > 0, np.searchsorted(in_b, passed), 0))
        last = np.minimum(last, np.searchsorted(in_b, in_a + 1))
    return np.column_stack((first, last))
