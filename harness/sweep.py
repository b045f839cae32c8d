"""A sweep: the program run at points of its parameters, natively and counted, and a table of whole runs. Interrupted anywhere, the same call goes on.

A sweep is a campaign in all but its end: the same folder, manifest, lock, retries and limits. There are no intervals and no verdicts, so nothing
is sampled between a program's begin and its end, and short programs will do.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from unperturbed.collectors.passes import Passes
from unperturbed.errors import HostError, RunError
from unperturbed.harness.attempts import Attempt, Made, make_run
from unperturbed.harness.campaign import SWEEP, held
from unperturbed.harness.launch import Command, launch
from unperturbed.harness.manifest import Manifest, RunState
from unperturbed.harness.milestones import Milestones
from unperturbed.harness.plan import PlannedRun, configurations
from unperturbed.harness.prepare import fresh, lay_ground, meet_host
from unperturbed.harness.progress import Estimate, Progress
from unperturbed.harness.run import Result, Sampling, run_plain
from unperturbed.harness.session import Session, execute_in
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import REFERENCE
from unperturbed.harness.spec.parameters import Value
from unperturbed.harness.spec.program import PROGRAM_PATH
from unperturbed.harness.sweep_plan import NATIVE, Step, at_a_point, check_sweep_budget, plan_sweep, points, steps, surplus
from unperturbed.harness.sweep_table import SweepTable, write_table

__all__ = ["run_sweep"]

_LONGER_THAN_ANY_RUN_NS = 400 * 24 * 3600 * 1_000_000_000
_RECORDS, _RECORDS_OF_THREADS = 64, 8192
"""A run has two records, and so has each of its threads where these are sampled."""
_STARTS = 7
_FEWEST_POINTS = 3
"""When the program fails at so many points and has run at none, it will fail at all."""


@dataclass(frozen=True)
class _Sweep:
    """What all runs of a sweep share. `untouched` is where the untouched program was built; None when nothing is built here."""

    session: Session
    untouched: Path | None
    steps: Mapping[str, Step]
    points: Sequence[Mapping[str, Value]]


def run_sweep(campaign: Campaign, folder: Path, progress: Progress) -> SweepTable:
    """Run a sweep, or what is left of it, and write its table.

    Parameters
    ----------
    campaign : the validated spec, with parameters.
    folder : the campaign's folder, made if need be.
    progress : told of every step.

    Returns
    -------
    SweepTable
        What was written: the rows that are complete, and what is missing.

    Raises
    ------
    SpecError, HostError
        As `run_campaign`; or this host counts otherwise than when the sweep was begun.
    RunError
        The build failed, the program failed at every point that was tried, or `max_hours` is over. A single run that fails is recorded, and does
        not end the sweep. However it ends, the table of what is complete is written.
    """
    with held(campaign, folder, SWEEP) as manifest:
        sweep, passes = _prepare(campaign, folder, manifest, progress)
        _plan(campaign, sweep, manifest)
        manifest.reopen()
        try:
            _carry_out(sweep, passes, manifest, progress)
        finally:
            table = write_table(campaign, folder, manifest, tuple(sweep.steps.values()), sweep.points)
        return table


def _prepare(campaign: Campaign, folder: Path, manifest: Manifest, progress: Progress) -> tuple[_Sweep, Passes]:
    """Do all that comes before the first run; what an earlier session did is kept."""
    passes, here = meet_host(campaign, manifest, progress)
    check_sweep_budget(campaign, passes)
    wanted = steps(campaign, passes)
    _check_same_counting(wanted, manifest)
    if manifest.fact("starting") is None:
        manifest.set_facts(starting=_time_of_starting(folder))
    ground = lay_ground(campaign, folder, manifest, progress)
    named = {step.name: step.collected for step in wanted}
    somewhere = at_a_point(campaign)
    # What a run must give is another at each point, and is put in when it is made.
    session = Session(somewhere, folder, named, {}, ground.inputs, Result(campaign.program.exit_code, ""), here, ground.program)
    for item in configurations(campaign):
        session = session.holding(item, ground.builds[item.name])
    return _Sweep(session, ground.builds[REFERENCE], {step.name: step for step in wanted}, points(campaign)), passes


def _check_same_counting(wanted: Sequence[Step], manifest: Manifest) -> None:
    """Refuse to fill one column from two sources."""
    counting = {step.name: [step.collected.source, *step.metrics, *step.software] for step in wanted}
    begun = manifest.fact("steps")
    if begun not in (None, counting) and manifest.runs("done"):
        differing = sorted(name for name in {*begun, *counting} if begun.get(name) != counting.get(name))
        raise HostError(
            f"this host counts otherwise than when the sweep was begun ({', '.join(differing)}): a column cannot be counted by two sources. Allow "
            "counters as they were then (`unperturbed doctor`), or choose another folder with --campaign"
        )
    manifest.set_facts(steps=counting)


def _time_of_starting(folder: Path) -> dict[str, float] | None:
    """Return what starting a program that does nothing takes at least, which is in the time of every run; None without such a program."""
    nothing = shutil.which("true", path=PROGRAM_PATH)
    if nothing is None:
        return None
    own = fresh(folder / "runs" / "starting")
    command = Command([nothing], own, {"PATH": PROGRAM_PATH}, own / "stdout", own / "stderr", timeout_s=10)
    made = [launch(command) for _ in range(_STARTS)]
    shutil.rmtree(own)
    return {
        "time_s": min(outcome.seconds for outcome in made),
        "cpu_s": min(outcome.user_s + outcome.system_s for outcome in made),
    }


def _plan(campaign: Campaign, sweep: _Sweep, manifest: Manifest) -> None:
    """Enter the plan, or what is asked for beyond an earlier one."""
    design, count = campaign.campaign, len(sweep.points)
    manifest.forget_runs(surplus([state.run for state in manifest.runs()], count, design.repetitions))
    before = [state.run for state in manifest.runs()]
    manifest.plan(plan_sweep(tuple(sweep.steps.values()), count, design.repetitions, seed=design.seed, before=before))


def _carry_out(sweep: _Sweep, passes: Passes, manifest: Manifest, progress: Progress) -> None:
    """Make every planned run, one at a time."""
    design, states = sweep.session.campaign.campaign, manifest.runs()
    planned = [state.run for state in states if state.state == "planned" and state.run.point <= len(sweep.points)]
    planned = [run for run in planned if run.repetition <= design.repetitions]
    took, left = _Took(states), Counter(run.pass_name for run in planned)
    progress.planned(
        Estimate(
            runs=len(states),
            done=sum(state.state == "done" for state in states),
            seconds=took.expected(left),
            configurations=Counter(state.run.pass_name for state in states),
            passes=passes,
            notes=(),
        )
    )
    expected = _results(sweep, manifest)
    failed: dict[int, str] = {}
    begun = time.monotonic()
    for position, run in enumerate(planned):
        seconds_left = took.expected(left)
        left[run.pass_name] -= 1
        if run.point in failed:
            continue
        if design.max_hours is not None and time.monotonic() - begun > design.max_hours * 3600:
            raise RunError(
                f"max_hours ({design.max_hours:g}) is over: {len(states) - len(planned) + position} of {len(states)} runs are done; "
                "the same command goes on with the rest"
            )
        progress.starting(run, done=len(states) - len(planned) + position, total=len(states), seconds_left=seconds_left)
        make = (
            partial(_native, sweep, run, expected)
            if run.pass_name == NATIVE
            else partial(_counted, sweep, run, expected, manifest)
        )
        seconds = make_run(run, sweep.session.folder, retries=design.retries, make=make, manifest=manifest, progress=progress)
        took.add(run, seconds)
        if run.point not in expected:
            # Nothing says what its other runs should give; they stay planned.
            failed[run.point] = manifest.failures()[-1].error
            if not expected and len(failed) >= _FEWEST_POINTS:
                raise RunError(
                    f"the program failed at each of the first {len(failed)} points, so it will at all. The last said: {failed[run.point]}"
                )


class _Took:
    """How long the runs of each step took, to say how long the rest will take: the mean of those that are done."""

    def __init__(self, states: Sequence[RunState]) -> None:
        self._sum: defaultdict[str, float] = defaultdict(float)
        self._runs: Counter[str] = Counter()
        for state in states:
            if state.state == "done" and state.seconds is not None:
                self.add(state.run, state.seconds)

    def add(self, run: PlannedRun, seconds: float) -> None:
        """Take note of a run."""
        self._sum[run.pass_name] += seconds
        self._runs[run.pass_name] += 1

    def expected(self, runs: Mapping[str, int]) -> float:
        """Return the seconds that so many runs of each step will take; 0 when nothing is known of some of them."""
        asked = {name: count for name, count in runs.items() if count}
        if any(not self._runs[name] for name in asked):
            return 0.0
        return sum(count * self._sum[name] / self._runs[name] for name, count in asked.items())


def _results(sweep: _Sweep, manifest: Manifest) -> dict[int, Result]:
    """Return what each point must give, as far as its first native run is done."""
    first = {
        state.run.id: state.run.point
        for state in manifest.runs("done")
        if state.run.pass_name == NATIVE and state.run.repetition == 1
    }
    exit_code = sweep.session.campaign.program.exit_code
    return {first[run]: Result(exit_code, found["digest"], run) for run, found in manifest.totals().items() if run in first}


def _native(sweep: _Sweep, run: PlannedRun, expected: dict[int, Result], attempt: Attempt) -> Made:
    """Run the untouched program with nothing beside it: its time, and the result that the point's other runs must give."""
    session = sweep.session
    here = session.campaign.at_point(sweep.points[run.point - 1])
    result, outcome = run_plain(here, attempt.folder, build=sweep.untouched, inputs=session.inputs, pad_bytes=run.pad_bytes)
    known = expected.setdefault(run.point, replace(result, run=run.id))
    if result != known:
        raise RunError(
            f"the untouched program gave another result than in its first run at this point (sha256 {result.digest[:12]}…, then "
            f"{known.digest[:12]}…): it is not deterministic, or prints times or addresses. Take these out of what it prints"
        )
    shutil.rmtree(attempt.folder / "scratch", ignore_errors=True)
    totals = {"time_s": outcome.seconds, "cpu_s": outcome.user_s + outcome.system_s, "digest": result.digest}
    return Made(outcome.seconds, 0, totals)


