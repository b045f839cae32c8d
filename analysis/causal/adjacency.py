"""Which variables are directly related: the adjacency search of the PC algorithm, which keeps what deterministic relations
would make it lose.

Lemeire et al., section 5: "The algorithm starts with a full-connected undirected graph and removes all edges for which a
conditioning set can be found that renders both variables independent." Taken in the order of Colombo and Maathuis
("Order-independent constraint-based causal structure learning", 2014): sets come from the neighbours as they were when a
size of sets began, so that the order of columns does not matter.

Section 6.2: where X separates Y from Z, and Y separates X from Z, both edges to Z would go and nothing would tell of Z.
Such X and Y are *rivals*: both stay here, and `equivalence` decides between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from unperturbed.analysis.causal.independence.outcome import IndependenceTest, Outcome
from unperturbed.analysis.causal.knowledge import Knowledge

__all__ = ["Dispensable", "Pair", "Separation", "Skeleton", "find_adjacencies", "pair_of"]

Pair = frozenset[str]


@dataclass(frozen=True)
class Separation:
    """Why two variables are not adjacent.

    Attributes
    ----------
    one, other : str
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
    """A neighbour that a target can do without if others are kept, which in turn can be done without if it is kept.

    Attributes
    ----------
    name, target : str
    given : frozenset of str
        What separates the two, a rival of the neighbour among it.
    """

    name: str
    target: str
    given: frozenset[str]


@dataclass(frozen=True)
class Skeleton:
    """An undirected graph, and what every pair of variables was found to be.

    Attributes
    ----------
    names : tuple of str
    adjacent : mapping of str to frozenset of str
        Neighbours; rivals are all among them.
    separations : mapping of Pair to Separation
        Of pairs that are not adjacent. Those that knowledge keeps apart have none.
    dispensable : tuple of Dispensable
        What was found of rivals.
    p_values : mapping of Pair to float
        Of each tested pair the greatest p-value of the tests that found it dependent; of a separated one that of its
        separation.
    tests : int
        How many tests were asked for.
    """

    names: tuple[str, ...]
    adjacent: Mapping[str, frozenset[str]]
    separations: Mapping[Pair, Separation]
    dispensable: tuple[Dispensable, ...]
    p_values: Mapping[Pair, float]
    tests: int


def pair_of(one: str, other: str) -> Pair:
    """Return two names as a pair without order."""
    return frozenset((one, other))


def find_adjacencies(
    names: Sequence[str],
    test: IndependenceTest,
    knowledge: Knowledge,
    *,
    depth: int = 3,
    quick: IndependenceTest | None = None,
) -> Skeleton:
    """Find which variables are adjacent.

    Parameters
    ----------
    names : sequence of str
    test : IndependenceTest
    knowledge : Knowledge
        Pairs that are forbidden both ways are never tested, required ones never removed, and no set has a variable that
        comes after both ends.
    depth : int
        Largest size of a separating set.
    quick : IndependenceTest, optional
        Asked first, and alone about rivals; `test` is asked before an edge goes. By default there is one test.

    Returns
    -------
    Skeleton
    """
    search = _Search(tuple(names), test, quick or test, knowledge)
    for size in range(depth + 1):
        if not search.go(size):
            break
    return search.skeleton()


