"""A causal model's graph as SVG inside HTML: every node and edge is a link to the regression behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.causal.describe import edge_remark, p_text, share_text
from unperturbed.analysis.causal.html.layered import Layout, Point, layered
from unperturbed.analysis.causal.model.export import edge_style, edge_width
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel, Edge

_LETTER, _PADDING, _NARROWEST, _LONGEST = 8.2, 26.0, 64.0, 26
_HALF_HEIGHT = 17.0
_PORTS = 11.0
"""How far from a node's middle edges end at most, up and down."""
_HEAD = 9.0
_DASHES = {"solid": None, "dashed": "9 5", "dotted": "2 5"}


def regression_id(number: int | str) -> str:
    """Return the id of the page element that shows a variable's regression."""
    return f"variable-{number}"


def graph_svg(model: CausalModel) -> Html:
    """Return the graph as SVG: causes left, effects right; width by strength, dashes by stability, rings for open
    directions."""
    names = model.data.names
    number = {name: at for at, name in enumerate(names)}
    widths = [max(_NARROWEST, _LETTER * len(_shown(name)) + _PADDING) for name in names]
    assumed = {frozenset(pair): pair for pair in model.assumed}
    ends = [_ends(edge, assumed) for edge in model.edges]
    tiers = [[number[name] for name in tier if name in number] for tier in _tiers(model)]
    arrows = [(number[source], number[target]) for source, target in ends]
    # Directed edges have their say in the layers first.
    order = sorted(range(len(arrows)), key=lambda at: not model.edges[at].directed)
    layout = layered(widths, [arrows[at] for at in order], tiers)
    ports = _ports(layout, [arrows[at] for at in order])
    lines = []
    for place, at in enumerate(order):
        route = _route(layout, arrows[at], place, ports[place], widths)
        lines.append(_line(model, model.edges[at], arrows[at], route))
    nodes = [_node(model, at, layout.middles[at], widths[at]) for at in range(len(names))]
    size = {
        "width": f"{layout.width:.0f}",
        "height": f"{layout.height:.0f}",
        "viewBox": f"0 0 {layout.width:.0f} {layout.height:.0f}",
    }
    description = f"Graph of {len(names)} variables and {len(model.edges)} edges; the table of edges shows the same."
    picture = tag("svg", _markers(), lines, nodes, role="group", aria_label=description, class_="graph", **size)
    return tag("div", picture, class_="scroll", tabindex="0", role="region", aria_label="The graph")


def _tiers(model: CausalModel) -> list[Sequence[str]]:
    return (
        [model.knowledge.inputs, *model.knowledge.tiers] if not model.knowledge.tiers else list(model.knowledge.tiers)
    )


