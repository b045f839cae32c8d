"""Alignment of two traces: the metrics and their scale, the anchors, and the pace in flat stretches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from unperturbed.analysis.alignment import merge_text
from unperturbed.analysis.alignment.dtw.paths import WarpPath, anchored_dtw
from unperturbed.analysis.alignment.dtw.series import FloatArray, IntArray
from unperturbed.analysis.alignment.flatness import (
    path_from_positions,
)
from unperturbed.analysis.alignment.milestones import (
    ScoreSummary,
    milestone_anchors,
    milestone_counts,
    milestone_positions,
    possible_intervals,
    score_summaries,
)
from unperturbed.analysis.alignment.moved import MovedStretch, find_moved
from unperturbed.analysis.alignment.prepared_runs import (
    ascending_columns,
    common_scales,
    diagonal,
    finite_values,
    program_cuts,
    same_work,
)
from unperturbed.analysis.alignment.warping import WarpSettings, align_without, kept_anchors, path_cost
from unperturbed.collectors.data import Metric, Trace
from unperturbed.collectors.data.trace import SCALING, require_traces
from unperturbed.common.table import Table
from unperturbed.errors import DataError

PENALTY_RULE = 5.0
"""Default penalty, as a multiple of the median distance between intervals that plain dynamic time warping aligns."""

_MUCH_FLAT = 0.25
"""Share of flat path elements above which an alignment gets a warning."""

_MUCH_CONTRADICTED = 0.1
"""Share of path elements that milestones contradict above which an alignment gets a warning."""

_RATE, _CYCLES = "IPC", "PAPI_TOT_CYC"
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
    moved : array of int64, shape (k, 4)
        Stretches that changed places: first interval and the one after the last in a, then the same in b. The path
        itself is monotone: it aligns their intervals with a neighbour that stayed in place.
    moved_index : array of int64, shape (elements, 2)
        Intervals of a and b that are aligned inside the moved stretches.
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
    moved: IntArray = field(default_factory=lambda: np.empty((0, 4), np.int64))
    moved_index: IntArray = field(default_factory=lambda: np.empty((0, 2), np.int64))

    @cached_property
    def scores(self) -> dict[str, ScoreSummary]:
        """Scores by each software counter with the same total in both runs, except the anchor; rarest counter first.

        In moved stretches, their own alignment is scored.
        """
        return score_summaries(self._matched(), *self.runs, anchor=self.anchor)

    def _matched(self) -> WarpPath:
        """Return the elements that count: those of the path outside moved stretches, and those inside, by a's interval.

        They are no warp path, because b's intervals come in another order.
        """
        stays = np.ones(len(self), bool)
        for of_a, end_a, of_b, end_b in self.moved.tolist():
            stays &= (self.x_index < of_a) | (self.x_index >= end_a)
            stays &= (self.y_index < of_b) | (self.y_index >= end_b)
        i = np.concatenate((self.x_index[stays], self.moved_index[:, 0]))
        j = np.concatenate((self.y_index[stays], self.moved_index[:, 1]))
        order = np.argsort(i, kind="stable")
        return WarpPath(i[order], j[order], self.cost)

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
            "moved": self.moved.tolist(),
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
        return _share(self.flat, self.warped)

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
    moved: Literal["absorb", "match"] = "absorb",
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
        many, `dtw` aligns interval i with interval i; likewise for simulated runs of one round that do the same work.
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
    moved : {"absorb", "match"}, default "absorb"
        What to do with stretches that change places, such as a garbage collection or a compilation that comes earlier
        in one run. `absorb` aligns their intervals with some neighbour, as any monotone path must. `match` searches for
        stretches of at least 4 intervals that the path aligns badly and that match each other elsewhere, and aligns
        them and the rest separately. It takes only what reduces the total cost by more than a price for each stretch;
        if there is no such stretch, the result is that of `absorb`. Nothing is matched if more than a quarter of the
        path is flat and there are no anchors, because the stretches then hold the path, or if both runs' intervals
        ended at the same events of the program.

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
    if moved not in ("absorb", "match") or (moved == "match" and method == "milestones"):
        raise ValueError(f"`moved={moved!r}`: use `absorb`, or with another method than `milestones` also `match`")
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
    pace_name, steps = _steps_of_pace(a, b, pace)
    free = anchored_dtw(x, y, (), band=band)
    distances = np.abs(x[free.x_index] - y[free.y_index]).sum(axis=1)
    # The median is 0 for a metric that is mostly constant.
    noise = float(np.median(distances)) or float(distances.mean())
    rule = PENALTY_RULE * noise
    fine = rule if penalty is None else penalty
    counts = [milestone_counts(trace, anchor) for trace in (a, b)] if anchor is not None else []
    stretches, evened, found = np.empty((0, 2), np.int64), False, list[MovedStretch]()
    if method == "milestones":
        if anchor is None:
            raise DataError(
                '`method="milestones"` needs an anchor: name a software counter, whose events are the milestones'
            )
        index = path_from_positions(milestone_positions(*counts, name=anchor), len(y))
        warped = WarpPath(*index, path_cost(x, y, *index, fine))
    elif (len(x) == len(y) and program_cuts(a) is not None and program_cuts(a) == program_cuts(b)) or (
        method == "dtw" and same_work(a, b)
    ):
        warped = diagonal(x, y)
        index = (warped.x_index, warped.y_index)
    else:
        anchors = milestone_anchors(*counts, name=anchor) if anchor is not None else np.empty((0, 2), np.int64)
        settings = WarpSettings(pace_name, noise, fine, rule, budget, band, evens=flat == "even")
        if moved == "match":
            found = find_moved(
                x,
                y,
                penalty=max(fine, rule),
                warp=lambda keep_x, keep_y: anchored_dtw(
                    x[keep_x],
                    y[keep_y],
                    kept_anchors(anchors, keep_x, keep_y).tolist(),
                    penalty=max(fine, rule),
                    band=band,
                ),
            )
        warped, index, stretches = align_without(found, x, y, steps, anchors, settings)
        if found and not warped.anchors and _share(stretches, warped) > _MUCH_FLAT:
            # Nothing but the stretches themselves holds the path, so it gets loose without them.
            found = []
            warped, index, stretches = align_without(found, x, y, steps, anchors, settings)
        evened = settings.evens
    return Alignment(
        *index,
        path_cost(x, y, *index, fine),
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
        moved=np.array([(s.x.start, s.x.stop, s.y.start, s.y.stop) for s in found], np.int64).reshape(-1, 4),
        moved_index=np.concatenate([np.empty((0, 2), np.int64), *(stretch.index for stretch in found)]),
    )


def _share(stretches: IntArray, path: WarpPath) -> float:
    """Return the share of a path's elements that are in stretches."""
    return float((stretches[:, 1] - stretches[:, 0]).sum()) / len(path)


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
    common = common or tuple(name for name in a.names("os") if name in b.metrics and not name.endswith(SCALING))
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


def _steps_of_pace(a: Trace, b: Trace, pace: str | None) -> tuple[str, tuple[FloatArray, FloatArray]]:
    """Return the name of the pace (a counter or `time`), and both runs' progress in each interval."""
    name = pace or (_WORK if all(_WORK in trace.metrics and trace[_WORK].any() for trace in (a, b)) else "time")
    if name == "time":
        return name, (np.ones(len(a)), np.ones(len(b)))
    for trace in (a, b):
        gauge = trace.metrics[name].semantics != "counter"
        if gauge or trace[name].sum() <= 0:
            why = "is not a counter" if gauge else "counted nothing in one of the runs"
            raise DataError(
                f"metric {name!r} {why}, so it cannot be the `pace`: use a counter that grows with the work, or `time`"
            )
    return name, (np.asarray(a[name], np.float64), np.asarray(b[name], np.float64))
