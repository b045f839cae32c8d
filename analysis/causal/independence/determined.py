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
    Each row's value less that on the line between the row before and the row after it, by ranks, so that neither a few
    large values nor a scale decides and any rising curve is a line. For values without order its mean square is the
    variance times 1 + w² + (1 − w)², where w is how far between the two the row lies. The twentieth of the rows with the
    greatest squares is left out for jumps; rows that share a value are neighbours like others.
    """
    assert by.ranks is not None
    columns = own.scales if own.ranks is None else own.ranks[:, None]
    spread = np.mean((columns - columns.mean(axis=0)) ** 2, axis=0)
    order = np.lexsort((by.ranks, cells))
    at, values, cell = by.ranks[order], columns[order], cells[order]
    inside = (cell[:-2] == cell[1:-1]) & (cell[1:-1] == cell[2:])
    if inside.sum() < 1 / _JUMPS or not len(spread) or spread.min() <= 0:
        return 1.0
    width = at[2:] - at[:-2]
    share = np.divide(at[1:-1] - at[:-2], width, out=np.full(len(width), 0.5), where=width > 0)[:, None]
    apart = (values[1:-1] - (1 - share) * values[:-2] - share * values[2:]) ** 2 / (1 + share**2 + (1 - share) ** 2)
    apart = np.sort(apart[inside], axis=0)[: int(np.ceil((1 - _JUMPS) * inside.sum()))]
    return float((apart.mean(axis=0) / spread).max())
