"""Claims of the paper on LU decomposition, compared with the models learnt here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.causal.decomposition.equations import (
    BYTES,
    PRECISIONS,
    Costs,
    Effect,
    Floats,
    Left,
    Measured,
    Step,
    differ,
)
from experiments.causal.decomposition.models import JUMP, PARAMETERS, THRESHOLD, Precision, is_related
from experiments.common.tables import Claim
from unperturbed.analysis.causal import CausalModel, CurveParameters, PaperTest
from unperturbed.analysis.causal.model_text import p_text

_LIKELY = 0.01
_FORETOLD = 0.5
"""Share of the deviations from which on misses count as foretold."""
_LINEAR = 0.9
"""Share of the variance of jumps or thresholds from which on they count as linear in the size."""
_CLEAR = 0.5
"""Share of the deviations of a data type's misses that a step explains, for it to count as one."""


_PRECISION_STEP = PRECISIONS["double"] - PRECISIONS["float"]
"""Bits between the two precisions."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """All that was learnt from one sweep."""

    table: Measured  # The runs
    # first, second: Figures 4 and 9.
    first: CausalModel
    second: CausalModel
    effect: CausalModel  # Figure 10(a)
    effects: list[Effect]  # Of each data type
    precision: Precision  # Of floating-point numbers
    steps: list[Step]  # Eq. (17) of each data type.
    curves: CurveParameters  # The form of curve that takes the fewest bits
    parameters: CausalModel | None  # Figure 10(b); None where fewer than three sizes have a step
    costs: list[Costs]  # Eq. (18) of each data type.
    left: list[Left]  # Misses of sizes that were left out


def jumps(step: Step) -> bool:
    """Tell whether a data type's misses are at least twice as many beyond the threshold as before it."""
    return step.before < step.jump / 2


def held(evaluated: Evaluated) -> list[Claim]:
    """Return the claims in the paper's order."""
    return [
        *_first(evaluated),
        *_second(evaluated),
        *_effects(evaluated),
        _precision(evaluated),
        *_misses(evaluated),
        *_costs(evaluated),
    ]


def _first(evaluated: Evaluated) -> list[Claim]:
    cost = evaluated.table.log_cost
    causes = _causes(evaluated.first, "log_T")
    defined = evaluated.table.cost == "ns_op"
    same = ": both are the same measurement" if defined else ""
    types = [is_related(evaluated.first, "datatype", name) for name in ("instr_op", cost)]
    return [
        Claim(
            "The run time follows from the operations and the cost of one (fig. 4)",
            f"causes of log_T: {_listed(causes)}{same}",
            set(causes) == {"log_op", cost},
            "by definition" if defined else "",
        ),
        Claim(
            "The data type influences the instructions an operation, and its cycles directly too (fig. 4)",
            f"edge to instr_op: {_yes(types[0])}; to {cost}: {_yes(types[1])}",
            all(types),
        ),
    ]


