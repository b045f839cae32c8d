"""Estimates of counts that share counters: equal to what is known, and to a slow twin that knows the whole model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from unperturbed.collectors.records.estimates import METHODS, Observed, _Walk, cleaned, interpolated, scaled


def observe(counts: NDArray[np.float64], shares: NDArray[np.float64]) -> Observed:
    """Return counts that were seen during a share of intervals of 1,000 ns."""
    enabled = np.full(counts.shape, 1000.0)
    return Observed(counts * shares, enabled, enabled * shares)


def conditioned(
    rates: NDArray[np.float64], noise: NDArray[np.float64], step: NDArray[np.float64], variance: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and covariance of all rates at once, from the joint Gaussian distribution of the whole run."""
    count, size = rates.shape
    order = np.minimum.outer(np.arange(count), np.arange(count))
    joint = np.kron(order, step) + np.kron(np.ones((count, count)), np.diag(variance))
    seen = np.flatnonzero(np.isfinite(rates).ravel())
    middle = np.tile(np.nan_to_num(np.nanmean(rates, axis=0)), count)
    total = joint[np.ix_(seen, seen)] + np.diag(noise.ravel()[seen] + 1e-9)
    gain = np.linalg.solve(total, joint[seen]).T
    mean = middle + gain @ (rates.ravel()[seen] - middle[seen])
    covariance = joint - gain @ joint[seen]
    blocks = covariance.reshape(count, size, count, size).transpose(0, 2, 1, 3)
    return mean.reshape(count, size), blocks


@pytest.mark.parametrize("seed", range(10))
def test_the_walk_is_the_most_probable_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, size = int(random.integers(2, 12)), int(random.integers(1, 4))
    rates = random.normal(size=(count, size))
    rates[1:][random.random((count - 1, size)) < 0.4] = np.nan
    root = random.normal(size=(size, size))
    noise, step, variance = random.random((count, size)), root @ root.T + 0.1 * np.eye(size), random.random(size) + 0.5
    walk = _Walk.given(rates, noise, step, variance)
    mean, blocks = conditioned(rates, noise, step, variance)
    np.testing.assert_allclose(walk.mean, mean, atol=1e-6)
    for at in range(count):
        np.testing.assert_allclose(walk.covariance[at], blocks[at, at], atol=1e-6)
    for at in range(count - 1):
        np.testing.assert_allclose(walk.between[at], blocks[at + 1, at], atol=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_what_is_counted_all_the_time_stays(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 10_000, (30, 3)).astype(np.float64)
    for name, method in METHODS.items():
        made = method(observe(counts, np.ones(counts.shape)))
        if name != "cleaned":  # which takes bursts for outliers
            np.testing.assert_allclose(made, counts, rtol=1e-6, atol=1e-3)


def test_steady_rates_are_found_by_all() -> None:
    counts = np.full((40, 3), 500.0)
    shares = np.where((np.arange(40)[:, None] + np.arange(3)) % 3 == 0, 0.0, 0.5)
    for name, method in METHODS.items():
        made = method(observe(counts, shares))
        there = shares > 0 if name == "scaled" else np.ones(shares.shape, np.bool_)
        np.testing.assert_allclose(made[there], counts[there], rtol=1e-3)
        assert np.isnan(made[~there]).all()


def test_scaled_has_no_value_without_a_counter_and_interpolated_has_the_line() -> None:
    counts = np.arange(10, 20, dtype=np.float64)[:, None]
    shares = np.ones((10, 1))
    shares[3:6] = 0
    observed = observe(counts, shares)
    assert np.isnan(scaled(observed)[3:6]).all()
    np.testing.assert_allclose(interpolated(observed), counts)


def test_cleaned_replaces_outliers_and_takes_the_nearest() -> None:
    counts = np.full((60, 1), 10.0)
    counts[30] = 10_000
    counts[40:] = 20
    shares = np.ones((60, 1))
    shares[50] = 0
    made = cleaned(observe(counts, shares))
    assert made[30, 0] == 10
    assert made[50, 0] == 20


def test_smoothed_follows_a_metric_that_is_always_counted() -> None:
    """Phases last as long as the other metric has no counter: no interpolation sees them, the relation does."""
    random = np.random.default_rng(1)
    busy = np.repeat(random.integers(1, 10, 60), 4)[:, None] * 100.0
    counts = np.hstack([busy, 3 * busy])
    shares = np.ones(counts.shape)
    shares[:, 1] = np.arange(len(counts)) % 4 == 0
    shares[20:60, 1] = 0
    observed = observe(counts, shares)
    errors = {name: np.abs(METHODS[name](observed)[:, 1] - counts[:, 1]).mean() for name in METHODS}
    assert errors["smoothed"] < 0.1 * errors["interpolated"]


def test_a_metric_that_never_had_a_counter_has_no_value() -> None:
    counts = np.hstack([np.full((30, 1), 100.0), np.zeros((30, 1))])
    shares = np.ones(counts.shape)
    shares[:, 1] = 0
    for method in METHODS.values():
        made = method(observe(counts, shares))
        np.testing.assert_allclose(made[:, 0], 100)
        assert np.isnan(made[:, 1]).all()
