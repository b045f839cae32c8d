"""Clusters of redundant metrics: correlations over intervals within runs, and the tree that joins them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from unperturbed.analysis.choice.held_back import LEVEL
from unperturbed.analysis.choice.moments import FloatArray
from unperturbed.analysis.perturbation.correlation import correlate_runs, fisher, from_fisher
from unperturbed.common.extras import LazyLibrary

hierarchy = LazyLibrary("scipy.cluster.hierarchy")
special = LazyLibrary("scipy.special")


@dataclass(frozen=True)
class Correlation:
    """Spearman's coefficient of two metrics over the intervals of a run: the mean of all runs on Fisher's scale."""

    first: str
    second: str
    rho: float
    low: float  # Ends of the confidence interval, by the variation between runs
    high: float


@dataclass(frozen=True)
class Cluster:
    """Metrics that rise and fall together."""

    metrics: tuple[str, ...]
    weakest: Correlation  # The pair with the lowest |ρ|


@dataclass(frozen=True)
class Tree:
    """The dendrogram of all metrics."""

    metrics: tuple[str, ...]
    # Average linkage of the distances 1 − |ρ|, as scipy's `linkage` returns it: a row of four numbers for each join.
    joins: tuple[tuple[float, ...], ...]
    cut: float  # Distance below which joined metrics are one cluster
    correlations: tuple[Correlation, ...]  # Of every pair
    clusters: tuple[Cluster, ...]  # Those with several metrics, the largest first

    def correlation(self, first: str, second: str) -> Correlation:
        """Return the correlation of a pair, whose order does not matter."""
        return next(each for each in self.correlations if {each.first, each.second} == {first, second})

    def nearest(self, metric: str) -> tuple[str, Correlation]:
        """Return the metric with the strongest correlation with this one, and the correlation."""
        own = [each for each in self.correlations if metric in (each.first, each.second)]
        strongest = max(own, key=lambda each: abs(each.rho))
        return (strongest.second if strongest.first == metric else strongest.first), strongest


def join(runs: Sequence[FloatArray], metrics: Sequence[str], target: float) -> Tree:
    """Return the tree of metrics, from the values of each run, (intervals, metrics).

    Metrics are one cluster while the mean distance between joined groups is below that of a pair with ρ² = `target`:
    one metric of the cluster then predicts the others about as well.
    """
    pairs = list(combinations(metrics, 2))
    z = fisher(np.array(correlate_runs(runs, metrics, pairs)))
    mean = z.mean(axis=0)
    reach = np.full(len(pairs), np.nan)
    if len(runs) > 1:
        quantile = float(special.stdtrit(len(runs) - 1, (1 + LEVEL) / 2))
        reach = quantile * z.std(axis=0, ddof=1) / math.sqrt(len(runs))
    each = zip(pairs, from_fisher(mean), from_fisher(mean - reach), from_fisher(mean + reach), strict=True)
    found = tuple(Correlation(*pair, float(rho), float(low), float(high)) for pair, rho, low, high in each)
    distances = np.clip([1 - abs(correlation.rho) for correlation in found], 0, 1)
    joins = hierarchy.linkage(distances, "average", optimal_ordering=True)
    cut = 1 - math.sqrt(target)
    numbers = hierarchy.fcluster(joins, cut, criterion="distance").tolist()
    clusters = []
    for number in dict.fromkeys(numbers):
        members = tuple(metric for metric, its in zip(metrics, numbers, strict=True) if its == number)
        if len(members) > 1:
            within = [one for one in found if one.first in members and one.second in members]
            clusters.append(Cluster(members, min(within, key=lambda one: abs(one.rho))))
    clusters.sort(key=lambda cluster: -len(cluster.metrics))
    return Tree(tuple(metrics), tuple(map(tuple, joins.tolist())), cut, found, tuple(clusters))
