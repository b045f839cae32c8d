"""Derived metrics: what is read, what is refused and why, and what division by zero gives."""

from __future__ import annotations

import math
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unperturbed.common.expressions.metrics import MetricExpression, parse_metric_expression
from unperturbed.errors import DataError, SpecError

ALLOWED = "an expression may contain metric names, numbers, + - * /, parentheses, min, max and `A if B > C else D`"


def test_reads_and_computes_instructions_per_cycle() -> None:
    expression = parse_metric_expression("PAPI_TOT_INS / PAPI_TOT_CYC")
    assert expression.names == ("PAPI_TOT_INS", "PAPI_TOT_CYC")
    assert expression.text == "PAPI_TOT_INS / PAPI_TOT_CYC"
    value = expression.evaluate(
        {"PAPI_TOT_INS": np.array([4, 9], np.int64), "PAPI_TOT_CYC": np.array([2, 6], np.int64)}
    )
    assert value.dtype == np.float64
    assert value.tolist() == [2.0, 1.5]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("a", ("a",), 3.0),
        ("-a + +b", ("a", "b"), 2.0),
        ("b - a * 2", ("b", "a"), -1.0),
        ("(b - a) * 2e0", ("b", "a"), 4.0),
        ("a / b / 2", ("a", "b"), 0.3),
        ("a + b + a", ("a", "b"), 11.0),
        ("  a\n  + b ", ("a", "b"), 8.0),
        ("'perf::page-faults' / b", ("perf::page-faults", "b"), 2.0),
        ("`perf::page-faults` / b", ("perf::page-faults", "b"), 2.0),
        ("a + b  # a sum", ("a", "b"), 8.0),
    ],
)
def test_arithmetic(text: str, names: tuple[str, ...], expected: float) -> None:
    expression = parse_metric_expression(text)
    assert expression.names == names
    columns = {"a": np.array([3]), "b": np.array([5]), "perf::page-faults": np.array([10]), "unused": np.array([0])}
    assert expression.evaluate(columns) == pytest.approx([expected])


@pytest.mark.parametrize("text", ["a / b", "1 / (1 / b)", "(a / b) * b", "a * 1e300 * 1e300 / b", "a / (b - b)"])
def test_what_is_divided_by_zero_or_overflows_is_undefined_never_infinite(text: str) -> None:
    value = parse_metric_expression(text).evaluate({"a": np.array([0.0, 7.0]), "b": np.array([0.0, 0.0])})
    assert np.isnan(value).all()


def test_only_the_undefined_intervals_are_undefined() -> None:
    value = parse_metric_expression("a / b").evaluate({"a": np.array([1, 2, 3]), "b": np.array([2, 0, 4])})
    assert value[0] == 0.5
    assert math.isnan(value[1])
    assert value[2] == 0.75


