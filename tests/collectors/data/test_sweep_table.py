"""The table of a sweep: what is written is what is read, by whichever of its files."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from unperturbed.collectors.data import SweepColumn, read_sweep, read_sweep_facts, write_sweep
from unperturbed.errors import DataError

COLUMNS = [
    SweepColumn("n", "parameter", source="spec"),
    SweepColumn("datatype", "parameter", source="spec"),
    SweepColumn("time_s", "time", "s", "wait4", "wall-clock time"),
    SweepColumn(
        "PAPI_TOT_CYC",
        "simulated",
        "cycles",
        "callgrind",
        "simulated: cycles",
        components=("callgrind:Ir", "callgrind:Bcm"),
    ),
]
TYPES = {"n": pl.Int64, "datatype": pl.String, "time_s": pl.Float64, "PAPI_TOT_CYC": pl.Int64}
FACTS = {"name": "lu", "complete": True, "failed": []}

_WHOLE = st.integers(-(2**63), 2**63 - 1)
_TEXT = st.text(st.characters(blacklist_categories=["Cs"], min_codepoint=32), min_size=1, max_size=12)
_NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)
_ROWS = st.lists(st.tuples(_WHOLE, _TEXT, _NUMBER, _WHOLE), max_size=5)


def _frame(rows: list[tuple[int, str, float | None, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TYPES, orient="row")


@given(rows=_ROWS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_by_each_of_its_files(
    rows: list[tuple[int, str, float | None, int]], tmp_path: Path
) -> None:
    frame = _frame(rows)
    write_sweep(tmp_path, frame, COLUMNS, FACTS)
    for path in (tmp_path, tmp_path / "table.parquet", tmp_path / "table.csv"):
        found, columns = read_sweep(path)
        assert_frame_equal(found, frame)
        assert list(columns.values()) == COLUMNS
        assert read_sweep_facts(str(path)) == FACTS


def test_text_that_looks_like_something_else_stays_text(tmp_path: Path) -> None:
    values = ["4", "1e3", "true", "null", 'a "b", c', " x ", "NaN"]
    frame = _frame([(number, value, None, 0) for number, value in enumerate(values)])
    write_sweep(tmp_path, frame, COLUMNS, FACTS)
    assert read_sweep(tmp_path / "table.csv")[0]["datatype"].to_list() == values


def test_nothing_is_left_beside_the_files_and_other_tools_can_read_them(tmp_path: Path) -> None:
    write_sweep(tmp_path, _frame([(5, "int", 0.25, 7)]), COLUMNS, FACTS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["table.csv", "table.json", "table.parquet"]
    assert (tmp_path / "table.csv").read_text() == "n,datatype,time_s,PAPI_TOT_CYC\n5,int,0.25,7\n"
    described = json.loads((tmp_path / "table.json").read_text())
    assert [(entry["name"], entry["kind"], entry["type"]) for entry in described["columns"]] == [
        ("n", "parameter", "integer"),
        ("datatype", "parameter", "text"),
        ("time_s", "time", "number"),
        ("PAPI_TOT_CYC", "simulated", "integer"),
    ]
    assert pl.read_parquet(tmp_path / "table.parquet").height == 1


def test_a_table_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    write_sweep(tmp_path, _frame([(5, "int", 0.25, 7)]), COLUMNS, FACTS)
    before = (tmp_path / "table.parquet").read_bytes()
    with pytest.raises(ValueError, match="Out of range float values"):
        write_sweep(tmp_path, _frame([(6, "int", 0.25, 7)]), COLUMNS, {"bad": float("nan")})
    with pytest.raises(
        DataError,
        match="the description has the columns n, datatype, but the table has n, datatype, time_s, PAPI_TOT_CYC",
    ):
        write_sweep(tmp_path, _frame([]), COLUMNS[:2], FACTS)
    with pytest.raises(
        DataError, match=r"columns must contain 64-bit integers, 64-bit floats or strings, not n \(Int32\)"
    ):
        write_sweep(tmp_path, _frame([]).with_columns(pl.col("n").cast(pl.Int32)), COLUMNS, FACTS)
    assert (tmp_path / "table.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_no_table_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder has no table; to write it"):
        read_sweep(tmp_path)
    with pytest.raises(DataError, match="no such table"):
        read_sweep(tmp_path / "other.parquet")
    (tmp_path / "table.parquet").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_sweep(tmp_path)
    _frame([]).write_parquet(tmp_path / "table.parquet")
    with pytest.raises(DataError, match="not the table of a sweep"):
        read_sweep(tmp_path)
    _frame([]).write_csv(tmp_path / "other.csv")
    with pytest.raises(DataError, match=r"other.json, which describes the columns, is missing from the same folder"):
        read_sweep(tmp_path / "other.csv")


def test_a_csv_and_a_description_of_two_moments_are_not_read_together(tmp_path: Path) -> None:
    write_sweep(tmp_path, _frame([(5, "int", 0.25, 7)]), COLUMNS, FACTS)
    _frame([]).write_csv(tmp_path / "table.csv")
    with pytest.raises(DataError, match=r"the table has 0 rows .* its description states 1 row "):
        read_sweep(tmp_path / "table.csv")
    (tmp_path / "table.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match="written by a newer version of unperturbed"):
        read_sweep(tmp_path / "table.csv")
    for text in ("[]", "{}", "x"):
        (tmp_path / "table.json").write_text(text)
        with pytest.raises(DataError, match="contains no readable description of a sweep's table"):
            read_sweep(tmp_path / "table.csv")


def test_a_column_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(DataError, match="`kind` is 'label', which is not one of parameter, time, hardware"):
        SweepColumn("point", "label")  # type: ignore[arg-type]
