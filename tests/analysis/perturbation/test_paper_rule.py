"""The paper's own rule, offered to reproduce it."""

import numpy as np
import pytest

from tests.analysis import simulate
from unperturbed.analysis.perturbation import Baseline, combine_checks
from unperturbed.analysis.perturbation.decide import compare_as_paper


def test_a_deviation_larger_than_any_among_baselines_is_significant():
    reference = np.array([[0.50], [0.52], [0.48], [0.54]])  # mean .51, farthest .03
    near, far = compare_as_paper(reference, np.array([[0.535]])), compare_as_paper(reference, np.array([[0.45]]))
    assert (near.low[0], near.high[0]) == pytest.approx((0.025 - 0.03, 0.025 + 0.03))
    assert near.p[0] == pytest.approx(3 / 5)  # itself, .48 and .54
    assert far.high[0] < 0
    assert far.p[0] == pytest.approx(1 / 5)


def test_it_has_two_verdicts_and_no_correction():
    rng = np.random.default_rng(2)
    program = simulate.program(rng, correlation=simulate.equicorrelated(4, 0.5), intervals=165)
    baseline = Baseline(simulate.runs(program, rng, 6))
    checked = simulate.runs(program, rng, 3, correlation=simulate.equicorrelated(4, 0.05))
    inner = baseline.inner(checked, method="paper")
    outer = baseline.outer(checked, align_on=("H0",), method="paper")
    assert inner.method == "paper"
    assert inner.verdict == "perturbed"
    for change in inner.changes:
        worst = max(abs(rho - np.mean(change.reference)) for rho in change.reference)
        assert change.verdict == ("perturbed" if abs(change.effect) > worst else "unperturbed")
        assert change.effect == pytest.approx(np.mean(change.observed) - np.mean(change.reference))
        assert change.smallest_visible == pytest.approx(worst)
        assert change.runs_to_decide is None
    joined = combine_checks("c", inner, outer)
    assert joined.changes == (*inner.changes, *outer.changes)
    assert joined.method == "paper"


def test_its_false_alarms_are_as_many_as_the_module_says():
    rng = np.random.default_rng(3)
    reference, observed = rng.normal(0.5, 0.05, (10, 66)), rng.normal(0.5, 0.05, (2000, 1, 66))
    alarms = []
    for one in observed:
        compared = compare_as_paper(rng.permutation(reference + rng.normal(0, 0.05, (10, 66))), one)
        alarms.append(((compared.low > 0) | (compared.high < 0)).any())
    assert np.mean(alarms) > 0.9
