"""Layered layout of a small directed graph: layers from left to right, few crossings, long edges around nodes.

Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981): layers, orders
by barycentres, coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]
Arrow = tuple[int, int]

_GAP = 120.0
"""Between layers, in pixels."""
_DISTANCE, _EDGE_DISTANCE = 58.0, 26.0
"""Between the middles of nodes of a layer, and of edges that pass through it."""
_MARGIN = 20.0
_SWEEPS = 8
_PASSES = 12


@dataclass(frozen=True)
class Layout:
    """Positions of all nodes and edges, in pixels from the upper left."""

    layers: tuple[int, ...]  # The layer of each node, from 0
    middles: tuple[Point, ...]  # The middle of each node
    # The route of each arrow, from its source's middle to its target's, with two points for each layer that it passes
    # through.
    routes: tuple[tuple[Point, ...], ...]
    # width, height: Size of the whole.
    width: float
    height: float


def layered(widths: Sequence[float], arrows: Sequence[Arrow], tiers: Sequence[Sequence[int]] = ()) -> Layout:
    """Compute the layout of a graph.

    `arrows`: Source and target. An arrow that closes a circle with those before it is drawn, and ignored for the
    layers.
    """
    count = len(widths)
    order = _acyclic(count, arrows)
    following = [tier for tier in tiers if tier]
    ranked = _acyclic(
        count, (*order, *((one, other) for tier, later in pairwise(following) for one in tier for other in later))
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
    return Layout(tuple(layers), middles, tuple(routes), (lefts[-1] + wide[-1] if depth else 0.0) + _MARGIN, height)


def _acyclic(count: int, arrows: Iterable[Arrow]) -> list[Arrow]:
    """Return arrows, without those that close a circle with those before them."""
    after: list[set[int]] = [set() for _ in range(count)]
    kept: list[Arrow] = []
    for source, target in arrows:
        waiting, seen = [target], {target}
        while waiting and source not in seen:
            new = after[waiting.pop()] - seen
            seen |= new
            waiting += new
        if source not in seen:
            after[source].add(target)
            kept.append((source, target))
    return kept


def _longest_paths(count: int, arrows: Sequence[Arrow]) -> list[int]:
    layers = [0] * count
    for _ in range(count):
        changed = False
        for source, target in arrows:
            if layers[target] <= layers[source]:
                layers[target] = layers[source] + 1
                changed = True
        if not changed:
            break
    return layers


class _Grid:
    """Nodes, and the places where edges pass through layers, in their order in each layer."""

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
        """Sort each layer by the mean place of its neighbours, forth and back; keep the order with the fewest
        crossings."""
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
        found = 0
        for row, later in pairwise(self.rows):
            place = {node: at for at, node in enumerate(later)}
            ends = [place[other] for node in row for other in sorted(self._right[node], key=place.__getitem__)]
            found += sum(one > other for at, one in enumerate(ends) for other in ends[at + 1 :])
        return found

    def coordinates(self) -> list[float]:
        """Return the distance of each node and place from the top: near its neighbours, in the order of its layer."""
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
        return [one - top for one in y]

    def _sort(self, number: int, beside: Sequence[int], near: dict[int, list[int]]) -> None:
        place = {node: float(at) for at, node in enumerate(beside)}
        own = {node: float(at) for at, node in enumerate(self.rows[number])}

        def barycentre(node: int) -> float:
            others = [place[other] for other in near[node] if other in place]
            return sum(others) / len(others) if others else own[node]

        self.rows[number].sort(key=barycentre)

    def _swap(self) -> None:
        """Exchange neighbours in a layer wherever that undoes crossings."""
        for number, row in enumerate(self.rows):
            beside = [self.rows[other] for other in (number - 1, number + 1) if 0 <= other < len(self.rows)]
            place = {node: at for layer in beside for at, node in enumerate(layer)}
            for at in range(len(row) - 1):
                one, other = row[at], row[at + 1]
                now = then = 0
                for near in (self._left, self._right):
                    for a in near[one]:
                        for b in near[other]:
                            now += place[a] > place[b]
                            then += place[a] < place[b]
                if then < now:
                    row[at], row[at + 1] = other, one

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """Return the least distance of each node of a layer from the first one."""
        offsets = [0.0] if row else []
        for one, other in pairwise(row):
            passing = (one >= self._nodes) + (other >= self._nodes)
            offsets.append(offsets[-1] + (_DISTANCE, (_DISTANCE + _EDGE_DISTANCE) / 2, _EDGE_DISTANCE)[passing])
        return offsets


def _rising(wished: Sequence[float]) -> list[float]:
    """Return the numbers nearest to those wished, by least squares, that never fall (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for wish in wished:
        pools.append((wish, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, few), (other, more) = pools[-2:]
            pools[-2:] = [((one * few + other * more) / (few + more), few + more)]
    return [mean for mean, size in pools for _ in range(size)]
