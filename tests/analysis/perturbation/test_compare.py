import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.perturbation import naive
from unperturbed.analysis.perturbation.compare import compare_runs, smallest_visible
from unperturbed.analysis.perturbation.correlation import fisher, fisher_slope, from_fisher

ALPHA = 0.05


def around(rng, rho, runs, *, spread=0.1, replicates=1):
    """Coefficients of runs, normal on Fisher's scale around ρ, shape (runs, replicates)."""
    return from_fisher(fisher(rho) + spread * rng.standard_normal((runs, replicates)))


@given(
    st.integers(5, 12),
    st.integers(1, 6),
    st.floats(-0.95, 0.95),
    st.sampled_from([0.02, 0.1, 0.4]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_equals_the_textbook(k, r, rho, tolerance, seed):
    rng = np.random.default_rng(seed)
    reference, observed = around(rng, rho, k, replicates=3), around(rng, rho / 2, r, spread=0.3, replicates=3)
    compared = compare_runs(reference, observed, intervals=100, alpha=ALPHA)
    beyond = compared.p_beyond(tolerance)
    for at in range(3):
        found = (compared.effect[at], compared.low[at], compared.high[at], compared.p[at], beyond[at])
        expected = naive.compare(reference[:, at].tolist(), observed[:, at].tolist(), ALPHA, tolerance)
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_without_a_tolerance_any_change_is_beyond_it():
    rng = np.random.default_rng(11)
    compared = compare_runs(
        around(rng, 0.5, 10, replicates=50), around(rng, 0.6, 3, replicates=50), intervals=100, alpha=ALPHA
    )
    assert compared.p_beyond(0.0).tolist() == compared.p.tolist()
    almost = compared.p_beyond(1e-9)
    assert almost == pytest.approx(compared.p, rel=0.2, abs=0.02)  # by the interval of ρ, not by Fisher's scale


@pytest.mark.parametrize("tolerance", [0.05, 0.1, 0.3])
@pytest.mark.parametrize(("k", "r"), [(5, 3), (10, 3), (10, 5), (20, 5)])
@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.thorough
def test_a_change_of_the_tolerance_is_seldom_shown_to_be_beyond_it(k, r, tolerance, direction):
    rng = np.random.default_rng([12, k, r])
    n = 20_000
    reference = around(rng, 0.5, k, replicates=n)
    observed = around(rng, 0.5 + direction * tolerance, r, replicates=n)
    p = compare_runs(reference, observed, intervals=165, alpha=ALPHA).p_beyond(tolerance)
    for level in (0.05, 0.001):
        assert (p <= level).mean() <= 1.3 * level + 3.5 * np.sqrt(level / n)
    within = around(rng, 0.5 + direction * tolerance / 2, r, replicates=n)
    assert (compare_runs(reference, within, intervals=165, alpha=ALPHA).p_beyond(tolerance) <= 0.05).mean() < 0.05
    far = around(rng, 0.5 + direction * (tolerance + 0.19), r, replicates=n)
    assert (compare_runs(reference, far, intervals=165, alpha=ALPHA).p_beyond(tolerance) <= 0.05).mean() > 0.5


def test_one_run_gives_the_prediction_interval():
    # |z − z̄| / (s·√(1 + 1/k)) against t with k − 1 degrees of freedom.
    rng = np.random.default_rng(1)
    reference, observed = around(rng, 0.5, 8), around(rng, 0.5, 1)
    compared = compare_runs(reference, observed, intervals=100, alpha=ALPHA)
    z = fisher(reference)
    assert compared.standard_error[0] == pytest.approx(z.std(ddof=1) * np.sqrt(1 + 1 / 8))
    assert compared.notes == ("one checked run: its spread is assumed to be that of the reference runs",)


@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0, -1.0])
def test_runs_without_any_spread_do_not_make_a_difference_significant_from_nothing(rho):
    reference = np.full((10, 1), rho)
    same = compare_runs(reference, np.full((3, 1), rho), intervals=165, alpha=ALPHA)
    assert same.effect[0] == pytest.approx(0, abs=1e-12)
    assert same.p[0] == pytest.approx(1)
    assert same.low[0] <= 0 <= same.high[0]
    assert "same coefficient" in same.notes[0]
    near = from_fisher(fisher(rho) + (-0.01 if rho == 1 else 0.01))
    close = compare_runs(reference, np.full((3, 1), near), intervals=165, alpha=ALPHA)
    assert close.p[0] > 0.5
    far = compare_runs(reference, np.full((3, 1), -0.6 if rho == 1 else 0.9), intervals=165, alpha=ALPHA)
    assert 0 < far.p[0] < 1e-3


def test_checked_runs_without_spread_are_no_degenerate_case():
    rng = np.random.default_rng(2)
    compared = compare_runs(around(rng, 0.5, 10), np.full((3, 1), 0.5), intervals=165, alpha=ALPHA)
    assert compared.notes == ("",)
    assert compared.p[0] > ALPHA


