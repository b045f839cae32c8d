import math
from dataclasses import replace

import pytest

from unperturbed.analysis.causal.discovery.adjacency import Dispensable, Separation, Skeleton, pair_of
from unperturbed.analysis.causal.discovery.refinement import (
    TIE_BITS,
    WORTH_A_PARENT,
    Equivalence,
    Relations,
    choose,
    refine,
)
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome
from unperturbed.analysis.causal.table.knowledge import Knowledge


def told(bits, found=(), *, separates=lambda *_: False, unexplained=lambda *_: 1.0, determined=()):
    """Planted relations: `determined` has (name, by) pairs; what was found separates under any further conditioning."""
    asked = []

    def length(target, parents):
        asked.append((target, parents))
        return bits[frozenset(parents)] if isinstance(bits, dict) else bits(parents)

    relations = Relations(
        bits=length,
        separates=lambda name, target, given: (
            any(one.name == name and one.given <= set(given) for one in found) or separates(name, target, given)
        ),
        unexplained=unexplained,
        is_determined=lambda name, given: any((name, one) in determined for one in given),
    )
    return relations, asked


def rivals(target, **given):
    return [Dispensable(name, target, frozenset(by)) for name, many in given.items() for by in many]


def test_the_shorter_description_wins():
    found = rivals("L", e=[["d"]], d=[["e"]])
    relations, _ = told({frozenset("de"): 100, frozenset("ne"): 70, frozenset("nd"): 95}, found)
    choice = choose("L", ["n", "d", "e"], found, relations, Knowledge())
    assert choice.kept == {"n", "e"}
    assert [str(one) for one in choice.equivalences] == [
        "e carries the same information about L given n as d; "
        "e is kept because L takes 25 fewer bits to describe with e"
    ]


def test_a_tie_goes_to_fewer_variables_and_then_to_the_input():
    found = rivals("C", m=[["n", "e"]], n=[["m"]], e=[["m"]])
    relations, _ = told({frozenset("m"): 52, frozenset("ne"): 50}, found)
    choice = choose("C", ["n", "e", "m"], found, relations, Knowledge())
    assert choice.kept == {"m"}
    assert choice.equivalences[0].reason == "the descriptions are equally long, and the smaller set is preferred"
    found = rivals("C", a=["b"], b=["a"])
    relations, _ = told({frozenset("a"): 50, frozenset("b"): 50 + TIE_BITS / 2}, found)
    for first, known in (("a", Knowledge()), ("b", Knowledge(tiers=[["b"], ["a"]])), ("b", Knowledge(inputs=["b"]))):
        choice = choose("C", ["a", "b"], found, relations, known)
        assert choice.kept == {first}
        assert choice.equivalences[0].reason == (
            "the descriptions are equally long, and it comes first in the causal order or, if that is open, in the "
            "table"
        )


def test_twins_compete_at_the_end_alone():
    # n and ops determine each other: each set is tried with n, and ops only in the best.
    found = rivals("T", n=[["o"]], o=[["n"]], c=[["i", "n"]], i=[["c", "n"]])
    lengths = {frozenset("nc"): 60, frozenset("ni"): 90, frozenset("oc"): 20}
    relations, asked = told(lengths, separates=lambda name, _t, _g: name in "ic", determined={("n", "o"), ("o", "n")})
    choice = choose("T", ["n", "o", "i", "c"], found, relations, Knowledge(required=[("c", "T")]))
    assert choice.kept == {"o", "c"}
    assert ("T", ("o", "i")) not in asked


def test_what_the_test_cannot_see_is_added_if_it_shortens_the_description():
    # An optimisation that instructions nearly tell, and that saves cycles besides.
    found = rivals("C", o=[["i", "d"]], i=[["o", "d"]])
    lengths = {frozenset("di"): 270, frozenset("do"): 600, frozenset("dio"): 130}
    relations, _ = told(lengths, found, unexplained=lambda name, _given: 0.01 if name == "o" else 1.0)
    choice = choose("C", ["d", "o", "i"], found, relations, Knowledge())
    assert choice.kept == {"d", "i", "o"}
    assert not choice.equivalences
    # Where it leaves much open the test would have seen it, and is believed.
    relations, _ = told(lengths, found)
    assert choose("C", ["d", "o", "i"], found, relations, Knowledge()).kept == {"d", "i"}


