"""Check of a campaign: compares each configuration with the baseline, and with its sham if it has one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np

from unperturbed.analysis.doses.response import Response
from unperturbed.analysis.multiplexing import find_gaps
from unperturbed.analysis.perturbation import (
    MINIMUM_RUNS,
    SHOWN,
    Baseline,
    Stability,
    Verdict,
    combine,
    combine_checks,
    inner_by_bootstrap,
    overhead,
)
from unperturbed.analysis.perturbation.comparable import compared_pairs, few_interval_notes, vary_in_few_intervals
from unperturbed.analysis.perturbation.decide import with_origins
from unperturbed.analysis.perturbation.rounds import find_partners, shared_variance
from unperturbed.analysis.perturbation.verdict_text import baseline_table
from unperturbed.collectors.data import Trace
from unperturbed.collectors.records.notes import recording_notes
from unperturbed.common.table import Table
from unperturbed.common.wording import counted, listing, percent
from unperturbed.errors import DataError
from unperturbed.harness.campaign.plan import ALL, Configuration, find_sham, judged_configurations
from unperturbed.harness.campaign.progress import Watch, unwatched
from unperturbed.harness.results.doses import decide_all_responses, responses_in_pass, runs_by_dose
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.results.totals import check_totals_of, totals_to_check, unequal_loads
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.results.warm_up import WarmUp, find_warm_up
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, MULTIPLEXED

_FEWEST = 3  # A configuration with fewer runs is not judged, unless the spec requests fewer


@dataclass(frozen=True)
class CheckOptions:
    """Options of a check that are not in the spec."""

    method: Literal["runs", "paper"] = "runs"  # `paper` applies the paper's rule
    across: bool = False  # After alignment, also compare each metric with each other metric
    disturbed: Mapping[str, str] = field(default_factory=dict)  # Runs on a disturbed host, and the disturbance
    # First repetition of each configuration that has not ended; configurations without such a run are left out.
    pending: Mapping[str, int] = field(default_factory=dict)


STANDARD = CheckOptions()
"""How a check is made where nothing else is requested."""


def check_runs(
    spec: CampaignSpec, traces: Traces, how: CheckOptions = STANDARD, watch: Watch = unwatched
) -> CampaignVerdicts:
    """Compare every configuration with the baseline, over all passes.

    Inner perturbation (003, section 2.2) is judged by comparison with the pure baseline. Outer perturbation (section
    2.3) needs runs that align: first, the anchor alone is compared with the pure baseline, without anchoring; then each
    subset is compared with the anchor's runs, aligned through the anchor. Pairs with a software metric are compared
    with a configuration with fewer metrics that also counts this metric. Shams show the effect of the layout and of the
    no-ops that replace the increments.
    """
    planned = judged_configurations(spec)
    shams = tuple(item.name for item in planned if item.sham_of is not None)
    if not traces:
        return CampaignVerdicts(
            tuple(_unchecked(spec, item.name, "no run has a trace") for item in planned[1:]), traces, (), {}, shams
        )
    with_doses = sum(len(runs_by_dose(spec, item, {})) > 0 for item in planned)
    findings = _Findings(watch, steps=len(traces) * (len(planned) + with_doses))
    warm_up = find_warm_up(spec, traces)
    counted: list[str] = []
    met: frozenset[frozenset[str]] = frozenset()
    for name, by_configuration in warm_up.traces.items():
        baseline_traces = by_configuration.get(BASELINE, ())
        metrics = hardware_metrics(spec, baseline_traces)
        new_metrics = [metric for metric in metrics if metric not in counted]
        if baseline_traces and not new_metrics and not has_new_pairs(baseline_traces, metrics, met):
            continue
        pass_ = _Pass(spec, how, name, by_configuration, traces[name], metrics, new_metrics, met, first=not counted)
        _check_pass(pass_, findings)
        counted += new_metrics
        met |= pairs_of(metrics)
    if findings.shared and spec.campaign.layouts == "varied":
        findings.note(
            "Each configuration is compared with ready within layouts, which leaves out "
            f"{percent(float(np.median(findings.shared))).removeprefix('+')} of the variance between runs."
        )
    every = [trace for by_configuration in traces.values() for runs in by_configuration.values() for trace in runs]
    verdicts = []
    for item in planned:
        if findings.parts[item.name]:
            findings.note(*_silent_metrics(item, traces))
            verdicts.append(_of_whole_runs(_with_origins(item, planned, findings, how), traces, warm_up))
    if spec.imported is not None:
        findings.note(*spec.imported.notes)
    for name, other in spec.programs.items():
        findings.note(
            f"{name} is the same program again, sampled in the same way: differences are noise."
            if other.of(spec.program) == spec.program
            else f"{name} is {'the program beside a tool' if other.tool else 'another set-up of the program'} "
            f"({other.difference()}), sampled in the same way: differences are due to the "
            f"{'tool' if other.tool else 'set-up'}, not to counting."
        )
    if not verdicts:
        findings.note(
            "Only the baseline was measured: there is no configuration to compare with it."
            if spec.imported is not None or any(trace.names("hardware", "simulated") for trace in every)
            else "No hardware metric was measured, so perturbation cannot be detected."
        )
    findings.note(*recording_notes(every), *unequal_loads(spec, every), *warm_up.notes)
    doses, notes = decide_all_responses(findings.responses, alpha=spec.analysis.alpha)
    findings.note(*notes)
    return CampaignVerdicts(
        tuple(verdicts),
        traces,
        tuple(findings.notes),
        findings.stability,
        shams,
        check_totals_of(spec, traces),
        counting={
            name: _of_whole_runs(combine_checks(name, *checks), traces, warm_up)
            for name, checks in findings.counting.items()
        },
        doses=doses,
        warm_up=warm_up,
        correlations=tuple(findings.correlations),
    )


def _of_whole_runs(verdict: Verdict, traces: Traces, warm_up: WarmUp) -> Verdict:
    """Return a verdict whose overhead is that of whole runs, as totals are, although its checks left warm-up out."""
    if not warm_up.is_left_out:
        return verdict
    sides = (
        (by_configuration.get(verdict.reference, ()), by_configuration.get(verdict.configuration, ()))
        for by_configuration in traces.values()
    )
    return next((replace(verdict, overhead=overhead(*both)) for both in sides if all(both)), verdict)


@dataclass
class _Findings:
    """Results of the passes so far: verdicts, comparisons with shams, stability of the baseline, notes."""

    watch: Watch
    steps: int
    begun: int = 0
    parts: defaultdict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    against_sham: defaultdict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    counting: defaultdict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    stability: dict[str, Stability] = field(default_factory=dict)
    correlations: list[Table] = field(default_factory=list)  # Of the baseline, if nothing is compared with it
    responses: dict[str, list[Response]] = field(default_factory=dict)  # To doses, by configuration
    shared: list[float] = field(default_factory=list)  # Variance that configurations share with `ready` in a layout
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, *sentences: str) -> None:
        self.notes |= dict.fromkeys(sentences)

    def begin(self, configuration: str) -> None:
        self.watch(f"judging {configuration}", self.begun, self.steps)
        self.begun += 1


@dataclass(frozen=True)
class _Pass:
    """One pass to check; `new_metrics` are the metrics that no earlier pass counted, `met` the pairs that one did."""

    spec: CampaignSpec
    how: CheckOptions
    name: str
    traces: Mapping[str, tuple[Trace, ...]]
    whole: Mapping[str, tuple[Trace, ...]]  # The same with their warm-up
    metrics: Sequence[str]
    new_metrics: Sequence[str]
    met: frozenset[frozenset[str]]
    first: bool

    def baseline(self, name: str, *, software: Sequence[str] = ()) -> Baseline:
        """Return a configuration's runs as a baseline; with `software`, only for pairs with one of these metrics."""
        settings = self.spec.analysis
        return Baseline(
            self.traces.get(name, ()),
            metrics=(*self.new_metrics, *software) if software else self.metrics,
            focus=software or self.new_metrics,
            met=None if software else self.met,
            software=bool(software),
            alpha=settings.alpha,
            tolerance=settings.tolerance,
            name=name,
        )


