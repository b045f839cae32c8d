"""A judge that answers what a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from unperturbed.analysis.partition import Cost, SubsetOutcome

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Scripted:
    """Subsets are unperturbed unless `verdicts` says otherwise.

    Parameters
    ----------
    verdicts : mapping of str to str or callable, default NOTHING
        Subset (letters) to its verdict; or a function from the subset to it.
    settled : mapping of str to int, default NOTHING
        Subset to the repetitions from which on its verdict is given; it is undecided before.
    certificates : mapping of str to list of str, default NOTHING
        Subset to what its certifications say, in turn; as explored by default.
    costs : mapping of str to float, default NOTHING
        Metric to added instructions.
    """

    def __init__(
        self,
        verdicts: Mapping[str, str] | Callable[[str], str] = NOTHING,
        *,
        settled: Mapping[str, int] = NOTHING,
        certificates: Mapping[str, list[str]] = NOTHING,
        costs: Mapping[str, float] = NOTHING,
        passes: int = 1,
        baseline_runs: int = 0,
    ) -> None:
        self._verdict = verdicts if callable(verdicts) else lambda name: verdicts.get(name, "unperturbed")
        self._settled, self._costs = settled, costs
        self._certificates = {name: list(turns) for name, turns in certificates.items()}
        self.runs_per_repetition, self.baseline_runs = passes, baseline_runs
        self.pool: dict[str, int] = {}
        self.asked: list[tuple[str, str, int]] = []
        self.made = 0

    def explore(self, subset: tuple[str, ...], repetitions: int) -> SubsetOutcome:
        name = "".join(subset)
        self.pool[name] = self.pool.get(name, 0) + repetitions
        if repetitions:
            self._make("explore", name, repetitions)
        return self._outcome(name, self._verdict(name), self.pool[name])

    def certify(self, subset: tuple[str, ...], repetitions: int, level: float) -> SubsetOutcome:
        name = "".join(subset)
        self._make("certify", name, repetitions)
        self.pool[name] += repetitions
        turns = self._certificates.get(name)
        return self._outcome(name, turns.pop(0) if turns else self._verdict(name), repetitions)

    def repetitions_to_certify(self, subset: tuple[str, ...], level: float, maximum: int) -> int | None:
        return 4

    def renew_baseline(self) -> None:
        self._make("baseline", "", self.baseline_runs // self.runs_per_repetition)

    def _make(self, what: str, name: str, repetitions: int) -> None:
        self.asked.append((what, name, repetitions))
        self.made += repetitions * self.runs_per_repetition

    def _outcome(self, name: str, verdict: str, repetitions: int) -> SubsetOutcome:
        needed = self._settled.get(name, 0)
        cost = Cost(instructions=sum(self._costs.get(metric, 0.0) for metric in name))
        if self.pool[name] < needed:
            return SubsetOutcome("undecided", repetitions, needed, cost=cost)
        return SubsetOutcome(
            verdict, repetitions, cost=cost, carried=() if verdict == "unperturbed" else ("inner A – B +0.30",)
        )  # type: ignore[arg-type]
