"""Mechanisms of continuous variables: curves, and their text with numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.curves.fitting import Curve, curve_of
from unperturbed.analysis.causal.regression.curves.forms import Function, Log, Power, Step
from unperturbed.analysis.causal.regression.curves.least_squares import refine_exponents
from unperturbed.analysis.causal.regression.curves.problem import RESOLUTION, Coding, Errors, State, make_problem
from unperturbed.analysis.causal.regression.curves.search import Search
from unperturbed.analysis.causal.regression.mechanism import Cell, Columns, Inputs, Mechanism
from unperturbed.analysis.causal.regression.parameters import Parameter, parameters_of
from unperturbed.analysis.causal.table.variables import Category, Codes, Floats
from unperturbed.common.extras import LazyLibrary
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")


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
    """Return the curve of one cell."""
    codes = {name: cells.coded(name, [value]) for name, value in where.items()}

    def value_of(scope: Scope) -> int:
        return int(cells.ids(scope, codes, 1)[0])

    parts: dict[Function, float] = {}
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        function = _select_threshold(term.function, value_of)
        parts[function] = parts.get(function, 0.0) + float(coefficients[value_of(term.scope)])
    if curve.errors == "factor":
        return f"{target} = {_product(parts, curve.factor)}" + ("" if exact else f"  {_factor(curve.spread)}")
    error = _percent(curve.spread) if curve.errors == "proportional" else f"{curve.spread:.2g}"
    return f"{target} = {_sum(parts)}" + ("" if exact else f"  ± {error}")


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"


def _factor(spread: float) -> str:
    """Return the standard deviation of a logarithm as people read it: small ones are the same to either side."""
    factor = math.exp(spread)
    return f"± {_percent(factor - 1)}" if factor < 2 else f"× or ÷ {factor:.2g}"


def _select_threshold(function: Function, value_of: object) -> Function:
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


def _product(parts: Mapping[Function, float], multiple_of: Function | None) -> str:
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
    return "·".join([number(first) if multiple_of is None else _scaled(multiple_of, first), *texts])


def _degree(function: Function) -> float:
    factors: Sequence[object] = function.factors
    return sum(one.exponent for one in factors if isinstance(one, Power)) + 0.1 * sum(
        isinstance(one, Log) for one in factors
    )


_EXPLAINED = 0.1
"""Share of the target's variance: where a curve leaves more, residuals are not only errors."""
_LARGER_ABOVE = 1.5
"""Ratio of mean squared residuals above and below the median of a curve: with even errors, 1 ± 0.14 at 400 rows; with
proportional errors of a curve over a factor of 4, more than 4."""
_WORTH_FACTORS = 2.0
"""Bits by which errors that are factors must be shorter than others."""
_WORTH_IMPROVING = 0.5
"""Bits a row by which a kind of errors may be behind and its curve still be improved."""
_WEIGHINGS, _SAME_BITS = 20, 1e-3
"""How often a curve's rows are weighed anew by it, and bits that need no further time."""

_LEAST_TAIL = 1e-3
"""Share of further runs on either side of whose errors nothing more is said."""

_SearchOf: TypeAlias = Callable[[Errors, Floats | None], Search]

_LEAST_RATIO = 4.0
"""Errors that grow with the curve are tried only if the target's largest value is this many times its smallest."""


