"""Partition search on a real program: builds and runs candidates on demand, and writes the plan as a spec."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unperturbed.analysis.partition import (
    Forecast,
    Measurement,
    Plan,
    Reference,
    SearchSettings,
    Stop,
    TraceJudge,
    forecast,
    search,
)
from unperturbed.analysis.partition.evaluation import Limits
from unperturbed.analysis.partition.plan import Stage
from unperturbed.analysis.perturbation import OPEN
from unperturbed.analysis.totals.verdict import tolerance_of
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import require
from unperturbed.common.wording import listing, percent
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.execution import SEARCH, prepare_campaign
from unperturbed.harness.campaign.plan import baselines_alone, carried_metrics
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.traces import reopen_lost
from unperturbed.harness.results.recorded import read_traces
from unperturbed.harness.results.reporting import partition_content
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import PILOT, READY
from unperturbed.harness.studies.partition.families import ADVICE, find_families, merge, profile_alone
from unperturbed.harness.studies.partition.plan_file import write_plan
from unperturbed.harness.studies.partition.runs import RunFailed, RunsHere, candidate_name

DEFAULT_STRATEGY = "first-fit"
"""Strategy of a search that makes a build for each candidate."""


_CARRIED = (
    "The build with only the sites of {carried}, which every build of the search has, {found} without counting{advice}."
)


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search."""

    # strategy: Name of a strategy of `analysis.partition`; '' for `restarts` if a candidate costs no build, else
    # `first-fit`.
    strategy: str = ""
    # repetitions, max_repetitions: Initial and maximum number of runs of a candidate in each pass.
    repetitions: int = 3
    max_repetitions: int = 20
    # max_runs, max_hours: Limits of the search; by default those of the spec.
    max_runs: int | None = None
    max_hours: float | None = None


@dataclass(frozen=True)
class Partitioned:
    """The result of a search."""

    plan: Plan  # The plan; the best so far if the search was stopped
    failed: bool  # Whether a needed run failed in all attempts; `plan.stopped` names the run
    # Notes, one sentence each: doubts about the baselines, metrics that counted nothing.
    notes: tuple[str, ...] = ()


