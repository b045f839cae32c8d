"""Tables of other libraries come in and go out with the same columns."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from unperturbed.common.frames import to_library, to_polars
from unperturbed.errors import DataError

COLUMNS: dict[str, list[Any]] = {"size": [1, 2, 3], "seconds": [0.5, None, 2.5], "kind": ["a", "b", "a"]}


@pytest.mark.parametrize(
    "table",
    [COLUMNS, pl.DataFrame(COLUMNS), pl.LazyFrame(COLUMNS), pa.table(COLUMNS), pd.DataFrame(COLUMNS)],
    ids=["dict", "polars", "lazy", "pyarrow", "pandas"],
)
def test_a_table_of_any_library_is_taken(table: Any) -> None:
    frame = to_polars(table)
    assert frame.columns == list(COLUMNS)
    assert frame["size"].to_list() == [1, 2, 3]
    assert frame["seconds"].fill_nan(None).to_list() == [0.5, None, 2.5]
    assert frame["kind"].to_list() == ["a", "b", "a"]


def test_it_goes_out_as_it_came_in() -> None:
    frame = pl.DataFrame(COLUMNS)
    assert to_library(frame, "polars") is frame
    assert to_polars(to_library(frame, "pyarrow")).equals(frame)
    pandas = to_library(frame, "pandas")
    assert pandas["size"].tolist() == [1, 2, 3]
    assert pandas["seconds"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize("table", [3, [1, 2], {"a": [1, 2], "b": [1, 2, 3]}, object()])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(DataError, match=r"cannot use \w+ as a table"):
        to_polars(table)
