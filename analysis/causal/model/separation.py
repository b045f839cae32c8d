"""d-separation: which independences a causal graph implies, without a look at the data.

Lemeire et al., section 3.3: by the Markov condition, variables that are d-separated by others are independent given
these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from unperturbed.analysis.causal.table.knowledge import Arrow


def separates(arrows: Iterable[Arrow], one: str, other: str, given: Collection[str]) -> bool:
    """Tell whether variables block every path between two others in an acyclic graph.

    They do if they cut all paths of the moral graph of the ancestors of all three (Lauritzen et al., "Independence
    properties of directed Markov fields", Networks 20, 1990, proposition 3).
    """
    parents: dict[str, set[str]] = defaultdict(set)
    for source, target in arrows:
        parents[target].add(source)
    ancestors = _reached({one, other, *given}, parents, closed=frozenset())
    near: dict[str, set[str]] = defaultdict(set)
    for target in ancestors:
        family = {target, *parents[target]}
        for member in family:
            near[member] |= family - {member}
    return other not in _reached({one}, near, closed=frozenset(given))


def _reached(start: set[str], near: dict[str, set[str]], *, closed: Collection[str]) -> set[str]:
    """Return what can be reached from some variables by steps to neighbours, none of them closed."""
    found, waiting = set(start), list(start)
    while waiting:
        following = near[waiting.pop()] - found - set(closed)
        found |= following
        waiting.extend(following)
    return found
