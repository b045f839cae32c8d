"""Section 8.4: whether LU's parameters of the system hold for matrix multiplication and merge sort.

`findings` takes the folder that holds the campaigns `lu`, `matmul` and `mergesort`, each under its spec's name; where
`lu_processor` lies there too, the processor's own cache and cycles are evaluated beside the simulated cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.causal.kernels.claims import characteristics, held
from experiments.causal.kernels.evaluation import SAME, Evaluated, evaluated
from experiments.causal.kernels.figures import draw_costs, draw_lines, draw_misses, draw_model
from experiments.causal.kernels.programs import PROGRAMS, measured
from experiments.causal.kernels.tables import branches, cost_table, error_table, far_off, jump_table
from experiments.common.claims import claims_table
from unperturbed.errors import DataError


def findings(campaign: Path, figures: Path) -> str:
    """Evaluate the campaigns of section 8.4."""
    caches = {"simulated": measured(campaign, "simulated"), "processor": measured(campaign, "hardware")}
    views = {name: evaluated(one) for name, one in caches.items() if one is not None}
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
        else "All counts are simulated; cost is CPU time."
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
