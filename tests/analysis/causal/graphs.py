"""Random causal graphs, and the test that knows them: d-separation as definition 1 says it."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unperturbed.analysis.causal.independence.methods import IndependenceOutcome

__all__ = ["DSeparation", "random_graph", "v_structures"]


def random_graph(random: np.random.Generator, size: int, density: float) -> dict[str, list[str]]:
    """Return the parents of each variable; names are in no causal order."""
    names = [chr(ord("a") + at) for at in range(size)]
    order = [names[at] for at in random.permutation(size)]
    return {name: [one for one in order[: order.index(name)] if random.random() < density] for name in names}


def v_structures(parents: dict[str, list[str]]) -> set[tuple[frozenset[str], str]]:
    """Return the pairs of causes that are not adjacent, with their effect."""
    return {
        (frozenset((a, b)), name)
        for name, causes in parents.items()
        for a, b in combinations(causes, 2)
        if a not in parents[b] and b not in parents[a]
    }


class DSeparation:
    """A test that makes no mistake: by the moral graph of the ancestors of all variables concerned."""

    def __init__(self, parents: dict[str, list[str]]) -> None:
        self._parents = parents

    def test(self, one, other, given=()):
        independent = not self._connected(one, other, set(given))
        return IndependenceOutcome(independent, 1.0 if independent else 0.0, 0.0 if independent else 1.0)

    def _connected(self, one, other, given):
        concerned, waiting = set(), [one, other, *given]
        while waiting:
            name = waiting.pop()
            if name not in concerned:
                concerned.add(name)
                waiting += self._parents[name]
        near = {name: set() for name in concerned}
        for name in concerned:
            for a, b in combinations([name, *self._parents[name]], 2):
                near[a].add(b)
                near[b].add(a)
        seen, waiting = {one}, [one]
        while waiting:
            for name in near[waiting.pop()] - seen - given:
                seen.add(name)
                waiting.append(name)
        return other in seen
