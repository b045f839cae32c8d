"""State of a campaign, even while it runs: manifests are opened read-only, and no lock is held."""

from __future__ import annotations

import shlex
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unperturbed.common.wording import counted
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.manifest import Manifest, RunState, State
from unperturbed.harness.campaign.progress import Durations
from unperturbed.harness.campaign.summary import Phase, is_locked, phase_of, with_interrupted_left
from unperturbed.harness.nodes.engines import Job, engine_of
from unperturbed.harness.nodes.shares import (
    OUTCOME,
    Kind,
    NodePart,
    is_half_written,
    kind_of,
    parts_of,
    read_json,
    whole_campaign,
)
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import PILOT

_SHOWN_FAILURES = 5

# Only a writer may roll back the journal of a killed process.
_HALF_WRITTEN = "a process was killed while it wrote the manifest; repeat the run command to repair the manifest"


@dataclass(frozen=True)
class CurrentRun:
    """Run in progress."""

    # run, configuration, pass_name: The run's ID, configuration and pass.
    run: str
    configuration: str
    pass_name: str
    attempt: int  # Number of the attempt, from 1
    seconds: float  # How long it has taken so far


@dataclass(frozen=True)
class PartStatus:
    """State of a part of a campaign; a campaign on one host is a single part."""

    folder: Path  # The part's folder
    node: str  # The host that executes its runs; empty while there is none
    phase: Phase  # As in `CampaignSummary`
    runs: Mapping[State, int]  # Runs in each state
    # Expected time for the remaining runs, from the mean of each pass; None while a remaining pass has no finished run
    # and no pilot.
    seconds_left: float | None = None
    current: CurrentRun | None = None  # The run in progress
    waits: str = ""  # Why the part does not continue; empty while it does, and when it is finished
    failures: tuple[str, ...] = ()  # The last failed runs, each with its error

    @property
    def planned(self) -> int:
        """Return how many runs the plan has."""
        return sum(self.runs.values())


