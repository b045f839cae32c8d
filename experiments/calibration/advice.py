"""Advised numbers of runs: how often so many runs decide an open change, or accept an unchanged program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from experiments.calibration.common import ALPHA, TOLERANCE, header, share
from experiments.calibration.rounds import LEVEL, Check, InRounds
from experiments.calibration.totals import BOUND, judged_total
from unperturbed.analysis.floor.resolution import resolution_of_correlation, resolution_of_total
from unperturbed.analysis.perturbation import OPEN, Change
from unperturbed.analysis.perturbation.compare_outer import pair_variance, reference_outer_rho
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.rounds import mean_outer_z
from unperturbed.analysis.perturbation.verdict import RunGroup, changes_from_comparison
from unperturbed.analysis.totals import TotalChange

EFFECTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
"""True changes of a family, in tolerances."""
SPREADS, SHARED = (0.5, 1.0), (0.0, 0.9)
"""Standard deviations of a run, in tolerances, and shares of the variance that belong to rounds."""
FEW, MOST = 10, 60
"""Runs in each group at first, and the most that a command advises (`verdict_text.MOST_RUNS`)."""
FIRST, BETWEEN = (5, 10), 20
"""Runs in each group at first, and a number between these and the most, of the table of changes beyond the most."""
_DECIDED = ("unperturbed", "perturbed")

_Judge = Callable[[int, Sequence[float]], Sequence[Change | TotalChange]]


def advice_header() -> Iterator[str]:
    """The header of the table of advised runs."""
    heads = ["compared", "spread", "shared within rounds", "open after 10 runs, with advice", "runs advised, median"]
    heads += ["decided with these", "by true change (in tolerances) up to 0.5", "0.75 to 1.25", "from 1.5"]
    yield from header([*heads, "runs for ✓, median", "accepted with these"])


def advice_rows(campaigns: int, seed: int) -> Iterator[str]:
    """Families of nine changes of several sizes: those that ten runs leave open, with the runs advised."""
    for number, (name, spread, shared) in enumerate(product(("totals", "inner", "outer"), SPREADS, SHARED)):
        advised, enough = list[int](), list[int]()
        decided: defaultdict[float, list[float]] = defaultdict(list)
        accepted, changes = list[float](), 0
        for at in range(campaigns):
            rng = np.random.default_rng([seed, 14, number, at])
            judge, anew = (_judge(name, rng, spread, shared) for _ in range(2))
            first = judge(FEW, EFFECTS)
            changes += len(first)
            for which, change in enumerate(first):
                runs = change.runs_to_decide
                if change.verdict in OPEN and runs is not None and runs <= MOST:
                    advised.append(runs)
                    decided[EFFECTS[which]].append(float(judge(runs, EFFECTS)[which].verdict in _DECIDED))
            runs = _for_acceptance(first[0])
            if runs is not None and runs <= MOST:
                enough.append(runs)
                accepted.append(float(anew(runs, [0.0] * len(EFFECTS))[0].verdict == "unperturbed"))
        groups = [
            [outcome for effect, each in decided.items() if low <= effect <= high for outcome in each]
            for low, high in ((0, 3), (0, 0.5), (0.75, 1.25), (1.5, 3))
        ]
        cells = [f"{len(advised) / changes:.2f}", _middle(advised), *map(_share, groups), _middle(enough)]
        yield f"| {name} | {spread:g} × tolerance | {shared} | {' | '.join([*cells, _share(accepted)])} |"


def beyond_header() -> Iterator[str]:
    """The header of the table of changes that the advised number of runs is not to decide."""
    heads = ["first runs", "compared", "spread", "open", "of these with advice", "runs advised, median"]
    heads += ["decided with these", "of these beyond 60 runs", f"decided by {BETWEEN} runs", f"by {MOST} runs"]
    yield from header(heads)


def beyond_rows(campaigns: int, seed: int) -> Iterator[str]:
    """The same families after few and after more runs: open changes for which more than 60 runs are computed."""
    for number, (few, name, spread) in enumerate(product(FIRST, ("totals", "inner", "outer"), SPREADS)):
        advised, kept = list[int](), list[float]()
        between, by_most, changes = list[float](), list[float](), 0
        for at in range(campaigns):
            judge = _judge(name, np.random.default_rng([seed, 15, number, at]), spread, 0.0)
            first = judge(few, EFFECTS)
            changes += len(first)
            later = {runs: judge(runs, EFFECTS) for runs in (BETWEEN, MOST)}
            for which, change in enumerate(first):
                if change.verdict not in OPEN:
                    continue
                runs = change.runs_to_decide
                if runs is not None and runs <= MOST:
                    advised.append(runs)
                    kept.append(float(judge(runs, EFFECTS)[which].verdict in _DECIDED))
                else:
                    between.append(float(later[BETWEEN][which].verdict in _DECIDED))
                    by_most.append(float(later[MOST][which].verdict in _DECIDED))
        open_ = len(advised) + len(by_most)
        cells = [f"{part:.2f}" for part in (open_ / changes, len(advised) / open_)]
        cells += [_middle(advised), _share(kept), f"{len(by_most) / open_:.2f}", _share(between), _share(by_most)]
        yield f"| {few} | {name} | {spread:g} × tolerance | {' | '.join(cells)} |"


def _middle(runs: Sequence[int]) -> str:
    return f"{np.median(runs):.0f}" if runs else "–"


def _share(outcomes: Sequence[float]) -> str:
    return share(outcomes) if len(outcomes) > 1 else "–"


def _for_acceptance(change: Change | TotalChange) -> int | None:
    """Return the runs that the noise floor names for an unchanged program."""
    if isinstance(change, TotalChange):
        return resolution_of_total(change, ALPHA, 1).runs
    return resolution_of_correlation(change, ALPHA, 1).runs


def _judge(name: str, rng: np.random.Generator, spread: float, shared: float) -> _Judge:
    """Draw the runs of a campaign; return a function that judges the first runs for given true changes."""
    of_rounds, own = rng.standard_normal((MOST, len(EFFECTS))), rng.standard_normal((2, MOST, len(EFFECTS)))
    noise = spread * (np.sqrt(shared) * of_rounds + np.sqrt(1 - shared) * own)
    if name == "totals":
        return partial(_totals, noise)
    pairs = spread * rng.standard_normal((2, MOST, MOST, len(EFFECTS)))
    return partial(_correlations, "inner" if name == "inner" else "outer", noise, pairs)


def _totals(noise: FloatArray, runs: int, effects: Sequence[float]) -> Sequence[TotalChange]:
    before, after = np.exp(BOUND * noise[:, :runs])
    return [judged_total(before[:, at], (1 + BOUND * effect) * after[:, at]) for at, effect in enumerate(effects)]


def _correlations(
    check: Check, noise: FloatArray, pairs: FloatArray, runs: int, effects: Sequence[float]
) -> Sequence[Change]:
    made = in_rounds(check, noise[:, :runs], pairs[:, :runs, :runs], np.array(effects))
    labels = [(f"M{at}", f"M{at}" if check == "outer" else "other") for at in range(len(effects))]
    before, after = (RunGroup(name, ("",) * runs, rho) for name, rho in (("a", made.reference), ("b", made.observed)))
    changes = changes_from_comparison(check, labels, before, after, made.chosen(), tolerance=TOLERANCE)
    return decide(changes, alpha=ALPHA)


def in_rounds(check: Check, noise: FloatArray, pairs: FloatArray, effects: FloatArray) -> InRounds:
    """Return runs with noise of ρ in tolerances; outer values are z_ij = a + b_i + b_j + e_ij, as in `looks`."""
    runs = noise.shape[1]
    unit = TOLERANCE / (1 - LEVEL**2)
    before, after = fisher(LEVEL) + unit * noise[0], fisher(LEVEL - TOLERANCE * effects) + unit * noise[1]
    rounds = np.arange(runs)
    if check == "inner":
        return InRounds(from_fisher(before), from_fisher(after), rounds, None)
    of_pairs = unit * pairs
    matrix = before[:, None] + unit * noise[0][None] + (of_pairs[0] + of_pairs[0].swapaxes(0, 1)) / np.sqrt(2)
    matrix[rounds, rounds] = 0
    same = np.eye(runs, dtype=bool)
    observed = mean_outer_z(after[None] + unit * noise[0][:, None] + of_pairs[1], same)
    return InRounds(reference_outer_rho(matrix), from_fisher(observed), rounds, pair_variance(matrix))
