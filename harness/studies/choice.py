"""Which of a campaign's metrics predict the rest: the values of its runs, joined over passes, and what runs cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import get_args

import numpy as np

from unperturbed.analysis.choice.fresh_runs import decide_by
from unperturbed.analysis.choice.metric_choice import Cost, MetricChoice, choose_metrics
from unperturbed.analysis.choice.moments import FloatArray, Scale
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import SCALING, WORK_CLOCKS
from unperturbed.common.wording import counted, did_you_mean, duration, listing
from unperturbed.errors import DataError, HostError, SpecError
from unperturbed.harness.campaign.manifest import Manifest
from unperturbed.harness.campaign.requirements import plan_counting
from unperturbed.harness.results.recorded import Traces, read_traces
from unperturbed.harness.results.warm_up import find_warm_up
from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.sections.campaign import BASELINE

PILOT_RUNS = "choice_pilot"
"""Fact of a campaign whose choice gets further runs: the repetitions before them, by configuration."""

_HARDWARE = ("hardware", "simulated")
_ALIKE = 0.95  # Least ratio of the numbers of intervals of joined runs; the end of the longer one is left out
_COPIES = 0.99  # Mean correlation of a metric between runs, interval by interval, from which they are nearly copies


@dataclass(frozen=True)
class _Values:
    """Values of runs that have all metrics, or of joined runs."""

    runs: Mapping[str, FloatArray]
    metrics: Sequence[Metric]
    left_out: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


def choose_of_campaign(
    folder: Path,
    spec: CampaignSpec,
    *,
    target: float = 0.95,
    hours: float | None = None,
    runs: int | None = None,
    configuration: str = BASELINE,
    scale: Scale = "count",
) -> MetricChoice:
    """Return which metrics of a configuration's runs predict the rest.

    `runs`: Runs of each pass with which the choice would be measured; by default as many as the campaign has.
    """
    _refuse(target, hours, runs, scale)
    with Manifest(folder / "campaign.sqlite", read_only=True) as manifest:
        traces = read_traces(folder, manifest)
        states = [state for state in manifest.runs("done") if state.run.configuration == configuration]
        pilot = (manifest.fact(PILOT_RUNS) or {}).get(configuration)
    every = _asked(_of_configuration(find_warm_up(spec, traces).traces, configuration), spec)
    by_pass, fresh = divide_runs(every, pilot)
    values = _values_of(by_pass)
    seconds = [state.seconds for state in states if state.seconds is not None]
    at_once, in_all = _counters(by_pass)
    cost = Cost(
        runs or max(map(len, by_pass.values())),
        median(seconds) if seconds else None,
        at_once,
        in_all,
        None if at_once is None else _planner(spec, values.metrics),
    )
    choice = choose_metrics(
        values.runs,
        [metric.name for metric in values.metrics],
        target=target,
        cost=cost,
        scale=scale,
        simulated=[metric.name for metric in values.metrics if metric.kind == "simulated"],
        hours=hours,
        left_out=values.left_out,
        notes=[*values.notes, *_on_copies(list(values.runs.values()))],
    )
    if pilot is None or not fresh:
        return choice
    kept = [[metric.name for metric in values.metrics].index(name) for name in choice.metrics]
    decided = decide_by(choice, [rows[:, kept] for rows in values.runs.values()], fresh)
    further = [state for state in states if state.run.repetition > pilot]
    took = duration(sum(state.seconds or 0.0 for state in further), whole=True)
    note = (
        f"The first {counted(pilot, 'run')} of each pass chose and fitted; open predictions are judged by "
        f"{counted(len(further), 'further run')}, which took {took}."
    )
    return replace(decided, notes=(*decided.notes, note))


def divide_runs(
    by_pass: Mapping[str, Sequence[Trace]], pilot: int | None
) -> tuple[dict[str, Sequence[Trace]], list[Mapping[str, FloatArray]]]:
    """Return the runs that choose, by pass, and the values of the further runs, those of a repetition joined.

    `pilot`: Number of repetitions that choose; None for all.
    """
    if pilot is None:
        return dict(by_pass), []

    def repetition(trace: Trace) -> int:
        return int(trace.attributes.get("repetition", 0))

    first: dict[str, Sequence[Trace]] = {
        name: tuple(trace for trace in runs if repetition(trace) <= pilot) for name, runs in by_pass.items()
    }
    used = passes_of_choice(first)
    later: dict[int, list[Trace]] = {}
    for name, runs in by_pass.items():
        for trace in runs if name in used else ():
            if repetition(trace) > pilot:
                later.setdefault(repetition(trace), []).append(trace)
    fresh: list[Mapping[str, FloatArray]] = []
    for _, traces in sorted(later.items()):
        shortest = min(map(len, traces))
        if shortest < _ALIKE * max(map(len, traces)):
            continue  # interval n is not the same work in these runs
        columns: dict[str, FloatArray] = {}
        for trace in traces:
            for metric in _metrics(trace):
                columns.setdefault(metric.name, trace[metric.name][:shortest].astype(np.float64))
        fresh.append(columns)
    return first, fresh


def passes_of_choice(by_pass: Mapping[str, Sequence[Trace]]) -> list[str]:
    """Return the passes whose runs are used: all if they can be joined, else the one with the most metrics."""
    if all(trace.attributes.get("clock") in WORK_CLOCKS for runs in by_pass.values() for trace in runs):
        return list(by_pass)
    return [max(by_pass, key=lambda name: len(_metrics(by_pass[name][0])))]


def _refuse(target: float, hours: float | None, runs: int | None, scale: str) -> None:
    if scale not in get_args(Scale):
        raise SpecError(f"scale {scale!r}: use {listing(map(repr, get_args(Scale)), 'or')}")
    if not 0 < target < 1:
        raise SpecError(f"R² {target:g}: give a number between 0 and 1, such as 0.95")
    if hours is not None and not 0 < hours < float("inf"):
        raise SpecError(f"{hours:g} hours: give a number above 0")
    if runs is not None and runs < 1:
        raise SpecError(f"{runs} runs: give a whole number, 1 or more")


def _of_configuration(traces: Traces, configuration: str) -> dict[str, Sequence[Trace]]:
    """Return a configuration's runs by pass."""
    by_pass: dict[str, Sequence[Trace]] = {
        name: runs for name, each in traces.items() if (runs := each.get(configuration, ()))
    }
    if not by_pass:
        known = list(dict.fromkeys(name for each in traces.values() for name in each))
        if not known:
            raise DataError("no run has a trace: run the campaign first")
        meant = did_you_mean(configuration, known) or f"use {listing(known, 'or')}"
        raise DataError(f"no runs of configuration {configuration!r}; {meant}")
    return by_pass


