"""Tables of section 8.4: parameters of equations (17) and (18) in each program, and errors of predicted costs."""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.causal.kernels.evaluation import Evaluated
from experiments.causal.kernels.parameters import LINE, Jump, jump_of_lines
from experiments.causal.kernels.programs import DATATYPES, PROGRAMS

_MOST_LINES = 3
"""Misses an element, by the sizes of arrays and caches."""


def jump_table(view: Evaluated, cache: str) -> list[str]:
    """Return equation (17) in each program and data type, as lines of Markdown."""
    lines = [
        f"Equation (17) with {cache}: KiB in use at the threshold (between the neighbouring runs), lines missed "
        "an element beyond it, and the "
        "share of the absolute deviation that the step leaves. –: no jump, as the data fit the cache or were not "
        "measured.",
        "",
        f"| data type | {' | '.join(program.name for program in PROGRAMS)} |",
        f"|---|{'---|' * len(PROGRAMS)}",
    ]
    by_cell = {(one.program, one.datatype): one for one in view.jumps}
    lines += [
        f"| {datatype} | {' | '.join(_step_cell(by_cell.get((program.name, datatype))) for program in PROGRAMS)} |"
        for datatype in DATATYPES
    ]
    pooled = (_step_cell(jump_of_lines(view.measured.frame, program.name)) for program in PROGRAMS)
    lines.append(f"| all, by lines | {' | '.join(pooled)} |")
    return lines


def _step_cell(one: Jump | None) -> str:
    if one is None or np.isnan(one.jump):
        return "–"
    return f"{one.threshold:.0f} ({one.low:.0f} to {one.high:.0f}), {one.lines:.2f}, {one.unexplained:.0%}"


def far_off(view: Evaluated) -> str:
    """Return a sentence on the runs outside the figure of the lines missed; empty if there are none."""
    lines = pl.col("L2M_op") * LINE / pl.col("elementsize")
    found = view.measured.frame.select("program", "datatype", "n", lines.alias("lines")).filter(
        pl.col("lines") > _MOST_LINES
    )
    told = [f"{program}, {datatype}, n = {n:.0f}: {missed:.0f}" for program, datatype, n, missed in found.iter_rows()]
    if not told:
        return ""
    return (
        f"Outside the figure, lines missed an element: {'; '.join(told)}. Rows a power of two apart share few sets "
        "of the cache."
    )


def cost_table(view: Evaluated) -> list[str]:
    """Return equation (18) in each program and data type."""
    lines = [f"| data type | {' | '.join(program.name for program in PROGRAMS)} |", f"|---|{'---|' * len(PROGRAMS)}"]
    by_cell = {(one.program, one.datatype): one for one in view.costs}
    for datatype in DATATYPES:
        cells = []
        for program in PROGRAMS:
            one = by_cell.get((program.name, datatype))
            miss = "" if one is None or np.isnan(one.per_miss) else f"; {one.per_miss:.1f} ± {one.per_miss_margin:.1f}"
            cells.append("–" if one is None else f"{one.per_instruction:.2f}{miss}")
        lines.append(f"| {datatype} | {' | '.join(cells)} |")
    return lines


def error_table(view: Evaluated) -> list[str]:
    """Return the errors of costs by equation (18), with LU's parameters and with a program's own, as a table."""
    lines = [
        "| program | by LU decomposition: median of predicted / measured | median error | by its own parameters: "
        "median error |",
        "|---|---:|---:|---:|",
    ]
    measured = view.measured.frame["C_op"].to_numpy()
    for program in PROGRAMS:
        here = view.programs == program.name
        ratio = float(np.median(view.by_lu[here] / measured[here]))
        errors = (view.error(way, program.name) for way in (view.by_lu, view.by_own))
        lines.append(f"| {program.name} | {ratio:.2f} | {' | '.join(f'{error:.0%}' for error in errors)} |")
    return lines


def branches(view: Evaluated) -> list[str]:
    """Return how many branches the programs mispredict; nothing where that was not counted."""
    told = view.measured.frame.group_by("program", maintain_order=True).agg(pl.col("missed_branches_op").median())
    said = [f"{value:.3f} ({program})" for program, value in told.iter_rows() if value is not None]
    if not said:
        return []
    return [
        f"What equation (18) leaves out: mispredicted branches an operation, median, are {', '.join(said)}. LU "
        "decomposition cannot tell what one "
        "costs.",
        "",
    ]
