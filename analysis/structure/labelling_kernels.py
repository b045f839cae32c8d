"""The compiled loop that finds the cheapest classes of all elements together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.extending import register_jitable

__all__ = ["cheapest_labels"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compilable(function: _Function) -> _Function:
    marked: _Function = register_jitable(function)
    return marked


def cheapest_labels(
    values: Any, told: Any, costs: Any, odd: float, changes: Any, between: Any, variances: Any, peaks: Any, freedom: float
) -> tuple[Any, Any, Any, float]:
    """Return the classes of all elements that cost the fewest bits together.

    Parameters
    ----------
    values : float64, shape (n, axes)
        Elements along the classes' axes.
    told : bool, shape (n,)
        False where an element tells nothing.
    costs : float64, shape (n, k)
        Of each element in each class.
    odd : float
        Of an element that is like none of its class.
    changes : float64, shape (k, k)
        Of going from one class to another, or staying.
    between : float64, shape (k, k, places, axes)
        Mixtures of two classes, from the first to the second.
    variances, peaks : float64, shape (k, k, axes) and (k, k)
        Of mixtures, and what one costs that lies on a place; infinite where elements are not taken for mixtures.
    freedom : of Student's t distribution.

    Returns
    -------
    labels : int64, shape (n,)
        A mixture has the class that it holds more of.
    mixed : bool, shape (n,)
    bits : float64, shape (n,)
        What each element costs in its class, or as a mixture.
    total : float
        What all cost, and the changes. Odd elements count as such.

    Notes
    -----
    Viterbi's recursion with one step more: the first i elements that end in class b cost

        c(i, b) = min(costs(i, b), odd) + min over a of changes(a, b) + min(c(i − 1, a), c(i − 2, a) + mixture(i − 1, a, b)).

    Ties go to the class of the lower number, and to no mixture. O(n k² places axes).
    """
    n, classes = costs.shape
    came = np.zeros((n, classes), np.int16)
    place = np.full((n, classes), -1, np.int16)
    # What the elements up to the last one, the one before it, and this one cost at least, by the class of the last of them.
    earlier, before, now = np.full(classes, np.inf), np.minimum(costs[0], odd), np.empty(classes)
    for i in range(1, n):
        for b in range(classes):
            least = np.inf
            for a in range(classes):
                spent = before[a] + changes[a, b]
                if spent < least:
                    least, came[i, b], place[i, b] = spent, a, -1
                # A mixture's own bits are computed only where they could still pay.
                if a == b or not told[i - 1] or earlier[a] + changes[a, b] + peaks[a, b] >= least:
                    continue
                where, taken = _mixture(values[i - 1], between[a, b], variances[a, b], peaks[a, b], freedom)
                spent = earlier[a] + changes[a, b] + taken
                if spent < least:
                    least, came[i, b], place[i, b] = spent, a, where
            now[b] = least + min(costs[i, b], odd)
        earlier, before, now = before, now, earlier
    labels = np.empty(n, np.int64)
    mixed = np.zeros(n, np.bool_)
    bits = np.empty(n)
    i, b = n - 1, int(np.argmin(before))
    while i >= 0:
        labels[i], bits[i] = b, costs[i, b]
        a, where = came[i, b], place[i, b]
        if i > 0 and where >= 0:
            i -= 1
            mixed[i] = True
            labels[i] = a if 2 * where + 1 <= between.shape[2] else b
            _, bits[i] = _mixture(values[i], between[a, b], variances[a, b], peaks[a, b], freedom)
        i -= 1
        b = a
    return labels, mixed, bits, np.min(before)


@_compilable
def _mixture(value: Any, places: Any, variances: Any, peak: float, freedom: float) -> tuple[int, float]:
    """Return the place of mixtures of two classes that an element is nearest to, and what it costs there."""
    nearest, where = np.inf, 0
    for at in range(len(places)):
        away = 0.0
        for axis in range(len(value)):
            apart = value[axis] - places[at, axis]
            away += apart * apart / variances[axis]
        if away < nearest:
            nearest, where = away, at
    return where, peak + (freedom + len(value)) / 2 * np.log2(1 + nearest / freedom)
