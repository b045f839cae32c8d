"""Nodes that work off what a search requests, by a clock of their own: how long a search waits, and what is in vain."""

from __future__ import annotations

from collections.abc import Sequence

from unperturbed.analysis.partition import Ahead, Judge, SubsetOutcome
from unperturbed.analysis.partition.plan import Subset


class Queued:
    """A judge whose runs are made by nodes, each run in one unit of time for each pass.

    A subset has one node for all its runs, given in turn when it is first requested; a node makes what was requested
    first. Fresh baselines are made by all nodes at the same time.

    Parameters
    ----------
    judge : Judge
        Gives the outcomes.
    count : int
        How many nodes there are.
    """

    def __init__(self, judge: Judge, count: int) -> None:
        self.judge, self.count, self.now = judge, count, 0
        self.free = [0] * count
        self.homes: dict[Subset, int] = {}
        self.begun: dict[Subset, list[int]] = {}
        self.handed: dict[Subset, int] = {}

    @property
    def ahead(self) -> Ahead:
        """Return what begins runs before they are asked for."""
        return Ahead(self.count, self.request)

    @property
    def runs_per_repetition(self) -> int:
        return self.judge.runs_per_repetition

    @property
    def baseline_runs(self) -> int:
        return self.judge.baseline_runs

    @property
    def in_vain(self) -> int:
        """Return how many repetitions were made and not asked for."""
        return sum(map(len, self.begun.values())) - sum(self.handed.values())

    def request(self, requests: Sequence[tuple[Subset, int]]) -> None:
        for subset, repetitions in requests:
            home = self.homes.setdefault(subset, len(self.homes) % self.count)
            begun = self.begun.setdefault(subset, [])
            while len(begun) < self.handed.get(subset, 0) + repetitions:
                self.free[home] = max(self.free[home], self.now) + self.runs_per_repetition
                begun.append(self.free[home])

    def explore(self, subset: Subset, repetitions: int) -> SubsetOutcome:
        self._wait(subset, repetitions)
        return self.judge.explore(subset, repetitions)

    def certify(self, subset: Subset, repetitions: int, level: float) -> SubsetOutcome:
        self._wait(subset, repetitions)
        return self.judge.certify(subset, repetitions, level)

    def repetitions_to_certify(self, subset: Subset, level: float, maximum: int) -> int | None:
        return self.judge.repetitions_to_certify(subset, level, maximum)

    def renew_baseline(self) -> None:
        self.free = [max(free, self.now) + self.baseline_runs for free in self.free]
        self.now = max(self.free)
        self.judge.renew_baseline()

    def _wait(self, subset: Subset, repetitions: int) -> None:
        self.request([(subset, repetitions)])
        self.handed[subset] = self.handed.get(subset, 0) + repetitions
        if repetitions:
            self.now = max(self.now, self.begun[subset][self.handed[subset] - 1])
