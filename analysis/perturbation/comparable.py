"""Selection of comparable metrics, pairs and runs; all others are excluded or rejected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import SCALING
from unperturbed.common.wording import counted, duration, listing
from unperturbed.errors import DataError

Excluded: TypeAlias = tuple[tuple[str, str], ...]
"""Name of each excluded metric or pair, with the reason."""

MINIMUM_INTERVALS = 30
"""Minimum number of intervals in a run: with fewer, a rank correlation of autocorrelated series is meaningless."""

_MOST_APART = 1.25
"""Largest ratio of the median interval lengths of two runs, for runs with an unknown interval timer."""

_FEW, _ONE_IN = (2, 5), 20
"""A metric varies in few intervals if one in 20, at least 2 and at most 5, has another value than most have."""

_COMPARED_KINDS = ("hardware", "simulated", "derived")
_SOFTWARE, _OS = "software", "os"


def compared_metrics(
    trace: Trace, names: Sequence[str] | None, *, software: bool = False
) -> tuple[tuple[str, ...], Excluded]:
    """Return the metrics to compare, and each excluded metric with the reason.

    `names`: The metrics to compare, of any kind. None selects all hardware and simulated metrics and the metrics
    derived only from these, or, if a trace has none of them, the metrics of the operating system.
    """
    for name in names or ():
        trace[name]
    kinds: tuple[str, ...] = (*_COMPARED_KINDS, _SOFTWARE) if software else _COMPARED_KINDS
    there = [name for name in trace.metrics if not name.endswith(SCALING)]
    kernel_only = names is None and not any(trace.metrics[name].kind in kinds for name in there)
    if kernel_only:
        kinds, there = (_OS,), [name for name in there if trace.metrics[name].kind == _OS]
    counted_kinds = {"hardware", "simulated", *([_SOFTWARE] if software else [])}
    asked = names or (there if kernel_only else ())
    counted = {
        part
        for name, metric in trace.metrics.items()
        if metric.kind in counted_kinds or (name in asked and metric.kind != "derived")
        for part in metric.components
    }
    chosen: list[str] = []
    excluded: list[tuple[str, str]] = []
    for name in dict.fromkeys(there if names is None else names):
        metric = trace.metrics[name]
        if metric.kind == "derived" and not counted.issuperset(metric.components):
            excluded.append((name, "derived from metrics other than the hardware and simulated metrics of the traces"))
        elif names is not None or metric.kind in kinds:
            chosen.append(name)
    if not chosen:
        candidates = ", ".join(trace.metrics if names is None else names)
        raise DataError(
            f"{f'none of the metrics can be compared ({candidates})' if candidates else 'there are no metrics'}: "
            "measure hardware or simulated metrics, which show perturbation"
        )
    return tuple(chosen), tuple(excluded)


def compared_pairs(
    metrics: Sequence[Metric], focus: Sequence[str], met: Collection[frozenset[str]] | None = None
) -> tuple[tuple[tuple[str, str], ...], Excluded]:
    """Return the pairs that include a metric of `focus`, and the excluded pairs, whose metrics share an event.

    `met`: Pairs that are compared elsewhere; if given, all others are returned, whatever `focus` says.
    """
    pairs: list[tuple[str, str]] = []
    excluded: list[tuple[str, str]] = []
    for first, second in combinations(metrics, 2):
        if first.name not in focus and second.name not in focus if met is None else {first.name, second.name} in met:
            continue
        if set(first.components) & set(second.components):
            excluded.append((f"{first.name} – {second.name}", "correlated by construction"))
        else:
            pairs.append((first.name, second.name))
    return tuple(pairs), tuple(excluded)


def run_names(traces: Sequence[Trace], role: str) -> tuple[str, ...]:
    """Return the name of each run: the name in its trace, or else the role and the run's position."""
    return tuple(str(trace.attributes.get("run", f"{role} {number}")) for number, trace in enumerate(traces, 1))


def require_distinct(runs: Sequence[str], group: str) -> None:
    """Reject a run that is given twice: it would count as two runs that agree perfectly."""
    if len(set(runs)) < len(runs):
        twice = sorted({run for run in runs if runs.count(run) > 1})
        raise DataError(f"{group}: runs are given more than once ({', '.join(twice)}): give each run once")


def comparable_values(
    reference: Trace, traces: Sequence[Trace], runs: Sequence[str], metrics: Sequence[str]
) -> tuple[list[FloatArray], dict[str, str]]:
    """Return each run's values, (intervals, metrics), and the metrics that are constant in a run, with the reason."""
    _require_alike(reference, traces, runs, metrics)
    values = [_metric_values(trace, run, metrics) for trace, run in zip(traces, runs, strict=True)]
    constant: dict[str, str] = {}
    for run, rows in zip(runs, values, strict=True):
        constant = _constant_metrics(rows, run, metrics) | constant
    return values, constant


_ALIKE: Mapping[str, str] = {
    "host": "host",
    "program": "program",
    "interval_event": "event that ends each interval",
    "interval_metric": "metric that ends each interval",
    "interval_ns": "interval (ns, or number of events)",
}


