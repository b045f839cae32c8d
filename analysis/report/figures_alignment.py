"""Figures of an alignment: two signals joined by the warp path, the path itself, and how far it misses the milestones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.report.chart import Figure, axis, bucket_means, bucket_width, layout, plot_text, short
from unperturbed.analysis.report.names import plain_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unperturbed.analysis.report.content import AlignmentExample

__all__ = ["alignment_figures", "score_shares"]

_POINTS = 500
_WARP_LINES = 70
_LARGEST_SCORE = 12
"""Scores above are drawn as one bar."""


def alignment_figures(example: AlignmentExample) -> list[Figure]:
    """Draw the signals with warp lines, the warp path, and the scores of the milestones when there are any.

    Notes
    -----
    After figures 4, 7 and 9 of Mytkowicz et al., "Aligning Traces for Performance Evaluation".
    """
    figures = [_signals(example), _path(example)]
    return [*figures, _scores(example)] if np.asarray(example.milestone_scores).size else figures


def _unit(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale to [0, 1], a constant series to 0.5."""
    low, high = float(np.nanmin(series)), float(np.nanmax(series))
    return (series - low) / (high - low) if high > low else np.full(series.shape, 0.5)


def _signals(example: AlignmentExample) -> Figure:
    x, y = _unit(np.asarray(example.x, dtype=float)), _unit(np.asarray(example.y, dtype=float))
    path_x, path_y = np.asarray(example.x_index), np.asarray(example.y_index)
    step = max(1, path_x.size // _WARP_LINES)
    warp_x: list[float | None] = []
    warp_y: list[float | None] = []
    for i, j in zip(path_x[::step], path_y[::step], strict=True):
        warp_x += [int(i), int(j), None]
        warp_y += [*short([1.3 + x[i], y[j]], 3), None]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "joined by the path",
            "x": warp_x,
            "y": warp_y,
            "line": {"color": "@muted-line", "width": 1},
            "hoverinfo": "skip",
        }
    ]
    for name, series, offset, colour in ((example.first, x, 1.3, "@series-1"), (example.second, y, 0.0, "@series-2")):
        width = bucket_width(series.size, _POINTS)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plot_text(f"run {name}"),
                "x": short(np.arange(0, series.size, width) + (width - 1) / 2, 5),
                "y": short(bucket_means(series + offset, _POINTS), 3),
                "line": {"color": colour, "width": 1.8},
                "hovertemplate": "interval %{x:.0f}",
            }
        )
    figure = layout(360, margin={"l": 20, "r": 20, "t": 40, "b": 54}, shapes=[_flat_band(*stretch) for stretch in example.flat])
    figure["xaxis"] = axis("interval")
    figure["yaxis"] = axis(visible=False, range=[-0.08, 2.45])
    return Figure(
        "alignment-signals",
        data,
        figure,
        f"{plain_name(example.metric)} of runs {example.first} and {example.second}, one above the other, joined where they are aligned.",
    )


def _flat_band(start: int, stop: int) -> dict[str, Any]:
    """Return the shade behind a stretch of the upper run that is flat but for noise."""
    return {
        "type": "rect",
        "layer": "below",
        "x0": start,
        "x1": stop - 1,
        "y0": 1.25,
        "y1": 2.35,
        "line": {"width": 0},
        "fillcolor": "@muted-bar",
        "opacity": 0.35,
    }


def _path(example: AlignmentExample) -> Figure:
    path_x, path_y = np.asarray(example.x_index), np.asarray(example.y_index)
    step = max(1, path_x.size // 1500)
    ends = [np.asarray(example.x).size - 1, np.asarray(example.y).size - 1]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "equal pace",
            "x": [0, ends[0]],
            "y": [0, ends[1]],
            "line": {"color": "@muted-line", "width": 1.5, "dash": "dash"},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "warp path",
            "x": path_x[::step].tolist(),
            "y": path_y[::step].tolist(),
            "line": {"color": "@series-1", "width": 2},
            "hovertemplate": "interval %{x} ↔ interval %{y}<extra></extra>",
        },
    ]
    figure = layout(330, margin={"l": 64, "r": 16, "t": 40, "b": 54})
    figure["xaxis"] = axis(plot_text(f"interval of {example.first}"), rangemode="tozero")
    figure["yaxis"] = axis(plot_text(f"interval of {example.second}"), rangemode="tozero")
    return Figure(
        "alignment-path",
        data,
        figure,
        "The warp path: which interval of one run is aligned with which of the other; a straight diagonal means equal pace.",
    )


def score_shares(scores: NDArray[np.int64]) -> dict[int, float]:
    """Return score to the share of the path's milestone steps that have it; all above the largest drawn are joined."""
    clipped = np.minimum(np.asarray(scores, dtype=np.int64), _LARGEST_SCORE + 1)
    counts = np.bincount(clipped)
    return {score: float(count / clipped.size) for score, count in enumerate(counts)}


def _scores(example: AlignmentExample) -> Figure:
    shares = score_shares(np.asarray(example.milestone_scores))
    names = [f"{score}" if score <= _LARGEST_SCORE else f"> {_LARGEST_SCORE}" for score in shares]
    data = [
        {
            "type": "bar",
            "x": names,
            "y": short((100 * share for share in shares.values()), 3),
            "text": [f"{100 * share:.0f} %" if share >= 0.005 else "" for share in shares.values()],
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {"color": ["@series-3", *["@muted-bar"] * (len(shares) - 1)]},
            "hovertemplate": "%{y:.1f} % miss by %{x} intervals<extra></extra>",
        }
    ]
    figure = layout(330, margin={"l": 64, "r": 16, "t": 40, "b": 54}, showlegend=False)
    figure["xaxis"] = axis("milestone missed by … intervals (0: none)", type="category", showgrid=False)
    figure["yaxis"] = axis("share of path steps", ticksuffix=" %", rangemode="tozero")
    return Figure("alignment-scores", data, figure, "How far the aligned intervals miss the milestones they share.")
