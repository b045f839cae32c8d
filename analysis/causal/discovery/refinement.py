"""Resolve equivalent parents by description length, then restore edges that the skeleton search removed by mistake.

The search removes an edge when any set separates its ends. A set without a strong cause, or with a poor proxy of it,
does that easily: cycles and time seem independent if the number of operations varies time by a factor of a thousand. So
each variable whose causes are known by their order is checked against the Markov condition by which the paper validates
models (section 8.2): given its causes, it is independent of what comes before it. A variable that is still dependent,
and shortens its description, becomes a cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from unperturbed.analysis.causal.discovery.adjacency import Dispensable, Pair, Separation, Skeleton, pair_of
from unperturbed.analysis.causal.discovery.equivalence import (
    NEARLY_DETERMINED,
    WORTH_A_PARENT,
    Choice,
    Equivalence,
    Relations,
    choose,
)
from unperturbed.analysis.causal.independence.base import IndependenceTest, Outcome
from unperturbed.analysis.causal.table.knowledge import Knowledge

_MOST_ROUNDS = 4


@dataclass(frozen=True)
class Refined:
    """An undirected graph without equivalent neighbours."""

    adjacent: Mapping[str, frozenset[str]]  # The neighbours of each variable
    separations: Mapping[Pair, Separation]  # Of the pairs that are not adjacent, but those that knowledge keeps apart
    equivalences: tuple[Equivalence, ...]  # Sets of variables that carry the same information
    p_values: Mapping[Pair, float]  # As of `Skeleton`; of pairs that were found again, of the test that did


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
    """The graph while it is refined."""

    def __init__(self, skeleton: Skeleton, test: IndependenceTest, relations: Relations, knowledge: Knowledge) -> None:
        self._names = skeleton.names
        self._test = test
        self._relations = relations
        self._knowledge = knowledge
        self._neighbours = {name: set(near) for name, near in skeleton.adjacent.items()}
        self._separations = dict(skeleton.separations)
        self._dispensable = list(skeleton.dispensable)
        self._p_values = dict(skeleton.p_values)
        self._equivalences: dict[str, tuple[Equivalence, ...]] = {}
        self._effects_alike: dict[str, tuple[Equivalence, ...]] = {}

    def choose_causes(self, target: str) -> bool:
        """Choose a target's neighbours among those that may be its causes; return whether any changed."""
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
        choice = self._without_unused(target, self._with_shorter(target, choice))
        for name in choice.kept - set(candidates):
            self._connect(name, target, self._test.test(name, target, [one for one in choice.kept if one != name]))
        for name in candidates:
            if name not in choice.kept:
                self._separate(name, target, choice)
        return before != self._neighbours[target]

    def _with_shorter(self, target: str, choice: Choice) -> Choice:
        """Put a variable in the place of a cause that separates it from the target and nearly determines it, where it
        describes the target clearly better, of a target whose causes are known.

        One of two tests that are both right in most tables is wrong in some: the cause was not separated in turn.
        """
        kept = choice.kept
        for name in sorted(kept, key=self._names.index):
            for other in self._names:
                found = self._separations.get(pair_of(other, target))
                if found is None or name not in found.given or other in kept or name not in kept:
                    continue
                if self._knowledge.always_adjacent(name, target) or not self._knowledge.allows(other, target):
                    continue
                if any(self._knowledge.allows(target, one) for one in (*kept, other)):
                    continue
                if self._relations.unexplained(other, [name]) >= NEARLY_DETERMINED:
                    continue
                instead = kept - {name} | {other}
                before, after = (
                    self._relations.bits(target, tuple(one for one in self._names if one in parents))
                    for parents in (kept, instead)
                )
                if after < before - WORTH_A_PARENT:
                    kept = instead
        return replace(choice, kept=kept)

    def _without_unused(self, target: str, choice: Choice) -> Choice:
        """Drop causes that the target's formula does not use and leaves nothing for, of a target whose causes are
        known."""
        unused = self._relations.is_unused
        if unused is None or any(self._knowledge.allows(target, name) for name in choice.kept):
            return choice
        kept = tuple(name for name in self._names if name in choice.kept)
        for name in kept:
            if not self._knowledge.always_adjacent(name, target) and unused(target, kept, name):
                kept = tuple(one for one in kept if one != name)
        return replace(choice, kept=frozenset(kept))

    def _choose_effects(self, target: str) -> None:
        """Choose between effects of a target that carry the same information: fewer are simpler, else the first."""
        effects = [
            name
            for name in self._names
            if name in self._neighbours[target] and not self._knowledge.allows(name, target)
        ]
        alike = replace(self._relations, bits=lambda _target, _parents: 0.0, bits_between=None)
        choice = choose(target, effects, self._dispensable, alike, self._knowledge)
        if choice.equivalences:
            alike_effects = (replace(one, kept_bits=math.nan, left_out_bits=math.nan) for one in choice.equivalences)
            self._effects_alike[target] = tuple(alike_effects)
        for name in effects:
            if name not in choice.kept:
                self._separate(name, target, choice)

    def refined(self) -> Refined:
        """Return the graph without equivalent neighbours."""
        adjacent = {name: frozenset(near) for name, near in self._neighbours.items()}
        equivalences = tuple(
            one
            for target in self._names
            for one in (*self._equivalences.get(target, ()), *self._effects_alike.get(target, ()))
            if self._neighbours[target].issuperset(one.kept) and self._neighbours[target].isdisjoint(one.left_out)
        )
        return Refined(adjacent, dict(self._separations), equivalences, dict(self._p_values))

    def _restore(self, target: str, candidates: Sequence[str], choice: Choice) -> bool:
        """Add the most informative missing cause of a target whose causes are known, if it shortens the description."""
        parents = tuple(name for name in candidates if name in choice.kept)
        causes = [name for name in self._names if name != target and self._knowledge.allows(name, target)]
        if any(self._knowledge.allows(target, name) for name in causes):
            # One of them may be an effect, from which nothing follows: only what surely comes before may be held fixed,
            # and be missing.
            if not all(self._knowledge.precedes(name, target) for name in parents):
                return False
            causes = [name for name in causes if self._knowledge.precedes(name, target)]
        missing = [name for name in causes if name not in candidates]
        outcomes = {name: self._test.test(name, target, parents) for name in missing}
        for name in sorted(missing, key=lambda one: -outcomes[one].bits):
            if outcomes[name].independent:
                continue
            more = tuple(one for one in self._names if one in parents or one == name)
            if self._relations.bits(target, more) < self._relations.bits(target, parents) - WORTH_A_PARENT:
                self._connect(name, target, outcomes[name])
                self._note_dispensable(target, more, name)
                return True
        return False

    def _note_dispensable(self, target: str, parents: Sequence[str], new: str) -> None:
        """Note the parents that a new one makes dispensable."""
        for name in parents:
            rest = [one for one in parents if one != name]
            if name != new and self._test.test(name, target, rest).independent:
                self._dispensable.append(Dispensable(name, target, frozenset(rest)))

    def _connect(self, name: str, target: str, outcome: Outcome) -> None:
        """Make two variables neighbours."""
        self._neighbours[name].add(target)
        self._neighbours[target].add(name)
        self._separations.pop(pair_of(name, target), None)
        self._p_values[pair_of(name, target)] = outcome.p_value

    def _separate(self, name: str, target: str, choice: Choice) -> None:
        """Separate two variables, unless nothing would then explain their relation.

        A determined variable is independent of everything, its effects too. That n determines #op separates #op from
        the instructions only while these are neighbours of n: if #op has separated them from n, it is all there is.
        """
        given = tuple(one for one in self._names if one in choice.kept)
        outcome = self._test.test(name, target, given)
        if (
            outcome.determined == target
            and self._knowledge.allows(target, name)
            and self._neighbours[name].isdisjoint(given)
        ):
            return
        self._neighbours[name].discard(target)
        self._neighbours[target].discard(name)
        self._separations[pair_of(name, target)] = Separation(
            name, target, given, outcome.p_value, outcome.bits, outcome.determined
        )
