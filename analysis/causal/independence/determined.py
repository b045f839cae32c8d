"""How much of a variable a single number leaves open, whatever the form of the curve: by neighbours.

A regression on a few columns cannot say that n determines #op, nor that #op determines n: what it misses of a curve looks
like something left. Rows that are neighbours in n have nearly the same #op if, and only if, there is nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.independence.features import Features

__all__ = ["Neighbours", "neighbours_in"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_JUMPS = 0.05
"""Share of the rows at which a curve may jump."""


@dataclass(frozen=True)
class Neighbours:
    """Rows that are neighbours in a continuous variable, within cells.

    Attributes
    ----------
    order : int64, shape (rows,)
        Rows in the order of the cells and, in each, of the variable.
    starts, counts : int64, shape (values,)
        Where the rows of each value begin in that order, and how many they are.
    inside : int64, shape (any,)
        Values that have a neighbour on either side in their cell.
    share : float64, shape (any, 1)
        How far each of these lies between its neighbours, from 0 to 1.
    """

    order: Places
    starts: Places
    counts: Places
    inside: Places
    share: Floats

    @property
    def bytes(self) -> int:
        """How much memory it holds."""
        return 8 * (len(self.order) + 2 * len(self.starts) + 2 * len(self.inside))

    def unexplained(self, own: Features) -> float:
        """Return the share of a variable's variance that is left between neighbours.

        Parameters
        ----------
        own : Features
            Of the variable; a discrete one is taken as its indicators.

        Notes
        -----
        The greater of two. Where rows share a value of the continuous variable: their squares about their mean. And the mean of
        each value less that on the line between the value before and the value after it, by ranks, so that neither a few large
        values nor a scale decides and any rising curve is a line. For values without order its mean square is the variance times
        1 + w² + (1 − w)², where w is how far between the two the value lies. The twentieth of the greatest squares is left out for
        jumps. Both are needed: repetitions of points that were drawn at random agree in all parameters, and yet n does not determine
        the datatype. Where the variable has too few values for lines, what they share decides alone.
        """
        columns = own.scales if own.ranks is None else own.ranks[:, None]
        spread = np.mean((columns - columns.mean(axis=0)) ** 2, axis=0)
        if not len(spread) or spread.min() <= 0:
            return 1.0
        values = columns[self.order]
        means = np.add.reduceat(values, self.starts, axis=0) / self.counts[:, None]
        shares = [
            _least(squares) / spread
            for squares in (self._about_means(values, means), self._about_lines(means))
            if len(squares) >= 1 / _JUMPS
        ]
        return float(np.max(shares)) if shares else 1.0

    def _about_means(self, values: Floats, means: Floats) -> Floats:
        """Return the squares, about their means, of rows that share a value; their mean is the variance where values have no order."""
        if len(self.starts) == len(self.order):
            return values[:0]
        many = np.repeat(self.counts, self.counts)
        shared = many > 1
        left = (values - np.repeat(means, self.counts, axis=0))[shared]
        return np.asarray(left**2 * (many / np.maximum(many - 1, 1))[shared, None])

    def _about_lines(self, means: Floats) -> Floats:
        """Return the squares of means less those on the line between both neighbours, for values that have two in their cell."""
        at, share = self.inside, self.share
        apart = means[at] - (1 - share) * means[at - 1] - share * means[at + 1]
        return np.asarray(apart**2 / (1 + share**2 + (1 - share) ** 2))


def neighbours_in(by: Features, cells: NDArray[np.int64]) -> Neighbours:
    """Find which rows are neighbours.

    Parameters
    ----------
    by : Features
        Of the continuous variable that others may be functions of.
    cells : int64, shape (rows,)
        Only rows of one cell are neighbours.
    """
    assert by.ranks is not None
    order = np.lexsort((by.ranks, cells))
    at, cell = by.ranks[order], cells[order]
    starts = np.flatnonzero(np.concatenate(([True], (at[1:] != at[:-1]) | (cell[1:] != cell[:-1]))))
    counts = np.diff(np.append(starts, len(at)))
    at, cell = at[starts], cell[starts]
    inside = 1 + np.flatnonzero((cell[:-2] == cell[1:-1]) & (cell[1:-1] == cell[2:]))
    width = at[inside + 1] - at[inside - 1]
    share = np.divide(at[inside] - at[inside - 1], width, out=np.full(len(width), 0.5), where=width > 0)[:, None]
    return Neighbours(order, starts, counts, inside, share)


def _least(squares: Floats) -> Floats:
    """Return the mean of each column's squares but the greatest."""
    return np.asarray(np.sort(squares, axis=0)[: int(np.ceil((1 - _JUMPS) * len(squares)))].mean(axis=0))
