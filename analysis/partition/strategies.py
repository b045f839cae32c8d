"""How a partition is searched for. Each strategy is one small class.

A strategy gets a `Bench` and metrics, asks `bench.accepts(subset)` of any subset it likes, and returns subsets that were accepted.
What it leaves out is undecided, or perturbed alone. What it does may depend on outcomes and on `bench.settings.seed` alone, so that a
search that is started again on recorded runs goes the same way.

A new strategy is such a class and an entry in `STRATEGIES`.

No strategy concludes from one subset to another, as perturbation is not monotone (Mytkowicz et al., "Understanding Measurement
Perturbation in Trace-based Data", sections 3.4 and 4): every subset that is returned was itself run and shown unperturbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import Protocol

import numpy as np

from unperturbed.analysis.partition.bench import Bench
from unperturbed.analysis.partition.improve import improve
from unperturbed.analysis.partition.outcome import Subset

__all__ = ["STRATEGIES", "Strategy"]


class Strategy(Protocol):
    """See the module."""

    name: str

    def search(self, bench: Bench, metrics: Subset) -> list[Subset]:
        """Return disjoint subsets of `metrics`, each accepted by the bench. A limit raises `Stop`, which is not caught."""

    def candidates(self, metrics: int, subsets: int) -> int:
        """Return how many candidates are measured until `metrics` metrics are in `subsets` subsets, before these are improved."""


class FirstFit:
    """Each metric, the most costly first, into the first subset that is still unperturbed with it; else into a new one."""

    name = "first-fit"

    def search(self, bench: Bench, metrics: Subset) -> list[Subset]:
        """See `Strategy`."""
        return improve(bench, first_fit(bench, bench.alone(metrics)))

    def candidates(self, metrics: int, subsets: int) -> int:
        """See `Strategy`: each alone, then tried with half of the subsets."""
        return metrics + metrics * (subsets + 1) // 2


class Restarts:
    """First fit in several orders: by falling cost, then as the seed shuffles them. The best partition is improved."""

    name = "restarts"
    orders = 4

    def search(self, bench: Bench, metrics: Subset) -> list[Subset]:
        """See `Strategy`."""
        order = bench.alone(metrics)
        rng = np.random.default_rng(bench.settings.seed)
        found = [first_fit(bench, order)]
        found += [first_fit(bench, [order[at] for at in rng.permutation(len(order))]) for _ in range(self.orders - 1)]
        return improve(bench, min(found, key=lambda subsets: (-sum(map(len, subsets)), len(subsets))))

    def candidates(self, metrics: int, subsets: int) -> int:
        """See `Strategy`."""
        return metrics + self.orders * metrics * (subsets + 1) // 2


class Halving:
    """What is not unperturbed is split in half, and each half again. Few runs: no metric is measured alone that need not be."""

    name = "halving"

    def search(self, bench: Bench, metrics: Subset) -> list[Subset]:
        """See `Strategy`."""
        bench.stage = "search"
        found: list[Subset] = []
        waiting = [metrics]
        while waiting:
            tried = waiting.pop()
            if bench.accepts(tried):
                found.append(tried)
            elif len(tried) > 1:
                half = (len(tried) + 1) // 2
                waiting += [tried[half:], tried[:half]]
        return improve(bench, found)

    def candidates(self, metrics: int, subsets: int) -> int:
        """See `Strategy`: about twice as many parts as subsets are split off, each on a level of its own."""
        return min(2 * metrics - 1, 2 * subsets * ceil(log2(metrics + 1)))


class CostlyAlone:
    """All but the most costly metric, which gets a subset of its own; then all but the two most costly, and so on."""

    name = "costly-alone"

    def search(self, bench: Bench, metrics: Subset) -> list[Subset]:
        """See `Strategy`."""
        order = bench.alone(metrics)
        found: list[Subset] = []
        for at, metric in enumerate(order):
            if bench.accepts(order[at:]):
                found.append(bench.subset(order[at:]))
                break
            if bench.accepts((metric,)):
                found.append((metric,))
        return improve(bench, found)

    def candidates(self, metrics: int, subsets: int) -> int:
        """See `Strategy`: what costs little goes together sooner or later."""
        return 2 * metrics - metrics // max(subsets, 1)


def first_fit(bench: Bench, order: Sequence[str]) -> list[Subset]:
    """Put each metric into the first subset that is accepted with it, else into a new one if it is accepted alone."""
    found: list[Subset] = []
    for metric in order:
        for at, subset in enumerate(found):
            if bench.accepts((*subset, metric)):
                found[at] = bench.subset((*subset, metric))
                break
        else:
            if bench.accepts((metric,)):
                found.append((metric,))
    return found


STRATEGIES: dict[str, Strategy] = {each.name: each for each in (FirstFit(), Restarts(), Halving(), CostlyAlone())}
"""The strategies by name; `first-fit` is the default."""
