"""A reader takes exactly the file it was given, whatever signs of globs are in its path."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from unperturbed.collectors import Metric, Trace
from unperturbed.collectors.data import SweepColumn, read_sweep, write_sweep

NEIGHBOURS = [("x[1]", "x1"), ("x*", "xy"), ("x?", "xy"), ("x{1,2}", "x1"), ("~", "home")]


@pytest.mark.parametrize(("named", "neighbour"), NEIGHBOURS)
def test_a_trace(named: str, neighbour: str, tmp_path: Path) -> None:
    for value, folder in enumerate((named, neighbour)):
        (tmp_path / folder).mkdir()
        trace = Trace.from_columns(
            [Metric("m", "os")], {"m": [value]}, begin_ns=[0], end_ns=[1], attributes={"run": folder}
        )
        trace.write(tmp_path / folder / "trace.parquet")
    read = Trace.read(tmp_path / named / "trace.parquet")
    assert (read["m"][0], read.attributes["run"]) == (0, named)


@pytest.mark.parametrize("file", ["table.parquet", "table.csv"])
@pytest.mark.parametrize(("named", "neighbour"), NEIGHBOURS)
def test_a_sweeps_table(named: str, neighbour: str, file: str, tmp_path: Path) -> None:
    for value, folder in enumerate((named, neighbour)):
        (tmp_path / folder).mkdir()
        write_sweep(tmp_path / folder, pl.DataFrame({"n": [value]}), [SweepColumn("n", "parameter", source="spec")], {})
    assert read_sweep(tmp_path / named / file)[0]["n"].to_list() == [0]