def hardware_metrics(spec: CampaignSpec, baseline_traces: Sequence[Trace]) -> list[str]:
    """Return the hardware and derived metrics in the traces of a pass; for imported runs, all metrics."""
    if spec.imported is not None:
        there = baseline_traces[0].metrics if baseline_traces else {}
        return [name for name in spec.imported.metrics if name in there]
    here = set(baseline_traces[0].names("hardware", "simulated")) if baseline_traces else set()
    if not here:
        return []
    names = [name for name in spec.measure.hardware if name in here]
    return names + [name for name in spec.measure.derived if name in baseline_traces[0].metrics]


def has_new_pairs(traces: Sequence[Trace], metrics: Sequence[str], met: frozenset[frozenset[str]]) -> bool:
    """Return whether a pass's metrics have a pair that can be compared, and that no earlier pass has."""
    return bool(compared_pairs([traces[0].metrics[name] for name in metrics], (), met)[0])


def pairs_of(metrics: Iterable[str]) -> frozenset[frozenset[str]]:
    """Return all pairs of a pass's metrics."""
    return frozenset(map(frozenset, combinations(metrics, 2)))


def _check_pass(pass_: _Pass, findings: _Findings) -> None:
    """Check every configuration in one pass."""
    spec, how, anchor = pass_.spec, pass_.how, pass_.spec.analysis.anchor
    planned = [item for item in judged_configurations(spec) if item.name != BASELINE]
    baseline_traces = pass_.traces.get(BASELINE, ())
    if not baseline_traces:
        for item in planned:
            why = f"no run of the {BASELINE} has a trace in pass {pass_.name}"
            findings.parts[item.name].append(_unchecked(spec, item.name, why))
        return
    findings.begin(BASELINE)
    try:
        baseline = pass_.baseline(BASELINE)
    except DataError:
        if len(baseline_traces) >= MINIMUM_RUNS:
            raise
        # Runs of the baseline failed: show the campaign as far as it got; repeating these runs improves the verdicts.
        _check_by_few(pass_, planned, findings)
        return
    on = align_on(spec, baseline_traces[0])
    findings.note(*_on_few_intervals(pass_, baseline.metrics, on), *_not_aligned_on(pass_, on))
    findings.stability[pass_.name] = baseline.stability(how.disturbed, pass_.whole[BASELINE])
    if not planned:
        findings.correlations.append(baseline_table(baseline))
    anchored = _anchored(pass_, findings) if anchor else None
    shams: dict[str, Baseline | None] = {}
    for item in planned:
        findings.begin(item.name)
        checked = pass_.traces.get(item.name, ())
        if apart := list(_judged_apart(pass_, item, checked, baseline.metrics, on)):
            findings.parts[item.name] += apart
            continue
        inner = baseline.inner(checked, method=how.method)
        through = anchor if anchored is not None and item.name != ANCHOR and anchor in item.software else None
        against = baseline if anchored is None or through is None else anchored
        outer = against.outer(checked, align_on=on, anchor=through, across=how.across, method=how.method)
        findings.parts[item.name] += [inner, outer, *_software(pass_, item, checked)]
        both: tuple[Verdict, ...] = inner, outer
        compare = partial(_compare, baseline, against, on, through)
        name = find_sham(planned, item)
        if name not in shams:
            shams[name] = _ready(pass_, planned, name)
        if (ready := shams[name]) is not None:
            compare = partial(_compare, ready, ready, on, None)
            both = compare(checked)
            findings.against_sham[item.name].append(both[0])
            findings.counting[item.name] += both
            findings.shared += _shared_variance(ready, checked, both[0])
        elif len(pass_.traces.get(name, ())) >= MINIMUM_RUNS and how.method == "runs":
            findings.against_sham[item.name].append(pass_.baseline(name).inner(checked))
        _find_responses(pass_, item, both, ready, compare, findings)
        if item.name == ANCHOR:
            findings.note(*_on_anchor(pass_, outer, both, against_sham=ready is not None))
            anchored = None if _is_perturbed_between_runs(outer) else anchored


