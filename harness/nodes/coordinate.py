"""Coordinate a campaign on nodes: build once, submit the parts, watch them, and submit lost parts again.

The coordinating command may be stopped at any time: the parts continue, and repeating the command watches them again.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from unperturbed.common.wording import counted
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.execution import check_owner, lock_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.preparation import build_and_stage
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.requirements import check_budget, check_sampled_program
from unperturbed.harness.nodes.engines import Engine, Job, engine_of
from unperturbed.harness.nodes.shares import (
    FOLDER,
    OUTCOME,
    VERDICTS,
    Kind,
    NodePart,
    done_runs,
    kind_of,
    lacks,
    parts_of,
    read_json,
    reading,
    share_of,
)
from unperturbed.harness.nodes.staging import link_layouts, staged_folder
from unperturbed.harness.nodes.worker import WorkOutcome
from unperturbed.harness.program.build import check_compilers
from unperturbed.harness.spec.campaign_spec import CampaignSpec

_CANCELLED = "cancelled"
_SHARED_FACTS = ("builds", "sites", "skipped", "inputs", "program", "layout_notes", "one_build")
_TRIES = 3  # A part is given up after this number of successive jobs without a new run
_BETWEEN_LINES_S = 5.0
_LEAST_FREE_BYTES = 1 << 20


class CancelledError(RunError):
    """Cancellation of the campaign's jobs by another command."""


@dataclass
class _PartState:
    """State of a part in this session."""

    part: NodePart
    planned: int  # Minimum number of runs
    runs: Counter[str] = field(default_factory=Counter)  # Its runs by state, as last read
    submitted: bool = False
    before: int = 0  # Number of finished runs when its last job was submitted
    fruitless: int = 0  # Successive jobs that ended without a new run
    given_up: str = ""  # Why it was given up
    avoid: list[str] = field(default_factory=list)  # Nodes that cannot execute it
    lost_since: float | None = None  # When its node was first seen out of service

    @property
    def over(self) -> int:
        return self.runs["done"] + self.runs["failed"]

    @property
    def total(self) -> int:
        return max(self.runs.total(), self.planned)

    @property
    def finished(self) -> bool:
        """Whether no run is left in this session."""
        left = self.runs["planned"] + self.runs["running"] + (0 if self.submitted else self.runs["failed"])
        return self.runs.total() >= self.planned and not left

    @property
    def settled(self) -> bool:
        return self.finished or bool(self.given_up)


