"""Candidates: which term would shorten the description most if it were added.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2, eq. (14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.forms import CONSTANT, Function, Power, Term
from unperturbed.analysis.causal.regression.library import functions_of, logarithmic_functions_of
from unperturbed.analysis.causal.regression.problem import OPERATION_BITS, TOLERANCE, Problem, State, kernel

__all__ = ["Candidate", "Candidates", "Options", "spans"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_FEWEST_ROWS_A_CURVE = 6
"""On average, for a function to have a coefficient in each cell."""
_MOST_VALUES, _MOST_CONSTANTS = 60, 200
"""Of a scope, for the coefficients of functions and for constants: what these explain is solved by systems of as many equations."""


@dataclass(frozen=True)
class Candidate:
    """A term that may be added, and the length of the description with it."""

    bits: float
    term: Term


@dataclass(frozen=True, eq=False)
class Options:
    """Functions that may be added.

    Attributes
    ----------
    functions : sequence of Function
    values : float64, shape (functions, rows)
        Weighted, and none larger than 1.
    own_bits : float64, shape (functions,)
        What each adds to L(H), without its coefficients.
    """

    functions: Sequence[Function]
    values: Floats
    own_bits: Floats

    @classmethod
    def of(cls, problem: Problem, functions: Sequence[Function]) -> Options:
        """Evaluate functions; those that overflow somewhere are left out."""
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
        own = np.array([problem.function_bits(one) for one in functions])
        return cls(functions, values, own)

    @cached_property
    def exponents(self) -> Floats:
        """Of functions that are a power of one parent; 0 for others: shape (functions,)."""
        return np.array([_exponent(one) for one in self.functions])

    @cached_property
    def between(self) -> Codes:
        """Powers of one parent with neighbouring exponents, between which another exponent may lie: shape (triples, 3)."""
        return _neighbours(self.functions, self.exponents)

    @cached_property
    def numbers(self) -> Mapping[Function, int]:
        """Where each function stands."""
        return {function: number for number, function in enumerate(self.functions)}


class Candidates:
    """Finds what may be added to the terms of a problem.

    Attributes
    ----------
    problem : Problem
    scopes : tuple of Scope
    curve_sizes : int64, shape (scopes,)
        How many coefficients a function has by each scope; 0 for scopes of too many.
    options : Options
        Functions that may always be added.
    most : int
        Coefficients altogether.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        cells, rows = problem.cells, problem.rows
        self.scopes = cells.scopes
        self.most = max(rows // 3, 1)
        self._values_of = np.array([_values_of(cells, scope) for scope in self.scopes])
        sizes = np.array([cells.size(scope) for scope in self.scopes])
        # A constant may have a value in each cell, however small; a curve needs more rows.
        self.constant_sizes = np.where(sizes <= min(_MOST_CONSTANTS, self.most), sizes, 0)
        self.curve_sizes = np.where((sizes <= _MOST_VALUES) & (sizes * _FEWEST_ROWS_A_CURVE <= rows), sizes, 0)
        self.curve_sizes[0] = 1
        known = logarithmic_functions_of if problem.errors == "factor" else functions_of
        self.options = Options.of(problem, known(problem.numbers))

    def best(self, state: State, options: Options) -> tuple[Candidate | None, Candidate | None]:
        """Return the function, with coefficients by some scope, that makes the description shortest, and what a fitted exponent promises."""
        problem, size = self.problem, (len(options.functions), len(self.scopes))
        if not size[0]:
            return None, None
        gain, rank = np.empty(size), np.empty(size, np.int64)
        self._fill_gains(state, options.values, self.curve_sizes, gain, rank)
        constant = options.numbers.get(CONSTANT)
        if constant is not None and (self.curve_sizes != self.constant_sizes).any():
            which = slice(constant, constant + 1)
            self._fill_gains(state, options.values[which], self.constant_sizes, gain[which], rank[which])
        rank[len(state.basis) + rank > self.most] = 0
        own = options.own_bits[:, None].repeat(size[1], axis=1)
        for term in state.terms:
            number = options.numbers.get(term.function)
            if number is not None:
                spanned = np.array([spans(Term(term.function, scope), term) for scope in self.scopes])
                own[number] = np.where(spanned, -OPERATION_BITS, np.minimum(own[number], 0.0))
        told = problem.hypothesis_bits(state.terms, len(state.basis)) + (OPERATION_BITS if state.terms else 0)
        left = np.maximum(state.rss - gain, 0)
        bits = told + own + rank * problem.parameter_bits + problem.data_bits(left)
        bits[rank == 0] = np.inf
        # The exponents of what follows from terms are not fitted anew.
        standing = options is self.options and len(options.between)
        return self._chosen(bits, options.functions), self._promised(told, left, rank, options) if standing else None

    def _chosen(self, bits: Floats, functions: Sequence[Function]) -> Candidate | None:
        """Return the shortest."""
        number, scope = divmod(int(bits.argmin()), bits.shape[1])
        if not np.isfinite(bits[number, scope]):
            return None
        return Candidate(float(bits[number, scope]), Term(functions[number], self.scopes[scope]))

    def _promised(self, told: float, left: Floats, rank: Codes, options: Options) -> Candidate | None:
        """Return the power of a parent that promises the shortest description when its exponent is fitted.

        What it would leave is told from what powers with exponents near it leave: the lowest point of a parabola through three.
        """
        below, at, above = options.between.T
        c, one, two = options.exponents[at], *(options.exponents[each] - options.exponents[at] for each in (below, above))
        # The parabola through (one, left[below]), (0, left[at]) and (two, left[above]).
        first, second = ((left[each] - left[at]) / width[:, None] for each, width in ((below, one), (above, two)))
        bend = (second - first) / (two - one)[:, None]
        slope = first - bend * one[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(bend > 0, -slope / (2 * bend), np.nan)
            inside = (moved > one[:, None]) & (moved < two[:, None]) & (rank[at] > 0)
            least = np.where(inside, np.maximum(left[at] - slope**2 / (4 * bend), 0), np.inf)
        own = self.problem.parameter_bits + 2 * OPERATION_BITS
        bits = np.where(inside, told + own + rank[at] * self.problem.parameter_bits + self.problem.data_bits(least), np.inf)
        number, scope = divmod(int(bits.argmin()), bits.shape[1])
        if not np.isfinite(bits[number, scope]):
            return None
        name = next(iter(options.functions[at[number]].names))
        power = Power(name, float(c[number] + moved[number, scope]), fitted=True)
        return Candidate(float(bits[number, scope]), Term(Function((power,)), self.scopes[scope]))

    def _fill_gains(self, state: State, values: Floats, sizes: Codes, gain: Floats, rank: Codes) -> None:
        """Fill in what each function explains by each scope, and by how many coefficients."""
        kernel("gains")(state.residual, state.basis, values, self.problem.starts, self._values_of, sizes, TOLERANCE, gain, rank)


def _values_of(cells: Cells, scope: Scope) -> Codes:
    """Return which value of a scope each cell of all discrete parents has."""
    full = cells.combinations(cells.full)
    codes = {name: cells.coded(name, [one[name] for one in full]) for name in cells.full.names}
    return cells.ids(scope, codes, len(full))


def spans(term: Term, other: Term) -> bool:
    """Tell whether a term's columns make up all those of another."""
    return term.function == other.function and other.scope.within(term.scope)


def _exponent(function: Function) -> float:
    """Return the exponent of a power of one parent, or 0."""
    match function.factors:
        case (Power(exponent=exponent),):
            return exponent
    return 0.0


def _neighbours(functions: Sequence[Function], exponents: Floats) -> Codes:
    """Return powers of one parent, three with neighbouring exponents at a time."""
    by_name: dict[str, list[int]] = {}
    for number in np.flatnonzero(exponents).tolist():
        by_name.setdefault(next(iter(functions[number].names)), []).append(number)
    found = []
    for numbers in by_name.values():
        rising = sorted(numbers, key=lambda number: float(exponents[number]))
        if any(functions[number].has_exponent for number in rising):
            found += list(zip(rising, rising[1:], rising[2:], strict=False))
    return np.array(found, np.int64).reshape(-1, 3)
