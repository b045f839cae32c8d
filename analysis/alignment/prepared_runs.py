"""Common scales for the values of two runs, and the paper's alignment of runs that are prepared once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.alignment.dtw.paths import WarpPath, align_rows
from unperturbed.analysis.alignment.dtw.series import FloatArray
from unperturbed.analysis.alignment.milestones import (
    Milestones,
    cumulative,
    milestone_counts,
    require_same_total,
    shared_anchors,
)
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import PROGRAM_CLOCK, WORK_CLOCKS
from unperturbed.errors import DataError

_RANGE_PERCENT = (5, 95)
"""Percentiles that limit a metric's scale: they span a program's phases and exclude single outlying intervals."""

_OF_ROUND = ("clock", "block", "environment_pad_bytes", "layout")
_SAME_COUNTS, _SAME_COURSE = 0.01, 0.99
"""What runs of one round share, and how alike their counts are if they do the same work."""

_SHORT = 0.25
"""An interval shorter than this share of the median interval, as after a late tick, has no meaningful values."""


def finite_values(trace: Trace, on: tuple[str, ...], *, mend: bool) -> FloatArray:
    """Return a trace's values of the given metrics, shape (intervals, metrics); raise DataError if one is not finite.

    `mend`: Interpolate intervals that are much shorter than the median interval from their neighbours.
    """
    if not on:
        raise DataError("no metric to align on: name at least one metric, such as IPC")
    rows = trace.values(on)
    if mend:
        lasted = trace.end_ns - trace.begin_ns
        long, at = lasted >= _SHORT * np.median(lasted), np.arange(len(rows))
        if not long.all():
            rows = np.column_stack([np.where(long, column, np.interp(at, at[long], column[long])) for column in rows.T])
    if not np.isfinite(rows).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(rows))[0])
        of = f" of run {trace.attributes['run']}" if "run" in trace.attributes else ""
        raise DataError(
            f"metric {on[column]!r}{of} is {rows[row, column]} in interval {row} (counted from 0): align on a metric "
            "that has a finite value in every interval"
        )
    return rows


def ascending_columns(rows: FloatArray) -> FloatArray:
    """Return the values of each metric in ascending order, shape (metrics, intervals)."""
    return np.sort(rows.T, axis=1)


def common_scales(on: tuple[str, ...], x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the divisor of each metric, from both runs' `ascending_columns`: the range without outlying intervals."""
    # Swapped runs give the same divisors to the last bit. A stable sort merges two ascending columns.
    merged = np.sort(np.concatenate((x, y), axis=1), axis=1, kind="stable")
    return np.array([_scale(name, ascending) for name, ascending in zip(on, merged, strict=True)])


def _scale(name: str, values: FloatArray) -> float:
    low, high = (percentile(values, percent) for percent in _RANGE_PERCENT)
    if high > low:
        return high - low
    spread = float(np.abs(values - np.median(values)).mean())
    if spread == 0:
        raise DataError(
            f"metric {name!r} is {values[0]:g} in every interval of both runs: align on a metric that varies"
        )
    return spread


def percentile(ascending: FloatArray, percent: float) -> float:
    """Return `numpy.percentile` of sorted values, to the last bit, in a tenth of its time for few values."""
    place = percent / 100 * (len(ascending) - 1)
    at = int(place)
    below, above = float(ascending[at]), float(ascending[min(at + 1, len(ascending) - 1)])
    share = place - at
    return above - (above - below) * (1 - share) if share >= 0.5 else below + (above - below) * share


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that is prepared once for all of its alignments."""

    on: tuple[str, ...]  # Metrics to align on
    rows: FloatArray  # (intervals, metrics): The metrics' values
    ascending: FloatArray  # (metrics, intervals): The same values in ascending order
    anchor: str | None  # The counter whose milestones are anchors
    milestones: Milestones | None  # The anchor's milestones
    cuts: tuple[str, int] | None = None  # As for `program_cuts`

    @classmethod
    def of(cls, trace: Trace, *, on: Sequence[str], anchor: str | None) -> PreparedRun:
        """Prepare a run."""
        rows = finite_values(trace, tuple(on), mend=False)
        milestones = None
        if anchor is not None:
            milestones = Milestones.of(cumulative(anchor, milestone_counts(trace, anchor), len(trace)))
        return cls(tuple(on), rows, ascending_columns(rows), anchor, milestones, program_cuts(trace))


def program_cuts(trace: Trace) -> tuple[str, int] | None:
    """Return the metric whose events ended a run's intervals, and their number in an interval; None for other runs."""
    facts = trace.attributes
    if facts.get("clock") != PROGRAM_CLOCK or not facts.get("interval_metric"):
        return None
    return str(facts["interval_metric"]), int(facts["interval_ns"])