def _second(evaluated: Evaluated) -> list[Claim]:
    model, cost = evaluated.second, evaluated.table.cost
    by_misses = [name for name in ("L1M_op", "L2M_op") if is_related(model, name, cost)]
    check = model.screens_off(["datatype"], [cost], by=["instr_op", "L2M_op"])
    paper = PaperTest(model.data).information("datatype", cost, ("instr_op", "L2M_op"))
    every = model.screens_off(PARAMETERS, [cost], by=["instr_op", "L2M_op"])
    by_size = model.screens_off(["datatype"], ["L2M_op"], by=["n", "elementsize"]).claims[0]
    sizes = is_related(model, "elementsize", "L2M_op"), is_related(model, "datatype", "L2M_op")
    saves = is_related(model, "optimisation", "instr_op"), is_related(model, "optimisation", "L2M_op")
    inner = [left_out for left_out in evaluated.left if left_out.size in (4, 8)]
    told = ", ".join(f"{left_out.size} bytes {left_out.explained:.0%}" for left_out in evaluated.left)
    return [
        Claim(
            "Of the misses only those of the second level have an influence on the cycles that matters (fig. 9)",
            f"misses with an edge to {cost}: {_listed(by_misses)}",
            by_misses == ["L2M_op"],
        ),
        Claim(
            "The data type acts on the cycles besides instructions and misses: I(datatype; C_op given L2M_op, "
            "instr_op) = 0.45, above 0.2, so that "
            "Markov would be violated without the edge",
            f"{check.claims[0].bits:.2f} bits a run, p = {p_text(check.claims[0].adjusted)}; by the paper's test "
            f"and its constants {paper:.2f} bits, "
            f"{'above' if paper > 0.2 else 'below'} 0.2 (its values grow with the number of runs); edge: "
            f"{_yes(is_related(model, 'datatype', cost))}",
            bool(check.refuted),
        ),
        Claim(
            "So instructions and misses do not screen the parameters off from the cycles, eq. (1)",
            f"{every}",
            bool(every.refuted),
        ),
        Claim(
            "The misses are determined by the size of an element alone, not by its type",
            f"edge from elementsize: {_yes(sizes[0])}, from datatype: {_yes(sizes[1])}; given n and elementsize "
            "the type tells "
            f"{by_size.bits:.2f} bits more (p = {p_text(by_size.adjusted)})",
            True if sizes == (True, False) else None if sizes == (True, True) else False,
        ),
        Claim(
            "So the misses of new sizes can be predicted",
            f"share of their deviations that is foretold, each size by the formula of the others: {told}. 4 and "
            "8 lie between the others",
            all(left_out.explained >= _FORETOLD for left_out in inner),
        ),
        Claim(
            "The optimisation influences the instructions, not the misses",
            f"edge to instr_op: {_yes(saves[0])}, to L2M_op: {_yes(saves[1])}",
            saves == (True, False),
        ),
        Claim(
            "The optimisation acts on the cycles besides the instructions",
            f"edge to {cost}: {_yes(is_related(model, 'optimisation', cost))}",
            is_related(model, "optimisation", cost),
        ),
    ]


def _effects(evaluated: Evaluated) -> list[Claim]:
    name = next(name for name in evaluated.effect.data.names if name.startswith("d") and name.endswith("optimisation"))
    saved = {effect.datatype: -effect.cost for effect in evaluated.effects}
    unit = evaluated.table.unit
    told = ", ".join(f"{effect.datatype} {-effect.cost:.1f}" for effect in evaluated.effects)
    causes = _causes(evaluated.effect, name)
    ranks = saved["long"] > saved["int"] > max(saved["float"], saved["double"])
    return [
        Claim(
            "What the optimisation saves depends on the data type (fig. 10a)",
            f"causes of {name}: {_listed(causes)}",
            causes == ["datatype"] if "datatype" in causes else False,
        ),
        Claim(
            "It saves about 50 cycles with integers, 18 with float and double, 110 with long (a processor of its day)",
            f"{told} {unit}; most with long, then int, then float and double: {_yes(ranks)}",
            None if ranks else False,
        ),
    ]


def _precision(evaluated: Evaluated) -> Claim:
    precision, cost = evaluated.precision, evaluated.table.cost
    related = is_related(precision.model, "precision", cost)
    causes = _causes(precision.derivative, precision.name)
    low, middle, high = (_PRECISION_STEP * value for value in np.quantile(precision.bits, [0.25, 0.5, 0.75]).tolist())
    agrees = [not related, middle > 0, bool(causes)]
    return Claim(
        "With Kakadu, a higher precision (32 in place of 16 bits) has no significant effect on the run time; its "
        "derivative is positive, and depends on kernel and width (section 8.5)",
        f"64 in place of 32 bits (double, float): edge precision → {cost}: {_yes(related)}; {middle:+.2f} "
        f"{evaluated.table.unit} an operation, half of {len(precision.bits)} bands of n between {low:+.2f} and "
        f"{high:+.2f}; "
        f"causes of {precision.name}: {_listed(causes)}".replace("-", "−"),
        True if all(agrees) else None if any(agrees) else False,
    )


