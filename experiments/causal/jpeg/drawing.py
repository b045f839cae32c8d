"""Figure 14 again: one graph of lossless and lossy compression."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path as Outline

from experiments.causal.jpeg.models import Merged
from experiments.causal.jpeg.tables import Way
from experiments.common.figures import COLOURS, save
from unperturbed.analysis.causal.html.graph import Point, layered

_LETTER, _PADDING = 7.5, 14.0
_HALF_HEIGHT = 15.0
_DOTS_AN_INCH = 100.0
_STYLES: Mapping[frozenset[Way], tuple[str, str, str]] = {
    frozenset({"lossless", "lossy"}): ("solid", "#1f2a37", "both"),
    frozenset({"lossless"}): ("dashed", COLOURS[0], "lossless only"),
    frozenset({"lossy"}): ("dotted", COLOURS[5], "lossy only"),
}


def draw_merged(path: Path, graph: Merged) -> None:
    """Draw the merged graph.

    Parameters
    ----------
    path : Path
        An SVG file.
    graph : Merged
        Causes are left of their effects. A solid arrow is in both models, a dashed one in that of lossless
        compression alone, as in the paper's figure, a dotted one in that of lossy compression alone.
    """
    names = [name for tier in graph.tiers for name in tier]
    number = {name: at for at, name in enumerate(names)}
    widths = [_LETTER * len(name) + _PADDING for name in names]
    arrows = [(number[source], number[target]) for source, target, _ in graph.edges]
    layout = layered(widths, arrows, [[number[name] for name in tier] for tier in graph.tiers])
    figure = Figure(figsize=(layout.width / _DOTS_AN_INCH, layout.height / _DOTS_AN_INCH + 0.4))
    axes = figure.add_axes((0, 0.4 / figure.get_figheight(), 1, 1 - 0.4 / figure.get_figheight()))
    axes.set(xlim=(0, layout.width), ylim=(layout.height, 0))
    axes.axis("off")
    shown: dict[str, tuple[str, str]] = {}
    for (source, target, ways), route in zip(graph.edges, layout.routes, strict=True):
        line, colour, told = _STYLES[ways]
        ends = _clipped(route, widths[number[source]], widths[number[target]])
        look: dict[str, Any] = {"linewidth": 1.3, "linestyle": line, "color": colour}
        axes.add_patch(FancyArrowPatch(path=_outline(ends), arrowstyle="-|>", mutation_scale=10, **look))
        shown[told] = line, colour
    for name, (x, y) in zip(names, layout.middles, strict=True):
        box = {"boxstyle": "round,pad=0.35", "facecolor": "#f4f6f8", "edgecolor": "#8a949e"}
        axes.text(x, y, name, ha="center", va="center", fontsize=9, bbox=box, zorder=3)
    for told, (line, colour) in sorted(shown.items()):
        axes.plot([], [], linestyle=line, color=colour, linewidth=1.3, label=told)
    figure.legend(loc="lower center", ncols=3, frameon=False)
    save(figure, path)


def _clipped(route: tuple[Point, ...], source: float, target: float) -> list[Point]:
    """Return a route that begins and ends at the borders of its boxes."""
    (x0, y0), (x1, y1) = route[0], route[-1]
    forward = 1 if x1 >= x0 else -1
    return [(x0 + forward * source / 2, y0), *route[1:-1], (x1 - forward * target / 2, y1)]


def _outline(points: list[Point]) -> Outline:
    """Return a smooth line through points, level at each."""
    corners, codes = [points[0]], [Outline.MOVETO]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (x0 + x1) / 2
        corners += [(middle, y0), (middle, y1), (x1, y1)]
        codes += [Outline.CURVE4] * 3
    return Outline(corners, codes)
