"""The findings on matrix multiplication and merge sort are what was planted in the tables of their sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from experiments.causal.kernels import evaluation, findings, parameters, programs
from unperturbed.collectors.data import ColumnKind, SweepColumn, write_sweep
from unperturbed.errors import DataError

FOLDER = Path(__file__).parents[3] / "experiments" / "causal"
SIZES = {"short": 2, "int": 4, "float": 4, "long": 8, "double": 8, "longdouble": 16}
LU, PRODUCT, PASSES, RECURSIVE = (
    "LU decomposition",
    "matrix multiplication",
    "merge sort by passes",
    "merge sort, recursive",
)


@dataclass(frozen=True)
class Planted:
    """A system: cycles an instruction by program, cycles a miss, bytes of the cache, kinds of its columns."""

    cpi: Mapping[str, float] = field(default_factory=lambda: {"lu": 0.5, "matmul": 0.5, "mergesort": 0.5})
    miss: float = 20.0
    cache: int = 512 * 1024
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)


def _campaign(folder: Path, name: str, system: Planted, rows: int) -> None:
    rng = np.random.default_rng(sum(map(ord, name)))
    found = []
    for number in range(rows):
        datatype = tuple(SIZES)[number % len(SIZES)]
        size, operations = SIZES[datatype], 10_000_000
        row: dict[str, Any] = {"n": int(rng.integers(5, 600)), "datatype": datatype}
        if name == "mergesort":
            row = {"n": int(np.exp(rng.uniform(np.log(1000), np.log(300_000)))), "datatype": datatype}
            row["way"] = "passes" if rng.integers(2) else "recursive"
        use = (2 * row["n"] if name == "mergesort" else row["n"] ** 2) * size
        lines = (2.0 if name == "mergesort" else 1.0) * (use > system.cache)
        if row.get("way") == "recursive":
            lines = 0.1 * max(0.0, float(np.log2(use / system.cache)))
        misses = 0.0001 + lines * size / 64
        instructions = 10 + 5 * float(rng.random())
        cycles = (system.cpi[name] * instructions + system.miss * misses) * float(1 + 0.01 * rng.normal())
        row |= {
            "cpu_s": cycles * operations / 1e9,
            "PAPI_TOT_INS": round(instructions * operations),
            "PAPI_TOT_CYC": round(cycles * operations),
            "PAPI_L2_TCM": round(misses * operations),
            "PAPI_BR_MSP": operations // (2 if name == "mergesort" else 100),
            "operations": operations,
        }
        found.append(row)
    kinds: dict[str, ColumnKind] = {"cpu_s": "time", "operations": "software"}
    kinds |= dict.fromkeys(("n", "datatype", "way"), "parameter")
    kinds |= system.kinds
    frame = pl.DataFrame(found)
    (folder / name).mkdir(parents=True)
    write_sweep(
        folder / name, frame, [SweepColumn(one, kinds.get(one, "hardware")) for one in frame.columns], {"name": name}
    )


def _campaigns(folder: Path, system: Planted, rows: int = 240) -> Path:
    for name in ("lu", "matmul", "mergesort"):
        _campaign(folder, name, system, rows)
    return folder


SIMULATED: Mapping[str, ColumnKind] = {
    "PAPI_TOT_CYC": "simulated",
    "PAPI_TOT_INS": "simulated",
    "PAPI_L2_TCM": "simulated",
}


def test_thresholds_lie_where_memory_in_use_fills_the_cache(tmp_path: Path) -> None:
    frame = programs.measured(_campaigns(tmp_path, Planted()), "hardware").frame
    jumps = parameters.jumps(frame)
    told = {(one.program, one.datatype): one for one in jumps}
    assert len(told) == len(jumps) == 24
    for program, lines in ((LU, 1), (PRODUCT, 1), (PASSES, 2)):
        for datatype in SIZES:
            one = told[program, datatype]
            assert one.low <= 512 <= one.high
            assert one.threshold == pytest.approx((one.low + one.high) / 2)
            assert one.lines == pytest.approx(lines, rel=0.01)
            assert one.unexplained == pytest.approx(0, abs=1e-6)
    for program, lines in ((LU, 1), (PRODUCT, 1), (PASSES, 2)):
        own = [told[program, datatype] for datatype in SIZES]
        pooled = parameters.jump_of_lines(frame, program)
        assert (pooled.low, pooled.high) == (max(one.low for one in own), min(one.high for one in own))
        assert pooled.lines == pytest.approx(lines, rel=0.01)


def test_data_that_fit_the_cache_have_no_threshold() -> None:
    size = np.arange(1.0, 51)
    frame = pl.DataFrame(
        {"program": "p", "datatype": "int", "elementsize": 4.0, "memory_use": size, "L2M_op": 1e-4 + 1e-3 / size}
    )
    (one,) = parameters.jumps(frame)
    assert np.isnan([one.threshold, one.low, one.high, one.jump]).all()


@pytest.mark.parametrize(("lines", "least", "most"), [("jump", 1, 1.1), ("slope", 3, 10)])
def test_a_slope_rises_more_widely_than_a_jump(lines: str, least: float, most: float) -> None:
    use = np.geomspace(16, 8192, 400)
    missed = np.where(use > 256, 1.0, 0.0) if lines == "jump" else np.maximum(0, np.log2(use / 256))
    frame = pl.DataFrame({"elementsize": 4.0, "memory_use": use, "L2M_op": missed * 4 / 64})
    assert least <= parameters.rise(frame) <= most


def test_nothing_rises_where_nothing_is_missed() -> None:
    frame = pl.DataFrame({"elementsize": 4.0, "memory_use": np.arange(1.0, 9), "L2M_op": 1e-4})
    assert np.isnan(parameters.rise(frame))


def test_costs_are_those_of_the_system(tmp_path: Path) -> None:
    system = Planted(cpi={"lu": 0.5, "matmul": 0.6, "mergesort": 1.5})
    found = programs.measured(_campaigns(tmp_path, system), "hardware")
    costs = parameters.costs(found.frame)
    assert found.unit == "cycles"
    for program, cpi in ((LU, 0.5), (PRODUCT, 0.6), (PASSES, 1.5), (RECURSIVE, 1.5)):
        own = [one for one in costs if one.program == program]
        assert sorted(one.datatype for one in own) == sorted(SIZES)
        assert [one.per_instruction for one in own] == pytest.approx([cpi] * 6, rel=0.02)
    told = [one for one in costs if one.program == LU and not np.isnan(one.per_miss)]
    assert len(told) == 6
    assert sum(abs(one.per_miss - 20) <= one.per_miss_margin for one in told) >= 5
    product = found.frame.filter(pl.col("program") == PRODUCT)
    by_lu = parameters.predicted(product, [one for one in costs if one.program == LU])
    expected = (0.5 * product["instr_op"] + 20 * product["L2M_op"]).to_numpy()
    assert by_lu == pytest.approx(expected, rel=0.05)


def test_where_cycles_are_simulated_cost_is_cpu_time(tmp_path: Path) -> None:
    measured = programs.measured
    folder = _campaigns(tmp_path, Planted(kinds=SIMULATED), rows=24)
    found = measured(folder, "simulated")
    assert measured(folder, "hardware") is None
    assert found.unit == "ns"
    assert found.frame["C_op"].to_numpy() == pytest.approx(
        (0.5 * found.frame["instr_op"] + 20 * found.frame["L2M_op"]).to_numpy(), rel=0.06
    )


def test_rows_with_impossible_counts_are_left_out(tmp_path: Path) -> None:
    folder = _campaigns(tmp_path, Planted(), rows=24)
    frame = pl.read_parquet(folder / "matmul" / "table.parquet")
    wrong = frame.with_columns(
        PAPI_L2_TCM=pl.when(pl.int_range(pl.len()) == 3).then(-(10**14)).otherwise("PAPI_L2_TCM")
    )
    kinds: dict[str, ColumnKind] = {
        "cpu_s": "time",
        "operations": "software",
        "n": "parameter",
        "datatype": "parameter",
    }
    write_sweep(
        folder / "matmul",
        wrong,
        [SweepColumn(one, kinds.get(one, "hardware")) for one in wrong.columns],
        {"name": "matmul"},
    )
    found = programs.measured(folder, "hardware")
    assert found.impossible == 1
    assert found.frame.filter(pl.col("program") == PRODUCT).height == 23


@pytest.mark.parametrize(("cpi", "agrees"), [(0.5, False), (1.5, True)])
def test_the_system_carries_where_programs_share_it(tmp_path: Path, cpi: float, agrees: bool) -> None:
    folder = _campaigns(tmp_path, Planted(cpi={"lu": 0.5, "matmul": 0.5, "mergesort": cpi}), rows=120)
    view = evaluation.evaluated(programs.measured(folder, "hardware"))
    held = {one.paper.split(" ")[0]: one.agrees for one in findings.held({"processor": view}, view, view)}
    assert held["CPI"] is agrees
    assert held["independent"] is agrees
    assert held["matrix"] is None  # merge sort's recursive way rises slowly
    assert view.error(view.by_own, PASSES) < 0.05
    assert (view.error(view.by_lu, PASSES) > 0.4) is agrees
    assert ("program" in view.causes) is agrees


def test_the_page_has_all_figures(tmp_path: Path) -> None:
    said = findings.findings(_campaigns(tmp_path, Planted(), rows=48), tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.svg")}
    assert drawn == {f"kernels_{name}.svg" for name in ("misses", "lines_processor", "costs", "model")}
    assert all(f"(causal/{name})" in said for name in drawn)
    assert said.startswith("## ")


def test_a_campaign_that_is_missing_is_said(tmp_path: Path) -> None:
    _campaign(tmp_path, "matmul", Planted(), 12)
    with pytest.raises(DataError, match="lu, matmul and mergesort"):
        findings.findings(tmp_path, tmp_path)
