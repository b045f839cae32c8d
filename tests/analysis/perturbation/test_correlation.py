import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.perturbation import naive
from unperturbed.analysis.perturbation.correlation import correlate_ranks, fisher, from_fisher, standard_ranks


@given(st.integers(3, 40), st.integers(2, 5), st.sampled_from([2, 5, 10**6]), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_equals_scipy_with_and_without_ties(intervals, metrics, values, seed):
    table = np.random.default_rng(seed).integers(0, values, (intervals, metrics)).astype(float)
    table[0], table[1] = 0, 1  # no column is constant
    ranks = standard_ranks(table)
    rho = correlate_ranks(ranks, ranks)
    for i in range(metrics):
        for j in range(metrics):
            assert rho[i, j] == pytest.approx(naive.spearman(table[:, i], table[:, j]), abs=1e-12)


def test_a_constant_column_is_undefined_and_spoils_no_other():
    table = np.array([[1.0, 5, 3], [2, 5, 1], [3, 5, 2], [4, 5, 0]])
    ranks = standard_ranks(table)
    assert np.isnan(ranks[:, 1]).all()
    assert correlate_ranks(ranks[:, [0, 2]], ranks[:, [0, 2]])[0, 1] == pytest.approx(-0.8)


@given(st.floats(-1, 1))
def test_fishers_scale_is_finite_and_undone(rho):
    z = fisher(rho)
    assert abs(z) < 3.81
    assert from_fisher(z) == pytest.approx(rho, abs=1e-12)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_fishers_scale_keeps_order_up_to_the_ends(first, second):
    assert (fisher(first) <= fisher(second)) == (first <= second) or abs(first - second) < 1e-12


def test_a_mean_on_fishers_scale_stays_a_coefficient():
    assert from_fisher(100.0) == 1
    assert from_fisher(-100.0) == -1
