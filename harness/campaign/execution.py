"""Execution of a campaign from the spec to the last trace; after an interruption, the same call resumes."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unperturbed.collectors.passes import Passes
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness.campaign.manifest import Manifest, RunState, locked, now
from unperturbed.harness.campaign.pilot import pilots, rehearse
from unperturbed.harness.campaign.plan import PlannedRun, configurations, plan_runs
from unperturbed.harness.campaign.preparation import Needed, make_empty_folder, prepare
from unperturbed.harness.campaign.progress import Durations, Estimate, Progress
from unperturbed.harness.campaign.run import Sampling
from unperturbed.harness.campaign.session import Session, execute_in, first_layout_of, make_layouts, software_metrics_in
from unperturbed.harness.campaign.traces import is_lost, reopen_lost
from unperturbed.harness.host import state as host
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import changed_keys, parse_spec
from unperturbed.harness.spec.sections.campaign import PILOT

CAMPAIGN = "a campaign"  # Purpose of a folder with the runs that a spec plans
SWEEP = "a sweep"  # Purpose of a folder with runs that become the rows of a table
SEARCH = "a search for a partition"  # Purpose of a folder in which earlier results determine the next runs


def run_campaign(spec: CampaignSpec, folder: Path, progress: Progress, *, checked: bool = True) -> None:
    """Run a campaign, or the remaining runs of an interrupted campaign; `checked`: the runs get a verdict."""
    with prepare_campaign(spec, folder, progress, checked=checked, needed=_open_configurations) as (
        session,
        samplings,
        manifest,
    ):
        _plan(session.spec, list(session.passes), manifest)
        manifest.reopen()
        reopen_lost(folder, manifest, progress)
        execute_plan(session, samplings, manifest, progress)


def _open_configurations(spec: CampaignSpec, passes: Sequence[str], manifest: Manifest) -> set[str]:
    """Return the configurations that still need runs: planned, failed, lost, or not yet in the plan."""
    states = manifest.runs(hosts=False)
    surplus = _surplus(spec, states)
    left = [
        state.run
        for state in states
        if state.run.id not in surplus and (state.state != "done" or is_lost(manifest.path.parent, state))
    ]
    return {
        run.configuration for run in (*left, *_further_runs(spec, passes, manifest, [state.run for state in states]))
    }


@contextmanager
def prepare_campaign(
    spec: CampaignSpec,
    folder: Path,
    progress: Progress,
    *,
    purpose: str = CAMPAIGN,
    judged: bool = False,
    checked: bool = True,
    needed: Needed | None = None,
) -> Iterator[tuple[Session, Mapping[str, Sampling], Manifest]]:
    """Lock the campaign folder; prepare host, builds, pilot and probes; yield session, samplings by pass and manifest.

    No runs are planned here.

    `judged`: The caller needs verdicts: reject a spec without a metric that can show perturbation.
    `checked`: The runs get a verdict: reject a program with too few intervals for one.
    `needed`: After the first run, the session contains only these configurations of the spec; by default all.
    """
    with lock_campaign(spec, folder, purpose) as manifest:
        session = prepare(spec, folder, manifest, progress, judged=judged, needed=needed)
        samplings = pilots(session, manifest, progress, checked=checked)
        rehearse(session, samplings, manifest, progress)
        yield session, samplings, manifest


@contextmanager
def lock_campaign(spec: CampaignSpec, folder: Path, purpose: str) -> Iterator[Manifest]:
    """Lock a campaign's folder for this process and one purpose; create the folder if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(
            f"{folder}: cannot create the folder ({error.strerror}); choose another folder with --campaign"
        ) from None
    with _disk_errors(folder), locked(folder), Manifest(folder / "campaign.sqlite") as manifest:
        _claim(manifest, spec, purpose)
        yield manifest


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turn any disk-full error into one clear message."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        # Copying a tree collects its errors into one error without a number.
        word = "[Errno 28]" if isinstance(error, OSError) else "full"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or word in str(error):
            raise HostError(
                f"no space left on the disk of {folder}: free some space and run the same command again; finished runs "
                "are kept"
            ) from None
        raise


def _plan(spec: CampaignSpec, passes: list[str], manifest: Manifest) -> None:
    """Add the spec's missing runs to the plan, and drop its surplus; record an extension if any run is already done."""
    before = [state.run for state in manifest.runs(hosts=False)]
    if dropped := {run.configuration for run in before} - {item.name for item in configurations(spec)}:
        manifest.forget(dropped)
    if surplus := _surplus(spec, manifest.runs(hosts=False)):
        manifest.forget_runs(surplus)
    if dropped or surplus:
        before = [state.run for state in manifest.runs(hosts=False)]
    more = _further_runs(spec, passes, manifest, before)
    if before and more and manifest.has_done():
        manifest.set_facts(
            extended=[*(manifest.fact("extended") or []), {"runs": len(before), "by": len(more), "at": now()}]
        )
    manifest.plan(more)


