"""The paper's section 2 as it is written: distances by filling a table, the kernel by trying every subset."""

from decimal import Decimal, localcontext
from itertools import product

import numpy as np

DIGITS = 50


def indel(one, other):
    """Eq. (1): the shortest path in the graph of figure 1, where a step along an axis costs 1, a diagonal nothing."""
    table = {}
    for i, j in product(range(len(one) + 1), range(len(other) + 1)):
        ways = [0] if i == j == 0 else []
        if i:
            ways.append(table[i - 1, j] + 1)
        if j:
            ways.append(table[i, j - 1] + 1)
        if i and j and one[i - 1] == other[j - 1]:
            ways.append(table[i - 1, j - 1])
        table[i, j] = min(ways)
    return table[len(one), len(other)]


def best_subsets(distances, power):
    """Return the greatest F, and all non-empty subsets that reach it, by eqs. (2) and (3).

    Whole numbers throughout: powers that are not whole are taken with 50 digits, and sums that differ later than in the
    40th are equal.
    """
    nodes = len(distances)
    with localcontext() as context:
        context.prec = 2 * DIGITS
        fine = power != int(power)
        scale = 10**DIGITS if fine else 1
        powers = np.array(
            [
                [int(Decimal(int(d)) ** Decimal(power) * scale) if fine else int(d) ** int(power) for d in row]
                for row in distances
            ],
            dtype=object,
        )
    subsets = np.array(list(product((False, True), repeat=nodes)))[1:]
    weights = subsets.astype(object) @ powers
    values = np.where(subsets, weights, np.inf).min(axis=1)
    greatest = values.max()
    reached = values >= greatest - (scale // 10**40 if fine else 0)
    return float(Decimal(int(greatest)) / scale), [
        frozenset(np.flatnonzero(subset).tolist()) for subset in subsets[reached]
    ]
