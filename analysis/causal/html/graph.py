"""Graph of a causal model as SVG inside HTML: every node and edge links to its regression.

The layout follows Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures"
(1981): layers from left to right, order in a layer by barycentres, coordinates; long edges are routed around nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from unperturbed.analysis.causal.discovery.adjacency import reached
from unperturbed.analysis.causal.model.export import edge_style, edge_width
from unperturbed.analysis.causal.model_text import edge_remark, p_text, share_text
from unperturbed.common.markup import Html, tag

if TYPE_CHECKING:
    from unperturbed.analysis.causal import CausalModel, Edge


Point = tuple[float, float]
Arrow = tuple[int, int]

_GAP = 120.0
"""Distance between layers in pixels."""
_DISTANCE, _EDGE_DISTANCE = 58.0, 26.0
"""Distances in a layer in pixels: between the centres of nodes, and between edges that pass through."""
_MARGIN = 20.0
_SWEEPS = 8
_PASSES = 12


@dataclass(frozen=True)
class GraphLayout:
    """Positions of all nodes and edges, in pixels from the upper left."""

    layers: tuple[int, ...]  # The layer of each node, from 0
    middles: tuple[Point, ...]  # The centre of each node
    routes: tuple[tuple[Point, ...], ...]  # Of each arrow from centre to centre, with two points in each layer crossed
    width: float
    height: float


def layered(widths: Sequence[float], arrows: Sequence[Arrow], tiers: Sequence[Sequence[int]] = ()) -> GraphLayout:
    """Compute the layout of a graph; an arrow that closes a cycle with earlier arrows does not affect the layers."""
    count = len(widths)
    order = _acyclic(count, arrows)
    following = [tier for tier in tiers if tier]
    ranked = _acyclic(
        count, (*order, *((node, other) for tier, later in pairwise(following) for node in tier for other in later))
    )
    layers = _longest_paths(count, ranked)
    grid = _Grid(layers, arrows)
    grid.uncross()
    y = grid.coordinates()
    depth = max(layers, default=-1) + 1
    wide = [
        max((widths[node] for node in range(count) if layers[node] == layer), default=0.0) for layer in range(depth)
    ]
    lefts = [_MARGIN + sum(wide[:layer]) + _GAP * layer for layer in range(depth)]
    middles = tuple((lefts[layers[node]] + wide[layers[node]] / 2, y[node]) for node in range(count))
    routes = []
    for (source, target), through in zip(arrows, grid.through, strict=True):
        between = [(lefts[layer] + side * wide[layer], y[place]) for layer, place in through for side in (0, 1)]
        if layers[source] > layers[target]:
            between.reverse()
        routes.append((middles[source], *between, middles[target]))
    height = max(y, default=0.0) + _DISTANCE / 2 + _MARGIN
    return GraphLayout(
        tuple(layers), middles, tuple(routes), (lefts[-1] + wide[-1] if depth else 0.0) + _MARGIN, height
    )


def _acyclic(count: int, arrows: Iterable[Arrow]) -> list[Arrow]:
    """Return the arrows without those that close a cycle with earlier arrows."""
    after: list[set[int]] = [set() for _ in range(count)]
    kept: list[Arrow] = []
    for source, target in arrows:
        if source not in reached([target], after.__getitem__):
            after[source].add(target)
            kept.append((source, target))
    return kept


def _longest_paths(count: int, arrows: Sequence[Arrow]) -> list[int]:
    causes: dict[int, list[int]] = {node: [] for node in range(count)}
    for source, target in arrows:
        causes[target].append(source)
    layers = [0] * count
    for node in TopologicalSorter(causes).static_order():
        layers[node] = max((layers[cause] + 1 for cause in causes[node]), default=0)
    return layers


class _Grid:
    """Nodes, and the points where edges cross a layer, in their order in each layer."""

    def __init__(self, layers: Sequence[int], arrows: Sequence[Arrow]) -> None:
        self._nodes = len(layers)
        rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
        for node, layer in enumerate(layers):
            rows[layer].append(node)
        self.through: list[list[tuple[int, int]]] = []
        self._left: dict[int, list[int]] = {node: [] for node in range(self._nodes)}
        self._right: dict[int, list[int]] = {node: [] for node in range(self._nodes)}
        for source, target in arrows:
            first, last = (source, target) if layers[source] <= layers[target] else (target, source)
            passed = []
            before = first
            for layer in range(layers[first] + 1, layers[last]):
                place = len(self._left)
                rows[layer].append(place)
                self._left[place], self._right[place] = [before], []
                self._right[before].append(place)
                passed.append((layer, place))
                before = place
            if layers[first] != layers[last]:
                self._right[before].append(last)
                self._left[last].append(before)
            self.through.append(passed)
        self.rows = rows

    def uncross(self) -> None:
        """Sort each layer by the mean position of neighbours, back and forth; keep the order with fewest crossings."""
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for sweep in range(_SWEEPS):
            forth = sweep % 2 == 0
            near = self._left if forth else self._right
            numbers = range(1, len(self.rows)) if forth else range(len(self.rows) - 2, -1, -1)
            for number in numbers:
                self._sort(number, self.rows[number - 1 if forth else number + 1], near)
            self._swap()
            if (now := self.crossings()) < fewest:
                best, fewest = [list(row) for row in self.rows], now
        self.rows = best

    def crossings(self) -> int:
        """Count the crossings of edges between layers."""
        count = 0
        for row, later in pairwise(self.rows):
            place = {node: at for at, node in enumerate(later)}
            ends = [place[other] for node in row for other in sorted(self._right[node], key=place.__getitem__)]
            count += sum(end > other for at, end in enumerate(ends) for other in ends[at + 1 :])
        return count

    def coordinates(self) -> list[float]:
        """Return the distances of nodes and crossing points from the top, near their neighbours and in layer order."""
        y = [0.0] * len(self._left)
        for row in self.rows:
            for node, offset in zip(row, self._offsets(row), strict=True):
                y[node] = offset
        for turn in range(_PASSES):
            rows = self.rows if turn % 2 == 0 else self.rows[::-1]
            for row in rows:
                wished = []
                for node in row:
                    near = [*self._left[node], *self._right[node]]
                    wished.append(sum(y[other] for other in near) / len(near) if near else y[node])
                offsets = self._offsets(row)
                free = _rising([wish - offset for wish, offset in zip(wished, offsets, strict=True)])
                for node, base, offset in zip(row, free, offsets, strict=True):
                    y[node] = base + offset
        top = min(y, default=0.0) - _MARGIN - _DISTANCE / 2
        return [distance - top for distance in y]

    def _sort(self, number: int, beside: Sequence[int], near: dict[int, list[int]]) -> None:
        place = {node: float(at) for at, node in enumerate(beside)}
        own = {node: float(at) for at, node in enumerate(self.rows[number])}

        def barycentre(node: int) -> float:
            others = [place[other] for other in near[node] if other in place]
            return sum(others) / len(others) if others else own[node]

        self.rows[number].sort(key=barycentre)

    def _swap(self) -> None:
        """Swap adjacent nodes of a layer if that removes crossings."""
        for number, row in enumerate(self.rows):
            beside = [self.rows[other] for other in (number - 1, number + 1) if 0 <= other < len(self.rows)]
            place = {node: at for layer in beside for at, node in enumerate(layer)}
            for at in range(len(row) - 1):
                upper, other = row[at], row[at + 1]
                now = then = 0
                for near in (self._left, self._right):
                    for a in near[upper]:
                        for b in near[other]:
                            now += place[a] > place[b]
                            then += place[a] < place[b]
                if then < now:
                    row[at], row[at + 1] = other, upper

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """Return each node's minimum distance from the first node of its layer."""
        offsets = [0.0] if row else []
        for node, other in pairwise(row):
            passing = (node >= self._nodes) + (other >= self._nodes)
            offsets.append(offsets[-1] + (_DISTANCE, (_DISTANCE + _EDGE_DISTANCE) / 2, _EDGE_DISTANCE)[passing])
        return offsets


