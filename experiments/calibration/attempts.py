"""Other ways to judge a fall of outer correlations, on the same campaigns as the way in use: a part of the calibration.

Each was tried because three checked runs whose noise varies by 30 % or more find a fall of .3 in fewer than 95 % of the
campaigns. None finds more without more errors where the metrics' runs spread differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from experiments.calibration.common import ALPHA, METRICS, TOLERANCE, classified, header
from experiments.calibration.outer import FALLS, OUTER, Runs, draw
from unperturbed.analysis.perturbation.compare import Comparison, Spreads, comparison, welch_errors
from unperturbed.analysis.perturbation.compare_outer import (
    OuterErrors,
    compare_outer_runs,
    outer_bounds,
    outer_errors,
    outer_spreads,
    pair_variance,
    reference_outer_rho,
    relative_spread,
)
from unperturbed.analysis.perturbation.correlation import FloatArray, fisher, from_fisher

CHECKED = 3
CASES: dict[str, tuple[tuple[Runs, int], ...]] = {
    "ρ .9, 30 %": ((Runs(0.9, 0.3), METRICS),),
    "ρ .97, 30 %": ((Runs(0.97, 0.3), METRICS),),
    "ρ .99, 30 %": ((Runs(0.99, 0.3), METRICS),),
    "ρ .999, 30 %": ((Runs(0.999, 0.3), METRICS),),
    "one metric 60 %, four 15 %": ((Runs(0.9, 0.6), 1), (Runs(0.9, 0.15), METRICS - 1)),
    "one metric 15 %, four 60 %": ((Runs(0.9, 0.15), 1), (Runs(0.9, 0.6), METRICS - 1)),
    "checked runs of one metric 60 %, all else 15 %": ((Runs(0.9, 0.15, 0.6), 1), (Runs(0.9, 0.15), METRICS - 1)),
    "checked runs 60 %, baseline 15 %": ((Runs(0.97, 0.15, 0.6), METRICS),),
}
"""Metrics of a campaign, by how much their noise varies. The first metric's fall is to be found."""

Means = tuple[FloatArray, FloatArray]
Spread = Callable[[Means, Spreads], Spreads]
Errors = Callable[[Means, Spreads, OuterErrors], OuterErrors]
_K = OUTER["k"]


def _as_it_is(_means: Means, spread: Spreads) -> Spreads:
    return spread


def _in_units_of_noise(means: Means) -> tuple[FloatArray, FloatArray]:
    """Each side's variance as that of the logarithm of a run's noise, up to one factor for all metrics of a side."""
    at_level = relative_spread(*map(from_fisher, means)) ** 2
    unit = relative_spread(np.full_like(means[0], 1e-3), from_fisher(means[0])) ** 2
    return unit, unit * at_level


def _mean_of_metrics(means: Means, spread: Spreads) -> Spreads:
    """Every metric's runs have the noise that all metrics' runs have on average."""
    first, second = _in_units_of_noise(means)
    return replace(
        spread,
        reference=first * (spread.reference / first).mean(),
        observed=second * (spread.observed / second).mean(),
    )


def _empirical_bayes(means: Means, spread: Spreads) -> Spreads:
    """Smyth, "Linear models and empirical Bayes methods" (2004), section 6.2; the prior is at most one sample."""
    first, second = _in_units_of_noise(means)
    return replace(
        spread,
        reference=first * shrunk(spread.reference / first, _K - 1),
        observed=second * shrunk(spread.observed / second, CHECKED - 1),
    )


def shrunk(variances: FloatArray, freedom: int) -> FloatArray:
    """Shrink variances of some degrees of freedom towards each other by empirical Bayes."""
    logarithms = np.log(variances) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logarithms.var(ddof=1) - special.polygamma(1, freedom / 2)
    if excess <= 0:
        prior, center = float(freedom), variances.mean()
    else:
        grid = np.geomspace(0.05, freedom / 2, 400)  # of half the prior's degrees of freedom
        half = grid[np.argmin(np.abs(special.polygamma(1, grid) - excess))]
        prior, center = 2 * half, np.exp(logarithms.mean() + special.digamma(half) - np.log(half))
    share = prior / (prior + freedom)
    return np.asarray((1 - share) * variances + share * center, np.float64)


