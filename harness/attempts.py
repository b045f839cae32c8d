"""One planned run, tried as often as the spec allows: the manifest knows of each attempt, and what a failed one left is kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unperturbed.errors import RunError
from unperturbed.harness import host
from unperturbed.harness.manifest import Manifest
from unperturbed.harness.plan import PlannedRun
from unperturbed.harness.prepare import fresh
from unperturbed.harness.progress import Progress

__all__ = ["Attempt", "Made", "make_run", "now"]


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run: its empty folder, its number from 1, the host's state before it."""

    folder: Path
    number: int
    host_before: Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """What is recorded of a run that is done: how long the program took, the intervals of its trace, of a whole run what it gave."""

    seconds: float
    intervals: int
    totals: Mapping[str, Any] | None = None


def make_run(
    run: PlannedRun, folder: Path, *, retries: int, make: Callable[[Attempt], Made], manifest: Manifest, progress: Progress
) -> float:
    """Make one planned run, again when it fails, as often as the spec allows; return how long the last attempt took.

    Parameters
    ----------
    folder : of the campaign.
    retries : attempts after the first, in this session.
    make : makes the run in its folder; a `RunError` is a failed attempt.
    """
    made = len([failure for failure in manifest.failures() if failure.run == run.id])
    took = 0.0
    for attempt in range(made + 1, made + retries + 2):
        own = fresh(folder / "runs" / run.id)
        before = host.state()
        manifest.start(run, attempt=attempt, started=now(), host=before)
        started = time.monotonic()
        try:
            done = make(Attempt(own, attempt, before))
        except RunError as error:
            took = time.monotonic() - started
            final = attempt == made + retries + 1
            manifest.fail(run, seconds=took, error=str(error), host=host.state(), final=final)
            progress.failed(run, attempt, str(error))
            _keep_failed(own, attempt)
        else:
            took = time.monotonic() - started
            manifest.finish(run, seconds=done.seconds, intervals=done.intervals, host=host.state(), totals=done.totals)
            break
    return took


def _keep_failed(folder: Path, attempt: int) -> None:
    """Keep what a failed attempt left, for the user to look at, out of the next attempt's way."""
    kept = folder.with_name(f"{folder.name}-failed-{attempt}")
    shutil.rmtree(kept, ignore_errors=True)
    folder.rename(kept)


def now() -> str:
    """Return the time as campaigns record it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