class _Search:
    def __init__(self, names: tuple[str, ...], test: IndependenceTest, quick: IndependenceTest, knowledge: Knowledge) -> None:
        self._names = names
        self._test = test
        self._quick = quick
        self._knowledge = knowledge
        self._pairs = [(a, b) for a, b in combinations(names, 2) if not knowledge.never_adjacent(a, b)]
        self._near: dict[str, set[str]] = {name: set() for name in names}
        for a, b in self._pairs:
            self._near[a].add(b)
            self._near[b].add(a)
        self._separations: dict[Pair, Separation] = {}
        self._dispensable: dict[Dispensable, None] = {}
        self._p_values: dict[Pair, float] = {}
        self._trivial: dict[Pair, list[frozenset[str]]] = {}
        self._tests = 0

    def go(self, size: int) -> bool:
        """Try all sets of one size; return whether there was any."""
        before = {name: frozenset(near) for name, near in self._near.items()}
        tried = False
        gone: list[Separation] = []
        for a, b in self._pairs:
            if b not in before[a] or self._knowledge.always_adjacent(a, b):
                continue
            for given in self._sets(a, b, size, before):
                tried = True
                found = self._separation(a, b, given, before)
                if found is not None:
                    gone.append(found)
                    break
        for found in gone:
            self._remove(found)
        return tried

    def _separation(self, a: str, b: str, given: tuple[str, ...], before: Mapping[str, frozenset[str]]) -> Separation | None:
        """Return what a set says, where it separates two variables and no rivals are in play."""
        key = pair_of(a, b)
        if any(trivial <= set(given) for trivial in self._trivial.get(key, ())):
            return None
        outcome = self._outcome(a, b, given)
        if outcome.independent:
            if outcome.determined and self._is_inverted(outcome.determined, given):
                self._trivial.setdefault(key, []).append(frozenset(given))
                return None
            if self._has_rivals(a, b, given, before):
                if outcome.determined:
                    self._trivial.setdefault(key, []).append(frozenset(given))
                return None
            if self._test is not self._quick:
                outcome = self._test.test(a, b, given)
        if not outcome.independent:
            self._p_values[key] = max(self._p_values.get(key, outcome.p_value), outcome.p_value)
            return None
        return Separation(a, b, given, outcome.p_value, outcome.bits, outcome.determined)

    def _is_inverted(self, name: str, given: Sequence[str]) -> bool:
        """Tell whether a set tells a variable by what is computed from it and others: instr and instr / #op tell #op, and separate nothing."""
        definitions = self._knowledge.definitions
        return any(name in definitions.get(one, ()) and len(definitions[one]) > 1 for one in given)

    def skeleton(self) -> Skeleton:
        """Return what the search has come to."""
        kept = tuple(one for one in self._dispensable if one.name in self._near[one.target])
        adjacent = {name: frozenset(near) for name, near in self._near.items()}
        return Skeleton(self._names, adjacent, dict(self._separations), kept, dict(self._p_values), self._tests)

    def _sets(self, a: str, b: str, size: int, before: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
        """Yield the sets of neighbours of either end, each once, in the table's order."""
        seen = set()
        for end in (a, b):
            usable = [
                name for name in self._names if name in before[end] - {a, b} and self._knowledge.may_condition(name, a, b)
            ]
            for given in combinations(usable, size):
                if given not in seen:
                    seen.add(given)
                    yield given

    def _outcome(self, a: str, b: str, given: Sequence[str]) -> Outcome:
        self._tests += 1
        return self._quick.test(a, b, given)

    def _has_rivals(self, a: str, b: str, given: Sequence[str], before: Mapping[str, frozenset[str]]) -> bool:
        """Tell whether a separation rests on a variable that either end would separate in turn, and note these.

        A variable that is no neighbour of the target any more is asked about too where this end was what separated them.
        """
        any_rival = False
        for one, target in ((a, b), (b, a)):
            for other in given:
                past = self._separations.get(pair_of(other, target))
                if other not in before[target] | self._near[target] and not (past and one in past.given):
                    continue
                held = self._separated_in_turn(other, target, one, [name for name in given if name != other])
                if held is None:
                    continue
                any_rival = True
                self._dispensable[Dispensable(one, target, frozenset(given))] = None
                self._dispensable[Dispensable(other, target, frozenset((one, *held)))] = None
                if past:
                    self._dispensable[Dispensable(other, target, frozenset(past.given))] = None
                    del self._separations[pair_of(other, target)]
                    self._near[other].add(target)
                    self._near[target].add(other)
        return any_rival

    def _separated_in_turn(self, other: str, target: str, by: str, rest: Sequence[str]) -> tuple[str, ...] | None:
        """Return what has to be held fixed besides a variable for it to separate two others; None where it does not."""
        if self._knowledge.always_adjacent(other, target) or not self._knowledge.may_condition(by, other, target):
            return None
        for size in range(len(rest), -1, -1):
            for held in combinations(rest, size):
                if (
                    all(self._knowledge.may_condition(name, other, target) for name in held)
                    and self._outcome(other, target, (by, *held)).independent
                ):
                    return held
        return None

    def _remove(self, found: Separation) -> None:
        key = pair_of(found.one, found.other)
        self._near[found.one].discard(found.other)
        self._near[found.other].discard(found.one)
        self._separations[key] = found
        self._p_values[key] = found.p_value
