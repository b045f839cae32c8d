"""LU decomposition: figures 4 and 9 to 11, equations (1), (17) and (18), from a sweep of lu.yaml or
lu_processor.yaml."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import yaml

from experiments.causal.decomposition.claims import Evaluated, held, jumps
from experiments.causal.decomposition.equations import (
    BAND,
    BYTES,
    Measured,
    costs_of,
    left_out_sizes,
    measured,
    steps_of,
)
from experiments.causal.decomposition.models import (
    JUMP,
    PARTS,
    THRESHOLD,
    effect,
    first_order,
    parameter_model,
    parameters_of,
    precision,
    second_order,
)
from experiments.causal.figures import Panel, Points, draw_graph, draw_panels
from experiments.common.tables import agreement, claims_table
from unperturbed.analysis.causal import CausalModel

HERE = Path(__file__).parents[1]
_MOST = 5
_CURVE = 300
_SIZES_TO_LEARN = 3


def findings(campaign: Path, figures: Path) -> str:
    """Learn from a sweep of LU decompositions, draw, and hold the paper's claims against it.

    `figures`: Folder that pictures are written into; their names begin with the campaign's.
    """
    evaluation = evaluated(measured(campaign))
    name = str(evaluation.table.facts["name"])
    pictures = {
        "first": evaluation.first,
        "second": evaluation.second,
        "effect": evaluation.effect,
        **({"parameters": evaluation.parameters} if evaluation.parameters else {}),
    }
    for picture, model in pictures.items():
        draw_graph(figures / f"{name}_{picture}.svg", model)
    _draw_misses(figures / f"{name}_misses.svg", evaluation)
    _draw_costs(figures / f"{name}_costs.svg", evaluation)
    return _section(evaluation, name, figures.name)


def evaluated(table: Measured) -> Evaluated:
    """Evaluate a table: all results that the page shows."""
    steps = steps_of(table)
    stepped = [step for step in steps if jumps(step)]
    enough = len({BYTES[step.datatype] for step in stepped}) >= _SIZES_TO_LEARN
    effects_model, effects = effect(table)
    return Evaluated(
        table=table,
        first=first_order(table),
        second=second_order(table),
        effect=effects_model,
        effects=effects,
        precision=precision(table),
        steps=steps,
        curves=parameters_of(table),
        parameters=parameter_model(table, [step.datatype for step in stepped]) if enough else None,
        costs=costs_of(table),
        left=left_out_sizes(table, sorted(set(BYTES.values()))),
    )


def _section(evaluation: Evaluated, name: str, folder: str) -> str:
    def picture(which: str, says: str) -> str:
        return f"![{says}]({folder}/{name}_{which}.svg)\n"

    n = evaluation.table.frame["n"].to_list()
    real = evaluation.table.columns[evaluation.table.misses].kind == "hardware"
    claims = held(evaluation)
    parts = [
        f"## LU decomposition, {'counted by the processor' if real else 'second-level cache simulated'} "
        "(sections 8.2 and 8.3)\n",
        _measured(evaluation.table),
        agreement(claims) + "\n",
        claims_table(claims) + "\n",
        f"### Figure 4: first order\n\n{picture('first', 'first-order model')}",
        _claims_section(evaluation.first, ["log_T"]),
        f"### Figure 9: second order\n\n{picture('second', 'second-order model')}",
        _claims_section(evaluation.second, [evaluation.table.cost]),
        _same(evaluation),
        _markov(evaluation.second),
        "### Figure 10(a): what the optimisation "
        f"saves\n\n{picture('effect', 'model of the effect of the optimisation')}",
        f"Runs with the optimisation and without it are compared within bands of {BAND} in n, as hardly two have "
        "the very same n; figures are "
        "medians over these bands.\n",
        _effects_table(evaluation),
        f"### Figure 11 and equation (17): misses over n\n\n{picture('misses', 'misses over n')}",
        "Lines are eq. (17), fitted to each data type by least absolute deviations; *explained* is the share of "
        "these that it takes away. "
        f"n from {min(n)} to {max(n)}; points far above the others are left out of the picture.\n",
        _steps_table(evaluation),
        "The form of the fewest bits for all data types together:\n\n"
        f"```\n{evaluation.curves.mechanism.formula}\n```\n",
    ]
    if evaluation.parameters:
        parts += [
            "### Figure 10(b): jump and threshold as "
            f"variables\n\n{picture('parameters', 'model of jump and threshold')}",
            f"Eq. (17) fitted to {PARTS} parts of each data type's runs, so that jump and threshold are as "
            "uncertain as they are; data types whose "
            "misses jump.\n",
            _claims_section(evaluation.parameters, [JUMP, THRESHOLD]),
        ]
    parts += [
        f"### Equation (18): cost of instructions and misses\n\n{picture('costs', 'cost by equation (18)')}",
        _costs_table(evaluation),
    ]
    return "\n".join(parts)


def _measured(table: Measured) -> str:
    sources: dict[str, list[str]] = {}
    for name in ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L1_DCM", table.misses, "operations"):
        sources.setdefault(table.columns[name].source, []).append(name)
    told = "; ".join(f"{', '.join(names)}: {source}" for source, names in sources.items())
    cost = (
        "Costs are cycles of the processor"
        if table.cost == "C_op"
        else "The cycles would be simulated; costs are CPU time of untouched runs (`cpu_s`) in nanoseconds"
    )
    mixed = table.cost == "C_op" and table.columns[table.misses].kind == "simulated"
    lines = [
        f"{table.frame.height} runs (sweep `{table.facts['name']}`) on `{table.facts['host']}`. Counted by: "
        f"{told}. {cost}; "
        "times (T) are `cpu_s`, less what starting any process takes.",
    ]
    if mixed:
        lines.append(
            "The second level that was simulated is not the processor's own, so that its misses need not be what "
            "the processor waits for."
        )
    asked = int(yaml.safe_load((HERE / f"{table.facts['name']}.yaml").read_text())["campaign"]["points"])
    if (runs := table.frame.height + table.wrong) < asked:
        lines.append(f"The spec asks for {asked} points; {runs} were measured.")
    if table.wrong:
        lines.append(f"{table.wrong} runs were left out, as a count of theirs is below 0.")
    lines += [f"The sweep's note: {note}" for note in table.facts.get("notes", ())]
    return " ".join(lines) + "\n"


def _claims_section(model: CausalModel, names: list[str]) -> str:
    edges = [
        f"| {edge} | {edge.strength:.2f} | {'' if np.isnan(edge.stability) else f'{edge.stability:.0%}'} |"
        for edge in model.edges
    ]
    formulas = "\n".join(model.mechanisms[name].formula for name in names)
    return "\n".join(["| edge | bits a row | stability |", "|---|---:|---:|", *edges, "", "```", formulas, "```", ""])


def _same(evaluation: Evaluated) -> str:
    said = [str(equivalence) for model in (evaluation.first, evaluation.second) for equivalence in model.equivalences]
    lines = [f"- {line}" for line in dict.fromkeys(said)] or ["- nothing"]
    return "\n".join(["What carries the same information, in both models:\n", *lines, ""])


def _markov(model: CausalModel) -> str:
    check = model.check_markov()
    telling = [claim for claim in check.claims if not claim.determined]
    refuted = ", ".join(f"{claim} ({claim.bits:.2f} bits)" for claim in check.refuted) or "none"
    return (
        f"Markov check of figure 9: the data refute {len(check.refuted)} of {len(telling)} independences that it "
        f"claims: {refuted}. Graphs of the "
        f"same shape with permuted nodes agree as well with chance p = {check.permutation_p_value:.2g}.\n"
    )


def _effects_table(evaluation: Evaluated) -> str:
    unit = evaluation.table.unit
    lines = [
        f"| data type | bands of n | saved [{unit} an operation] | half of the bands | instructions saved |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {effect.datatype} | {effect.bands} | {-effect.cost:.2f} | {-effect.high:.2f} … {-effect.low:.2f} | "
        f"{-effect.instructions:.2f} |"
        for effect in evaluation.effects
    ]
    return "\n".join([*lines, ""])


def _steps_table(evaluation: Evaluated) -> str:
    lines = [
        "| data type | bytes | threshold | n² elements there [KiB] | misses before | jump to | explained |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for step in evaluation.steps:
        size = BYTES[step.datatype]
        there = step.threshold**2 * size / 1024
        lines.append(
            f"| {step.datatype} | {size} | {step.threshold:.1f} | {there:.0f} | {step.before:.4f} | {step.jump:.4f} "
            f"| {step.explained:.0%} |"
        )
    most = evaluation.table.frame.sort("L2M_op", descending=True).head(_MOST).select("n", "datatype", "L2M_op").rows()
    told = "; ".join(f"n = {n}, {datatype}: {misses:.2f}" for n, datatype, misses in most)
    return "\n".join([*lines, "", f"The most misses an operation: {told}.", ""])


def _costs_table(evaluation: Evaluated) -> str:
    unit = evaluation.table.unit
    lines = [f"| data type | CPI [{unit}] | ± | C_L2M [{unit}] | ± | left |", "|---|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {costs.datatype} | {costs.cpi:.3f} | {costs.cpi_error:.3f} | {round(costs.penalty)} | "
        f"{round(costs.penalty_error)} | {costs.left:.0%} |"
        for costs in evaluation.costs
    ]
    said = (
        "Least squares, intervals of 95 %; *left* is the standard deviation of what the equation leaves, as a share "
        "of the mean."
    )
    return "\n".join([*lines, "", said, ""])


def _draw_misses(path: Path, evaluation: Evaluated) -> None:
    frame = evaluation.table.frame
    n = frame["n"].to_list()
    grid = np.linspace(min(n), max(n), _CURVE)
    points = []
    for step in evaluation.steps:
        here = frame.filter(pl.col("datatype") == step.datatype)
        line = np.where(grid > step.threshold, step.jump, step.before)
        points.append(
            Points(step.datatype, here["n"].to_list(), here["L2M_op"].to_list(), (grid.tolist(), line.tolist()))
        )
    # A few sizes that are powers of two miss much more than all others, and would press these to the ground.
    top = 1.15 * float(np.quantile(frame["L2M_op"].to_numpy(), 0.985))
    draw_panels(path, [Panel("n", "second-level misses an operation", points, limits={"ylim": (-0.03 * top, top)})])


def _draw_costs(path: Path, evaluation: Evaluated) -> None:
    panels = []
    for optimisation in (0, 1):
        points = []
        for costs in evaluation.costs:
            here = evaluation.table.frame.filter(
                (pl.col("datatype") == costs.datatype) & (pl.col("optimisation") == optimisation)
            ).sort("n")
            by = costs.cpi * here["instr_op"] + costs.penalty * here["L2M_op"]
            points.append(
                Points(
                    costs.datatype,
                    here["n"].to_list(),
                    here[evaluation.table.cost].to_list(),
                    (here["n"].to_list(), by.to_list()),
                )
            )
        title = f"{'with' if optimisation else 'without'} the optimisation"
        panels.append(Panel("n", f"{evaluation.table.unit} an operation", points, title, {"yscale": "log"}))
    draw_panels(path, panels)
