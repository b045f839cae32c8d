"""Tables of steps: by hand, that a step is one piece of evidence, and what has no steps."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unperturbed.analysis.causal import prepare, step_table
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.errors import DataError

FRAME = pl.DataFrame(
    {
        "n": [1, 1, 2, 2, 3, 1, 2],
        "kernel": ["9/7", "5/3", "9/7", "5/3", "5/3", "5/3", None],
        "T": [10.0, 7, 20, 15, 3, 8, 1],
        "bytes": [100, 110, 200, 230, 300, 120, 210],
        "square": [1, 1, 4, 4, 9, 1, 4],
        "log": ["a", "b", "c", "d", "e", "f", "g"],
        "image": ["x", "x", "y", "y", "z", "x", "y"],
    }
)


def test_a_step_is_a_row_of_means() -> None:
    found = step_table(FRAME, {"dT": "T", "dbytes": "bytes"}, "kernel", parameters=["n", "kernel"])
    assert found.frame.to_dict(as_series=False) == {
        "n": [1, 2],
        "T": [(10 + 7.5) / 2, 17.5],
        "bytes": [(100 + 115) / 2, 215],
        "square": [1, 4],
        "image": ["x", "y"],
        "dT": [2.5, 5],
        "dbytes": [-15, -30],
    }
    assert found.frame["square"].dtype == pl.Int64
    assert found.held == ("n",)
    assert (found.unmatched_rows.tolist(), found.missing_rows.tolist()) == ([4], [6])
    assert {one.name: one.why for one in found.exclusions} == {
        "log": "differs between the two ends of a step of kernel, and text has no mean",
        "kernel": "all steps are from 5/3 to 9/7",
    }
    assert str(found) == (
        "Each row is a step of kernel, n held fixed: 2 steps give dT, dbytes; values are averaged over replicates and "
        "over both ends of a step. "
        "Rows left out because no other row differs from them in kernel alone: 1 (row numbers, counted from 0: 4). "
        "Rows left out because they lack a value of a parameter or of a differentiated quantity: 1 (row numbers, "
        "counted from 0: 6)."
    )


def test_rows_are_numbered_as_in_the_table_of_runs() -> None:
    moved = FRAME[[6, 4, 0, 1, 2, 3, 5]]
    found = step_table(moved, {"dT": "T"}, "kernel", parameters=["n"])
    assert (found.unmatched_rows.tolist(), found.missing_rows.tolist()) == ([1], [0])


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["9/7", "5/3"])])
def test_words_of_all_types(dtype: pl.DataType) -> None:
    found = step_table(FRAME.with_columns(pl.col("kernel").cast(dtype)), {"dT": "T"}, "kernel", parameters=["n"])
    assert found.frame["T"].to_list() == [8.75, 17.5]
    assert [abs(value) for value in found.frame["dT"]] == [2.5, 5]


def test_a_step_of_numbers_lies_in_its_middle() -> None:
    x = [0.0, 1.0, 4.0]
    frame = pl.DataFrame({"x": x, "y": [3 * value**2 for value in x], "even": [False, True, True]})
    found = step_table(frame, {"slope": "y"}, "x", parameters=["x"])
    # The difference quotient of a parabola is its derivative in the middle.
    assert found.frame["slope"].to_list() == pytest.approx([6 * at for at in (0.5, 2.5)])
    assert found.frame["x"].to_list() == [0.5, 2.5]
    assert found.frame["even"].to_list() == [0.5, 1]
    assert found.held == ()


def test_a_step_is_one_piece_of_evidence() -> None:
    p_values = []
    for seed in range(20):
        chance = np.random.default_rng(seed)
        n = np.repeat(chance.uniform(1, 100, 60), 2)
        frame = pl.DataFrame({"n": n, "kernel": ["a", "b"] * 60, "T": chance.normal(size=120)})
        steps = step_table(frame, {"dT": "T"}, "kernel", parameters=["n", "kernel"]).frame.select("n", "dT")
        p_values.append(RegressionTest(prepare(steps)).test("n", "dT").p_value)
    # One is expected; on the table of runs, where each step comes twice, there are 7.
    assert sum(p_value < 0.05 for p_value in p_values) <= 3


def test_what_has_no_steps_is_refused() -> None:
    with pytest.raises(DataError, match="name at least one quantity to differentiate with respect to kernel"):
        step_table(FRAME, {}, "kernel", parameters=["n"])
    with pytest.raises(DataError, match="no column 'kernl'; did you mean 'kernel'"):
        step_table(FRAME, {"dT": "T"}, "kernl", parameters=["n"])
    with pytest.raises(DataError, match="the table already has a column log"):
        step_table(FRAME, {"log": "T"}, "kernel", parameters=["n"])
    with pytest.raises(DataError, match="at least two values of kernel, but the table has 1: measure runs"):
        step_table(FRAME[[1, 3]], {"dT": "T"}, "kernel", parameters=["n"])
    with pytest.raises(DataError, match="no two complete rows differ in kernel and agree in n"):
        step_table(FRAME[[0, 3]], {"dT": "T"}, "kernel", parameters=["n"])
