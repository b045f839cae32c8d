"""Section 8.4: whether LU's parameters of the system hold for matrix multiplication and merge sort.

`findings` takes the folder that holds the campaigns `lu`, `matmul` and `mergesort`, each under its spec's name; where
`lu_processor` lies there too, the processor's own cache and cycles are evaluated beside the simulated cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from experiments.causal.kernels.evaluation import SAME, WIDEST, Evaluated, apart, evaluated, factor, median
from experiments.causal.kernels.figures import draw_costs, draw_lines, draw_misses, draw_model
from experiments.causal.kernels.parameters import LINE, Jump, jump_of_lines
from experiments.causal.kernels.programs import DATATYPES, PROGRAMS, measured
from experiments.common.tables import Claim, claims_table
from unperturbed.errors import DataError

_CACHES = {"simulated": "the simulated cache", "processor": "the processor's own"}


def held(views: Mapping[str, Evaluated], curves: Evaluated, costing: Evaluated) -> Iterable[Claim]:
    """Hold the section's claims against what was found."""
    for name, view in views.items():
        yield _same_pattern(view, _CACHES[name])
    for name, view in views.items():
        yield _thresholds(view, _CACHES[name])
    yield _by_elementsize(curves)
    for what, factors in (("CPI", costing.cpi_factors()), ("C_L2M", costing.penalty_factors())):
        clear = " with a cost above its margin" if what == "C_L2M" else ""
        told = f"largest factor between two programs{clear}, by data type: {_listed(factors, '.1f')}"
        yield Claim(
            f"{what} depends on the application too",
            told if factors else "no data type tells it in two programs",
            median(factors.values()) > SAME if factors else None,
        )
    yield _carried(costing)


def _same_pattern(view: Evaluated, cache: str) -> Claim:
    rises = view.rises()
    jumping = [name for name, width in rises.items() if width <= WIDEST]
    return Claim(
        "matrix multiplication and merge sort show the same pattern of misses as LU decomposition, a jump "
        f"(figure 11, footnote 3; {cache})",
        "from a quarter of the most misses to three quarters within this factor of memory in use: "
        f"{_listed(rises, '.1f')}; a jump: up to {WIDEST}",
        len(jumping) == len(PROGRAMS) or (None if len(jumping) > 1 else False),
    )


def _thresholds(view: Evaluated, cache: str) -> Claim:
    ranges = view.thresholds()
    said = f"the threshold cannot be determined by the memory requirements and memory size only ({cache})"
    differing = apart(ranges.values())
    if math.isnan(differing):
        return Claim(said, "fewer than two programs jump", None)
    told = f"KiB in use at the threshold: {_between(ranges)}; a factor of {differing:.1f} at least"
    return Claim(said, told, differing > SAME)


def _by_elementsize(view: Evaluated) -> Claim:
    lines = {program.name: [jump.lines for jump in view.jumping(program.name)] for program in PROGRAMS}
    told = {name: values for name, values in lines.items() if values}
    return Claim(
        "the jump is linear in elementsize (section 8.3), so that lines missed an element are the application's own",
        "least and most of the data types: "
        + ", ".join(f"{name} {min(values):.2f} to {max(values):.2f}" for name, values in told.items()),
        all(factor(values) <= SAME for values in told.values()),
    )


def _carried(view: Evaluated) -> Claim:
    errors = {program.name: view.error(view.by_lu, program.name) for program in PROGRAMS[1:]}
    claim = view.screening.claims[0]
    probable = "p < 0.001" if claim.p_value < 0.001 else f"p = {claim.p_value:.2g}"
    return Claim(
        "independent characteristics of the system are not found: those of one application do not predict "
        "another's time",
        f"by LU decomposition's CPI and C_L2M, half of the runs are off by more than {_listed(errors, '.0%')}; "
        "beside data type, instr_op and L2M_op "
        f"the program tells {claim.bits:.2f} bits a run of C_op ({probable}); learnt from all programs, C_op has "
        f"the causes {', '.join(view.causes)}",
        # Two tests of one thing; where they differ, it is so in part.
        claim.refuted if claim.refuted == (max(errors.values()) > SAME - 1) else None,
    )


