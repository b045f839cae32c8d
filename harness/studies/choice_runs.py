"""Further runs for an undecided choice of metrics, in the passes that decide it, while a budget of hours lasts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from statistics import median

from unperturbed.analysis.choice.fresh_runs import next_look, open_step
from unperturbed.analysis.choice.held_back import Step
from unperturbed.analysis.choice.metric_choice import MetricChoice
from unperturbed.analysis.choice.moments import Scale
from unperturbed.common.wording import counted, duration, listing
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.execution import execute_plan, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest, RunState, now
from unperturbed.harness.campaign.plan import configurations, plan_batch, runs_before
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.traces import reopen_lost
from unperturbed.harness.results.recorded import read_traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE
from unperturbed.harness.studies.choice import PILOT_RUNS, choose_of_campaign, divide_runs, passes_of_choice


@dataclass(frozen=True)
class _Wanted:
    """Further repetitions of some passes."""

    passes: Sequence[str]
    repetitions: int
    seconds: float  # That they will probably take


def decide_choice(
    spec: CampaignSpec,
    folder: Path,
    budget: float,
    progress: Progress,
    *,
    target: float = 0.95,
    hours: float | None = None,
    runs: int | None = None,
    configuration: str = BASELINE,
    scale: Scale = "count",
) -> MetricChoice:
    """Make further runs until the choice is decided or `budget`, in hours, is spent; return the choice.

    All further runs of the campaign count, those of earlier calls too. Other arguments: as of `choose_of_campaign`.
    """
    _check(spec, folder, budget, configuration)
    with prepare_campaign(spec, folder, progress, checked=False, needed=lambda *_: {configuration}) as (
        session,
        samplings,
        manifest,
    ):
        _require_finished(manifest, configuration)
        manifest.reopen()
        reopen_lost(folder, manifest, progress)
        pilot = _pilot_runs(manifest, configuration)
        if manifest.runs("planned", hosts=False):  # left over from an interrupted call
            execute_plan(session, samplings, manifest, progress)
        while True:
            choice = choose_of_campaign(
                folder, spec, target=target, hours=hours, runs=runs, configuration=configuration, scale=scale
            )
            step = open_step(choice)
            if step is None:
                return choice
            states = [state for state in manifest.runs(hosts=False) if state.run.configuration == configuration]
            wanted = _wanted(folder, manifest, step, target, configuration, states, pilot)
            spent = sum(state.seconds or 0.0 for state in states if state.run.repetition > pilot)
            if spent + wanted.seconds > 3600 * budget:
                return replace(choice, notes=(*choice.notes, _too_expensive(step, wanted, spent, budget)))
            progress.step(
                f"deciding whether {listing(step.chosen)} predict the rest: "
                f"{counted(wanted.repetitions, 'further run')} of {listing(wanted.passes)}"
            )
            _plan(spec, manifest, configuration, wanted)
            execute_plan(session, samplings, manifest, progress)
            if failed := manifest.runs("failed", hosts=False):
                raise RunError(f"run {failed[0].run.id} failed: {failed[0].error}. Repeat the command to make it again")


def _check(spec: CampaignSpec, folder: Path, budget: float, configuration: str) -> None:
    if not (budget > 0 and isfinite(budget)):
        raise SpecError(f"--decide {budget:g}: give hours above 0")
    if spec.nodes is not None or spec.parameters:
        key = "nodes" if spec.nodes is not None else "parameters"
        raise SpecError(f"{spec.path}: --decide makes runs of a campaign on one host, but the spec has `{key}`")
    if not (folder / "campaign.sqlite").is_file():
        raise SpecError(f"{folder} contains no campaign: make the pilot first, with `unperturbed run {spec.path}`")
    known = [item.name for item in configurations(spec)]
    if configuration not in known:
        raise SpecError(f"no configuration {configuration!r} in the spec; it has {listing(known)}")


def _require_finished(manifest: Manifest, configuration: str) -> None:
    """Refuse a campaign with runs of its spec to go: they belong to the pilot."""
    pilot = (manifest.fact(PILOT_RUNS) or {}).get(configuration)
    left = [
        state
        for state in manifest.runs("planned", "running", "failed", hosts=False)
        if state.run.configuration != configuration or pilot is None or state.run.repetition <= pilot
    ]
    if left or not manifest.has_done():
        raise SpecError(
            f"{manifest.path.parent}: the pilot is not finished ({counted(len(left), 'run')} to go): run the spec first"
        )


def _pilot_runs(manifest: Manifest, configuration: str) -> int:
    """Return how many repetitions every pass had before any further run, and record it."""
    known: dict[str, int] = dict(manifest.fact(PILOT_RUNS) or {})
    if configuration not in known:
        had = [state.run for state in manifest.runs("done", hosts=False) if state.run.configuration == configuration]
        known[configuration] = max((run.repetition for run in had), default=0)
        manifest.set_facts(**{PILOT_RUNS: known})
    return known[configuration]


def _wanted(
    folder: Path,
    manifest: Manifest,
    step: Step,
    target: float,
    configuration: str,
    states: Sequence[RunState],
    pilot: int,
) -> _Wanted:
    """Return the further runs until the next look at a choice: those of the passes that count its open metrics."""
    every = read_traces(folder, manifest)
    first, fresh = divide_runs({name: each[configuration] for name, each in every.items()}, pilot)
    used = passes_of_choice(first)
    metrics = [*step.chosen, *(each.metric for each in step.predictions if each.is_open(target))]
    passes = _passes_for(metrics, {name: first[name][0].metrics.keys() for name in used})
    had = sum(run.keys() >= set(metrics) for run in fresh)
    repetitions = next_look(had) - had
    seconds = {
        name: median(state.seconds or 0.0 for state in states if state.run.pass_name == name and state.state == "done")
        for name in passes
    }
    return _Wanted(passes, repetitions, repetitions * sum(seconds.values()))


def _passes_for(metrics: Sequence[str], held: Mapping[str, Collection[str]]) -> list[str]:
    """Return passes that count all these metrics: each time the one with most of those that are left."""
    left, chosen = set(metrics), list[str]()
    while left:
        best = max(held, key=lambda name: len(left.intersection(held[name])))
        left.difference_update(held[best])
        chosen.append(best)
    return [name for name in held if name in chosen]


def _plan(spec: CampaignSpec, manifest: Manifest, configuration: str, wanted: _Wanted) -> None:
    """Plan further repetitions, numbered after those of all passes, and record the extension."""
    before = [state.run for state in manifest.runs(hosts=False)]
    design = spec.campaign
    batch = plan_batch(
        {configuration: wanted.repetitions},
        wanted.passes,
        seed=design.seed,
        before=before,
        order=design.order,
        layouts=design.layouts,
        builds=spec.builds,
    )
    last = max(run.repetition for run in before if run.configuration == configuration)
    shift = last - runs_before(before, wanted.passes)[configuration]
    manifest.set_facts(
        extended=[*(manifest.fact("extended") or []), {"runs": len(before), "by": len(batch), "at": now()}]
    )
    manifest.plan([replace(run, repetition=run.repetition + shift) for run in batch])


def _too_expensive(step: Step, wanted: _Wanted, spent: float, budget: float) -> str:
    further = (spent + wanted.seconds) / 3600
    return (
        f"Not decided: whether {listing(step.chosen)} predict the rest. The next look needs "
        f"{counted(wanted.repetitions, 'run')} of {listing(wanted.passes)}, about "
        f"{duration(wanted.seconds, whole=True)}, after {duration(spent, whole=True)} so far, more than "
        f"{duration(3600 * budget)} in all: to go on, give --decide {further:.2g} or more."
    )
