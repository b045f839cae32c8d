"""The numbers of a curve with their intervals: coefficients, exponents, thresholds.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2; the paper gives its
parameters without intervals. Intervals are those of a curve that was known before; that the same rows chose its form
makes them a little too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.curves.fitting import Curve
from unperturbed.analysis.causal.regression.curves.forms import Function, Log, Power, Step, steps_of
from unperturbed.analysis.causal.regression.curves.problem import Errors, State
from unperturbed.analysis.causal.table.variables import Category
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")


@dataclass(frozen=True)
class Parameter:
    """A fitted number.

    Attributes
    ----------
    name : str
        "intercept", "coefficient of n²", "jump of n", "threshold of n", "exponent of n".
    value : float
        The fitted number.
    low, high : float
        Its interval of confidence.
    where : tuple of mappings
        Values of discrete parents for which it holds; several where they share it, and none where it holds everywhere.
    """

    name: str
    value: float
    low: float
    high: float
    where: tuple[Mapping[str, Category], ...] = ()


def parameters_of(state: State, curve: Curve, level: float) -> tuple[Parameter, ...]:
    """Return all fitted numbers with their intervals.

    Those of coefficients and exponents are Student's. That of a threshold holds all thresholds whose sum of squared
    residuals is larger than the least by no more than the errors' variance times −2·ln(1 − √level) (Hansen, "Sample
    splitting and threshold estimation", 2000), with jumps held.

    `level`: Confidence, from 0 to 1.
    """
    reach = float(special.stdtrit(curve.degrees_of_freedom, 0.5 + level / 2))
    deviation = np.zeros(len(curve.kept))
    deviation[curve.kept] = np.sqrt(np.maximum(np.diag(curve.covariance), 0))
    cells = state.problem.cells
    found: list[Parameter] = []
    at = 0
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        name, made = _name(term.function, curve.errors)
        for value, where in enumerate(_where(cells, term.scope)):
            about, margin = coefficients[value], reach * deviation[at]
            if curve.kept[at]:
                found.append(Parameter(name, made(about), made(about - margin), made(about + margin), where))
            at += 1
    for function in dict.fromkeys(term.function for term in curve.terms):
        for factor in function.factors:
            if isinstance(factor, Power) and factor.fitted:
                margin = reach * deviation[at]
                at += 1
                found.append(
                    Parameter(
                        f"exponent of {factor.name}",
                        factor.exponent,
                        factor.exponent - margin,
                        factor.exponent + margin,
                    )
                )
    for step in steps_of(curve.terms):
        found += _thresholds(state, curve, step, -2 * math.log(1 - math.sqrt(level)))
    return tuple(found)


def _thresholds(state: State, curve: Curve, step: Step, reach: float) -> list[Parameter]:
    """Return the thresholds of a step with their intervals."""
    problem = state.problem
    jumps = np.zeros(problem.rows)
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        if step in term.function.factors:
            others = Function(tuple(one for one in term.function.factors if one != step))
            jumps += coefficients[problem.ids(term.scope)] * problem.values(others)
    compared = np.ones(problem.rows)
    for one in step.compared:
        compared = compared * one.values(problem.numbers, problem.ids)
    which = problem.ids(step.scope)
    below = state.residual + jumps * (compared > np.array(step.thresholds)[which])
    found = []
    for value, (threshold, where) in enumerate(zip(step.thresholds, _where(problem.cells, step.scope), strict=True)):
        rows = np.flatnonzero(which == value)
        rows = rows[np.argsort(compared[rows], kind="stable")]
        x = compared[rows]
        # With the threshold at x[i], rows up to i are below it, those after i above.
        worse = np.cumsum(below[rows] ** 2 - (below[rows] - jumps[rows]) ** 2)
        ends = np.flatnonzero(np.append(x[1:] > x[:-1], np.array([False])))
        here = ends[np.searchsorted(x[ends], threshold, side="right") - 1]
        good = ends[worse[ends] - worse[here] <= reach * curve.spread**2]
        low, high = float(x[min(good[0], here)]), float(x[max(good[-1], here) + 1])
        found.append(Parameter(f"threshold of {step.compared_text()}", threshold, low, high, where))
    return found


def _where(cells: Cells, scope: Scope) -> list[tuple[Mapping[str, Category], ...]]:
    """Return where each value of a scope holds."""
    if not scope.names:
        return [()]
    combinations = cells.combinations(scope)
    if not scope.groups:
        return [(one,) for one in combinations]
    return [
        tuple(one for one, group in zip(combinations, scope.groups, strict=True) if group == number)
        for number in range(max(scope.groups) + 1)
    ]


def _name(function: Function, errors: Errors) -> tuple[str, Callable[[float], float]]:
    """Return what a coefficient is called, and what makes its shown value."""
    products = errors == "factor"
    match function.factors:
        case ():
            return ("factor", math.exp) if products else ("intercept", float)
        case (Log(name),) if products:
            return f"exponent of {name}", float
        case (Step() as step,):
            return (
                (f"factor of {step.compared_text()}", math.exp)
                if products
                else (f"jump of {step.compared_text()}", float)
            )
    texts = [
        f"[{one.compared_text()} > threshold]" if isinstance(one, Step) else one.text() for one in function.factors
    ]
    return f"{'rate' if products else 'coefficient'} of {'·'.join(texts)}", float
