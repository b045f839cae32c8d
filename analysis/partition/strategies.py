"""Search strategies for a partition, and the forecast of a search's runs and hours.

A strategy gets a `CandidateEvaluator` and metrics, calls `evaluator.accepts(subset)` for any subset, and returns
subsets that were accepted. Metrics that it leaves out are undecided, or perturbed alone. A strategy may depend only on
outcomes and on `evaluator.settings.seed`, so a search that is restarted on recorded runs repeats itself.

Strategies with a name are listed in `STRATEGIES`, not found in a folder like extensions: each has about twenty lines on
top of shared helpers. Other strategies need no name, because `partition(strategy=…)` accepts any object with these two
methods.

No strategy draws conclusions from one subset about another, because perturbation is not monotone (Mytkowicz et al.,
"Understanding Measurement Perturbation in Trace-based Data", sections 3.4 and 4): every returned subset was itself run
and shown to be unperturbed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil, log2
from typing import Protocol

import numpy as np

from unperturbed.analysis.partition.evaluation import CandidateEvaluator, SearchSettings
from unperturbed.analysis.partition.improve import improve
from unperturbed.analysis.partition.plan import Forecast, Subset
from unperturbed.common.wording import listing

_TOGETHER = 5
"""Metrics that the forecast expects in one subset."""

_SEARCH, _CERTIFY, _REGROUP = 1.5, 5, 16
"""Repetitions of a candidate and of a certificate, as multiples of the first repetitions: some candidates get more, and
certificates need a smaller level; and candidates that regrouping tries. Means over the simulated programs of
`docs/evidence/partition.md`, which compares the forecast with the actual numbers."""


class Strategy(Protocol):
    """Interface of a search strategy; the module's docstring has the rules."""

    name: str

    def search(self, evaluator: CandidateEvaluator, metrics: Subset) -> list[Subset]:
        """Return disjoint subsets of `metrics`, each accepted by the evaluator; do not catch its `Stop`."""

    def candidates(self, metrics: int, subsets: int) -> int:
        """Return how many candidates are measured to put the metrics into this many subsets, before `improve`."""


class FirstFit:
    """First fit: each metric, the most costly first, joins the first subset that stays unperturbed, else a new one."""

    name = "first-fit"

    def search(self, evaluator: CandidateEvaluator, metrics: Subset) -> list[Subset]:
        """Implement `Strategy.search`."""
        return improve(evaluator, first_fit(evaluator, evaluator.alone(metrics)))

    def candidates(self, metrics: int, subsets: int) -> int:
        """Implement `Strategy.candidates`: each metric alone, then with half of the subsets."""
        return metrics + metrics * (subsets + 1) // 2


class Restarts:
    """First fit in several orders: by decreasing cost, then shuffled by the seed; the best partition is improved.

    The best one has most metrics, then fewest subsets, then the least events in the subset that counts most. One subset
    of all metrics is the best of all.
    """

    name = "restarts"
    orders = 4

    def search(self, evaluator: CandidateEvaluator, metrics: Subset) -> list[Subset]:
        """Implement `Strategy.search`."""
        order = evaluator.alone(metrics)
        rng = np.random.default_rng(evaluator.settings.seed)
        partitions = [first_fit(evaluator, order)]
        while len(partitions) < self.orders and list(map(len, partitions[-1])) != [len(order)]:
            partitions.append(first_fit(evaluator, [order[at] for at in rng.permutation(len(order))]))

        def quality(subsets: Sequence[Subset]) -> tuple[float, ...]:
            return -sum(map(len, subsets)), len(subsets), most_events(evaluator, subsets)

        return improve(evaluator, min(partitions, key=quality))

    def candidates(self, metrics: int, subsets: int) -> int:
        """Implement `Strategy.candidates`."""
        return metrics + self.orders * metrics * (subsets + 1) // 2


class Halving:
    """Repeated halving of subsets that are not unperturbed: few runs, and few metrics measured alone."""

    name = "halving"

    def search(self, evaluator: CandidateEvaluator, metrics: Subset) -> list[Subset]:
        """Implement `Strategy.search`."""
        evaluator.stage = "search"
        accepted: list[Subset] = []
        waiting = [metrics]
        while waiting:
            evaluator.expect(reversed(waiting), certain=True)
            subset = waiting.pop()
            if evaluator.accepts(subset):
                accepted.append(subset)
            elif len(subset) > 1:
                half = (len(subset) + 1) // 2
                waiting += [subset[half:], subset[:half]]
        return improve(evaluator, accepted)

    def candidates(self, metrics: int, subsets: int) -> int:
        """Implement `Strategy.candidates`: each level of halving measures about two parts for each subset."""
        return min(2 * metrics - 1, 2 * subsets * ceil(log2(metrics + 1)))


