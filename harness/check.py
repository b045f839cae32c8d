"""The verdicts of a campaign: every configuration held against the baseline, pass by pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unperturbed.analysis.perturbation import Baseline, Verdict, combine, combine_checks
from unperturbed.collectors.trace import Trace
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.manifest import Manifest
from unperturbed.harness.plan import configurations
from unperturbed.harness.spec import Campaign
from unperturbed.harness.spec.models import ANCHOR, BASELINE

__all__ = ["Checked", "Traces", "align_on", "check", "read_traces"]

Traces = Mapping[str, Mapping[str, tuple[Trace, ...]]]
"""Pass name to configuration to its traces, in the order of the plan; the main pass first."""


@dataclass(frozen=True)
class Checked:
    """What a campaign's runs say.

    Attributes
    ----------
    verdicts : one a checked configuration and pass.
    traces : what they were made from.
    notes : what a reader must know besides, one sentence each.
    """

    verdicts: tuple[Verdict, ...]
    traces: Traces
    notes: tuple[str, ...]

    @property
    def perturbed(self) -> tuple[str, ...]:
        """Return the names of the perturbed configurations."""
        return tuple(dict.fromkeys(verdict.configuration for verdict in self.verdicts if verdict.verdict == "perturbed"))

    def of(self, configuration: str) -> Verdict | None:
        """Return the verdicts of one configuration over all passes, as their joint name says."""
        found = [verdict for verdict in self.verdicts if verdict.configuration == configuration]
        return (
            max(found, key=lambda verdict: ("unperturbed", "undecided", "perturbed").index(verdict.verdict)) if found else None
        )


def read_traces(folder: Path, manifest: Manifest) -> Traces:
    """Read the traces of all finished runs.

    Raises
    ------
    SpecError
        A trace that the manifest calls done is gone.
    """
    found: dict[str, dict[str, list[Trace]]] = defaultdict(lambda: defaultdict(list))
    for state in manifest.runs("done"):
        path = folder / "runs" / state.run.id / "trace.parquet"
        if not path.is_file():
            raise SpecError(f"{path} is gone, though its run is done: remove the campaign folder and run it again")
        found[state.run.pass_name][state.run.configuration].append(Trace.read(path))
    order = [item["name"] for item in manifest.fact("passes") or []]
    return {
        name: {configuration: tuple(traces) for configuration, traces in found[name].items()} for name in order if name in found
    }


def check(campaign: Campaign, traces: Traces) -> Checked:
    """Hold every configuration against the baseline.

    Inner perturbation (003, section 2.2) is always judged against the pure baseline. Outer perturbation (section 2.3) needs runs that
    align: where there is an anchor, the anchor alone is held against the pure baseline first, without anchoring, and every subset against
    the anchor's runs, through the anchor.

    Raises
    ------
    DataError
        The baseline itself cannot be used: too few runs, no variation between them, too few intervals.
    """
    verdicts: list[Verdict] = []
    notes: list[str] = []
    counted: list[str] = []
    if not traces:
        return Checked(_all_unchecked(campaign, "no run gave a trace"), traces, ())
    for name, by_configuration in traces.items():
        baseline_traces = by_configuration.get(BASELINE, ())
        if not baseline_traces:
            verdicts += _all_unchecked(campaign, f"no run of the {BASELINE} gave a trace in pass {name}")
            continue
        counts = set(baseline_traces[0].names("hardware", "simulated"))
        if not counts:
            continue
        metrics = [name for name in campaign.measure.hardware if name in counts]
        metrics += [name for name in campaign.measure.derived if name in baseline_traces[0].metrics]
        news = [metric for metric in metrics if metric not in counted]
        if not news:
            continue
        counted += news
        try:
            baseline = _baseline(campaign, BASELINE, baseline_traces, metrics, news)
        except DataError as error:
            if len(baseline_traces) == campaign.campaign.baseline_runs:
                raise
            # Runs of the baseline failed: the campaign is shown as far as it got, and judged when they are made up for.
            verdicts += _all_unchecked(campaign, str(error))
            continue
        on = align_on(campaign, baseline_traces[0])
        if on != tuple(campaign.analysis.align_on):
            notes.append(
                f"The pass {name!r} does not count {', '.join(campaign.analysis.align_on)}; its runs are aligned on {', '.join(on)}."
            )
        verdicts += _check_pass(campaign, baseline, by_configuration, on, notes)
    if not verdicts:
        every = [trace for found in traces.values() for runs in found.values() for trace in runs]
        notes.append(
            "Only the baseline was measured, so there is nothing to hold against it."
            if any(trace.names("hardware", "simulated") for trace in every)
            else "No hardware metric was measured, so there is nothing in which perturbation could show."
        )
    return Checked(tuple(verdicts), traces, tuple(dict.fromkeys(notes)))


def _check_pass(
    campaign: Campaign,
    baseline: Baseline,
    by_configuration: Mapping[str, tuple[Trace, ...]],
    on: Sequence[str],
    notes: list[str],
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    anchor = campaign.analysis.anchor
    anchored = _anchored(campaign, baseline, by_configuration, notes) if anchor else None
    for configuration in configurations(campaign):
        if configuration.name == BASELINE:
            continue
        checked = by_configuration.get(configuration.name, ())
        if len(checked) < min(3, configuration.runs):
            why = f"only {len(checked)} of {configuration.runs} runs gave a trace"
            verdicts.append(_unchecked(campaign, configuration.name, why))
            continue
        notes += [
            f"{metric} was 0 whenever {configuration.name} was sampled."
            if checked[0].metrics[metric].semantics == "gauge"
            else f"{metric} counted nothing in any run of {configuration.name}: its event never happens with this input, or the code that counts "
            "it is not the code that runs."
            for metric in configuration.software
            if not any(trace[metric].any() for trace in checked)
        ]
        inner = baseline.inner(checked)
        if configuration.name == ANCHOR or anchored is None:
            outer = baseline.outer(checked, align_on=on)
        else:
            outer = anchored.outer(checked, align_on=on, anchor=anchor)
        verdicts.append(combine_checks(configuration.name, inner, outer))
        if configuration.name == ANCHOR and verdicts[-1].verdict == "perturbed":
            notes.append(
                f"The anchor {anchor!r} alone perturbs the program: the outer checks of the subsets compare with its perturbed runs. "
                "Choose a rarer milestone."
            )
    return verdicts


def _anchored(
    campaign: Campaign, baseline: Baseline, by_configuration: Mapping[str, tuple[Trace, ...]], notes: list[str]
) -> Baseline | None:
    """Return the anchor's runs as the baseline of the subsets' outer checks, or None where they cannot serve."""
    name = str(campaign.analysis.anchor)
    totals = {int(trace[name].sum()) for traces in by_configuration.values() for trace in traces if name in trace.metrics}
    if len(totals) != 1 or totals == {0}:
        counted = "never happened" if totals <= {0} else f"happened between {min(totals)} and {max(totals)} times a run"
        notes.append(f"The anchor {name!r} {counted}: it is no milestone to align by, and the subsets are aligned without it.")
        return None
    try:
        return _baseline(campaign, ANCHOR, by_configuration.get(ANCHOR, ()), baseline.metrics, baseline.focus)
    except DataError as error:
        notes.append(f"The anchor's runs cannot serve as a reference ({error}); the subsets are aligned without it.")
        return None


def _baseline(campaign: Campaign, name: str, traces: Sequence[Trace], metrics: Sequence[str], focus: Sequence[str]) -> Baseline:
    settings = campaign.analysis
    return Baseline(traces, metrics=metrics, focus=focus, alpha=settings.alpha, tolerance=settings.tolerance, name=name)


def _all_unchecked(campaign: Campaign, why: str) -> tuple[Verdict, ...]:
    return tuple(_unchecked(campaign, item.name, why) for item in configurations(campaign) if item.name != BASELINE)


def _unchecked(campaign: Campaign, configuration: str, why: str) -> Verdict:
    return Verdict(
        configuration=configuration,
        reference=BASELINE,
        verdict=combine([]),
        changes=(),
        excluded=((configuration, why),),
        alpha=campaign.analysis.alpha,
        tolerance=campaign.analysis.tolerance,
    )


def align_on(campaign: Campaign, trace: Trace) -> tuple[str, ...]:
    """Return the metrics to align on that this pass has; all of its hardware metrics where it has none of them."""
    asked = tuple(name for name in campaign.analysis.align_on if name in trace.metrics)
    return asked or tuple(name for name in campaign.measure.hardware if name in trace.metrics)
