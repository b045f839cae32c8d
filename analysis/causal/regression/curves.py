"""Mechanisms of continuous variables: curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.causal.regression.cells import Cells
from unperturbed.analysis.causal.regression.choosing import Search
from unperturbed.analysis.causal.regression.fitting import Curve, fitted
from unperturbed.analysis.causal.regression.formula import formula_of, scope_of_formula, where_text
from unperturbed.analysis.causal.regression.least_squares import polished
from unperturbed.analysis.causal.regression.mechanism import Cell, Columns, Inputs, Mechanism
from unperturbed.analysis.causal.regression.parameters import Parameter, parameters_of
from unperturbed.analysis.causal.regression.problem import RESOLUTION, Coding, Errors, State, problem_of
from unperturbed.errors import DataError

__all__ = ["CurveMechanism", "fit_curve"]

_TOLD = 0.1
"""Share of the target's variance: where a curve leaves more, residuals are not only errors."""
_LARGER_ABOVE = 1.5
"""Mean squared residuals of the upper half of a curve by those of the lower half: of even errors, 1 give or take .14 at 400 rows; of
errors in proportion to a curve over a factor of 4, more than 4."""
_WORTH_IMPROVING = 0.5
"""Bits a row by which a kind of errors may be behind and its curve still be improved."""
_WEIGHINGS, _SAME_BITS = 20, 1e-3
"""How often a curve's rows are weighed anew by it, and bits that need no further time."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
_SearchOf: TypeAlias = Callable[[Errors, Floats | None], Search]

_DECADES_APART = 4.0
"""Errors that grow with the curve are told from even ones only where the target's largest value is this many times its smallest."""


