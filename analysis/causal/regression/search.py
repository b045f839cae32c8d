"""Search for the curve with the shortest description: Lemeire et al., section 7.2, eq. (14).

The search adds the term that shortens the description most, tries polynomials of increasing degree, and replaces or
removes each term, until nothing shortens the description.

Cells may share a value: "equal parameter values … are only counted once". Fitted values are never exactly equal, so
nearly equal values are merged if that shortens the description. Which cells share which value also has to be encoded,
at log₂(values) bits per cell; without this cost, a discrete parent would be as cheap as the number behind it (a
datatype as cheap as its size).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from unperturbed.analysis.causal.regression.candidates import Candidates, best_thresholds, spans
from unperturbed.analysis.causal.regression.cells import Scope
from unperturbed.analysis.causal.regression.curve import coefficients_of, refine_exponents
from unperturbed.analysis.causal.regression.forms import (
    CONSTANT,
    CurveFunction,
    Power,
    Step,
    Term,
    functions_of,
    highest_degree,
    product_of,
    steps_of,
)
from unperturbed.analysis.causal.regression.problem import OPERATION_BITS, CurveProblem, Errors, State
from unperturbed.analysis.causal.table.variables import Floats

_FEWEST, _MOST = 3, 60
"""Smallest and largest number of values that are grouped; for two values, other changes already try sharing."""


def share_values(state: State) -> State:
    """Let cells share coefficients and thresholds, term by term, as long as that shortens the description."""
    at = 0 if state.problem.cells.sharing else len(state.terms)
    while at < len(state.terms):
        shared = _share_coefficients(state, at)
        if shared is None or not shared.bits < state.bits:
            at += 1
        else:
            state = shared
    return state


def _share_coefficients(state: State, at: int) -> State | None:
    """Return the state with one term's coefficients shared (and its thresholds, if that is shorter), or None."""
    problem, term = state.problem, state.terms[at]
    size = problem.cells.size(term.scope)
    if term.scope.groups or not _FEWEST <= size <= _MOST:
        return None
    coefficients = coefficients_of(state)[at]
    # Squared error that a value adds if it moves and the other terms compensate as far as they can.
    columns = problem.columns(term)
    rest = problem.state([other for other in state.terms if other is not term])
    free = columns - (columns @ rest.basis.T) @ rest.basis
    # Cells that share a coefficient may also share its threshold.
    parameters = 1 + sum(step.scope == term.scope for step in steps_of([term]))
    groups = _group_values(problem, coefficients, (free * free).sum(axis=1), state.rss, parameters)
    if groups is None:
        return None
    scope = Scope(term.scope.names, groups)
    states = [_replaced(state, at, Term(term.function, scope))]
    if (function := _share_thresholds(rest, term.function, scope)) is not None:
        states.append(_replaced(state, at, Term(function, scope)))
    return min(states, key=lambda candidate: candidate.bits)


def _replaced(state: State, at: int, term: Term) -> State:
    terms = list(state.terms)
    terms[at] = term
    return refine_exponents(state.problem.state(terms))


def _group_values(
    problem: CurveProblem, values: Floats, weights: Floats, rss: float, parameters: int
) -> tuple[int, ...] | None:
    """Return the grouping of neighbouring values with the shortest description; None if grouping does not help."""
    size = len(values)
    order = np.argsort(values, kind="stable")
    x, w = values[order] - values.mean(), weights[order]
    total, first, second = (np.concatenate([[0.0], np.cumsum(part)]) for part in (w, w * x, w * x * x))
    with np.errstate(invalid="ignore", divide="ignore"):
        together = np.subtract.outer(first, first) ** 2 / np.subtract.outer(total, total)
    # cost[j, i]: squared error that is added if values i … j − 1 are merged.
    cost = np.subtract.outer(second, second) - np.where(np.isfinite(together), together, 0.0)
    cost = np.where(np.tri(size + 1, k=-1, dtype=bool), np.maximum(cost, 0.0), np.inf)
    best, starts = cost[:, 0].copy(), []
    best[0] = np.inf
    shortest, chosen = problem.data_bits(rss) + size * parameters * problem.parameter_bits, 0
    for groups in range(2, size):
        options = cost + best[None, :]
        starts.append(options.argmin(axis=1))
        best = options.min(axis=1)
        coding_bits = groups * parameters * problem.parameter_bits + size * math.log2(groups)
        bits = float(problem.data_bits(rss + best[size])) + coding_bits
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


def _share_thresholds(rest: State, function: CurveFunction, scope: Scope) -> CurveFunction | None:
    """Return the function with its step's best threshold for each value of a scope; None if there is no such step."""
    problem = rest.problem
    steps = [factor for factor in function.factors if isinstance(factor, Step) and factor.scope == scope.ungrouped]
    if len(steps) != 1:
        return None
    (step,) = steps
    others = CurveFunction(tuple(factor for factor in function.factors if factor is not step))
    compared = product_of(step.compared, problem.numbers, problem.ids)
    falling = np.argsort(-compared, kind="stable").astype(np.int64)
    (best,) = best_thresholds(rest, compared[None], falling[None], problem.values(others)[None], scope, scope)
    if np.isnan(best[:, 1]).any():
        return None
    shared = Step(step.compared, scope, tuple(best[:, 1].tolist()))
    return CurveFunction((*others.factors, shared))


