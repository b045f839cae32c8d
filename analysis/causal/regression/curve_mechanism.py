"""Mechanisms of continuous variables: curves, and their formulas as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from unperturbed.analysis.causal.regression.cells import Cells, Scope
from unperturbed.analysis.causal.regression.curve import (
    Curve,
    curve_of,
    left_out_covariance,
    parameters_of,
    thresholds_of,
)
from unperturbed.analysis.causal.regression.forms import CurveFunction, Factor, Log, Power, Step, digits_of, steps_of
from unperturbed.analysis.causal.regression.mechanism import Columns, Inputs, Mechanism, MechanismCell, Parameter
from unperturbed.analysis.causal.regression.problem import RESOLUTION, Coding, Errors, State, make_problem
from unperturbed.analysis.causal.regression.search import shortest_state
from unperturbed.analysis.causal.table.variables import Category, Codes, Floats
from unperturbed.common.extras import LazyLibrary
from unperturbed.errors import DataError

special = LazyLibrary("scipy.special")


def _number(value: float) -> str:
    return f"{value:.5g}"


def _scopes_of(curve: Curve) -> list[Scope]:
    """Return the scopes of all coefficients and thresholds."""
    return [scope for term in curve.terms for scope in (term.scope, *term.function.scopes)]


def formula_of(target: str, curve: Curve, cells: Cells, where: Mapping[str, Category], exact: bool) -> str:
    """Return the formula of one cell as text."""
    codes = {name: cells.coded(name, [value]) for name, value in where.items()}

    def value_of(scope: Scope) -> int:
        return int(cells.ids(scope, codes, 1)[0])

    def of_cell(factor: Factor) -> Factor:
        if not isinstance(factor, Step):
            return factor
        return Step(factor.compared, Scope(), (factor.thresholds[value_of(factor.scope)],))

    parts: dict[CurveFunction, float] = {}
    for term, coefficients in zip(curve.terms, curve.coefficients, strict=True):
        function = CurveFunction(tuple(map(of_cell, term.function.factors)))
        parts[function] = parts.get(function, 0.0) + float(coefficients[value_of(term.scope)])
    digits = digits_of([part for part, coefficient in parts.items() if coefficient != 0])
    if curve.errors == "factor":
        return f"{target} = {_product(parts, curve.factor, digits)}" + ("" if exact else f"  {_factor(curve.spread)}")
    error = _percent(curve.spread) if curve.errors == "proportional" else f"{curve.spread:.2g}"
    return f"{target} = {_sum(parts, digits)}" + ("" if exact else f"  ± {error}")


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"


def _factor(spread: float) -> str:
    """Return the standard deviation of a logarithm as text: ± a percentage if it is small, else a factor."""
    factor = math.exp(spread)
    return f"± {_percent(factor - 1)}" if factor < 2 else f"× or ÷ {factor:.2g}"


def _sum(parts: Mapping[CurveFunction, float], digits: int) -> str:
    text = ""
    for function, coefficient in sorted(parts.items(), key=lambda part: -_degree(part[0])):
        if coefficient == 0:
            continue
        shown = _scaled(function, abs(coefficient), digits)
        if text:
            text += (" − " if coefficient < 0 else " + ") + shown
        else:
            text = ("−" if coefficient < 0 else "") + shown
    return text or "0"


def _scaled(function: CurveFunction, coefficient: float, digits: int) -> str:
    """Return a coefficient times a function as text; inverses are written as divisions."""
    above = [factor for factor in function.factors if not (isinstance(factor, Power) and factor.is_reciprocal)]
    below = [factor.name for factor in function.factors if isinstance(factor, Power) and factor not in above]
    shown = "·".join([_number(coefficient), *(factor.text(digits) for factor in above)])
    return "/".join([shown, *below])


def _product(parts: Mapping[CurveFunction, float], multiple_of: CurveFunction | None, digits: int) -> str:
    texts, first = [], 1.0
    for function, coefficient in parts.items():
        match function.factors:
            case ():
                first = math.exp(coefficient)
            case (Log(name),):
                texts.append(f"{name}^{coefficient:.4g}")
            case (Step() as step,):
                texts.append(f"{_number(math.exp(coefficient))}^{step.text(digits)}")
            case _:
                texts.append(f"e^({_number(coefficient)}·{function.text(digits)})")
    return "·".join([_number(first) if multiple_of is None else _scaled(multiple_of, first, digits), *texts])


def _degree(function: CurveFunction) -> float:
    logarithms = sum(isinstance(factor, Log) for factor in function.factors)
    return sum(factor.exponent for factor in function.factors if isinstance(factor, Power)) + 0.1 * logarithms


_LEAST_TAIL = 1e-3
"""Smallest tail probability for which errors of further runs are extrapolated."""

_CURVES = 20
"""Number of sets of thresholds that forecasts draw from the confidence intervals."""

_LEAST_RATIO = 4.0
"""Errors that grow with the curve are tried only if the target's largest value is this many times its smallest."""


