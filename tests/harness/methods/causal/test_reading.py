"""The table that a model is learnt from is exactly the file that was named."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from unperturbed.errors import DataError
from unperturbed.harness.methods.causal.knowledge import PriorKnowledge
from unperturbed.harness.methods.causal.reading import read_table
from unperturbed.harness.methods.causal.table import prepare_table


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize(("named", "neighbour"), [("x[1]", "x1"), ("x*", "xy"), ("x?", "xy"), ("x{1,2}", "x1")])
def test_signs_of_globs_are_letters_of_a_path(named: str, neighbour: str, suffix: str, tmp_path: Path) -> None:
    for value, name in enumerate((named, neighbour)):
        frame = pl.DataFrame({"n": [value], "t": [value]})
        with (tmp_path / f"{name}{suffix}").open("wb") as file:
            if suffix == ".parquet":
                frame.write_parquet(file)
            else:
                frame.write_csv(file, separator="\t" if suffix == ".tsv" else ",")
    assert read_table(tmp_path / f"{named}{suffix}")[0]["n"].to_list() == [0]


@pytest.mark.parametrize("name", ["*", "^a.*$"])
def test_a_name_that_stands_for_other_columns_is_refused(tmp_path: Path, name: str) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f'a,"{name}"\n1,2\n3,5\n')
    with pytest.raises(DataError, match="would be read as a pattern for several columns: rename the column"):
        prepare_table(table, PriorKnowledge())
