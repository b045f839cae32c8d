"""Slow, obvious twins of the alignment code."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np


def cell_cost(x, y, i, j):
    return float(sum(abs(p - q) for p, q in zip(np.atleast_1d(x[i]), np.atleast_1d(y[j]), strict=True)))


def inside_band(n, m, i, j, band):
    """The band between the two diagonals through the corners, widened by `band`."""
    return band is None or min(0, m - n) - band <= j - i <= max(0, m - n) + band


def dtw(x, y, penalty=0.0, band=None):
    """Full table, read back from the end: diagonal first; the series that comes first in order plays x."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if (len(x), x.tolist()) > (len(y), y.tolist()):
        path, cost = dtw(y, x, penalty, band)
        return [(j, i) for i, j in path], cost
    n, m = len(x), len(y)
    table = [[math.inf] * m for _ in range(n)]
    came_from = {}
    for i in range(n):
        for j in range(m):
            if not inside_band(n, m, i, j, band):
                continue
            if i == j == 0:
                table[0][0] = cell_cost(x, y, 0, 0)
                continue
            best, step = math.inf, (i - 1, j - 1)
            for (p, q), extra in (((i - 1, j - 1), 0.0), ((i - 1, j), penalty), ((i, j - 1), penalty)):
                if p >= 0 and q >= 0 and table[p][q] + extra < best:
                    best, step = table[p][q] + extra, (p, q)
            table[i][j] = best + cell_cost(x, y, i, j)
            came_from[i, j] = step
    path = [(n - 1, m - 1)]
    while path[-1] != (0, 0):
        path.append(came_from[path[-1]])
    return path[::-1], table[-1][-1]


def path_cost(x, y, path, penalty=0.0):
    total = cell_cost(x, y, *path[0])
    for (p, q), (i, j) in pairwise(path):
        total = (total + (penalty if p == i or q == j else 0.0)) + cell_cost(x, y, i, j)
    return total


def every_path(n, m):
    """Every warp path of constraints 1 to 3, one after the other."""

    @cache
    def to(i, j):
        if i == j == 0:
            return [((0, 0),)]
        before = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
        return [(*path, (i, j)) for p, q in before if p >= 0 and q >= 0 for path in to(p, q)]

    return to(n - 1, m - 1)


def ordinals(counts):
    """The set of milestone ordinals that happened in each interval."""
    return [set(range(before + 1, after + 1)) for before, after in zip([0, *counts], counts, strict=False)]


def milestone_scores(path, counts_x, counts_y):
    held_x, held_y = ordinals(counts_x), ordinals(counts_y)
    scores = []
    for i, j in path:
        distances = [abs(j - at) for ordinal in held_x[i] for at, held in enumerate(held_y) if ordinal in held]
        if distances:
            scores.append(min(distances))
    return scores


def resample(path, values, length):
    return [np.mean([values[j] for i, j in path if i == at], axis=0) for at in range(length)]


def largest_passable(cells):
    """Size of a largest subset that one path can pass, by trying all."""
    cells = sorted(set(cells))
    best = 0
    for mask in range(1 << len(cells)):
        chosen = [cell for bit, cell in enumerate(cells) if mask >> bit & 1]
        if all(p <= i and q <= j for (p, q), (i, j) in pairwise(chosen)):
            best = max(best, len(chosen))
    return best