@dataclass(frozen=True, eq=False)
class CurveMechanism(Mechanism):
    """A continuous variable as a curve of its parents.

    Attributes
    ----------
    level : float
        Of the parameters' intervals.
    observed : float64, shape (rows,)
        The target.
    """

    level: float
    observed: Floats
    _state: State

    @cached_property
    def curve(self) -> Curve:
        """The curve with its numbers."""
        return fitted(self._state)

    @property
    def errors(self) -> Errors:
        """Whether errors are even, in proportion to the curve, or factors."""
        return self._state.problem.errors

    @property
    def exact(self) -> bool:
        """Whether the curve leaves nothing that could be told apart from the resolution of the target."""
        return self._state.exact

    @property
    def used(self) -> tuple[str, ...]:
        """Parents that make a difference."""
        names = {name for term in self.curve.terms for name in term.function.names}
        names |= {name for term in self.curve.terms for name in term.scope.names}
        names |= {name for term in self.curve.terms for scope in term.function.scopes for name in scope.names}
        return tuple(name for name in self.parents if name in names)

    @cached_property
    def formula(self) -> str:
        """The mechanism as text."""
        cells = self.cells
        if len(cells) == 1:
            return cells[0].formula
        return "\n".join(f"{where_text(cell.where)}: {cell.formula}" for cell in cells)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All fitted numbers."""
        return parameters_of(self._state, self.curve, self.level)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """What holds for which values of discrete parents."""
        problem = self._state.problem
        scope = scope_of_formula(self.curve, problem.cells)
        ids = np.empty(self.rows, np.int64)
        ids[problem.order] = problem.ids(scope)
        found = []
        for number, where in enumerate(problem.cells.combinations(scope)):
            residuals = self.residuals[ids == number]
            spread = math.sqrt(float(np.mean(residuals**2)))
            text = formula_of(self.target, self.curve, problem.cells, where, self.exact)
            found.append(Cell(where, len(residuals), text, spread))
        return tuple(found)

    @cached_property
    def residuals(self) -> Floats:
        """Target less curve; in parts of the curve where errors are proportional, and of the logarithms where they are factors."""
        problem = self._state.problem
        level = np.empty(self.rows)
        level[problem.order] = self.curve.level(problem.numbers, problem.ids, self.rows)
        match self.errors:
            case "even":
                return np.asarray(self.observed - level)
            case "proportional":
                return np.asarray(self.observed / level - 1)
        return np.asarray(np.log(self.observed) - level)

    def values_of(self, rows: Codes) -> Floats:
        """Return what the target was in some rows of the table."""
        return self.observed[rows]

    def predict(self, columns: Columns) -> tuple[Floats, Floats]:
        """Return means and standard deviations for new runs."""
        _, level, uncertainty = self._levels(columns, None)
        spread = self.curve.spread
        match self.errors:
            case "even":
                return level, np.sqrt(spread**2 + uncertainty**2)
            case "proportional":
                return level, np.sqrt((spread * level) ** 2 + uncertainty**2)
        variance = spread**2 + uncertainty**2
        mean = np.exp(level + variance / 2)
        return mean, mean * np.sqrt(np.expm1(variance))

    def draw(self, columns: Columns, random: np.random.Generator, rows: int | None = None) -> Floats:
        """Return random values: the curve, moved as far as its parameters are uncertain, and the residual of a run drawn at random.

        Without parents, observed values are drawn.
        """
        if not self.parents:
            return np.asarray(random.choice(self.observed, 1 if rows is None else rows))
        inputs, level, uncertainty = self._levels(columns, rows)
        level = level + uncertainty * random.standard_normal(inputs.rows)
        error = random.choice(self.residuals, inputs.rows)
        match self.errors:
            case "even":
                return np.asarray(level + error)
            case "proportional":
                return np.asarray(level * (1 + error))
        return np.asarray(np.exp(level + error))

    def log_density(self, columns: Columns, values: Sequence[object] | Floats) -> Floats:
        """Return the logarithm of the normal density of values, of their logarithms where errors are factors."""
        inputs, level, uncertainty = self._levels(columns, None)
        y = np.asarray(values, np.float64)
        spread = np.full(inputs.rows, max(self.curve.spread, RESOLUTION * float(np.std(self.observed))))
        jacobian = np.zeros(inputs.rows)
        if self.errors == "proportional":
            spread = spread * np.abs(level)
        elif self.errors == "factor":
            if not (y > 0).all():
                return np.full(inputs.rows, -np.inf)
            y = np.log(y)
            jacobian = -y
        variance = spread**2 + uncertainty**2
        return np.asarray(-0.5 * ((y - level) ** 2 / variance + np.log(2 * math.pi * variance)) + jacobian)

    def _levels(self, columns: Columns, rows: int | None) -> tuple[Inputs, Floats, Floats]:
        problem = self._state.problem
        inputs = Inputs(columns, problem.cells, list(problem.numbers), self.used, rows)
        with np.errstate(all="ignore"):
            level = self.curve.level(inputs.numbers, inputs.ids, inputs.rows)
            uncertainty = self.curve.uncertainty(inputs.numbers, inputs.ids, inputs.rows)
        wrong = np.flatnonzero(~np.isfinite(level))
        if len(wrong):
            told = ", ".join(f"{name}={float(x[wrong[0]]):g}" for name, x in inputs.numbers.items())
            raise DataError(f"the formula of {self.target} has no value at {told}; choose values like those that were measured")
        return inputs, level, uncertainty


def fit_curve(
    target: str,
    parents: Sequence[str],
    observed: Floats,
    numbers: Mapping[str, Floats],
    codes: Mapping[str, Codes],
    cells: Cells,
    *,
    level: float,
    coding: Coding,
    errors: Errors | None,
) -> CurveMechanism:
    """Return the curve of least description length; see `fit_mechanism`."""
    low, high = float(observed.min()), float(observed.max())
    tried: list[Errors] = ["even"]
    if errors is not None:
        tried = [errors]
    elif coding == "corrected" and low > 0 and high >= _DECADES_APART * low:
        tried = ["even", "factor", "proportional"]
    if low <= 0 and tried != ["even"]:
        raise DataError(f"errors of {target} cannot be {errors}: it is not positive everywhere (its least value is {low:g})")

    def search_of(kind: Errors, level: Floats | None = None) -> Search:
        return Search(problem_of(observed, numbers, codes, cells, errors=kind, coding=coding, level=level))

    # Powers that are tried may be too large for numbers; what they leave is then none, and they are not taken.
    with np.errstate(over="ignore", invalid="ignore"):
        state = _best_of(tried, search_of)
    data_bits = float(state.problem.data_bits(state.rss))
    return CurveMechanism(
        target=target,
        parents=tuple(parents),
        rows=len(observed),
        hypothesis_bits=state.bits - data_bits,
        data_bits=data_bits,
        level=level,
        observed=observed,
        _state=state,
    )


def _best_of(kinds: Sequence[Errors], search_of: _SearchOf) -> State:
    """Return the shortest description of all kinds of errors; the search is brought to its end where it may still be that."""
    found: dict[Errors, tuple[Search, State]] = {}
    for kind in kinds:
        level: Floats | None = None
        if kind == "proportional":
            # Where errors are factors, curves are products and always positive.
            _, product = found.get("factor") or _started("factor", None, search_of)
            level = np.exp(_curve(product))
        found[kind] = _started(kind, level, search_of)
        state = found[kind][1]
        if state.exact or (kind == "even" and not _errors_may_grow(state)):
            break
    started = sorted(found.values(), key=lambda one: one[1].bits)
    ended: list[State] = []
    for search, state in started:
        best = min((one.bits for one in ended), default=math.inf)
        if state.bits < best + _WORTH_IMPROVING * state.problem.rows and not any(one.exact for one in ended):
            ended.append(_reweighed(polished(search.improved(state), closest=True)))
    sensible = [one for one in ended if _makes_sense(one)]
    return min(sensible or ended, key=lambda one: one.bits)


def _started(kind: Errors, level: Floats | None, search_of: _SearchOf) -> tuple[Search, State]:
    search = search_of(kind, level)
    return search, search.started()


def _reweighed(state: State) -> State:
    """Return the same terms where errors are in proportion to the curve that they make, by iterated weights; other errors need none."""
    if state.problem.errors != "proportional" or state.exact:
        return state
    for _ in range(_WEIGHINGS):
        level = _curve(state)
        if not (level > 0).all():
            break
        before, state = state.bits, polished(state.problem.weighted_by(level).state(state.terms), closest=True)
        if abs(state.bits - before) < _SAME_BITS:
            break
    return state


def _curve(state: State) -> Floats:
    """Return the curve in each row, in the problem's order; its logarithm where errors are factors."""
    return np.asarray((state.problem.target - state.residual) / state.problem.weights)


def _errors_may_grow(state: State) -> bool:
    """Tell whether residuals are larger where the curve is high, or the curve tells too little to say so."""
    curve = state.problem.target - state.residual
    high = curve > np.median(curve)
    if state.rss > _TOLD * np.var(state.problem.target) * len(curve) or not high.any():
        return True
    return bool(np.mean(state.residual[high] ** 2) > _LARGER_ABOVE * np.mean(state.residual[~high] ** 2))


def _makes_sense(state: State) -> bool:
    """Errors in proportion to a curve that is not positive do not."""
    return state.problem.errors != "proportional" or bool((_curve(state) > 0).all())
