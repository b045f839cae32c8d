"""Warp paths in little memory: some rows and columns of the matrix are kept, and cells between them are recomputed.

The matrix is cut into strips of rows, and each strip into tiles of steps (`lanes` explains steps). The forward pass
keeps the last row of every strip, and the state of the strip at the beginning of every tile. The backward pass
recomputes only the tiles that the path crosses, with two bits for each cell that encode its cheapest predecessor. With
strips and tiles of order √n, memory and the number of recomputed cells grow with n^1.5. A matrix that is one tile is
computed once.

`kernels` compiles the functions of this module.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unperturbed.analysis.alignment.dtw.lanes import LANES_BYTES, advance, advance_in_band, record, record_in_band
from unperturbed.analysis.compiling import compilable

_MOST_ROWS = 1024
"""Rows of a strip that fit the L1 cache: 16 bytes each, for x and for the cost."""

_STRIP_ROWS, _TILE_STEPS = 3.0, 6.0
"""In units of √n, for a matrix not recorded at once: 4 √n · n bytes are kept; about 9 of √n cells are recomputed."""


class _Matrix(NamedTuple):
    """Inputs of the cost matrix, and its division into strips and tiles."""

    x: Any  # (n, metrics)
    y: Any  # (m, metrics)
    y_reversed: Any  # (metrics, m + 2 lanes), the first and the last column repeated at the ends
    penalty: Any
    unreached: Any  # a number above the cost of any path
    left: int  # the band: the least and the largest column − row
    right: int
    banded: bool
    lanes: int
    height: int  # rows of a lane
    strips: int
    steps: int  # of the longest strip
    whole: bool  # recorded at once
    tile: int  # steps of a tile


class _Strip(NamedTuple):
    """Rows, columns and steps of a strip."""

    top: int  # its first row
    height: int  # rows of a lane
    first: int  # columns
    last: int
    steps: int  # until its last row has been in its last column


class _Work(NamedTuple):
    """Working memory that all strips reuse."""

    x_lanes: Any
    above: Any
    state: Any


# Loops instead of slice assignments: with each assignment, numba compiles the message of a shape error, which takes a
# second.
@compilable
def _copy(source: Any, target: Any) -> None:
    for at in range(len(source)):
        target[at] = source[at]


@compilable
def _fill(target: Any, value: Any) -> None:
    for at in range(len(target)):
        target[at] = value


@compilable
def _divided(n: int, rows: int, lanes: int) -> tuple[int, int]:
    """Return the number of rows in a lane and the number of strips, for equal strips of about `rows` rows."""
    even = -(-n // -(-n // max(rows, lanes)))
    height = -(-even // lanes)
    return height, -(-n // (height * lanes))


@compilable
def _partition(x: Any, y: Any, penalty: Any, band: int, unreached: Any, most_recorded: int) -> _Matrix:
    """Divide the matrix for a path; record at most `most_recorded` cells at once; −1: compute only the cost."""
    n, m = x.shape[0], y.shape[0]
    lanes = LANES_BYTES // x.itemsize
    left, right = min(0, m - n) - band, max(0, m - n) + band
    banded = left > 1 - n or right < m - 1
    rows = _MOST_ROWS
    if banded:  # a strip spans the width of the band plus one column for each row
        rows = min(rows, (right - left) // 2)
    height, strips = _divided(n, rows, lanes)
    steps = min(m, height * lanes + right - left) + lanes
    whole = strips * height * lanes * steps <= most_recorded
    tile = steps
    if not whole and most_recorded >= 0:
        height, strips = _divided(n, min(rows, int(_STRIP_ROWS * math.sqrt(n))), lanes)
        steps = min(m, height * lanes + right - left) + lanes
        tile = max(lanes, int(_TILE_STEPS * math.sqrt(m)))
    y_reversed = np.empty((y.shape[1], m + 2 * lanes), y.dtype)
    for metric in range(y.shape[1]):
        for at in range(m + 2 * lanes):
            y_reversed[metric, at] = y[min(max(m - 1 + lanes - at, 0), m - 1), metric]
    return _Matrix(x, y, y_reversed, penalty, unreached, left, right, banded, lanes, height, strips, steps, whole, tile)


@compilable
def _strip(matrix: _Matrix, number: int) -> _Strip:
    n, m = matrix.x.shape[0], matrix.y.shape[0]
    top = number * matrix.height * matrix.lanes
    rows = min(matrix.height * matrix.lanes, n - top)
    height = -(-rows // matrix.lanes)
    first, last = max(0, top + matrix.left), min(m - 1, top + rows - 1 + matrix.right)
    return _Strip(top, height, first, last, last - first + 1 + (rows - 1) // height)


@compilable
def _allocate(matrix: _Matrix) -> _Work:
    rows, kind = matrix.height * matrix.lanes, matrix.x.dtype
    return _Work(
        np.empty((matrix.x.shape[1], rows), kind), np.empty(matrix.steps, kind), np.empty(rows + 2 * matrix.lanes, kind)
    )


@compilable
def _begin_strip(matrix: _Matrix, number: int, kept: Any, work: _Work) -> _Strip:
    """Prepare the first step of a strip: its rows of x, the costs reached in the row above, and its state."""
    strip, lanes, n = _strip(matrix, number), matrix.lanes, matrix.x.shape[0]
    for metric in range(matrix.x.shape[1]):
        for lane in range(lanes):
            for row in range(strip.height):
                x_row = min(strip.top + lane * strip.height + row, n - 1)
                work.x_lanes[metric, row * lanes + lane] = matrix.x[x_row, metric]
    _fill(work.above, matrix.unreached)
    _fill(work.state, matrix.unreached)
    if number == 0:
        work.state[0] = 0
        return strip
    before = _strip(matrix, number - 1)
    row_above = kept[(number - 1) % kept.shape[0]]
    delay = lanes - 1 - before.first
    for column in range(strip.first, min(strip.last, before.last) + 1):
        work.above[column - strip.first] = row_above[column + delay]
    if strip.first > before.first:
        work.state[0] = row_above[strip.first - 1 + delay]
    return strip


@compilable
def _advance(
    matrix: _Matrix, strip: _Strip, work: _Work, begin: int, steps: int, last_row: Any, codes: Any, recording: bool
) -> None:
    """Compute some steps of a strip; keep the costs of its last row and, if recording, each cell's best predecessor."""
    origin = matrix.y.shape[0] - 1 + matrix.lanes - strip.first - begin
    depth = strip.first + begin - strip.top - matrix.left
    extent = matrix.right - matrix.left
    arrays = (work.state, work.x_lanes, matrix.y_reversed, work.above[begin:], last_row[begin:], codes)
    numbers = (strip.height, steps, origin, depth, extent, matrix.penalty, matrix.unreached)
    if matrix.banded and recording:
        record_in_band(arrays, numbers)
    elif matrix.banded:
        advance_in_band(arrays, numbers)
    elif recording:
        record(arrays, numbers)
    else:
        advance(arrays, numbers)