def test_a_rival_of_a_rival_goes_with_it():
    # i says of L only what d says of it, and d only what e says.
    found = rivals("L", e=[["d"]], d=[["e"], ["i"]], i=[["d"]])
    relations, _ = told(
        {frozenset("e"): 10, frozenset("d"): 30, frozenset("i"): 500},
        found,
        separates=lambda name, _t, given: name == "i" and "e" in given,
    )
    choice = choose("L", ["d", "e", "i"], found, relations, Knowledge())
    assert choice.kept == {"e"}


def test_required_neighbours_stay():
    found = rivals("T", a=[["b"]], b=[["a"]])
    relations, asked = told({frozenset("b"): 500}, found)
    assert choose("T", ["a", "b"], found, relations, Knowledge(required=[("b", "T")])).kept == {"b"}
    assert all("a" not in parents for _, parents in asked)


def test_without_rivals_nothing_is_fitted():
    relations, asked = told({})
    assert choose("T", ["a", "b"], rivals("other", a=[["b"]]), relations, Knowledge()).kept == {"a", "b"}
    assert not asked


def test_many_rivals_are_left_out_one_after_the_other():
    names = [f"x{at}" for at in range(12)]
    found = [Dispensable(one, "T", frozenset([other])) for one in names for other in names if one != other]
    relations, _ = told(lambda parents: 100.0 - 5 * ("x7" in parents) * WORTH_A_PARENT + len(parents))
    assert choose("T", names, found, relations, Knowledge()).kept == {"x7"}


@pytest.mark.parametrize(
    ("kept", "reason"),
    [
        (
            math.nan,
            "all these variables are effects of Z: the smaller set is preferred and, of equally large sets, the one "
            "that comes first in the causal order or, if that is open, in the table",
        ),
        (10.0, "Z takes 40 fewer bits to describe with a and b"),
    ],
)
def test_reasons(kept, reason):
    assert Equivalence("Z", ("a", "b"), ("c",), (), kept, 50.0).reason == reason


class Asked:
    def __init__(self, outcomes):
        self.outcomes = outcomes

    def test(self, one, other, given=()):
        p_value, bits = self.outcomes.get((frozenset((one, other)), frozenset(given)), (1.0, 0.0))
        return IndependenceOutcome(p_value > 0.01, p_value, bits)


def skeleton(names, edges, separations=(), dispensable=()):
    near = {name: frozenset(next(iter(edge - {name})) for edge in edges if name in edge) for name in names}
    return Skeleton(
        tuple(names), near, {pair_of(one.one, one.other): one for one in separations}, tuple(dispensable), {}
    )


def test_a_lost_cause_is_found_again():
    # Cycles seemed independent of time, as long as nobody held the number of operations fixed.
    names, known = ["o", "c", "T"], Knowledge(tiers=[["o"], ["c"], ["T"]])
    start = skeleton(
        names, [pair_of("o", "T")], [Separation("c", "T", ("d",), 0.2, 0.0), Separation("o", "c", (), 0.5, 0.0)]
    )
    test = Asked({(pair_of("c", "T"), frozenset("o")): (1e-20, 3.0)})
    relations, _ = told({frozenset("o"): 900, frozenset("oc"): 100, frozenset(): 2000, frozenset("c"): 1990})
    found = refine(start, test, relations, known)
    assert found.adjacent["T"] == {"o", "c"}
    assert pair_of("c", "T") not in found.separations
    assert found.p_values[pair_of("c", "T")] == 1e-20
    # Not where it does not shorten the description.
    relations, _ = told({frozenset("o"): 900, frozenset("oc"): 895})
    assert refine(start, test, relations, known).adjacent["T"] == {"o"}
    # Nor where c may be an effect.
    assert refine(start, test, relations, Knowledge(tiers=[["o"]])).adjacent["T"] == {"o"}