def test_a_missing_metric_is_named() -> None:
    with pytest.raises(DataError, match="the trace does not contain b, needed for `a / b`"):
        parse_metric_expression("a / b").evaluate({"a": np.array([1.0])})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"cannot read ``: {ALLOWED}"),
        ("a +", f"cannot read `a +`: {ALLOWED}"),
        ("a // b", f"`//` is not allowed in an expression: {ALLOWED}"),
        ("a ** 9 ** 9", f"`**` is not allowed in an expression: {ALLOWED}"),
        ("a % 2", f"`%` is not allowed in an expression: {ALLOWED}"),
        ("not a", f"`not` is not allowed in an expression: {ALLOWED}"),
        ("a < b", f"`a < b` is not allowed in an expression: {ALLOWED}"),
        ("__import__('os')", f"`__import__('os')` is not allowed in an expression: {ALLOWED}"),
        ("a.b", f"`a.b` is not allowed in an expression: {ALLOWED}"),
        ("a[0]", f"`a[0]` is not allowed in an expression: {ALLOWED}"),
        ("True * a", f"`True` is not allowed in an expression: {ALLOWED}"),
        ("2j * a", f"`2j` is not allowed in an expression: {ALLOWED}"),
        ("lambda: a", f"`lambda: a` is not allowed in an expression: {ALLOWED}"),
        ("f'{a}'", f"`f'{{a}}'` is not allowed in an expression: {ALLOWED}"),
        ("'' + a", f"`''` is not allowed in an expression: {ALLOWED}"),
        ("f(" * 200 + ")" * 200, f"`{'f(' * 20}…` is not allowed in an expression: {ALLOWED}"),
        ("2 * 3", "`2 * 3` contains no metric, so its value is the same in every interval"),
        ("a / 0", "the expression divides by the constant 0"),
        ("a / 0.0", "the expression divides by the constant 0"),
        ("1e999 * a", "a number in the expression is too large; the limit is 1e+300"),
        ("9" * 400 + " * a", "a number in the expression is too large; the limit is 1e+300"),
        ("a + " * 150 + "a", "the expression is nested more than 100 levels deep; use fewer terms"),
        ("-" * 900 + "a", "the expression is nested more than 100 levels deep; use fewer terms"),
        ("a + " * 2_500 + "a", "the expression has 10,001 characters; the limit is 10,000"),
    ],
)
def test_refuses_in_one_clear_message(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_metric_expression(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text", ["(" * 990, "[" * 990, "a\0b", "\ud800", "1if a", "'\\d' / a", "1 (2)", "\x0c", "a" * 999]
)
def test_hostile_text_gives_an_expression_or_a_clear_error(text: str) -> None:
    try:
        assert parse_metric_expression(text).names
    except SpecError as error:
        assert str(error)


@given(st.text(max_size=60) | st.text("ab'()+-*/. 0123456789ejx\"\\\n", max_size=60))
def test_any_text_gives_an_expression_or_a_clear_error(text: str) -> None:
    try:
        expression = parse_metric_expression(text)
    except SpecError as error:
        assert str(error)
        return
    value = expression.evaluate({name: np.array([0.0, 1.0, -2.5]) for name in expression.names})
    assert value.shape == (3,)
    assert not np.isinf(value).any()


_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _naive(tree: object, row: dict[str, float]) -> float:
    """Compute one interval with Python's own arithmetic; NaN wherever that raises or leaves the finite numbers."""
    if isinstance(tree, str):
        return row[tree]
    if isinstance(tree, int):
        return float(tree)
    assert isinstance(tree, tuple)
    left, sign, right = tree
    try:
        value = _OPERATORS[sign](_naive(left, row), _naive(right, row))
    except ZeroDivisionError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _written(tree: object) -> str:
    return f"({_written(tree[0])} {tree[1]} {_written(tree[2])})" if isinstance(tree, tuple) else str(tree)


_TREES = st.recursive(
    st.sampled_from(["a", "b"]) | st.integers(1, 9),
    lambda inner: st.tuples(inner, st.sampled_from(sorted(_OPERATORS)), inner),
    max_leaves=12,
)
_COLUMNS = hnp.arrays(np.float64, 4, elements=st.sampled_from([0.0, 1.0, -3.0, 0.5, 1e200]))


@given(_TREES, _COLUMNS, _COLUMNS)
def test_agrees_with_arithmetic_done_one_interval_at_a_time(tree: object, a: np.ndarray, b: np.ndarray) -> None:
    text = _written(tree)
    if "a" not in text and "b" not in text:
        return
    computed = parse_metric_expression(text).evaluate({"a": a, "b": b})
    naive = [_naive(tree, {"a": float(x), "b": float(y)}) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(computed, naive)


def test_is_a_value() -> None:
    expression = parse_metric_expression("a / b")
    assert expression == parse_metric_expression("a  /  b")
    assert expression != parse_metric_expression("b / a")
    assert hash(expression) == hash(parse_metric_expression("a / b"))
    assert pickle.loads(pickle.dumps(expression)).evaluate({"a": [1.0], "b": [4.0]}) == [0.25]
    assert isinstance(expression, MetricExpression)
    with pytest.raises(AttributeError):
        expression.text = "b"  # type: ignore[misc]


def test_a_part_of_numbers_alone_that_is_divided_by_zero_is_undefined() -> None:
    assert np.isnan(parse_metric_expression("a + 1 / (2 - 2)").evaluate({"a": np.array([1, 2])})).all()
