"""Which interval of one run shows the same work as which interval of another: dynamic time warping, anchors, scores.

Mytkowicz et al., "Aligning Traces for Performance Evaluation". The compiled kernels are loaded by the first alignment, so that
importing this package stays cheap.
"""

from unperturbed.analysis.alignment.scores import milestone_scores
from unperturbed.analysis.alignment.traces import align, milestone_anchors, resample
from unperturbed.analysis.alignment.warp import WarpPath, anchored_dtw, dtw

__all__ = ["WarpPath", "align", "anchored_dtw", "dtw", "milestone_anchors", "milestone_scores", "resample"]
