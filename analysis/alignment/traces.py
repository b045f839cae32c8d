"""Alignment of traces: on which metrics, how they are scaled, through which anchors, and what is made of flat stretches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.flatness import flatness, neighbour_difference
from unperturbed.analysis.alignment.milestones import choose_anchors, milestone_anchors, milestone_positions
from unperturbed.analysis.alignment.pace import even_pace, path_through
from unperturbed.analysis.alignment.warp import FloatArray, IntArray, WarpPath, anchored_dtw
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError

__all__ = ["PENALTY_RULE", "Alignment", "align"]

_RANGE_PERCENT = (5, 95)
"""Range of values that scales a metric: wide enough to span a program's phases, blind to a single outlying interval."""

PENALTY_RULE = 4.0
"""The penalty that is picked, in median differences of neighbouring intervals."""

_MUCH_FLAT = 0.25
"""Share of flat intervals above which plain dynamic time warping is not to be trusted."""

_SHORTEST = 8
"""Path elements; a shorter stretch without transitions is not called flat."""

_SHARED = 0.75
"""Correlation along a path from which on two runs vary alike, and not by noise, though neither shows a transition of its own.
Noise that a path follows freely correlates up to .7."""

_WORK = "PAPI_TOT_INS"
"""The counter whose progress is taken as the work's where nothing else tells it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Alignment(WarpPath):
    """How two runs were aligned, and what there was to align them by.

    Attributes
    ----------
    method : `dtw`, or `milestones` for positions interpolated between a deterministic counter's milestones.
    on : metrics; scales : what each was divided by.
    penalty : of a step that is not diagonal, in scaled units.
    anchor : the counter whose milestones are the anchors, or the method's.
    flat : int64, shape (k, 2). First element, and the one after the last, of each stretch of `warped` without anything to align by.
    pace : what progresses evenly in flat stretches: a counter's name, or `time`; '' where they are warped as everything else.
    warped : the path of dynamic time warping before flat stretches were made even.
    """

    method: Literal["dtw", "milestones"]
    on: tuple[str, ...]
    scales: tuple[float, ...]
    penalty: float
    anchor: str | None
    flat: IntArray
    pace: str
    warped: WarpPath

    @property
    def flat_share(self) -> float:
        """Return the share of path elements in flat stretches."""
        return float((self.flat[:, 1] - self.flat[:, 0]).sum()) / len(self.warped)

    @property
    def longest_flat(self) -> int:
        """Return the length of the longest flat stretch [path elements]: as far may dynamic time warping stray."""
        return int((self.flat[:, 1] - self.flat[:, 0]).max(initial=0))

    @property
    def warning(self) -> str:
        """Return what is not to be trusted, '' when nothing speaks against the path."""
        if self.flat_share <= _MUCH_FLAT:
            return ""
        treated = (
            f"both runs are taken to progress evenly there ({self.pace})"
            if self.pace
            else "dynamic time warping follows noise there"
        )
        return (
            f"{' and '.join(self.on)} {'is' if len(self.on) == 1 else 'are'} flat but for noise along {self.flat_share:.0%} of the path, "
            f"for {self.longest_flat} intervals at most: {treated}, and the path may stray as far; anchors would hold it"
        )


def align(
    a: Trace,
    b: Trace,
    *,
    on: Sequence[str] = ("IPC",),
    method: Literal["dtw", "milestones"] = "dtw",
    anchor: str | None = None,
    budget: int | None = None,
    penalty: float | None = None,
    flat: Literal["even", "warped"] = "even",
    pace: str | None = None,
    band: int | None = None,
) -> Alignment:
    """Align two traces of one program.

    Parameters
    ----------
    a, b : traces of the same work.
    on : names of the metrics to align on, present in both; the paper's choice is IPC.
        Each is divided by one number for both traces, the range from the 5th to the 95th percentile of both traces' values
        taken together (their mean distance from the median where that is 0), so that metrics of different units weigh alike.
        Levels are not shifted: one metric alone is aligned as the paper does.
    method : `dtw` warps time; `milestones` interpolates between the milestones of `anchor`, and is the truth where these are dense.
    anchor : name of a counter of deterministic milestones, optional
        The nth milestone is the same work in both runs; see `milestone_anchors`.
    budget : how many milestones may serve as anchors, optional
        They are chosen by `choose_anchors`, mostly in flat stretches. None takes all.
    penalty : for each step that is not diagonal, in scaled units, optional
        None picks 4 times the median difference of neighbouring intervals, the mean of both traces: a step must bring more than noise
        does. 0 is the paper's.
    flat : `even` lets both runs progress evenly between the transitions and anchors around a flat stretch (`flatness`), as what
        happens within it is noise; `warped` leaves what dynamic time warping made of it, as the paper does.
    pace : a counter that progresses with the work, for `even`, optional
        None takes PAPI_TOT_INS where both traces have it, else time.
    band : intervals, optional
        As for `dtw`, between neighbouring anchors.

    Returns
    -------
    Alignment
        A WarpPath: `x_index` counts a's intervals, `y_index` b's.

    Raises
    ------
    DataError
        A metric is missing, not finite, or constant in both traces; the anchor counted differently in the two runs, or never.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation"; `penalty=0, flat="warped"` is theirs. Flat stretches and the choice
    of the penalty the paper leaves open; experiments/alignment evaluates both against its way.
    """
    names = tuple(on)
    x, y, scales = _scaled(a, b, names)
    rule = PENALTY_RULE * (neighbour_difference(x) + neighbour_difference(y)) / 2
    fine = rule if penalty is None else penalty
    aligned = partial(
        Alignment,
        method=method,
        on=names,
        scales=tuple(map(float, scales)),
        penalty=fine,
        anchor=anchor,
    )
    if method == "milestones":
        if anchor is None:
            raise DataError("aligning by milestones needs the name of their counter: give anchor")
        positions = milestone_positions(_counts(a, anchor), _counts(b, anchor), name=anchor)
        path = _path(x, y, path_through(positions, len(y)), fine)
        return aligned(**vars(path), flat=np.empty((0, 2), np.int64), pace="", warped=path)
    anchors = np.empty((0, 2), np.int64)
    if anchor is not None:
        anchors = milestone_anchors(_counts(a, anchor), _counts(b, anchor), name=anchor)
    moving_x, moving_y = flatness(x).transitions, flatness(y).transitions
    if budget is not None:
        anchors = choose_anchors(anchors, ~moving_x, ~moving_y, budget)
    cells = [(int(i), int(j)) for i, j in anchors]
    warped = anchored_dtw(x, y, cells, penalty=fine, band=band)
    # A path that is freer than the rule's finds likeness in noise, and cannot tell whether there is any.
    judge = warped if fine >= rule else anchored_dtw(x, y, cells, penalty=rule, band=band)
    is_flat = _flat_intervals(judge, x, y, moving_x[judge.x_index] | moving_y[judge.y_index] | _anchors_of(judge))
    loose = is_flat[warped.x_index] & ~_anchors_of(warped)
    loose[[0, -1]] = False
    stretches = np.flatnonzero(np.diff(loose)).reshape(-1, 2) + 1
    if flat == "warped":
        return aligned(**vars(warped), flat=stretches, pace="", warped=warped)
    pace_name, paces = _paces(a, b, pace)
    around = stretches - (1, 0)
    path = _path(x, y, even_pace(warped.x_index, warped.y_index, around, *paces), fine, warped.anchors)
    return aligned(**vars(path), flat=stretches, pace=pace_name, warped=warped)


def _flat_intervals(path: WarpPath, x: FloatArray, y: FloatArray, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark x's intervals in long stretches, between elements that are held, where the two runs have nothing in common."""
    held = held.copy()
    held[[0, -1]] = True
    flat = np.zeros(len(x), bool)
    for start, stop in (np.flatnonzero(np.diff(held)).reshape(-1, 2) + 1).tolist():
        if stop - start >= _SHORTEST:
            i, j = path.x_index[start:stop], path.y_index[start:stop]
            flat[i] = _agreement(x[i], y[j]) < _SHARED
    return flat


