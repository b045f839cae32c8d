"""Progress of a campaign: its reports before and during the runs, and the time left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS

if TYPE_CHECKING:
    from unperturbed.collectors.passes import Passes
    from unperturbed.harness.campaign.plan import PlannedRun


@dataclass(frozen=True)
class Estimate:
    """The expected extent of the runs to come."""

    # runs, done: Runs of the campaign, and how many of them are done already.
    runs: int
    done: int
    seconds: float  # Expected time for the rest
    configurations: Mapping[str, int]  # Number of runs by configuration
    passes: Passes
    notes: tuple[str, ...]  # What the user should know before it starts


class Durations:
    """How long the runs of each pass took: the mean of those that are over, to predict the rest."""

    def __init__(self) -> None:
        self._sum: defaultdict[str, float] = defaultdict(float)
        self._runs: Counter[str] = Counter()

    def add(self, pass_name: str, seconds: float, *, runs: int = 1) -> None:
        """Record one run, or several that took these seconds together."""
        self._sum[pass_name] += seconds
        self._runs[pass_name] += runs

    def knows(self, pass_name: str) -> bool:
        """Return whether a run of the pass was recorded."""
        return bool(self._runs[pass_name])

    def expected(self, runs: Mapping[str, int]) -> float:
        """Return the expected seconds of a number of runs of each pass; 0 when any of them is unknown."""
        wanted = {name: count for name, count in runs.items() if count}
        if any(not self._runs[name] for name in wanted):
            return 0.0
        return sum(count * self._sum[name] / self._runs[name] for name, count in wanted.items())


Watch = Callable[[str, int, int], None]
"""Called before each step of a long analysis: what it does, how many steps are over, how many there are in all."""


def unwatched(_what: str, _done: int, _total: int) -> None:
    """Watch nothing."""


class Progress(Protocol):
    """Receives the steps of a campaign, between runs only: nothing is drawn while the program is measured."""

    def step(self, what: str) -> None:
        """Report that a step of the preparation begins."""

    def note(self, what: str) -> None:
        """Report what the user should know before long work."""

    def planned(self, estimate: Estimate) -> None:
        """Report the runs to come."""

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Report that a run begins."""

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Report that an attempt failed."""


def describe_interval(interval_ns: int, clock: str, event: str = "") -> str:
    """Return the length of an interval, [ns], quanta of the work clock or counts of an event, in words."""
    if event:
        return f"{interval_ns:,} {event}"
    if clock == "work":
        return f"{interval_ns * QUANTUM_BLOCKS:,} basic blocks"
    return f"{interval_ns / 1e6:g} ms"
