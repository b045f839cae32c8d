"""Alignment as in the paper, of runs that are prepared once and aligned with many others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unperturbed.analysis.alignment.dtw.paths import WarpPath, align_rows
from unperturbed.analysis.alignment.dtw.series import FloatArray
from unperturbed.analysis.alignment.milestones import (
    Milestones,
    cumulative,
    milestone_counts,
    require_same_total,
    shared_anchors,
)
from unperturbed.analysis.alignment.scaling import ascending_columns, common_scales, finite_values
from unperturbed.collectors.data import Trace


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """What all alignments of a run need of it."""

    on: tuple[str, ...]  # Metrics to align on
    rows: FloatArray  # (intervals, metrics): Their values
    ascending: FloatArray  # (metrics, intervals): The same in ascending order
    anchor: str | None  # The counter whose milestones are anchors
    milestones: Milestones | None  # Where they happened

    @classmethod
    def of(cls, trace: Trace, *, on: Sequence[str], anchor: str | None) -> PreparedRun:
        """Prepare a run."""
        rows = finite_values(trace, tuple(on), mend=False)
        milestones = None
        if anchor is not None:
            milestones = Milestones.of(cumulative(anchor, milestone_counts(trace, anchor), len(trace)))
        return cls(tuple(on), rows, ascending_columns(rows), anchor, milestones)


def align_prepared(a: PreparedRun, b: PreparedRun) -> WarpPath:
    """Return the path of the paper's method between two runs that were prepared alike; see `align_as_paper`."""
    scales = common_scales(a.on, a.ascending, b.ascending)
    anchors = []
    if a.anchor is not None and a.milestones is not None and b.milestones is not None:
        require_same_total(a.milestones.total, b.milestones.total, a.anchor)
        anchors = [(i, j) for i, j in shared_anchors(a.milestones, b.milestones).tolist()]
    return align_rows(a.rows / scales, b.rows / scales, anchors, penalty=0.0, band=None)


def align_as_paper(a: Trace, b: Trace, *, on: Sequence[str] = ("IPC",), anchor: str | None = None) -> WarpPath:
    """Return the path of the paper's method, as `align(…, penalty=0, flat="warped")` does, without assessing it.

    Parameters
    ----------
    a, b : Trace
        The runs.
    on : sequence of str, default ("IPC",)
        Metrics to align on.
    anchor : str, optional
        A software counter; all of its milestones serve.

    Raises
    ------
    DataError
        As for `align`.
    """
    return align_prepared(PreparedRun.of(a, on=on, anchor=anchor), PreparedRun.of(b, on=on, anchor=anchor))