_MOST_TERMS = 8
_ROUNDS = 4
_WORTH_FITTING = 3.0
"""A power's exponent is fitted if its estimated length exceeds the best by less than this many bits."""
_SAME_BITS = 1e-6
_MOST_REPLACED = 16


class CurveSearch:
    """Search for the curve with the shortest description."""

    def __init__(self, problem: CurveProblem) -> None:
        self._problem = problem
        self._candidates = Candidates(problem)

    def constant(self) -> State:
        """Return the best curve without numeric parents."""
        states = [self._problem.state([Term(CONSTANT, scope)]) for scope in self._candidates.constant_scopes]
        return min(states, key=lambda state: state.bits)

    def multiple(self) -> State | None:
        """Return the best multiple of a positive function without fitted numbers, if errors are factors; else None.

        A curve of logarithms has an exponent for each parent, which would make z = a·y as long as z = a·x^b.
        """
        problem = self._problem
        functions = [
            function for function in functions_of(problem.numbers) if function.factors and not function.has_exponent
        ]
        with np.errstate(over="ignore"):
            usable = [
                function
                for function in functions
                if (values := problem.values(function)).min() > 0 and values.max() < math.inf
            ]
        states = [
            problem.divided_by(function).state([Term(CONSTANT, scope)])
            for scope in self._candidates.constant_scopes
            for function in usable
        ]
        return min(states, key=lambda state: state.bits, default=None)

    def initial(self) -> State:
        """Return the initial curve: a polynomial if it is exact, else terms added one by one."""
        constant = self.constant()
        polynomial = self.try_polynomials(constant)
        return polynomial if polynomial.exact else self.add_terms(constant)

    def improve(self, state: State) -> State:
        """Apply all kinds of changes until none shortens the description."""
        changes = (self.try_polynomials, self.replace_terms, share_values, self.add_terms)
        unchanged = 0
        for number in range(len(changes) * _ROUNDS):
            changed = changes[number % len(changes)](state)
            unchanged = 0 if changed.bits < state.bits else unchanged + 1
            state = changed
            if unchanged == len(changes) - 1:
                break
        return state

    def add_terms(self, state: State) -> State:
        """Add the best term as long as it shortens the description."""
        while len(state.terms) < _MOST_TERMS and not state.exact:
            longer = self.add_best_term(state)
            if longer is None or not longer.bits < state.bits:
                break
            state = longer
        return state

    def try_polynomials(self, state: State) -> State:
        """Try to replace all terms of one parent alone by a polynomial.

        Section 7.2 stops when the description length starts to increase. Because x² alone gains nothing before its
        second degree, all degrees are tried, each with all lower degrees.
        """
        problem = self._problem
        if problem.errors == "factor":
            return state
        best = state
        for name, x in problem.numbers.items():
            rest = problem.state([term for term in state.terms if term.function.names != {name}])
            powers = [CurveFunction((Power(name, float(degree)),)) for degree in range(1, highest_degree(x) + 1)]
            own = np.cumsum([problem.function_bits(power) + OPERATION_BITS for power in powers])
            own -= 0 if rest.terms else OPERATION_BITS
            for scope in self._candidates.curve_scopes:
                if scope.names == (name,):
                    continue
                terms = [Term(power, scope) for power in powers]
                explained, rank = rest.would_explain(terms)
                bits = (
                    problem.hypothesis_bits(rest.terms, len(rest.basis))
                    + own
                    + np.cumsum(rank) * problem.parameter_bits
                )
                bits += problem.data_bits(np.maximum(rest.rss - np.cumsum(explained), 0))
                bits[(rank == 0) | (len(rest.basis) + np.cumsum(rank) > self._candidates.most)] = np.inf
                degree = int(bits.argmin()) + 1
                if bits[degree - 1] < best.bits:
                    best = min(best, rest.extended(terms[:degree]), key=lambda candidate: candidate.bits)
        return best

    def replace_terms(self, state: State) -> State:
        """Replace each term by the best other term, or remove it, as long as that shortens the description.

        A constant may only compensate for a term that fits badly, so it is also removed together with each other term.
        """
        at, replaced = 0, 0
        while at < len(state.terms) and replaced < _MOST_REPLACED:
            term = state.terms[at]
            rest = self._problem.state([other for other in state.terms if other is not term])
            states = [state, self.add_best_term(rest, instead_of=term), rest if rest.terms else None]
            others = [other for other in rest.terms if other.function.factors]
            if term.function.factors and len(others) < len(rest.terms):
                states.append(self.add_best_term(self._problem.state(others), instead_of=term))
            best = min(
                (candidate for candidate in states if candidate is not None), key=lambda candidate: candidate.bits
            )
            if best.bits < state.bits - _SAME_BITS:
                state, at, replaced = best, 0, replaced + 1
            else:
                at += 1
        return state

    def add_best_term(self, state: State, instead_of: Term | None = None) -> State | None:
        """Return the shortest description with one more term, even if longer than before; None if no term is usable."""
        further = self._candidates.further(state, instead_of)
        best, promised = self._candidates.best(state, self._candidates.options)
        if further is not None:
            other, _ = self._candidates.best(state, further)
            best = min(
                (candidate for candidate in (best, other) if candidate is not None),
                key=lambda candidate: candidate.bits,
                default=None,
            )
        states = [] if best is None else [refine_exponents(_add_term(state, best.term))]
        if promised is not None and (best is None or promised.bits < best.bits + _WORTH_FITTING):
            states.append(refine_exponents(_add_term(state, promised.term)))
        usable = [
            extended
            for extended in states
            if len(extended.basis) <= self._candidates.most and math.isfinite(extended.bits)
        ]
        return min(usable, key=lambda extended: extended.bits, default=None)


