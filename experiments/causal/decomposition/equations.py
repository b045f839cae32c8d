"""Equations (17) and (18) of the paper fitted to each data type; effects of optimisation and precision; misses of
omitted sizes.

Lemeire et al., "Causal analysis for performance modeling of computer programs", sections 8.2 and 8.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from unperturbed.analysis.causal import (
    Data,
    Definitions,
    PartialDerivative,
    derive,
    fit_mechanism,
    partial_derivative,
    prepare,
)
from unperturbed.collectors.data import SweepColumn, read_sweep, read_sweep_facts

BYTES = {"short": 2, "int": 4, "float": 4, "long": 8, "double": 8, "longdouble": 16}
_CYCLES = "PAPI_TOT_CYC"
_FIRST_LEVEL = "PAPI_L1_DCM"
_SECOND_LEVEL = ("PAPI_L2_DCM", "PAPI_L2_TCM")


@dataclass(frozen=True, eq=False)
class Measured:
    """A table of runs, ready for models."""

    # A row a run: the parameters; `elementsize` in bytes; an operation `instr_op`, `L1M_op`, `L2M_op` and the cost;
    # `op`, the operations of a decomposition, which n alone tells; `T`, its CPU time in seconds, less what starting
    # any process takes; and logarithms.
    frame: pl.DataFrame
    cost: str  # "C_op", cycles an operation, where a processor counted them; else "ns_op", nanoseconds of CPU time
    unit: str  # Of the cost
    misses: str  # The column that `L2M_op` is made of
    definitions: Definitions  # What derived columns are made of
    columns: Mapping[str, SweepColumn]  # Of the sweep
    facts: Mapping[str, Any]  # Mapping of str to anything Of the sweep
    wrong: int  # Rows that were left out because a count is below 0

    @property
    def log_cost(self) -> str:
        """The logarithm of the cost."""
        return f"log_{self.cost}"

    def data(self, *names: str) -> Data:
        """Return columns as variables; sizes are continuous, so that formulas interpolate."""
        return prepare(
            self.frame.select(names), kinds={"elementsize": "continuous"} if "elementsize" in names else None
        )


def measured(campaign: Path) -> Measured:
    """Read the table of a sweep with the columns of `lu.yaml`."""
    frame, columns = read_sweep(campaign)
    events = [name for name in frame.columns if columns[name].kind in ("hardware", "simulated")]
    # A count modulo 2⁴⁷, which a virtual machine's counters were seen to give, says that the value is wrong, and not by
    # how much.
    right = frame.filter(pl.min_horizontal(events) >= 0)
    counted = columns[_CYCLES].kind == "hardware"
    cost, unit = ("C_op", "cycles") if counted else ("ns_op", "ns")
    sizes = ", ".join(f"'{name}': {size}" for name, size in BYTES.items())
    facts = read_sweep_facts(campaign)
    start = float(facts.get("starting", {}).get("cpu_s", 0))
    derived = {
        "elementsize": f"{{{sizes}}}[datatype]",
        "L1M_op": f"{_FIRST_LEVEL} / operations",
        cost: f"{_CYCLES} / operations" if counted else f"(cpu_s - {start}) * 1000000000 / operations",
        "op": "n * (n - 1) * (2 * n - 1) / 6",
        "T": f"(cpu_s - {start}) / operations * op",
        "log_op": "log(op)",
        f"log_{cost}": f"log({cost})",
        "log_T": "log(T)",
    }
    made, definitions = derive(right, derived)
    misses = next(name for name in _SECOND_LEVEL if name in columns)
    return Measured(made, cost, unit, misses, definitions, columns, facts, frame.height - right.height)


Floats = NDArray[np.float64]

BAND = 30
"""Width of the bands of n in which runs are compared that differ in another parameter: few have the same n."""
PRECISIONS = {"float": 32, "double": 64}
"""Data types of floating-point numbers that the processor computes alike, and their bits."""


@dataclass(frozen=True)
class Step:
    """Eq. (17): misses are `before` up to the threshold and `jump` above."""

    datatype: str  # The data type
    runs: int  # How many runs it has
    threshold: float  # Elements in a row of the matrix
    # before, jump: Misses an operation: medians of the runs up to the threshold and above.
    before: float
    jump: float
    explained: float  # By how much absolute deviations from both medians are less than those from one, as a share

    @property
    def neglects(self) -> bool:
        """Whether the misses before the jump are as little of it as a twentieth."""
        return self.before < self.jump / 20


def step_of(datatype: str, n: Floats, misses: Floats) -> Step:
    """Return the step with the least absolute deviations, its threshold halfway between two neighbouring n.

    Not the least squares: a few sizes, where rows lie a power of two of bytes apart, miss many times as often as their
    neighbours.
    """
    order = np.argsort(n, kind="stable")
    x, y = n[order], misses[order]
    cuts = np.flatnonzero(np.diff(x) > 0) + 1
    left = [_deviations(y[:cut]) + _deviations(y[cut:]) for cut in cuts]
    best = int(np.argmin(left))
    cut = int(cuts[best])
    before, jump = float(np.median(y[:cut])), float(np.median(y[cut:]))
    return Step(datatype, len(y), float(x[cut - 1] + x[cut]) / 2, before, jump, float(1 - left[best] / _deviations(y)))


def steps_of(table: Measured) -> list[Step]:
    """Return eq. (17) of each data type, in the order of their sizes."""
    return [step_of(name, *_columns(table, name, "n", "L2M_op")) for name in BYTES]


@dataclass(frozen=True)
class Costs:
    """Eq. (18): cost = cpi · instr_op + penalty · L2M_op, without a constant."""

    datatype: str  # The data type
    # cpi, penalty: [unit of the cost] an instruction and a miss.
    cpi: float
    # cpi_error, penalty_error: Half the width of their 95 % intervals.
    cpi_error: float
    penalty: float
    penalty_error: float
    left: float  # Standard deviation of what is left, as a share of the mean cost


def costs_of(table: Measured) -> list[Costs]:
    """Return eq. (18) of each data type by least squares, in the order of their sizes."""
    costs = []
    for name in BYTES:
        instructions, misses, cost = _columns(table, name, "instr_op", "L2M_op", table.cost)
        by = np.column_stack([instructions, misses])
        fitted, *_ = np.linalg.lstsq(by, cost, rcond=None)
        spare = len(cost) - 2
        spread = float(np.sqrt(((cost - by @ fitted) ** 2).sum() / spare))
        errors = special.stdtrit(spare, 0.975) * spread * np.sqrt(np.diag(np.linalg.inv(by.T @ by)))
        share = spread / float(cost.mean())
        costs.append(Costs(name, float(fitted[0]), float(errors[0]), float(fitted[1]), float(errors[1]), share))
    return costs


def differ(table: Measured, which: str) -> float:
    """Test by F whether "instr_op" or "L2M_op" of eq. (18) has one value for all data types; return the p-value.

    Costs are divided by each data type's own spread first, as errors of slow types are larger.
    """
    together, apart, costs = [], [], []
    for at, (name, fitted) in enumerate(zip(BYTES, costs_of(table), strict=True)):
        instructions, misses, cost = _columns(table, name, "instr_op", "L2M_op", table.cost)
        spread = fitted.left * cost.mean()
        shared, own = (instructions, misses) if which == "instr_op" else (misses, instructions)
        rows = np.zeros((len(cost), 2 * len(BYTES)))
        rows[:, at], rows[:, len(BYTES) + at] = shared / spread, own / spread
        apart.append(rows)
        together.append(np.column_stack([shared / spread, rows[:, len(BYTES) :]]))
        costs.append(cost / spread)
    y = np.concatenate(costs)
    one_rss, own_rss = (_rss(np.concatenate(parts), y) for parts in (together, apart))
    more, spare = len(BYTES) - 1, len(y) - 2 * len(BYTES)
    return float(special.fdtrc(more, spare, (one_rss - own_rss) / more / (own_rss / spare)))


@dataclass(frozen=True)
class Effect:
    """What the optimisation saves with a data type."""

    datatype: str  # The data type
    bands: int  # Bands of n in which there are runs with it and without
    # cost, low, high: Median of the derivative over the optimisation, and what half of the bands lie between.
    cost: float
    low: float
    high: float
    instructions: float  # Median of that of instr_op


def effect_of_optimisation(table: Measured) -> tuple[PartialDerivative, list[Effect]]:
    """Return ∂cost/∂optimisation, a step for each band of n and data type, and its median for each data type.

    The parameter "band" is the middle of its n.
    """
    banded = _banded(table.frame)
    cost, instructions = (
        partial_derivative(banded, of, "optimisation", parameters=["band", "datatype", "optimisation"])
        for of in (table.cost, "instr_op")
    )
    effects = []
    for name in BYTES:
        here = cost.steps.filter(pl.col("datatype") == name)[cost.name].to_numpy()
        fewer = instructions.steps.filter(pl.col("datatype") == name)[instructions.name].to_numpy()
        low, middle, high = np.quantile(here, [0.25, 0.5, 0.75]).tolist()
        effects.append(Effect(name, len(here), middle, low, high, float(np.median(fewer))))
    return cost, effects


def of_precision(table: Measured) -> pl.DataFrame:
    """Return the runs with floating-point numbers of 32 or 64 bits, the column `precision`."""
    frame = table.frame.filter(pl.col("datatype").is_in(list(PRECISIONS)))
    return frame.with_columns(precision=pl.col("datatype").replace_strict(PRECISIONS))


def effect_of_precision(table: Measured) -> PartialDerivative:
    """Return ∂cost/∂precision, a bit, a step for each band of n and optimisation."""
    banded = _banded(of_precision(table))
    return partial_derivative(banded, table.cost, "precision", parameters=["band", "optimisation", "precision"])


def _banded(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(band=(pl.col("n") // BAND) * BAND + BAND / 2)


@dataclass(frozen=True)
class Left:
    """Misses of data types of one size, predicted from those of other sizes."""

    size: int  # Bytes
    runs: int  # How many runs were predicted
    # By how much absolute deviations from the formula of the other sizes are less than those from their own median,
    # as a share; below 0 they are more.
    explained: float


def left_out_sizes(table: Measured, sizes: Sequence[int]) -> list[Left]:
    """Predict the misses of each element size from the others."""
    left_out = []
    for size in sizes:
        others = replace(table, frame=table.frame.filter(pl.col("elementsize") != size))
        mechanism = fit_mechanism(others.data("n", "elementsize", "L2M_op"), "L2M_op", ["n", "elementsize"])
        here = table.frame.filter(pl.col("elementsize") == size)
        misses = here["L2M_op"].to_numpy()
        foretold = np.asarray(mechanism.predict({name: here[name].to_list() for name in mechanism.used})[0])
        rest = np.abs(misses - foretold).sum() / _deviations(misses)
        left_out.append(Left(size, here.height, float(1 - rest)))
    return left_out


def _columns(table: Measured, datatype: str, *names: str) -> list[Floats]:
    here = table.frame.filter(pl.col("datatype") == datatype)
    return [here[name].cast(pl.Float64).to_numpy() for name in names]


def _deviations(y: Floats) -> float:
    return float(np.abs(y - np.median(y)).sum())


def _rss(by: Floats, y: Floats) -> float:
    fitted, *_ = np.linalg.lstsq(by, y, rcond=None)
    return float(((y - by @ fitted) ** 2).sum())
