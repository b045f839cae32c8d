"""Where a strategy measures: every subset once, within the limits, and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from unperturbed.analysis.partition.limits import Limits, Settings
from unperturbed.analysis.partition.outcome import Judge, Outcome, Subset, by_cost

__all__ = ["Bench", "Measurement", "Observer", "Stage"]

Stage = Literal["together", "alone", "search", "improve", "baseline", "certify"]
"""Why something is measured: all metrics at once, each alone, by the strategy, to save a subset, afresh to certify against, to certify."""


@dataclass(frozen=True)
class Measurement:
    """One measurement, as it is told to the observer and kept in the plan's history.

    Attributes
    ----------
    number : counted from 1.
    stage : why it was made.
    subset : what was measured; empty for baseline runs.
    repetitions : new runs of each pass.
    outcome : what all runs say that the subset was judged by: in the search its whole pool, in a certification the new ones alone.
        None for baseline runs.
    runs_used : runs made so far, these included.
    level : of a certification, None else.
    """

    number: int
    stage: Stage
    subset: Subset
    repetitions: int
    outcome: Outcome | None
    runs_used: int
    level: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return JSON types only, without the evidence."""
        return {
            "number": self.number,
            "stage": self.stage,
            "subset": list(self.subset),
            "repetitions": self.repetitions,
            "outcome": self.outcome.to_json() if self.outcome else None,
            "runs_used": self.runs_used,
            "level": self.level,
        }


Observer: TypeAlias = Callable[[Measurement], None]


