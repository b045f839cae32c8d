"""A campaign on nodes from its spec to its last run: build once, submit the parts, watch them, submit what was lost.

Whoever coordinates may be stopped at any point: parts go on without it, and the same command watches them again.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from unperturbed.harness.nodes.kinds import VERDICTS, Kind, kind_of
from unperturbed.harness.nodes.shares import (
    FOLDER,
    OUTCOME,
    NodePart,
    done_runs,
    lacks,
    parts_of,
    read_json,
    reading,
    share_of,
)
from unperturbed.harness.nodes.staging import link_layouts, staged_folder
from unperturbed.harness.nodes.worker import Outcome
from unperturbed.harness.program.build import check_compilers
from unperturbed.harness.spec.campaign_spec import CampaignSpec

_CANCELLED = "cancelled"
_SHARED_FACTS = ("builds", "sites", "skipped", "inputs", "program", "layout_notes")
_TRIES = 3
"""A part is given up once its job has ended so many times without a further run."""
_BETWEEN_LINES_S = 5.0
_LEAST_FREE_BYTES = 1 << 20


class CancelledError(RunError):
    """The campaign's jobs were cancelled by another command."""


@dataclass
class _Standing:
    """What this session knows of a part."""

    part: NodePart
    planned: int
    runs: Counter[str] = field(default_factory=Counter)
    submitted: bool = False
    before: int = 0
    fruitless: int = 0
    given_up: str = ""
    avoid: list[str] = field(default_factory=list)
    lost_since: float | None = None

    @property
    def over(self) -> int:
        return self.runs["done"] + self.runs["failed"]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be made in this session."""
        left = self.runs["planned"] + self.runs["running"] + (0 if self.submitted else self.runs["failed"])
        return sum(self.runs.values()) >= self.planned and not left


@dataclass(frozen=True)
class Coordination:
    """A campaign on nodes whose folder this process holds, built and dealt out."""

    spec: CampaignSpec  # The spec, with `nodes`
    kind: Kind  # What the parts make
    manifest: Manifest  # That of the whole
    progress: Progress  # Receives every step
    engine: Engine  # Executes the parts
    standings: tuple[_Standing, ...]  # What this session knows of each part

    @property
    def parts(self) -> tuple[NodePart, ...]:
        """Return the parts."""
        return tuple(one.part for one in self.standings)

    @property
    def given_up(self) -> Mapping[int, str]:
        """Return why parts were given up, by their numbers."""
        return {one.part.number: one.given_up for one in self.standings if one.given_up}

    def give_up(self, number: int, why: str) -> None:
        """Go on without a part."""
        _give_up(next(one for one in self.standings if one.part.number == number), why, self.progress)

    def watch(self, until: Callable[[], bool] | None = None) -> None:
        """Submit and watch the parts until every one is over or given up, or until something else has happened."""
        _watch(self, until)


def run_on_nodes(spec: CampaignSpec, folder: Path, progress: Progress) -> tuple[str, ...]:
    """Run a campaign on nodes, or what is left of it.

    Result: What a reader of the verdicts must know: parts that the campaign ends without, and why.
    """
    with coordinated(spec, folder, progress, VERDICTS) as coordination:
        coordination.watch()
        return _missing(spec, coordination.standings)


@contextmanager
def coordinated(spec: CampaignSpec, folder: Path, progress: Progress, kind: Kind) -> Iterator[Coordination]:
    """Hold a campaign's folder, build what is measured, and make the folders of its parts. Nothing is submitted yet."""
    if spec.nodes is None:
        raise SpecError("the spec has no `nodes`")
    folder = folder.absolute()
    with lock_campaign(spec, folder, kind.whole) as manifest:
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / _CANCELLED).unlink(missing_ok=True)
        if not spec.parameters:
            check_budget(spec, 1)
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
        standings = tuple(_Standing(part, kind.least(spec, part.number)) for part in parts)
        try:
            yield Coordination(spec, kind, manifest, progress, engine, standings)
        except KeyboardInterrupt:
            progress.note(
                "the parts that were submitted go on without this command; the same command watches them again, and "
                "with --cancel it ends them"
            )
            raise


