"""What a counter of deterministic milestones tells of two runs: anchors, and the alignment itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unperturbed.analysis.alignment.scores import cumulative
from unperturbed.analysis.alignment.warp import FloatArray, IntArray
from unperturbed.errors import DataError

__all__ = ["choose_anchors", "milestone_anchors", "milestone_positions"]

_ACTIVE_WEIGHT = 0.1
"""What an interval among transitions counts where anchors are shared out, beside 1 for an interval of a flat stretch."""


def milestone_anchors(milestones_x: ArrayLike, milestones_y: ArrayLike, *, name: str = "the milestone") -> IntArray:
    """Choose pairs of intervals that surely show the same work, because the same milestones happened in both.

    An interval says how many milestones happened in it, not when. Two intervals that share an ordinal overlap in the program's
    work for certain; nothing is certain of others. One interval may share ordinals with several of the other run: a pair is
    kept when each is the one with which the other shares most (the earlier, when equal). So each interval is anchored once at
    most, the pairs rise in both runs, and between them the alignment stays free.

    Parameters
    ----------
    milestones_x, milestones_y : int, shape (n,) and (m,)
        Cumulative count at the end of each interval.
    name : the milestone's name, for messages.

    Returns
    -------
    int64, shape (anchors, 2)
        Strictly rising in both columns.

    Raises
    ------
    DataError
        The totals differ, so that ordinals do not name the same work; or no milestone happened.
    """
    x, y = _of_both(milestones_x, milestones_y, name)
    # Every interval's end cuts the ordinals: between two cuts all belong to one interval of x and one of y.
    cuts = np.union1d(x, y)
    cuts = cuts[cuts > 0]
    shared = np.diff(cuts, prepend=0)
    i, j = np.searchsorted(x, cuts), np.searchsorted(y, cuts)
    mutual = _first_largest(i, shared) & _first_largest(j, shared)
    return np.column_stack((i[mutual], j[mutual])).astype(np.int64)


def choose_anchors(anchors: IntArray, flat_x: NDArray[np.bool_], flat_y: NDArray[np.bool_], budget: int) -> IntArray:
    """Choose a few of many possible anchors: mostly in flat stretches, where nothing else holds the alignment.

    Parameters
    ----------
    anchors : int64, shape (possible, 2)
        As `milestone_anchors` returns them.
    flat_x, flat_y : bool, shape (n,) and (m,)
        Intervals in flat stretches.
    budget : how many to choose at most.

    Returns
    -------
    int64, shape (chosen, 2)
        Rising, `chosen` ≤ budget.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.3: "concentrate the anchors in relatively flat areas
    of behavior and omit anchors from active areas". Each interval gets a weight, 1 in a flat stretch and 0.1 elsewhere; the anchors
    nearest to the places that part the whole weight into budget + 1 equal shares are chosen. Without flat stretches that spreads
    them evenly over the run.
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
    """Return where y does the work of each interval of x, as its milestones tell it: the true alignment.

    Parameters
    ----------
    milestones_x, milestones_y, name : as for `milestone_anchors`.

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
    The nth milestone is the same work in both runs. The milestones of an interval are taken as evenly spread over it, and the
    progress between two milestones as even; so a position is known to about an interval where milestones are dense, and to the
    distance between milestones where they are not. The runs' ends are joined.
    """
    x, y = _of_both(milestones_x, milestones_y, name)
    # First and last ordinal of each interval of either run: between them both runs progress evenly, as far as can be known.
    ordinals = np.unique(np.concatenate([ends for counts in (x, y) for ends in _ordinals(counts)]))
    of_x, of_y = ([0.0, *_times(counts, ordinals), float(len(counts))] for counts in (x, y))
    return np.asarray(np.interp(np.arange(len(x)) + 0.5, of_x, of_y), np.float64)


def _ordinals(counts: IntArray) -> Sequence[IntArray]:
    before = np.concatenate(([0], counts[:-1]))
    holding = counts > before
    return before[holding] + 1, counts[holding]


def _times(counts: IntArray, ordinals: IntArray) -> FloatArray:
    """Return when each milestone happened [intervals], those of one interval evenly spread."""
    interval = np.searchsorted(counts, ordinals)
    before = np.concatenate(([0], counts[:-1]))[interval]
    times: FloatArray = interval + (ordinals - before - 0.5) / (counts[interval] - before)
    return times


def _of_both(milestones_x: ArrayLike, milestones_y: ArrayLike, name: str) -> tuple[IntArray, IntArray]:
    x = cumulative(f"{name} of the first run", milestones_x, np.size(milestones_x))
    y = cumulative(f"{name} of the second run", milestones_y, np.size(milestones_y))
    if not x.size or not y.size or x[-1] != y[-1]:
        totals = [int(counts[-1]) if counts.size else 0 for counts in (x, y)]
        raise DataError(
            f"{name} happened {totals[0]} times in one run and {totals[1]} times in the other: "
            "it is no deterministic milestone; anchor on another or on none"
        )
    if x[-1] == 0:
        raise DataError(f"{name} never happened in these runs: anchor on another milestone or on none")
    return x, y


def _first_largest(interval: IntArray, shared: IntArray) -> NDArray[np.bool_]:
    """Mark, for each interval, the first of its pieces that is as large as its largest."""
    order = np.lexsort((np.arange(len(interval)), -shared, interval))
    chosen = np.zeros(len(interval), bool)
    chosen[order[np.flatnonzero(np.diff(interval[order], prepend=-1))]] = True
    return chosen
