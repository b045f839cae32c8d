"""Partition of hardware metrics into passes, each certified to leave the metrics that every pass counts unperturbed.

A candidate is a pass: it counts some hardware metrics beside those that every pass counts, if one run can count them
together. The baseline counts the shared metrics alone. All candidates run the baseline's build, so that nothing but the
counting differs: each record reads more counters, which takes time and space in the caches. A metric that only one pass
counts is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unperturbed.analysis.partition import Forecast, Measurement, TraceJudge, forecast, search
from unperturbed.collectors.sources import Pass
from unperturbed.common.extras import require
from unperturbed.common.wording import listing
from unperturbed.errors import HostError, RunError, SpecError
from unperturbed.harness.campaign.execution import SEARCH, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import baselines_alone
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.requirements import plan_together, shared_metrics
from unperturbed.harness.campaign.run import Sampling
from unperturbed.harness.campaign.session import Session
from unperturbed.harness.campaign.traces import reopen_lost
from unperturbed.harness.results.recorded import read_traces
from unperturbed.harness.results.reporting import partition_content
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.load import key_position, metric_position
from unperturbed.harness.spec.sections.campaign import BASELINE, PILOT
from unperturbed.harness.studies.partition.plan_file import write_plan
from unperturbed.harness.studies.partition.runs import RunFailed, RunsHere
from unperturbed.harness.studies.partition.software import Partitioned, SearchOptions, settings_of, silent_notes

_STRATEGY = "restarts"
"""Default strategy: a candidate costs no build."""

_ADVICE = "use a longer interval, or `sampler: outside`, which reads counters in another process"

_SIMULATED = (
    "Counts are simulated: reading them costs the program nothing, so certificates say nothing about a processor, "
    "and the passes only fit the counters of `simulator`."
)


def partition_hardware(
    spec: CampaignSpec,
    folder: Path,
    how: SearchOptions,
    progress: Progress,
    *,
    announce: Callable[[Forecast], None],
    observer: Callable[[Measurement], None],
) -> Partitioned:
    """Search for a partition of the hardware metrics, or resume a search, and write the plan."""
    require("analysis")
    shared, metrics = _divided(spec)
    bare = _shared_alone(spec, shared)
    settings_of(spec, how, None)  # reject invalid settings before any run
    _check_countable(spec, metrics)
    with prepare_campaign(
        bare, folder, progress, purpose=f"{SEARCH} of hardware metrics", judged=True, needed=lambda *_: ()
    ) as (session, samplings, manifest):
        manifest.reopen()
        reopen_lost(folder, manifest, progress)
        runs = _PassRuns(spec, session, samplings, manifest, progress)
        settings = settings_of(spec, how, manifest.required_fact(f"{PILOT}:{runs.main}")["seconds"])
        strategy = how.strategy or _STRATEGY
        baseline_runs = sum(runs.reference_batch.values())
        simulated = [_SIMULATED] if samplings[runs.main].collected.source == "simulated" else []
        for note in simulated:
            progress.note(note)  # before the runs that it makes of little use
        announce(forecast(len(metrics), strategy, settings, baseline_runs=baseline_runs))
        try:
            references = runs.references(again=True)
        except RunFailed as failure:
            raise RunError(str(failure)) from None
        judge = TraceJudge(runs.measure, references, alpha=settings.alpha, fresh_baseline=runs.references)
        plan = search(
            metrics,
            judge,
            settings,
            strategy=strategy,
            tolerance=judge.tolerance,
            observer=observer,
            fits=lambda subset: not isinstance(runs.counting(subset), str),
        )
        plan = replace(
            plan,
            kind="hardware",
            one_build=True,
            unmeasurable=tuple(replace(each, advice=_ADVICE) for each in plan.unmeasurable),
        )
        notes = (
            f"A pass is judged by what every pass counts: {listing(shared)}.",
            *([_few(shared[0])] if len(shared) == 1 else []),
            *silent_notes(metrics, runs.counted),
            *runs.against,
        )
        content = partition_content(spec, plan, read_traces(folder, manifest), manifest)
        write_plan(spec, folder, plan, content, (*simulated, *notes))
    return Partitioned(plan, runs.failed, notes)


def _few(metric: str) -> str:
    return (
        f"With {metric} alone, no correlation between two metrics is judged, only that of {metric} across runs: list a "
        "second metric in `align_on`, such as PAPI_TOT_CYC, and every pass counts it too."
    )


def _divided(spec: CampaignSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the metrics that every pass counts, and those to divide; refuse a spec without either."""
    for asked, keys, why in (
        (spec.parameters, ("parameters",), "a sweep measures whole runs, but a partition needs the intervals of runs"),
        (spec.nodes is not None, ("nodes",), "`--hardware` searches on one host"),
        (spec.measure.passes, ("measure", "passes"), "`--hardware` searches for the passes"),
        (spec.measure.multiplex, ("measure", "multiplex"), "with `multiplex`, all metrics share each run"),
        (
            spec.analysis.together,
            ("analysis", "together"),
            "in a partition, each metric is in one pass, and `together` wants metrics to meet in several",
        ),
    ):
        if asked:
            raise SpecError(f"{key_position(spec, *keys)}: {why}: remove `{keys[-1]}`")
    shared = shared_metrics(spec)
    metrics = tuple(name for name in spec.measure.hardware if name not in shared)
    if not metrics:
        besides = f" besides {listing(shared)}, which every pass counts" if shared else ""
        raise SpecError(
            f"{spec.path}: nothing to partition, because the spec has no hardware metric{besides}: add metrics under "
            "`measure: hardware:`"
        )
    if not shared:
        raise SpecError(
            f"{spec.path}: a pass is judged by the metrics that every pass counts, but the spec has none: add "
            "PAPI_TOT_INS under `measure: hardware:`, or list one of its metrics in `analysis: align_on:`"
        )
    return shared, metrics


