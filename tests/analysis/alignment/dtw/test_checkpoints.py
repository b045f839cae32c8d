"""The compiled search for a path against the naive table: every way to cut the matrix, in both types of cells."""

import math

import numpy as np
import pytest

from tests.analysis.alignment import naive
from unperturbed.analysis.alignment.dtw import checkpoints, kernels

EVERYTHING = 1 << 24
NOTHING = 0
"""Cells that are recorded at once: all, or none, so that strips and tiles are computed again."""


def ordered_pair(rng, longest, metrics, values):
    """Two series in the order in which the naive twin takes them."""
    shapes = [(int(rng.integers(1, longest)), metrics) for _ in "xy"]
    pair = [rng.integers(0, values, shape) if values else rng.normal(size=shape) for shape in shapes]
    return sorted((rows.astype(float) for rows in pair), key=lambda rows: (len(rows), rows.tolist()))


def found(x, y, penalty, band, most_recorded):
    corners = np.array([[0, 0], [len(x) - 1, len(y) - 1]])
    width = len(x) + len(y) if band is None else band
    path, cost, wrong = kernels.path_through(x, y, corners, penalty, width, most_recorded)
    assert wrong == -1
    return [tuple(cell) for cell in path.T.tolist()], cost


def cost_alone(x, y, penalty, band):
    width = len(x) + len(y) if band is None else band
    starts = np.array([0, len(x), len(x) + len(y)])
    return kernels.pair_costs(np.concatenate((x, y)), starts, np.array([[0, 1]]), penalty, width)[0]


@pytest.mark.parametrize("band", [None, 0, 3, 40])
@pytest.mark.parametrize("values", [0, 2, 5])  # real numbers; whole ones with many ties
@pytest.mark.parametrize("seed", range(4))
def test_strips_and_tiles_give_the_naive_path_and_cost(seed, values, band):
    rng = np.random.default_rng([seed, values, band or 1000])
    x, y = ordered_pair(rng, 160, int(rng.integers(1, 4)), values)
    penalty = float(rng.choice([0, 0.5, 1]))
    expected = naive.dtw(x, y, penalty, band)
    for most_recorded in (EVERYTHING, NOTHING):
        assert found(x, y, penalty, band, most_recorded) == expected
    assert cost_alone(x, y, penalty, band) == expected[1]


@pytest.mark.parametrize("band", [None, 0, 3, 40])
@pytest.mark.parametrize("seed", range(4))
def test_integers_give_the_same_as_real_numbers(seed, band):
    rng = np.random.default_rng([seed, band or 1000])
    x, y = ordered_pair(rng, 300, int(rng.integers(1, 3)), 6)
    whole_x, whole_y = x.astype(np.int32), y.astype(np.int32)
    penalty = int(rng.integers(0, 2))
    expected = found(x, y, penalty, band, EVERYTHING)
    for most_recorded in (EVERYTHING, NOTHING):
        assert found(x, y, penalty, band, most_recorded) == expected
        assert found(whole_x, whole_y, penalty, band, most_recorded) == expected
    assert cost_alone(whole_x, whole_y, penalty, band) == expected[1]


@pytest.mark.parametrize(("n", "m"), [(1, 500), (500, 1), (2, 400), (40, 3000), (3000, 40), (1025, 33), (64, 65)])
def test_long_and_short_series(n, m):
    rng = np.random.default_rng([n, m])
    x, y = rng.integers(0, 9, (n, 1)).astype(float), rng.integers(0, 9, (m, 1)).astype(float)
    cells, cost = found(x, y, 0.25, None, NOTHING)
    assert (cells, cost) == found(x, y, 0.25, None, EVERYTHING)
    assert cost == cost_alone(x, y, 0.25, None) == cost_alone(y, x, 0.25, None) == naive.path_cost(x, y, cells, 0.25)
    # Exact in these numbers, so the swapped problem, whose ties fall otherwise, costs the same.
    assert found(y, x, 0.25, None, NOTHING)[1] == cost


def test_a_matrix_that_is_cut_without_being_asked():
    rng = np.random.default_rng(11)
    x, y = (np.cumsum(rng.integers(-3, 4, (length, 1)), axis=0).astype(float) for length in (4200, 4400))
    for band in (None, 1500):
        cells, cost = found(x, y, 0.0, band, kernels._RECORDED_CELLS)
        assert (cells, cost) == found(x, y, 0.0, band, 1 << 30)
        assert (cells, cost) == found(x.astype(np.int32), y.astype(np.int32), 0, band, NOTHING)


def test_differences_that_overflow_are_told_by_the_cost():
    x, y = np.full((2, 1), 1e308), np.full((3, 1), -1e308)
    assert kernels.path_through(x, y, np.array([[0, 0], [1, 2]]), 0.0, 5)[1] == math.inf
    assert cost_alone(x, y, 0.0, None) == math.inf


def test_the_self_check_adds_up_as_the_naive_twin_does():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(40, 2))
    cells, cost = naive.dtw(x, y, 0.3)
    assert checkpoints._sum(x, y, 0.3, np.array(cells).T) == cost
    assert checkpoints._sum(x, y, 0.3, np.array(cells[:-2] + cells[-1:]).T) != cost
