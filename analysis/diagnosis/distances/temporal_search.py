"""Cells of the temporal distance as integers, and the cheapest path through them, in linear memory.

V and the weights are converted to simple fractions (0.3 is 3/10), and the unit of cost is the largest that divides V
and all 2 w(e). Times are multiplied by V in this unit; the cost of a match is then the difference of two numbers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.compiling import compiled
from unperturbed.analysis.diagnosis.events import EventTrace, EventType, shared_ids
from unperturbed.errors import DataError

Variant = Literal["gaps", "paper", "mannila"]

_Whole = NDArray[np.int64]
_Kinds = NDArray[np.int32]

_MODULE = "unperturbed.analysis.diagnosis.distances.kernels"
_EVENTS = "const int32[::1], const int64[::1], const int64[::1], const int32[::1], const int64[::1]"
_DENSE = f"{_EVENTS}, const int64[::1], int64, const int64[::1], boolean"
_SPARSE = (_DENSE,)
_STEPS = (f"{_EVENTS}, const int64[::1], int64, const int64[::1], int64[::1]",)
_STRIP_ROWS = 1024
"""The same as `_ROWS` in `kernels`; importing that module would load the compiler."""

_LARGEST = 1 << 61
"""Upper bound of sums of costs; twice this bound fits an int64."""

_LARGEST_NARROW = (1 << 31) - 1

_DENSE_S, _MATCHING_S, _USEFUL_S = 0.22e-9, 1.2e-9, 25e-9
"""Seconds for a cell on vectors, a cell of equal types, and a cell that saves cost; used to select an algorithm."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Matrix of cells: rows are events of the reference, columns are events of the trace."""

    # kinds, values: (rows,): Types of the events, and their times or inter-event times in units of cost: a match costs
    # the difference of two values. other_kinds, other_values: (columns,): The same for the trace.
    kinds: _Kinds
    values: _Whole
    reach: _Whole  # (rows,): 2 w(e) of each row's event
    other_kinds: _Kinds
    other_values: _Whole
    own: _Whole  # (rows,): The cost, instead, of a match with the column of the same index plus `shift`
    weights: int  # Twice the cost of deleting all rows and inserting all columns
    unit: Fraction  # The unit of cost, in the unit of the user's weights
    lightest: Fraction  # The smallest weight of all events, in the unit of the user's weights
    ordered: bool  # Whether values never decrease
    narrow: bool  # Whether differences fit 32 bits
    band: tuple[int, int]  # The smallest and the largest column − row that can match
    is_sparse: bool = False  # Whether visiting only the matching cells is faster than computing all cells
    shift: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.kinds), len(self.other_kinds)

    @cached_property
    def backwards(self) -> Cells:
        """The cells in reverse order; times are negated, so they never decrease."""
        rows, columns = self.shape
        low, high = self.band
        return replace(
            self,
            kinds=self.kinds[::-1].copy(),
            values=np.ascontiguousarray(-self.values[::-1]),
            reach=self.reach[::-1].copy(),
            other_kinds=self.other_kinds[::-1].copy(),
            other_values=np.ascontiguousarray(-self.other_values[::-1]),
            own=self.own[::-1].copy(),
            band=(columns - rows - high, columns - rows - low),
            shift=columns - rows - self.shift,
        )

    def part(self, rows: slice, columns: slice) -> Cells:
        """Return the cells of a range of rows and columns."""
        moved = columns.start - rows.start
        return replace(
            self,
            kinds=self.kinds[rows],
            values=self.values[rows],
            reach=self.reach[rows],
            other_kinds=self.other_kinds[columns],
            other_values=self.other_values[columns],
            own=self.own[rows],
            band=(self.band[0] - moved, self.band[1] - moved),
            shift=self.shift - moved,
        )

    @property
    def _arguments(self) -> tuple[Any, ...]:
        band = np.array(self.band, dtype=np.int64)
        return self.kinds, self.values, self.reach, self.other_kinds, self.other_values, self.own, self.shift, band

    def saved(self) -> _Whole:
        """Return the maximum saving of all rows with the first j columns: int64, shape (columns + 1,)."""
        if self.is_sparse:
            saved: _Whole = compiled(_MODULE, "sparse", _SPARSE)(*self._arguments, self.ordered)
            return saved
        cell = "int32" if self.narrow else "int64"
        differences = np.zeros(self.shape[1], dtype=cell)
        compiled(_MODULE, "dense", (f"{_DENSE}, {cell}[::1]",))(*self._arguments, self.ordered, differences)
        return np.concatenate(([0], np.cumsum(differences[::-1], dtype=np.int64)))

    def matched(self) -> _Whole:
        """Return the column of each row, or −1: int64, shape (rows,); memory is one byte for each cell."""
        columns = np.empty(self.shape[0], dtype=np.int64)
        compiled(_MODULE, "steps", _STEPS)(*self._arguments, columns)
        return columns

    def costs(self, rows: _Whole, columns: _Whole) -> _Whole:
        """Return the costs of matches between rows and columns of equal types."""
        costs: _Whole = np.abs(self.values[rows] - self.other_values[columns])
        if len(self.own):
            costs = np.where(columns - rows == self.shift, self.own[rows], costs)
        return costs

    def same_at_the_start(self) -> int:
        """Return how many leading rows match the column of the same index at no cost; some best path has them."""
        if not self.band[0] <= 0 <= self.band[1]:
            return 0
        both = np.arange(min(self.shape))
        differs = (self.kinds[both] != self.other_kinds[both]) | (self.costs(both, both) > 0)
        return int(differs.argmax()) if differs.any() else len(both)


