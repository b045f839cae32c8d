"""Adjacency search of the PC algorithm that keeps edges despite deterministic relations: Lemeire et al., section 5.

The search follows Colombo and Maathuis ("Order-independent constraint-based causal structure learning", 2014): sets of
one size come from the neighbours as they were before that size was tested, so the order of columns does not matter.

Section 6.2: if X separates Y from Z, and Y separates X from Z, both edges to Z would be removed and Z would be left
without a cause. Such X and Y are *equivalent* for Z: both stay here, and `refinement` decides between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest
from unperturbed.analysis.causal.table.knowledge import Arrow, Knowledge

Pair = frozenset[str]
_Node = TypeVar("_Node", bound=Hashable)


@dataclass(frozen=True)
class Separation:
    """Reason why two variables are not adjacent.

    Attributes
    ----------
    one, other : str
        The two variables.
    given : tuple of str
        The set that separates them.
    p_value, bits : float
        Results of the test of their independence.
    determined : str
        The one of the two variables that the set determines; empty if it determines neither.
    """

    one: str
    other: str
    given: tuple[str, ...]
    p_value: float
    bits: float
    determined: str = ""


@dataclass(frozen=True)
class Dispensable:
    """Neighbour of a target that the other neighbours make dispensable, and that makes one of them dispensable."""

    name: str
    target: str
    given: frozenset[str]  # The set that separates the two; it contains an equivalent of the neighbour


@dataclass(frozen=True)
class Skeleton:
    """Undirected graph, with the test results of all pairs of variables."""

    names: tuple[str, ...]  # The variables, in the table's order
    adjacent: Mapping[str, frozenset[str]]  # Neighbours, including all equivalent ones
    separations: Mapping[Pair, Separation]  # Of pairs that are not adjacent, except pairs that knowledge forbids
    dispensable: tuple[Dispensable, ...]  # The evidence for equivalent neighbours
    # For a dependent pair, the largest p-value of the tests that found a dependence; for a separated pair, the p-value
    # of its separation.
    p_values: Mapping[Pair, float]


class WorkingGraph:
    """Undirected graph during a search: neighbours, and the test results of each pair of variables."""

    def __init__(
        self,
        adjacent: Mapping[str, Collection[str]],
        separations: Mapping[Pair, Separation],
        p_values: Mapping[Pair, float],
    ) -> None:
        self.neighbours = {name: set(near) for name, near in adjacent.items()}
        self.separations = dict(separations)
        self.p_values = dict(p_values)

    def adjacent(self) -> dict[str, frozenset[str]]:
        """Return a copy of the current neighbours."""
        return {name: frozenset(near) for name, near in self.neighbours.items()}

    def connect(self, name: str, other: str, outcome: IndependenceOutcome | None = None) -> None:
        """Make two variables neighbours; `outcome` is the test that found them dependent."""
        self.neighbours[name].add(other)
        self.neighbours[other].add(name)
        self.separations.pop(pair_of(name, other), None)
        if outcome is not None:
            self.p_values[pair_of(name, other)] = outcome.p_value

    def separate(self, separation: Separation) -> None:
        """Remove an edge, and record the reason."""
        self.neighbours[separation.one].discard(separation.other)
        self.neighbours[separation.other].discard(separation.one)
        self.separations[pair_of(separation.one, separation.other)] = separation


def pair_of(name: str, other: str) -> Pair:
    """Return two names as an unordered pair."""
    return frozenset((name, other))


def reached(start: Iterable[_Node], steps: Callable[[_Node], Iterable[_Node]]) -> set[_Node]:
    """Return the start nodes, and all nodes that `steps` reaches from them directly or through other nodes."""
    nodes, waiting = set(start), list(start)
    while waiting:
        further = set(steps(waiting.pop())) - nodes
        nodes |= further
        waiting += further
    return nodes


def separates(arrows: Iterable[Arrow], variable: str, other: str, given: Collection[str]) -> bool:
    """Return whether some variables block every path between two others in an acyclic graph.

    They do if they cut all paths in the moral graph of the ancestors of all these variables (Lauritzen et al.,
    "Independence properties of directed Markov fields", Networks 20, 1990, proposition 3).
    """
    parents: dict[str, set[str]] = defaultdict(set)
    for source, target in arrows:
        parents[target].add(source)
    ancestors = reached({variable, other, *given}, parents.__getitem__)
    near: dict[str, set[str]] = defaultdict(set)
    for target in ancestors:
        family = {target, *parents[target]}
        for member in family:
            near[member] |= family - {member}
    return other not in reached([variable], lambda name: near[name].difference(given))


def find_adjacencies(
    names: Sequence[str],
    test: IndependenceTest,
    knowledge: Knowledge,
    *,
    depth: int = 3,
    screening: IndependenceTest | None = None,
) -> Skeleton:
    """Find which variables are adjacent.

    `knowledge`: Pairs that are forbidden both ways are never tested, required pairs are never removed, and no
    conditioning set contains a variable that comes after both ends.
    `screening`: Test that runs first, and the only test for equivalent variables; `test` must confirm its result before
    an edge is removed. By default `test`.
    """
    search = _AdjacencySearch(tuple(names), test, screening or test, knowledge)
    for size in range(depth + 1):
        if not search.search_size(size):
            break
    return search.skeleton()


class _AdjacencySearch:
    """State of the search: current neighbours, and the evidence for each removal."""

    def __init__(
        self, names: tuple[str, ...], test: IndependenceTest, screening: IndependenceTest, knowledge: Knowledge
    ) -> None:
        self._names = names
        self._test = test
        self._screening = screening
        self._knowledge = knowledge
        self._pairs = [(a, b) for a, b in combinations(names, 2) if not knowledge.never_adjacent(a, b)]
        self._graph = WorkingGraph(dict.fromkeys(names, ()), {}, {})
        for a, b in self._pairs:
            self._graph.connect(a, b)
        self._dispensable: dict[Dispensable, None] = {}
        self._trivial: dict[Pair, list[frozenset[str]]] = {}

    def search_size(self, size: int) -> bool:
        """Test each pair of variables given each set of the given size; return whether any such set exists."""
        before = self._graph.adjacent()
        any_tested = False
        removed: list[Separation] = []
        for a, b in self._pairs:
            if b not in before[a] or self._knowledge.always_adjacent(a, b):
                continue
            for given in self._sets(a, b, size, before):
                any_tested = True
                separation = self._separation(a, b, given, before)
                if separation is not None:
                    removed.append(separation)
                    break
        for separation in removed:
            self._graph.separate(separation)
            self._graph.p_values[pair_of(separation.one, separation.other)] = separation.p_value
        return any_tested

    def _separation(
        self, a: str, b: str, given: tuple[str, ...], before: Mapping[str, frozenset[str]]
    ) -> Separation | None:
        """Return how a set separates two variables; None if they are dependent or if equivalents are involved."""
        key = pair_of(a, b)
        if any(trivial <= set(given) for trivial in self._trivial.get(key, ())):
            return None
        outcome = self._screening.test(a, b, given)
        if outcome.independent:
            if outcome.determined and self._is_inverted(outcome.determined, given):
                self._trivial.setdefault(key, []).append(frozenset(given))
                return None
            if self._involves_equivalents(a, b, given, before):
                if outcome.determined:
                    self._trivial.setdefault(key, []).append(frozenset(given))
                return None
            if self._test is not self._screening:
                outcome = self._test.test(a, b, given)
        if not outcome.independent:
            self._graph.p_values[key] = max(self._graph.p_values.get(key, outcome.p_value), outcome.p_value)
            return None
        return Separation(a, b, given, outcome.p_value, outcome.bits, outcome.determined)

    def _is_inverted(self, name: str, given: Sequence[str]) -> bool:
        """Return whether a variable is determined by values computed from it, as #op is by instr and instr / #op."""
        definitions = self._knowledge.definitions
        return any(name in definitions.get(variable, ()) and len(definitions[variable]) > 1 for variable in given)

    def skeleton(self) -> Skeleton:
        """Return the result of the search."""
        graph = self._graph
        kept = tuple(
            neighbour for neighbour in self._dispensable if neighbour.name in graph.neighbours[neighbour.target]
        )
        return Skeleton(self._names, graph.adjacent(), graph.separations, kept, graph.p_values)

    def _sets(self, a: str, b: str, size: int, before: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
        """Yield each set of neighbours of either end once, in table order."""
        seen = set()
        for end in (a, b):
            usable = [
                name
                for name in self._names
                if name in before[end] - {a, b} and self._knowledge.may_condition(name, a, b)
            ]
            for given in combinations(usable, size):
                if given not in seen:
                    seen.add(given)
                    yield given

    def _involves_equivalents(self, a: str, b: str, given: Sequence[str], before: Mapping[str, frozenset[str]]) -> bool:
        """Return whether a separating variable is equivalent to one of the ends; record both as dispensable.

        It is equivalent if that end, in turn, separates it from the other end. A variable that is no longer a neighbour
        of the other end is examined too if the first end separated them.
        """
        found_any = False
        for end, target in ((a, b), (b, a)):
            for other in given:
                past = self._graph.separations.get(pair_of(other, target))
                if other not in before[target] | self._graph.neighbours[target] and not (past and end in past.given):
                    continue
                held = self._separating_rest(other, target, end, [name for name in given if name != other])
                if held is None:
                    continue
                found_any = True
                self._dispensable[Dispensable(end, target, frozenset(given))] = None
                self._dispensable[Dispensable(other, target, frozenset((end, *held)))] = None
                if past:
                    self._dispensable[Dispensable(other, target, frozenset(past.given))] = None
                    self._graph.connect(other, target)
        return found_any

    def _separating_rest(self, other: str, target: str, by: str, rest: Sequence[str]) -> tuple[str, ...] | None:
        """Return the variables that, together with `by`, separate two others; None if there are none."""
        if self._knowledge.always_adjacent(other, target) or not self._knowledge.may_condition(by, other, target):
            return None
        for size in range(len(rest), -1, -1):
            for held in combinations(rest, size):
                if (
                    all(self._knowledge.may_condition(name, other, target) for name in held)
                    and self._screening.test(other, target, (by, *held)).independent
                ):
                    return held
        return None
