"""Fewer subsets from a partition that was found: whole subsets joined, small ones dissolved into the others, all regrouped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from unperturbed.analysis.partition.bench import Bench
from unperturbed.analysis.partition.outcome import Subset
from unperturbed.analysis.partition.regroup import regrouped

__all__ = ["improve"]


def improve(bench: Bench, subsets: Sequence[Subset]) -> list[Subset]:
    """Save subsets as long as one can be saved.

    A union may be unperturbed though smaller unions were not, so unions are tried however the subsets came about. Each try is a
    measurement: nothing is saved that was not shown.

    Parameters
    ----------
    bench : where unions are measured.
    subsets : disjoint, each accepted by the bench.

    Returns
    -------
    list of Subset
        The same metrics in as many subsets or fewer, each accepted.

    Raises
    ------
    Stop
        A limit is reached.
    """
    bench.stage = "improve"
    found = list(subsets)
    while (fewer := joined(bench, found) or dissolved(bench, found) or regrouped(bench, found)) is not None:
        found = fewer
    return found


def joined(bench: Bench, subsets: Sequence[Subset]) -> list[Subset] | None:
    """Return the partition with two subsets made one, None where no two can be. The smallest unions are tried first."""
    for one, other in sorted(combinations(subsets, 2), key=lambda pair: len(pair[0]) + len(pair[1])):
        if bench.accepts((*one, *other)):
            return [*(each for each in subsets if each not in (one, other)), bench.subset((*one, *other))]
    return None


def dissolved(bench: Bench, subsets: Sequence[Subset]) -> list[Subset] | None:
    """Return the partition with one subset's metrics moved into others, None where no subset can be. The smallest is tried first."""
    for leaving in sorted(subsets, key=len):
        others = [each for each in subsets if each is not leaving]
        if all(_placed(bench, metric, others) for metric in leaving):
            return others
    return None


def _placed(bench: Bench, metric: str, subsets: list[Subset]) -> bool:
    """Put a metric into the first subset that is accepted with it."""
    for at, subset in enumerate(subsets):
        if bench.accepts((*subset, metric)):
            subsets[at] = bench.subset((*subset, metric))
            return True
    return False
