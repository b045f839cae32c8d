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


def holm(p):
    """Reject in the order of p while p ≤ α / (number left); the corrected p is the smallest α at which it is
    rejected."""
    corrected = [0.0] * len(p)
    worst = 0.0
    for rank, at in enumerate(sorted(range(len(p)), key=lambda at: p[at])):
        worst = max(worst, (len(p) - rank) * p[at])
        corrected[at] = min(1.0, worst)
    return corrected


def slope(rho):
    """The change of Fisher's z for a unit of ρ."""
    return (1 - SHRINKAGE) / (1 - (rho * (1 - SHRINKAGE)) ** 2)


def bounds(start, end, of_start, of_end, quantile):
    """The interval of a difference of ρ by the intervals of both sides (Zou 2007), from squared errors; what no ρ can
    reach is cut off."""
    effect = from_fisher(end) - from_fisher(start)
    lower, middle, upper = (from_fisher(start + shift * math.sqrt(of_start)) for shift in (-quantile, 0, quantile))
    other_lower, other_middle, other_upper = (
        from_fisher(end + shift * math.sqrt(of_end)) for shift in (-quantile, 0, quantile)
    )
    return (
        effect - math.sqrt((other_middle - other_lower) ** 2 + (upper - middle) ** 2),
        effect + math.sqrt((other_upper - other_middle) ** 2 + (middle - lower) ** 2),
    )


def widest(start, end, errors, alpha):
    """The widest of the intervals by several (squared error, squared error, degrees of freedom)."""
    found = [bounds(start, end, a, b, float(stats.t.ppf(1 - alpha, freedom))) for a, b, freedom in errors]
    before = from_fisher(start)
    return max(-1 - before, min(low for low, _ in found)), min(1 - before, max(high for _, high in found))


def level_reaching(start, end, of_start, of_end, freedom, tolerance):
    """The minimum-effect test, by the level at which the interval reaches the tolerance, both ways added."""
    rises = end >= start

    def tail(change):
        change = change if rises else -change

        def off(quantile, upper):
            return bounds(start, end, of_start, of_end, quantile)[upper] - change

        effect = from_fisher(end) - from_fisher(start)
        beyond = effect > change if rises else effect < change
        # The end of the interval on the side of the change.
        upper = 0 if rises == beyond else 1
        if off(0, upper) * off(1e3, upper) > 0:
            found = 0.0
        else:
            found = float(stats.t.sf(optimize.brentq(off, 0, 1e3, (upper,), xtol=1e-14), freedom))
        return found if beyond else 1 - found

    return tail(tolerance) + tail(-tolerance)


def satterthwaite(start, end, a, b, of_a, of_b):
    """Degrees of freedom of a difference of ρ, from squared errors on Fisher's scale."""
    a, b = a / slope(from_fisher(start)) ** 2, b / slope(from_fisher(end)) ** 2
    return (a + b) ** 2 / (a**2 / of_a + b**2 / of_b)


def compare(reference, observed, alpha, tolerance):
    """Effect, low, high, p, p of going beyond the tolerance of one correlation."""
    before, after = [fisher(rho) for rho in reference], [fisher(rho) for rho in observed]
    k, r = len(before), len(after)
    start, end = fmean(before), fmean(after)
    first, second = variance(before), variance(after) if r > 1 else 0.0
    spread = ((k - 1) * first + (r - 1) * second) / (k + r - 2)
    p = 2 * float(stats.t.sf(abs(end - start) / math.sqrt(spread * (1 / k + 1 / r)), k + r - 2))
    of_start, of_end = (1 - abs(from_fisher(start)), 1 - abs(from_fisher(end)))
    wider = max(1.0, of_end / (of_end + SHRINKAGE) * (of_start + SHRINKAGE) / of_start) if of_start < 0.1 else 1.0
    changed = ((k - 1) * first + (r - 1) * second / wider**2) / (k + r - 2)
    errors = [(changed / k, wider**2 * changed / r, k + r - 2)]
    if r > 1:
        a, b = first / k, second / r
        errors.append((a, b, satterthwaite(start, end, a, b, k - 1, r - 1)))
    low, high = widest(start, end, errors, alpha)
    return from_fisher(end) - from_fisher(start), low, high, p, level_reaching(start, end, *errors[0], tolerance)


def relative_spread(within, across):
    """The spread of checked runs over the reference's, from the model that a run's noise varies in relation: numerical
    derivatives of Fisher's z by the logarithm of one run's noise."""
    if within <= 0:
        return 1.0
    within, across = min(within, 1 - 1e-9), min(max(across, 1e-3), 1 - 1e-9)
    noise = 1 / within - 1
    other = max(within / across**2 - 1, 0.0)

    def z(first, second):
        return fisher(1 / math.sqrt((1 + first) * (1 + second)))

    def moved(first, second):
        step = 1e-6
        return (z(first, second * math.exp(-step)) - z(first, second * math.exp(step))) / (2 * step)

    hidden = (1 - within) / (1 - within + SHRINKAGE)
    of_reference = moved(noise, noise) / hidden * max(hidden, 0.1)
    return max(1.0, moved(noise, other) / of_reference)


def compare_outer(reference, observed, of_pairs, alpha, tolerance):
    """As `compare`, for outer correlations."""
    before, after = [fisher(rho) for rho in reference], [fisher(rho) for rho in observed]
    k, r = len(before), len(after)
    start, end = fmean(before), fmean(after)
    first = variance(before) * ((k - 1) / (k - 2)) ** 2
    second = variance(after) if r > 1 else 0.0
    shared = of_pairs / (k * (k - 1))
    spread = ((k - 1) * first + (r - 1) * second) / (k + r - 2)
    p = 2 * float(stats.t.sf(abs(end - start) / math.sqrt(spread * (1 / k + 1 / r) + shared), k + r - 2))
    relative = relative_spread(from_fisher(start), from_fisher(end))
    if r > 1:
        most = second * (r - 1) / float(stats.chi2.ppf(0.05, r - 1))
        relative = min(relative, max(0.25, math.sqrt(most / first)))
    spread = ((k - 1) * first + (r - 1) * second / relative**2) / (k + r - 2)
    moved = [max(from_fisher(mean), 0.0) * slope(from_fisher(mean)) for mean in (start, end)]
    counts = (2 - (min(1.0, moved[1] / moved[0]) if moved[0] else 1.0)) ** 2
    tested = counts * (spread / k + shared), relative**2 * spread / r, (k + r - 2) / 2
    near, far = [tested], [(*tested[:2], k + r - 2)]
    if r > 1:
        improbable = float(stats.f.sf(second / (relative**2 * first), r - 1, k - 1))
        added = min((k - 1) / 3, 1.5 * (r - 1)) * min(1, improbable / 0.05)
        own = (added * relative**2 * first + (r - 1) * second) / (added + r - 1)
        a, b = counts * (first / k + shared), own / r
        near.append((a, b, satterthwaite(start, end, a, b, k - 1, added + r - 1)))
        far.append(near[-1])
    narrow, wide = widest(start, end, near, alpha), widest(start, end, far, alpha / 2)
    low, high = (wide[0], narrow[1]) if end < start else (narrow[0], wide[1])
    beyond = max(level_reaching(start, end, *errors, tolerance) for errors in near)
    return from_fisher(end) - from_fisher(start), low, high, p, beyond


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
