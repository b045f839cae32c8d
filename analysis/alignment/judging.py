"""What software counters that two runs counted alike say of an alignment."""

from __future__ import annotations

import numpy as np

from unperturbed.analysis.alignment.scores import ScoreSummary, milestone_scores, summarise_scores
from unperturbed.analysis.alignment.warp import IntArray, WarpPath
from unperturbed.collectors.trace import Trace

__all__ = ["judging_counters", "possible_intervals", "scores_of"]


def judging_counters(a: Trace, b: Trace, *, anchor: str | None = None) -> list[str]:
    """Return the software counters that both runs counted alike, but for the anchor; the rarest first."""
    names = [
        name
        for name in a.names("software")
        if name != anchor
        and name in b.metrics
        and a.metrics[name].semantics == "counter"
        and np.issubdtype(a[name].dtype, np.integer)
        and a[name].sum() == b[name].sum() > 0
    ]
    return sorted(names, key=lambda name: int(a[name].sum()))


def scores_of(path: WarpPath, a: Trace, b: Trace, *, anchor: str | None = None) -> dict[str, ScoreSummary]:
    """Judge a path by every software counter that both runs counted alike, but for the anchor, which would flatter it.

    Returns
    -------
    dict
        Counter's name to the summary of its scores, rarest counter first; without those that no path element holds.
    """
    summaries = {
        name: summarise_scores(milestone_scores(path, np.cumsum(a[name]), np.cumsum(b[name])))
        for name in judging_counters(a, b, anchor=anchor)
    }
    return {name: summary for name, summary in summaries.items() if summary.elements}


def possible_intervals(a: Trace, b: Trace) -> IntArray:
    """Return which intervals of b can show the work of each interval of a, as their milestones tell for certain.

    Returns
    -------
    int64, shape (n, 2)
        First and last interval of b: not before the last milestone that a had passed, nor after the first that it had not come to.
        All of b where the runs have no software counter in common, or counted none alike.
    """
    possible = np.column_stack((np.zeros(len(a), np.int64), np.full(len(a), len(b) - 1)))
    for name in judging_counters(a, b):
        in_a, in_b = np.cumsum(a[name]), np.cumsum(b[name])
        passed = np.concatenate(([0], in_a[:-1]))
        first = np.where(passed > 0, np.searchsorted(in_b, passed), 0)
        last = np.minimum(np.searchsorted(in_b, in_a + 1), len(b) - 1)
        possible = np.column_stack((np.maximum(possible[:, 0], first), np.minimum(possible[:, 1], last)))
    return possible
