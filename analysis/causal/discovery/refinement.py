"""Resolve equivalent parents by description length, then restore edges that the skeleton search removed by mistake.

Lemeire et al., section 6.2: X and Y are information equivalent with respect to Z if, eq. (12) corrected,

    X and Z are dependent, Y and Z are dependent, X ⊥ Z | Y and Y ⊥ Z | X,

each given some set W. (The paper prints X ⊥ Z as the first term, although its text requires a dependence, and omits the
second.) The variable with "the simplest relation with the target" stays, by the description length of section 7.2. Here
sets compete: those that make all other candidates dispensable, each fitted as the target's parents. Lengths that differ
by less than half an operation are a tie; the set with fewer variables wins, then the set with earlier causes, such as
inputs. A separate value for each of the few sizes of a sweep is not a simple relation: any variable that distinguishes
these sizes has an equally short table.

A set that lacks a strong cause, or has a poor proxy for it, separates easily: cycles and time seem independent if the
number of operations changes time by a factor of a thousand. So each variable whose possible causes are known from their
order is checked against the Markov condition (section 8.2): an earlier variable becomes a cause if the variable depends
on it given the causes, and if it shortens the variable's description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from unperturbed.analysis.causal.discovery.adjacency import (
    Dispensable,
    Pair,
    Separation,
    Skeleton,
    WorkingGraph,
    pair_of,
)
from unperturbed.analysis.causal.independence.methods import IndependenceTest
from unperturbed.analysis.causal.table.knowledge import Knowledge
from unperturbed.common.wording import listing

Bits = Callable[[str, tuple[str, ...]], float]
"""Description length of a target from a set of parents."""

TIE_BITS = 4.0
"""Half an operation of 8 bits: one operation decides (figure 6: Z = a·Y, not a·X², where Y = X²)."""
WORTH_A_PARENT = 10.0
"""Bits that one more parent must save: an operation and a constant, 8 bits and ½log₂n."""
NEARLY_DETERMINED = 0.25
"""Share of a variable's variance that others must leave; with less, a test cannot detect the variable's effect."""
_MOST_FITS = 40
_MOST_ENUMERATED = 7


@dataclass(frozen=True)
class Equivalence:
    """Two sets of variables that carry the same information about a target.

    Attributes
    ----------
    target : str
        The variable that both sets describe.
    kept, left_out : tuple of str
        The set that became the target's neighbours, and the set that did not.
    given : tuple of str
        The target's other neighbours that were held fixed as its parents.
    kept_bits, left_out_bits : float
        Description lengths of the target with either set; NaN if the sets are effects of the target.
    determined : bool
        Whether inputs determine the omitted variables: lengths then do not show which variables act.
    """

    target: str
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    given: tuple[str, ...]
    kept_bits: float
    left_out_bits: float
    determined: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the omitted variables may equally well be the ones that act on the target."""
        return self.determined or self.left_out_bits - self.kept_bits < WORTH_A_PARENT

    def __str__(self) -> str:
        kept, carry = listing(self.kept), "carries" if len(self.kept) == 1 else "carry"
        given = f" given {listing(self.given)}" if self.given else ""
        text = f"{kept} {carry} the same information about {self.target}{given} as {listing(self.left_out)}"
        return f"{text}; {kept} {'is' if len(self.kept) == 1 else 'are'} kept because {self.reason}"

    @property
    def reason(self) -> str:
        """Reason for keeping the kept set, in words."""
        if math.isnan(self.kept_bits):
            return (
                f"all these variables are effects of {self.target}: the smaller set is preferred and, of equally large "
                "sets, the one that comes first in the causal order or, if that is open, in the table"
            )
        less = self.left_out_bits - self.kept_bits
        if less >= TIE_BITS:
            return f"{self.target} takes {less:.0f} fewer bits to describe with {listing(self.kept)}"
        if less <= -TIE_BITS:
            others = listing(self.left_out)
            return (
                f"tests find no further information in {others}, although {self.target} takes {-less:.0f} fewer bits "
                f"to describe with {others}"
            )
        if len(self.kept) < len(self.left_out):
            return "the descriptions are equally long, and the smaller set is preferred"
        come = "it comes" if len(self.kept) == 1 else "they come"
        return (
            f"the descriptions are equally long, and {come} first in the causal order or, if that is open, in the table"
        )


@dataclass(frozen=True)
class ParentChoice:
    """Kept neighbours of a target, and the comparisons that decided which to keep."""

    kept: frozenset[str]  # The candidates that are kept
    equivalences: tuple[Equivalence, ...]  # The pairs of sets that were compared


