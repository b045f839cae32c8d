"""Hill climbing by description length, on tables of lengths that are known."""

from itertools import permutations

import numpy as np
import pytest

from tests.analysis.causal.discovery.test_agreement import lengths
from tests.analysis.causal.graphs import random_graph
from unperturbed.analysis.causal.discovery.refinement import TIE_BITS, WORTH_A_PARENT
from unperturbed.analysis.causal.discovery.shortest import shortest_graph
from unperturbed.analysis.causal.table.knowledge import Knowledge


def frozen(parents):
    return {name: frozenset(causes) for name, causes in parents.items()}


def is_acyclic(parents):
    left = dict(parents)
    while left:
        first = [name for name, causes in left.items() if not causes & left.keys()]
        if not first:
            return False
        left = {name: causes for name, causes in left.items() if name not in first}
    return True


def drawn_lengths(names, random):
    """Lengths without any structure, each drawn when it is first asked for."""
    drawn = {}
    return lambda target, given: drawn.setdefault((target, given), float(random.uniform(0, 60)))


def neighbours(parents):
    """All graphs that one step reaches, and the edges that it adds: the obvious way."""
    for name, target in permutations(parents, 2):
        has = name in parents[target]
        changed = parents | {target: parents[target] ^ {name}}
        yield changed, -1 if has else 1
        if has:
            yield changed | {name: parents[name] | {target}}, 0


@pytest.mark.parametrize("seed", range(20))
def test_a_part_of_the_true_graph_is_completed(seed):
    random = np.random.default_rng(seed)
    true = frozen(random_graph(random, 6, 0.5))
    start = {name: frozenset(one for one in causes if random.random() < 0.5) for name, causes in true.items()}
    assert shortest_graph(list(true), start, list(true), lengths(true), Knowledge()) == true


@pytest.mark.parametrize("seed", range(20))
def test_no_single_step_is_left_that_would_be_worth_it(seed):
    random = np.random.default_rng(seed)
    start = frozen(random_graph(random, 4, 0.5))
    names = list(start)
    bits = drawn_lengths(names, random)
    required = next(((one, name) for name, causes in start.items() for one in causes), None)
    knowledge = Knowledge(required=[required] if required else [])

    def length(parents):
        return sum(bits(name, tuple(one for one in names if one in causes)) for name, causes in parents.items())

    found = shortest_graph(names, start, names, bits, knowledge)
    assert is_acyclic(found)
    assert required is None or required[0] in found[required[1]]
    least = {1: WORTH_A_PARENT, 0: TIE_BITS, -1: -TIE_BITS}
    for other, added in neighbours(found):
        if is_acyclic(other) and (required is None or required[0] in other[required[1]]):
            assert length(found) - length(other) < least[added] + 1e-9


def test_only_edges_at_the_targets_change():
    true = frozen({"a": [], "b": ["a"], "c": [], "d": ["c"]})
    start = dict.fromkeys(true, frozenset())
    found = shortest_graph(list(true), start, ["b"], lengths(true), Knowledge())
    assert found == start | {"b": frozenset("a")}