def _same(_means: Means, _spread: Spreads, errors: OuterErrors) -> OuterErrors:
    return errors


def _all_freedom(_means: Means, _spread: Spreads, errors: OuterErrors) -> OuterErrors:
    return OuterErrors((errors.far[0], *errors.near[1:]), errors.far)


def _level_alone(_means: Means, _spread: Spreads, errors: OuterErrors) -> OuterErrors:
    return OuterErrors(errors.near[:1], errors.far[:1])


def _own_alone(means: Means, spread: Spreads, _errors: OuterErrors) -> OuterErrors:
    """Welch's; the jackknife over runs gives the same errors, as a mean's values are its runs'."""
    own = (welch_errors(means, (spread.reference / _K, spread.observed / CHECKED), (_K - 1, CHECKED - 1)),)
    return OuterErrors(own, own)


ATTEMPTS: dict[str, tuple[Spread, Errors]] = {
    "each metric's spread by itself": (_as_it_is, _same),
    "all degrees of freedom count": (_as_it_is, _all_freedom),
    "the spread of the level alone": (_as_it_is, _level_alone),
    "the runs' own spread alone, or a jackknife": (_as_it_is, _own_alone),
    "the mean spread of all metrics": (_mean_of_metrics, _same),
    "empirical Bayes over metrics": (_empirical_bayes, _same),
}


Cell = tuple[str, str, str]
"""Way, case, and what the way gives there."""


def attempts_table(cells: Sequence[Cell]) -> Iterator[str]:
    """One row a way, one column a case."""
    by_place = {(way, case): cell for way, case, cell in cells}
    yield from header(["way", *CASES])
    for way in dict.fromkeys(way for way, *_ in cells):
        yield f"| {way} | {' | '.join(by_place[way, case] for case in CASES)} |"


def attempts_cells(campaigns: int, seed: int, case: str) -> Iterator[Cell]:
    """All ways of judging the campaigns of one case: found, false alarms, accepted, called perturbed."""
    rng = np.random.default_rng([seed, 7, list(CASES).index(case)])
    drawn = [draw(rng, campaigns, runs, CHECKED, metrics) for runs, metrics in CASES[case]]
    z = {name: np.concatenate([part[name] for part in drawn], axis=-1) for name in drawn[0]}
    z["goal"] = np.concatenate((z["goal"][..., :1], z["none"][..., 1:]), axis=-1)
    before = from_fisher(z["none"].mean(axis=(0, 1, 2)))
    tolerances = {name: np.full(METRICS, TOLERANCE) for name in FALLS}
    tolerances["tolerance"] = before - from_fisher(z["tolerance"].mean(axis=(0, 1, 2)))
    matrices = [z["reference"][:, :, at] for at in range(campaigns)]

    def judged(
        name: str, compare: Callable[[FloatArray, FloatArray], Comparison]
    ) -> list[tuple[Comparison, list[str]]]:
        limits = tolerances[name]
        compared = [compare(matrix, z[name][:, :, at]) for at, matrix in enumerate(matrices)]
        return [(each, classified(each, each.p_beyond(limits), limits)) for each in compared]

    for way, compare in _ways().items():
        shown = [names for _, names in judged("none", compare)]
        edge, limit = judged("tolerance", compare), tolerances["tolerance"]
        cells = (
            np.mean([names[0] == "perturbed" for _, names in judged("goal", compare)]),
            np.mean([bool({"shifted", "perturbed"} & set(names)) for names in shown]),
            np.mean([(each.low > -limit) & (each.high < limit) for each, _ in edge], axis=0).max(),
            np.mean(["perturbed" in names for _, names in edge]),
        )
        yield way, case, " / ".join(f"{cell:.3f}" for cell in cells)
    yield _bootstrap(np.random.default_rng([seed, 8]), case, matrices, z, tolerances["tolerance"])
    yield _oracle(case, matrices, z)


