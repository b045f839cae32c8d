"""Slow, obvious twins of the perturbation code."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
from scipy import optimize, stats

SHRINKAGE = 1e-3


def spearman(x, y):
    return float(stats.spearmanr(x, y).statistic)


def fisher(rho):
    return math.atanh(rho * (1 - SHRINKAGE))


def from_fisher(z):
    return max(-1.0, min(1.0, math.tanh(z) / (1 - SHRINKAGE)))


def signal_to_noise(rho):
    return rho * 0.98 / (1 - rho * 0.98)


def from_signal_to_noise(ratio):
    ratio = max(ratio, -0.5)
    return max(-1.0, min(1.0, ratio / (1 + ratio) / 0.98))


FISHER = fisher, from_fisher
SIGNAL_TO_NOISE = signal_to_noise, from_signal_to_noise


def holm(p):
    """Reject in the order of p while p ≤ α / (number left); the corrected p is the smallest α at which it is
    rejected."""
    corrected = [0.0] * len(p)
    worst = 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        worst = max(worst, (len(p) - rank) * p[at])
        corrected[at] = min(1.0, worst)
    return corrected


def error_counts(start, end, scale):
    """How many times the squared error of the reference's mean counts where there is a change, of outer values."""
    if scale is FISHER:
        return 1.0
    back = scale[1]

    def moved(mean):
        return max(back(mean), 0.0) * 0.98 * (1 + mean) ** 2  # ρ by the slope of ρ

    follows = moved(end) / moved(start) if moved(start) else math.inf
    return (2 - min(1.0, follows)) ** 2


def bounds(start, end, of_start, of_end, quantile, back):
    """The interval of a difference of ρ by the intervals of both sides (Zou 2007), from squared errors."""
    effect = back(end) - back(start)
    lower, middle, upper = (back(start + shift * math.sqrt(of_start)) for shift in (-quantile, 0, quantile))
    other_lower, other_middle, other_upper = (
        back(end + shift * math.sqrt(of_end)) for shift in (-quantile, 0, quantile)
    )
    return (
        effect - math.sqrt((other_middle - other_lower) ** 2 + (upper - middle) ** 2),
        effect + math.sqrt((other_upper - other_middle) ** 2 + (middle - lower) ** 2),
    )


def p_beyond(reference, observed, tolerance, inflation=1.0, shared=0.0, scale=FISHER):
    """The minimum-effect test, by the level at which the pooled interval reaches the tolerance, both ways added."""
    to, back = scale
    before, after = [to(rho) for rho in reference], [to(rho) for rho in observed]
    k, r = len(before), len(after)
    start, end = fmean(before), fmean(after)
    spread = ((k - 1) * variance(before) * inflation**2 + (r - 1) * (variance(after) if r > 1 else 0.0)) / (k + r - 2)
    rises = end >= start

    def tail(change):
        change = change if rises else -change

        def off(quantile, upper):
            of_start = error_counts(start, end, scale) * (spread / k + shared)
            return bounds(start, end, of_start, spread / r, quantile, back)[upper] - change

        effect = back(end) - back(start)
        beyond = effect > change if rises else effect < change
        # The end of the interval on the side of the change.
        upper = 0 if rises == beyond else 1
        if off(0, upper) * off(1e3, upper) > 0:
            found = 0.0
        else:
            found = float(stats.t.sf(optimize.brentq(off, 0, 1e3, (upper,), xtol=1e-14), k + r - 2))
        return found if beyond else 1 - found

    return tail(tolerance) + tail(-tolerance)


def compare(reference, observed, alpha, inflation=1.0, shared=0.0, scale=FISHER):
    """Effect, low, high, p of one correlation; `inflation` of the reference's spread, `shared` added to its mean's
    variance."""
    to, back = scale
    before, after = [to(rho) for rho in reference], [to(rho) for rho in observed]
    k, r = len(before), len(after)
    start, end = fmean(before), fmean(after)
    change = end - start
    first = variance(before) * inflation**2
    second = variance(after) if r > 1 else 0.0
    spread = ((k - 1) * first + (r - 1) * second) / (k + r - 2)
    p = 2 * float(stats.t.sf(abs(change) / math.sqrt(spread * (1 / k + 1 / r) + shared), k + r - 2))
    counts = error_counts(start, end, scale)
    errors = [(counts * (spread / k + shared), spread / r, k + r - 2)]
    if r > 1:
        a, b = counts * (first / k + shared), second / r
        errors.append((a, b, (a + b) ** 2 / (a**2 / (k - 1) + b**2 / (r - 1))))
    found = [bounds(start, end, a, b, float(stats.t.ppf(1 - alpha, freedom)), back) for a, b, freedom in errors]
    return back(end) - back(start), min(low for low, _ in found), max(high for _, high in found), p


def outer(path, reference, other):
    """ρ of one metric of two aligned runs, on the reference's intervals."""
    cells = list(zip(path.x_index.tolist(), path.y_index.tolist(), strict=True))
    carried = [np.mean([other[j] for i, j in cells if i == at]) for at in range(len(reference))]
    return spearman(reference, carried)


def pair_variance(z):
    """Residual variance of z_ij = a + b_i + b_j by least squares over pairs, z the full matrix of one metric."""
    k = len(z)
    pairs = [(i, j) for i in range(k) for j in range(i)]
    design = np.array(
        [[float(run in pair) for run in range(k)] for pair in pairs]
    )  # the mean is in the span of the runs
    values = np.array([(z[i][j] + z[j][i]) / 2 for i, j in pairs])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    return float(((values - design @ solution) ** 2).sum() / (len(pairs) - k))
