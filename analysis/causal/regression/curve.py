"""Fitted curve: coefficients by least squares, exponents by Gauss–Newton steps, all numbers with intervals.

Intervals assume that the curve's form was known before; because the same rows chose it, they are a little too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.forms import (
    CurveFunction,
    Factor,
    Ids,
    Log,
    Power,
    Step,
    Term,
    product_of,
    steps_of,
)
from unperturbed.analysis.causal.regression.loops import compiled_loop
from unperturbed.analysis.causal.regression.mechanism import Parameter
from unperturbed.analysis.causal.regression.problem import TOLERANCE, Errors, State
from unperturbed.analysis.causal.table.variables import Category, Floats
from unperturbed.common.extras import LazyLibrary

special = LazyLibrary("scipy.special")

_STEPS = 12
_NEAR_ENOUGH = 0.01
"""Bits of description length to which exponents are refined."""
_ROUNDING = 1e-14
_ALONE = 1e-6
"""If less than this share of a row's error is left, the row alone determines a coefficient."""
_OWN_PULL, _SHARED_PULL = 1e-6, 1e-12
"""Penalties that pull cells' coefficients to the value they share, and that value to 0: enough to decide ties."""


def coefficients_of(state: State) -> tuple[Floats, ...]:
    """Return each term's coefficients; 0 for columns that other columns span."""
    if not state.terms:
        return ()
    columns = [state.problem.columns(term) for term in state.terms]
    every = np.concatenate(columns)
    # The basis spans the columns, so their coordinates in the basis determine the columns.
    within = np.ascontiguousarray((state.basis @ every.T).T)
    scale = np.sqrt((within * within).sum(axis=1))
    scale[scale == 0] = 1
    within /= scale[:, None]
    kept = independent_columns(within)
    coefficients = np.zeros(len(every))
    square = np.count_nonzero(kept) == len(state.basis)
    for _ in range(2):  # the second pass solves for what rounding left
        left = state.basis @ (state.problem.target - coefficients @ every)
        solved = (
            np.linalg.solve(within[kept].T, left) if square else np.linalg.lstsq(within[kept].T, left, rcond=None)[0]
        )
        coefficients[kept] += solved / scale[kept]
    return tuple(np.split(coefficients, np.cumsum([len(term_columns) for term_columns in columns])[:-1]))


def independent_columns(columns: Floats) -> NDArray[np.bool_]:
    """Return which columns, each a row of the array, are linearly independent of earlier ones."""
    kept = np.empty(len(columns), np.bool_)
    columns, unused = np.ascontiguousarray(columns), np.empty(len(columns))
    compiled_loop("extend")(np.empty(columns.shape), 0, columns, TOLERANCE, np.zeros(columns.shape[1]), kept, unused)
    return kept


def gradient_of(
    terms: Sequence[Term], coefficients: Sequence[Floats], numbers: Mapping[str, Floats], ids: Ids, rows: int
) -> Floats:
    """Return the curve's derivatives by coefficient, then by exponent: shape (parameters, rows)."""
    blocks = []
    for term, by in zip(terms, coefficients, strict=True):
        block = np.zeros((len(by), rows))
        block[ids(term.scope), np.arange(rows)] = term.function.values(numbers, ids, rows)
        blocks.append(block)
    return np.concatenate([*blocks, _slopes(terms, coefficients, numbers, ids, rows)])


def _slopes(
    terms: Sequence[Term], coefficients: Sequence[Floats], numbers: Mapping[str, Floats], ids: Ids, rows: int
) -> Floats:
    """Return the curve's derivatives by exponent, function by function: shape (exponents, rows)."""
    slopes: dict[tuple[CurveFunction, int], Floats] = {}
    for term, by in zip(terms, coefficients, strict=True):
        for at, factor in enumerate(term.function.factors):
            if isinstance(factor, Power) and factor.fitted:
                slope = by[ids(term.scope)] * term.function.values(numbers, ids, rows) * np.log(numbers[factor.name])
                slopes[term.function, at] = slopes.get((term.function, at), 0) + slope
    return np.array(list(slopes.values())).reshape(-1, rows)


def refine_exponents(state: State, *, closest: bool = False) -> State:
    """Return the state with its exponents refined to within a hundredth of a bit of the best description length."""
    if not any(term.function.has_exponent for term in state.terms):
        return state
    problem = state.problem
    for _ in range(_STEPS):
        slopes = (
            _slopes(state.terms, coefficients_of(state), problem.numbers, problem.ids, problem.rows) * problem.weights
        )
        if not np.isfinite(slopes).all():
            break
        # Remove the part of a change of exponents that coefficients can absorb (variable projection).
        slopes -= (slopes @ state.basis.T) @ state.basis
        moves = np.asarray(np.linalg.lstsq(slopes.T, state.residual, rcond=None)[0], np.float64)
        promised = float(np.sum((moves @ slopes) ** 2))
        gained = float(problem.data_bits(state.rss) - problem.data_bits(max(state.rss - promised, 0.0)))
        if promised <= _ROUNDING * state.rss or (gained < _NEAR_ENOUGH and not closest):
            break
        better = _moved(state, moves)
        if better is None:
            break
        state = better
    return state


