"""A campaign from its spec to its last trace. Interrupted anywhere, the same call goes on."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from unperturbed.collectors.passes import Passes
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness.attempts import Attempt, Made, make_run, now
from unperturbed.harness.manifest import Manifest, locked
from unperturbed.harness.plan import PlannedRun, configurations, plan_runs
from unperturbed.harness.prepare import pilots, prepare, rehearse
from unperturbed.harness.progress import Estimate, Progress
from unperturbed.harness.run import Sampling
from unperturbed.harness.session import Session, execute_in, make_layouts, milestones_in
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import PILOT

__all__ = ["CAMPAIGN", "SWEEP", "carry_out", "held", "opened", "run_campaign"]

CAMPAIGN = "a campaign"
"""The purpose of a folder whose runs the spec plans."""
SWEEP = "a sweep"
"""The purpose of a folder whose runs end in a table."""


def run_campaign(campaign: Campaign, folder: Path, progress: Progress) -> None:
    """Run a campaign, or what is left of it.

    Parameters
    ----------
    campaign : the validated spec.
    folder : the campaign's folder, made if need be.
    progress : told of every step.

    Raises
    ------
    SpecError
        The folder belongs to another spec, a software metric matches nothing, or the plan exceeds `max_runs`.
    HostError
        This host cannot do it; the disk is full; the campaign was begun on another host; another process works on it.
    RunError
        The build, the reference run or the pilot failed. A planned run that fails is recorded, and does not end the campaign.
    """
    with opened(campaign, folder, progress) as (session, samplings, manifest):
        _plan(campaign, list(session.passes), manifest)
        manifest.reopen()
        carry_out(session, samplings, manifest, progress)


@contextmanager
def opened(
    campaign: Campaign, folder: Path, progress: Progress, *, purpose: str = CAMPAIGN
) -> Iterator[tuple[Session, Mapping[str, Sampling], Manifest]]:
    """Hold a campaign's folder for this process, with everything done that comes before its runs; nothing is planned yet.

    A folder has one purpose: what its runs are for, a campaign's or another's.

    Yields
    ------
    The session, with the spec's own configurations; how each pass samples; the manifest.

    Raises
    ------
    SpecError, HostError, RunError
        As `run_campaign`.
    """
    with held(campaign, folder, purpose) as manifest:
        session = prepare(campaign, folder, manifest, progress)
        samplings = pilots(session, manifest, progress)
        rehearse(session, samplings, manifest, progress)
        yield session, samplings, manifest


@contextmanager
def held(campaign: Campaign, folder: Path, purpose: str) -> Iterator[Manifest]:
    """Hold a campaign's folder for this process and for one purpose; it is made if need be.

    Raises
    ------
    SpecError
        The folder belongs to another spec or purpose, cannot be made, or another process works on it.
    HostError
        The disk is full, whenever that is met.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecError(f"{folder}: no folder can be made there ({error.strerror}); choose another with --campaign") from None
    with _disk_errors(folder), locked(folder), Manifest(folder / "campaign.sqlite") as manifest:
        _claim(manifest, campaign, purpose)
        yield manifest


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk, met anywhere, into one clear message."""
    message = f"no space left on the disk of {folder}: free some and run the same command again; every finished run is kept"
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


def _plan(campaign: Campaign, passes: list[str], manifest: Manifest) -> None:
    """Enter the plan, or what is asked for beyond an earlier one; that a campaign was extended after runs were made is kept."""
    design = campaign.campaign
    asked = configurations(campaign)
    manifest.forget({state.run.configuration for state in manifest.runs()} - {item.name for item in asked})
    before = [state.run for state in manifest.runs()]
    more = plan_runs(asked, passes, seed=design.seed, order=design.order, before=before, layouts=design.layouts)
    if before and more and manifest.runs("done"):
        manifest.set_facts(extended=[*(manifest.fact("extended") or []), {"runs": len(before), "by": len(more), "at": now()}])
    manifest.plan(more)


def carry_out(session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress) -> None:
    """Make every planned run whose configuration the session has, one at a time.

    Raises
    ------
    RunError
        `max_hours` is over, or a layout can be made by no means. A run that fails is recorded, and ends nothing.
    """
    design = session.campaign.campaign
    runs = [state for state in manifest.runs() if state.run.configuration in session.built]
    planned = [state.run for state in runs if state.state == "planned"]
    make_layouts(session, planned, manifest, progress)
    cost = {name: manifest.fact(f"{PILOT}:{name}") for name in samplings}
    seconds = {name: fact["seconds"] for name, fact in cost.items()}
    asked = Counter(state.run.configuration for state in runs)
    progress.planned(
        Estimate(
            runs=len(runs),
            done=sum(state.state == "done" for state in runs),
            seconds=sum(seconds[run.pass_name] for run in planned),
            configurations={name: asked[name] for name in session.built if asked[name]},
            passes=Passes(tuple(session.passes.values()), manifest.fact("reasons")),
            notes=(
                *(fact["note"] for fact in cost.values() if fact["note"]),
                *(manifest.fact("probe_notes") or ()),
                *dict.fromkeys(note for notes in (manifest.fact("layout_notes") or {}).values() for note in notes),
            ),
        )
    )
    begun = time.monotonic()
    for position, run in enumerate(planned):
        left = sum(seconds[other.pass_name] for other in planned[position:])
        if design.max_hours is not None and time.monotonic() - begun > design.max_hours * 3600:
            raise RunError(
                f"max_hours ({design.max_hours:g}) is over: {len(runs) - len(planned) + position} of {len(runs)} runs are done; "
                "the same command goes on with the rest"
            )
        progress.starting(run, done=len(runs) - len(planned) + position, total=len(runs), seconds_left=left)
        with milestones_in(session, run) as milestones:
            make = partial(_make, session, replace(samplings[run.pass_name], milestones=milestones), run)
            took = make_run(run, session.folder, retries=design.retries, make=make, manifest=manifest, progress=progress)
        seconds[run.pass_name] += (took - seconds[run.pass_name]) / 4


def _make(session: Session, sampling: Sampling, run: PlannedRun, attempt: Attempt) -> Made:
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
    return Made(trace.attributes["seconds"], len(trace))


def _claim(manifest: Manifest, campaign: Campaign, purpose: str) -> None:
    """Tie the folder to this spec and purpose. One that has no finished run yet is begun anew; else another's folder is refused."""
    begun = manifest.fact("spec_digest")
    held = manifest.fact("purpose") or CAMPAIGN  # no word of it before there were others
    if held != purpose and manifest.runs("done"):
        raise SpecError(
            f"{manifest.path.parent} holds {held}, not {purpose}: choose another folder with --campaign, or remove that one"
        )
    if begun not in (None, campaign.digest):
        if manifest.runs("done"):
            raise SpecError(
                f"{manifest.path.parent} holds a campaign of another spec ({manifest.fact('name')}, begun {manifest.fact('begun')}): "
                "choose another folder with --campaign, or remove that one"
            )
        manifest.clear()
        for name in ("builds", "inputs", "runs"):
            shutil.rmtree(manifest.path.parent / name, ignore_errors=True)
    manifest.set_facts(
        spec_digest=campaign.digest,
        purpose=purpose,
        spec_text=campaign.text,
        spec_path=str(campaign.path),
        name=campaign.name,
        begun=manifest.fact("begun") or now(),
    )
