"""Partial derivatives: by hand, beside a naive twin on random tables, exact for parabolas, and what has none."""

from __future__ import annotations

import itertools
import statistics

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.analysis.causal.derived_tables.steps import partial_derivative
from unperturbed.errors import DataError

FRAME = pl.DataFrame(
    {
        "n": [1, 1, 2, 2, 3, 1, 2],
        "kernel": ["9/7", "5/3", "9/7", "5/3", "5/3", "5/3", None],
        "T": [10.0, 7, 20, 15, 3, 8, 1],
    }
)


def test_between_two_words_it_is_the_difference_of_means() -> None:
    found = partial_derivative(FRAME, "T", "kernel", parameters=["n", "kernel"])
    assert found.name == found.values.name == "dT_dkernel"
    assert found.steps.to_dict(as_series=False) == {
        "n": [1, 2],
        "kernel_from": ["5/3", "5/3"],
        "kernel_to": ["9/7", "9/7"],
        "dT_dkernel": [2.5, 5.0],
        "standard_error": [None, None],
        "replicates": [1, 1],
    }
    assert found.values.to_list() == [2.5, 2.5, 5, 5, None, 2.5, None]
    assert found.unmatched_rows.tolist() == [4]
    assert found.missing_rows.tolist() == [6]


def test_the_direction_of_words_can_be_chosen() -> None:
    found = partial_derivative(FRAME, "T", "kernel", parameters=["n"], between=("9/7", "5/3"), name="gain")
    assert found.steps["gain"].to_list() == [-2.5, -5]
    assert found.steps["kernel_from"].to_list() == ["9/7", "9/7"]
    by_order = FRAME.with_columns(kernel=pl.col("kernel").cast(pl.Enum(["9/7", "5/3"])))
    assert partial_derivative(by_order, "T", "kernel", parameters=["n"]).steps["dT_dkernel"].to_list() == [-2.5, -5]
    by_name = FRAME.with_columns(kernel=pl.col("kernel").cast(pl.Categorical))
    assert partial_derivative(by_name, "T", "kernel", parameters=["n"]).steps["dT_dkernel"].to_list() == [2.5, 5]


def test_of_more_words_two_are_chosen() -> None:
    frame = FRAME.with_columns(kernel=pl.Series(["a", "b", "a", "c", "b", "c", "c"]))
    with pytest.raises(
        DataError,
        match=r"kernel is text with 3 values \('a', 'b', 'c'\), and the distances between these are unknown: "
        "choose two values, as",
    ):
        partial_derivative(frame, "T", "kernel", parameters=["n"])
    found = partial_derivative(frame, "T", "kernel", parameters=["n"], between=("a", "c"))
    assert found.steps["dT_dkernel"].to_list() == [-2, 8 - 20]
    assert found.unmatched_rows.tolist() == [1, 4]


def test_truth_values_and_numbers() -> None:
    frame = pl.DataFrame({"optimized": [False, True, True, False], "C": [50, 20, 24, 54], "block": [64, 16, 64, 16]})
    found = partial_derivative(frame, "C", "optimized", parameters=["optimized"])
    assert found.steps.to_dict(as_series=False) == {
        "optimized_from": [False],
        "optimized_to": [True],
        "dC_doptimized": [-30.0],
        "standard_error": [pytest.approx(np.sqrt(8 / 2 + 8 / 2))],
        "replicates": [2],
    }
    over_block = partial_derivative(frame, "C", "block", parameters=["optimized", "block"], between=(16, 64))
    assert over_block.steps["dC_dblock"].to_list() == [-4 / 48, 4 / 48]
    assert over_block.steps["block_to"].to_list() == [64, 64]


def test_a_parabola_has_its_exact_derivative_inside_whatever_the_steps() -> None:
    x = [0.0, 1.0, 1.5, 4.0, 9.0]
    frame = pl.DataFrame({"x": x, "y": [3 * value**2 - value for value in x]}).sample(fraction=1, shuffle=True, seed=1)
    found = partial_derivative(frame, "y", "x", parameters=["x"])
    inside = [value for value, at in zip(found.values, frame["x"], strict=True) if at not in {0, 9}]
    assert inside == pytest.approx([6 * at - 1 for at in frame["x"] if at not in {0, 9}])