def cancel(spec: CampaignSpec, folder: Path) -> int:
    """End the jobs of a campaign; finished runs are kept. A command that watches them ends too."""
    path = folder / "campaign.sqlite"
    if spec.nodes is None or not path.is_file():
        raise SpecError(f"{folder} holds no campaign on nodes, so there is nothing to cancel")
    with Manifest(path, read_only=True) as manifest:
        identity, kind = str(manifest.fact("id")), kind_of(manifest)
    if kind is None:
        raise SpecError(f"{folder} holds no campaign on nodes, so there is nothing to cancel")
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / _CANCELLED).touch()
    engine = engine_of(spec.nodes, folder.absolute(), identity)
    engine.check()
    return engine.cancel(parts_of(folder.absolute(), spec.nodes.count))


def _is_over(spec: CampaignSpec, part: NodePart, kind: Kind) -> bool:
    """Return whether all runs of a part are done, so that nothing is built for it."""
    if not (part.folder / "campaign.sqlite").is_file():
        return False
    with reading(part) as manifest:
        runs, planned = kind.needed(spec, part, manifest)
    return runs["done"] == runs.total() >= planned


def _make_part(spec: CampaignSpec, part: NodePart, whole: Manifest, home: Path, kind: Kind) -> None:
    """Make a part's folder and manifest, once; from then on the node's process alone writes there."""
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


def _watch(watched: Coordination, until: Callable[[], bool] | None) -> None:
    """Submit and watch until every part is over or given up, or until something else has happened."""
    engine, standings, progress = watched.engine, watched.standings, watched.progress
    patience = engine.nodes.patience.seconds
    on_demand = watched.kind.on_demand  # then this is called for each wait, and most are short
    shown, shown_at, unreachable = "", time.monotonic() if on_demand else 0.0, False
    while True:
        if (engine.folder / FOLDER / _CANCELLED).exists():
            raise CancelledError("the jobs were cancelled; finished runs are kept, and the same command resumes")
        # Jobs before manifests: a job that ends in between has written its last run by then.
        jobs = engine.jobs([one.part for one in standings])
        for one in standings:
            _look(watched, one)
        if jobs is None and not unreachable:
            progress.note(f"{engine.name} does not answer; the parts go on, and this waits for it")
        unreachable = jobs is None
        waiting = [one for one in standings if not (one.finished or one.given_up or one.part.number in (jobs or {}))]
        active = len(jobs or {})
        if jobs is not None:
            for one in waiting:
                if one.submitted:
                    _ended(watched, one)
                if not (one.given_up or (engine.at_once is not None and active >= engine.at_once)):
                    active += _submit(engine, one, standings, progress)
            if not waiting and not jobs and all(one.finished or one.given_up for one in standings):
                return
        _give_up_lost(engine, standings, jobs or {}, patience, progress)
        if until is not None and until():
            return
        line = _described(standings, jobs or {})
        if line != shown and (time.monotonic() - shown_at > _BETWEEN_LINES_S or not (shown or on_demand)):
            progress.step(line)
            shown, shown_at = line, time.monotonic()
        time.sleep(engine.pause)


def _give_up_lost(
    engine: Engine,
    standings: Sequence[_Standing],
    jobs: Mapping[int, Job],
    patience: float,
    progress: Progress,
) -> None:
    """Give up parts whose nodes are out of service, once nothing else is left to wait for and patience is over."""
    lost = [one for one in standings if (job := jobs.get(one.part.number)) is not None and job.lost]
    others = [one for one in standings if one not in lost]
    for one in standings:
        if one not in lost or not all(other.finished or other.given_up for other in others):
            one.lost_since = None
        elif one.lost_since is None:
            one.lost_since = time.monotonic()
        elif time.monotonic() - one.lost_since >= patience:
            engine.cancel([one.part])
            node = f"its node {one.part.owner}" if one.part.owner else "a node for it"
            _give_up(one, f"{node} is not in service ({jobs[one.part.number].why})", progress)


