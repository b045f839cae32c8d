"""Which interval of one run shows the same work as which interval of another: dynamic time warping, anchors, scores.

Mytkowicz et al., "Aligning Traces for Performance Evaluation". The compiled kernels are loaded by the first alignment, so that
importing this package stays cheap.
"""

from unperturbed.analysis.alignment.carrying import Region, map_region, resample
from unperturbed.analysis.alignment.flatness import Flatness, flatness
from unperturbed.analysis.alignment.milestones import choose_anchors, milestone_anchors, milestone_positions
from unperturbed.analysis.alignment.scores import ScoreSummary, milestone_scores, summarise_scores
from unperturbed.analysis.alignment.traces import Alignment, align
from unperturbed.analysis.alignment.warp import WarpPath, anchored_dtw, dtw

__all__ = [
    "Alignment",
    "Flatness",
    "Region",
    "ScoreSummary",
    "WarpPath",
    "align",
    "anchored_dtw",
    "choose_anchors",
    "dtw",
    "flatness",
    "map_region",
    "milestone_anchors",
    "milestone_positions",
    "milestone_scores",
    "resample",
    "summarise_scores",
]
