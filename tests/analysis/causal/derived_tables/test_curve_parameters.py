"""Parameters of fitted curves as variables: the paper's equations (17) and (18) are recovered, undetermined ones are
null."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unperturbed.analysis.causal.derived_tables.curve_parameters import curve_parameters
from unperturbed.analysis.causal.regression.fit import fit_mechanism
from unperturbed.analysis.causal.table.variables import Data, prepare
from unperturbed.errors import DataError

_SIZES = {"short": 2, "int": 4, "float": 4, "double": 8, "long": 8, "longdouble": 12}
_CPI = {"short": 1.2, "int": 1.5, "float": 1.3, "double": 1.8, "long": 1.1, "longdouble": 2.0}
_PENALTY = {"short": 166, "int": 166, "float": 200, "double": 295, "long": 300, "longdouble": 418}
_CACHE = 2**18


def _lu(seed: int, rows: int = 400) -> Data:
    """Return runs as in section 8.3: misses jump where the matrix fills the cache, which that of shorts never does."""
    rng = np.random.default_rng(seed)
    n = rng.integers(5, 301, rows)
    datatype = rng.choice(list(_SIZES), rows)
    optimized = rng.integers(0, 2, rows)
    size = np.array([_SIZES[one] for one in datatype])
    misses = np.where(n**2 * size > _CACHE, size / 64, 0) + rng.normal(0, 0.003, rows)
    instructions = 30 + 2 * size - 8 * optimized + rng.normal(0, 0.5, rows)
    cpi, penalty = (np.array([each[one] for one in datatype]) for each in (_CPI, _PENALTY))
    cycles = cpi * instructions + penalty * misses + rng.normal(0, 0.5, rows)
    columns = {"n": n, "datatype": datatype, "optimized": optimized, "elementsize": size}
    return prepare(pl.DataFrame({**columns, "L2M_op": misses, "instr_op": instructions, "C_op": cycles}))


def _only(frame: pl.DataFrame, datatype: str, column: str) -> float | None:
    value = frame.filter(pl.col("datatype") == datatype)[column].unique().to_list()
    assert len(value) == 1
    return None if value[0] is None else float(value[0])


@pytest.mark.parametrize("seed", range(2))
def test_jump_and_threshold_of_cache_misses(seed: int) -> None:
    found = curve_parameters(_lu(seed), "L2M_op", "n", cells=["datatype"])
    assert found.frame.columns == ["datatype", "elementsize", "L2M_op_jump_of_n", "L2M_op_threshold_of_n"]
    assert sorted(found.frame["datatype"]) == sorted(_SIZES)
    for datatype, size in _SIZES.items():
        jump = _only(found.frame, datatype, "L2M_op_jump_of_n")
        threshold = _only(found.frame, datatype, "L2M_op_threshold_of_n")
        assert _only(found.frame, datatype, "elementsize") == size
        if datatype == "short":
            assert jump == pytest.approx(0, abs=0.005)
            assert threshold is None
        else:
            assert jump == pytest.approx(size / 64, abs=0.004)
            assert threshold == pytest.approx(np.sqrt(_CACHE / size), abs=8)


def test_the_jump_is_a_line_over_the_element_size() -> None:
    found = curve_parameters(_lu(0), "L2M_op", "n", cells=["datatype"])
    again = prepare(found.frame.drop("datatype"), kinds={"elementsize": "continuous"}, missing="drop")
    assert again.rows == 5
    mechanism = fit_mechanism(again, "L2M_op_jump_of_n", ["elementsize"])
    (slope,) = [one for one in mechanism.parameters if one.name == "coefficient of elementsize"]
    assert slope.low < 1 / 64 < slope.high


@pytest.mark.parametrize("seed", range(2))
def test_cycles_an_instruction_and_a_miss(seed: int) -> None:
    data = _lu(seed)
    found = curve_parameters(data, "C_op", ["instr_op", "L2M_op"], cells=["datatype"])
    assert found.over == ("instr_op", "L2M_op")
    assert found.frame.height == 6
    for datatype, cpi in _CPI.items():
        assert _only(found.frame, datatype, "C_op_coefficient_of_instr_op") == pytest.approx(cpi, abs=0.02)
        penalty = _only(found.frame, datatype, "C_op_coefficient_of_L2M_op")
        assert penalty == pytest.approx(_PENALTY[datatype], abs=80 if datatype == "short" else 12)
    told = found.intervals
    assert told.columns == ["datatype", "runs", "parameter", "value", "low", "high"]
    assert told.filter(pl.col("parameter") == "C_op_coefficient_of_instr_op")["runs"].sum() == data.rows
    assert (told["low"] < told["value"]).all()
    assert (told["value"] < told["high"]).all()


def test_intervals_of_cells_of_two_variables_hold_the_truth() -> None:
    """In a cell instructions hardly vary, so that its own runs tell little, and say so."""
    found = curve_parameters(_lu(0), "C_op", ["instr_op", "L2M_op"], cells=["datatype", "optimized"])
    assert found.frame.height == 12
    for name, truth in (("instr_op", _CPI), ("L2M_op", _PENALTY)):
        told = found.intervals.filter(pl.col("parameter") == f"C_op_coefficient_of_{name}")
        held = [row["low"] < truth[row["datatype"]] < row["high"] for row in told.to_dicts()]
        assert sum(held) >= len(held) - 3  # of 95 %: four of twelve would miss with a chance of 0.2 %


@pytest.mark.parametrize("cells", [("datatype",), ("datatype", "optimized")])
def test_each_cell_is_told_by_its_own_runs(cells: tuple[str, ...]) -> None:
    frame = curve_parameters(_lu(0), "L2M_op", "n", cells=cells).frame
    assert (
        frame["L2M_op_jump_of_n"].n_unique() == frame.height
    )  # double and long jump alike, but no two estimates are equal


def test_discrete_numbers_are_cells_not_part_of_the_formula() -> None:
    found = curve_parameters(_lu(1), "L2M_op", "n", cells=["elementsize"])
    by_size = dict(found.frame.select("elementsize", "L2M_op_jump_of_n").iter_rows())
    assert by_size == {size: pytest.approx(0 if size == 2 else size / 64, abs=0.005) for size in (2, 4, 8, 12)}
    assert found.frame["elementsize"].dtype == pl.Int64


def test_jumps_of_noise_have_no_threshold() -> None:
    false = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, cell = rng.uniform(0, 1, 200), rng.choice(["a", "b", "c", "d"], 200)
        y = np.where((cell == "a") & (x > 0.4), 1.0, 0.0) + rng.normal(0, 0.05, 200)
        found = curve_parameters(prepare(pl.DataFrame({"x": x, "cell": cell, "y": y})), "y", "x", cells=["cell"]).frame
        true = found.filter(pl.col("cell") == "a")["y_threshold_of_x"].to_list()
        assert true == [pytest.approx(0.4, abs=0.15)]
        false += found.filter(pl.col("cell") != "a")["y_threshold_of_x"].count()
    assert false <= 4  # of 36, at 5 %


def test_what_has_no_curves_is_refused() -> None:
    data = _lu(0, 60)
    with pytest.raises(DataError, match="n is continuous and has no codes"):
        curve_parameters(data, "L2M_op", "instr_op", cells=["n"])
    with pytest.raises(DataError, match="datatype is text and has no numbers"):
        curve_parameters(data, "datatype", "n", cells=["optimized"])
    with pytest.raises(DataError, match=r"no column 'dataype'; did you mean 'datatype'\?"):
        curve_parameters(data, "L2M_op", "n", cells=["dataype"])
    with pytest.raises(
        DataError, match="need at least one numeric variable, in `over`, and at least one discrete variable, in `cells`"
    ):
        curve_parameters(data, "L2M_op", "n", cells=[])
    with pytest.raises(DataError, match="L2M_op, n, n: name each variable once"):
        curve_parameters(data, "L2M_op", "n", cells=["n"])
    alone = data.take(np.flatnonzero(data.codes("datatype") == 0))
    with pytest.raises(DataError, match="all runs have the same datatype, so there is only one curve"):
        curve_parameters(alone, "L2M_op", "n", cells=["datatype"])
    renamed = prepare(data.frame.rename({"datatype": "low"}))
    with pytest.raises(DataError, match="variable `low` has the name of a result column: rename the variable"):
        curve_parameters(renamed, "L2M_op", "n", cells=["low"])
