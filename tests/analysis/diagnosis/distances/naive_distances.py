"""The temporal distance as the paper's definition 4 writes it, in fractions: slow and obvious."""

from fractions import Fraction
from math import lcm


def temporal(reference, trace, move_cost, weight, variant, band=None):
    """Traces are lists of (timestamp, name); `weight` a function of the name. Returns a Fraction."""
    # In units of the common denominator, all costs are whole numbers: they are added faster than fractions.
    names = {name for _, name in (*reference, *trace)}
    unit = lcm(Fraction(move_cost).denominator, *(Fraction(weight(name)).denominator for name in names))
    whole, move = {name: int(weight(name) * unit) for name in names}, int(move_cost * unit)
    n, m = len(reference), len(trace)
    r = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        for j in range(m + 1):
            ways = [] if i or j else [0]
            if i:
                ways.append(r[i - 1][j] + whole[reference[i - 1][1]])
            if j:
                ways.append(r[i][j - 1] + whole[trace[j - 1][1]])
            if i and j:
                ways.append(r[i - 1][j - 1] + _cost(reference, trace, i, j, move, whole.__getitem__, variant, band))
            r[i][j] = min(ways)
    return Fraction(r[n][m], unit)


def _cost(reference, trace, i, j, move_cost, weight, variant, band):
    (t, e), (u, f) = reference[i - 1], trace[j - 1]
    difference = len(trace) - len(reference)
    in_band = band is None or min(0, difference) - band <= j - i <= max(0, difference) + band
    if e != f or not in_band:
        return weight(e) + weight(f)
    if variant == "gaps" or (variant == "paper" and i == j):
        return move_cost * abs(_gap(reference, i) - _gap(trace, j))
    if variant == "paper":
        return move_cost * abs((t - reference[0][0]) - (u - trace[0][0]))
    return move_cost * abs(t - u)


def _gap(trace, number):
    return trace[number - 1][0] - trace[max(number - 2, 0)][0]
