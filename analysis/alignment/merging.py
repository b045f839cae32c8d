"""Many runs joined into one trace with every metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from unperturbed.analysis.alignment.carrying import resample, share_out
from unperturbed.analysis.alignment.traces import Alignment, align
from unperturbed.analysis.alignment.warp import FloatArray
from unperturbed.collectors.trace import Metric, Trace
from unperturbed.errors import DataError

__all__ = ["Merged", "Source", "merge"]

_Align = Callable[[Trace, Trace], Alignment]


@dataclass(frozen=True, eq=False)
class Source:
    """One group of repetitions, and how the run that speaks for it was aligned.

    Attributes
    ----------
    configuration, pass_name : what its runs have in common.
    run : the run whose values were carried: the one nearest to the others.
    repetitions : how many runs there are.
    metrics : what the merged trace has from it.
    alignment : of the reference and this run; None for the reference itself.
    spread : float64, shape (intervals,). How far alignments by way of the other repetitions end from the direct one, the median over
        repetitions [intervals of this run]; None for a single run.
    """

    configuration: str
    pass_name: str
    run: str
    repetitions: int
    metrics: tuple[str, ...]
    alignment: Alignment | None
    spread: FloatArray | None

    @property
    def title(self) -> str:
        """Return the name of the group, as the merged trace's column of its spread has it."""
        return f"{self.configuration}/{self.pass_name}" if self.pass_name else self.configuration


@dataclass(frozen=True, eq=False)
class Merged:
    """One trace with every metric.

    Attributes
    ----------
    trace : on the reference's time axis; beside the metrics a column `spread:GROUP` for each group with repetitions. Its attributes
        `merged` name the source run of each metric.
    sources : in the order of the groups, the reference's first.
    """

    trace: Trace
    sources: tuple[Source, ...]


def merge(
    traces: Sequence[Trace],
    *,
    on: Sequence[str] | None = None,
    anchor: str | None = None,
    budget: int | None = None,
    penalty: float | None = None,
) -> Merged:
    """Join runs of one program that collected different metrics into one trace.

    Parameters
    ----------
    traces : of the same work. Those with the same `configuration` and `pass` among their attributes are repetitions of each other.
        The first group gives the reference run, whose intervals the merged trace has; of a metric that several groups have, the first
        group's is taken.
    on, anchor, budget, penalty : as for `align`. The anchor serves where both runs have it.

    Returns
    -------
    Merged
        Of each group one run speaks: the one whose alignments with the other repetitions cost least. A counter's events are shared out
        among the reference's intervals that do the same work, so that its total is kept; gauges and derived metrics are averaged.

    Raises
    ------
    DataError
        There is no trace, or two cannot be aligned (see `align`).

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 1: reasoning across traces. How sure the joint is the paper
    leaves open: here the repetitions tell. The reference's interval t lies at p(t) in the run s by direct alignment, and at q(t) by way of
    another repetition; the spread is |p − q|. It shows what chance does to an alignment, not an error that all repetitions share.
    """
    groups: dict[tuple[str, str], list[Trace]] = {}
    for trace in traces:
        key = str(trace.attributes.get("configuration", trace.attributes.get("run", ""))), str(trace.attributes.get("pass", ""))
        groups.setdefault(key, []).append(trace)
    if not groups:
        raise DataError("there is no trace to merge")
    joined: _Align = partial(_align, on=None if on is None else tuple(on), anchor=anchor, budget=budget, penalty=penalty)
    centres = {key: _nearest_to_others(runs, joined) for key, runs in groups.items()}
    reference = next(iter(centres.values()))
    metrics: dict[str, Metric] = {}
    columns: dict[str, FloatArray] = {}
    sources = []
    for key, runs in groups.items():
        centre = centres[key]
        own = tuple(name for name in centre.metrics if name not in metrics)
        if not own and centre is not reference:
            continue
        alignment = None if centre is reference else joined(reference, centre)
        for name in own:
            metrics[name] = centre.metrics[name]
            columns[name] = _carried(alignment, centre, name, len(reference))
        spread = _spread(reference, centre, runs, alignment, joined)
        source = Source(*key, str(centre.attributes.get("run", "")), len(runs), own, alignment, spread)
        sources.append(source)
        if spread is not None:
            name = f"spread:{source.title}"
            meaning = f"how far alignments of run {source.run} by way of other repetitions end from the direct one"
            metrics[name] = Metric(name, "derived", "intervals", "gauge", "alignment", meaning)
            columns[name] = spread
    described = {name: source.run for source in sources for name in source.metrics}
    attributes = {**reference.attributes, "merged": {"reference": sources[0].run, "sources": described}}
    trace = Trace.from_columns(
        metrics.values(),
        columns,
        begin_ns=reference.begin_ns,
        end_ns=reference.end_ns,
        overruns=reference.overruns,
        attributes=attributes,
    )
    return Merged(trace, tuple(sources))


def _align(
    a: Trace, b: Trace, *, on: tuple[str, ...] | None, anchor: str | None, budget: int | None, penalty: float | None
) -> Alignment:
    through = anchor if anchor in a.metrics and anchor in b.metrics else None
    return align(a, b, on=on, anchor=through, budget=budget, penalty=penalty)


def _nearest_to_others(runs: Sequence[Trace], joined: _Align) -> Trace:
    """Return the run whose alignments with the others cost least, an interval; the first of two."""
    costs = np.zeros(len(runs))
    if len(runs) > 2:
        for i, j in combinations(range(len(runs)), 2):
            path = joined(runs[i], runs[j])
            costs[[i, j]] += path.cost / len(path)
    return runs[int(costs.argmin())]


def _carried(alignment: Alignment | None, run: Trace, name: str, length: int) -> FloatArray:
    values = run[name]
    if alignment is None:
        return values
    metric = run.metrics[name]
    carry = share_out if metric.semantics == "counter" and metric.kind != "derived" else resample
    return carry(alignment, values, length)


def _spread(
    reference: Trace, centre: Trace, runs: Sequence[Trace], alignment: Alignment | None, joined: _Align
) -> FloatArray | None:
    if len(runs) < 2:
        return None
    own = np.arange(len(centre), dtype=np.float64)
    direct = own if alignment is None else resample(alignment, own, len(reference))
    off = []
    for other in runs:
        if other is not centre:
            there = np.arange(len(other), dtype=np.float64)
            at = resample(joined(reference, other), there, len(reference))
            back = resample(joined(other, centre), own, len(other))
            off.append(np.abs(np.interp(at, there, back) - direct))
    return np.asarray(np.median(off, axis=0), np.float64)
