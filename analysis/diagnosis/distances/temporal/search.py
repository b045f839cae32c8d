"""The cheapest way through the cells of the temporal distance: its cost, and itself in linear memory."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.distances.temporal.cells import Cells

_LOG = logging.getLogger("unperturbed.analysis.diagnosis")

_WHOLE_CELLS = 1 << 20
"""A part of so many cells is recorded, at a byte a cell."""

_FIRST_BAND, _WIDER = 1024, 8
_WORTH_A_BAND = 1 << 26
"""Cells from which on it is first tried whether a band is enough; it costs at most a seventh more where none is."""

_WORTH_A_WORD = 1 << 38
"""Cells that take about a minute."""


@dataclass(frozen=True)
class Found:
    """What a search found."""

    saved: int  # The most that matches save, in units of cost
    cells: Cells  # In which this is found; those searched, if only a band was
    exact: bool  # No way outside the band can be cheaper

    @property
    def cost(self) -> float:
        """What the cheapest way costs, rounded once."""
        return float((self.cells.weights - 2 * self.saved) * self.cells.unit / 2)


def search(cells: Cells, band: int | None) -> Found:
    """Return what is saved at most, in a band or, without one, in all cells.

    A way that leaves the band |column − row| ≤ band (wider by the difference in length) holds at least band + 1
    deletions and as many insertions, beside those that the difference in length asks for. Where the cheapest way inside
    costs no more than they do it is the cheapest of all. Without a band, bands that widen are tried before all cells
    are: two long traces that differ little take time in proportion to their length (cf. Wu et al., the paper's
    reference [13]).
    """
    rows, columns = cells.shape
    if band is not None:
        return _search_band(cells, band)
    if rows * columns >= _WORTH_A_BAND:
        width = _FIRST_BAND
        while 2 * width * rows < rows * columns // _WIDER:
            found = _search_band(cells, width)
            if found.exact:
                return found
            width *= _WIDER
        if rows * columns >= _WORTH_A_WORD:
            _LOG.info(
                "comparing %s × %s events, which takes minutes; a band, or plugins alone, takes less",
                f"{rows:,}",
                f"{columns:,}",
            )
    return Found(_saved(cells), cells, True)


def _search_band(cells: Cells, band: int) -> Found:
    rows, columns = cells.shape
    within = cells.within((min(0, columns - rows) - band, max(0, columns - rows) + band))
    found = Found(_saved(within), within, False)
    leaving = cells.lightest * (2 * band + 2 + abs(columns - rows))
    cost = (cells.weights - 2 * found.saved) * cells.unit / 2
    covers_all = band >= min(rows, columns) - 1
    return Found(found.saved, within, covers_all or cost <= leaving)


def _saved(cells: Cells) -> int:
    """Return what is saved at most; what both ends match at no cost is not searched."""
    inner, ends = _inner(cells)
    saved = sum(int(cells.reach[rows].sum()) for rows, _ in ends)
    if min(inner.shape):
        saved += int(inner.saved()[-1])
    return saved


def _inner(cells: Cells) -> tuple[Cells, list[tuple[slice, slice]]]:
    """Return the cells between the ends that match at no cost, and these ends as rows and columns.

    An event that matches the one at the same end at no cost saves all it can: whatever else one of both were matched
    with could be exchanged for it.
    """
    rows, columns = cells.shape
    start = cells.same_at_the_start()
    rest = cells.part(slice(start, rows), slice(start, columns))
    end = rest.same_at_the_end()
    inner = cells.part(slice(start, rows - end), slice(start, columns - end))
    return inner, [(slice(0, start), slice(0, start)), (slice(rows - end, rows), slice(columns - end, columns))]


def best_matches(found: Found) -> NDArray[np.int64]:
    """Return rows and columns that match on a way that saves most: int64, shape (matches, 2).

    Hirschberg's way: where the cheapest way crosses the middle row is known from what the rows above save with the
    first columns and those below with the last ones. Memory is linear, and each cell is computed twice on average.
    """
    cells = found.cells
    column_of = np.full(cells.shape[0], -1, dtype=np.int64)
    _divide(cells, 0, cells.shape[0], 0, cells.shape[1], column_of)
    rows = np.flatnonzero(column_of >= 0)
    matches = np.column_stack((rows, column_of[rows]))
    saved = int((cells.reach[rows] - cells.costs(matches[:, 0], matches[:, 1])).sum())
    if saved != found.saved:
        raise AssertionError(
            f"the script saves {saved} and the distance {found.saved}: a fault of this program; please report it"
        )
    return matches


def _divide(cells: Cells, top: int, bottom: int, left: int, right: int, column_of: NDArray[np.int64]) -> None:
    """Write the columns that match the rows from top to bottom among those from left to right."""
    parts = [(top, bottom, left, right)]
    rows, columns = cells.shape
    while parts:
        top, bottom, left, right = parts.pop()
        inner, ends = _inner(cells.part(slice(top, bottom), slice(left, right)))
        for end_rows, end_columns in ends:
            column_of[top + end_rows.start : top + end_rows.stop] = np.arange(
                left + end_columns.start, left + end_columns.stop
            )
        top, left = top + ends[0][0].stop, left + ends[0][1].stop
        bottom, right = top + inner.shape[0], left + inner.shape[1]
        if top == bottom or left == right:
            continue
        if bottom - top == 1 or (bottom - top) * (right - left) <= _WHOLE_CELLS:
            found = inner.matched()
            column_of[top:bottom] = np.where(found >= 0, found + left, -1)
            continue
        middle = (top + bottom) // 2
        above = cells.part(slice(top, middle), slice(left, right)).saved()
        below = cells.backwards.part(
            slice(rows - bottom, rows - middle), slice(columns - right, columns - left)
        ).saved()
        crossing = left + int((above + below[::-1]).argmax())
        parts += [(top, middle, left, crossing), (middle, bottom, crossing, right)]
