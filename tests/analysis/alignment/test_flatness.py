"""Transitions and flat stretches."""

import numpy as np
import pytest

from unperturbed.analysis.alignment import flatness
from unperturbed.analysis.alignment.flatness import neighbour_difference
from unperturbed.errors import DataError


def noise(rng, length, correlation=0.0):
    values = rng.standard_normal(length)
    for at in range(1, length):
        values[at] += correlation * values[at - 1]
    return values


@pytest.mark.parametrize("length", [40, 200, 2000])
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_noise_shows_transitions_as_seldom_as_asked(length, correlation):
    rng = np.random.default_rng(1)
    alarms = sum(flatness(noise(rng, length, correlation)).transitions.any() for _ in range(200))
    assert alarms <= 20, "5 % of 200 runs, and twice that for the chance of the draw"


@pytest.mark.parametrize(("height", "length"), [(8.0, 1), (3.0, 16), (2.5, 64)])
def test_a_change_above_the_noise_is_found_where_it_is(height, length):
    rng = np.random.default_rng(2)
    found = elsewhere = 0
    for _ in range(20):
        series = rng.standard_normal(1000)
        series[500 : 500 + length] += height
        flat = flatness(series)
        found += flat.transitions[500 - length : 500 + length].any()
        elsewhere += flat.transitions[:300].any()
    assert found >= 18
    assert elsewhere <= 3


def test_stretches_share_and_length():
    flat = flatness(np.repeat([0.0, 1.0, 0.0], [400, 200, 400]))
    assert flat.stretches.shape == (3, 2)
    borders = flat.stretches[:, 0].tolist() + flat.stretches[:, 1].tolist()
    assert (min(borders), max(borders)) == (0, 1000)
    assert all(stop - start <= size for (start, stop), size in zip(flat.stretches, (400, 200, 400), strict=True))
    assert flat.longest == (flat.stretches[:, 1] - flat.stretches[:, 0]).max()
    assert flat.share == pytest.approx((flat.stretches[:, 1] - flat.stretches[:, 0]).sum() / 1000)


def test_rounding_is_no_transition_and_scale_changes_nothing():
    assert not flatness(np.full(500, 0.1)).transitions.any()
    series = np.random.default_rng(3).standard_normal(300).cumsum()
    for factor in (1e-9, 1e12):
        assert np.array_equal(flatness(series * factor).transitions, flatness(series).transitions)


def test_one_metric_with_a_transition_suffices():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((400, 3))
    rows[200:, 1] += 10
    assert flatness(rows).transitions[199:201].any()
    assert flatness(rows[:, ::2]).longest == 400


def test_the_shortest_series():
    assert flatness([1.0]).stretches.tolist() == [[0, 1]]
    assert flatness([1.0, 5.0]).longest == 2
    with pytest.raises(DataError, match="empty"):
        flatness([])


def test_neighbour_difference_is_the_median_over_intervals_of_the_sum_over_metrics():
    rows = np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 1.0], [5.0, 1.0]])
    assert neighbour_difference(rows) == 3.0
    assert neighbour_difference(rows[:1]) == 0.0
