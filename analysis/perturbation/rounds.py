"""Comparison of runs within rounds, for runs that are cut at equal work or share a layout of their code.

A campaign makes its runs in rounds (blocks). Each round has its own environment size, the same for all configurations.
Runs of equal work are deterministic: two runs of a configuration differ only by what the round varies, and the runs of
other configurations share this within the round. So differences within a round vary less than the runs do. If all
configurations run one build, a round may have its own layout of the code too, whose effect the differences leave out.

How much less is unknown in advance, and a comparison within r rounds has only r − 1 degrees of freedom. So both designs
are computed, each at half of the level, and each coefficient uses the design with the shorter interval (Bonferroni). As
far as Student's t holds for both designs, no error rate exceeds α, whatever the runs share. If rounds belong to few
classes, Student's t does not quite hold: one coefficient's rounds may miss a class, and then vary less than those of
other coefficients. `LEAST_SPREAD` allows for it (`docs/evidence/calibration.md`, "Runs of equal work, within rounds").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.perturbation.compare import NO_SPREAD, Comparison, MeanErrors, comparison, widest_bounds
from unperturbed.analysis.perturbation.compare_outer import following
from unperturbed.analysis.perturbation.correlation import FloatArray, IntArray, fisher, fisher_slope, from_fisher
from unperturbed.collectors.data import Trace
from unperturbed.collectors.data.trace import WORK_CLOCKS

DESIGNS = 2
"""Number of comparisons that are computed: within rounds, and of all runs."""

MOST_SHARED = 1 / 16
"""Minimum ratio of the variance of a difference within a round to that of independent runs. Even if a few rounds agree
exactly, another round may differ: environment sizes often fall into a few classes."""

LEAST_SPREAD = 1 / 2
"""Minimum ratio of the variance between rounds that a coefficient's level is assumed to have, to the mean variance of
all coefficients. Without it, up to 16 % of families of five that fall by exactly the tolerance were called *perturbed*,
and a third of families of twenty. The whole mean costs power, and half of the median fails if coefficients differ."""

FEWEST_ROUNDS = 5
"""Minimum number of rounds to compare within: with fewer, Student's t at half of the level loses too much power."""


def find_partners(reference: Sequence[Trace], checked: Sequence[Trace]) -> IntArray | None:
    """Return the index of the reference run in each checked run's round; None without enough unique pairs."""
    rounds = {round_of(trace): at for at, trace in enumerate(reference)}
    wanted = [round_of(trace) for trace in checked]
    one_each = len(rounds) == len(reference) and len(set(wanted)) == len(wanted)
    if len(wanted) < FEWEST_ROUNDS or not one_each or not rounds.keys() >= set(wanted):
        return None
    return np.array([rounds[wanted_round] for wanted_round in wanted], np.int64)


def same_rounds(reference: Sequence[Trace], checked: Sequence[Trace]) -> NDArray[np.bool_]:
    """Return whether a checked run's round has exactly one reference run, and which: shape (k, r)."""
    wanted = [round_of(trace) for trace in checked]
    same = np.array([[round_of(trace) == wanted_round for wanted_round in wanted] for trace in reference], bool)
    return np.asarray(same & (same.sum(axis=0) == 1), np.bool_)


def mean_outer_z(each: FloatArray, left_out: NDArray[np.bool_]) -> FloatArray:
    """Return each checked run's mean z with the reference runs except those that are left out, shape (r, m).

    `each`: float64, shape (k, r, m). Fisher's z of each checked run with each reference run.
    `left_out`: bool, shape (k, r). From `same_rounds`: runs of equal work that share a round are almost equal, whatever
    the configuration. No two reference runs share a round, so this ρ has no counterpart in the reference's values.
    """
    kept = ~left_out[:, :, None]
    return np.asarray(np.where(kept, each, 0.0).sum(axis=0) / kept.sum(axis=0), np.float64)


def are_in_rounds(traces: Sequence[Trace]) -> bool:
    """Return whether runs share something within rounds: equal work, or a layout that was drawn."""
    return all(trace.attributes.get("clock") in WORK_CLOCKS or trace.attributes.get("layout") for trace in traces)


def round_of(trace: Trace) -> tuple[object, ...]:
    """Return a run's round, environment size and layout; for a trace of another tool, all are None."""
    return tuple(trace.attributes.get(name) for name in ("block", "environment_pad_bytes", "layout"))


def shared_variance(reference: FloatArray, observed: FloatArray, partners: IntArray) -> float:
    """Return the share of the variance between runs that runs of a round have in common, the median over coefficients.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m), r ≥ 2. Spearman's ρ, one row for each run.
    `partners`: int64, shape (r,). Index of the reference run in each checked run's round.
    """
    before, after = fisher(reference[partners]), fisher(observed)
    independent = before.var(axis=0, ddof=1) + after.var(axis=0, ddof=1)
    varies = independent > NO_SPREAD**2
    if not varies.any():
        return 0.0
    left = (after - before).var(axis=0, ddof=1)[varies] / independent[varies]
    return float(np.clip(1 - np.median(left), 0, 1))


