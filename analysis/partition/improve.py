"""Reduction of the number of subsets in a partition: join two subsets, dissolve one, or regroup all metrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.partition.evaluation import CandidateEvaluator
from unperturbed.analysis.partition.plan import Subset
from unperturbed.analysis.perturbation.correlation import FloatArray


def improve(evaluator: CandidateEvaluator, subsets: Sequence[Subset]) -> list[Subset]:
    """Reduce the number of subsets until no further reduction succeeds.

    A union may be unperturbed although smaller unions were not, so unions are tried no matter how the subsets were
    found. Each attempt is a measurement: no subset is removed without evidence.
    """
    evaluator.stage = "improve"
    partition = list(subsets)
    while (
        fewer := join_two(evaluator, partition) or dissolve_one(evaluator, partition) or regroup(evaluator, partition)
    ) is not None:
        partition = fewer
    return partition


def join_two(evaluator: CandidateEvaluator, subsets: Sequence[Subset]) -> list[Subset] | None:
    """Return the partition with two subsets joined, the smallest union tried first; None if no two can be joined."""
    pairs = sorted(combinations(subsets, 2), key=lambda pair: len(pair[0]) + len(pair[1]))
    for at, (subset, other) in enumerate(pairs):
        evaluator.expect((*left, *right) for left, right in pairs[at:])
        if evaluator.accepts((*subset, *other)):
            return [*(each for each in subsets if each not in (subset, other)), evaluator.subset((*subset, *other))]
    return None


def dissolve_one(evaluator: CandidateEvaluator, subsets: Sequence[Subset]) -> list[Subset] | None:
    """Return the partition with one subset's metrics moved to others, the smallest tried first; None if impossible."""
    for leaving in sorted(subsets, key=len):
        others = [each for each in subsets if each is not leaving]
        if all(_placed(evaluator, metric, others) for metric in leaving):
            return others
    return None


def _placed(evaluator: CandidateEvaluator, metric: str, subsets: list[Subset]) -> bool:
    """Add a metric to the first subset that is accepted with it; return whether there is one."""
    evaluator.expect((*subset, metric) for subset in subsets)
    for at, subset in enumerate(subsets):
        if evaluator.accepts((*subset, metric)):
            subsets[at] = evaluator.subset((*subset, metric))
            return True
    return False


PATIENCE = 8
"""Failed proposals after which regrouping stops. Eight more took a tenth more runs, and saved a subset in one of
thirty programs."""

_PRIOR = 0.03
"""Suspicion of a pair of metrics before any measurement."""

_STARTS, _ROUNDS = 4, 12
"""Random groupings that a proposal starts from, and maximum attempts to move each away from known failures."""


def regroup(evaluator: CandidateEvaluator, subsets: Sequence[Subset]) -> list[Subset] | None:
    """Return the metrics in one subset fewer, each accepted by the evaluator; None if no proposal is accepted.

    A proposal's most suspicious subset is measured first, so a bad proposal costs only one measurement.
    """
    groups = len(subsets) - 1
    if groups < 2:
        return None
    metrics = evaluator.subset(metric for subset in subsets for metric in subset)
    rng = np.random.default_rng([evaluator.settings.seed, len(metrics), groups])
    for _ in range(PATIENCE):
        known = [
            ([metric in subset for metric in metrics], accepted)
            for subset, accepted in evaluator.measured()
            if len(subset) > 1 and set(subset) <= set(metrics)
        ]
        rows = np.array([row for row, _ in known], bool).reshape(-1, len(metrics))
        failed = np.array([not accepted for _, accepted in known], bool)
        suspicion = suspicions(rows, failed)
        group = propose(suspicion, groups, rows[failed], rng)
        if group is None:
            continue
        proposed = [np.flatnonzero(group == number) for number in np.unique(group)]
        proposed.sort(key=lambda members: -suspicion[np.ix_(members, members)].sum())
        proposal = [evaluator.subset(metrics[at] for at in members) for members in proposed]
        evaluator.expect(proposal)
        if all(map(evaluator.accepts, proposal)):
            return proposal
    return None


def suspicions(rows: NDArray[np.bool_], failed: NDArray[np.bool_], steps: int = 25) -> FloatArray:
    """Estimate how likely each pair of metrics is to make a subset fail.

    `rows`: array of bool, shape (subsets, metrics). The measured subsets.
    `failed`: array of bool, shape (subsets,). Whether each subset was not accepted.
    Result: array of float64, shape (metrics, metrics). Suspicions u, symmetric, 0 on the diagonal. Model: a subset is
    accepted with probability exp(−Σ u) over its pairs (a noisy OR). Accepted subsets clear their pairs, and the blame
    for a failure goes to the other pairs.
    """
    x = rows.astype(np.float64)
    met = x.T @ x
    blamed = x[failed]
    suspicion = np.full(met.shape, _PRIOR)
    np.fill_diagonal(suspicion, 0)
    for _ in range(steps):
        total = np.maximum(((blamed @ suspicion) * blamed).sum(axis=1) / 2, 1e-9)
        share = blamed.T @ (
            blamed / -np.expm1(-total)[:, None]
        )  # expected failures of a pair, given that its subset failed
        suspicion = (_PRIOR + suspicion * share) / (1 + met)
        np.fill_diagonal(suspicion, 0)
    return suspicion


def propose(
    suspicion: FloatArray, groups: int, failing: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.intp] | None:
    """Find groups with little suspicion inside, none of which is known to fail; return each metric's group, or None.

    `failing`: array of bool, shape (subsets, metrics). Groups to avoid.
    """
    avoided = {row.tobytes() for row in failing}
    weight = suspicion.copy()
    best, least = None, np.inf
    for _ in range(_STARTS):
        group = rng.integers(groups, size=len(suspicion))
        for _ in range(_ROUNDS):
            group = _descend(weight, group, groups)
            hit = [members for number in range(groups) if (members := group == number).tobytes() in avoided]
            if not hit:
                inside = float((suspicion * (group[:, None] == group)).sum())
                if inside < least:
                    best, least = group, inside
                break
            for members in hit:
                weight[np.ix_(members, members)] += 4 / max(int(members.sum()) ** 2, 1)
            np.fill_diagonal(weight, 0)
    return best


def _descend(weight: FloatArray, group: NDArray[np.intp], groups: int) -> NDArray[np.intp]:
    """Move one metric or swap two, whichever removes the most weight from the groups, until no step removes any."""
    group = group.copy()
    metrics = np.arange(len(weight))
    one_hot = np.eye(groups)
    for _ in range(5 * len(weight)):
        pull = weight @ one_hot[group]  # weight between each metric and each group
        own = pull[metrics, group]
        move = own[:, None] - pull
        across = pull[:, group]
        swap = own[:, None] + own - across - across.T + 2 * weight
        swap[group[:, None] == group] = 0
        moving, swapping = int(move.argmax()), int(swap.argmax())
        if max(move.flat[moving], swap.flat[swapping]) <= 1e-9:
            break
        if move.flat[moving] >= swap.flat[swapping]:
            group[moving // groups] = moving % groups
        else:
            metric, other = divmod(swapping, len(weight))
            group[metric], group[other] = group[other], group[metric]
    return group