class Bench:
    """Measures subsets for a strategy, and remembers what was found.

    A subset is measured once. Asked for again it is remembered; it gets more repetitions only while it is not shown unperturbed and
    these have a fair chance to show it. What is measured depends on outcomes, settings and the order of the metrics alone.

    Parameters
    ----------
    metrics : all of them. Subsets are given to the judge in this order.
    judge : makes the runs. settings, limits : how many. observer : is told of each measurement.

    Attributes
    ----------
    history : all measurements so far.
    stage : written down with each measurement.
    level : at which the next subset will be certified.
    wanting : metrics that have no certificate yet; runs to certify what is known of them are kept back from the limits.
    """

    def __init__(self, metrics: Sequence[str], judge: Judge, settings: Settings, limits: Limits, observer: Observer) -> None:
        self.settings, self.metrics = settings, tuple(metrics)
        self.history: list[Measurement] = []
        self.stage: Stage = "together"
        self.level = settings.alpha / 2
        self.wanting = tuple(metrics)
        self._place = {metric: at for at, metric in enumerate(metrics)}
        self._judge, self._limits, self._observer = judge, limits, observer
        self._known: dict[Subset, Outcome] = {}
        self._refused: set[Subset] = set()

    def subset(self, metrics: Iterable[str]) -> Subset:
        """Return metrics in the one order in which they are measured."""
        return tuple(sorted(set(metrics), key=self._place.__getitem__))

    def known(self, metrics: Iterable[str]) -> Outcome | None:
        """Return what was found of a subset, None when it was not measured."""
        return self._known.get(self.subset(metrics))

    def measured(self) -> Iterator[tuple[Subset, bool]]:
        """Yield every subset that was measured, and whether it is accepted, in the order in which they were measured."""
        for subset, outcome in self._known.items():
            yield subset, outcome.unperturbed and subset not in self._refused

    def accepts(self, metrics: Iterable[str]) -> bool:
        """Measure a subset unless it is known, and tell whether it is shown to be unperturbed.

        Raises
        ------
        Stop
            A limit is reached.
        """
        subset = self.subset(metrics)
        if subset in self._refused:
            return False
        found = self._first(subset)
        while (more := self._worthwhile(subset, found)) > 0:
            found = self._explore(subset, more)
        return found.unperturbed and self._certifiable(subset)

    def alone(self, metrics: Sequence[str]) -> Subset:
        """Measure each metric alone; return those that are not perturbed alone, by falling cost.

        Raises
        ------
        Stop
            A limit is reached.
        """
        self.stage = "alone"
        for metric in metrics:
            # An undecided metric waits until it needs a subset of its own; what seems perturbed is made sure of.
            if self._first((metric,)).verdict == "perturbed":
                self.accepts((metric,))
        self.stage = "search"
        return by_cost({one: self._known[(one,)].cost for one in metrics}, self.placeable(metrics))

    def placeable(self, metrics: Sequence[str]) -> Subset:
        """Return the metrics that were not found perturbed alone, in the order given."""
        return tuple(one for one in metrics if (found := self.known((one,))) is None or found.verdict != "perturbed")

    def cover(self, metrics: Iterable[str]) -> list[Subset]:
        """Return disjoint subsets of `metrics` that are accepted by what was measured so far, the largest first.

        Nothing is measured for it: this is what a search that is stopped has found.
        """
        free = set(metrics)
        found = []
        for subset, accepted in sorted(self.measured(), key=lambda each: -len(each[0])):
            if accepted and free.issuperset(subset) and self._certifiable(subset):
                found.append(subset)
                free.difference_update(subset)
        return found

    def renew_baseline(self) -> None:
        """Make fresh baseline runs for the certifications that follow, where the judge makes any.

        Raises
        ------
        Stop
            A limit is reached.
        """
        runs = self._judge.baseline_runs
        if runs:
            self._limits.require(runs)
            self._judge.renew_baseline()
            self.stage = "baseline"
            self._note((), runs // self._judge.runs_per_repetition, runs, None)

    def certify(self, subset: Subset, level: float) -> Outcome | None:
        """Make fresh runs of a subset, their number fixed before, and judge it by these alone; None where that is hopeless.

        A subset that is not certified is judged again by all its runs, and `accepts` says what these say.

        Raises
        ------
        Stop
            A limit is reached.
        """
        repetitions = self.repetitions_to_certify(subset, level)
        if repetitions is None:
            return None
        runs = repetitions * self._judge.runs_per_repetition
        self._limits.require(runs)
        self.stage = "certify"
        outcome = self._judge.certify(subset, repetitions, level)
        self._note(subset, repetitions, runs, outcome, level)
        if not outcome.unperturbed:
            self._known[subset] = self._judge.explore(subset, 0)
        return outcome

    def refuse(self, subset: Subset) -> None:
        """Accept this subset no more."""
        self._refused.add(subset)

    def repetitions_to_certify(self, subset: Subset, level: float) -> int | None:
        """Return the repetitions with which a subset will be certified, from the search's runs; None where that is hopeless.

        For one metric alone it is tried all the same, as there is nothing smaller to go back to.
        """
        most = self.settings.max_repetitions
        needed = self._judge.repetitions_to_certify(subset, level, most)
        if needed is None:
            return most if len(subset) == 1 else None
        return max(self.settings.repetitions, needed)

    def _certifiable(self, subset: Subset) -> bool:
        return self.repetitions_to_certify(subset, self.level) is not None

    def _first(self, subset: Subset) -> Outcome:
        return self._known.get(subset) or self._explore(subset, self.settings.repetitions)

    def _worthwhile(self, subset: Subset, found: Outcome) -> int:
        """Return how many more repetitions to give: none where even the most have hardly a chance to show it unperturbed."""
        wanted, most = found.repetitions_to_accept, self.settings.max_repetitions
        if len(subset) == 1 and found.verdict == "undecided":
            wanted = min(wanted or most, most)  # a metric is not given up while it is undecided alone
        if wanted is None or wanted > most:
            return 0
        # The number is a guess from few runs: they are doubled at most, then it is guessed again.
        return min(max(wanted - found.repetitions, 1), found.repetitions, most - found.repetitions)

    def _explore(self, subset: Subset, repetitions: int) -> Outcome:
        runs = repetitions * self._judge.runs_per_repetition
        self._limits.require(runs, self._reserve() if self._limits.any else 0)
        outcome = self._known[subset] = self._judge.explore(subset, repetitions)
        self._note(subset, repetitions, runs, outcome)
        return outcome

    def _reserve(self) -> int:
        """Return the runs that certify what was found so far, and one failure more: a plan without a certificate is worth little."""
        needed = [self.repetitions_to_certify(subset, self.level) or 0 for subset in self.cover(self.wanting)]
        return (sum(needed) + max(needed, default=0)) * self._judge.runs_per_repetition + self._judge.baseline_runs

    def _note(self, subset: Subset, repetitions: int, runs: int, outcome: Outcome | None, level: float | None = None) -> None:
        self._limits.runs += runs
        done = Measurement(len(self.history) + 1, self.stage, subset, repetitions, outcome, self._limits.runs, level)
        self.history.append(done)
        self._observer(done)