def characteristics(views: Mapping[str, Evaluated], costing: Evaluated) -> dict[str, tuple[str, bool]]:
    """Return what figure 12's characteristics differ by between programs, in words, and whether they agree.

    Lines missed and memory use are the application's own; they agree where all data types do.
    """
    curves = next(iter(views.values()))
    lines = [factor(jump.lines for jump in jumps) for program in PROGRAMS if (jumps := curves.jumping(program.name))]
    spreads = {
        "memory size": [
            differing for view in views.values() if not math.isnan(differing := apart(view.thresholds().values()))
        ],
        "CPI": list(costing.cpi_factors().values()),
        "C_L2M": list(costing.penalty_factors().values()),
    }
    told = {
        name: (f"programs: factor {max(values):.1f}", max(values) <= SAME) for name, values in spreads.items() if values
    }
    if lines:
        told["lines missed"] = (f"data types: factor {max(lines):.1f}", max(lines) <= SAME)
    return told


def _between(ranges: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} {low:.0f} to {high:.0f}" for name, (low, high) in ranges.items())


def _listed(values: Mapping[str, float], form: str) -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in values.items())


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
    by_cell = {(jump.program, jump.datatype): jump for jump in view.jumps}
    lines += [
        f"| {datatype} | {' | '.join(_step_cell(by_cell.get((program.name, datatype))) for program in PROGRAMS)} |"
        for datatype in DATATYPES
    ]
    pooled = (_step_cell(jump_of_lines(view.measured.frame, program.name)) for program in PROGRAMS)
    lines.append(f"| all, by lines | {' | '.join(pooled)} |")
    return lines


def _step_cell(jump: Jump | None) -> str:
    if jump is None or np.isnan(jump.jump):
        return "–"
    return f"{jump.threshold:.0f} ({jump.low:.0f} to {jump.high:.0f}), {jump.lines:.2f}, {jump.unexplained:.0%}"


def far_off(view: Evaluated) -> str:
    """Return a sentence on the runs outside the figure of the lines missed; empty if there are none."""
    lines = pl.col("L2M_op") * LINE / pl.col("elementsize")
    outliers = view.measured.frame.select("program", "datatype", "n", lines.alias("lines")).filter(
        pl.col("lines") > _MOST_LINES
    )
    told = [
        f"{program}, {datatype}, n = {n:.0f}: {missed:.0f}" for program, datatype, n, missed in outliers.iter_rows()
    ]
    if not told:
        return ""
    return (
        f"Outside the figure, lines missed an element: {'; '.join(told)}. Rows a power of two apart share few sets "
        "of the cache."
    )


def cost_table(view: Evaluated) -> list[str]:
    """Return equation (18) in each program and data type."""
    lines = [f"| data type | {' | '.join(program.name for program in PROGRAMS)} |", f"|---|{'---|' * len(PROGRAMS)}"]
    by_cell = {(cost.program, cost.datatype): cost for cost in view.costs}
    for datatype in DATATYPES:
        cells = []
        for program in PROGRAMS:
            cost = by_cell.get((program.name, datatype))
            miss = (
                "" if cost is None or np.isnan(cost.per_miss) else f"; {cost.per_miss:.1f} ± {cost.per_miss_margin:.1f}"
            )
            cells.append("–" if cost is None else f"{cost.per_instruction:.2f}{miss}")
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


def findings(campaign: Path, figures: Path) -> str:
    """Evaluate the campaigns of section 8.4."""
    caches = {"simulated": measured(campaign, "simulated"), "processor": measured(campaign, "hardware")}
    views = {name: evaluated(measured) for name, measured in caches.items() if measured is not None}
    if not views:
        raise DataError(f"{campaign}: lu, matmul and mergesort are not all there, their misses counted in the same way")
    curves = next(iter(views.values()))
    # Cycles of the processor follow its own misses; CPU time, all that there is beside simulated counts, is held
    # against theirs.
    costing = views.get("processor", curves)
    draw_misses(figures / "kernels_misses.svg", curves.measured.frame)
    for name, view in views.items():
        draw_lines(figures / f"kernels_lines_{name}.svg", view.measured.frame)
    ways = {"parameters of LU decomposition": costing.by_lu, "parameters of the program itself": costing.by_own}
    draw_costs(
        figures / "kernels_costs.svg",
        costing.measured.frame,
        {name: list(way) for name, way in ways.items()},
        costing.measured.unit,
    )
    draw_model(figures / "kernels_model.svg", characteristics(views, costing))
    return _section(views, curves, costing)


