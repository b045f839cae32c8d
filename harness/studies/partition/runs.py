"""Runs of a partition search: baselines, and candidates that are built before their first run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unperturbed.analysis.partition import Reference, Stop
from unperturbed.analysis.perturbation import Baseline, VerdictName, combine_checks
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import WORK_CLOCKS
from unperturbed.harness.campaign.execution import execute_plan
from unperturbed.harness.campaign.manifest import Manifest, RunState
from unperturbed.harness.campaign.pilot import with_configuration
from unperturbed.harness.campaign.plan import (
    Configuration,
    PlannedRun,
    carried_metrics,
    configurations,
    passes_of,
    plan_batch,
    ready_build,
    runs_before,
)
from unperturbed.harness.campaign.progress import Progress
from unperturbed.harness.campaign.run import Sampling
from unperturbed.harness.campaign.session import Session, add_family, compiled_metrics
from unperturbed.harness.campaign.traces import trace_file
from unperturbed.harness.results.check import align_on, hardware_metrics, has_new_pairs, pairs_of
from unperturbed.harness.results.warm_up import without_warm_up
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, READY, READY_PREFIX

_UNEVEN = 1.2
"""Limit for the ratio of the longest to the shortest run, in intervals. The ratio was 1.03 to 1.15 for the quickstart
on a mostly idle host, and 1.28 for the baseline of a search on a busy host that certified nothing."""


class RunFailed(Stop):
    """A run that the search needs failed in all attempts."""


class SearchRuns(ABC):
    """The runs of a search on one host or node, each used only once, in the order of execution.

    `spec`: The spec with the baselines of this host or node.
    `manifest`: The manifest of the search, with its candidates.
    `counted`: For each software metric, whether it counted anything; updated here.
    """

    place = ""
    """Prefix of a run's number in its name: on nodes, the part's name and a slash."""

    def __init__(self, spec: CampaignSpec, folder: Path, manifest: Manifest, counted: dict[str, bool]) -> None:
        self.spec, self.folder, self.manifest, self.counted = spec, folder, manifest, counted
        self.given: Counter[str] = Counter()  # Used runs per pass, by configuration
        self.failed = False  # Whether a run failed in all attempts
        self.against: dict[str, None] = {}  # Doubts about the baselines, one sentence each
        # The build that candidates and baselines run, so that candidates are compared with it without counting.
        self.family = ""
        self.untouched: dict[str, Reference] = {}  # The last runs of the untouched program, by pass
        self.rewriting: dict[str, VerdictName] = {}  # The verdict on the first such build, by pass

    @property
    def reference_batch(self) -> dict[str, int]:
        """Return the number of runs per pass, for each baseline that candidates are compared with."""
        return dict.fromkeys(filter(None, (self.family or BASELINE, self._anchor)), self.spec.campaign.baseline_runs)

    @property
    def _anchor(self) -> str:
        """Return the configuration of the anchor in this build; '' without an anchor."""
        if self.spec.analysis.anchor is None:
            return ""
        return ANCHOR if self.family in ("", READY) else f"{ANCHOR}-{self.family.removeprefix(READY_PREFIX)}"

    @property
    @abstractmethod
    def passes(self) -> Sequence[str]:
        """Return the names of the passes."""

    def compared_with(self, pass_name: str) -> str:
        """Return the pass of the baseline whose runs those of a pass are compared with."""
        return pass_name

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
        made = self.further(candidate_name(self.manifest, subset), repetitions)
        for metric in subset:
            self.counted[metric] = self.counted.get(metric, False) or any(bool(trace[metric].any()) for trace in made)
        return made

    def further(self, name: str, count: int) -> list[Trace]:
        """Make the next runs of a configuration in each pass; return the traces."""
        return [trace for traces in self._further(name, count).values() for trace in traces]

    def judge_build(self) -> list[Trace]:
        """Make runs of the untouched program and of the build that candidates run; return those of this build.

        `rewriting` then has the verdict on this build.
        """
        count = self.spec.campaign.baseline_runs
        self.request({BASELINE: count, self.family: count})  # together, so that drift of the host affects both equally
        self.untouched_references()
        made = self._further(self.family, count)
        self.rewriting = self.against_untouched(self.family, made)
        return [trace for traces in made.values() for trace in traces]

    def against_untouched(self, name: str, made: Mapping[str, Sequence[Trace]]) -> dict[str, VerdictName]:
        """Return the verdict of each pass on a build's runs, compared with the last runs of the untouched program."""
        alpha = self.spec.analysis.alpha
        return {
            pass_name: combine_checks(name, *reference.check(made[pass_name], alpha)).verdict
            for pass_name, reference in self.untouched.items()
        }

    def references(self, *, again: bool = False) -> dict[str, Reference]:
        """Make runs of the baselines; return a reference for each pass that counts an additional metric.

        `again`: Take the first runs again, which certify nothing then: make only those that are missing.
        """
        spec, anchor, batch = self.spec, self.spec.analysis.anchor, self.reference_batch
        first = {name: 0 if again else self.given[name] for name in batch}
        # Together, so that drift of the host affects all equally.
        self.request({name: max(first[name] + count - self.given[name], 0) for name, count in batch.items()})
        by_name = {name: self._further(name, count, first[name]) for name, count in batch.items()}
        pure, anchored = self.family or BASELINE, self._anchor or self.family or BASELINE
        references: dict[str, Reference] = {}
        for pass_name, new in self._new(by_name[pure]).items():
            ready, through = (self._baseline(by_name[name], name, pass_name, *new) for name in (pure, anchored))
            self._note(ready)
            on = align_on(spec, ready.traces[0])
            made = references[pass_name] = Reference(ready, None if anchor is None else through, on, anchor)
            if made.anchor_perturbs:
                self.against[
                    f"The anchor {anchor!r} is perturbed between runs, so subsets are compared with {pure}, and "
                    "aligned without an anchor."
                ] = None
        return references

    def untouched_references(self) -> dict[str, Reference]:
        """Make new runs of the untouched program alone; return a reference for each pass, as `references`."""
        count = self.spec.campaign.baseline_runs
        self.request({BASELINE: count})
        by_pass = self._further(BASELINE, count)
        for pass_name, new in self._new(by_pass).items():
            own = self._baseline(by_pass, BASELINE, pass_name, *new)
            self._note(own)
            self.untouched[pass_name] = Reference(own, None, align_on(self.spec, own.traces[0]))
        return dict(self.untouched)

    def _new(self, baseline: Mapping[str, Sequence[Trace]]) -> dict[str, tuple[list[str], frozenset[frozenset[str]]]]:
        """Return the hardware metrics that each pass adds to those before, and the pairs that those before have.

        Passes that add neither a metric nor a pair are left out.
        """
        known: list[str] = []
        met: frozenset[frozenset[str]] = frozenset()
        new: dict[str, tuple[list[str], frozenset[frozenset[str]]]] = {}
        for pass_name, traces in baseline.items():
            metrics = hardware_metrics(self.spec, traces)
            added = [name for name in metrics if name not in known]
            if added or has_new_pairs(traces, metrics, met):
                new[pass_name] = added, met
                known += added
                met |= pairs_of(metrics)
        return new

    def _baseline(
        self,
        by_pass: Mapping[str, Sequence[Trace]],
        name: str,
        pass_name: str,
        new: Sequence[str],
        met: frozenset[frozenset[str]],
    ) -> Baseline:
        """Return one configuration's runs in one pass as a baseline that judges new metrics, and pairs not in `met`."""
        settings, traces = self.spec.analysis, by_pass[pass_name]
        return Baseline(
            traces,
            metrics=hardware_metrics(self.spec, traces),
            focus=new,
            met=met,
            alpha=settings.alpha,
            tolerance=settings.tolerance,
            name=name,
        )

    def _note(self, baseline: Baseline) -> None:
        for sentence in (*uneven_note(baseline.traces), *baseline.stability().sentences()):
            self.against[f"{self.owner}: {sentence}" if self.owner else sentence] = None

    def _further(self, name: str, count: int, first: int | None = None) -> dict[str, list[Trace]]:
        """Make the next runs of a configuration, or those after the first `first`; return the traces by pass."""
        first = self.given[name] if first is None else first
        self.request({name: max(first + count - self.given[name], 0)})
        states = self.make(name, first, count)
        if failed := [state for state in states if state.state != "done"]:
            self.failed = True
            run = f"{self.place}{failed[0].run.id}{self.owner and f' ({self.owner})'}"
            raise RunFailed(f"run {run}, which the search needs, failed: {failed[0].error}")
        self.given[name] = max(self.given[name], first + count)
        by_pass: dict[str, list[Trace]] = {pass_name: [] for pass_name in self.passes}
        for state in states:
            trace = Trace.read(trace_file(self.folder, state.run.id))
            pass_name = self.compared_with(state.run.pass_name)
            own = {"pass": pass_name, "run": f"{self.place}{state.run.id}"}
            by_pass[pass_name].append(replace(trace, attributes={**trace.attributes, **own}))
        return {pass_name: without_warm_up(self.spec, traces) for pass_name, traces in by_pass.items()}


