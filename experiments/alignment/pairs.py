"""Pairs of runs of the alignment workloads, and the ways to align them that are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.alignment import Alignment, WarpPath, align, anchored_dtw, milestone_anchors, milestone_scores
from unperturbed.collectors.data import Trace


@dataclass(frozen=True)
class Workload:
    """A campaign and its milestones."""

    name: str  # Of its spec
    subsets: tuple[str, str]  # The two configurations whose runs are aligned
    anchor: str  # The milestone that the runs are aligned by
    judges: tuple[str, ...]  # The milestones that judge the alignment, rarest first
    paper: str  # The paper's program of the same kind


WORKLOADS = (
    Workload("records", ("sorting", "reporting"), "deleted", ("swaps",), "db"),
    Workload("rules", ("matching", "memory"), "fired", ("comparisons",), "jess"),
    Workload("tachyon", ("normals", "rays"), "rows", ("spheres", "polygons"), "raytrace"),
    Workload("raytracer", ("normals", "crossings"), "pictures", ("spheres", "polygons"), "raytrace"),
)


PROCESSOR_WORKLOADS = (
    Workload("clips", ("matching", "memory"), "rounds", ("fired", "comparisons"), "jess"),
    Workload("tachyon_long", ("normals", "rays"), "rows", ("spheres", "polygons"), "raytrace"),
)
"""Programs of the world, for a processor that counts."""


@dataclass(frozen=True)
class Pair:
    """Two runs of one workload that collected different metrics."""

    # a, b: The runs.
    a: Trace
    b: Trace

    def counts(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cumulative counts of a milestone in both runs."""
        return np.cumsum(self.a[name]), np.cumsum(self.b[name])

    def scores(self, path: WarpPath, milestone: str) -> NDArray[np.int64]:
        """Judge a path."""
        return milestone_scores(path, *self.counts(milestone))


Way = Callable[[Pair, str, int], WarpPath]
"""Aligns a pair through a number of milestones of an anchor."""


def plain(pair: Pair, anchor: str, budget: int) -> WarpPath:
    """Align as the paper does: no penalty, anchors spread evenly over the run (section 5.3)."""
    possible = milestone_anchors(*pair.counts(anchor), name=anchor)
    wanted = np.arange(1, budget + 1) / (budget + 1) * len(pair.a)
    nearest = np.unique([int(np.abs(possible[:, 0] - place).argmin()) for place in wanted]).astype(int)
    cells = [(int(i), int(j)) for i, j in possible[nearest]]
    return anchored_dtw(pair.a["IPC"], pair.b["IPC"], cells)


def chosen(pair: Pair, anchor: str, budget: int) -> WarpPath:
    """Align as the paper does, but through anchors that the tool chooses, and without uninformative short intervals."""
    return align(pair.a, pair.b, anchor=anchor, budget=budget, penalty=0.0, flat="warped", pace="time")


def penalised(pair: Pair, anchor: str, budget: int) -> WarpPath:
    """Align with the penalty besides."""
    return align(pair.a, pair.b, anchor=anchor, budget=budget, flat="warped", pace="time")


def own(pair: Pair, anchor: str, budget: int) -> Alignment:
    """Align with all that the tool does by default: guided by instructions, and at their pace in flat stretches."""
    return align(pair.a, pair.b, anchor=anchor, budget=budget)


def own_by_time(pair: Pair, anchor: str, budget: int) -> Alignment:
    """Align as the tool does when there is nothing but the metric: flat stretches at an even pace in time."""
    return align(pair.a, pair.b, anchor=anchor, budget=budget, pace="time")


WAYS: Mapping[str, Way] = {
    "DTW, anchors evenly spread (the paper)": plain,
    "anchors chosen, short intervals mended": chosen,
    "and a penalty": penalised,
    "and flat stretches even in time": own_by_time,
    "guided by instructions, and even in them (default)": own,
}


def pairs_of(workload: Workload, campaign: Path, most: int) -> list[Pair]:
    """Return pairs of runs of the two subsets: first with first, and so on, then the others."""
    runs: dict[str, list[Trace]] = {name: [] for name in workload.subsets}
    for path in sorted(campaign.glob("runs/*/trace.parquet")):
        trace = Trace.read(path)
        if path.parent.name.isdigit() and int(path.parent.name) and trace.attributes["configuration"] in runs:
            runs[trace.attributes["configuration"]].append(trace)
    first, second = (runs[name] for name in workload.subsets)
    order = sorted(
        itertools.product(range(len(first)), range(len(second))), key=lambda at: ((at[1] - at[0]) % len(second), at[0])
    )
    return [Pair(first[i], second[j]) for i, j in order][:most]
