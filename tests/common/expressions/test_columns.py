"""Expressions over columns: values beside Python's row by row, refusals with their position, rows without a value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from unperturbed.common.expressions.columns import evaluate, parse_column_expression
from unperturbed.errors import DataError

FRAME = pl.DataFrame(
    {
        "n": [1, 2, 3, 0],
        "datatype": ["float", "int", "double", "float"],
        "perf::cache-misses": [1.5, 2, None, 4],
        "#op": [1, 2, 3, 4],
        "optimized": [True, False, None, True],
        "µs": [1.0, 2, 3, 4],
        "instr.op": [1, 1, 1, 2],
        "L1-misses": pl.Series([1, 2, 3, 4], dtype=pl.UInt8),
        "when": pl.Series([1, 2, 3, 4], dtype=pl.Date),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n*(n-1)*(2*n-1)/6", [0, 1, 5, 0]),
        ("{'float': 4, 'int': 4, 'double': 8}[datatype]", [4, 4, 8, 4]),
        ("`perf::cache-misses` / `#op`", [1.5, 1, None, 1]),
        ("µs + 1", [2, 3, 4, 5]),
        ("`instr.op` - `L1-misses`", [0, -1, -2, -2]),
        ("`L1-misses` * 1000", [1000, 2000, 3000, 4000]),
        ("log(n) if n > 0 else -1", [0, math.log(2), math.log(3), -1]),
        ("n > 0 and log(n) > 0", [False, True, True, False]),
        ("n == 0 or 1 / n < 0.4", [False, False, True, True]),
        ("1 if optimized else 0", [1, 0, None, 1]),
        ("optimized + 1", [2, 1, None, 2]),
        ("not optimized", [False, True, None, False]),
        ("min(n, 2, `#op`) + max(n, 1)", [2, 4, 5, 1]),
        ("max(`perf::cache-misses`, 2)", [2, 2, None, 4]),
        ("log10(1000 + 0 * n)", [3, 3, 3, 3]),
        ("log2(2 ** 29 + 0 * n)", [29, 29, 29, 29]),
        ("-n ** 2", [-1, -4, -9, 0]),
        ("0 < n <= 2", [True, True, False, False]),
        ("n > (1 > (2 - 1))", [True, True, True, False]),
        ("datatype in ('float', 'int')", [True, True, False, True]),
        ("n not in {1, 2}", [False, False, True, True]),
        ("datatype == 'é'", [False, False, False, False]),
        ("'é' == datatype or µs > 3", [False, False, False, True]),
        ("{True: 'fast', False: 'slow'}[optimized]", ["fast", "slow", None, "fast"]),
        ("{1: 2, 0: -3}[optimized]", [2, -3, None, 2]),
        ("{True: 5, False: 3}[n > 1]", [3, 5, 5, 3]),
        ("{0: 'none', 1: 'one', 2: 'two', 3: 'three'}[n]", ["one", "two", "three", "none"]),
        ("{'a`b': 1, 'float': 2, 'int': 2, 'double': 2}[datatype]", [2, 2, 2, 2]),
        ("\n  n\n  + 1\t", [2, 3, 4, 1]),
    ],
)
def test_values(text: str, expected: list[Any]) -> None:
    for got, value in zip(evaluate(text, FRAME), expected, strict=True):
        assert got == (pytest.approx(value, rel=1e-15) if isinstance(value, int | float) else value)


def test_what_an_expression_uses_and_gives() -> None:
    found = parse_column_expression("`#op` * n + {'float': 4, 'int': 4}[datatype] - n", FRAME.schema)
    assert found.columns == ("#op", "n", "datatype")
    assert found.type == "number"
    assert parse_column_expression("n > 1", FRAME.schema).type == "truth"
    assert parse_column_expression("{1: 'a'}[n]", FRAME.schema).type == "text"


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ("", 1, "the expression is empty"),
        (" \n ", 1, "the expression is empty"),
        ("n + m", 5, "no column 'm'; the columns are n, datatype"),
        ("n + optimised", 5, "no column 'optimised'; did you mean 'optimized'?"),
        ("  é + 1", 3, "no column 'é'"),
        ("'é' == datatype or x > 1", 20, "no column 'x'"),
        ("`#op` + `n o`", 9, "no column 'n o'"),
        ("n + instr.op", 5, "a name with characters other than letters, digits and _ needs backquotes: `instr.op`"),
        ("n + L1-misses", 5, "needs backquotes: `L1-misses`"),
        ("n / #op", 5, "a name that contains # needs backquotes"),
        ("perf::cache", 5, "a name with characters other than letters, digits and _ needs backquotes"),
        ("when + 1", 1, "column when has type Date, which is neither numeric nor text"),
        ("1 + 2", 1, "the expression uses no column"),
        ("n + ", 4, "invalid syntax"),
        ("n + `op", 5, "` is not closed"),
        ("datatype == 'float", 13, "' is not closed"),
        ("n + ``", 5, "no name between the backquotes"),
        ("n + 'x'", 5, "expected a number, not text"),
        ("n if n else 1", 6, "expected a comparison or another truth value, not a number"),
        ("not n", 5, "a comparison or another truth value"),
        ("1 if n > 1 else 'x'", 17, "before `if` is a number, but the value after `else` is text"),
        ("datatype < 'x'", 12, "text has no order"),
        ("datatype == 1", 13, "cannot compare text with a number"),
        ("n is 1", 6, "use == or !="),
        ("n in datatype", 6, "`in` needs literals"),
        ("n in [n]", 7, "expected a number, text, True or False"),
        ("{}[n]", 1, "the mapping is empty"),
        ("{'a': 1}", 1, "a mapping needs a column or value in brackets"),
        ("{'a': 1, **n}[datatype]", 1, "unsupported ** in a mapping: list all keys and values"),
        ("{'a': 1, 'a': 2}[datatype]", 1, "a key appears twice in the mapping"),
        ("{1: 1, True: 2}[n]", 1, "a key appears twice in the mapping"),
        ("{'a': 1, 'b': 'x'}[datatype]", 1, "text and other values are mixed"),
        ("{'a': n}[datatype]", 7, "expected a number, text, True or False"),
        ("{1: 1}[datatype]", 1, "cannot compare text with a key that is a number"),
        ("n[0]", 1, "only a mapping can be indexed"),
        ("log(n, 2)", 1, "log takes one argument, not 2"),
        ("min(n)", 1, "min needs two or more arguments"),
        ("max(*n)", 1, "positional arguments"),
        ("sqrt(x=n)", 1, "positional arguments"),
        ("n + pow(n, 2)", 5, "unknown function 'pow': use one of abs, ceil, exp"),
        ("1e999 * n", 1, "the number is too large"),
        ("n @ n", 1, "unsupported operator: use"),
        ("n << 1", 1, "unsupported operator: use"),
        ("~n", 1, "unsupported operator ~"),
        ("1j * n", 1, "1j is neither a number nor text"),
        ("None", 1, "None is neither"),
        ("n = 3", 3, "invalid syntax"),
        ("n; n", 2, "invalid syntax"),
        ("(n := 3)", 2, "an expression cannot assign values"),
    ],
)
def test_wrong_expressions_are_refused_with_their_position(text: str, position: int, why: str) -> None:
    with pytest.raises(DataError) as told:
        parse_column_expression(text, FRAME.schema)
    assert str(told.value).startswith(f"expression {text!r}, character {position}: ")
    assert why in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "n.__class__",
        "(lambda: 1)()",
        "[x for x in n]",
        "f'{n}'",
        "b'n'",
        "open('x')",
        "n.__class__.__mro__[1]",
        "(yield n)",
        "...",
        "().__class__",
        "*n",
        "n, n",
        "n\x00",
    ],
)
def test_what_is_not_an_expression_over_columns_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"character \d+: "):
        parse_column_expression(text, FRAME.schema)


@pytest.mark.parametrize(
    "text", ["(" * 300 + "n" + ")" * 300, "-" * 9000 + "n", "n" + "+n" * 200, "1" * 9000 + "*n", "n" * 20_000]
)
def test_overlong_expressions_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"character \d+: ") as told:
        parse_column_expression(text, FRAME.schema)
    assert len(str(told.value)) < 600


def test_a_long_sum_is_fine() -> None:
    assert evaluate("n" + "+n" * 90, FRAME).to_list() == [91, 182, 273, 0]


@pytest.mark.parametrize(
    ("text", "position", "why", "rows", "values"),
    [
        ("`#op` / n", 9, "division by 0", [3], [0.0]),
        ("1 // (n - 1)", 7, "division by 0", [0], [0.0]),
        ("`#op` % n", 9, "division by 0", [3], [0.0]),
        ("2 * log2(n - 1)", 5, "log2 of a number that is not positive", [0, 3], [0.0, -1.0]),
        ("sqrt(n - 2)", 1, "sqrt of a negative number", [0, 3], [-1.0, -2.0]),
        ("n ** -1", 1, "0 to a negative power", [3], [0.0]),
        ("(n - 2) ** 0.5", 2, "a negative number to a non-integer power", [0, 3], [-1.0, -2.0]),
        ("{'float': 4}[datatype]", 1, "the mapping has no entry for the value", [1, 2], ["int", "double"]),
        ("exp(1000 * n)", 1, "result not finite", [0, 1, 2], [math.inf] * 3),
        ("1 / n if datatype == 'float' else 0", 5, "division by 0", [3], [0.0]),
        ("1 / (0 * n) if datatype == 'double' else 0", 6, "division by 0", [2], [0.0]),
    ],
)
def test_rows_without_a_value_are_told(
    text: str, position: int, why: str, rows: list[int], values: list[object]
) -> None:
    found = parse_column_expression(text, FRAME.schema).evaluate(FRAME)
    assert [(one.why, one.position, one.rows.tolist(), list(one.values)) for one in found.undefined] == [
        (why, position, rows, values)
    ]
    assert found.values.is_null().arg_true().to_list() == rows
    with pytest.raises(DataError) as told:
        evaluate(text, FRAME)
    assert str(told.value).startswith(f"expression {text!r}, character {position}: {why}, in row")


def test_only_the_first_rows_are_listed() -> None:
    frame = pl.DataFrame({"x": [0.0] * 9})
    with pytest.raises(
        DataError, match=r"in rows 0 \(value 0\.0\), .*4 \(value 0\.0\) and 4 more; row numbers start at 0"
    ):
        evaluate("1 / x", frame)


def test_missing_values_and_infinite_ones_of_the_table_are_not_faults_of_the_expression() -> None:
    frame = pl.DataFrame({"x": [1.0, None, float("nan"), math.inf], "y": [0, 0, 0, 0]})
    found = parse_column_expression("log(x) + x / (y + 1)", frame.schema).evaluate(frame)
    assert found.values.to_list() == [1.0, None, None, math.inf]
    assert found.undefined == ()


def test_a_table_without_rows_has_a_result_without_rows() -> None:
    assert evaluate("n / 0 + {1: 2}[n]", FRAME.clear()).to_list() == []


def _undefined() -> float:
    raise ZeroDivisionError


def _power(base: float, exponent: float) -> float:
    if (base < 0 and exponent != math.floor(exponent)) or (base == 0 and exponent < 0):
        _undefined()
    assume(abs(exponent) < 50)
    return float(base**exponent)


def _exp(value: float) -> float:
    assume(abs(value) < 100)
    return math.exp(value)


def _quotient(x: float, y: float) -> float:
    # Python's own would be 9 for 1 // 0.1, as 0.1 is a little more than a tenth.
    return float(math.floor(x / y))


TWINS: dict[str, Callable[..., Any]] = {
    "power": _power,
    "quotient": _quotient,
    "remainder": lambda x, y: x - y * _quotient(x, y),
    "exp": _exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sqrt": math.sqrt,
    "abs": abs,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "min": min,
    "max": max,
}
Pair = tuple[str, str]
"""The expression, and what Python computes for it."""


def _numbers(inner: st.SearchStrategy[Pair], truths: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def both(form: str, *parts: st.SearchStrategy[Pair], twin: str | None = None) -> st.SearchStrategy[Pair]:
        return st.tuples(*parts).map(
            lambda found: (form.format(*(one[0] for one in found)), (twin or form).format(*(one[1] for one in found)))
        )

    return st.one_of(
        *(both(f"({{}} {sign} {{}})", inner, inner) for sign in ("+", "-", "*", "/")),
        both("({} // {})", inner, inner, twin="quotient({}, {})"),
        both("({0} % {1})", inner, inner, twin="remainder({0}, {1})"),
        both("({} ** {})", inner, inner, twin="power({}, {})"),
        both("(-{})", inner),
        *(both(f"{name}({{}})", inner) for name in ("exp", "log", "log2", "log10", "sqrt", "abs", "floor", "ceil")),
        both("min({}, {}, {})", inner, inner, inner),
        both("max({}, {})", inner, inner),
        both("({1} if {0} else {2})", truths, inner, inner),
        both("({} + 1)", truths, twin="(float({}) + 1)"),
        both("{{True: 2, False: -3}}[{}]", truths),
    )


def _truths(numbers: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    compared = st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers, numbers).map(
        lambda found: (f"({found[1][0]} {found[0]} {found[2][0]})", f"({found[1][1]} {found[0]} {found[2][1]})")
    )
    leaf = st.sampled_from(["t", "(k == 'x')", "(k in ('x', 'y'))", "(1 < `x y` < 3)", "(i not in (1, 2.5))"])
    simple = st.one_of(leaf.map(lambda text: (text, text.replace("`x y`", "x"))), compared)
    return st.one_of(
        simple,
        simple.map(lambda found: (f"(not {found[0]})", f"(not {found[1]})")),
        st.tuples(st.sampled_from(["and", "or"]), simple, simple).map(
            lambda found: (f"({found[1][0]} {found[0]} {found[2][0]})", f"({found[1][1]} {found[0]} {found[2][1]})")
        ),
    )


_LEAVES: st.SearchStrategy[Pair] = st.one_of(
    st.sampled_from([("`x y`", "x"), ("i", "i"), ("{'x': 1, 'y': 0.5, 'z': -2}[k]", "{'x': 1, 'y': 0.5, 'z': -2}[k]")]),
    st.sampled_from(["0", "1", "2", "0.5", "3.25", "10"]).map(
        lambda text: (text, f"{text}.0" if "." not in text else text)
    ),
)
_FIRST = _numbers(_LEAVES, _truths(_LEAVES))
_SECOND = _numbers(st.one_of(_LEAVES, _FIRST), _truths(st.one_of(_LEAVES, _FIRST)))
_ROWS = st.lists(
    st.tuples(
        st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 2.0, 3.5]),
        st.integers(-4, 8),
        st.sampled_from("xyz"),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(_SECOND, _ROWS)
def test_expressions_equal_python_row_by_row(pair: Pair, rows: list[tuple[float, int, str, bool]]) -> None:
    text, twin = pair
    expected: list[float | None] = []
    for x, i, k, t in rows:
        try:
            value = float(
                eval(twin, {"__builtins__": {}, "float": float, **TWINS}, {"x": x, "i": float(i), "k": k, "t": t})
            )
        except (ZeroDivisionError, ValueError):
            expected.append(None)
        else:
            assume(math.isfinite(value) and abs(value) < 1e100)
            expected.append(value)
    frame = pl.DataFrame(
        rows, schema={"x y": pl.Float64, "i": pl.Int8, "k": pl.Enum(["z", "y", "x"]), "t": pl.Boolean}, orient="row"
    )
    text = f"{text} + 0 * i"
    found = parse_column_expression(text, frame.schema).evaluate(frame)
    assert found.values.is_null().to_list() == [value is None for value in expected]
    told = sorted({int(row) for one in found.undefined for row in one.rows})
    assert told == [row for row, value in enumerate(expected) if value is None]
    for got, value in zip(found.values, expected, strict=True):
        assert value is None or got == pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        " ** ".join(["x"] * 60),
        "log2(" * 60 + "2 ** 60" + ")" * 60 + " + 0 * x",
        "min(" * 60 + "x" + ", 2)" * 60,
        "1 < (" * 60 + "x" + ") < 2" * 60,
        "x / (" * 60 + "x" + ")" * 60,
        "(x > 1 and " * 60 + "x > 0" + ")" * 60,
        "(x if x > 1 else " * 60 + "x" + ")" * 60,
    ],
)
def test_size_and_time_are_in_proportion_to_the_text(text: str) -> None:
    """What is used twice on each of sixty levels would be written 2⁶⁰ times."""
    frame = pl.DataFrame({"x": [1.0, 1.5]})
    found = parse_column_expression(text, frame.schema)
    assert len(found._translated.steps) <= 10 * 60
    assert len(found.evaluate(frame).values) == 2