def _not_aligned_on(pass_: _Pass, on: Sequence[str]) -> Iterator[str]:
    """Yield a note on the metrics of `align_on` that a pass lacks."""
    if lacking := [name for name in pass_.spec.analysis.align_on if name not in on]:
        yield f"Pass {pass_.name!r} does not count {', '.join(lacking)}, so its runs are aligned on {', '.join(on)}."


def _on_few_intervals(pass_: _Pass, compared: Sequence[str], on: Sequence[str] = ()) -> Iterator[str]:
    """Yield notes on the metrics that vary in few intervals: whether they are compared, and aligned on."""
    runs = [trace.values(pass_.metrics) for trace in pass_.traces[BASELINE]]
    few = vary_in_few_intervals(runs, pass_.metrics)
    yield from few_interval_notes(few, "rely on none" if few.keys() & compared else "none is compared")
    if on and few.keys() >= set(on):
        yield (
            f"Runs are aligned on {listing(on)} alone, so outer ρ rests on the few intervals in which it varies: name "
            f"another metric by {'`--align-on` of `unperturbed import`' if pass_.spec.imported else '`align_on`'}."
        )


def _on_anchor(pass_: _Pass, outer: Verdict, both: Sequence[Verdict], *, against_sham: bool) -> Iterator[str]:
    """Yield notes on an anchor that perturbs the program: what subsets are compared with, and what may help."""
    anchor = pass_.spec.analysis.anchor
    if _is_perturbed_between_runs(outer):
        where = "" if pass_.first else f" in pass {pass_.name}"
        yield (
            f"The anchor {anchor!r} is perturbed between runs{where}, so subsets are compared with the baseline, and "
            "aligned without an anchor."
        )
    if combine_checks(ANCHOR, *both).verdict != "perturbed":
        return
    rarer = "choose an anchor whose events are rarer"
    yield (
        f"The counting of the anchor {anchor!r} perturbs the program: {rarer}."
        if against_sham
        else f"The anchor {anchor!r} alone perturbs the program, by its counting or by other code of its build, such "
        f"as the no-ops of all metrics. `sham: true` shows which; if it is the counting, {rarer}."
    )


