"""Alignment of two traces: the metrics and their scale, the anchors, and the pace in flat stretches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment import merge_text
from unperturbed.analysis.alignment.dtw.paths import WarpPath, anchored_dtw
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray
from unperturbed.analysis.alignment.flatness import (
    even_pace,
    flat_elements,
    path_from_positions,
    stretches_between_anchors,
)
from unperturbed.analysis.alignment.milestones import (
    ScoreSummary,
    choose_anchors,
    milestone_anchors,
    milestone_counts,
    milestone_positions,
    possible_intervals,
    score_summaries,
)
from unperturbed.analysis.alignment.prepared_runs import (
    ascending_columns,
    common_scales,
    diagonal,
    finite_values,
    program_cuts,
)
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import require_traces
from unperturbed.common.table import Table
from unperturbed.errors import DataError

PENALTY_RULE = 5.0
"""Default penalty, as a multiple of the median distance between intervals that plain dynamic time warping aligns."""

_MUCH_FLAT = 0.25
"""Share of flat path elements above which an alignment gets a warning."""

_MUCH_CONTRADICTED = 0.1
"""Share of path elements that milestones contradict above which an alignment gets a warning."""

_RATE, _CYCLES = "IPC", "PAPI_TOT_CYC"
_TIMES = (".enabled_ns", ".running_ns")
"""Suffixes of the columns with the times from which a count of a multiplexed event was scaled."""
_WORK = "PAPI_TOT_INS"
"""Counter that measures the progress of the work by default."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Alignment(WarpPath):
    """Alignment of two runs, with the settings that led to it.

    Attributes
    ----------
    runs : tuple of (Trace, Trace)
        The runs a and b.
    method : {"dtw", "milestones"}
        `dtw`, or `milestones` for positions interpolated between a deterministic counter's milestones.
    on : tuple of str
        Metrics; `scale` has the divisor of each.
    penalty : float
        Penalty of a step that is not diagonal, in scaled units.
    anchor : str, optional
        The counter whose milestones are the anchors, or the positions of the method `milestones`.
    flat : array of int64, shape (k, 2)
        First element, and the one after the last, of each flat stretch of `warped`: the runs share only noise there.
    evened : bool
        Whether both runs are assumed to progress evenly in flat stretches.
    pace : str
        What progresses evenly: `time`, or the name of a counter, which also guides the whole path.
    warped : WarpPath
        The path of dynamic time warping before flat stretches were made even.
    possible : array of int64, shape (n, 2)
        First and last interval of b that can show the work of each interval of a, according to all software counters
        with the same total in both runs.
    """

    _page: ClassVar[str] = "unperturbed.analysis.report.alignment:render_alignment"

    runs: tuple[Trace, Trace]
    method: Literal["dtw", "milestones"]
    on: tuple[str, ...]
    penalty: float
    anchor: str | None
    flat: IntArray
    evened: bool
    pace: str
    warped: WarpPath
    possible: IntArray

    @cached_property
    def scores(self) -> dict[str, ScoreSummary]:
        """Scores by each software counter with the same total in both runs, except the anchor; rarest counter first."""
        return score_summaries(self, *self.runs, anchor=self.anchor)

    def headline(self) -> str:
        """Return the runs, the sizes and the cost in one line."""
        first, second = (merge_text.run_name(run) for run in self.runs)
        return f"{first} and {second}: {super().headline()}"

    def tables(self) -> list[Table]:
        """Return the table of scores, or no table if no counter scores the path."""
        return [merge_text.scores_table(self.scores)] if self.scores else []

    def to_dict(self) -> dict[str, Any]:
        """Return the alignment as plain data, ready for JSON."""
        a, b = self.runs
        return {
            "first": {"run": merge_text.run_name(a, "a"), "intervals": len(a)},
            "second": {"run": merge_text.run_name(b, "b"), "intervals": len(b)},
            "method": self.method,
            "on": dict(zip(self.on, self.scale or (), strict=True)),
            "penalty": self.penalty,
            "cost": self.cost,
            "anchor": self.anchor,
            "anchors": [list(cell) for cell in self.anchors],
            "flat_share": self.flat_share,
            "longest_flat": self.longest_flat,
            "evened": self.evened,
            "pace": self.pace,
            "contradicted": self.contradicted,
            "warning": "; ".join(merge_text.notes(self)),
            "scores": {name: vars(summary) for name, summary in self.scores.items()},
            "x_index": self.x_index.tolist(),
            "y_index": self.y_index.tolist(),
        }

    @property
    def contradicted(self) -> float:
        """Share of path elements that milestones contradict."""
        first, last = self.possible[self.x_index].T
        return float(((self.y_index < first) | (self.y_index > last)).mean())

    @property
    def flat_share(self) -> float:
        """Share of path elements in flat stretches."""
        return float((self.flat[:, 1] - self.flat[:, 0]).sum()) / len(self.warped)

    @property
    def longest_flat(self) -> int:
        """Number of path elements in the longest flat stretch: the path may be off by as many intervals."""
        return int((self.flat[:, 1] - self.flat[:, 0]).max(initial=0))

    @property
    def warning(self) -> str:
        """Reasons to distrust the path, in one sentence; '' if there are none."""
        reasons = []
        remedy = f"use {'more ' if self.anchors else ''}anchors"
        if self.contradicted > _MUCH_CONTRADICTED:
            reasons.append(
                f"software counters with the same total in both runs contradict {self.contradicted:.0%} of the path: "
                f"{remedy}"
            )
        if self.flat_share > _MUCH_FLAT:
            treated = "dynamic time warping follows noise there"
            if self.evened:
                treated = f"both runs are assumed to progress evenly there (in {self.pace})"
            metrics = f"{' and '.join(self.on)} {'is' if len(self.on) == 1 else 'are'}"
            reasons.append(
                f"{metrics} flat (only noise) along {self.flat_share:.0%} of the path: {treated}, so the path may be "
                f"off by up to {self.longest_flat} intervals, the length of the longest flat stretch; {remedy}"
            )
        return "; ".join(reasons)


