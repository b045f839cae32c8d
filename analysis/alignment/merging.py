"""Merging of many runs into one trace with all metrics, and mapping of values and regions along warp paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from unperturbed.analysis.alignment import merge_text
from unperturbed.analysis.alignment.dtw.paths import WarpPath
from unperturbed.analysis.alignment.dtw.series import FloatArray
from unperturbed.analysis.alignment.prepared_runs import same_work
from unperturbed.analysis.alignment.traces import Alignment, align
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import require_traces
from unperturbed.common.result import Picture, Result
from unperturbed.common.table import Table
from unperturbed.common.wording import counted, listing
from unperturbed.errors import DataError

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Region:
    """A stretch of a run, and the uncertainty of its borders.

    Attributes
    ----------
    start, stop : int
        First interval, and the interval after the last.
    uncertainty : tuple of (float, float)
        Difference between ways to align these runs, at `start` and at `stop` [intervals]. It does not bound the error.
    possible : tuple of tuple of (int, int)
        The least and the greatest value that milestones permit, for `start` and for `stop`. These limits are certain.
        They span the whole run if no software counter has the same total in both runs.
    """

    start: int
    stop: int
    uncertainty: tuple[float, float]
    possible: tuple[tuple[int, int], tuple[int, int]]


def map_region(alignment: Alignment, start: int, stop: int) -> Region:
    """Return the stretch of run b that shows the same work as a stretch of run a.

    Parameters
    ----------
    alignment : Alignment
        The alignment of a and b.
    start, stop : int
        First interval of a's stretch, and the interval after the last.

    Returns
    -------
    Region
        The stretch in b's intervals.

    Raises
    ------
    DataError
        The stretch is empty, or not within a.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 6: selecting corresponding stretches, and
    reasoning within each run, is often all that is needed. A border that milestones contradict is moved to the nearest
    position that they permit. Its uncertainty is the largest of: half the number of intervals that are aligned to the
    border's interval, how far the path moved there when flat stretches were made even, how far the border was moved,
    and half an interval. A stretch inside one that changed places (`align(…, moved="match")`) is mapped by the
    alignment in there; milestones do not limit it.
    """
    n = int(alignment.x_index[-1]) + 1
    if not 0 <= start < stop <= n:
        raise DataError(f"stretch {start}:{stop} is empty or outside the run: use 0 ≤ start < stop ≤ {n}")
    if any(of_a <= start and stop <= end_a for of_a, end_a, *_ in alignment.moved.tolist()):
        i, j = alignment.moved_index.T
        at, anywhere = j[(i >= start) & (i < stop)], (0, int(alignment.y_index[-1]) + 1)
        return Region(int(at.min()), int(at.max()) + 1, (0.5, 0.5), (anywhere, anywhere))
    first, of_first = _border(alignment, start, 0)
    last, of_last = _border(alignment, stop - 1, 1)
    (low, high), (last_low, last_high) = alignment.possible[[start, stop - 1]].tolist()
    return Region(first, max(first, last) + 1, (of_first, of_last), ((low, high), (last_low + 1, last_high + 1)))


def resample(path: WarpPath, series_y: ArrayLike, length_x: int) -> FloatArray:
    """Map y's values to x's intervals; average the values of y intervals that are aligned to the same x interval.

    Parameters
    ----------
    path : WarpPath
        The alignment of x and y.
    series_y : array_like, shape (m,) or (m, metrics)
        Values of y.
    length_x : int
        Number n of intervals of x.

    Returns
    -------
    array of float64, shape (n,) or (n, metrics)
        Values for x's intervals.

    Raises
    ------
    DataError
        The path does not span n intervals of x and the series' intervals of y.
    """
    values = _spanned(path, series_y, length_x)
    meeting = np.bincount(path.x_index).reshape(-1, *(1,) * (values.ndim - 1))
    return np.asarray(_sums_by_x(path, values) / meeting, np.float64)


def redistribute_counts(path: WarpPath, events_y: ArrayLike, length_x: int) -> FloatArray:
    """Redistribute y's events over x's intervals; the total stays the same.

    Parameters
    ----------
    path : WarpPath
        The alignment of x and y.
    events_y : array_like, shape (m,) or (m, metrics)
        Events of each interval. The events of a y interval that is aligned to several x intervals are split equally.
    length_x : int
        Number n of intervals of x.

    Returns
    -------
    array of float64, shape (n,) or (n, metrics)
        Events in x's intervals.

    Raises
    ------
    DataError
        As for `resample`.
    """
    values = _spanned(path, events_y, length_x)
    return np.asarray(_sums_by_x(path, (values.T / np.bincount(path.y_index)).T), np.float64)


def _spanned(path: WarpPath, series_y: ArrayLike, length_x: int) -> FloatArray:
    values = np.asarray(series_y, dtype=np.float64)
    n, m = int(path.x_index[-1]) + 1, int(path.y_index[-1]) + 1
    if values.ndim not in (1, 2) or (length_x, len(values)) != (n, m):
        raise DataError(
            f"`length_x` is {length_x} and the series has shape {values.shape}, but the path aligns {n} intervals to "
            f"{m}: set `length_x` to {n}, and give a series of shape ({m},) or ({m}, metrics)"
        )
    return values


def _sums_by_x(path: WarpPath, values: FloatArray) -> FloatArray:
    """Return the sum of y's values over the path elements of each x interval; every x interval has at least one."""
    starts = np.flatnonzero(np.diff(path.x_index, prepend=-1))
    return np.asarray(np.add.reduceat(values[path.y_index], starts, axis=0), np.float64)