def _is_perturbed_between_runs(outer: Verdict) -> bool:
    """Return whether an anchor is, but not by the paper's rule, which calls nearly all runs perturbed."""
    return outer.verdict == "perturbed" and outer.method == "runs"


def _compare(
    within: Baseline, between: Baseline, on: Sequence[str], anchor: str | None, runs: Sequence[Trace]
) -> tuple[Verdict, ...]:
    return within.inner(runs), between.outer(runs, align_on=on, anchor=anchor)


def _judged_apart(
    pass_: _Pass, item: Configuration, runs: Sequence[Trace], metrics: Sequence[str], on: Sequence[str]
) -> Iterator[Verdict]:
    """Yield the verdicts on a configuration with too few runs, or on the metrics without gaps; nothing otherwise."""
    if len(runs) < min(_FEWEST, item.runs):
        why = (
            f"no run in which metrics take turns counts all of {listing(pass_.new_metrics)}"
            if item.name == MULTIPLEXED and not runs
            else f"only {len(runs)} of {item.runs} runs gave a trace, too few for a verdict"
        )
        yield _unchecked(pass_.spec, item.name, why, pass_.how.method)
        return
    gaps = find_gaps(runs, dict.fromkeys((*metrics, *on))) if item.name == MULTIPLEXED else {}
    if not gaps:
        return
    lost = tuple(gaps.items())
    there, new = ([one for one in names if one not in gaps] for names in (pass_.metrics, pass_.new_metrics))
    if not new:
        why = f"{listing(gaps)}: {next(iter(gaps.values()))}, because metrics take turns: use longer intervals"
        yield _unchecked(pass_.spec, item.name, why, pass_.how.method)
        return
    baseline = replace(pass_, metrics=there, new_metrics=new).baseline(BASELINE)
    aligned = [one for one in on if one not in gaps]
    named = [trace[[one for one in trace if one not in gaps]] for trace in runs]
    for verdict in (
        baseline.inner(named, method=pass_.how.method),
        *([baseline.outer(named, align_on=aligned, method=pass_.how.method)] if aligned else []),
    ):
        yield replace(
            verdict,
            verdict=combine((change.verdict for change in verdict.changes), lost=True),
            excluded=(*verdict.excluded, *lost),
            lost=(*verdict.lost, *lost),
        )