class Coordination:
    """Campaign on nodes, built and divided into parts, with its folder locked by this process."""

    def __init__(
        self,
        spec: CampaignSpec,
        kind: Kind,
        manifest: Manifest,
        progress: Progress,
        engine: Engine,
        parts: tuple[NodePart, ...],
    ) -> None:
        self.spec, self.manifest, self.progress, self.parts = spec, manifest, progress, parts
        self._kind, self._engine = kind, engine
        self._states = {part.number: _PartState(part, kind.least(spec, part.number)) for part in parts}

    @property
    def given_up(self) -> Mapping[int, str]:
        """Return why parts were given up, by the part's number."""
        return {number: state.given_up for number, state in self._states.items() if state.given_up}

    def give_up(self, number: int, why: str) -> None:
        """Continue without a part, and print a note on the reason."""
        state = self._states[number]
        state.given_up = why
        self.progress.note(f"giving up on part {state.part.name}: {why}")

    def watch(self, until: Callable[[], bool] | None = None) -> None:
        """Submit and watch the parts until each part is finished or given up, or `until` returns true."""
        engine, progress, states = self._engine, self.progress, tuple(self._states.values())
        on_demand = self._kind.on_demand  # then this method is called for each wait, and most waits are short
        shown, shown_at, unreachable = "", time.monotonic() if on_demand else 0.0, False
        while True:
            if (engine.folder / FOLDER / _CANCELLED).exists():
                raise CancelledError("the jobs were cancelled; finished runs are kept: repeat the command to resume")
            # Jobs before manifests: a job that ends in between has already written its last run.
            known = engine.jobs(self.parts)
            jobs = known or {}
            for state in states:
                with reading(state.part) as manifest:
                    state.runs, state.planned = self._kind.needed(self.spec, state.part, manifest)
            if known is None and not unreachable:
                progress.note(
                    f"{engine.name} does not answer; the submitted parts continue, and this command waits for an answer"
                )
            unreachable = known is None
            if known is not None:
                waiting = [state for state in states if not state.settled and state.part.number not in jobs]
                active = len(jobs)
                for state in waiting:
                    if state.submitted:
                        self._end_job(state)
                    if not (state.given_up or (engine.at_once is not None and active >= engine.at_once)):
                        active += self._submit(state)
                if not waiting and not jobs and all(state.settled for state in states):
                    return
            self._give_up_lost(jobs)
            if until is not None and until():
                return
            line = self._describe(jobs)
            if line != shown and (time.monotonic() - shown_at > _BETWEEN_LINES_S or not (shown or on_demand)):
                progress.step(line)
                shown, shown_at = line, time.monotonic()
            time.sleep(engine.pause)

    def _submit(self, state: _PartState) -> bool:
        part = state.part
        (part.folder / OUTCOME).unlink(missing_ok=True)
        claimed = [owner for other in self.parts if other is not part and (owner := other.owner)]
        state.before = state.over
        if why := self._engine.submit(part, avoid=() if part.owner else (*claimed, *state.avoid)):
            self.give_up(part.number, why)
            return False
        state.submitted = True
        return True

    def _end_job(self, state: _PartState) -> None:
        """Decide whether to resubmit a part whose job ended with unfinished runs."""
        part, folder = state.part, self._engine.folder
        content = read_json(part.folder / OUTCOME)
        outcome = None if content is None else WorkOutcome(**content)
        if state.over > state.before:
            state.fruitless = 0
        elif part.number not in self._engine.taken:
            state.fruitless += 1
        if outcome is None and _is_full(folder):  # the part could not write its outcome
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        if outcome is None or (self._kind.on_demand and outcome.ending == "over"):
            if state.fruitless >= _TRIES:
                log = part.folder / "job.log"
                self.give_up(part.number, f"{_TRIES} successive jobs ended without a new run; see {log}")
            elif outcome is None:
                self.progress.note(
                    f"the job of part {part.name} ended with unfinished runs; the part is submitted again"
                )
        elif outcome.ending in ("refused", "elsewhere"):
            own_node = part.owner is not None and outcome.ending == "refused"
            if own_node or outcome.node in state.avoid or len(state.avoid) > len(self.parts):
                self.give_up(part.number, outcome.message)
            else:
                self.progress.note(f"part {part.name}: {outcome.message}; the part is submitted to another node")
                state.avoid.append(outcome.node)
        else:
            self.give_up(part.number, outcome.message or "its job ended with unfinished runs")

    def _give_up_lost(self, jobs: Mapping[int, Job]) -> None:
        """Give up parts whose nodes are out of service, once all other parts are settled and `patience` is over."""
        lost = {number for number, job in jobs.items() if job.lost}
        others_settled = all(state.settled for number, state in self._states.items() if number not in lost)
        for number, state in self._states.items():
            if number not in lost or not others_settled:
                state.lost_since = None
            elif state.lost_since is None:
                state.lost_since = time.monotonic()
            elif time.monotonic() - state.lost_since >= self._engine.nodes.patience.seconds:
                self._engine.cancel([state.part])
                node = f"its node {state.part.owner}" if state.part.owner else "the node that its job waits for"
                self.give_up(number, f"{node} is not in service ({jobs[number].why})")

    def _describe(self, jobs: Mapping[int, Job]) -> str:
        """Return a line with the number of finished runs and the state of each part."""
        words = []
        for number, state in self._states.items():
            job, name = jobs.get(number), state.part.name
            if state.finished:
                words.append(f"{name} done")
            elif job is not None and job.why:
                words.append(f"{name} waits ({job.why})")
            else:
                ending = "" if job is not None else ", given up" if state.given_up else ", waits"
                words.append(f"{name} {state.over} of {state.total} ({state.part.owner or 'no node yet'}{ending})")
        total = sum(state.total for state in self._states.values())
        over = sum(state.over for state in self._states.values())
        return f"{over} of {counted(total, 'run')} finished: {', '.join(words)}"


def run_on_nodes(spec: CampaignSpec, folder: Path, progress: Progress, *, checked: bool = True) -> tuple[str, ...]:
    """Run or resume a campaign on nodes; return a sentence for each part given up; `checked`: it gets a verdict."""
    with coordinated(spec, folder, progress, VERDICTS) as coordination:
        coordination.manifest.set_facts(checked=checked)
        coordination.watch()
        return _missing(coordination)


