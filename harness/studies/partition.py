"""Partition search on a real program: builds and runs candidates on demand, and writes the plan as a spec."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from unperturbed.analysis.partition import (
    CertifiedSubset,
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
from unperturbed.analysis.perturbation import Baseline, combine_checks
from unperturbed.analysis.report import ReportContent, write_partition
from unperturbed.collectors.data import Trace
from unperturbed.common.extras import require
from unperturbed.common.scratch import write_whole
from unperturbed.errors import RunError, SpecError
from unperturbed.harness.campaign.execution import SEARCH, execute_plan, prepare_campaign
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.pilot import with_configuration
from unperturbed.harness.campaign.plan import Configuration, PlannedRun, baselines_alone, configurations, plan_batch
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.run import Sampling
from unperturbed.harness.campaign.session import Session
from unperturbed.harness.campaign.traces import reopen_lost, trace_file
from unperturbed.harness.results.check import align_on, hardware_metrics
from unperturbed.harness.results.recorded import read_traces
from unperturbed.harness.results.reporting import partition_content
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, DEFAULT_RUNS, PILOT, READY

_UNEVEN = 1.2
"""Limit for the ratio of the longest to the shortest run, in intervals. The ratio was 1.03 to 1.15 for the quickstart
on a mostly idle host, and 1.28 for the baseline of a search on a busy host that certified nothing."""


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search."""

    strategy: str = "first-fit"  # Name of a strategy of `analysis.partition`
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


class RunFailed(Stop):
    """A run that the search needs failed in all attempts."""


def wanted_metrics(spec: CampaignSpec) -> tuple[str, ...]:
    """Return the software metrics to partition: all except the anchor, which every subset contains."""
    if spec.parameters:
        raise SpecError(
            f"{spec.path}: the spec describes a sweep (`parameters`), which measures whole runs, but a partition needs "
            "the intervals of runs: write a spec for one point of the sweep, with `measure: interval:` and without "
            "`parameters`"
        )
    wanted = tuple(name for name in spec.measure.software if name != spec.analysis.anchor)
    if not wanted:
        besides = f" besides the anchor `{spec.analysis.anchor}`" if spec.measure.software else ""
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
        runs = _RunsHere(session, samplings, manifest, progress)
        if not manifest.has_done():  # report an invalid event before hours of baseline runs
            runs.build(candidate_name(manifest, metrics))
        seconds = [manifest.fact(f"{PILOT}:{name}")["seconds"] for name in samplings]
        settings = settings_of(spec, how, sum(seconds) / len(seconds))
        reference_runs = sum(runs.reference_batch.values()) * len(samplings)
        announce(forecast(len(metrics), how.strategy, settings, passes=len(samplings), baseline_runs=reference_runs))
        try:
            references = runs.references()
        except RunFailed as failure:
            raise RunError(str(failure)) from None
        judge = TraceJudge(runs.measure, references, alpha=settings.alpha, fresh_baseline=runs.references)
        plan = search(metrics, judge, settings, strategy=how.strategy, tolerance=judge.tolerance, observer=observer)
        notes = (*silent_notes(metrics, runs.counted), *runs.against)
        content = partition_content(spec, plan, read_traces(folder, manifest), manifest)
        write_plan(spec, folder, plan, content, notes)
    return Partitioned(plan, runs.failed, notes)


def write_plan(spec: CampaignSpec, folder: Path, plan: Plan, content: ReportContent, notes: Sequence[str]) -> None:
    """Write `plan.json`, `plan.yaml` and `partition.html` into the folder of a search."""
    write_whole(folder / "plan.json", json.dumps(plan.to_json(), indent=1, ensure_ascii=False))
    write_whole(folder / "plan.yaml", plan_text(spec, plan))
    write_partition(folder / "partition.html", replace(content, notes=(*notes, *content.notes)), plan)


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