def _require_alike(reference: Trace, traces: Sequence[Trace], runs: Sequence[str], metrics: Sequence[str]) -> None:
    """Reject runs that cannot be compared with the reference."""
    for trace, name_of_run in zip(traces, runs, strict=True):
        file = trace.attributes.get("file")  # of an imported run, which has only a number for a name
        run = f"run {name_of_run}" + (f" ({file})" if file else "")
        for attribute, what in _ALIKE.items():
            here, there = trace.attributes.get(attribute), reference.attributes.get(attribute)
            if here != there:
                raise DataError(
                    f"{run}: {what} is {here}, the baseline's is {there}: compare runs with the same settings"
                )
        if "interval_ns" not in trace.attributes:
            _require_like_lengths(reference, trace, run)
        for name in metrics:
            if name not in trace.metrics:
                raise DataError(
                    f"{run} lacks metric {name!r}, which the baseline has: collect the same metrics in every run"
                )
            here, there = trace.metrics[name], reference.metrics[name]
            for what, own, its in (
                ("kind", here.kind, there.kind),
                ("source", here.source, there.source),
                ("events", ", ".join(here.components), ", ".join(there.components)),
            ):
                if own != its:
                    raise DataError(
                        f"{run}: metric {name!r} has the {what} {own or '(none)'}, but in the baseline it has the "
                        f"{what} {its or '(none)'}: measure the metric in the same way"
                    )
        if len(trace) < MINIMUM_INTERVALS:
            also = sum(len(each) < MINIMUM_INTERVALS for each in traces) - 1
            raise DataError(
                f"{run} has {counted(len(trace), 'interval')}, but at least {MINIMUM_INTERVALS} are needed: shorten "
                "the interval or lengthen the run; "
                + (
                    f"{counted(also, 'other run')} of {len(traces)} {'has' if also == 1 else 'have'} too few as well"
                    if also
                    else f"`unperturbed check CAMPAIGN --without {name_of_run}` checks the other runs"
                )
            )


def _require_like_lengths(reference: Trace, trace: Trace, run: str) -> None:
    """Reject a run whose intervals are much longer or shorter than the reference's, if their setting is unknown."""
    here, there = (float(np.median(side.end_ns - side.begin_ns)) if len(side) else 0.0 for side in (trace, reference))
    if min(here, there) > 0 and max(here, there) > _MOST_APART * min(here, there):
        raise DataError(
            f"{run}: its median interval is {duration(here / 1e9)}, the baseline's is {duration(there / 1e9)}: compare "
            "runs with the same settings; if a busy host made intervals uneven, record longer intervals"
        )


def _metric_values(trace: Trace, run: str, metrics: Sequence[str]) -> FloatArray:
    """Return the metrics as float64, shape (intervals, metrics); reject values that are not finite."""
    values = trace.values(metrics)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = (int(index) for index in wrong[0])
        if trace.metrics[metrics[column]].scaled:
            without = len(np.unique(wrong[:, 0]))
            raise DataError(
                f"run {run}: {metrics[column]} has no value in interval {row} (counted from 0), because the metrics "
                f"take turns on the counters and it had none then (so in {without} of {len(trace)} intervals, for one "
                "metric or another): use longer intervals, or count fewer metrics, or remove `multiplex`"
            )
        raise DataError(
            f"run {run}: metric {metrics[column]!r} is {values[row, column]} in interval {row} (counted from 0): "
            "leave out the metric or the run"
        )
    return values


def _constant_metrics(values: FloatArray, run: str, metrics: Sequence[str]) -> dict[str, str]:
    flat = np.flatnonzero((values == values[0]).all(axis=0))
    return {
        metrics[at]: f"{'zero' if values[0, at] == 0 else 'constant'} in every interval of run {run}"
        for at in flat.tolist()
    }


def vary_in_few_intervals(runs: Sequence[FloatArray], metrics: Sequence[str]) -> dict[str, int]:
    """Return the metrics that have one value in nearly all intervals of every run, and the most other intervals.

    Their correlations rest on these few intervals. Constant metrics are not returned.

    `runs`: Values of each run, (intervals, metrics).
    """
    others = np.array([[_other_values(column) for column in values.T] for values in runs])
    few = np.array([np.clip(len(values) // _ONE_IN, *_FEW) for values in runs])
    found = np.flatnonzero(((others > 0) & (others <= few[:, None])).all(axis=0))
    return {metrics[at]: int(others[:, at].max()) for at in found.tolist()}


def few_interval_notes(few: Mapping[str, int], then: str) -> Iterator[str]:
    """Yield a sentence about the metrics that vary in few intervals; `then`: what follows for their correlations."""
    if few:
        yield (
            f"{listing(f'`{name}`' for name in few)} {'have' if len(few) > 1 else 'has'} one value in all intervals of "
            f"each run but at most {max(few.values())}, often the first and the last: every correlation of "
            f"{'these metrics' if len(few) > 1 else 'this metric'} rests on these few, so {then}."
        )


def _other_values(column: FloatArray) -> int:
    """Return the number of intervals without a metric's most frequent value; 0 if an interval has no value."""
    if not np.isfinite(column).all():
        return 0
    return len(column) - int(np.unique(column, return_counts=True)[1].max())


def require_variation(values: Sequence[FloatArray]) -> None:
    """Reject identical runs: their spread is zero."""
    if all(np.array_equal(values[0], other) for other in values[1:]):
        raise DataError(
            f"all {len(values)} baseline runs are identical in every metric and interval, so the variation between "
            "runs is unknown: give different runs, not copies of one; if the counts come from a deterministic "
            "simulator, vary the program's layout in memory (size of the environment, link order), or use intervals "
            "of CPU time"
        )
