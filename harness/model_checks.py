"""What a model's author asks of it: the Markov check, and whether characteristics screen an application off from its performance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unperturbed.analysis.causal import CausalModel, Claim, MarkovCheck, ScreeningOff
from unperturbed.errors import SpecError
from unperturbed.harness.model_words import names_of, split
from unperturbed.harness.modelling import LOGARITHM

__all__ = ["Checks", "Screening", "check", "checks_json", "read_screening"]


@dataclass(frozen=True)
class Screening:
    """What is asked: whether `by` carries all that `application` does to `performance`."""

    application: tuple[str, ...]
    by: tuple[str, ...]
    performance: tuple[str, ...]


@dataclass(frozen=True)
class Checks:
    """What was found; None and empty where nothing was asked."""

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
            f"{option} {text}: write APPLICATION | CHARACTERISTICS | PERFORMANCE, in quotes, as in 'n,datatype | instr,misses | time'"
        )
    application, by, performance = (names_of(part, option) for part in parts)
    every = [*application, *by, *performance]
    for name in every:
        if every.count(name) > 1:
            raise SpecError(
                f"{option} {text}: {name} stands in two parts; it is of the application, a characteristic or of performance"
            )
    return Screening(application, by, performance)


def check(model: CausalModel, screenings: Sequence[Screening], *, markov: bool, logged: Sequence[str], seed: int) -> Checks:
    """Carry out the checks that are asked for. `logged` are columns in whose place their logarithms are analysed.

    Raises
    ------
    DataError
        A name that is no variable of the model.
    """
    told = {name: f"{LOGARITHM}{name}" for name in logged}

    def named(names: Sequence[str]) -> list[str]:
        return [told.get(name, name) for name in names]

    found = tuple(model.screens_off(named(one.application), named(one.performance), by=named(one.by)) for one in screenings)
    return Checks(model.check_markov(seed=seed) if markov else None, found)


def checks_json(checks: Checks) -> dict[str, Any]:
    """Return what was found as JSON types; NaN is null. Without checks, nothing."""
    told: dict[str, Any] = {}
    if checks.markov is not None:
        found = checks.markov
        told["markov"] = {
            "alpha": found.alpha,
            "claims": [_claim(one) for one in found.claims],
            "refuted": len(found.refuted),
            "refuted_share": found.refuted_share,
            "permuted_shares": found.permuted_shares,
            "permutation_p_value": _plain(found.permutation_p_value),
            "seed": found.seed,
        }
    if checks.screenings:
        told["screens_off"] = [
            {
                "application": one.application,
                "by": one.by,
                "performance": one.performance,
                "alpha": one.alpha,
                "holds": one.holds,
                "words": str(one),
                "pairs": [
                    {**_claim(claim), "bits_without": _plain(without.bits), "p_value_without": _plain(without.p_value)}
                    for claim, without in zip(one.claims, one.without, strict=True)
                ],
            }
            for one in checks.screenings
        ]
    return told


def _claim(one: Claim) -> dict[str, Any]:
    return {
        "one": one.one,
        "other": one.other,
        "given": one.given,
        "p_value": _plain(one.p_value),
        "adjusted": _plain(one.adjusted),
        "bits": _plain(one.bits),
        "refuted": one.refuted,
        "determined": one.determined,
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
