"""Derived variables: computed in order, told what they are made of, refused where they have no value."""

from __future__ import annotations

import math

import polars as pl
import pytest

from unperturbed.analysis.causal.derived_tables.definitions import (
    derive,
    logarithms,
    quoted,
    read_definitions,
    undefined_rows,
)
from unperturbed.analysis.causal.table.variables import prepare
from unperturbed.errors import DataError

FRAME = pl.DataFrame(
    {
        "n": [2, 3, 4],
        "datatype": ["float", "double", "float"],
        "PAPI_TOT_CYC": [20, 90, 200],
        "perf::cache-misses": [0, 5, 10],
    }
)


def test_derived_variables_follow_each_other_and_say_what_they_are_made_of() -> None:
    frame, definitions = derive(
        FRAME,
        {
            "#op": "n * (n - 1) * (2*n - 1) / 6",
            "C_op": "PAPI_TOT_CYC / `#op`",
            "elementsize": "{'float': 4, 'double': 8}[datatype]",
            "kind": "{4: 'small', 8: 'large'}[elementsize]",
        },
    )
    assert frame.columns == [*FRAME.columns, "#op", "C_op", "elementsize", "kind"]
    assert frame["#op"].to_list() == [1, 5, 14]
    assert frame["C_op"].to_list() == [20, 18, 200 / 14]
    assert frame["elementsize"].to_list() == [4, 8, 4]
    assert frame["kind"].to_list() == ["small", "large", "small"]
    assert definitions == {
        "#op": ("n",),
        "C_op": ("PAPI_TOT_CYC", "#op"),
        "elementsize": ("datatype",),
        "kind": ("elementsize",),
    }
    assert derive(FRAME, {})[0].equals(FRAME)


def test_rows_without_a_value_are_an_error_or_missing_and_told() -> None:
    expressions = {
        "log_misses": "log(`perf::cache-misses`)",
        "double": "2 * log_misses",
        "per_n": "PAPI_TOT_CYC / (n - 3)",
    }
    with pytest.raises(DataError) as told:
        derive(FRAME, expressions)
    assert str(told.value) == (
        "log_misses = log(`perf::cache-misses`), character 1: log of a number that is not positive, in row 0 "
        "(value 0.0); row numbers start at 0"
    )
    frame, _ = derive(FRAME, expressions, undefined="null")
    assert frame["log_misses"].to_list() == [None, math.log(5), math.log(10)]
    assert frame["double"].null_count() == 1
    found = undefined_rows(FRAME, expressions)
    assert {name: [(one.why, one.rows.tolist()) for one in many] for name, many in found.items()} == {
        "log_misses": [("log of a number that is not positive", [0])],
        "per_n": [("division by 0", [1])],
    }
    assert prepare(
        frame.drop("datatype", "n", "PAPI_TOT_CYC", "double", "per_n"), missing="drop"
    ).dropped_rows.tolist() == [0]


@pytest.mark.parametrize(
    ("expressions", "message"),
    [
        ({"n": "n + 1"}, r"n = n \+ 1: the table already has a column n; give the derived variable a different name"),
        ({"": "n + 1"}, r"the derived variable with the expression 'n \+ 1' has no name: give it a name"),
        (
            {"a": "b + 1", "b": "n"},
            r"a: expression 'b \+ 1', character 1: no column 'b'; .*; b is defined after a: move it before a",
        ),
        ({"a": "a + 1"}, r"a: expression 'a \+ 1', character 1: no column 'a'"),
        ({"a": "n +"}, r"a: expression 'n \+', character 3: invalid syntax"),
    ],
)
def test_wrong_definitions_are_refused(expressions: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        derive(FRAME, expressions)
    with pytest.raises(DataError, match=message):
        undefined_rows(FRAME, expressions)


def test_what_becomes_of_undefined_rows_is_one_of_two() -> None:
    with pytest.raises(DataError, match='`undefined` must be "error" or "null"'):
        derive(FRAME, {}, undefined="nan")  # type: ignore[arg-type]


def test_definitions_are_read_from_text() -> None:
    assert read_definitions(["C_op = PAPI_TOT_CYC / ops", " `#op`= n*n\n", "fast=n == 3", "µs = {'a': 1}[k] "]) == {
        "C_op": "PAPI_TOT_CYC / ops",
        "#op": "n*n",
        "fast": "n == 3",
        "µs": "{'a': 1}[k]",
    }
    for text in ("n == 3", "n + 1", "= 3", "1n = 3", "a b = 3", ""):
        with pytest.raises(DataError, match="is not a definition: write NAME = EXPRESSION"):
            read_definitions([text])
    with pytest.raises(DataError, match="a is defined twice: as n and as n \\+ 1"):
        read_definitions(["a = n", "a = n + 1"])


def test_logarithms_turn_products_into_sums() -> None:
    frame, definitions = derive(FRAME, logarithms(["n", "perf::cache-misses"], function="log2"), undefined="null")
    assert definitions == {"log2_n": ("n",), "log2_perf::cache-misses": ("perf::cache-misses",)}
    assert frame["log2_n"].to_list() == pytest.approx([1, math.log2(3), 2])
    assert logarithms(["T"]) == {"log_T": "log(`T`)"}
    with pytest.raises(DataError, match="rename the column"):
        quoted("a`b")
