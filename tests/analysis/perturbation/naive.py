"""Slow, obvious twins of the perturbation code."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
from scipy import optimize, stats
from scipy.special import digamma

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

    return min(1, tail(tolerance) + tail(-tolerance))


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


def outer_ways(start, end, first, second, shared, runs, freedoms):
    """The ways to take an outer change's errors, as (squared error, squared error, degrees of freedom): those of the
    interval's near end, and of its far one."""
    (k, r), (of_first, of_second) = runs, freedoms
    relative = relative_spread(from_fisher(start), from_fisher(end))
    if of_second > 0:
        most = second * of_second / float(stats.chi2.ppf(0.05, of_second))
        relative = min(relative, max(0.25, math.sqrt(most / first)))
    spread = (of_first * first + of_second * second / relative**2) / (of_first + of_second)
    moved = [max(from_fisher(mean), 0.0) * slope(from_fisher(mean)) for mean in (start, end)]
    counts = (2 - (min(1.0, moved[1] / moved[0]) if moved[0] else 1.0)) ** 2
    squares = counts * (spread / k + shared), relative**2 * spread / r
    near, far = [(*squares, (of_first + of_second) / 2)], [(*squares, of_first + of_second)]
    if of_second > 0:
        improbable = float(stats.f.sf(second / (relative**2 * first), of_second, of_first))
        added = min(of_first / 3, 1.5 * of_second) * min(1, improbable / 0.05)
        own = (added * relative**2 * first + of_second * second) / (added + of_second)
        a, b = counts * (first / k + shared), own / r
        near.append((a, b, satterthwaite(start, end, a, b, of_first, added + of_second)))
        far.append(near[-1])
    return near, far


def outer_bounds(start, end, near, far, alpha):
    """The interval of an outer change: the end on the side of 0 by the near ways, the other by the far ones at α/2."""
    narrow, wide = widest(start, end, near, alpha), widest(start, end, far, alpha / 2)
    return (wide[0], narrow[1]) if end < start else (narrow[0], wide[1])


def outer_spreads(before, after):
    """The variances of both sides, of runs on Fisher's scale; of one checked run the reference's."""
    first = variance(before) * ((len(before) - 1) / (len(before) - 2)) ** 2
    return first, variance(after) if len(after) > 1 else first


def wider_together(metrics):
    """Each metric's variance of checked runs, raised if those of all metrics together are wider; metrics: (ρ of the
    reference runs, ρ of the checked runs)."""
    sides = [([fisher(rho) for rho in before], [fisher(rho) for rho in after]) for before, after in metrics]
    own = [outer_spreads(*both)[1] for both in sides]
    r, k = len(sides[0][1]), len(sides[0][0])
    if r == 1 or len(sides) < 3:
        return own
    expected = [
        outer_spreads(*both)[0] * relative_spread(from_fisher(fmean(both[0])), from_fisher(fmean(both[1]))) ** 2
        for both in sides
    ]
    too_low = [digamma((runs - 1) / 2) - math.log((runs - 1) / 2) for runs in (r, k)]
    typical = math.exp(fmean(math.log(o / e) for o, e in zip(own, expected, strict=True)) - too_low[0] + too_low[1])
    if stats.f.sf(typical, len(sides) * (r - 1), len(sides) * (k - 1)) >= 0.05:
        return own
    return [max(o, 0.3 * o + 0.7 * typical * e) for o, e in zip(own, expected, strict=True)]


def compare_outer(reference, observed, of_pairs, alpha, tolerance, raised=None):
    """As `compare`, for outer correlations; raised: the checked runs' variance in the errors after a change."""
    before, after = [fisher(rho) for rho in reference], [fisher(rho) for rho in observed]
    k, r = len(before), len(after)
    start, end = fmean(before), fmean(after)
    first, second = outer_spreads(before, after)
    shared = of_pairs / (k * (k - 1))
    spread = ((k - 1) * first + (r - 1) * second) / (k + r - 2)
    p = 2 * float(stats.t.sf(abs(end - start) / math.sqrt(spread * (1 / k + 1 / r) + shared), k + r - 2))
    changed = second if raised is None else raised
    near, far = outer_ways(start, end, first, changed, shared, (k, r), (k - 1, r - 1))
    low, high = outer_bounds(start, end, near, far, alpha)
    beyond = max(level_reaching(start, end, *errors, tolerance) for errors in near)
    return from_fisher(end) - from_fisher(start), low, high, p, beyond


def outer_on_nodes(nodes, alpha, tolerance):
    """Low, high and p of going beyond the tolerance of an outer change over nodes: of each the reference's values, the
    checked runs', and the variance of the reference's mean that its runs do not show."""
    runs = [([fisher(x) for x in reference], [fisher(x) for x in observed]) for reference, observed, _ in nodes]
    weights = [len(before) * len(after) / (len(before) + len(after)) for before, after in runs]
    share = [weight / sum(weights) for weight in weights]
    parts = list(
        zip(share, runs, [outer_spreads(*both) for both in runs], [shared for *_, shared in nodes], strict=True)
    )
    start = sum(of * fmean(before) for of, (before, _), *_ in parts)
    end = sum(of * fmean(after) for of, (_, after), *_ in parts)
    freedoms = [sum(len(both[side]) - 1 for both in runs) for side in (0, 1)]
    pooled = [
        sum((len(both[side]) - 1) * spread[side] for _, both, spread, _ in parts) / max(freedoms[side], 1)
        for side in (0, 1)
    ]
    counted = [1 / sum(of**2 / len(both[side]) for of, both, *_ in parts) for side in (0, 1)]
    shared = sum(of**2 * one for of, *_, one in parts)
    ways = [list(one) for one in outer_ways(start, end, *pooled, shared, counted, freedoms)]
    each = [
        outer_ways(
            fmean(both[0]), fmean(both[1]), *spread, one, [len(runs) for runs in both], [len(runs) - 1 for runs in both]
        )
        for _, both, spread, one in parts
    ]
    for end_of_interval in (0, 1):
        for way in range(max(len(one[end_of_interval]) for one in each)):
            a = b = freedom = 0.0
            for of, one in zip(share, each, strict=True):
                squares = one[end_of_interval][min(way, len(one[end_of_interval]) - 1)]
                first, second = of**2 * squares[0], of**2 * squares[1]
                a, b = a + first, b + second
                freedom += (
                    first / slope(from_fisher(start)) ** 2 + second / slope(from_fisher(end)) ** 2
                ) ** 2 / squares[2]
            of_rho = a / slope(from_fisher(start)) ** 2 + b / slope(from_fisher(end)) ** 2
            ways[end_of_interval].append((a, b, of_rho**2 / freedom))
    low, high = outer_bounds(start, end, *ways, alpha)
    return low, high, max(level_reaching(start, end, *errors, tolerance) for errors in ways[0])


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
