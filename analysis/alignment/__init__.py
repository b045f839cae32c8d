"""Alignment of runs: find the intervals of two runs that show the same work.

Based on Mytkowicz et al., "Aligning Traces for Performance Evaluation". The first alignment loads the compiled kernels,
to keep the import of this package cheap.
"""

from unperturbed.analysis.alignment.dtw.pairs import distance_matrix, warp_paths
from unperturbed.analysis.alignment.dtw.paths import WarpPath, anchored_dtw, dtw, dtw_cost
from unperturbed.analysis.alignment.merging import (
    MergedSource,
    MergedTrace,
    Region,
    map_region,
    merge,
    redistribute_counts,
    resample,
)
from unperturbed.analysis.alignment.milestones import (
    ScoreSummary,
    choose_anchors,
    matching_counters,
    milestone_anchors,
    milestone_positions,
    milestone_scores,
    possible_intervals,
    score_summaries,
    summarise_scores,
)
from unperturbed.analysis.alignment.pairwise_alignment import PairwiseAlignment, pairwise
from unperturbed.analysis.alignment.prepared_runs import align_as_paper
from unperturbed.analysis.alignment.traces import Alignment, align, with_default_metrics
from unperturbed.common.faces import lazy_names

__all__ = [
    "Alignment",
    "MergedSource",
    "MergedTrace",
    "PairwiseAlignment",
    "Region",
    "ScoreSummary",
    "WarpPath",
    "align",
    "align_as_paper",
    "anchored_dtw",
    "choose_anchors",
    "distance_matrix",
    "dtw",
    "dtw_cost",
    "map_region",
    "matching_counters",
    "merge",
    "milestone_anchors",
    "milestone_positions",
    "milestone_scores",
    "pairwise",
    "possible_intervals",
    "redistribute_counts",
    "resample",
    "score_summaries",
    "summarise_scores",
    "warp_paths",
    "with_default_metrics",
]

__getattr__, __dir__ = lazy_names(__name__, former={"unperturbed.analysis.alignment": "describe=merge_text"})
