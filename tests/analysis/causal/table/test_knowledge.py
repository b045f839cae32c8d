import pytest

from unperturbed.analysis.causal.table.knowledge import Knowledge
from unperturbed.errors import DataError

TIERS = [["n", "datatype"], ["ops"], ["instr", "L2M"], ["T"]]


def test_tiers_order_causes_and_bind_what_may_separate():
    known = Knowledge(tiers=TIERS)
    assert known.allows("n", "T")
    assert not known.allows("T", "n")
    assert known.allows("instr", "L2M")
    assert known.allows("L2M", "instr")
    # T comes after both: what it is made of cannot tell one from the other.
    assert not known.may_condition("T", "instr", "L2M")
    assert known.may_condition("L2M", "instr", "T")
    assert known.may_condition("T", "instr", "unknown")
    assert known.may_condition("unknown", "n", "ops")


def test_what_surely_comes_first():
    known = Knowledge(tiers=TIERS, inputs=["n", "size"], required=[("x", "y")])
    assert known.precedes("n", "T")
    assert known.precedes("ops", "instr")
    assert known.precedes("size", "x")
    assert known.precedes("x", "y")
    assert not known.precedes("T", "n")
    assert not known.precedes("instr", "L2M")
    assert not known.precedes("n", "size")
    # What is in no tier may come at any time.
    assert not known.precedes("x", "T")


def test_outputs_separate_nothing_and_cause_nothing():
    known = Knowledge(outputs=["dT"])
    assert known.allows("n", "dT")
    assert not known.allows("dT", "n")
    assert not known.may_condition("dT", "n", "instr")
    assert known.may_condition("dT", "n", "dT2") is False
    assert Knowledge(outputs=["dT", "dT2"]).may_condition("dT", "n", "dT2")


def test_inputs_have_no_causes_and_no_edges_between_them():
    known = Knowledge(inputs=["n", "datatype"])
    assert known.allows("n", "T")
    assert not known.allows("T", "n")
    assert known.never_adjacent("n", "datatype")
    assert known.causal_order_key("n") < known.causal_order_key("T")


def test_a_pair_forbidden_both_ways_is_never_adjacent():
    assert not Knowledge(forbidden=[("a", "b")]).never_adjacent("a", "b")
    assert Knowledge(forbidden=[("a", "b"), ("b", "a")]).never_adjacent("b", "a")


def test_definitions_are_required_edges_and_the_only_ones():
    known = Knowledge(definitions={"C_op": ("C", "ops")})
    assert known.requires("C", "C_op")
    assert known.is_definitional("ops", "C_op")
    assert known.always_adjacent("C_op", "ops")
    assert not known.allows("n", "C_op")


def test_what_is_computed_from_several_variables_causes_nothing_unless_it_is_said_to():
    made = {"C_op": ("C", "ops")}
    known = Knowledge(definitions=made)
    assert not known.allows("C_op", "T")
    assert not known.may_condition("C_op", "ops", "T")
    for said in (
        Knowledge(definitions=made, required=[("C_op", "T")]),
        Knowledge(definitions=made, tiers=[["C", "ops"], ["C_op"], ["T"]]),
        Knowledge(definitions={**made, "T": ("C_op", "ops")}),
        Knowledge(definitions={"C_op": ("C",)}),
    ):
        assert said.allows("C_op", "T")
        assert said.may_condition("C_op", "ops", "T")


def test_a_definition_that_lacks_a_column_says_nothing_of_the_others():
    known = Knowledge(definitions={"C_op": ("C", "ops")}, required=[("n", "ops")])
    # C_op = C / ops without C is what an operation costs: it need not depend on how many there are.
    assert known.restricted_to(["ops", "C_op", "n"]) == Knowledge(required=[("n", "ops")])
    assert known.restricted_to(["ops", "C_op", "n"], ["C"]).definitions == {}
    # What a constant column adds, the formula has in its numbers.
    assert known.restricted_to(["ops", "C_op", "n"], ["C"], ["C"]).definitions == {"C_op": ("ops",)}
    assert known.restricted_to(["C_op", "n"], ["C", "ops"], ["C", "ops"]).definitions == {}


def test_what_is_said_of_columns_left_out_is_dropped():
    known = Knowledge(tiers=TIERS, required=[("n", "ops")], forbidden=[("datatype", "ops")], inputs=["datatype", "n"])
    kept = known.restricted_to(["n", "ops", "instr", "L2M", "T"], ["datatype"])
    assert kept == Knowledge(tiers=[["n"], ["ops"], ["instr", "L2M"], ["T"]], required=[("n", "ops")], inputs=["n"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tiers": [["a"], ["b", "a"]]}, "a is in tier 1 and in tier 2"),
        ({"tiers": ["ab"]}, r'tier 1 must be a list of names: write \["ab"\]'),
        ({"tiers": [["a", "a"]]}, "tier 1 names a twice"),
        ({"required": ["ab"]}, "required edges must be pairs of names, the cause first; 'ab' is not a pair of names"),
        ({"required": [("a", "b", "c")]}, "required edges must be pairs"),
        (
            {"required": [("a", "a")]},
            "from a to a is required but impossible: it leads from a variable to itself; remove this edge",
        ),
        (
            {"required": [("a", "b")], "forbidden": [("a", "b")]},
            "from a to b is required but impossible: it is forbidden; remove one of the two rules",
        ),
        ({"required": [("b", "a")], "tiers": [["a"], ["b"]]}, "b is in tier 2, after a in tier 1"),
        ({"required": [("b", "a")], "inputs": ["a"]}, "a is an input, which nothing causes"),
        ({"required": [("b", "a")], "outputs": ["b"]}, "b is an output, which causes nothing"),
        ({"required": [("a", "b"), ("b", "a")]}, "the edge from b to a is required"),
        ({"required": [("a", "b"), ("b", "c"), ("c", "a")]}, "required edges form a cycle: a → b → c → a"),
        ({"required": [("x", "y")], "definitions": {"y": ("a", "b")}}, "y is computed only from a and b"),
        (
            {"definitions": {"y": ("x",)}, "forbidden": [("x", "y")]},
            "from x to y is given by a definition but impossible",
        ),
    ],
)
def test_contradictions_are_said(given, message):
    with pytest.raises(DataError, match=message):
        Knowledge(**given)


def test_unknown_names_are_said_with_the_nearest():
    with pytest.raises(DataError, match="no column 'datatyp'; did you mean 'datatype'"):
        Knowledge(tiers=[["datatyp"]]).restricted_to(["datatype", "n"])
    with pytest.raises(DataError, match="no column 'C_op'"):
        Knowledge(definitions={"C_op": ("C",)}).restricted_to(["C", "n"])
    # An expression may use columns that nobody analyses.
    assert Knowledge(definitions={"C_op": ("C", "ops")}).restricted_to(["C_op", "n"]) == Knowledge()
