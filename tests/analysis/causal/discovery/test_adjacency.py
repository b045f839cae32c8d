import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.causal.graphs import DSeparation, random_graph, v_structures
from unperturbed.analysis.causal.discovery.adjacency import find_adjacencies, pair_of
from unperturbed.analysis.causal.discovery.orientation import extend, orient
from unperturbed.analysis.causal.discovery.refinement import Relations, refine
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome
from unperturbed.analysis.causal.table.knowledge import Knowledge


def pairs(adjacent):
    return {pair_of(one, other) for one, near in adjacent.items() for other in near}


def relations(test):
    return Relations(
        bits=lambda _target, _parents: 0.0,
        separates=lambda name, target, given: test.test(name, target, given).independent,
        unexplained=lambda _name, _given: 1.0,
        is_determined=lambda _name, _given: False,
    )


def learnt(parents, knowledge=None):
    test, knowledge = DSeparation(parents), knowledge or Knowledge()
    skeleton = find_adjacencies(sorted(parents), test, knowledge, depth=len(parents))
    found = refine(skeleton, test, relations(test), knowledge)
    return found, orient(found.adjacent, found.separations, knowledge)


graphs = st.builds(
    lambda seed, size, density: random_graph(np.random.default_rng(seed), size, density),
    st.integers(0, 2**32),
    st.integers(3, 7),
    st.floats(0.1, 0.8),
)


@settings(deadline=None, max_examples=80)
@given(graphs)
def test_without_mistakes_of_tests_the_graph_is_found_as_far_as_it_can_be_known(parents):
    found, oriented = learnt(parents)
    assert pairs(found.adjacent) == {pair_of(one, name) for name, causes in parents.items() for one in causes}
    assert all(source in parents[target] for source, target in oriented.directed)
    for causes, effect in v_structures(parents):
        assert {(cause, effect) for cause in causes} <= oriented.directed
    assert not oriented.conflicts
    # Any extension says the same independences: it has the same v-structures.
    arrows = (*oriented.directed, *extend(sorted(parents), oriented.directed, oriented.undirected, Knowledge()))
    extended = {name: [source for source, target in arrows if target == name] for name in parents}
    assert v_structures(extended) == v_structures(parents)


@settings(deadline=None, max_examples=80)
@given(graphs, st.integers(1, 4))
def test_with_the_order_known_more_is_directed_and_nothing_wrongly(parents, size):
    order, left = [], dict(parents)
    while left:
        first = min(name for name, causes in left.items() if not set(causes) & left.keys())
        order.append(first)
        del left[first]
    known = Knowledge(tiers=[order[at : at + size] for at in range(0, len(order), size)])
    found, oriented = learnt(parents, known)
    assert pairs(found.adjacent) == {pair_of(one, name) for name, causes in parents.items() for one in causes}
    assert all(source in parents[target] for source, target in oriented.directed)
    if size == 1:
        assert not oriented.undirected
    for separation in found.separations.values():
        assert all(known.may_condition(name, separation.one, separation.other) for name in separation.given)


@settings(deadline=None, max_examples=40)
@given(graphs, st.randoms(use_true_random=False))
def test_the_order_of_columns_changes_nothing(parents, random):
    names = sorted(parents)
    shuffled = random.sample(names, len(names))
    test = DSeparation(parents)
    one, other = (find_adjacencies(order, test, Knowledge()) for order in (names, shuffled))
    assert pairs(one.adjacent) == pairs(other.adjacent)


class Told:
    """A test that says what a table of separating sets says."""

    def __init__(self, separated):
        self.separated = {(frozenset(pair), frozenset(given)) for pair, given in separated}
        self.asked = []

    def test(self, one, other, given=()):
        self.asked.append((frozenset((one, other)), frozenset(given)))
        independent = self.asked[-1] in self.separated
        return IndependenceOutcome(independent, 1.0 if independent else 0.0, 0.0)


def test_rivals_both_stay():
    # n and ops say the same of T: either separates the other from it.
    test = Told([(("n", "T"), ("ops",)), (("ops", "T"), ("n",))])
    found = find_adjacencies(["n", "ops", "T"], test, Knowledge())
    assert found.adjacent["T"] == {"n", "ops"}
    assert {(one.name, one.given) for one in found.dispensable if one.target == "T"} == {
        ("n", frozenset(["ops"])),
        ("ops", frozenset(["n"])),
    }
    assert not found.separations


def test_what_separates_without_being_separated_in_turn_removes_the_edge():
    found = find_adjacencies(["a", "b", "c"], Told([(("a", "c"), ("b",))]), Knowledge())
    assert found.adjacent["c"] == {"b"}
    assert found.separations[pair_of("a", "c")].given == ("b",)
    assert not found.dispensable


def test_pairs_kept_apart_are_never_tested_and_required_ones_stay():
    test = Told([(("a", "b"), ())])
    known = Knowledge(required=[("a", "b")], forbidden=[("a", "c"), ("c", "a")])
    found = find_adjacencies(["a", "b", "c"], test, known)
    assert found.adjacent["a"] == {"b"}
    assert all(pair != frozenset("ac") for pair, _ in test.asked)
    assert pair_of("a", "c") not in found.separations


def test_the_slow_test_decides_only_what_the_quick_one_would_drop():
    screening, slow = Told([(("a", "b"), ()), (("b", "c"), ())]), Told([(("b", "c"), ())])
    found = find_adjacencies(["a", "b", "c"], slow, Knowledge(), screening=screening)
    assert pairs(found.adjacent) == {pair_of("a", "b"), pair_of("a", "c")}
    assert set(slow.asked) == {(frozenset("ab"), frozenset()), (frozenset("bc"), frozenset())}
