"""Looks at a growing campaign: the numbers of runs after which verdicts are made, and each look's share of α.

The part of α that is spent when a fraction t of the runs has been made is α t^1.5: the family α t^ρ of Kim and DeMets,
"Design and analysis of group sequential tests based on the type I error spending rate function", Biometrika 74 (1987),
for the method of Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70 (1983). The
latter's function that resembles O'Brien and Fleming's spends almost nothing early, and decides clear cases with up
to twice as many runs; confidence sequences decide clear cases sooner, and far fewer of the others:
docs/evidence/totals.md compares all three. Each look is judged by itself at its own share of α (Bonferroni over looks).
The exact boundary of a normal statistic would use the correlation between looks, but it is valid only for that
statistic. Shares are valid for every test here: Student's t, two designs, bootstraps, families under Holm's correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

FIRST_LOOK = 5
"""Runs of each configuration at the first look: the fewest that are compared within rounds."""

_GROWTH = 1.5
_MOST_LOOKS = 6
_SPENDING = 1.5
"""ρ of the family α t^ρ."""


@dataclass(frozen=True)
class Looks:
    """Looks at a campaign that runs until decided."""

    planned: tuple[int, ...]  # Number of runs of each configuration at each look
    made: tuple[int, ...]  # The looks so far
    decided: Mapping[str, int]  # Number of runs after which each decided configuration was decided


def plan_looks(most: int) -> tuple[int, ...]:
    """Return the numbers of runs of each configuration after which verdicts are made, `most` last.

    Each look has at least 1.5 times the runs of the look before, and there are at most six looks.
    """
    looks = [FIRST_LOOK if most >= _GROWTH * FIRST_LOOK else most]
    growth = max(_GROWTH, (most / looks[0]) ** (1 / (_MOST_LOOKS - 1)))
    while looks[-1] < most:
        following = round(looks[-1] * growth)
        looks.append(most if following * _GROWTH > most and following * growth > most * 1.01 else following)
    return tuple(looks)


def spent_alpha(alpha: float, fraction: float) -> float:
    """Return the part of α that may be spent when a fraction of the runs has been made (Kim and DeMets 1987)."""
    return float(alpha * fraction**_SPENDING)


def look_levels(alpha: float, looks: Sequence[int]) -> tuple[float, ...]:
    """Return the level of each look: its share of α beyond that of earlier looks. The shares add up to α."""
    spent = [0.0, *(spent_alpha(alpha, runs / looks[-1]) for runs in looks)]
    return tuple(after - before for before, after in pairwise(spent))