def cells_of(
    reference: EventTrace,
    trace: EventTrace,
    weight_of: Mapping[EventType, Fraction],
    move_cost: Fraction,
    variant: Variant,
) -> Cells:
    """Return the cells of two traces."""
    types, (kinds, other_kinds) = shared_ids((reference, trace))
    weights = [weight_of[kind] for kind in types]
    times, other_times = (run.timestamps if variant == "mannila" else run.since_start for run in (reference, trace))
    gaps, other_gaps = np.diff(times, prepend=times[:1]), np.diff(other_times, prepend=other_times[:1])
    same_number = min(len(kinds), len(other_kinds))
    own = np.abs(gaps[:same_number] - other_gaps[:same_number]) if variant == "paper" else gaps[:0]
    values, other_values = (gaps, other_gaps) if variant == "gaps" else (times, other_times)
    occurring = np.bincount(np.concatenate((kinds, other_kinds)), minlength=len(weights))
    unit, tick, reach = _whole_costs(weights, move_cost, _span(values, other_values), int(occurring.sum()))
    reach_of = np.array(reach, dtype=np.int64)
    origin = min(values[:1].tolist() + other_values[:1].tolist(), default=0)
    values, other_values, own = (values - origin) * tick, (other_values - origin) * tick, own * tick
    # A common divisor of everything makes numbers smaller: timestamps in ns are often whole µs.
    present = reach_of[occurring > 0]
    apart = np.diff(values), np.diff(other_values), own, present, values[:1] - other_values[:1]
    divisor = int(np.gcd.reduce(np.concatenate(apart)))
    if divisor > 1:
        start = values[0] if len(values) else 0
        values, other_values, own = (values - start) // divisor, (other_values - start) // divisor, own // divisor
        reach_of, present, unit = reach_of // divisor, present // divisor, unit * divisor
    widest = int(present.max(initial=0))
    if variant == "gaps":
        values, other_values = _without_holes(values, other_values, widest)
    ordered = variant != "gaps"
    if variant == "paper":
        own = np.pad(own, (0, len(kinds) - len(own)))
    cells = Cells(
        kinds,
        np.ascontiguousarray(values),
        reach_of[kinds],
        other_kinds,
        np.ascontiguousarray(other_values),
        own,
        int(reach_of[kinds].sum() + reach_of[other_kinds].sum()),
        unit,
        min((weight for weight, number in zip(weights, occurring, strict=True) if number), default=Fraction(0)),
        ordered,
        _strip_span(values, other_values, ordered) + 2 * widest < _LARGEST_NARROW,
        (-len(kinds), len(other_kinds)),
    )
    return replace(cells, is_sparse=_is_sparse(cells))


def _span(values: _Whole, other_values: _Whole) -> int:
    both = np.concatenate((values, other_values))
    return int(np.ptp(both)) if len(both) else 0


def _strip_span(values: _Whole, other_values: _Whole, ordered: bool) -> int:
    """Return the maximum difference between values in one strip of rows."""
    if not ordered:
        return _span(values, other_values)
    last = np.minimum(np.arange(len(values)) + _STRIP_ROWS - 1, len(values) - 1)
    return int((values[last] - values).max(initial=0))


