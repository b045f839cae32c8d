"""Variables that carry the same information about another one, and which of them is said to be its cause.

Lemeire et al., section 6.2: X and Y are information equivalent with respect to Z if, eq. (12) corrected,

    X and Z are dependent, Y and Z are dependent, X ⊥ Z | Y and Y ⊥ Z | X,

each given some W. (The paper prints X ⊥ Z as the first term, where its prose asks for dependence, and leaves out the
second.) "We propose to connect the target variable with the information equivalent variable which has the simplest relation
with the target", by the description length of section 7.2.

Here sets compete: those that leave no other candidate any say, each fitted as the target's parents. The shortest
description wins; lengths that differ by less than one operation are a tie, which goes to fewer variables, and then to the
input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from unperturbed.analysis.causal.adjacency import Dispensable
from unperturbed.analysis.causal.knowledge import Knowledge

__all__ = ["TIE_BITS", "Bits", "Choice", "Equivalence", "Relations", "choose"]

Bits = Callable[[str, tuple[str, ...]], float]
"""Description length of a target by a set of parents."""

TIE_BITS = 10.0
"""A constant and an operation: 8 bits and ½log₂n."""
_NEARLY_TOLD = 0.25
"""Share of a variable's variance below which, when others are held fixed, too little is left of it for a test to see what
it does."""
_MOST_FITS = 40
_MOST_ENUMERATED = 7


@dataclass(frozen=True)
class Equivalence:
    """Two sets of variables that carry the same information about a target.

    Attributes
    ----------
    target : str
    kept, left_out : tuple of str
    given : tuple of str
        The target's other neighbours that were held fixed as its parents.
    kept_bits, left_out_bits : float
        Description lengths of the target with either set; NaN where these are effects of the target.
    """

    target: str
    kept: tuple[str, ...]
    left_out: tuple[str, ...]
    given: tuple[str, ...]
    kept_bits: float
    left_out_bits: float

    def __str__(self) -> str:
        said = f"{_listed(self.kept)} and {_listed(self.left_out)} carry the same information about {self.target}"
        given = f" given {_listed(self.given)}" if self.given else ""
        return f"{said}{given}; {_listed(self.kept)} kept because {self.reason}"

    @property
    def reason(self) -> str:
        """Why the kept one was kept, in words."""
        if math.isnan(self.kept_bits):
            return f"both are effects of {self.target}, and it comes first"
        less = self.left_out_bits - self.kept_bits
        if less >= TIE_BITS:
            return f"{'it describes' if len(self.kept) == 1 else 'they describe'} {self.target} in {less:.0f} bits less"
        if len(self.kept) < len(self.left_out):
            return "the descriptions are as long, and fewer variables are simpler"
        return "the descriptions are as long, and it comes first"


@dataclass(frozen=True)
class Choice:
    """The neighbours of a target that stay, and why the others go.

    Attributes
    ----------
    kept : frozenset of str
        Of the candidates.
    equivalences : tuple of Equivalence
    """

    kept: frozenset[str]
    equivalences: tuple[Equivalence, ...]


@dataclass(frozen=True)
class Relations:
    """What choosing needs to know of the variables.

    Attributes
    ----------
    bits : callable
        Description length of a target by parents, in the table's order.
    separates : callable
        Tells of (name, target, given) whether the first two are independent when others are held fixed.
    unexplained : callable
        The share of a variable's variance that others leave open: 0 where they determine it.
    is_determined : callable
        Tells whether others determine a variable.
    """

    bits: Bits
    separates: Callable[[str, str, Sequence[str]], bool]
    unexplained: Callable[[str, Sequence[str]], float]
    is_determined: Callable[[str, Sequence[str]], bool]


def choose(
    target: str, candidates: Sequence[str], found: Iterable[Dispensable], relations: Relations, knowledge: Knowledge
) -> Choice:
    """Choose between the candidates that make each other dispensable.

    Parameters
    ----------
    target : str
    candidates : sequence of str
        Neighbours of the target that may be its causes, in the table's order.
    found : iterable of Dispensable
        What is known of candidates that can be done without.
    relations : Relations
    knowledge : Knowledge
        Required neighbours stay.

    Returns
    -------
    Choice
    """
    evidence: dict[str, list[frozenset[str]]] = {}
    for one in found:
        if one.target == target and one.name in candidates and not knowledge.always_adjacent(one.name, target):
            evidence.setdefault(one.name, []).append(one.given)
    if not evidence:
        return Choice(frozenset(candidates), ())
    return _Choosing(target, candidates, evidence, relations, knowledge).choice()


class _Choosing:
    def __init__(
        self,
        target: str,
        candidates: Sequence[str],
        evidence: Mapping[str, Sequence[frozenset[str]]],
        relations: Relations,
        knowledge: Knowledge,
    ) -> None:
        self._target = target
        self._relations = relations
        self._evidence = evidence
        self._all = tuple(candidates)
        self._place = {name: (knowledge.comes_first(name), number) for number, name in enumerate(candidates)}
        self._settled = tuple(name for name in candidates if name not in evidence)
        self._twins = self._twins_of(sorted(evidence, key=self._place.__getitem__))
        self._contested = tuple(name for name in candidates if name in self._twins)

    def choice(self) -> Choice:
        """Return the shortest set that suffices, and what carries the same information."""
        options = self._sufficient()[:_MOST_FITS]
        best = self._shortest(options)
        kept = self._with_more(best)
        said = [(best, option) for option in options if best - option and option - kept]
        for name in sorted(kept & self._twins.keys(), key=self._place.__getitem__):
            ways = [kept - {name} | {twin} for twin in (name, *self._twins[name])]
            kept = self._shortest(ways)
            said += [(kept, way) for way in ways if way != kept]
        equivalences = tuple(self._equivalence(one, other) for one, other in said)
        return Choice(kept | frozenset(self._settled), tuple(dict.fromkeys(equivalences)))

    def _length(self, chosen: Collection[str]) -> float:
        return self._relations.bits(self._target, self._parents(chosen))

    def _parents(self, chosen: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self._all if name in self._settled or name in chosen)

    def _twins_of(self, contested: Sequence[str]) -> dict[str, list[str]]:
        """Return for each variable those after it that say exactly the same, as n and n³: they compete at the end, one to
        one."""
        found: dict[str, list[str]] = {}
        determined = self._relations.is_determined
        for name in contested:
            first = next((one for one in found if determined(name, [one]) and determined(one, [name])), None)
            if first is None:
                found[name] = []
            else:
                found[first].append(name)
        return found

    def _suffices(self, chosen: frozenset[str]) -> bool:
        """Tell whether all others can be done without when some are kept."""
        kept = self._parents(chosen)
        return all(
            name in chosen
            or any(given <= set(kept) for given in self._evidence[name])
            or self._relations.separates(name, self._target, kept)
            for name in self._contested
        )

    def _sufficient(self) -> list[frozenset[str]]:
        """Return the least sets that suffice, the smallest first; of many candidates only what leaving them out in some
        order gives."""
        found: list[frozenset[str]] = []
        if len(self._contested) > _MOST_ENUMERATED:
            for last in self._contested:
                chosen = frozenset(self._contested)
                for name in [*(one for one in reversed(self._contested) if one != last), last]:
                    if self._suffices(chosen - {name}):
                        chosen -= {name}
                if chosen not in found:
                    found.append(chosen)
            return found
        for size in range(len(self._contested) + 1):
            for chosen in map(frozenset, combinations(self._contested, size)):
                if not any(less <= chosen for less in found) and self._suffices(chosen):
                    found.append(chosen)
        return found

    def _shortest(self, options: Sequence[frozenset[str]]) -> frozenset[str]:
        if len(options) == 1:
            return options[0]
        least = min(map(self._length, options))
        tied = [option for option in options if self._length(option) < least + TIE_BITS]
        return min(tied, key=lambda option: (len(option), sorted(self._place[name] for name in option)))

    def _with_more(self, best: frozenset[str]) -> frozenset[str]:
        """Add what the test could not see because the set nearly tells it, and what shortens the description all the same."""
        kept = best
        while True:
            parents = self._parents(kept)
            more = [
                kept | {name}
                for name in self._contested
                if name not in kept
                and not self._relations.is_determined(name, parents)
                and (
                    self._relations.unexplained(name, parents) < _NEARLY_TOLD
                    or not self._relations.separates(name, self._target, parents)
                )
            ]
            longer = min(more, key=self._length, default=kept)
            if longer == kept or self._length(longer) > self._length(kept) - TIE_BITS:
                return kept
            kept = longer

    def _equivalence(self, one: frozenset[str], other: frozenset[str]) -> Equivalence:
        given = [name for name in self._all if name in self._settled or (name in one and name in other)]
        return Equivalence(
            self._target,
            tuple(sorted(one - other, key=self._place.__getitem__)),
            tuple(sorted(other - one, key=self._place.__getitem__)),
            tuple(given),
            self._length(one),
            self._length(other),
        )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
