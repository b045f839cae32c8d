"""What was found of the programs of section 8.4 with the misses of one cache, and how far programs differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.causal.kernels.parameters import Cost, Jump, costs, jump_of_lines, jumps, predicted, rise
from experiments.causal.kernels.programs import DATATYPES, PROGRAMS, Measured
from unperturbed.analysis.causal import Knowledge, ScreeningOff, learn

LU = PROGRAMS[0].name
SAME = 1.25
"""Characteristics of two programs are called the same up to this factor."""
WIDEST = 3
"""Misses are said to jump where they rise from a quarter to three quarters within this factor of the memory in use."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """What was found with the misses of one cache."""

    measured: Measured  # The tables
    jumps: Sequence[Jump]  # Jumps of the misses
    costs: Sequence[Cost]  # Costs of instructions and misses
    # by_lu, by_own: (rows,): C_op by equation (18), with the parameters of LU decomposition and of the program
    # itself.
    by_lu: NDArray[np.float64]
    by_own: NDArray[np.float64]
    screening: ScreeningOff  # Of the program and C_op, by the data type, instructions and misses
    causes: tuple[str, ...]  # Of C_op, in the model learnt from the runs of all programs

    @property
    def programs(self) -> NDArray[np.str_]:
        """The program of each row."""
        return self.measured.frame["program"].to_numpy()

    def error(self, costs: NDArray[np.float64], program: str) -> float:
        """Return how far costs are off from what was measured, relative, of half of a program's runs."""
        here = self.programs == program
        return float(np.median(np.abs(costs[here] / self.measured.frame["C_op"].to_numpy()[here] - 1)))

    def jumping(self, program: str) -> list[Jump]:
        """Return the jumps of the data types whose misses jump."""
        return [jump for jump in self.jumps if jump.program == program and not np.isnan(jump.jump)]

    def rises(self) -> dict[str, float]:
        """Return how wide the rise of each program's misses is, of those that miss."""
        frame = self.measured.frame
        widths = {program.name: rise(frame.filter(self.programs == program.name)) for program in PROGRAMS}
        return {name: width for name, width in widths.items() if not np.isnan(width)}

    def thresholds(self) -> dict[str, tuple[float, float]]:
        """Return the gap of the step of the lines missed, in KiB of memory in use, by program with a jump."""
        told = [jump_of_lines(self.measured.frame, name) for name, width in self.rises().items() if width <= WIDEST]
        return {jump.program: (jump.low, jump.high) for jump in told if not np.isnan(jump.jump)}

    def cpi_factors(self) -> dict[str, float]:
        """Return for each data type the largest factor between the CPI of two programs."""
        return self._factors({(cost.program, cost.datatype): cost.per_instruction for cost in self.costs})

    def penalty_factors(self) -> dict[str, float]:
        """Return for each data type the largest factor between costs of a miss in two programs, if above their
        margin."""
        told = {
            (cost.program, cost.datatype): cost.per_miss for cost in self.costs if cost.per_miss > cost.per_miss_margin
        }
        return self._factors(told)

    def _factors(self, values: Mapping[tuple[str, str], float]) -> dict[str, float]:
        factors = {}
        for datatype in DATATYPES:
            here = [value for (_, of_datatype), value in values.items() if of_datatype == datatype]
            if len(here) > 1:
                factors[datatype] = factor(here)
        return factors


def evaluated(measured: Measured) -> Evaluated:
    """Fit all parameters, and test whether the program matters beside them."""
    frame = measured.frame
    fitted = costs(frame)
    of = {program.name: [cost for cost in fitted if cost.program == program.name] for program in PROGRAMS}
    own = np.concatenate(
        [predicted(part, of[str(part["program"][0])]) for part in frame.partition_by("program", maintain_order=True)]
    )
    model = learn(
        frame.select("program", "datatype", "instr_op", "L2M_op", "C_op"),
        Knowledge(tiers=[["program", "datatype"], ["instr_op", "L2M_op"], ["C_op"]]),
        test="regression",
        subsamples=0,
        quantify=False,
    )
    screening = model.screens_off(["program"], ["C_op"], by=["datatype", "instr_op", "L2M_op"])
    return Evaluated(measured, jumps(frame), fitted, predicted(frame, of[LU]), own, screening, model.parents("C_op"))


def median(values: Iterable[float]) -> float:
    """Return the median; NaN of nothing."""
    listed = list(values)
    return float(np.median(listed)) if listed else float("nan")


def factor(values: Iterable[float]) -> float:
    """Return the largest factor between two of some positive values."""
    listed = list(values)
    return max(listed) / min(listed)


def apart(ranges: Iterable[tuple[float, float]]) -> float:
    """Return by what factor values differ at least that lie in these ranges; NaN of fewer than two."""
    lows, highs = zip(*ranges, strict=True) if (ranges := list(ranges)) else ((), ())
    return max(1.0, max(lows) / min(highs)) if len(lows) > 1 else float("nan")
