"""Evaluate candidate subsets: each is measured once, within the limits, and recorded.

The search knows nothing of traces: it asks a `Judge` and gets an `SubsetOutcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from unperturbed.analysis.partition.plan import Cost, Measurement, Stage, Subset, SubsetOutcome
from unperturbed.analysis.perturbation import OPEN

Observer: TypeAlias = Callable[[Measurement], None]


class Judge(Protocol):
    """Makes runs of subsets and judges them: `judging.TraceJudge` by traces, a simulation by anything.

    Explored runs of a subset are pooled. A certification's runs are judged alone, and belong to the pool afterwards:
    they certify once, and what they taught is not lost.
    """

    @property
    def runs_per_repetition(self) -> int:
        """Return how many runs one repetition takes: one for each pass."""

    @property
    def baseline_runs(self) -> int:
        """Return how many runs `renew_baseline` takes; 0 where certificates use the search's baseline."""

    def explore(self, subset: Subset, repetitions: int) -> SubsetOutcome:
        """Make further runs of a subset, possibly none, and judge it by its whole pool."""

    def certify(self, subset: Subset, repetitions: int, level: float) -> SubsetOutcome:
        """Make fresh runs of a subset and judge it by these alone, each one-sided bound at `level`."""

    def repetitions_to_certify(self, subset: Subset, level: float, maximum: int) -> int | None:
        """Return how many repetitions will probably certify an explored subset; None when `maximum` will hardly do."""

    def renew_baseline(self) -> None:
        """Make fresh baseline runs, and hold the certificates that follow against these."""


class Stop(Exception):  # noqa: N818  no error: the search ends here, and what was found is kept
    """The next measurement would go over a limit. It never leaves this package."""


@dataclass(frozen=True)
class SearchSettings:
    """How a search measures.

    Attributes
    ----------
    repetitions : int
        Of each candidate at first, in each pass; at least 3.
    max_repetitions : int
        Of a candidate that is undecided, and of a certification.
    alpha : float
        The chance that the plan holds any invalid certificate is at most this; see `certify`.
    max_runs : int or None
        Limit on all runs, never exceeded; None for none.
    max_hours : float or None
        Nothing is begun that would probably take longer than this altogether, by the time that runs took so far; None
        for none.
    seconds_per_run : float or None
        Expected, for the forecast and until runs have been timed; None when unknown.
    seed : int
        Of what is drawn by a strategy.

    Raises
    ------
    ValueError
        A number is out of range.
    """

    repetitions: int = 3
    max_repetitions: int = 20
    alpha: float = 0.05
    max_runs: int | None = None
    max_hours: float | None = None
    seconds_per_run: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if self.repetitions < 3:
            raise ValueError(f"repetitions is {self.repetitions}: give at least 3, to see how runs vary")
        if self.max_repetitions < self.repetitions:
            raise ValueError(
                f"max_repetitions is {self.max_repetitions}, and every candidate is run {self.repetitions} times: "
                "give at least that"
            )
        if not 0 < self.alpha < 0.5:
            raise ValueError(f"alpha is {self.alpha}: give a level between 0 and 0.5, such as 0.05")
        for name in ("max_runs", "max_hours", "seconds_per_run"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}: give a positive number, or None")


