"""Formulas of perf's metrics: what is read, how it binds, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.collectors.sources.perf.formula import (
    Binary,
    Call,
    Choice,
    FormulaError,
    Literal,
    Name,
    Negative,
    Node,
    Number,
    parse_formula,
)

A, B, C, D = map(Name, "abcd")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("1e-9", Number(1e-9)),
        ("1000000000", Number(1e9)),
        (".5 * a", Binary("*", Number(0.5), A)),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("a < b + c", Binary("<", A, Binary("+", B, C))),
        ("a | b ^ c & d", Binary("|", A, Binary("^", B, Binary("&", C, D)))),
        ("-a * b", Binary("*", Negative(A), B)),
        ("a if b else c if d else a", Choice(A, B, Choice(C, D, A))),
        ("a / 2 if #SMT_on else a", Choice(Binary("/", A, Number(2)), Literal("#SMT_on"), A)),
        ("(a if b else c) / d", Binary("/", Choice(A, B, C), D)),
        ("max(1 - (a + b), 0)", Call("max", (Binary("-", Number(1), Binary("+", A, B)), Number(0)))),
        ("d_ratio(a, b)", Call("d_ratio", (A, B))),
        ("aggr_nr(a)", Call("aggr_nr", (A,))),
        (r"topdown\-retiring + 0*slots", Binary("+", Name("topdown-retiring"), Binary("*", Number(0), Name("slots")))),
        ("LD_BLOCKS.4K_ALIAS", Name("LD_BLOCKS.4K_ALIAS")),
        (r"cpu_core@UOPS_RETIRED.SLOTS\,cmask\=1@", Name("cpu_core/UOPS_RETIRED.SLOTS,cmask=1/")),
        (r"cstate_pkg@c10\-residency@ / msr@tsc@", Binary("/", Name("cstate_pkg/c10-residency/"), Name("msr/tsc/"))),
        ("INST_RETIRED.ANY:k", Name("INST_RETIRED.ANY:k")),
        ("4kb", Name("4kb")),
    ],
)
def test_the_grammar_is_perfs(text: str, tree: Node) -> None:
    assert parse_formula(text) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a number, a name or an opening parenthesis at character 1 of the formula: the end"),
        ("a +", "expected a number, a name or an opening parenthesis at character 4 of the formula: the end"),
        ("a b", "expected an operator at character 3 of the formula: b"),
        ("(a", "expected ')' at character 3 of the formula: the end"),
        ("a if b", "expected 'else' at character 7 of the formula: the end"),
        ("max(a)", "max takes 2 arguments, not 1, at character 6 of the formula: )"),
        ("a ; b", "unexpected character at character 3 of the formula: ; b"),
        ("a + " * 6000 + "a", "the formula has 24,001 characters; the limit is 20,000"),
        ("(" * 400 + "a", "the formula is nested too deeply: the limit is 100 levels"),
        ("-" * 400 + "a", "the formula is nested too deeply: the limit is 100 levels"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    assert str(caught.value) == message


@given(st.text(max_size=60) | st.text("ab1.@\\-+*/%|&^<>(),# ifelsmaxn", max_size=60))
def test_any_text_gives_a_tree_or_a_clear_error(text: str) -> None:
    try:
        parse_formula(text)
    except FormulaError as error:
        assert str(error)


TREES: st.SearchStrategy[Node] = st.recursive(
    st.sampled_from([A, B, C, D]) | st.integers(0, 9).map(lambda number: Number(float(number))),
    lambda inner: (
        st.builds(Binary, st.sampled_from("+-*/%<>|^&"), inner, inner)
        | st.builds(Negative, inner)
        | st.builds(Choice, inner, inner, inner)
        | st.builds(Call, st.sampled_from(["min", "max", "d_ratio"]), st.tuples(inner, inner))
    ),
    max_leaves=12,
)


def in_parentheses(node: Node) -> str:
    """Write a tree so that nothing depends on how signs bind."""
    match node:
        case Number(value):
            return str(value)
        case Name(text) | Literal(text):
            return text
        case Negative(operand):
            return f"(-{in_parentheses(operand)})"
        case Binary(sign, left, right):
            return f"({in_parentheses(left)}{sign}{in_parentheses(right)})"
        case Choice(value, condition, otherwise):
            return f"({in_parentheses(value)} if {in_parentheses(condition)} else {in_parentheses(otherwise)})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(in_parentheses, arguments))})"


@given(TREES)
def test_what_is_written_with_every_parenthesis_is_read_again(tree: Node) -> None:
    assert parse_formula(in_parentheses(tree)) == tree
