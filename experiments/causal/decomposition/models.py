"""The models of sections 2, 8.2 and 8.3, learnt from a sweep of LU decompositions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from experiments.causal.decomposition.equations import (
    BYTES,
    Effect,
    Measured,
    effect_of_optimisation,
    effect_of_precision,
    of_precision,
    step_of,
)
from unperturbed.analysis.causal import CausalModel, CurveParameters, Knowledge, curve_parameters, learn, prepare

PARAMETERS = ("n", "datatype", "optimisation")
JUMP, THRESHOLD = "jump_L2M", "threshold_L2M"
PARTS = 3
"""Parts of a data type's runs that eq. (17) is fitted to."""
_SEED = 1
_STABLE = 0.5
"""Share of subsamples that have an edge, for it to be counted as found."""


def is_related(model: CausalModel, source: str, target: str) -> bool:
    """Tell whether an edge was found, and in at least half of the subsamples."""
    edge = model.edge(source, target)
    return edge is not None and (edge.stability >= _STABLE or edge.required or edge.definitional)


def first_order(table: Measured) -> CausalModel:
    """Learn figure 4: operations, instructions and cost an operation, and time; products as sums of logarithms."""
    return _learnt(table, [PARAMETERS, ["log_op"], ["instr_op"], [table.log_cost], ["log_T"]])


def second_order(table: Measured) -> CausalModel:
    """Learn figure 9: the same with the size of an element and the misses of two cache levels."""
    return _learnt(table, [PARAMETERS, ["elementsize"], ["instr_op", "L1M_op", "L2M_op"], [table.cost]])


def effect(table: Measured) -> tuple[CausalModel, list[Effect]]:
    """Learn figure 10(a): what the effect of the optimisation depends on; a row a band of n and data type."""
    derivative, effects = effect_of_optimisation(table)
    steps = derivative.steps.select(pl.col("band").alias("n"), "datatype", derivative.name)
    model = learn(
        prepare(steps, kinds={"n": "continuous"}), Knowledge(inputs=["n", "datatype"], outputs=[derivative.name])
    )
    return model, effects


@dataclass(frozen=True, eq=False)
class Precision:
    """What the precision of floating-point numbers costs, as section 8.5 asks of JPEG 2000's."""

    model: CausalModel  # Of the runs with 32 or 64 bits: n, precision, optimisation and the cost
    derivative: CausalModel  # Of ∂cost/∂precision: what it depends on
    name: str  # Of the derivative
    bits: list[float]  # The derivative in each band of n with and without the optimisation, a bit


def precision(table: Measured) -> Precision:
    """Learn whether the precision acts on the cost, and what its effect depends on."""
    runs = of_precision(table).select("n", "precision", "optimisation", table.cost)
    model = learn(prepare(runs, kinds={"n": "continuous"}), inputs=["n", "precision", "optimisation"])
    effect = effect_of_precision(table)
    steps = effect.steps.select(pl.col("band").alias("n"), "optimisation", effect.name)
    known = Knowledge(inputs=["n", "optimisation"], outputs=[effect.name])
    derivative = learn(prepare(steps, kinds={"n": "continuous"}), known)
    return Precision(model, derivative, effect.name, steps[effect.name].to_list())


def parameters_of(table: Measured) -> CurveParameters:
    """Fit one form of curve to the misses of all data types, by description length."""
    return curve_parameters(table.data("n", "datatype", "elementsize", "L2M_op"), "L2M_op", "n", cells=["datatype"])


def parameter_model(table: Measured, datatypes: Sequence[str]) -> CausalModel:
    """Learn figure 10(b): what the jump and the threshold of eq. (17) depend on.

    Joined to the runs, as in the paper, each data type has one jump in all of its rows, which the type then tells to
    the last digit, and the size does not. So eq. (17) is fitted to parts of each type's runs: a row a part, in which
    jump and threshold are as uncertain as they are.
    """
    random = np.random.default_rng(_SEED)
    parts = []
    for datatype in datatypes:
        here = table.frame.filter(pl.col("datatype") == datatype)
        for rows in np.array_split(random.permutation(here.height), PARTS):
            part = here[rows.tolist()]
            step = step_of(datatype, part["n"].cast(pl.Float64).to_numpy(), part["L2M_op"].to_numpy())
            parts.append(
                {"datatype": datatype, "elementsize": BYTES[datatype], JUMP: step.jump, THRESHOLD: step.threshold}
            )
    data = prepare(pl.DataFrame(parts), kinds=dict.fromkeys(("elementsize", JUMP, THRESHOLD), "continuous"))
    known = Knowledge(
        tiers=[["datatype"], ["elementsize"], [JUMP, THRESHOLD]],
        definitions={"elementsize": ["datatype"]},
        forbidden=[(JUMP, THRESHOLD), (THRESHOLD, JUMP)],
    )
    return learn(data, known)


def _learnt(table: Measured, tiers: Sequence[Sequence[str]]) -> CausalModel:
    names = [name for tier in tiers for name in tier]
    made_of = {"elementsize": ["datatype"], "log_op": ["n"]}
    if table.cost == "ns_op":  # the time an operation and that of a decomposition are the same measurement
        made_of["log_T"] = ["log_op", table.log_cost]
    known = Knowledge(
        tiers=tiers, inputs=PARAMETERS, definitions={name: parts for name, parts in made_of.items() if name in names}
    )
    return learn(table.data(*names), known)
