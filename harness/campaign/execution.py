"""Run a campaign from its spec to its last trace: lock its folder, prepare, plan, execute.

Interrupted anywhere, the same call continues.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from unperturbed.collectors.planning.passes import Passes
from unperturbed.errors import HostError, SpecError
from unperturbed.harness.campaign.attempts import Attempt, RunQueue, RunResult
from unperturbed.harness.campaign.manifest import Manifest, locked, now
from unperturbed.harness.campaign.pilot import pilots, rehearse
from unperturbed.harness.campaign.plan import PlannedRun, configurations, plan_runs
from unperturbed.harness.campaign.preparation import Needed, prepare
from unperturbed.harness.campaign.progress import Durations, Estimate, Progress
from unperturbed.harness.campaign.run import Sampling
from unperturbed.harness.campaign.session import (
    Session,
    execute_in,
    first_layout_of,
    make_layouts,
    software_metrics_in,
)
from unperturbed.harness.campaign.traces import is_lost, lost_note, reopen_lost
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import changed_keys
from unperturbed.harness.spec.sections.campaign import PILOT

CAMPAIGN = "a campaign"
"""The purpose of a folder whose runs the spec plans."""
SWEEP = "a sweep"
"""The purpose of a folder whose runs end in a table."""
SEARCH = "a search for a partition"
"""The purpose of a folder whose runs were chosen by the outcomes of those before."""


def run_campaign(spec: CampaignSpec, folder: Path, progress: Progress) -> None:
    """Run a campaign, or what is left of it."""
    with prepare_campaign(spec, folder, progress, needed=_open_configurations) as (session, samplings, manifest):
        _plan(spec, list(session.passes), manifest)
        manifest.reopen()
        if lost := reopen_lost(folder, manifest):
            progress.note(lost_note(lost))
        execute_plan(session, samplings, manifest, progress)


def _open_configurations(spec: CampaignSpec, passes: Sequence[str], manifest: Manifest) -> set[str]:
    """Return the configurations with runs to be made: planned, failed or lost ones, or further ones of the spec."""
    states = manifest.runs(hosts=False)
    left = [state.run for state in states if state.state != "done" or is_lost(manifest.path.parent, state)]
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
    needed: Needed | None = None,
) -> Iterator[tuple[Session, Mapping[str, Sampling], Manifest]]:
    """Lock the campaign folder and prepare host, builds, pilot and probes. Plans no runs.

    `judged`: The runs are of no use without verdicts: refuse metrics in which perturbation cannot show.
    `needed`: Once a run is done, the session has only these configurations of the spec; by default it has all.
    Result: The session, how each pass samples, and the manifest.
    """
    with lock_campaign(spec, folder, purpose) as manifest:
        session = prepare(spec, folder, manifest, progress, judged=judged, needed=needed)
        samplings = pilots(session, manifest, progress)
        rehearse(session, samplings, manifest, progress)
        yield session, samplings, manifest


@contextmanager
def lock_campaign(spec: CampaignSpec, folder: Path, purpose: str) -> Iterator[Manifest]:
    """Lock a campaign's folder, which is made if need be, for this process and for one purpose."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(
            f"{folder}: no folder can be made there ({error.strerror}); choose another with --campaign"
        ) from None
    with _disk_errors(folder), locked(folder), Manifest(folder / "campaign.sqlite") as manifest:
        _claim(manifest, spec, purpose)
        yield manifest


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk, met anywhere, into one clear message."""
    message = (
        f"no space left on the disk of {folder}: free some and run the same command again; every finished run is kept"
    )
    try:
        yield
    except OSError as error:
        # Copying a tree collects its errors into one that has no number.
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or "[Errno 28]" in str(error):
            raise HostError(message) from None
        raise
    except sqlite3.OperationalError as error:
        if "full" in str(error):
            raise HostError(message) from None
        raise


def _plan(spec: CampaignSpec, passes: list[str], manifest: Manifest) -> None:
    """Enter the plan, or the runs beyond an earlier one; record that a campaign with finished runs was extended."""
    before = [state.run for state in manifest.runs(hosts=False)]
    if dropped := {run.configuration for run in before} - {item.name for item in configurations(spec)}:
        manifest.forget(dropped)
        before = [state.run for state in manifest.runs(hosts=False)]
    more = _further_runs(spec, passes, manifest, before)
    if before and more and manifest.has_done():
        manifest.set_facts(
            extended=[*(manifest.fact("extended") or []), {"runs": len(before), "by": len(more), "at": now()}]
        )
    manifest.plan(more)


def _further_runs(
    spec: CampaignSpec, passes: Sequence[str], manifest: Manifest, before: Sequence[PlannedRun]
) -> tuple[PlannedRun, ...]:
    """Return the runs of the spec beyond those that were planned before."""
    return plan_runs(
        configurations(spec),
        passes,
        seed=spec.campaign.seed,
        order=spec.campaign.order,
        before=before,
        layouts=spec.campaign.layouts,
        first_layout=first_layout_of(manifest.fact("part") or 1),
    )


def execute_plan(
    session: Session,
    samplings: Mapping[str, Sampling],
    manifest: Manifest,
    progress: Progress,
) -> None:
    """Execute every planned run of the spec's configurations and of others that the session has."""
    names = dict.fromkeys([*(item.name for item in configurations(session.spec)), *session.built])
    states = [state for state in manifest.runs(hosts=False) if state.run.configuration in names]
    planned = [state.run for state in states if state.state == "planned"]
    if manifest.fact("shared") is None:  # else whoever built has linked them, for all nodes
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
                *(fact["note"] for fact in pilot.values() if fact["note"]),
                *(manifest.fact("probe_notes") or ()),
                *dict.fromkeys(note for notes in (manifest.fact("layout_notes") or {}).values() for note in notes),
            ),
        )
    )
    durations = Durations()
    for name, taken in seconds.items():
        durations.add(name, taken)
    queue = RunQueue(
        session,
        planned,
        manifest,
        progress,
        total=len(states),
        durations=durations,
        make=partial(_make, session, samplings),
    )
    queue.make_all()


def _make(session: Session, samplings: Mapping[str, Sampling], run: PlannedRun, attempt: Attempt) -> RunResult:
    with software_metrics_in(session, run) as software_metrics:
        trace = execute_in(
            session,
            replace(samplings[run.pass_name], software_metrics=software_metrics),
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


def _claim(manifest: Manifest, spec: CampaignSpec, purpose: str) -> None:
    """Tie the folder to this spec and purpose.

    A folder of another spec is refused when it has finished runs, and started anew otherwise.
    """
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
    """Refuse a folder that holds finished runs of another spec or purpose; nothing is written."""
    known = manifest.fact("spec_digest")
    recorded = manifest.fact("purpose") or CAMPAIGN  # campaigns of early versions record none
    if recorded != purpose and manifest.has_done():
        raise SpecError(
            f"{manifest.path.parent} holds {recorded}, not {purpose}: choose another folder with --campaign, or remove "
            "that one"
        )
    if known not in (None, spec.digest) and manifest.has_done():
        changed = changed_keys(spec, manifest.fact("spec_text") or "")
        which = f"; changed since: {', '.join(changed)}" if changed else ""
        raise SpecError(
            f"{manifest.path.parent} holds a campaign of another spec ({manifest.fact('name')}, started "
            f"{manifest.fact('begun')}{which}): choose another folder with --campaign, or remove that one"
        )