def _values_of(by_pass: Mapping[str, Sequence[Trace]]) -> _Values:
    """Return the values of a configuration's runs, those of several passes joined if their intervals allow it.

    Metrics of different passes never meet in one run. If intervals hold equal work, interval n shows the same work in
    all passes, so runs of the same repetition are joined. Otherwise, only the pass with the most metrics is used.
    """
    name, widest = max(by_pass.items(), key=lambda item: len(_metrics(item[1][0])))
    if len(by_pass) == 1:
        return _of_pass(widest)
    if all(trace.attributes.get("clock") in WORK_CLOCKS for runs in by_pass.values() for trace in runs):
        return _joined(by_pass)
    own = _of_pass(widest)
    kept = {metric.name for metric in own.metrics}
    reason = f"not in pass {name}, and runs of other passes cannot be joined because intervals of time differ in work"
    others = {metric.name for runs in by_pass.values() for metric in _metrics(runs[0])} - kept
    note = (
        f"Only the runs of pass {name} are used: `clock: work`, or intervals that end at events, would join the passes."
    )
    return _Values(own.runs, own.metrics, [(metric, reason) for metric in sorted(others)], [note])


def _of_pass(runs: Sequence[Trace]) -> _Values:
    metrics = _metrics(runs[0])
    names = [metric.name for metric in metrics]
    return _Values({_name_of(trace, at): trace.values(names) for at, trace in enumerate(runs, 1)}, metrics)