@dataclass(frozen=True)
class Relations:
    """Functions that the choice between equivalent variables uses."""

    bits: Bits  # Description length of a target from parents, in table order
    # Whether the first two variables are independent given the third argument.
    separates: Callable[[str, str, Sequence[str]], bool]
    # The share of a variable's variance that others do not explain: 0 if they determine it.
    unexplained: Callable[[str, Sequence[str]], float]
    is_determined: Callable[[str, Sequence[str]], bool]  # Whether others determine a variable
    # Returns the description length that compares some equivalent parents: between numbers, looking one up in a table
    # costs a comparison for each of its values. By default `bits`.
    bits_between: Callable[[Collection[str]], Bits] | None = None
    # Whether a target's formula from parents, the second argument, is as good without one of them, the third argument,
    # although a test found a dependence. By default never.
    is_unused: Callable[[str, tuple[str, ...], str], bool] | None = None


def choose(
    target: str,
    candidates: Sequence[str],
    dispensable: Iterable[Dispensable],
    relations: Relations,
    knowledge: Knowledge,
) -> ParentChoice:
    """Choose between the candidates that make each other dispensable."""
    evidence: dict[str, list[frozenset[str]]] = {}
    for neighbour in dispensable:
        if (
            neighbour.target == target
            and neighbour.name in candidates
            and not knowledge.always_adjacent(neighbour.name, target)
        ):
            evidence.setdefault(neighbour.name, []).append(neighbour.given)
    if not evidence:
        return ParentChoice(frozenset(candidates), ())
    return _Chooser(target, candidates, evidence, relations, knowledge).choice()


@dataclass
class _Chooser:
    """Choice between equivalent neighbours of one target."""

    target: str
    candidates: Sequence[str]
    evidence: Mapping[str, Sequence[frozenset[str]]]
    relations: Relations
    knowledge: Knowledge

    def __post_init__(self) -> None:
        key = self.knowledge.causal_order_key
        self._place = {name: (key(name), number) for number, name in enumerate(self.candidates)}
        self._settled = tuple(name for name in self.candidates if name not in self.evidence)
        self._twins = self._find_twins(sorted(self.evidence, key=self._place.__getitem__))
        self._contested = tuple(name for name in self.candidates if name in self._twins)
        between = self.relations.bits_between
        self._compared_bits = self.relations.bits if between is None else between(list(self.evidence))

    def choice(self) -> ParentChoice:
        """Return the sufficient set with the shortest description, and its comparisons with equivalent sets."""
        options = self._sufficient()[:_MOST_FITS]
        best = self._shortest(options)
        kept = self._add_nearly_determined(best)
        compared = [(best, option) for option in options if best - option and option - kept]
        for name in sorted(kept & self._twins.keys(), key=self._place.__getitem__):
            ways = [kept - {name} | {twin} for twin in (name, *self._twins[name])]
            kept = self._shortest(ways)
            compared += [(kept, way) for way in ways if way != kept]
        equivalences = tuple(self._equivalence(chosen, other) for chosen, other in compared)
        return ParentChoice(kept | frozenset(self._settled), tuple(dict.fromkeys(equivalences)))

    def _length(self, chosen: Collection[str]) -> float:
        return self.relations.bits(self.target, self._parents(chosen))

    def _compared_length(self, chosen: Collection[str]) -> float:
        return self._compared_bits(self.target, self._parents(chosen))

    def _parents(self, chosen: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.candidates if name in self._settled or name in chosen)

    def _find_twins(self, contested: Sequence[str]) -> dict[str, list[str]]:
        """Return, for each variable, the later variables with exactly the same information, such as n³ for n."""
        twins: dict[str, list[str]] = {}
        determined = self.relations.is_determined
        for name in contested:
            first = next(
                (earlier for earlier in twins if determined(name, [earlier]) and determined(earlier, [name])), None
            )
            if first is None:
                twins[name] = []
            else:
                twins[first].append(name)
        return twins

    def _suffices(self, chosen: frozenset[str]) -> bool:
        """Return whether the chosen candidates make all others dispensable."""
        kept = self._parents(chosen)
        return all(
            name in chosen
            or any(given <= set(kept) for given in self.evidence[name])
            or self.relations.separates(name, self.target, kept)
            for name in self._contested
        )

    def _sufficient(self) -> list[frozenset[str]]:
        """Return the minimal sufficient sets, smallest first; for many candidates, those that greedy removal finds."""
        sufficient: list[frozenset[str]] = []
        if len(self._contested) > _MOST_ENUMERATED:
            for last in self._contested:
                chosen = frozenset(self._contested)
                for name in [*(candidate for candidate in reversed(self._contested) if candidate != last), last]:
                    if self._suffices(chosen - {name}):
                        chosen -= {name}
                if chosen not in sufficient:
                    sufficient.append(chosen)
            return sufficient
        for size in range(len(self._contested) + 1):
            for chosen in map(frozenset, combinations(self._contested, size)):
                if not any(less <= chosen for less in sufficient) and self._suffices(chosen):
                    sufficient.append(chosen)
        return sufficient

    def _shortest(self, options: Sequence[frozenset[str]]) -> frozenset[str]:
        """Return the set with the shortest description; a tie goes to the smallest set, then to the first."""
        if len(options) == 1:
            return options[0]
        least = min(map(self._compared_length, options))
        tied = [option for option in options if self._compared_length(option) < least + TIE_BITS]
        return min(tied, key=lambda option: (len(option), sorted(self._place[name] for name in option)))

    def _add_nearly_determined(self, best: frozenset[str]) -> frozenset[str]:
        """Add variables that shorten the description but that tests miss, because the set nearly determines them."""
        kept = best
        while True:
            parents = self._parents(kept)
            more = [
                kept | {name}
                for name in self._contested
                if name not in kept
                and not self.relations.is_determined(name, parents)
                and (
                    self.relations.unexplained(name, parents) < NEARLY_DETERMINED
                    or not self.relations.separates(name, self.target, parents)
                )
            ]
            longer = min(more, key=self._length, default=kept)
            if longer == kept or self._length(longer) > self._length(kept) - WORTH_A_PARENT:
                return kept
            kept = longer

    def _equivalence(self, chosen: frozenset[str], other: frozenset[str]) -> Equivalence:
        """Return the comparison of two sets."""
        given = [name for name in self.candidates if name in self._settled or (name in chosen and name in other)]
        return Equivalence(
            self.target,
            tuple(sorted(chosen - other, key=self._place.__getitem__)),
            tuple(sorted(other - chosen, key=self._place.__getitem__)),
            tuple(given),
            self._compared_length(chosen),
            self._compared_length(other),
        )


