"""Questions to a model on the command line: each is read from text, answered by the model, and written as JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unperturbed.analysis.causal import (
    Category,
    CausalModel,
    Data,
    Forecast,
    ForecastVariable,
    MarkovCheck,
    ScreeningOff,
)
from unperturbed.common.wording import listing
from unperturbed.errors import DataError, SpecError
from unperturbed.harness.methods.causal.knowledge import names_of, split, with_option_names
from unperturbed.harness.methods.causal.table import LOGARITHM


@dataclass(frozen=True)
class InterventionForecast:
    """Forecast of an intervention, also for columns that were analysed as logarithms."""

    forecast: Forecast
    columns: Mapping[str, ForecastVariable]  # Columns themselves, by the names of their logarithms
    outside: tuple[str, ...]  # A sentence for each given value outside the measured range

    def given(self) -> dict[str, Category]:
        """Return the values that were set, with the names and units of the table."""
        shown: dict[str, Category] = {}
        for name, value in self.forecast.given.items():
            column = self.columns.get(name)
            shown[column.name if column else name] = column.mean if column else value
        return shown


def forecast(model: CausalModel, asked: Mapping[str, str], *, logged: Sequence[str], seed: int) -> InterventionForecast:
    """Return the forecast of setting variables to values, which are given as text of the command line."""
    settings: dict[str, Any] = {}
    for name, text in asked.items():
        if name in logged:
            value = _number(name, text)
            if value <= 0:
                raise SpecError(
                    f"--do {name}={text}: give a number above 0, because the model uses the logarithm of {name}"
                )
            settings[f"{LOGARITHM}{name}"] = math.log(value)
        else:
            settings[name] = _value(model.data, name, text)
    try:
        prediction = model.intervene(settings, seed=seed)
    except DataError as error:
        raise DataError(with_option_names(str(error))) from None
    columns = {
        f"{LOGARITHM}{name}": prediction.transformed(f"{LOGARITHM}{name}", np.exp, called=name) for name in logged
    }
    outside = tuple(_outside(model.data, name, value, asked, logged) for name, value in settings.items())
    return InterventionForecast(prediction, columns, tuple(sentence for sentence in outside if sentence))


def _outside(data: Data, name: str, value: object, asked: Mapping[str, str], logged: Sequence[str]) -> str:
    """Return a sentence if a value is outside the measured range; else an empty text."""
    if isinstance(value, str | bool) or not data.has_values(name):
        return ""
    low, high = float(np.min(data.values(name))), float(np.max(data.values(name)))
    if low <= float(str(value)) <= high:
        return ""
    column = name.removeprefix(LOGARITHM) if name.removeprefix(LOGARITHM) in logged else name
    if column != name:
        low, high = math.exp(low), math.exp(high)
    return (
        f"{column} = {asked[column]} is outside the measured range ({low:g} … {high:g}): the forecast "
        "extrapolates the model's formulas, and its intervals do not include the error of extrapolation."
    )


def _value(data: Data, name: str, text: str) -> str | bool | int | float:
    if data.kinds.get(name) == "discrete":
        for category in data.categories(name):
            if text == str(category) or (isinstance(category, bool) and text.lower() == str(category).lower()):
                return category
        if not data.has_values(name):
            known = ", ".join(map(str, data.categories(name)))
            raise SpecError(f"--do {name}={text}: {name} never has this value in the table; use one of {known}")
    return _number(name, text) if name in data.names else text


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SpecError(f"--do {name}={text}: expected a number") from None
    if not math.isfinite(value):
        raise SpecError(f"--do {name}={text}: expected a finite number")
    return value


def forecast_json(result: InterventionForecast) -> dict[str, Any]:
    """Return a forecast as JSON types, NaN as null; a column that was analysed as a logarithm follows its logarithm."""
    forecast = result.forecast.to_dict()
    del forecast["variables"]
    variables = []
    for name, variable in result.forecast.variables.items():
        variables.append({"name": variable.name, "logarithm": None, **variable.to_dict()})
        if name in result.columns:
            variables.append({"name": result.columns[name].name, "logarithm": name, **result.columns[name].to_dict()})
    return {**forecast, "outside": list(result.outside), "variables": variables}


_Names = tuple[str, ...]


@dataclass(frozen=True)
class ImpliedIndependence:
    """Answer to whether the graph implies that two variables are independent given others."""

    one: str
    other: str
    given: _Names
    separated: bool

    def __str__(self) -> str:
        pair = f"{self.one} and {self.other}"
        given = f" given {listing(self.given)}" if self.given else ""
        if self.separated:
            return f"the graph implies that {pair} are independent{given}"
        return f"{pair} may be dependent{given}: the graph does not imply that they are independent"


@dataclass(frozen=True)
class Checks:
    """Results of the checks; None or empty if not requested."""

    markov: MarkovCheck | None
    screenings: tuple[ScreeningOff, ...]
    independences: tuple[ImpliedIndependence, ...]


def read_screening(text: str, option: str) -> tuple[_Names, _Names, _Names]:
    """Read `APPLICATION | CHARACTERISTICS | PERFORMANCE`, each a list of names."""
    wanted = "APPLICATION | CHARACTERISTICS | PERFORMANCE, in quotes, as in 'n,datatype | instr,misses | time'"
    application, by, performance = parts = _parts(text, option, {3}, wanted)
    _require_once(parts, f"{option} {text}", "name each variable in only one part")
    return application, by, performance


def read_independence(text: str, option: str) -> tuple[str, str, _Names]:
    """Read `ONE | OTHER | GIVEN`; the last part is a list of names, and is optional."""
    parts = _parts(text, option, {2, 3}, "ONE | OTHER | GIVEN, in quotes, as in 'n | time | instr,misses'")
    for names in parts[:2]:
        if len(names) > 1:
            raise SpecError(f"{option} {text}: expected one variable, not {listing(names)}: give one pair at a time")
    _require_once(parts, f"{option} {text}", "the variables must differ")
    (variable,), (other,), *given = parts
    return variable, other, given[0] if given else ()


def _parts(text: str, option: str, counts: Collection[int], wanted: str) -> list[_Names]:
    """Read lists of names that are separated by bars."""
    parts = split(text, "|")
    if len(parts) not in counts or not all(part.strip() for part in parts):
        raise SpecError(f"{option} {text}: write {wanted}")
    return [names_of(part, option) for part in parts]


def _require_once(parts: Sequence[_Names], where: str, why: str) -> None:
    every = [name for names in parts for name in names]
    for name in every:
        if every.count(name) > 1:
            raise SpecError(f"{where}: {name} is in two parts; {why}")


def check(
    model: CausalModel,
    screenings: Sequence[tuple[_Names, _Names, _Names]],
    independences: Sequence[tuple[str, str, _Names]],
    *,
    markov: bool,
    logged: Sequence[str],
    seed: int,
) -> Checks:
    """Run the requested checks; `logged` names the columns that were replaced by their logarithms."""
    log_names = {name: f"{LOGARITHM}{name}" for name in logged}

    def named(names: Sequence[str]) -> _Names:
        return tuple(log_names.get(name, name) for name in names)

    screened = tuple(
        model.screens_off(named(application), named(performance), by=named(by))
        for application, by, performance in screenings
    )
    implied = []
    for first, second, held in independences:
        variable, other, *given = named([first, second, *held])
        implied.append(ImpliedIndependence(variable, other, tuple(given), model.separated(variable, other, given)))
    return Checks(model.check_markov(seed=seed) if markov else None, screened, tuple(implied))


def checks_json(checks: Checks) -> dict[str, Any]:
    """Return the results as JSON types; NaN becomes null. Without checks, the result is empty."""
    markov = {} if checks.markov is None else {"markov": checks.markov.to_dict()}
    screenings = {"screens_off": [screening.to_dict() for screening in checks.screenings]} if checks.screenings else {}
    implied = [{**asdict(independence), "words": str(independence)} for independence in checks.independences]
    return markov | screenings | ({"separated": implied} if implied else {})