def _surplus(spec: CampaignSpec, states: Sequence[RunState]) -> set[str]:
    """Return the planned runs that a spec with smaller numbers of runs does without: repetitions after those started.

    Repetitions before a started one stay, because the numbers of later ones continue from their count.
    """
    last = {item.name: item.runs for item in configurations(spec)}
    for state in states:
        name = state.run.configuration
        if state.attempt:
            last[name] = max(last.get(name, 0), state.run.repetition)
    return {
        state.run.id
        for state in states
        if not state.attempt and state.run.repetition > last.get(state.run.configuration, state.run.repetition)
    }


def _further_runs(
    spec: CampaignSpec, passes: Sequence[str], manifest: Manifest, before: Sequence[PlannedRun]
) -> tuple[PlannedRun, ...]:
    """Return the runs of the spec that are not in the earlier plan."""
    return plan_runs(
        configurations(spec),
        passes,
        seed=spec.campaign.seed,
        order=spec.campaign.order,
        before=before,
        layouts=spec.campaign.layouts,
        builds=spec.builds,
        first_layout=first_layout_of(manifest.fact("part") or 1),
    )


def execute_plan(session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress) -> None:
    """Execute every planned run of the session's configurations."""
    names = session.configurations
    states = [state for state in manifest.runs(hosts=False) if state.run.configuration in names]
    planned = [state.run for state in states if state.state == "planned"]
    if manifest.fact("shared") is None:  # otherwise the process that built them linked the layouts for all nodes
        trees = {name: (built.configuration, built.tree) for name, built in session.built.items()}
        make_layouts(session.spec, trees, [(run.configuration, run.layout) for run in planned], manifest, progress)
    pilot = {name: manifest.fact(f"{PILOT}:{name}") for name in samplings}
    seconds = {name: fact["seconds"] for name, fact in pilot.items()}
    runs = Counter(state.run.configuration for state in states)
    progress.planned(
        Estimate(
            runs=len(states),
            done=sum(state.state == "done" for state in states),
            seconds=sum(seconds[run.pass_name] for run in planned),
            configurations={name: runs[name] for name in names if runs[name]},
            passes=Passes(tuple(session.passes.values()), manifest.fact("reasons")),
            notes=(
                *dict.fromkeys(fact["note"] for fact in pilot.values() if fact["note"]),
                *(manifest.fact("probe_notes") or ()),
                *dict.fromkeys(note for notes in (manifest.fact("layout_notes") or {}).values() for note in notes),
            ),
        )
    )
    durations = Durations()
    for name, taken in seconds.items():
        durations.add(name, taken)
    make = partial(_make, session, samplings)
    RunQueue(session, planned, manifest, progress, len(states), durations, make).make_all()


def _make(session: Session, samplings: Mapping[str, Sampling], run: PlannedRun, attempt: Attempt) -> RunResult:
    with software_metrics_in(session, run) as software_metrics:
        sampling = replace(samplings[run.pass_name], software_metrics=software_metrics)
        trace = execute_in(
            session,
            sampling,
            run.configuration,
            attempt.folder,
            pad_bytes=run.pad_bytes,
            run=run.id,
            order=int(run.id),
            layout=run.layout,
            repetition=run.repetition,
            block=run.block,
            attempt=attempt.number,
            host_before=attempt.host_before,
        )
    return RunResult(trace.attributes["seconds"], len(trace))


