"""Where two runs have nothing in common that an alignment could hold on to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment.warp import FloatArray, WarpPath

__all__ = ["LEAST_AGREEMENT", "agreement", "flat_elements"]

WINDOW = 33
"""Path elements over which the runs' agreement is looked at."""

LEAST_AGREEMENT = 0.6
"""Correlation below which two runs have nothing in common: that of noise with noise in a window is as high once in thousands."""

SHORTEST = 8
"""Path elements; a shorter stretch is not called flat."""


def agreement(x: FloatArray, y: FloatArray) -> FloatArray:
    """Correlate two runs along a path, window by window.

    Parameters
    ----------
    x, y : float64, shape (elements, metrics)
        Both runs' values at each element of a path.

    Returns
    -------
    float64, shape (elements,)
        Pearson's correlation over the 33 elements around each, of that metric in which it is largest; 0 where one does not vary.
    """
    elements = len(x)
    half = WINDOW // 2
    starts, stops = np.maximum(np.arange(elements) - half, 0), np.minimum(np.arange(elements) + half + 1, elements)
    counts = (stops - starts)[:, None]

    def means(values: FloatArray) -> FloatArray:
        sums = np.vstack((np.zeros(values.shape[1]), np.cumsum(values, axis=0)))
        return np.asarray((sums[stops] - sums[starts]) / counts, np.float64)

    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    mean_x, mean_y = means(x), means(y)
    spread_x, spread_y = means(x * x) - mean_x**2, means(y * y) - mean_y**2
    # Sums of many values differ in their last bits where the values are equal.
    varies = (spread_x > 1e-12 * (x * x).max(axis=0)) & (spread_y > 1e-12 * (y * y).max(axis=0))
    joint = np.sqrt(np.where(varies, spread_x * spread_y, 1.0))
    return np.asarray(np.where(varies, (means(x * y) - mean_x * mean_y) / joint, 0.0).max(axis=1), np.float64)


def flat_elements(path: WarpPath, x: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    """Mark the elements of a path along which two runs have nothing in common.

    Parameters
    ----------
    path : an alignment that does not follow noise: one with a penalty.
    x, y : float64, shape (n, metrics) and (m, metrics).

    Returns
    -------
    bool, shape (elements,)
        True in stretches of at least 8 elements without agreement. An anchor, and the ends, are no part of any.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 5.2, see that flat segments with slight variations lead dynamic
    time warping astray, and leave open when a segment is flat. One run alone cannot tell: what looks like a transition may happen in this
    run only, and what looks like noise may come again in every run. So a stretch is called flat when the two runs do not vary alike.
    """
    flat = agreement(x[path.x_index], y[path.y_index]) < LEAST_AGREEMENT
    flat[[0, -1]] = False
    if path.anchors:
        # i + j grows with each element, so it tells the elements apart.
        flat[np.searchsorted(path.x_index + path.y_index, [i + j for i, j in path.anchors])] = False
    for start, stop in np.flatnonzero(np.diff(flat)).reshape(-1, 2) + 1:
        if stop - start < SHORTEST:
            flat[start:stop] = False
    return flat
