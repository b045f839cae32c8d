"""The verdicts of a campaign: every configuration held against the baseline, and against what else tells what happened to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from unperturbed.analysis.perturbation import (
    MINIMUM_RUNS,
    Baseline,
    Stability,
    Verdict,
    combine,
    combine_checks,
    inner_of_few,
    with_origins,
)
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.manifest import Manifest
from unperturbed.harness.plan import Configuration, configurations
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import ANCHOR, BASELINE

__all__ = ["Checked", "HowChecked", "Traces", "align_on", "check", "hardware_metrics", "read_traces"]

Traces = Mapping[str, Mapping[str, tuple[Trace, ...]]]
"""Pass name to configuration to its traces, in the order of the plan; the main pass first."""

_FEWEST = 3
"""Checked runs of a configuration below which it is not judged, unless fewer were asked for."""


@dataclass(frozen=True)
class HowChecked:
    """What was asked of a check beyond the spec.

    Attributes
    ----------
    method : `paper` judges by the paper's own rule.
    across : each metric against each other one too, after alignment.
    disturbed : runs on a disturbed host, and what disturbed it.
    """

    method: Literal["runs", "paper"] = "runs"
    across: bool = False
    disturbed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checked:
    """What a campaign's runs say.

    Attributes
    ----------
    verdicts : one a checked configuration; passes are one family.
    traces : what they were made from.
    notes : what a reader must know besides, one sentence each.
    stability : of the baseline, by pass.
    shams : the configurations among them that are shams: they show what layout and the no-ops do, and count nothing.
    """

    verdicts: tuple[Verdict, ...]
    traces: Traces
    notes: tuple[str, ...]
    stability: Mapping[str, Stability] = field(default_factory=dict)
    shams: tuple[str, ...] = ()

    @property
    def perturbed(self) -> tuple[str, ...]:
        """Return the names of the perturbed configurations; a sham is none: what moved it is no counting."""
        return tuple(
            verdict.configuration
            for verdict in self.verdicts
            if verdict.verdict == "perturbed" and verdict.configuration not in self.shams
        )

    @property
    def steadiness(self) -> tuple[str, ...]:
        """Say how steady the baseline is, and how many runs would do; a sentence each."""
        said: dict[str, None] = {}
        for found in self.stability.values():
            said |= dict.fromkeys(found.sentences())
            if found.steady:
                said[f"The baseline is steady over its {found.runs} runs: no drift, no run apart."] = None
            if any(verdict.verdict == "undecided" for verdict in self.verdicts):
                widest = f" ({found.widest} varies most)" if found.widest else ""
                said[
                    f"To show an unchanged program unperturbed, more than 200 runs a configuration would be needed{widest}: a longer interval "
                    "or a wider tolerance helps."
                    if found.advised is None
                    else f"To show an unchanged program unperturbed, about {found.advised} runs a configuration are advised{widest}."
                ] = None
        return tuple(said)

    def of(self, configuration: str) -> Verdict | None:
        """Return the verdict on one configuration."""
        return next((verdict for verdict in self.verdicts if verdict.configuration == configuration), None)


def read_traces(folder: Path, manifest: Manifest, *, without: Sequence[str] = ()) -> Traces:
    """Read the traces of all finished runs, but for those named in `without`.

    Raises
    ------
    SpecError
        A trace that the manifest calls done is gone.
    """
    found: dict[str, dict[str, list[Trace]]] = defaultdict(lambda: defaultdict(list))
    for state in manifest.runs("done"):
        if state.run.id in without:
            continue
        path = folder / "runs" / state.run.id / "trace.parquet"
        if not path.is_file():
            raise SpecError(f"{path} is gone, though its run is done: remove the campaign folder and run it again")
        found[state.run.pass_name][state.run.configuration].append(Trace.read(path))
    order = [item["name"] for item in manifest.fact("passes") or []]
    return {
        name: {configuration: tuple(traces) for configuration, traces in found[name].items()} for name in order if name in found
    }


def check(campaign: Campaign, traces: Traces, how: HowChecked = HowChecked()) -> Checked:
    """Hold every configuration against the baseline, over all passes.

    Inner perturbation (003, section 2.2) is always judged against the pure baseline. Outer perturbation (section 2.3) needs runs that
    align: where there is an anchor, the anchor alone is held against the pure baseline first, without anchoring, and every subset against
    the anchor's runs, through the anchor. Pairs that hold a software metric are held against a configuration with fewer metrics that
    counts it too. Sham runs tell what was found without any
    counting: it comes with the layout, or with the no-ops that stand for the increments.

    Raises
    ------
    DataError
        The baseline itself cannot be used: no variation between its runs, too few intervals.
    """
    planned = configurations(campaign)
    shams = tuple(item.name for item in planned if item.sham_of is not None)
    if not traces:
        return Checked(
            tuple(_unchecked(campaign, item.name, "no run gave a trace") for item in planned[1:]), traces, (), {}, shams
        )
    found = _Found()
    counted: list[str] = []
    for name, by_configuration in traces.items():
        baseline_traces = by_configuration.get(BASELINE, ())
        metrics = hardware_metrics(campaign, baseline_traces)
        if baseline_traces and not set(metrics) - set(counted):
            continue
        news = [metric for metric in metrics if metric not in counted]
        _check_pass(_Pass(campaign, how, name, by_configuration, metrics, news, first=not counted), found)
        counted += news
    verdicts = []
    for item in planned:
        if found.parts[item.name]:
            found.note(*_silent_metrics(item, traces))
            verdicts.append(_with_origins(item, planned, found))
    if not verdicts:
        every = [trace for found in traces.values() for runs in found.values() for trace in runs]
        found.note(
            "Only the baseline was measured, so there is nothing to hold against it."
            if any(trace.names("hardware", "simulated") for trace in every)
            else "No hardware metric was measured, so there is nothing in which perturbation could show."
        )
    return Checked(tuple(verdicts), traces, tuple(found.notes), found.stability, shams)


@dataclass
class _Found:
    """What the passes gave so far: verdicts of each configuration, those against its sham, the baseline's stability, notes."""

    parts: defaultdict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    against_sham: defaultdict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    stability: dict[str, Stability] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, *sentences: str) -> None:
        self.notes |= dict.fromkeys(sentences)