def _whole_costs(
    weights: list[Fraction], move_cost: Fraction, span: int, events: int
) -> tuple[Fraction, int, list[int]]:
    """Return the unit of cost, and in that unit the cost of a tick and of deleting and inserting each type."""
    costs = [move_cost, *(2 * weight for weight in weights)]
    denominator = math.lcm(*(cost.denominator for cost in costs))
    numerators = [int(cost * denominator) for cost in costs]
    divisor = math.gcd(*numerators) or 1
    unit = Fraction(divisor, denominator)

    def largest(unit: Fraction) -> Fraction:
        return max(move_cost * span, 2 * max(weights, default=Fraction(0)) * max(events, 1)) / unit

    if largest(unit) >= _LARGEST:  # too fine: a tick costs a smaller integer, and weights are rounded
        coarse = unit * largest(unit) / (_LARGEST >> 1)
        unit = move_cost / (move_cost // coarse) if move_cost >= coarse else coarse
    whole = [round(cost / unit) for cost in costs]
    if move_cost and not whole[0]:
        raise DataError(
            f"moving an event by one tick costs {float(move_cost):g}, and events have weights up to "
            f"{float(max(weights)):g}; these numbers differ too much for traces of {events:,} events over {span:,} "
            "ticks: use a larger `move_cost` or a coarser unit of time"
        )
    return unit, whole[0], whole[1:]


def _without_holes(values: _Whole, other_values: _Whole, widest: int) -> tuple[_Whole, _Whole]:
    """Return values with the same differences below `widest`; larger differences, which no match spans, are reduced.

    Otherwise one long pause would make all numbers large.
    """
    distinct, places = np.unique(np.concatenate((values, other_values)), return_inverse=True)
    closer = np.concatenate(([0], np.cumsum(np.minimum(np.diff(distinct), widest))))[: len(distinct)].astype(np.int64)
    both = closer[places]
    return both[: len(values)], both[len(values) :]


def _is_sparse(cells: Cells) -> bool:
    """Return whether visiting only matching cells is faster, from the estimated times of all methods."""
    rows, columns = cells.shape
    if not rows or not columns:
        return False
    types = int(max(cells.kinds.max(), cells.other_kinds.max())) + 1
    row_counts, column_counts = (np.bincount(kinds, minlength=types) for kinds in (cells.kinds, cells.other_kinds))
    dense = _DENSE_S * (1 if cells.narrow else 2) * _cells_in_windows(cells)
    matching = float(np.dot(row_counts.astype(float), column_counts.astype(float)))
    if _USEFUL_S * matching < dense:
        return True
    if not cells.ordered and _MATCHING_S * matching > dense:
        return False
    by_type = np.lexsort((cells.other_values, cells.other_kinds))
    count: Callable[..., tuple[int, int]] = compiled(_MODULE, "useful_matches", (_EVENTS,))
    met, useful = count(cells.kinds, cells.values, cells.reach, cells.other_kinds[by_type], cells.other_values[by_type])
    return _USEFUL_S * useful + (0 if cells.ordered else _MATCHING_S * met) < dense


def _cells_in_windows(cells: Cells) -> float:
    rows, columns = cells.shape
    if not cells.ordered:
        return float(rows) * columns
    top = np.arange(0, rows, _STRIP_ROWS)
    last = np.minimum(top + _STRIP_ROWS, rows) - 1
    widest = cells.reach.max()
    first = np.searchsorted(cells.other_values, cells.values[top] - widest)
    end = np.searchsorted(cells.other_values, cells.values[last] + widest, side="right")
    if len(cells.own):
        first, end = np.minimum(first, top), np.maximum(end, np.minimum(last + 1, columns))
    return float(((last - top + 1) * np.maximum(end - first, 0)).sum())


_LOG = logging.getLogger("unperturbed.analysis.diagnosis")

_WHOLE_CELLS = 1 << 20
"""Maximum number of cells of a part whose steps are recorded, in one byte for each cell."""

_FIRST_BAND, _WIDER = 1024, 8
_WORTH_A_BAND = 1 << 26
"""Number of cells from which bands are tried first; if none is sufficient, they cost at most a seventh more."""

_WORTH_A_WORD = 1 << 38
"""Number of cells from which a message is logged; they take about a minute."""


@dataclass(frozen=True)
class CheapestPath:
    """Result of a search, without the path itself."""

    saved: int  # The maximum saving of matches, in units of cost
    cells: Cells  # The searched cells, which may be a band
    exact: bool  # Whether no path outside the band can be cheaper

    @property
    def cost(self) -> float:
        """The path's cost, rounded once."""
        return float((self.cells.weights - 2 * self.saved) * self.cells.unit / 2)


def search(cells: Cells, band: int | None) -> CheapestPath:
    """Return the cheapest path in a band or, without a band, in all cells.

    A path that leaves the band |column − row| ≤ band (wider by the difference in length) has at least band + 1 more
    deletions and as many more insertions; a path inside that costs no more is the cheapest of all. Without a band,
    wider and wider bands are tried before all cells: traces that differ little take time proportional to their length
    (cf. Wu et al., the paper's reference [13]).
    """
    rows, columns = cells.shape
    if band is not None:
        return _search_band(cells, band)
    if rows * columns >= _WORTH_A_BAND:
        width = _FIRST_BAND
        while 2 * width * rows < rows * columns // _WIDER:
            path = _search_band(cells, width)
            if path.exact:
                return path
            width *= _WIDER
        if rows * columns >= _WORTH_A_WORD:
            text = "comparing %s × %s events, which takes minutes; a band, or comparing plugins only, is faster"
            _LOG.info(text, f"{rows:,}", f"{columns:,}")
    return CheapestPath(_saved(cells), cells, True)


def _search_band(cells: Cells, band: int) -> CheapestPath:
    rows, columns = cells.shape
    within = replace(cells, band=(min(0, columns - rows) - band, max(0, columns - rows) + band))
    saved = _saved(within)
    leaving = cells.lightest * (2 * band + 2 + abs(columns - rows))
    covers_all = band >= min(rows, columns) - 1
    return CheapestPath(saved, within, covers_all or (cells.weights - 2 * saved) * cells.unit / 2 <= leaving)


def _saved(cells: Cells) -> int:
    """Return the maximum saving; the two ends, which match at no cost, are not searched."""
    inner, start, end = _inner(cells)
    saved = int(cells.reach[:start].sum()) + int(cells.reach[cells.shape[0] - end :].sum())
    return saved + (int(inner.saved()[-1]) if min(inner.shape) else 0)


def _inner(cells: Cells) -> tuple[Cells, int, int]:
    """Return the cells between the two ends that match at no cost, and the lengths of these ends."""
    rows, columns = cells.shape
    start = cells.same_at_the_start()
    end = cells.part(slice(start, rows), slice(start, columns)).backwards.same_at_the_start()
    return cells.part(slice(start, rows - end), slice(start, columns - end)), start, end


def best_matches(path: CheapestPath) -> NDArray[np.int64]:
    """Return rows and columns of the matches on a path with the maximum saving: int64, shape (matches, 2).

    Hirschberg's algorithm: the savings of the upper rows with the first columns, and of the lower rows with the last
    columns, show where the path crosses the middle row. Memory is linear, and each cell is computed twice on average.
    """
    cells = path.cells
    rows, columns = cells.shape
    column_of = np.full(rows, -1, dtype=np.int64)
    parts = [(0, rows, 0, columns)]
    # Some cheapest path passes through all remaining parts, and has the matches in `column_of` between them.
    while parts:
        top, bottom, left, right = parts.pop()
        inner, start, end = _inner(cells.part(slice(top, bottom), slice(left, right)))
        column_of[top : top + start] = np.arange(left, left + start)
        column_of[bottom - end : bottom] = np.arange(right - end, right)
        top, left, bottom, right = top + start, left + start, bottom - end, right - end
        if top == bottom or left == right:
            continue
        if bottom - top == 1 or (bottom - top) * (right - left) <= _WHOLE_CELLS:
            matched = inner.matched()
            column_of[top:bottom] = np.where(matched >= 0, matched + left, -1)
            continue
        middle = (top + bottom) // 2
        above = cells.part(slice(top, middle), slice(left, right)).saved()
        mirrored = slice(rows - bottom, rows - middle), slice(columns - right, columns - left)
        below = cells.backwards.part(*mirrored).saved()
        crossing = left + int((above + below[::-1]).argmax())
        parts += [(top, middle, left, crossing), (middle, bottom, crossing, right)]
    matching = np.flatnonzero(column_of >= 0)
    matches = np.column_stack((matching, column_of[matching]))
    saved = int((cells.reach[matching] - cells.costs(matches[:, 0], matches[:, 1])).sum())
    if saved != path.saved:
        raise AssertionError(
            f"the edit script saves {saved} units of cost, but the distance was computed with a saving of "
            f"{path.saved}: this is a bug in unperturbed; please report it"
        )
    return matches
