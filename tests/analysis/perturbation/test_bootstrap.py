"""Errors from within single runs, for want of baseline runs."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from unperturbed.analysis.perturbation.bootstrap import (
    _blocks,
    _drawn,
    block_length,
    bootstrap_error,
    compare_by_bootstrap,
)
from unperturbed.analysis.perturbation.correlation import correlate_ranks, fisher, standard_ranks


def autoregressive(rng, n, phi, columns=1, rho=0.0):
    noise = rng.standard_normal((n, columns))
    if columns == 2:
        noise[:, 1] = rho * noise[:, 0] + np.sqrt(1 - rho**2) * noise[:, 1]
    noise[1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


@pytest.mark.parametrize("phi", [0.5, 0.8])
def test_the_block_length_is_that_of_theory(phi):
    rng = np.random.default_rng([1, round(10 * phi)])
    n = 4000
    theory = (2 * phi / (1 - phi**2)) ** (2 / 3) * n ** (1 / 3)  # G/g(0) of a first-order autoregression
    found = [block_length(autoregressive(rng, n, phi)[:, 0]) for _ in range(40)]
    assert np.median(found) == pytest.approx(theory, rel=0.35)


def test_independent_and_constant_series_need_no_blocks():
    rng = np.random.default_rng(2)
    assert np.median([block_length(rng.standard_normal(1000)) for _ in range(30)]) < 6
    assert block_length(np.full(50, 3.0)) == 1.0
    assert block_length(np.arange(50.0)) <= 50 / 3 + 1


def intervals(starts, lengths, n):
    return np.concatenate([np.arange(start, start + size) for start, size in zip(starts, lengths, strict=True)]) % n


@pytest.mark.parametrize(("n", "mean_length"), [(1, 1.0), (7, 1.0), (40, 13.0), (300, 20.0)])
def test_intervals_are_counted_as_often_as_their_blocks_hold_them(n, mean_length):
    counts = _drawn(n, mean_length, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    for row in counts:
        assert row.tolist() == np.bincount(intervals(*_blocks(n, mean_length, rng), n), minlength=n).tolist()


def test_blocks_are_consecutive_and_as_long_as_asked():
    starts, lengths = _blocks(100_000, 20.0, np.random.default_rng(3))
    drawn = intervals(starts, lengths, 100_000)
    assert len(drawn) == 100_000
    assert drawn.min() >= 0
    assert drawn.max() < 100_000
    goes_on = (np.diff(drawn) % 100_000) == 1
    assert 1 / (1 - goes_on.mean()) == pytest.approx(20, rel=0.05)


@pytest.mark.parametrize("phi", [0.0, 0.7, 0.9])
@pytest.mark.thorough
def test_the_error_is_that_of_repetition(phi):
    rng = np.random.default_rng([4, round(10 * phi)])
    runs = [standard_ranks(autoregressive(rng, 1500, phi, 2, 0.5)) for _ in range(400)]
    true = np.std([fisher(correlate_ranks(one, one)[0, 1]) for one in runs])
    guessed = np.median([bootstrap_error(one, [0], [1], rng)[0] for one in runs[:15]])
    assert guessed == pytest.approx(true, rel=0.25)


def test_runs_are_averaged_and_the_interval_covers():
    reference, observed = np.array([[0.5], [0.54]]), np.array([[0.3], [0.34], [0.32]])
    errors = np.full((2, 1), 0.1), np.full((3, 1), 0.1)
    compared = compare_by_bootstrap(reference, observed, errors, alpha=0.05)
    assert compared.standard_error[0] == pytest.approx(np.hypot(0.1 / np.sqrt(2), 0.1 / np.sqrt(3)))
    assert compared.low[0] < -0.2 < compared.high[0] < 0
    assert compared.p[0] < 0.05
    assert np.isinf(compared.freedom[0])


def test_where_runs_differ_more_than_they_vary_within_the_spread_between_them_counts():
    reference, observed = np.array([[0.5], [0.2]]), np.array([[0.1], [0.45], [0.3]])
    errors = np.full((2, 1), 0.01), np.full((3, 1), 0.01)
    compared = compare_by_bootstrap(reference, observed, errors, alpha=0.05)
    welch_free = stats.ttest_ind(fisher(observed), fisher(reference))
    assert compared.p[0] == pytest.approx(welch_free.pvalue[0])
    assert compared.freedom[0] == 3
    assert compared.low[0] < 0 < compared.high[0]
    single = compare_by_bootstrap(reference[:1], observed[:1], (errors[0][:1], errors[1][:1]), alpha=0.05)
    assert single.p[0] < 1e-6  # two runs alone tell nothing of their spread


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("apart", [0, 1, 9])
def test_resamples_without_spread_are_left_out(n, apart):
    """Each metric differs in one interval, which many resamples lack: their coefficient was 0/0."""
    values = np.zeros((n, 3))
    values[[7, 7 + apart], [0, 1]] = 1
    values[:, 2] = np.random.default_rng(6).standard_normal(n)
    ranks = standard_ranks(values)
    error = bootstrap_error(ranks, [0, 0], [1, 2], np.random.default_rng(7))
    assert np.isfinite(error).all()
    assert 0 < error[1] < 5
    together = bootstrap_error(ranks[:, [1, 1]], [0], [1], np.random.default_rng(7))
    assert together[0] == pytest.approx(0, abs=1e-9)


@pytest.mark.filterwarnings("error")
def test_an_error_without_any_resample_is_unknown():
    ranks = np.zeros((40, 3))
    ranks[:, 1:] = standard_ranks(np.random.default_rng(8).standard_normal((40, 2)))
    found = bootstrap_error(ranks, [0, 1], [1, 2], np.random.default_rng(9))
    assert np.isnan(found[0])
    assert found[1] > 0
