"""Agreement of the directed graph with its data: the search is repeated for variables that contradict the graph.

A set that separates two variables may contain an effect of both: page faults carry nearly all information that a
script's inputs have about its instructions, but cause few of them. After orientation, parents and descendants are
known, and each variable has to pass the paper's criteria for validating models (8.2) and choosing causes (7.2):

- an input that changes the variable when the other inputs are held fixed is an ancestor: nothing causes an input;
- given its parents, the variable is independent of all variables except its effects (Markov condition, section 3);
- the inputs alone do not describe the variable in fewer bits than its parents do, and no effect describes the variable
  better than the variable describes the effect.

If a variable fails, its parents are searched again by description length, among its parents, the inputs, and variables
that it depends on and does not cause. Then all edges are directed again. Failures that remain after some rounds are
returned, even if no description is shorter: a test may find a dependence that no formula describes. If a description
is shorter, the edges at all failing variables are first searched again together (`shortest`); this is the only second
search if nothing is known about the order of causes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from unperturbed.analysis.causal.discovery.adjacency import Separation, WorkingGraph, pair_of, reached, separates
from unperturbed.analysis.causal.discovery.orientation import Orientation, extend, orient
from unperturbed.analysis.causal.discovery.refinement import TIE_BITS, WORTH_A_PARENT, Bits, Refined
from unperturbed.analysis.causal.discovery.shortest import shortest_graph
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome, IndependenceTest
from unperturbed.analysis.causal.table.knowledge import Arrow, Knowledge
from unperturbed.analysis.multiple_testing import benjamini_hochberg
from unperturbed.common.wording import listing


@dataclass(frozen=True)
class Contradiction:
    """Dependence that the data show, but that a model rules out."""

    target: str
    other: str  # A related variable that is neither parent nor effect of the target in the model
    given: tuple[str, ...]  # The target's parents
    # Bits by which `other` would shorten the target's description: too few for another parent if only a test finds
    # the dependence; NaN if knowledge forbids this parent.
    bits: float
    p_value: float  # Result of the test of their independence

    def __str__(self) -> str:
        given = f" given {listing(self.given)}" if self.given else ""
        p_value = "" if math.isnan(self.p_value) else f" (p = {self.p_value:.2g})"
        text = f"{self.target} depends on {self.other}{given}{p_value}"
        if math.isnan(self.bits):
            return f"{text}, but background knowledge forbids {self.other} as a cause of {self.target}"
        if self.bits <= WORTH_A_PARENT:
            return (
                f"{text}, but with every formula that was tried, {self.other} shortens the description of "
                f"{self.target} too little to justify another cause"
            )
        return (
            f"{text}, and as a further cause, {self.other} would shorten the description of {self.target} by "
            f"{self.bits:.0f} bits, but none of the graphs that were tried accounts for this dependence: state the "
            "order of the two variables in `tiers`"
        )


_MOST_ROUNDS = 4
_UNTESTED_WORTH = 2 * WORTH_A_PARENT
"""Bits that new parents must save if the independence test finds no dependence on them."""
_FALSE_REFUTATIONS = 0.05
"""False-discovery rate of the refutations that are returned, as in `CausalModel.check_markov`."""


@dataclass(frozen=True)
class Descriptions:
    """Properties of a target's shortest description from its parents; the parents are in table order."""

    bits: Bits  # The description's length
    used: Callable[[str, tuple[str, ...]], Collection[str]]  # The parents that occur in it
    # P-value of a dependence of the description's residuals on another variable, the third argument; NaN if there is no
    # test.
    p_value: Callable[[str, tuple[str, ...], str], float]


@dataclass(frozen=True)
class Agreed:
    """Directed graph that agrees with its data as far as possible."""

    graph: Refined  # Adjacencies and separations
    orientation: Orientation  # Directions of its edges
    assumed: tuple[Arrow, ...]  # Directions that are assumed for edges with open directions
    searched_again: frozenset[str]  # Variables whose parents were searched again
    contradictions: tuple[Contradiction, ...]  # Remaining contradictions with the data


