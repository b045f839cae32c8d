"""How much of a variable a single number leaves open, whatever the form of the curve: by neighbours.

A regression on a few columns cannot say that n determines #op, nor that #op determines n: what it misses of a curve looks
like something left. Rows that are neighbours in n have nearly the same #op if, and only if, there is nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.features import Features

__all__ = ["unexplained_by_neighbours"]

Floats = NDArray[np.float64]

_JUMPS = 0.05
"""Share of the rows at which a curve may jump."""


def unexplained_by_neighbours(own: Features, by: Features, cells: NDArray[np.int64]) -> float:
    """Return the share of a variable's variance that is left between neighbours.

    Parameters
    ----------
    own : Features
        Of the variable; a discrete one is taken as its indicators.
    by : Features
        Of the continuous variable that it may be a function of.
    cells : int64, shape (rows,)
        Only rows of one cell are neighbours.

    Notes
    -----
    The greater of two. Where rows share a value of the continuous variable: their squares about their mean. And the mean of
    each value less that on the line between the value before and the value after it, by ranks, so that neither a few large
    values nor a scale decides and any rising curve is a line. For values without order its mean square is the variance times
    1 + w² + (1 − w)², where w is how far between the two the value lies. The twentieth of the greatest squares is left out for
    jumps. Both are needed: repetitions of points that were drawn at random agree in all parameters, and yet n does not determine
    the datatype. Where the variable has too few values for lines, what they share decides alone.
    """
    assert by.ranks is not None
    columns = own.scales if own.ranks is None else own.ranks[:, None]
    spread = np.mean((columns - columns.mean(axis=0)) ** 2, axis=0)
    if not len(spread) or spread.min() <= 0:
        return 1.0
    order = np.lexsort((by.ranks, cells))
    at, values, cell = by.ranks[order], columns[order], cells[order]
    starts = np.flatnonzero(np.r_[True, (at[1:] != at[:-1]) | (cell[1:] != cell[:-1])])
    counts = np.diff(np.r_[starts, len(at)])
    means = np.add.reduceat(values, starts, axis=0) / counts[:, None]
    shares = [
        _least(squares) / spread
        for squares in (_about_means(values, means, counts), _about_lines(at[starts], means, cell[starts]))
        if len(squares) >= 1 / _JUMPS
    ]
    return float(np.max(shares)) if shares else 1.0


def _about_means(values: Floats, means: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the squares, about their means, of rows that share a value; their mean is the variance where values have no order."""
    many = np.repeat(counts, counts)
    shared = many > 1
    left = (values - np.repeat(means, counts, axis=0))[shared]
    return left**2 * (many / np.maximum(many - 1, 1))[shared, None]


def _about_lines(at: Floats, means: Floats, cell: NDArray[np.int64]) -> Floats:
    """Return the squares of means less those on the line between both neighbours, for values that have two in their cell."""
    if len(at) < 3:
        return np.zeros((0, means.shape[1]))
    inside = (cell[:-2] == cell[1:-1]) & (cell[1:-1] == cell[2:])
    width = at[2:] - at[:-2]
    share = np.divide(at[1:-1] - at[:-2], width, out=np.full(len(width), 0.5), where=width > 0)[:, None]
    apart = (means[1:-1] - (1 - share) * means[:-2] - share * means[2:]) ** 2 / (1 + share**2 + (1 - share) ** 2)
    return np.asarray(apart[inside])


def _least(squares: Floats) -> Floats:
    """Return the mean of each column's squares but the greatest."""
    return np.asarray(np.sort(squares, axis=0)[: int(np.ceil((1 - _JUMPS) * len(squares)))].mean(axis=0))
