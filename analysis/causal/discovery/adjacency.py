"""Adjacency search of the PC algorithm, which keeps edges that deterministic relations would make it remove: Lemeire et
al., section 5.

In the order of Colombo and Maathuis ("Order-independent constraint-based causal structure learning", 2014): sets come
from the neighbours as they were when a size of sets began, so that the order of columns does not matter.

Section 6.2: if X separates Y from Z, and Y separates X from Z, both edges to Z would be removed and Z would be left
without a cause. Such X and Y are *equivalent* for Z: both stay here, and `refinement` decides between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from unperturbed.analysis.causal.independence.methods import IndependenceTest, Outcome
from unperturbed.analysis.causal.table.knowledge import Arrow, Knowledge

Pair = frozenset[str]
_Node = TypeVar("_Node", bound=Hashable)


@dataclass(frozen=True)
class Separation:
    """Why two variables are not adjacent.

    Attributes
    ----------
    one, other : str
        The two variables.
    given : tuple of str
        The set that separates them.
    p_value, bits : float
        Of the test of their independence.
    determined : str
        The one of the two that the set determines; empty where none is.
    """

    one: str
    other: str
    given: tuple[str, ...]
    p_value: float
    bits: float
    determined: str = ""


@dataclass(frozen=True)
class Dispensable:
    """A neighbour that a target can do without if others are kept, which can be done without if it is kept."""

    name: str
    target: str
    given: frozenset[str]  # What separates the two; an equivalent of the neighbour is among it


@dataclass(frozen=True)
class Skeleton:
    """An undirected graph, and what every pair of variables was found to be."""

    names: tuple[str, ...]  # The variables, in the table's order
    adjacent: Mapping[str, frozenset[str]]  # Neighbours; equivalent ones are all among them
    separations: Mapping[Pair, Separation]  # Of pairs that are not adjacent. Pairs that knowledge forbids have none.
    dispensable: tuple[Dispensable, ...]  # The evidence for equivalent neighbours
    # Of each tested pair the greatest p-value of the tests that found it dependent; of a separated one that of its
    # separation.
    p_values: Mapping[Pair, float]


class WorkingGraph:
    """An undirected graph while it is searched: neighbours, and what was found of each pair of variables."""

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
        """Return the neighbours as they are now."""
        return {name: frozenset(near) for name, near in self.neighbours.items()}

    def connect(self, one: str, other: str, outcome: Outcome | None = None) -> None:
        """Make two variables neighbours, which a test found dependent."""
        self.neighbours[one].add(other)
        self.neighbours[other].add(one)
        self.separations.pop(pair_of(one, other), None)
        if outcome is not None:
            self.p_values[pair_of(one, other)] = outcome.p_value

    def separate(self, found: Separation) -> None:
        """Remove an edge with its reason."""
        self.neighbours[found.one].discard(found.other)
        self.neighbours[found.other].discard(found.one)
        self.separations[pair_of(found.one, found.other)] = found


def pair_of(one: str, other: str) -> Pair:
    """Return two names as a pair without order."""
    return frozenset((one, other))


def reached(start: Iterable[_Node], steps: Callable[[_Node], Iterable[_Node]]) -> set[_Node]:
    """Return the nodes that steps lead to from some, these included."""
    found, waiting = set(start), list(start)
    while waiting:
        further = set(steps(waiting.pop())) - found
        found |= further
        waiting += further
    return found


def separates(arrows: Iterable[Arrow], one: str, other: str, given: Collection[str]) -> bool:
    """Tell whether variables block every path between two others in an acyclic graph.

    They do if they cut all paths of the moral graph of the ancestors of all three (Lauritzen et al., "Independence
    properties of directed Markov fields", Networks 20, 1990, proposition 3).
    """
    parents: dict[str, set[str]] = defaultdict(set)
    for source, target in arrows:
        parents[target].add(source)
    ancestors = reached({one, other, *given}, parents.__getitem__)
    near: dict[str, set[str]] = defaultdict(set)
    for target in ancestors:
        family = {target, *parents[target]}
        for member in family:
            near[member] |= family - {member}
    return other not in reached([one], lambda name: near[name].difference(given))


def find_adjacencies(
    names: Sequence[str],
    test: IndependenceTest,
    knowledge: Knowledge,
    *,
    depth: int = 3,
    screening: IndependenceTest | None = None,
) -> Skeleton:
    """Find which variables are adjacent.

    `knowledge`: Pairs that are forbidden both ways are never tested, required ones never removed, and no set has a
    variable that comes after both ends.
    `screening`: Runs first, and alone for equivalent variables; `test` confirms before an edge is removed. By default
    `test`.
    """
    search = _AdjacencySearch(tuple(names), test, screening or test, knowledge)
    for size in range(depth + 1):
        if not search.search_size(size):
            break
    return search.skeleton()


class _AdjacencySearch:
    """The state of a search: neighbours so far, and the evidence for each removal."""

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
        """Try all sets of one size; return whether there was any."""
        before = self._graph.adjacent()
        any_tested = False
        removed: list[Separation] = []
        for a, b in self._pairs:
            if b not in before[a] or self._knowledge.always_adjacent(a, b):
                continue
            for given in self._sets(a, b, size, before):
                any_tested = True
                found = self._separation(a, b, given, before)
                if found is not None:
                    removed.append(found)
                    break
        for found in removed:
            self._graph.separate(found)
            self._graph.p_values[pair_of(found.one, found.other)] = found.p_value
        return any_tested

    def _separation(
        self, a: str, b: str, given: tuple[str, ...], before: Mapping[str, frozenset[str]]
    ) -> Separation | None:
        """Return the separation by a set, if it separates two variables and no equivalent variables are involved."""
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
        """Tell whether a set determines a variable by what is computed from it: instr and instr / #op determine #op,
        and separate nothing."""
        definitions = self._knowledge.definitions
        return any(name in definitions.get(one, ()) and len(definitions[one]) > 1 for one in given)

    def skeleton(self) -> Skeleton:
        """Return the result of the search."""
        graph = self._graph
        kept = tuple(one for one in self._dispensable if one.name in graph.neighbours[one.target])
        return Skeleton(self._names, graph.adjacent(), graph.separations, kept, graph.p_values)

    def _sets(self, a: str, b: str, size: int, before: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
        """Yield the sets of neighbours of either end, each once, in the table's order."""
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
        """Tell whether a separation rests on a variable that this end would separate from the other, and note both.

        A variable that is no longer a neighbour of the target is examined too if this end separated them.
        """
        found_any = False
        for one, target in ((a, b), (b, a)):
            for other in given:
                past = self._graph.separations.get(pair_of(other, target))
                if other not in before[target] | self._graph.neighbours[target] and not (past and one in past.given):
                    continue
                held = self._separating_rest(other, target, one, [name for name in given if name != other])
                if held is None:
                    continue
                found_any = True
                self._dispensable[Dispensable(one, target, frozenset(given))] = None
                self._dispensable[Dispensable(other, target, frozenset((one, *held)))] = None
                if past:
                    self._dispensable[Dispensable(other, target, frozenset(past.given))] = None
                    self._graph.connect(other, target)
        return found_any

    def _separating_rest(self, other: str, target: str, by: str, rest: Sequence[str]) -> tuple[str, ...] | None:
        """Return what has to be conditioned on, besides `by`, to separate two others; None if nothing does."""
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
