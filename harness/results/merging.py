"""Merging of a campaign's runs into one trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Literal

from unperturbed.analysis.across_passes import AcrossPasses, across_to_dict, correlate_across_passes
from unperturbed.analysis.alignment import MergedTrace, merge
from unperturbed.analysis.alignment.threads import align_threads
from unperturbed.analysis.perturbation import OPEN, SHOWN, Change
from unperturbed.analysis.perturbation.verdict_text import shown_levels
from unperturbed.collectors.data import Trace
from unperturbed.common.wording import counted, listing, percent
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.plan import judged_configurations
from unperturbed.harness.campaign.traces import read_threads
from unperturbed.harness.results.check import align_on, hardware_metrics
from unperturbed.harness.results.looks import check
from unperturbed.harness.results.multiplexed import beside_passes
from unperturbed.harness.results.recorded import read_traces, recorded_campaign
from unperturbed.harness.results.verdicts import CampaignVerdicts
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import ANCHOR, BASELINE, MULTIPLEXED


@dataclass(frozen=True)
class MergedCampaign:
    """A campaign's runs merged into one trace."""

    merged: MergedTrace  # The trace, and the origin of each metric
    rejected: tuple[str, ...]  # Configurations that were merged although the outer check rejects them
    across: tuple[AcrossPasses, ...]  # Correlations of metrics that no run counts together, from the baseline's runs
    notes: tuple[str, ...]  # One sentence each, the most important first


def merge_campaign(
    folder: Path, *, budget: int | None = None, force: bool = False, without: Sequence[str] = ()
) -> MergedCampaign:
    """Merge a campaign's runs into one trace, aligned with a run of the anchor, or else of the baseline.

    `budget`: Maximum number of the anchor's milestones to use; None for all.
    `force`: Also merge configurations that the outer check rejects (`_is_rejected`).
    """
    spec = recorded_campaign(folder)
    with Manifest(folder / "campaign.sqlite") as manifest:
        checked = check(spec, beside_passes(read_traces(folder, manifest)))
    names = [item.name for item in judged_configurations(spec)]
    unknown = [name for name in without if name not in names]
    if unknown:
        raise SpecError(f"--without {unknown[0]}: no such configuration; the configurations are {', '.join(names)}")
    # Changes of the outer checks. Runs of another program do not belong in this program's trace.
    changes: defaultdict[str, list[Change]] = defaultdict(list)
    within: defaultdict[str, list[str]] = defaultdict(list)
    for verdict in checked.verdicts:
        if verdict.configuration not in spec.programs:
            changes[verdict.configuration] += [change for change in verdict.changes if change.check == "outer"]
        within[verdict.configuration] += [change.label for change in verdict.changes if change.verdict == "perturbed"]
    traces = [trace for trace in _in_order(spec, checked) if trace.attributes["configuration"] not in without]
    given = _configurations_of_metrics(traces)
    rejected = tuple(name for name, outer in changes.items() if name in given and any(map(_is_rejected, outer)))
    if rejected and not force:
        leaving = " ".join(f"--without {name}" for name in rejected)
        raise SpecError(
            f"{_largest_changes(rejected, changes, _is_rejected)}. These runs behave differently from runs of the "
            f"baseline: leave them out with {leaving}, or merge and mark them with --force"
        )
    if not traces:
        raise DataError(f"{folder}: nothing to merge, because no run of this campaign has a trace")
    anchor = spec.analysis.anchor if ANCHOR in {trace.attributes["configuration"] for trace in traces} else None
    on = align_on(spec, *traces)
    merged = merge(traces, on=on, anchor=anchor, budget=budget)
    merged.trace.attributes["merged"]["rejected"] = list(rejected)
    open_ones = sorted(given & {verdict.configuration for verdict in checked.verdicts if verdict.verdict in OPEN})
    perturbed = [verdict.configuration for verdict in checked.verdicts if verdict.verdict == "perturbed"]
    doubtful = [name for name in changes if name in given and any(map(_is_open, changes[name]))]
    notes = (
        [f"Rejected, but merged because of --force: {_largest_changes(rejected, changes, _is_rejected)}."]
        if rejected
        else []
    )
    if lacking := [name for name in spec.analysis.align_on if name not in on]:
        notes.append(f"Not every pass counts {listing(lacking)}, so the runs are aligned on {listing(on)}.")
    absent = [name for name in spec.measure.derived if name not in merged.trace.metrics]
    if absent:
        notes.append(f"The merged trace has no {listing(absent)}, because no run counts all metrics of its expression.")
    if doubtful:
        notes.append(
            f"Not shown to match the runs that they are compared with: {_largest_changes(doubtful, changes, _is_open)}."
        )
    notes += [
        f"{name} is perturbed within its runs: {listing(within[name])}. Leave {name} out with --without {name}, "
        "or do not use these correlations."
        for name in perturbed
        if name in given and name not in rejected
    ]
    notes += (
        [f"Configurations with an open verdict (shifted or undecided): {', '.join(open_ones)}."] if open_ones else []
    )
    configurations = {trace.attributes["run"]: trace.attributes["configuration"] for trace in traces}
    notes += _changed_totals(checked, merged.trace.attributes["merged"]["sources"], configurations)
    across = tuple(_across_passes(spec, checked, anchor))
    if across:
        merged.trace.attributes["merged"]["across_passes"] = across_to_dict(across)
        reliable = sum(pair.is_reliable for pair in across)
        of = counted(len(across), "correlation")
        whose = "the baseline" if anchor is None else "the anchor, and nothing compares them with the baseline's"
        said = f"{reliable} of {of} of metrics that no run counts together can be relied on"
        notes.append(f"{said}. They are of runs of {whose}.")
    return MergedCampaign(merged, rejected, across, (*notes, *checked.notes))