class RunsHere(SearchRuns):
    """The runs of a search on this host; a candidate is built before its first run."""

    def __init__(
        self, session: Session, samplings: Mapping[str, Sampling], manifest: Manifest, progress: Progress
    ) -> None:
        super().__init__(session.spec, session.folder, manifest, {})
        self.family = READY if session.families else ""
        self._session, self._samplings, self._progress = session, samplings, progress

    @property
    def session(self) -> Session:
        """Return the session with all builds so far."""
        return self._session

    @property
    def passes(self) -> Sequence[str]:
        """Return the names of the passes."""
        return tuple(self._samplings)

    def build(self, name: str) -> None:
        """Build a candidate or a baseline unless already built."""
        if name in self._session.built:
            return
        item = self._configuration(name)
        self._session = with_configuration(self._session, item, self._samplings, self.manifest, self._progress)

    def _configuration(self, name: str) -> Configuration:
        baselines = {item.name: item for item in configurations(self.spec)}
        if name in baselines:
            return baselines[name]
        if name in (trials := self.manifest.fact("trials") or {}):
            return ready_build(self.spec, name, trials[name])
        if name == self._anchor:
            return replace(baselines[ANCHOR], name=name, family=self.family)
        return replace(candidate(self.spec, name, self.manifest), family=self.family)

    def measure_idle(self, subset: tuple[str, ...], repetitions: int) -> list[Trace]:
        """Make additional runs of a build that has the sites of a subset and counts nothing; return the traces."""
        return self.further(self.idle_name(subset), repetitions)

    def judge_carried(self) -> dict[str, VerdictName]:
        """Make runs of the build with only the sites that every build has; return their verdict by pass."""
        name = self.idle_name(())
        return self.against_untouched(name, self._further(name, self.spec.campaign.baseline_runs))

    def idle_name(self, subset: Sequence[str]) -> str:
        """Return the name of the build without counting that has the sites of a subset and of all configurations."""
        metrics = sorted(compiled_metrics(self.spec, {*subset, *carried_metrics(self.spec)}))
        known = {READY: sorted(self._session.families[READY]), **(self.manifest.fact("trials") or {})}
        name = next((name for name, sites in known.items() if sites == metrics), "")
        if not name:
            name = f"{READY_PREFIX}{len(known)}"
            del known[READY]
            self.manifest.set_facts(trials={**known, name: metrics})
            add_family(self.manifest, name, ready_build(self.spec, name, metrics).inert)
        return name

    def request(self, more: Mapping[str, int]) -> None:
        """Plan the requested runs that are not in the plan yet."""
        self._plan(more, self.passes)

    def _plan(self, more: Mapping[str, int], passes: Sequence[str]) -> None:
        """Plan runs in these passes; those of a candidate in the rounds of the runs that it is compared with.

        Within a round, both have the same environment size and, if they run one build, the same layout of its code.
        """
        before = [state.run for state in self.manifest.runs()]
        totals = {name: self.given[name] + count for name, count in more.items()}
        if missing := missing_runs(totals, before, passes[0]):
            design = self.spec.campaign
            if self.family and (joined := self._in_rounds_of_reference(missing, before, passes)):
                self.manifest.plan(joined)
                self._plan(more, passes)
                return
            batch = plan_batch(
                missing,
                passes,
                seed=design.seed,
                before=before,
                order=design.order,
                layouts=design.layouts,
                builds=self.spec.builds,
            )
            self.manifest.plan(batch)

    def _in_rounds_of_reference(
        self, missing: Mapping[str, int], before: Sequence[PlannedRun], passes: Sequence[str]
    ) -> tuple[PlannedRun, ...]:
        """Return further runs of candidates in rounds of the last runs of their reference, one in each round."""
        given = self.given[self.family]
        last = range(given - self.reference_batch[self.family] + 1, given + 1)
        rounds = [run for run in before if run.configuration == self.family and run.repetition in last]
        had = runs_before(before, passes)
        made: list[PlannedRun] = []
        first = 1 + max((int(run.id) for run in before), default=0)
        for name, count in missing.items():
            if name not in (self.manifest.fact("candidates") or {}):
                continue
            taken = {run.block for run in before if run.configuration == name}
            free = sorted({run.repetition: run for run in rounds if run.block not in taken}.items())
            for number, (_, there) in enumerate(free[:count], start=1):
                made += [
                    replace(
                        there,
                        id=f"{first + len(made):04d}",
                        configuration=name,
                        pass_name=pass_name,
                        repetition=had[name] + number,
                    )
                    for pass_name in passes_of(name, passes)
                ]
        return tuple(made)

    def make(self, name: str, first: int, count: int) -> Sequence[RunState]:
        """Make all planned runs, unless these repetitions are already done; return the runs of these repetitions."""
        states = repetitions_of(self.manifest, name, first, count)
        if all(state.state == "done" for state in states):
            return states
        # Planned runs of both baselines are made together.
        planned = {state.run.configuration for state in self.manifest.runs() if state.state == "planned"}
        for configuration in (name, *(item for item in (BASELINE, *self.reference_batch) if item in planned)):
            self.build(configuration)
        execute_plan(self._session, self._samplings, self.manifest, self._progress)
        return repetitions_of(self.manifest, name, first, count)


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


def uneven_note(baseline: Sequence[Trace]) -> tuple[str, ...]:
    """Return a note if some simulated runs have far fewer intervals than others, as happens on a busy host."""
    lengths = sorted(map(len, baseline))
    timed = baseline[0].names("simulated") and baseline[0].attributes.get("clock") not in WORK_CLOCKS
    if not timed or lengths[-1] < _UNEVEN * lengths[0]:
        return ()
    return (
        f"the baseline's runs have {lengths[0]} to {lengths[-1]} intervals, because a simulated program does less work "
        "per interval of time on a busy host: with `clock: work`, all runs are cut at equal work, and fewer "
        "runs suffice for a verdict",
    )
