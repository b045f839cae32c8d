"""Stretches that change places between two runs, such as a collection that comes earlier in one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.dtw.paths import WarpPath, anchored_dtw
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray

SHORTEST = 4
"""Least number of intervals of a moved stretch, in each run: single intervals resemble each other by chance."""

PRICE = 100.0
"""Cost of a moved stretch, as a multiple of the noise: the median distance along the path."""

_BAD = 4.0
"""Distance above which an interval is badly aligned, as a multiple of the noise: 2.7 standard deviations of normal
noise."""

_NEAR = 3.0
"""The same for two intervals that may match: less than the two would differ by chance."""

WHOLE = 0.4
"""Least share of a badly aligned stretch that a moved stretch covers, in each run: parts may match by chance."""

_GAP = 1
"""Number of well-aligned intervals in a row that do not end a badly aligned stretch."""

_MOST_STRETCHES = 40
"""Limit on the badly aligned stretches of each run that are compared, the worst ones; more are noise."""

_MOST_TRIALS = 12
"""Limit on the pairs of stretches for which the rest of the runs is aligned again, the most promising ones."""

_REACH = 64
"""Number of intervals on each side of a matching cell among which a moved stretch grows."""

Keep = NDArray[np.bool_]
"""Marks of the intervals that stay in place."""


@dataclass(frozen=True, eq=False)
class MovedStretch:
    """A stretch of x and the stretch of y that shows the same work at another place."""

    x: slice
    y: slice
    index: IntArray  # (elements, 2): intervals of x and y that belong together, monotone
    cost: float  # Distances and penalties inside the stretch


def find_moved(
    x: FloatArray,
    y: FloatArray,
    *,
    penalty: float,
    warp: Callable[[Keep, Keep], WarpPath],
) -> list[MovedStretch]:
    """Find stretches that a monotone path aligns badly and that match each other at different places.

    The total to reduce is the cost of the path through the intervals that stay, plus for each moved stretch the cost of
    its own path and a price. A pair of stretches is taken only if it reduces the total, the best one first, and then
    the search begins anew. Without such a pair the result is empty, and the alignment the same as without this search.

    `warp`: Aligns the intervals that stay, with the same penalty; its path has their own numbers.
    """
    keep_x, keep_y = np.ones(len(x), bool), np.ones(len(y), bool)
    found: list[MovedStretch] = []
    path = warp(keep_x, keep_y)
    noise = float(np.median(np.abs(x[path.x_index] - y[path.y_index]).sum(axis=1)))
    while noise > 0:
        best = _best(x, y, path, (keep_x, keep_y), noise, penalty, warp)
        if best is None:
            return sorted(found, key=lambda stretch: stretch.x.start)
        stretch, path = best
        found.append(stretch)
        keep_x[stretch.x], keep_y[stretch.y] = False, False
    return found


def _best(
    x: FloatArray,
    y: FloatArray,
    path: WarpPath,
    keep: tuple[Keep, Keep],
    noise: float,
    penalty: float,
    warp: Callable[[Keep, Keep], WarpPath],
) -> tuple[MovedStretch, WarpPath] | None:
    """Return the pair that reduces the total most, with the path through the rest; None if none reduces it."""
    at_x, at_y = (np.flatnonzero(kept) for kept in keep)
    distances = np.abs(x[at_x[path.x_index]] - y[at_y[path.y_index]]).sum(axis=1)
    bad_x = _bad_stretches(path.x_index, distances, at_x, noise)
    bad_y = _bad_stretches(path.y_index, distances, at_y, noise)
    seeds = [(*_seed(x, y, one, other, noise), one, other) for one in bad_x for other in bad_y]
    best, least = None, path.cost
    for _, *middle, one, other in sorted(seeds, key=lambda seed: -seed[0])[:_MOST_TRIALS]:
        wide = [_around(at, kept) for at, kept in zip(middle, keep, strict=True)]
        # A stretch may reach beyond its badly aligned part, or into work that resembles by chance.
        for of_x, of_y in ((one, other), wide):
            stretch = _grown(x, y, middle, of_x, of_y, noise, penalty)
            if stretch is None or min(_share(stretch.x, one), _share(stretch.y, other)) < WHOLE:
                continue
            left_x, left_y = keep[0].copy(), keep[1].copy()
            left_x[stretch.x], left_y[stretch.y] = False, False
            if not (left_x.any() and left_y.any()):
                continue
            rest = warp(left_x, left_y)
            total = rest.cost + stretch.cost + PRICE * noise
            if total < least and _is_elsewhere(stretch, rest, left_x, left_y):
                best, least = (stretch, rest), total
    return best


def _share(stretch: slice, bad: slice) -> float:
    """Return the share of a badly aligned stretch that a moved stretch covers."""
    shared: int = min(stretch.stop, bad.stop) - max(stretch.start, bad.start)
    return shared / (int(bad.stop) - int(bad.start))


def _is_elsewhere(stretch: MovedStretch, rest: WarpPath, keep_x: Keep, keep_y: Keep) -> bool:
    """Tell whether a stretch is at least as far as it is long from where the rest of the path would have it.

    Of two neighbouring stretches that change places, the shorter one counts as moved.
    """
    place_x, place_y = (
        int(np.count_nonzero(keep_x[: stretch.x.start])),
        int(np.count_nonzero(keep_y[: stretch.y.start])),
    )
    behind = int(np.searchsorted(rest.x_index, place_x))
    low = int(rest.y_index[behind - 1]) + 1 if behind else 0
    high = int(rest.y_index[behind]) if behind < len(rest) else int(rest.y_index[-1]) + 1
    length: int = max(stretch.x.stop - stretch.x.start, stretch.y.stop - stretch.y.start)
    return max(low - place_y, place_y - high) >= length


def _bad_stretches(index: IntArray, distances: FloatArray, at: IntArray, noise: float) -> list[slice]:
    """Return the stretches of one run whose intervals have no near partner on the path, the worst first."""
    nearest = np.full(len(at), np.inf)
    np.minimum.at(nearest, index, distances)
    bad = nearest > _BAD * noise
    edges = np.flatnonzero(np.diff(np.concatenate(([False], bad, [False]))))
    joined: list[list[int]] = []
    for start, stop in edges.reshape(-1, 2).tolist():
        # A stretch ends where intervals have been taken out, too.
        if joined and start - joined[-1][1] <= _GAP and at[stop - 1] - at[joined[-1][0]] == stop - 1 - joined[-1][0]:
            joined[-1][1] = stop
        else:
            joined.append([start, stop])
    long = [
        (float(nearest[start:stop].sum()), slice(int(at[start]), int(at[stop - 1]) + 1))
        for start, stop in joined
        if stop - start >= SHORTEST and at[stop - 1] - at[start] == stop - 1 - start
    ]
    return [stretch for _, stretch in sorted(long, key=lambda item: -item[0])[:_MOST_STRETCHES]]


def _seed(x: FloatArray, y: FloatArray, one: slice, other: slice, noise: float) -> tuple[float, int, int]:
    """Return the gain and the middle of the diagonal along which a part of two stretches matches best."""
    distances = np.abs(x[one][::-1, None] - y[None, other]).sum(axis=2)  # from the last interval of x to the first
    n, m = distances.shape
    # Each row begins one place further right, so that a diagonal becomes a column; outside, nothing is gained.
    gains = np.zeros((n, n + m))
    gains[:, :m] = _NEAR * noise - distances
    shifted = gains.ravel()[: n * (n + m - 1)].reshape(n, n + m - 1)
    sums = np.vstack((np.zeros(n + m - 1), np.cumsum(shifted, axis=0)))
    gained = sums - np.minimum.accumulate(sums, axis=0)
    stop, column = divmod(int(np.argmax(gained)), n + m - 1)
    start = int(np.argmin(sums[: stop + 1, column]))
    row = min(max((start + stop) // 2, column - m + 1, 0), column, n - 1)
    return float(gained[stop, column]), one.stop - 1 - row, other.start + column - row


def _grown(
    x: FloatArray,
    y: FloatArray,
    middle: Sequence[int],
    of_x: slice,
    of_y: slice,
    noise: float,
    penalty: float,
) -> MovedStretch | None:
    """Return the stretch around a cell, within bounds, that matches best by dynamic time warping; None if too short."""
    cell = (middle[0] - of_x.start, middle[1] - of_y.start)
    part_x, part_y = x[of_x], y[of_y]
    path = anchored_dtw(part_x, part_y, [cell], penalty=penalty)
    bent = (np.diff(path.x_index, prepend=-1) == 0) | (np.diff(path.y_index, prepend=-1) == 0)
    costs = np.abs(part_x[path.x_index] - part_y[path.y_index]).sum(axis=1) + penalty * bent
    centre = int(np.searchsorted(path.x_index + path.y_index, sum(cell)))
    gains = _NEAR * noise - costs
    start = centre - int(np.argmax(np.cumsum(gains[: centre + 1][::-1])))
    stop = centre + int(np.argmax(np.cumsum(gains[centre:]))) + 1
    i, j = path.x_index[start:stop] + of_x.start, path.y_index[start:stop] + of_y.start
    if min(i[-1] - i[0], j[-1] - j[0]) < SHORTEST - 1:
        return None
    cost = float(costs[start:stop].sum() - penalty * bent[start])
    index = np.column_stack((i, j))
    return MovedStretch(slice(int(i[0]), int(i[-1]) + 1), slice(int(j[0]), int(j[-1]) + 1), index, cost)


def _around(at: int, kept: Keep) -> slice:
    """Return the interval's surroundings that stay in place, at most 64 intervals on each side."""
    low, high = max(at - _REACH, 0), min(at + _REACH + 1, len(kept))
    out = np.flatnonzero(~kept[low:high]) + low
    before, after = out[out < at], out[out > at]
    return slice(int(before[-1]) + 1 if len(before) else low, int(after[0]) if len(after) else high)


