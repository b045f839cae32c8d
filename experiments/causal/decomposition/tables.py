"""The table of a sweep of LU decompositions, with what is computed from its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from unperturbed.analysis.causal import Data, Definitions, derive, prepare
from unperturbed.collectors.data import Column, read_sweep, read_sweep_facts

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
    columns: Mapping[str, Column]  # Of the sweep
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