def _check_countable(spec: CampaignSpec, metrics: Sequence[str]) -> None:
    """Refuse metrics that no run can count beside the shared ones, by the source of these."""
    beside = plan_together(spec, ())
    if isinstance(beside, str):
        raise HostError(beside)
    for metric in metrics:
        if isinstance(why := plan_together(spec, (metric,), beside.source), str):
            raise HostError(f"{metric_position(spec, metric)}: {why}")


def _shared_alone(spec: CampaignSpec, shared: tuple[str, ...]) -> CampaignSpec:
    """Return the campaign with only the baseline, which counts only these hardware metrics."""
    bare, measure, ending = baselines_alone(spec), spec.measure, spec.measure.interval_metric
    known = {*shared, *measure.os}
    counted = {
        "hardware": shared,
        "passes": (),
        "software": {name: event for name, event in measure.software.items() if name == ending},
        "derived": {name: each for name, each in measure.derived.items() if known.issuperset(each.names)},
    }
    # Runs of one build have the same layouts, by repetition.
    alone = {"sham": False, "builds": "separate"}
    return bare.model_copy(
        update={
            "measure": measure.model_copy(update=counted),
            "analysis": spec.analysis.model_copy(update={"anchor": None}),
            "campaign": bare.campaign.model_copy(update=alone),
        }
    )


class _PassRuns(RunsHere):
    """The runs of a search for passes: candidates are passes of the baseline's build.

    `whole`: The spec with all metrics; that of the session has only the shared ones.
    """

    def __init__(
        self,
        whole: CampaignSpec,
        session: Session,
        samplings: Mapping[str, Sampling],
        manifest: Manifest,
        progress: Progress,
    ) -> None:
        super().__init__(session, samplings, manifest, progress)
        (self.main,) = samplings
        self._whole, self._counting = whole, dict[tuple[str, ...], Pass | str]()

    @property
    def passes(self) -> tuple[str, ...]:
        """Return the name of the baseline's pass."""
        return (self.main,)

    def compared_with(self, pass_name: str) -> str:
        """Return the baseline's pass."""
        del pass_name
        return self.main

    def counting(self, subset: tuple[str, ...]) -> Pass | str:
        """Return the pass that counts a subset, by the source of the baseline; or why no run can."""
        if subset not in self._counting:
            source = self._samplings[self.main].collected.source
            self._counting[subset] = plan_together(self._whole, subset, source)
        return self._counting[subset]

    def request(self, more: Mapping[str, int]) -> None:
        """Plan the requested runs that are not in the plan yet: those of a candidate in its own pass."""
        for name, count in more.items():
            self._plan({name: count}, [self.main if name == BASELINE else name])

    def build(self, name: str) -> None:
        """Add a candidate's pass, which runs the baseline's build."""
        super().build(BASELINE)
        if name in self._session.built:
            return
        counting = self.counting(tuple(self.manifest.required_fact("candidates")[name]))
        if isinstance(counting, str):
            raise HostError(counting)
        collected, baseline = replace(counting, name=name), self._session.built[BASELINE]
        session = self._session.with_build(replace(baseline.configuration, name=name), baseline.tree)
        self._session = replace(session, passes={**session.passes, name: collected})
        self._samplings = {**self._samplings, name: replace(self._samplings[self.main], collected=collected)}
        self.manifest.set_facts(**{f"{PILOT}:{name}": self.manifest.fact(f"{PILOT}:{self.main}")})