def _section(views: Mapping[str, Evaluated], curves: Evaluated, costing: Evaluated) -> str:
    rows = {program.name: int((curves.programs == program.name).sum()) for program in PROGRAMS}
    lines = [
        "## Application factors: matrix multiplication and merge sort (section 8.4)",
        "",
        f"Runs: {', '.join(f'{name} {count}' for name, count in rows.items())}. A product's inner loop goes down "
        "a column of the right factor. The "
        "paper does not say in which order its merge sort merged: *by passes*, all pieces of a width before "
        "those of the next, or *recursively*, a "
        "half before the other. An operation is a pass of the inner loop, or an element merged. *Memory in use* "
        "is what is gone through again and "
        "again: the matrix, the right factor, both arrays.",
        "",
        *_counting(views, costing),
        "",
        claims_table(held(views, curves, costing)),
        "",
        "**Figure 11 of these programs.** Misses an operation over n:",
        "",
        "![Misses of matrix multiplication and merge sort](causal/kernels_misses.svg)",
        "",
        "The same as lines missed an element (L2M_op · 64 / elementsize), over the memory in use:",
        "",
    ]
    for name, view in views.items():
        cache = "the simulated cache" if name == "simulated" else "the processor's own cache"
        lines += [
            f"![Lines missed over memory in use, {cache}](causal/kernels_lines_{name}.svg)",
            "",
            *jump_table(view, cache),
            "",
        ]
    lines += [
        "By passes, merge sort goes through both arrays each time: it reads a line and writes one for each that "
        "an element an operation fills. "
        "Recursively, only merges of more than the cache holds miss, so that misses grow with their number. What "
        "is left of LU decomposition's "
        "matrix shrinks, so that its misses rise from where the whole of it fills the cache, and by less where n "
        "ends soon after. " + far_off(curves),
        "",
        "**Equation (18)**, fitted to each program and data type: "
        f"{costing.measured.unit} an instruction (CPI), and {costing.measured.unit} a miss (C_L2M, ± half of its "
        "95 % interval; none where next to "
        "nothing is missed).",
        "",
        *cost_table(costing),
        "",
        "What LU decomposition's parameters give the others:",
        "",
        "![Costs by equation (18)](causal/kernels_costs.svg)",
        "",
        *error_table(costing),
        "",
        *branches(costing),
        "**Figure 12**, drawn by what the text says: the model with independent characteristics of application "
        "and system. Green: the programs "
        f"agree within a factor of {SAME}; orange: they do not.",
        "",
        "![Figure 12 with what was found](causal/kernels_model.svg)",
        "",
    ]
    return "\n".join(lines)


def _counting(views: Mapping[str, Evaluated], costing: Evaluated) -> list[str]:
    said = [
        "Instructions, cycles and branches are the processor's."
        if costing.measured.unit == "cycles"
        else "All counts are simulated; cost is CPU time, less what any process takes to start."
    ]
    if "simulated" in views:
        said.append("The simulated cache has 256 KiB, as in lu.yaml.")
    if "processor" in views:
        said.append(
            "Misses of the processor's own second-level cache are counted too, and equation (18) uses these: "
            "cycles follow no simulated miss."
        )
    elif costing.measured.unit == "cycles":
        said.append(
            "Misses are simulated alone, so that equation (18) joins a processor's cycles with misses of another cache."
        )
    impossible = max(view.measured.impossible for view in views.values())
    if impossible:
        said.append(f"{impossible} rows are left out, as a counter of the processor gave a negative count.")
    return [" ".join(said)]