def _ends(edge: Edge, assumed: dict[frozenset[str], tuple[str, str]]) -> tuple[str, str]:
    """Return the edge's ends in the direction in which it is drawn."""
    return (
        (edge.source, edge.target)
        if edge.directed
        else assumed.get(frozenset((edge.source, edge.target)), (edge.source, edge.target))
    )


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _ports(layout: Layout, arrows: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return the vertical offsets of each edge's ends from its nodes' middles, so that none hides another."""
    found = [[0.0, 0.0] for _ in arrows]
    for end in (0, 1):
        by_node: dict[tuple[int, bool], list[int]] = {}
        for place, arrow in enumerate(arrows):
            to_the_right = layout.layers[arrow[1 - end]] > layout.layers[arrow[end]]
            by_node.setdefault((arrow[end], to_the_right), []).append(place)
        for places in by_node.values():
            beside = [layout.routes[place][1 if end == 0 else -2][1] for place in places]
            ordered = [place for _, place in sorted(zip(beside, places, strict=True))]
            for rank, place in enumerate(ordered):
                found[place][end] = _PORTS * (2 * (rank + 0.5) / len(ordered) - 1) if len(ordered) > 1 else 0.0
    return [(one, other) for one, other in found]


def _route(
    layout: Layout, arrow: tuple[int, int], place: int, ports: tuple[float, float], widths: Sequence[float]
) -> list[Point]:
    """Return an edge's points from the border of its source to that of its target."""
    source, target = arrow
    route = list(layout.routes[place])
    (x0, y0), (x1, y1) = route[0], route[-1]
    forward = 1 if x1 >= x0 else -1
    route[0] = (x0 + forward * widths[source] / 2, y0 + ports[0])
    route[-1] = (x1 - forward * (widths[target] / 2 + 2), y1 + ports[1])
    return route


def _path(route: Sequence[Point]) -> str:
    parts = [f"M{route[0][0]:.1f} {route[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (x0 + x1) / 2
        parts.append(
            f"L{x1:.1f} {y1:.1f}"
            if abs(y0 - y1) < 0.05
            else f"C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        )
    return "".join(parts)


def _line(model: CausalModel, edge: Edge, arrow: tuple[int, int], route: list[Point]) -> Html:
    kind = "given" if edge.definitional else "directed"
    if not edge.directed:
        kind = "open"
    else:
        # The head, not the line, touches the node.
        back = _HEAD - 1 if route[-1][0] >= route[-2][0] else 1 - _HEAD
        route = [*route[:-1], (route[-1][0] - back, route[-1][1])]
    strength = "" if math.isnan(edge.strength) else f"{edge.strength:.3g} bits per row, "
    remark = edge_remark(model, edge)
    description = (
        f"{edge}: {strength}p = {p_text(edge.p_value)}, stability "
        f"{share_text(edge.stability)}{f', {remark}' if remark else ''}"
    )
    drawn = _path(route)
    ends = (
        {"marker_end": f"url(#{kind}-end)"}
        if edge.directed
        else {"marker_start": "url(#open-end)", "marker_end": "url(#open-end)"}
    )
    return tag(
        "a",
        tag("title", description),
        tag("path", d=drawn, class_="hit"),
        tag(
            "path",
            d=drawn,
            class_="line",
            stroke_width=f"{edge_width(edge.strength):.2f}",
            stroke_dasharray=_DASHES[edge_style(edge.stability)],
            **ends,
        ),
        href=f"#{regression_id(arrow[1])}",
        class_=f"edge {kind}",
        data_variable=arrow[1],
        data_cause=arrow[0],
        aria_label=description,
    )


def _node(model: CausalModel, at: int, middle: Point, width: float) -> Html:
    name = model.data.names[at]
    kind = model.data.kinds[name]
    x, y = middle
    shape = tag(
        "rect",
        x=f"{x - width / 2:.1f}",
        y=f"{y - _HALF_HEIGHT:.1f}",
        width=f"{width:.1f}",
        height=2 * _HALF_HEIGHT,
        rx=_HALF_HEIGHT if kind == "discrete" else 4,
    )
    written = tag("text", _shown(name), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor="middle", dominant_baseline="central")
    description = tag("title", f"{name}: {kind}")
    return tag("a", description, shape, written, href=f"#{regression_id(at)}", class_="node", data_variable=at)


def _markers() -> Html:
    """Return arrowheads, and the ring of an open end."""
    box: dict[str, Any] = {"markerUnits": "userSpaceOnUse", "orient": "auto", "markerWidth": 12, "markerHeight": 12}
    heads = [
        tag(
            "marker",
            tag("path", d="M0 0L10 5L0 10z"),
            id=f"{kind}-end",
            class_=kind,
            viewBox="0 0 10 10",
            refX=1,
            refY=5,
            **box,
        )
        for kind in ("directed", "given")
    ]
    ring = tag("circle", cx=5, cy=5, r=3.4)
    return tag(
        "defs", heads, tag("marker", ring, id="open-end", class_="open", viewBox="0 0 10 10", refX=5, refY=5, **box)
    )