def _joined(by_pass: Mapping[str, Sequence[Trace]]) -> _Values:
    """Return one run for each repetition that every pass has, with the metrics of all passes."""
    metrics: dict[str, Metric] = {}
    source: dict[str, str] = {}
    for name, runs in by_pass.items():
        for metric in _metrics(runs[0]):
            metrics.setdefault(metric.name, metric)
            source.setdefault(metric.name, name)
    repetitions = [{trace.attributes.get("repetition"): trace for trace in runs} for runs in by_pass.values()]
    joined = {}
    for repetition in repetitions[0]:
        if not all(repetition in each for each in repetitions):
            continue
        parts = {name: each[repetition] for name, each in zip(by_pass, repetitions, strict=True)}
        lengths = {len(trace) for trace in parts.values()}
        if min(lengths) < _ALIKE * max(lengths):
            raise DataError(
                f"repetition {repetition}: the runs of the passes have {min(lengths)} to {max(lengths)} intervals, so "
                "interval n is not the same work in each: measure the metrics in one pass, or give --configuration "
                "with runs that repeat their work"
            )
        columns = [parts[source[metric]][metric][: min(lengths)] for metric in metrics]
        joined["+".join(_name_of(trace, 0) for trace in parts.values())] = np.column_stack(columns).astype(np.float64)
    note = (
        f"Metrics of {len(by_pass)} passes are joined interval by interval, as intervals hold equal work. What differs "
        "between the joined runs lowers R² and ρ of metrics of different passes."
    )
    return _Values(joined, list(metrics.values()), (), [note])


def _asked(by_pass: Mapping[str, Sequence[Trace]], spec: CampaignSpec) -> dict[str, Sequence[Trace]]:
    """Return the traces without hardware metrics that the spec does not list, such as cycles to align on."""
    there = {name for runs in by_pass.values() for trace in runs for name in trace.metrics}
    listed = set(spec.measure.hardware)
    if spec.imported is not None or not listed or not listed <= there:
        return dict(by_pass)
    return {
        name: [
            trace[[each for each, metric in trace.metrics.items() if metric.kind not in _HARDWARE or each in listed]]
            for trace in runs
        ]
        for name, runs in by_pass.items()
    }


def _metrics(trace: Trace) -> list[Metric]:
    """Return the metrics to choose from: those that are counted, and not the times with which counts were scaled."""
    kinds = (*_HARDWARE, "software")
    return [metric for name, metric in trace.metrics.items() if metric.kind in kinds and not name.endswith(SCALING)]


def _counters(by_pass: Mapping[str, Sequence[Trace]]) -> tuple[int | None, frozenset[str]]:
    """Return how many metrics share the counters in a pass, and the metrics that take none of these counters.

    Software metrics take none, nor do metrics that several passes have: fixed counters count them.
    """
    if len(by_pass) == 1:
        return None, frozenset()
    times = Counter(metric.name for runs in by_pass.values() for metric in _metrics(runs[0]))
    sharing = [
        sum(metric.kind in _HARDWARE and times[metric.name] == 1 for metric in _metrics(runs[0]))
        for runs in by_pass.values()
    ]
    software = {metric.name for runs in by_pass.values() for metric in _metrics(runs[0]) if metric.kind == "software"}
    return max(1, *sharing), frozenset(software | {name for name, count in times.items() if count > 1})


def _planner(spec: CampaignSpec, metrics: Sequence[Metric]) -> Callable[[Sequence[str]], int] | None:
    """Return a function that plans the passes of metrics, without `together` and turns; None where it takes trials.

    Only of a simulated processor is it known what fits together; elsewhere, this host may not be the campaign's.
    """
    if spec.imported is not None or any(metric.kind == "hardware" for metric in metrics):
        return None

    free = spec.model_copy(
        update={
            "analysis": spec.analysis.model_copy(update={"together": ()}),
            "measure": spec.measure.model_copy(update={"multiplex": False}),
            "campaign": spec.campaign.model_copy(update={"multiplexed": False}),
        }
    )

    def planned(chosen: Sequence[str]) -> int:
        return max(1, len(plan_counting(free, [name for name in spec.measure.hardware if name in chosen]).passes))

    try:
        planned(spec.measure.hardware)
    except HostError:  # without the simulator
        return None
    return planned


def _name_of(trace: Trace, at: int) -> str:
    return str(trace.attributes.get("run", at))


def _on_copies(runs: Sequence[FloatArray]) -> list[str]:
    """Return a note if the runs nearly repeat one another: holding one back then proves little about other inputs."""
    if len(runs) < 2 or len({len(run) for run in runs}) > 1:
        return []
    first, *others = runs
    alike = [
        np.corrcoef(first[:, at], other[:, at])[0, 1]
        for other in others
        for at in range(first.shape[1])
        if np.ptp(first[:, at]) > 0 and np.ptp(other[:, at]) > 0
    ]
    if not alike or float(np.mean(alike)) < _COPIES:
        return []
    return ["The runs nearly repeat one another, interval by interval: R² holds for this program with this input."]
