"""Dynamic time warping of series: exact warp paths, plain and through anchors, and all pairs of a set."""