def _agreement(x: FloatArray, y: FloatArray) -> float:
    """Return the largest correlation, over metrics, of two runs along a path."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
    return float(np.divide((x * y).sum(axis=0), size, out=np.zeros_like(size), where=size > 0).max())


def _path(
    x: FloatArray, y: FloatArray, index: tuple[IntArray, IntArray], penalty: float, anchors: tuple[tuple[int, int], ...] = ()
) -> WarpPath:
    x_index, y_index = index
    bent = int(((np.diff(x_index) == 0) | (np.diff(y_index) == 0)).sum())
    cost = float(np.abs(x[x_index] - y[y_index]).sum()) + penalty * bent
    return WarpPath(x_index, y_index, cost, anchors)


def _anchors_of(path: WarpPath) -> NDArray[np.bool_]:
    """Mark the elements of a path that are anchors."""
    marks = np.zeros(len(path), bool)
    if path.anchors:
        # i + j grows with each element, so it tells the elements apart.
        marks[np.searchsorted(path.x_index + path.y_index, [i + j for i, j in path.anchors])] = True
    return marks


def _scaled(a: Trace, b: Trace, on: tuple[str, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both traces' metrics, each divided by one number for both, and these numbers."""
    if not on:
        raise DataError("no metric to align on: name at least one, such as IPC")
    x, y = a.values(on), b.values(on)
    for trace, rows in ((a, x), (b, y)):
        wrong = np.argwhere(~np.isfinite(rows))
        if len(wrong):
            row, column = (int(index) for index in wrong[0])
            raise DataError(
                f"metric {on[column]!r} of run {trace.attributes.get('run', '?')} is {rows[row, column]} in interval {row}: "
                "align on a metric that has a value in every interval"
            )
    scales = np.array([_scale(name, x[:, column], y[:, column]) for column, name in enumerate(on)])
    return x / scales, y / scales, scales


