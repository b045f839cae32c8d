"""Labelling of a run's elements, the slow obvious way: every sequence of classes and mixtures is tried."""

from itertools import groupby, pairwise, product

import numpy as np

PLACES, MIXTURE_BITS = 16, 1.0


def mixtures_of(clusters, scaling, first, second):
    """Return places of mixtures along the axes, and their variances."""
    a, b = (scaling.revert(clusters.centres[one][None])[0] for one in (first, second))
    shares = [(place + 0.5) / PLACES for place in range(PLACES)]
    places = [scaling.apply(((1 - share) * a + share * b)[None])[0] @ clusters.axes for share in shares]
    steps = [abs(behind - before) for before, behind in pairwise(places)]
    half = sum(steps) / len(steps) / 2
    return shares, places, np.maximum(clusters.variances[first], clusters.variances[second]) + half**2


def cheapest(clusters, scaling, scaled, informative, changes, student):
    """Return the least bits of any labelling. An element may be None: a mixture of the classes beside it."""
    k, n = len(clusters), len(scaled)
    turned = scaled @ clusters.axes

    def alone(element, one):
        if not informative[element]:
            return 0.0
        bits = float(student(turned[element][None], clusters.centres[one] @ clusters.axes, clusters.variances[one])[0])
        return min(bits, clusters.outlier_bits)

    def mixed(element, first, second):
        _, places, variances = mixtures_of(clusters, scaling, first, second)
        bits = [float(student(turned[element][None], place, variances)[0]) for place in places]
        return min(bits) + np.log2(PLACES) + MIXTURE_BITS

    alone_bits = [[alone(element, one) for one in range(k)] for element in range(n)]
    mixed_bits = {
        (element, a, b): mixed(element, a, b)
        for element in range(n)
        for a in range(k)
        for b in range(k)
        if a != b and informative[element]
    }
    least = np.inf
    for labels in product([*range(k), None], repeat=n):
        if labels[0] is None or labels[-1] is None:
            continue
        bits, before = alone_bits[0][labels[0]], labels[0]
        for element in range(1, n):
            label = labels[element]
            if label is None:
                bits += mixed_bits.get((element, labels[element - 1], labels[element + 1]), np.inf)
                continue
            bits += alone_bits[element][label] + changes[before, label]
            before = label
        least = min(least, bits)
    return least


def joined(labels, least):
    """Return labels whose short runs have joined a neighbour, one at a time."""
    runs = [[label, len(list(group))] for label, group in groupby(labels)]
    while len(runs) > 1 and min(length for _, length in runs) < least:
        place = min(range(len(runs)), key=lambda at: (runs[at][1], at))
        beside = [at for at in (place - 1, place + 1) if 0 <= at < len(runs)]
        runs[place][0] = runs[max(beside, key=lambda at: (runs[at][1], -at))][0]
        runs = [[label, sum(length for _, length in group)] for label, group in groupby(runs, key=lambda run: run[0])]
    return [label for label, length in runs for _ in range(length)]
