"""Slow, obvious twins of the regressions' loops: least squares by numpy, one candidate and one threshold at a time."""

import math
from itertools import combinations, pairwise

import numpy as np


def left(columns, target):
    """Return the sum of squared residuals of least squares, by a tolerant solver."""
    columns = np.asarray(columns, float).reshape(-1, len(target)).T
    if not columns.shape[1]:
        return float(target @ target)
    scale = np.sqrt((columns**2).sum(axis=0))
    columns = columns[:, scale > 0] / scale[scale > 0]
    solved = np.linalg.lstsq(columns, target, rcond=1e-9)[0]
    return float(((target - columns @ solved) ** 2).sum())


def by_cell(values, ids):
    """Return a column for each value of `ids`: the values there, 0 elsewhere."""
    return [np.where(ids == one, values, 0.0) for one in range(int(ids.max()) + 1)]


def best_threshold(basis, target, compared, weights, rows, fewest):
    """Return what a step in some rows explains at most, and all thresholds that explain as much."""
    found = []
    for low, high in pairwise(np.unique(compared[rows])):
        above = rows & (compared >= high)
        if min(above.sum(), (rows & (compared <= low)).sum()) >= fewest:
            step = np.where(above, weights, 0.0)
            found.append((left(basis, target) - left([*basis, step], target), low, high))
    best = max((gained for gained, _, _ in found), default=0.0)
    return best, [(low, high) for gained, low, high in found if gained >= best - 1e-7 * max(best, 1e-3)]


def table_bits(target, cells, categories):
    """Return the length of data told by relative frequencies in each cell."""
    bits = 0.0
    for cell in set(cells):
        here = [one for one, of in zip(target, cells, strict=True) if of == cell]
        bits -= sum(math.log2(here.count(one) / len(here)) for one in here)
    return bits


def cut_length(target, cells, x, cut, categories, price):
    """Return the length of a table whose cells are cut in two, and of its data."""
    halves = [(cell, value > cut) for cell, value in zip(cells, x, strict=True)]
    return table_bits(target, halves, categories) + len(set(halves)) * price


def best_groups(values, weights, rss, data_bits, parameter_bits):
    """Return the least length that values can have when neighbours in order share one, of all ways to do so."""
    order = np.argsort(values, kind="stable")
    x, w = np.asarray(values)[order], np.asarray(weights)[order]
    size, shortest = len(x), data_bits(rss) + len(x) * parameter_bits
    for count in range(2, size):
        for cuts in combinations(range(1, size), count - 1):
            cost = 0.0
            for start, end in pairwise((0, *cuts, size)):
                mean = np.average(x[start:end], weights=w[start:end])
                cost += float((w[start:end] * (x[start:end] - mean) ** 2).sum())
            shortest = min(shortest, data_bits(rss + cost) + count * parameter_bits + size * math.log2(count))
    return shortest
