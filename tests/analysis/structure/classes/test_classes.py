from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.classes.planted_phases import centres, phases, same_partition
from unperturbed.analysis.structure.classes.classifiers import (
    BandClasses,
    MostUsed,
    Quantiles,
    Ranges,
    band_names,
    class_letter,
    class_names,
    classes_of_map,
    identity_classes,
    most_used_classes,
    quantile_bands,
    range_bands,
)
from unperturbed.analysis.structure.classes.metric_classes import Rates, metric_classes
from unperturbed.analysis.structure.classes.scaling import Scaling, choose_scaling
from unperturbed.errors import DataError

ACCESSES = st.lists(st.integers(0, 6).map(lambda page: f"page {page}"), max_size=30)
VALUES = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


def found_in(values, *, count=None, metrics=None, seed=0, quantum=0.0):
    rates = rates_of(values, metrics, quantum)
    return metric_classes(rates, count=count, smooth=True, mixtures=True, seed=seed)


def rates_of(values, metrics=None, quantum=0.0):
    names = metrics or [f"m{column}" for column in range(values.shape[1])]
    return Rates(tuple(names), None, values, np.ones(len(values), bool), np.full(len(names), quantum))


def three_phases(seed=0, elements=240, noise=1.0):
    rng = np.random.default_rng(seed)
    truth = phases(rng, elements, 3, 12)
    places = np.array([[1e6, 200.0], [1e6, 9000.0], [3e5, 200.0]])
    return places[truth] * (1 + 0.03 * noise * rng.normal(size=(elements, 2))), truth


# Maps


def test_map_gives_each_element_its_class():
    classes = classes_of_map({"read": "io", "write": "io", "add": "work"}, ())
    assert classes.names == ("io", "work")
    assert classes.assign(["add", "read", "write", "add"]).tolist() == [1, 0, 0, 1]
    assert classes.describe() == ("A  io  (2 different)", "B  work  (1 different)")


