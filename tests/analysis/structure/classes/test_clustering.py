"""Planted classes are found, and one class where there are none; docs/evidence/structure.md measures how often."""

import numpy as np
import pytest

from tests.analysis.structure.classes.planted_phases import centres, phases, same_partition
from unperturbed.analysis.structure import structural_sequence
from unperturbed.analysis.structure.classes.clustering import cluster, refit, valley_bits
from unperturbed.analysis.structure.classes.scaling import RESOLUTION, choose_scaling

SEEDS = range(4)
ELEMENTS = 250


def floor(place):
    return np.full(len(place), RESOLUTION**2)


def found_in(values, seed, classes=None):
    scaled = choose_scaling(values).apply(values)
    clusters = cluster(scaled, floor, classes=classes, rng=np.random.default_rng(seed))
    return clusters, clusters.nearest(scaled)


def autoregressive(rng, shape, memory):
    values = rng.normal(size=shape)
    for row in range(1, len(values)):
        values[row] += memory * values[row - 1]
    return values


STRUCTURELESS = {
    "normal": lambda rng: rng.normal(size=(ELEMENTS, 1)),
    "normal, 4 metrics": lambda rng: rng.normal(size=(ELEMENTS, 4)),
    "metrics that say the same": lambda rng: rng.normal(size=(ELEMENTS, 1)) + 0.1 * rng.normal(size=(ELEMENTS, 4)),
    "uniform": lambda rng: rng.random((ELEMENTS, 2)),
    "skewed": lambda rng: rng.exponential(size=(ELEMENTS, 2)),
    "heavy-tailed": lambda rng: np.exp(2 * rng.normal(size=(ELEMENTS, 2))),
    "with outliers": lambda rng: rng.standard_t(2, size=(ELEMENTS, 2)),
    "with memory": lambda rng: autoregressive(rng, (ELEMENTS, 2), 0.8),
    "all but constant": lambda rng: 1e6 + rng.integers(0, 2, size=(ELEMENTS, 1)),
    "constant": lambda rng: np.full((ELEMENTS, 2), 7.0),
    "nothing": lambda rng: np.zeros((ELEMENTS, 1)),
}


@pytest.mark.parametrize("kind", STRUCTURELESS)
@pytest.mark.thorough
def test_values_without_structure_are_one_class(kind):
    counts = [len(found_in(STRUCTURELESS[kind](np.random.default_rng(seed)), seed)[0]) for seed in SEEDS]
    assert counts.count(1) >= len(SEEDS) - 1, counts


@pytest.mark.parametrize(
    ("classes", "metrics", "apart", "dwell"), [(2, 1, 6, 10), (3, 2, 6, 4), (4, 3, 6, 1), (6, 4, 7, 5)], ids=str
)
@pytest.mark.thorough
def test_planted_classes_are_found(classes, metrics, apart, dwell):
    shares = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        truth = phases(rng, ELEMENTS, classes, dwell)
        values = centres(rng, classes, metrics, apart)[truth] + rng.normal(size=(ELEMENTS, metrics))
        shares.append(same_partition(found_in(values * 10.0 ** np.arange(metrics), seed)[1], truth))
    assert sum(share >= 0.97 for share in shares) >= len(SEEDS) - 1, shares


def test_planted_classes_are_found_over_decades():
    places = np.log([[1e2, 1e5], [1e4, 1e5], [1e4, 1e3]])
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        truth = phases(rng, ELEMENTS, 3, 5)
        values = np.exp(places[truth] + 0.3 * rng.normal(size=(ELEMENTS, 2)))
        assert same_partition(found_in(values, seed)[1], truth) >= 0.98


def test_planted_classes_are_found_among_outliers():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        truth = phases(rng, ELEMENTS, 3, 5)
        values = np.array([[0, 0], [10, 0], [0, 10.0]])[truth] + rng.normal(size=(ELEMENTS, 2))
        spikes = rng.choice(ELEMENTS, 12, replace=False)
        values[spikes] += rng.exponential(50, size=(12, 2))
        assert same_partition(found_in(values, seed)[1], truth) >= 0.95


def test_as_many_classes_as_asked_for():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(200, 2))
    assert [len(found_in(values, 0, classes)[0]) for classes in (1, 2, 3, 7, 12)] == [1, 2, 3, 7, 12]
    assert len(found_in(np.repeat(values[:3], 20, axis=0), 0, 5)[0]) == 3


@pytest.mark.parametrize("classes", [4, 20])
@pytest.mark.thorough
def test_a_run_has_as_many_classes_as_asked_for_where_one_would_do(classes):
    values = np.random.default_rng(0).normal(size=800)
    assert len(structural_sequence(values, classes=classes).classes) == classes


def test_same_seed_same_classes():
    rng = np.random.default_rng(4)
    values = np.vstack([rng.normal(size=(3000, 2)), rng.normal(size=(3000, 2)) + 9])
    one, other = (found_in(values, 5)[0] for _ in range(2))
    assert np.array_equal(one.centres, other.centres)


def test_refitting_leaves_out_classes_without_values():
    rng = np.random.default_rng(6)
    values = np.vstack([rng.normal(size=(50, 2)) / 50, rng.normal(size=(50, 2)) / 50 + 1])
    clusters = refit(values, np.repeat([0, 4], 50), floor)
    assert clusters.centres == pytest.approx(np.array([[0, 0], [1, 1]]), abs=0.02)
    assert clusters.counts.tolist() == [50, 50]


def valley(one, other):
    return valley_bits(one, other, np.ones(1), np.median(other, axis=0) - np.median(one, axis=0))


def test_valley_between_two_clouds_and_none_in_one():
    rng = np.random.default_rng(7)
    cloud = np.sort(rng.normal(size=(400, 1)), axis=0)
    assert valley(cloud[:200], cloud[200:]) < 4
    assert valley(cloud, cloud + 5) > 50
    assert valley(cloud, cloud) == -1
    few = np.zeros((6, 1))
    assert valley(few, few + 1) > 4 > valley(few[:5], few + 1)
