"""A regression during its search: rows sorted by cell, an orthonormal basis of the terms, and the description length.

Lemeire et al., section 7.2, eq. (14) to (16). Eq. (16) uses the sum of squared errors as L(D | H), which is not in bits
and depends on the target's unit. With normal errors of unknown variance, the code length of the data is ½n·log₂(RSS/n)
plus a constant; this length is used here, or the paper's sum if `coding` is "paper".
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.forms import CurveFunction, Term
from unperturbed.analysis.causal.regression.loops import compiled_loop
from unperturbed.analysis.causal.table.variables import Codes, Floats

Errors = Literal["even", "proportional", "factor"]
"""Even: y = f + e. Proportional: y = f·(1 + e). Factor: ln y = f + e, with f written as a product."""
Coding = Literal["corrected", "paper"]

TOLERANCE = 1e-9
"""A column is independent of others if at least this share of its squared length is new. A polynomial of degree 5 over
a decade needs 1e-7."""
RESOLUTION = 1e-8
"""Residuals below this share of the target's standard deviation count as 0: RSS is floored there, for every kind of
errors."""
_KEPT_BYTES = 30e6
"""Maximum size of the function values that are kept during one search."""
OPERATION_BITS = 8
"""Section 7.2: "1 byte for each operation"."""


@dataclass(frozen=True, eq=False)
class CurveProblem:
    """Target, and the parents that should explain it."""

    target: Floats  # (rows,): The target, sorted by cell and weighted; its logarithm if errors are factors
    # (rows,): Factor of each row of the target and the columns: 1, or the reciprocal of an approximate curve if errors
    # are proportional.
    weights: Floats
    numbers: Mapping[str, Floats]  # (rows,): Numeric parents, sorted by cell
    codes: Mapping[str, Codes]  # (rows,): Discrete parents, sorted by cell
    cells: Cells  # Combinations of the discrete parents
    order: Codes  # (rows,): Rows of the table, in the order of this problem
    starts: Codes  # (cells + 1,): Where the rows of each cell of all discrete parents start
    errors: Errors  # How errors grow with the curve
    coding: Coding  # How L(D | H) is computed
    constant_bits: float  # Part of L(D | H) that makes kinds of errors comparable
    least_bits: float  # Lower bound of L(D | H)
    # If errors are factors: the function that the curve is a multiple of, and that the target was divided by.
    factor: CurveFunction | None = None
    _ids: dict[Scope, Codes] = field(default_factory=dict)
    _values: dict[CurveFunction, Floats] = field(default_factory=dict)
    _function_bits: dict[CurveFunction, float] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    @cached_property
    def parameter_bits(self) -> float:
        """Eq. (15): ½·log₂ n bits for each parameter."""
        return 0.5 * math.log2(self.rows)

    @cached_property
    def _every_row(self) -> Codes:
        return np.arange(self.rows)

    def ids(self, scope: Scope) -> Codes:
        """Return the index of each row's value in a scope: int64, shape (rows,)."""
        if scope not in self._ids:
            self._ids[scope] = self.cells.ids(scope, self.codes, self.rows)
        return self._ids[scope]

    def values(self, function: CurveFunction) -> Floats:
        """Return a function's weighted value in each row: float64, shape (rows,)."""
        known = self._values.get(function)
        if known is None:
            if len(self._values) * self.rows * 8 > _KEPT_BYTES:
                self._values.clear()
            known = function.values(self.numbers, self.ids, self.rows) * self.weights
            self._values[function] = known
        return known

    def columns(self, term: Term) -> Floats:
        """Return a term's columns, weighted: float64, shape (values of its scope, rows)."""
        values = self.values(term.function)
        if not term.scope.names:
            return values[None]
        columns = np.zeros((self.cells.size(term.scope), self.rows))
        columns[self.ids(term.scope), self._every_row] = values
        return columns

    def data_bits(self, rss: Any) -> Any:
        """Return L(D | H) for sums of squared residuals; by the paper's eq. (16), it is the sum itself."""
        if self.coding == "paper":
            return rss
        if isinstance(rss, float):
            bits = 0.5 * self.rows * math.log2(max(rss, sys.float_info.min) / self.rows) + self.constant_bits
            return max(bits, self.least_bits)
        least = np.finfo(float).tiny
        return np.maximum(
            0.5 * self.rows * np.log2(np.maximum(rss, least) / self.rows) + self.constant_bits, self.least_bits
        )

    def function_bits(self, function: CurveFunction) -> float:
        """Return the bits that a new function adds to L(H), without its coefficients."""
        known = self._function_bits.get(function)
        if known is None:
            exponential = self.errors == "factor" and not function.is_logarithm
            operations = function.operations + 1 + exponential if function.factors else 0
            known = function.parameters * self.parameter_bits + OPERATION_BITS * operations + function.integer_bits
            self._function_bits[function] = known
        return known

    def hypothesis_bits(self, terms: Sequence[Term], coefficients: int) -> float:
        """Return L(H) of eq. (15), without its constant.

        A function with coefficients of several scopes is encoded once. Operations are those in the functions, one
        between each function and its coefficient, and one between terms. If ln y is fitted, c·ln x stands for x^c, and
        other terms stand for e^(c·…). Groups of cells that share a value are encoded cell by cell.
        """
        functions = {term.function for term in terms}
        scopes = {term.scope for term in terms} | {scope for function in functions for scope in function.scopes}
        grouping = sum(len(scope.groups) * math.log2(max(scope.groups) + 1) for scope in scopes if scope.groups)
        joining = max(len(terms) - 1, 0) + (self.errors == "proportional")
        own = sum(self.function_bits(function) for function in functions)
        if self.factor is not None:
            # As for proportional errors: the function's coefficient, and the error that it is multiplied by.
            own += OPERATION_BITS * (self.factor.operations + 2) + self.factor.integer_bits
        return own + coefficients * self.parameter_bits + OPERATION_BITS * joining + grouping

    def state(self, terms: Sequence[Term]) -> State:
        """Return the state with these terms fitted."""
        return State(self, (), np.zeros((0, self.rows)), self.target, 0.0).extended(terms)

    def divided_by(self, factor: CurveFunction) -> CurveProblem:
        """Return this problem for a curve that is a multiple of a positive function, if errors are factors."""
        return replace(self, target=self.target - np.log(self.values(factor)), factor=factor, _values={})

    def weighted_by(self, level: Floats) -> CurveProblem:
        """Return this problem with errors proportional to a curve: float64, shape (rows,), in this problem's order."""
        y = self.target / self.weights
        bits = float(np.log2(level).sum())
        return replace(self, target=y / level, weights=1 / level, constant_bits=bits, _values={})