class Limits:
    """Counts runs and hours, and stops before a limit would be exceeded."""

    def __init__(self, settings: SearchSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock, self._began = settings, clock, clock()
        self.runs = 0  # made so far

    @property
    def any(self) -> bool:
        """Return whether there is a limit at all."""
        return self._settings.max_runs is not None or self._settings.max_hours is not None

    @property
    def hours(self) -> float:
        """Return the hours since the search began."""
        return (self._clock() - self._began) / 3600

    def require(self, runs: int, reserve: int = 0) -> None:
        """Ask for runs, with `reserve` more kept back, though never more than half of what there is."""
        most, hours = self._settings.max_runs, self._settings.max_hours
        if most is not None and self.runs + runs + min(reserve, most // 2) > most:
            kept = f", and {min(reserve, most // 2)} are kept for certification" if reserve else ""
            raise Stop(f"max_runs is {most}: {self.runs} runs are made, the next subset needs {runs}{kept}")
        if hours is None:
            return
        next_hours, kept_hours = self._hours_of(runs), min(self._hours_of(reserve), hours / 2)
        if self.hours + next_hours + kept_hours > hours:
            kept = f", and {kept_hours:.2g} h are kept for certification" if reserve else ""
            raise Stop(
                f"max_hours is {hours:g}: {self.hours:.2g} h have passed, the next {runs} runs would take about "
                f"{next_hours:.2g} h{kept}"
            )

    def _hours_of(self, runs: int) -> float:
        # What the user expects counts as one run that was timed, so that one odd first run does not end a search.
        expected = self._settings.seconds_per_run
        timed = self.runs + (expected is not None)
        return runs * (self.hours + (expected or 0.0) / 3600) / timed if timed else 0.0


class CandidateEvaluator:
    """Measure subsets for a strategy, and remember what was found.

    A subset is measured once. Asked for again it is remembered; it gets more repetitions only while it is not shown
    unperturbed and these have a fair chance to show it. What is measured depends on outcomes, settings and the order of
    the metrics alone. Whatever measures raises `Stop` where a limit is reached.

    Parameters
    ----------
    metrics : sequence of str
        All of them. Subsets are given to the judge in this order.
    judge : Judge
        Makes the runs.
    settings : SearchSettings
        How many runs candidates and certifications get.
    limits : Limits
        The limits on runs and hours that are kept.
    observer : Observer
        Called with each measurement.
    ahead : Ahead, optional
        Makes runs before they are asked for; None where nothing is measured at the same time.

    Attributes
    ----------
    history : list of Measurement
        All measurements so far.
    stage : Stage
        Written down with each measurement.
    level : float
        The level at which the next subset will be certified.
    uncertified : tuple of str
        Metrics that have no certificate yet; runs to certify what is known of them are kept back from the limits.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        judge: Judge,
        settings: SearchSettings,
        limits: Limits,
        observer: Observer,
        ahead: Ahead | None = None,
    ) -> None:
        self.settings, self.metrics = settings, tuple(metrics)
        self.history: list[Measurement] = []
        self.stage: Stage = "together"
        self.level = settings.alpha / 2
        self.uncertified = tuple(metrics)
        self._place = {metric: at for at, metric in enumerate(metrics)}
        self._judge, self._limits, self._observer, self._ahead = judge, limits, observer, ahead
        self._known: dict[Subset, SubsetOutcome] = {}
        self._refused: set[Subset] = set()

    def subset(self, metrics: Iterable[str]) -> Subset:
        """Return metrics in the one order in which they are measured."""
        return tuple(sorted(set(metrics), key=self._place.__getitem__))

    def known(self, metrics: Iterable[str]) -> SubsetOutcome | None:
        """Return what was found of a subset, None when it was not measured."""
        return self._known.get(self.subset(metrics))

    def measured(self) -> Iterator[tuple[Subset, bool]]:
        """Yield every subset that was measured, in that order, and whether it is accepted."""
        for subset, outcome in self._known.items():
            yield subset, outcome.unperturbed and subset not in self._refused

    def accepts(self, metrics: Iterable[str]) -> bool:
        """Measure a subset unless it is known, and return whether it is shown to be unperturbed."""
        subset = self.subset(metrics)
        if subset in self._refused:
            return False
        found = self._first(subset)
        while (more := self._worthwhile(subset, found)) > 0:
            found = self._explore(subset, more)
        return found.unperturbed and self._certifiable(subset)

    @property
    def at_once(self) -> int:
        """Return how many subsets are measured at the same time."""
        return 1 if self._ahead is None else self._ahead.at_once

    def expect(self, subsets: Iterable[Iterable[str]], *, certain: bool = False) -> None:
        """Begin the runs of subsets that the strategy measures next, at the same time; return no outcome.

        Parameters
        ----------
        subsets : iterable of iterable of str
            The likeliest first. Those that are known are passed over.
        certain : bool, default False
            Every one of them will be asked for, unless a limit ends the search. Of those that only may be, no more are
            begun than are measured at once, and none where there is a limit.
        """
        if self._ahead is None or (self._limits.any and not certain):
            return
        found: dict[Subset, None] = {}
        for metrics in subsets:
            subset = self.subset(metrics)
            if subset not in self._known and subset not in self._refused:
                found[subset] = None
            if not certain and len(found) == self._ahead.at_once:
                break
        self._begin([(subset, self.settings.repetitions) for subset in found])

    def expect_certified(self, subsets: Sequence[Subset]) -> None:
        """Begin the runs of certifications at the same time, as many as this level takes; a lower one adds some."""
        wanted = [(subset, self.repetitions_to_certify(subset, self.level)) for subset in subsets]
        self._begin([(subset, repetitions) for subset, repetitions in wanted if repetitions is not None])

    def _begin(self, requests: Sequence[tuple[Subset, int]]) -> None:
        # A single one is asked for at once. `max_runs` is kept exactly, so that no run may be made in vain.
        if self._ahead is not None and len(requests) > 1 and self.settings.max_runs is None:
            self._ahead.request(requests)

    def alone(self, metrics: Sequence[str]) -> Subset:
        """Measure each metric alone; return those that are not perturbed alone, by falling cost."""
        self.stage = "alone"
        self.expect([(metric,) for metric in metrics], certain=True)
        for metric in metrics:
            # A metric that is open waits until it needs a subset of its own; what is shown perturbed is made sure of.
            if self._first((metric,)).verdict == "perturbed":
                self.accepts((metric,))
        self.stage = "search"
        return by_cost({one: self._known[(one,)].cost for one in metrics}, self.placeable(metrics))

    def placeable(self, metrics: Sequence[str]) -> Subset:
        """Return the metrics that were not found perturbed alone, in the order given."""
        return tuple(one for one in metrics if (found := self.known((one,))) is None or found.verdict != "perturbed")

    def cover(self, metrics: Iterable[str]) -> list[Subset]:
        """Return disjoint accepted subsets of `metrics`, the largest first, without measuring: a stopped search's."""
        free = set(metrics)
        found = []
        for subset, accepted in sorted(self.measured(), key=lambda each: -len(each[0])):
            if accepted and free.issuperset(subset) and self._certifiable(subset):
                found.append(subset)
                free.difference_update(subset)
        return found

    def renew_baseline(self) -> None:
        """Make fresh baseline runs for the certifications that follow, where the judge makes any."""
        runs = self._judge.baseline_runs
        if runs:
            self._limits.require(runs)
            self._judge.renew_baseline()
            self.stage = "baseline"
            self._note((), runs // self._judge.runs_per_repetition, runs, None)

    def certify(self, subset: Subset, level: float) -> SubsetOutcome | None:
        """Make a fixed number of fresh runs of a subset and judge it by these alone; None where that is hopeless.

        A subset that is not certified is judged again by all its runs, and `accepts` says what these say.
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
        """Return the repetitions that will certify a subset, by the search's runs; None where that is hopeless.

        For one metric alone it is tried all the same, as there is nothing smaller to go back to.
        """
        most = self.settings.max_repetitions
        needed = self._judge.repetitions_to_certify(subset, level, most)
        if needed is None:
            return most if len(subset) == 1 else None
        return max(self.settings.repetitions, needed)

    def _certifiable(self, subset: Subset) -> bool:
        return self.repetitions_to_certify(subset, self.level) is not None

    def _first(self, subset: Subset) -> SubsetOutcome:
        return self._known.get(subset) or self._explore(subset, self.settings.repetitions)

    def _worthwhile(self, subset: Subset, found: SubsetOutcome) -> int:
        """Return how many more repetitions to give; 0 where even the most would hardly show it unperturbed."""
        wanted, most = found.repetitions_to_accept, self.settings.max_repetitions
        if len(subset) == 1 and found.verdict in OPEN:
            wanted = min(wanted or most, most)  # a metric is not given up before it is shown perturbed alone
        if wanted is None or wanted > most:
            return 0
        # The number is a guess from few runs: they are doubled at most, then it is guessed again.
        return min(max(wanted - found.repetitions, 1), found.repetitions, most - found.repetitions)

    def _explore(self, subset: Subset, repetitions: int) -> SubsetOutcome:
        runs = repetitions * self._judge.runs_per_repetition
        self._limits.require(runs, self._reserve() if self._limits.any else 0)
        outcome = self._known[subset] = self._judge.explore(subset, repetitions)
        self._note(subset, repetitions, runs, outcome)
        return outcome

    def _reserve(self) -> int:
        """Return the runs that certify what was found so far, and one failure more: a plan needs certificates."""
        needed = [self.repetitions_to_certify(subset, self.level) or 0 for subset in self.cover(self.uncertified)]
        return (sum(needed) + max(needed, default=0)) * self._judge.runs_per_repetition + self._judge.baseline_runs

    def _note(
        self, subset: Subset, repetitions: int, runs: int, outcome: SubsetOutcome | None, level: float | None = None
    ) -> None:
        self._limits.runs += runs
        done = Measurement(len(self.history) + 1, self.stage, subset, repetitions, outcome, self._limits.runs, level)
        self.history.append(done)
        self._observer(done)


def by_cost(costs: Mapping[str, Cost], metrics: Sequence[str]) -> Subset:
    """Return metrics by falling cost: instructions, else cycles, else time, else events, what all of them have."""
    for kind in ("instructions", "cycles", "time", "events"):
        values = {metric: getattr(costs[metric], kind) for metric in metrics}
        if all(value is not None for value in values.values()):
            return tuple(sorted(metrics, key=lambda metric: -values[metric]))
    return tuple(metrics)


@dataclass(frozen=True)
class Ahead:
    """Makes runs before the search asks for them: on the nodes of a cluster, for example.

    The search learns no outcome from it, and so goes the same way with and without: only the waiting is shorter.

    Attributes
    ----------
    at_once : int
        How many subsets are measured at the same time.
    request : callable
        `request([(subset, repetitions), …])` begins the runs and returns. The judge hands out these runs when the
        search asks for them.
    """

    at_once: int
    request: Callable[[Sequence[tuple[Subset, int]]], None]