class CostlyAlone:
    """All metrics except the most costly, which gets its own subset; then all except the two most costly, and so on."""

    name = "costly-alone"

    def search(self, evaluator: CandidateEvaluator, metrics: Subset) -> list[Subset]:
        """Implement `Strategy.search`."""
        order = evaluator.alone(metrics)
        accepted: list[Subset] = []
        for at, metric in enumerate(order):
            evaluator.expect(order[further:] for further in range(at, len(order)))
            if evaluator.accepts(order[at:]):
                accepted.append(evaluator.subset(order[at:]))
                break
            if evaluator.accepts((metric,)):
                accepted.append((metric,))
        return improve(evaluator, accepted)

    def candidates(self, metrics: int, subsets: int) -> int:
        """Implement `Strategy.candidates`: sooner or later, the cheap metrics fit into one subset."""
        return 2 * metrics - metrics // max(subsets, 1)


def first_fit(evaluator: CandidateEvaluator, order: Sequence[str]) -> list[Subset]:
    """Add each metric to the first subset that is accepted with it, else to a new one if it is accepted alone."""
    subsets: list[Subset] = []
    for place, metric in enumerate(order):
        for at, subset in enumerate(subsets):
            evaluator.expect(_likely(evaluator, subsets, order, place, at))
            if evaluator.accepts((*subset, metric)):
                subsets[at] = evaluator.subset((*subset, metric))
                break
        else:
            if evaluator.accepts((metric,)):
                subsets.append((metric,))
    return subsets


def most_events(evaluator: CandidateEvaluator, subsets: Sequence[Subset]) -> float:
    """Return the number of events of the subset that counts most in a run; 0 if unknown."""
    outcomes = (evaluator.known(subset) for subset in subsets)
    return max((outcome.cost.events or 0.0 for outcome in outcomes if outcome is not None), default=0.0)


def _likely(
    evaluator: CandidateEvaluator, current: Sequence[Subset], order: Sequence[str], place: int, at: int
) -> Iterator[Subset]:
    """Yield the candidates that first fit may measure next, breadth first, for both outcomes of unknown candidates."""
    waiting = deque([(tuple(current), place, at)])
    steps = 4 * evaluator.at_once  # a known candidate also counts as a step
    while waiting and steps:
        subsets, place, at = waiting.popleft()
        if place == len(order):
            continue
        if at == len(subsets):
            waiting.append(((*subsets, (order[place],)), place + 1, 0))
            continue
        steps -= 1
        candidate = evaluator.subset((*subsets[at], order[place]))
        known = evaluator.known(candidate)
        if known is None:
            yield candidate
        if known is None or known.unperturbed:
            waiting.append(((*subsets[:at], candidate, *subsets[at + 1 :]), place + 1, 0))
        if known is None or not known.unperturbed:
            waiting.append((subsets, place, at + 1))


STRATEGIES: dict[str, Strategy] = {each.name: each for each in (FirstFit(), Restarts(), Halving(), CostlyAlone())}
"""Strategies by name; `first-fit` is the default."""


def find_strategy(strategy: str | Strategy) -> Strategy:
    """Return the strategy with this name, or the given strategy itself."""
    if not isinstance(strategy, str):
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}: use {listing(STRATEGIES, 'or')}")
    return STRATEGIES[strategy]


def forecast(
    metrics: int,
    strategy: str | Strategy = "first-fit",
    settings: SearchSettings | None = None,
    *,
    passes: int = 1,
    baseline_runs: int = 0,
) -> Forecast:
    """Predict the runs and hours of a search before it starts.

    Parameters
    ----------
    metrics : int
        Number of metrics.
    strategy : str or Strategy, default "first-fit"
        Name of a strategy, or your own strategy.
    settings : SearchSettings, optional
        Repetitions, limits, seconds for each run; None for the defaults.
    passes : int, default 1
        Runs that one repetition takes.
    baseline_runs : int, default 0
        Fresh runs of the baseline for each round of certification, all passes together.

    Returns
    -------
    Forecast
        Runs and hours in the best, the expected and the worst case.

    Raises
    ------
    ValueError
        No strategy has this name.
    """
    chosen = find_strategy(strategy)
    given = settings or SearchSettings()

    limits = [given.max_runs] if given.max_runs is not None else []
    if given.max_hours is not None and given.seconds_per_run:
        limits.append(int(3600 * given.max_hours / given.seconds_per_run))

    def runs(subsets: int) -> int:
        measurements = 1.0
        if subsets > 1:
            # `improve` tries to join every two subsets and to move each metric to another subset, and regroups.
            measurements += chosen.candidates(metrics, subsets) + subsets * (subsets - 1) / 2 + metrics + _REGROUP
        repetitions = _SEARCH * measurements + _CERTIFY * subsets
        return ceil(given.repetitions * repetitions) * passes + baseline_runs

    low, expected, high = (runs(subsets) for subsets in (1, ceil(metrics / _TOGETHER), metrics))
    limit = min(limits, default=None)
    if given.seconds_per_run is None:
        return Forecast(low, expected, high, limit=limit)
    hours = [count * given.seconds_per_run / 3600 for count in (low, expected, high)]
    return Forecast(low, expected, high, hours[0], hours[1], hours[2], limit)
