"""Simulated campaigns on nodes: many at once, a column a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unperturbed.analysis.perturbation.compare import compare_runs
from unperturbed.analysis.perturbation.compare_outer import compare_outer_runs
from unperturbed.analysis.perturbation.correlation import FloatArray
from unperturbed.analysis.perturbation.decide import decide
from unperturbed.analysis.perturbation.verdict import RunGroup, Verdict, changes_from_comparison

SPREAD = 0.04
"""Standard deviation between runs of a node, on Fisher's scale; effects are given in its multiples."""
LEVEL = 0.5
"""Mean of the baseline on that scale."""


@dataclass(frozen=True)
class Case:
    """A kind of campaign.

    Attributes
    ----------
    name : str
        For tables.
    shares : sequence of tuple of int
        Baseline runs and checked runs of each node.
    effect : float
        Mean change, in standard deviations between runs.
    node : float
        Standard deviation of the nodes' levels.
    interaction : float
        Standard deviation of the change between nodes.
    wider : float
        Ratio of the checked runs' spread to the baseline's.
    """

    name: str
    shares: Sequence[tuple[int, int]]
    effect: float = 0.0
    node: float = 2.0
    interaction: float = 0.0
    wider: float = 1.0


def runs_of(case: Case, campaigns: int, seed: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return the baseline and the checked runs of each node on Fisher's scale, a column a campaign."""
    chance = np.random.default_rng(seed)
    found = []
    for k, r in case.shares:
        level = LEVEL + SPREAD * case.node * chance.normal(size=campaigns)
        change = SPREAD * (case.effect + case.interaction * chance.normal(size=campaigns))
        baseline = level + SPREAD * chance.normal(size=(k, campaigns))
        found.append((baseline, level + change + case.wider * SPREAD * chance.normal(size=(r, campaigns))))
    return found


def verdicts_of(
    runs: Sequence[tuple[FloatArray, FloatArray]], *, alpha: float, tolerance: float
) -> list[dict[str, Verdict]]:
    """Return, for each campaign, the verdict of each node on one change."""
    campaigns = runs[0][0].shape[1]
    found: list[dict[str, Verdict]] = [{} for _ in range(campaigns)]
    for at, (baseline, checked) in enumerate(runs):
        before, after = np.tanh(baseline), np.tanh(checked)
        changes = changes_from_comparison(
            "inner",
            [("a", "b")] * campaigns,
            RunGroup("baseline", tuple(f"b{one}" for one in range(len(before))), before),
            RunGroup("steps", tuple(f"s{one}" for one in range(len(after))), after),
            compare_runs(before, after, intervals=200, alpha=alpha),
            tolerance=tolerance,
            align_on=(),
            note=lambda _: "",
            more_runs_help=True,
        )
        for place, change in enumerate(changes):
            decided = decide([change], alpha=alpha)
            found[place][f"node{at}"] = Verdict(
                "steps", "baseline", decided[0].verdict, decided, alpha=alpha, tolerance=tolerance
            )
    return found


def outer_verdict(reference: FloatArray, observed: FloatArray, of_pairs: FloatArray, intervals: int = 300) -> Verdict:
    """Return a node's verdict on outer values, shape (runs, metrics)."""
    groups = [
        RunGroup(name, tuple(f"{name}-{at}" for at in range(len(rho))), rho)
        for name, rho in (("baseline", reference), ("x", observed))
    ]
    compared = compare_outer_runs(reference, observed, of_pairs, intervals=intervals, alpha=0.05)
    labels = [(f"M{at}", f"M{at}") for at in range(reference.shape[1])]
    changes = decide(changes_from_comparison("outer", labels, *groups, compared, tolerance=0.1), alpha=0.05)
    return Verdict("x", "baseline", changes[0].verdict, changes, alpha=0.05, tolerance=0.1)