@dataclass(frozen=True, eq=False, repr=False)
class CurveMechanism(Mechanism):
    """Continuous variable as a curve of its parents.

    Attributes
    ----------
    level : float
        Confidence level of the parameters' intervals.
    observed : float64, shape (rows,)
        The target's value in each row.
    """

    level: float
    observed: Floats
    _state: State

    @cached_property
    def curve(self) -> Curve:
        """The curve with its fitted numbers."""
        return curve_of(self._state)

    @property
    def errors(self) -> Errors:
        """How errors enter: added to the curve (even), added in proportion to it (proportional), or as factors."""
        return self._state.problem.errors

    @property
    def exact(self) -> bool:
        """Whether residuals are below the resolution of the target."""
        return self._state.exact

    @property
    def used(self) -> tuple[str, ...]:
        """Parents that make a difference."""
        names = {name for term in self.curve.terms for name in term.function.names}
        names |= {name for scope in _scopes_of(self.curve) for name in scope.names}
        names |= self.curve.factor.names if self.curve.factor else set()
        return tuple(name for name in self.parents if name in names)

    @property
    def looked_up(self) -> tuple[str, ...]:
        """Discrete parents that at least one number of the curve depends on."""
        return self._scope.names

    @cached_property
    def _scope(self) -> Scope:
        used = {name for scope in _scopes_of(self.curve) for name in scope.names}
        cells = self._state.problem.cells
        return cells.scope([name for name in cells.categories if name in used])

    @cached_property
    def formula(self) -> str:
        """The mechanism as text."""
        cells = self.cells
        if len(cells) == 1:
            return cells[0].formula
        return "\n".join(
            f"{', '.join(f'{name}={value}' for name, value in cell.where.items())}: {cell.formula}" for cell in cells
        )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All fitted numbers."""
        return parameters_of(self._state, self.curve, self.level)

    @cached_property
    def cells(self) -> tuple[MechanismCell, ...]:
        """The mechanism for each set of values of the discrete parents."""
        problem = self._state.problem
        ids = np.empty(self.rows, np.int64)
        ids[problem.order] = problem.ids(self._scope)
        cells = []
        for number, where in enumerate(problem.cells.combinations(self._scope)):
            residuals = self.residuals[ids == number]
            spread = math.sqrt(float(np.mean(residuals**2)))
            text = formula_of(self.target, self.curve, problem.cells, where, self.exact)
            cells.append(MechanismCell(where, len(residuals), text, spread))
        return tuple(cells)

    @cached_property
    def residuals(self) -> Floats:
        """Target minus curve: relative to the curve if errors are proportional, in logarithms if errors are factors."""
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
        """Lower bound of the target: 0 if it was never negative, like times and averaged counts; else −∞.

        The bound is 1 for whole numbers that were never 0, because other curves may use their logarithm.
        """
        least = float(self.observed.min())
        if least < 0:
            return -math.inf
        return min(least, 1.0) if bool((self.observed == np.floor(self.observed)).all()) else 0.0

    @cached_property
    def _covariances(self) -> tuple[Floats, ...]:
        return () if self.exact or not len(self.curve.covariance) else (left_out_covariance(self._state, self.curve),)

    @cached_property
    def _curves(self) -> tuple[Curve, ...]:
        """Equally likely curves, each with different thresholds from the confidence intervals."""
        steps = steps_of(self.curve.terms)
        if not steps:
            return (self.curve,)
        places = (np.arange(_CURVES) + 0.5) / _CURVES
        random = np.random.default_rng(0)
        drawn = {}
        for step in steps:
            for value, threshold in enumerate(thresholds_of(self._state, self.curve, step, self.level)):
                drawn[step, value] = threshold.low + (threshold.high - threshold.low) * random.permutation(places)
        return tuple(
            self.curve.at_thresholds(lambda step, value, at=at: float(drawn[step, value][at]))  # type: ignore[misc]
            for at in range(_CURVES)
        )

    def values_of(self, rows: Codes) -> Floats:
        """Return the target's values in some rows of the table."""
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
        """Return random values: observed ones if there are no parents, else the curve's with uncertainty and errors."""
        if not self.parents:
            return np.asarray(random.choice(self.observed, 1 if rows is None else rows))
        inputs, level, uncertainty = self._levels(columns, rows)
        if len(self._curves) > 1:
            levels = [curve.level(inputs.numbers, inputs.ids, inputs.rows) for curve in self._curves]
            level = np.array(levels)[random.integers(0, len(levels), inputs.rows), np.arange(inputs.rows)]
        level = level + uncertainty * random.standard_t(self.curve.degrees_of_freedom, inputs.rows)
        error = self._errors_at(random.random(inputs.rows))
        match self.errors:
            case "even":
                return np.maximum(level + error, self._least)
            case "proportional":
                return np.maximum(level * (1 + error), self._least)
        return np.asarray(np.exp(level + error))

    def _errors_at(self, shares: Floats) -> Floats:
        """Return the quantiles of further runs' errors at the given shares.

        Of n runs, the kth smallest error exceeds the share k / (n + 1) of all further errors (Wilks, "Determination of
        sample sizes for setting tolerance limits", 1941); beyond the extremes, errors grow like Student's t.
        """
        freedom, least = self.curve.degrees_of_freedom, 1 / (self.rows + 1)
        errors = np.interp(shares, least * np.arange(1, self.rows + 1), np.sort(self.residuals))
        tails = np.maximum(np.minimum(shares, 1 - shares), _LEAST_TAIL)
        beyond = tails < least
        errors[beyond] *= special.stdtrit(freedom, tails[beyond]) / special.stdtrit(freedom, least)
        return np.asarray(errors * math.sqrt(self.rows / freedom))

    def log_density(self, columns: Columns, values: Sequence[object] | Floats) -> Floats:
        """Return the logarithm of the density of values: normal, or lognormal if errors are factors."""
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
            uncertainty = self.curve.uncertainty(inputs.numbers, inputs.ids, inputs.rows, self._covariances)
        wrong = np.flatnonzero(~np.isfinite(level))
        if len(wrong):
            values = ", ".join(f"{name}={float(x[wrong[0]]):g}" for name, x in inputs.numbers.items())
            raise DataError(
                f"the formula of {self.target} has no finite value at {values}: choose values closer to the measured "
                "ones"
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
    """Return the curve with the shortest description; see `fit_mechanism`."""
    low, high = float(observed.min()), float(observed.max())
    kinds: list[Errors] = ["even"]
    if errors is not None:
        kinds = [errors]
    elif coding == "corrected" and low > 0 and high >= _LEAST_RATIO * low:
        kinds = ["even", "factor", "proportional"]
    if low <= 0 and kinds != ["even"]:
        raise DataError(
            f'`errors="{errors}"` needs positive values, but the minimum of {target} is {low:g}: use `errors="even"`'
        )
    problem_of = partial(make_problem, observed, numbers, codes, cells, coding=coding)
    # Powers that are tried may overflow; their residuals are then not finite, and they are not chosen.
    with np.errstate(over="ignore", invalid="ignore"):
        state = shortest_state(kinds, problem_of)
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
