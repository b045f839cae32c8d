"""What a campaign tells while it goes on, and what it says before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from unperturbed.collectors.passes import Passes
from unperturbed.harness.plan import PlannedRun

__all__ = ["Estimate", "Progress"]


@dataclass(frozen=True)
class Estimate:
    """What is about to happen.

    Attributes
    ----------
    runs, done : runs of the campaign, and how many of them are done already.
    seconds : expected time for the rest.
    configurations : name to number of runs.
    sources : which source counts, and why others do not.
    notes : what the user should know before it starts.
    """

    runs: int
    done: int
    seconds: float
    configurations: Mapping[str, int]
    passes: Passes
    notes: tuple[str, ...]


class Progress(Protocol):
    """What a campaign tells while it goes on. Called between runs only: nothing is drawn while the program is measured."""

    def step(self, what: str) -> None:
        """Tell that a step of the preparation begins."""

    def note(self, what: str) -> None:
        """Tell what the user should know before anything takes its time."""

    def planned(self, estimate: Estimate) -> None:
        """Tell what is about to happen."""

    def starting(self, run: PlannedRun, *, done: int, total: int, seconds_left: float) -> None:
        """Tell that a run begins."""

    def failed(self, run: PlannedRun, attempt: int, error: str) -> None:
        """Tell that an attempt failed."""
