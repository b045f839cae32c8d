"""Forecasts under observations and interventions: random runs drawn from all mechanisms (section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from unperturbed.analysis.causal.model_text import forecast_table
from unperturbed.analysis.causal.regression.mechanism import Mechanism
from unperturbed.analysis.causal.regression.table_mechanism import TableMechanism
from unperturbed.analysis.causal.table.variables import Category, Floats
from unperturbed.common.result import Result, finite_or_none
from unperturbed.common.wording import no_such_column
from unperturbed.errors import DataError

if TYPE_CHECKING:
    from unperturbed.common.table import Table

Drawn = list[Category] | Floats

_FEWEST_EFFECTIVE, _ENOUGH_EFFECTIVE = 30.0, 200.0
_MOST_TIMES = 64
"""Largest multiple of the requested runs that is drawn if few agree with the observations."""


@dataclass(frozen=True, eq=False)
class ForecastVariable:
    """Forecast of one variable.

    Attributes
    ----------
    name : str
        The variable.
    mean, standard_deviation : float
        Mean and standard deviation; NaN for text.
    low, high : float
        Ends of the interval that contains the share `level` of the runs.
    probabilities : mapping of str, bool, int or float to float
        Probability of each value of a discrete variable; empty for a continuous one.
    given : bool
        Whether the caller gave the value.
    """

    name: str
    mean: float
    standard_deviation: float
    low: float
    high: float
    probabilities: Mapping[Category, float]
    given: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data; NaN becomes None."""
        numbers = ("mean", "standard_deviation", "low", "high")
        return {
            "name": self.name,
            **{name: finite_or_none(getattr(self, name)) for name in numbers},
            "probabilities": {str(value): share for value, share in self.probabilities.items()},
            "set": self.given,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """Forecast of runs under an intervention or under observations.

    Attributes
    ----------
    given : mapping of str to str, bool, int or float
        The variables with a given value.
    intervention : bool
        Whether the given values were set, which overrides the variables' own mechanisms, rather than observed.
    variables : mapping of str to ForecastVariable
        Forecast of every variable, causes first.
    runs : int
        Number of random runs; more than requested if few agree with the observations.
    effective_runs : float
        Number of equally weighted runs with the same information: equals `runs` unless effects were observed.
    seed : int
        Random seed.
    level : float
        Share of the runs in each interval.
    """

    given: Mapping[str, Category]
    intervention: bool
    variables: Mapping[str, ForecastVariable]
    runs: int
    effective_runs: float
    seed: int
    level: float
    _drawn: Mapping[str, Drawn] = field(repr=False)
    _weights: Floats = field(repr=False)

    def headline(self) -> str:
        """Return the given values and the number of random runs."""
        given = ", ".join(f"{name} = {value}" for name, value in self.given.items())
        if not given:
            return f"no variable {'set' if self.intervention else 'observed'}: {self.runs:,} runs drawn from the model"
        return f"{'setting' if self.intervention else 'observing'} {given}: {self.runs:,} runs drawn from the model"

    def tables(self) -> Sequence[Table]:
        """Return the table of means, deviations and intervals, or of probabilities."""
        return (forecast_table(self),)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per variable."""
        names = ("name", "mean", "standard_deviation", "low", "high", "given")
        return pl.DataFrame({name: [getattr(variable, name) for variable in self.variables.values()] for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast of every variable as plain data; NaN becomes None."""
        return {
            "set": dict(self.given),
            "runs": self.runs,
            "seed": self.seed,
            "level": self.level,
            "variables": [variable.to_dict() for variable in self.variables.values()],
        }

    def __getitem__(self, name: str) -> ForecastVariable:
        if name not in self.variables:
            raise DataError(no_such_column(name, list(self.variables)))
        return self.variables[name]

    def transformed(self, name: str, function: Callable[[Floats], Floats], *, called: str) -> ForecastVariable:
        """Return the forecast of a function of a variable, such as the exponential of a logarithm.

        Parameters
        ----------
        name : str
            A numeric variable.
        function : callable
            Maps an array of its values, float64 of shape (runs,), to an array of the same shape: `numpy.exp`.
        called : str
            Name of the result.

        Returns
        -------
        ForecastVariable
            Mean, deviation and interval of the function's values in the random runs. The mean differs from the
            function of the mean.

        Raises
        ------
        DataError
            The variable does not exist or is text, or the function is not finite in some run.
        """
        of = self[name]
        drawn = self._drawn[name]
        if isinstance(drawn, list) and any(isinstance(value, str) for value in drawn):
            raise DataError(f"cannot compute {called} from {name}: {name} is text")
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(function(np.asarray(drawn, np.float64)), np.float64)
        if not np.isfinite(values).all():
            wrong = drawn[int(np.flatnonzero(~np.isfinite(values))[0])]
            raise DataError(
                f"{called} is not finite for {name} = {float(wrong):.6g}, which occurs in a random run: use a "
                f"function that is finite for all values of {name}"
            )
        return _variable_forecast(called, values, self._weights, self.level, of.given)


def causal_order(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the variables in causal order, causes first.

    Raises DataError for a cycle of causes, and for parents that are not variables.
    """
    for name, causes in parents.items():
        for cause in causes:
            if cause not in parents:
                raise DataError(
                    f"{cause}, a cause of {name}, has no mechanism: state the directions of its edges, or fit its "
                    "mechanism"
                )
    try:
        return list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        raise DataError(f"causes form a cycle: {' → '.join(error.args[1])}") from None


def forecast(
    mechanisms: Mapping[str, Mechanism],
    given: Mapping[str, Category],
    *,
    intervention: bool,
    runs: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Forecast:
    """Return the forecast of runs in which some variables are set, regardless of their causes, or observed.

    An intervention uses Pearl's truncated factorisation: the product of eq. (3) without the factors of the variables
    that are set. Spread comes from the mechanisms' errors, from their uncertain parameters, and from causes that are
    not set: these vary as in the table, variables without causes together. With observations, each run is weighted by
    the likelihood of the observations in that run (likelihood weighting).
    """
    if not mechanisms:
        raise DataError("a forecast needs the mechanism of at least one variable")
    if runs < 2:
        raise ValueError(f"`runs={runs}` is too few to show a spread: use 2 or more")
    if not 0 < level < 1:
        raise ValueError(f"`level` must be above 0 and below 1, not {level}")
    order = causal_order({name: mechanism.parents for name, mechanism in mechanisms.items()})
    _check(mechanisms, given)
    random = np.random.default_rng(seed)
    many = runs
    while True:
        drawn, log_weights = _drawn(mechanisms, order, given, intervention, many, random)
        weights, effective = _normalised(log_weights)
        if effective >= min(_ENOUGH_EFFECTIVE, runs / 2) or many >= _MOST_TIMES * runs:
            break
        many *= 4
    if effective < min(_FEWEST_EFFECTIVE, runs / 2):
        shown = ", ".join(f"{name}={value}" for name, value in given.items())
        raise DataError(
            f"too few random runs agree with {shown} (effective number {effective:.1f}, of {many} runs): increase "
            "`runs`, or observe causes instead of effects"
        )
    variables = {name: _variable_forecast(name, drawn[name], weights, level, name in given) for name in order}
    return Forecast(dict(given), intervention, variables, many, effective, seed, level, drawn, weights)


def _drawn(
    mechanisms: Mapping[str, Mechanism],
    order: Sequence[str],
    given: Mapping[str, Category],
    intervention: bool,
    runs: int,
    random: np.random.Generator,
) -> tuple[dict[str, Drawn], Floats]:
    """Return all variables' values in random runs, and each run's log-likelihood of the observations."""
    drawn: dict[str, Drawn] = {}
    weights = np.zeros(runs)
    rows = random.integers(0, mechanisms[order[0]].rows, runs)
    for name in order:
        mechanism = mechanisms[name]
        causes = {cause: drawn[cause] for cause in mechanism.used}
        if name in given:
            value = given[name]
            drawn[name] = [value] * runs if isinstance(mechanism, TableMechanism) else np.full(runs, float(value))
            if mechanism.parents and not intervention:
                weights += mechanism.log_density(causes, drawn[name])
        elif mechanism.parents:
            drawn[name] = mechanism.draw(causes, random, runs)
        else:
            drawn[name] = mechanism.values_of(rows)
    return drawn, weights


def _check(mechanisms: Mapping[str, Mechanism], given: Mapping[str, Category]) -> None:
    for name, value in given.items():
        if name not in mechanisms:
            raise DataError(no_such_column(name, list(mechanisms)))
        mechanism = mechanisms[name]
        if isinstance(mechanism, TableMechanism):
            # A formula also accepts numbers that were not measured.
            if isinstance(value, str) or any(isinstance(category, str) for category in mechanism.categories):
                mechanism.code_of(value)
            continue
        if isinstance(value, str) or not math.isfinite(value):
            raise DataError(f"{name} needs a finite number, not {value!r}")


def _normalised(log_weights: Floats) -> tuple[Floats, float]:
    """Return the weights normalised to a sum of 1, and the effective number of runs; 0 if all weights are 0."""
    largest = float(log_weights.max())
    if not math.isfinite(largest):
        return np.zeros(len(log_weights)), 0.0
    weights = np.exp(log_weights - largest)
    weights /= weights.sum()
    return weights, float(1 / (weights**2).sum())


def _variable_forecast(name: str, drawn: Drawn, weights: Floats, level: float, given: bool) -> ForecastVariable:
    probabilities: dict[Category, float] = {}
    if isinstance(drawn, list):
        by_value: dict[Category, list[float]] = {}
        for value, weight in zip(drawn, weights.tolist(), strict=True):
            by_value.setdefault(value, []).append(weight)
        sums = {value: min(math.fsum(some), 1.0) for value, some in by_value.items()}
        probabilities = dict(sorted(sums.items(), key=lambda pair: (isinstance(pair[0], str), pair[0])))
        if any(isinstance(value, str) for value in probabilities):
            return ForecastVariable(name, math.nan, math.nan, math.nan, math.nan, probabilities, given)
    x = np.asarray(drawn, np.float64)
    if given:
        return ForecastVariable(name, float(x[0]), 0.0, float(x[0]), float(x[0]), probabilities, given)
    mean = float(weights @ x)
    order = np.argsort(x, kind="stable")
    reached = np.cumsum(weights[order])
    low, high = (
        float(x[order[min(int(np.searchsorted(reached, at)), len(x) - 1)]]) for at in ((1 - level) / 2, (1 + level) / 2)
    )
    return ForecastVariable(name, mean, math.sqrt(float(weights @ (x - mean) ** 2)), low, high, probabilities, given)