@compilable
def _reached(matrix: _Matrix, strip: _Strip, work: _Work, row: int) -> Any:
    """Return the cost that the strip has reached in a row."""
    lane, depth = (row - strip.top) // strip.height, (row - strip.top) % strip.height
    return work.state[(2 + depth) * matrix.lanes + lane]


@compilable
def _forward(matrix: _Matrix, work: _Work, kept: Any, states: Any, codes: Any) -> None:
    """Record all cells if they fit; else compute all tiles but the last, and keep their last rows and states."""
    for number in range(matrix.strips):
        strip = _begin_strip(matrix, number, kept, work)
        for begin in range(0, strip.steps, matrix.tile):
            steps = min(matrix.tile, strip.steps - begin)
            if not matrix.whole:
                _copy(work.state, states[number, begin // matrix.tile])
                if number + 1 == matrix.strips and begin + steps == strip.steps:
                    return
            _advance(matrix, strip, work, begin, steps, kept[number], codes[number % len(codes)], matrix.whole)


@compilable
def _walk(matrix: _Matrix, strip: _Strip, codes: Any, begin: int, cell: Any, path: Any, at: int) -> Any:
    """Write the path backwards from a cell until it leaves the tile; return the next cell and its index in the path."""
    i, j = cell
    lanes, height = matrix.lanes, strip.height
    lane, row = (i - strip.top) // height, (i - strip.top) % height
    step = j - strip.first + lane - begin
    # A byte has one bit for each of eight lanes: whether the best step is not diagonal. A later byte has bits whether
    # it is along y.
    while True:
        path[0, at], path[1, at] = i, j
        at -= 1
        if i == 0 and j == 0:
            return i, j, at
        place = (step * height + row) * (lanes // 4) + (lane >> 3)
        straight = (codes[place] >> (lane & 7)) & 1 == 0
        along_y = not straight and (codes[place + lanes // 8] >> (lane & 7)) & 1 == 1
        if straight or along_y:
            j -= 1
            step -= 1
        if not along_y:
            i -= 1
            row -= 1
            if row < 0:
                row = height - 1
                lane -= 1
                step -= 1
        if step < 0 or lane < 0:
            return i, j, at


@compilable
def _trace(x: Any, y: Any, penalty: Any, band: int, unreached: Any, most_recorded: int, path: Any, at: int) -> Any:
    """Write the cheapest path backwards, its last cell at `at`; return its cost and the index before its first cell."""
    matrix = _partition(x, y, penalty, band, unreached, most_recorded)
    work = _allocate(matrix)
    recorded = matrix.strips if matrix.whole else 1
    codes = np.empty((recorded, min(matrix.steps, matrix.tile) * matrix.height * matrix.lanes // 4), np.uint8)
    kept = np.empty((matrix.strips, matrix.steps), x.dtype)
    tiles = 0 if matrix.whole else -(-matrix.steps // matrix.tile)
    states = np.empty((matrix.strips, tiles, len(work.state)), x.dtype)
    _forward(matrix, work, kept, states, codes)
    i, j = x.shape[0] - 1, y.shape[0] - 1
    number = matrix.strips - 1
    strip, begin, cost = _strip(matrix, number), 0, unreached
    # Backwards, tile by tile: recompute the tile of cell (i, j) from its kept state, recording predecessors, and
    # follow them to the cell before the tile. In a matrix that was recorded at once, each strip is one tile.
    if matrix.whole:
        cost = _reached(matrix, strip, work, i)
    spare = np.empty(0 if matrix.whole else matrix.steps, x.dtype)  # for a last row that is already known
    while True:
        if not matrix.whole:
            step = j - strip.first + (i - strip.top) // strip.height
            begin = step // matrix.tile * matrix.tile
            _copy(states[number, step // matrix.tile], work.state)
            _advance(matrix, strip, work, begin, step + 1 - begin, spare, codes[0], True)
            if i + 1 == x.shape[0] and j + 1 == y.shape[0]:
                cost = _reached(matrix, strip, work, i)
        if not cost < unreached:  # the differences overflow: there is no path to follow
            return cost, at
        i, j, at = _walk(matrix, strip, codes[number % recorded], begin, (i, j), path, at)
        if path[0, at + 1] == 0 and path[1, at + 1] == 0:
            return cost, at
        if i < strip.top:
            number -= 1
            strip = _strip(matrix, number) if matrix.whole else _begin_strip(matrix, number, kept, work)


@compilable
def _sum(x: Any, y: Any, penalty: Any, path: Any) -> float:
    """Return the cost of a path, summed in the same order as in the matrix, so both agree to the last bit."""
    total = 0.0
    for at in range(path.shape[1]):
        i, j = path[0, at], path[1, at]
        if at > 0 and (path[0, at - 1] == i or path[1, at - 1] == j):
            total += penalty
        cost = 0.0
        for metric in range(x.shape[1]):
            cost += abs(x[i, metric] - y[j, metric])
        total += cost
    return total


def path_through(x: Any, y: Any, corners: Any, penalty: Any, band: int, unreached: Any, most_recorded: int) -> Any:
    """Return the cheapest path through corners, its cost, and a segment that fails the check of costs (−1: none).

    `x`, `y`: array of float64 or int32, shape (n, metrics), (m, metrics). Contiguous.
    `corners`: array of int64, shape (segments + 1, 2). From (0, 0) to (n − 1, m − 1), never decreasing.
    `penalty`: Penalty of a step that is not diagonal, of x's type.
    `band`: Band of each segment; at most n + m.
    `unreached`: A number above the cost of any path, of x's type; twice this number does not overflow.
    `most_recorded`: A matrix of up to this many cells is computed once, with a quarter of a byte kept for each cell.
    Result `path`: array of int64, shape (2, elements). Indices of x and y.
    Result `cost`: Infinite if the differences overflow.
    Result `segment`: Index of a segment where the cost summed along the path differs from the matrix's cost; −1 if
    there is none.
    """
    path = np.empty((2, x.shape[0] + y.shape[0] - 1), np.int64)
    at = path.shape[1] - 1
    for segment in range(corners.shape[0] - 2, -1, -1):
        i, j = corners[segment]
        next_i, next_j = corners[segment + 1]
        if i == next_i and j == next_j:
            continue
        here_x, here_y = x[i : next_i + 1], y[j : next_j + 1]
        end = at + 1
        cost, at = _trace(here_x, here_y, penalty, band, unreached, most_recorded, path, at)
        if not cost < unreached:
            return path, math.inf, -1
        if _sum(here_x, here_y, penalty, path[:, at + 1 : end]) != cost:
            return path, math.nan, segment
        for element in range(at + 1, end):
            path[0, element] += i
            path[1, element] += j
        at += 1  # a segment begins with the last cell of the segment before it
    path[0, at], path[1, at] = 0, 0
    return path[:, at:], _sum(x, y, penalty, path[:, at:]), -1


@compilable
def _cost(x: Any, y: Any, penalty: Any, band: int, unreached: Any) -> float:
    """Return the cost of the cheapest path; keep only the last rows of two strips."""
    matrix = _partition(x, y, penalty, band, unreached, -1)
    work = _allocate(matrix)
    kept = np.empty((2, matrix.steps), x.dtype)
    codes = np.empty(0, np.uint8)
    # Strip by strip: a strip reads the last row of the strip above from one half of `kept` and writes its own to the
    # other half.
    for number in range(matrix.strips):
        strip = _begin_strip(matrix, number, kept, work)
        _advance(matrix, strip, work, 0, strip.steps, kept[number % 2], codes, False)
    cost = _reached(matrix, _strip(matrix, matrix.strips - 1), work, x.shape[0] - 1)
    return float(cost) if cost < unreached else math.inf


def pair_costs(series: Any, starts: Any, pairs: Any, penalty: Any, band: int, unreached: Any) -> Any:
    """Return the cost of each pair of series.

    `series`: array of float64 or int32, shape (intervals of all series, metrics). One series after the other,
    contiguous.
    `starts`: array of int64, shape (series + 1,). First row of each series, and the end.
    `pairs`: array of int64, shape (pairs, 2). Indices of the two series of each pair.
    Result: array of float64, shape (pairs,). Infinite if the differences overflow.
    """
    costs = np.empty(pairs.shape[0], np.float64)
    for pair in range(pairs.shape[0]):
        index, other = pairs[pair]
        x, y = series[starts[index] : starts[index + 1]], series[starts[other] : starts[other + 1]]
        if x.shape[0] > y.shape[0]:  # the shorter one is cut into strips; the cost is the same to the last bit
            x, y = y, x
        width = min(band, x.shape[0] + y.shape[0])
        costs[pair] = _cost(x, y, penalty, width, unreached)
    return costs