def test_an_edge_left_out_of_one_variable_is_gone_from_the_other():
    start = skeleton(
        ["a", "b", "c"],
        [pair_of("a", "c"), pair_of("b", "c"), pair_of("a", "b")],
        dispensable=rivals("c", a=["b"], b=["a"]),
    )
    relations, _ = told(lambda parents: 50.0 * ("b" in parents))
    found = refine(start, Asked({}), relations, Knowledge(tiers=[["a", "b"], ["c"]]))
    assert found.adjacent == {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}
    assert found.separations[pair_of("b", "c")].given == ("a",)
    assert [str(one) for one in found.equivalences] == [
        "a carries the same information about c as b; a is kept because c takes 50 fewer bits to describe with a"
    ]


def test_effects_that_say_the_same_do_not_both_go():
    start = skeleton(
        ["e", "l", "m"],
        [pair_of("e", "l"), pair_of("e", "m"), pair_of("l", "m")],
        dispensable=rivals("e", l=["m"], m=["l"]),
    )
    relations, asked = told({})
    found = refine(start, Asked({}), relations, Knowledge(tiers=[["e"], ["l", "m"]]))
    assert found.adjacent["e"] == {"l"}
    assert (
        found.equivalences[0].reason
        == "all these variables are effects of e: the smaller set is preferred and, of equally large sets, the one "
        "that comes first in the causal order or, if that is open, in the table"
    )
    assert not asked


def test_a_cause_that_the_formula_does_not_use_is_left_out():
    names, known = ["a", "b", "c"], Knowledge(tiers=[["a"], ["b"], ["c"]])
    start = skeleton(names, [pair_of("a", "b"), pair_of("a", "c"), pair_of("b", "c")])
    relations = replace(told({})[0], is_unused=lambda target, parents, name: (target, name) == ("c", "a"))
    assert refine(start, Asked({}), relations, known).adjacent["c"] == {"b"}
    # Not where one of them may be an effect, nor where it is required.
    for other in (Knowledge(tiers=[["a"], ["b", "c"]]), Knowledge(tiers=known.tiers, required=[("a", "c")])):
        assert refine(start, Asked({}), relations, other).adjacent["c"] == {"a", "b"}


def test_between_numbers_other_lengths_may_be_compared():
    found = rivals("Z", x=["y"], y=["x"])
    relations, _ = told({frozenset("x"): 50.0, frozenset("y"): 60.0, frozenset(): 500.0}, found)
    compared = replace(relations, bits_between=lambda names: lambda _, parents: 100.0 - 20 * ("y" in parents))
    assert choose("Z", ["x", "y"], found, relations, Knowledge()).kept == {"x"}
    choice = choose("Z", ["x", "y"], found, compared, Knowledge())
    assert choice.kept == {"y"}
    assert choice.equivalences[0].reason == "Z takes 20 fewer bits to describe with y"


def test_what_describes_a_target_clearly_better_takes_the_place_of_what_separates_it():
    names, known = ["x", "y", "z"], Knowledge(tiers=[["x"], ["y"], ["z"]])
    start = skeleton(names, [pair_of("x", "y"), pair_of("x", "z")], [Separation("y", "z", ("x",), 0.05, 0.0)])
    relations, _ = told({frozenset("x"): 90.0, frozenset("y"): 60.0}, unexplained=lambda *_: 0.1)
    found = refine(start, Asked({}), relations, known)
    assert found.adjacent["z"] == {"y"}
    assert found.separations[pair_of("x", "z")].given == ("y",)
    assert pair_of("y", "z") not in found.separations
    # Not for a few bits, nor where it says much that the other does not, nor where it may be an effect.
    few, _ = told({frozenset("x"): 65.0, frozenset("y"): 60.0}, unexplained=lambda *_: 0.1)
    own, _ = told({frozenset("x"): 90.0, frozenset("y"): 60.0}, unexplained=lambda *_: 0.9)
    unknown = Knowledge(tiers=[["x"], ["y", "z"]])
    for how, what in ((few, known), (own, known), (relations, unknown)):
        assert refine(start, Asked({}), how, what).adjacent["z"] == {"x"}
