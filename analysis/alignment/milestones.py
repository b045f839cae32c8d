"""Milestones: events whose nth occurrence marks the same work in every run. They anchor and score warp paths."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import counted
from unperturbed.errors import DataError

_ACTIVE_WEIGHT = 0.1
"""Weight of an interval outside flat stretches in the choice of anchors; an interval in a flat stretch has weight 1."""


def milestone_anchors(milestones_x: ArrayLike, milestones_y: ArrayLike, *, name: str = "the milestone") -> IntArray:
    """Return pairs of intervals that certainly show the same work, because they contain the same milestones.

    The milestones of each run are numbered from 1: the nth milestone marks the same work in both runs. The counts show
    which numbers occurred in an interval, but not when. Two intervals that share a number overlap in the program's
    work; about other pairs of intervals, nothing is certain. An interval may share numbers with several intervals of
    the other run. A pair becomes an anchor if each interval shares more numbers with the other than with any other
    interval (if equal, the earlier interval is chosen). So each interval has at most one anchor, the anchors increase
    in both runs, and the alignment stays free between them.

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
        The totals differ, so equal numbers do not mark the same work; or no milestone occurred.
    """
    return shared_anchors(*map(Milestones.of, _checked_counts(milestones_x, milestones_y, name)))


class Milestones(NamedTuple):
    """The intervals of a run that contain milestones, and the cumulative count at the end of each."""

    # Both have one element for each interval with a milestone, and increase.
    intervals: IntArray
    counts: IntArray

    @classmethod
    def of(cls, cumulative_counts: IntArray) -> Milestones:
        """Return the milestones of a run from the cumulative count at the end of each interval."""
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
    """Choose some of the possible anchors, mostly in flat stretches, where nothing else guides the alignment.

    Parameters
    ----------
    anchors : array of int64, shape (possible, 2)
        As `milestone_anchors` returns them.
    flat_x, flat_y : array of bool, shape (n,) and (m,)
        Intervals in flat stretches.
    budget : int
        Largest number of anchors to choose.

    Returns
    -------
    int64, shape (chosen, 2)
        The chosen anchors in increasing order, at most `budget`.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.3: "concentrate the anchors in relatively
    flat areas of behavior and omit anchors from active areas". Each interval gets a weight, 1 in a flat stretch and 0.1
    elsewhere; the anchors nearest to the positions that divide the total weight into budget + 1 equal shares are
    chosen. Without flat stretches, they are spread evenly over the run.
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
    """Return the position in y of each x interval's work, interpolated between milestones: the true alignment.

    Parameters
    ----------
    milestones_x, milestones_y, name : array_like
        As for `milestone_anchors`.

    Returns
    -------
    float64, shape (n,)
        Position in y of the middle of each interval of x [intervals]: 3.5 is the middle of interval 3. Never decreases.

    Raises
    ------
    DataError
        As for `milestone_anchors`.

    Notes
    -----
    The nth milestone marks the same work in both runs. The milestones of an interval are assumed to be spread evenly
    over it, and progress between two milestones is assumed to be even. So the error of a position is about one interval
    where milestones are dense, and up to the distance between milestones elsewhere. The runs' starts are aligned, and
    so are their ends.
    """
    x, y = _checked_counts(milestones_x, milestones_y, name)
    # Between the first and last ordinals of all intervals, both runs are assumed to progress evenly.
    ends = [milestones.counts for milestones in (Milestones.of(x), Milestones.of(y))]
    ordinals = np.unique(np.concatenate([*ends, *(np.append(1, last[:-1] + 1) for last in ends)]))
    of_x, of_y = ([0.0, *_times(counts, ordinals), float(len(counts))] for counts in (x, y))
    return np.asarray(np.interp(np.arange(len(x)) + 0.5, of_x, of_y), np.float64)


def _times(counts: IntArray, ordinals: IntArray) -> FloatArray:
    """Return the time of each milestone [intervals]; the milestones of an interval are spread evenly over it."""
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
    """Raise DataError unless a milestone occurred equally often, and at least once, in both runs."""
    x, y = (int(counts.max(initial=0)) for counts in (counts_x, counts_y))
    if x != y:
        raise DataError(
            f"{name} occurred {counted(x, 'time')} in one run and {counted(y, 'time')} in the other, so it is not a "
            "deterministic milestone: use another anchor, or no anchor"
        )
    if x == 0:
        raise DataError(f"{name} never occurred in these runs: use another anchor, or no anchor")


def milestone_counts(trace: Trace, anchor: str) -> IntArray:
    """Return the cumulative count of a milestone at the end of each interval of a trace."""
    column = trace[anchor]
    if trace.metrics[anchor].semantics != "counter" or not np.issubdtype(column.dtype, np.integer):
        raise DataError(f"metric {anchor!r} is not an event counter: use a software counter as the anchor")
    return np.cumsum(column)