def same_work(a: Trace, b: Trace) -> bool:
    """Return whether interval i of two simulated runs of one round shows the same work.

    Runs of a round have the same environment and layout. That intervals of equal work then hold the same is seen in
    each metric which both count: its counts in an interval differ by at most `_SAME_COUNTS` of the mean, on average,
    and correlate by at least `_SAME_COURSE`.
    """
    about = [[run.attributes.get(name) for name in _OF_ROUND] for run in (a, b)]
    in_round = about[0] == about[1] and about[0][0] in WORK_CLOCKS and about[0][1] is not None
    if (
        not in_round
        or len(a) != len(b)
        or any(metric.kind == "hardware" for run in (a, b) for metric in run.metrics.values())
    ):
        return False
    both = [name for name in a.names("simulated") if name in b]
    here, there = (np.asarray(run.values(both), np.float64) for run in (a, b))
    if not both or np.any(np.abs(here - there).mean(axis=0) > _SAME_COUNTS * here.mean(axis=0)):
        return False
    centred = [side - side.mean(axis=0) for side in (here, there)]
    sizes = [np.sqrt((side**2).sum(axis=0)) for side in centred]
    return bool(np.all((centred[0] * centred[1]).sum(axis=0) >= _SAME_COURSE * sizes[0] * sizes[1]))


def diagonal(x: FloatArray, y: FloatArray) -> WarpPath:
    """Return the path that aligns each interval with the one of the same number; both runs have equally many."""
    same = np.arange(len(x))
    return WarpPath(same, same, float(np.abs(x - y).sum()))


def align_prepared(a: PreparedRun, b: PreparedRun) -> WarpPath:
    """Align two runs that were prepared alike by the paper's method; see `align_as_paper`."""
    milestones = [] if a.milestones is None or b.milestones is None else [a.milestones, b.milestones]
    if milestones:
        require_same_total(milestones[0].counts, milestones[1].counts, str(a.anchor))
    if a.cuts is not None and a.cuts == b.cuts and len(a.rows) == len(b.rows):
        return diagonal(a.rows, b.rows)
    scales = common_scales(a.on, a.ascending, b.ascending)
    anchors = []
    if milestones:
        anchors = [(i, j) for i, j in shared_anchors(milestones[0], milestones[1]).tolist()]
    return align_rows(a.rows / scales, b.rows / scales, anchors, penalty=0.0, band=None)


def align_as_paper(a: Trace, b: Trace, *, on: Sequence[str] = ("IPC",), anchor: str | None = None) -> WarpPath:
    """Align two runs by the paper's method, like `align(…, method="paper")`, without assessing the path.

    Parameters
    ----------
    a, b : Trace
        The runs.
    on : sequence of str, default ("IPC",)
        Metrics to align on.
    anchor : str, optional
        A software counter; all of its milestones may serve as anchors.

    Raises
    ------
    DataError
        As for `align`.

    Notes
    -----
    Interval i is aligned with interval i if both runs' intervals ended at the same events of the program, and they have
    equally many.
    """
    return align_prepared(PreparedRun.of(a, on=on, anchor=anchor), PreparedRun.of(b, on=on, anchor=anchor))