def test_classes_that_are_numbers_keep_them():
    classes = classes_of_map({10: 3, 11: np.int64(0)}, ())
    assert classes.assign(np.array([11, 10])).tolist() == [0, 3]
    assert classes.names == ("0", "1", "2", "3")
    assert classes_of_map(lambda page: page // 16, [40, 3]).assign([3, 17, 40]).tolist() == [0, 1, 2]


def test_functions_classes_are_numbered_as_they_appear_and_kept_for_another_run():
    classes = classes_of_map(lambda name: name[0], ["beta", "alpha", "bravo"])
    assert classes.names == ("b", "a")
    assert classes.assign(["alpha", "bravo"]).tolist() == [1, 0]
    with pytest.raises(DataError, match=r"element 1 has the unknown class 'c': use one of b, a"):
        classes.assign(["alpha", "charlie"])


@given(ACCESSES, st.integers(1, 8))
def test_most_used_elements_have_a_class_each(accesses, count):
    counts = Counter(accesses)
    ranked = sorted(counts, key=lambda page: (-counts[page], accesses.index(page)))[: count - 1]
    classes = most_used_classes(accesses, count)
    assert classes.names == (*ranked, "others")
    expected = [ranked.index(page) if page in ranked else len(ranked) for page in accesses]
    assert classes.assign(accesses).tolist() == expected
    assert classes.assign(["never seen"]).tolist() == [len(ranked)]


def test_an_element_that_is_called_others_is_no_class_of_others():
    classes = most_used_classes(["others", "others", "x", "y"], 2)
    assert classes.names == ("others", "all others")
    assert classes.assign(["x", "others"]).tolist() == [1, 0]


def test_own_classes_are_in_order_of_numbers_or_of_appearance():
    assert identity_classes([7, 2, 7]).names == ("2", "7")
    assert identity_classes(["b", "a", 3]).names == ("b", "a", "3")


@pytest.mark.parametrize(
    ("of", "elements", "said"),
    [
        ({"a": 0}, ["a", "b"], r"element 1, 'b', has no class in the given map: add the element to the map"),
        ({"a": 0}, [[]], r"element 0, \[\], is not hashable"),
        ({"a": 0, "b": -1}, [], r"class -1 is not between 0 and 255"),
        ({"a": 256}, [], r"class 256 is not between 0 and 255"),
        ({"a": []}, [], r"element 0 has the class \[\], which is not hashable: give a number, a string or a tuple"),
        (lambda element: [], ["a"], r"element 0 has the class \[\], which is not hashable"),
    ],
)
def test_maps_that_are_wrong(of, elements, said):
    with pytest.raises(DataError, match=said):
        classes_of_map(of, elements).assign(elements)


def test_letters_are_all_different():
    assert "".join(class_letter(number) for number in range(28)) == "ABCDEFGHIJKLMNOPQRSTUVWXYZab"
    assert len({class_letter(number) for number in range(256)}) == 256


# Bands


@given(VALUES, st.integers(1, 5))
def test_quantiles_hold_as_many_elements_as_equal_values_allow(values, count):
    bands = quantile_bands(np.array(values, float), count, "x")
    found = bands.assign(values)
    assert len(bands) <= count
    assert sorted(set(found.tolist())) == list(range(len(bands)))
    for one, other in zip(values, found, strict=True):
        assert all(other <= band for value, band in zip(values, found, strict=True) if value >= one)
    if len(set(values)) == len(values) >= count:
        sizes = np.bincount(found, minlength=count)
        assert sizes.max() - sizes.min() <= 1


@given(VALUES, st.integers(1, 5))
def test_ranges_are_equally_wide(values, count):
    bands = range_bands(np.array(values, float), Ranges(count), "x")
    low, high = min(values), max(values)
    if low == high:
        assert bands.assign(values).tolist() == [0] * len(values)
        return
    expected = [
        min(sum(value >= low + (high - low) * edge / count for edge in range(1, count)), count - 1) for value in values
    ]
    assert bands.assign(values).tolist() == expected


def test_ranges_within_given_bounds_take_all_that_lies_outside():
    bands = range_bands(np.array([5.0]), Ranges(4, 0, 400), "block")
    assert bands.assign([-3, 99, 100, 1e9]).tolist() == [0, 0, 1, 3]
    assert bands.names == ("block < 100", "100 ≤ block < 200", "200 ≤ block < 300", "block ≥ 300")
    with pytest.raises(DataError, match="the range from 4 to 4 is empty: give a `low` below `high`"):
        range_bands(np.array([5.0]), Ranges(2, 4, 4), "block")


@pytest.mark.parametrize("count", [0, -1, 257, 1.5, True])
@pytest.mark.parametrize("make", [lambda n: quantile_bands(np.zeros(3), n, "x"), lambda n: most_used_classes("abc", n)])
def test_numbers_of_classes_that_are_none(make, count):
    with pytest.raises(ValueError, match="use a whole number from 1 to 256"):
        make(count)


def test_bands_of_near_edges_have_different_names():
    assert len(set(band_names(np.array([1.0, 1 + 1e-9, 1 + 2e-9]), "x"))) == 4
    assert band_names(np.zeros(0), "x") == ("all alike",)
    assert band_names(np.array([1.65e-5, 3e9]), "x") == ("x < 1.65e-05", "1.65e-05 ≤ x < 3000000000", "x ≥ 3000000000")
    assert BandClasses(np.array([2.0]), "x").describe() == ("A  x < 2", "B  x ≥ 2")


# Classes of metrics


def test_phases_of_a_run_are_found_named_and_described():
    values, truth = three_phases()
    classes = found_in(values, metrics=["instructions", "misses"])
    assert same_partition(classes.assign(values), truth) == 1.0
    by_truth = dict(zip(truth.tolist(), classes.assign(values).tolist(), strict=True))
    names = [classes.names[by_truth[phase]] for phase in range(3)]
    assert names == ["instructions high, misses low", "misses high", "instructions low"]
    assert classes.centres[by_truth[1]] == pytest.approx([1e6, 9000], rel=0.02)
    assert classes.describe()[0].startswith("A  " + classes.names[0])
    assert f"misses {classes.centres[by_truth[1], 1]:.4g}" in classes.describe()[by_truth[1]]


def test_classes_are_in_the_order_in_which_they_appear():
    values, _ = three_phases(seed=5)
    labels = found_in(values).assign(values).tolist()
    assert list(dict.fromkeys(labels)) == [0, 1, 2]


def test_a_class_of_mixtures_is_not_needed():
    rng = np.random.default_rng(1)
    truth = phases(rng, 600, 3, 4)
    share = rng.random(600)
    places = np.array([[0, 0], [8, 0], [0, 8.0]])
    mixed = np.append(truth[1:] != truth[:-1], False)
    behind = np.append(truth[1:], truth[-1])
    held = np.where(mixed, share, 1.0)[:, None]
    values = places[truth] * held + places[behind] * (1 - held) + 0.05 * rng.normal(size=(600, 2))
    classes = found_in(values)
    assert len(classes) == 3
    labelling = classes.label(rates_of(values), smooth=True, mixtures=True)
    most = np.where(mixed & (share < 0.5), behind, truth)
    assert same_partition(labelling.labels, most) > 0.95
    assert mixed[labelling.mixed].all()
    assert labelling.mixed.sum() > 0.5 * mixed.sum()


def test_counts_of_a_few_events_tell_no_classes_apart():
    rng = np.random.default_rng(2)
    few = rng.poisson(1.5, size=(300, 1)).astype(float)
    assert len(found_in(few, quantum=1.0)) == 1
    many = np.repeat(rng.poisson(np.repeat([[3.0], [80.0]], 150, axis=0)), 1, axis=1).astype(float)
    assert len(found_in(many, quantum=1.0)) == 2


def test_a_few_spikes_are_no_class():
    for seed in range(4):
        values, truth = three_phases(seed=seed)
        rng = np.random.default_rng(seed)
        spikes = rng.choice(len(values), 8, replace=False)
        values[spikes] *= 1 + rng.exponential(20, size=(8, 2))
        classes = found_in(values)
        assert len(classes) == 3
        found = classes.label(rates_of(values), smooth=True, mixtures=True).labels
        assert same_partition(found, truth) > 0.98


@pytest.mark.thorough
def test_number_of_classes_is_found_for_many_sizes_of_programs():
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        classes = 2 + seed
        truth = phases(rng, 400, classes, 8)
        values = centres(rng, classes, 3, 7)[truth] + rng.normal(size=(400, 3))
        found.append(len(found_in(values, seed=seed)) - classes)
    assert found.count(0) >= 5, found


@given(st.lists(st.tuples(st.integers(-900, 900), st.integers(0, 10**6)), min_size=2, max_size=20))
def test_scale_can_be_undone_and_rises_as_it_says(values):
    rows = np.array(values) / 100
    for scaling in (choose_scaling(rows), Scaling(np.array([1.0, 2.0]), np.array([3.0, 0.5]), np.array([False, True]))):
        scaled = scaling.apply(rows)
        assert np.allclose(scaling.revert(scaled), rows, rtol=1e-6, atol=1e-6 * (1 + np.abs(rows).max()))
        step = 1e-6 * (1 + np.abs(rows))
        risen = (scaling.apply(rows + step) - scaled) / step
        assert np.allclose(risen, scaling.slope(rows), rtol=1e-2, atol=1e-9)


def test_heavy_tailed_metrics_are_logarithmic():
    rng = np.random.default_rng(3)
    decades = np.exp(rng.uniform(0, np.log(1e4), size=500))
    plain = rng.normal(100, 5, size=500)
    two_levels = rng.choice([0.0, 1e5], 500)
    assert choose_scaling(np.column_stack([decades, plain, two_levels, -decades])).logarithmic.tolist() == [
        True,
        False,
        False,
        False,
    ]


# Names


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=8))
def test_names_are_all_different(places):
    names = class_names(np.array(places, float), ["a", "b", "c"])
    assert len(set(names)) == len(places)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([[0.0, 0.0]], ["all alike"]),
        ([[0.0, 0.0], [1.0, 0.01]], ["a low", "a high"]),
        ([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]], ["a low", "a medium", "a high"]),
        (
            [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
            ["a low, b low", "a low, b high", "a high, b low", "a high, b high"],
        ),
        ([[0.0, 0.0], [0.0, 0.0]], ["unlike the others (1)", "unlike the others (2)"]),
    ],
)
def test_names_take_as_few_metrics_as_tell_a_class(places, expected):
    assert list(class_names(np.array(places), ["a", "b"])) == expected


def test_what_is_asked_for_can_be_compared_and_shown():
    assert Quantiles(3) == Quantiles(3)
    assert repr(MostUsed(4)) == "MostUsed(count=4)"
