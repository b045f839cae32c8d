"""Slow, obvious twins of the perturbation code."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
from scipy import stats

SHRINKAGE = 1e-3


def spearman(x, y):
    return float(stats.spearmanr(x, y).statistic)


def fisher(rho):
    return math.atanh(rho * (1 - SHRINKAGE))


def from_fisher(z):
    return max(-1.0, min(1.0, math.tanh(z) / (1 - SHRINKAGE)))


def holm(p):
    """Reject in the order of p while p ≤ α / (number left); the corrected p is the smallest α at which it is rejected."""
    corrected = [0.0] * len(p)
    worst = 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        worst = max(worst, (len(p) - rank) * p[at])
        corrected[at] = min(1.0, worst)
    return corrected


def compare(reference, observed, alpha, inflation=1.0, shared=0.0):
    """Effect, low, high, p of one correlation; `inflation` of the reference's spread, `shared` added to its mean's variance."""
    before, after = [fisher(rho) for rho in reference], [fisher(rho) for rho in observed]
    k, r = len(before), len(after)
    start, change = fmean(before), fmean(after) - fmean(before)
    first = variance(before) * inflation**2
    second = variance(after) if r > 1 else 0.0
    spread = ((k - 1) * first + (r - 1) * second) / (k + r - 2)
    p = 2 * float(stats.t.sf(abs(change) / math.sqrt(spread * (1 / k + 1 / r) + shared), k + r - 2))
    errors = [(spread / k + shared, spread / r, k + r - 2)]
    if r > 1:
        a, b = first / k + shared, second / r
        errors.append((a, b, (a + b) ** 2 / (a**2 / (k - 1) + b**2 / (r - 1))))
    effect = from_fisher(start + change) - from_fisher(start)
    lows, highs = [], []
    for a, b, freedom in errors:
        t = float(stats.t.ppf(1 - alpha, freedom))
        lower, middle, upper = (from_fisher(start + shift * math.sqrt(a)) for shift in (-t, 0, t))
        other_lower, other_middle, other_upper = (from_fisher(start + change + shift * math.sqrt(b)) for shift in (-t, 0, t))
        lows.append(effect - math.sqrt((other_middle - other_lower) ** 2 + (upper - middle) ** 2))
        highs.append(effect + math.sqrt((other_upper - other_middle) ** 2 + (middle - lower) ** 2))
    return effect, min(lows), max(highs), p


def outer(path, reference, other):
    """ρ of one metric of two aligned runs, on the reference's intervals."""
    cells = list(zip(path.x_index.tolist(), path.y_index.tolist(), strict=True))
    carried = [np.mean([other[j] for i, j in cells if i == at]) for at in range(len(reference))]
    return spearman(reference, carried)


def pair_variance(z):
    """Residual variance of z_ij = a + b_i + b_j by least squares over pairs, z the full matrix of one metric."""
    k = len(z)
    pairs = [(i, j) for i in range(k) for j in range(i)]
    design = np.array([[float(run in pair) for run in range(k)] for pair in pairs])  # the mean is in the span of the runs
    values = np.array([(z[i][j] + z[j][i]) / 2 for i, j in pairs])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    return float(((values - design @ solution) ** 2).sum() / (len(pairs) - k))