class SearchRuns(ABC):
    """The runs of a search on one host or node, each used only once, in the order of execution.

    `spec`: The spec with the baselines of this host or node.
    `manifest`: The manifest of the search, with its candidates.
    `counted`: For each software metric, whether it counted anything; updated here.
    """

    place = ""
    """Prefix of a run's number in its name: on nodes, the part's name and a slash."""
    shared = False
    """Whether candidates and baselines run one build, so that candidates are compared with it without counting."""

    def __init__(self, spec: CampaignSpec, folder: Path, manifest: Manifest, counted: dict[str, bool]) -> None:
        self.spec, self.folder, self.manifest, self.counted = spec, folder, manifest, counted
        self.given: Counter[str] = Counter()  # Used runs per pass, by configuration
        self.failed = False  # Whether a run failed in all attempts
        self.against: dict[str, None] = {}  # Doubts about the baselines, one sentence each

    @property
    def reference_batch(self) -> dict[str, int]:
        """Return the number of runs per pass, for each baseline."""
        return dict.fromkeys(baseline_names(self.spec, shared=self.shared), self.spec.campaign.baseline_runs)

    @property
    @abstractmethod
    def passes(self) -> Sequence[str]:
        """Return the names of the passes."""

    @property
    def owner(self) -> str:
        """Return the node that makes the runs; empty on one host."""
        return ""

    @abstractmethod
    def request(self, more: Mapping[str, int]) -> None:
        """Request `more` unused runs per pass of each configuration, unless already requested."""

    @abstractmethod
    def make(self, name: str, first: int, count: int) -> Sequence[RunState]:
        """Make repetitions `first` + 1 to `first` + `count` of a configuration; return the runs, done or failed."""

    def measure(self, subset: tuple[str, ...], repetitions: int) -> list[Trace]:
        """Make additional runs of a subset in each pass; return the traces."""
        by_pass = self._further(candidate_name(self.manifest, subset), repetitions)
        made = [trace for traces in by_pass.values() for trace in traces]
        for metric in subset:
            self.counted[metric] = self.counted.get(metric, False) or any(bool(trace[metric].any()) for trace in made)
        return made

    def references(self) -> dict[str, Reference]:
        """Make new runs of the baselines; return a reference for each pass that counts an additional metric."""
        spec, anchor = self.spec, self.spec.analysis.anchor
        self.request(self.reference_batch)  # together, so that drift of the host affects both equally
        by_name = {name: self._further(name, count) for name, count in self.reference_batch.items()}
        references: dict[str, Reference] = {}
        against = READY if self.shared else BASELINE
        known: list[str] = []
        for pass_name, traces in by_name[BASELINE].items():
            metrics = hardware_metrics(spec, traces)
            new_metrics = [metric for metric in metrics if metric not in known]
            if not new_metrics:
                continue
            known += new_metrics
            pure, anchored = (
                Baseline(
                    by_name[name][pass_name],
                    metrics=metrics,
                    focus=new_metrics,
                    alpha=spec.analysis.alpha,
                    tolerance=spec.analysis.tolerance,
                    name=name,
                )
                for name in (against, against if anchor is None else ANCHOR)
            )
            if self.shared:
                self._note_rewriting(traces, pure, align_on(spec, traces[0]))
            for sentence in (*uneven_note(traces), *pure.stability().sentences()):
                self.against[f"{self.owner}: {sentence}" if self.owner else sentence] = None
            references[pass_name] = Reference(
                pure, None if anchor is None else anchored, align_on(spec, traces[0]), anchor
            )
        return references

    def _note_rewriting(self, untouched: Sequence[Trace], ready: Baseline, on: Sequence[str]) -> None:
        """Note whether the build without counting, with which candidates are compared, is itself unperturbed."""
        settings = self.spec.analysis
        own = Baseline(
            untouched, metrics=ready.metrics, alpha=settings.alpha, tolerance=settings.tolerance, name=BASELINE
        )
        verdict = combine_checks(READY, own.inner(ready.traces), own.outer(ready.traces, align_on=on))
        self.against[
            "Subsets are compared with ready, the build with a no-op at every site, so a certificate is about the "
            f"counting. Against the untouched program, ready is {verdict.verdict}."
        ] = None

    def _further(self, name: str, count: int) -> dict[str, list[Trace]]:
        """Make the next runs of a configuration; return the traces by pass."""
        self.request({name: count})
        states = self.make(name, self.given[name], count)
        if failed := [state for state in states if state.state != "done"]:
            self.failed = True
            run = f"{self.place}{failed[0].run.id}{self.owner and f' ({self.owner})'}"
            raise RunFailed(f"run {run}, which the search needs, failed: {failed[0].error}")
        self.given[name] += count
        by_pass: dict[str, list[Trace]] = {pass_name: [] for pass_name in self.passes}
        for state in states:
            trace = Trace.read(trace_file(self.folder, state.run.id))
            own = {"pass": state.run.pass_name, "run": f"{self.place}{state.run.id}"}
            by_pass[state.run.pass_name].append(replace(trace, attributes={**trace.attributes, **own}))
        return by_pass