def _counted(sweep: _Sweep, run: PlannedRun, expected: Mapping[int, Result], manifest: Manifest, attempt: Attempt) -> Made:
    """Make one measured run; its counts are those of the program from its first record to its end."""
    step, values = sweep.steps[run.pass_name], sweep.points[run.point - 1]
    session = replace(sweep.session, campaign=sweep.session.campaign.at_point(values), expected=expected[run.point])
    trace = execute_in(
        session,
        _whole(session.campaign, step, session.built[run.configuration].milestones),
        run.configuration,
        attempt.folder,
        pad_bytes=run.pad_bytes,
        run=run.id,
        order=int(run.id),
        point=run.point,
        parameters=dict(values),
        repetition=run.repetition,
        block=run.block,
        attempt=attempt.number,
        host_before=attempt.host_before,
    )
    wanted = (*step.metrics, *step.software)
    if manifest.fact(f"columns:{step.name}") is None:
        manifest.set_facts(**{f"columns:{step.name}": [asdict(trace.metrics[name]) for name in wanted]})
    totals: dict[str, Any] = {name: trace[name].item() for name in wanted}
    return Made(trace.attributes["seconds"], len(trace), totals)


def _whole(campaign: Campaign, step: Step, milestones: Milestones) -> Sampling:
    """Return how a whole run is counted: no timer ticks in it, so that it has one interval."""
    capacity = _RECORDS_OF_THREADS if campaign.measure.threads == "all" else _RECORDS
    return Sampling(step.collected, milestones, _LONGER_THAN_ANY_RUN_NS, "monotonic", capacity, whole=True)