def _first_largest(interval: IntArray, shared: IntArray) -> NDArray[np.bool_]:
    """Mark the largest piece in each interval; if several pieces are equally large, mark the first of them."""
    order = np.lexsort((np.arange(len(interval)), -shared, interval))
    chosen = np.zeros(len(interval), bool)
    chosen[order[np.flatnonzero(np.diff(interval[order], prepend=-1))]] = True
    return chosen


_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class ScoreSummary:
    """Distribution of milestone scores.

    Attributes
    ----------
    elements : int
        Number of scored path elements.
    perfect, within_one : float
        Share of scores that are 0, and share that are 0 or 1; NaN if no element was scored.
    median, most, nearly_all : float
        Quantiles .5, .9 and .99 [intervals]; NaN if no element was scored.
    largest : int
        Largest score [intervals].
    shares : tuple of float
        Share of each score from 0 to `largest`: the bars of the paper's figures 4–7 and 10.
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
    """Return by how many intervals each element of a path misses an interval with the same milestone.

    Parameters
    ----------
    path : WarpPath
        The alignment of x and y.
    milestones_x, milestones_y : array_like, shape (n,) and (m,)
        Cumulative count of one deterministic milestone at the end of each interval.

    Returns
    -------
    int64, shape (scored elements,)
        One score [intervals] for each path element whose x interval contains a milestone, in path order: 0 if the two
        intervals share an ordinal, else the distance to the nearest interval of y that contains an ordinal of the x
        interval. Ordinals that y never reaches are ignored; an element without other ordinals has no score.

    Raises
    ------
    DataError
        A count decreases, is negative, or is not a whole number; or the counts do not match the path's length.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 4. The scores of a milestone that served as
    an anchor are too good: evaluate with another milestone. O(elements · log m) time.
    """
    x = cumulative("milestones_x", milestones_x, int(path.x_index[-1]) + 1)
    y = cumulative("milestones_y", milestones_y, int(path.y_index.max()) + 1)
    before_x = np.concatenate(([0], x[:-1]))
    # Ordinals in an x interval: first … last, limited to those that y also reaches.
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
    """Return cumulative counts as int64; raise DataError unless they are cumulative, whole and of this length."""
    given = np.asarray(counts)
    if given.shape != (length,):
        raise DataError(f"{name} has shape {given.shape}: give {length} cumulative counts, one for each interval")
    whole = given.astype(np.int64) if np.isfinite(given).all() else None
    if whole is None or (whole != given).any():
        raise DataError(f"{name} contains a value that is not a whole number: give cumulative counts, which are whole")
    falls = np.flatnonzero(np.diff(whole, prepend=0) < 0)
    if len(falls):
        before = "the value before it" if falls[0] else "0"
        raise DataError(
            f"{name}: the value of interval {falls[0]} (counted from 0) is {whole[falls[0]]}, less than {before}: give "
            "cumulative counts"
        )
    return whole


def matching_counters(a: Trace, b: Trace, *, anchor: str | None = None) -> list[str]:
    """Return the software counters with the same total (not 0) in both runs, except the anchor; rarest first."""
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
    """Score a path by every software counter with the same total in both runs, except the anchor (its score is biased).

    Parameters
    ----------
    path : WarpPath
        The alignment of a and b.
    a, b : Trace
        The runs.
    anchor : str, optional
        The counter whose milestones are the anchors.

    Returns
    -------
    dict of str to ScoreSummary
        The summary of each counter's scores by the counter's name, rarest counter first. Counters without a scored
        element are left out.
    """
    summaries = {
        name: summarise_scores(milestone_scores(path, np.cumsum(a[name]), np.cumsum(b[name])))
        for name in matching_counters(a, b, anchor=anchor)
    }
    return {name: summary for name, summary in summaries.items() if summary.elements}


def possible_intervals(a: Trace, b: Trace) -> IntArray:
    """Return the range of b's intervals that can contain the work of each interval of a, according to milestones.

    Returns
    -------
    array of int64, shape (n, 2)
        First and last interval of b: not before the last milestone that a had passed, and not after the first milestone
        that a had not reached. All of b if no software counter has the same total in both runs.
    """
    first, last = np.zeros(len(a), np.int64), np.full(len(a), len(b) - 1)
    for name in matching_counters(a, b):
        in_a, in_b = np.cumsum(a[name]), np.cumsum(b[name])
        passed = np.concatenate(([0], in_a[:-1]))
        first = np.maximum(first, np.where(passed > 0, np.searchsorted(in_b, passed), 0))
        last = np.minimum(last, np.searchsorted(in_b, in_a + 1))
    return np.column_stack((first, last))
