"""Execution of a sweep: runs the program at each parameter point, natively and counted, and writes a table.

After an interruption, the same call resumes. Runs are counted as a whole, without intervals, so programs may be short.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unperturbed.collectors.passes import Passes
from unperturbed.errors import HostError, RunError
from unperturbed.harness.campaign.execution import SWEEP, Attempt, RunQueue, RunResult, lock_campaign
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.plan import NATIVE, PlannedRun, configurations
from unperturbed.harness.campaign.preparation import build_and_stage, detect_host, make_empty_folder
from unperturbed.harness.campaign.progress import Durations, Estimate, Progress
from unperturbed.harness.campaign.run import Sampling, run_plain
from unperturbed.harness.campaign.session import Session, execute_in
from unperturbed.harness.nodes.coordinate import Coordination, coordinated
from unperturbed.harness.nodes.shares import (
    FOLDER,
    SWEEPS,
    NodePart,
    dealt_points,
    difference_notes,
    differing_facts,
    own_seed,
    read_json,
    reading,
    this_node,
    write_once,
)
from unperturbed.harness.program.process import time_of_starting
from unperturbed.harness.program.result import ProgramResult
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import REFERENCE
from unperturbed.harness.spec.sections.parameters import Value, at_a_point, points
from unperturbed.harness.studies.sweep_plan import Step, check_sweep_budget, plan_sweep, steps, surplus
from unperturbed.harness.studies.sweep_table import Recorded, SweepTable, read_recorded, write_table

_LONGER_THAN_ANY_RUN_NS = 400 * 24 * 3600 * 1_000_000_000  # No timer tick during a run gives a single interval
_RECORDS, _RECORDS_OF_THREADS = 64, 8192
"""Maximum number of records: a run needs two, and so does each sampled thread."""
_UNCOUNTED = ["none"]  # Entry of a step that counts nothing in the manifest: only its source
_FEWEST_POINTS = 3  # Stop if the program fails at this many points before any success


def run_sweep(spec: CampaignSpec, folder: Path, progress: Progress, *, part: int = 1) -> SweepTable:
    """Run a sweep, or its remaining runs, and write its table."""
    with lock_campaign(spec, folder, SWEEP) as manifest:
        passes, host = detect_host(spec, manifest, progress)
        check_sweep_budget(spec, passes)
        wanted = {step.name: step for step in steps(spec, passes)}
        _check_same_counting(tuple(wanted.values()), manifest)
        if manifest.fact("starting") is None:
            empty = make_empty_folder(folder / "runs" / "starting")
            manifest.set_facts(starting=time_of_starting(empty))
            shutil.rmtree(empty)
        own, every = dealt_points(spec, part), points(spec)
        states = _plan(spec, wanted, own, part, manifest)
        is_open = any(state.state == "planned" for state in states)
        workspace = build_and_stage(spec, folder, manifest, progress, needed=None if is_open else ())
        # The expected result differs between points, and is set before each run.
        session = Session(
            at_a_point(spec),
            folder,
            {step.name: step.collected for step in wanted.values()},
            {},
            workspace.inputs,
            ProgramResult(spec.program.exit_code, ""),
            host,
            workspace.program,
        )
        for item in configurations(spec) if is_open else ():
            session = session.with_build(item, workspace.builds[item.name])
        try:
            untouched = workspace.builds.get(REFERENCE)
            _SweepQueue(session, untouched, wanted, every, states, passes, manifest, progress).make_all()
        finally:
            table = write_table(spec, folder, manifest, [read_recorded(spec, manifest, wanted, every, own)])
        return table


def _plan(
    spec: CampaignSpec, wanted: Mapping[str, Step], own: Sequence[int], part: int, manifest: Manifest
) -> list[RunState]:
    """Record the planned runs, or the runs missing from an earlier plan; return the runs of the spec.

    Finished runs that are no longer in the spec stay in the manifest, but are ignored.
    """
    repetitions = spec.campaign.repetitions
    seed = spec.campaign.seed if spec.nodes is None else own_seed(spec, part)
    manifest.forget_runs(surplus([state.run for state in manifest.runs()], own, repetitions, wanted))
    before = [state.run for state in manifest.runs()]
    manifest.plan(plan_sweep(tuple(wanted.values()), own, repetitions, seed=seed, before=before))
    manifest.reopen()
    every = manifest.runs()
    unwanted = set(surplus([state.run for state in every], own, repetitions, wanted))
    return [state for state in every if state.run.id not in unwanted]


def _check_same_counting(wanted: Sequence[Step], manifest: Manifest) -> None:
    """Reject a resumed sweep if a column would come from two sources."""
    counting = {step.name: [step.collected.source, *step.metrics, *step.software] for step in wanted}
    if (home := manifest.fact("shared")) is not None:
        _check_same_as_first_node(counting, Path(home))
    differing = _differing(manifest.fact("steps") or counting, counting)
    if differing and manifest.has_done():
        raise HostError(
            f"this host no longer counts as it did at the start of the sweep (passes: {', '.join(differing)}), but all "
            "values of a column must have the same source. Make the earlier counters available again (see "
            "`unperturbed doctor`), or start a new sweep in another folder with --campaign"
        )
    manifest.set_facts(steps=counting)


def _differing(known: Mapping[str, Sequence[str]], counting: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the steps that count differently, except steps that only time the program."""
    return sorted(name for name in {*known, *counting} if known.get(name, _UNCOUNTED) != counting.get(name, _UNCOUNTED))