def _ways() -> dict[str, Callable[[FloatArray, FloatArray], Comparison]]:
    def in_use(matrix: FloatArray, each: FloatArray) -> Comparison:
        return compare_outer_runs(
            *_values(matrix, each), pair_variance(matrix), intervals=OUTER["intervals"], alpha=ALPHA
        )

    def attempt(spread_of: Spread, errors_of: Errors) -> Callable[[FloatArray, FloatArray], Comparison]:
        def compare(matrix: FloatArray, each: FloatArray) -> Comparison:
            values, shared = _values(matrix, each), pair_variance(matrix) / (_K * (_K - 1))
            usual = compare_outer_runs(
                *values, pair_variance(matrix), intervals=OUTER["intervals"], alpha=ALPHA, together=False
            )
            z = fisher(values[0]), fisher(values[1])
            means = z[0].mean(axis=0), z[1].mean(axis=0)
            spread = spread_of(means, outer_spreads(*z, OUTER["intervals"]))
            errors = outer_errors(means, spread, shared, (_K, CHECKED), (_K - 1, CHECKED - 1))
            errors = errors_of(means, spread, errors)
            bounds = outer_bounds(means, errors, ALPHA)
            return comparison(means, usual.standard_error, bounds, errors.near, usual.freedom, usual.notes)

        return compare

    return {"**in use**": in_use, **{name: attempt(*parts) for name, parts in ATTEMPTS.items()}}


def _values(matrix: FloatArray, each: FloatArray) -> Means:
    return reference_outer_rho(matrix), from_fisher(each.mean(axis=0))


def _bootstrap(
    rng: np.random.Generator, case: str, matrices: list[FloatArray], z: dict[str, FloatArray], limit: FloatArray
) -> Cell:
    """Percentiles over resampled runs of both sides, at the level of a family of five."""
    samples = 300

    def highest(name: str) -> FloatArray:
        bounds = []
        for at, matrix in enumerate(matrices):
            runs, checked = rng.integers(0, _K, (samples, _K)), rng.integers(0, CHECKED, (samples, CHECKED))
            different = runs[:, :, None] != runs[:, None, :]
            pairs = matrix[runs[:, :, None], runs[:, None, :]] * different[..., None]
            start = pairs.sum(axis=(1, 2)) / different.sum(axis=(1, 2))[:, None]
            end = z[name][:, :, at][runs[:, :, None], checked[:, None, :]].mean(axis=(1, 2))
            bounds.append(np.quantile(from_fisher(end) - from_fisher(start), 1 - ALPHA / METRICS, axis=0))
        return np.stack(bounds)

    found = (highest("goal")[:, 0] < -TOLERANCE).mean()
    called = (highest("tolerance") < -limit).any(axis=1).mean()
    return "bootstrap over runs", case, f"{found:.3f} / – / – / {called:.3f}"


def _oracle(case: str, matrices: list[FloatArray], z: dict[str, FloatArray]) -> Cell:
    """A test of the first metric that knows how changes by the tolerance are distributed, at the level of a family."""
    start = np.array([from_fisher(fisher(reference_outer_rho(matrix))[:, 0].mean()) for matrix in matrices])
    changes = {name: from_fisher(z[name][..., 0].mean(axis=(0, 1))) - start for name in ("tolerance", "goal")}
    found = (changes["goal"] < np.quantile(changes["tolerance"], ALPHA / METRICS)).mean()
    return "*oracle*", case, f"{found:.3f} / – / – / {ALPHA:.3f}"
