"""Figures of the causal experiments: a learnt graph, and points with curves, as SVG files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from experiments.common.figures import COLOURS, save
from experiments.common.figures import panels as make_axes
from unperturbed.analysis.causal import CausalModel
from unperturbed.analysis.causal.html.graph import graph_svg

_STYLE = """
.line { fill: none; stroke: #1f2a37; }
.given .line { stroke: #9aa3ad; }
.open .line { stroke: #b26a00; }
marker path { fill: #1f2a37; }
marker.given path { fill: #9aa3ad; }
marker.open circle { fill: #ffffff; stroke: #b26a00; stroke-width: 2; }
.node rect { fill: #f4f6f8; stroke: #8a949e; stroke-width: 1.5; }
.node text { fill: #1f2a37; font: 600 14px system-ui, "Helvetica Neue", Arial, sans-serif; }
.node.discrete rect { fill: #fdf3e1; }
"""
_SVG = "http://www.w3.org/2000/svg"


@dataclass(frozen=True)
class Points:
    """Points of one colour, and the curve through them."""

    label: str  # For the legend; empty: none
    # x, y: Coordinates.
    x: Sequence[float]
    y: Sequence[float]
    curve: tuple[Sequence[float], Sequence[float]] | None = None  # Where the curve goes; NaN in its y interrupts it
    colour: str = ""  # By default the colour of its place in the panel
    marker: str = "o"  # matplotlib's


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    # x, y: What the axes show, with units.
    x: str
    y: str
    points: Sequence[Points]  # What is drawn
    title: str = ""  # The panel's title
    limits: Mapping[str, Any] | None = None  # Mapping of str to anything For `Axes.set`: `xscale`, `ylim`, `xticks`, …


def draw_panels(path: Path, panels: Sequence[Panel], *, height: float = 3.3) -> None:
    """Draw panels beside each other, with one legend for all."""
    figure, axes = make_axes(len(panels), height=height)
    legend: dict[str, Any] = {}
    for place, panel in zip(axes, panels, strict=True):
        for number, points in enumerate(panel.points):
            colour = points.colour or COLOURS[number % len(COLOURS)]
            drawn = place.plot(
                points.x, points.y, points.marker, color=colour, markersize=3.2, alpha=0.65, markeredgewidth=0
            )[0]
            if points.label:
                legend.setdefault(points.label, drawn)
            if points.curve is not None:
                place.plot(*map(np.asarray, points.curve), color=colour, linewidth=1.4)
        place.set(xlabel=panel.x, ylabel=panel.y, title=panel.title, **(panel.limits or {}))
    if legend:
        figure.legend(
            list(legend.values()),
            list(legend),
            loc="outside lower center",
            ncols=min(len(legend), 6),
            frameon=False,
            markerscale=2,
        )
    save(figure, path)


def draw_graph(path: Path, model: CausalModel) -> None:
    """Draw the graph of a learnt model: that of its page, as a picture of its own.

    `model`: Causes are left of their effects. An edge is the wider the stronger it is, dashed if fewer than 90 % of the
    subsamples have it, dotted if fewer than half have it, grey by definition; rings without a head are an open
    direction. Discrete variables are round.
    """
    page = ElementTree.fromstring(str(graph_svg(model)))
    picture = page[0]
    for link in picture.findall("a"):
        link.tag = "g"
        for name in ("href", "data-variable", "data-cause", "aria-label"):
            link.attrib.pop(name, None)
        for line in link.findall("path"):
            if line.get("class") == "hit":
                link.remove(line)
        said = link.find("title")
        if said is not None and (said.text or "").endswith(": discrete"):
            link.set("class", "node discrete")
    for name in ("role", "class", "aria-label"):
        picture.attrib.pop(name, None)
    style = ElementTree.Element("style")
    style.text = _STYLE
    ground = ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    picture.insert(0, ground)
    picture.insert(0, style)
    picture.set("xmlns", _SVG)
    written = ElementTree.tostring(picture, encoding="unicode")
    path.write_text(re.sub(r"(<g |<defs>|<style>|</svg>)", r"\n\1", written) + "\n", encoding="utf-8")
