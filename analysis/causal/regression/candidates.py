"""Candidate functions of parents, and the search for the term that shortens the description most.

Lemeire et al., section 7.2, eq. (14); section 8.3, eq. (17), adds steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unperturbed.analysis.causal.regression.cells import EVERYWHERE, Cells, Scope
from unperturbed.analysis.causal.regression.forms import (
    CONSTANT,
    CurveFunction,
    Power,
    Step,
    Term,
    compared_products,
    functions_of,
    is_moderate,
    logarithmic_functions_of,
    multiply,
    product_of,
    steps_of,
)
from unperturbed.analysis.causal.regression.loops import compiled_loop
from unperturbed.analysis.causal.regression.problem import OPERATION_BITS, TOLERANCE, CurveProblem, State
from unperturbed.analysis.causal.table.variables import Codes, Floats

_FEWEST_ROWS_A_CURVE = 6
"""Minimum average rows per cell for a function to have a coefficient in each cell."""
_FEWEST_ABOVE = 3
"""Minimum number of rows on each side of a threshold: fewer would be outliers."""
_MOST_STEPS = 3
"""Maximum number of steps: a long chain of steps can follow any curve without describing it."""
_MOST_VALUES, _MOST_CONSTANTS = 60, 200
"""Largest size of a scope, for coefficients of functions and for constants: each needs a system of as many
equations."""


@dataclass(frozen=True)
class Candidate:
    """Term that may be added, and the length of the description with it."""

    bits: float
    term: Term


@dataclass(frozen=True, eq=False)
class CandidateFunctions:
    """Functions that may be added to a curve."""

    functions: Sequence[CurveFunction]  # The functions
    values: Floats  # (functions, rows): Their values, weighted and scaled to at most 1
    own_bits: Floats  # (functions,): Bits that each adds to L(H), without its coefficients

    @classmethod
    def of(cls, problem: CurveProblem, functions: Sequence[CurveFunction]) -> CandidateFunctions:
        """Evaluate functions, and leave out those that overflow in some row."""
        values = np.empty((len(functions), problem.rows))
        with np.errstate(over="ignore"):
            for at, function in enumerate(functions):
                values[at] = problem.values(function)
        lengths = np.abs(values).max(axis=1)
        usable = np.isfinite(lengths) & (lengths > 0)
        if not usable.all():
            functions = [function for function, good in zip(functions, usable.tolist(), strict=True) if good]
            values, lengths = values[usable], lengths[usable]
        values /= lengths[:, None]
        own = np.array([problem.function_bits(function) for function in functions])
        return cls(functions, values, own)

    @cached_property
    def exponents(self) -> Floats:
        """Exponents of functions that are a power of one parent; 0 for others: shape (functions,)."""
        return np.array([_exponent(function) for function in self.functions])

    @cached_property
    def between(self) -> Codes:
        """Triples of powers of one parent with neighbouring exponents, to interpolate: shape (triples, 3)."""
        return _neighbours(self.functions, self.exponents)

    @cached_property
    def numbers(self) -> Mapping[CurveFunction, int]:
        """The index of each function."""
        return {function: number for number, function in enumerate(self.functions)}


class Candidates:
    """Search for terms that may be added to a curve."""

    def __init__(self, problem: CurveProblem) -> None:
        self.problem = problem
        cells, rows = problem.cells, problem.rows
        self.most = max(rows // 3, 1)  # Maximum total of coefficients
        self._scopes = cells.scopes
        self._values_of = np.array([_values_of(cells, scope) for scope in self._scopes])
        sizes = np.array([cells.size(scope) for scope in self._scopes])
        # Number of coefficients that a constant and a curve have in each scope; 0 if too many. A constant may have a
        # value in each cell, however small; a curve needs more rows.
        self._constant_sizes = np.where(sizes <= min(_MOST_CONSTANTS, self.most), sizes, 0)
        self._curve_sizes = np.where((sizes <= _MOST_VALUES) & (sizes * _FEWEST_ROWS_A_CURVE <= rows), sizes, 0)
        self._curve_sizes[0] = 1
        self.constant_scopes, self.curve_scopes = (
            [scope for scope, size in zip(self._scopes, some.tolist(), strict=True) if size]
            for some in (self._constant_sizes, self._curve_sizes)
        )
        known = logarithmic_functions_of if problem.errors == "factor" else functions_of
        self.options = CandidateFunctions.of(problem, known(problem.numbers))  # Functions that may always be added
        self._steps = Steps(problem, self.curve_scopes)
        self._factors = [Power(name) for name in problem.numbers]
        self._factors += [Power(name, -1.0) for name, x in problem.numbers.items() if (x != 0).all()]
        self._products: dict[CurveFunction, list[CurveFunction]] = {}

    def further(self, state: State, instead_of: Term | None) -> CandidateFunctions | None:
        """Return candidates: products and steps made from a state's terms, and the function of the term to replace."""
        candidates: dict[CurveFunction, None] = {}
        if self.problem.errors != "factor":
            for term in state.terms:
                candidates |= dict.fromkeys(self._products_of(term.function))
        if instead_of is not None and instead_of.function not in self.options.numbers:
            candidates[instead_of.function] = None
        if len(steps_of(state.terms)) < _MOST_STEPS and (instead_of is None or steps_of([instead_of])):
            candidates |= dict.fromkeys(self._steps.best(state))
        return CandidateFunctions.of(self.problem, list(candidates)) if candidates else None

    def _products_of(self, function: CurveFunction) -> list[CurveFunction]:
        """Return a function and its products and quotients with each parent, without functions that `options` has."""
        if function not in self._products:
            every = [function, *(multiply(function, factor) for factor in self._factors)]
            self._products[function] = [
                candidate for candidate in every if candidate not in self.options.numbers and is_moderate(candidate)
            ]
        return self._products[function]

    def best(self, state: State, options: CandidateFunctions) -> tuple[Candidate | None, Candidate | None]:
        """Return the term that gives the shortest description, and the most promising power to fit, or None."""
        problem, size = self.problem, (len(options.functions), len(self._scopes))
        if not size[0]:
            return None, None
        gain, rank = np.empty(size), np.empty(size, np.int64)
        self._fill_gains(state, options.values, self._curve_sizes, gain, rank)
        constant = options.numbers.get(CONSTANT)
        if constant is not None and (self._curve_sizes != self._constant_sizes).any():
            which = slice(constant, constant + 1)
            self._fill_gains(state, options.values[which], self._constant_sizes, gain[which], rank[which])
        rank[len(state.basis) + rank > self.most] = 0
        own = options.own_bits[:, None].repeat(size[1], axis=1)
        for term in state.terms:
            number = options.numbers.get(term.function)
            if number is not None:
                spanned = np.array([spans(Term(term.function, scope), term) for scope in self._scopes])
                own[number] = np.where(spanned, -OPERATION_BITS, np.minimum(own[number], 0.0))
        base_bits = problem.hypothesis_bits(state.terms, len(state.basis)) + (OPERATION_BITS if state.terms else 0)
        left = np.maximum(state.rss - gain, 0)
        bits = base_bits + own + rank * problem.parameter_bits + problem.data_bits(left)
        bits[rank == 0] = np.inf
        # Exponents of functions that follow from terms are not fitted again.
        standing = options is self.options and len(options.between)
        number, scope, length = _least(bits)
        best = Candidate(length, Term(options.functions[number], self._scopes[scope])) if np.isfinite(length) else None
        return best, self._promising_power(base_bits, left, rank, options) if standing else None

    def _promising_power(
        self, base_bits: float, left: Floats, rank: Codes, options: CandidateFunctions
    ) -> Candidate | None:
        """Return the power of a parent with the shortest estimated description after fitting its exponent.

        The estimate is the minimum of the parabola through the residual sums of squares of three exponents.
        """
        below, at, above = options.between.T
        c, lower, upper = (
            options.exponents[at],
            *(options.exponents[each] - options.exponents[at] for each in (below, above)),
        )
        # The parabola through (lower, left[below]), (0, left[at]) and (upper, left[above]).
        first, second = ((left[each] - left[at]) / width[:, None] for each, width in ((below, lower), (above, upper)))
        bend = (second - first) / (upper - lower)[:, None]
        slope = first - bend * lower[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(bend > 0, -slope / (2 * bend), np.nan)
            inside = (moved > lower[:, None]) & (moved < upper[:, None]) & (rank[at] > 0)
            least = np.where(inside, np.maximum(left[at] - slope**2 / (4 * bend), 0), np.inf)
        own = self.problem.parameter_bits + 2 * OPERATION_BITS
        bits = np.where(
            inside, base_bits + own + rank[at] * self.problem.parameter_bits + self.problem.data_bits(least), np.inf
        )
        number, scope, length = _least(bits)
        if not np.isfinite(length):
            return None
        name = next(iter(options.functions[at[number]].names))
        power = Power(name, float(c[number] + moved[number, scope]), fitted=True)
        return Candidate(length, Term(CurveFunction((power,)), self._scopes[scope]))

    def _fill_gains(self, state: State, values: Floats, sizes: Codes, gain: Floats, rank: Codes) -> None:
        """Compute how much each function explains in each scope, and its number of independent coefficients."""
        compiled_loop("gains")(
            state.residual, state.basis, values, self.problem.starts, self._values_of, sizes, TOLERANCE, gain, rank
        )


def _least(bits: Floats) -> tuple[int, int, float]:
    """Return the row, the column and the value of the shortest length; the value is infinite if there is none."""
    number, scope = divmod(int(bits.argmin()), bits.shape[1])
    return number, scope, float(bits[number, scope])


def _values_of(cells: Cells, scope: Scope) -> Codes:
    """Return the index of each cell's value in a scope; cells are those of all discrete parents."""
    full = cells.combinations(cells.full)
    codes = {name: cells.coded(name, [combination[name] for combination in full]) for name in cells.full.names}
    return cells.ids(scope, codes, len(full))


def spans(term: Term, other: Term) -> bool:
    """Return whether a term's columns span all columns of another term."""
    return term.function == other.function and other.scope.within(term.scope)


def _exponent(function: CurveFunction) -> float:
    """Return the exponent of a power of one parent, or 0."""
    match function.factors:
        case (Power(exponent=exponent),):
            return exponent
    return 0.0


def _neighbours(functions: Sequence[CurveFunction], exponents: Floats) -> Codes:
    """Return triples of powers of one parent with neighbouring exponents."""
    by_name: dict[str, list[int]] = {}
    for number in np.flatnonzero(exponents).tolist():
        by_name.setdefault(next(iter(functions[number].names)), []).append(number)
    triples = []
    for numbers in by_name.values():
        rising = sorted(numbers, key=lambda number: float(exponents[number]))
        if any(functions[number].has_exponent for number in rising):
            triples += list(zip(rising, rising[1:], rising[2:], strict=False))
    return np.array(triples, np.int64).reshape(-1, 3)


class Steps:
    """Search for steps at their best thresholds, section 8.3, eq. (17): cache misses jump when the cache is full."""

    def __init__(self, problem: CurveProblem, scopes: Sequence[Scope]) -> None:
        self._problem = problem
        # Thresholds and jumps have a value for each combination of a scope; the last scope is the largest.
        self._pairs = list(dict.fromkeys([*((scope, scope) for scope in scopes), (EVERYWHERE, scopes[-1])]))

    @cached_property
    def _compared(self) -> list[tuple[Power, ...]]:
        return compared_products(self._problem.numbers)

    @cached_property
    def _values(self) -> Floats:
        """Values that each step may compare with its threshold: shape (compared, rows)."""
        rows = [product_of(powers, self._problem.numbers, self._problem.ids) for powers in self._compared]
        return np.array(rows).reshape(-1, self._problem.rows)

    @cached_property
    def _falling(self) -> Codes:
        return np.argsort(-self._values, axis=1, kind="stable").astype(np.int64)

    def best(self, state: State) -> list[CurveFunction]:
        """Return steps at their best thresholds, and the best of each scope multiplied by parents and terms."""
        alone = list(self._steps(state, [(number, CONSTANT) for number in range(len(self._compared))]))
        functions = [function for _, function, _ in alone]
        if self._problem.errors != "factor":
            best: dict[Scope, tuple[float, int]] = {}
            for gained, function, number in alone:
                for scope in function.scopes:
                    best[scope] = max(best.get(scope, (0.0, number)), (gained, number))
            weights = [CurveFunction((Power(name),)) for name in self._problem.numbers]
            weights += [term.function for term in state.terms if term.function.factors and not steps_of([term])]
            # The same comparison may be best for several scopes.
            numbers = dict.fromkeys(number for _, number in best.values())
            weighted = [(number, weight) for number in numbers for weight in dict.fromkeys(weights)]
            functions += [function for _, function, _ in self._steps(state, weighted)]
        return list(dict.fromkeys(functions))

    def _steps(
        self, state: State, weighted: Sequence[tuple[int, CurveFunction]]
    ) -> Iterator[tuple[float, CurveFunction, int]]:
        """Yield how much each step explains, the step, and the index of the product that it compares."""
        if not weighted:
            return
        numbers = [number for number, _ in weighted]
        weights = np.array([self._problem.values(weight) for _, weight in weighted])
        for thresholds_by, jumps_by in self._pairs:
            arrays = self._values[numbers], self._falling[numbers], weights
            thresholds = best_thresholds(state, *arrays, thresholds_by, jumps_by)
            for (number, weight), best in zip(weighted, thresholds, strict=True):
                if not np.isnan(best[:, 1]).any():
                    step = Step(self._compared[number], thresholds_by, tuple(best[:, 1].tolist()))
                    yield float(best[:, 0].sum()), multiply(weight, step), number


def best_thresholds(
    state: State, compared: Floats, falling: Codes, weights: Floats, thresholds_by: Scope, jumps_by: Scope
) -> Floats:
    """Return what each step explains at its best thresholds, and these thresholds: shape (steps, thresholds, 2)."""
    problem = state.problem
    sizes = np.array([problem.cells.size(thresholds_by), problem.cells.size(jumps_by)])
    best = np.empty((len(compared), sizes[0], 2))
    ids = problem.ids(thresholds_by), problem.ids(jumps_by)
    compiled_loop("scan")(
        state.residual, state.transposed, compared, falling, weights, *ids, sizes, _FEWEST_ABOVE, best
    )
    return best
