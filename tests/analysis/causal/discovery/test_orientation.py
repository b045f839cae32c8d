from unperturbed.analysis.causal.discovery.adjacency import Separation, pair_of
from unperturbed.analysis.causal.discovery.orientation import extend, orient
from unperturbed.analysis.causal.table.knowledge import Knowledge


def graph(*edges):
    near = {}
    for one, other in edges:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    return {name: frozenset(others) for name, others in near.items()}


def separations(**given):
    return {pair_of(pair[0], pair[1]): Separation(pair[0], pair[1], tuple(by), 0.5, 0.0) for pair, by in given.items()}


def test_a_v_structure_and_what_follows_from_it():
    found = orient(graph("ac", "bc", "cd"), separations(ab="", ad="c", bd="c"), Knowledge())
    assert found.directed == {("a", "c"), ("b", "c"), ("c", "d")}


def test_a_pair_that_knowledge_keeps_apart_makes_no_collider():
    kept = Knowledge(forbidden=[("a", "b"), ("b", "a")])
    found = orient(graph("ac", "bc"), {}, kept)
    assert found.directed == set()
    assert found.undirected == {pair_of("a", "c"), pair_of("b", "c")}
    # Nor does it follow that c is not a collider: a → c says nothing of b.
    found = orient(graph("ac", "bc"), {}, Knowledge(forbidden=kept.forbidden, required=[("a", "c")]))
    assert found.directed == {("a", "c")}


def test_no_edge_points_against_knowledge():
    found = orient(graph("ac", "bc"), separations(ab=""), Knowledge(tiers=[["c"], ["a", "b"]]))
    assert found.directed == {("c", "a"), ("c", "b")}
    found = orient(graph("ac", "bc"), separations(ab=""), Knowledge(forbidden=[("a", "c")]))
    # Half a v-structure is none.
    assert found.directed == {("c", "a")}


def test_a_separation_by_what_determines_the_middle_makes_no_collider():
    by = separations(ab="e")
    determined = orient(
        graph("ac", "bc", "ec"), by, Knowledge(), determined=lambda name, given: name == "c" and "e" in given
    )
    assert determined.directed == set()
    assert orient(graph("ac", "bc", "ec"), by, Knowledge()).directed == {("a", "c"), ("b", "c")}


def test_v_structures_that_disagree_leave_the_edge_open():
    found = orient(graph("ab", "bc", "cd"), separations(ac="", bd="", ad=""), Knowledge())
    assert found.conflicts == {pair_of("b", "c")}
    assert found.directed == {("a", "b"), ("d", "c")}


def test_the_fourth_rule_follows_from_knowledge():
    # d − a → b → c with d − b and d − c open: were c the cause of d, the circle c → d → a → b → c or a collider at d
    # would follow.
    near = graph("da", "db", "dc", "ab", "bc")
    found = orient(near, separations(ac="bd"), Knowledge(required=[("a", "b"), ("b", "c")]))
    assert ("d", "c") in found.directed


def test_an_extension_makes_no_circle_and_obeys_knowledge():
    lines = [pair_of(*pair) for pair in ("ab", "bc", "ac")]
    assert set(extend("abc", [], lines, Knowledge())) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert set(extend("abc", [], lines, Knowledge(forbidden=[("a", "b"), ("a", "c")]))) == {
        ("b", "a"),
        ("c", "a"),
        ("b", "c"),
    }
    # A chain: no new collider, so it starts at one end.
    assert set(extend("abc", [], [pair_of("a", "b"), pair_of("b", "c")], Knowledge())) == {("a", "b"), ("b", "c")}
    assert extend("abc", [("c", "b")], [pair_of("a", "b")], Knowledge()) == (("b", "a"),)
