"""Progress reports of a campaign before and during its runs, and the expected remaining time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from unperturbed.collectors.data.trace import PROGRAM_CLOCK
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS
from unperturbed.common.wording import counted

if TYPE_CHECKING:
    from unperturbed.collectors.passes import Passes
    from unperturbed.harness.campaign.plan import PlannedRun


@dataclass(frozen=True)
class Estimate:
    """Number and expected duration of a campaign's runs."""

    # runs, done: Number of runs of the campaign, and of those already done.
    runs: int
    done: int
    seconds: float  # Expected time for the remaining runs
    configurations: Mapping[str, int]  # Number of runs by configuration
    passes: Passes
    notes: tuple[str, ...]  # Notes for the user before the runs start


class Durations:
    """Mean duration of the finished runs in each pass, to predict the remaining time."""

    def __init__(self) -> None:
        self._sum: defaultdict[str, float] = defaultdict(float)
        self._runs: Counter[str] = Counter()

    def add(self, pass_name: str, seconds: float, *, runs: int = 1) -> None:
        """Record one run, or several runs with their total duration."""
        self._sum[pass_name] += seconds
        self._runs[pass_name] += runs

    def knows(self, pass_name: str) -> bool:
        """Return whether a run of this pass was recorded."""
        return bool(self._runs[pass_name])

    def expected(self, runs: Mapping[str, int]) -> float:
        """Return the expected seconds for these numbers of runs by pass; 0 if any needed pass has no recorded run."""
        wanted = {name: count for name, count in runs.items() if count}
        if any(not self._runs[name] for name in wanted):
            return 0.0
        return sum(count * self._sum[name] / self._runs[name] for name, count in wanted.items())


Watch = Callable[[str, int, int], None]
"""Callback before each step of a long analysis; its arguments: the step, the steps done, and the total steps."""


def unwatched(_what: str, _done: int, _total: int) -> None:
    """Ignore the progress of an analysis."""


class Progress(Protocol):
    """Receiver of a campaign's reports of progress, which come between runs: nothing is drawn during a measurement."""

    def step(self, what: str) -> None:
        """Report that a step of the preparation begins."""

    def note(self, what: str) -> None:
        """Report a note for the user."""

    def planned(self, estimate: Estimate) -> None:
        """Report the planned runs."""

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Report that a run begins."""

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Report that an attempt failed."""


class Unwatched:
    """Ignores the progress of a campaign."""

    def step(self, what: str) -> None:
        """Ignore a step."""

    def note(self, what: str) -> None:
        """Ignore a note."""

    def planned(self, estimate: Estimate) -> None:
        """Ignore the plan."""

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Ignore a run."""

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Ignore an attempt that failed: the run's last failure is raised."""


def describe_interval(interval_ns: int, clock: str, event: str = "", quantum: int = QUANTUM_BLOCKS) -> str:
    """Describe the length of an interval, given in ns, in quanta of the work clock or in counts of an event.

    `event`: The hardware metric whose counts, or the software metric whose events, end intervals; '' if none does.
    """
    if event:
        return f"{counted(interval_ns, 'event')} of {event}" if clock == PROGRAM_CLOCK else f"{interval_ns:,} {event}"
    if clock == "work":
        return f"{interval_ns * quantum:,} basic blocks"
    return f"{interval_ns / 1e6:g} ms"
