"""What a model says of variables that are set, from the command line's words to JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unperturbed.analysis.causal import Category, Data, Forecast, ForecastVariable
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.model_words import as_options
from unperturbed.harness.modelling import LOGARITHM

if TYPE_CHECKING:
    from unperturbed.analysis.causal.model import CausalModel

__all__ = ["Told", "forecast", "forecast_json"]


@dataclass(frozen=True)
class Told:
    """A forecast, and the columns whose logarithms it is of.

    Attributes
    ----------
    forecast : Forecast
    columns : mapping of str to ForecastVariable
        By the name of the logarithm: the column itself, of which the random runs have exponentials.
    outside : tuple of str
        A sentence for each value that was set and lies outside of what was measured.
    """

    forecast: Forecast
    columns: Mapping[str, ForecastVariable]
    outside: tuple[str, ...] = ()

    def given(self) -> dict[str, Category]:
        """Return what was set, by the names and in the units of the table."""
        return {
            self.columns[name].name if name in self.columns else name: self.columns[name].mean
            if name in self.columns
            else value
            for name, value in self.forecast.given.items()
        }


def forecast(model: CausalModel, asked: Mapping[str, str], *, logged: Sequence[str], seed: int) -> Told:
    """Return what a model says of setting some variables; values are text, as the command line has them.

    Raises
    ------
    SpecError
        A value that the variable cannot have.
    DataError
        Unknown variables; a direction that is open.
    """
    settings: dict[str, Any] = {}
    for name, text in asked.items():
        if name in logged:
            value = _number(name, text)
            if value <= 0:
                raise SpecError(f"--do {name}={text}: its logarithm is analysed, so it is to be more than 0")
            settings[f"{LOGARITHM}{name}"] = math.log(value)
        else:
            settings[name] = _value(model.data, name, text)
    try:
        found = model.intervene(settings, seed=seed)
    except DataError as error:
        raise DataError(as_options(str(error))) from None
    columns = {f"{LOGARITHM}{name}": found.transformed(f"{LOGARITHM}{name}", np.exp, called=name) for name in logged}
    outside = tuple(_outside(model.data, name, value, asked, logged) for name, value in settings.items())
    return Told(found, columns, tuple(sentence for sentence in outside if sentence))


def _outside(data: Data, name: str, value: object, asked: Mapping[str, str], logged: Sequence[str]) -> str:
    """Return a sentence where a value was not measured, nor lies between such values; else nothing."""
    if isinstance(value, str | bool) or not data.has_values(name):
        return ""
    low, high = float(np.min(data.values(name))), float(np.max(data.values(name)))
    if low <= float(str(value)) <= high:
        return ""
    column = name.removeprefix(LOGARITHM) if name.removeprefix(LOGARITHM) in logged else name
    if column != name:
        low, high = math.exp(low), math.exp(high)
    return (
        f"{column} = {asked[column]} lies outside of what was measured ({low:g} … {high:g}): formulas are taken beyond what they were fitted to, and "
        "the intervals do not say how wrong that is."
    )


def _value(data: Data, name: str, text: str) -> str | bool | int | float:
    if data.kinds.get(name) == "discrete":
        for category in data.categories(name):
            if text == str(category) or (isinstance(category, bool) and text.lower() == str(category).lower()):
                return category
        if not data.has_values(name):
            raise SpecError(f"--do {name}={text}: its values are {', '.join(map(str, data.categories(name)))}")
    return _number(name, text) if name in data.names else text


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SpecError(f"--do {name}={text}: a number is wanted") from None
    if not math.isfinite(value):
        raise SpecError(f"--do {name}={text}: a finite number is wanted")
    return value


def forecast_json(told: Told) -> dict[str, Any]:
    """Return a forecast as JSON types; NaN is null. A column whose logarithm was analysed follows its logarithm."""
    found = told.forecast

    def plain(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "set": dict(found.given),
        "runs": found.runs,
        "seed": found.seed,
        "level": found.level,
        "outside": list(told.outside),
        "variables": [
            {
                "name": one.name,
                "logarithm": logarithm,
                "mean": plain(one.mean),
                "standard_deviation": plain(one.standard_deviation),
                "low": plain(one.low),
                "high": plain(one.high),
                "probabilities": {str(value): share for value, share in one.probabilities.items()},
                "set": one.given,
            }
            for one, logarithm in _with_columns(told)
        ],
    }


def _with_columns(told: Told) -> Iterator[tuple[ForecastVariable, str | None]]:
    """Yield what is said of each variable, and of columns in the place of which logarithms were analysed; with the logarithm's name."""
    for name, one in told.forecast.variables.items():
        yield one, None
        if name in told.columns:
            yield told.columns[name], name