@dataclass(frozen=True)
class _Pass:
    """One pass to be checked: `news` are the metrics that no pass before it counted."""

    campaign: Campaign
    how: HowChecked
    name: str
    traces: Mapping[str, tuple[Trace, ...]]
    metrics: Sequence[str]
    news: Sequence[str]
    first: bool

    def baseline(self, name: str, *, software: Sequence[str] = ()) -> Baseline:
        """Take a configuration's runs as a baseline; `software` makes it one of pairs that hold one of these metrics."""
        settings = self.campaign.analysis
        return Baseline(
            self.traces.get(name, ()),
            metrics=(*self.news, *software) if software else self.metrics,
            focus=software or self.news,
            software=bool(software),
            alpha=settings.alpha,
            tolerance=settings.tolerance,
            name=name,
        )


def hardware_metrics(campaign: Campaign, baseline_traces: Sequence[Trace]) -> list[str]:
    """Return the hardware metrics of a pass, and the derived ones that its traces have."""
    here = set(baseline_traces[0].names("hardware", "simulated")) if baseline_traces else set()
    if not here:
        return []
    names = [name for name in campaign.measure.hardware if name in here]
    return names + [name for name in campaign.measure.derived if name in baseline_traces[0].metrics]


def _check_pass(the: _Pass, found: _Found) -> None:
    """Check every configuration in one pass."""
    campaign, how, anchor = the.campaign, the.how, the.campaign.analysis.anchor
    planned = [item for item in configurations(campaign) if item.name != BASELINE]
    baseline_traces = the.traces.get(BASELINE, ())
    if not baseline_traces:
        for item in planned:
            why = f"no run of the {BASELINE} gave a trace in pass {the.name}"
            found.parts[item.name].append(_unchecked(campaign, item.name, why))
        return
    try:
        baseline = the.baseline(BASELINE)
    except DataError:
        if len(baseline_traces) >= MINIMUM_RUNS:
            raise
        # Runs of the baseline failed: the campaign is shown as far as it got, and judged better when they are made up for.
        _check_by_few(the, planned, found)
        return
    on = align_on(campaign, baseline_traces[0])
    if on != tuple(campaign.analysis.align_on):
        asked = ", ".join(campaign.analysis.align_on)
        found.note(f"The pass {the.name!r} does not count {asked}; its runs are aligned on {', '.join(on)}.")
    found.stability[the.name] = baseline.stability(how.disturbed)
    anchored = _anchored(the, found) if anchor else None
    for item in planned:
        checked = the.traces.get(item.name, ())
        if len(checked) < min(_FEWEST, item.runs):
            why = f"only {len(checked)} of {item.runs} runs are there to judge"
            found.parts[item.name].append(_unchecked(campaign, item.name, why, how.method))
            continue
        inner = baseline.inner(checked, method=how.method)
        through = anchor if anchored is not None and item.name != ANCHOR and anchor in item.software else None
        against = baseline if anchored is None or through is None else anchored
        outer = against.outer(checked, align_on=on, anchor=through, across=how.across, method=how.method)
        found.parts[item.name] += [inner, outer, *_software(the, item, checked)]
        if item.name == ANCHOR and combine_checks(ANCHOR, inner, outer).verdict == "perturbed":
            found.note(
                f"The anchor {anchor!r} alone perturbs the program: the outer checks of the subsets compare with its perturbed runs. "
                "Choose a rarer milestone."
            )
        sham = next((other.name for other in planned if other.sham_of == item.name), "")
        if len(the.traces.get(sham, ())) >= MINIMUM_RUNS and how.method == "runs":
            found.against_sham[item.name].append(the.baseline(sham).inner(checked))


