"""Outer correlations of checked runs against those of reference runs: the twin, the model, error rates, power."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.perturbation import naive
from unperturbed.analysis.perturbation.compare_outer import (
    compare_outer_runs,
    relative_spread,
)
from unperturbed.analysis.perturbation.correlation import fisher, from_fisher

ALPHA, TOLERANCE = 0.05, 0.1


def around(rng, rho, runs, spread):
    """Coefficients of runs, normal on Fisher's scale around ρ, of three metrics, shape (runs, 3)."""
    return from_fisher(fisher(rho) + spread * rng.standard_normal((runs, 3)))


@given(
    st.integers(5, 12),
    st.integers(1, 6),
    st.sampled_from([-0.4, 0.1, 0.5, 0.9, 0.99, 0.9995]),
    st.floats(-0.5, 1),
    st.sampled_from([0.02, 0.1, 0.4]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_equals_the_textbook(k, r, rho, kept, tolerance, seed):
    rng = np.random.default_rng(seed)
    reference, observed = around(rng, rho, k, 0.1), around(rng, kept * rho, r, 0.3)
    of_pairs = np.array([0.0, 0.01, 0.3])
    compared = compare_outer_runs(reference, observed, of_pairs, intervals=100, alpha=ALPHA)
    beyond = compared.p_beyond(tolerance)
    mean = from_fisher(fisher(reference).mean(axis=0))
    raised = naive.wider_together([(reference[:, at].tolist(), observed[:, at].tolist()) for at in range(3)])
    for at in range(3):
        found = (compared.effect[at], compared.low[at], compared.high[at], compared.p[at], beyond[at])
        runs = reference[:, at].tolist(), observed[:, at].tolist()
        expected = naive.compare_outer(*runs, of_pairs[at], ALPHA, tolerance, raised[at])
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)
        assert -1 - 1e-9 <= mean[at] + compared.low[at] <= mean[at] + compared.high[at] <= 1 + 1e-9


@given(st.floats(-0.5, 1), st.floats(-1, 1))
def test_the_relative_spread_is_that_of_runs_whose_noise_varies_in_relation(within, across):
    found = relative_spread(np.array([within]), np.array([across]))[0]
    assert 1 <= found < 200
    if within <= 0 or within >= 1e-2:
        assert found == pytest.approx(naive.relative_spread(within, across), rel=1e-3, abs=1e-3)


def test_without_a_change_the_spread_is_the_references():
    rho = np.array([0.1, 0.5, 0.9, 0.99, 0.998])
    assert relative_spread(rho, rho) == pytest.approx(np.ones(5))


def test_runs_that_are_as_good_as_equal_are_shown_unperturbed():
    # Outer correlations of a program that is nearly the same in every run: .999 and 1 are no different in kind.
    reference = np.array([[1.0], [0.9995], [0.999], [1.0], [0.998]])
    compared = compare_outer_runs(reference, reference[1:4], np.array([1.0]), intervals=100, alpha=ALPHA)
    assert -0.02 < compared.low[0] < compared.high[0] < 0.02


@pytest.mark.parametrize("spread", [0.0, 0.003])
def test_a_fall_from_runs_that_agree_is_no_fall_to_anywhere(spread):
    # From .997 to .53: on the scale of signal to noise the interval was [−2.00, −0.14].
    rng = np.random.default_rng(3)
    reference = np.minimum(0.9995, 0.997 + spread * rng.standard_normal((10, 1)))
    observed = np.array([[0.49], [0.54], [0.57]])
    compared = compare_outer_runs(reference, observed, np.zeros(1), intervals=300, alpha=ALPHA)
    assert -1 < compared.low[0] < -0.46 < compared.high[0] < -TOLERANCE
    assert compared.p_beyond(TOLERANCE)[0] < ALPHA / 3
