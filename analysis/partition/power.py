"""How many runs will probably show a subset unperturbed. Only the number of runs depends on this, never a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from unperturbed.analysis.perturbation.correlation import FloatArray, from_fisher

__all__ = ["Seen", "chance_to_show", "repetitions_to_accept", "repetitions_to_certify"]

_CERTIFY = 0.9
"""Chance of success that a certification is given runs for."""

_HARDLY = 0.7
"""A subset that has less than this chance, with however many runs, gets no more of them."""

_BENEFIT = 1.5
"""Standard errors that are taken off every change before a subset is given up in the search. The largest of many changes that were
seen is the largest partly by chance: of 66 unchanged pairs it is 2.5 standard errors off, and good subsets would be given up after
three runs. What is to be certified gets no such benefit: in return few certifications fail."""

_MOST = 30
"""Repetitions of one subset beyond which nobody goes."""


@dataclass(frozen=True)
class Seen:
    """What runs of a subset have shown, on Fisher's scale.

    Attributes
    ----------
    reference_z, effect_z, standard_error : float64, shape (changes,). Mean of the reference runs, change, and its standard error.
    references, repetitions : runs of the baseline, and of the subset.
    """

    reference_z: FloatArray
    effect_z: FloatArray
    standard_error: FloatArray
    references: int
    repetitions: int


def repetitions_to_accept(seen: Seen, *, level: float, tolerance: float) -> int | None:
    """Return the fewest repetitions, more than there were, that have a fair chance to show a subset unperturbed.

    None when even `_MOST` have not.
    """
    chances = chance_to_show(seen, level=level, tolerance=tolerance, maximum=_MOST, benefit=_BENEFIT)
    enough = np.flatnonzero(chances >= _HARDLY)
    return max(int(enough[0]) + 1, seen.repetitions + 1) if len(enough) else None


def repetitions_to_certify(seen: Seen, *, level: float, tolerance: float, maximum: int) -> int | None:
    """Return the fewest repetitions that will probably show a subset unperturbed; None when `maximum` hardly will."""
    chances = chance_to_show(seen, level=level, tolerance=tolerance, maximum=maximum)
    enough = np.flatnonzero(chances >= _CERTIFY)
    if len(enough):
        return int(enough[0]) + 1
    return maximum if chances[-1] >= _HARDLY else None


def chance_to_show(seen: Seen, *, level: float, tolerance: float, maximum: int, benefit: float = 0.0) -> FloatArray:
    """Guess how likely 1, 2, …, `maximum` repetitions show every change to lie within the tolerance.

    Parameters
    ----------
    seen : what the guess is made from.
    level : α of each one-sided bound.
    tolerance : |Δρ| that counts as no perturbation.
    maximum : most repetitions.
    benefit : standard errors by which each change is taken to be smaller than it was seen.

    Returns
    -------
    float64, shape (maximum,)

    Notes
    -----
    Changes are taken as normal with the spread that was seen, independent of one another, and the bounds as Welch's, the wider ones with
    few repetitions. The chance that a bound t·s stays below the tolerance is a noncentral t's, by the normal approximation 26.7.10 of
    Abramowitz and Stegun. One repetition has no spread of its own and is never enough.
    """
    counts = np.arange(1, maximum + 1, dtype=np.float64)[:, None]
    spread = seen.standard_error / np.sqrt(1 / seen.references + 1 / seen.repetitions)
    effect_z = np.sign(seen.effect_z) * np.maximum(np.abs(seen.effect_z) - benefit * seen.standard_error, 0)
    before, after = from_fisher(seen.reference_z), from_fisher(seen.reference_z + effect_z)
    # The slope of Fisher's transformation takes both errors to the scale of ρ.
    error = spread * np.hypot((1 - before**2) / np.sqrt(seen.references), (1 - after**2) / np.sqrt(counts))
    mean, deviation = _bounds(seen.references, maximum, level)
    change = after - before
    inside = special.ndtr(((tolerance - change) / error - mean) / deviation)
    inside = inside + special.ndtr(((tolerance + change) / error - mean) / deviation) - 1
    chances = np.maximum(inside, 0).prod(axis=1)
    chances[0] = 0
    return np.asarray(np.maximum.accumulate(chances), np.float64)


@lru_cache(maxsize=64)
def _bounds(references: int, maximum: int, level: float) -> tuple[FloatArray, FloatArray]:
    """Return how many standard errors a bound lies off, mean and standard deviation, for 1, 2, … repetitions, shapes (maximum, 1)."""
    repetitions = np.arange(1, maximum + 1, dtype=np.float64)[:, None]
    repetitions[0] = 2
    share = 1 / references + 1 / repetitions
    freedom = share**2 / (1 / (references**2 * (references - 1)) + 1 / (repetitions**2 * (repetitions - 1)))
    quantile = special.stdtrit(freedom, 1 - level)
    return quantile * (1 - 1 / (4 * freedom)), np.sqrt(1 + quantile**2 / (2 * freedom))
