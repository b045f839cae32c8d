"""Questions to a model on the command line: interventions, the Markov check, screening off, independences.

Each is read from text, answered by the model, and written as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    """The forecast of an intervention, and the columns whose logarithms it contains."""

    forecast: Forecast  # The forecast of all variables
    # By the name of the logarithm: the column itself, of which the random runs have exponentials.
    columns: Mapping[str, ForecastVariable]
    outside: tuple[str, ...] = ()  # A sentence for each value that was set and lies outside the measured range

    def given(self) -> dict[str, Category]:
        """Return what was set, by the names and in the units of the table."""
        shown: dict[str, Category] = {}
        for name, value in self.forecast.given.items():
            column = self.columns.get(name)
            shown[column.name if column else name] = column.mean if column else value
        return shown


def forecast(model: CausalModel, asked: Mapping[str, str], *, logged: Sequence[str], seed: int) -> InterventionForecast:
    """Return the forecast of setting some variables to values, which are text as on the command line."""
    settings: dict[str, Any] = {}
    for name, text in asked.items():
        if name in logged:
            value = _number(name, text)
            if value <= 0:
                raise SpecError(f"--do {name}={text}: its logarithm is analysed, so give a number above 0")
            settings[f"{LOGARITHM}{name}"] = math.log(value)
        else:
            settings[name] = _value(model.data, name, text)
    try:
        found = model.intervene(settings, seed=seed)
    except DataError as error:
        raise DataError(with_option_names(str(error))) from None
    columns = {f"{LOGARITHM}{name}": found.transformed(f"{LOGARITHM}{name}", np.exp, called=name) for name in logged}
    outside = tuple(_outside(model.data, name, value, asked, logged) for name, value in settings.items())
    return InterventionForecast(found, columns, tuple(sentence for sentence in outside if sentence))


def _outside(data: Data, name: str, value: object, asked: Mapping[str, str], logged: Sequence[str]) -> str:
    """Return a sentence if a value is outside of the measured range; else empty."""
    if isinstance(value, str | bool) or not data.has_values(name):
        return ""
    low, high = float(np.min(data.values(name))), float(np.max(data.values(name)))
    if low <= float(str(value)) <= high:
        return ""
    column = name.removeprefix(LOGARITHM) if name.removeprefix(LOGARITHM) in logged else name
    if column != name:
        low, high = math.exp(low), math.exp(high)
    return (
        f"{column} = {asked[column]} lies outside the measured range ({low:g} … {high:g}): formulas are taken "
        "beyond what they were fitted to, and "
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
        raise SpecError(f"--do {name}={text}: expected a number") from None
    if not math.isfinite(value):
        raise SpecError(f"--do {name}={text}: expected a finite number")
    return value


def forecast_json(result: InterventionForecast) -> dict[str, Any]:
    """Return a forecast as JSON types; NaN is null. A column whose logarithm was analysed follows its logarithm."""
    forecast = result.forecast.to_dict()
    del forecast["variables"]
    variables = []
    for name, one in result.forecast.variables.items():
        variables.append({"name": one.name, "logarithm": None, **one.to_dict()})
        if name in result.columns:
            variables.append({"name": result.columns[name].name, "logarithm": name, **result.columns[name].to_dict()})
    return {**forecast, "outside": list(result.outside), "variables": variables}


@dataclass(frozen=True)
class Screening:
    """A question: whether `by` carries the whole effect of `application` on `performance`."""

    application: tuple[str, ...]
    by: tuple[str, ...]
    performance: tuple[str, ...]


@dataclass(frozen=True)
class Independence:
    """A question: whether the graph implies that two variables are independent given others."""

    one: str
    other: str
    given: tuple[str, ...]


@dataclass(frozen=True)
class ImpliedIndependence:
    """The answer, by d-separation."""

    asked: Independence
    separated: bool

    def __str__(self) -> str:
        pair = f"{self.asked.one} and {self.asked.other}"
        given = f" given {listing(self.asked.given)}" if self.asked.given else ""
        if self.separated:
            return f"{pair} are independent{given}, by the graph"
        return f"{pair} may be dependent{given}: the graph does not imply that they are independent"


@dataclass(frozen=True)
class Checks:
    """The results; None and empty if not requested."""

    markov: MarkovCheck | None
    screenings: tuple[ScreeningOff, ...]
    independences: tuple[ImpliedIndependence, ...] = ()


def read_screening(text: str, option: str) -> Screening:
    """Read `APPLICATION | CHARACTERISTICS | PERFORMANCE`, each a list of names."""
    parts = split(text, "|")
    if len(parts) != 3 or not all(part.strip() for part in parts):
        raise SpecError(
            f"{option} {text}: write APPLICATION | CHARACTERISTICS | PERFORMANCE, in quotes, as in 'n,datatype | "
            "instr,misses | time'"
        )
    application, by, performance = (names_of(part, option) for part in parts)
    every = [*application, *by, *performance]
    for name in every:
        if every.count(name) > 1:
            raise SpecError(
                f"{option} {text}: {name} is in two parts; it is of the application, a characteristic or of performance"
            )
    return Screening(application, by, performance)


def read_independence(text: str, option: str) -> Independence:
    """Read `ONE | OTHER | GIVEN`; the last is a list of names, and may be left out."""
    parts = split(text, "|")
    if len(parts) not in {2, 3} or not all(part.strip() for part in parts):
        raise SpecError(f"{option} {text}: write ONE | OTHER | GIVEN, in quotes, as in 'n | time | instr,misses'")
    ends, given = [names_of(part, option) for part in parts[:2]], names_of(parts[2], option) if parts[2:] else ()
    for names in ends:
        if len(names) > 1:
            raise SpecError(f"{option} {text}: {listing(names)} are several variables; give one pair at a time")
    (one,), (other,) = ends
    every = [one, other, *given]
    for name in every:
        if every.count(name) > 1:
            raise SpecError(f"{option} {text}: {name} is in two parts; the variables must differ")
    return Independence(one, other, given)


def check(
    model: CausalModel,
    screenings: Sequence[Screening],
    independences: Sequence[Independence] = (),
    *,
    markov: bool,
    logged: Sequence[str],
    seed: int,
) -> Checks:
    """Run the requested checks. `logged` are columns in whose place their logarithms are analysed."""
    log_names = {name: f"{LOGARITHM}{name}" for name in logged}

    def named(names: Sequence[str]) -> list[str]:
        return [log_names.get(name, name) for name in names]

    found = tuple(
        model.screens_off(named(one.application), named(one.performance), by=named(one.by)) for one in screenings
    )
    implied = []
    for asked in independences:
        one, other, *given = named([asked.one, asked.other, *asked.given])
        implied.append(ImpliedIndependence(Independence(one, other, tuple(given)), model.separated(one, other, given)))
    return Checks(model.check_markov(seed=seed) if markov else None, found, tuple(implied))


def checks_json(checks: Checks) -> dict[str, Any]:
    """Return the results as JSON types; NaN is null. Without checks, nothing."""
    markov = {} if checks.markov is None else {"markov": checks.markov.to_dict()}
    screenings = {"screens_off": [one.to_dict() for one in checks.screenings]} if checks.screenings else {}
    implied = [{**asdict(one.asked), "separated": one.separated, "words": str(one)} for one in checks.independences]
    return markov | screenings | ({"separated": implied} if implied else {})