def absorb(path: WarpPath, keep_x: Keep, keep_y: Keep) -> tuple[IntArray, IntArray, IntArray]:
    """Return a path through the intervals that stay as one through all intervals, and the new place of each element.

    An interval that was taken out is aligned with the interval that stays before it: the result is a warp path.
    """
    at_x, at_y = np.flatnonzero(keep_x), np.flatnonzero(keep_y)
    i, j = at_x[path.x_index], at_y[path.y_index]
    parts: list[tuple[IntArray, IntArray]] = []
    places, size, done, before = np.empty(len(i), np.int64), 0, 0, (-1, -1)
    jumps = np.flatnonzero((np.diff(i, prepend=-1) > 1) | (np.diff(j, prepend=-1) > 1))
    for jump in [*jumps.tolist(), len(i)]:
        parts.append((i[done:jump], j[done:jump]))
        places[done:jump] = np.arange(size, size + jump - done)
        size += jump - done
        if jump:
            before = (int(i[jump - 1]), int(j[jump - 1]))
        after = (int(i[jump]), int(j[jump])) if jump < len(i) else (len(keep_x), len(keep_y))
        between = _between(before, after)
        parts.append(between)
        size += len(between[0])
        done = jump
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), places


def _between(before: tuple[int, int], after: tuple[int, int]) -> tuple[IntArray, IntArray]:
    """Return the elements of the intervals that were taken out between two elements: those of x, then those of y."""
    along = np.arange(before[0] + 1, after[0])
    low_y = max(before[1], 0)
    last_x = max(int(along[-1]) if len(along) else before[0], 0)
    first_y = low_y + 1 if len(along) and before[1] < 0 else before[1] + 1
    across = np.arange(first_y, after[1])
    i = np.concatenate((along, np.full(len(across), last_x)))
    j = np.concatenate((np.full(len(along), low_y), across))
    return i.astype(np.int64), j.astype(np.int64)
