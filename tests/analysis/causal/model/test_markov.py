import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.analysis.causal.lu_campaign import ALL, draw, true_edges
from unperturbed.analysis.causal.independence.methods import IndependenceOutcome
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.model.markov import check_markov, screens_off
from unperturbed.analysis.causal.table.variables import prepare
from unperturbed.analysis.multiple_testing import benjamini_hochberg, holm
from unperturbed.errors import DataError

PARENTS = {name: [cause for cause, effect in sorted(true_edges(ALL)) if effect == name] for name in ALL}


class Told:
    """A test whose outcomes are told; what is not told is independent."""

    def __init__(self, p_values=(), determined=(), paper=()):
        self.p_values = {frozenset(pair): p for pair, p in p_values}
        self.determined = {frozenset(pair) for pair in determined}
        self.paper = {frozenset(pair) for pair in paper}
        self.asked = []

    def test(self, one, other, given=()):
        self.asked.append((one, other, tuple(given)))
        pair = frozenset({one, other})
        if pair in self.determined:
            return IndependenceOutcome(True, 1.0, 0.0, one)
        if self.paper:
            return IndependenceOutcome(pair not in self.paper, math.nan, 0.5 if pair in self.paper else 0.1)
        p = self.p_values.get(pair, 0.8)
        return IndependenceOutcome(p > 0.01, p, 0.3 if p < 0.01 else 0.0)


def test_each_node_is_tested_with_its_non_descendants_given_its_parents():
    test = Told()
    found = check_markov(test, {"a": [], "b": ["a"], "c": ["b"], "d": []}, permutations=0)
    assert set(test.asked) == {
        ("a", "d", ()),
        ("b", "d", ("a",)),
        ("c", "a", ("b",)),
        ("c", "d", ("b",)),
        ("d", "b", ()),
        ("d", "c", ()),
    }
    assert found.refuted == ()
    assert found.refuted_share == 0
    assert math.isnan(found.permutation_p_value)
    assert str(found.claims[1]) == "b ⊥ d | a"


def test_nothing_is_claimed_of_inputs():
    test = Told()
    found = check_markov(test, {"a": [], "b": ["a"], "c": [], "d": []}, inputs=["c", "a"], permutations=0)
    assert set(test.asked) == {("b", "c", ("a",)), ("b", "d", ("a",)), ("d", "a", ()), ("d", "b", ()), ("d", "c", ())}
    assert len(found.claims) == 5


def test_refutations_are_controlled_over_all_claims_and_trivial_ones_do_not_count():
    parents = {name: [] for name in "abcdef"}
    p_values = [("ab", 0.001), ("ac", 0.02), ("de", 0.0001)]
    found = check_markov(Told(p_values, determined=["af", "bf"]), parents, permutations=0)
    assert len(found.claims) == 15
    assert [str(one) for one in found.refuted] == ["a ⊥ b", "d ⊥ e"]
    adjusted = {str(one): one.adjusted for one in found.claims}
    assert adjusted["d ⊥ e"] == pytest.approx(0.0001 * 13)
    assert adjusted["a ⊥ b"] == pytest.approx(0.001 * 13 / 2)
    assert adjusted["a ⊥ c"] == pytest.approx(0.02 * 13 / 3)
    assert math.isnan(adjusted["a ⊥ f"])
    assert found.refuted_share == pytest.approx(3 / 13)


def test_tests_without_p_values_decide_themselves():
    found = check_markov(Told(paper=["ab"]), {name: [] for name in "abc"}, permutations=0)
    assert [str(one) for one in found.refuted] == ["a ⊥ b"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_values_are_the_fields(p_values):
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist())
    order = np.argsort(p_values, kind="stable")
    largest = 0.0
    for rank, at in enumerate(order.tolist()):
        largest = max(largest, min(1.0, p_values[at] * (len(p_values) - rank)))
        assert holm(p_values)[at] == pytest.approx(largest)


@pytest.mark.parametrize("seed", range(2))
def test_the_true_model_agrees_with_its_campaign_and_permuted_ones_do_not(seed):
    found = check_markov(RegressionTest(prepare(draw(seed))), PARENTS)
    assert len(found.refuted) <= 1
    assert found.refuted_share < 0.15 < found.permuted_shares[0]
    assert found.permutation_p_value == pytest.approx(1 / 21)


def test_an_edge_that_is_left_out_is_refuted():
    # Section 8.2: without the edge datatype → C_op the Markov condition is violated, as I(datatype; C_op | L2M_op,
    # instr_op) = 0.45.
    without = {**PARENTS, "C": [name for name in PARENTS["C"] if name != "datatype"]}
    found = check_markov(RegressionTest(prepare(draw(0))), without, permutations=0)
    assert ("C", "datatype") in {(one.one, one.other) for one in found.refuted[:3]}
    assert found.refuted[0].bits > 0.45


def test_characteristics_screen_an_application_off_or_do_not():
    test = RegressionTest(prepare(draw(0)))
    whole = screens_off(test, ["n", "datatype", "optimisation"], ["T"], ["ops", "C"])
    assert whole.holds
    assert str(whole) == "not refuted: ops, C screen n, datatype, optimisation off from T"
    # Section 8.2: "the number of instructions cannot completely characterize the effect on the performance".
    instructions = screens_off(test, ["datatype", "optimisation"], ["C"], ["instr", "L2M"])
    assert not instructions.holds
    assert {one.one for one in instructions.refuted} == {"datatype", "optimisation"}
    assert str(instructions).startswith(
        "refuted by 2 of 2 pairs: the claim that instr, L2M screen datatype, optimisation off from C. "
        "datatype still carries "
    )
    nothing = screens_off(test, ["optimisation"], ["ops"], ["n"])
    assert not nothing.holds
    assert not nothing.refuted
    assert str(nothing) == "nothing to test: optimisation and ops are independent even with nothing held fixed"


def test_screening_is_controlled_over_all_pairs():
    found = screens_off(Told([("ay", 0.03)]), ["a", "b"], ["y"], ["c"])
    assert found.claims[0].adjusted == pytest.approx(0.06)
    assert found.refuted == ()
    found = screens_off(Told([("ay", 0.02)]), ["a", "b"], ["y"], ["c"])
    assert [str(one) for one in found.refuted] == ["a ⊥ y | c"]


def test_wrong_parts_and_rates_are_told():
    test = Told()
    with pytest.raises(DataError, match="c, a cause of b, has no mechanism"):
        check_markov(test, {"a": [], "b": ["c"]})
    with pytest.raises(DataError, match="causes form a cycle"):
        check_markov(test, {"a": ["b"], "b": ["a"]})
    with pytest.raises(ValueError, match="`alpha` must be above 0 and below 1, not 0"):
        check_markov(test, {"a": []}, alpha=0)
    with pytest.raises(ValueError, match="`permutations` must be 0 or more, not -1"):
        check_markov(test, {"a": []}, permutations=-1)
    with pytest.raises(DataError, match="needs at least one application variable and one performance variable"):
        screens_off(test, [], ["y"], ["c"])
    with pytest.raises(DataError, match="a is named twice: name each variable once, in the application"):
        screens_off(test, ["a"], ["y"], ["a"])


def test_an_empty_graph_claims_that_all_are_independent():
    random = np.random.default_rng(0)
    data = prepare(pl.DataFrame({name: random.standard_normal(200) for name in "abcd"}))
    found = check_markov(RegressionTest(data), {name: [] for name in "abcd"}, permutations=3)
    assert len(found.claims) == 6
    assert found.permuted_shares == (found.refuted_share,) * 3
    assert found.permutation_p_value == 1
