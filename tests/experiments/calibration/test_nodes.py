"""Error rates of verdicts over nodes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from experiments.calibration.nodes import verdicts_in_rounds
from experiments.calibration.rounds import draw_in_rounds
from tests.analysis.nodes.simulate import Case, runs_of, verdicts_of
from unperturbed.analysis.nodes.combine import Combined, combine_nodes

FOUR = ((8, 5),) * 4
UNBALANCED = ((15, 2), (10, 3), (5, 8), (5, 10))


def _combined(case: Case, campaigns: int, seed: int = 1, tolerance: float = 0.1) -> list[Combined]:
    runs = runs_of(case, campaigns, seed)
    return [combine_nodes(one) for one in verdicts_of(runs, alpha=0.05, tolerance=tolerance)]


@pytest.mark.parametrize("shares", [FOUR, UNBALANCED], ids=["balanced", "unbalanced"])
def test_false_alarms_on_these_nodes(shares: tuple[tuple[int, int], ...]) -> None:
    found = _combined(Case("", shares), 250, tolerance=0.0)
    wrong = np.mean([one.these.verdict in ("perturbed", "shifted") for one in found])
    assert 0.01 <= wrong <= 0.08  # 250 campaigns
    p = [one.these.changes[0].p for one in found]
    assert stats.kstest(p, "uniform").pvalue > 0.001
    heterogeneity = [next(iter(one.heterogeneity.values())).p for one in found]
    assert stats.kstest(heterogeneity, "uniform").pvalue > 0.001


def test_false_alarms_on_the_type_of_node_where_changes_vary_between_nodes() -> None:
    found = _combined(Case("", ((8, 5),) * 6, interaction=0.7), 250, tolerance=0.0)
    wrong = np.mean([one.type is not None and one.type.verdict in ("perturbed", "shifted") for one in found])
    assert 0.01 <= wrong <= 0.08
    these = np.mean([one.these.verdict in ("perturbed", "shifted") for one in found])
    assert these > 0.1  # of these nodes it is true: some of them did change
    spread = [next(iter(one.heterogeneity.values())) for one in found]
    assert np.mean([one.p <= 0.05 for one in spread]) > 0.3 and np.mean([one.i2 for one in spread]) > 0.3


def test_a_fall_by_the_tolerance_from_near_one_is_seldom_called_perturbed_on_nodes() -> None:
    # Shrinkage hides the spread of the baselines, so that a pooled spread is too small for the checked runs.
    chance = np.random.default_rng(8)
    campaigns, tolerance = 300, 0.1
    runs = [
        tuple(
            np.arctanh(rho) + 0.2 * chance.standard_normal((count, campaigns))
            for rho, count in ((0.9999, 8), (0.9999 - tolerance, 3))
        )
        for _ in range(3)
    ]
    combined = [combine_nodes(one) for one in verdicts_of(runs, alpha=0.05, tolerance=tolerance)]
    perturbed = np.mean([one.these.verdict == "perturbed" for one in combined])
    assert perturbed <= 0.05 + 2 * np.sqrt(0.05 / campaigns)


@pytest.mark.parametrize("shared", [0.0, 0.99])
def test_within_rounds_a_change_of_the_tolerance_is_seldom_decided(shared: float) -> None:
    rng = np.random.default_rng([6, round(100 * shared)])
    alarms, accepted, perturbed = [], [], []
    for _ in range(40):
        for fall in (0.0, 0.1):
            nodes = [draw_in_rounds(rng, "inner", "normal", shared, (5, 5), fall) for _ in range(4)]
            these, of_type = verdicts_in_rounds(nodes, "inner", fall)
            names = [[change.verdict for change in verdict.changes] for verdict in (these, of_type)]
            if fall:
                accepted.append(np.mean([[name == "unperturbed" for name in scope] for scope in names], axis=1))
                perturbed.append(["perturbed" in scope for scope in names])
            else:
                alarms.append([bool({"perturbed", "shifted"} & {*scope}) for scope in names])
    for outcomes in (alarms, accepted, perturbed):
        assert (np.mean(outcomes, axis=0) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 40)).all()