def _add_term(state: State, term: Term) -> State:
    return state.extended([term], [other for other in state.terms if spans(term, other)])


_EXPLAINED = 0.1
"""If a curve leaves more than this share of the target's variance, residuals are not only errors."""
_LARGER_ABOVE = 1.5
"""Ratio of mean squared residuals above and below the median of a curve: with even errors, 1 ± 0.14 at 400 rows; with
proportional errors of a curve over a factor of 4, more than 4."""
_WORTH_FACTORS = 2.0
"""Bits that a multiple with errors as factors must save to be chosen."""
_WORTH_IMPROVING = 0.5
"""A kind of errors is searched to the end only if it exceeds the best by less than this many bits per row."""
_WEIGHINGS, _SETTLED_BITS = 20, 1e-3
"""Maximum number of times that a curve's rows are reweighted, and the change in bits that ends this."""


def shortest_state(kinds: Sequence[Errors], problem_of: Callable[..., CurveProblem]) -> State:
    """Return the shortest description over all kinds of errors; `problem_of` is `make_problem` for one target."""
    started: dict[Errors, tuple[CurveSearch, State]] = {}

    def start(kind: Errors, level: Floats | None = None) -> tuple[CurveSearch, State]:
        search = CurveSearch(problem_of(errors=kind, level=level))
        return search, search.initial()

    for kind in kinds:
        level: Floats | None = None
        if kind == "proportional":
            # If errors are factors, curves are products and always positive.
            _, product = started.get("factor") or start("factor")
            level = np.exp(_curve(product))
        started[kind] = start(kind, level)
        state = started[kind][1]
        if state.exact or (kind == "even" and not _errors_may_grow(state)):
            break
    multiple: State | None = None
    ended: list[State] = []
    # A kind is searched to the end only if it may still be the shortest.
    for search, state in sorted(started.values(), key=lambda pair: pair[1].bits):
        least = min((final.bits for final in ended), default=math.inf)
        if state.bits < least + _WORTH_IMPROVING * state.problem.rows and not any(final.exact for final in ended):
            ended.append(_reweight(refine_exponents(search.improve(state), closest=True)))
            if state.problem.errors == "factor":
                multiple = search.multiple()
    # Proportional errors require a positive curve.
    sensible = [final for final in ended if final.problem.errors != "proportional" or (_curve(final) > 0).all()]
    best = min(sensible or ended, key=lambda final: final.bits)
    # Small proportional errors can equally well be factors.
    return best if multiple is None or multiple.bits > best.bits - _WORTH_FACTORS else multiple


def _reweight(state: State) -> State:
    """Refit a state with proportional errors by iterated weights, with the same terms; return others unchanged."""
    if state.problem.errors != "proportional" or state.exact:
        return state
    for _ in range(_WEIGHINGS):
        level = _curve(state)
        if not (level > 0).all():
            break
        before, state = state.bits, refine_exponents(state.problem.weighted_by(level).state(state.terms), closest=True)
        if abs(state.bits - before) < _SETTLED_BITS:
            break
    return state


def _curve(state: State) -> Floats:
    """Return the curve's value in each row, in the problem's order; its logarithm if errors are factors."""
    return np.asarray((state.problem.target - state.residual) / state.problem.weights)


def _errors_may_grow(state: State) -> bool:
    """Return whether residuals are larger where the curve is high, or the curve explains too little to decide."""
    curve = state.problem.target - state.residual
    high = curve > np.median(curve)
    if state.rss > _EXPLAINED * np.var(state.problem.target) * len(curve) or not high.any():
        return True
    return bool(np.mean(state.residual[high] ** 2) > _LARGER_ABOVE * np.mean(state.residual[~high] ** 2))