@dataclass
class RunQueue:
    """Queue that makes a campaign's planned runs one by one, in the order of the plan."""

    session: Session
    planned: Sequence[PlannedRun]
    manifest: Manifest
    progress: Progress
    total: int  # All runs of the campaign, including those done
    durations: Durations
    # Makes one attempt at a run. A `RunError` is a failed attempt.
    make: Callable[[PlannedRun, Attempt], RunResult]
    _done: int = 0  # Runs before the current run
    _left: Counter[str] = field(default_factory=Counter)  # Remaining runs by pass, including the current run
    _another_follows: bool = False

    def make_all(self) -> None:
        """Make the planned runs; stop at the spec's time limit."""
        started, limit = time.monotonic(), self.session.spec.campaign.max_hours
        self._another_follows, self._left = True, Counter(run.pass_name for run in self.planned)
        try:
            for done, run in enumerate(self.planned, self.total - len(self.planned)):
                self._done = done
                if not self.skip(run):
                    if limit is not None and time.monotonic() - started > limit * 3600:
                        raise RunError(
                            f"the time limit (`max_hours: {limit:g}`) is reached: {done} of {self.total} runs are done"
                            "; repeat the command to make the remaining runs"
                        )
                    self.make_run(run)
                self._left[run.pass_name] -= 1
        finally:
            self._another_follows = False
            self.manifest.settle()

    def skip(self, _run: PlannedRun) -> bool:
        """Return whether a run is no longer useful."""
        return False

    def make_run(self, run: PlannedRun) -> None:
        """Make one run; retry as often as the spec allows."""
        left = self.durations.expected(self._left)
        self.progress.starting(run, done=self._done, total=self.total, seconds_left=left)
        self.durations.add(run.pass_name, self._attempt(run))

    def _attempt(self, run: PlannedRun) -> float:
        """Attempt a run until it succeeds or no attempt is left; return the duration of the last attempt in seconds."""
        before = sum(failure.run == run.id for failure in self.manifest.failures())
        last = before + self.session.spec.campaign.retries + 1
        for number in range(before + 1, last + 1):
            folder = make_empty_folder(self.session.folder / "runs" / run.id)
            host_before = host.state()
            self.manifest.start(run, attempt=number, started=now(), host=host_before)
            started = time.monotonic()
            try:
                done = self.make(run, Attempt(folder, number, host_before))
            except RunError as error:
                took = time.monotonic() - started
                final = error.recurs or number == last
                self.manifest.fail(run, seconds=took, error=str(error), host=host.state(), final=final)
                self.progress.failed(run, number, str(error))
                # Keep the failed attempt's files for the user, in another folder than the next attempt's.
                kept = folder.with_name(f"{folder.name}-failed-{number}")
                shutil.rmtree(kept, ignore_errors=True)
                folder.rename(kept)
                if final:
                    break
            else:
                took = time.monotonic() - started
                self.manifest.finish(
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
    host_before: Mapping[str, Any]  # The host's state before the attempt


@dataclass(frozen=True)
class RunResult:
    """The record of a finished run."""

    seconds: float  # Duration of the program
    intervals: int  # Number of intervals in its trace
    totals: Mapping[str, Any] | None = None  # Results of a sweep's run


def _claim(manifest: Manifest, spec: CampaignSpec, purpose: str) -> None:
    """Reserve the folder for this spec and purpose; clear a folder of another spec that has no finished runs."""
    check_owner(manifest, spec, purpose)
    if manifest.fact("spec_digest") not in (None, spec.digest):
        manifest.clear()
        for name in ("builds", "inputs", "runs"):
            shutil.rmtree(manifest.path.parent / name, ignore_errors=True)
    if manifest.fact("id") is None and not manifest.has_done():
        manifest.set_facts(id=uuid.uuid4().hex)
    manifest.set_facts(
        spec_digest=spec.digest,
        purpose=purpose,
        spec_text=spec.text,
        spec_path=str(spec.path),
        name=spec.name,
        begun=manifest.fact("begun") or now(),
    )


def check_owner(manifest: Manifest, spec: CampaignSpec, purpose: str) -> None:
    """Reject a folder with finished runs of another spec or purpose, without writing anything."""
    known = manifest.fact("spec_digest")
    recorded = manifest.fact("purpose") or CAMPAIGN  # campaigns of early versions recorded no purpose
    if recorded != purpose and manifest.has_done():
        raise SpecError(
            f"{manifest.path.parent} contains {recorded}, not {purpose}: choose another folder with --campaign, or "
            "remove this folder"
        )
    if known not in (None, spec.digest) and manifest.has_done():
        changed = changed_keys(spec, manifest.fact("spec_text") or "")
        which = f"; changed keys: {', '.join(changed)}" if changed else ""
        raise SpecError(
            f"{manifest.path.parent} contains a campaign of another spec ({manifest.fact('name')}, started "
            f"{manifest.fact('begun')}{which}): {_shared_out(spec, changed, manifest.fact('spec_text') or '')}choose "
            "another folder with --campaign, or remove this folder"
        )


def _shared_out(spec: CampaignSpec, changed: Collection[str], recorded: str) -> str:
    """Return why the runs of a campaign that runs until decided cannot change; '' for other changes."""
    if not {"campaign.runs", "campaign.at_most"}.intersection(changed):
        return ""
    earlier = parse_spec(recorded, spec.path.name, spec.folder).campaign
    if not earlier.until_decided:
        return ""
    return f"α is shared out over looks up to {earlier.most_runs} runs, so give the campaign another `name`, "
