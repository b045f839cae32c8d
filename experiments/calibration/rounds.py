"""Error rates of comparisons within rounds, for runs of equal work: a part of `calibration.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, classified, header, share
from unperturbed.analysis.perturbation import SHOWN
from unperturbed.analysis.perturbation.compare import Comparison, compare_runs
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs, pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.rounds import (
    DESIGNS,
    compare_outer_within_rounds,
    compare_within_rounds,
    mean_outer_z,
    shorter,
)

Check = Literal["inner", "outer"]
Effects = Callable[[np.random.Generator, int], FloatArray]
"""Draws the effect of each of some rounds, of variance 1, shape (rounds, metrics)."""

ROUNDS, CHECKED, LEVEL, SPREAD = 10, (5, 10), 0.8, 0.15
"""Rounds, each with a baseline run; checked runs; ρ of unchanged runs; their spread on Fisher's scale."""
FALL = 0.2
"""The fall of ρ whose detection is tried."""


def _normal(rng: np.random.Generator, rounds: int) -> FloatArray:
    return rng.standard_normal((rounds, METRICS))


def _three(rng: np.random.Generator, rounds: int) -> FloatArray:
    """Rounds fall into three classes, as the stack's place often matters by its offset in a line or a page alone."""
    values, shares = np.array([0.0, 0.4, 2.4]), np.array([0.4, 0.35, 0.25])
    drawn = rng.choice(values, size=(rounds, METRICS), p=shares)
    mean, square = values @ shares, values**2 @ shares
    return np.asarray((drawn - mean) / np.sqrt(square - mean**2), np.float64)


SHARED = (0.0, 0.5, 0.9, 0.99)
ROUND_KINDS: dict[str, Effects] = {"normal": _normal, "three classes": _three}
"""Shares of the variance that the runs of a round have in common, and how rounds differ."""


def rounds_header() -> Iterator[str]:
    """The header of the table."""
    heads = [
        "check",
        "rounds",
        "shared",
        "r",
        "false alarms",
        "accepted",
        "called perturbed",
        f"a fall of {FALL} found",
    ]
    yield from header([*heads, "the same without rounds", "width of the interval, with and without"])


def rounds_row(campaigns: int, seed: int, check: Check, kind: str) -> Iterator[str]:
    """One check and one kind of rounds: all metrics unchanged, all changed by the tolerance, all by more."""
    for shared, r in product(SHARED, CHECKED):
        rng = np.random.default_rng([seed, 6, list(ROUND_KINDS).index(kind), round(100 * shared), r, check == "outer"])
        draw = partial(_compared, check, kind, shared, r)
        chosen: dict[float, list[tuple[list[str], Comparison]]] = {}
        alone: dict[float, list[tuple[list[str], Comparison]]] = {}
        for fall in (0.0, TOLERANCE, FALL):
            made = [draw(rng, fall) for _ in range(campaigns)]
            chosen[fall], alone[fall] = (
                [(_verdicts(each), each) for each in group] for group in zip(*made, strict=True)
            )
        cells = [
            share([any(name in SHOWN for name in names) for names, _ in chosen[0.0]]),
            share([float(np.mean((each.low > -TOLERANCE) & (each.high < TOLERANCE))) for _, each in chosen[TOLERANCE]]),
            share(["perturbed" in names for names, _ in chosen[TOLERANCE]]),
            *(share([names.count("perturbed") / len(names) for names, _ in group[FALL]]) for group in (chosen, alone)),
            " / ".join(f"{np.mean([each.high - each.low for _, each in group[0.0]]):.3f}" for group in (chosen, alone)),
        ]
        yield f"| {check} | {kind} | {shared} | {r} | {' | '.join(cells)} |"


def _verdicts(compared: Comparison) -> list[str]:
    limits = np.full(len(compared.p), TOLERANCE)
    return classified(compared, compared.p_beyond(limits), limits)


def run_effects(
    effects: Effects, shared: float, k: int, r: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Draw what each baseline run and each checked run adds on Fisher's scale, and the rounds of the checked runs."""
    of_rounds = effects(rng, k)
    rounds = np.sort(rng.choice(k, size=r, replace=False))
    before, after = (
        np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal(common.shape)
        for common in (of_rounds, of_rounds[rounds])
    )
    return SPREAD * before, SPREAD * after, rounds


@dataclass(frozen=True)
class InRounds:
    """Runs of a campaign in rounds: mean ρ of each run, (k, metrics) and (r, metrics), and each checked run's round."""

    reference: FloatArray
    observed: FloatArray
    rounds: np.ndarray
    of_pairs: FloatArray | None  # Variance that belongs to pairs of runs, for outer values

    def independent(self, alpha: float) -> Comparison:
        """Compare the runs as independent ones."""
        if self.of_pairs is None:
            return compare_runs(self.reference, self.observed, intervals=None, alpha=alpha)
        return compare_outer_runs(self.reference, self.observed, self.of_pairs, intervals=None, alpha=alpha)

    def chosen(self) -> Comparison:
        """Compare the runs in both designs, as a campaign does."""
        level = ALPHA / DESIGNS
        if self.of_pairs is None:
            within = compare_within_rounds(self.reference, self.observed, self.rounds, alpha=level)
        else:
            within = compare_outer_within_rounds(self.reference, self.observed, self.rounds, self.of_pairs, alpha=level)
        return shorter(self.independent(level), within)


def draw_in_rounds(
    rng: np.random.Generator, check: Check, kind: str, shared: float, runs: tuple[int, int], fall: float
) -> InRounds:
    """Draw the runs of a campaign whose metrics all fall, k baseline runs and r checked runs."""
    before, after, rounds = run_effects(ROUND_KINDS[kind], shared, *runs, rng)
    if check == "inner":
        reference, observed = from_fisher(fisher(LEVEL) + before), from_fisher(fisher(LEVEL - fall) + after)
        return InRounds(reference, observed, rounds, None)
    return _outer(before, after, rounds, rng, fall)


def _outer(
    before: FloatArray, after: FloatArray, rounds: np.ndarray, rng: np.random.Generator, fall: float
) -> InRounds:
    """Draw z_ij = a + b_i + b_j + e_ij; a third of the variance of a mean belongs to pairs.

    Two runs of one round correlate perfectly.
    """
    k, r = len(before), len(after)
    pairs = SPREAD * np.sqrt((k - 1) / 2) * rng.standard_normal((k, k, METRICS))
    matrix = fisher(LEVEL) + before[:, None] + before[None] + (pairs + pairs.transpose(1, 0, 2)) / np.sqrt(2)
    matrix[np.arange(k), np.arange(k)] = 0
    others = SPREAD * np.sqrt((k - 1) / 2) * rng.standard_normal((k, r, METRICS))
    each = fisher(LEVEL - fall) + before[:, None] + after[None] + others
    each[rounds, np.arange(r)] = fisher(1)
    observed = from_fisher(mean_outer_z(each, np.arange(k)[:, None] == rounds))
    return InRounds(reference_outer_rho(matrix), observed, rounds, pair_variance(matrix))


def _compared(
    check: Check, kind: str, shared: float, r: int, rng: np.random.Generator, fall: float
) -> tuple[Comparison, Comparison]:
    runs = draw_in_rounds(rng, check, kind, shared, (ROUNDS, r), fall)
    return runs.chosen(), runs.independent(ALPHA)