class _RunsHere(SearchRuns):
    """The runs of a search on this host; a candidate is built before its first run."""

    def __init__(
        self, session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress
    ) -> None:
        super().__init__(session.spec, session.folder, manifest, {})
        self.shared = bool(session.families)
        self._session, self._samplings, self._progress = session, samplings, progress

    @property
    def passes(self) -> Sequence[str]:
        """Return the names of the passes."""
        return tuple(self._samplings)

    def build(self, name: str) -> None:
        """Build a candidate or a baseline unless already built."""
        if name in self._session.built:
            return
        baselines = {item.name: item for item in configurations(self.spec)}
        item = baselines.get(name) or candidate(self.spec, name, self.manifest)
        self._session = with_configuration(self._session, item, self._samplings, self.manifest, self._progress)

    def request(self, more: Mapping[str, int]) -> None:
        """Plan the requested runs that are not in the plan yet."""
        before = [state.run for state in self.manifest.runs()]
        totals = {name: self.given[name] + count for name, count in more.items()}
        if missing := missing_runs(totals, before, self.passes[0]):
            design = self.spec.campaign
            batch = plan_batch(
                missing,
                self.passes,
                seed=design.seed,
                before=before,
                order=design.order,
                layouts=design.layouts,
                builds=design.builds,
            )
            self.manifest.plan(batch)

    def make(self, name: str, first: int, count: int) -> Sequence[RunState]:
        """Make all planned runs, unless these repetitions are already done; return the runs of these repetitions."""
        states = repetitions_of(self.manifest, name, first, count)
        if all(state.state == "done" for state in states):
            return states
        # Planned runs of both baselines are made together.
        planned = {state.run.configuration for state in self.manifest.runs() if state.state == "planned"}
        for configuration in (name, *(item for item in self.reference_batch if item in planned)):
            self.build(configuration)
        execute_plan(self._session, self._samplings, self.manifest, self._progress)
        return repetitions_of(self.manifest, name, first, count)


def baseline_names(spec: CampaignSpec, *, shared: bool) -> list[str]:
    """Return the names of the configurations with which candidates are compared, and of the untouched program."""
    return [BASELINE, *([READY] if shared else []), *([] if spec.analysis.anchor is None else [ANCHOR])]


def repetitions_of(manifest: Manifest, name: str, first: int, count: int) -> list[RunState]:
    """Return the runs of a configuration's repetitions `first` + 1 to `first` + `count`."""
    wanted = range(first + 1, first + count + 1)
    runs = manifest.runs(hosts=False)
    return [state for state in runs if state.run.configuration == name and state.run.repetition in wanted]


def missing_runs(totals: Mapping[str, int], planned: Sequence[PlannedRun], first_pass: str) -> dict[str, int]:
    """Return the number of runs per pass that each configuration lacks to reach its total."""
    known = Counter(run.configuration for run in planned if run.pass_name == first_pass)
    return {name: total - known[name] for name, total in totals.items() if total > known[name]}


def candidate_name(manifest: Manifest, subset: tuple[str, ...]) -> str:
    """Return the name of a subset's configuration, numbered in the order of first use."""
    known: dict[str, list[str]] = dict(manifest.fact("candidates") or {})
    for name, metrics in known.items():
        if tuple(metrics) == subset:
            return name
    name = f"candidate-{len(known) + 1:03d}"
    manifest.set_facts(candidates={**known, name: list(subset)})
    return name


def candidate(spec: CampaignSpec, name: str, manifest: Manifest) -> Configuration:
    """Return the configuration of a candidate, given its name."""
    anchor = spec.analysis.anchor
    return Configuration(name, (*(() if anchor is None else (anchor,)), *manifest.fact("candidates")[name]), 1)


def silent_notes(metrics: Sequence[str], counted: Mapping[str, bool]) -> tuple[str, ...]:
    """Return a note on metrics that counted nothing in any run; empty if there are none."""
    silent = [metric for metric in metrics if counted.get(metric) is False]
    return (
        (f"{', '.join(silent)} counted nothing in any run: check that the spec names the right event.",)
        if silent
        else ()
    )