@contextmanager
def coordinated(spec: CampaignSpec, folder: Path, progress: Progress, kind: Kind) -> Iterator[Coordination]:
    """Lock a campaign's folder, build its programs, and create the folders of its parts, without submitting a part."""
    if spec.nodes is None:
        raise SpecError(f"{spec.path}: the spec has no section `nodes`, which a campaign on nodes needs")
    folder = folder.absolute()
    with lock_campaign(spec, folder, kind.whole) as manifest:
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / _CANCELLED).unlink(missing_ok=True)
        if not spec.parameters:
            check_budget(spec, ["main"])
        for name in ("", *spec.programs):
            check_compilers(spec.of_program(name).program)
            check_sampled_program(spec.of_program(name))
        parts = parts_of(folder, spec.nodes.count)
        needed = None if kind.on_demand or not all(_is_over(spec, part, kind) for part in parts) else ()
        workspace = build_and_stage(kind.share(spec, 1), folder, manifest, progress, needed=needed)
        if needed is None and kind is VERDICTS and spec.campaign.layouts == "varied":
            link_layouts(spec, workspace, manifest, progress)
        for part in parts:
            _make_part(spec, part, manifest, folder, kind)
        engine = engine_of(spec.nodes, folder, str(manifest.fact("id")))
        engine.check()
        manifest.set_facts(submitted=True)
        try:
            yield Coordination(spec, kind, manifest, progress, engine, parts)
        except KeyboardInterrupt:
            progress.note(
                "the submitted parts continue without this command; repeat the command to watch them, or add --cancel "
                "to cancel them"
            )
            raise


def cancel(spec: CampaignSpec, folder: Path) -> int:
    """Cancel the jobs of a campaign, keeping finished runs; a command that watches the jobs ends, too."""
    path, identity, kind = folder / "campaign.sqlite", "", None
    if spec.nodes is not None and path.is_file():
        with Manifest(path, read_only=True) as manifest:
            identity, kind = str(manifest.fact("id")), kind_of(manifest)
    if spec.nodes is None or kind is None:
        raise SpecError(f"{folder} contains no campaign on nodes: nothing to cancel")
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / _CANCELLED).touch()
    engine = engine_of(spec.nodes, folder.absolute(), identity)
    engine.check()
    return engine.cancel(parts_of(folder.absolute(), spec.nodes.count))


def _is_over(spec: CampaignSpec, part: NodePart, kind: Kind) -> bool:
    """Return whether all runs of a part are done, so the part needs no build."""
    if not (part.folder / "campaign.sqlite").is_file():
        return False
    with reading(part) as manifest:
        runs, planned = kind.needed(spec, part, manifest)
    return runs["done"] == runs.total() >= planned


def _make_part(spec: CampaignSpec, part: NodePart, whole: Manifest, home: Path, kind: Kind) -> None:
    """Create a part's folder and manifest, once; from then on, only the node's process writes there."""
    share = kind.share(spec, part.number)
    if (part.folder / "campaign.sqlite").is_file():
        with reading(part) as known:
            check_owner(known, share, kind.part)
            if known.fact("part") == part.number and known.fact("program") == whole.fact("program"):
                return
    with lock_campaign(share, part.folder, kind.part) as manifest:
        shared = {name: whole.fact(name) for name in _SHARED_FACTS}
        copy = None if kind.on_demand else staged_folder(spec, str(whole.fact("id")), part)
        manifest.set_facts(part=part.number, shared=str(home), staged=copy and str(copy), **shared)


def _is_full(folder: Path) -> bool:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize < _LEAST_FREE_BYTES


def _missing(coordination: Coordination) -> tuple[str, ...]:
    """Return a sentence for each part that was given up; raise RunError if no node can be judged."""
    notes, judged, given_up = [], 0, coordination.given_up
    for part in coordination.parts:
        with reading(part) as manifest:
            lacking = lacks(share_of(coordination.spec, part.number), done_runs(manifest))
        judged += not lacking
        if why := given_up.get(part.number):
            consequence = f"it is not judged ({', '.join(lacking)})" if lacking else "its finished runs are judged"
            notes.append(f"Part {part.name} ended before its last run: {why}; {consequence}.")
    if notes and not judged:
        raise RunError(
            "no node has enough finished runs for a verdict; finished runs are kept: repeat the command to resume. "
            + " ".join(notes)
        )
    return tuple(notes)