def _check_same_as_first_node(counting: Mapping[str, Sequence[str]], home: Path) -> None:
    """Reject a node if a column of the joined table would come from a different source than on the first node."""
    first = home / FOLDER / "counting.json"
    write_once(first, {"node": this_node(), "steps": counting})
    known = read_json(first) or {}
    differing = _differing(known.get("steps", {}), counting)
    if differing:
        raise HostError(
            f"node {this_node()} counts differently from the first node, {known.get('node')} "
            f"(passes: {', '.join(differing)}), but all values of a column must have the same source. Make the same "
            "counters available on all nodes (see `unperturbed doctor`)"
        )


class _SweepQueue(RunQueue):
    """Queue that makes a sweep's planned runs, and skips a point after its first native run has failed.

    The first native run gives the result that the point's other runs must reproduce. If it fails, they stay planned.
    """

    def __init__(
        self,
        session: Session,
        untouched: Path | None,
        steps: Mapping[str, Step],
        points: Sequence[Mapping[str, Value]],
        states: Sequence[RunState],
        passes: Passes,
        manifest: Manifest,
        progress: Progress,
    ) -> None:
        planned = [state.run for state in states if state.state == "planned"]
        done, durations = manifest.runs("done"), Durations()
        for state in done:
            if state.seconds is not None:
                durations.add(state.run.pass_name, state.seconds)
        progress.planned(
            Estimate(
                runs=len(states),
                done=sum(state.state == "done" for state in states),
                seconds=durations.expected(Counter(run.pass_name for run in planned)),
                configurations=Counter(
                    NATIVE if state.run.configuration == REFERENCE else state.run.pass_name for state in states
                ),
                passes=passes,
                notes=(),
            )
        )
        super().__init__(
            session, planned, manifest, progress, total=len(states), durations=durations, make=self._make_at_point
        )
        self._untouched, self._steps, self._points = untouched, steps, points
        self._failed: dict[int, str] = {}
        # The expected result at each point, from its first native run.
        totals = manifest.totals()
        self._expected = {
            state.run.point: ProgramResult(session.expected.exit_code, totals[state.run.id]["digest"], state.run.id)
            for state in done
            if state.run.pass_name == NATIVE and state.run.repetition == 1 and state.run.id in totals
        }

    def skip(self, run: PlannedRun) -> bool:
        """Return whether the first native run at the run's point failed."""
        return run.point in self._failed

    def make_run(self, run: PlannedRun) -> None:
        """Make one run; stop the sweep if the program failed at every point so far."""
        super().make_run(run)
        point = run.point
        if point in self._expected:
            return
        self._failed[point] = error = self.manifest.failures()[-1].error
        if not self._expected and len(self._failed) >= _FEWEST_POINTS:
            raise RunError(
                f"the sweep stops because the program failed at each of the first {len(self._failed)} points. The last "
                f"error was: {error}"
            )

    def _make_at_point(self, run: PlannedRun, attempt: Attempt) -> RunResult:
        values = self._points[run.point - 1]
        session = replace(self.session, spec=self.session.spec.at_point(values))
        if run.configuration == REFERENCE:
            return self._run_native(session, run, attempt)
        return self._run_counted(replace(session, expected=self._expected[run.point]), run, attempt, dict(values))

    def _run_native(self, session: Session, run: PlannedRun, attempt: Attempt) -> RunResult:
        """Run the untouched program, for its time and for the result that the point's other runs must reproduce."""
        result, outcome = run_plain(
            session.spec, attempt.folder, build=self._untouched, inputs=session.inputs, pad_bytes=run.pad_bytes
        )
        known = self._expected.setdefault(run.point, replace(result, run=run.id))
        if result != known:
            raise RunError(
                "the untouched program's result differs from that of its first run at this point of the sweep (sha256 "
                f"{result.digest[:12]}…, in the first run {known.digest[:12]}…): the program is not deterministic, "
                "or prints times or addresses. Remove these from its output, or set `result: any`"
            )
        shutil.rmtree(attempt.folder / "scratch", ignore_errors=True)
        totals = {"time_s": outcome.seconds, "cpu_s": outcome.user_s + outcome.system_s, "digest": result.digest}
        return RunResult(outcome.seconds, 0, totals)

    def _run_counted(
        self, session: Session, run: PlannedRun, attempt: Attempt, parameters: Mapping[str, Value]
    ) -> RunResult:
        """Make one measured run; count from the program's first record to its end."""
        step = self._steps[run.pass_name]
        software_metrics = session.built[run.configuration].software_metrics
        capacity = _RECORDS_OF_THREADS if session.spec.measure.samples_all_threads else _RECORDS
        trace = execute_in(
            session,
            Sampling(step.collected, software_metrics, _LONGER_THAN_ANY_RUN_NS, "monotonic", capacity, whole=True),
            run.configuration,
            attempt.folder,
            pad_bytes=run.pad_bytes,
            run=run.id,
            order=int(run.id),
            point=run.point,
            parameters=parameters,
            repetition=run.repetition,
            block=run.block,
            attempt=attempt.number,
            host_before=attempt.host_before,
        )
        wanted = (*step.metrics, *step.software)
        if self.manifest.fact(f"columns:{step.name}") is None:
            self.manifest.set_facts(**{f"columns:{step.name}": [asdict(trace.metrics[name]) for name in wanted]})
        totals: dict[str, Any] = {name: trace[name].item() for name in wanted}
        return RunResult(trace.attributes["seconds"], len(trace), totals)


