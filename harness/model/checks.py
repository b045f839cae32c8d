"""Checks on the command line: the Markov check, and screening off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unperturbed.analysis.causal import CausalModel, MarkovCheck, ScreeningOff
from unperturbed.errors import SpecError
from unperturbed.harness.model.option_syntax import names_of, split
from unperturbed.harness.model.table import LOGARITHM


@dataclass(frozen=True)
class Screening:
    """A question: whether `by` carries the whole effect of `application` on `performance`."""

    application: tuple[str, ...]
    by: tuple[str, ...]
    performance: tuple[str, ...]


@dataclass(frozen=True)
class Checks:
    """The results; None and empty if not requested."""

    markov: MarkovCheck | None
    screenings: tuple[ScreeningOff, ...]


def read_screening(text: str, option: str) -> Screening:
    """Read `APPLICATION | CHARACTERISTICS | PERFORMANCE`, each a list of names.

    Raises
    ------
    SpecError
        Other than three parts, an empty one, a name that comes twice.
    """
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


def check(
    model: CausalModel, screenings: Sequence[Screening], *, markov: bool, logged: Sequence[str], seed: int
) -> Checks:
    """Run the requested checks. `logged` are columns in whose place their logarithms are analysed.

    Raises
    ------
    DataError
        A name that is no variable of the model.
    """
    log_names = {name: f"{LOGARITHM}{name}" for name in logged}

    def named(names: Sequence[str]) -> list[str]:
        return [log_names.get(name, name) for name in names]

    found = tuple(
        model.screens_off(named(one.application), named(one.performance), by=named(one.by)) for one in screenings
    )
    return Checks(model.check_markov(seed=seed) if markov else None, found)


def checks_json(checks: Checks) -> dict[str, Any]:
    """Return the results as JSON types; NaN is null. Without checks, nothing."""
    markov = {} if checks.markov is None else {"markov": checks.markov.to_dict()}
    screenings = {"screens_off": [one.to_dict() for one in checks.screenings]} if checks.screenings else {}
    return markov | screenings
