"""Which columns of a table become variables, of which kind, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.analysis.causal.table.variables import Data, Exclusion, prepare
from unperturbed.errors import DataError


def _campaign(rows: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "n": rng.integers(5, 301, rows),
            "datatype": rng.choice(["short", "int", "double"], rows),
            "optimization": rng.random(rows) > 0.5,
            "elementsize": rng.choice([2, 4, 8], rows),
            "cycles": rng.normal(size=rows),
        }
    )


def test_kinds_are_inferred_and_said() -> None:
    data = prepare(_campaign())
    assert dict(data.kinds) == {
        "n": "continuous",
        "datatype": "discrete",
        "optimization": "discrete",
        "elementsize": "discrete",
        "cycles": "continuous",
    }
    assert [one.why for one in data.variables] == [
        f"whole numbers, {data.frame['n'].n_unique()} distinct values",
        "text",
        "false and true",
        "whole numbers, 3 distinct values",
        "numbers that are not whole",
    ]
    assert data.exclusions == ()
    assert data.rows == 60
    assert repr(data) == "Data(60 rows, 5 variables)"


def test_kinds_can_be_overridden() -> None:
    data = prepare(_campaign(), kinds={"elementsize": "continuous", "n": "discrete"})
    assert data.kinds["elementsize"] == "continuous"
    assert data.kinds["n"] == "discrete"
    assert {one.why for one in data.variables if one.name in {"elementsize", "n"}} == {"as requested"}
    assert data.categories("n") == tuple(sorted(set(data.frame["n"])))
    with pytest.raises(
        DataError, match=r'elementsize is continuous and has no codes: pass `kinds={"elementsize": "discrete"}`'
    ):
        data.codes("elementsize")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3] * 5, "discrete"),
        ([1, 2, 3] * 4, "continuous"),  # four rows a value
        ([1.0, 2.0, 3.0] * 5, "discrete"),  # floats that hold whole numbers alone
        ([1.0, 2.5, 3.0] * 5, "continuous"),
        ([0.25, 1.5] * 3, "discrete"),  # two values
        (list(range(10)) * 6, "discrete"),
        (list(range(11)) * 6, "continuous"),
    ],
)
def test_numbers_with_few_values_are_discrete(values: list[float], kind: str) -> None:
    assert prepare(pl.DataFrame({"x": values})).kinds["x"] == kind


def test_the_number_of_categories_can_be_chosen() -> None:
    frame = pl.DataFrame({"x": list(range(11)) * 6})
    assert prepare(frame, most_categories=11).kinds["x"] == "discrete"


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_codes_and_categories_give_the_column_back(drawn: st.DataObject) -> None:
    words = st.sampled_from(["float", "int", "", "long double", "é"])
    column, dtype = drawn.draw(
        st.sampled_from(
            [
                (words, pl.String),
                (words, pl.Categorical),
                (words, pl.Enum(["long double", "int", "float", "é", ""])),
                (st.booleans(), pl.Boolean),
                (st.integers(-3, 3), pl.Int8),
                (st.floats(-1, 1), pl.Float64),
            ]
        )
    )
    values = drawn.draw(st.lists(column, min_size=2, max_size=30).filter(lambda many: len(set(many)) > 1))
    data = prepare(pl.DataFrame({"x": pl.Series(values, dtype=dtype)}), kinds={"x": "discrete"})
    categories = data.categories("x")
    assert [categories[code] for code in data.codes("x")] == values
    assert len(categories) == len(set(values)) == data.variables[0].distinct
    if isinstance(dtype, pl.Enum):
        assert list(categories) == [one for one in dtype.categories if one in set(values)]
    else:
        assert list(categories) == sorted(set(values))
    rows = drawn.draw(st.lists(st.integers(0, len(values) - 1), max_size=10))
    taken = data.take(rows)
    assert [categories[code] for code in taken.codes("x")] == [values[row] for row in rows]
    assert taken.categories("x") == categories
    assert taken.frame["x"].to_list() == [values[row] for row in rows]
    if data.has_values("x"):
        assert taken.values("x").tolist() == [float(values[row]) for row in rows]
    else:
        with pytest.raises(DataError, match="x is text and has no numbers"):
            data.values("x")


def test_arrays_cannot_be_written() -> None:
    data = prepare(_campaign())
    for array in (data.values("n"), data.codes("datatype"), data.values("optimization"), data.take([1, 2]).values("n")):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_numbers_become_float64() -> None:
    frame = pl.DataFrame(
        {"big": pl.Series([2**63, 1, 2], dtype=pl.UInt64), "money": [Decimal("1.5"), Decimal(2), Decimal(3)]}
    )
    data = prepare(frame)
    assert data.values("big").tolist() == [2.0**63, 1, 2]
    assert data.values("money").tolist() == [1.5, 2, 3]
    assert data.kinds == {"big": "continuous", "money": "continuous"}
    assert prepare(frame, kinds={"money": "discrete"}).categories("money") == (1.5, 2.0, 3.0)


def test_columns_that_cannot_be_variables_are_left_out_and_said() -> None:
    frame = _campaign().with_columns(
        machine=pl.lit("alpha"),
        run=pl.int_range(60).cast(pl.String),
        size=pl.col("n").cast(pl.Float32),
        same=pl.col("datatype").cast(pl.Categorical),
        opt=pl.col("optimization").cast(pl.Int8),
        when=pl.date(2024, 1, 1),
        samples=pl.concat_list("n", "n"),
        both=pl.struct("n", "cycles"),
        raw=pl.lit(b"x"),
        empty=None,
        nans=float("nan"),
        comment=(pl.int_range(60) // 1.5).cast(pl.String),
    )
    data = prepare(frame)
    assert data.names == ("n", "datatype", "optimization", "elementsize", "cycles")
    assert {one.name: one.why for one in data.exclusions} == {
        "machine": "constant: always alpha",
        "run": "text that differs in every row, like row names",
        "size": "duplicate of n",
        "same": "duplicate of datatype",
        "opt": "duplicate of optimization",
        "when": "contains dates or times, which must be converted to numbers",
        "samples": "contains lists, not single values",
        "both": "contains structs, not single values",
        "raw": "has type Binary",
        "empty": "has no value in any row",
        "nans": "has no value in any row",
        "comment": "text with too many distinct values (40 in 60 rows); convert the column if its values are numbers",
    }
    assert [one.name for one in data.exclusions] == frame.columns[5:]
    with pytest.raises(DataError, match="size is left out: duplicate of n"):
        data.values("size")
    assert prepare(frame, kinds={"comment": "discrete"}).kinds["comment"] == "discrete"


def test_minus_zero_is_zero() -> None:
    data = prepare(pl.DataFrame({"a": [0.0, 1.0, 0.5], "b": [-0.0, 1.0, 0.5]}))
    assert data.exclusions == (Exclusion("b", "duplicate of a"),)


def test_missing_values_are_refused_or_dropped() -> None:
    frame = pl.DataFrame(
        {
            "a": [1.0, float("nan"), 3.0, 4.0, 5.5, 6.0],
            "b": [1, 2, 4, None, 5, 6],
            "c": ["x", "y", "y", "x", "x", "y"],
            "d": [0.5, 1, 2, 3, float("-inf"), 7],
        }
    )
    with pytest.raises(DataError) as told:
        prepare(frame)
    assert str(told.value) == (
        "values are missing, NaN or infinite (rows are counted from 0): a (1 of 6 rows, first row 1), b (1 of 6 "
        "rows, first row 3), d (1 of 6 rows, first row 4); "
        'pass `missing="drop"` to analyse the 3 complete rows, or leave the columns out'
    )
    data = prepare(frame.drop("d"), missing="drop")
    assert data.dropped_rows.tolist() == [1, 3]
    assert dict(data.missing) == {"a": 1, "b": 1}
    assert data.values("a").tolist() == [1, 3, 5.5, 6]
    assert data.codes("c").tolist() == [0, 1, 0, 1]
    with pytest.raises(DataError, match=r"too few rows \(3\) for 4 variables"):
        prepare(frame, missing="drop")
    with pytest.raises(DataError, match=r"every row lacks a value, most often that of e \(5 of 6 rows\)"):
        prepare(frame.with_columns(e=pl.Series([None, 1, None, None, None, None])), missing="drop")
    with pytest.raises(DataError, match="every row lacks a value"):
        prepare(pl.DataFrame({"a": [None, None], "b": [1, 2]}), kinds={"a": "discrete"}, missing="drop")
    with pytest.raises(DataError, match=r"every row lacks a value, most often that of a \(1 of 2 rows\): leave a out"):
        prepare(pl.DataFrame({"a": [None, 1], "b": [2, None]}))  # there is no row that missing="drop" would keep


def test_what_dropping_rows_makes_constant_is_left_out() -> None:
    frame = pl.DataFrame({"a": [1, 1, 2], "b": [1.5, 2.5, None]})
    assert prepare(frame, missing="drop").exclusions == (Exclusion("a", "constant: always 1"),)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame(), "the table has 0 columns and 0 rows"),
        (pl.DataFrame({"a": []}, schema={"a": pl.Float64}), "the table has 1 column and 0 rows"),
        (pl.DataFrame({"a": [1, 1], "b": ["x", "x"]}), r"a \(constant: always 1\), b \(constant: always x\)"),
        (pl.DataFrame({"a": [1.5, 2], "b": [1.5, 2.5], "c": [1.5, 3.5]}), r"too few rows \(2\) for 3 variables"),
    ],
)
def test_tables_without_anything_to_learn_are_refused(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare(frame)


def test_wrong_kinds_are_refused() -> None:
    frame = _campaign()
    with pytest.raises(DataError, match=r"`kinds`: no column 'datatyp'; did you mean 'datatype'\?"):
        prepare(frame, kinds={"datatyp": "discrete"})
    with pytest.raises(
        DataError, match="`kinds`: no column 'q'; the columns are n, datatype, optimization, elementsize, cycles"
    ):
        prepare(frame, kinds={"q": "discrete"})
    with pytest.raises(DataError, match='n must be "discrete" or "continuous", not \'ordinal\''):
        prepare(frame, kinds={"n": "ordinal"})  # type: ignore[dict-item]
    with pytest.raises(DataError, match="datatype is text and cannot be continuous"):
        prepare(frame, kinds={"datatype": "continuous"})
    with pytest.raises(DataError, match="lists cannot be a variable: it contains lists, not single values"):
        prepare(frame.with_columns(lists=pl.concat_list("n", "n")), kinds={"lists": "discrete"})


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(TypeError, match=r"the table must be a polars\.DataFrame, not builtins\.dict"):
        prepare({"a": [1, 2]})  # type: ignore[arg-type]
    with pytest.raises(DataError, match='`missing` must be "error" or "drop"'):
        prepare(_campaign(), missing="mean")  # type: ignore[arg-type]
    data = prepare(_campaign())
    with pytest.raises(DataError, match=r"row indices must be a one-dimensional array of integers, not float64"):
        data.take([0.5])
    with pytest.raises(DataError, match="from 0 to 59, not from 3 to 60"):
        data.take([3, 60])
    with pytest.raises(DataError, match=r"no column 'cycle'; did you mean 'cycles'\?"):
        data.subset(["n", "cycle"])
    with pytest.raises(DataError, match="named twice"):
        data.subset(["n", "n"])


def test_subset_keeps_the_order_asked_for() -> None:
    data = prepare(_campaign())
    part = data.subset(["cycles", "n"])
    assert part.names == ("cycles", "n")
    assert part.frame.columns == ["cycles", "n"]
    assert part.values("n") is data.values("n")
    assert isinstance(part, Data)
    with pytest.raises(DataError, match="no column 'datatype'"):
        part.codes("datatype")
    assert data.take([]).rows == 0


@pytest.mark.parametrize("scale", [1e308, 1e-310, 1e80])
def test_numbers_too_large_or_small_to_be_squared_are_left_out(scale: float) -> None:
    frame = _campaign().with_columns(scaled=pl.col("cycles").clip(-1, 1) * scale)
    data = prepare(frame)
    assert [one.name for one in data.exclusions] == ["scaled"]
    assert "unit" in data.exclusions[0].why
    # One denormal number among others is one.
    assert prepare(_campaign().with_columns(cycles=pl.col("n") * 1.5 + 5e-324)).exclusions == ()