def _look(watched: Coordination, one: _Standing) -> None:
    """Read how far a part is."""
    with reading(one.part) as manifest:
        one.runs, one.planned = watched.kind.needed(watched.spec, one.part, manifest)


def _submit(engine: Engine, one: _Standing, standings: Sequence[_Standing], progress: Progress) -> bool:
    (one.part.folder / OUTCOME).unlink(missing_ok=True)
    claimed = [owner for other in standings if other is not one and (owner := other.part.owner)]
    one.before = one.over
    if why := engine.submit(one.part, avoid=() if one.part.owner else (*claimed, *one.avoid)):
        _give_up(one, why, progress)
        return False
    one.submitted = True
    return True


def _ended(watched: Coordination, one: _Standing) -> None:
    """Decide whether a part that ended unfinished is submitted again."""
    engine, standings, progress = watched.engine, watched.standings, watched.progress
    known = read_json(one.part.folder / OUTCOME)
    outcome = None if known is None else Outcome(**known)
    if one.over > one.before:
        one.fruitless = 0
    elif one.part.number not in engine.taken:
        one.fruitless += 1
    if outcome is None and _is_full(engine.folder):  # on which the part could not say so
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(engine.folder))
    if outcome is None or (watched.kind.on_demand and outcome.ending == "over"):
        if one.fruitless >= _TRIES:
            _give_up(
                one, f"its job ended {_TRIES} times without a further run; see {one.part.folder / 'job.log'}", progress
            )
        elif outcome is None:
            progress.note(f"part {one.part.name} ended before its runs were done; it is submitted again")
    elif outcome.ending in ("refused", "elsewhere"):
        own_node = one.part.owner is not None and outcome.ending == "refused"
        if own_node or outcome.node in one.avoid or len(one.avoid) > len(standings):
            _give_up(one, outcome.message, progress)
        else:
            progress.note(f"part {one.part.name}: {outcome.message}; it is submitted to another node")
            one.avoid.append(outcome.node)
    else:
        _give_up(one, outcome.message or "its job ended with runs left", progress)


def _is_full(folder: Path) -> bool:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize < _LEAST_FREE_BYTES


def _give_up(one: _Standing, why: str, progress: Progress) -> None:
    one.given_up = why
    progress.note(f"part {one.part.name} is given up: {why}")


def _described(standings: Sequence[_Standing], jobs: Mapping[int, Job]) -> str:
    """Return one line: runs over and left, and what each part does."""
    words = []
    for one in standings:
        job = jobs.get(one.part.number)
        runs = max(sum(one.runs.values()), one.planned)
        where = one.part.owner or "no node yet"
        if one.finished:
            words.append(f"{one.part.name} done")
        elif job is not None and job.why:
            words.append(f"{one.part.name} waits ({job.why})")
        else:
            state = "" if job is not None else ", given up" if one.given_up else ", waits"
            words.append(f"{one.part.name} {one.over} of {runs} ({where}{state})")
    total = sum(max(sum(one.runs.values()), one.planned) for one in standings)
    return f"{sum(one.over for one in standings)} of {counted(total, 'run')} over: {', '.join(words)}"


def _missing(spec: CampaignSpec, standings: Sequence[_Standing]) -> tuple[str, ...]:
    """Return what the campaign ends without; raise where no node can be judged."""
    notes, judged = [], 0
    for one in standings:
        with reading(one.part) as manifest:
            lacking = lacks(share_of(spec, one.part.number), done_runs(manifest))
        judged += not lacking
        if one.given_up:
            consequence = f"it is not judged ({', '.join(lacking)})" if lacking else "its finished runs are judged"
            notes.append(f"Part {one.part.name} ended before its last run: {one.given_up}; {consequence}.")
    if not judged and any(one.given_up for one in standings):
        raise RunError(
            "no node has enough finished runs to be judged; every run is kept, and the same command resumes. "
            + " ".join(notes)
        )
    return tuple(notes)
