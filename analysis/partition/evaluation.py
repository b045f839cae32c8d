"""Evaluation of candidate subsets: each is measured once, within the limits, and recorded.

The search does not depend on traces: a `Judge` returns a `SubsetOutcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from unperturbed.analysis.partition.plan import Cost, Measurement, Stage, Subset, SubsetOutcome
from unperturbed.analysis.perturbation import OPEN
from unperturbed.common.wording import counted, duration

Observer: TypeAlias = Callable[[Measurement], None]


class Judge(Protocol):
    """Interface to make and judge runs of subsets: `judging.TraceJudge` uses traces, simulations may use anything.

    Exploring pools all runs of a subset. The runs of a certification are judged alone and join the pool afterwards:
    they certify only once, but the search can still use them.
    """

    @property
    def runs_per_repetition(self) -> int:
        """Return the number of runs in one repetition: one for each pass."""

    @property
    def baseline_runs(self) -> int:
        """Return the number of runs that `renew_baseline` makes; 0 if certificates use the search's baseline."""

    def explore(self, subset: Subset, repetitions: int) -> SubsetOutcome:
        """Make further runs of a subset, possibly none, and judge the subset by its whole pool."""

    def certify(self, subset: Subset, repetitions: int, level: float) -> SubsetOutcome:
        """Make fresh runs of a subset and judge it by these alone, with every one-sided confidence bound at `level`."""

    def repetitions_to_certify(self, subset: Subset, level: float, maximum: int) -> int | None:
        """Return the repetitions that will probably certify an explored subset; None if `maximum` is unlikely to."""

    def renew_baseline(self) -> None:
        """Make fresh baseline runs, and compare all later certifications with them."""


class Stop(Exception):  # noqa: N818  not an error: the search ends and keeps its findings
    """Raised if the next measurement would exceed a limit; it never leaves this package."""


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search: repetitions, level, limits and seed.

    Attributes
    ----------
    repetitions : int
        First repetitions of each candidate, in each pass; at least 3.
    max_repetitions : int
        Maximum repetitions of an undecided candidate, and of a certification.
    alpha : float
        Upper bound on the probability that the plan contains any invalid certificate; see `certify`.
    max_runs : int or None
        Limit on all runs, never exceeded; None for no limit.
    max_hours : float or None
        Limit on the hours of the search: no measurement starts that would probably exceed it, judging by the time of
        previous runs; None for no limit.
    seconds_per_run : float or None
        Expected time of a run, for the forecast and until runs have been timed; None if unknown.
    seed : int
        Seed of the strategy's random choices.

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
            raise ValueError(f"`repetitions` is {self.repetitions}: use at least 3, to measure how runs vary")
        if self.max_repetitions < self.repetitions:
            raise ValueError(
                f"`max_repetitions` is {self.max_repetitions}, which is less than `repetitions` ({self.repetitions}): "
                f"use at least {self.repetitions}"
            )
        if not 0 < self.alpha < 0.5:
            raise ValueError(f"`alpha` is {self.alpha}: use a level between 0 and 0.5, such as 0.05")
        for name in ("max_runs", "max_hours", "seconds_per_run"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"`{name}` is {value}: use a positive number, or None")