def _naive(
    rows: list[tuple[int, str, int, float]],
) -> tuple[dict[tuple[int, str, int, int], float], list[float | None]]:
    """Return the steps, and each row's derivative, from rows (a, b, x, y)."""
    means: dict[tuple[int, str], dict[int, float]] = {}
    for a, b, x, _ in rows:
        means.setdefault((a, b), {})[x] = statistics.fmean(y for c, d, z, y in rows if (c, d, z) == (a, b, x))
    steps, values = {}, []
    for (a, b), cells in means.items():
        places = sorted(cells)
        for low, high in itertools.pairwise(places):
            steps[a, b, low, high] = (cells[high] - cells[low]) / (high - low)
    for a, b, x, _ in rows:
        after = next(
            ((high - x, slope) for (c, d, low, high), slope in steps.items() if (c, d, low) == (a, b, x)), None
        )
        before = next(
            ((x - low, slope) for (c, d, low, high), slope in steps.items() if (c, d, high) == (a, b, x)), None
        )
        if after and before:
            values.append((after[0] * before[1] + before[0] * after[1]) / (after[0] + before[0]))
        else:
            one = after or before
            values.append(one[1] if one else None)
    return steps, values


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from("pq"), st.integers(0, 4), st.floats(-10, 10)),
        min_size=2,
        max_size=25,
    )
)
def test_equals_the_slow_twin(rows: list[tuple[int, str, int, float]]) -> None:
    frame = pl.DataFrame(rows, schema=["a", "b", "x", "y"], orient="row")
    steps, values = _naive(rows)
    if not steps:
        with pytest.raises(
            DataError, match=r"no two complete rows differ in x and agree in a, b|at least two values of x, "
        ):
            partial_derivative(frame, "y", "x", parameters=["a", "b", "x"])
        return
    found = partial_derivative(frame, "y", "x", parameters=["a", "b", "x"])
    assert {
        (a, b, low, high): pytest.approx(slope, abs=1e-9) for a, b, low, high, slope, _, _ in found.steps.rows()
    } == steps
    assert [row[:4] for row in found.steps.rows()] == list(steps)
    for got, expected in zip(found.values, values, strict=True):
        assert got == (None if expected is None else pytest.approx(expected, abs=1e-9))
    assert found.unmatched_rows.tolist() == [row for row, value in enumerate(values) if value is None]
    assert found.missing_rows.tolist() == []


def test_what_cannot_be_derived_is_refused() -> None:
    with pytest.raises(DataError, match="no column 'kernl'; did you mean 'kernel'"):
        partial_derivative(FRAME, "T", "kernl", parameters=["n"])
    with pytest.raises(DataError, match="n is itself a parameter"):
        partial_derivative(FRAME, "n", "kernel", parameters=["n"])
    with pytest.raises(
        DataError, match="kernel has type String, but only numbers have a derivative: choose a numeric column"
    ):
        partial_derivative(FRAME, "kernel", "n", parameters=["n"])
    with pytest.raises(DataError, match="named twice in n, n: name each"):
        partial_derivative(FRAME, "T", "kernel", parameters=["n", "n"])
    with pytest.raises(
        DataError,
        match="no two complete rows differ in kernel and agree in n, so dT_dkernel has no value: measure runs that",
    ):
        partial_derivative(FRAME[[0, 3]], "T", "kernel", parameters=["n"])
    with pytest.raises(
        DataError, match="a derivative needs at least two values of kernel, but the table has 1: measure runs"
    ):
        partial_derivative(FRAME[[1, 3]], "T", "kernel", parameters=["n"])
    with pytest.raises(DataError, match=r"steps of n cannot be from 1 to 7: choose two different values from 1, 2, 3"):
        partial_derivative(FRAME, "T", "n", parameters=["kernel"], between=(1, 7))
    with pytest.raises(DataError, match="two different values"):
        partial_derivative(FRAME, "T", "n", parameters=["kernel"], between=(1, 1))
    with pytest.raises(DataError, match="parameter `replicates` has the name of a result column"):
        partial_derivative(FRAME.with_columns(replicates=1), "T", "n", parameters=["replicates"])
