"""Runs in which metrics take turns on the counters, beside the passes that count each metric all the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from unperturbed.analysis.multiplexing import Counted, MultiplexingVerdicts, judge_multiplexed
from unperturbed.analysis.perturbation.comparable import MINIMUM_INTERVALS
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import SCALING
from unperturbed.collectors.records.estimates import METHODS, Observed, estimate_counts, read_shared
from unperturbed.collectors.sources.callgrind import QUANTUM_BLOCKS
from unperturbed.harness.campaign.progress import describe_interval
from unperturbed.harness.results.recorded import Traces
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE, MULTIPLEXED

_LENGTHS = (1, 2, 4, 8, 16, 32)  # Lengths of an interval that are judged, in intervals of the campaign
_FEWEST = 3  # Runs


def beside_passes(traces: Traces) -> Traces:
    """Return runs in which metrics take turns as runs of each pass whose metrics they have; drop their own passes."""
    turning = [runs for name, by_name in traces.items() if _has_turns(name) for runs in by_name.values()]
    if not turning:
        return traces
    return {
        name: {**by_name, MULTIPLEXED: tuple(_like(trace, by_name[BASELINE][0], name) for trace in runs)}
        if (runs := _with_metrics(turning, by_name.get(BASELINE, ()))) and _has_all(runs[0], by_name[BASELINE][0])
        else by_name
        for name, by_name in traces.items()
        if not _has_turns(name)
    }


def check_multiplexed(spec: CampaignSpec, traces: Traces) -> MultiplexingVerdicts | None:
    """Judge which metrics may be multiplexed, for several lengths of an interval and each estimate.

    `traces`: As recorded. None: There are too few runs.
    """
    turning = [runs for name, by_name in traces.items() if _has_turns(name) for runs in by_name.values()]
    passes = [
        (name, by_name[BASELINE], runs)
        for name, by_name in traces.items()
        if not _has_turns(name) and (runs := _with_metrics(turning, by_name.get(BASELINE, ())))
    ]
    if not passes or min(len(side) for _, *sides in passes for side in sides) < _FEWEST:
        return None
    shortest = min(len(trace) for _, *sides in passes for side in sides for trace in side)
    lengths = [every for every in _LENGTHS if shortest // every >= MINIMUM_INTERVALS]
    wanted = [(every, estimate) for every in lengths for estimate in METHODS]
    wanted.sort(key=lambda row: (row != (1, spec.measure.estimate), row[0]))
    facts = passes[0][1][0].attributes
    rows = []
    for every, estimate in wanted:
        length, quantum = every * int(facts["interval_ns"]), facts.get("quantum_blocks", QUANTUM_BLOCKS)
        interval = describe_interval(length, facts["clock"], facts.get("interval_event", ""), quantum)
        rows.append(
            judge_multiplexed(
                list(_counted(spec, passes, every, estimate)),
                interval=interval,
                estimate=estimate,
                alpha=spec.analysis.alpha,
                tolerance=spec.analysis.tolerance,
                totals=spec.analysis.totals,
            )
        )
    return MultiplexingVerdicts(tuple(rows)) if rows else None


def _counted(
    spec: CampaignSpec, passes: Sequence[tuple[str, Sequence[Trace], Sequence[Trace]]], every: int, estimate: str
) -> Iterator[Counted]:
    """Yield the runs of each pass, with longer intervals and counts that are estimated for them."""
    estimated: dict[str, Trace] = {}
    for name, reference, runs in passes:
        shared = _shared(reference[0], runs[0])
        metrics = [metric for metric in spec.measure.hardware if metric in shared]
        for trace in runs:
            if trace.attributes["run"] not in estimated:
                estimated[trace.attributes["run"]] = lengthened(trace, every, estimate)
        observed = [_like(estimated[trace.attributes["run"]], reference[0], name) for trace in runs]
        yield Counted([lengthened(trace, every) for trace in reference], observed, metrics)


def lengthened(trace: Trace, every: int, estimate: str = "") -> Trace:
    """Return a run's hardware metrics in intervals of several; those that take turns are estimated again.

    Intervals at the end that are fewer are left out, as an interval of less work would be unlike all others.
    """
    metrics = [metric for metric in trace.metrics.values() if metric.kind in ("hardware", "simulated")]
    kept = len(trace) // every * every
    starts = np.arange(0, kept, every)
    columns = {metric.name: np.add.reduceat(trace[metric.name][:kept], starts) for metric in metrics}
    described: list[Metric] = [*metrics]
    if estimate and (names := [metric.name for metric in metrics if f"{metric.name}{SCALING[1]}" in trace]):
        shared = read_shared(trace, names)
        parts = (shared.counts, shared.enabled_ns, shared.running_ns)
        observed = Observed(*(np.add.reduceat(part[:kept], starts, axis=0) for part in parts))
        made = estimate_counts(observed, estimate)
        for at, name in enumerate(names):
            columns[name] = made[:, at]
            for suffix, times in zip(SCALING, (observed.enabled_ns, observed.running_ns), strict=False):
                columns[f"{name}{suffix}"] = times[:, at]
                described.append(trace.metrics[f"{name}{suffix}"])
    return Trace.from_columns(
        described,
        columns,
        begin_ns=trace.begin_ns[starts],
        end_ns=trace.end_ns[starts + every - 1],
        attributes={**trace.attributes, "interval_ns": every * trace.attributes["interval_ns"]},
    )


def _has_turns(pass_name: str) -> bool:
    return pass_name.startswith(MULTIPLEXED)


def _with_metrics(turning: Sequence[Sequence[Trace]], baseline: Sequence[Trace]) -> Sequence[Trace]:
    """Return the runs that count most of a pass, by the same events; none if no metric of it takes turns."""
    if not baseline:
        return ()
    shared = [(_shared(baseline[0], runs[0]), runs) for runs in turning if runs]
    names, runs = max(shared, key=lambda each: len(each[0]), default=([], ()))
    return runs if any(f"{name}{SCALING[1]}" in runs[0] for name in names) else ()


def _shared(reference: Trace, trace: Trace) -> list[str]:
    """Return the counted metrics of a trace that another one has too, by the same events."""
    return [
        metric.name
        for metric in reference.metrics.values()
        if metric.kind in ("hardware", "simulated")
        and metric.name in trace
        and trace.metrics[metric.name].components == metric.components
    ]


def _like(trace: Trace, reference: Trace, pass_name: str) -> Trace:
    """Return a run with the metrics of a pass, and the columns from which their counts were estimated."""
    names = [name for name in reference.metrics if name in trace]
    scaling = [f"{name}{suffix}" for name in names for suffix in SCALING if f"{name}{suffix}" in trace]
    return replace(trace[[*names, *scaling]], attributes={**trace.attributes, "pass": pass_name})


def _has_all(trace: Trace, reference: Trace) -> bool:
    """Return whether a trace has all counted metrics of another: not misses of the page cache, another machine's."""
    return _shared(reference, trace) == _shared(reference, reference)
