"""Compiled loops of the temporal distance and of blocks.

If e_i ≠ f_j, the diagonal step of definition 4 costs a deletion and an insertion, like the two other steps together. So
a distance is the cost of all deletions and insertions, less the savings of matches. The *saving* of a matching cell is
w(e_i) + w(f_j) less its cost in time, and at least 0. The maximum saving of the first i and the first j events is

    s(i, j) = max(s(i − 1, j), s(i, j − 1), s(i − 1, j − 1) + saving(i, j)).

All numbers are integers (`Cells` chooses their unit), so all algorithms give identical results.

`dense` computes all cells on vectors, by anti-diagonals of a strip of rows. It carries differences, v(i, j) =
s(i, j) − s(i − 1, j) and h(i, j) = s(i, j) − s(i, j − 1), which are between 0 and the largest saving however long the
traces are, and so usually fit 32 bits:

    z = max(h(i − 1, j), v(i, j − 1), saving(i, j));   v(i, j) = z − h(i − 1, j);   h(i, j) = z − v(i, j − 1).

v is kept for each row and h for each column, and the columns are reversed: then the cells of an anti-diagonal are
neighbours in all arrays, and the loop over them can be vectorised. Cells outside a band or a window of time save
nothing and are left out.

`sparse` visits only matching cells, row by row, with the running maxima of a Fenwick tree over the columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unperturbed.analysis.compiling import compilable
from unperturbed.common.extras import load_library

Dict, int64 = load_library("numba.typed").Dict, load_library("numba").int64

_ROWS = 1024
"""Rows of a strip: seven 32-bit arrays of this length fit an L1 cache of 32 KiB."""

DELETED, INSERTED, MATCHED = 0, 1, 2


@compilable
def _compute_cells(h: Any, v: Any, kinds: Any, values: Any, reach: Any, other_kinds: Any, other_values: Any) -> None:
    """Compute adjacent cells of an anti-diagonal; results are cast, because numba widens them to 64 bits."""
    cell = h.dtype.type
    for at in range(len(h)):
        above, before = h[at], v[at]
        difference = cell(values[at] - other_values[at])
        saving = cell(reach[at] - max(difference, cell(-difference)))
        best = saving if kinds[at] == other_kinds[at] else cell(0)
        best = max(best, above, before)
        v[at] = cell(best - above)
        h[at] = cell(best - before)


@compilable
def _bounds(values: Any, low: int, high: int) -> Any:
    """Return where non-decreasing values reach `low`, and where they exceed `high`."""
    return np.searchsorted(values, low, "left"), np.searchsorted(values, high, "right")


@compilable
def _window(
    values: Any, other_values: Any, top: int, height: int, most: int, own: Any, shift: int, band: Any, ordered: bool
) -> Any:
    """Return a strip's smallest and largest value, and the range of columns that can match its rows."""
    least, largest = values[top], values[top]
    for row in range(top, top + height):
        least, largest = min(least, values[row]), max(largest, values[row])
    columns = len(other_values)
    first, end = 0, columns
    if ordered:
        first, end = _bounds(other_values, least - most, largest + most)
        if len(own):
            first, end = min(first, top + shift), max(end, top + height + shift)
    first = min(max(first, top + band[0], 0), columns)
    end = max(min(end, top + height + band[1], columns), first)
    return least, largest, first, end


@compilable
def _extend_savings(h: Any, v: Any, end: int, known: int) -> None:
    """Carry the savings of a strip's last column over columns after its window, until they equal the rows above."""
    cell, columns = h.dtype.type, len(h)
    saved = np.int64(0)
    for row in range(len(v)):
        saved += v[row]
    column = end
    while saved > 0 and column < known:
        at = columns - 1 - column
        caught = min(saved, np.int64(h[at]))
        h[at] = cell(h[at] - caught)
        saved -= caught
        column += 1


