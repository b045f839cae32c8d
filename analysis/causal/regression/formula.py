"""Curves as text, with numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.fitting import Curve
from unperturbed.analysis.causal.regression.forms import Function, Log, Power, Step
from unperturbed.analysis.causal.variables import Category

__all__ = ["formula_of", "number", "scope_of_formula", "where_text"]


def number(value: float) -> str:
    """Return a number as it is shown: five digits."""
    return f"{value:.5g}"


def where_text(where: Mapping[str, Category]) -> str:
    """Return values of discrete parents as text: "datatype=float, optimisation=1"."""
    return ", ".join(f"{name}={value}" for name, value in where.items())


def scope_of_formula(curve: Curve, cells: Cells) -> Scope:
    """Return all discrete parents on which some number of the curve depends."""
    scopes = [term.scope for term in curve.terms] + [scope for term in curve.terms for scope in term.function.scopes]
    used = {name for scope in scopes for name in scope.names}
    return cells.scope([name for name in cells.categories if name in used])


def formula_of(target: str, curve: Curve, cells: Cells, where: Mapping[str, Category], exact: bool) -> str:
    """Return the curve of one cell.

    Parameters
    ----------
    target : str
    curve : Curve
    cells : Cells
    where : mapping of str to str, bool, int or float
        The values of the discrete parents.
    exact : bool
        Errors are too small to be told.
    """
    codes = {name: cells.coded(name, [value]) for name, value in where.items()}

    def value_of(scope: Scope) -> int:
        return int(cells.ids(scope, codes, 1)[0])

    parts: dict[Function, float] = {}
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        function = _with_one_threshold(term.function, value_of)
        parts[function] = parts.get(function, 0.0) + float(coefficients[value_of(term.scope)])
    if curve.errors == "factor":
        return f"{target} = {_product(parts)}" + ("" if exact else f"  {_factor(curve.spread)}")
    error = _percent(curve.spread) if curve.errors == "proportional" else f"{curve.spread:.2g}"
    return f"{target} = {_sum(parts)}" + ("" if exact else f"  ± {error}")


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"


def _factor(spread: float) -> str:
    """Return the standard deviation of a logarithm as people read it: small ones are the same to either side."""
    factor = math.exp(spread)
    return f"± {_percent(factor - 1)}" if factor < 2 else f"× or ÷ {factor:.2g}"


def _with_one_threshold(function: Function, value_of: object) -> Function:
    assert callable(value_of)
    return Function(
        tuple(
            Step(one.compared, Scope(), (one.thresholds[value_of(one.scope)],)) if isinstance(one, Step) else one
            for one in function.factors
        )
    )


def _sum(parts: Mapping[Function, float]) -> str:
    text = ""
    for function, coefficient in sorted(parts.items(), key=lambda one: -_degree(one[0])):
        if coefficient == 0:
            continue
        shown = _scaled(function, abs(coefficient))
        if text:
            text += (" − " if coefficient < 0 else " + ") + shown
        else:
            text = ("−" if coefficient < 0 else "") + shown
    return text or "0"


def _scaled(function: Function, coefficient: float) -> str:
    """Return a coefficient times a function; inverses are written as divisions."""
    above = [one for one in function.factors if not (isinstance(one, Power) and one.exponent == -1 and not one.fitted)]
    below = [one.name for one in function.factors if isinstance(one, Power) and one not in above]
    shown = "·".join([number(coefficient), *(one.text() for one in above)])
    return "/".join([shown, *below])


def _product(parts: Mapping[Function, float]) -> str:
    texts, first = [], 1.0
    for function, coefficient in parts.items():
        match function.factors:
            case ():
                first = math.exp(coefficient)
            case (Log(name),):
                texts.append(f"{name}^{coefficient:.4g}")
            case (Step() as step,):
                texts.append(f"{number(math.exp(coefficient))}^{step.text()}")
            case _:
                texts.append(f"e^({number(coefficient)}·{function.text()})")
    return "·".join([number(first), *texts])


def _degree(function: Function) -> float:
    factors: Sequence[object] = function.factors
    return sum(one.exponent for one in factors if isinstance(one, Power)) + 0.1 * sum(isinstance(one, Log) for one in factors)