def wanted_metrics(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the software metrics to partition: all except the anchor and a metric that ends intervals.

    Every subset contains these.
    """
    if spec.parameters:
        raise SpecError(
            f"{spec.path}: the spec describes a sweep (`parameters`), which measures whole runs, but a partition needs "
            "the intervals of runs: write a spec for one point of the sweep, with `measure: interval:` and without "
            "`parameters`"
        )
    carried = carried_metrics(spec)
    wanted = tuple(name for name in spec.measure.software if name not in carried)
    if not wanted:
        others = " and ".join(f"`{name}`" for name in carried)
        besides = f" besides {others}, which every configuration has" if spec.measure.software else ""
        raise SpecError(
            f"{spec.path}: nothing to partition, because the spec has no software metric{besides}: add metrics under "
            "`measure: software:`"
        )
    if not spec.measure.hardware:
        raise SpecError(
            f"{spec.path}: perturbation shows only in hardware metrics, but the spec has none: add hardware metrics "
            "under `measure: hardware:`"
        )
    return wanted


def partition_campaign(
    spec: CampaignSpec,
    folder: Path,
    how: SearchOptions,
    progress: Progress,
    *,
    announce: Callable[[Forecast], None],
    observer: Callable[[Measurement], None],
) -> Partitioned:
    """Search for a partition, or resume a search, and write the plan; the search depends only on recorded outcomes."""
    require("analysis")
    metrics = wanted_metrics(spec)
    bare = baselines_alone(spec)
    settings_of(spec, how, None)  # reject invalid settings before any build
    with prepare_campaign(bare, folder, progress, purpose=SEARCH, judged=True, needed=lambda *_: ()) as (
        session,
        samplings,
        manifest,
    ):
        manifest.reopen()
        reopen_lost(folder, manifest, progress)
        runs = RunsHere(session, samplings, manifest, progress)
        if not manifest.has_done():  # report an invalid event before hours of baseline runs
            runs.build(candidate_name(manifest, metrics))
        seconds = [manifest.fact(f"{PILOT}:{name}")["seconds"] for name in samplings]
        settings = settings_of(spec, how, sum(seconds) / len(seconds))
        reference_runs = sum(runs.reference_batch.values()) * len(samplings)
        strategy = how.strategy or ("restarts" if runs.family else DEFAULT_STRATEGY)
        predicted = forecast(len(metrics), strategy, settings, passes=len(samplings), baseline_runs=reference_runs)
        announce(predicted)
        try:
            ready = runs.judge_build() if runs.family else []
            in_families = bool(set(runs.rewriting.values()) - {"unperturbed"})
            references = {} if in_families else runs.references(again=True)
        except RunFailed as failure:
            raise RunError(str(failure)) from None
        about_carried: tuple[str, ...] = ()
        if in_families:
            about_carried = judge_carried(runs)
            for note in about_carried:
                progress.note(note)
            plan = _plan_in_families(runs, ready, metrics, settings, strategy, progress, observer)
        else:
            plan = _plan(runs, references, metrics, settings, strategy, observer)
        plan = replace(plan, one_build=bool(runs.family), forecast=predicted)
        silent = silent_notes(metrics, runs.counted)
        about = (*build_notes(plan, runs.family), *open_change_notes(plan), *spec_notes(spec, plan))
        notes = (*silent, *about, *about_carried, *runs.against)
        content = partition_content(spec, plan, read_traces(folder, manifest), manifest)
        write_plan(spec, folder, plan, content, notes)
    return Partitioned(plan, runs.failed, notes)


def _plan(
    runs: RunsHere,
    references: Mapping[str, Reference],
    metrics: Sequence[str],
    settings: SearchSettings,
    strategy: str,
    observer: Callable[[Measurement], None],
    limits: Limits | None = None,
) -> Plan:
    """Partition metrics into subsets that are compared with the current build without counting, or the baseline."""
    judge = TraceJudge(runs.measure, references, alpha=settings.alpha, fresh_baseline=runs.references)
    plan = search(
        metrics, judge, settings, strategy=strategy, tolerance=judge.tolerance, observer=observer, limits=limits
    )
    if not runs.family:
        return plan
    return replace(plan, unmeasurable=tuple(replace(each, advice=ADVICE) for each in plan.unmeasurable))


def _plan_in_families(
    runs: RunsHere,
    ready: Sequence[Trace],
    metrics: Sequence[str],
    settings: SearchSettings,
    strategy: str,
    progress: Progress,
    observer: Callable[[Measurement], None],
) -> Plan:
    """Partition metrics into builds that leave the program alone without counting, and each build's into subsets.

    Each build gets the share of alpha that it has of the metrics.

    `ready`: Runs of the build of all metrics without counting, by which it is not unperturbed.
    """
    progress.note(
        f"The build with the sites of all {len(metrics)} metrics is not shown to be unperturbed without counting: the "
        "search first finds builds of fewer metrics that are, then subsets of the metrics of each build. The runs for "
        "these builds come in addition to the forecast."
    )
    history, limits = _History(observer), Limits(settings, time.monotonic)
    history.stage = "rewriting"
    builds = find_families(runs, ready, metrics, settings, limits, history.add)
    history.stage = None
    plans: list[Plan] = []
    stopped = builds.stopped
    for family in builds.subsets if not stopped else ():
        runs.family = runs.idle_name(family.metrics)
        held = tuple(metric for metric in metrics if metric in family.metrics)
        progress.note(
            f"Build {runs.family}, which counts nothing, leaves the program alone: subsets of {listing(held)}."
        )
        lacking = [max(count - runs.given[name], 0) for name, count in runs.reference_batch.items()]
        try:
            limits.require(sum(lacking) * len(runs.passes))
            references = runs.references(again=True)  # each certification makes fresh ones
        except Stop as stop:
            stopped = str(stop)
            break
        if any(lacking):
            limits.runs += sum(lacking) * len(runs.passes)
            history.add(Measurement(0, "baseline", (), max(lacking), None, limits.runs))
        own = replace(settings, alpha=settings.alpha * len(held) / len(metrics))
        plans.append(_plan(runs, references, held, own, strategy, history.add, limits))
        if stopped := plans[-1].stopped:
            break
    perturbed = [each.metric for each in builds.unmeasurable]
    alone = profile_alone(runs, perturbed, progress) if stopped != "interrupted" else {}
    return replace(merge(builds, plans, history.measured, alone, stopped, strategy), alpha=settings.alpha)


class _History:
    """Measurements of several searches in a row, numbered from the first."""

    def __init__(self, observer: Callable[[Measurement], None]) -> None:
        self.measured: list[Measurement] = []
        self.stage: Stage | None = None  # Instead of the stage in the search, except for baselines
        self._observer = observer

    def add(self, made: Measurement) -> None:
        """Record a measurement of the current search."""
        stage = made.stage if made.stage == "baseline" or self.stage is None else self.stage
        self.measured.append(replace(made, number=len(self.measured) + 1, stage=stage))
        self._observer(self.measured[-1])


def settings_of(spec: CampaignSpec, search: SearchOptions, seconds_per_run: float | None) -> SearchSettings:
    """Return the settings of a search, from its options and the spec."""
    design = spec.campaign
    try:
        return SearchSettings(
            repetitions=search.repetitions,
            max_repetitions=search.max_repetitions,
            alpha=spec.analysis.alpha,
            max_runs=search.max_runs or design.max_runs,
            max_hours=search.max_hours or design.max_hours,
            seconds_per_run=seconds_per_run,
            seed=design.seed,
        )
    except ValueError as error:
        raise SpecError(str(error)) from None


def judge_carried(runs: RunsHere) -> tuple[str, ...]:
    """Judge the build with only the sites that all builds have; return a note on it, none if it has no such site."""
    carried = carried_metrics(runs.spec)
    if not carried:
        return ()
    verdicts = set(runs.judge_carried().values())
    if verdicts == {"unperturbed"}:
        found, advice = "leaves the program unperturbed", ""
    else:
        found = "perturbs the program" if "perturbed" in verdicts else "is not shown to leave the program unperturbed"
        advice = f": a search without {listing(carried)}, or with a rarer event in its place, may certify more"
    return (_CARRIED.format(carried=listing(carried), found=found, advice=advice),)


def silent_notes(metrics: Sequence[str], counted: Mapping[str, bool]) -> tuple[str, ...]:
    """Return a note on metrics that counted nothing in any run; empty if there are none."""
    silent = [metric for metric in metrics if counted.get(metric) is False]
    return (
        (f"{', '.join(silent)} counted nothing in any run: check that the spec names the right event.",)
        if silent
        else ()
    )


def open_change_notes(plan: Plan) -> tuple[str, ...]:
    """Return which hardware metric most correlations that stayed open have in common; empty if there is none."""
    changes = [
        change for left in plan.undecided if left.verdict for change in left.verdict.changes if change.verdict in OPEN
    ]
    shares = Counter(name for change in changes for name in {change.first, change.second}).most_common(1)
    if len(changes) < 2 or 2 * shares[0][1] <= len(changes):
        return ()
    (name, count), of = shares[0], len(changes)
    return (
        f"{count} of {of} correlations that stayed open are of {name}: a search without this metric, or with a wider "
        "tolerance, may certify more.",
    )


def build_notes(plan: Plan, family: str) -> tuple[str, ...]:
    """Return what certificates compare subsets with, if candidates and baselines run one build."""
    if not family or not plan.subsets:
        return ()
    about = "so a certificate is about the counting"
    if not plan.families:
        return (
            f"Subsets are compared with {READY}, the build with a no-op at every site, {about}. Against the "
            f"baseline, {READY} is unperturbed.",
        )
    return (
        f"Subsets are compared with the build of their family, which has a no-op at each of its sites, {about}. "
        "Each of these builds is certified against the baseline: the chance that at least one of them changes "
        f"a correlation by more than {plan.tolerance:g} is at most {plan.alpha:g}.",
    )


def spec_notes(spec: CampaignSpec, plan: Plan) -> tuple[str, ...]:
    """Return notes on settings of the spec: tolerances of totals, `doses`, and layouts that may certify more."""
    notes = []
    tolerance = tolerance_of("PAPI_TOT_INS", spec.analysis.totals)
    added = [(each.name, each.cost.instructions) for each in (*plan.families, *plan.subsets)]
    if heavy := [f"{name} {percent(share)}" for name, share in added if share is not None and abs(share) > tolerance]:
        notes.append(
            f"Certificates are about correlations, not about totals: {listing(heavy)} instructions, where the "
            f"tolerance is {percent(tolerance).removeprefix('+')}. Take totals from the baseline's runs."
        )
    if spec.campaign.doses:
        notes.append(
            "`doses` is ignored and not in the plan: builds with several increments for each event execute more "
            "no-ops, and certificates would not be valid for them."
        )
    if plan.families and spec.campaign.layouts == "fixed" and (len(plan.subsets) > 1 or plan.undecided):
        notes.append(
            "Each build has one layout of its code, which can change the program by itself. A search with `layouts: "
            "varied` under `campaign` draws layouts, and may certify more metrics, in fewer subsets."
        )
    return tuple(notes)
