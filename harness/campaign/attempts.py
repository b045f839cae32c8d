"""The planned runs of a campaign one after the other: their queue, the attempts at each, and the time that is left."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unperturbed.errors import RunError
from unperturbed.harness.campaign.manifest import Manifest, now
from unperturbed.harness.campaign.plan import PlannedRun
from unperturbed.harness.campaign.preparation import make_empty_folder
from unperturbed.harness.campaign.progress import Durations, Progress
from unperturbed.harness.campaign.session import Session
from unperturbed.harness.host import state as host


class RunQueue:
    """The planned runs of a campaign in the order of the plan.

    `make`: Makes one attempt at a run: `make(run, attempt)` returns its `RunResult`. A `RunError` is a failed attempt.
    """

    def __init__(
        self,
        session: Session,
        planned: Sequence[PlannedRun],
        manifest: Manifest,
        progress: Progress,
        *,
        total: int,
        durations: Durations,
        make: Callable[[PlannedRun, Attempt], RunResult],
    ) -> None:
        self._folder = session.folder
        self._design = session.spec.campaign
        self._planned = planned
        self._position = {run.id: total - len(planned) + place for place, run in enumerate(planned)}
        self._manifest, self._progress, self._total = manifest, progress, total
        self._durations, self._make = durations, make
        self._left = Counter(run.pass_name for run in planned)
        self._another_follows = False

    def make_all(self) -> None:
        """Make the runs in the order of the plan while there is time."""
        started, limit = time.monotonic(), self._design.max_hours
        self._another_follows = True
        try:
            for run in self._planned:
                if not self.skip(run):
                    if limit is not None and time.monotonic() - started > limit * 3600:
                        raise RunError(
                            f"max_hours ({limit:g}) is reached: {self._position[run.id]} of {self._total} runs are "
                            "done; repeat the command to make the rest"
                        )
                    self.make_run(run)
                self._left[run.pass_name] -= 1
        finally:
            self._another_follows = False
            self._manifest.settle()

    def skip(self, _run: PlannedRun) -> bool:
        """Return whether a run is of no use any more."""
        return False

    def make_run(self, run: PlannedRun) -> None:
        """Make one run, with as many attempts as the spec allows."""
        left = self._durations.expected(self._left)
        self._progress.starting(run, done=self._position[run.id], total=self._total, seconds_left=left)
        self._durations.add(run.pass_name, self._attempt(run))

    def _attempt(self, run: PlannedRun) -> float:
        """Attempt a run until it succeeds or has used the attempts of this session; return the seconds of the last."""
        before = sum(failure.run == run.id for failure in self._manifest.failures())
        last = before + self._design.retries + 1
        for number in range(before + 1, last + 1):
            folder = make_empty_folder(self._folder / "runs" / run.id)
            host_before = host.state()
            self._manifest.start(run, attempt=number, started=now(), host=host_before)
            started = time.monotonic()
            try:
                done = self._make(run, Attempt(folder, number, host_before))
            except RunError as error:
                took = time.monotonic() - started
                self._manifest.fail(run, seconds=took, error=str(error), host=host.state(), final=number == last)
                self._progress.failed(run, number, str(error))
                _keep_failed(folder, number)
            else:
                took = time.monotonic() - started
                self._manifest.finish(
                    run,
                    seconds=done.seconds,
                    intervals=done.intervals,
                    host=host.state(),
                    totals=done.totals,
                    waits=self._another_follows,
                )
                break
        return took


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run."""

    folder: Path  # The run's folder, empty
    number: int  # Counted from 1, over all sessions
    host_before: Mapping[str, Any]  # The host's state before it


@dataclass(frozen=True)
class RunResult:
    """What is recorded of a finished run."""

    seconds: float  # How long the program took
    intervals: int  # Length of its trace
    totals: Mapping[str, Any] | None = None  # What a whole run of a sweep gave


def _keep_failed(folder: Path, attempt: int) -> None:
    """Keep what a failed attempt left, for the user to look at, out of the next attempt's way."""
    kept = folder.with_name(f"{folder.name}-failed-{attempt}")
    shutil.rmtree(kept, ignore_errors=True)
    folder.rename(kept)