def dense(
    kinds: Any,
    values: Any,
    reach: Any,
    other_kinds: Any,
    other_values: Any,
    own: Any,
    shift: int,
    band: Any,
    ordered: bool,
    h: Any,
) -> int:
    """Compute the maximum saving of all rows with the first j columns, for each j; return the number of cells computed.

    `Cells` describes the arguments; `own` is empty if no cell has its own cost. The range of values in one strip, plus
    twice the largest reach, fits the type of `h`.
    `h`: int32 or int64, shape (columns,). Zeros, to be filled with the differences s(rows, j) − s(rows, j − 1), the
    last column first.
    """
    rows, columns = len(kinds), len(other_kinds)
    cell = h.dtype.type
    most = reach.max()
    v, x, reach_x = np.empty(_ROWS, h.dtype), np.empty(_ROWS, h.dtype), np.empty(_ROWS, h.dtype)
    y = np.empty(columns, h.dtype)
    f = other_kinds[::-1].copy()
    computed, known = 0, 0
    # Before each strip, h contains the differences of the row above it; they are correct up to column `known`. Values
    # are relative to the strip's smallest value, so they fit the cells' type.
    for top in range(0, rows, _ROWS):
        height = min(_ROWS, rows - top)
        least, largest, first, end = _window(values, other_values, top, height, most, own, shift, band, ordered)
        origin, widest = least - most, largest - least + 2 * most
        e = kinds[top : top + height]
        for row in range(height):
            v[row], x[row], reach_x[row] = cell(0), cell(values[top + row] - origin), cell(reach[top + row])
        for column in range(first, end):
            y[columns - 1 - column] = cell(min(max(other_values[column] - origin, 0), widest))
        for step in range(first, end + height - 1):  # row r of the strip is in column step − r
            # Column − row is step − 2 r − top: the band excludes rows at both ends.
            upper = max(0, step - end + 1, -((band[1] + top - step) // 2))
            lower = min(height, step - first + 1, (step - top - band[0]) // 2 + 1)
            if upper >= lower:
                continue
            base = columns - 1 - step
            # The diagonal column − row = shift, whose cells cost `own`, crosses every second anti-diagonal.
            row = (step - top - shift) >> 1
            crosses = len(own) > 0 and (step - top - shift) & 1 == 0 and upper <= row < lower
            above, before = cell(0), cell(0)
            if crosses:
                above, before = h[base + row], v[row]
            _compute_cells(
                h[base + upper : base + lower],
                v[upper:lower],
                e[upper:lower],
                x[upper:lower],
                reach_x[upper:lower],
                f[base + upper : base + lower],
                y[base + upper : base + lower],
            )
            computed += lower - upper
            if crosses:  # that cell again, with its own cost
                saving = max(reach[top + row] - own[top + row], 0) if e[row] == f[base + row] else 0
                best = max(above, before, cell(saving))
                v[row], h[base + row] = cell(best - above), cell(best - before)
        _extend_savings(h, v[:height], end, known)
        known = max(known, end)
    return computed


@compilable
def _columns_by_type(kinds: Any, types: int) -> Any:
    """Return the columns sorted by type, and the index at which each type begins."""
    starts = np.zeros(types + 1, np.int64)
    for kind in kinds:
        if kind < types:
            starts[kind + 1] += 1
    for kind in range(types):
        starts[kind + 1] += starts[kind]
    columns, free = np.empty(starts[types], np.int64), starts.copy()
    for column in range(len(kinds)):
        kind = kinds[column]
        if kind < types:
            columns[free[kind]] = column
            free[kind] += 1
    return columns, starts


@compilable
def _most_before(tree: Any, column: int) -> Any:
    """Return the maximum in a Fenwick tree over the columns before `column`."""
    most: Any = np.int64(0)
    at = column
    while at > 0:
        most = max(most, tree[at])
        at &= at - 1
    return most


@compilable
def _raise_from(tree: Any, column: int, most: int) -> None:
    """Raise the maxima in a Fenwick tree to at least `most`, from a column on."""
    at = column + 1
    while at < len(tree) and tree[at] < most:
        tree[at] = most
        at += at & -at


def sparse(
    kinds: Any,
    values: Any,
    reach: Any,
    other_kinds: Any,
    other_values: Any,
    own: Any,
    shift: int,
    band: Any,
    ordered: bool,
) -> Any:
    """Compute the savings s(rows, j) for j = 0 … columns from matching cells only: int64, shape (columns + 1,)."""
    rows, columns = len(kinds), len(other_kinds)
    columns_of, starts = _columns_by_type(other_kinds, kinds.max() + 1)
    values_of = other_values[columns_of]
    # After a row, tree[…] has the prefix maxima of s(row, ·), and reached[j + 1] the maximum saving of a path that ends
    # in column j.
    tree, reached = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.int64)
    special: Any
    for row in range(rows):
        kind = kinds[row]
        begin, end = starts[kind], starts[kind + 1]
        special = row + shift if len(own) else -1
        low, high = _bounds(columns_of[begin:end], row + band[0], row + band[1])
        begin, end = begin + low, begin + high
        if ordered:
            low, high = _bounds(values_of[begin:end], values[row] - reach[row], values[row] + reach[row])
            if 0 <= special < columns and other_kinds[special] == kind and band[0] <= shift <= band[1]:
                place = np.searchsorted(columns_of[begin:end], special)
                low, high = min(low, place), max(high, place + 1)
            begin, end = begin + low, begin + high
        for place in range(end - 1, begin - 1, -1):  # the last column first: matches of one row must not add up
            column = columns_of[place]
            cost = own[row] if column == special else abs(values[row] - values_of[place])
            if cost < reach[row]:
                most = _most_before(tree, column) + reach[row] - cost
                reached[column + 1] = max(reached[column + 1], most)
                _raise_from(tree, column, most)
    for column in range(columns):
        reached[column + 1] = max(reached[column + 1], reached[column])
    return reached


def useful_matches(kinds: Any, values: Any, reach: Any, other_kinds: Any, other_values: Any) -> Any:
    """Count cells whose row and column have the same type, and of these the cells that save cost.

    Columns must be sorted by type, then by value.
    """
    matching, useful = 0, 0
    for row in range(len(kinds)):
        begin, end = _bounds(other_kinds, kinds[row], kinds[row])
        matching += end - begin
        low, high = _bounds(other_values[begin:end], values[row] - reach[row] + 1, values[row] + reach[row] - 1)
        useful += max(high - low, 0)
    return matching, useful


def steps(
    kinds: Any,
    values: Any,
    reach: Any,
    other_kinds: Any,
    other_values: Any,
    own: Any,
    shift: int,
    band: Any,
    matched: Any,
) -> Any:
    """Find a path with the maximum saving, in one byte for each cell, and return its saving.

    `matched`: int64, shape (rows,). Filled with the column of each row, −1 for deleted rows. Among paths with the same
    saving, the one whose matches are nearest to the end is chosen.
    """
    rows, columns = len(kinds), len(other_kinds)
    # Needleman–Wunsch on savings: row_above[j + 1] is the maximum saving of rows 0 … i − 1 with columns 0 … j, `before`
    # is row i's value to the left, and `corner` the value above `before`. `came` has each cell's last step, to trace
    # the path back.
    came = np.empty((rows, columns), np.uint8)
    row_above = np.zeros(columns + 1, np.int64)
    nothing: Any = np.int64(0)
    for i in range(rows):
        corner, before = nothing, nothing
        for j in range(columns):
            above = row_above[j + 1]
            saving = nothing
            if kinds[i] == other_kinds[j] and band[0] <= j - i <= band[1]:
                cost = own[i] if len(own) and j - i == shift else abs(values[i] - other_values[j])
                saving = max(reach[i] - cost, nothing)
            best, step = above, DELETED
            if before > best:
                best, step = before, INSERTED
            if saving > 0 and corner + saving >= best:
                best, step = corner + saving, MATCHED
            came[i, j] = step
            corner, before = above, best
            row_above[j + 1] = best
    saved = row_above[columns]
    i, j = rows - 1, columns - 1
    matched[:] = -1
    while i >= 0 and j >= 0:
        step = came[i, j]
        if step == MATCHED:
            matched[i] = j
        if step != INSERTED:
            i -= 1
        if step != DELETED:
            j -= 1
    return saved


@compilable
def _count(counts: Any, first: Any, second: Any, more: int) -> None:
    """Add to the count of a pair, unless one of the two is the end of a trace."""
    if first >= 0 and second >= 0:
        key = (np.int64(first) << 32) | np.int64(second)
        counts[key] = counts.get(key, np.int64(0)) + more


def recurring_pairs(tokens: Any, types: int, longest: int, most: int) -> Any:
    """Replace the most frequent pair of neighbours with a new token while this shortens the description (Re-Pair).

    The description is all tokens and the two tokens of each rule, each at log₂ of the number of different tokens.
    `tokens` (int32) has event types from 0 on, and −1 after each trace; it is overwritten.
    Result: int32, shape (rules, 2). The pair that each token from `types` on represents.
    """
    rules = np.empty((most, 2), np.int32)
    lengths = np.ones(types + most, np.int64)
    counts = Dict.empty(int64, int64)
    size, present = len(tokens), 0
    for at in range(size):
        present += tokens[at] >= 0
        if at + 1 < size:
            _count(counts, tokens[at], tokens[at + 1], 1)
    made = 0
    # Each iteration replaces the most frequent pair. The counts in the table remain correct: replacing a pair changes
    # only the pairs with the tokens before and after it.
    while made < most:
        best, best_count = np.int64(-1), np.int64(0)
        for key, count in counts.items():
            better = count > best_count or (count == best_count and key < best)
            if count > 0 and better and lengths[key >> 32] + lengths[key & 0xFFFFFFFF] <= longest:
                best, best_count = key, count
        different, described = types + made, present + 2 * made
        shorter = (described - best_count + 2) * math.log2(different + 1)
        if best < 0 or shorter >= described * math.log2(max(different, 2)):
            break
        first, second, new = np.int32(best >> 32), np.int32(best & 0xFFFFFFFF), np.int32(types + made)
        rules[made, 0], rules[made, 1] = first, second
        lengths[new] = lengths[first] + lengths[second]
        written, at = 0, 0
        while at < size:
            if at + 1 < size and tokens[at] == first and tokens[at + 1] == second:
                before = tokens[written - 1] if written else np.int32(-1)
                after = tokens[at + 2] if at + 2 < size else np.int32(-1)
                _count(counts, before, first, -1)
                _count(counts, before, new, 1)
                _count(counts, second, after, -1)
                _count(counts, new, after, 1)
                tokens[written] = new
                present -= 1
                at += 2
            else:
                tokens[written] = tokens[at]
                at += 1
            written += 1
        size = written
        counts[best] = np.int64(0)
        made += 1
    return rules[:made]


def cover(events: Any, types: int, edges: Any, targets: Any, block_of: Any) -> Any:
    """Cut a trace into the fewest blocks and single events; among equally few, the first block is the longest.

    `edges`: int64. Sorted edges of a prefix tree of the blocks, with the root 0: node × types + event. `targets`
    (int32) has the target node of each edge, `block_of` (int32) the block that ends at each node, or −1.
    Result: int64, int32, shape (blocks,). The index of each block's first event, and the block, −1 for a single event.
    """
    size = len(events)
    fewest, taken, chosen = np.zeros(size + 1, np.int64), np.ones(size, np.int64), np.full(size, -1, np.int32)
    # From the end: fewest[start] is the smallest number of pieces for the events from `start` on, and taken[start] is
    # the length of the first piece. The prefix tree gives all blocks that begin there; a longer block replaces a
    # shorter one that is equally good.
    for start in range(size - 1, -1, -1):
        fewest[start] = fewest[start + 1] + 1
        node, at = np.int64(0), start
        while at < size:
            edge = node * types + events[at]
            place = np.searchsorted(edges, edge)
            if place == len(edges) or edges[place] != edge:
                break
            node, at = np.int64(targets[place]), at + 1
            if block_of[node] >= 0 and fewest[at] + 1 <= fewest[start]:
                fewest[start], taken[start], chosen[start] = fewest[at] + 1, at - start, block_of[node]
    starts, blocks = np.empty(fewest[0], np.int64), np.empty(fewest[0], np.int32)
    at = 0
    for number in range(fewest[0]):
        starts[number], blocks[number] = at, chosen[at]
        at += taken[at]
    return starts, blocks