def uneven_note(baseline: Sequence[Trace]) -> tuple[str, ...]:
    """Return a note if some simulated runs have far fewer intervals than others, as happens on a busy host."""
    lengths = sorted(map(len, baseline))
    timed = baseline[0].names("simulated") and baseline[0].attributes.get("clock") != "work"
    if not timed or lengths[-1] < _UNEVEN * lengths[0]:
        return ()
    return (
        f"the baseline's runs have {lengths[0]} to {lengths[-1]} intervals, because a simulated program does less work "
        "per interval of time on a busy host: with `clock: work`, all runs are cut at equal work, and fewer "
        "runs suffice for a verdict",
    )


def plan_text(spec: CampaignSpec, plan: Plan) -> str:
    """Return the plan as YAML: the spec with the certified subsets, without metrics that have no certificate.

    Relative paths become absolute, because the plan is in a different folder than the spec.
    """
    document: dict[str, Any] = yaml.safe_load(spec.text)
    held = {metric for subset in plan.subsets for metric in subset.metrics}
    anchor = spec.analysis.anchor
    software = document["measure"]["software"]
    left_out = [name for name in software if name not in held and name != anchor]
    document["measure"]["software"] = {name: event for name, event in software.items() if name not in left_out}
    document["name"] = f"{spec.name}-plan"  # its own campaign, beside the spec's
    design = document.setdefault("campaign", {})
    design["subsets"] = {subset.name: list(subset.metrics) for subset in plan.subsets}
    # With fewer runs than its certification, a subset would be undecided. On nodes, `runs` is a total, and each node
    # judges its share.
    shares = 1 if spec.nodes is None else spec.nodes.count
    runs = DEFAULT_RUNS if spec.campaign.until_decided else spec.campaign.most_runs
    design.pop("at_most", None)
    design["runs"] = max([runs, *(shares * subset.repetitions for subset in plan.subsets)])
    _name_from_the_root(document["program"], spec.folder)
    what = "A certified plan" if plan.subsets else "Result of a search"
    head = [
        f"# {what}: `unperturbed partition {spec.path.name}`, {datetime.now(UTC).date().isoformat()}, strategy "
        f"{plan.strategy}, seed {plan.seed}, {plan.runs_used} runs.",
        f"# The chance that any of these subsets changes a correlation by more than {plan.tolerance:g} is at most "
        f"{plan.alpha:g} (tolerance and α of the spec).",
        "# A certificate is valid for this program, input, interval and host. plan.json contains all the evidence.",
    ]
    head += [f"#   {subset.name}: {_evidence(subset)}" for subset in plan.subsets]
    head += [
        f"# Left out, not measurable at this interval: {entry.metric} ({entry.reason}). Suggestion: {entry.advice}"
        for entry in plan.unmeasurable
    ]
    head += [f"# Left out, undecided: {', '.join(group.metrics)} ({group.reason})" for group in plan.undecided]
    if not plan.complete:
        head.append(f"# The search was not finished: {plan.stopped}.")
    if not plan.subsets:
        head.append("# No subset is certified: the plan contains only the baseline.")
    body = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return "\n".join(line.replace("\n", " ") for line in head) + f"\n\n{body}"


def _evidence(subset: CertifiedSubset) -> str:
    """Return a sentence on a subset's certifying runs and its largest possible change."""
    runs = f"runs {subset.runs[0]} to {subset.runs[-1]}" if len(subset.runs) > 1 else f"run {subset.runs[0]}"
    where = f" on {subset.node}" if subset.node else ""
    sentence = (
        f"certified by {subset.repetitions} fresh runs per pass{where} ({runs}), each bound at {subset.level:.3g}"
    )
    if subset.verdict is not None and subset.verdict.changes:
        widest = max(subset.verdict.changes, key=lambda change: max(-change.low, change.high))
        sentence += (
            f"; largest possible change: {widest.label} ({widest.check}), within {widest.low:+.3f} … {widest.high:+.3f}"
        )
    if subset.cost.instructions is not None:
        sentence += f"; instructions {subset.cost.instructions:+.2%}"
    return sentence


def _name_from_the_root(program: dict[str, Any], folder: Path) -> None:
    """Make the paths of the program's files absolute, in place."""
    if program.get("source") is not None:
        program["source"] = str((folder / program["source"]).resolve())
    inputs = program.get("inputs")
    if inputs:
        listed = [inputs] if isinstance(inputs, str) else inputs
        program["inputs"] = [str((folder / name).resolve()) for name in listed]
    for name in ("build", "prepare", "run", "stdin", "working_folder"):
        if isinstance(program.get(name), str):
            program[name] = program[name].replace("{spec}", str(folder))