def _check_by_few(the: _Pass, planned: Sequence[Configuration], found: _Found) -> None:
    """Check as well as can be done with fewer baseline runs than a baseline needs."""
    settings = the.campaign.analysis
    runs = the.traces[BASELINE]
    missing = (BASELINE, f"{len(runs)} of at least {MINIMUM_RUNS} runs in pass {the.name}, so runs were not aligned")
    for item in planned:
        try:
            weaker = inner_of_few(
                runs,
                the.traces.get(item.name, ()),
                metrics=the.metrics,
                focus=the.news,
                alpha=settings.alpha,
                tolerance=settings.tolerance,
                name=BASELINE,
                seed=the.campaign.campaign.seed,
            )
            # Few runs may show that something changed; that nothing did they cannot.
            verdict = combine((change.verdict for change in weaker.changes), lost=True)
            weaker = replace(weaker, verdict=verdict, lost=(*weaker.lost, missing))
        except DataError as error:
            weaker = _unchecked(the.campaign, item.name, str(error), "bootstrap")
        found.parts[item.name].append(weaker)


def _software(the: _Pass, item: Configuration, checked: Sequence[Trace]) -> Iterator[Verdict]:
    """Hold pairs with a software metric against a configuration of fewer metrics that counts it too (003, section 4, open problem 2)."""
    fewer = [
        other
        for other in configurations(the.campaign)
        if len(other.software) < len(item.software) and len(the.traces.get(other.name, ())) >= MINIMUM_RUNS
    ]
    shared: dict[str, list[str]] = defaultdict(list)
    for metric in item.software:
        counting = [other for other in fewer if metric in other.software]
        if counting:
            shared[min(counting, key=lambda other: len(other.software)).name].append(metric)
    for name, metrics in shared.items():
        varying = [metric for metric in metrics if all((trace[metric] != trace[metric][0]).any() for trace in the.traces[name])]
        if not varying:
            continue
        verdict = the.baseline(name, software=varying).inner(checked, method=the.how.method)
        changes = [change for change in verdict.changes if the.first or not {change.first, change.second} <= set(varying)]
        # What was left out of the family of hardware pairs is said by the inner check.
        yield replace(verdict, changes=tuple(replace(change, check="software") for change in changes), excluded=verdict.lost)


