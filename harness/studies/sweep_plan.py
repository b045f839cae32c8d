"""The plan of a sweep: its points, the runs at each point, and their order.

The runs of all points are shuffled together by the seed, repetition by repetition, so that drift of the host affects
all points equally. Only the first native run at a point comes before the point's other runs, because they must
reproduce its result.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from unperturbed.collectors.passes import Passes
from unperturbed.collectors.sources import Pass
from unperturbed.errors import SpecError
from unperturbed.harness.campaign.plan import FURTHER_NATIVE, NATIVE, PAD_BYTES, PlannedRun, configurations
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE, REFERENCE
from unperturbed.harness.spec.sections.parameters import count_points

_SYSTEM, _SOFTWARE = "system", "software"

_MOST_RUNS = 999_999  # Ids have six digits, so that the paths of all runs have the same length


@dataclass(frozen=True)
class Step:
    """A kind of run that is made at each point."""

    name: str  # The run's pass in the manifest
    configuration: str  # The configuration to run
    collected: Pass  # The hardware metrics; none in a native step, which is only timed
    metrics: tuple[str, ...] = ()  # The hardware and operating-system metrics that this step gives the table
    software: tuple[str, ...] = ()  # The software metrics that this step gives the table


def steps(spec: CampaignSpec, passes: Passes) -> tuple[Step, ...]:
    """Return the steps at each point, native steps first; each metric comes from the first pass that counts it.

    Operating-system counters are read in the first pass that is not simulated, because a simulator's process has other
    counts than the program. If all passes are simulated, they are read in a separate step.
    """
    natives = (NATIVE, *(f"{FURTHER_NATIVE}{number}" for number in range(2, spec.campaign.native_runs + 1)))
    planned = [Step(name, REFERENCE, Pass(name, "none", ())) for name in natives]
    system, taken = spec.measure.os, set[str]()
    counting = [item for item in passes.passes if item.metrics]
    real = next((item.name for item in counting if item.source != "simulated"), None)
    for item in counting:
        names = tuple(metric.name for metric in item.metrics if metric.name not in taken)
        taken |= set(names)
        if names:
            planned.append(Step(item.name, BASELINE, item, (*names, *(system if item.name == real else ()))))
    if system and real is None:
        planned.append(Step(_SYSTEM, BASELINE, Pass(_SYSTEM, "none", ()), system))
    counting_too = (item for item in configurations(spec) if item.software)
    return (
        *planned,
        *(Step(_SOFTWARE, item.name, Pass(_SOFTWARE, "none", ()), (), item.software) for item in counting_too),
    )


def check_sweep_budget(spec: CampaignSpec, passes: Passes) -> int:
    """Return the number of runs of a sweep; reject more than `max_runs` or the general limit."""
    design = spec.campaign
    each = len(steps(spec, passes))
    runs = count_points(spec) * design.repetitions * each
    if runs > (most := min(design.max_runs or _MOST_RUNS, _MOST_RUNS)):
        allowed = (
            f"`max_runs` is {most:,}: raise `max_runs`, or" if design.max_runs == most else f"the limit is {most:,}:"
        )
        raise SpecError(
            f"the plan has {runs:,} runs (points × repetitions × passes: {count_points(spec):,} × {design.repetitions} "
            f"× {each}), but {allowed} use fewer points, repetitions or metrics"
        )
    return runs


def plan_sweep(
    steps: Sequence[Step], points: Collection[int], repetitions: int, *, seed: int, before: Sequence[PlannedRun] = ()
) -> tuple[PlannedRun, ...]:
    """Plan the runs of a sweep; ids ascend in the order of execution.

    `points`: Numbers of the points; on several nodes, only of the points that this node measures.
    `before`: Runs that were planned earlier. Only additional runs are planned, after these.
    Result: A block is one repetition of all points; in a block, all runs of a point have the same environment size.
    """
    chance = random.Random(f"sweep/{seed}/{len(before)}")
    planned = {(run.point, run.repetition, run.pass_name) for run in before}
    had_result = {run.point for run in before}
    number = max((int(run.id) for run in before), default=0)
    block = max((run.block for run in before), default=-1)
    runs: list[PlannedRun] = []
    for repetition in range(1, repetitions + 1):
        slots = [
            (point, step) for point in sorted(points) for step in steps if (point, repetition, step.name) not in planned
        ]
        if not slots:
            continue
        block += 1
        chance.shuffle(slots)
        pads = {point: chance.randrange(PAD_BYTES) for point in sorted({point for point, _ in slots})}
        if repetition == 1:
            slots = _results_first(slots, {point for point in pads if point not in had_result})
        for point, step in slots:
            number += 1
            runs.append(
                PlannedRun(f"{number:06d}", step.configuration, step.name, repetition, block, pads[point], point=point)
            )
    return tuple(runs)


def _results_first(slots: Sequence[tuple[int, Step]], wanted: set[int]) -> list[tuple[int, Step]]:
    """Swap the native run of each of these points with the point's first run."""
    ordered = list(slots)
    first: dict[int, int] = {}
    for place, (point, step) in enumerate(slots):
        start = first.setdefault(point, place)
        if point in wanted and step.name == NATIVE:
            ordered[start], ordered[place] = ordered[place], ordered[start]
    return ordered


def surplus(runs: Sequence[PlannedRun], points: Collection[int], repetitions: int, steps: Collection[str]) -> list[str]:
    """Return the ids of runs with a point, repetition or step that the spec no longer has."""
    return [
        run.id for run in runs if run.point not in points or run.repetition > repetitions or run.pass_name not in steps
    ]