def _misses(evaluated: Evaluated) -> list[Claim]:
    jumping = [step for step in evaluated.steps if jumps(step)]
    clear = [step for step in jumping if step.explained >= _CLEAR]
    neglected = [step for step in jumping if step.neglects]
    told = ", ".join(f"{step.datatype} {step.explained:.0%}" for step in evaluated.steps)
    thresholds = any(parameter.name.startswith("threshold") for parameter in evaluated.curves.mechanism.parameters)
    rows = [
        Claim(
            "Misses are a step function of n, eq. (17)",
            f"they at least double at a threshold with {_listed(step.datatype for step in jumping)}; share of "
            "their deviations that the step explains: "
            f"{told}; the curve of the fewest bits has {'thresholds' if thresholds else 'no threshold'}",
            _all_or_none(len(clear), len(evaluated.steps)),
        ),
        Claim(
            "Misses before the jump can be neglected",
            f"they are less than a twentieth of those after it with {_listed(step.datatype for step in neglected)}",
            _all_or_none(len(neglected), len(jumping)),
        ),
    ]
    return [*rows, *_of_sizes(jumping, evaluated.parameters)]


def _of_sizes(stepped: Sequence[Step], model: CausalModel | None) -> list[Claim]:
    claim = "Jump and threshold depend on the size of an element (fig. 10b)", "Both are linear in the size"
    if model is None:
        few = f"the misses of {len(stepped)} data types jump, which are too few"
        return [Claim(text, few, None, "cannot be told") for text in claim]
    size = np.array([BYTES[step.datatype] for step in stepped], dtype=np.float64)
    jump, threshold = (np.array([getattr(step, name) for step in stepped]) for name in ("jump", "threshold"))
    causes = {name: _causes(model, name) for name in (JUMP, THRESHOLD)}
    straight = _explained(size, jump), _explained(size, threshold)
    told = "; ".join(f"{name}: {_listed(of)}" for name, of in causes.items())
    by_size = [name for name, of in causes.items() if of == ["elementsize"]]
    formulas = "".join(f"; {model.mechanisms[name].formula}" for name in by_size)
    untold = "" if any(causes.values()) else "cannot be told"  # the parts of the runs are too few, or differ too much
    return [
        Claim(claim[0], f"causes of {told}", _all_or_none(len(by_size), len(causes)), untold),
        Claim(
            claim[1],
            f"a straight line explains {straight[0]:.0%} of the jumps' variance and {straight[1]:.0%} of the "
            "thresholds', 1/√size, as n² elements "
            f"fill a cache, {_explained(1 / np.sqrt(size), threshold):.0%} of these{formulas}",
            _all_or_none(sum(share >= _LINEAR for share in straight), len(straight)),
        ),
    ]


def _costs(evaluated: Evaluated) -> list[Claim]:
    table, costs = evaluated.table, {cost.datatype: cost for cost in evaluated.costs}
    probable = differ(table, "instr_op"), differ(table, "L2M_op")
    cpi = ", ".join(f"{name} {cost.cpi:.2f}" for name, cost in costs.items())
    penalty = ", ".join(f"{name} {round(cost.penalty)} ± {round(cost.penalty_error)}" for name, cost in costs.items())
    ranks = costs["int"].penalty < costs["double"].penalty < costs["longdouble"].penalty
    left = ", ".join(f"{name} {cost.left:.0%}" for name, cost in costs.items())
    return [
        Claim(
            "The cost is CPI · instr_op + C_L2M · L2M_op for each data type, eq. (18)",
            f"standard deviation of what it leaves, of the mean: {left}",
            all(cost.left < 0.1 for cost in evaluated.costs) or None,
        ),
        Claim(
            "CPI depends on the data type",
            f"{table.unit}: {cpi}; p = {p_text(probable[0])} for one value",
            probable[0] < _LIKELY,
        ),
        Claim(
            "The cost of a miss depends on the data type, unexpectedly: 166 cycles with int, 295 with double, "
            "418 with longdouble",
            f"{table.unit}: {penalty}; p = {p_text(probable[1])} for one value; rising from int over double to "
            f"longdouble: {_yes(ranks)}",
            None if probable[1] < _LIKELY and not ranks else probable[1] < _LIKELY,
        ),
    ]


def _all_or_none(count: int, of: int) -> bool | None:
    """Return whether all agree, or none does; None where some do."""
    return None if 0 < count < of else count > 0


def _causes(model: CausalModel, name: str) -> list[str]:
    return [parent for parent in model.parents(name) if is_related(model, parent, name)]


def _explained(x: Floats, y: Floats) -> float:
    """Return the share of the variance of y that a straight line over x explains."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
