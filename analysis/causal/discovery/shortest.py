"""The shortest acyclic graph near a given one, by steps that each shorten the description of the whole table.

Lemeire et al., section 7.2: the best model is the shortest description of the data, here the sum of the lengths of all
variables, each described from its parents. Independence tests alone lose a parent whose influence another one hides:
the size of a script's strings seems independent of its allocations until the kind of script and the number of steps are
held fixed. Steps as in Chickering, "Optimal structure identification with greedy search" (2002), and reversals, since
lengths of formulas differ between graphs that tests cannot tell apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from unperturbed.analysis.causal.discovery.adjacency import reached
from unperturbed.analysis.causal.discovery.refinement import TIE_BITS, WORTH_A_PARENT, Bits
from unperturbed.analysis.causal.table.knowledge import Knowledge

Parents = Mapping[str, frozenset[str]]


def shortest_graph(
    names: Sequence[str], parents: Parents, targets: Collection[str], bits: Bits, knowledge: Knowledge
) -> dict[str, frozenset[str]]:
    """Return the parents of each variable after the best steps that add, drop, or reverse an edge at some targets.

    A further edge must save `WORTH_A_PARENT`, another direction `TIE_BITS`; an edge that saves less than `TIE_BITS` is
    dropped. So each step lessens the length plus 7 bits an edge, and the search ends.
    """

    def length(target: str, causes: Collection[str]) -> float:
        return bits(target, tuple(name for name in names if name in causes))

    def worth(change: Parents) -> float:
        """Return the bits that a change saves, less those that it has to save."""
        saved = sum(length(target, now[target]) - length(target, causes) for target, causes in change.items())
        added = sum(len(causes) - len(now[target]) for target, causes in change.items())
        return saved - {1: WORTH_A_PARENT, 0: TIE_BITS, -1: -TIE_BITS}[added]

    now = dict(parents)
    while True:
        best = max(_changes(names, now, targets, knowledge), key=worth, default={})
        if not best or not worth(best) >= 0:  # A length that is not a number saves nothing
            return now
        now.update(best)


def _changes(names: Sequence[str], now: Parents, targets: Collection[str], knowledge: Knowledge) -> Iterator[Parents]:
    """Yield the new parents of the variables that a step changes, for each step that knowledge allows."""
    for target in (name for name in names if name in targets):
        for name in (other for other in names if other != target and other not in knowledge.definitions):
            if name in now[target]:
                if knowledge.always_adjacent(name, target):
                    continue
                rest = now[target] - {name}
                yield {target: rest}
                others = reached(rest, now.__getitem__)
                if knowledge.allows(target, name) and name not in others:
                    yield {target: rest, name: now[name] | {target}}
            elif target in now[name]:
                if knowledge.always_adjacent(target, name) or not knowledge.allows(name, target):
                    continue
                rest = now[name] - {target}
                if target not in reached(rest, now.__getitem__):
                    yield {name: rest, target: now[target] | {name}}
            elif knowledge.allows(name, target) and target not in reached(now[name], now.__getitem__):
                yield {target: now[target] | {name}}
