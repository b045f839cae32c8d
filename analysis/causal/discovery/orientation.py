"""Directions of edges: from background knowledge, from v-structures, and from the rules that follow from both.

Lemeire et al., section 5. The rules are those of Meek ("Causal inference and causal explanation with background
knowledge", 1995), including the fourth, which is needed if knowledge directed an edge.

No edge is directed against background knowledge, and no edge closes a cycle. Pairs that knowledge forbids have no
separating set, so they imply no v-structure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from unperturbed.analysis.causal.discovery.adjacency import Pair, Separation, pair_of, reached
from unperturbed.analysis.causal.table.knowledge import Arrow, Knowledge


@dataclass(frozen=True)
class Orientation:
    """Directions of the edges of an undirected graph."""

    directed: frozenset[Arrow]  # Source and target of each directed edge
    undirected: frozenset[Pair]  # Edges that the data leave open: both directions imply the same
    conflicts: frozenset[Pair]  # Undirected edges that v-structures direct both ways


def orient(
    adjacent: Mapping[str, frozenset[str]],
    separations: Mapping[Pair, Separation],
    knowledge: Knowledge,
    *,
    determined: Callable[[str, Sequence[str]], bool] = lambda _name, _given: False,
) -> Orientation:
    """Direct the edges of an undirected graph.

    `determined`: Returns whether others determine a variable. A separating set also holds fixed what it determines, so
    the variable's absence from the set then implies no v-structure (Geiger's D-separation, cited in section 6.2).
    """
    graph = _Graph(adjacent, separations, knowledge)
    graph.follow_knowledge()
    conflicts = graph.point_to_colliders(determined)
    graph.follow_rules()
    undirected = frozenset(pair for pair in graph.pairs if not graph.is_directed(*sorted(pair)))
    return Orientation(frozenset(graph.directed), undirected, conflicts & undirected)


def extend(
    names: Sequence[str], directed: Collection[Arrow], undirected: Collection[Pair], knowledge: Knowledge
) -> tuple[Arrow, ...]:
    """Direct each undirected edge so that no cycle closes and, if possible, no v-structure forms; return the arrows.

    All graphs that the data cannot distinguish make the same predictions; the choice matters for interventions alone.

    Dor and Tarsi, "A simple algorithm to construct a consistent extension of a partially oriented graph" (1992): all
    undirected edges of a variable that can be the last effect are directed to it, and it is removed. If there is none,
    the variable with the fewest new v-structures is taken.
    """
    left, new_arrows = list(names), []
    arrows, lines = set(directed), set(undirected)

    def near(name: str) -> set[str]:
        ends = {end for edge in (*arrows, *lines) if name in edge for end in edge}
        return ends - {name}

    def new_colliders(name: str) -> tuple[int, int]:
        loose = [neighbour for neighbour in near(name) if pair_of(neighbour, name) in lines]
        against = sum(not knowledge.allows(neighbour, name) for neighbour in loose)
        return against, sum(other not in near(neighbour) for neighbour in loose for other in near(name) - {neighbour})

    while lines:
        last = [name for name in left if not any(source == name for source, _ in arrows)]
        sink = min(reversed(last), key=new_colliders)
        new_arrows += [
            (neighbour, sink) for neighbour in sorted(near(sink), key=names.index) if pair_of(neighbour, sink) in lines
        ]
        arrows = {edge for edge in arrows if sink not in edge}
        lines = {pair for pair in lines if sink not in pair}
        left.remove(sink)
    return tuple(new_arrows)


class _Graph:
    def __init__(
        self, adjacent: Mapping[str, frozenset[str]], separations: Mapping[Pair, Separation], knowledge: Knowledge
    ) -> None:
        self._adjacent = adjacent
        self._separations = separations
        self._knowledge = knowledge
        self.directed: set[Arrow] = set()
        self.pairs = sorted({pair_of(name, other) for name, near in adjacent.items() for other in near}, key=sorted)

    def is_directed(self, name: str, other: str) -> bool:
        return (name, other) in self.directed or (other, name) in self.directed

    def follow_knowledge(self) -> None:
        """Direct each edge that has a required direction, or that has only one possible direction."""
        for name, other in map(sorted, self.pairs):
            for source, target in ((name, other), (other, name)):
                if self._knowledge.requires(source, target) or not self._knowledge.allows(target, source):
                    self._point(source, target)

    def point_to_colliders(self, determined: Callable[[str, Sequence[str]], bool]) -> frozenset[Pair]:
        """Direct v-structures, the surest separations first; return the edges that v-structures direct both ways."""
        claims: dict[Arrow, float] = {}
        for middle in sorted(self._adjacent):
            for name, other in combinations(sorted(self._adjacent[middle]), 2):
                separation = self._separations.get(pair_of(name, other))
                if other in self._adjacent[name] or separation is None or middle in separation.given:
                    continue
                # If one of the two edges cannot point to the middle, there is no v-structure: the separation has a
                # different reason.
                if not all(self._may_point(end, middle) for end in (name, other)) or determined(
                    middle, separation.given
                ):
                    continue
                for end in (name, other):
                    claims[end, middle] = max(claims.get((end, middle), 0.0), separation.p_value)
        conflicts = frozenset(pair_of(*edge) for edge in claims if edge[::-1] in claims)
        for edge in sorted(claims, key=lambda arrow: (-claims[arrow], arrow)):
            if pair_of(*edge) not in conflicts:
                self._point(*edge)
        return conflicts

    def follow_rules(self) -> None:
        """Apply Meek's rules until they direct no further edge."""
        while any(
            self._point(source, target)
            for pair in self.pairs
            for source, target in permutations(sorted(pair))
            if not self.is_directed(source, target) and self._follows(source, target)
        ):
            pass

    def _follows(self, source: str, target: str) -> bool:
        """Return whether one of Meek's four rules directs an undirected edge from source to target."""
        into_source = [name for name in self._adjacent[source] if (name, source) in self.directed]
        into_target = [name for name in self._adjacent[target] if (name, target) in self.directed]
        # 1: another → source − target, which is not a v-structure.
        if any(self._is_no_collider(name, source, target) for name in into_source):
            return True
        # 2: source → another → target: otherwise there is a cycle.
        if any((source, name) in self.directed for name in into_target):
            return True
        open_ends = [name for name in self._adjacent[source] if name != target and not self.is_directed(source, name)]
        # 3: source − a → target and source − b → target, a − source − b is not a v-structure: else a cycle.
        if any(
            self._is_no_collider(a, source, b)
            for a, b in combinations([name for name in into_target if name in open_ends], 2)
        ):
            return True
        # 4: source − a → b → target, a − source − target is not a v-structure, b is a neighbour of the source.
        # Otherwise there is a cycle.
        return any(
            (a, b) in self.directed and self._is_no_collider(a, source, target)
            for b in into_target
            if b in self._adjacent[source]
            for a in open_ends
        )

    def _is_no_collider(self, name: str, middle: str, other: str) -> bool:
        """Return whether the middle variable is in the set that separates two nonadjacent variables."""
        separation = self._separations.get(pair_of(name, other))
        return other not in self._adjacent[name] and separation is not None and middle in separation.given

    def _may_point(self, source: str, target: str) -> bool:
        return self._knowledge.allows(source, target) and (target, source) not in self.directed

    def _point(self, source: str, target: str) -> bool:
        """Direct an edge if that is allowed and closes no cycle; return whether it was directed."""
        if self.is_directed(source, target) or not self._may_point(source, target):
            return False
        if source in reached([target], self._effects):
            return False
        self.directed.add((source, target))
        return True

    def _effects(self, name: str) -> list[str]:
        return [near for near in self._adjacent[name] if (name, near) in self.directed]
