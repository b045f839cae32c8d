"""Candidate functions of parents, and which term would shorten the description most if it were added.

Lemeire et al., "Causal analysis for performance modeling of computer programs", section 7.2, eq. (14): "The model class
M is populated with functions appropriate for the system under study."
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.curves.forms import CONSTANT, Factor, Function, Log, Power, Term
from unperturbed.analysis.causal.regression.curves.problem import (
    OPERATION_BITS,
    TOLERANCE,
    Problem,
    State,
    compiled_loop,
)
from unperturbed.analysis.causal.table.variables import Codes, Floats

_HIGHEST_DEGREE = 5
_EXPONENTS = (-3.0, -1.5, -0.75, -0.25, 0.25, 0.75, 1.25, 1.5, 1.75, 2.25, 2.5, 2.75, 3.5)
"""Where the search for a fitted exponent starts."""
_HIGHEST_EXPONENT = 6.0
_MOST_IN_PRODUCTS = 8
"""Parents beyond these are not multiplied with each other: their products would outnumber all else."""


def functions_of(numbers: Mapping[str, Floats]) -> list[Function]:
    """Return candidates for a curve: powers, roots, inverse and logarithm of each parent, products of two and three."""
    found = [CONSTANT]
    for name, x in numbers.items():
        distinct = _distinct(x)
        found += [Function((Power(name, float(degree)),)) for degree in range(1, highest_degree(x) + 1)]
        if distinct < 3:
            continue
        if (x != 0).all():
            found += [Function((Power(name, -1.0),)), Function((Power(name, -2.0),))]
        if (x >= 0).all():
            found.append(Function((Power(name, 0.5),)))
        if (x > 0).all():
            found += [Function((Log(name),)), Function((Power(name), Log(name)))]
            if distinct > 3:
                found += [Function((Power(name, exponent, fitted=True),)) for exponent in _EXPONENTS]
    names = list(numbers)[:_MOST_IN_PRODUCTS]
    for one, other in combinations(names, 2):
        found.append(Function((Power(one), Power(other))))
    for one, other in permutations(names, 2):
        found.append(Function((Power(one, 2.0), Power(other))))
        if (numbers[other] != 0).all():
            found.append(Function((Power(one), Power(other, -1.0))))
    found += [Function(tuple(Power(one) for one in three)) for three in combinations(names, 3)]
    return found


def logarithmic_functions_of(numbers: Mapping[str, Floats]) -> list[Function]:
    """Return candidates for the logarithm of a product curve: powers of positive parents, exponentials of all."""
    found = [CONSTANT]
    for name, x in numbers.items():
        if (x > 0).all():
            found.append(Function((Log(name),)))
        found.append(Function((Power(name),)))
    return found


def highest_degree(x: Floats) -> int:
    """Return the highest degree of a polynomial of a parent."""
    return min(_HIGHEST_DEGREE, _distinct(x) - 1)


def multiply(function: Function, factor: Factor) -> Function:
    """Return a function multiplied by a factor: exponents of the same parent are added."""
    if not isinstance(factor, Power) or factor.fitted:
        return Function((*function.factors, factor))
    kept: list[Factor] = []
    exponent = factor.exponent
    for one in function.factors:
        if isinstance(one, Power) and not one.fitted and one.name == factor.name:
            exponent += one.exponent
        else:
            kept.append(one)
    if exponent:
        kept.append(Power(factor.name, exponent))
    return Function(tuple(sorted(kept, key=_kind)))


class TermProducts:
    """The functions of terms, each multiplied and divided by each parent, without those that are known."""

    def __init__(self, numbers: Mapping[str, Floats], known: Container[Function]) -> None:
        self._factors = [Power(name) for name in numbers]
        self._factors += [Power(name, -1.0) for name, x in numbers.items() if (x != 0).all()]
        self._known = known
        self._made: dict[Function, list[Function]] = {}

    def of(self, terms: Iterable[Term]) -> list[Function]:
        """Return what follows from some terms; their own functions first."""
        found: dict[Function, None] = {}
        for term in terms:
            if term.function not in self._made:
                every = [term.function, *(multiply(term.function, factor) for factor in self._factors)]
                self._made[term.function] = [one for one in every if one not in self._known and _is_moderate(one)]
            found |= dict.fromkeys(self._made[term.function])
        return list(found)


def _is_moderate(function: Function) -> bool:
    return all(abs(factor.exponent) <= _HIGHEST_EXPONENT for factor in function.factors if isinstance(factor, Power))


def compared_products(numbers: Mapping[str, Floats]) -> list[tuple[Power, ...]]:
    """Return what steps may compare with a threshold: parents, and products of two positive ones, one of them
    squared or not."""
    varied = [name for name, x in numbers.items() if _distinct(x) > 2]
    found: list[tuple[Power, ...]] = [(Power(name),) for name in varied]
    positive = [name for name in varied if (numbers[name] > 0).all()][:_MOST_IN_PRODUCTS]
    found += [(Power(one), Power(other)) for one, other in combinations(positive, 2)]
    found += [(Power(one, 2.0), Power(other)) for one, other in permutations(positive, 2)]
    return found


def _distinct(x: Floats) -> int:
    """Return the number of different values; only of the first rows if these have more than a few."""
    first = len(np.unique(x[:200]))
    return first if first > _HIGHEST_DEGREE else len(np.unique(x))


def _kind(factor: Factor) -> tuple[int, str]:
    order: Sequence[type] = (Power, Log)
    return (order.index(type(factor)) if type(factor) in order else len(order), getattr(factor, "name", ""))


_FEWEST_ROWS_A_CURVE = 6
"""On average, for a function to have a coefficient in each cell."""
_MOST_VALUES, _MOST_CONSTANTS = 60, 200
"""Largest size of a scope, for coefficients of functions and for constants: each needs a system of as many
equations."""


@dataclass(frozen=True)
class Candidate:
    """A term that may be added, and the length of the description with it."""

    bits: float
    term: Term


@dataclass(frozen=True, eq=False)
class Options:
    """Functions that may be added."""

    functions: Sequence[Function]  # The functions
    values: Floats  # (functions, rows): Weighted, and none larger than 1
    own_bits: Floats  # (functions,): What each adds to L(H), without its coefficients

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
        """Triples of powers of one parent with neighbouring exponents, between which another may lie: shape
        (triples, 3)."""
        return _neighbours(self.functions, self.exponents)

    @cached_property
    def numbers(self) -> Mapping[Function, int]:
        """The position of each function."""
        return {function: number for number, function in enumerate(self.functions)}


class Candidates:
    """Finds what may be added to the terms of a problem.

    Attributes
    ----------
    problem : Problem
        The regression.
    scopes : tuple of Scope
        The scopes that coefficients may have.
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
        """Return the function and scope that give the shortest description, and the most promising power to fit."""
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
        base_bits = problem.hypothesis_bits(state.terms, len(state.basis)) + (OPERATION_BITS if state.terms else 0)
        left = np.maximum(state.rss - gain, 0)
        bits = base_bits + own + rank * problem.parameter_bits + problem.data_bits(left)
        bits[rank == 0] = np.inf
        # The exponents of what follows from terms are not fitted anew.
        standing = options is self.options and len(options.between)
        return self._chosen(bits, options.functions), self._promising_power(
            base_bits, left, rank, options
        ) if standing else None

    def _chosen(self, bits: Floats, functions: Sequence[Function]) -> Candidate | None:
        """Return the shortest."""
        number, scope = divmod(int(bits.argmin()), bits.shape[1])
        if not np.isfinite(bits[number, scope]):
            return None
        return Candidate(float(bits[number, scope]), Term(functions[number], self.scopes[scope]))

    def _promising_power(self, base_bits: float, left: Floats, rank: Codes, options: Options) -> Candidate | None:
        """Return the power of a parent that promises the shortest description once its exponent is fitted.

        Its residual sum of squares is estimated from those of powers with exponents near it: the minimum of the
        parabola through three.
        """
        below, at, above = options.between.T
        c, one, two = (
            options.exponents[at],
            *(options.exponents[each] - options.exponents[at] for each in (below, above)),
        )
        # The parabola through (one, left[below]), (0, left[at]) and (two, left[above]).
        first, second = ((left[each] - left[at]) / width[:, None] for each, width in ((below, one), (above, two)))
        bend = (second - first) / (two - one)[:, None]
        slope = first - bend * one[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.where(bend > 0, -slope / (2 * bend), np.nan)
            inside = (moved > one[:, None]) & (moved < two[:, None]) & (rank[at] > 0)
            least = np.where(inside, np.maximum(left[at] - slope**2 / (4 * bend), 0), np.inf)
        own = self.problem.parameter_bits + 2 * OPERATION_BITS
        bits = np.where(
            inside, base_bits + own + rank[at] * self.problem.parameter_bits + self.problem.data_bits(least), np.inf
        )
        number, scope = divmod(int(bits.argmin()), bits.shape[1])
        if not np.isfinite(bits[number, scope]):
            return None
        name = next(iter(options.functions[at[number]].names))
        power = Power(name, float(c[number] + moved[number, scope]), fitted=True)
        return Candidate(float(bits[number, scope]), Term(Function((power,)), self.scopes[scope]))

    def _fill_gains(self, state: State, values: Floats, sizes: Codes, gain: Floats, rank: Codes) -> None:
        """Fill in what each function explains by each scope, and by how many coefficients."""
        compiled_loop("gains")(
            state.residual, state.basis, values, self.problem.starts, self._values_of, sizes, TOLERANCE, gain, rank
        )


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