def least_spread(variances: FloatArray) -> float:
    """Return the minimum variance of a coefficient between rounds, from those of all coefficients of a check."""
    return LEAST_SPREAD * float(np.mean(variances)) if variances.size else 0.0


def compare_within_rounds(
    reference: FloatArray,
    observed: FloatArray,
    partners: IntArray,
    *,
    alpha: float,
    least: float | FloatArray | None = None,
) -> Comparison:
    """Compare coefficients of checked runs with those of the reference runs of the same rounds.

    `reference`, `observed`: array of float64, shape (k, m) and (r, m). Spearman's ρ, one row for each run.
    `partners`: int64, shape (r,). Index of the reference run in each checked run's round.
    `least`: Minimum variance between rounds (`least_spread`) if these are not all coefficients of a check.

    Student's t of the differences on Fisher's scale, at the level of all reference runs. An error of that level matters
    because the same difference of z is a different difference of ρ at another level.
    """
    before, after = fisher(reference), fisher(observed)
    level, change = before.mean(axis=0), (after - before[partners]).mean(axis=0)
    moved = 1 - fisher_slope(from_fisher(level + change)) / fisher_slope(from_fisher(level))
    between = before.var(axis=0, ddof=1)
    left_out = moved**2 * np.maximum(between, least_spread(between) if least is None else least) / len(before)
    return _paired(before, after, partners, left_out, alpha)


def compare_outer_within_rounds(
    reference: FloatArray, observed: FloatArray, partners: IntArray, shared: FloatArray, *, alpha: float
) -> Comparison:
    """Compare outer correlations of checked runs with those of the reference runs of the same rounds.

    `reference`, `observed`: float64, shape (k, m) and (r, m). Mean ρ of each run with the reference runs of other
    rounds, from `reference_outer_rho` and `mean_outer_z`: with k − 1 runs each.
    `partners`: int64, shape (r,). Index of the reference run in each checked run's round.
    `shared`: float64, shape (m,). Variance that belongs to pairs of runs, from `pair_variance`.

    Both runs of a round are compared with the other k − 1 reference runs. What the reference runs of two rounds share
    as a pair is part of both differences, so the differences do not vary by it. Nor do the differences show the error
    of the reference's mean if checked runs follow a reference run less than other reference runs do (`compare_outer`,
    "the reference's error").
    """
    k = len(reference)
    before, after = fisher(reference), fisher(observed)
    level = before.mean(axis=0)
    follows = following(level, level + (after - before[partners]).mean(axis=0))
    left_out = shared / (k - 1) ** 2 + (1 - follows) ** 2 * before.var(axis=0, ddof=1) / k
    return _paired(before, after, partners, left_out, alpha)


def _paired(
    reference: FloatArray, after: FloatArray, partners: IntArray, left_out: FloatArray, alpha: float
) -> Comparison:
    """Compare values on Fisher's scale with their partners'; `left_out` is variance that the differences hide."""
    level, before, r = reference.mean(axis=0), reference[partners], len(partners)
    variance = np.maximum((after - before).var(axis=0, ddof=1), _least_within(before, after))
    freedom = np.full_like(variance, r - 1)
    error = np.sqrt(variance / r + left_out)
    errors = MeanErrors(np.zeros_like(error), error, freedom)
    means = level, level + (after - before).mean(axis=0)
    bounds = widest_bounds(*means, [errors], alpha)
    made = comparison(means, error, bounds, [errors], freedom, ("",) * len(variance))
    return replace(made, partners=tuple(partners.tolist()))


def _least_within(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return the minimum of the variance of differences within rounds, from values of both sides in the same rounds."""
    independent = before.var(axis=0, ddof=1) + after.var(axis=0, ddof=1)
    return np.asarray(np.maximum(MOST_SHARED * independent, NO_SPREAD**2), np.float64)


def variance_added(before: FloatArray, after: FloatArray) -> float:
    """Return by how much the minimum raises the variance of differences within rounds of one coefficient."""
    return float(max(0.0, _least_within(before, after) - (after - before).var(ddof=1)))


def shorter(of_all: Comparison, within: Comparison) -> Comparison:
    """Return, for each coefficient, the comparison with the shorter interval; both have level α / `DESIGNS`."""
    taken = within.high - within.low < of_all.high - of_all.low

    def choose(overall: FloatArray, other: FloatArray) -> FloatArray:
        return np.where(taken, other, overall)

    tested = tuple(
        MeanErrors(
            choose(errors.reference, within.tested[0].reference),
            choose(errors.observed, within.tested[0].observed),
            choose(errors.freedom, within.tested[0].freedom),
        )
        for errors in of_all.tested
    )
    return replace(
        of_all,
        reference_mean=choose(of_all.reference_mean, within.reference_mean),
        observed_mean=choose(of_all.observed_mean, within.observed_mean),
        standard_error=choose(of_all.standard_error, within.standard_error),
        effect=choose(of_all.effect, within.effect),
        low=choose(of_all.low, within.low),
        high=choose(of_all.high, within.high),
        p=np.minimum(1, DESIGNS * choose(of_all.p, within.p)),
        freedom=choose(of_all.freedom, within.freedom),
        tested=tested,
        designs=DESIGNS,
        partners=within.partners,
        independent_error=of_all.standard_error,
    )
