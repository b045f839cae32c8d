from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from tests.analysis.structure.classes.naive_labelling import cheapest
from unperturbed.analysis.structure.classes.clustering import Clusters, fit_student_t, student_t_bits
from unperturbed.analysis.structure.classes.metric_classes import label_independently, label_jointly, transition_bits
from unperturbed.analysis.structure.classes.scaling import Scaling

NUMBER = st.floats(-2, 2, allow_nan=False).map(lambda number: round(number, 3))


def bits_in_one_class(values, centre, variances):
    return student_t_bits(np.ascontiguousarray(values), centre[None], variances[None])[:, 0]


@st.composite
def runs(draw):
    classes, metrics, elements = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    axes, _ = np.linalg.qr(rng.normal(size=(metrics, metrics)))
    clusters = Clusters(
        rng.normal(size=(classes, metrics)),
        axes,
        rng.uniform(1e-3, 0.1, (classes, metrics)),
        rng.integers(1, 9, classes),
        rng.uniform(3, 30),
        0.0,
    )
    heavy = rng.random(metrics) < 0.3
    scaling = Scaling(np.where(heavy, 0.1, rng.normal(size=metrics)), rng.uniform(0.5, 2, metrics), heavy)
    start = clusters.centres[rng.integers(classes, size=elements)]
    end = clusters.centres[rng.integers(classes, size=elements)]
    share = rng.choice([0, 0, 0.3, 0.7], size=(elements, 1))
    scaled = np.where(heavy, np.abs(start), start) * (1 - share) + end * share + 0.05 * rng.normal(size=start.shape)
    informative = rng.random(elements) < 0.9
    changes = -np.log2(rng.dirichlet(np.ones(classes), classes) + 1e-9)
    return clusters, scaling, scaled, informative, changes


@settings(max_examples=60, deadline=None)
@given(runs())
def test_labelling_costs_as_few_bits_as_the_best_of_all(run):
    clusters, scaling, scaled, informative, changes = run
    found, _ = label_jointly(clusters, scaling, scaled, informative, changes, mixtures=True)
    assert found.total == pytest.approx(cheapest(clusters, scaling, scaled, informative, changes, bits_in_one_class))
    kept = np.flatnonzero(~found.mixed)
    between = changes[found.labels[kept][:-1], found.labels[kept][1:]].sum()
    assert np.minimum(found.bits, clusters.outlier_bits).sum() + between == pytest.approx(found.total)


@settings(max_examples=30, deadline=None)
@given(runs())
def test_without_mixtures_and_with_free_changes_every_element_is_labelled_by_itself(run):
    clusters, scaling, scaled, informative, changes = run
    informative = np.ones_like(informative)
    found, _ = label_jointly(clusters, scaling, scaled, informative, np.zeros_like(changes), mixtures=False)
    least = np.minimum(clusters.value_bits(scaled).min(axis=1), clusters.outlier_bits)
    assert np.minimum(found.bits, clusters.outlier_bits).tolist() == least.tolist()
    assert not found.mixed.any()


def two_classes(variance=1e-4):
    return Clusters(np.array([[-1.0], [1.0]]), np.eye(1), np.full((2, 1), variance), np.array([5, 5]), 12.0, 0.0)


LINEAR = Scaling(np.zeros(1), np.full(1, 100.0), np.zeros(1, bool))


def test_mixture_belongs_to_the_class_that_it_holds_more_of():
    low, high = np.sinh([-1, 1]) * 100
    for share, label in ((0.2, 0), (0.4, 0), (0.6, 1), (0.8, 1)):
        values = np.array([low, low, (1 - share) * low + share * high, high, high])[:, None]
        found, _ = label_jointly(two_classes(), LINEAR, LINEAR.apply(values), np.ones(5, bool), mixtures=True)
        assert found.labels.tolist() == [0, 0, label, 1, 1]
        assert np.flatnonzero(found.mixed).tolist() == [2]


def test_element_that_tells_nothing_has_its_neighbours_class():
    values = np.array([-1, -1, -1, np.nan, -1, 1, 1, 1])[:, None]
    informative = np.isfinite(values[:, 0])
    for labels in (
        label_independently(two_classes(), values, informative).labels,
        label_jointly(two_classes(), LINEAR, values, informative, mixtures=True)[0].labels,
    ):
        assert labels.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    first = label_independently(two_classes(), values[[3, 5]], informative[[3, 5]])
    assert first.labels.tolist() == [1, 1]


def test_an_odd_element_is_no_phase():
    values = np.array([-1, -1, -1, -1, 8, -1, -1, 1, 1, -7, 1, 1])[:, None]
    found, _ = label_jointly(two_classes(), LINEAR, values, np.ones(12, bool), mixtures=True)
    assert found.labels.tolist() == [0] * 7 + [1] * 5
    assert np.flatnonzero(found.bits > two_classes().outlier_bits).tolist() == [4, 9]


def test_one_element_and_none():
    one, _ = label_jointly(two_classes(), LINEAR, np.array([[0.9]]), np.ones(1, bool), mixtures=True)
    assert one.labels.tolist() == [1]
    none, _ = label_jointly(two_classes(), LINEAR, np.zeros((0, 1)), np.ones(0, bool), mixtures=True)
    assert len(none.labels) == 0


def test_flicker_of_overlapping_classes_is_smoothed():
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 0, 1], 100)
    noisy = two_classes(1.0)
    values = np.where(truth, 1.0, -1.0)[:, None] + rng.normal(size=(400, 1))
    alone = label_independently(noisy, values, np.ones(400, bool)).labels
    smooth, _ = label_jointly(noisy, LINEAR, values, np.ones(400, bool), mixtures=True)
    assert np.mean(alone != truth) > 0.1
    assert np.mean(smooth.labels != truth) < 0.02


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_changes_cost_what_their_frequency_says(labels):
    bits = transition_bits(np.array(labels), 3)
    for a in range(3):
        from_here = [behind for before, behind in pairwise(labels) if before == a]
        for b in range(3):
            assert 2 ** -bits[a, b] == pytest.approx((from_here.count(b) + 0.5) / (len(from_here) + 1.5))


@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=8), st.tuples(NUMBER, NUMBER))
def test_bits_are_those_of_students_distribution(values, centre):
    variances = np.array([0.3, 2.0])
    expected = -multivariate_t(np.array(centre), np.diag(variances), df=4).logpdf(np.array(values)) / np.log(2)
    assert np.allclose(bits_in_one_class(np.array(values), np.array(centre), variances), expected)


def test_fit_finds_centre_and_spread_and_is_not_moved_by_outliers():
    rng = np.random.default_rng(2)
    values = rng.standard_t(4, size=(4000, 2)) * [1.0, 5.0] + [3.0, -7.0]
    centre, variances = fit_student_t(values, *[np.zeros(2)] * 2, 0.0)
    assert centre == pytest.approx([3, -7], abs=0.3)
    assert np.sqrt(variances) == pytest.approx([1, 5], rel=0.06)
    values[:40] = 1e6
    moved, _ = fit_student_t(values, *[np.zeros(2)] * 2, 0.0, rounds=100)
    assert moved == pytest.approx(centre, abs=0.1)
