"""Totals of two groups of runs: the arithmetic against scipy's tests, one total at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unperturbed.analysis.perturbation.rounds import FEWEST_ROUNDS
from unperturbed.analysis.totals.compare import compare_totals, smallest_visible

ALPHA = 0.05


@pytest.mark.parametrize(("k", "r"), [(10, 3), (5, 5), (2, 4), (8, 1)])
def test_independent_runs_are_compared_as_scipy_compares_them(k: int, r: int) -> None:
    rng = np.random.default_rng([k, r])
    before, after = np.exp(rng.normal(10, 0.05, (k, 4))), np.exp(rng.normal(10.02, 0.08, (r, 4)))
    compared = compare_totals(before, after, alpha=ALPHA)
    for at in range(4):
        one, other = np.log(before[:, at]), np.log(after[:, at])
        found = stats.ttest_ind(other, one)
        assert compared.p[at] == pytest.approx(found.pvalue)
        pooled = found.confidence_interval(1 - 2 * ALPHA)
        ends = [pooled] if r == 1 else [pooled, stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.9)]
        if r > 1:
            assert compared.low[at] == pytest.approx(min(end.low for end in ends))
            assert compared.high[at] == pytest.approx(max(end.high for end in ends))
        assert compared.effect[at] == pytest.approx(other.mean() - one.mean())


def test_runs_of_a_round_are_compared_with_each_other() -> None:
    rng = np.random.default_rng(1)
    of_rounds = rng.normal(10, 0.2, (10, 4))
    before = np.exp(of_rounds + rng.normal(0, 0.03, (10, 4)))
    rounds = np.arange(10)[::2]
    after = np.exp(of_rounds[rounds] + 0.01 + rng.normal(0, 0.03, (5, 4)))
    compared = compare_totals(before, after, rounds, alpha=ALPHA)
    assert compared.designs == 2
    for at in range(4):
        one, other, whole = np.log(before[rounds, at]), np.log(after[:, at]), np.log(before[:, at])
        change = other - one
        shared = (one.var(ddof=1) + other.var(ddof=1)) / 16
        error = np.sqrt(max(change.var(ddof=1), shared) / 5)
        reach = stats.t.ppf(1 - ALPHA / 2, 4) * error
        assert 2 * reach < np.ptp(stats.ttest_ind(other, whole).confidence_interval(1 - ALPHA))
        assert (compared.low[at], compared.high[at]) == pytest.approx((change.mean() - reach, change.mean() + reach))
        assert compared.p[at] == pytest.approx(min(1, 2 * 2 * stats.t.sf(abs(change.mean()) / error, 4)))


def test_few_rounds_and_rounds_that_share_nothing_are_compared_as_independent() -> None:
    rng = np.random.default_rng(2)
    before, after = np.exp(rng.normal(0, 0.1, (20, 200))), np.exp(rng.normal(0, 0.1, (20, 200)))
    few = compare_totals(before[:4], after[:4], np.arange(4), alpha=ALPHA)
    assert FEWEST_ROUNDS == 5
    assert few.designs == 1
    both = compare_totals(before, after, np.arange(20), alpha=ALPHA)
    assert np.mean(both.freedom == 38) > 0.3


def test_a_change_beyond_a_bound_is_tested_at_both_ends() -> None:
    rng = np.random.default_rng(3)
    before, after = np.exp(rng.normal(0, 0.01, (6, 1))), np.exp(rng.normal(0.05, 0.01, (6, 1)))
    compared = compare_totals(before, after, alpha=ALPHA)
    bound = 0.03
    t = [(compared.effect[0] - end) / compared.error[0] for end in (bound, -bound)]
    assert compared.p_beyond(np.array([bound]))[0] == pytest.approx(stats.t.sf(t[0], 10) + stats.t.sf(t[1], 10))


def test_totals_that_do_not_vary_are_known_exactly() -> None:
    before, after = np.array([[100.0, 100.0]] * 5), np.array([[100.0, 101.0]] * 5)
    compared = compare_totals(before, after, alpha=ALPHA)
    assert compared.p.tolist() == [1, 0]
    assert compared.low.tolist() == compared.high.tolist() == pytest.approx([0, np.log(1.01)])
    assert compared.p_beyond(np.log1p(np.array([0.02, 0.005]))).tolist() == [1, 0]


def test_a_round_that_agrees_by_chance_does_not_make_the_rest_certain() -> None:
    rng = np.random.default_rng(4)
    before = np.exp(rng.normal(0, 0.1, (6, 1)))
    compared = compare_totals(before, 1.01 * before, np.arange(6), alpha=ALPHA)
    assert compared.error[0] > 0
    assert compared.low[0] < np.log(1.01) < compared.high[0]


def test_the_smallest_visible_change_is_seen_with_its_power() -> None:
    rng = np.random.default_rng(6)
    error = 0.01 * np.sqrt(2 / 8)
    visible = smallest_visible(error, 14, alpha=ALPHA, family=1)
    before, after = np.exp(rng.normal(0, 0.01, (8, 4000))), np.exp(rng.normal(visible, 0.01, (8, 4000)))
    assert np.mean(compare_totals(before, after, alpha=ALPHA).p <= ALPHA) == pytest.approx(0.8, abs=0.03)
