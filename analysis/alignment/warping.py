"""Dynamic time warping of two runs: guided by progress, even in flat stretches, without stretches that moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.dtw.paths import WarpPath, anchored_dtw
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray
from unperturbed.analysis.alignment.flatness import even_pace, flat_elements, stretches_between_anchors
from unperturbed.analysis.alignment.milestones import choose_anchors
from unperturbed.analysis.alignment.moved import Keep, MovedStretch, absorb


@dataclass(frozen=True)
class WarpSettings:
    """Settings of dynamic time warping between anchors, as in `align`."""

    pace: str
    noise: float
    penalty: float
    rule: float  # The default penalty
    budget: int | None
    band: int | None
    evens: bool


_Path = tuple[WarpPath, tuple[IntArray, IntArray], IntArray]
"""Warped path, path with even flat stretches, and flat stretches of the warped path."""


def align_without(
    found: Sequence[MovedStretch],
    x: FloatArray,
    y: FloatArray,
    steps: tuple[FloatArray, FloatArray],
    anchors: IntArray,
    settings: WarpSettings,
) -> _Path:
    """Align what stays in place, and return paths through all intervals."""
    if not found:
        return _aligned(x, y, _progress_of(steps, settings), anchors, settings)
    keep_x, keep_y = np.ones(len(x), bool), np.ones(len(y), bool)
    for stretch in found:
        keep_x[stretch.x], keep_y[stretch.y] = False, False
    at_x, at_y = np.flatnonzero(keep_x), np.flatnonzero(keep_y)
    progress = _progress_of((steps[0][keep_x], steps[1][keep_y]), settings)
    warped, index, stretches = _aligned(x[keep_x], y[keep_y], progress, kept_anchors(anchors, keep_x, keep_y), settings)
    whole_i, whole_j, places = absorb(warped, keep_x, keep_y)
    i, j, _ = absorb(WarpPath(*index, 0.0), keep_x, keep_y)
    cells = [tuple((int(at_x[p]), int(at_y[q])) for p, q in part) for part in (warped.anchors, warped.dropped)]
    moved_to = np.column_stack((places[stretches[:, 0]], places[stretches[:, 1] - 1] + 1))
    cost = path_cost(x, y, whole_i, whole_j, settings.penalty)
    return WarpPath(whole_i, whole_j, cost, cells[0], cells[1]), (i, j), moved_to


def kept_anchors(anchors: IntArray, keep_x: Keep, keep_y: Keep) -> IntArray:
    """Return the anchors in intervals that stay, by the numbers that these have among themselves."""
    kept = anchors[keep_x[anchors[:, 0]] & keep_y[anchors[:, 1]]]
    return np.column_stack((np.cumsum(keep_x)[kept[:, 0]] - 1, np.cumsum(keep_y)[kept[:, 1]] - 1))


def _aligned(
    x: FloatArray, y: FloatArray, paces: tuple[FloatArray, FloatArray], anchors: IntArray, settings: WarpSettings
) -> _Path:
    """Align two runs by dynamic time warping between anchors, with an even pace in flat stretches."""

    def warp(anchors: IntArray, penalty: float) -> WarpPath:
        guided = _guided(x, y, paces, anchors, settings.noise) if settings.pace != "time" else (x, y)
        return anchored_dtw(*guided, anchors.tolist(), penalty=penalty, band=settings.band)

    if settings.budget is not None:
        anchors = choose_anchors(anchors, *_flat_intervals(warp(anchors[:0], settings.rule), x, y), settings.budget)
    warped = warp(anchors, settings.penalty)
    # A path with a smaller penalty than the rule's finds agreement in noise, so it cannot show what is flat.
    judge = warped if settings.penalty >= settings.rule else warp(anchors, settings.rule)
    stretches = stretches_between_anchors(warped, _flat_intervals(judge, x, y)[0][warped.x_index])
    index = (warped.x_index, warped.y_index)
    return warped, even_pace(*index, stretches - (1, 0), *paces) if settings.evens else index, stretches


def _flat_intervals(path: WarpPath, x: FloatArray, y: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the intervals of both runs that are only on flat path elements."""
    flat = flat_elements(path, x, y)
    marks = np.ones(len(x), bool), np.ones(len(y), bool)
    for mark, index in zip(marks, (path.x_index, path.y_index), strict=True):
        mark[index[~flat]] = False
    return marks


def path_cost(x: FloatArray, y: FloatArray, x_index: IntArray, y_index: IntArray, penalty: float) -> float:
    """Return the cost of a path: distances in the metrics, plus penalties."""
    bent = int(((np.diff(x_index) == 0) | (np.diff(y_index) == 0)).sum())
    return float(np.abs(x[x_index] - y[y_index]).sum()) + penalty * bent


def _guided(
    x: FloatArray, y: FloatArray, paces: tuple[FloatArray, FloatArray], anchors: IntArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Add progress as a column to both runs, weighted to make a deviation of one interval cost as much as noise."""
    intervals = (len(x) + len(y)) / 2
    totals = [pace[-1] for pace in paces]
    of_x, of_y = (pace / total * intervals for pace, total in zip(paces, totals, strict=True))
    # Between anchors, both runs progress equally by definition, even if one of them does extra work there.
    of_y = np.interp(of_y, [0, *of_y[anchors[:, 1]], intervals], [0, *of_x[anchors[:, 0]], intervals])
    # If a run does all extra work at one point, its progress half-way is off by up to a quarter of the difference.
    off = 1 + abs(totals[0] - totals[1]) / max(totals) * intervals / 4 / (len(anchors) + 1)
    weight = noise / off
    return np.column_stack((x, of_x * weight)), np.column_stack((y, of_y * weight))


def _progress_of(steps: tuple[FloatArray, FloatArray], settings: WarpSettings) -> tuple[FloatArray, FloatArray]:
    """Return both runs' progress at the middle of each interval."""
    if settings.pace == "time":
        return np.arange(len(steps[0]), dtype=np.float64), np.arange(len(steps[1]), dtype=np.float64)
    of_x, of_y = (np.cumsum(step) - step / 2 for step in steps)
    return of_x, of_y
