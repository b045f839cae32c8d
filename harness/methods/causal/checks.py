"""Checks on the command line: the Markov check, screening off, and independences that the graph implies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from unperturbed.analysis.causal import CausalModel, MarkovCheck, ScreeningOff
from unperturbed.common.wording import listing
from unperturbed.errors import SpecError
from unperturbed.harness.methods.causal.option_syntax import names_of, split
from unperturbed.harness.methods.causal.table import LOGARITHM


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
            raise SpecError(f"{option} {text}: {listing(names)} are several; ask of one pair of variables at a time")
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