@dataclass(frozen=True)
class CampaignStatus:
    """State of a campaign."""

    folder: Path  # The campaign's folder
    name: str  # Its name in the spec
    purpose: str  # Purpose of its runs: `a campaign`, `a sweep`, or another
    begun: str  # When it was started, ISO 8601
    parts: tuple[PartStatus, ...]  # One part per node; a single part for a campaign on one host

    @property
    def runs(self) -> Mapping[State, int]:
        """Return how many runs of all parts are in each state."""
        total: Counter[State] = Counter()
        for part in self.parts:
            total.update(part.runs)
        return dict(total)

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the last part is finished; None while the time of a part is unknown."""
        left = [part.seconds_left for part in self.parts]
        return (
            None
            if any(seconds is None for seconds in left)
            else max((seconds for seconds in left if seconds is not None), default=None)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        parts = [
            {**asdict(part), "folder": str(part.folder), "runs": dict(part.runs), "planned": part.planned}
            for part in self.parts
        ]
        runs = {"runs": dict(self.runs), "planned": sum(self.runs.values()), "seconds_left": self.seconds_left}
        return {**vars(self), **runs, "folder": str(self.folder), "parts": parts}


def read_status(folder: Path) -> CampaignStatus:
    """Return the state of a campaign, without writing anything."""
    path = folder / "campaign.sqlite"
    if not path.is_file():
        raise SpecError(f"{folder} contains no campaign (no campaign.sqlite); `unperturbed list` shows all campaigns")
    try:
        with Manifest(path, read_only=True) as manifest:
            known = {name: str(manifest.fact(name) or "") for name in ("name", "purpose", "begun", "id")}
            if (kind := kind_of(manifest)) is not None:
                parts = _parts(folder, known["id"], kind)
            else:
                description = manifest.fact("description")
                node = description["host"]["name"] if description else ""
                part = read_part(folder, manifest, node=node)
                parts = (replace(part, runs=with_interrupted_left(part.runs, part.phase)),)
    except (SpecError, sqlite3.OperationalError):
        if not is_half_written(folder):
            raise
        raise SpecError(f"{path}: {_HALF_WRITTEN}") from None
    purpose = known["purpose"] or "a campaign"
    return CampaignStatus(folder, known["name"] or folder.name, purpose, known["begun"], parts)


def _parts(folder: Path, identity: str, kind: Kind) -> tuple[PartStatus, ...]:
    """Return the state of each part of a campaign on nodes, with its job."""
    spec = whole_campaign(folder)
    if spec.nodes is None:
        return ()
    parts = parts_of(folder, spec.nodes.count)
    try:
        engine = engine_of(spec.nodes, folder, identity)
        engine.check()
        jobs = engine.jobs(parts) or {}
    except HostError:  # seen from a host without Slurm
        jobs = {}
    states = (_part(folder, spec, kind, part, jobs.get(part.number)) for part in parts)
    return tuple(replace(state, runs=with_interrupted_left(state.runs, state.phase)) for state in states)


def _part(campaign: Path, spec: CampaignSpec, kind: Kind, part: NodePart, job: Job | None) -> PartStatus:
    planned = kind.least(spec, part.number)
    path = part.folder / "campaign.sqlite"
    if not path.is_file():
        return PartStatus(part.folder, "", "not begun", {"planned": planned}, waits="not submitted yet")
    try:
        with Manifest(path, read_only=True) as manifest:
            status = read_part(part.folder, manifest, node=part.owner or "")
    except (SpecError, sqlite3.OperationalError):
        if not is_half_written(part.folder):
            raise
        return PartStatus(part.folder, part.owner or "", "stopped", {"planned": planned}, waits=_HALF_WRITTEN)
    if not status.runs:
        status = replace(status, runs={"planned": planned})
    if kind.on_demand and status.phase == "running" and status.runs and not status.runs.get("planned"):
        status = replace(status, waits="" if status.current else "the search has not requested further runs here yet")
    if job is not None:
        waits = status.waits if status.phase == "running" else f"job {job.id} {job.state}{job.why and f' ({job.why})'}"
        return replace(status, phase="running" if status.phase == "stopped" else status.phase, waits=waits)
    outcome = read_json(part.folder / OUTCOME)
    if status.phase in ("stopped", "not begun"):
        why = f"the last job ended: {outcome['message']}; " if outcome and outcome.get("message") else ""
        if is_locked(campaign):
            return replace(status, waits=f"{why}no job works on this part yet; `unperturbed run` is still running")
        return replace(status, waits=f"{why}no job works on this part; repeat `unperturbed run` to resume it")
    return status


def read_part(folder: Path, manifest: Manifest, *, node: str) -> PartStatus:
    """Return the state of one part."""
    durations, left = Durations(), Counter[str]()
    runs: Counter[State] = Counter()
    for pass_name, state, count, seconds in manifest.tally():
        runs[state] += count
        if state == "done":
            durations.add(pass_name, seconds, runs=count)
        elif state != "failed":
            left[pass_name] += count
    for pass_name in left:
        if not durations.knows(pass_name) and (pilot := manifest.fact(f"{PILOT}:{pass_name}")):
            durations.add(pass_name, pilot["seconds"])
    open_runs = manifest.runs("running", "failed") if runs["running"] or runs["failed"] else []
    locked = is_locked(folder)
    phase = phase_of(dict(runs), locked=locked)
    current = _current(open_runs) if locked else None
    seconds_left, waits = None, ""
    if runs and all(durations.knows(name) for name in left):
        seconds_left = max(0.0, durations.expected(left) - (current.seconds if current else 0.0))
    if phase == "running" and not runs:
        waits = "preparation is not finished: no run is planned yet"
    elif phase in ("stopped", "not begun"):
        spec = manifest.fact("spec_path")
        command = f" ({shlex.join(['unperturbed', 'run', spec, '--campaign', str(folder)])})" if spec else ""
        waits = f"no process executes the runs; repeat the command to resume{command}"
    elif phase == "failed":
        waits = f"{counted(runs['failed'], 'run')} failed; repeat the command to retry"
    return PartStatus(folder, node, phase, dict(runs), seconds_left, current, waits, _failures(open_runs))


def _current(runs: Sequence[RunState]) -> CurrentRun | None:
    state = next((run_state for run_state in runs if run_state.state == "running"), None)
    if state is None:
        return None
    started = datetime.fromisoformat(state.started) if state.started else datetime.now(UTC)
    seconds = max(0.0, (datetime.now(UTC) - started).total_seconds())
    return CurrentRun(state.run.id, state.run.configuration, state.run.pass_name, state.attempt, seconds)


def _failures(runs: Sequence[RunState]) -> tuple[str, ...]:
    """Return the errors of the last runs that failed in all attempts."""
    failed = [state for state in runs if state.state == "failed"]
    return tuple(
        f"run {state.run.id} ({state.run.configuration} {state.run.repetition}): {state.error}"
        for state in failed[-_SHOWN_FAILURES:]
    )