def agree(
    names: Sequence[str],
    graph: Refined,
    test: IndependenceTest,
    descriptions: Descriptions,
    knowledge: Knowledge,
    *,
    determined: Callable[[str, Sequence[str]], bool],
    alpha: float = 0.01,
) -> Agreed:
    """Direct a graph, and search again for the parents of variables that contradict the data.

    `alpha`: False-discovery rate among the inputs found to change a variable (Benjamini and Hochberg).
    """
    work = _Agreement(names, graph, test, descriptions, knowledge, determined, alpha)
    for _ in range(_MOST_ROUNDS):
        work.direct()
        if not work.search_failing():
            break
    return work.agreed()


@dataclass
class _Agreement:
    """Graph during the search for agreement with the data."""

    names: Sequence[str]
    start: Refined
    test: IndependenceTest
    descriptions: Descriptions
    knowledge: Knowledge
    determined: Callable[[str, Sequence[str]], bool]
    alpha: float

    def __post_init__(self) -> None:
        self._graph = WorkingGraph(self.start.adjacent, self.start.separations, self.start.p_values)
        self._inputs = tuple(name for name in self.names if name in self.knowledge.inputs)
        self._again: set[str] = set()
        self._turned: set[Arrow] = set()
        self._acting: dict[str, frozenset[str]] = {}
        self._changing = self._inputs_that_change()
        self._oriented = Orientation(frozenset(), frozenset(), frozenset())
        self._assumed: tuple[Arrow, ...] = ()
        self._parents: dict[str, frozenset[str]] = {}

    def direct(self) -> None:
        """Direct all edges; assume a direction for open ones."""
        known = self._known()
        self._oriented = self._orient(known)
        self._assumed = extend(self.names, self._oriented.directed, self._oriented.undirected, known)
        arrows = (*self._oriented.directed, *self._assumed)
        self._parents = {name: frozenset(source for source, target in arrows if target == name) for name in self.names}
        for name, target in self._assumed:
            if not known.allows(name, target):
                # The other direction would close a cycle. The pair gets no edge, and its dependence is reported.
                self._separate(name, target, self._sorted(self._parents[target] - {name}))
                self.direct()
                return

    def _known(self) -> Knowledge:
        """Return the knowledge, with the edges that were turned forbidden in their old direction."""
        forbidden = (*self.knowledge.forbidden, *sorted(self._turned))
        return replace(self.knowledge, forbidden=forbidden) if self._turned else self.knowledge

    def _orient(self, known: Knowledge) -> Orientation:
        return orient(self._graph.adjacent(), self._graph.separations, known, determined=self.determined)

    def search_failing(self) -> bool:
        """Search again, causes first, for parents that contradict the data; return whether any parents changed."""
        return bool([target for target in self._causes_first() if self._search(target)])

    def agreed(self) -> Agreed:
        """Return the graph; inputs that act on a variable become its ancestors even if other criteria fail."""
        if self._again or self._turned:
            self.direct()
            for target in self._causes_first():
                lost = self._lost(target, self._parents[target])
                if lost:
                    self._become_parents(target, self._parents[target] | lost)
                    directed = self._oriented.directed | {(name, target) for name in lost}
                    self._oriented = replace(self._oriented, directed=directed)
        self._correct_separations()
        contradictions = self._contradictions()
        for _ in range(_MOST_ROUNDS):
            # No comparison with NaN is true: what knowledge forbids is not searched again.
            failing = {each.target for each in contradictions if each.bits > _UNTESTED_WORTH}
            if not failing or not self._shorten(failing):
                break
            contradictions = self._contradictions()
        adjacent = self._graph.adjacent()
        equivalences = tuple(
            equivalence
            for equivalence in self.start.equivalences
            if adjacent[equivalence.target].issuperset(equivalence.kept)
            and adjacent[equivalence.target].isdisjoint(equivalence.left_out)
        )
        graph = Refined(adjacent, self._graph.separations, equivalences, self._graph.p_values)
        return Agreed(graph, self._oriented, self._assumed, frozenset(self._again), contradictions)

    def _shorten(self, targets: Collection[str]) -> bool:
        """Change the edges at some variables so that the table's description shrinks; return whether any changed.

        The graph's own v-structures direct its edges; the search's directions are assumed for the others.
        """
        before = dict(self._parents)
        shorter = shortest_graph(self.names, before, targets, self.descriptions.bits, self.knowledge)
        changed = [name for name in self.names if shorter[name] != before[name]]
        for name in changed:
            self._become_parents(name, before[name] & shorter[name])
        for name in changed:
            self._become_parents(name, shorter[name])
        self._again.update(changed)
        self._correct_separations()
        self._oriented = self._orient(self._known())
        arrows = [(source, target) for target in self.names for source in self._sorted(shorter[target])]
        directed = self._oriented.directed.intersection(arrows)
        self._assumed = tuple(arrow for arrow in arrows if arrow not in directed)
        undirected = frozenset(pair_of(*arrow) for arrow in self._assumed)
        self._oriented = Orientation(directed, undirected, self._oriented.conflicts & undirected)
        self._parents = shorter
        return bool(changed)

    def _search(self, target: str) -> bool:
        """Search again for a variable's parents if they contradict the data; return whether any parent changed."""
        if target in self._inputs or target in self.knowledge.definitions:
            return False
        turned = self._turn_effects(target)
        before = self._parents[target]
        lost = self._lost(target, before)
        # Without knowledge of causes, a wrong direction may equally well be the reason for a dependence.
        dependent = frozenset(name for name in self._dependent(target, before) if self._is_known(name, target))
        refuted = frozenset(name for name in self._refuted(target, before) if self._is_known(name, target))
        acting = frozenset(
            name
            for name in self._acting_on(target)
            if name in before | dependent | refuted or not self._defines(name, before)
        )
        worse = bool(acting) and self._bits(target, acting) < self._bits(target, before) - _UNTESTED_WORTH
        if not (lost or dependent or refuted or worse):
            return turned
        kept = frozenset(name for name in before if self.knowledge.always_adjacent(name, target))
        other = dependent | refuted
        starts = [before | lost | dependent, before | acting | dependent, before | other, acting | kept, before]
        parents = min(dict.fromkeys(starts), key=lambda start: self._bits(target, start))
        parents = self._shortest(target, parents, before | acting | other, kept, instead=other)
        parents |= self._lost(target, parents)
        if parents == before:
            return turned
        self._become_parents(target, parents)
        self._again.add(target)
        return True

    def _turn_effects(self, target: str) -> bool:
        """Reverse an edge to an effect if fewer bits then describe both variables; return whether any was reversed.

        As in Janzing and Schölkopf, "Causal inference using the algorithmic Markov condition" (2010).
        """
        effects = [name for name in self.names if target in self._parents[name] and self._inputs]
        turned = False
        for name in effects:
            if not self.knowledge.allows(name, target) or self.knowledge.requires(target, name):
                continue
            parents = self._parents[name] - {target}
            if any(target in self._ancestors(parent) for parent in parents):
                continue
            own, of_effect = self._parents[target], parents | self._acting_on(name)
            saved = self._bits(target, own) - self._bits(target, own | {name})
            if saved <= WORTH_A_PARENT:
                continue
            more = min(self._bits(name, causes) for causes in (parents, of_effect)) - self._bits(
                name, self._parents[name]
            )
            if more < saved - WORTH_A_PARENT:
                self._parents[name], self._parents[target] = parents, own | {name}
                self._turned.discard((name, target))
                self._turned.add((target, name))
                turned = True
        return turned

    def _shortest(
        self,
        target: str,
        parents: frozenset[str],
        candidates: Collection[str],
        kept: frozenset[str],
        instead: Collection[str] = (),
    ) -> frozenset[str]:
        """Return the parents after dropping superfluous ones, adding candidates, and exchanging some for `instead`."""

        def shortest(sets: list[frozenset[str]]) -> frozenset[str]:
            return min(sets, key=lambda option: self._bits(target, option), default=parents)

        while True:
            now = self._bits(target, parents)
            needed = parents & (kept | set(self.descriptions.used(target, self._sorted(parents))))
            if needed != parents and self._bits(target, needed) < now + TIE_BITS:
                parents = needed
                continue
            less = self._sorted(parents - kept)
            fewer = shortest([parents - {name} for name in less])
            if fewer != parents and self._bits(target, fewer) < now + TIE_BITS:
                parents = fewer
                continue
            longer = shortest([parents | {name} for name in self._sorted(candidates) if name not in parents])
            if self._bits(target, longer) <= now - WORTH_A_PARENT:
                parents = longer
                continue
            more = self._sorted(set(instead) - parents)
            other = shortest([parents - {name} | {added} for name in less for added in more])
            if self._bits(target, other) > now - TIE_BITS:
                return parents
            parents = other

    def _inputs_that_change(self) -> dict[str, frozenset[str]]:
        """Return, for each variable, the inputs that it depends on given the other inputs."""
        pairs = [(name, parameter) for name in self.names if name not in self._inputs for parameter in self._inputs]
        outcomes = [
            self.test.test(parameter, name, [each for each in self._inputs if each != parameter])
            for name, parameter in pairs
        ]
        p_values = benjamini_hochberg([math.nan if outcome.determined else outcome.p_value for outcome in outcomes])
        inputs: dict[str, set[str]] = {name: set() for name in self.names}
        for (name, parameter), p_value in zip(pairs, p_values.tolist(), strict=True):
            if p_value <= self.alpha and self.knowledge.allows(parameter, name):
                inputs[name].add(parameter)
        return {name: frozenset(some) for name, some in inputs.items()}

    def _acting_on(self, target: str) -> frozenset[str]:
        """Return the inputs that shorten a variable's description if only inputs may be parents."""
        if target not in self._acting:
            allowed = frozenset(name for name in self._inputs if self.knowledge.allows(name, target))
            self._acting[target] = self._shortest(target, allowed, (), frozenset())
        return self._acting[target]

    def _lost(self, target: str, parents: Collection[str]) -> frozenset[str]:
        """Return the inputs that act on a variable but are neither among these parents nor among their ancestors."""
        if target in self._inputs or target in self.knowledge.definitions:
            return frozenset()
        ancestors = reached(parents, self._parents.__getitem__)
        # A test alone errs in small tables, a description alone if much remains unexplained.
        return (self._acting_on(target) & self._changing[target]) - ancestors

    def _dependent(self, target: str, parents: Collection[str]) -> list[str]:
        """Return the variables that shorten a target's description and on which it depends given its parents."""
        given = self._sorted(parents)
        now = self._bits(target, parents)
        dependent = []
        for name in self.names:
            if name in {target, *parents} or not self.knowledge.allows(name, target) or target in self._ancestors(name):
                continue
            outcome = self.test.test(name, target, given)
            if outcome.determined:
                continue
            worth = WORTH_A_PARENT
            if outcome.independent:
                # For variables that come first, the formula's residuals may show a dependence that the test misses.
                if not self.knowledge.precedes(name, target):
                    continue
                if not self.descriptions.p_value(target, given, name) <= self.alpha:
                    continue
                worth = _UNTESTED_WORTH
            if self._bits(target, {*parents, name}) < now - worth:
                dependent.append(name)
        return dependent

    def _is_known(self, name: str, target: str) -> bool:
        """Return whether a variable may become a cause of another: if it comes first, or if inputs are declared."""
        return bool(self._inputs) or self.knowledge.precedes(name, target)

    def _defines(self, name: str, parents: Collection[str]) -> bool:
        """Return whether a parent is computed from a variable, as an element's size is from its data type.

        A table of the variable's values may be shorter than a formula of the parent, although only the parent acts.
        """
        return any(name in self.knowledge.definitions.get(parent, ()) for parent in parents)

    def _refuted(self, target: str, parents: Collection[str]) -> list[str]:
        """Return the variables, neither parents nor effects, that a variable clearly depends on given its parents."""
        level = self.alpha / len(self.names)
        outcomes = self._outcomes(target, parents)
        return [
            name
            for name, outcome in outcomes.items()
            if outcome.p_value <= level and not outcome.determined and self.knowledge.allows(name, target)
        ]

    def _outcomes(self, target: str, parents: Collection[str]) -> dict[str, IndependenceOutcome]:
        """Test whether a variable is independent, given its parents, of each variable that is not its parent or effect.

        The formula may miss less of the parents' influence than the test: the larger p-value is valid if either is.
        """
        given = self._sorted(parents)
        outcomes = {}
        for name in self.names:
            if name in {target, *parents} or target in self._ancestors(name):
                continue
            outcome = self.test.test(name, target, given)
            if not outcome.independent:
                left = self.descriptions.p_value(target, given, name)
                outcome = replace(outcome, p_value=left) if left > outcome.p_value else outcome
            outcomes[name] = outcome
        return outcomes

    def _contradictions(self) -> tuple[Contradiction, ...]:
        """Return the remaining contradictions, found by description length or by a test."""
        targets = [name for name in self._causes_first() if name not in {*self._inputs, *self.knowledge.definitions}]
        claims = {
            (target, name): outcome
            for target in targets
            for name, outcome in self._outcomes(target, self._parents[target]).items()
        }
        adjusted = benjamini_hochberg(
            [math.nan if outcome.determined else outcome.p_value for outcome in claims.values()]
        )
        refuted = {
            pair for pair, p_value in zip(claims, adjusted.tolist(), strict=True) if p_value <= _FALSE_REFUTATIONS
        }
        contradictions = []
        for target in targets:
            parents = self._parents[target]
            dependent = {(target, name) for name in self._dependent(target, parents)}
            for pair in (claim for claim in claims if claim[0] == target and claim in refuted | dependent):
                saved = math.nan
                if self.knowledge.allows(pair[1], target):
                    saved = self._bits(target, parents) - self._bits(target, {*parents, pair[1]})
                contradictions.append(Contradiction(*pair, self._sorted(parents), saved, claims[pair].p_value))
        return tuple(contradictions)

    def _become_parents(self, target: str, parents: frozenset[str]) -> None:
        """Replace a variable's parents."""
        given = self._sorted(parents)
        for name in self._sorted(self._parents[target] - parents):
            self._separate(name, target, given)
        for name in self._sorted(parents - self._parents[target]):
            rest = [parent for parent in given if parent != name]
            self._graph.connect(name, target, self.test.test(name, target, rest))
        self._parents[target] = parents

    def _separate(self, name: str, target: str, given: tuple[str, ...]) -> None:
        outcome = self.test.test(name, target, given)
        self._graph.separate(Separation(name, target, given, outcome.p_value, outcome.bits, outcome.determined))
        self._graph.p_values[pair_of(name, target)] = outcome.p_value

    def _correct_separations(self) -> None:
        """Replace sets that do not separate their variables in the graph by the parents of the later variable."""
        order = self._causes_first()
        arrows = [(source, target) for target in self.names for source in self._parents[target]]
        for separation in list(self._graph.separations.values()):
            name, target = sorted((separation.one, separation.other), key=order.index)
            if not separates(arrows, name, target, separation.given):
                self._separate(name, target, self._sorted(self._parents[target]))

    def _bits(self, target: str, parents: Collection[str]) -> float:
        return self.descriptions.bits(target, self._sorted(parents))

    def _sorted(self, some: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in some)

    def _ancestors(self, name: str) -> set[str]:
        return reached(self._parents[name], self._parents.__getitem__)

    def _causes_first(self) -> list[str]:
        return sorted(self.names, key=lambda name: (len(self._ancestors(name)), self.names.index(name)))