def _moved(state: State, steps: Floats) -> State | None:
    """Return the state with its exponents moved by some steps, or by parts of these, if that fits better; else None."""
    functions = list(dict.fromkeys(term.function for term in state.terms))
    for part in (1.0, 0.5, 0.25):
        left = iter((steps * part).tolist())
        moved = {
            function: CurveFunction(
                tuple(
                    replace(factor, exponent=factor.exponent + next(left))
                    if isinstance(factor, Power) and factor.fitted
                    else factor
                    for factor in function.factors
                )
            )
            for function in functions
        }
        made = state.problem.state([Term(moved[term.function], term.scope) for term in state.terms])
        if made.rss < state.rss:
            return made
    return None


@dataclass(frozen=True, eq=False)
class Curve:
    """Sum of terms with their coefficients."""

    terms: tuple[Term, ...]
    coefficients: tuple[Floats, ...]  # (values of the term's scope,): The coefficients of each term
    errors: Errors  # How errors grow with the curve
    # Standard deviation of the errors: in units of the target, as a share of the curve, or of the logarithm.
    spread: float
    degrees_of_freedom: int  # Rows less parameters
    covariance: Floats  # (parameters, parameters): Covariance of the parameters that are kept
    kept: NDArray[np.bool_]  # (coefficients + exponents,): Which are linearly independent; others are 0
    factor: CurveFunction | None  # If errors are factors: the function that the curve is a multiple of

    def level(self, numbers: Mapping[str, Floats], ids: Ids, rows: int) -> Floats:
        """Return the curve's value in each row; its logarithm if errors are factors."""
        total = np.zeros(rows) if self.factor is None else np.log(self.factor.values(numbers, ids, rows))
        for term, coefficients in zip(self.terms, self.coefficients, strict=True):
            total += coefficients[ids(term.scope)] * term.function.values(numbers, ids, rows)
        return total

    def uncertainty(
        self, numbers: Mapping[str, Floats], ids: Ids, rows: int, covariances: Sequence[Floats] = ()
    ) -> Floats:
        """Return the standard deviation of `level` due to uncertain parameters: the largest over all covariances.

        Thresholds are taken as exact.
        """
        if not len(self.covariance):
            return np.zeros(rows)
        gradient = gradient_of(self.terms, self.coefficients, numbers, ids, rows)[self.kept]
        variances = [((covariance @ gradient) * gradient).sum(axis=0) for covariance in (self.covariance, *covariances)]
        return np.asarray(np.sqrt(np.maximum(np.max(variances, axis=0), 0)))

    def at_thresholds(self, place: Callable[[Step, int], float]) -> Curve:
        """Return the curve with other thresholds: `place` returns the threshold of a step at an index of its scope."""

        def moved(factor: Factor) -> Factor:
            if not isinstance(factor, Step):
                return factor
            return replace(factor, thresholds=tuple(place(factor, value) for value in range(len(factor.thresholds))))

        return replace(
            self,
            terms=tuple(
                Term(CurveFunction(tuple(map(moved, term.function.factors))), term.scope) for term in self.terms
            ),
        )


_LEAST_SCALE = 1e-120
"""Norm of a parameter's derivative below which its variance exceeds the range of float64; it is taken as known."""


def curve_of(state: State) -> Curve:
    """Return the curve of a state."""
    problem = state.problem
    coefficients = coefficients_of(state)
    gradient = gradient_of(state.terms, coefficients, problem.numbers, problem.ids, problem.rows) * problem.weights
    scale = np.sqrt((gradient * gradient).sum(axis=1))
    scale[scale == 0] = 1
    kept = independent_columns(gradient / scale[:, None]) & (scale > _LEAST_SCALE)
    thresholds = sum(len(step.thresholds) for step in steps_of(state.terms))
    free = max(problem.rows - int(kept.sum()) - thresholds, 1)
    spread = math.sqrt(state.rss / free)
    triangle = np.linalg.qr((gradient[kept] / scale[kept][:, None]).T, mode="r")
    inverse = np.linalg.inv(triangle) / scale[kept][:, None]
    covariance = inverse @ inverse.T * spread**2
    return Curve(state.terms, coefficients, problem.errors, spread, free, covariance, kept, problem.factor)


def left_out_covariance(state: State, curve: Curve) -> Floats:
    """Return the parameters' covariance from leave-one-out errors; it has the shape of `covariance`.

    It is valid for errors that differ between rows (MacKinnon and White, "Some heteroskedasticity-consistent covariance
    matrix estimators", 1985, HC3). A row that alone determines a coefficient has no residual; the other rows then
    predict it with the coefficient closest to the value that all cells share, else to 0.
    """
    problem, kept = state.problem, curve.kept
    gradient = gradient_of(curve.terms, curve.coefficients, problem.numbers, problem.ids, problem.rows)
    columns = (gradient * problem.weights)[kept]
    scale = np.sqrt((columns * columns).sum(axis=1))
    basis, triangle = np.linalg.qr((columns / scale[:, None]).T)
    free = 1 - (basis * basis).sum(axis=1)
    alone = free < _ALONE
    errors = state.residual / np.where(alone, 1.0, free)
    if alone.any():
        errors[alone] = _errors_by_shared(state, curve, columns)[alone]
    moves = np.linalg.solve(triangle, basis.T * errors) / scale[:, None]
    return np.asarray(moves @ moves.T)


