"""Tables of LU decomposition, matrix multiplication and merge sort: costs an operation over memory in use.

A sweep's own columns differ: n counts rows of a matrix or elements of an array. Memory in use is what figure 12 of
Lemeire et al. compares with the memory's size: what is gone through again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from unperturbed.collectors.data import TABLE, SweepColumn, read_sweep, read_sweep_facts

Counted = Literal["simulated", "hardware"]

DATATYPES: Mapping[str, int] = {"short": 2, "int": 4, "float": 4, "long": 8, "double": 8, "longdouble": 16}
"""Bytes an element, x86-64."""
_MISSES = ("PAPI_L2_TCM", "PAPI_L2_DCM")
"""Misses of the second level, in the order of preference; hardly any are misses of instructions."""


@dataclass(frozen=True)
class Program:
    """A program of the experiment."""

    name: str  # Its name
    campaigns: tuple[str, ...]  # Where its runs may be; the first that was counted as asked for is taken
    rows: Mapping[str, str]  # Values of parameters that make the campaign's runs this program's
    # Function of n Elements that are gone through again and again: of LU decomposition the matrix, of a product the
    # right factor, of merge sort both arrays.
    elements: Callable[[pl.Expr], pl.Expr]


PROGRAMS = (
    Program("LU decomposition", ("lu", "lu_processor"), {}, lambda n: n**2),
    Program("matrix multiplication", ("matmul",), {}, lambda n: n**2),
    Program("merge sort by passes", ("mergesort",), {"way": "passes"}, lambda n: 2 * n),
    Program("merge sort, recursive", ("mergesort",), {"way": "recursive"}, lambda n: 2 * n),
)


@dataclass(frozen=True, eq=False)
class Measured:
    """The runs of all programs, their misses counted in one way."""

    # A row a run: `program`, `n`, `datatype`, `elementsize` (bytes), `memory_use` (KiB), `instr_op`, `L2M_op`,
    # `C_op`, and `missed_branches_op` (null where the campaign did not count them).
    frame: pl.DataFrame
    misses: Counted  # {"simulated", "hardware"}: Simulated, or counted by the processor
    unit: str  # Of `C_op`: "cycles" where the processor counted them, else "ns" of CPU time after its start
    impossible: int  # Rows that are left out, as a processor's counter gave a negative count


def measured(folder: Path, misses: Counted) -> Measured | None:
    """Read the programs' runs.

    Result: None where a program's misses were not counted so.
    """
    names = dict.fromkeys(name for program in PROGRAMS for name in program.campaigns)
    read = {name: read_sweep(folder / name) for name in names if (folder / name / TABLE).exists()}
    sweeps = []
    for program in PROGRAMS:
        here = next(((name, column) for name in program.campaigns if (column := _misses_in(read, name, misses))), None)
        if here is None:
            return None
        sweeps.append((program, *here, *read[here[0]]))
    # Simulated cycles are a formula of the other events; then an operation's time is what it costs.
    in_cycles = all(columns["PAPI_TOT_CYC"].kind == "hardware" for *_, columns in sweeps)
    frames = []
    for program, name, column, frame, _ in sweeps:
        start = float(read_sweep_facts(folder / name).get("starting", {}).get("cpu_s", 0))
        cost = pl.col("PAPI_TOT_CYC") if in_cycles else (pl.col("cpu_s") - start) * 1e9
        frames.append(_of_operations(program, frame, column, cost))
    frame = pl.concat(frames)
    possible = frame.filter(
        pl.min_horizontal("instr_op", "L2M_op", "C_op", pl.col("missed_branches_op").fill_null(0)) >= 0
    )
    return Measured(possible, misses, "cycles" if in_cycles else "ns", frame.height - possible.height)


def _misses_in(
    read: Mapping[str, tuple[pl.DataFrame, Mapping[str, SweepColumn]]], campaign: str, counted: Counted
) -> str | None:
    columns = read[campaign][1] if campaign in read else {}
    return next((name for name in _MISSES if name in columns and columns[name].kind == counted), None)


def _of_operations(program: Program, frame: pl.DataFrame, misses: str, cost: pl.Expr) -> pl.DataFrame:
    chosen = frame.filter(*(pl.col(name) == value for name, value in program.rows.items()))
    branches = pl.col("PAPI_BR_MSP") if "PAPI_BR_MSP" in frame.columns else pl.lit(None, pl.Float64)
    elementsize = pl.col("datatype").replace_strict(DATATYPES, return_dtype=pl.Float64)
    return chosen.select(
        pl.lit(program.name).alias("program"),
        pl.col("n").cast(pl.Float64),
        "datatype",
        elementsize.alias("elementsize"),
        (program.elements(pl.col("n").cast(pl.Float64)) * elementsize / 1024).alias("memory_use"),
        (pl.col("PAPI_TOT_INS") / pl.col("operations")).alias("instr_op"),
        (pl.col(misses) / pl.col("operations")).alias("L2M_op"),
        (cost / pl.col("operations")).alias("C_op"),
        (branches / pl.col("operations")).alias("missed_branches_op"),
    )