@dataclass(frozen=True, eq=False)
class State:
    """Fitted terms of a curve."""

    problem: CurveProblem
    terms: tuple[Term, ...]
    basis: Floats  # (coefficients, rows): Orthonormal; as many vectors as independent coefficients
    residual: Floats  # (rows,): The target less the fitted terms
    bits: float  # L(H) + L(D | H)

    @cached_property
    def rss(self) -> float:
        """Sum of squared residuals."""
        return _squared(self.residual)

    @cached_property
    def exact(self) -> bool:
        """Whether residuals are below the resolution, so more terms cannot help."""
        return self.problem.coding == "corrected" and float(self.problem.data_bits(self.rss)) <= self.problem.least_bits

    @cached_property
    def transposed(self) -> Floats:
        """The basis, one vector per column."""
        return np.ascontiguousarray(self.basis.T)

    def would_explain(self, terms: Sequence[Term]) -> tuple[Floats, Codes]:
        """Return the squared length that each term explains beyond earlier ones, and its number of new coefficients."""
        columns = [self.problem.columns(term) for term in terms]
        *_, kept, explained = self._extend_basis(np.concatenate(columns))
        starts = np.cumsum([0, *(len(term_columns) for term_columns in columns[:-1])])
        return np.add.reduceat(explained, starts), np.add.reduceat(kept.astype(np.int64), starts)

    def extended(self, terms: Sequence[Term], replaced: Sequence[Term] = ()) -> State:
        """Return the state with more terms; these span the terms in `replaced`, which are no longer encoded."""
        problem = self.problem
        basis, residual = self.basis, self.residual
        if terms:
            basis, residual, *_ = self._extend_basis(np.concatenate([problem.columns(term) for term in terms]))
        kept_terms = (*(term for term in self.terms if term not in replaced), *terms)
        bits = problem.hypothesis_bits(kept_terms, len(basis)) + float(problem.data_bits(_squared(residual)))
        return State(problem, kept_terms, basis, residual, bits)

    def _extend_basis(self, columns: Floats) -> tuple[Floats, Floats, NDArray[np.bool_], Floats]:
        """Return the extended basis, its residual, which columns are independent, and how much each explains."""
        known = len(self.basis)
        basis = np.empty((known + len(columns), self.problem.rows))
        basis[:known] = self.basis
        residual, kept, explained = self.residual.copy(), np.empty(len(columns), np.bool_), np.empty(len(columns))
        filled = compiled_loop("extend")(basis, known, columns, TOLERANCE, residual, kept, explained)
        return basis[:filled], residual, kept, explained


def _squared(x: Floats) -> float:
    """Return a squared length, without BLAS, whose threads would wait longer than they work."""
    return float(np.einsum("i,i", x, x))


def make_problem(
    target: Floats,
    numbers: Mapping[str, Floats],
    codes: Mapping[str, Codes],
    cells: Cells,
    *,
    errors: Errors = "even",
    coding: Coding = "corrected",
    level: Floats | None = None,
) -> CurveProblem:
    """Set up a regression.

    `level`: Shape (rows,), sorted by cell: a positive approximation of the curve, which weights proportional errors.
    With the target itself as weight, curves would be too low by the square of the errors.
    """
    rows = len(target)
    full = cells.ids(cells.full, codes, rows)
    order = np.argsort(full, kind="stable")
    starts = np.searchsorted(full[order], np.arange(cells.size(cells.full) + 1)).astype(np.int64)
    y = target[order]
    if errors != "proportional":
        level = np.ones(rows)
    elif level is None:
        raise ValueError('`errors="proportional"` needs weights: pass a positive approximation of the curve as `level`')
    spread = float(np.std(target)) * RESOLUTION
    # A target that does not vary has only rounding errors.
    floor = max(spread, float(np.abs(target).max()) * 1e-12, np.finfo(float).tiny ** 0.25) ** 2
    return CurveProblem(
        target=np.log(y) if errors == "factor" else y / level,
        weights=1 / level,
        numbers={name: np.ascontiguousarray(x[order]) for name, x in numbers.items()},
        codes={name: np.ascontiguousarray(x[order]) for name, x in codes.items()},
        cells=cells,
        order=order,
        starts=starts,
        errors=errors,
        coding=coding,
        constant_bits=float(np.log2(y if errors == "factor" else level).sum()),
        least_bits=0.5 * rows * math.log2(floor),
    )