def _changed_totals(
    checked: CampaignVerdicts, sources: Mapping[str, str], configurations: Mapping[str, str]
) -> Iterator[str]:
    """Yield a note on each configuration whose hardware metrics are merged although totals of theirs changed.

    `sources`: The run from which each metric of the merged trace is. `configurations`: That of each run.
    """
    for name, totals in checked.totals.items():
        merged = {metric for metric, run in sources.items() if configurations.get(run) == name}
        changed = [each for each in totals if each.metric in merged and each.verdict in SHOWN]
        if changed:
            found = listing(f"{each.metric} {percent(each.change)}" for each in changed)
            yield (
                f"Hardware metrics are from runs of {name}, whose totals differ from the baseline's: {found}. Take "
                "totals from the baseline."
            )


def _across_passes(spec: CampaignSpec, checked: CampaignVerdicts, anchor: str | None) -> Iterator[AcrossPasses]:
    """Yield the correlations of hardware metrics that meet in no pass, from runs of the anchor or of the baseline."""
    name, settings = BASELINE if anchor is None else ANCHOR, spec.analysis
    runs = {pass_name: each[name][:_MOST_RUNS] for pass_name, each in checked.traces.items() if each.get(name)}
    metrics = {pass_name: hardware_metrics(spec, each) for pass_name, each in runs.items()}
    met = {frozenset(pair) for names in metrics.values() for pair in product(names, names)}
    for (first, one), (second, other) in combinations(runs.items(), 2):
        on = align_on(spec, one[0], other[0])
        apart = [pair for pair in product(metrics[first], metrics[second]) if _are_apart(pair, one[0], other[0], met)]
        if not apart or min(len(one), len(other)) < _FEWEST or not on:
            continue
        sides = [list(dict.fromkeys(pair[side] for pair in apart)) for side in (0, 1)]
        for pair in correlate_across_passes(
            one,
            other,
            (sides[0], sides[1]),
            on=on,
            anchor=anchor,
            alpha=settings.alpha,
            tolerance=settings.tolerance,
        ):
            if (pair.first, pair.second) in apart:
                met.add(frozenset((pair.first, pair.second)))
                yield pair


def _are_apart(pair: tuple[str, str], one: Trace, other: Trace, met: Collection[frozenset[str]]) -> bool:
    """Return whether no run counts both metrics, and no event is part of both."""
    first, second = one.metrics[pair[0]], other.metrics[pair[1]]
    return frozenset(pair) not in met and not set(first.components) & set(second.components)


_FEWEST, _MOST_RUNS = 3, 10  # Runs of a pass: needed, and used, because each is aligned with each


def merge_threads(folder: Path, campaign: MergedCampaign, *, by: Literal["role", "work"]) -> dict[str, Trace]:
    """Merge the threads of the runs that a merged trace comes from; return a trace for each role of the reference.

    `by`: As for `align_threads`. A thread that cannot be aligned (of a few equal intervals) adds no metrics.
    """
    first, *others = (read_threads(folder / "runs" / source.run) for source in campaign.merged.sources)
    matched = [align_threads(first, other, by=by) for other in others]
    merged = {}
    for trace in first:
        role = trace.attributes["role"]
        parts = [aligned.traces[1][pair.second] for aligned in matched for pair in aligned.pairs if pair.first == role]
        fitting = []
        for part in parts:
            with suppress(DataError):
                merge([trace, part])
                fitting.append(part)
        merged[role] = merge([trace, *fitting]).trace
    return merged


def _configurations_of_metrics(traces: Iterable[Trace]) -> set[str]:
    """Return the configurations that provide the merged trace's metrics: for each metric, the first that has it."""
    first: dict[str, str] = {}
    for trace in traces:
        for metric in trace.metrics:
            first.setdefault(metric, trace.attributes["configuration"])
    return set(first.values())


def _is_rejected(change: Change) -> bool:
    """Tell whether a change is shown and exceeds the tolerance, so that the merged trace would be misleading."""
    return change.verdict in SHOWN and abs(change.effect) > change.tolerance


def _is_open(change: Change) -> bool:
    """Tell whether a change is neither rejected nor shown to be within the tolerance."""
    return change.verdict != "unperturbed" and not _is_rejected(change)


def _largest_changes(
    names: Iterable[str], changes: Mapping[str, Sequence[Change]], concerns: Callable[[Change], bool]
) -> str:
    """Return the largest change of each configuration in words, with its interval."""
    worst = {name: max(filter(concerns, changes[name]), key=lambda change: abs(change.effect)) for name in names}
    return "; ".join(
        f"{name}: the correlation of {change.first} between runs changes from {before:.2f} to {after:.2f} (change "
        f"{change.effect:+.2f}, {change.low:+.2f} to {change.high:+.2f}{_against(change)})"
        for name, change in worst.items()
        for before, after in [shown_levels(change)]
    )


def _against(change: Change) -> str:
    return f", against {change.against}" if change.against not in ("", BASELINE) else ""


def _in_order(spec: CampaignSpec, checked: CampaignVerdicts) -> Sequence[Trace]:
    """Return the traces to merge: the anchor's, then the baseline's, then each subset's, in each case pass by pass."""
    planned = [item for item in judged_configurations(spec) if item.name != MULTIPLEXED]  # its counts are estimated
    names = [item.name for item in planned if item.sham_of is None and not item.program]
    names.sort(key=lambda name: {ANCHOR: 0, BASELINE: 1}.get(name, 2))
    return [
        trace
        for name in names
        for by_configuration in checked.traces.values()
        for trace in by_configuration.get(name, ())
    ]