def _scale(name: str, x: FloatArray, y: FloatArray) -> float:
    values = np.sort(np.concatenate((x, y)))  # sorted, so that swapped traces give the same number to the last bit
    low, high = np.percentile(values, _RANGE_PERCENT)
    if high > low:
        return float(high - low)
    spread = float(np.abs(values - np.median(values)).mean())
    if spread == 0:
        raise DataError(f"metric {name!r} is {values[0]:g} in every interval of both runs: align on a metric that varies")
    return spread


def _paces(a: Trace, b: Trace, pace: str | None) -> tuple[str, tuple[FloatArray, FloatArray]]:
    """Return the name of what progresses evenly, and its progress at the middle of each interval of both runs."""
    if pace is None and not (_WORK in a.metrics and _WORK in b.metrics):
        of_a, of_b = (np.arange(len(trace), dtype=np.float64) for trace in (a, b))
        return "time", (of_a, of_b)
    name = pace or _WORK
    for trace in (a, b):
        if trace.metrics[name].semantics != "counter":
            raise DataError(f"metric {name!r} is a gauge, which does not progress: give a counter as the pace")
    of_a, of_b = (np.cumsum(trace.values([name])[:, 0]) - trace.values([name])[:, 0] / 2 for trace in (a, b))
    return name, (of_a, of_b)


def _counts(trace: Trace, anchor: str) -> IntArray:
    column = trace[anchor]
    if trace.metrics[anchor].semantics != "counter" or not np.issubdtype(column.dtype, np.integer):
        raise DataError(f"metric {anchor!r} is no event counter: anchor on a software metric that counts a milestone")
    return np.cumsum(column)