def _find_responses(
    pass_: _Pass,
    item: Configuration,
    at_one: Sequence[Verdict],
    ready: Baseline | None,
    compare: Callable[[Sequence[Trace]], Sequence[Verdict]],
    findings: _Findings,
) -> None:
    """Add a subset's responses to the dose in one pass, if it ran at several."""
    by_dose = runs_by_dose(pass_.spec, item, pass_.traces)
    if not by_dose or pass_.how.method != "runs":
        return
    findings.begin(f"the doses of {item.name}")
    reference = pass_.traces[BASELINE] if ready is None else ready.traces
    known = findings.responses.setdefault(item.name, [])
    totals = {each.first for each in known if each.check == "total"}
    wanted = [metric for metric in totals_to_check(pass_.spec, pass_.traces[BASELINE]) if metric not in totals]
    software = None
    own = [metric for metric in item.software if metric != pass_.spec.measure.interval_metric]
    if len(by_dose[1]) >= MINIMUM_RUNS and (varying := _varying(own, by_dose[1])):
        software = pass_.baseline(item.name, software=varying)
    known += responses_in_pass(
        pass_.spec, by_dose, compare, at_one, reference, wanted, idle=ready is not None, software=software
    )


def _ready(pass_: _Pass, planned: Sequence[Configuration], name: str) -> Baseline | None:
    """Return the runs of a build without counting as a baseline; None for another configuration, or too few runs."""
    is_ready = any(item.name == name and item.sham_of == ALL for item in planned)
    enough = len(pass_.traces.get(name, ())) >= MINIMUM_RUNS
    return pass_.baseline(name) if is_ready and enough and pass_.how.method == "runs" else None


def _shared_variance(ready: Baseline, checked: Sequence[Trace], inner: Verdict) -> Iterator[float]:
    """Yield the share of the variance that runs have in common with the run of `ready` in the same round."""
    partners = find_partners(ready.traces, checked)
    if partners is not None and inner.changes:
        reference, observed = (
            np.array([getattr(change, side) for change in inner.changes], np.float64).T
            for side in ("reference", "observed")
        )
        yield shared_variance(reference, observed, partners)


def _check_by_few(pass_: _Pass, planned: Sequence[Configuration], findings: _Findings) -> None:
    """Check every configuration in a pass with too few baseline runs, by a weaker method (bootstrap)."""
    settings = pass_.spec.analysis
    runs = pass_.traces[BASELINE]
    missing = (
        BASELINE,
        f"only {len(runs)} of at least {MINIMUM_RUNS} runs in pass {pass_.name}, so runs were not aligned",
    )
    findings.note(*_on_few_intervals(pass_, pass_.metrics))
    for item in planned:
        try:
            weaker = inner_by_bootstrap(
                runs,
                pass_.traces.get(item.name, ()),
                metrics=pass_.metrics,
                focus=pass_.new_metrics,
                met=pass_.met,
                alpha=settings.alpha,
                tolerance=settings.tolerance,
                name=BASELINE,
                seed=pass_.spec.campaign.seed,
            )
            # Few runs can show a change, but not the absence of a change.
            verdict = combine((change.verdict for change in weaker.changes), lost=True)
            weaker = replace(weaker, verdict=verdict, lost=(*weaker.lost, missing))
        except DataError as error:
            weaker = _unchecked(pass_.spec, item.name, str(error), "bootstrap")
        findings.parts[item.name].append(weaker)


def _software(pass_: _Pass, item: Configuration, checked: Sequence[Trace]) -> Iterator[Verdict]:
    """Check pairs that contain a software metric, against a configuration with fewer metrics (003, section 4)."""
    fewer = [
        other
        for other in judged_configurations(pass_.spec)
        if len(other.software) < len(item.software) and len(pass_.traces.get(other.name, ())) >= MINIMUM_RUNS
    ]
    shared: dict[str, list[str]] = defaultdict(list)
    for metric in item.software:
        if metric == pass_.spec.measure.interval_metric or not pass_.new_metrics:
            continue  # the same in every interval
        counting = [other for other in fewer if metric in other.software]
        if counting:
            shared[min(counting, key=lambda other: len(other.software)).name].append(metric)
    for name, metrics in shared.items():
        varying = _varying(metrics, pass_.traces[name])
        if not varying:
            continue
        verdict = pass_.baseline(name, software=varying).inner(checked, method=pass_.how.method)
        changes = [
            change for change in verdict.changes if pass_.first or not {change.first, change.second} <= set(varying)
        ]
        # The inner check reports what was left out of the family of hardware pairs.
        yield replace(
            verdict, changes=tuple(replace(change, check="software") for change in changes), excluded=verdict.lost
        )