def _rising(wished: Sequence[float]) -> list[float]:
    """Return the nondecreasing numbers closest to the desired ones by least squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for wish in wished:
        pools.append((wish, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (previous, few), (other, more) = pools[-2:]
            pools[-2:] = [((previous * few + other * more) / (few + more), few + more)]
    return [mean for mean, size in pools for _ in range(size)]


_LETTER, _PADDING, _NARROWEST, _LONGEST = 8.2, 26.0, 64.0, 26
_HALF_HEIGHT = 17.0
_PORTS = 11.0
"""Largest vertical distance of an edge's end from its node's centre."""
_HEAD = 9.0
_DASHES = {"solid": None, "dashed": "9 5", "dotted": "2 5"}


def regression_id(number: int | str) -> str:
    """Return the id of the page element that shows a variable's regression."""
    return f"variable-{number}"


def graph_svg(model: CausalModel) -> Html:
    """Return the graph as SVG, causes left; width shows strength, dashes show stability, rings an open direction."""
    names = model.data.names
    number = {name: at for at, name in enumerate(names)}
    widths = [max(_NARROWEST, _LETTER * len(_shown(name)) + _PADDING) for name in names]
    assumed = {frozenset(pair): pair for pair in model.assumed}
    # Directed edges come first, because earlier edges determine the layers.
    edges = sorted(model.edges, key=lambda edge: not edge.directed)
    ends = [assumed.get(frozenset(pair), pair) for pair in ((edge.source, edge.target) for edge in edges)]
    arrows = [(number[source], number[target]) for source, target in ends]
    tiers = model.knowledge.tiers or [model.knowledge.inputs]
    layout = layered(widths, arrows, [[number[name] for name in tier if name in number] for tier in tiers])
    ports = _ports(layout, arrows)
    lines = []
    for place, (edge, arrow) in enumerate(zip(edges, arrows, strict=True)):
        lines.append(_line(model, edge, arrow, _route(layout, arrow, place, ports[place], widths)))
    nodes = [_node(model, at, layout.middles[at], widths[at]) for at in range(len(names))]
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    size = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    description = f"Graph of {len(names)} variables and {len(model.edges)} edges; the table of edges shows the same."
    picture = tag("svg", _markers(), lines, nodes, role="group", aria_label=description, class_="graph", **size)
    return tag("div", picture, class_="scroll", tabindex="0", role="region", aria_label="The graph")


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _ports(layout: GraphLayout, arrows: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return vertical offsets of each edge's ends from its nodes' centres, so edges do not overlap."""
    offsets = [[0.0, 0.0] for _ in arrows]
    for end in (0, 1):
        by_node: dict[tuple[int, bool], list[int]] = {}
        for place, arrow in enumerate(arrows):
            to_the_right = layout.layers[arrow[1 - end]] > layout.layers[arrow[end]]
            by_node.setdefault((arrow[end], to_the_right), []).append(place)
        for places in by_node.values():
            beside = [layout.routes[place][1 if end == 0 else -2][1] for place in places]
            ordered = [place for _, place in sorted(zip(beside, places, strict=True))]
            for rank, place in enumerate(ordered):
                offsets[place][end] = _PORTS * (2 * (rank + 0.5) / len(ordered) - 1) if len(ordered) > 1 else 0.0
    return [(start, other) for start, other in offsets]


def _route(
    layout: GraphLayout, arrow: tuple[int, int], place: int, ports: tuple[float, float], widths: Sequence[float]
) -> list[Point]:
    """Return an edge's points from the border of its source to the border of its target."""
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
    ends = {"marker_start": "url(#open-end)"} if not edge.directed else {}
    ends["marker_end"] = f"url(#{kind}-end)"
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
    """Return the markers of edge ends: arrowheads, and the ring of an open direction."""
    box: dict[str, Any] = {"markerUnits": "userSpaceOnUse", "orient": "auto", "markerWidth": 12, "markerHeight": 12}
    triangle = tag("path", d="M0 0L10 5L0 10z")
    heads = [
        tag("marker", triangle, id=f"{kind}-end", class_=kind, viewBox="0 0 10 10", refX=1, refY=5, **box)
        for kind in ("directed", "given")
    ]
    ring = tag("circle", cx=5, cy=5, r=3.4)
    open_end = tag("marker", ring, id="open-end", class_="open", viewBox="0 0 10 10", refX=5, refY=5, **box)
    return tag("defs", heads, open_end)