def test_a_wider_spread_of_the_checked_runs_is_said():
    rng = np.random.default_rng(3)
    compared = compare_runs(
        around(rng, 0.5, 10, spread=0.01), around(rng, 0.5, 5, spread=0.5), intervals=165, alpha=ALPHA
    )
    assert "times as much as the reference runs" in compared.notes[0]


@pytest.mark.parametrize(("k", "r"), [(5, 1), (5, 3), (10, 3), (10, 5), (20, 5)])
def test_false_alarms_of_one_test_are_alpha_when_nothing_changed(k, r):
    rng = np.random.default_rng([4, k, r])
    n = 20_000
    compared = compare_runs(
        around(rng, 0.5, k, replicates=n), around(rng, 0.5, r, replicates=n), intervals=165, alpha=ALPHA
    )
    for level in (0.05, 0.05 / 66):
        assert (compared.p <= level).mean() == pytest.approx(level, abs=3.5 * np.sqrt(level / n))


@pytest.mark.parametrize("spread", [0.05, 0.1, 0.3])
@pytest.mark.parametrize(("k", "r"), [(5, 3), (10, 3), (10, 5), (20, 3)])
@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.thorough
def test_a_change_of_the_tolerance_is_accepted_no_more_often_than_alpha(k, r, spread, direction):
    # Whatever the spread of the checked runs: the reference's is 0.1. The Welch part errs by up to 1 % at these sizes.
    rng = np.random.default_rng([5, k, r])
    n, tolerance = 20_000, 0.3
    reference = around(rng, 0.5, k, replicates=n)
    observed = around(rng, 0.5 + direction * tolerance, r, spread=spread, replicates=n)
    compared = compare_runs(reference, observed, intervals=165, alpha=ALPHA)
    accepted = ((compared.low > -tolerance) & (compared.high < tolerance)).mean()
    assert accepted <= ALPHA + 0.01 + 3.5 * np.sqrt(ALPHA / n)


@pytest.mark.parametrize("rho", [0.9999, 0.999, 0.99])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.thorough
def test_a_fall_by_the_tolerance_from_one_is_seldom_shown_to_be_beyond_it(rho, sign):
    # Near ±1 the runs of the reference hardly vary on Fisher's scale, which is shrunk: without a remedy .25 and .15.
    rng = np.random.default_rng([14, round(1e4 * rho)])
    n, tolerance = 20_000, 0.1
    reference, observed = (
        sign * np.tanh(np.arctanh(mean) + 0.2 * rng.standard_normal((runs, n)))
        for mean, runs in ((rho, 10), (rho - tolerance, 3))
    )
    compared = compare_runs(reference, observed, intervals=165, alpha=ALPHA)
    for level in (0.05, 0.001):
        assert (compared.p_beyond(tolerance) <= level).mean() <= 1.3 * level + 3.5 * np.sqrt(level / n)
    assert ((compared.low > -tolerance) & (compared.high < tolerance)).mean() <= ALPHA + 0.01


@pytest.mark.parametrize(("k", "r"), [(5, 1), (5, 3), (10, 3), (20, 5)])
@pytest.mark.parametrize("family", [1, 10, 66])
def test_the_smallest_visible_change_is_found_with_power_80_percent(k, r, family):
    rng = np.random.default_rng([6, k, r, family])
    n, spread = 20_000, 0.1
    error = spread * np.sqrt(1 / k + 1 / r)
    visible = smallest_visible(float(fisher(0.6)), error, k + r - 2, alpha=ALPHA, family=family)
    # Down is the larger of the two directions for a positive ρ.
    reference, observed = around(rng, 0.6, k, replicates=n), around(rng, 0.6 - visible, r, replicates=n)
    compared = compare_runs(reference, observed, intervals=165, alpha=ALPHA)
    assert (compared.p <= ALPHA / family).mean() == pytest.approx(0.8, abs=0.015)
    up = from_fisher(2 * fisher(0.6) - fisher(0.6 - visible)) - 0.6
    assert up <= visible


def test_an_error_that_is_known_is_the_limit_of_many_degrees_of_freedom():
    known = smallest_visible(0.5, 0.1, np.inf, alpha=ALPHA, family=10)
    assert known == pytest.approx(smallest_visible(0.5, 0.1, 1e6, alpha=ALPHA, family=10), rel=1e-4)


def test_the_slope_of_fishers_scale():
    rho, step = np.array([-0.9, -0.3, 0, 0.5, 0.9, 0.999]), 1e-7
    assert (fisher(rho + step) - fisher(rho - step)) / (2 * step) == pytest.approx(fisher_slope(rho), rel=1e-5)


@pytest.mark.parametrize(("before", "after"), [(0.99, -0.6), (0.2, 0.95), (-0.9, 0.9)])
def test_no_interval_leaves_what_a_correlation_can_be(before, after):
    rng = np.random.default_rng(13)
    reference, observed = (
        around(rng, before, 5, spread=2, replicates=200),
        around(rng, after, 2, spread=2, replicates=200),
    )
    compared = compare_runs(reference, observed, intervals=100, alpha=ALPHA)
    mean = from_fisher(fisher(reference).mean(axis=0))
    assert (mean + compared.low >= -1 - 1e-12).all()
    assert (mean + compared.high <= 1 + 1e-12).all()