def _varying(metrics: Iterable[str], traces: Sequence[Trace]) -> list[str]:
    """Return the metrics that vary in every run."""
    return [metric for metric in metrics if all((trace[metric] != trace[metric][0]).any() for trace in traces)]


def _anchored(pass_: _Pass, findings: _Findings) -> Baseline | None:
    """Return the anchor's runs as the baseline of the subsets' outer checks, or None if they are unsuitable."""
    name = str(pass_.spec.analysis.anchor)
    totals = {int(trace[name].sum()) for traces in pass_.traces.values() for trace in traces if name in trace.metrics}
    if len(totals) != 1 or totals == {0}:
        counted = (
            "counted nothing in any run"
            if totals <= {0}
            else f"has a count of {min(totals)} in one run and of {max(totals)} in another"
        )
        findings.note(
            f"The anchor {name!r} {counted}, so it cannot serve as a milestone; subsets are aligned without an anchor."
        )
        return None
    try:
        return pass_.baseline(ANCHOR)
    except DataError as error:
        findings.note(
            f"The anchor's runs cannot serve as a reference ({error}); subsets are aligned without an anchor."
        )
        return None


def _with_origins(
    item: Configuration, planned: Sequence[Configuration], findings: _Findings, how: CheckOptions
) -> Verdict:
    """Combine the verdicts of all passes on a configuration; attribute changes to layout or counting with its sham."""
    verdict = combine_checks(item.name, *findings.parts[item.name])
    sham = find_sham(planned, item)
    if not findings.against_sham[item.name]:
        if verdict.verdict in SHOWN and findings.parts[sham] and how.method == "runs":
            findings.note(
                f"{sham} has fewer than {MINIMUM_RUNS} runs, too few to tell whether the changes in {item.name} are "
                f"due to counting or to the rewritten code: set `runs` to {MINIMUM_RUNS} or more, and run the spec "
                "again."
            )
        return verdict
    layout, counting = (
        combine_checks(sham, *findings.parts[sham]),
        combine_checks(item.name, *findings.against_sham[item.name]),
    )
    verdict = with_origins(verdict, layout, counting)
    origins = [change.origin for change in verdict.changes if change.origin is not None]
    if origins:
        causes = {
            "layout": "due to the rewritten code without any counting (its layout, its compilation, the no-ops "
            "that replace the increments), because the sham, which counts nothing, shows the same change",
            "counting": "due to counting",
            "both": "due to both counting and the rewritten code",
            "unclear": "due to counting or the rewritten code (these runs cannot decide between them)",
        }
        parts = [f"{origins.count(name)} {words}" for name, words in causes.items() if name in origins]
        findings.note(f"{item.name}: {counted(len(origins), 'correlation')} within runs changed: {'; '.join(parts)}.")
    return verdict


def _silent_metrics(item: Configuration, traces: Traces) -> Iterator[str]:
    """Yield a note for each software metric that counted nothing."""
    runs = [trace for by_configuration in traces.values() for trace in by_configuration.get(item.name, ())]
    for metric in item.software:
        if not runs or any(trace[metric].any() for trace in runs):
            continue
        yield (
            f"{metric} was 0 in every sample of {item.name}."
            if runs[0].metrics[metric].semantics == "gauge"
            else f"{metric} counted nothing in any run of {item.name}: the event never happens with this input, or the "
            "program does not run the code that contains the counter."
        )


def _unchecked(
    spec: CampaignSpec, configuration: str, why: str, method: Literal["runs", "paper", "bootstrap"] = "runs"
) -> Verdict:
    return Verdict(
        configuration=configuration,
        reference=BASELINE,
        verdict="undecided",
        changes=(),
        excluded=((configuration, why),),
        alpha=spec.analysis.alpha,
        level=1 - 2 * spec.analysis.alpha,
        tolerance=spec.analysis.tolerance,
        lost=((configuration, why),),
        method=method,
    )


def align_on(spec: CampaignSpec, *traces: Trace) -> tuple[str, ...]:
    """Return the metrics of `align_on` that all traces have; if there are none, all hardware metrics that they have."""
    asked, hardware = (
        tuple(name for name in names if all(name in trace.metrics for trace in traces))
        for names in (spec.analysis.align_on, spec.measure.hardware)
    )
    return asked or hardware