_MOST_ROUNDS = 4


@dataclass(frozen=True)
class Refined:
    """Undirected graph without equivalent neighbours."""

    adjacent: Mapping[str, frozenset[str]]  # The neighbours of each variable
    separations: Mapping[Pair, Separation]  # Of pairs that are not adjacent, except pairs that knowledge forbids
    equivalences: tuple[Equivalence, ...]  # Sets of variables that carry the same information
    p_values: Mapping[Pair, float]  # As in `Skeleton`; for restored pairs, of the test that restored them


def refine(skeleton: Skeleton, test: IndependenceTest, relations: Relations, knowledge: Knowledge) -> Refined:
    """Choose between equivalent neighbours, and restore edges that the Markov condition requires."""
    work = _Refinement(skeleton, test, relations, knowledge)
    order = sorted(skeleton.names, key=lambda name: (knowledge.causal_order_key(name), skeleton.names.index(name)))
    for _ in range(_MOST_ROUNDS):
        changed = [target for target in order if work.choose_causes(target)]
        if not changed:
            break
    return work.refined()


class _Refinement:
    """Graph during refinement."""

    def __init__(self, skeleton: Skeleton, test: IndependenceTest, relations: Relations, knowledge: Knowledge) -> None:
        self._names = skeleton.names
        self._test = test
        self._relations = relations
        self._knowledge = knowledge
        self._graph = WorkingGraph(skeleton.adjacent, skeleton.separations, skeleton.p_values)
        self._neighbours = self._graph.neighbours
        self._dispensable = list(skeleton.dispensable)
        self._equivalences: dict[str, tuple[Equivalence, ...]] = {}
        self._effects_alike: dict[str, tuple[Equivalence, ...]] = {}

    def choose_causes(self, target: str) -> bool:
        """Choose a target's neighbours among those that may be its causes; return whether any neighbour changed."""
        before = frozenset(self._neighbours[target])
        self._choose_effects(target)
        while True:
            candidates = [
                name
                for name in self._names
                if name in self._neighbours[target] and self._knowledge.allows(name, target)
            ]
            choice = choose(target, candidates, self._dispensable, self._relations, self._knowledge)
            if not self._restore(target, candidates, choice):
                break
        if choice.equivalences or target not in self._equivalences:
            self._equivalences[target] = choice.equivalences
        kept = self._without_unused(target, self._with_shorter(target, choice.kept))
        for name in kept - set(candidates):
            self._graph.connect(name, target, self._test.test(name, target, [cause for cause in kept if cause != name]))
        for name in candidates:
            if name not in kept:
                self._separate(name, target, kept)
        return before != self._neighbours[target]

    def _with_shorter(self, target: str, kept: frozenset[str]) -> frozenset[str]:
        """Replace a cause by a variable that it nearly determines and separates from the target, if that saves bits.

        Only for a target whose causes are known: the test that separated the variable may be wrong.
        """
        for name in sorted(kept, key=self._names.index):
            for other in self._names:
                separation = self._graph.separations.get(pair_of(other, target))
                if separation is None or name not in separation.given or other in kept or name not in kept:
                    continue
                if self._knowledge.always_adjacent(name, target) or not self._knowledge.allows(other, target):
                    continue
                if any(self._knowledge.allows(target, cause) for cause in (*kept, other)):
                    continue
                if self._relations.unexplained(other, [name]) >= NEARLY_DETERMINED:
                    continue
                instead = kept - {name} | {other}
                before, after = (
                    self._relations.bits(target, tuple(parent for parent in self._names if parent in parents))
                    for parents in (kept, instead)
                )
                if after < before - WORTH_A_PARENT:
                    kept = instead
        return kept

    def _without_unused(self, target: str, causes: frozenset[str]) -> frozenset[str]:
        """Drop causes that neither the formula nor its residuals depend on, if the target's causes are known."""
        unused = self._relations.is_unused
        if unused is None or any(self._knowledge.allows(target, name) for name in causes):
            return causes
        kept = tuple(name for name in self._names if name in causes)
        for name in kept:
            if not self._knowledge.always_adjacent(name, target) and unused(target, kept, name):
                kept = tuple(cause for cause in kept if cause != name)
        return frozenset(kept)

    def _choose_effects(self, target: str) -> None:
        """Choose between effects with the same information about a target: the smallest set; if tied, the first."""
        effects = [
            name
            for name in self._names
            if name in self._neighbours[target] and not self._knowledge.allows(name, target)
        ]
        alike = replace(self._relations, bits=lambda _target, _parents: 0.0, bits_between=None)
        choice = choose(target, effects, self._dispensable, alike, self._knowledge)
        if choice.equivalences:
            alike_effects = (
                replace(equivalence, kept_bits=math.nan, left_out_bits=math.nan) for equivalence in choice.equivalences
            )
            self._effects_alike[target] = tuple(alike_effects)
        for name in effects:
            if name not in choice.kept:
                self._separate(name, target, choice.kept)

    def refined(self) -> Refined:
        """Return the graph without equivalent neighbours."""
        equivalences = tuple(
            equivalence
            for target in self._names
            for equivalence in (*self._equivalences.get(target, ()), *self._effects_alike.get(target, ()))
            if self._neighbours[target].issuperset(equivalence.kept)
            and self._neighbours[target].isdisjoint(equivalence.left_out)
        )
        return Refined(self._graph.adjacent(), self._graph.separations, equivalences, self._graph.p_values)

    def _restore(self, target: str, candidates: Sequence[str], choice: ParentChoice) -> bool:
        """Add the most informative missing cause that shortens the description; return whether there was one."""
        parents = tuple(name for name in candidates if name in choice.kept)
        causes = [name for name in self._names if name != target and self._knowledge.allows(name, target)]
        if any(self._knowledge.allows(target, name) for name in causes):
            # One of them may be an effect, which proves nothing: only variables that certainly come before the target
            # may be held fixed or be missing.
            if not all(self._knowledge.precedes(name, target) for name in parents):
                return False
            causes = [name for name in causes if self._knowledge.precedes(name, target)]
        missing = [name for name in causes if name not in candidates]
        outcomes = {name: self._test.test(name, target, parents) for name in missing}
        for name in sorted(missing, key=lambda cause: -outcomes[cause].bits):
            if outcomes[name].independent:
                continue
            more = tuple(parent for parent in self._names if parent in parents or parent == name)
            if self._relations.bits(target, more) < self._relations.bits(target, parents) - WORTH_A_PARENT:
                self._graph.connect(name, target, outcomes[name])
                self._note_dispensable(target, more, name)
                return True
        return False

    def _note_dispensable(self, target: str, parents: Sequence[str], new: str) -> None:
        """Record the parents that a new parent makes dispensable."""
        for name in parents:
            rest = [parent for parent in parents if parent != name]
            if name != new and self._test.test(name, target, rest).independent:
                self._dispensable.append(Dispensable(name, target, frozenset(rest)))

    def _separate(self, name: str, target: str, kept: frozenset[str]) -> None:
        """Separate two variables, unless nothing would then explain their relation.

        n, which determines #op, separates #op from the instructions only while the instructions are neighbours of n: if
        #op separated them from n, #op is their only explanation.
        """
        given = tuple(neighbour for neighbour in self._names if neighbour in kept)
        outcome = self._test.test(name, target, given)
        if (
            outcome.determined == target
            and self._knowledge.allows(target, name)
            and self._neighbours[name].isdisjoint(given)
        ):
            return
        self._graph.separate(Separation(name, target, given, outcome.p_value, outcome.bits, outcome.determined))
