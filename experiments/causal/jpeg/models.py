"""Causal models of JPEG 2000 compression: of runs, of partial derivatives, and both ways merged into one graph.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 8.5 and figure 14: "The data
for lossless and lossy compression were analyzed independently, after which both resulting models were merged into one."
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path as Outline

from experiments.causal.jpeg.tables import Runs, Way
from experiments.common.figures import COLOURS, save
from unperturbed.analysis.causal import CausalModel, Knowledge, learn, partial_derivative
from unperturbed.analysis.causal.html.graph import Point, layered

DERIVATIVES = tuple(f"d{of}_d{over}" for of in ("T", "instr") for over in ("kernel", "block", "layers"))
"""Partial derivatives of time and instructions a pixel: over the kernel from 5/3 to 9/7, over numbers from least to
greatest."""
_MEASURED = ("bits_ppel", "instr_ppel", "L2M_ppel", "CPI", "T_ppel")


@dataclass(frozen=True, eq=False)
class Models:
    """What was learnt of one sweep."""

    runs: Runs  # The runs
    model: CausalModel  # Of parameters and per-pixel values
    # Of each of `DERIVATIVES`, by itself: what of the other parameters it depends on.
    derivatives: tuple[CausalModel, ...]

    def edges(self) -> tuple[tuple[str, str], ...]:
        """Return sources and targets of all edges."""
        return tuple((edge.source, edge.target) for model in (self.model, *self.derivatives) for edge in model.edges)

    def causes(self, name: str) -> tuple[str, ...]:
        """Return what has an edge to a variable."""
        return tuple(source for source, target in self.edges() if target == name)


@dataclass(frozen=True)
class Merged:
    """Both models in one graph."""

    tiers: tuple[tuple[str, ...], ...]  # Variables in the order of causes
    # With the ways of compression that have the edge.
    edges: tuple[tuple[str, str, frozenset[Way]], ...]


def learn_models(runs: Runs, *, test: str = "auto", subsamples: int = 10) -> Models:
    """Learn what causes what in the runs of one sweep, and what derivatives depend on."""
    measured = [name for name in _MEASURED if name not in runs.parameters]
    knowledge = Knowledge(tiers=[runs.parameters, *([name] for name in measured)], inputs=runs.parameters)
    table = runs.frame.select(*runs.parameters, *measured)
    model = learn(table, knowledge, test=test, subsamples=subsamples, quantify=False)
    derivatives = [_derivative(runs, name, test, subsamples) for name in DERIVATIVES if _over(name) in runs.parameters]
    return Models(runs, model, tuple(derivatives))


def merged(models: Iterable[Models]) -> Merged:
    """Merge models of several ways into one graph; of derivatives, as in the paper's, those of the time alone."""
    ways: dict[tuple[str, str], set[Way]] = {}
    for models_of_way in models:
        for edge in models_of_way.edges():
            if edge[1].startswith("dinstr"):
                continue
            ways.setdefault(edge, set()).add(models_of_way.runs.way)
    parameters = ("image", "width", "height", "kernel", "block", "layers")
    tiers: Sequence[Sequence[str]] = (parameters, *((name,) for name in _MEASURED), DERIVATIVES)
    met = {name for edge in ways for name in edge}
    kept = [tuple(name for name in tier if name in met or name in ("layers", "width", "height")) for tier in tiers]
    return Merged(
        tuple(tier for tier in kept if tier), tuple((*edge, frozenset(by_ways)) for edge, by_ways in ways.items())
    )


def _derivative(runs: Runs, name: str, test: str, subsamples: int) -> CausalModel:
    over, of = _over(name), f"{name.split('_', maxsplit=1)[0][1:]}_ppel"
    values = runs.frame[over].unique().sort().to_list()
    between = (values[0], values[-1])
    steps = partial_derivative(runs.frame, of, over, parameters=runs.parameters, between=between, name=name).steps
    others = [parameter for parameter in runs.parameters if parameter != over]
    knowledge = Knowledge(tiers=[others, [name]], inputs=others)
    return learn(steps.select(*others, pl.col(name)), knowledge, test=test, subsamples=subsamples, quantify=False)


def _over(name: str) -> str:
    """Return the parameter of a derivative."""
    return name.split("_d")[1]


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

    `graph`: Causes are left of their effects. A solid arrow is in both models, a dashed one in that of lossless
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
