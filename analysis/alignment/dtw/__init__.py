"""Exact dynamic time warping of series: warp paths, plain or through anchors, and all pairs of a set."""
