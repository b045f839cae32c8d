"""Cells that share a value.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2: "equal parameter values … are only
counted once". Fitted values are never equal, so values that are nearly so are made one where that shortens the description.
Which cells share which value has to be told too, at log₂(values) bits a cell; without that price a discrete parent would be
described as cheaply as the number behind it (a datatype as its size).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.cells import Scope
from unperturbed.analysis.causal.regression.forms import Function, Step, Term, steps_of
from unperturbed.analysis.causal.regression.least_squares import coefficients_of, polished
from unperturbed.analysis.causal.regression.problem import Problem, State
from unperturbed.analysis.causal.regression.steps import best_thresholds

__all__ = ["with_shared_values"]

Floats = NDArray[np.float64]

_FEWEST, _MOST = 3, 60
"""Values that may be put together: two are shared or not, which other changes try."""


def with_shared_values(state: State) -> State:
    """Let cells share coefficients and thresholds, one term after the other, as long as that shortens the description."""
    at = 0 if state.problem.cells.sharing else len(state.terms)
    while at < len(state.terms):
        shared = _with_shared(state, at)
        if shared is None or not shared.bits < state.bits:
            at += 1
        else:
            state = shared
    return state


def _with_shared(state: State, at: int) -> State | None:
    """Return the state with coefficients of one term shared, and its thresholds too where that is shorter; None where no sharing promises to be."""
    problem, term = state.problem, state.terms[at]
    size = problem.cells.size(term.scope)
    if term.scope.groups or not _FEWEST <= size <= _MOST:
        return None
    coefficients = coefficients_of(state)[at]
    # What a value costs in squared length if it moves, the other terms taking up what they can.
    columns = problem.columns(term)
    rest = problem.state([one for one in state.terms if one is not term])
    free = columns - (columns @ rest.basis.T) @ rest.basis
    # Cells that share a coefficient may share the threshold that goes with it.
    parameters = 1 + sum(one.scope == term.scope for one in steps_of([term]))
    groups = _grouped(problem, coefficients, (free * free).sum(axis=1), state.rss, parameters)
    if groups is None:
        return None
    scope = Scope(term.scope.names, groups)
    tried = [_replaced(state, at, Term(term.function, scope))]
    if (function := _with_shared_thresholds(rest, term.function, scope)) is not None:
        tried.append(_replaced(state, at, Term(function, scope)))
    return min(tried, key=lambda one: one.bits)


def _replaced(state: State, at: int, term: Term) -> State:
    terms = list(state.terms)
    terms[at] = term
    return polished(state.problem.state(terms))


def _grouped(problem: Problem, values: Floats, weights: Floats, rss: float, parameters: int) -> tuple[int, ...] | None:
    """Return which values to share so that the description gets shortest: neighbours in the order of size, by dynamic programming."""
    size = len(values)
    order = np.argsort(values, kind="stable")
    x, w = values[order] - values.mean(), weights[order]
    total, first, second = (np.concatenate([[0.0], np.cumsum(part)]) for part in (w, w * x, w * x * x))
    with np.errstate(invalid="ignore", divide="ignore"):
        together = np.subtract.outer(first, first) ** 2 / np.subtract.outer(total, total)
    # cost[j, i]: squared length that values i … j − 1 add when they are made one.
    cost = np.subtract.outer(second, second) - np.where(np.isfinite(together), together, 0.0)
    cost = np.where(np.tri(size + 1, k=-1, dtype=bool), np.maximum(cost, 0.0), np.inf)
    best, starts = cost[:, 0].copy(), []
    best[0] = np.inf
    shortest, chosen = problem.data_bits(rss) + size * parameters * problem.parameter_bits, 0
    for groups in range(2, size):
        options = cost + best[None, :]
        starts.append(options.argmin(axis=1))
        best = options.min(axis=1)
        told = groups * parameters * problem.parameter_bits + size * math.log2(groups)
        bits = float(problem.data_bits(rss + best[size])) + told
        if bits < shortest:
            shortest, chosen = bits, groups
    if not chosen:
        return None
    groups_of = np.empty(size, np.int64)
    end = size
    for group in range(chosen - 1, -1, -1):
        start = int(starts[group - 1][end]) if group else 0
        groups_of[order[start:end]] = group
        end = start
    return tuple(groups_of.tolist())


def _with_shared_thresholds(rest: State, function: Function, scope: Scope) -> Function | None:
    """Return a function whose step has a threshold for each value of a scope, the best ones; None where there is no such step."""
    problem = rest.problem
    steps = [one for one in function.factors if isinstance(one, Step) and one.scope == scope.ungrouped]
    if len(steps) != 1:
        return None
    (step,) = steps
    others = Function(tuple(one for one in function.factors if one is not step))
    compared = np.ones(problem.rows)
    for one in step.compared:
        compared = compared * one.values(problem.numbers, problem.ids)
    falling = np.argsort(-compared, kind="stable").astype(np.int64)
    (best,) = best_thresholds(rest, compared[None], falling[None], problem.values(others)[None], scope, scope)
    if np.isnan(best[:, 1]).any():
        return None
    shared = Step(step.compared, scope, tuple(best[:, 1].tolist()))
    return Function((*others.factors, shared))
