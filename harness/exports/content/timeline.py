"""Alignment of all exported runs to the time axis of a reference run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unperturbed.analysis.alignment import Alignment, WarpPath, align
from unperturbed.collectors.data import Trace
from unperturbed.errors import DataError
from unperturbed.harness.exports.content.runs import ExportedRun, ExportedRuns
from unperturbed.harness.results.check import align_on
from unperturbed.harness.spec.sections.campaign import ANCHOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.harness.spec.campaign_spec import CampaignSpec


def align_runs(runs: ExportedRuns, spec: CampaignSpec) -> tuple[ExportedRuns, tuple[str, ...]]:
    """Align all runs to the first anchor run, or else the first run; return notes on unreliable alignments."""
    notes, aligned = [], []
    reference = next((run for run in runs if run.configuration == ANCHOR), runs.runs[0])
    for run in runs:
        if run is reference:
            aligned.append(run)
            continue
        try:
            path = _alignment(spec, reference, run)
        except DataError as error:
            raise DataError(
                f"run {run.title} cannot be aligned with run {reference.title}: {error}; select other runs with "
                "--configuration or --run"
            ) from None
        if path.warning:
            notes.append(f"Run {run.title}: {path.warning}")
        begin, end = place_on_axis(path, reference.trace)
        aligned.append(replace(run, trace=replace(run.trace, begin_ns=begin, end_ns=end)))
    return replace(runs, runs=tuple(aligned), aligned_to=reference.id), tuple(notes)


def _alignment(spec: CampaignSpec, reference: ExportedRun, run: ExportedRun) -> Alignment:
    shared = [name for name in align_on(spec, reference.trace) if name in run.trace.metrics]
    anchor = spec.analysis.anchor
    anchored = anchor is not None and all(anchor in exported_run.trace.metrics for exported_run in (reference, run))
    return align(reference.trace, run.trace, on=shared or None, anchor=anchor if anchored else None)


def place_on_axis(path: WarpPath, reference: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return begin and end of an aligned run's intervals on the reference's time axis, without adding gaps.

    A reference interval that is aligned with several intervals of the other run is divided evenly among them.
    `path`: `x_index` numbers the reference's intervals, `y_index` the other run's.
    """
    x, y = path.x_index, path.y_index
    many = np.bincount(x)[x]
    rank = np.arange(len(x)) - np.searchsorted(x, x)
    length = (reference.end_ns - reference.begin_ns)[x]
    begin = reference.begin_ns[x] + length * rank // many
    end = reference.begin_ns[x] + length * (rank + 1) // many
    first = np.searchsorted(y, np.arange(y[-1] + 1))
    last = np.append(first[1:], len(y)) - 1
    return begin[first].astype(np.int64), end[last].astype(np.int64)