def align(
    a: Trace,
    b: Trace,
    *,
    on: str | Sequence[str] | None = None,
    method: Literal["dtw", "milestones", "paper"] = "dtw",
    anchor: str | None = None,
    budget: int | None = None,
    penalty: float | None = None,
    flat: Literal["even", "warped"] = "even",
    pace: str | None = None,
    mend: bool = True,
    band: int | None = None,
) -> Alignment:
    """Align two traces of one program.

    Parameters
    ----------
    a, b : Trace
        Traces of the same work.
    on : str or sequence of str, optional
        Names of the metrics to align on, present in both traces. None uses IPC, as the paper does. If a trace has no
        metric IPC, None uses PAPI_TOT_INS divided by PAPI_TOT_CYC, and without these all hardware metrics that both
        traces have. Each metric is divided by the same number in both traces, so metrics of different units have equal
        weight: the range from the 5th to the 95th percentile of both traces' values together or, if this is 0, their
        mean distance from the median. Levels are not shifted: a single metric is aligned as in the paper.
    method : {"dtw", "milestones"}, default "dtw"
        `dtw` warps time; `milestones` interpolates between the milestones of `anchor`, and gives the true alignment
        where these are dense. If both runs' intervals ended at the same events of the program, and they have equally
        many, `dtw` aligns interval i with interval i.
    anchor : str, optional
        Name of a counter of deterministic milestones. The nth milestone marks the same work in both runs; see
        `milestone_anchors`.
    budget : int, optional
        Largest number of anchors. `choose_anchors` chooses them, mostly in flat stretches. None uses all.
    penalty : float, optional
        Penalty of each step that is not diagonal, in scaled units. None uses 5 times the median distance between
        intervals that a path without penalty aligns, so a step must gain more than noise can. This distance is small
        where the runs agree, and a third of the noise where there is only noise. The paper uses 0.
    flat : {"even", "warped"}, default "even"
        `even` assumes that both runs progress evenly through a stretch where they share only noise (`flat_elements`),
        because dynamic time warping could only follow noise there. `warped` keeps the path of dynamic time warping, as
        the paper does.
    pace : str, optional
        What progresses evenly in flat stretches: a counter that grows with the work, or `time`. A counter also guides
        the whole path: the cost of an element increases with its deviation from equal progress between neighbouring
        anchors. A deviation of one interval costs as much as the median distance that a path without penalty leaves, or
        less if the runs' totals differ. So the counter decides only where the metrics leave a choice. None uses
        PAPI_TOT_INS if both traces have it, else `time`, which does not guide the path.
    mend : bool, default True
        Interpolate the values of intervals that last less than a quarter of the median interval, for example after a
        late tick, from their neighbours.
    band : int, optional
        As for `dtw`, in intervals, between neighbouring anchors.

    Returns
    -------
    Alignment
        A WarpPath: `x_index` has a's intervals, `y_index` b's.

    Raises
    ------
    DataError
        A metric is missing, not finite, or constant in both traces; or the anchor's totals in the two runs differ or
        are 0.

    Notes
    -----
    Mytkowicz et al., "Aligning Traces for Performance Evaluation". `method="paper"` is their method, the same as
    `penalty=0, flat="warped", pace="time", mend=False`. The other settings are not from the paper;
    experiments/alignment compares them with the paper's method.
    """
    require_traces((a, b))
    if method not in ("dtw", "milestones", "paper"):
        raise ValueError(f"unknown method {method!r}: use `dtw`, `milestones` or `paper`")
    if method == "paper":
        if penalty:
            raise ValueError('`method="paper"` takes no penalty: leave out `penalty`, or use `method="dtw"`')
        penalty, flat, pace, mend = 0.0, "warped", "time", False
    if on is None:
        a, b, on = with_default_metrics(a, b)
    names = (on,) if isinstance(on, str) else tuple(on)
    x, y = (finite_values(trace, names, mend=mend) for trace in (a, b))
    scale = common_scales(names, ascending_columns(x), ascending_columns(y))
    x, y = x / scale, y / scale
    pace_name, paces = _paces(a, b, pace)
    free = anchored_dtw(x, y, (), band=band)
    distances = np.abs(x[free.x_index] - y[free.y_index]).sum(axis=1)
    # The median is 0 for a metric that is mostly constant.
    noise = float(np.median(distances)) or float(distances.mean())
    rule = PENALTY_RULE * noise
    fine = rule if penalty is None else penalty
    counts = [milestone_counts(trace, anchor) for trace in (a, b)] if anchor is not None else []
    stretches, evened = np.empty((0, 2), np.int64), False
    if method == "milestones":
        if anchor is None:
            raise DataError(
                '`method="milestones"` needs an anchor: name a software counter, whose events are the milestones'
            )
        index = path_from_positions(milestone_positions(*counts, name=anchor), len(y))
        warped = WarpPath(*index, _cost(x, y, *index, fine))
    elif len(x) == len(y) and program_cuts(a) is not None and program_cuts(a) == program_cuts(b):
        warped = diagonal(x, y)
        index = (warped.x_index, warped.y_index)
    else:

        def warp(anchors: IntArray, penalty: float) -> WarpPath:
            guided = _guided(x, y, paces, anchors, noise) if pace_name != "time" else (x, y)
            return anchored_dtw(*guided, anchors.tolist(), penalty=penalty, band=band)

        anchors = milestone_anchors(*counts, name=anchor) if anchor is not None else np.empty((0, 2), np.int64)
        if budget is not None:
            anchors = choose_anchors(anchors, *_flat_intervals(warp(anchors[:0], rule), x, y), budget)
        warped = warp(anchors, fine)
        # A path with a smaller penalty than the rule's finds agreement in noise, so it cannot show what is flat.
        judge = warped if fine >= rule else warp(anchors, rule)
        stretches = stretches_between_anchors(warped, _flat_intervals(judge, x, y)[0][warped.x_index])
        index, evened = (warped.x_index, warped.y_index), flat == "even"
        if evened:
            index = even_pace(*index, stretches - (1, 0), *paces)
    return Alignment(
        *index,
        _cost(x, y, *index, fine),
        warped.anchors,
        warped.dropped,
        tuple(map(float, scale)),
        runs=(a, b),
        method="milestones" if method == "milestones" else "dtw",
        on=names,
        penalty=fine,
        anchor=anchor,
        flat=stretches,
        evened=evened,
        pace=pace_name,
        warped=warped,
        possible=possible_intervals(a, b),
    )