def _anchored(the: _Pass, found: _Found) -> Baseline | None:
    """Return the anchor's runs as the baseline of the subsets' outer checks, or None where they cannot serve."""
    name = str(the.campaign.analysis.anchor)
    totals = {int(trace[name].sum()) for traces in the.traces.values() for trace in traces if name in trace.metrics}
    if len(totals) != 1 or totals == {0}:
        counted = "never happened" if totals <= {0} else f"happened between {min(totals)} and {max(totals)} times a run"
        found.note(f"The anchor {name!r} {counted}: it is no milestone to align by, and the subsets are aligned without it.")
        return None
    try:
        return the.baseline(ANCHOR)
    except DataError as error:
        found.note(f"The anchor's runs cannot serve as a reference ({error}); the subsets are aligned without it.")
        return None


def _with_origins(item: Configuration, planned: Sequence[Configuration], found: _Found) -> Verdict:
    """Join the verdicts of all passes on one configuration, and say what came by layout where its sham tells."""
    verdict = combine_checks(item.name, *found.parts[item.name])
    sham = next((other.name for other in planned if other.sham_of == item.name), "")
    if not found.against_sham[item.name]:
        if verdict.verdict == "perturbed" and found.parts[sham]:
            found.note(
                f"{sham} has fewer than {MINIMUM_RUNS} runs, too few to tell layout and no-ops from counting in {item.name}: "
                f"set runs: {MINIMUM_RUNS} or more, and the same command goes on."
            )
        return verdict
    layout, counting = combine_checks(sham, *found.parts[sham]), combine_checks(item.name, *found.against_sham[item.name])
    verdict = with_origins(verdict, layout, counting)
    origins = [change.origin for change in verdict.changes if change.origin is not None]
    if origins:
        told = {
            "layout": "without any counting, with the rewritten code (where it lies, what the compiler made of it, the no-ops that stand for the "
            "increments): its sham, which counts nothing, shows the same",
            "counting": "with the counting",
            "both": "with both, the counting and what the sham shows",
            "unclear": "with either, which these runs cannot tell",
        }
        parts = [f"{origins.count(name)} {words}" for name, words in told.items() if name in origins]
        found.note(f"{item.name}: of {len(origins)} perturbed pairs within a run come: {'; '.join(parts)}.")
    return verdict


def _silent_metrics(item: Configuration, traces: Traces) -> Iterator[str]:
    """Say which software metrics never counted anything."""
    runs = [trace for by_configuration in traces.values() for trace in by_configuration.get(item.name, ())]
    for metric in item.software:
        if not runs or any(trace[metric].any() for trace in runs):
            continue
        yield (
            f"{metric} was 0 whenever {item.name} was sampled."
            if runs[0].metrics[metric].semantics == "gauge"
            else f"{metric} counted nothing in any run of {item.name}: its event never happens with this input, or the code that counts "
            "it is not the code that runs."
        )


def _unchecked(
    campaign: Campaign, configuration: str, why: str, method: Literal["runs", "paper", "bootstrap"] = "runs"
) -> Verdict:
    return Verdict(
        configuration=configuration,
        reference=BASELINE,
        verdict="undecided",
        changes=(),
        excluded=((configuration, why),),
        alpha=campaign.analysis.alpha,
        tolerance=campaign.analysis.tolerance,
        lost=((configuration, why),),
        method=method,
    )


def align_on(campaign: Campaign, trace: Trace) -> tuple[str, ...]:
    """Return the metrics to align on that this pass has; all of its hardware metrics where it has none of them."""
    asked = tuple(name for name in campaign.analysis.align_on if name in trace.metrics)
    return asked or tuple(name for name in campaign.measure.hardware if name in trace.metrics)
