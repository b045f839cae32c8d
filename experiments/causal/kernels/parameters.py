"""Equations (17) and (18) fitted to each program and data type, and costs of one program by another's parameters.

Both forms are the paper's and are taken as given here: a step, and a sum without a constant. How far they fit is told
beside the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import ndimage, optimize, special

Floats = NDArray[np.float64]

LINE = 64
"""Bytes of a cache's line: of the simulated one, and of x86-64 processors."""
_STREAM = 0.1
"""Misses count from a tenth of those of an array that is read once in order, an element an operation."""
_LEVEL = 0.95


@dataclass(frozen=True)
class Jump:
    """Equation (17) in one program and data type."""

    # program, datatype: Which runs it is of.
    program: str
    datatype: str
    elementsize: float  # Bytes of an element
    # KiB of memory in use, in the middle between the neighbouring runs `low` and `high`; all three are NaN if the
    # misses do not jump, as the data fit the cache.
    threshold: float
    # low, high: KiB of memory in use of the neighbouring runs.
    low: float
    high: float
    jump: float  # Misses an operation, from below to above the threshold; NaN too
    unexplained: float  # Share of the misses' absolute deviation that the step leaves; NaN too

    @property
    def lines(self) -> float:
        """Lines of the cache that are missed for each one that the operations' elements, one each, would fill."""
        return self.jump * LINE / self.elementsize


def jumps(frame: pl.DataFrame) -> list[Jump]:
    """Fit equation (17) to each program and data type.

    `frame`: With `program`, `datatype`, `elementsize`, `memory_use` and `L2M_op`, a row a run.
    """
    return [
        _jump(
            program, datatype, float(cell["elementsize"][0]), cell["memory_use"].to_numpy(), cell["L2M_op"].to_numpy()
        )
        for (program, datatype), cell in _cells(frame)
    ]


def jump_of_lines(frame: pl.DataFrame, program: str) -> Jump:
    """Fit equation (17) to the lines that a program misses an element, in all data types at once.

    Where the jump is linear in elementsize and one memory fills in all data types, this is the same step, told by more
    runs.
    """
    runs = frame.filter(pl.col("program") == program)
    return _jump(program, "all", LINE, runs["memory_use"].to_numpy(), _lines(runs))


def _jump(program: str, datatype: str, size: float, x: Floats, y: Floats) -> Jump:
    step = _step(x, y)
    if step is None or step[2] < _STREAM * size / LINE:
        step = (np.nan,) * 4
    low, high, jump, unexplained = step
    return Jump(program, datatype, size, (low + high) / 2, low, high, jump, unexplained)


def _lines(frame: pl.DataFrame) -> Floats:
    return (frame["L2M_op"] * LINE / frame["elementsize"]).to_numpy()


def rise(frame: pl.DataFrame) -> float:
    """Return how wide the rise of one program's misses is.

    Result: The factor between the memory in use where three quarters of the most lines that are missed an element are
    reached, and where one quarter is, of the rising curve of least squares through the medians of five neighbouring
    runs, of all data types. A jump has 1; NaN where next to nothing is missed.

    Notes
    -----
    The share of the deviation that a step leaves does not tell a slope from a jump: most runs lie below it.
    """
    rising = frame.sort("memory_use")
    curve: Floats = optimize.isotonic_regression(ndimage.median_filter(_lines(rising), 5, mode="nearest")).x
    if curve[-1] < _STREAM:
        return float("nan")
    quarter, most = (float(rising["memory_use"][int((curve >= share * curve[-1]).argmax())]) for share in (0.25, 0.75))
    return most / quarter


def _step(x: Floats, y: Floats) -> tuple[float, float, float, float] | None:
    """Fit a step by least absolute deviations; return the ends of its gap, its height and the share that it leaves.

    Squares would be those of the few sizes whose rows lie a power of two apart, and which miss a multiple of all
    others.
    """
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    places = np.flatnonzero(x[1:] > x[:-1]) + 1  # how many runs lie below
    whole = _deviation(y)
    if not len(places) or whole == 0:
        return None
    left = [_deviation(y[:place]) + _deviation(y[place:]) for place in places]
    best = int(np.argmin(left))
    below, above = y[: places[best]], y[places[best] :]
    height = float(np.median(above) - np.median(below))
    return float(x[places[best] - 1]), float(x[places[best]]), height, left[best] / whole


def _deviation(y: Floats) -> float:
    return float(np.abs(y - np.median(y)).sum())


@dataclass(frozen=True)
class Cost:
    """Equation (18) in one program and data type."""

    # program, datatype: Which runs it is of.
    program: str
    datatype: str
    per_instruction: float  # Of the unit of `C_op` (CPI)
    per_miss: float  # Of the unit of `C_op`; NaN where next to nothing is missed
    per_miss_margin: float  # Half of its interval of 95 % confidence (Student)
    unexplained: float  # Share of the variance of `C_op` that is left


def costs(frame: pl.DataFrame) -> list[Cost]:
    """Fit equation (18) to each program and data type by least squares.

    `frame`: With `program`, `datatype`, `elementsize`, `instr_op`, `L2M_op` and `C_op`, a row a run.
    """
    return [_cost(program, datatype, cell) for (program, datatype), cell in _cells(frame)]


def _cost(program: str, datatype: str, cell: pl.DataFrame) -> Cost:
    misses, cost = cell["L2M_op"].to_numpy(), cell["C_op"].to_numpy()
    misses_matter = float(np.ptp(misses)) >= _STREAM * float(cell["elementsize"][0]) / LINE and cell.height > 3
    causes = cell.select("instr_op", "L2M_op").to_numpy() if misses_matter else cell.select("instr_op").to_numpy()
    coefficients, *_ = np.linalg.lstsq(causes, cost)
    residuals = cost - causes @ coefficients
    spread = float(((cost - cost.mean()) ** 2).sum())
    left = float((residuals**2).sum()) / spread if spread > 0 else 0.0
    if not misses_matter:
        return Cost(program, datatype, float(coefficients[0]), np.nan, np.nan, left)
    degrees_of_freedom = cell.height - 2
    variance = float((residuals**2).sum()) / degrees_of_freedom * np.linalg.inv(causes.T @ causes)[1, 1]
    margin = float(special.stdtrit(degrees_of_freedom, 0.5 + _LEVEL / 2)) * float(np.sqrt(variance))
    return Cost(program, datatype, float(coefficients[0]), float(coefficients[1]), margin, left)


def predicted(frame: pl.DataFrame, of: Sequence[Cost]) -> Floats:
    """Return what equation (18) gives for runs, by the parameters that one program has for each data type.

    `of`: The program's parameters. A miss costs nothing where they have no cost of it.
    Result: array of float64, shape (rows,). The cost of an operation.
    """
    by_type = {cost.datatype: cost for cost in of}
    costs = [by_type[datatype] for datatype in frame["datatype"]]
    cpi = np.array([cost.per_instruction for cost in costs])
    penalty = np.nan_to_num(np.array([cost.per_miss for cost in costs]))
    given: Floats = cpi * frame["instr_op"].to_numpy() + penalty * frame["L2M_op"].to_numpy()
    return given


def _cells(frame: pl.DataFrame) -> list[tuple[tuple[str, str], pl.DataFrame]]:
    order = {name: number for number, name in enumerate(frame["program"].unique(maintain_order=True))}
    parts = frame.sort("elementsize", "datatype", maintain_order=True).partition_by("program", "datatype", as_dict=True)
    return sorted(
        (((str(program), str(other)), cell) for (program, other), cell in parts.items()),
        key=lambda pair: order[pair[0][0]],
    )