def _flat_intervals(path: WarpPath, x: FloatArray, y: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the intervals of both runs that are only on flat path elements."""
    flat = flat_elements(path, x, y)
    marks = np.ones(len(x), bool), np.ones(len(y), bool)
    for mark, index in zip(marks, (path.x_index, path.y_index), strict=True):
        mark[index[~flat]] = False
    return marks


def _cost(x: FloatArray, y: FloatArray, x_index: IntArray, y_index: IntArray, penalty: float) -> float:
    """Return the cost of a path: distances in the metrics, plus penalties."""
    bent = int(((np.diff(x_index) == 0) | (np.diff(y_index) == 0)).sum())
    return float(np.abs(x[x_index] - y[y_index]).sum()) + penalty * bent


def _guided(
    x: FloatArray, y: FloatArray, paces: tuple[FloatArray, FloatArray], anchors: IntArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Add progress as a column to both runs, weighted to make a deviation of one interval cost as much as noise."""
    intervals = (len(x) + len(y)) / 2
    totals = [pace[-1] for pace in paces]
    of_x, of_y = (pace / total * intervals for pace, total in zip(paces, totals, strict=True))
    # Between anchors, both runs progress equally by definition, even if one of them does extra work there.
    of_y = np.interp(of_y, [0, *of_y[anchors[:, 1]], intervals], [0, *of_x[anchors[:, 0]], intervals])
    # If a run does all extra work at one point, its progress half-way is off by up to a quarter of the difference.
    off = 1 + abs(totals[0] - totals[1]) / max(totals) * intervals / 4 / (len(anchors) + 1)
    weight = noise / off
    return np.column_stack((x, of_x * weight)), np.column_stack((y, of_y * weight))


def with_default_metrics(a: Trace, b: Trace) -> tuple[Trace, Trace, tuple[str, ...]]:
    """Return both traces, with IPC added if it can be computed, and the default metrics to align on; see `align`.

    Raises
    ------
    DataError
        They have no hardware metric in common.
    """
    if _RATE in a.metrics and _RATE in b.metrics:
        return a, b, (_RATE,)
    if all(name in trace.metrics for trace in (a, b) for name in (_WORK, _CYCLES)):
        a, b = (_with_rate(trace) for trace in (a, b))
        return a, b, (_RATE,)
    common = tuple(name for name in a.names("hardware", "simulated") if name in b.metrics)
    common = common or tuple(name for name in a.names("os") if name in b.metrics and not name.endswith(_TIMES))
    if not common:
        raise DataError(
            f"by default, runs are aligned on {_RATE} or on other hardware, simulated or operating-system metrics, but "
            "these traces have none of them in common: name the metrics to align on"
        )
    return a, b, common


def _with_rate(trace: Trace) -> Trace:
    """Return the trace with IPC added: instructions per cycle, 0 in intervals without cycles."""
    work, cycles = trace[_WORK], trace[_CYCLES]
    rate = np.divide(work, cycles, out=np.zeros(len(trace)), where=cycles > 0)
    metric = Metric(_RATE, "derived", "1", components=(_WORK, _CYCLES))
    return replace(trace, metrics={**trace.metrics, _RATE: metric}, columns={**trace.columns, _RATE: rate})


def _paces(a: Trace, b: Trace, pace: str | None) -> tuple[str, tuple[FloatArray, FloatArray]]:
    """Return the name of the pace (a counter or `time`), and both runs' progress at the middle of each interval."""
    name = pace or (_WORK if all(_WORK in trace.metrics and trace[_WORK].any() for trace in (a, b)) else "time")
    if name == "time":
        return name, (np.arange(len(a), dtype=np.float64), np.arange(len(b), dtype=np.float64))
    for trace in (a, b):
        gauge = trace.metrics[name].semantics != "counter"
        if gauge or trace[name].sum() <= 0:
            why = "is not a counter" if gauge else "counted nothing in one of the runs"
            raise DataError(
                f"metric {name!r} {why}, so it cannot be the `pace`: use a counter that grows with the work, or `time`"
            )
    return name, (np.cumsum(a[name]) - a[name] / 2, np.cumsum(b[name]) - b[name] / 2)
