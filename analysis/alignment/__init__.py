"""Which interval of one run shows the same work as which interval of another: dynamic time warping, anchors, scores.

Mytkowicz et al., "Aligning Traces for Performance Evaluation". The compiled kernels are loaded by the first alignment, so that
importing this package stays cheap.
"""

from unperturbed.analysis.alignment.carrying import Region, map_region, resample, share_out
from unperturbed.analysis.alignment.judging import judging_counters, possible_intervals, scores_of
from unperturbed.analysis.alignment.merging import Merged, Source, merge
from unperturbed.analysis.alignment.milestones import choose_anchors, milestone_anchors, milestone_positions
from unperturbed.analysis.alignment.pairwise import distance_matrix, warp_paths
from unperturbed.analysis.alignment.scores import ScoreSummary, milestone_scores, summarise_scores
from unperturbed.analysis.alignment.traces import Alignment, align, align_as_paper, with_default_metrics
from unperturbed.analysis.alignment.warp import WarpPath, anchored_dtw, dtw, dtw_cost

__all__ = [
    "Alignment",
    "Merged",
    "Region",
    "ScoreSummary",
    "Source",
    "WarpPath",
    "align",
    "align_as_paper",
    "anchored_dtw",
    "choose_anchors",
    "distance_matrix",
    "dtw",
    "dtw_cost",
    "judging_counters",
    "map_region",
    "merge",
    "milestone_anchors",
    "milestone_positions",
    "milestone_scores",
    "possible_intervals",
    "resample",
    "scores_of",
    "share_out",
    "summarise_scores",
    "warp_paths",
    "with_default_metrics",
]