def run_sweep_on_nodes(spec: CampaignSpec, folder: Path, progress: Progress) -> SweepTable:
    """Run a sweep on nodes, or its remaining runs; return the rows of all nodes and the missing rows with reasons."""
    with coordinated(spec, folder, progress, SWEEPS) as coordination:
        try:
            coordination.watch()
        finally:
            table = _join(coordination, folder)
    if coordination.given_up and not table.frame.height:
        reasons = "; ".join(dict.fromkeys(coordination.given_up.values()))
        raise RunError(
            f"no row of the sweep is complete; finished runs are kept: repeat the command to resume. Reasons: {reasons}"
        )
    return table


def make_sweep_part(spec: CampaignSpec, part: NodePart, progress: Progress) -> None:
    """Make the remaining runs at one node's points, and write their table into the part's folder."""
    run_sweep(spec, part.folder, progress, part=part.number)


def _join(coordination: Coordination, folder: Path) -> SweepTable:
    """Write the joined table of all parts."""
    spec, every = coordination.spec, points(coordination.spec)
    recorded: list[Recorded] = []
    nodes: list[dict[str, Any]] = []
    notes: list[str] = []
    for part in coordination.parts:
        why = coordination.given_up.get(part.number, "")
        lost = f"part {part.name} ended earlier: {why}" if why else ""
        node, own = part.label, dealt_points(spec, part.number)
        with reading(part) as manifest:
            names = tuple(manifest.fact("steps") or ())
            recorded.append(read_recorded(spec, manifest, names, every, own, node=node, lost=lost))
            host = manifest.fact("host")
        nodes.append({"node": node, "part": part.name, "host": host, "differs": differing_facts(part)})
        notes += difference_notes(part)
    return write_table(spec, folder, coordination.manifest, recorded, notes=notes, host=None, nodes=nodes)