def _errors_by_shared(state: State, curve: Curve, columns: Floats) -> Floats:
    """Return each row's leave-one-out error, with coefficients pulled to the value that their cells share."""
    problem = state.problem
    by_term = [problem.columns(term) for term in curve.terms]
    shared = [term_columns.sum(axis=0) for term_columns in by_term if len(term_columns) > 1]
    design = np.concatenate([columns, np.array(shared).reshape(-1, problem.rows)])
    design /= np.maximum(np.sqrt((design * design).sum(axis=1)), np.finfo(float).tiny)[:, None]
    # Cells' own coefficients are pulled; exponents, which come after them, are not.
    own = np.zeros(len(curve.kept), np.bool_)
    of_cells = np.concatenate([np.full(len(term_columns), len(term_columns) > 1) for term_columns in by_term])
    own[: len(of_cells)] = of_cells
    pull = np.where(np.append(own[curve.kept], np.zeros(len(shared), np.bool_)), _OWN_PULL, _SHARED_PULL)
    # Extra rows below the design turn least squares into ridge regression.
    pulled = np.linalg.qr(np.concatenate([design.T, np.diag(np.sqrt(pull))]))[0][: problem.rows]
    left = problem.target - pulled @ (pulled.T @ problem.target)
    return np.asarray(left / (1 - (pulled * pulled).sum(axis=1)))


def parameters_of(state: State, curve: Curve, level: float) -> tuple[Parameter, ...]:
    """Return all fitted numbers with their intervals.

    Intervals of coefficients and exponents use Student's t. The interval of a threshold contains all thresholds whose
    sum of squared residuals exceeds the minimum by at most the errors' variance times −2·ln(1 − √level) (Hansen,
    "Sample splitting and threshold estimation", 2000), with jumps held fixed.
    """
    reach = float(special.stdtrit(curve.degrees_of_freedom, 0.5 + level / 2))
    deviation = np.zeros(len(curve.kept))
    deviation[curve.kept] = np.sqrt(np.maximum(np.diag(curve.covariance), 0))
    cells = state.problem.cells
    parameters: list[Parameter] = []
    at = 0
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        name, made = _name(term.function, curve.errors)
        for value, where in enumerate(_where(cells, term.scope)):
            about, margin = coefficients[value], reach * deviation[at]
            if curve.kept[at]:
                parameters.append(Parameter(name, made(about), made(about - margin), made(about + margin), where))
            at += 1
    for function in dict.fromkeys(term.function for term in curve.terms):
        for factor in function.factors:
            if isinstance(factor, Power) and factor.fitted:
                margin = reach * deviation[at]
                at += 1
                low, high = factor.exponent - margin, factor.exponent + margin
                parameters.append(Parameter(f"exponent of {factor.name}", factor.exponent, low, high))
    for step in steps_of(curve.terms):
        parameters += thresholds_of(state, curve, step, level)
    return tuple(parameters)


def thresholds_of(state: State, curve: Curve, step: Step, level: float) -> list[Parameter]:
    """Return the thresholds of a step with their intervals; see `parameters_of`."""
    reach = -2 * math.log(1 - math.sqrt(level))
    problem = state.problem
    jumps = np.zeros(problem.rows)
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        if step in term.function.factors:
            others = CurveFunction(tuple(factor for factor in term.function.factors if factor != step))
            jumps += coefficients[problem.ids(term.scope)] * problem.values(others)
    compared = product_of(step.compared, problem.numbers, problem.ids)
    which = problem.ids(step.scope)
    below = state.residual + jumps * (compared > np.array(step.thresholds)[which])
    parameters = []
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
        parameters.append(Parameter(f"threshold of {step.compared_text()}", threshold, low, high, where))
    return parameters


def _where(cells: Cells, scope: Scope) -> list[tuple[Mapping[str, Category], ...]]:
    """Return the combinations that each value of a scope applies to."""
    if not scope.names:
        return [()]
    combinations = cells.combinations(scope)
    groups = scope.groups or range(len(combinations))
    return [
        tuple(combination for combination, group in zip(combinations, groups, strict=True) if group == number)
        for number in range(cells.size(scope))
    ]


def _name(function: CurveFunction, errors: Errors) -> tuple[str, Callable[[float], float]]:
    """Return a coefficient's name, and the function that converts it to the value shown."""
    products = errors == "factor"
    match function.factors:
        case ():
            return ("factor", math.exp) if products else ("intercept", float)
        case (Log(name),) if products:
            return f"exponent of {name}", float
        case (Step() as step,):
            about = step.compared_text()
            return (f"factor of {about}", math.exp) if products else (f"jump of {about}", float)
    texts = [
        f"[{factor.compared_text()} > threshold]" if isinstance(factor, Step) else factor.text()
        for factor in function.factors
    ]
    return f"{'rate' if products else 'coefficient'} of {'·'.join(texts)}", float