@dataclass(frozen=True, eq=False, repr=False)
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
        return curve_of(self._state)

    @property
    def errors(self) -> Errors:
        """Whether errors are even, in proportion to the curve, or factors."""
        return self._state.problem.errors

    @property
    def exact(self) -> bool:
        """Whether residuals are below the resolution of the target."""
        return self._state.exact

    @property
    def used(self) -> tuple[str, ...]:
        """Parents that make a difference."""
        names = {name for term in self.curve.terms for name in term.function.names}
        names |= {name for term in self.curve.terms for name in term.scope.names}
        names |= self.curve.factor.names if self.curve.factor else set()
        names |= {name for term in self.curve.terms for scope in term.function.scopes for name in scope.names}
        return tuple(name for name in self.parents if name in names)

    @property
    def looked_up(self) -> tuple[str, ...]:
        """Discrete parents that some number of the curve depends on."""
        return scope_of_formula(self.curve, self._state.problem.cells).names

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
        """Target less curve; relative to the curve if errors are proportional, of the logarithms if they are
        factors."""
        problem = self._state.problem
        level = np.empty(self.rows)
        level[problem.order] = self.curve.level(problem.numbers, problem.ids, self.rows)
        match self.errors:
            case "even":
                return np.asarray(self.observed - level)
            case "proportional":
                return np.asarray(self.observed / level - 1)
        return np.asarray(np.log(self.observed) - level)

    @cached_property
    def _least(self) -> float:
        """The least value that a count can have: 0, or 1 if it was never 0; −∞ of what is not a count.

        Whole numbers that are nowhere negative are counts. Curves of further variables may have their logarithm, which
        0 has not.
        """
        is_count = self.observed.min() >= 0 and bool((self.observed == np.floor(self.observed)).all())
        return min(float(self.observed.min()), 1.0) if is_count else -math.inf

    def values_of(self, rows: Codes) -> Floats:
        """Return what the target was in some rows of the table."""
        return self.observed[rows]

    def predict(self, columns: Columns) -> tuple[Floats, Floats]:
        """Return means and standard deviations for new runs."""
        _, level, uncertainty = self._levels(columns, None)
        spread = self.curve.spread
        match self.errors:
            case "even":
                return np.maximum(level, self._least), np.sqrt(spread**2 + uncertainty**2)
            case "proportional":
                return np.maximum(level, self._least), np.sqrt((spread * level) ** 2 + uncertainty**2)
        variance = spread**2 + uncertainty**2
        mean = np.exp(level + variance / 2)
        return mean, mean * np.sqrt(np.expm1(variance))

    def draw(self, columns: Columns, random: np.random.Generator, rows: int | None = None) -> Floats:
        """Return random values: the curve, moved by the uncertainty of its parameters, and the residual of a random
        run.

        Without parents, observed values are drawn.
        """
        if not self.parents:
            return np.asarray(random.choice(self.observed, 1 if rows is None else rows))
        inputs, level, uncertainty = self._levels(columns, rows)
        level = level + uncertainty * random.standard_normal(inputs.rows)
        error = self._errors_at(random.random(inputs.rows))
        match self.errors:
            case "even":
                return np.maximum(level + error, self._least)
            case "proportional":
                return np.maximum(level * (1 + error), self._least)
        return np.asarray(np.exp(level + error))

    def _errors_at(self, shares: Floats) -> Floats:
        """Return the errors of further runs below which these shares of them lie.

        Of n runs, the kth smallest has k / (n + 1) of all further ones below it (Wilks, "Determination of sample sizes
        for setting tolerance limits", 1941); beyond the smallest and the greatest, errors grow as Student's t. Errors
        of further runs are greater than residuals of fitted ones by the parameters that were fitted.
        """
        freedom, least = self.curve.degrees_of_freedom, 1 / (self.rows + 1)
        errors = np.interp(shares, least * np.arange(1, self.rows + 1), np.sort(self.residuals))
        tails = np.maximum(np.minimum(shares, 1 - shares), _LEAST_TAIL)
        beyond = tails < least
        errors[beyond] *= special.stdtrit(freedom, tails[beyond]) / special.stdtrit(freedom, least)
        return np.asarray(errors * math.sqrt(self.rows / freedom))

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
            values = ", ".join(f"{name}={float(x[wrong[0]]):g}" for name, x in inputs.numbers.items())
            raise DataError(
                f"the formula of {self.target} has no value at {values}; choose values like those that were measured"
            )
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
    elif coding == "corrected" and low > 0 and high >= _LEAST_RATIO * low:
        tried = ["even", "factor", "proportional"]
    if low <= 0 and tried != ["even"]:
        raise DataError(
            f"errors of {target} cannot be {errors}: it is not positive everywhere (its least value is {low:g})"
        )

    def search_of(kind: Errors, level: Floats | None = None) -> Search:
        return Search(make_problem(observed, numbers, codes, cells, errors=kind, coding=coding, level=level))

    # Powers that are tried may be too large for numbers; what they leave is then none, and they are not taken.
    with np.errstate(over="ignore", invalid="ignore"):
        state = _best_state(tried, search_of)
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


def _best_state(kinds: Sequence[Errors], search_of: _SearchOf) -> State:
    """Return the shortest description over all kinds of errors; search to the end only if it may still be the
    shortest."""
    found: dict[Errors, tuple[Search, State]] = {}
    for kind in kinds:
        level: Floats | None = None
        if kind == "proportional":
            # Where errors are factors, curves are products and always positive.
            _, product = found.get("factor") or _start("factor", None, search_of)
            level = np.exp(_curve(product))
        found[kind] = _start(kind, level, search_of)
        state = found[kind][1]
        if state.exact or (kind == "even" and not _errors_may_grow(state)):
            break
    multiple: State | None = None
    initial = sorted(found.values(), key=lambda one: one[1].bits)
    ended: list[State] = []
    for search, state in initial:
        least = min((one.bits for one in ended), default=math.inf)
        if state.bits < least + _WORTH_IMPROVING * state.problem.rows and not any(one.exact for one in ended):
            ended.append(_reweight(refine_exponents(search.improve(state), closest=True)))
            if state.problem.errors == "factor":
                multiple = search.multiple()
    sensible = [one for one in ended if _is_valid(one)]
    best = min(sensible or ended, key=lambda one: one.bits)
    # Small errors in proportion are as well factors.
    return best if multiple is None or multiple.bits > best.bits - _WORTH_FACTORS else multiple


def _start(kind: Errors, level: Floats | None, search_of: _SearchOf) -> tuple[Search, State]:
    search = search_of(kind, level)
    return search, search.initial()


def _reweight(state: State) -> State:
    """Refit proportional errors by iterated weights, the terms unchanged; other errors need none."""
    if state.problem.errors != "proportional" or state.exact:
        return state
    for _ in range(_WEIGHINGS):
        level = _curve(state)
        if not (level > 0).all():
            break
        before, state = state.bits, refine_exponents(state.problem.weighted_by(level).state(state.terms), closest=True)
        if abs(state.bits - before) < _SAME_BITS:
            break
    return state


def _curve(state: State) -> Floats:
    """Return the curve in each row, in the problem's order; its logarithm where errors are factors."""
    return np.asarray((state.problem.target - state.residual) / state.problem.weights)


def _errors_may_grow(state: State) -> bool:
    """Tell whether residuals are larger where the curve is high, or whether the curve explains too little to decide."""
    curve = state.problem.target - state.residual
    high = curve > np.median(curve)
    if state.rss > _EXPLAINED * np.var(state.problem.target) * len(curve) or not high.any():
        return True
    return bool(np.mean(state.residual[high] ** 2) > _LARGER_ABOVE * np.mean(state.residual[~high] ** 2))


def _is_valid(state: State) -> bool:
    """Tell whether the curve is positive, which proportional errors require."""
    return state.problem.errors != "proportional" or bool((_curve(state) > 0).all())