def _span(path: WarpPath, interval: int) -> tuple[int, int]:
    """Return the first and the last interval of b that are aligned to an interval of a."""
    first, after = np.searchsorted(path.x_index, (interval, interval + 1))
    return int(path.y_index[first]), int(path.y_index[after - 1])


def _border(alignment: Alignment, interval: int, side: int) -> tuple[int, float]:
    """Return the first (side 0) or last interval of b aligned to one of a, as milestones allow, and its uncertainty."""
    span = _span(alignment, interval)
    before = _span(alignment.warped, interval)
    low, high = alignment.possible[interval].tolist()
    allowed = min(max(span[side], low), high)
    return allowed, max((span[1] - span[0]) / 2, abs(sum(span) - sum(before)) / 2, abs(allowed - span[side]), 0.5)


_Align = Callable[[Trace, Trace], Alignment]


@dataclass(frozen=True, eq=False)
class MergedSource:
    """A group of repetitions, and the alignment of the run that represents the group.

    Attributes
    ----------
    configuration, pass_name : str
        Configuration and pass of the group's runs.
    run : str
        The run whose values were mapped: the repetition nearest to the others.
    repetitions : int
        Number of runs in the group.
    metrics : tuple of str
        Metrics that the merged trace takes from this group.
    alignment : Alignment, optional
        The alignment of the reference and this run; None for the reference itself.
    spread : array of float64, shape (intervals,)
        Distance between the direct alignment and alignments by way of the other repetitions, the median over
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
        """Name of the group, as in the name of its spread column."""
        return f"{self.configuration}/{self.pass_name}" if self.pass_name else self.configuration

    def to_dict(self) -> dict[str, Any]:
        """Return the group as plain data, ready for JSON."""
        median, high = (None, None) if self.spread is None else np.quantile(self.spread, (0.5, 0.9)).tolist()
        return {
            "configuration": self.configuration,
            "pass": self.pass_name,
            "run": self.run,
            "repetitions": self.repetitions,
            "metrics": list(self.metrics),
            "median_spread": median,
            "spread_90": high,
            "warning": self.alignment.warning if self.alignment else "",
        }


@dataclass(frozen=True, eq=False, repr=False)
class MergedTrace(Result):
    """One trace with the metrics of all merged runs.

    Attributes
    ----------
    trace : Trace
        The trace on the reference's time axis. Beside the metrics, it has a column `spread:GROUP` for each group with
        repetitions. Its attribute `merged` names the source run of each metric.
    sources : tuple of MergedSource
        The groups in order, the reference's group first.
    """

    _page: ClassVar[str] = "unperturbed.analysis.report.alignment:render_merged"

    trace: Trace
    sources: tuple[MergedSource, ...]

    def headline(self) -> str:
        """Return the numbers of intervals, metrics and runs in one line."""
        metrics = sum(len(source.metrics) for source in self.sources)
        runs = counted(sum(source.repetitions for source in self.sources), "run")
        return f"{counted(len(self.trace), 'interval')} with {counted(metrics, 'metric')} from {runs}"

    def tables(self) -> list[Table]:
        """Return one table: the source of each metric."""
        return [merge_text.merge_table(self)]

    def plot(self, metrics: str | Sequence[str] | None = None) -> Picture:
        """Plot metrics of the merged trace over time, or by default the result's page.

        Parameters
        ----------
        metrics : str or sequence of str, optional
            Metrics to plot, at most twelve, with one panel each.

        Returns
        -------
        Picture
            The plot: a notebook shows it, and `write_html` writes it to a file.

        Raises
        ------
        DataError
            The trace lacks one of the metrics.
        """
        if metrics is None:
            return super().plot()
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        title = f"{listing(names)} of the merged trace"
        return Picture(
            self._page_by("unperturbed.analysis.report.traces:render_traces", [self.trace], names, title), title
        )

    def to_frame(self) -> pl.DataFrame:
        """Return the merged trace as a frame, one row for each interval."""
        return self.trace.to_polars()

    def to_dict(self) -> dict[str, Any]:
        """Return the sources of the metrics as plain data, ready for JSON."""
        return {"intervals": len(self.trace), "sources": [source.to_dict() for source in self.sources]}


def merge(
    traces: Sequence[Trace],
    *,
    on: Sequence[str] | None = None,
    anchor: str | None = None,
    budget: int | None = None,
    penalty: float | None = None,
) -> MergedTrace:
    """Merge runs of one program that collected different metrics into one trace.

    Parameters
    ----------
    traces : sequence of Trace
        Traces of the same work. Traces with the same attributes `configuration` and `pass` are repetitions of each
        other. The first group provides the reference run; the merged trace has the intervals of this run. A metric that
        several groups have is taken from the first of them.
    on, anchor, budget, penalty : sequence of str, optional
        As for `align`. The anchor is used if both runs have it.

    Returns
    -------
    MergedTrace
        One run represents each group: the repetition whose alignments with the others cost least, or a simulated run
        that does the same work as the reference in the same round, interval by interval. A counter's events
        are redistributed over the reference's intervals that show the same work, so its total stays the same. Gauges
        and derived metrics are averaged.

    Raises
    ------
    DataError
        No trace is given, or two traces cannot be aligned (see `align`).

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation", section 1: reasoning across traces. The paper does
    not quantify how certain a merge is; here the repetitions do. The direct alignment maps the reference's interval t
    to p(t) in the run s; an alignment by way of another repetition maps it to q(t); the spread is |p − q|. It shows the
    random error of an alignment, not an error that all repetitions share.
    """
    require_traces(traces)
    groups: dict[tuple[str, str], list[Trace]] = {}
    for trace in traces:
        key = (
            str(trace.attributes.get("configuration", trace.attributes.get("run", ""))),
            str(trace.attributes.get("pass", "")),
        )
        groups.setdefault(key, []).append(trace)
    if not groups:
        raise DataError("no trace to merge: give at least one trace")

    def joined(a: Trace, b: Trace) -> Alignment:
        through = anchor if anchor in a.metrics and anchor in b.metrics else None
        return align(a, b, on=on, anchor=through, budget=budget, penalty=penalty)

    centres = {key: _nearest_to_others(runs, joined) for key, runs in groups.items()}
    reference = next(iter(centres.values()))
    metrics: dict[str, Metric] = {}
    columns: dict[str, FloatArray] = {}
    sources = []
    for key, runs in groups.items():
        centre = next((run for run in runs if same_work(reference, run)), centres[key])
        own = tuple(name for name in centre.metrics if name not in metrics)
        if not own and centre is not reference:
            continue
        alignment = None if centre is reference else joined(reference, centre)
        for name in own:
            metrics[name] = centre.metrics[name]
            columns[name] = _mapped(alignment, centre, name, len(reference))
        spread = _spread(reference, centre, runs, alignment, joined)
        source = MergedSource(*key, str(centre.attributes.get("run", "")), len(runs), own, alignment, spread)
        sources.append(source)
        if spread is not None:
            name = f"spread:{source.title}"
            meaning = (
                f"intervals between the direct alignment of run {source.run} and its alignments by way of other "
                "repetitions"
            )
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
    return MergedTrace(trace, tuple(sources))


def _nearest_to_others(runs: Sequence[Trace], joined: _Align) -> Trace:
    """Return the run whose alignments with the others cost least per path element; of only two runs, the first."""
    costs = np.zeros(len(runs))
    if len(runs) > 2:
        for i, j in combinations(range(len(runs)), 2):
            path = joined(runs[i], runs[j])
            costs[[i, j]] += path.cost / len(path)
    return runs[int(costs.argmin())]


def _mapped(alignment: Alignment | None, run: Trace, name: str, length: int) -> FloatArray:
    values = run[name]
    if alignment is None:
        return values
    metric = run.metrics[name]
    carry = redistribute_counts if metric.semantics == "counter" and metric.kind != "derived" else resample
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
