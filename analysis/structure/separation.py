"""Whether two classes lie apart: between their middles there must be a valley.

A skewed or flat-topped cloud of values is told in fewer bits as two classes than as one, though nothing divides it. Classes are asked to
be divided.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["VALLEY_BITS", "valley_bits"]

VALLEY_BITS = 4.0
"""What a valley must save to be one. Six values in the smaller class and none between are enough."""

_PLACES = 9
"""Where the valley is looked for, evenly over the middle half of the way."""


def valley_bits(one: NDArray[np.float64], other: NDArray[np.float64], variances: NDArray[np.float64]) -> float:
    """Return how many bits it saves to tell the emptiest place between two classes from the emptier one's middle.

    Parameters
    ----------
    one, other : float64, shape (n, metrics) and (m, metrics)
        Values of the classes, none of them empty.
    variances : float64, shape (metrics,)
        What both spread by; positive.

    Returns
    -------
    float
        With a values in the emptiest window between the classes' medians and b in a window around the emptier median, a < b:
        (a + b)·(1 − H(a / (a + b))) − log₂(a + b) / 2, what a code with a frequency of its own saves over one without. −1 where a ≥ b.

    Notes
    -----
    Values are projected on Fisher's line through both medians; a window is a quarter of the way. With one class in truth, the density
    between two points is never below that of both, so nothing is saved but by chance.
    """
    across = (np.median(other, axis=0) - np.median(one, axis=0)) / variances
    places = [np.sort(values @ across) for values in (one, other)]
    low, high = (float(np.median(place)) for place in places)
    if not high > low:
        return -1.0
    width = (high - low) / 4
    ordered = np.sort(np.concatenate(places))

    def held(centres: NDArray[np.float64]) -> NDArray[np.int64]:
        first = np.searchsorted(ordered, centres - width / 2, "left")
        return np.searchsorted(ordered, centres + width / 2, "right") - first

    top = int(held(np.array([low, high])).min())
    bottom = int(held(np.linspace(low + width, high - width, _PLACES)).min())
    return _saved(bottom, top) if bottom < top else -1.0


def _saved(bottom: int, top: int) -> float:
    both = bottom + top
    share = bottom / both
    entropy = -sum(part * math.log2(part) for part in (share, 1 - share) if part > 0)
    return both * (1 - entropy) - math.log2(both) / 2
