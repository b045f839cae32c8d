"""Coefficients by least squares, and exponents by Gauss and Newton's steps.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2: the closest fit "according
to the minimization of the sum of squared errors".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.curves.forms import Function, Ids, Power, Term
from unperturbed.analysis.causal.regression.curves.problem import TOLERANCE, State, compiled_loop
from unperturbed.analysis.causal.table.variables import Floats

_STEPS = 12
_NEAR_ENOUGH = 0.01
"""Bits."""
_ROUNDING = 1e-14


def coefficients_of(state: State) -> tuple[Floats, ...]:
    """Return each term's coefficients; 0 for columns that others make up."""
    if not state.terms:
        return ()
    columns = [state.problem.columns(term) for term in state.terms]
    every = np.concatenate(columns)
    # The basis spans the columns, so that their coordinates in it determine them.
    within = np.ascontiguousarray((state.basis @ every.T).T)
    scale = np.sqrt((within * within).sum(axis=1))
    scale[scale == 0] = 1
    within /= scale[:, None]
    kept = independent_columns(within)
    found = np.zeros(len(every))
    square = np.count_nonzero(kept) == len(state.basis)
    for _ in range(2):  # once more on what rounding left
        left = state.basis @ (state.problem.target - found @ every)
        solved = (
            np.linalg.solve(within[kept].T, left) if square else np.linalg.lstsq(within[kept].T, left, rcond=None)[0]
        )
        found[kept] += solved / scale[kept]
    return tuple(np.split(found, np.cumsum([len(one) for one in columns])[:-1]))


def independent_columns(columns: Floats) -> NDArray[np.bool_]:
    """Return which columns, each a row of the array, are linearly independent of those before them."""
    kept = np.empty(len(columns), np.bool_)
    columns, unused = np.ascontiguousarray(columns), np.empty(len(columns))
    compiled_loop("extend")(np.empty(columns.shape), 0, columns, TOLERANCE, np.zeros(columns.shape[1]), kept, unused)
    return kept


def gradient_of(
    terms: Sequence[Term], coefficients: Sequence[Floats], numbers: Mapping[str, Floats], ids: Ids, rows: int
) -> Floats:
    """Return the curve's derivatives by each coefficient, then by each exponent: shape (parameters, rows)."""
    blocks = []
    for term, by in zip(terms, coefficients, strict=True):
        block = np.zeros((len(by), rows))
        block[ids(term.scope), np.arange(rows)] = term.function.values(numbers, ids, rows)
        blocks.append(block)
    return np.concatenate([*blocks, _slopes(terms, coefficients, numbers, ids, rows)])


def _slopes(
    terms: Sequence[Term], coefficients: Sequence[Floats], numbers: Mapping[str, Floats], ids: Ids, rows: int
) -> Floats:
    """Return the curve's derivatives by each exponent, of one function after the other: shape (exponents, rows)."""
    found: dict[tuple[Function, int], Floats] = {}
    for term, by in zip(terms, coefficients, strict=True):
        for at, factor in enumerate(term.function.factors):
            if isinstance(factor, Power) and factor.fitted:
                slope = by[ids(term.scope)] * term.function.values(numbers, ids, rows) * np.log(numbers[factor.name])
                found[term.function, at] = found.get((term.function, at), 0) + slope
    return np.array(list(found.values())).reshape(-1, rows)


def refine_exponents(state: State, *, closest: bool = False) -> State:
    """Return the state with its exponents at their best fit, to within a hundredth of a bit of description length."""
    if not any(term.function.has_exponent for term in state.terms):
        return state
    problem = state.problem
    for _ in range(_STEPS):
        slopes = (
            _slopes(state.terms, coefficients_of(state), problem.numbers, problem.ids, problem.rows) * problem.weights
        )
        if not np.isfinite(slopes).all():
            break
        # What coefficients can take up of a change of exponents is theirs (variable projection).
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
    """Return the state with its exponents moved by some steps, or by parts of them, where it fits better; else None."""
    functions = list(dict.fromkeys(term.function for term in state.terms))
    for part in (1.0, 0.5, 0.25):
        left = iter((steps * part).tolist())
        moved = {
            one: Function(
                tuple(
                    replace(factor, exponent=factor.exponent + next(left))
                    if isinstance(factor, Power) and factor.fitted
                    else factor
                    for factor in one.factors
                )
            )
            for one in functions
        }
        made = state.problem.state([Term(moved[term.function], term.scope) for term in state.terms])
        if made.rss < state.rss:
            return made
    return None