class Limits:
    """Counter of runs and hours that stops the search before it exceeds a limit."""

    def __init__(self, settings: SearchSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock, self._began = settings, clock, clock()
        self.runs = 0  # runs made so far

    @property
    def any(self) -> bool:
        """Return whether any limit is set."""
        return self._settings.max_runs is not None or self._settings.max_hours is not None

    @property
    def hours(self) -> float:
        """Return the hours since the search began."""
        return (self._clock() - self._began) / 3600

    def require(self, runs: int, reserve: int = 0) -> None:
        """Raise `Stop` if these runs, and a reserve of at most half of the limit, would exceed a limit."""
        most, hours = self._settings.max_runs, self._settings.max_hours
        if most is not None and self.runs + runs + min(reserve, most // 2) > most:
            kept = f"; {min(reserve, most // 2)} runs are reserved for certification" if reserve else ""
            raise Stop(
                f"`max_runs` is {most}: the search has made {counted(self.runs, 'run')}, and the next measurement "
                f"needs {runs} more{kept}"
            )
        if hours is None:
            return
        next_hours, kept_hours = self._hours_of(runs), min(self._hours_of(reserve), hours / 2)
        if self.hours + next_hours + kept_hours > hours:
            kept = f"; {duration(3600 * kept_hours)} are reserved for certification" if reserve else ""
            raise Stop(
                f"`max_hours` is {hours:g}: {duration(3600 * self.hours)} have passed, and the next "
                f"{counted(runs, 'run')} would take about {duration(3600 * next_hours)}{kept}"
            )

    def _hours_of(self, runs: int) -> float:
        # The user's estimate counts as one timed run, so a single unusual first run does not end the search.
        expected = self._settings.seconds_per_run
        timed = self.runs + (expected is not None)
        return runs * (self.hours + (expected or 0.0) / 3600) / timed if timed else 0.0


class CandidateEvaluator:
    """Evaluator of subsets for a strategy, with a record of all outcomes.

    Each subset is measured once, and its outcome is recorded. It gets more repetitions only while it is not shown to be
    unperturbed and more repetitions have a fair chance to show it. What is measured depends only on outcomes, settings
    and the order of the metrics. Every method that measures raises `Stop` when a limit is reached.

    Parameters
    ----------
    metrics : sequence of str
        All metrics. The judge gets the metrics of each subset in this order.
    judge : Judge
        Makes the runs and judges subsets.
    settings : SearchSettings
        Numbers of runs for candidates and certifications.
    limits : Limits
        Limits on runs and hours.
    observer : Observer
        Called with each measurement.
    ahead : Ahead, optional
        Makes runs in advance; None if subsets are measured one at a time.
    fits : callable, optional
        Returns whether one run can count a subset, always true of a single metric; None if runs can count all of them.

    Attributes
    ----------
    history : list of Measurement
        All measurements so far.
    stage : Stage
        Current stage, recorded with each measurement.
    level : float
        The level at which the next subset will be certified.
    uncertified : tuple of str
        Metrics without a certificate; the runs to certify their accepted subsets are reserved.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        judge: Judge,
        settings: SearchSettings,
        limits: Limits,
        observer: Observer,
        ahead: Ahead | None = None,
        fits: Callable[[Subset], bool] | None = None,
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
        self._fits, self._too_large = fits, dict[Subset, None]()

    def subset(self, metrics: Iterable[str]) -> Subset:
        """Return metrics as a subset: without duplicates, in the order of all metrics."""
        return tuple(sorted(set(metrics), key=self._place.__getitem__))

    def known(self, metrics: Iterable[str]) -> SubsetOutcome | None:
        """Return the outcome of a subset, None if it was not measured."""
        return self._known.get(self.subset(metrics))

    def measured(self) -> Iterator[tuple[Subset, bool]]:
        """Yield every measured subset, in the order of measurement, and whether it is accepted; then those that no run
        can count.
        """
        for subset, outcome in self._known.items():
            yield subset, outcome.unperturbed and subset not in self._refused
        yield from ((subset, False) for subset in self._too_large)

    def take(self, subset: Subset) -> None:
        """Judge a subset by the runs that the judge already has of it."""
        self._known[subset] = self._judge.explore(subset, 0)

    def accepts(self, metrics: Iterable[str]) -> bool:
        """Return whether a subset is shown to be unperturbed and certifiable; measure it if its outcome is unknown."""
        subset = self.subset(metrics)
        if subset in self._refused:
            return False
        if self._fits is not None and len(subset) > 1 and not self._fits(subset):
            self._too_large[subset] = None
            return False
        outcome = self._first(subset)
        while (more := self._worthwhile(subset, outcome)) > 0:
            outcome = self._explore(subset, more)
        return outcome.unperturbed and self._certifiable(subset)

    @property
    def at_once(self) -> int:
        """Return the number of subsets that are measured at the same time."""
        return 1 if self._ahead is None else self._ahead.at_once

    def expect(self, subsets: Iterable[Iterable[str]], *, certain: bool = False) -> None:
        """Start the runs of the subsets that the strategy measures next, all at the same time; return no outcomes.

        Parameters
        ----------
        subsets : iterable of iterable of str
            The likeliest subsets first. Subsets with a known outcome are skipped.
        certain : bool, default False
            Whether the strategy will measure all of these subsets, unless a limit ends the search. If not, at most
            `at_once` subsets are started, and none if a limit is set.
        """
        if self._ahead is None or (self._limits.any and not certain):
            return
        unknown: dict[Subset, None] = {}
        for metrics in subsets:
            subset = self.subset(metrics)
            if subset not in self._known and subset not in self._refused:
                unknown[subset] = None
            if not certain and len(unknown) == self._ahead.at_once:
                break
        self._begin([(subset, self.settings.repetitions) for subset in unknown])

    def expect_certified(self, subsets: Sequence[Subset]) -> None:
        """Start the runs of several certifications at once: as many as this level needs; a lower level needs more."""
        wanted = [(subset, self.repetitions_to_certify(subset, self.level)) for subset in subsets]
        self._begin([(subset, repetitions) for subset, repetitions in wanted if repetitions is not None])

    def _begin(self, requests: Sequence[tuple[Subset, int]]) -> None:
        # A single subset is measured immediately anyway. With `max_runs`, no run may be wasted.
        if self._ahead is not None and len(requests) > 1 and self.settings.max_runs is None:
            self._ahead.request(requests)

    def alone(self, metrics: Sequence[str]) -> Subset:
        """Measure each metric alone; return the metrics that are not perturbed alone, the most costly first."""
        self.stage = "alone"
        self.expect([(metric,) for metric in metrics], certain=True)
        for metric in metrics:
            # An open metric waits until it needs its own subset; a metric that is shown to be perturbed is confirmed.
            if self._first((metric,)).verdict == "perturbed":
                self.accepts((metric,))
        self.stage = "search"
        return by_cost({name: self._known[(name,)].cost for name in metrics}, self.placeable(metrics))

    def placeable(self, metrics: Sequence[str]) -> Subset:
        """Return the metrics that are not known to be perturbed when measured alone, in the given order."""
        return tuple(name for name in metrics if (known := self.known((name,))) is None or known.verdict != "perturbed")

    def cover(self, metrics: Iterable[str]) -> list[Subset]:
        """Return disjoint accepted subsets of `metrics`, the largest first, without measuring; for a stopped search."""
        free = set(metrics)
        disjoint = []
        for subset, accepted in sorted(self.measured(), key=lambda each: -len(each[0])):
            if accepted and free.issuperset(subset) and self._certifiable(subset):
                disjoint.append(subset)
                free.difference_update(subset)
        return disjoint

    def renew_baseline(self) -> None:
        """Make fresh baseline runs for all later certifications, if the judge makes any."""
        runs = self._judge.baseline_runs
        if runs:
            self._limits.require(runs)
            self._judge.renew_baseline()
            self.stage = "baseline"
            self._note((), runs // self._judge.runs_per_repetition, runs, None)

    def certify(self, subset: Subset, level: float) -> SubsetOutcome | None:
        """Make a fixed number of fresh runs of a subset and judge it by these alone; return None if that is hopeless.

        A subset that is not certified is judged again by all of its runs, which then decide `accepts`.
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
        """Never accept this subset again."""
        self._refused.add(subset)

    def repetitions_to_certify(self, subset: Subset, level: float) -> int | None:
        """Return the repetitions that will probably certify a subset, from the search's runs; None if that is hopeless.

        A single metric is tried anyway, because there is no smaller subset.
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

    def _worthwhile(self, subset: Subset, outcome: SubsetOutcome) -> int:
        """Return how many more repetitions a subset gets; 0 if even the maximum is unlikely to show it unperturbed."""
        wanted, most = outcome.repetitions_to_accept, self.settings.max_repetitions
        if len(subset) == 1 and outcome.verdict in OPEN:
            wanted = min(wanted or most, most)  # a single metric is given up only if it is shown to be perturbed
        if wanted is None or wanted > most:
            return 0
        # The number is an estimate from few runs: at most double them, then estimate again.
        return min(max(wanted - outcome.repetitions, 1), outcome.repetitions, most - outcome.repetitions)

    def _explore(self, subset: Subset, repetitions: int) -> SubsetOutcome:
        runs = repetitions * self._judge.runs_per_repetition
        self._limits.require(runs, self._reserve() if self._limits.any else 0)
        outcome = self._known[subset] = self._judge.explore(subset, repetitions)
        self._note(subset, repetitions, runs, outcome)
        return outcome

    def _reserve(self) -> int:
        """Return the runs to reserve: they certify all accepted subsets, and allow for one failure."""
        needed = [self.repetitions_to_certify(subset, self.level) or 0 for subset in self.cover(self.uncertified)]
        return (sum(needed) + max(needed, default=0)) * self._judge.runs_per_repetition + self._judge.baseline_runs

    def _note(
        self, subset: Subset, repetitions: int, runs: int, outcome: SubsetOutcome | None, level: float | None = None
    ) -> None:
        self._limits.runs += runs
        is_candidate = level is None and outcome is not None and outcome.unperturbed
        certifiable = not is_candidate or self._certifiable(subset)
        done = Measurement(
            len(self.history) + 1, self.stage, subset, repetitions, outcome, self._limits.runs, level, certifiable
        )
        self.history.append(done)
        self._observer(done)


def by_cost(costs: Mapping[str, Cost], metrics: Sequence[str]) -> Subset:
    """Sort metrics by decreasing cost: by the first of instructions, cycles, time and events known for all of them."""
    for kind in ("instructions", "cycles", "time", "events"):
        values = {metric: getattr(costs[metric], kind) for metric in metrics}
        if all(value is not None for value in values.values()):
            return tuple(sorted(metrics, key=lambda metric: -values[metric]))
    return tuple(metrics)


@dataclass(frozen=True)
class Ahead:
    """Runs that are made before the search needs them, for example on the nodes of a cluster.

    The search gets no outcome from them and takes the same steps with and without them: only the waiting is shorter.

    Attributes
    ----------
    at_once : int
        Number of subsets that are measured at the same time.
    request : callable
        `request([(subset, repetitions), …])` starts the runs and returns immediately. The judge uses these runs when
        the search needs them.
    """

    at_once: int
    request: Callable[[Sequence[tuple[Subset, int]]], None]
